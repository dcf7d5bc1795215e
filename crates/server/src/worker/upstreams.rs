//! The sockets towards upstream servers, as the resolver wants them used.
//!
//! The resolver draws slots and IDs and says when a slot is due for another port; here the
//! sockets are opened, sent from and read. Ports are drawn at random from all above 1023.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use avocet_io::frame::{FrameReader, FrameWriter, ReadBuffer, ReadState, WriteState};
use avocet_io::poll::{Event, Interest, Poller, Trigger};
use avocet_io::upstream::UpstreamSocket;
use avocet_io::uring::{BATCH, SyscallBatch};
use chacha20::rand_core::Rng;

use super::token::Token;
use crate::resolver_report::SocketCounts;

/// Ports tried before the kernel chooses one.
const PORT_DRAWS: usize = 8;
/// Ports below this are not used for queries.
const FIRST_PORT: u32 = 1024;
/// Sockets opened ahead of need in one turn, some 5 us each.
const WARM_AT_ONCE: usize = 8;
/// A connection to an upstream without traffic is closed after so many milliseconds.
const IDLE_MS: u64 = 20_000;
/// One on which queries went out and nothing came for so many milliseconds is dead: longer than a
/// query is waited for, and far shorter than the system takes to notice.
const SILENT_MS: u64 = 6_000;

/// A stream to an upstream.
struct Stream {
    tcp: TcpStream,
    reader: FrameReader,
    writer: FrameWriter,
    interest: Interest,
    active_ms: u64,
    /// When the first query went out of those after the last message that came.
    asked_ms: Option<u64>,
}

/// All sockets towards one upstream.
struct Upstream {
    addr: SocketAddr,
    /// So many slots of the pool were opened ahead of need.
    warmed: u32,
    pool: Vec<Option<UpstreamSocket>>,
    /// Sockets for one query, by their number above the pool's.
    fresh: HashMap<u32, UpstreamSocket>,
    stream: Option<Stream>,
}

/// A query to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query<'a> {
    /// To whom.
    pub(crate) upstream: u16,
    /// From which socket.
    pub(crate) socket: u32,
    /// The message.
    pub(crate) octets: &'a [u8],
}

/// What reading a stream of an upstream ended with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamState {
    /// It goes on.
    Open,
    /// It is closed, for this kind of error.
    Closed(io::ErrorKind),
}

/// The sockets towards all upstreams of a worker.
pub(crate) struct Upstreams {
    list: Vec<Option<Upstream>>,
    pool_size: u32,
    budget: usize,
    /// UDP sockets open.
    open: usize,
    /// Where the next socket that has to make room is looked for.
    victim: usize,
    buffer: ReadBuffer,
    /// None where io_uring is not to be had.
    batch: Option<SyscallBatch>,
}

impl Upstreams {
    /// None open. Sockets numbered below `pool_size` are kept and used again. At most `budget` UDP
    /// sockets are open at once.
    pub(crate) fn new(pool_size: u32, budget: usize) -> Self {
        let batch = SyscallBatch::new();
        Self {
            list: Vec::new(),
            pool_size,
            budget,
            open: 0,
            victim: 0,
            buffer: ReadBuffer::new(),
            batch,
        }
    }

    /// Makes sure that the socket is open, with another port if it is to be renewed.
    pub(crate) fn prepare(
        &mut self,
        poller: &Poller,
        (upstream, addr): (u16, SocketAddr),
        (socket, renew): (u32, bool),
        rng: &mut impl Rng,
    ) -> io::Result<()> {
        if renew {
            self.close_socket(upstream, socket);
        }
        if self.entry(upstream, addr).get(socket).is_some() {
            return Ok(());
        }
        if self.open >= self.budget {
            self.make_room();
        }
        self.entry(upstream, addr).open(poller, (upstream, socket), rng)?;
        self.open += 1;
        Ok(())
    }

