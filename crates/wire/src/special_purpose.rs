//! Addresses that no public server has: the special-purpose prefixes of the IANA registries (RFC
//! 6890), in three sets for three uses.
//!
//! All other code uses these sets to decide whether an address is "private". The sets ([`Scope`])
//! differ for these reasons:
//!
//! - `Local`: loopback, link-local, RFC 1918 and RFC 4193. These hosts belong to the operator: they
//!   may be clients and may read metrics. Other hosts in the network of a provider (RFC 6598) do
//!   not belong to the operator.
//! - `Internal`: also "this network" and RFC 6598. None of these hosts is a server on the Internet,
//!   so no delegation, redirect or translation leads to them.
//! - `Unroutable`: also benchmarks (RFC 2544), site-local and local translation prefixes. The
//!   answer for a public name has no reason to contain such an address (DNS rebinding), but test
//!   networks do have servers there.
//!
//! `Internal` and `Unroutable` also cover IPv4 addresses in the forms in which IPv6 embeds them.
//! A lookup scans at most eight rows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A set of special-purpose addresses for one use. Each scope contains the previous one.
///
/// ```
/// use avocet_wire::special_purpose::Scope;
///
/// let shared = "100.64.0.1".parse().unwrap();
/// assert!(!Scope::Local.contains(shared) && Scope::Internal.contains(shared));
/// let translated = "64:ff9b::10.0.0.1".parse().unwrap();
/// assert!(Scope::Internal.contains(translated));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scope {
    /// Hosts of the operator. Used for `"local"` in access lists, for clients whose names are
    /// looked up, and for the listener for HTTP.
    Local,
    /// Hosts that only this network reaches. The server uses them neither as authoritative servers,
    /// nor as targets of a redirect, nor to synthesise addresses with DNS64.
    Internal,
    /// Addresses that an answer for a public name must not contain.
    Unroutable,
}

/// A prefix, and the smallest scope that contains its addresses.
struct Prefix<T> {
    network: T,
    bits: u32,
    scope: Scope,
}

const fn v4(network: [u8; 4], bits: u32, scope: Scope) -> Prefix<u32> {
    Prefix { network: u32::from_be_bytes(network), bits, scope }
}

const fn v6(network: Ipv6Addr, bits: u32, scope: Scope) -> Prefix<u128> {
    Prefix { network: network.to_bits(), bits, scope }
}

const fn of(first: u16, second: u16, third: u16, last: u16) -> Ipv6Addr {
    Ipv6Addr::new(first, second, third, 0, 0, 0, 0, last)
}

const V4: [Prefix<u32>; 8] = [
    v4([127, 0, 0, 0], 8, Scope::Local), // loopback, RFC 1122 §3.2.1.3
    v4([10, 0, 0, 0], 8, Scope::Local),  // RFC 1918
    v4([172, 16, 0, 0], 12, Scope::Local), // RFC 1918
    v4([192, 168, 0, 0], 16, Scope::Local), // RFC 1918
    v4([169, 254, 0, 0], 16, Scope::Local), // link-local, RFC 3927
    v4([0, 0, 0, 0], 8, Scope::Internal), // this network, RFC 1122 §3.2.1.3
    v4([100, 64, 0, 0], 10, Scope::Internal), // shared by a provider and its customers, RFC 6598
    v4([198, 18, 0, 0], 15, Scope::Unroutable), // benchmarks, RFC 2544
];

const V6: [Prefix<u128>; 6] = [
    v6(of(0, 0, 0, 1), 128, Scope::Local), // loopback, RFC 4291 §2.5.3
    v6(of(0xfc00, 0, 0, 0), 7, Scope::Local), // unique local, RFC 4193
    v6(of(0xfe80, 0, 0, 0), 10, Scope::Local), // link-local, RFC 4291 §2.5.6
    v6(of(0, 0, 0, 0), 128, Scope::Internal), // unspecified, RFC 4291 §2.5.2
    v6(of(0xfec0, 0, 0, 0), 10, Scope::Unroutable), // site-local, deprecated by RFC 3879
    // Local translation, RFC 8215: the position of the IPv4 address is unknown.
    v6(of(0x64, 0xff9b, 1, 0), 48, Scope::Unroutable),
];

