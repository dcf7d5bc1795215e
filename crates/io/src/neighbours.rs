//! The kernel's neighbour table, which maps IP addresses on the same link to hardware addresses
//! (rtnetlink(7), `RTM_GETNEIGH`).

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use crate::netlink::{KernelTable, Listener, Queries, attributes, dump, ip};

/// Number of octets of `struct ndmsg`, the fixed part of an entry.
const FACTS: usize = 12;
/// The table of neighbours: `RTM_GETNEIGH` and `RTM_NEWNEIGH`.
const TABLE: KernelTable = KernelTable { request: 30, entry: 28, fixed: FACTS };
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// States in which the kernel knows no hardware address: incomplete, failed, or without ARP.
const UNKNOWN: u16 = 0x01 | 0x20 | 0x40;

/// A neighbour: IP address and hardware address (EUI-48).
pub type Neighbour = (IpAddr, [u8; 6]);

/// Returns the neighbours on all links, IPv4 and IPv6, at most `most`.
///
/// # Errors
/// The system does not offer the table to this process, or ended its answer early.
pub fn neighbours(most: usize) -> io::Result<Vec<Neighbour>> {
    let mut found = Vec::new();
    dump(TABLE, |entry| {
        if found.len() < most {
            found.extend(read_neighbour(entry));
        }
    })?;
    Ok(found)
}

/// A socket that looks up single entries of the neighbour table.
#[derive(Debug)]
pub struct NeighbourQueries {
    queries: Queries,
}

impl NeighbourQueries {
    /// Opens a socket to the kernel.
    ///
    /// # Errors
    /// The system does not offer the table to this process.
    pub fn open() -> io::Result<Self> {
        Ok(Self { queries: Queries::open()? })
    }

    /// Returns the hardware address of a neighbour on an interface; `None` if the kernel does not
    /// know it. Takes a few microseconds.
    ///
    /// # Errors
    /// The kernel cannot look up single entries (before Linux 5.0), or did not answer. A late
    /// answer must not be mistaken for the answer to the next query: open another socket.
    pub fn find(&mut self, address: IpAddr, interface: u32) -> io::Result<Option<[u8; 6]>> {
        let mut facts = [0; FACTS];
        facts[0] = match address {
            IpAddr::V4(_) => libc::AF_INET as u8,
            IpAddr::V6(_) => libc::AF_INET6 as u8,
        };
        facts[4..8].copy_from_slice(&interface.to_ne_bytes());
        let mut found = None;
        let mut each = |entry: &[u8]| {
            found = read_neighbour(entry).filter(|(ip, _)| *ip == address).map(|(_, mac)| mac);
        };
        let asked = match address {
            IpAddr::V4(ip) => self.ask(&facts, &ip.octets(), &mut each),
            IpAddr::V6(ip) => self.ask(&facts, &ip.octets(), &mut each),
        };
        match asked {
            Ok(()) => Ok(found),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            // The interface no longer exists.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the kernel look up the hardware address of a neighbour, by sending an empty datagram
    /// to the discard port of the neighbour (RFC 863).
    ///
    /// # Errors
    /// The kernel does not send it.
    pub fn provoke(&self, address: IpAddr, interface: u32) -> io::Result<()> {
        const DISCARD: u16 = 9;
        let (own, to): (SocketAddr, SocketAddr) = match address {
            IpAddr::V4(ip) => ((Ipv4Addr::UNSPECIFIED, 0).into(), (ip, DISCARD).into()),
            IpAddr::V6(ip) => {
                let scope = if ip.is_unicast_link_local() { interface } else { 0 };
                let to = SocketAddrV6::new(ip, DISCARD, 0, scope);
                ((Ipv6Addr::UNSPECIFIED, 0).into(), to.into())
            }
        };
        let socket = UdpSocket::bind(own)?;
        socket.set_nonblocking(true)?;
        socket.send_to(&[], to).map(drop)
    }

    fn ask(
        &mut self,
        facts: &[u8],
        address: &[u8],
        each: &mut impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.queries.find(TABLE, facts, (NDA_DST, address), each)
    }
}

/// The result of reading the changes of the neighbour table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// The changes were read. If there are many, more may follow.
    Changes,
    /// The kernel dropped some changes: the table must be read again.
    Lost,
}

/// The changes of the kernel's neighbour table, as they happen.
#[derive(Debug)]
pub struct NeighbourEvents {
    listener: Listener,
}

impl NeighbourEvents {
    /// Subscribes to the changes of the neighbour table. The present entries of the table come
    /// first.
    ///
    /// # Errors
    /// The system does not offer the table to this process.
    pub fn subscribe() -> io::Result<Self> {
        Ok(Self { listener: Listener::join(&[libc::RTNLGRP_NEIGH], TABLE)? })
    }

