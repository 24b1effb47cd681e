//! What can go wrong, with the host or page it happened to.

use crate::guard::Reason;
use farol_base::{CanonicalUrl, Host};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Why a [`crate::Fetcher`] could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An override is not of the form `HOST=ADDR[:PORT]`.
    #[error("`{text}` is no override of the form HOST=ADDR[:PORT]: {reason}")]
    Override {
        /// The text as configured.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A configured text cannot be sent as a header.
    #[error("`{value}` cannot be sent as {header}: only printable ASCII characters are allowed")]
    Header {
        /// The header.
        header: &'static str,
        /// The text as configured.
        value: String,
    },
    /// A limit of the configuration makes every fetch impossible.
    #[error("{key} must be at least {min}")]
    Limit {
        /// The key of the configuration.
        key: &'static str,
        /// Its least value.
        min: u64,
    },
    /// A root certificate is damaged, or TLS could not be set up.
    #[error("TLS could not be set up")]
    Tls(#[source] rustls::Error),
}

/// Why there is no answer to a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The host's name has no address, or nobody could say.
    #[error("no address found for {host}: {reason}")]
    Dns {
        /// The host.
        host: Host,
        /// Whether asking again may succeed.
        transient: bool,
        /// Why there is none.
        reason: String,
    },
    /// The host's address is not one of the public Internet.
    #[error("{host} has address {address}, which is {reason}, not on the public Web")]
    Guard {
        /// The host.
        host: Host,
        /// The address.
        address: IpAddr,
        /// Why it is refused.
        reason: Reason,
    },
    /// The port is kept for another protocol.
    #[error(
        "{host} names port {port}, which is kept for another protocol; like browsers, the crawler does not ask there"
    )]
    Port {
        /// The host.
        host: Host,
        /// Its port.
        port: u16,
    },
    /// So many large bodies are being read that there is no room for another.
    #[error("too many large pages are being read to take in {url}; it is tried again later")]
    NoRoom {
        /// The page.
        url: CanonicalUrl,
    },
    /// Nobody accepted the connection.
    #[error("cannot connect to {host} at {address}")]
    Connect {
        /// The host.
        host: Host,
        /// The address.
        address: SocketAddr,
        /// What was wrong.
        source: std::io::Error,
    },
    /// No secure connection could be agreed on.
    #[error("no secure connection to {host}")]
    Tls {
        /// The host.
        host: Host,
        /// What was wrong.
        source: std::io::Error,
    },
    /// A stage took longer than its limit.
    #[error("{url} timed out while {stage}")]
    Timeout {
        /// The page.
        url: CanonicalUrl,
        /// The stage.
        stage: Stage,
    },
    /// The head of the answer is longer than its limit.
    #[error("the head of {url} is longer than {bytes_max} bytes or has too many lines")]
    TooLarge {
        /// The page.
        url: CanonicalUrl,
        /// The limit.
        bytes_max: usize,
    },
    /// What came is not HTTP.
    #[error("{url} does not speak HTTP as agreed")]
    Protocol {
        /// The page.
        url: CanonicalUrl,
        /// What was wrong.
        source: hyper::Error,
    },
    /// The connection ended before the head of an answer.
    #[error("{url} closed the connection without an answer")]
    Closed {
        /// The page.
        url: CanonicalUrl,
        /// What was wrong.
        source: hyper::Error,
    },
    /// The page's address cannot be written into a request.
    #[error("{url} cannot be asked for over HTTP")]
    Unsendable {
        /// The page.
        url: CanonicalUrl,
    },
}

impl FetchError {
    /// Whether the same request may well succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            FetchError::Dns { transient, .. } => *transient,
            FetchError::Connect { .. }
            | FetchError::Timeout { .. }
            | FetchError::Closed { .. }
            | FetchError::NoRoom { .. } => true,
            // rustls hands its own verdicts (a bad certificate) over as `InvalidData`; the rest is the network.
            FetchError::Tls { source, .. } => source.kind() != std::io::ErrorKind::InvalidData,
            FetchError::Guard { .. }
            | FetchError::Port { .. }
            | FetchError::TooLarge { .. }
            | FetchError::Protocol { .. }
            | FetchError::Unsendable { .. } => false,
        }
    }

    /// A short label for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            FetchError::Dns { transient: true, .. } => "dns_temporary",
            FetchError::Dns { .. } => "dns",
            FetchError::Guard { .. } => "guard",
            FetchError::Port { .. } => "port",
            FetchError::NoRoom { .. } => "no_room",
            FetchError::Connect { .. } => "connect",
            FetchError::Tls { .. } => "tls",
            FetchError::Timeout { .. } => "timeout",
            FetchError::TooLarge { .. } => "head_too_large",
            FetchError::Protocol { .. } => "protocol",
            FetchError::Closed { .. } => "closed",
            FetchError::Unsendable { .. } => "unsendable",
        }
    }

    /// Tells the HTTP library's errors apart: too large, not HTTP, or simply gone.
    pub(crate) fn from_http(url: &CanonicalUrl, bytes_max: usize, source: hyper::Error) -> FetchError {
        let url = url.clone();
        if source.is_parse_too_large() {
            FetchError::TooLarge { url, bytes_max }
        } else if source.is_parse() {
            FetchError::Protocol { url, source }
        } else {
            FetchError::Closed { url, source }
        }
    }
}

/// A stage of a fetch that has a time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waiting for an earlier request to the same host.
    Permit,
    /// Asking for the host's address.
    Dns,
    /// Opening the connection.
    Connect,
    /// Agreeing on keys.
    Tls,
    /// Waiting for the head of the answer.
    Head,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Permit => "waiting for an earlier request to its host",
            Stage::Dns => "looking up its host's address",
            Stage::Connect => "connecting",
            Stage::Tls => "setting up TLS",
            Stage::Head => "waiting for the head of the answer",
        })
    }
}
