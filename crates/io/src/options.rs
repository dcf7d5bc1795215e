//! Socket options that std and socket2 lack, and those shared by several kinds of sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use libc::c_int;
use socket2::{Domain, SockAddr, Socket};

use crate::syscall::check;

/// Sets an option whose value is one C `int`.
pub(crate) fn set(socket: &impl AsFd, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` outlives the call and `len` is its size; the kernel only reads it.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    check(result).map(drop)
}

/// Reads an option whose value is an array of 32-bit words. Words that the kernel lacks stay zero.
pub(crate) fn read_array<const N: usize>(
    socket: &impl AsFd,
    level: c_int,
    name: c_int,
) -> io::Result<[u32; N]> {
    let fd = socket.as_fd().as_raw_fd();
    let mut value = [0u32; N];
    let mut len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `value`.
    let result = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &mut len) };
    check(result).map(|_| value)
}

/// Disables DF and ignores path MTUs learned from ICMP.
///
/// RFC 9715 recommends DNS over UDP without fragments, so the server sends only messages that fit
/// all usual paths. Two risks remain: a forged "packet too big" must not make this host fragment
/// its messages (RFC 9715 §1, Fragmentation Considered Poisonous), and routers must not drop
/// messages because of DF. `OMIT` avoids both: it clears DF and ignores the host's cache of path
/// MTUs.
pub(crate) fn ignore_path_mtu(socket: &impl AsFd, domain: Domain) -> io::Result<()> {
    if domain == Domain::IPV6 {
        set(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_OMIT)
    } else {
        set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_OMIT)
    }
}

/// Requests receive and send buffers of `bytes`. The system may choose a smaller size, which is not
/// an error.
///
/// A privileged process may exceed the limit of the system.
pub(crate) fn grow_buffers(socket: &impl AsFd, bytes: c_int) {
    let pairs = [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)];
    for (force, ask) in pairs {
        if set(socket, libc::SOL_SOCKET, force, bytes).is_err() {
            let _ = set(socket, libc::SOL_SOCKET, ask, bytes);
        }
    }
}

/// Whether the host has the address to which a socket is bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Local {
    /// The host has the address.
    Here,
    /// The host does not have the address yet. The socket receives packets once the host has the
    /// address.
    NotYet,
}

/// Binds a socket, even to an address that the host does not have yet: DHCP, a VLAN or duplicate
/// address detection (RFC 4862 §5.4) may take longer than the start of a server.
///
/// # Errors
/// The address is in use or not permitted.
pub(crate) fn bind(socket: &Socket, addr: SocketAddr) -> io::Result<Local> {
    match socket.bind(&SockAddr::from(addr)) {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => {}
        bound => return bound.map(|()| Local::Here),
    }
    let (level, option) = match addr {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_FREEBIND),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_FREEBIND),
    };
    set(socket, level, option, 1)?;
    socket.bind(&SockAddr::from(addr)).map(|()| Local::NotYet)
}