    /// Calls `each` with the new and changed neighbours that wait to be read, at most a few
    /// hundred. Removed neighbours are left out.
    ///
    /// # Errors
    /// There will be no more changes.
    pub fn read(&mut self, mut each: impl FnMut(Neighbour)) -> io::Result<Heard> {
        let read =
            self.listener.read(TABLE, &mut |entry| read_neighbour(entry).map_or((), &mut each));
        match read {
            Ok(()) => Ok(Heard::Changes),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(Heard::Lost),
            Err(error) if error.kind() == ErrorKind::InvalidData => Ok(Heard::Lost),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for NeighbourEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn read_neighbour(entry: &[u8]) -> Option<Neighbour> {
    let (facts, rest) = entry.split_first_chunk::<FACTS>()?;
    let state = u16::from_ne_bytes([facts[8], facts[9]]);
    if state & UNKNOWN != 0 {
        return None;
    }
    let (mut address, mut hardware) = (None, None);
    for (kind, value) in attributes(rest) {
        match kind {
            NDA_DST => address = ip(value),
            NDA_LLADDR => hardware = value.try_into().ok(),
            _ => {}
        }
    }
    Some((address?, hardware?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::links::{LinkEvents, LinkNetwork, RouteQueries, RouteTo, link_networks};
    use crate::netlink::read_part;
    use crate::netlink::tests::message;
    use crate::poll::{Events, Interest, Poller, Trigger};

    fn neighbour(state: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut facts = [0; FACTS];
        facts[8..10].copy_from_slice(&state.to_ne_bytes());
        message(TABLE.entry, &facts, attributes)
    }

    #[test]
    fn neighbours_that_are_known_are_read() {
        let mac = [2, 0, 0, 0, 0, 9];
        let mut part = neighbour(0x02, &[(NDA_DST, &[192, 0, 2, 7]), (NDA_LLADDR, &mac)]);
        part.extend(neighbour(0x04, &[(NDA_LLADDR, &mac), (9, &[1]), (NDA_DST, &[0xfd; 16])]));
        part.extend(neighbour(0x20, &[(NDA_DST, &[192, 0, 2, 8]), (NDA_LLADDR, &mac)]));
        part.extend(neighbour(0x02, &[(NDA_DST, &[192, 0, 2, 9]), (NDA_LLADDR, &[])]));
        let mut found = Vec::new();
        read_part(&part, TABLE, &mut |entry| found.extend(read_neighbour(entry))).unwrap();
        assert_eq!(found, [(IpAddr::from([192, 0, 2, 7]), mac), (IpAddr::from([0xfd; 16]), mac)]);
    }

    /// The environment variable that marks the process in a network namespace in which the test
    /// runs.
    const IN_NAMESPACE: &str = "AVOCET_TEST_IN_NAMESPACE";

    /// Neighbours can be added in a network namespace. Uses `unshare` and `ip`.
    #[test]
    fn changes_are_heard_as_they_happen() {
        if std::env::var_os(IN_NAMESPACE).is_some() {
            return hear_changes();
        }
        let enter = ["--map-root-user", "--net"];
        let ip = ["ip", "link", "add", "d0", "type", "veth"];
        let can = Command::new("unshare").args(enter).args(ip).status();
        if !can.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no network namespace can be made with unshare and ip");
            return;
        }
        let name = "neighbours::tests::changes_are_heard_as_they_happen";
        let mut command = Command::new("unshare");
        command.args(enter).arg(std::env::current_exe().unwrap()).args([name, "--exact"]);
        let output = command.env(IN_NAMESPACE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    fn run(line: &str) {
        let mut words = line.split(' ');
        let status = Command::new(words.next().unwrap()).args(words).status();
        assert!(status.is_ok_and(|status| status.success()), "{line}");
    }

    fn hear_changes() {
        run("ip link add d0 type veth peer name d1");
        run("ip link set d0 up");
        let mut events = NeighbourEvents::subscribe().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(&events, 1, Interest::Read, Trigger::Level).unwrap();
        for (mac, last) in [("02:00:00:00:00:07", 7), ("02:00:00:00:00:08", 8)] {
            let neighbour = "192.0.2.9 dev d0 nud reachable";
            run(&format!("ip neigh replace {neighbour} lladdr {mac}"));
            let expected = (IpAddr::from([192, 0, 2, 9]), [2, 0, 0, 0, 0, last]);
            let (mut found, mut ready) = (Vec::new(), Events::with_capacity(1));
            while !found.contains(&expected) {
                poller.wait(&mut ready, Some(60_000)).unwrap();
                assert!(ready.iter().next().is_some(), "{found:?}");
                assert_eq!(events.read(|new| found.push(new)).unwrap(), Heard::Changes);
            }
        }
        assert_eq!(events.read(|_| {}).unwrap(), Heard::Changes, "nothing waits");
        find_single_neighbours();
    }

    /// The namespace has the links `d0`, which has a neighbour, and `d1`.
    fn find_single_neighbours() {
        let ip = IpAddr::from([192, 0, 2, 9]);
        let mut queries = NeighbourQueries::open().unwrap();
        let found: Vec<_> = (1..64).filter_map(|at| queries.find(ip, at).unwrap()).collect();
        assert_eq!(found, [[2, 0, 0, 0, 0, 8]]);
        run("ip address add 192.0.2.1/24 dev d0");
        run("ip route add 192.0.2.77/32 via 192.0.2.9");
        let networks = link_networks().unwrap();
        let lan = |network: &&LinkNetwork| network.ip == IpAddr::from([192, 0, 2, 0]);
        let lan = networks.iter().find(lan).unwrap();
        assert_eq!(lan.prefix_len, 24);
        hear_changes_of_links();
        let mut routes = RouteQueries::open().unwrap();
        let mut route = |last| routes.find(IpAddr::from([192, 0, 2, last])).unwrap();
        assert_eq!(route(9), RouteTo::Link(lan.interface));
        assert_eq!(route(77), RouteTo::Elsewhere, "a router");
        assert_eq!(route(1), RouteTo::Elsewhere, "this host");
        assert_eq!(routes.find(IpAddr::from([198, 51, 100, 1])).unwrap(), RouteTo::Elsewhere);
        assert_eq!(routes.find(IpAddr::from([0xfd; 16])).unwrap(), RouteTo::Elsewhere);
        let other = IpAddr::from([0xfd; 16]);
        assert!((1..64).all(|at| queries.find(other, at).unwrap().is_none()));
    }

    fn hear_changes_of_links() {
        let mut events = LinkEvents::subscribe().unwrap();
        let (mut poller, mut ready) = (Poller::new().unwrap(), Events::with_capacity(1));
        poller.add(&events, 1, Interest::Read, Trigger::Level).unwrap();
        for change in [
            "ip route add 198.51.100.128/25 dev d0",
            "ip route del 198.51.100.128/25 dev d0",
            "ip -6 route add 2001:db8:9::/64 dev d0",
            "ip link set d1 up",
            "ip link set d1 down",
        ] {
            events.discard().unwrap();
            run(change);
            poller.wait(&mut ready, Some(60_000)).unwrap();
            assert!(ready.iter().next().is_some(), "{change}");
        }
    }

    #[test]
    fn the_kernel_answers() {
        // There may be no neighbour, as in a new network namespace.
        assert!(neighbours(1).unwrap().len() <= 1);
    }
}
