//! Outstanding queries, and queries that recently ended without a reply.

use super::endpoint::{EndpointId, SocketId, SocketSlot};
use crate::chains::Chains;

/// Maximum number of queries that are remembered after they ended without a reply.
const REMEMBERED: usize = 1024;

/// The value that represents the kept connection in a key, in place of a slot number. No pool has
/// this many slots.
const STREAM: u64 = 0xffff;

/// Whether replies may still arrive after a query has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closing {
    /// No further reply is expected.
    Answered,
    /// A late reply may arrive.
    Unanswered,
}

/// The owner of a query.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Owner {
    /// The query has no owner, because its entry is free.
    #[default]
    Nobody,
    /// The task with this index, which forwards a question.
    Task(u32),
    /// The fetch with this index, a query for which recursion waits.
    Fetch(u32),
}

/// An outstanding query.
#[derive(Clone, Debug)]
pub(crate) struct PendingQuery {
    pub(crate) owner: Owner,
    pub(crate) socket: SocketId,
    /// The key in the hash index, made of socket and ID. It is only used for a query on a shared
    /// socket.
    key: u64,
    /// The server's index among the candidates of the owner.
    pub(crate) place: u8,
    pub(crate) id: u16,
    pub(crate) sent_ms: u64,
    /// The time at which the next server is queried, in ms. A reply to this query is still accepted
    /// later.
    pub(crate) due_ms: u64,
    pub(crate) overdue: bool,
    /// Whether this host could not send the query.
    pub(crate) unsent: bool,
    /// Whether the query is an additional probe, which was sent together with another query.
    pub(crate) aside: bool,
    pub(crate) with_edns: bool,
    /// Whether the query has our client cookie. A reply with another client cookie is then forged.
    pub(crate) with_cookie: bool,
    /// Whether the question in the reply must have the same letter case.
    pub(crate) exact_case: bool,
    /// Whether the name was sent in mixed case.
    pub(crate) is_mixed: bool,
    /// The question as sent.
    pub(crate) question: Vec<u8>,
}

impl PendingQuery {
    /// Returns whether the first label was sent with a letter in upper case. A server that has
    /// found such a name finds names in any case.
    pub(crate) fn is_leaf_mixed(&self) -> bool {
        let leaf =
            self.question.split_first().and_then(|(len, rest)| rest.get(..usize::from(*len)));
        leaf.is_some_and(|leaf| leaf.iter().any(u8::is_ascii_uppercase))
    }

    const VACANT: Self = Self {
        owner: Owner::Nobody,
        socket: SocketId { endpoint: EndpointId(0), slot: SocketSlot::Stream },
        key: 0,
        place: 0,
        id: 0,
        sent_ms: 0,
        due_ms: 0,
        overdue: false,
        unsent: false,
        aside: false,
        with_edns: false,
        with_cookie: false,
        exact_case: false,
        is_mixed: false,
        question: Vec::new(),
    };

    /// Returns the server.
    pub(crate) fn server(&self) -> EndpointId {
        self.socket.endpoint
    }

    /// Returns whether the query was sent over TCP.
    pub(crate) fn over_tcp(&self) -> bool {
        self.socket.slot.is_stream()
    }
}

/// All outstanding queries. Their owners find them by index, and replies by socket and message ID.
///
/// The index of a query with its own socket is also the number of that socket. A hash index finds
/// the queries on shared sockets.
#[derive(Debug)]
pub(crate) struct Pending {
    all: Vec<PendingQuery>,
    free: Vec<u32>,
    index: Chains,
    remembered: Box<[(u64, u64)]>,
}

/// Returns the index key for an ID on a shared socket or connection.
fn key(socket: SocketId, id: u16) -> u64 {
    let slot = match socket.slot {
        SocketSlot::Pooled(slot) => u64::from(slot),
        SocketSlot::Stream | SocketSlot::Single(_) | SocketSlot::SingleStream(_) => STREAM,
    };
    u64::from(socket.endpoint.0) << 32 | slot << 16 | u64::from(id)
}

