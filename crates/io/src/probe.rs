//! Tests whether a server could listen at an address, before its workers do. The sockets of workers
//! share each address (`SO_REUSEPORT`), so a second server could also listen there without an
//! error.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Socket, Type};

use crate::options::{self, Local};

/// Binds an address exclusively for UDP and for TCP. Like the sockets of the workers, an IPv6
/// socket does not accept IPv4.
///
/// # Errors
/// The address is in use or not permitted.
pub fn probe(addr: SocketAddr) -> io::Result<Local> {
    probe_for(addr, &[Type::DGRAM, Type::STREAM])
}

/// Binds an address exclusively for TCP, as [`probe`] does.
///
/// # Errors
/// The address is in use or not permitted.
pub fn probe_stream(addr: SocketAddr) -> io::Result<Local> {
    probe_for(addr, &[Type::STREAM])
}

/// Binds an address exclusively for UDP, as [`probe`] does.
///
/// # Errors
/// The address is in use or not permitted.
pub fn probe_datagrams(addr: SocketAddr) -> io::Result<Local> {
    probe_for(addr, &[Type::DGRAM])
}

fn probe_for(addr: SocketAddr, kinds: &[Type]) -> io::Result<Local> {
    let mut local = Local::Here;
    for &kind in kinds {
        let socket = Socket::new(Domain::for_address(addr), kind, None)?;
        // Earlier connections in TIME_WAIT must not prevent the bind.
        socket.set_reuse_address(kind == Type::STREAM)?;
        if addr.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        local = options::bind(&socket, addr)?;
        if kind == Type::STREAM {
            // Several sockets may be bound with this option, but only one of them may listen.
            socket.listen(1)?;
        }
    }
    Ok(local)
}

/// Reports whether the system supports the family of an address. A system may be started without
/// IPv6.
#[must_use]
pub fn has_family(addr: SocketAddr) -> bool {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, None);
    socket.err().and_then(|error| error.raw_os_error()) != Some(libc::EAFNOSUPPORT)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;

    #[test]
    fn an_address_that_is_taken_for_either_transport_is_an_error() {
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = udp.local_addr().unwrap();
        assert_eq!(probe(addr).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(udp);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = tcp.local_addr().unwrap();
        assert_eq!(probe(addr).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(tcp);
        assert_eq!(probe(addr).unwrap(), Local::Here);
    }

    #[test]
    fn a_socket_of_ipv4_is_not_in_the_way_of_all_of_ipv6() {
        let udp = UdpSocket::bind("127.0.0.53:0").unwrap();
        let wildcard = SocketAddr::new("::".parse().unwrap(), udp.local_addr().unwrap().port());
        assert_eq!(probe(wildcard).unwrap(), Local::Here);
    }

    #[test]
    fn an_address_that_the_host_does_not_have_yet_can_be_bound() {
        assert_eq!(probe("198.51.100.53:0".parse().unwrap()).unwrap(), Local::NotYet);
        assert_eq!(probe("[2001:db8::53]:0".parse().unwrap()).unwrap(), Local::NotYet);
    }
}
