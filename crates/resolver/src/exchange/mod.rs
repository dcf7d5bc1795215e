//! Exchanges with servers: one question goes to a set of servers, and one reply comes back. What a
//! reply means is not decided here.
//!
//! # Who uses it
//!
//! A forwarded question is asked at the upstreams of its rule, a step of recursion at the servers
//! of a zone. Both want the same: choose a server, send a query that nobody can forge a reply to,
//! wait, choose another one, and recognise the reply. So both own an [`Exchange`], and this module
//! does the rest:
//!
//! ```text
//!              Task: target of a forwarded question      Fetch: inquiry of walks
//!                           │ owns                            │ owns
//!                           └───────────── Exchange ──────────┘
//!  choose ── send ── PendingQuery ──> Action::Send            (server, socket, ID, question)
//!                        │
//!     late or never <────┼────> Resolver::received ── match ──┬── dropped: waiting goes on
//!     due: the next one  │                                    ├── asked again in another way: TCP,
//!                        │                                    │   no EDNS, the server's cookie
//!                        └────> Resolver::failed: unreachable └── reply, for the owner to judge
//! ```
//!
//! The owner takes the reply, or rejects it, and then another server is asked. A forwarded question
//! scrubs it and follows aliases; a walk sorts it into answer, referral, error and lame.
//!
//! # Servers
//!
//! A server is an [`Endpoint`]: address and transport. [`server::Servers`] gives each a small
//! number, an [`EndpointId`], and one record: round-trip time and loss, circuit breaker, what it
//! does with EDNS, cookies and letters, zones it does not serve. The rules of a plan hold numbers,
//! and their servers are pinned; servers that delegations name are numbered when they are asked.
//!
//! # Sockets
//!
//! A pinned server has a pool of sockets on random ports. Each query leaves from one of them, drawn
//! at random, and they get other ports in turn. A query has at least 32 unpredictable bits there
//! (RFC 5452 §9): 16 of the ID, and the others of the slot and the letters (0x20). A query that
//! would have fewer, and each query of a walk, gets a socket of its own on a random port: that adds
//! at least 15 bits, and 15.9 by default, to those of ID and letters. Sockets are connected: the
//! kernel drops what comes from elsewhere, and a forged ICMP error must name the port. Over TCP,
//! forwarded queries share a connection that is kept; a query of a walk has its own.
//!
//! # A reply is believed only if
//!
//! socket, ID and question match a query that is waited for, with the very letters that were sent
//! if they were drawn at random, and our cookie if it has one. Any other message is counted and
//! dropped, and waiting goes on. Other letters alone make the query go over TCP.
//!
//! # Time
//!
//! A query that is not answered by its due time is *overdue*: another server is asked, and a late
//! reply is still taken. Due times follow from the measured round-trip time, doubled in each round
//! unless much is lost. Tasks and fetches have one timer each, in one wheel.
//!
//! # Bounds
//!
//! Queries of one exchange: by its owner. Queries for one question: `MAX_SENDS` of its task, and
//! its octets of replies. Fetches: `MAX_FETCHES`. Servers that are not pinned: `MAX_SERVERS`, or as
//! many as owe replies. Pending queries have no bound of their own: each has an owner.

pub(crate) mod breaker;
pub(crate) mod choose;
pub(crate) mod cookie;
pub(crate) mod endpoint;
pub(crate) mod loss;
pub(crate) mod pending;
pub(crate) mod pool;
pub(crate) mod receive;
pub(crate) mod rtt;
pub(crate) mod send;
pub(crate) mod server;
pub(crate) mod timers;
pub(crate) mod wheel;

use chacha20::ChaCha12Rng;

use crate::action::{Action, Actions};
use endpoint::{Endpoint, EndpointId, SocketSlot};
use loss::Loss;
use pending::{Closing, Pending};
use server::{Server, Servers};
use timers::Timers;

/// What was tried of one question to a set of servers, and what is waited for. Sets of servers are
/// bits by their place among the candidates.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// Queries that are waited for.
    pub(crate) queries: Vec<u32>,
    /// Queries sent that count.
    pub(crate) sends: u32,
    /// Those of `sends` that never left, for want of something of our own.
    pub(crate) unsent: u32,
    /// How long the last query was waited for in vain.
    pub(crate) waited_ms: u64,
    /// How often all servers were asked.
    pub(crate) round: u32,
    /// Servers asked in this round, and those not to be asked again.
    pub(crate) tried: u64,
    pub(crate) failed: u64,
    /// Servers to be asked over TCP, without EDNS, and in lower case.
    pub(crate) by_tcp: u64,
    pub(crate) plain: u64,
    pub(crate) lower_case: u64,
    /// Those that gave errors which may be for mixed case.
    pub(crate) minding_case: u64,
    /// Those of `plain` that only kept silent when asked with EDNS.
    pub(crate) guessed_plain: u64,
    pub(crate) bad_cookies: u8,
    /// A query was sent again because the kept connection was closed.
    pub(crate) stream_retried: bool,
    pub(crate) any_unreachable: bool,
    pub(crate) any_unusable: bool,
}