    /// Closes a pooled socket: there are more upstreams than when the pools were sized. If it has
    /// queries outstanding, these are lost like any others.
    #[cold]
    fn make_room(&mut self) {
        let slots = self.pool_size as usize;
        for _ in 0..self.list.len() * slots {
            self.victim = (self.victim + 1) % (self.list.len() * slots);
            let (upstream, socket) = (self.victim / slots, self.victim % slots);
            if self.list[upstream].as_ref().is_some_and(|entry| entry.pool[socket].is_some()) {
                return self.close_socket(upstream as u16, socket as u32);
            }
        }
    }

    /// Sends what was prepared, by as few system calls as can be. `failed` is told of each socket
    /// that could not send, but not of full queues: that is a loss like any other.
    pub(crate) fn send(&mut self, queries: &[Query<'_>], mut failed: impl FnMut(&Query<'_>)) {
        for queries in queries.chunks(BATCH) {
            let Self { list, batch, .. } = self;
            let socket_of = |query: &Query<'_>| {
                let entry = list.get(usize::from(query.upstream)).and_then(Option::as_ref);
                entry.and_then(|entry| entry.get(query.socket))
            };
            let open = queries.iter().filter_map(|query| Some((query, socket_of(query)?)));
            let mut note = |query: &Query<'_>, result: io::Result<usize>| {
                if result.is_err_and(|error| error.kind() != io::ErrorKind::WouldBlock) {
                    failed(query);
                }
            };
            if queries.len() > 1
                && let Some(ring) = batch
            {
                let messages = open.clone().map(|(query, socket)| (socket.as_fd(), query.octets));
                let sent: Vec<&Query<'_>> = open.clone().map(|(query, _)| query).collect();
                if ring.send(messages, |at, result| note(sent[at], result)).is_ok() {
                    continue;
                }
                tracing::warn!("io_uring failed; sending with plain system calls from now on");
                *batch = None;
            }
            for (query, socket) in open {
                note(query, socket.send(query.octets));
            }
        }
    }

    /// Opens some sockets of the pools ahead of need. False once all are open.
    pub(crate) fn warm(&mut self, poller: &Poller, rng: &mut impl Rng) -> bool {
        let size = self.pool_size;
        if self.open + WARM_AT_ONCE > self.budget {
            return false;
        }
        let cold = self.list.iter_mut().enumerate().find_map(|(number, entry)| {
            let entry = entry.as_mut().filter(|entry| entry.warmed < size)?;
            Some((number as u16, entry))
        });
        let Some((upstream, entry)) = cold else { return false };
        for _ in 0..WARM_AT_ONCE {
            let socket = entry.warmed;
            if socket >= size {
                break;
            }
            entry.warmed += 1;
            if entry.get(socket).is_some() {
                continue;
            }
            match entry.open(poller, (upstream, socket), rng) {
                Ok(()) => self.open += 1,
                // It is tried again when it is drawn.
                Err(_) => entry.warmed = size,
            }
        }
        true
    }

    /// Receives one datagram from each of the sockets, by as few system calls as can be. `taken`
    /// gets each result; of a socket that is closed meanwhile, or has nothing, it hears nothing.
    pub(crate) fn receive(
        &mut self,
        sockets: &[(u16, u32)],
        buffer: &mut [u8],
        mut taken: impl FnMut((u16, u32), io::Result<&[u8]>),
    ) {
        for sockets in sockets.chunks(BATCH) {
            let Self { list, batch, .. } = self;
            let open = sockets.iter().filter_map(|&(upstream, socket)| {
                let entry = list.get(usize::from(upstream)).and_then(Option::as_ref)?;
                Some(((upstream, socket), entry.get(socket)?))
            });
            let mut take = |from: (u16, u32), result: io::Result<&[u8]>| match result {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => taken(from, result),
            };
            if sockets.len() > 1
                && let Some(ring) = batch
            {
                let from: Vec<(u16, u32)> = open.clone().map(|(from, _)| from).collect();
                if ring
                    .recv(open.clone().map(|(_, socket)| socket.as_fd()), |at, result| {
                        take(from[at], result)
                    })
                    .is_ok()
                {
                    continue;
                }
                tracing::warn!("io_uring failed; receiving with plain system calls from now on");
                *batch = None;
            }
            for (from, socket) in open {
                let received = socket.recv(buffer);
                take(from, received.map(|len| &buffer[..len]));
            }
        }
    }

    /// Closes a UDP socket.
    pub(crate) fn close_socket(&mut self, upstream: u16, socket: u32) {
        if let Some(Some(entry)) = self.list.get_mut(usize::from(upstream)) {
            self.open -= usize::from(entry.close(socket));
        }
    }

    /// Closes everything towards an upstream.
    pub(crate) fn forget(&mut self, upstream: u16) {
        if let Some(entry) = self.list.get_mut(usize::from(upstream)).and_then(Option::take) {
            self.open -= entry.pool.iter().flatten().count() + entry.fresh.len();
        }
    }

    /// Queues a message on the stream to an upstream, which is opened if there is none.
    pub(crate) fn send_stream(
        &mut self,
        poller: &Poller,
        (upstream, addr): (u16, SocketAddr),
        octets: &[u8],
        now_ms: u64,
    ) -> io::Result<()> {
        let token = Token::UpstreamStream(upstream).pack();
        let is_new = self.list.get(usize::from(upstream)).is_none_or(Option::is_none);
        let pool_size = self.pool_size;
        let entry = self.entry(upstream, addr);
        if is_new {
            // An upstream that is asked by TCP from the first uses no pool.
            entry.warmed = pool_size;
        }
        let stream = match &mut entry.stream {
            Some(stream) => stream,
            None => {
                let tcp = avocet_io::tcp::connect(addr, None)?;
                poller.add(&tcp, token, Interest::ReadWrite, Trigger::Level)?;
                entry.stream.insert(Stream {
                    tcp,
                    reader: FrameReader::new(),
                    writer: FrameWriter::new(),
                    interest: Interest::ReadWrite,
                    active_ms: now_ms,
                    asked_ms: None,
                })
            }
        };
        stream.active_ms = now_ms;
        stream.asked_ms.get_or_insert(now_ms);
        stream.writer.push(octets).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        if stream.interest == Interest::Read {
            stream.interest = Interest::ReadWrite;
            poller.modify(&stream.tcp, token, Interest::ReadWrite, Trigger::Level)?;
        }
        Ok(())
    }

    /// Writes and reads what can be on a stream; each message is given to `deliver`.
    pub(crate) fn drive_stream(
        &mut self,
        poller: &Poller,
        (upstream, event): (u16, Event),
        now_ms: u64,
        deliver: &mut impl FnMut(&[u8]),
    ) -> StreamState {
        let Self { list, buffer, .. } = self;
        let Some(Some(entry)) = list.get_mut(usize::from(upstream)) else {
            return StreamState::Open;
        };
        let Some(stream) = &mut entry.stream else { return StreamState::Open };
        match stream.drive(poller, event, buffer, (now_ms, deliver)) {
            Ok(ReadState::Closed) => {
                entry.stream = None;
                StreamState::Closed(io::ErrorKind::UnexpectedEof)
            }
            Ok(_) => StreamState::Open,
            Err(error) => {
                entry.stream = None;
                StreamState::Closed(error.kind())
            }
        }
    }

    /// Closes streams without traffic, and those that are dead; gives their upstreams.
    pub(crate) fn expire(&mut self, now_ms: u64, closed: &mut Vec<u16>) {
        for (number, entry) in self.list.iter_mut().enumerate() {
            let Some(entry) = entry else { continue };
            let is_over = |stream: &Stream| {
                let is_dead =
                    stream.asked_ms.is_some_and(|asked| now_ms.saturating_sub(asked) > SILENT_MS);
                is_dead || now_ms.saturating_sub(stream.active_ms) > IDLE_MS
            };
            if entry.stream.as_ref().is_some_and(is_over) {
                entry.stream = None;
                closed.push(number as u16);
            }
        }
    }

    /// What is open.
    pub(crate) fn counts(&self) -> SocketCounts {
        let mut counts = SocketCounts::default();
        for entry in self.list.iter().flatten() {
            counts.pooled += entry.pool.iter().flatten().count() as u64;
            counts.fresh += entry.fresh.len() as u64;
            counts.streams += u64::from(entry.stream.is_some());
        }
        counts
    }

    fn entry(&mut self, upstream: u16, addr: SocketAddr) -> &mut Upstream {
        let number = usize::from(upstream);
        let slots = self.pool_size as usize;
        if self.list.len() <= number {
            self.list.resize_with(number + 1, || None);
        }
        self.list[number].get_or_insert_with(|| Upstream {
            addr,
            warmed: 0,
            pool: std::iter::repeat_with(|| None).take(slots).collect(),
            fresh: HashMap::new(),
            stream: None,
        })
    }
}

