//! The system calls: the only `unsafe` of this program.
//!
//! Sockets are owned by the types of `std`; here their descriptors are borrowed for one call.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A datagram of a client fits; more is cut off.
pub(crate) const DATAGRAM: usize = 2048;
/// The most datagrams one system call moves.
pub(crate) const BATCH: usize = 32;

static SOCKET_BUFFER: libc::c_int = 4 << 20;

/// The address of a client, as the kernel writes it.
pub(crate) type Address = libc::sockaddr_in;

/// An address to be overwritten.
pub(crate) const NO_ADDRESS: Address =
    Address { sin_family: 0, sin_port: 0, sin_addr: libc::in_addr { s_addr: 0 }, sin_zero: [0; 8] };

/// The length of a socket structure. They are all far smaller than 4 GiB.
const fn size<T>() -> libc::socklen_t {
    size_of::<T>() as libc::socklen_t
}

/// Asks for socket buffers that hold a full window of queries.
pub(crate) fn widen_buffers(socket: &UdpSocket) -> io::Result<()> {
    for option in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
        let value = (&raw const SOCKET_BUFFER).cast();
        // SAFETY: the pointer and length are those of a static integer.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                value,
                size::<libc::c_int>(),
            )
        };
        counted(result as isize)?;
    }
    Ok(())
}

/// Starts a connection from an address of this host and returns without waiting for it. The stream
/// does not block.
pub(crate) fn connect_from(source: Ipv4Addr, server: SocketAddrV4) -> io::Result<TcpStream> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers are passed.
    let raw = unsafe { libc::socket(libc::AF_INET, kind, 0) };
    counted(raw as isize)?;
    // SAFETY: the descriptor was just made and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    let (from, to) = (address(SocketAddrV4::new(source, 0)), address(server));
    // SAFETY: the address is a local that outlives the call, and as long as stated.
    let bound = unsafe { libc::bind(raw, (&raw const from).cast(), size::<Address>()) };
    counted(bound as isize)?;
    // SAFETY: as above.
    let result = unsafe { libc::connect(raw, (&raw const to).cast(), size::<Address>()) };
    match counted(result as isize) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(socket.into()),
    }
}

/// An address in the order of the network.
fn address(of: SocketAddrV4) -> Address {
    Address {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: of.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*of.ip()).to_be() },
        ..NO_ADDRESS
    }
}

/// Waits for one datagram and returns its length.
pub(crate) fn receive_from(
    socket: RawFd,
    buffer: &mut [u8],
    from: &mut Address,
) -> io::Result<usize> {
    let mut length = size::<Address>();
    let from = (&raw mut *from).cast();
    // SAFETY: buffer and address are exclusively borrowed and as long as stated.
    let result = unsafe {
        libc::recvfrom(socket, buffer.as_mut_ptr().cast(), buffer.len(), 0, from, &raw mut length)
    };
    counted(result)
}

/// Sends one datagram.
pub(crate) fn send_to(socket: RawFd, bytes: &[u8], to: &Address) -> io::Result<usize> {
    let to = (&raw const *to).cast();
    // SAFETY: bytes and address are borrowed and as long as stated.
    let result = unsafe {
        libc::sendto(socket, bytes.as_ptr().cast(), bytes.len(), 0, to, size::<Address>())
    };
    counted(result)
}

/// Whether a receive waits when nothing is there.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// Wait for the first datagram, take what else is there.
    ForOne,
    /// Take what is there.
    No,
}

/// Whether the datagrams of a batch carry addresses, or belong to a connected socket.
#[derive(Clone, Copy)]
pub(crate) enum Peers {
    /// The address of each datagram is received and sent.
    Many,
    /// The socket is connected.
    One,
}

/// Buffers, addresses and headers for one `recvmmsg` or `sendmmsg`.
pub(crate) struct Batch {
    buffers: Box<[[u8; DATAGRAM]; BATCH]>,
    addresses: Box<[Address; BATCH]>,
    lengths: [usize; BATCH],
    vectors: Box<[libc::iovec; BATCH]>,
    headers: Box<[libc::mmsghdr; BATCH]>,
}

impl Batch {
    pub(crate) fn new() -> Self {
        // SAFETY: all bits zero are a valid `iovec`: a null pointer and a zero length.
        let vectors = unsafe { Box::new_zeroed().assume_init() };
        // SAFETY: all bits zero are a valid `mmsghdr`: null pointers and zero lengths.
        let headers = unsafe { Box::new_zeroed().assume_init() };
        Self {
            buffers: Box::new([[0; DATAGRAM]; BATCH]),
            addresses: Box::new([NO_ADDRESS; BATCH]),
            lengths: [0; BATCH],
            vectors,
            headers,
        }
    }

