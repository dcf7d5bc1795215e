//! The output of the resolver: what its driver must do, in order. The driver executes the list and
//! clears it.

use std::ops::Range;

use crate::answer::{Answers, Resolved};
use crate::exchange::endpoint::{Endpoint, EndpointId, SocketId};
use crate::plan::HeaderPlace;
use crate::trace::Trace;

/// Maximum number of traces whose memory is kept: about the number of questions that end in one
/// turn of the driver.
const MAX_SPARE: usize = 64;

/// An instruction to the driver.
#[derive(Clone, Debug)]
pub enum Action {
    /// Send a message.
    Send {
        /// The socket or connection to send from. If it is not open, the driver opens it, connected
        /// to the server: a UDP socket from a random port, from 1024 to 65535.
        socket: SocketId,
        /// The server.
        to: Endpoint,
        /// Whether to close the socket first and open it again with another port.
        renew: bool,
        /// The message in the octets of [`Actions`]; over TCP without its length.
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
    /// Keep a connection open while it is idle for this long: the server allows it (RFC 7828).
    KeepIdle {
        /// The connection.
        socket: SocketId,
        /// Idle time in milliseconds; zero to close the connection when no query is outstanding.
        idle_ms: u32,
    },
    /// Close the pool and the connection of a server: the plan no longer has it and no query is
    /// outstanding. Another server may get its number.
    Forget {
        /// The server.
        endpoint: EndpointId,
    },
    /// The waiters have waited long for the answer: answer them with stale data.
    Overdue {
        /// The waiters, as a range of the waiters in [`Actions`].
        waiters: Range<usize>,
    },
    /// The question is resolved or has failed: answer all its waiters.
    Finish {
        /// The waiters, as a range of the waiters in [`Actions`]; empty after a prefetch.
        waiters: Range<usize>,
        /// The result.
        resolved: Resolved,
        /// The question's parameters: with the question in the message they are the answer's cache
        /// key.
        asked: AskedFor,
    },
}

/// The parameters of a submitted question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskedFor {
    /// Number of octets of the question.
    pub question_len: usize,
    /// The hash as submitted.
    pub hash: u64,
    /// DO.
    pub dnssec_ok: bool,
    /// CD.
    pub checking_disabled: bool,
}

/// Actions with the octets and waiters that they refer to. The memory is reused.
#[derive(Debug)]
pub struct Actions<W> {
    /// The actions in order.
    pub list: Vec<Action>,
    /// Queries.
    pub octets: Vec<u8>,
    /// Answers.
    pub answers: Answers,
    /// Waiters.
    pub waiters: Vec<W>,
    /// Traces of questions that ended, in the order of their actions.
    traces: Vec<ActionTrace>,
    /// Memory for traces.
    spare: Vec<Trace>,
}

/// The trace of the question that actions are about.
#[derive(Debug)]
struct ActionTrace {
    /// The places of the actions in the list.
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
        // Most turns have no traces, and this function is called in each turn.
        if self.traces.is_empty() {
            return;
        }
        let room = MAX_SPARE - self.spare.len();
        self.spare.extend(self.traces.drain(..).map(|one| one.trace).take(room));
    }

    /// Returns the trace of the question that the action at a place of the list is about, if the
    /// resolver [hands traces over](crate::Resolver::hand_traces_over).
    #[must_use]
    pub fn trace_of(&self, place: usize) -> Option<&Trace> {
        let next = self.traces.partition_point(|one| one.actions.start <= place);
        let found = self.traces.get(next.checked_sub(1)?)?;
        found.actions.contains(&place).then_some(&found.trace)
    }

    /// Adds the trace of the next action.
    pub(crate) fn put_trace(&mut self, trace: Trace) {
        let next = self.list.len();
        self.traces.push(ActionTrace { actions: next..next + 1, trace });
    }

    /// Adds the trace of the actions from this place on.
    pub(crate) fn put_trace_since(&mut self, first: usize, trace: Trace) {
        self.traces.push(ActionTrace { actions: first..self.list.len(), trace });
    }

    /// Takes memory for a trace.
    pub(crate) fn spare_trace(&mut self) -> Trace {
        self.spare.pop().unwrap_or_default()
    }
}