impl Scope {
    /// Reports whether the scope contains the address. IPv4-mapped addresses count as IPv4.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => self.contains_v4(address),
            IpAddr::V6(address) => {
                self.contains_v6(address)
                    || self > Self::Local
                        && embedded(address).is_some_and(|address| self.contains_v4(address))
            }
        }
    }

    /// Returns the prefixes of the scope, with their lengths in bits.
    pub fn prefixes(self) -> impl Iterator<Item = (IpAddr, u8)> {
        let v4 = V4
            .iter()
            .filter(move |prefix| prefix.scope <= self)
            .map(|prefix| (IpAddr::V4(Ipv4Addr::from_bits(prefix.network)), prefix.bits as u8));
        let v6 = V6
            .iter()
            .filter(move |prefix| prefix.scope <= self)
            .map(|prefix| (IpAddr::V6(Ipv6Addr::from_bits(prefix.network)), prefix.bits as u8));
        v4.chain(v6)
    }

    fn contains_v4(self, address: Ipv4Addr) -> bool {
        let bits = address.to_bits();
        V4.iter().any(|prefix| {
            prefix.scope <= self && (bits ^ prefix.network) >> (32 - prefix.bits) == 0
        })
    }

    fn contains_v6(self, address: Ipv6Addr) -> bool {
        let bits = address.to_bits();
        V6.iter().any(|prefix| {
            prefix.scope <= self && (bits ^ prefix.network) >> (128 - prefix.bits) == 0
        })
    }
}

/// Returns the IPv4 address in an IPv6 address: mapped or compatible (RFC 4291 §2.5.5),
/// IPv4-translated (RFC 7915 §1.3), NAT64 with the well-known prefix (RFC 6052 §2.1), 6to4 (RFC
/// 3056 §2), the client of Teredo (RFC 4380 §4), ISATAP (RFC 5214 §6.1).
#[must_use]
pub fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = address.segments();
    let pair = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match s {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(pair(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(pair(high, low)),
        [0x2002, high, low, ..] => Some(pair(high, low)),
        [0x2001, 0, .., high, low] => Some(pair(!high, !low)),
        [_, _, _, _, 0 | 0x200, 0x5efe, high, low] => Some(pair(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_known_in_all_their_forms() {
        for text in [
            "10.1.2.3",
            "172.31.255.255",
            "192.168.0.1",
            "127.0.0.1",
            "169.254.1.1",
            "0.0.0.0",
            "0.1.2.3",
            "100.64.0.1",
            "::",
            "::1",
            "fe80::1",
            "fd00::1",
            "fec0::1",
            "::ffff:192.168.0.1",
            "::10.0.0.1",
            "64:ff9b::10.0.0.1",
            "2002:c0a8:0001::1",
            "::ffff:0:192.168.0.1",
            "64:ff9b:1::192.0.2.1",
            "64:ff9b:1:a00:1:100::",
            "198.18.0.1",
            "198.19.255.255",
            // Teredo and ISATAP with 192.168.0.1.
            "2001:0:c000:201::3f57:fffe",
            "2001:db8::5efe:192.168.0.1",
            "2001:db8::200:5efe:192.168.0.1",
            // The address is not public, whatever IPv4 address it contains.
            "fe80::5efe:192.0.2.1",
            "fd00::5efe:192.0.2.1",
        ] {
            assert!(Scope::Unroutable.contains(text.parse().unwrap()), "{text}");
        }
        for text in [
            "192.0.2.1",
            "172.32.0.1",
            "100.128.0.1",
            "2001:db8::1",
            "::ffff:192.0.2.1",
            "64:ff9b::192.0.2.1",
            "198.17.255.255",
            "198.20.0.0",
            "2001:0:c000:201::3fff:fdfe",
            "2001:db8::5efe:192.0.2.1",
        ] {
            assert!(!Scope::Unroutable.contains(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn each_use_takes_its_prefixes() {
        let cases = [
            ("192.168.1.1", Some(Scope::Local)),
            ("::ffff:10.0.0.1", Some(Scope::Local)),
            ("fe80::1", Some(Scope::Local)),
            ("0.1.2.3", Some(Scope::Internal)),
            ("100.127.255.255", Some(Scope::Internal)),
            ("::", Some(Scope::Internal)),
            ("64:ff9b::192.168.1.1", Some(Scope::Internal)),
            ("2002:a00:1::", Some(Scope::Internal)),
            ("198.19.0.1", Some(Scope::Unroutable)),
            ("fec0::1", Some(Scope::Unroutable)),
            ("64:ff9b:1::1", Some(Scope::Unroutable)),
            ("192.0.2.1", None),
            ("2001:db8::1", None),
        ];
        for (text, smallest) in cases {
            for scope in [Scope::Local, Scope::Internal, Scope::Unroutable] {
                let wanted = smallest.is_some_and(|smallest| smallest <= scope);
                assert_eq!(scope.contains(text.parse().unwrap()), wanted, "{text} {scope:?}");
            }
        }
        for (network, _) in Scope::Local.prefixes() {
            assert!(Scope::Local.contains(network));
        }
        assert_eq!(Scope::Local.prefixes().count(), 8);
    }
}
