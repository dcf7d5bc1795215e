//! Connections of proxies that have not sent the address of their client yet.
//!
//! The PROXY header comes before all other data, including TLS. A connection stays here until its
//! header is complete, and then begins as the connection of its client. The data after the header
//! stays in the socket.

use std::io::{self, Read};
use std::net::TcpStream;

use avocet_io::poll::{Interest, Poller, Trigger};
use avocet_wire::proxy::{self, MAX_READ_HEADER, NoHeader};

use super::streams::StreamClient;
use crate::token::Token;

/// Maximum number of connections of a worker that wait for a PROXY header.
const MAX_WAITING: usize = 1_024;

/// A connection that begins with a PROXY header.
pub(super) struct WaitingConnection {
    pub(super) stream: TcpStream,
    /// The proxy, and the address to which it connected.
    proxy: StreamClient,
    /// The octets of the header that have arrived.
    octets: Vec<u8>,
    since_ms: u64,
}

/// The state of the PROXY header of a connection.
pub(super) enum HeaderState {
    /// The header is complete. Holds the client that it states.
    Named(StreamClient),
    /// The header is incomplete.
    Waiting,
    /// The header is missing, or the connection has ended.
    Refused,
}

impl WaitingConnection {
    /// Creates a connection from which nothing was read.
    pub(super) fn new(stream: TcpStream, proxy: StreamClient, now_ms: u64) -> Self {
        Self { stream, proxy, octets: Vec::new(), since_ms: now_ms }
    }

    /// Reads the octets of the header that have arrived, and no octets after the header.
    pub(super) fn read(&mut self) -> HeaderState {
        match self.try_read() {
            Ok(state) => state,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => HeaderState::Waiting,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => HeaderState::Waiting,
            Err(_) => HeaderState::Refused,
        }
    }

    fn try_read(&mut self) -> io::Result<HeaderState> {
        let known = self.octets.len();
        let mut buffer = [0; MAX_READ_HEADER];
        buffer[..known].copy_from_slice(&self.octets);
        let arrived = self.stream.peek(&mut buffer[known..])?;
        if arrived == 0 {
            return Ok(HeaderState::Refused);
        }
        let all = &buffer[..known + arrived];
        // All octets of an incomplete header are read from the socket. Otherwise, the poller would
        // report them again.
        let (len, state) = match proxy::read_stream(all) {
            Ok(header) => {
                let ip = header.client.unwrap_or(self.proxy.ip);
                (header.len, HeaderState::Named(StreamClient { ip, ..self.proxy }))
            }
            Err(NoHeader::Incomplete) if all.len() < MAX_READ_HEADER => {
                (all.len(), HeaderState::Waiting)
            }
            Err(_) => return Ok(HeaderState::Refused),
        };
        let mut taken = vec![0; len - known];
        self.stream.read_exact(&mut taken)?;
        self.octets.extend(taken);
        Ok(state)
    }
}

/// The connections of a worker that wait for their header.
#[derive(Default)]
pub(super) struct Headers {
    slots: Vec<Option<WaitingConnection>>,
    open: usize,
}

impl Headers {
    /// Returns the number of connections.
    pub(super) fn open(&self) -> usize {
        self.open
    }

    /// Adds a connection. If there are already `most` connections, closes the oldest one first.
    /// Returns the number of closed connections.
    pub(super) fn insert(
        &mut self,
        poller: &Poller,
        waiting: WaitingConnection,
        most: usize,
    ) -> usize {
        let mut closed = 0;
        if self.open >= most.clamp(1, MAX_WAITING) {
            let begun = self.slots.iter().enumerate();
            let begun = begun.filter_map(|(at, one)| Some((one.as_ref()?.since_ms, at)));
            if let Some((_, oldest)) = begun.min() {
                closed += usize::from(self.remove(oldest).is_some());
            }
        }
        let free = self.slots.iter().position(Option::is_none);
        let slot = free.unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let token = Token::Header(slot as u32).pack();
        if poller.add(&waiting.stream, token, Interest::Read, Trigger::Level).is_err() {
            return closed + 1;
        }
        self.slots[slot] = Some(waiting);
        self.open += 1;
        closed
    }

    /// Reads from a connection. When its header is complete or refused, removes the connection and
    /// returns it with its client; the inner `None` means that the header was refused and the
    /// connection must be closed.
    pub(super) fn read(
        &mut self,
        poller: &Poller,
        slot: u32,
    ) -> Option<Option<(TcpStream, StreamClient)>> {
        let state = self.slots.get_mut(slot as usize)?.as_mut()?.read();
        if let HeaderState::Waiting = state {
            return None;
        }
        let stream = self.remove(slot as usize)?.stream;
        // The connection is later added to the poller again, as the connection of its client.
        let is_free = poller.remove(&stream).is_ok();
        match state {
            HeaderState::Named(client) if is_free => Some(Some((stream, client))),
            _ => Some(None),
        }
    }

    /// Closes connections that have waited too long, and returns their number.
    pub(super) fn expire(&mut self, now_ms: u64, most_ms: u64) -> usize {
        let before = self.open;
        for slot in 0..self.slots.len() {
            let is_late = |one: &WaitingConnection| now_ms.saturating_sub(one.since_ms) > most_ms;
            if self.slots[slot].as_ref().is_some_and(is_late) {
                self.remove(slot);
            }
        }
        before - self.open
    }

    fn remove(&mut self, slot: usize) -> Option<WaitingConnection> {
        let removed = self.slots.get_mut(slot)?.take();
        self.open -= usize::from(removed.is_some());
        removed
    }
}
