//! Addresses that the operator sets by hand: `HOST=ADDR[:PORT]`.
//!
//! For a staging site before its name is public, for a site behind another door, and for a synthetic Web with
//! one address per host. Whoever writes an override says that the address is meant, so the [`crate::guard`]
//! does not judge it. Changes neither the `Host` header nor the name that a certificate must carry.

use crate::Error;
use farol_base::{Host, fingerprint};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// A rule that gives hosts an address by hand.
///
/// `HOST` is a name (`www.example.org`), `*.` with a name for everything below it (`*.test`), or `*`. The
/// address is IPv4 (`192.0.2.1`), IPv6 (`[2001:db8::1]`), or a network (`127.0.0.0/8`, `[fd00::/64]`) over
/// which names are spread: the same name always gets the same address of it.
///
/// ```
/// use farol_base::Host;
/// use farol_fetch::Override;
/// let rule: Override = "*.test=127.0.0.1:8080".parse().unwrap();
/// let host = Host::parse("http://site7.test/").unwrap();
/// assert_eq!(rule.address(&host), Some("127.0.0.1:8080".parse().unwrap()));
/// assert_eq!(rule.address(&Host::parse("http://example.org/").unwrap()), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    pattern: Pattern,
    network: IpAddr,
    /// Bits of `network` that are fixed; all of them for a single address.
    prefix: u8,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    All,
    Name(String),
    /// With its leading dot: `.test`.
    Below(String),
}

impl Override {
    /// The address of a host, where this rule is about it.
    pub fn address(&self, host: &Host) -> Option<SocketAddr> {
        let name = host.name();
        let matches = match &self.pattern {
            Pattern::All => true,
            Pattern::Name(known) => known == name,
            Pattern::Below(suffix) => name.len() > suffix.len() && name.ends_with(suffix.as_str()),
        };
        matches.then(|| SocketAddr::new(self.spread(name), self.port.unwrap_or(host.port())))
    }

    /// Picks a name's address: network + 1 + hash mod (size - 2), which leaves out the first and the last.
    fn spread(&self, name: &str) -> IpAddr {
        let bits = if self.network.is_ipv4() { 32 } else { 128 };
        let free = bits - u32::from(self.prefix);
        if free == 0 {
            return self.network;
        }
        let hash = u128::from(fingerprint::hash64(name.as_bytes()));
        // A network of two addresses (RFC 3021) has no first and last to leave out. The hash has 64 bits, so
        // no more than 2^64 addresses of a larger network are used.
        let offset = if free == 1 { hash % 2 } else { 1 + hash % ((1u128 << free.min(64)) - 2) };
        match self.network {
            IpAddr::V4(network) => Ipv4Addr::from(u32::from(network) | offset as u32).into(),
            IpAddr::V6(network) => Ipv6Addr::from(u128::from(network) | offset).into(),
        }
    }
}

impl FromStr for Override {
    type Err = Error;

    fn from_str(text: &str) -> Result<Override, Error> {
        parse(text.trim())
            .map_err(|reason| Error::Override { text: text.chars().take(200).collect(), reason })
    }
}

fn parse(text: &str) -> Result<Override, &'static str> {
    let (host, target) = text.split_once('=').ok_or("there is no `=`")?;
    let pattern = parse_pattern(host.trim())?;
    let (network, port) = split_port(target.trim())?;
    let (address, prefix) = match network.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (network, None),
    };
    let address: IpAddr =
        address.parse().map_err(|_| "the address is neither IPv4 nor IPv6 (IPv6 goes in brackets)")?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        None => bits,
        Some(prefix) => prefix
            .parse::<u8>()
            .ok()
            .filter(|prefix| *prefix <= bits)
            .ok_or("the network's length must be at most 32 for IPv4 and 128 for IPv6")?,
    };
    let network = match address {
        IpAddr::V4(a) => {
            Ipv4Addr::from(u32::from(a) & u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)).into()
        }
        IpAddr::V6(a) => {
            Ipv6Addr::from(u128::from(a) & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)).into()
        }
    };
    Ok(Override { pattern, network, prefix, port })
}

fn parse_pattern(host: &str) -> Result<Pattern, &'static str> {
    if host == "*" {
        return Ok(Pattern::All);
    }
    let (below, name) = match host.strip_prefix("*.") {
        Some(name) => (true, name),
        None => (false, host),
    };
    if name.is_empty() || name.contains(['*', '/']) {
        return Err("the host must be a name, `*.` and a name, or `*`");
    }
    if name.contains(':') && !name.starts_with('[') {
        return Err("the host is given without a port");
    }
    // The same reading as of every URL, so that case and international names match.
    let canonical = Host::parse(&format!("http://{name}/")).map_err(|_| "the host is no valid name")?;
    let name = canonical.name().to_string();
    Ok(if below { Pattern::Below(format!(".{name}")) } else { Pattern::Name(name) })
}

