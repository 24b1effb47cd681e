//! The only door to the Web: HTTP, DNS, TLS, address guard.
//!
//! # The life of a fetch
//!
//! A [`Request`] names one page. It first waits for its host's single **permit**: a host is asked one thing
//! at a time (`pool`). If the host's last connection was kept and still lives, the request goes out on it. Otherwise the
//! host's name becomes addresses, from the operator's own [`Override`]s or from DNS with a cache that honours
//! time-to-live (`names`), every address passes the [`guard`], and the very address that passed is connected to
//! (`connection`), with TLS for `https` (`tls`). What the server answers is read with a limit on everything: the
//! head's bytes, the body's bytes before and after decompression (`decode`), the time to the first byte, the
//! time in all, and a least speed. The [`Response`] holds the decoded body, the heads as an archive wants them,
//! and how long each stage took. A connection in good order goes back to the pool; any other is dropped.
//!
//! A page that answers 404, redirects, or stops half-way is a [`Response`] like any other: expected trouble is
//! data. A [`FetchError`] means that there is nothing to read.
//!
//! INVARIANT: no socket is opened to an address that the guard has not passed in the same call, so a name that
//! changes its address between check and use gains nothing. INVARIANT: [`Fetcher::get`] makes exactly one hop.
//!
//! Does not decide what is fetched nor when, does not read robots.txt, does not retry beyond replacing a kept
//! connection that turned out dead; see `farol_frontier` and `farol_parse`.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use farol_base::CanonicalUrl;
//! use farol_fetch::{FetchConfig, Fetcher, Request};
//!
//! let fetcher = Fetcher::new(FetchConfig::default())?;
//! let page = fetcher.get(Request::new(CanonicalUrl::parse("https://example.org/")?)).await?;
//! println!("{} {} bytes", page.status, page.body.len());
//! # Ok(())
//! # }
//! ```

#![warn(missing_docs)]

mod config;
mod connection;
mod decode;
mod error;
mod fetcher;
pub mod guard;
mod names;
mod overrides;
mod pool;
mod request;
mod response;
mod tls;
mod usage;

pub use config::FetchConfig;
pub use error::{Error, FetchError, Stage};
pub use fetcher::Fetcher;
pub use overrides::Override;
pub use request::Request;
pub use response::Response;
pub use rustls::pki_types::CertificateDer;
pub use usage::Usage;
