//! The networks that the host reaches without a router, by hardware addresses (rtnetlink(7),
//! `RTM_GETLINK` and `RTM_GETROUTE`).

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};

use crate::netlink::{KernelTable, Listener, Queries, attributes, dump, ip};

/// Maximum number of networks that are read. A host with a bridge for each of many containers has
/// hundreds.
pub const MAX_LINK_NETWORKS: usize = 256;

/// The table of links: `RTM_GETLINK`, `RTM_NEWLINK`, and the number of octets of `struct
/// ifinfomsg`.
const LINKS: KernelTable = KernelTable { request: 18, entry: 16, fixed: 16 };
/// The table of routes: `RTM_GETROUTE`, `RTM_NEWROUTE`, and the number of octets of `struct rtmsg`.
const ROUTES: KernelTable = KernelTable { request: 26, entry: 24, fixed: 12 };
/// The type of interfaces with hardware addresses of six octets: Ethernet, Wi-Fi, bridges, VLANs.
const ETHERNET: u16 = 1;
/// Flags of interfaces without hardware addresses: loopback interfaces, and those that do not use
/// ARP.
const WITHOUT_NEIGHBOURS: u32 = (libc::IFF_LOOPBACK | libc::IFF_NOARP) as u32;
/// The type of ordinary routes, to a host or a network.
const UNICAST: u8 = 1;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_MULTIPATH: u16 = 9;
const RTA_VIA: u16 = 18;

/// A network whose hosts are neighbours: the kernel reaches them without a router.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkNetwork {
    /// The first address of the network.
    pub ip: IpAddr,
    /// Length of the prefix in bits.
    pub prefix_len: u8,
    /// The index of the interface.
    pub interface: u32,
}

/// Returns the networks on the links of this host, in order, at most [`MAX_LINK_NETWORKS`].
///
/// # Errors
/// The system does not report them.
pub fn link_networks() -> io::Result<Vec<LinkNetwork>> {
    let mut links = HashSet::new();
    dump(LINKS, |entry| links.extend(read_link(entry)))?;
    let mut found = Vec::new();
    dump(ROUTES, |entry| {
        let network = read_route(entry).filter(|network| links.contains(&network.interface));
        if found.len() < MAX_LINK_NETWORKS {
            found.extend(network);
        }
    })?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The changes of the kernel's tables of links and routes, as they happen.
#[derive(Debug)]
pub struct LinkEvents {
    listener: Listener,
}

impl LinkEvents {
    /// Subscribes to the tables. The first event is no change.
    ///
    /// # Errors
    /// The system does not offer the tables to this process.
    pub fn subscribe() -> io::Result<Self> {
        let groups = [libc::RTNLGRP_LINK, libc::RTNLGRP_IPV4_ROUTE, libc::RTNLGRP_IPV6_ROUTE];
        Ok(Self { listener: Listener::join(&groups, LINKS)? })
    }

    /// Discards the changes that wait to be read, at most a few hundred: [`link_networks`] has the
    /// present state.
    ///
    /// # Errors
    /// There will be no more changes.
    pub fn discard(&mut self) -> io::Result<()> {
        match self.listener.discard() {
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(()),
            discarded => discarded,
        }
    }
}

impl AsFd for LinkEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// How packets reach an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RouteTo {
    /// The packets go over the link of the interface with this index, without a router.
    Link(u32),
    /// The packets go to a router, into a tunnel, to this host itself, or nowhere.
    Elsewhere,
}

/// A socket that looks up routes to single addresses.
#[derive(Debug)]
pub struct RouteQueries {
    queries: Queries,
}

impl RouteQueries {
    /// Opens a socket to the kernel.
    ///
    /// # Errors
    /// The system does not offer its routes to this process.
    pub fn open() -> io::Result<Self> {
        Ok(Self { queries: Queries::open()? })
    }

    /// Returns the route to an address. Link-local addresses have a route on each link, so the
    /// result is not useful for them.
    ///
    /// # Errors
    /// The kernel did not answer. A late answer must not be mistaken for the answer to the next
    /// query: open another socket.
    pub fn find(&mut self, address: IpAddr) -> io::Result<RouteTo> {
        let mut facts = [0; 12];
        let mut found = RouteTo::Elsewhere;
        let mut each = |entry: &[u8]| {
            if let Some(network) = read_route(entry) {
                found = RouteTo::Link(network.interface);
            }
        };
        let asked = match address {
            IpAddr::V4(ip) => {
                (facts[0], facts[1]) = (libc::AF_INET as u8, 32);
                self.queries.find(ROUTES, &facts, (RTA_DST, &ip.octets()), &mut each)
            }
            IpAddr::V6(ip) => {
                (facts[0], facts[1]) = (libc::AF_INET6 as u8, 128);
                self.queries.find(ROUTES, &facts, (RTA_DST, &ip.octets()), &mut each)
            }
        };
        let unreachable = [libc::ENETUNREACH, libc::EHOSTUNREACH, libc::EACCES, libc::EINVAL];
        match asked {
            Err(error) if !error.raw_os_error().is_some_and(|code| unreachable.contains(&code)) => {
                Err(error)
            }
            Err(_) => Ok(RouteTo::Elsewhere),
            Ok(()) => Ok(found),
        }
    }
}

