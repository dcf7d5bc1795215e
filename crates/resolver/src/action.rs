//! What the resolver wants done, in order. The driver does it and clears the list.

use std::net::SocketAddr;
use std::ops::Range;

use crate::answer::{Answers, Resolved};
use crate::exchange::endpoint::{EndpointId, SocketId};

/// One thing to be done.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a message.
    Send {
        /// From which socket or connection. One that is not open is to be opened, connected to the
        /// server: a UDP socket from a port drawn at random from 1024 to 65535.
        socket: SocketId,
        /// To whom.
        to: SocketAddr,
        /// First close the socket and open it again, from another port.
        renew: bool,
        /// The message, over TCP without its length, within the octets of [`Actions`].
        octets: Range<usize>,
    },
    /// Close a socket or connection that was for one query.
    Close {
        /// Which.
        socket: SocketId,
    },
    /// The plan no longer has this server and nothing is outstanding: close its pool and its
    /// connection. The number may be given to another one.
    Forget {
        /// Which.
        endpoint: EndpointId,
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
