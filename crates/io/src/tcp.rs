//! Non-blocking TCP listeners and connections. The crate `session` splits their octets into
//! messages.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::c_int;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::options;
use crate::peer::SocketName;
use crate::syscall::{check, is_idle};

/// Maximum number of established connections that wait for `accept`. The kernel limits it to
/// `somaxconn`.
const BACKLOG: c_int = 1024;

/// Maximum number of half-open connections with data in the SYN (RFC 7413, RFC 9210 §4.2).
const FAST_OPEN_QUEUE: c_int = 256;

/// A listening socket of a worker.
#[derive(Debug)]
pub struct TcpListener {
    socket: Socket,
}

impl TcpListener {
    /// Listens on `addr`, which all workers share (`SO_REUSEPORT`).
    ///
    /// # Errors
    /// The address does not belong to this host, another user's socket has it, or it is not
    /// permitted.
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let domain = Domain::for_address(addr);
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = Socket::new_raw(domain, kind, Some(Protocol::TCP))?;
        // For TCP, this option only permits a restarted server to bind despite connections in
        // TIME_WAIT.
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        if addr.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // Accepted connections inherit this option. Each write is complete, so waiting for more
        // data is useless.
        socket.set_tcp_nodelay(true)?;
        // Fast Open is optional: the system may have it disabled.
        let _ = options::set(&socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, FAST_OPEN_QUEUE);
        options::bind(&socket, addr)?;
        socket.listen(BACKLOG)?;
        Ok(Self { socket })
    }

    /// Takes over a socket that another process opened with [`TcpListener::bind`].
    ///
    /// # Errors
    /// The socket does not listen for TCP, or is an IPv6 socket that also accepts IPv4.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let socket = Socket::from(fd);
        let is_v6 = socket.local_addr()?.is_ipv6();
        let listens = socket.r#type()? == Type::STREAM && socket.is_listener()?;
        if !listens || (is_v6 && !socket.only_v6()?) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        socket.set_nonblocking(true)?;
        Ok(Self { socket })
    }

    /// Returns the next connection with its client's address, or `None` if none is waiting.
    ///
    /// # Errors
    /// The process or the system has no file descriptor or memory left: close a descriptor first. A
    /// connection that ended while it waited is skipped without an error.
    pub fn accept(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        loop {
            match self.accept_raw() {
                Ok((stream, name)) => return Ok(Some((stream, name.addr()))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                // accept(2) also reports network errors of the connection that it would return: try
                // the next connection.
                Err(error) if is_of_system(&error) => return Err(error),
                Err(_) => {}
            }
        }
    }

    fn accept_raw(&self) -> io::Result<(TcpStream, SocketName)> {
        let mut name = SocketName::EMPTY;
        let mut len = size_of::<SocketName>() as libc::socklen_t;
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the kernel writes at most `len` bytes to `name`, for which every bit pattern is
        // valid.
        let result = unsafe {
            libc::accept4(self.socket.as_raw_fd(), (&raw mut name).cast(), &mut len, flags)
        };
        let fd = check(result)?;
        // SAFETY: the kernel has just returned this descriptor, which has no other owner.
        Ok((unsafe { TcpStream::from_raw_fd(fd as _) }, name))
    }

    /// Returns the address and port that the socket listens on.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let local = self.socket.local_addr()?.as_socket();
        local.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
    }
}

