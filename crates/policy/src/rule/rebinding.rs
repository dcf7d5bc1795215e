//! Protection against DNS rebinding: a public name must not resolve to addresses in the client's
//! network.
//!
//! A web page whose name resolves first to a server of its author and then to a private address can
//! talk to devices at that address, because the browser treats both as one origin. Private
//! addresses are therefore accepted only for names that may have them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use avocet_wire::name::is_under;

/// Names in folded wire form that, with all names below them, may have private addresses.
#[derive(Clone, Debug, Default)]
pub struct Exceptions {
    names: Vec<Box<[u8]>>,
}

impl Exceptions {
    /// Creates the set from names in folded wire form.
    #[must_use]
    pub fn of(names: impl IntoIterator<Item = Box<[u8]>>) -> Self {
        Self { names: names.into_iter().collect() }
    }

    /// Creates the set from names as text.
    ///
    /// # Errors
    /// An invalid name, with the reason.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let wire =
            |text: &str| super::action::name(text).map_err(|reason| format!("`{text}`: {reason}"));
        Ok(Self { names: names.into_iter().map(wire).collect::<Result<_, _>>()? })
    }

    fn contains(&self, qname: &[u8]) -> bool {
        self.names.iter().any(|name| is_under(qname, name))
    }
}

/// Returns the first private address of an answer, unless the name may have it. `addresses` are
/// those of A and AAAA records and of the hints of SVCB and HTTPS records.
#[must_use]
pub fn rebinds(
    qname: &[u8],
    mut addresses: impl Iterator<Item = IpAddr>,
    exceptions: &Exceptions,
) -> Option<IpAddr> {
    let private = addresses.find(|address| is_private(*address))?;
    (!exceptions.contains(qname)).then_some(private)
}

/// Reports whether no public server can have the address. Covers IPv4 in every form in which IPv6
/// embeds it.
#[must_use]
pub fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => {
            is_private_v6(address) || embedded(address).is_some_and(is_private_v4)
        }
    }
}

/// Covers RFC 1918, RFC 1122 §3.2.1.3 (this network, loopback), RFC 3927, RFC 6598 and RFC 2544
/// (benchmarks). The manual lists them: `docs/manual/policy.md`.
fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || a == 0
        || (a == 100 && b & 0xc0 == 64)
        || (a == 198 && b & 0xfe == 18)
}

/// Covers RFC 4291 §2.5 (unspecified, loopback, link-local), RFC 4193, RFC 3879 (deprecated
/// site-local) and RFC 8215 (local translation prefixes, in which the position of the IPv4 address
/// is unknown).
fn is_private_v6(address: Ipv6Addr) -> bool {
    let [first, second, third, ..] = address.segments();
    address.is_unspecified()
        || (first, second, third) == (0x64, 0xff9b, 1)
        || address.is_loopback()
        || first & 0xfe00 == 0xfc00
        || first & 0xffc0 == 0xfe80
        || first & 0xffc0 == 0xfec0
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
            // A private network, whatever IPv4 address is in it.
            "fe80::5efe:192.0.2.1",
            "fd00::5efe:192.0.2.1",
        ] {
            assert!(is_private(text.parse().unwrap()), "{text}");
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
            assert!(!is_private(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn names_with_an_exception_may_lead_home() {
        let exceptions = Exceptions::new(["plex.direct", "home.example."]).unwrap();
        let addresses = ["192.0.2.1".parse().unwrap(), "::ffff:10.0.0.1".parse().unwrap()];
        let rebinds = |text: &str| {
            rebinds(&super::super::action::name(text).unwrap(), addresses.into_iter(), &exceptions)
        };
        assert_eq!(rebinds("evil.example"), Some(addresses[1]));
        assert_eq!((rebinds("a.plex.direct"), rebinds("home.example")), (None, None));
        assert!(Exceptions::new(["a..b"]).is_err());
    }
}
