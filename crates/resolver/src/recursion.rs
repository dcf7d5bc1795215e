//! The settings of recursion: root servers, stub zones, and how authoritative servers are queried.

use avocet_wire::FoldedName;
use std::net::{IpAddr, SocketAddr};

use avocet_wire::special_purpose::Scope;
use avocet_wire::suffix::SuffixMap;

use crate::local_root::LocalRootSlot;
use crate::validation::Validation;

/// A root server with its addresses (RFC 8109 §2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RootServer {
    /// The name in lower-case wire format.
    pub name: Box<[u8]>,
    /// The addresses of the root server.
    pub addresses: Vec<IpAddr>,
}

/// A zone with configured authoritative servers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StubZone {
    /// The apex, in lower-case wire format.
    pub zone: Box<[u8]>,
    /// The addresses of the zone's servers.
    pub servers: Vec<SocketAddr>,
}

/// The settings by which names without a forwarding rule are resolved.
#[derive(Clone, Debug)]
pub struct Recursion {
    /// The root hints.
    pub hints: Vec<RootServer>,
    /// Whether to send priming queries (RFC 8109).
    pub priming: bool,
    /// Whether to minimise QNAMEs (RFC 9156).
    pub qname_minimisation: bool,
    /// Whether to send QNAMEs in random letter case (0x20).
    pub case_randomisation: bool,
    /// Whether to send cookies (RFC 7873).
    pub cookies: bool,
    /// Whether to encrypt queries to authoritative servers that support it, although these prove no
    /// identity (RFC 9539).
    pub encrypt: bool,
    /// Whether to query servers over IPv4.
    pub ipv4: bool,
    /// Whether to query servers over IPv6.
    pub ipv6: bool,
    /// Whether to query servers at private and loopback addresses, too.
    pub query_private: bool,
    /// Whether to synthesize negative responses from validated NSEC records (RFC 8198).
    pub aggressive_nsec: bool,
    /// Whether to report errors to the reporting agents of zones (RFC 9567).
    pub error_reports: bool,
    /// Maximum number of octets of a response over UDP.
    pub udp_size: u16,
    /// The addresses on which this server listens; these are never queried.
    pub own: Vec<SocketAddr>,
    /// Zones with configured servers.
    pub stubs: Vec<StubZone>,
    /// The slot for the copy of the root zone, which replaces queries to the root servers (RFC
    /// 8806); `None` if no copy is configured.
    pub local_root: Option<LocalRootSlot>,
    /// The settings of validation; `None` disables it.
    pub validation: Option<Validation>,
}

impl Recursion {
    /// Settings without root servers and stub zones, and with all features off.
    pub(crate) const NONE: Self = Self {
        hints: Vec::new(),
        priming: false,
        qname_minimisation: false,
        case_randomisation: false,
        cookies: false,
        encrypt: false,
        ipv4: false,
        ipv6: false,
        query_private: false,
        aggressive_nsec: false,
        error_reports: false,
        udp_size: 1232,
        own: Vec::new(),
        stubs: Vec::new(),
        local_root: None,
        validation: None,
    };
}

/// The stub zones, prepared for look-up.
#[derive(Debug, Default)]
pub(crate) struct Stubs {
    zones: SuffixMap<usize>,
}

impl Stubs {
    pub(crate) fn new(stubs: &[StubZone]) -> Self {
        Self {
            zones: stubs
                .iter()
                .enumerate()
                .map(|(number, stub)| (stub.zone.clone(), number))
                .collect(),
        }
    }

    /// Returns the index of the nearest stub zone at or above a folded name, and the length of its
    /// apex.
    #[inline]
    pub(crate) fn nearest(&self, name: FoldedName<'_>) -> Option<(usize, u8)> {
        self.zones.nearest(&name).map(|(zone, number)| (*number, zone.len() as u8))
    }
}

/// The networks in which the servers of a delegation may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AddressReach {
    /// The servers may be in the Internet. They may be in private networks only if
    /// [`Recursion::query_private`] is set.
    Internet,
    /// The servers may be in the Internet and in private networks, but not at loopback addresses.
    /// This is for delegations below a stub zone.
    Private,
}

/// Returns whether this address may be queried. Addresses of this server, and addresses that cannot
/// belong to one host, may not (S24 in tests/SECURITY.md).
pub(crate) fn may_ask(recursion: &Recursion, reach: AddressReach, addr: SocketAddr) -> bool {
    let ip = addr.ip().to_canonical();
    let is_host = !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::from([255; 4]);
    let family = if ip.is_ipv4() { recursion.ipv4 } else { recursion.ipv6 };
    let is_reachable = match reach {
        _ if recursion.query_private || !Scope::Internal.contains(ip) => true,
        AddressReach::Internet => false,
        AddressReach::Private => !ip.is_loopback(),
    };
    is_host && family && !is_own(recursion, addr) && is_reachable
}

/// Returns whether this server listens on an address.
pub(crate) fn is_own(recursion: &Recursion, addr: SocketAddr) -> bool {
    let ip = addr.ip().to_canonical();
    recursion.own.iter().any(|own| {
        let same = own.ip().to_canonical() == ip || own.ip().is_unspecified() && ip.is_loopback();
        same && own.port() == addr.port()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recursion() -> Recursion {
        Recursion {
            hints: Vec::new(),
            priming: false,
            qname_minimisation: true,
            case_randomisation: true,
            cookies: true,
            encrypt: false,
            ipv4: true,
            ipv6: true,
            query_private: false,
            aggressive_nsec: false,
            error_reports: false,
            udp_size: 1232,
            own: vec!["0.0.0.0:53".parse().unwrap(), "198.51.100.1:53".parse().unwrap()],
            stubs: Vec::new(),
            local_root: None,
            validation: None,
        }
    }

    #[track_caller]
    fn check(recursion: &Recursion, asked: &[&str], spared: &[&str]) {
        check_within(recursion, AddressReach::Internet, asked, spared);
    }

    #[track_caller]
    fn check_within(recursion: &Recursion, reach: AddressReach, asked: &[&str], spared: &[&str]) {
        for (addrs, expected) in [(asked, true), (spared, false)] {
            for addr in addrs {
                assert_eq!(may_ask(recursion, reach, addr.parse().unwrap()), expected, "{addr}");
            }
        }
    }

    #[test]
    fn only_other_hosts_are_asked_and_private_ones_only_on_demand() {
        let private =
            ["10.1.2.3:53", "192.168.0.1:53", "100.64.0.1:53", "169.254.1.1:53", "[fd00::1]:53"];
        let never = [
            "0.0.0.0:53",
            "[::]:53",
            "224.0.0.1:53",
            "[ff02::1]:53",
            "255.255.255.255:53",
            "127.0.0.1:53",
        ];
        check(&recursion(), &["192.0.2.1:53", "[2001:db8::1]:53"], &private);
        check(&recursion(), &[], &never);
        check(
            &recursion(),
            &["198.51.100.1:5353"],
            &["198.51.100.1:53", "[::ffff:198.51.100.1]:53", "0.1.2.3:53"],
        );
        let open = Recursion { query_private: true, ..recursion() };
        check(&open, &private, &never);
        check_within(&recursion(), AddressReach::Private, &private, &never);
        check_within(&recursion(), AddressReach::Private, &[], &["127.0.0.2:53", "[::1]:53"]);
        check(&Recursion { ipv6: false, ..recursion() }, &["192.0.2.1:53"], &["[2001:db8::1]:53"]);
    }
}
