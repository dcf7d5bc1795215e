//! The UDP sockets to which clients send queries: they receive and send datagrams in batches.
//!
//! A reply is sent from the address to which the query was sent. A socket bound to one address does
//! this anyway. A wildcard socket needs PKTINFO for this, which takes time and is therefore enabled
//! only for such sockets.
//!
//! ```
//! use std::net::UdpSocket;
//!
//! use avocet_io::udp::{Datagram, UdpListener};
//!
//! # fn main() -> std::io::Result<()> {
//! let mut listener = UdpListener::bind("127.0.0.1:0".parse().expect("an address"))?;
//! let client = UdpSocket::bind("127.0.0.1:0")?;
//! client.send_to(b"ping", listener.local_addr()?)?;
//!
//! // On loopback a datagram is queued as soon as it is sent.
//! let mut echo = |datagram: Datagram<'_>, reply: &mut [u8]| {
//!     reply[..datagram.bytes.len()].copy_from_slice(datagram.bytes);
//!     Some(datagram.bytes.len())
//! };
//! assert_eq!(listener.serve(&mut echo)?.sent, 1);
//!
//! let mut buffer = [0; 16];
//! assert_eq!(client.recv(&mut buffer)?, 4);
//! # Ok(())
//! # }
//! ```

use std::any::Any;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use libc::c_int;
use socket2::{Domain, Protocol, Socket, Type};

use crate::options;
use crate::peer::{Family, Peer};
use crate::slots::{MESSAGE_MAX, PacketInfo, Slots};

pub use crate::slots::BATCH;

/// Requested size in bytes of the receive queue and of the send queue of a listener: each has room
/// for about 5,000 small queries.
const SOCKET_BUFFER: c_int = 4 << 20;

/// A received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The bytes of the received datagram, at most 4096.
    pub bytes: &'a [u8],
    /// The sender of the received datagram.
    pub peer: &'a Peer,
    /// Whether the datagram was longer than `bytes`.
    pub truncated: bool,
}

/// The numbers of datagrams of one call of [`UdpListener::serve`] or [`LateReplies::flush`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Datagrams that were received.
    pub received: usize,
    /// Replies that the kernel has accepted.
    pub sent: usize,
    /// Replies that could not be sent: the queue was full, or the address is invalid or refused.
    pub dropped: usize,
}

/// Answers datagrams. A closure is a service that does not inspect datagrams in advance.
pub trait Service {
    /// Inspects each datagram of a batch, with its index in the batch and its sender, before the
    /// first datagram is answered. The service can then prefetch memory that the answers will need.
    fn look(&mut self, place: usize, bytes: &[u8], peer: &Peer);

    /// Answers a datagram: writes the reply to `reply`, which has 4 KiB, and returns its length, or
    /// `None` if there is no reply yet.
    ///
    /// A panic ends only this answer, so it must not leave shared state half changed.
    fn answer(&mut self, place: usize, datagram: Datagram<'_>, reply: &mut [u8]) -> Option<usize>;

    /// Reports that answering the last datagram panicked. The other datagrams of the batch are
    /// answered afterwards.
    fn failed(&mut self, panic: Panic);
}

/// The value that a panic carries.
pub type Panic = Box<dyn Any + Send>;

impl<F: FnMut(Datagram<'_>, &mut [u8]) -> Option<usize>> Service for F {
    #[inline]
    fn look(&mut self, _: usize, _: &[u8], _: &Peer) {}

    #[inline]
    fn answer(&mut self, _: usize, datagram: Datagram<'_>, reply: &mut [u8]) -> Option<usize> {
        self(datagram, reply)
    }

    fn failed(&mut self, panic: Panic) {
        resume_unwind(panic);
    }
}

/// A UDP socket of a worker, based on `recvmmsg` and `sendmmsg`.
pub struct UdpListener {
    /// The socket, shared with its [`LateReplies`].
    socket: Arc<Socket>,
    inbox: Slots,
    outbox: Slots,
}

/// Replies to queries of earlier batches. They are sent from the socket of a [`UdpListener`].
pub struct LateReplies {
    socket: Arc<Socket>,
    slots: Slots,
    /// Number of replies in `slots`.
    queued: usize,
    /// Numbers of replies since the last flush.
    done: Batch,
}

impl UdpListener {
    /// Opens a socket on `addr`. Each worker opens its own socket on the same address
    /// (`SO_REUSEPORT`).
    ///
    /// # Errors
    /// The address does not belong to this host, another user's socket has it, or it is not
    /// permitted.
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let domain = Domain::for_address(addr);
        let kind = Type::DGRAM.nonblocking().cloexec();
        let socket = Socket::new_raw(domain, kind, Some(Protocol::UDP))?;
        socket.set_reuse_port(true)?;
        if addr.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        options::grow_buffers(&socket, SOCKET_BUFFER);
        options::ignore_path_mtu(&socket, domain)?;
        options::bind(&socket, addr)?;
        Self::with_socket(socket)
    }

