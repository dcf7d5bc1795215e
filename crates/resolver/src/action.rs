//! The output of the resolver: what its driver must do, in order. The driver executes the actions
//! in the list, and then clears the list.

use std::ops::Range;

use crate::answer::{Answers, Resolved};
use crate::exchange::endpoint::{Endpoint, EndpointId, SocketId};
use crate::plan::HeaderPlace;
use crate::trace::Trace;

/// Maximum number of traces whose memory is kept: about the number of questions that end in one
/// pass of the driver's event loop.
const MAX_SPARE: usize = 64;

/// An instruction of the resolver to its driver.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a message.
    Send {
        /// The socket or connection to send from. If it is not open, the driver opens it first,
        /// connected to the server. A UDP socket gets a random port from 1024 to 65535.
        socket: SocketId,
        /// The server.
        to: Endpoint,
        /// Whether to close the socket first, and open it again with another port.
        renew: bool,
        /// The message, as a range of the octets in [`Actions`]. For TCP, the message is without
        /// its length prefix.
        octets: Range<usize>,
        /// Length of the PROXY protocol header at the start of `octets`, which is not part of the
        /// message. A connection that begins with such a header carries only this message.
        header_len: u8,
        /// The position of a PROXY protocol header on an encrypted connection.
        header_place: HeaderPlace,
    },
    /// Close a socket or connection that served one query.
    Close {
        /// The socket or connection.
        socket: SocketId,
    },
    /// Keep a connection open while it is idle for this time, which the server permits (RFC 7828).
    KeepIdle {
        /// The connection.
        socket: SocketId,
        /// Idle time in milliseconds. With zero, close the connection as soon as no query is
        /// outstanding.
        idle_ms: u32,
    },
    /// Close the socket pool and the connection of a server. The server is no longer in the plan,
    /// and no query to it is outstanding. Another server may get its [`EndpointId`].
    Forget {
        /// The server.
        endpoint: EndpointId,
    },
    /// Answer these waiters with stale data, because they have waited long.
    Overdue {
        /// The waiters, as a range of the waiters in [`Actions`].
        waiters: Range<usize>,
    },
    /// Answer all waiters of a question, which is resolved or has failed.
    Finish {
        /// The waiters, as a range of the waiters in [`Actions`]; empty after a prefetch.
        waiters: Range<usize>,
        /// The result.
        resolved: Resolved,
        /// The parameters of the question. Together with the question in the message, they are the
        /// answer's cache key.
        asked: AskedFor,
    },
}

/// The parameters of a submitted question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskedFor {
    /// Number of octets of the question.
    pub question_len: usize,
    /// The hash of the question, as submitted.
    pub hash: u64,
    /// Whether DO was set.
    pub dnssec_ok: bool,
    /// Whether CD was set.
    pub checking_disabled: bool,
}

/// Actions with the octets and waiters that they refer to. The memory is reused.
#[derive(Debug)]
pub struct Actions<W> {
    /// The actions in order.
    pub list: Vec<Action>,
    /// The octets of queries to be sent.
    pub octets: Vec<u8>,
    /// The answers of finished questions.
    pub answers: Answers,
    /// The waiters to which actions refer.
    pub waiters: Vec<W>,
    /// The traces of questions that ended, in the order of the actions for these questions.
    traces: Vec<ActionTrace>,
    /// Unused traces, whose memory is reused.
    spare: Vec<Trace>,
}

/// The trace of a question, with the range of actions for this question.
#[derive(Debug)]
struct ActionTrace {
    /// The indices of the actions in the list.
    actions: Range<usize>,
    trace: Trace,
}

impl<W> Default for Actions<W> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            octets: Vec::new(),
            answers: Answers::default(),
            waiters: Vec::new(),
            traces: Vec::new(),
            spare: Vec::new(),
        }
    }
}

impl<W> Actions<W> {
    /// Clears all lists, once the actions are executed.
    pub fn clear(&mut self) {
        self.list.clear();
        self.octets.clear();
        self.answers.clear();
        self.waiters.clear();
        // The early return matters because `clear` is called in each pass of the event loop, mostly
        // without traces.
        if self.traces.is_empty() {
            return;
        }
        let room = MAX_SPARE - self.spare.len();
        self.spare.extend(self.traces.drain(..).map(|one| one.trace).take(room));
    }

    /// Returns the trace of the question to which the action with this index belongs, if the
    /// resolver [hands traces over](crate::Resolver::hand_traces_over).
    #[must_use]
    pub fn trace_of(&self, place: usize) -> Option<&Trace> {
        let next = self.traces.partition_point(|one| one.actions.start <= place);
        let found = self.traces.get(next.checked_sub(1)?)?;
        found.actions.contains(&place).then_some(&found.trace)
    }

    /// Adds the trace that belongs to the next action.
    pub(crate) fn put_trace(&mut self, trace: Trace) {
        let next = self.list.len();
        self.traces.push(ActionTrace { actions: next..next + 1, trace });
    }

    /// Adds the trace that belongs to the actions from index `first` on.
    pub(crate) fn put_trace_since(&mut self, first: usize, trace: Trace) {
        self.traces.push(ActionTrace { actions: first..self.list.len(), trace });
    }

    /// Returns an empty trace, with reused memory if possible.
    pub(crate) fn spare_trace(&mut self) -> Trace {
        self.spare.pop().unwrap_or_default()
    }
}
