//! Messages (letters) to a worker, from other workers and from other threads, such as a query for
//! the worker that resolves its name, or a response for the worker that holds the client's
//! connection.
//!
//! A sender adds all its messages and wakes the receiver once. The receiver takes all messages at
//! once.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use avocet_io::poll::Waker;
use avocet_nameserver::query::miss::{Miss, StreamRoute, Waiter};
use avocet_resolver::{Trace, Traced};
use avocet_session::quic::QuicPath;
use avocet_wire::{QuestionBuf, Rcode, SharedName};

/// Maximum number of waiting messages for one worker. Further messages are dropped and counted.
const MAX_WAITING: usize = 65_536;
/// Maximum number of octets of waiting responses and datagrams for one worker.
const MAX_OCTETS: usize = 64 << 20;

/// An order to resolve a question with a trace.
pub struct TraceOrder {
    /// The question.
    pub question: QuestionBuf,
    /// The keyed hash of the question.
    pub hash: u64,
    /// Whether DO is set.
    pub dnssec_ok: bool,
    /// Whether CD is set.
    pub checking_disabled: bool,
    /// The servers that a rule selects; empty for the servers of the plan.
    pub servers: Box<[SocketAddr]>,
    /// The channel that receives the trace. The worker drops the channel if it cannot make a trace.
    pub reply: Sender<Traced>,
}

/// A request for the kept traces of a name.
pub struct KeptOrder {
    /// The name.
    pub qname: SharedName,
    /// The channel that receives the traces. The latest trace is last.
    pub reply: Sender<Vec<Trace>>,
}

/// A datagram that belongs to a QUIC connection of another worker, because the client has changed
/// its address.
pub struct ForwardedDatagram {
    /// The endpoints of the datagram.
    pub path: QuicPath,
    /// The octets of the datagram.
    pub octets: Box<[u8]>,
}

/// The reply to an update of a zone.
pub struct LateUpdate {
    /// The client that waits for the reply.
    pub waiter: Waiter,
    /// The signed reply.
    pub message: Vec<u8>,
    /// The RCODE of the reply.
    pub rcode: Rcode,
}

/// A message to a worker. Most messages come from other workers.
pub enum Letter {
    /// A query for a name that the receiver resolves.
    Miss(Box<Miss>),
    /// The response to a query on a stream of the receiver.
    Answer(StreamRoute, Box<[u8]>),
    /// The reply to an update that arrived at the receiver.
    Updated(Box<LateUpdate>),
    /// The receiver must resolve a question with a trace.
    Trace(Box<TraceOrder>),
    /// The receiver must send the kept traces of a name.
    Kept(Box<KeptOrder>),
    /// A datagram for a QUIC connection of the receiver.
    Datagram(Box<ForwardedDatagram>),
    /// Clients were identified, so that their held queries can be answered.
    Identified,
    /// The receiver must close an idle connection of this client, which exceeds its limit.
    MakeRoom(IpAddr),
    /// The receiver must stop reading queries, complete the queries in flight, and end.
    Drain,
}

/// The messages for one worker that the worker has not taken yet.
pub struct Mailbox {
    waiting: Mutex<Waiting>,
    waker: Waker,
}

#[derive(Default)]
struct Waiting {
    letters: Vec<Letter>,
    /// Number of octets of the waiting responses and datagrams.
    octets: usize,
}

impl Mailbox {
    /// Creates an empty mailbox. `waker` wakes the worker that owns it.
    pub fn new(waker: Waker) -> Self {
        Self { waiting: Mutex::default(), waker }
    }

    /// Adds a message and wakes the owner of the mailbox. Returns the message if the mailbox is
    /// full.
    pub fn send(&self, letter: Letter) -> Result<(), Letter> {
        let octets = match &letter {
            Letter::Answer(_, octets) => octets.len(),
            Letter::Datagram(datagram) => datagram.octets.len(),
            Letter::Miss(_)
            | Letter::Updated(_)
            | Letter::Trace(_)
            | Letter::Kept(_)
            | Letter::MakeRoom(_)
            | Letter::Identified
            | Letter::Drain => 0,
        };
        let mut waiting = self.lock();
        let is_full = waiting.letters.len() >= MAX_WAITING || waiting.octets + octets > MAX_OCTETS;
        if is_full && !matches!(letter, Letter::Drain) {
            return Err(letter);
        }
        waiting.letters.push(letter);
        waiting.octets += octets;
        drop(waiting);
        self.waker.wake();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the owner of the mailbox.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Returns whether the mailbox is empty.
    pub fn is_empty(&self) -> bool {
        self.lock().letters.is_empty()
    }

    /// Takes all messages, and leaves the empty vector `spare` in the mailbox.
    pub fn take(&self, spare: &mut Vec<Letter>) {
        self.waker.clear();
        let mut waiting = self.lock();
        std::mem::swap(&mut waiting.letters, spare);
        waiting.octets = 0;
    }
}
