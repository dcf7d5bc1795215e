//! The sender of a datagram, in the kernel's format.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

const FAMILY_V4: u16 = libc::AF_INET as u16;
const FAMILY_V6: u16 = libc::AF_INET6 as u16;

/// A socket address in the kernel's layout: `sockaddr_in` is its first 16 bytes, `sockaddr_in6` all
/// 28.
///
/// Every bit pattern is valid, so the kernel may write it and safe code may read it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub(crate) struct SocketName {
    family: u16,
    /// The port in big-endian order.
    port: [u8; 2],
    /// IPv4: the address. IPv6: the flow label.
    word: [u8; 4],
    address_v6: [u8; 16],
    scope: u32,
}

/// An address family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const fn of(addr: &SocketAddr) -> Self {
        if addr.is_ipv6() { Self::V6 } else { Self::V4 }
    }
}

const _: () = assert!(size_of::<SocketName>() == size_of::<libc::sockaddr_in6>());

impl SocketName {
    /// Returns the length of a socket address of this family in bytes.
    pub(crate) const fn len(family: Family) -> libc::socklen_t {
        let bytes = match family {
            Family::V4 => size_of::<libc::sockaddr_in>(),
            Family::V6 => size_of::<libc::sockaddr_in6>(),
        };
        bytes as libc::socklen_t
    }

    pub(crate) const EMPTY: Self =
        Self { family: FAMILY_V4, port: [0; 2], word: [0; 4], address_v6: [0; 16], scope: 0 };

    pub(crate) fn ip(&self) -> IpAddr {
        if self.family == FAMILY_V6 {
            IpAddr::V6(Ipv6Addr::from(self.address_v6))
        } else {
            IpAddr::V4(Ipv4Addr::from(self.word))
        }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        let port = u16::from_be_bytes(self.port);
        match self.ip() {
            IpAddr::V4(ip) => SocketAddr::V4(SocketAddrV4::new(ip, port)),
            IpAddr::V6(ip) => SocketAddr::V6(SocketAddrV6::new(
                ip,
                port,
                u32::from_be_bytes(self.word),
                self.scope,
            )),
        }
    }
}

impl From<SocketAddr> for SocketName {
    fn from(addr: SocketAddr) -> Self {
        let port = addr.port().to_be_bytes();
        match addr {
            SocketAddr::V4(v4) => Self { port, word: v4.ip().octets(), ..Self::EMPTY },
            SocketAddr::V6(v6) => Self {
                family: FAMILY_V6,
                port,
                word: v6.flowinfo().to_be_bytes(),
                address_v6: v6.ip().octets(),
                scope: v6.scope_id(),
            },
        }
    }
}

/// The sender of a datagram and, on a wildcard socket, the local address to which it was sent.
///
/// This is all that is needed to send a reply, at once or later.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Peer {
    pub(crate) name: SocketName,
    /// The local address. IPv4 uses the first four bytes. Valid only if `has_local` is set.
    local: [u8; 16],
    has_local: bool,
}

// The tables of queries in flight have a `Peer` for each waiting client.
const _: () = assert!(size_of::<Peer>() == 48);

impl Peer {
    pub(crate) const EMPTY: Self =
        Self { name: SocketName::EMPTY, local: [0; 16], has_local: false };

    /// Returns the address of the sender.
    pub fn ip(&self) -> IpAddr {
        self.name.ip()
    }

    /// Returns the address and port of the sender.
    pub fn addr(&self) -> SocketAddr {
        self.name.addr()
    }

    /// Returns the local address to which the datagram was sent, if the socket is bound to a
    /// wildcard address.
    pub fn local_ip(&self) -> Option<IpAddr> {
        let octets = self.local_octets()?;
        if self.name.family == FAMILY_V6 {
            return Some(IpAddr::V6(Ipv6Addr::from(*octets)));
        }
        let [a, b, c, d, ..] = *octets;
        Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
    }

    /// Creates a peer to which replies are sent from this local address, or from an address that
    /// routing chooses.
    pub fn at(addr: SocketAddr, local: Option<IpAddr>) -> Self {
        let octets = |ip| match ip {
            IpAddr::V4(ip) => {
                let mut octets = [0; 16];
                octets[..4].copy_from_slice(&ip.octets());
                octets
            }
            IpAddr::V6(ip) => ip.octets(),
        };
        let mut peer = Self::from(addr);
        peer.set_local(local.filter(|ip| ip.is_ipv4() == addr.is_ipv4()).map(octets));
        peer
    }

    pub(crate) fn local_octets(&self) -> Option<&[u8; 16]> {
        self.has_local.then_some(&self.local)
    }

    pub(crate) fn set_local(&mut self, local: Option<[u8; 16]>) {
        self.has_local = local.is_some();
        self.local = local.unwrap_or_default();
    }
}

impl From<SocketAddr> for Peer {
    /// Creates a peer to which replies are sent from an address that routing chooses.
    fn from(addr: SocketAddr) -> Self {
        Self { name: addr.into(), ..Self::EMPTY }
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.local_ip() {
            Some(local) => write!(f, "{} (to {local})", self.addr()),
            None => write!(f, "{}", self.addr()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_round_trip(addr: &str) {
        let addr: SocketAddr = addr.parse().unwrap();
        let peer = Peer::from(addr);
        assert_eq!((peer.addr(), peer.ip(), peer.local_ip()), (addr, addr.ip(), None));
    }

    #[test]
    fn addresses_survive_the_kernel_layout() {
        check_round_trip("192.0.2.7:53");
        check_round_trip("[2001:db8::1]:5353");
        check_round_trip("[fe80::1%3]:65535");
    }

    #[test]
    fn local_address_has_the_family_of_the_peer() {
        let mut peer = Peer::from(SocketAddr::from(([192, 0, 2, 7], 53)));
        let mut octets = [0; 16];
        octets[..4].copy_from_slice(&[127, 0, 0, 2]);
        peer.set_local(Some(octets));
        assert_eq!(peer.local_ip(), Some(IpAddr::from([127, 0, 0, 2])));
        assert_eq!(format!("{peer:?}"), "192.0.2.7:53 (to 127.0.0.2)");
    }
}