    /// The whole buffer, the length and the address of one datagram.
    pub(crate) fn datagram(
        &mut self,
        index: usize,
    ) -> (&mut [u8; DATAGRAM], &mut usize, &mut Address) {
        (&mut self.buffers[index], &mut self.lengths[index], &mut self.addresses[index])
    }

    /// Receives up to a full batch and returns how many datagrams came; zero if none was there.
    pub(crate) fn receive(&mut self, socket: RawFd, wait: Wait, peers: Peers) -> io::Result<usize> {
        let flags = match wait {
            Wait::ForOne => libc::MSG_WAITFORONE,
            Wait::No => libc::MSG_DONTWAIT,
        };
        self.lengths = [DATAGRAM; BATCH];
        self.point_headers(0..BATCH, peers);
        let (headers, count) = (self.headers.as_mut_ptr(), BATCH as libc::c_uint);
        // SAFETY: the headers were just pointed at buffers and addresses of `self`, which is
        // exclusively borrowed for the call; there are `count` of them; no timeout is given.
        let result = unsafe { libc::recvmmsg(socket, headers, count, flags, std::ptr::null_mut()) };
        let received = none_if_empty(counted(result as isize))?;
        for (length, header) in self.lengths.iter_mut().zip(&self.headers[..received]) {
            *length = header.msg_len as usize;
        }
        Ok(received)
    }

    /// Sends the datagrams from `first` to before `end` and returns how many the kernel took.
    pub(crate) fn send(
        &mut self,
        socket: RawFd,
        first: usize,
        end: usize,
        peers: Peers,
    ) -> io::Result<usize> {
        self.point_headers(first..end, peers);
        let wanted = &mut self.headers[first..end];
        let (headers, count) = (wanted.as_mut_ptr(), wanted.len() as libc::c_uint);
        // SAFETY: as in `receive`; no length exceeds its buffer, as `point_headers` sees to.
        let result = unsafe { libc::sendmmsg(socket, headers, count, 0) };
        none_if_empty(counted(result as isize))
    }

    /// Sends all datagrams before `end` and passes over those the kernel refuses.
    pub(crate) fn send_all(&mut self, socket: RawFd, end: usize, peers: Peers) {
        let mut sent = 0;
        while sent < end {
            sent += self.send(socket, sent, end, peers).unwrap_or(0).max(1);
        }
    }

    /// Points the headers of a range at their buffers, lengths and, with many peers, addresses.
    fn point_headers(&mut self, range: Range<usize>, peers: Peers) {
        for index in range {
            self.vectors[index].iov_base = self.buffers[index].as_mut_ptr().cast();
            self.vectors[index].iov_len = self.lengths[index].min(DATAGRAM);
            let header = &mut self.headers[index].msg_hdr;
            header.msg_iov = &raw mut self.vectors[index];
            header.msg_iovlen = 1;
            (header.msg_name, header.msg_namelen) = match peers {
                Peers::Many => ((&raw mut self.addresses[index]).cast(), size::<Address>()),
                Peers::One => (std::ptr::null_mut(), 0),
            };
        }
    }
}

/// An epoll set: descriptors with the number each is known by.
pub(crate) struct Poll {
    descriptor: OwnedFd,
    events: [libc::epoll_event; BATCH],
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let raw = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        counted(raw as isize)?;
        // SAFETY: the descriptor was just made and has no other owner.
        let descriptor = unsafe { OwnedFd::from_raw_fd(raw) };
        Ok(Self { descriptor, events: [libc::epoll_event { events: 0, u64: 0 }; BATCH] })
    }

    /// Adds a descriptor to be told of when it can be read. It leaves the set when it is closed.
    pub(crate) fn add(&self, descriptor: RawFd, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: number };
        // SAFETY: the event is a local that outlives the call.
        let result = unsafe {
            libc::epoll_ctl(
                self.descriptor.as_raw_fd(),
                libc::EPOLL_CTL_ADD,
                descriptor,
                &raw mut event,
            )
        };
        counted(result as isize).map(drop)
    }

    /// Waits at most `millis` (-1: for ever) and returns the numbers of readable descriptors.
    pub(crate) fn wait(&mut self, millis: i32) -> io::Result<impl Iterator<Item = u64> + '_> {
        let raw = self.descriptor.as_raw_fd();
        // SAFETY: the events are exclusively borrowed and as many as stated.
        let result = unsafe {
            libc::epoll_wait(raw, self.events.as_mut_ptr(), BATCH as libc::c_int, millis)
        };
        let ready = match counted(result as isize) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        Ok(self.events[..ready].iter().map(|event| event.u64))
    }
}

/// The result of a system call: its count, or the error it left in `errno`.
fn counted(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

fn none_if_empty(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}