/// Returns the index of a link's interface, if neighbours on the link have hardware addresses.
fn read_link(entry: &[u8]) -> Option<u32> {
    let facts: &[u8; 16] = entry.first_chunk()?;
    let kind = u16::from_ne_bytes([facts[2], facts[3]]);
    let word =
        |at: usize| u32::from_ne_bytes([facts[at], facts[at + 1], facts[at + 2], facts[at + 3]]);
    (kind == ETHERNET && word(8) & WITHOUT_NEIGHBOURS == 0).then(|| word(4))
}

/// Returns the network of a route, if the route has no router.
fn read_route(entry: &[u8]) -> Option<LinkNetwork> {
    let (facts, rest) = entry.split_first_chunk::<12>()?;
    let (prefix_len, kind) = (facts[1], facts[7]);
    let (mut network, mut interface) = (None, None);
    for (attribute, value) in attributes(rest) {
        match attribute {
            RTA_DST => network = ip(value),
            RTA_OIF => interface = value.try_into().ok().map(u32::from_ne_bytes),
            RTA_GATEWAY | RTA_MULTIPATH | RTA_VIA => return None,
            _ => {}
        }
    }
    let ip = network?;
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    let is_unicast = kind == UNICAST && !ip.is_multicast() && !ip.is_loopback();
    (is_unicast && (1..=longest).contains(&prefix_len)).then_some(LinkNetwork {
        ip,
        prefix_len,
        interface: interface?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::read_part;
    use crate::netlink::tests::message;

    fn route(prefix_len: u8, kind: u8, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut facts = [0; 12];
        (facts[1], facts[7]) = (prefix_len, kind);
        message(ROUTES.entry, &facts, attributes)
    }

    #[test]
    fn routes_without_a_router_are_networks_of_links() {
        let device = 7_u32.to_ne_bytes();
        let lan: (u16, &[u8]) = (RTA_DST, &[192, 0, 2, 0]);
        let mut part = route(24, UNICAST, &[lan, (RTA_OIF, &device)]);
        part.extend(route(24, UNICAST, &[lan, (RTA_OIF, &device), (RTA_GATEWAY, &[192, 0, 2, 1])]));
        part.extend(route(24, UNICAST, &[lan, (RTA_MULTIPATH, &[0; 8])]));
        part.extend(route(32, 2, &[lan, (RTA_OIF, &device)]));
        part.extend(route(0, UNICAST, &[(RTA_OIF, &device)]));
        part.extend(route(129, UNICAST, &[(RTA_DST, &[0xfd; 16]), (RTA_OIF, &device)]));
        part.extend(route(24, UNICAST, &[lan, (RTA_OIF, &[7])]));
        let mut found = Vec::new();
        read_part(&part, ROUTES, &mut |entry| found.extend(read_route(entry))).unwrap();
        let ip = IpAddr::from([192, 0, 2, 0]);
        assert_eq!(found, [LinkNetwork { ip, prefix_len: 24, interface: 7 }]);
    }

    #[test]
    fn interfaces_without_hardware_addresses_have_no_neighbours() {
        let link = |kind: u16, flags: u32| {
            let mut facts = [0; 16];
            facts[2..4].copy_from_slice(&kind.to_ne_bytes());
            facts[4] = 3;
            facts[8..12].copy_from_slice(&flags.to_ne_bytes());
            read_link(&facts)
        };
        let up = libc::IFF_UP as u32;
        assert_eq!(link(ETHERNET, up), Some(u32::from_ne_bytes([3, 0, 0, 0])));
        assert_eq!(link(ETHERNET, up | libc::IFF_NOARP as u32), None);
        assert_eq!(link(772, up | libc::IFF_LOOPBACK as u32), None);
        assert_eq!((link(65_534, up), read_link(&[0; 15])), (None, None));
    }

    #[test]
    fn the_kernel_answers() {
        // There may be no link, as in a new network namespace.
        assert!(link_networks().unwrap().len() <= MAX_LINK_NETWORKS);
    }
}
