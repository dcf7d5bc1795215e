//! Queries that were sent and are waited for, and for a while those that no longer are.

use crate::chains::Chains;
use crate::ids::SocketId;

/// No task: the place is free.
const NONE: u32 = u32::MAX;
/// The number that stands for a connection among the sockets.
pub(crate) const STREAM: SocketId = SocketId::MAX;
/// Places in which queries that are no longer waited for are remembered.
const REMEMBERED: usize = 1024;

/// How a query ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closing {
    /// Nothing more will come for it.
    Answered,
    /// A late reply may come.
    Unanswered,
}

/// A query that is waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempt {
    pub(crate) task: u32,
    pub(crate) upstream: u16,
    /// The upstream's place in the task's rule.
    pub(crate) place: u8,
    pub(crate) id: u16,
    pub(crate) socket: SocketId,
    pub(crate) sent_ms: u64,
    /// When the next upstream is asked; the reply is waited for nevertheless.
    pub(crate) due_ms: u64,
    pub(crate) overdue: bool,
    /// It never left, for want of something of our own.
    pub(crate) unsent: bool,
    /// Sent beside the query that counts, to learn about the upstream.
    pub(crate) aside: bool,
    pub(crate) with_edns: bool,
    /// The reply must have the very letters.
    pub(crate) exact_case: bool,
    pub(crate) question: Vec<u8>,
}

/// All attempts: by number, and by where and how their replies come.
#[derive(Debug)]
pub(crate) struct Attempts {
    all: Vec<Attempt>,
    free: Vec<u32>,
    index: Chains,
    remembered: Box<[(u64, u64)]>,
}

fn key(upstream: u16, socket: SocketId, id: u16) -> u64 {
    u64::from(upstream) << 48 | u64::from(socket) << 16 | u64::from(id)
}

/// One chain for all queries of a socket, so that an error on it finds them.
fn hash(upstream: u16, socket: SocketId, id: u16) -> u64 {
    let id = if socket == STREAM { id } else { 0 };
    key(upstream, socket, id).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

impl Attempts {
    pub(crate) fn new(expected: usize) -> Self {
        let remembered = vec![(u64::MAX, 0); REMEMBERED].into();
        Self { all: Vec::new(), free: Vec::new(), index: Chains::new(expected), remembered }
    }

    pub(crate) fn find(&self, upstream: u16, socket: SocketId, id: u16) -> Option<u32> {
        self.index.candidates(hash(upstream, socket, id)).find(|&at| {
            let attempt = &self.all[at as usize];
            (attempt.upstream, attempt.socket, attempt.id) == (upstream, socket, id)
        })
    }

    /// One that waits on this socket.
    pub(crate) fn on_socket(&self, upstream: u16, socket: SocketId) -> Option<u32> {
        self.index.candidates(hash(upstream, socket, 0)).find(|&at| {
            let attempt = &self.all[at as usize];
            (attempt.upstream, attempt.socket) == (upstream, socket)
        })
    }

    /// One that was to leave from this socket.
    pub(crate) fn leaving_from(&self, upstream: u16, socket: SocketId) -> Option<u32> {
        self.index.candidates(hash(upstream, socket, 0)).find(|&at| {
            let attempt = &self.all[at as usize];
            (attempt.upstream, attempt.socket) == (upstream, socket) && !attempt.unsent
        })
    }

    /// All that wait on the connection, with their IDs.
    pub(crate) fn on_stream(&self, upstream: u16) -> Vec<(u32, u16)> {
        let waits = |attempt: &&Attempt| {
            attempt.task != NONE && attempt.socket == STREAM && attempt.upstream == upstream
        };
        let all = (0u32..).zip(&self.all);
        all.filter(|(_, attempt)| waits(attempt)).map(|(at, attempt)| (at, attempt.id)).collect()
    }

    /// Takes a place for an attempt with this question as sent; the caller fills in the rest
    /// before it calls [`Attempts::enter`].
    pub(crate) fn allocate(&mut self, question: &[u8]) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(Attempt::default());
            (self.all.len() - 1) as u32
        });
        let attempt = &mut self.all[at as usize];
        attempt.unsent = false;
        attempt.question.clear();
        attempt.question.extend_from_slice(question);
        at
    }

    /// Makes it findable.
    pub(crate) fn enter(&mut self, at: u32) {
        let attempt = &self.all[at as usize];
        self.index.insert(hash(attempt.upstream, attempt.socket, attempt.id), at);
    }

    /// No longer waits for it. Remembers it for a while if it was not `answered`.
    pub(crate) fn remove(&mut self, at: u32, closing: Closing) {
        let attempt = &mut self.all[at as usize];
        attempt.task = NONE;
        let (upstream, socket, id) = (attempt.upstream, attempt.socket, attempt.id);
        self.index.remove(hash(upstream, socket, id), at);
        if closing == Closing::Unanswered {
            let key = key(upstream, socket, id);
            self.remembered[key as usize % REMEMBERED] = (key, attempt.sent_ms);
        }
        self.free.push(at);
    }

    /// When a query was sent that is no longer waited for; tells it once.
    pub(crate) fn take_remembered(
        &mut self,
        upstream: u16,
        socket: SocketId,
        id: u16,
    ) -> Option<u64> {
        let key = key(upstream, socket, id);
        let place = &mut self.remembered[key as usize % REMEMBERED];
        (place.0 == key).then(|| {
            place.0 = u64::MAX;
            place.1
        })
    }
}

impl std::ops::Index<u32> for Attempts {
    type Output = Attempt;

    fn index(&self, at: u32) -> &Attempt {
        &self.all[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Attempts {
    fn index_mut(&mut self, at: u32) -> &mut Attempt {
        &mut self.all[at as usize]
    }
}