    /// Takes over a socket that another process opened with [`UdpListener::bind`].
    ///
    /// # Errors
    /// The descriptor is not a bound UDP socket, or is an IPv6 socket that also accepts IPv4.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let socket = Socket::from(fd);
        let local = bound_address(&socket)?;
        if socket.r#type()? != Type::DGRAM || (local.is_ipv6() && !socket.only_v6()?) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        socket.set_nonblocking(true)?;
        Self::with_socket(socket)
    }

    fn with_socket(socket: Socket) -> io::Result<Self> {
        let local = bound_address(&socket)?;
        let info = match local {
            SocketAddr::V4(addr) if addr.ip().is_unspecified() => {
                options::set(&socket, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?;
                PacketInfo::V4
            }
            SocketAddr::V6(addr) if addr.ip().is_unspecified() => {
                options::set(&socket, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
                PacketInfo::V6
            }
            _ => PacketInfo::Off,
        };
        let slots = || Slots::new(Family::of(&local), info);
        Ok(Self { socket: Arc::new(socket), inbox: slots(), outbox: slots() })
    }

    /// Creates an empty queue of late replies. The socket stays open as long as the queue exists.
    ///
    /// # Errors
    /// The kernel does not report the address of the socket.
    pub fn late_replies(&self) -> io::Result<LateReplies> {
        let slots = Slots::new(Family::of(&self.local_addr()?), self.inbox.info());
        let socket = Arc::clone(&self.socket);
        Ok(LateReplies { socket, slots, queued: 0, done: Batch::default() })
    }

    /// Returns the address and port to which the socket is bound.
    ///
    /// # Errors
    /// The kernel does not report them.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        bound_address(&self.socket)
    }

    /// Returns the number of datagrams that the kernel has discarded because the queue was full.
    ///
    /// The call asks the kernel (`SO_MEMINFO`), so there is no cost per packet. The kernel counts
    /// in 32 bits.
    pub fn overflows(&self) -> u64 {
        const WORDS: usize = libc::SK_MEMINFO_DROPS as usize + 1;
        let words = options::read_array::<WORDS>(&self.socket, libc::SOL_SOCKET, libc::SO_MEMINFO);
        words.map_or(0, |words| u64::from(words[WORDS - 1]))
    }

    /// Receives one batch without blocking, answers it, and sends all replies. If the result has no
    /// received datagrams, the queue is empty.
    ///
    /// # Errors
    /// Receiving fails for a reason other than an empty queue.
    pub fn serve(&mut self, service: &mut impl Service) -> io::Result<Batch> {
        let received = self.inbox.receive(self.socket.as_fd())?;
        for i in 0..received {
            let (bytes, peer, _) = self.inbox.datagram(i);
            service.look(i, bytes, peer);
        }
        let (mut next, mut replies) = (0, 0);
        while next < received {
            // Panics are caught once for the whole batch, because this costs as much as catching
            // them for one datagram.
            let answered = catch_unwind(AssertUnwindSafe(|| {
                while next < received {
                    let place = next;
                    next += 1;
                    let (bytes, peer, truncated) = self.inbox.datagram(place);
                    let datagram = Datagram { bytes, peer, truncated };
                    if let Some(len) = service.answer(place, datagram, self.outbox.reply(replies)) {
                        self.outbox.address(replies, peer, len);
                        replies += 1;
                    }
                }
            }));
            if let Err(panic) = answered {
                service.failed(panic);
            }
        }
        let sent = self.outbox.send(self.socket.as_fd(), replies);
        Ok(Batch { received, sent, dropped: replies - sent })
    }
}

