//! Whether an address is the open internet or something inside.
//!
//! External is what is globally routable and not a translation of something else; everything else
//! is internal and denied unless listed. Decided on parsed bytes of the resolved address, never on
//! a spelling. Source: reference/egress.md (c) 7; the ADR's update of 2026-07-01.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where an address lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    /// Globally routable.
    External,
    /// Loopback, private, link-local, metadata, carrier NAT, multicast, reserved or tunnelled.
    Internal,
}

/// Azure's address for a machine's own host (Microsoft: "What is IP address 168.63.129.16?").
const AZURE_HOST: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// The zone of `address`. A NAT64 address counts as the IPv4 address inside it, since in an
/// IPv6-only network every IPv4-only host has one; 6to4 and Teredo are always internal.
pub fn zone_of(address: IpAddr) -> Zone {
    match address {
        IpAddr::V4(v4) => zone_of_v4(v4),
        IpAddr::V6(v6) => zone_of_v6(v6),
    }
}

fn zone_of_v4(address: Ipv4Addr) -> Zone {
    let [a, b, c, _] = address.octets();
    // A routable address, but on Azure the host's own services answer there: metadata, DNS, agents.
    if address == AZURE_HOST {
        return Zone::Internal;
    }
    let internal = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224.., _, _)          // this network, private, loopback, multicast and up
            | (100, 64..=127, _)               // RFC 6598 carrier NAT
            | (169, 254, _)                    // link-local and cloud metadata
            | (172, 16..=31, _)                // private
            | (192, 168, _)                    // private
            | (192, 0, 0 | 2)                  // IETF assignments, documentation
            | (192, 88, 99)                    // 6to4 relays, deprecated
            | (198, 18 | 19, _)                // benchmarks
            | (198, 51, 100) | (203, 0, 113) // documentation
    );
    if internal { Zone::Internal } else { Zone::External }
}

fn zone_of_v6(address: Ipv6Addr) -> Zone {
    let segments = address.segments();
    let last_v4 = || {
        let [.., a, b, c, d] = address.octets();
        zone_of_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // 64:ff9b::/96, the well-known NAT64 prefix: the IPv4 address inside decides.
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => last_v4(),
        [0x2001, 0..=0x1ff | 0xdb8, ..] | [0x2002, ..] | [0x3fff, 0..=0xfff, ..]    // documentation, RFC 9637
            => Zone::Internal,
        // 2000::/3 is all that is assigned as global unicast; mapped, compatible, translatable,
        // ULA, link-local, site-local, discard and local NAT64 lie outside it.
        [0x2000..=0x3fff, ..] => Zone::External,
        _ => Zone::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_ranges_are_internal() {
        let internal = [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "100.127.255.255",
            "192.0.0.170",
            "198.18.0.1",
            "198.19.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "168.63.129.16",
            "64:ff9b::a83f:8110",
            "224.0.0.1",
            "::1",
            "::",
            "fd00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
            "::ffff:169.254.169.254",
            "::ffff:8.8.8.8",
            "::ffff:0:7f00:1",
            "::a9fe:a9fe",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1::808:808",
            "2002:a9fe:a9fe::",
            "2001:0:4136:e378:8000:63bf:f5ff:fffe",
            "2001:db8::1",
            "3fff::1",
        ];
        for text in internal {
            assert_eq!(zone_of(text.parse().unwrap()), Zone::Internal, "{text}");
        }
    }

    /// IANA's registries of special-purpose addresses: the first and last of each block, and what
    /// lies beside it. Blocks that are globally reachable by their entry (AS112, AMT, anycast
    /// of DNS) are not among them.
    #[test]
    fn blocks_end_where_they_end() {
        let blocks = [
            ("0.0.0.0", "0.255.255.255"),
            ("10.0.0.0", "10.255.255.255"),
            ("100.64.0.0", "100.127.255.255"),
            ("127.0.0.0", "127.255.255.255"),
            ("169.254.0.0", "169.254.255.255"),
            ("172.16.0.0", "172.31.255.255"),
            ("192.0.0.0", "192.0.0.255"),
            ("192.0.2.0", "192.0.2.255"),
            ("192.88.99.0", "192.88.99.255"),
            ("192.168.0.0", "192.168.255.255"),
            ("198.18.0.0", "198.19.255.255"),
            ("198.51.100.0", "198.51.100.255"),
            ("203.0.113.0", "203.0.113.255"),
            ("224.0.0.0", "255.255.255.255"),
        ];
        for (first, last) in blocks {
            let number = |text: &str| u32::from(text.parse::<Ipv4Addr>().unwrap());
            let zone = |number: u32| zone_of_v4(Ipv4Addr::from(number));
            let (first, last) = (number(first), number(last));
            assert_eq!((zone(first), zone(last)), (Zone::Internal, Zone::Internal), "{first}");
            let mut beside = [first.checked_sub(1), last.checked_add(1)].into_iter().flatten();
            assert!(beside.all(|one| zone(one) == Zone::External), "{first}");
        }
    }

    /// What stands for an IPv4 address is judged by it where a translator would carry it there.
    #[test]
    fn nat64_is_judged_by_what_is_inside() {
        for text in ["8.8.8.8", "10.0.0.1", "169.254.169.254", "223.255.255.255", "100.64.0.1"] {
            let inside: Ipv4Addr = text.parse().unwrap();
            let [a, b, c, d] = inside.octets().map(u16::from);
            let translated = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a << 8 | b, c << 8 | d);
            assert_eq!(zone_of(translated.into()), zone_of(inside.into()), "{text}");
            assert_eq!(zone_of(inside.to_ipv6_mapped().into()), Zone::Internal, "{text}");
            let sixtofour = Ipv6Addr::new(0x2002, a << 8 | b, c << 8 | d, 0, 0, 0, 0, 1);
            assert_eq!(zone_of(sixtofour.into()), Zone::Internal, "{text}");
        }
    }

    #[test]
    fn the_internet_is_external() {
        let external = [
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "168.63.129.15",
            "168.63.129.17",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "64:ff9b::8.8.8.8",
        ];
        for text in external {
            assert_eq!(zone_of(text.parse().unwrap()), Zone::External, "{text}");
        }
    }
}