impl Upstream {
    #[inline]
    fn get(&self, socket: u32) -> Option<&UpstreamSocket> {
        match self.pool.get(socket as usize) {
            Some(slot) => slot.as_ref(),
            None => self.fresh.get(&socket),
        }
    }

    fn open(
        &mut self,
        poller: &Poller,
        (upstream, socket): (u16, u32),
        rng: &mut impl Rng,
    ) -> io::Result<()> {
        let open = open_socket(self.addr, rng)?;
        poller.add(
            &open,
            Token::UpstreamSocket(upstream, socket).pack(),
            Interest::Read,
            Trigger::Level,
        )?;
        self.put(socket, open);
        Ok(())
    }

    fn put(&mut self, socket: u32, open: UpstreamSocket) {
        match self.pool.get_mut(socket as usize) {
            Some(slot) => *slot = Some(open),
            None => _ = self.fresh.insert(socket, open),
        }
    }

    /// Closing the descriptor takes it out of the poller as well. True if it was open.
    fn close(&mut self, socket: u32) -> bool {
        match self.pool.get_mut(socket as usize) {
            Some(slot) => slot.take().is_some(),
            None => self.fresh.remove(&socket).is_some(),
        }
    }
}

impl Stream {
    fn drive(
        &mut self,
        poller: &Poller,
        event: Event,
        buffer: &mut ReadBuffer,
        (now_ms, deliver): (u64, &mut impl FnMut(&[u8])),
    ) -> io::Result<ReadState> {
        if let Some(error) = self.tcp.take_error()? {
            return Err(error);
        }
        if event.is_writable()
            && self.writer.write(&mut self.tcp)? == WriteState::Drained
            && self.interest != Interest::Read
        {
            self.interest = Interest::Read;
            poller.modify(&self.tcp, event.token(), Interest::Read, Trigger::Level)?;
        }
        self.reader.read(&mut self.tcp, buffer, &mut |message| {
            self.active_ms = now_ms;
            self.asked_ms = None;
            deliver(message);
            ControlFlow::Continue(())
        })
    }
}