impl Exchange {
    /// Begins with another question. Nothing may be waited for.
    pub(crate) fn begin(&mut self) {
        let queries = std::mem::take(&mut self.queries);
        *self = Self { queries, ..Self::default() };
    }
}

/// The servers that may be asked, by place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Candidates<'a> {
    /// Of a rule: pinned.
    Pinned(&'a [EndpointId]),
    /// Of a zone: numbered when they are asked.
    Found(&'a [Endpoint]),
}

impl<'a> Candidates<'a> {
    /// Returns how many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Pinned(ids) => ids.len(),
            Self::Found(endpoints) => endpoints.len(),
        }
    }

    /// Returns the set of all places, of which there are at most 64.
    pub(crate) fn all(&self) -> u64 {
        u64::MAX.checked_shr(64 - self.len().min(64) as u32).unwrap_or(0)
    }

    /// Returns the record of the server at a place, if there is one.
    pub(crate) fn known(&self, servers: &'a Servers, place: u8) -> Option<&'a Server> {
        match self {
            Self::Pinned(ids) => ids.get(usize::from(place)).map(|&id| &servers[id]),
            Self::Found(endpoints) => servers.known(*endpoints.get(usize::from(place))?),
        }
    }
}

/// What all exchanges of a resolver have in common.
pub(crate) struct Exchanges {
    pub(crate) servers: Servers,
    pub(crate) pending: Pending,
    pub(crate) timers: Timers,
    pub(crate) loss: Loss,
    /// With [`Strategy::RoundRobin`](endpoint::Strategy), whose turn it is.
    pub(crate) turn: u32,
    pub(crate) rng: ChaCha12Rng,
}

impl Exchanges {
    /// None. `expected` questions are in flight at once.
    pub(crate) fn new(servers: Servers, expected: usize, rng: ChaCha12Rng) -> Self {
        Self {
            servers,
            pending: Pending::new(expected),
            timers: Timers::default(),
            loss: Loss::default(),
            turn: 0,
            rng,
        }
    }

    /// Stops waiting for a query of an exchange.
    pub(crate) fn end<W>(
        &mut self,
        exchange: &mut Exchange,
        at: u32,
        closing: Closing,
        actions: &mut Actions<W>,
    ) {
        let socket = self.pending[at].socket;
        self.pending.remove(at, closing);
        if let Some(place) = exchange.queries.iter().position(|&other| other == at) {
            exchange.queries.swap_remove(place);
        }
        let server = &mut self.servers[socket.endpoint];
        server.outstanding -= 1;
        match socket.slot {
            SocketSlot::Stream => {}
            SocketSlot::Single(_) | SocketSlot::SingleStream(_) => {
                actions.list.push(Action::Close { socket });
            }
            SocketSlot::Pooled(slot) => {
                if let Some(pinned) = &mut server.pinned {
                    pinned.pool.release(slot);
                }
            }
        }
    }

    /// Stops waiting for all queries of an exchange.
    pub(crate) fn end_all<W>(&mut self, exchange: &mut Exchange, actions: &mut Actions<W>) {
        while let Some(&at) = exchange.queries.last() {
            self.end(exchange, at, Closing::Unanswered, actions);
        }
    }

    /// Returns when the first query of an exchange is overdue that is not yet.
    pub(crate) fn due_ms(&self, exchange: &Exchange) -> Option<u64> {
        let queries = exchange.queries.iter().map(|&at| &self.pending[at]);
        queries.filter(|query| !query.overdue).map(|query| query.due_ms).min()
    }

    /// Returns whether a query of an exchange may still be answered in time.
    pub(crate) fn is_in_time(&self, exchange: &Exchange) -> bool {
        let counts = |at: &u32| {
            let query = &self.pending[*at];
            !query.overdue && !query.aside
        };
        exchange.queries.iter().any(counts)
    }

    /// Takes note of the queries of an exchange that were not answered in time, and ends those that
    /// were not sent. Returns the servers that kept silent, each with the time since its query in
    /// ms.
    pub(crate) fn expire<W>(
        &mut self,
        exchange: &mut Exchange,
        now_ms: u64,
        actions: &mut Actions<W>,
    ) -> Vec<(EndpointId, u32)> {
        let mut silent = Vec::new();
        let mut place = 0;
        while let Some(&at) = exchange.queries.get(place) {
            place += 1;
            let query = &mut self.pending[at];
            if query.overdue || query.due_ms > now_ms {
                continue;
            }
            if query.unsent {
                exchange.unsent += 1;
                self.end(exchange, at, Closing::Answered, actions);
                // Another one has its place now.
                place -= 1;
                continue;
            }
            query.overdue = true;
            exchange.waited_ms = query.due_ms - query.sent_ms;
            let (server, sent_ms) = (query.server(), query.sent_ms);
            self.servers[server].failed(now_ms, sent_ms);
            silent.push((server, now_ms.saturating_sub(sent_ms) as u32));
        }
        silent
    }
}