impl LateReplies {
    /// Queues a reply of at most 4096 bytes. A longer reply counts as dropped. A full queue is sent
    /// first.
    pub fn queue(&mut self, peer: &Peer, bytes: &[u8]) {
        if self.queued == BATCH {
            self.send();
        }
        if bytes.len() > MESSAGE_MAX {
            self.done.dropped += 1;
            return;
        }
        self.slots.reply(self.queued)[..bytes.len()].copy_from_slice(bytes);
        self.slots.address(self.queued, peer, bytes.len());
        self.queued += 1;
    }

    /// Sends the queued replies, and returns the counts of all replies since the last flush.
    pub fn flush(&mut self) -> Batch {
        self.send();
        std::mem::take(&mut self.done)
    }

    fn send(&mut self) {
        let sent = self.slots.send(self.socket.as_fd(), self.queued);
        self.done.sent += sent;
        self.done.dropped += self.queued - sent;
        self.queued = 0;
    }
}

impl AsFd for UdpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn bound_address(socket: &Socket) -> io::Result<SocketAddr> {
    let local = socket.local_addr()?.as_socket();
    local.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    /// Serves until `wanted` datagrams were received. On loopback, datagrams are queued as soon as
    /// they are sent.
    fn serve_echo(listener: &mut UdpListener, wanted: usize) -> Batch {
        let mut total = Batch::default();
        while total.received < wanted {
            let batch = listener
                .serve(&mut |datagram: Datagram<'_>, reply: &mut [u8]| {
                    reply[..datagram.bytes.len()].copy_from_slice(datagram.bytes);
                    Some(datagram.bytes.len())
                })
                .unwrap();
            assert_ne!(batch.received, 0, "{total:?} of {wanted}");
            total.received += batch.received;
            total.sent += batch.sent;
            total.dropped += batch.dropped;
        }
        total
    }

    fn client(server: SocketAddr) -> UdpSocket {
        let any = if server.is_ipv6() { "[::1]:0" } else { "127.0.0.1:0" };
        let client = UdpSocket::bind(any).unwrap();
        client.connect(server).unwrap();
        // On loopback a sent datagram is already queued: a missing reply is lost and fails the test
        // at once.
        client.set_nonblocking(true).unwrap();
        client
    }

    fn check_echo(bound: &str) {
        let mut listener = UdpListener::bind(bound.parse().unwrap()).unwrap();
        let client = client(listener.local_addr().unwrap());
        for i in 0..150u16 {
            client.send(&i.to_be_bytes().repeat(1 + usize::from(i))).unwrap();
        }
        assert_eq!(serve_echo(&mut listener, 150), Batch { received: 150, sent: 150, dropped: 0 });
        let mut buffer = [0; 2048];
        for i in 0..150u16 {
            let len = client.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..len], i.to_be_bytes().repeat(1 + usize::from(i)));
        }
        let idle = listener.serve(&mut |_: Datagram<'_>, _: &mut [u8]| None).unwrap();
        assert_eq!(idle, Batch::default());
    }

    #[test]
    fn batches_are_answered() {
        check_echo("127.0.0.1:0");
        check_echo("[::1]:0");
    }

    /// A service that panics on `?` and echoes everything else.
    struct Fragile {
        failures: usize,
    }

    impl Service for Fragile {
        fn look(&mut self, _: usize, _: &[u8], _: &Peer) {}

        fn answer(&mut self, _: usize, datagram: Datagram<'_>, reply: &mut [u8]) -> Option<usize> {
            assert_ne!(datagram.bytes, b"?", "a fault, planted by a test");
            reply[0] = datagram.bytes[0];
            Some(1)
        }

        fn failed(&mut self, _: Panic) {
            self.failures += 1;
        }
    }

    #[test]
    fn a_panic_costs_one_answer_of_a_batch() {
        let mut listener = UdpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = client(listener.local_addr().unwrap());
        for byte in *b"?a??b?" {
            client.send(&[byte]).unwrap();
        }
        let mut fragile = Fragile { failures: 0 };
        assert_eq!(
            listener.serve(&mut fragile).unwrap(),
            Batch { received: 6, sent: 2, dropped: 0 }
        );
        assert_eq!(fragile.failures, 4);
        let mut byte = [0];
        for expected in *b"ab" {
            client.recv(&mut byte).unwrap();
            assert_eq!(byte, [expected]);
        }
    }

    #[test]
    fn only_what_is_answered_is_sent() {
        let mut listener = UdpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = client(listener.local_addr().unwrap());
        for byte in 0..10u8 {
            client.send(&[byte]).unwrap();
        }
        let odd_ones = &mut |datagram: Datagram<'_>, reply: &mut [u8]| {
            reply[0] = datagram.bytes[0];
            (datagram.bytes[0] % 2 == 1).then_some(1)
        };
        assert_eq!(listener.serve(odd_ones).unwrap(), Batch { received: 10, sent: 5, dropped: 0 });
        let mut byte = [0];
        for expected in [1, 3, 5, 7, 9] {
            client.recv(&mut byte).unwrap();
            assert_eq!(byte, [expected]);
        }
    }

    /// Sends a query to the address `asked` of a socket bound to `bound`. Checks that an immediate
    /// and a late reply come from `asked`.
    fn check_source(bound: &str, asked: &str) {
        let mut listener = UdpListener::bind(bound.parse().unwrap()).unwrap();
        let asked = SocketAddr::new(asked.parse().unwrap(), listener.local_addr().unwrap().port());
        let client = UdpSocket::bind((asked.ip(), 0)).unwrap();
        client.set_nonblocking(true).unwrap();
        let mut local = None;
        let mut late = None;
        for _ in 0..2 {
            client.send_to(b"q", asked).unwrap();
        }
        let mut first = true;
        let answer = &mut |datagram: Datagram<'_>, reply: &mut [u8]| {
            local = datagram.peer.local_ip();
            assert_eq!(datagram.peer.addr(), client.local_addr().unwrap());
            if std::mem::take(&mut first) {
                reply[0] = b'a';
                return Some(1);
            }
            late = Some(*datagram.peer);
            None
        };
        assert_eq!(listener.serve(answer).unwrap(), Batch { received: 2, sent: 1, dropped: 0 });
        let mut replies = listener.late_replies().unwrap();
        replies.queue(&late.unwrap(), b"late");
        assert_eq!(replies.flush(), Batch { received: 0, sent: 1, dropped: 0 });
        let wildcard = bound.parse::<SocketAddr>().unwrap().ip().is_unspecified();
        assert_eq!(local, wildcard.then_some(asked.ip()));
        let mut buffer = [0; 16];
        assert_eq!(client.recv_from(&mut buffer).unwrap(), (1, asked));
        assert_eq!(client.recv_from(&mut buffer).unwrap(), (4, asked));
    }

    #[test]
    fn replies_leave_from_the_address_asked() {
        check_source("0.0.0.0:0", "127.0.0.1");
        check_source("0.0.0.0:0", "127.0.0.2");
        check_source("[::]:0", "::1");
        check_source("127.0.0.2:0", "127.0.0.2");
        check_source("[::1]:0", "::1");
    }

    #[test]
    fn longer_datagrams_are_cut_and_flagged() {
        let mut listener = UdpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = client(listener.local_addr().unwrap());
        for len in [4095, 4096, 4097, 9000, 0] {
            client.send(&vec![7; len]).unwrap();
        }
        let mut seen = Vec::new();
        let note = &mut |datagram: Datagram<'_>, _: &mut [u8]| {
            seen.push((datagram.bytes.len(), datagram.truncated));
            None
        };
        listener.serve(note).unwrap();
        assert_eq!(seen, [(4095, false), (4096, false), (4096, true), (4096, true), (0, false)]);
    }

    #[test]
    fn discarded_datagrams_are_counted() {
        let listener = UdpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        options::set(&listener, libc::SOL_SOCKET, libc::SO_RCVBUF, 4096).unwrap();
        let client = client(listener.local_addr().unwrap());
        assert_eq!(listener.overflows(), 0);
        for _ in 0..200 {
            client.send(&[0; 512]).unwrap();
        }
        let lost = listener.overflows();
        assert!((1..200).contains(&lost), "{lost}");
    }

    #[test]
    fn late_replies_beyond_the_queue_are_sent_at_once() {
        let listener = UdpListener::bind("[::1]:0".parse().unwrap()).unwrap();
        let mut replies = listener.late_replies().unwrap();
        let client = client(listener.local_addr().unwrap());
        let peer = Peer::from(client.local_addr().unwrap());
        for i in 0..150u8 {
            replies.queue(&peer, &[i]);
        }
        replies.queue(&peer, &[0; 4097]);
        assert_eq!(replies.flush(), Batch { received: 0, sent: 150, dropped: 1 });
        assert_eq!(replies.flush(), Batch::default());
        let mut buffer = [0; 16];
        for i in 0..150u8 {
            assert_eq!((client.recv(&mut buffer).unwrap(), buffer[0]), (1, i));
        }
    }

    #[test]
    fn a_reply_that_cannot_be_sent_takes_no_other_along() {
        let listener = UdpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let mut replies = listener.late_replies().unwrap();
        let client = client(listener.local_addr().unwrap());
        let good = Peer::from(client.local_addr().unwrap());
        let port_zero = Peer::from(SocketAddr::from(([127, 0, 0, 1], 0)));
        let broadcast = Peer::from(SocketAddr::from(([255, 255, 255, 255], 53)));
        for (i, peer) in [port_zero, good, broadcast, port_zero, good, broadcast].iter().enumerate()
        {
            replies.queue(peer, &[i as u8]);
        }
        assert_eq!(replies.flush(), Batch { received: 0, sent: 2, dropped: 4 });
        let mut byte = [0];
        for expected in [1, 4] {
            client.recv(&mut byte).unwrap();
            assert_eq!(byte, [expected]);
        }
    }

    #[test]
    fn sockets_of_several_workers_share_a_port() {
        let first = UdpListener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let again = UdpListener::bind(first.local_addr().unwrap()).unwrap();
        assert_eq!(first.local_addr().unwrap(), again.local_addr().unwrap());
    }

    #[test]
    fn a_socket_taken_over_serves_what_was_queued() {
        let old = UdpListener::bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let asked = SocketAddr::from(([127, 0, 0, 3], old.local_addr().unwrap().port()));
        let client = client(asked);
        client.send(b"before").unwrap();
        let fd = old.as_fd().try_clone_to_owned().unwrap();
        drop(old);
        let mut new = UdpListener::from_fd(fd).unwrap();
        assert_eq!(serve_echo(&mut new, 1).sent, 1);
        let mut buffer = [0; 16];
        assert_eq!(client.recv(&mut buffer).unwrap(), 6);
    }

    #[test]
    fn only_udp_sockets_are_taken_over() {
        let stream = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let error = UdpListener::from_fd(stream.into()).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let both_families = UdpSocket::bind("[::]:0").unwrap();
        let error = UdpListener::from_fd(both_families.into()).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn path_mtu_is_not_believed_and_families_stay_apart() {
        let v6 = UdpListener::bind("[::]:0".parse().unwrap()).unwrap();
        let level = libc::IPPROTO_IPV6;
        let omit = [libc::IPV6_PMTUDISC_OMIT as u32];
        assert_eq!(options::read_array(&v6, level, libc::IPV6_MTU_DISCOVER).unwrap(), omit);
        assert!(v6.socket.only_v6().unwrap());
        let v4 = UdpListener::bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let omit = [libc::IP_PMTUDISC_OMIT as u32];
        assert_eq!(
            options::read_array(&v4, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER).unwrap(),
            omit
        );
    }
}
