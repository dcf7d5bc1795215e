//! What the resolver wants done, in order. The driver does it and clears the list.

use std::net::SocketAddr;
use std::ops::Range;

use crate::answer::{Answers, Resolved};
use crate::ids::{SocketId, UpstreamId};

/// One thing to be done.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a datagram from a socket that is connected to the upstream.
    SendDatagram {
        /// To whom.
        upstream: UpstreamId,
        /// From which socket.
        socket: SocketId,
        /// First close the socket and open another from a port drawn at random from 1024 to 65535.
        /// One that is not open is to be opened likewise in any case.
        renew: bool,
        /// The message, within the octets of [`Actions`].
        octets: Range<usize>,
    },
    /// Close a socket that was for one query.
    CloseSocket {
        /// Whose.
        upstream: UpstreamId,
        /// Which.
        socket: SocketId,
    },
    /// Send a message over the TCP connection to the upstream, which is opened if there is none.
    SendStream {
        /// To whom.
        upstream: UpstreamId,
        /// The message without its length, within the octets of [`Actions`].
        octets: Range<usize>,
    },
    /// Open a socket for one query, connected to an authoritative server, from a port drawn at
    /// random from 1024 to 65535, and send a datagram from it.
    OpenDatagram {
        /// The socket's number until it is closed; [`OpenStream`](Action::OpenStream) has the same
        /// numbers.
        socket: SocketId,
        /// The server.
        addr: SocketAddr,
        /// The message, within the octets of [`Actions`].
        octets: Range<usize>,
    },
    /// Connect to an authoritative server by TCP and send a message.
    OpenStream {
        /// The connection's number until it is closed.
        stream: SocketId,
        /// The server.
        addr: SocketAddr,
        /// The message without its length, within the octets of [`Actions`].
        octets: Range<usize>,
    },
    /// Close a socket of [`OpenDatagram`](Action::OpenDatagram).
    CloseDatagram {
        /// Which.
        socket: SocketId,
    },
    /// Close a connection of [`OpenStream`](Action::OpenStream).
    CloseStream {
        /// Which.
        stream: SocketId,
    },
    /// The plan no longer has this upstream and nothing is outstanding: close all its sockets
    /// and its connection. The identifier may come again for another one.
    Forget {
        /// Which.
        upstream: UpstreamId,
    },
    /// The waiter has waited long enough for its question: answer it with stale data.
    Overdue {
        /// One, within the waiters of [`Actions`].
        waiters: Range<usize>,
    },
    /// The question is resolved, or cannot be: answer all of these.
    Finish {
        /// Those that wait, within the waiters of [`Actions`]; none after a prefetch.
        waiters: Range<usize>,
        /// The answer.
        resolved: Resolved,
        /// What was asked for: with the question in the message, the answer's key in caches.
        asked: AskedFor,
    },
}

/// What a question was submitted with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskedFor {
    /// Octets of the question.
    pub question_len: usize,
    /// Its hash as given.
    pub hash: u64,
    /// DO.
    pub dnssec_ok: bool,
    /// CD.
    pub checking_disabled: bool,
}

/// Actions and the octets and waiters that they point to. Memory is kept between uses.
#[derive(Debug)]
pub struct Actions<W> {
    /// In the order in which they are to be done.
    pub list: Vec<Action>,
    /// Queries.
    pub octets: Vec<u8>,
    /// Answers.
    pub answers: Answers,
    /// Waiters.
    pub waiters: Vec<W>,
}

impl<W> Default for Actions<W> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            octets: Vec::new(),
            answers: Answers::default(),
            waiters: Vec::new(),
        }
    }
}

impl<W> Actions<W> {
    /// Forgets all, once it is done.
    pub fn clear(&mut self) {
        self.list.clear();
        self.octets.clear();
        self.answers.clear();
        self.waiters.clear();
    }
}
