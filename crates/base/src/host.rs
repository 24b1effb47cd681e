//! The servers that pages live on.

use crate::url::{URL_BYTES_MAX, UrlError, is_plain};
use crate::{CanonicalUrl, HostHash};
use std::fmt;

/// The server of a page: scheme, host name and port (`http://example.org`, `https://example.org:8443`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host(Box<str>);

impl Host {
    /// Takes the part of a canonical URL that names its host.
    pub(crate) fn of(text: &str) -> Host {
        Host(text.into())
    }

    /// Reads a host from any of its URLs.
    pub fn parse(text: &str) -> Result<Host, UrlError> {
        CanonicalUrl::parse(text).map(|url| url.host())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its fingerprint.
    #[inline]
    pub fn hash(&self) -> HostHash {
        HostHash::of(&self.0)
    }

    /// Takes the path and query of a page of this host that were canonical when they were written to disk.
    ///
    /// They are checked again, as [`CanonicalUrl::from_stored`] does.
    pub fn stored_page(&self, path_and_query: &str) -> Result<CanonicalUrl, UrlError> {
        let len = self.0.len() + path_and_query.len();
        let mut text = String::with_capacity(len);
        text.push_str(&self.0);
        text.push_str(path_and_query);
        if path_and_query.starts_with('/') && is_plain(path_and_query) && len < URL_BYTES_MAX {
            return Ok(CanonicalUrl::of(text, self.0.len()));
        }
        CanonicalUrl::from_stored(&text)
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    pub fn is_tls(&self) -> bool {
        self.scheme() == "https"
    }

    /// Host name (or address, IPv6 in brackets) without port.
    pub fn name(&self) -> &str {
        let authority = self.authority();
        match authority.rfind(':') {
            Some(at) if !authority[at..].contains(']') => &authority[..at],
            _ => authority,
        }
    }

    /// Port, the scheme's default where none is written.
    pub fn port(&self) -> u16 {
        let authority = self.authority();
        let written = authority.rfind(':').and_then(|at| authority[at + 1..].parse().ok());
        written.unwrap_or(if self.is_tls() { 443 } else { 80 })
    }

    /// Host name with its port where that is not the default, as it stands in a `Host:` header.
    pub fn authority(&self) -> &str {
        self.0.get(after_scheme(&self.0)..).unwrap_or_default()
    }

    /// The part of the name that somebody registered, by the public suffix list: `b.co.uk` of `a.b.co.uk`.
    ///
    /// Addresses and names without a public suffix stand for themselves.
    pub fn registrable_domain(&self) -> &str {
        let name = self.name();
        if name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok() {
            return name;
        }
        psl::domain_str(name).unwrap_or(name)
    }

    /// The URL of a path on this host.
    pub fn url(&self, path_and_query: &str) -> Result<CanonicalUrl, UrlError> {
        CanonicalUrl::parse(&format!("{}{path_and_query}", self.0))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where the host name starts: there are only `http://` and `https://`.
fn after_scheme(canonical: &str) -> usize {
    if canonical.as_bytes().get(4) == Some(&b':') { 7 } else { 8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_page_is_read_as_its_whole_text_would_be() {
        let host = Host::parse("http://h.example:81").unwrap();
        let too_long = format!("/{}", "x".repeat(URL_BYTES_MAX));
        for path in [
            "/",
            "/a/b.html?c=d",
            "/caf%C3%A9",
            "/a/../b",
            "/a//b",
            "",
            "x",
            ".org/",
            "/a?utm_source=x",
            &too_long,
        ] {
            let whole = CanonicalUrl::from_stored(&format!("{}{path}", host.as_str()));
            assert_eq!(host.stored_page(path).ok(), whole.ok(), "{path}");
        }
    }

    #[test]
    fn a_host_knows_its_parts() {
        let host = Host::parse("https://a.b.co.uk:8443/x").unwrap();
        assert_eq!((host.scheme(), host.name(), host.port()), ("https", "a.b.co.uk", 8443));
        assert_eq!((host.authority(), host.registrable_domain()), ("a.b.co.uk:8443", "b.co.uk"));
        let six = Host::parse("http://[::1]/").unwrap();
        assert_eq!((six.name(), six.port(), six.registrable_domain()), ("[::1]", 80, "[::1]"));
        assert_eq!(Host::parse("http://site7.test/").unwrap().registrable_domain(), "site7.test");
        assert_eq!(Host::parse("http://localhost:81/").unwrap().port(), 81);
    }
}
