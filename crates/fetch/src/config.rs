//! What an operator may set, with its default and the reason for it.

use crate::Override;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::time::Duration;

/// How pages are fetched. [`FetchConfig::default`] is fit for the public Web.
#[derive(Clone, Debug)]
pub struct FetchConfig {
    /// Who asks, with a page that says more: `farol/0.1 (+https://example.org/crawler)`.
    pub user_agent: String,
    /// E-mail address of the person in charge, sent as `From`. Default: not sent.
    pub from: Option<String>,
    /// Languages preferred where a site has several, sent as `Accept-Language`. Default: not sent, so that a
    /// site answers in its own language.
    pub accept_language: Option<String>,
    /// Longest wait for a connection, and again for TLS. Default: `10s`.
    pub connect_timeout: Duration,
    /// Longest wait for the whole head of an answer. Default: `20s`.
    pub first_byte_timeout: Duration,
    /// Longest time for a fetch in all; a body that is not complete by then is cut. Default: `60s`.
    pub total_timeout: Duration,
    /// Least bytes per second of a body, averaged over [`FetchConfig::speed_window`]; a slower one is cut.
    /// Default: `256`.
    pub speed_min: u64,
    /// Time over which the speed is averaged. Default: `10s`.
    pub speed_window: Duration,
    /// Most bytes of a body, both as received and after decompression; the rest is cut. A fetch holds at most
    /// twice this (a growing buffer) and 16 MiB of a decompressor's window. Default: `10 MiB`.
    pub body_bytes_max: u64,
    /// Memory for bodies beyond 256 KiB, over all fetches, each counted with its limit: 25 of the largest at a time by
    /// default, so that they take 25 × 36 MiB = 900 MiB if every server does its worst. Others wait, and their
    /// servers with them. Default: `256 MiB`.
    pub large_bodies_bytes_max: u64,
    /// Most bytes of the head of an answer; at most 100 lines. Default: `64 KiB`.
    pub head_bytes_max: usize,
    /// Whether addresses of private networks may be asked. Default: `false`.
    pub allow_private: bool,
    /// Hosts whose address the operator sets by hand; the first that matches wins. Default: none.
    pub overrides: Vec<Override>,
    /// Name servers to ask. Default: empty, which means the system's.
    pub nameservers: Vec<SocketAddr>,
    /// Longest wait for an address. Default: `10s`.
    pub dns_timeout: Duration,
    /// Most names whose address is remembered: 65,536 × about 200 bytes = 13 MiB. Default: `65536`.
    pub dns_cache_entries_max: usize,
    /// Addresses are remembered at least this long, whatever their time-to-live. Default: `30s`.
    pub dns_ttl_min: Duration,
    /// Addresses are remembered at most this long. Default: `24h`.
    pub dns_ttl_max: Duration,
    /// That a name does not exist is remembered at most this long. Default: `1h`.
    pub dns_negative_ttl_max: Duration,
    /// Most name lookups under way at a time. Default: `256`.
    pub dns_lookups_max: usize,
    /// Most connections kept open between requests: 1,024 × at most 64 KiB of buffers = 64 MiB. Each one is an
    /// open file of the process. Default: `1024`.
    pub idle_connections_max: usize,
    /// A connection without a request is kept this long. Default: `15s`.
    pub idle_timeout: Duration,
    /// Whether HTTP/2 is offered on secure connections. Default: `true`.
    pub http2: bool,
    /// Root certificates trusted beside Mozilla's, for private authorities. Default: none.
    pub extra_roots: Vec<CertificateDer<'static>>,
}

impl Default for FetchConfig {
    fn default() -> FetchConfig {
        FetchConfig {
            user_agent: concat!("farol/", env!("CARGO_PKG_VERSION")).to_string(),
            from: None,
            accept_language: None,
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: Duration::from_secs(20),
            total_timeout: Duration::from_secs(60),
            speed_min: 256,
            speed_window: Duration::from_secs(10),
            body_bytes_max: 10 << 20,
            large_bodies_bytes_max: 256 << 20,
            head_bytes_max: 64 << 10,
            allow_private: false,
            overrides: Vec::new(),
            nameservers: Vec::new(),
            dns_timeout: Duration::from_secs(10),
            dns_cache_entries_max: 65_536,
            dns_ttl_min: Duration::from_secs(30),
            dns_ttl_max: Duration::from_secs(24 * 3600),
            dns_negative_ttl_max: Duration::from_secs(3600),
            dns_lookups_max: 256,
            idle_connections_max: 1024,
            idle_timeout: Duration::from_secs(15),
            http2: true,
            extra_roots: Vec::new(),
        }
    }
}
