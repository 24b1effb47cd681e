//! Tells addresses of the public Internet from all others.
//!
//! A page may link to `http://192.168.0.1/`, or to a name that resolves to it; whoever follows such links from
//! inside a network shows its insides to the world. Promise: whatever is not known to be public is refused, and
//! an IPv4 address inside an IPv6 one is judged as itself. The tables follow IANA's special-purpose registries
//! (RFC 6890 and its updates). Ports that browsers refuse are refused too. Does no lookups and opens nothing.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The address of no host, 0.0.0.0 or ::.
    Unspecified,
    /// Of a private network.
    Private,
    /// Of the machine itself.
    Loopback,
    /// Of the same link only.
    LinkLocal,
    /// Shared by customers of a provider, 100.64.0.0/10.
    Shared,
    /// Of a private IPv6 network, fc00::/7.
    UniqueLocal,
    /// Of a site, an IPv6 range that is no longer given out.
    SiteLocal,
    /// Of a group of machines.
    Multicast,
    /// Of all machines of a network.
    Broadcast,
    /// For examples in documents.
    Documentation,
    /// For measuring networks.
    Benchmarking,
    /// Kept for later use.
    Reserved,
}

impl Reason {
    /// Whether an operator can have a Web server there on purpose, so that `--allow-private` lifts the refusal.
    pub fn is_local(self) -> bool {
        !matches!(self, Reason::Unspecified | Reason::Multicast | Reason::Broadcast | Reason::Reserved)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Unspecified => "unspecified",
            Reason::Private => "private",
            Reason::Loopback => "loopback",
            Reason::LinkLocal => "link-local",
            Reason::Shared => "shared address space",
            Reason::UniqueLocal => "unique local",
            Reason::SiteLocal => "site-local",
            Reason::Multicast => "multicast",
            Reason::Broadcast => "broadcast",
            Reason::Documentation => "for documentation only",
            Reason::Benchmarking => "for benchmarks only",
            Reason::Reserved => "reserved",
        })
    }
}

/// Judges an address: `Ok` means that it belongs to the public Internet.
///
/// ```
/// use farol_fetch::guard::{Reason, verdict};
/// assert_eq!(verdict("93.184.215.14".parse().unwrap()), Ok(()));
/// assert_eq!(verdict("::ffff:10.1.2.3".parse().unwrap()), Err(Reason::Private));
/// ```
pub fn verdict(address: IpAddr) -> Result<(), Reason> {
    match address {
        IpAddr::V4(address) => verdict_v4(address),
        IpAddr::V6(address) => verdict_v6(address),
    }
}

/// Ports of protocols that a request to them could be taken for: mail, chat, shells, printers. The list is that of the
/// Fetch standard of the WHATWG ("port blocking"), in order.
const PORTS_OF_OTHERS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

/// Whether a port is kept for another protocol, so that no browser asks there.
///
/// ```
/// use farol_fetch::guard::is_for_others;
/// assert!(is_for_others(25) && !is_for_others(443) && !is_for_others(8080));
/// ```
pub fn is_for_others(port: u16) -> bool {
    PORTS_OF_OTHERS.binary_search(&port).is_ok()
}

/// The first network that holds the address decides.
const NETWORKS_V4: &[([u8; 4], u32, Reason)] = &[
    ([255, 255, 255, 255], 32, Reason::Broadcast),
    ([0, 0, 0, 0], 8, Reason::Unspecified),
    ([10, 0, 0, 0], 8, Reason::Private),
    ([100, 64, 0, 0], 10, Reason::Shared),
    ([127, 0, 0, 0], 8, Reason::Loopback),
    ([169, 254, 0, 0], 16, Reason::LinkLocal),
    ([172, 16, 0, 0], 12, Reason::Private),
    ([192, 0, 0, 0], 24, Reason::Reserved), // IETF protocol assignments, RFC 6890.
    ([192, 0, 2, 0], 24, Reason::Documentation),
    ([192, 31, 196, 0], 24, Reason::Reserved), // AS112, RFC 7535.
    ([192, 52, 193, 0], 24, Reason::Reserved), // AMT, RFC 7450.
    ([192, 88, 99, 0], 24, Reason::Reserved),  // 6to4 relays, RFC 7526.
    ([192, 168, 0, 0], 16, Reason::Private),
    ([192, 175, 48, 0], 24, Reason::Reserved), // AS112, RFC 7534.
    ([198, 18, 0, 0], 15, Reason::Benchmarking),
    ([198, 51, 100, 0], 24, Reason::Documentation),
    ([203, 0, 113, 0], 24, Reason::Documentation),
    ([224, 0, 0, 0], 4, Reason::Multicast),
    ([240, 0, 0, 0], 4, Reason::Reserved),
];