impl AsFd for TcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Opens a blocking listener for a dedicated thread, even at an address that the host does not have
/// yet.
///
/// # Errors
/// The address is in use or not permitted.
pub fn listen(addr: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    options::bind(&socket, addr)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Reports whether an error of accept concerns the listener or the process rather than one
/// connection.
fn is_of_system(error: &io::Error) -> bool {
    const OURS: [c_int; 7] = [
        libc::EMFILE,
        libc::ENFILE,
        libc::ENOBUFS,
        libc::ENOMEM,
        libc::EBADF,
        libc::EINVAL,
        libc::ENOTSOCK,
    ];
    error.raw_os_error().is_none_or(|code| OURS.contains(&code))
}

/// Acknowledges received data at once. Otherwise the kernel waits up to 40 ms for data that it can
/// send together with the acknowledgement, while a peer with Nagle's algorithm (RFC 896) waits for
/// the acknowledgement. The kernel returns to delayed acknowledgements by itself, so this is needed
/// after each read.
///
/// # Errors
/// The system has no such option.
pub fn acknowledge_at_once(stream: &TcpStream) -> io::Result<()> {
    socket2::SockRef::from(stream).set_tcp_quickack(true)
}

/// Starts a connection to `remote`, from `local` if given (port 0: any).
///
/// The connection is established when the socket is writable and `TcpStream::take_error` returns
/// `None`.
///
/// # Errors
/// There is no route, no permission or no free file descriptor, or `local` is in use or belongs to
/// another host. Later failures are reported by `take_error`.
pub fn connect(remote: SocketAddr, local: Option<SocketAddr>) -> io::Result<TcpStream> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new_raw(Domain::for_address(remote), kind, Some(Protocol::TCP))?;
    socket.set_tcp_nodelay(true)?;
    if let Some(local) = local {
        // Lets `connect` choose the port, so that connections to different remote addresses can
        // share a port.
        let _ = options::set(&socket, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1);
        socket.bind(&SockAddr::from(local))?;
    }
    match socket.connect(&SockAddr::from(remote)) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) && !is_idle(&error) => {
            Err(error)
        }
        _ => Ok(TcpStream::from(socket)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{Events, Interest, Poller, Trigger};
    use std::io::{Read, Write};

    fn wait(fd: &impl AsFd, interest: Interest) {
        let (mut poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(1));
        poller.add(fd, 0, interest, Trigger::Level).unwrap();
        while events.is_empty() {
            poller.wait(&mut events, None).unwrap();
        }
    }

    fn check_accept(bound: &str) {
        let listener = TcpListener::bind(bound.parse().unwrap()).unwrap();
        assert!(listener.accept().unwrap().is_none());
        let client = connect(listener.local_addr().unwrap(), None).unwrap();
        wait(&listener, Interest::Read);
        let (mut accepted, peer) = listener.accept().unwrap().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        assert!(accepted.nodelay().unwrap() && client.nodelay().unwrap());
        let error = accepted.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        assert!(listener.accept().unwrap().is_none());
    }

    #[test]
    fn a_connection_with_data_in_both_directions_acknowledges_at_once_when_told_to() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        for _ in 0..30 {
            client.write_all(b"q").unwrap();
            server.read_exact(&mut [0]).unwrap();
            server.write_all(b"a").unwrap();
            client.read_exact(&mut [0]).unwrap();
        }
        let is_quick = || socket2::SockRef::from(&client).tcp_quickack().unwrap();
        assert!(!is_quick(), "the kernel delays acknowledgements of a dialogue");
        acknowledge_at_once(&client).unwrap();
        assert!(is_quick());
    }

    #[test]
    fn connections_are_accepted_ready_for_use() {
        check_accept("127.0.0.1:0");
        check_accept("[::1]:0");
    }

    #[test]
    fn connect_takes_the_local_address_given() {
        let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let local = "127.0.0.5:0".parse().unwrap();
        let client = connect(listener.local_addr().unwrap(), Some(local)).unwrap();
        wait(&client, Interest::Write);
        assert!(client.take_error().unwrap().is_none());
        assert_eq!(client.local_addr().unwrap().ip(), local.ip());
    }

    #[test]
    fn a_refused_connection_is_told_when_writable() {
        let listener = TcpListener::bind("127.0.0.9:0".parse().unwrap()).unwrap();
        let gone = listener.local_addr().unwrap();
        drop(listener);
        match connect(gone, None) {
            Ok(client) => {
                wait(&client, Interest::Write);
                let error = client.take_error().unwrap().unwrap();
                assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
        }
    }

    #[test]
    fn a_listener_taken_over_accepts_who_waited() {
        let old = TcpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = connect(old.local_addr().unwrap(), None).unwrap();
        let fd = old.as_fd().try_clone_to_owned().unwrap();
        drop(old);
        let new = TcpListener::from_fd(fd).unwrap();
        wait(&new, Interest::Read);
        assert_eq!(new.accept().unwrap().unwrap().1, client.local_addr().unwrap());
        let error = TcpListener::from_fd(client.into()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn listeners_of_several_workers_share_a_port() {
        let first = TcpListener::bind("[::1]:0".parse().unwrap()).unwrap();
        let again = TcpListener::bind(first.local_addr().unwrap()).unwrap();
        assert_eq!(first.local_addr().unwrap(), again.local_addr().unwrap());
    }
}
