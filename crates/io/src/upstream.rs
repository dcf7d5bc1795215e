//! Sockets for queries to upstream servers. They are connected, so the kernel drops datagrams from
//! other addresses.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use libc::c_int;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::options;

/// Requested receive queue of one socket in bytes, which the kernel doubles. Thousands of sockets
/// may be open, each of which waits for a few answers, so a flood of datagrams to all of them must
/// not occupy much memory.
const RECEIVE_BUFFER: c_int = 24 << 10;

/// A UDP socket that exchanges datagrams with one upstream from one local port.
///
/// The send buffer has the default size of the system, because datagrams are sent at once.
#[derive(Debug)]
pub struct UpstreamSocket {
    socket: Socket,
}

impl UpstreamSocket {
    /// Opens a socket from `local_port`, or from a port that the kernel chooses if it is 0.
    ///
    /// # Errors
    /// `AddrInUse` if the port is in use: choose another port. Other errors mean that there is no
    /// route, no permission or no free file descriptor.
    pub fn connect(remote: SocketAddr, local_port: u16) -> io::Result<Self> {
        let domain = Domain::for_address(remote);
        let kind = Type::DGRAM.nonblocking().cloexec();
        let socket = Socket::new_raw(domain, kind, Some(Protocol::UDP))?;
        options::set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
        options::ignore_path_mtu(&socket, domain)?;
        if local_port != 0 {
            let local = match remote {
                SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, local_port)),
                SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, local_port)),
            };
            socket.bind(&SockAddr::from(local))?;
        }
        socket.connect(&SockAddr::from(remote))?;
        Ok(Self { socket })
    }

    /// Lets the kernel keep this number of octets until they are received, including the kernel's
    /// overhead for each datagram.
    ///
    /// # Errors
    /// The kernel refuses this size.
    pub fn keep_octets(&self, octets: usize) -> io::Result<()> {
        let octets = c_int::try_from(octets).unwrap_or(c_int::MAX);
        options::set(&self.socket, libc::SOL_SOCKET, libc::SO_RCVBUF, octets)
    }

    /// Sends one datagram without blocking.
    ///
    /// # Errors
    /// `WouldBlock` if the queue is full, `ConnectionRefused` and similar for ICMP errors about an
    /// earlier datagram.
    pub fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.send(bytes)
    }

    /// Receives one datagram without blocking, truncated to `buffer`.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, `ConnectionRefused` and similar for ICMP errors.
    pub fn recv(&self, buffer: &mut [u8]) -> io::Result<usize> {
        io::Read::read(&mut &self.socket, buffer)
    }

    /// Returns the local address and port.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let local = self.socket.local_addr()?.as_socket();
        local.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
    }
}

impl AsFd for UpstreamSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn check_exchange(server: &str) {
        let server = UdpSocket::bind(server).unwrap();
        let socket = UpstreamSocket::connect(server.local_addr().unwrap(), 0).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(socket.recv(&mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(socket.send(b"question").unwrap(), 8);
        let (len, peer) = server.recv_from(&mut buffer).unwrap();
        assert_eq!((len, peer), (8, socket.local_addr().unwrap()));
        server.send_to(b"answer", peer).unwrap();
        let len = socket.recv(&mut buffer).unwrap();
        assert_eq!(&buffer[..len], b"answer");
    }

    #[test]
    fn questions_go_out_and_answers_come_in() {
        check_exchange("127.0.0.1:0");
        check_exchange("[::1]:0");
    }

    #[test]
    fn only_the_upstream_is_heard() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UpstreamSocket::connect(server.local_addr().unwrap(), 0).unwrap();
        other.send_to(b"forged", socket.local_addr().unwrap()).unwrap();
        assert_eq!(socket.recv(&mut [0; 16]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn the_port_asked_is_used_or_told_as_taken() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let remote = server.local_addr().unwrap();
        let taken = UpstreamSocket::connect(remote, 0).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = UpstreamSocket::connect(remote, port).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        let free = (1024..port)
            .rev()
            .find_map(|port| UpstreamSocket::connect(remote, port).ok().map(|s| (port, s)));
        let (port, socket) = free.unwrap();
        assert_eq!(socket.local_addr().unwrap().port(), port);
    }

    #[test]
    fn a_closed_port_is_told_by_an_error() {
        let server = UdpSocket::bind("127.0.0.9:0").unwrap();
        let socket = UpstreamSocket::connect(server.local_addr().unwrap(), 0).unwrap();
        drop(server);
        socket.send(b"question").unwrap();
        let error = socket.recv(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_flood_pins_little_memory() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let socket = UpstreamSocket::connect(server.local_addr().unwrap(), 0).unwrap();
        let to = socket.local_addr().unwrap();
        for _ in 0..1000 {
            server.send_to(&[0; 1232], to).unwrap();
        }
        let mut buffer = [0; 2048];
        let queued = std::iter::from_fn(|| socket.recv(&mut buffer).ok()).count();
        assert!((8..40).contains(&queued), "{queued}");
    }
}