/// Splits `[fd00::1]:80`, `[fd00::/64]`, `1.2.3.4:80`, `127.0.0.0/8:80` or a bare `::1` into address and port.
fn split_port(target: &str) -> Result<(&str, Option<u16>), &'static str> {
    let (address, port) = if let Some(rest) = target.strip_prefix('[') {
        let (address, rest) = rest.split_once(']').ok_or("a `]` is missing")?;
        match rest.strip_prefix(':') {
            Some(port) => (address, Some(port)),
            None if rest.is_empty() => (address, None),
            None => return Err("only `:PORT` may follow the `]`"),
        }
    } else if target.matches(':').count() > 1 {
        (target, None)
    } else {
        match target.split_once(':') {
            Some((address, port)) => (address, Some(port)),
            None => (target, None),
        }
    };
    let port = match port {
        None => None,
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port > 0 => Some(port),
            _ => return Err("the port must be a number from 1 to 65535"),
        },
    };
    Ok((address, port))
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::All => f.write_str("*")?,
            Pattern::Name(name) => f.write_str(name)?,
            Pattern::Below(suffix) => write!(f, "*{suffix}")?,
        }
        let bits = if self.network.is_ipv4() { 32 } else { 128 };
        let prefix = if self.prefix == bits { String::new() } else { format!("/{}", self.prefix) };
        match self.network {
            IpAddr::V4(network) => write!(f, "={network}{prefix}")?,
            IpAddr::V6(network) => write!(f, "=[{network}{prefix}]")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(rule: &str, url: &str, want: Option<&str>) {
        let rule: Override = rule.parse().unwrap();
        let got = rule.address(&Host::parse(url).unwrap());
        assert_eq!(got, want.map(|want| want.parse().unwrap()), "{rule} {url}");
        assert_eq!(rule.to_string().parse::<Override>().unwrap(), rule);
    }

    #[test]
    fn a_host_gets_the_address_of_the_first_matching_rule() {
        check("h.test=10.0.0.1", "http://h.test/", Some("10.0.0.1:80"));
        check("h.test=10.0.0.1", "https://h.test/", Some("10.0.0.1:443"));
        check("h.test=10.0.0.1", "http://h.test:81/", Some("10.0.0.1:81"));
        check("h.test=10.0.0.1:8080", "https://h.test/", Some("10.0.0.1:8080"));
        check("h.test=10.0.0.1", "http://a.h.test/", None);
        check("*.test=10.0.0.1", "http://a.b.test/", Some("10.0.0.1:80"));
        check("*.test=10.0.0.1", "http://test/", None);
        check("*.test=10.0.0.1", "http://contest/", None);
        check("*=[::1]:81", "http://any.example/", Some("[::1]:81"));
        check("H.Test=::1", "http://h.test/", Some("[::1]:80"));
        check("bücher.test=10.0.0.1", "http://xn--bcher-kva.test/", Some("10.0.0.1:80"));
        check("h.test=10.0.0.7/32", "http://h.test/", Some("10.0.0.7:80"));
    }

    #[test]
    fn names_are_spread_over_a_network_and_stay_where_they_are() {
        let rule: Override = "*.test=127.0.0.0/8:8080".parse().unwrap();
        let address = |i: u32| rule.address(&Host::parse(&format!("http://site{i}.test/")).unwrap()).unwrap();
        let all: std::collections::HashSet<_> = (0..1000).map(address).collect();
        assert!(all.len() > 990, "{} addresses for 1,000 names", all.len());
        assert!(all.iter().all(|a| a.ip().is_loopback() && a.port() == 8080));
        assert_eq!(address(7), address(7));
        let two: Override = "*=10.0.0.6/31".parse().unwrap();
        let hosts = (0..20).map(|i| Host::parse(&format!("http://site{i}.test/")).unwrap());
        let both: std::collections::BTreeSet<_> =
            hosts.map(|host| two.address(&host).unwrap().ip()).collect();
        assert_eq!(both.into_iter().map(|ip| ip.to_string()).collect::<Vec<_>>(), ["10.0.0.6", "10.0.0.7"]);
    }

    #[test]
    fn what_is_no_override_says_why() {
        let reason = |text: &str| text.parse::<Override>().unwrap_err().to_string();
        assert_eq!(reason("h"), "`h` is no override of the form HOST=ADDR[:PORT]: there is no `=`");
        for text in [
            "=1.2.3.4",
            "h=",
            "h=name",
            "h=1.2.3.4:0",
            "h=1.2.3.4:x",
            "h=1.2.3.4:99999",
            "h=[::1",
            "h=[::1]x",
        ] {
            assert!(reason(text).contains(": "), "{text}");
        }
        for text in [
            "h=1.2.3.4/33",
            "h=[::/129]",
            "a*b=1.2.3.4",
            "*.*.b=1.2.3.4",
            "h:80=1.2.3.4",
            "h:81=1.2.3.4",
            "h/x=1.1.1.1",
        ] {
            assert!(text.parse::<Override>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_spread_address_is_inside_its_network(name in "[a-z]{1,10}", a in any::<u32>(), prefix in 0u8..=32) {
            let network = Ipv4Addr::from(a);
            let rule: Override = format!("*={network}/{prefix}").parse().unwrap();
            let host = Host::parse(&format!("http://{name}.test/")).unwrap();
            let Some(SocketAddr::V4(got)) = rule.address(&host) else { panic!("no IPv4 address") };
            let differing = u64::from(u32::from(*got.ip()) ^ a) >> (32 - u32::from(prefix));
            prop_assert_eq!(differing, 0);
        }

        #[test]
        fn no_text_breaks_it(text in ".{0,60}") {
            let _ = text.parse::<Override>();
            let _ = format!("h={text}").parse::<Override>();
        }
    }
}