/// Returns the hash of a key in the index. All queries of a UDP socket have the same hash, so that
/// a socket error finds all of them.
fn hash(key: u64) -> u64 {
    let is_stream = key >> 16 & 0xffff == STREAM;
    let of_chain = if is_stream { key } else { key & !0xffff };
    of_chain.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

impl Pending {
    /// Creates an empty table with an index for about `expected` queries.
    pub(crate) fn new(expected: usize) -> Self {
        let remembered = vec![(u64::MAX, 0); REMEMBERED].into();
        Self { all: Vec::new(), free: Vec::new(), index: Chains::new(expected), remembered }
    }

    /// Returns the query with this ID on a socket. If the socket is for a single query, returns
    /// that query for any ID.
    pub(crate) fn find(&self, socket: SocketId, id: u16) -> Option<u32> {
        match socket.slot.single() {
            Some(number) => self.single(socket, number),
            None => {
                let key = key(socket, id);
                self.index.candidates(hash(key)).find(|&at| self.all[at as usize].key == key)
            }
        }
    }

    /// Returns an outstanding query on this UDP socket for which `is_meant` returns `true`.
    pub(crate) fn on_socket(
        &self,
        socket: SocketId,
        is_meant: impl Fn(&PendingQuery) -> bool,
    ) -> Option<u32> {
        match socket.slot.single() {
            Some(number) => self.single(socket, number).filter(|&at| is_meant(&self[at])),
            None => self.index.candidates(hash(key(socket, 0))).find(|&at| {
                let query = &self.all[at as usize];
                query.socket == socket && is_meant(query)
            }),
        }
    }

    fn single(&self, socket: SocketId, number: u32) -> Option<u32> {
        let query = self.all.get(number as usize)?;
        (query.owner != Owner::Nobody && query.socket == socket).then_some(number)
    }

    /// Returns the outstanding queries on the kept connection to a server, with their IDs.
    pub(crate) fn on_stream(&self, endpoint: EndpointId) -> Vec<(u32, u16)> {
        let stream = SocketId { endpoint, slot: SocketSlot::Stream };
        let waits = |query: &PendingQuery| query.owner != Owner::Nobody && query.socket == stream;
        let all = (0u32..).zip(&self.all);
        all.filter(|(_, query)| waits(query)).map(|(at, query)| (at, query.id)).collect()
    }

    /// Allocates an entry for a query with this question. The caller fills in the other fields
    /// before it calls [`Pending::enter`].
    pub(crate) fn allocate(&mut self, question: &[u8]) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(PendingQuery::VACANT);
            (self.all.len() - 1) as u32
        });
        let query = &mut self.all[at as usize];
        (query.overdue, query.unsent, query.is_mixed) = (false, false, false);
        query.question.clear();
        query.question.extend_from_slice(question);
        at
    }

    /// Adds the query at this index to the hash index.
    pub(crate) fn enter(&mut self, at: u32) {
        let query = &mut self.all[at as usize];
        if query.socket.slot.single().is_none() {
            query.key = key(query.socket, query.id);
            self.index.insert(hash(query.key), at);
        }
    }

    /// Removes a query. A query on a shared socket is remembered for a while if a late reply may
    /// arrive.
    pub(crate) fn remove(&mut self, at: u32, closing: Closing) {
        let query = &mut self.all[at as usize];
        query.owner = Owner::Nobody;
        self.free.push(at);
        if query.socket.slot.single().is_some() {
            return;
        }
        let key = query.key;
        if closing == Closing::Unanswered {
            self.remembered[key as usize % REMEMBERED] = (key, query.sent_ms);
        }
        self.index.remove(hash(key), at);
    }

    /// Returns when a remembered query was sent, and removes it.
    pub(crate) fn take_remembered(&mut self, socket: SocketId, id: u16) -> Option<u64> {
        let key = key(socket, id);
        let place = &mut self.remembered[key as usize % REMEMBERED];
        (place.0 == key).then(|| {
            place.0 = u64::MAX;
            place.1
        })
    }
}

impl std::ops::Index<u32> for Pending {
    type Output = PendingQuery;

    fn index(&self, at: u32) -> &PendingQuery {
        &self.all[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Pending {
    fn index_mut(&mut self, at: u32) -> &mut PendingQuery {
        &mut self.all[at as usize]
    }
}