/// A socket towards `addr` from a random port.
pub(super) fn open_socket(addr: SocketAddr, rng: &mut impl Rng) -> io::Result<UpstreamSocket> {
    for _ in 0..PORT_DRAWS {
        let port = FIRST_PORT + rng.next_u32() % (u32::from(u16::MAX) + 1 - FIRST_PORT);
        match UpstreamSocket::connect(addr, port as u16) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            result => return result,
        }
    }
    UpstreamSocket::connect(addr, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::ChaCha12Rng;
    use chacha20::rand_core::SeedableRng;

    #[test]
    fn a_stream_on_which_nothing_is_answered_is_closed_and_needs_no_pool() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = server.local_addr().unwrap();
        let poller = Poller::new().unwrap();
        let mut upstreams = Upstreams::new(16, 64);
        for now_ms in [0, SILENT_MS / 2, SILENT_MS] {
            upstreams.send_stream(&poller, (0, addr), b"query", now_ms).unwrap();
        }
        assert!(!upstreams.warm(&poller, &mut ChaCha12Rng::from_seed([1; 32])));
        assert_eq!((upstreams.counts().pooled, upstreams.counts().streams), (0, 1));
        let mut closed = Vec::new();
        upstreams.expire(SILENT_MS, &mut closed);
        assert!(closed.is_empty());
        upstreams.expire(SILENT_MS + 1, &mut closed);
        assert_eq!((closed, upstreams.counts().streams), (vec![0], 0));
    }
}