fn verdict_v4(address: Ipv4Addr) -> Result<(), Reason> {
    let bits = u32::from(address);
    for &(network, prefix, reason) in NETWORKS_V4 {
        if (bits ^ u32::from_be_bytes(network)) >> (32 - prefix) == 0 {
            return Err(reason);
        }
    }
    Ok(())
}

fn verdict_v6(address: Ipv6Addr) -> Result<(), Reason> {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match s {
        [0, 0, 0, 0, 0, 0, 0, 0] => Err(Reason::Unspecified),
        [0, 0, 0, 0, 0, 0, 0, 1] => Err(Reason::Loopback),
        // IPv4-mapped: the socket really goes to the IPv4 address.
        [0, 0, 0, 0, 0, 0xffff, a, b] => verdict_v4(v4(a, b)),
        // IPv4-compatible (deprecated) and IPv4-translated (SIIT): nothing public lives there.
        [0, 0, 0, 0, 0, 0, a, b] | [0, 0, 0, 0, 0xffff, 0, a, b] => {
            verdict_v4(v4(a, b)).and(Err(Reason::Reserved))
        }
        [0x64, 0xff9b, 0, 0, 0, 0, a, b] => verdict_v4(v4(a, b)), // NAT64, RFC 6052.
        [0x64, 0xff9b, 1, ..] => Err(Reason::Private),            // NAT64 of a site's own, RFC 8215.
        // Teredo: the server's address plainly, the client's with every bit flipped (RFC 4380).
        [0x2001, 0, a, b, _, _, c, d] => verdict_v4(v4(a, b)).and(verdict_v4(v4(!c, !d))),
        [0x2001, 2, 0, ..] => Err(Reason::Benchmarking),
        [0x2001, 0xdb8, ..] => Err(Reason::Documentation),
        [0x2001, part, ..] if part < 0x200 => Err(Reason::Reserved), // IETF protocol assignments, 2001::/23.
        [0x2002, a, b, ..] => verdict_v4(v4(a, b)),                  // 6to4, RFC 3056.
        [0x3fff, part, ..] if part < 0x1000 => Err(Reason::Documentation),
        // ISATAP: a site's IPv4 address in the lower half (RFC 5214).
        [first, .., 0 | 0x200, 0x5efe, a, b] if first & 0xe000 == 0x2000 => verdict_v4(v4(a, b)),
        [first, ..] => match first {
            0x2000..=0x3fff => Ok(()), // The only block from which public addresses are given, RFC 4291.
            0xfc00..=0xfdff => Err(Reason::UniqueLocal),
            0xfe80..=0xfebf => Err(Reason::LinkLocal),
            0xfec0..=0xfeff => Err(Reason::SiteLocal),
            0xff00..=0xffff => Err(Reason::Multicast),
            _ => Err(Reason::Reserved),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(address: &str, want: Result<(), Reason>) {
        assert_eq!(verdict(address.parse().unwrap()), want, "{address}");
    }

    #[test]
    fn the_ports_are_in_order() {
        assert!(PORTS_OF_OTHERS.is_sorted_by(|a, b| a < b));
        let refused = (0..=u16::MAX).filter(|port| is_for_others(*port)).count();
        assert_eq!(refused, PORTS_OF_OTHERS.len());
    }

    #[test]
    fn ipv4_by_iana_registry() {
        use Reason::*;
        check("8.8.8.8", Ok(()));
        check("93.184.215.14", Ok(()));
        check("0.0.0.0", Err(Unspecified));
        check("0.1.2.3", Err(Unspecified));
        check("9.255.255.255", Ok(()));
        check("10.0.0.0", Err(Private));
        check("10.255.255.255", Err(Private));
        check("11.0.0.0", Ok(()));
        check("100.63.255.255", Ok(()));
        check("100.64.0.0", Err(Shared));
        check("100.127.255.255", Err(Shared));
        check("100.128.0.0", Ok(()));
        check("127.0.0.1", Err(Loopback));
        check("127.255.255.254", Err(Loopback));
        check("169.253.255.255", Ok(()));
        check("169.254.169.254", Err(LinkLocal)); // The metadata service of clouds.
        check("172.15.255.255", Ok(()));
        check("172.16.0.1", Err(Private));
        check("172.31.255.255", Err(Private));
        check("172.32.0.0", Ok(()));
        check("192.0.0.170", Err(Reserved));
        check("192.0.1.1", Ok(()));
        check("192.0.2.1", Err(Documentation));
        check("192.88.99.1", Err(Reserved));
        check("192.168.255.255", Err(Private));
        check("192.169.0.0", Ok(()));
        check("198.17.255.255", Ok(()));
        check("198.18.0.0", Err(Benchmarking));
        check("198.19.255.255", Err(Benchmarking));
        check("198.20.0.0", Ok(()));
        check("198.51.100.7", Err(Documentation));
        check("203.0.113.7", Err(Documentation));
        check("223.255.255.255", Ok(()));
        check("224.0.0.1", Err(Multicast));
        check("239.255.255.255", Err(Multicast));
        check("240.0.0.1", Err(Reserved));
        check("255.255.255.254", Err(Reserved));
        check("255.255.255.255", Err(Broadcast));
    }

    #[test]
    fn ipv6_by_iana_registry() {
        use Reason::*;
        check("2606:4700:4700::1111", Ok(()));
        check("2a00:1450:4001:82a::200e", Ok(()));
        check("::", Err(Unspecified));
        check("::1", Err(Loopback));
        check("100::1", Err(Reserved)); // Discard only.
        check("2001:2::1", Err(Benchmarking));
        check("2001:10::1", Err(Reserved)); // ORCHID.
        check("2001:20::1", Err(Reserved));
        check("2001:1ff:ffff::", Err(Reserved));
        check("2001:200::1", Ok(()));
        check("2001:db8::1", Err(Documentation));
        check("3ffe::1", Ok(()));
        check("3fff::1", Err(Documentation));
        check("3fff:1000::1", Ok(()));
        check("4000::1", Err(Reserved));
        check("5f00::1", Err(Reserved)); // Segment routing.
        check("fc00::1", Err(UniqueLocal));
        check("fdff:ffff::1", Err(UniqueLocal));
        check("fe80::1", Err(LinkLocal));
        check("febf::1", Err(LinkLocal));
        check("fec0::1", Err(SiteLocal));
        check("ff02::1", Err(Multicast));
    }

    #[test]
    fn an_ipv4_address_in_disguise_is_judged_as_itself() {
        use Reason::*;
        check("::ffff:127.0.0.1", Err(Loopback)); // Mapped.
        check("::ffff:8.8.8.8", Ok(()));
        check("::10.0.0.1", Err(Private)); // Compatible.
        check("::8.8.8.8", Err(Reserved));
        check("::ffff:0:127.0.0.1", Err(Loopback)); // Translated.
        check("2002:7f00:1::1", Err(Loopback)); // 6to4.
        check("2002:c0a8:1::1", Err(Private));
        check("2002:808:808::1", Ok(()));
        check("64:ff9b::192.168.0.1", Err(Private)); // NAT64.
        check("64:ff9b::8.8.8.8", Ok(()));
        check("64:ff9b:1::8.8.8.8", Err(Private));
        check("2001:0:808:808::f5ff:fffe", Err(Private)); // Teredo client 10.0.0.1, every bit flipped.
        check("2001:0:7f00:1::f7f7:f7f7", Err(Loopback)); // Teredo server.
        check("2001:0:808:808::f7f7:f7f7", Ok(()));
        check("2606:4700::5efe:10.0.0.1", Err(Private)); // ISATAP.
        check("2606:4700::200:5efe:127.0.0.1", Err(Loopback));
    }

    #[test]
    fn an_operator_can_lift_what_is_local_and_nothing_else() {
        let lifted = |address: &str| verdict(address.parse().unwrap()).unwrap_err().is_local();
        assert!(lifted("127.0.0.1") && lifted("192.168.1.1") && lifted("fd00::1") && lifted("100.64.1.1"));
        assert!(!lifted("0.0.0.0") && !lifted("224.0.0.1") && !lifted("255.255.255.255") && !lifted("::"));
    }

    proptest! {
        /// Every address that the standard library knows to be special is refused.
        #[test]
        fn agrees_with_the_standard_library(bits in any::<u32>()) {
            let a = Ipv4Addr::from(bits);
            let special = a.is_private() || a.is_loopback() || a.is_link_local() || a.is_broadcast()
                || a.is_documentation() || a.is_unspecified() || a.is_multicast();
            prop_assert!(!special || verdict(a.into()).is_err());
            prop_assert_eq!(verdict(a.to_ipv6_mapped().into()), verdict(a.into()));
        }

        #[test]
        fn only_global_unicast_is_public(bits in any::<u128>()) {
            let a = Ipv6Addr::from(bits);
            if verdict(a.into()).is_ok() {
                prop_assert!(bits >> 125 == 1 || a.to_ipv4().is_some() || a.segments()[0] == 0x64);
            }
        }
    }
}
