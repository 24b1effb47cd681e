//! Who asks: the address behind a request, and the names under which it reached us.

use crate::Settings;
use axum::extract::ConnectInfo;
use axum::http::header::{AUTHORIZATION, COOKIE, FORWARDED, HOST, VIA};
use axum::http::{Extensions, HeaderMap, Uri};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Headers that only a proxy writes. One of them in a request means that the peer is not the asker.
const PROXY_HEADERS: [&str; 8] = [
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-real-ip",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "x-forwarded",
];

/// The other end of the connection, where the server told it.
pub(crate) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip().to_canonical())
}

/// The address that limits are kept for.
///
/// Behind a proxy that is trusted to write `X-Forwarded-For` it is the last address there, the one that the
/// proxy itself saw; what stands before it can be made up by the client.
pub(crate) fn address(extensions: &Extensions, headers: &HeaderMap, settings: &Settings) -> IpAddr {
    let forwarded = || {
        let last = headers.get_all("x-forwarded-for").iter().next_back()?.to_str().ok()?;
        last.rsplit(',').next()?.trim().parse::<IpAddr>().ok()
    };
    let told = if settings.trust_forwarded { forwarded() } else { None };
    told.or_else(|| peer(extensions)).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)).to_canonical()
}

/// Whether the request says that a proxy passed it on.
pub(crate) fn is_forwarded(headers: &HeaderMap) -> bool {
    headers.contains_key(FORWARDED)
        || headers.contains_key(VIA)
        || PROXY_HEADERS.iter().any(|name| headers.contains_key(*name))
}

/// The name (with port) that the client used for us.
pub(crate) fn authority<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    match uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => headers.get(HOST).map(|name| name.to_str().unwrap_or("")),
    }
}

/// Endings of names that nobody can register, so that no stranger can point one at us: RFC 6761, 6762 and 8375, what
/// ICANN keeps for private networks, and what home routers use.
const PRIVATE_ENDINGS: [&str; 5] = ["localhost", "local", "internal", "home.arpa", "lan"];

/// Whether a name (with or without port) that a client used for us is one of ours.
///
/// An address, a name of one label and a name of private networks always are; of the others only those that the
/// settings know. Any other name could have been pointed here by its owner, to make a visitor's browser read our pages
/// on its behalf (DNS rebinding).
pub(crate) fn is_our_name(authority: &str, settings: &Settings) -> bool {
    let name = without_port(authority).trim_end_matches('.').to_ascii_lowercase();
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
    let is_private = |ending: &&str| name.strip_suffix(*ending).is_some_and(|rest| rest.ends_with('.'));
    let is_named = |ours: &str| without_port(ours).eq_ignore_ascii_case(&name);
    bare.parse::<IpAddr>().is_ok()
        || (!name.is_empty() && !name.contains('.'))
        || PRIVATE_ENDINGS.iter().any(is_private)
        || settings.public_authority().is_some_and(is_named)
        || settings.names.iter().any(|ours| is_named(ours))
}

fn without_port(authority: &str) -> &str {
    match authority.rfind(':') {
        Some(at) if !authority[at..].contains(']') => &authority[..at],
        _ => authority,
    }
}

/// The token of `Authorization: Bearer …`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_strangers_cannot_point_here_are_ours() {
        let settings = Settings {
            public_url: Some("https://search.example.org:8443/".into()),
            names: vec!["old.example.org".into()],
            ..Settings::default()
        };
        for name in [
            "localhost",
            "LOCALHOST:8080",
            "x.localhost",
            "127.0.0.1:1",
            "10.0.0.1",
            "[::1]:80",
            "[2001:db8::1]",
            "search",
            "Search.local.",
            "search.home.arpa:80",
            "SEARCH.example.org",
            "search.example.org:8443",
            "old.example.org:80",
        ] {
            assert!(is_our_name(name, &settings), "{name}");
        }
        for name in [
            "",
            ".",
            ":80",
            "evil.org",
            "localhost.evil.org:80",
            "127.0.0.1.evil.org",
            "x.search.example.org",
        ] {
            assert!(!is_our_name(name, &settings), "{name}");
        }
    }

    #[test]
    fn the_address_behind_a_trusted_proxy_is_the_last_one() {
        let mut headers = HeaderMap::new();
        headers.append("x-forwarded-for", "1.1.1.1, 2.2.2.2".parse().unwrap());
        headers.append("x-forwarded-for", "3.3.3.3,  4.4.4.4".parse().unwrap());
        let mut extensions = Extensions::new();
        extensions.insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 5))));
        let check = |trust_forwarded, want: &str| {
            let settings = Settings { trust_forwarded, ..Settings::default() };
            assert_eq!(address(&extensions, &headers, &settings).to_string(), want);
        };
        check(true, "4.4.4.4");
        check(false, "127.0.0.1");
    }

    #[test]
    fn credentials_are_read_from_headers() {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, "a=1; farol_session=xyz; b".parse().unwrap());
        headers.insert(AUTHORIZATION, "bearer  s3cret".parse().unwrap());
        assert_eq!(cookie(&headers, "farol_session"), Some("xyz"));
        assert_eq!(cookie(&headers, "session"), None);
        assert_eq!(bearer(&headers), Some("s3cret"));
    }
}
