//! Relays without a cache: what a miss costs at least.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

use crate::message;
use crate::sys::{Address, Batch, NO_ADDRESS, Peers, Poll, Wait};
use crate::udp::bind;

/// How the socket towards the upstream is chosen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The next socket for each batch of clients' queries: the least a relay can cost.
    PerBatch,
    /// A random socket for each query: the least a relay that resists spoofing can cost.
    PerQuery,
}

/// Queries in flight on one upstream socket. Small enough that the tables stay in the CPU's cache.
const IN_FLIGHT: u16 = 128;

/// Who asked, and with which ID.
#[derive(Clone, Copy)]
struct Waiting {
    client: Address,
    client_id: u16,
    upstream_id: u16,
}

/// A socket connected to the upstream, and the queries sent on it by the low bits of their ID.
///
/// The low bits count up, so that no query takes the place of one in flight; the others are random.
struct Upstream {
    socket: UdpSocket,
    waiting: Vec<Waiting>,
    next: u16,
}

impl Upstream {
    fn connect(port: u16) -> io::Result<Self> {
        let socket = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        socket.connect((Ipv4Addr::LOCALHOST, port))?;
        let none = Waiting { client: NO_ADDRESS, client_id: 0, upstream_id: 0 };
        Ok(Self { socket, waiting: vec![none; usize::from(IN_FLIGHT)], next: 0 })
    }

    /// Gives a client's query the ID it has on this socket.
    fn take_in(&mut self, query: &mut [u8], client: Address, random: u16) {
        let client_id = message::id(query).unwrap_or_default();
        let upstream_id = (random & !(IN_FLIGHT - 1)) | self.next;
        self.waiting[usize::from(self.next)] = Waiting { client, client_id, upstream_id };
        self.next = (self.next + 1) % IN_FLIGHT;
        message::set_id(query, upstream_id);
    }

    /// Gives an answer the ID its client knows and returns the client; none if nobody waits for it.
    fn give_back(&self, answer: &mut [u8]) -> Option<Address> {
        let id = message::id(answer)?;
        let waiting = self
            .waiting
            .get(usize::from(id % IN_FLIGHT))
            .filter(|waiting| waiting.upstream_id == id)?;
        message::set_id(answer, waiting.client_id);
        Some(waiting.client)
    }
}

/// The number under which the clients' socket is polled; the others have their index.
const CLIENTS: u64 = u64::MAX;

/// Relays between the clients of `port` and the upstream at `upstream_port`, until killed.
pub(crate) fn relay(
    port: u16,
    upstream_port: u16,
    sockets: usize,
    choice: Choice,
) -> io::Result<()> {
    let clients = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    let opened: io::Result<Vec<_>> =
        (0..sockets.max(1)).map(|_| Upstream::connect(upstream_port)).collect();
    let mut relay =
        Relay { clients, upstreams: opened?, next: 0, random: Random(0x2545_f491_4f6c_dd1d) };
    let (mut poll, mut batch) = (Poll::new()?, Batch::new());
    poll.add(relay.clients.as_raw_fd(), CLIENTS)?;
    for (index, upstream) in relay.upstreams.iter().enumerate() {
        poll.add(upstream.socket.as_raw_fd(), index as u64)?;
    }
    loop {
        for number in poll.wait(-1)? {
            match (number, choice) {
                (CLIENTS, Choice::PerBatch) => relay.pass_batch(&mut batch)?,
                (CLIENTS, Choice::PerQuery) => relay.pass_each(&mut batch)?,
                (index, _) => relay.pass_answers(&mut batch, index as usize)?,
            }
        }
    }
}

struct Relay {
    clients: UdpSocket,
    upstreams: Vec<Upstream>,
    next: usize,
    random: Random,
}

impl Relay {
    fn pass_batch(&mut self, batch: &mut Batch) -> io::Result<()> {
        let received = batch.receive(self.clients.as_raw_fd(), Wait::No, Peers::Many)?;
        self.next = (self.next + 1) % self.upstreams.len();
        let upstream = &mut self.upstreams[self.next];
        for index in 0..received {
            let (buffer, length, client) = batch.datagram(index);
            upstream.take_in(&mut buffer[..*length], *client, self.random.bits());
        }
        batch.send_all(upstream.socket.as_raw_fd(), received, Peers::One);
        Ok(())
    }

    fn pass_each(&mut self, batch: &mut Batch) -> io::Result<()> {
        let received = batch.receive(self.clients.as_raw_fd(), Wait::No, Peers::Many)?;
        for index in 0..received {
            let chosen = self.random.below(self.upstreams.len());
            let (buffer, length, client) = batch.datagram(index);
            let query = &mut buffer[..*length];
            self.upstreams[chosen].take_in(query, *client, self.random.bits());
            // A refused send is a lost query; the client asks again.
            let _ = self.upstreams[chosen].socket.send(query);
        }
        Ok(())
    }

    fn pass_answers(&mut self, batch: &mut Batch, index: usize) -> io::Result<()> {
        let upstream = &self.upstreams[index];
        let received = batch.receive(upstream.socket.as_raw_fd(), Wait::No, Peers::One)?;
        for index in 0..received {
            let (buffer, length, to) = batch.datagram(index);
            // An answer nobody waits for goes to no address, which the kernel refuses.
            *to = upstream.give_back(&mut buffer[..*length]).unwrap_or(NO_ADDRESS);
        }
        batch.send_all(self.clients.as_raw_fd(), received, Peers::Many);
        Ok(())
    }
}

/// A xorshift generator: enough to spread load, not to resist anyone.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bits(&mut self) -> u16 {
        self.next() as u16
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_goes_back_under_the_clients_id() {
        let upstream_socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut upstream = Upstream::connect(upstream_socket.local_addr().unwrap().port()).unwrap();
        let client = Address { sin_port: 7, ..NO_ADDRESS };
        let mut message = *b"\x12\x34rest";
        upstream.take_in(&mut message, client, 0xaacd);
        assert_eq!(message[..2], [0xaa, 0x80]);
        assert_eq!(upstream.give_back(&mut message).map(|to| to.sin_port), Some(7));
        assert_eq!(message[..2], [0x12, 0x34]);
        assert!(upstream.give_back(&mut message).is_none());
    }
}
