//! Echo requests of ICMP (RFC 792) and ICMPv6 (RFC 4443), one target per socket.
//!
//! A ping socket needs no privilege if `net.ipv4.ping_group_range` contains the group of the
//! process. A raw socket needs `CAP_NET_RAW`. Both are connected, so that the kernel drops messages
//! of other hosts.

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Number of octets of data in a request.
pub const PING_DATA: usize = 16;
/// Number of octets of the header of an echo message.
const HEADER: usize = 8;
/// TTL and hop limit: enough to reach all hosts of the Internet.
const TTL: u32 = 64;
/// Number of octets of the receive buffer: the longest IPv4 header, an echo message, and some more.
const ROOM: usize = 60 + HEADER + PING_DATA + 64;

/// Types of messages (RFC 792, RFC 4443).
const V4_REQUEST: u8 = 8;
const V4_REPLY: u8 = 0;
const V6_REQUEST: u8 = 128;
const V6_REPLY: u8 = 129;

/// A socket for the echo requests to one address.
#[derive(Debug)]
pub struct PingSocket {
    socket: Socket,
    is_v4: bool,
    /// Whether messages of IPv4 arrive with their IP header.
    is_raw: bool,
}

impl PingSocket {
    /// Opens a socket for this address.
    ///
    /// # Errors
    /// `PermissionDenied` if neither kind of socket is permitted. Other errors mean that there is
    /// no route or no free file descriptor.
    pub fn connect(remote: IpAddr) -> io::Result<Self> {
        let is_v4 = remote.is_ipv4();
        let (domain, protocol) = match is_v4 {
            true => (Domain::IPV4, Protocol::ICMPV4),
            false => (Domain::IPV6, Protocol::ICMPV6),
        };
        let open =
            |kind: Type| Socket::new_raw(domain, kind.nonblocking().cloexec(), Some(protocol));
        let (socket, is_raw) = match open(Type::DGRAM) {
            Ok(socket) => (socket, false),
            Err(error) if is_refused(&error) => match open(Type::RAW) {
                Ok(socket) => (socket, true),
                Err(error) if is_refused(&error) => {
                    return Err(io::Error::from(io::ErrorKind::PermissionDenied));
                }
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error),
        };
        match is_v4 {
            true => socket.set_ttl_v4(TTL)?,
            false => socket.set_unicast_hops_v6(TTL)?,
        }
        socket.connect(&SockAddr::from(SocketAddr::new(remote, 0)))?;
        Ok(Self { socket, is_v4, is_raw })
    }

    /// Sends a request with this data.
    ///
    /// # Errors
    /// There is no route, or a buffer is full.
    pub fn send(&self, data: [u8; PING_DATA]) -> io::Result<()> {
        let mut message = [0; HEADER + PING_DATA];
        message[0] = if self.is_v4 { V4_REQUEST } else { V6_REQUEST };
        // The identifier and the sequence number. Ping sockets replace the identifier.
        message[4..HEADER].copy_from_slice(&data[..4]);
        message[HEADER..].copy_from_slice(&data);
        if self.is_v4 {
            let sum = checksum(&message);
            message[2..4].copy_from_slice(&sum.to_be_bytes());
        }
        self.socket.send(&message).map(drop)
    }

    /// Reads a message. Returns whether it is the reply to a request with this data.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, or an error that another host reports.
    pub fn receive(&self, data: [u8; PING_DATA]) -> io::Result<bool> {
        let mut room = [0; ROOM];
        let len = (&self.socket).read(&mut room)?;
        let mut message = &room[..len.min(ROOM)];
        if self.is_raw && self.is_v4 {
            let header = message.first().map_or(0, |first| usize::from(first & 0xf) * 4);
            message = message.get(header..).unwrap_or_default();
        }
        let reply = if self.is_v4 { V4_REPLY } else { V6_REPLY };
        Ok(message.first() == Some(&reply) && message.get(HEADER..) == Some(&data[..]))
    }
}

impl AsFd for PingSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns whether an error means that this kind of socket is not permitted or not supported.
fn is_refused(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EACCES | libc::EPERM | libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT)
    )
}

/// Returns the Internet checksum (RFC 1071) of a message with an even number of octets.
fn checksum(message: &[u8]) -> u16 {
    let words =
        message.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum + (sum >> 16)) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Events, Interest, Poller, Trigger};

    #[test]
    fn a_host_replies_to_its_own_requests() {
        for address in ["127.0.0.1", "::1"] {
            let socket = match PingSocket::connect(address.parse().unwrap()) {
                Ok(socket) => socket,
                Err(error) => {
                    // A container may lack the privilege or IPv6.
                    eprintln!("no ping to {address}: {error}");
                    continue;
                }
            };
            let data = *b"sixteen octets!!";
            socket.send(data).unwrap();
            let (mut poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(1));
            poller.add(&socket, 0, Interest::Read, Trigger::Level).unwrap();
            let mut has_reply = false;
            while !has_reply {
                poller.wait(&mut events, None).unwrap();
                // A raw socket on loopback also receives the request itself.
                has_reply = socket.receive(data).unwrap();
            }
        }
    }

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
        assert_eq!(checksum(&[]), 0xffff);
    }
}
