//! Exchanges with servers: one question goes to a set of servers, and one reply comes back. The
//! owner of an exchange interprets the reply.
//!
//! # Owners
//!
//! A forwarded question is sent to the upstreams of its rule, a step of recursion to the servers of
//! a zone. Both need the same steps: choose a server, send a query whose reply is hard to forge,
//! wait, choose another server, and recognise the reply. Both therefore own an [`Exchange`], and
//! this module takes these steps:
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
//! The owner takes the reply, or rejects it so that another server is queried. The owner of a
//! forwarded question removes unwanted records and follows aliases. A walk classifies the reply as
//! answer, referral, error or lame.
//!
//! # Servers
//!
//! A server is an [`Endpoint`]: address and transport. [`server::Servers`] gives each server a
//! small identifier, an [`EndpointId`], and one record: round-trip time and loss, circuit breaker,
//! support for EDNS, cookies and letter case, and zones that it does not serve. The rules of a plan
//! refer to these identifiers, and their servers are pinned; servers from delegations get an
//! identifier when they are queried.
//!
//! # Sockets
//!
//! A pinned server has a pool of sockets on random ports. Each query is sent from a random socket
//! of the pool, and the ports of the sockets change one after another. A query from the pool has at
//! least 32 unpredictable bits (RFC 5452 §9): the 16 bits of the ID, and the bits of the slot and
//! of the letter case (0x20). A query that would have fewer bits, and each query of recursion, gets
//! its own socket. In place of the bits of the slot, it has those of a random port: at least 15,
//! and 15.9 by default. Sockets are connected: the kernel drops packets from other addresses, and a
//! forged ICMP error must name the port. Over TCP, forwarded queries share a kept connection; a
//! query of recursion has its own connection.
//!
//! # Accepted replies
//!
//! A reply is accepted only if socket, ID and question match an outstanding query, with the same
//! letter case if that was random, and with our cookie if the reply has one. Any other message is
//! counted and dropped, and the query stays outstanding. If only the letter case differs, the query
//! is repeated over TCP.
//!
//! # TLS
//!
//! A server with TLS is only ever queried over TLS (RFC 8310 §5): no failure leads to UDP or TCP.
//! All queries to it, including those of walks, share the kept connection, unless
//! [`streams::Streams`] has observed that the server does not handle this well. These queries are
//! padded (RFC 8467), and have no cookie, because the connection proves more than a cookie would.
//!
//! An authoritative server is queried over TLS without any proof of its identity, if it answers
//! over TLS ([`encryption`]). Its *unproven* endpoint has a record of its own, but no index of its
//! own among the candidates of an exchange: there, the plain server at the same address represents
//! both.
//!
//! # Time
//!
//! A query without a reply at its due time is *overdue*: another server is queried, and a late
//! reply is still accepted. Due times follow from the measured round-trip time, which is doubled in
//! each round unless many packets are lost. Tasks and fetches have one timer each, in one wheel.
//!
//! # Bounds
//!
//! The owner of an exchange limits its queries. A task limits the queries for its question
//! (`MAX_SENDS`, and more for aliases), and the octets of the replies to them. There are at most
//! `MAX_FETCHES` fetches. There are at most `MAX_SERVERS` servers that are not pinned, or as many
//! as have outstanding queries. Pending queries have no limit of their own, because each has an
//! owner.

pub(crate) mod breaker;
pub(crate) mod choose;
pub(crate) mod cookie;
pub(crate) mod encryption;
pub(crate) mod endpoint;
pub(crate) mod loss;
pub(crate) mod pending;
pub(crate) mod pool;
pub(crate) mod receive;
pub(crate) mod rtt;
pub(crate) mod send;
pub(crate) mod server;
pub(crate) mod streams;
pub(crate) mod timers;
pub(crate) mod wheel;

use avocet_wire::Rcode;
use chacha20::ChaCha12Rng;

use crate::action::{Action, Actions};
use encryption::{LinkBounds, Passage};
use endpoint::{Endpoint, EndpointId, SocketSlot, TlsFault};
use loss::Loss;
use pending::{Closing, Pending};
use server::{Server, Servers};
use timers::Timers;

/// The state of one question to a set of servers. Sets of servers are stored as bits, one for each
/// index among the candidates.
#[derive(Debug, Default)]
pub(crate) struct Exchange {
    /// The outstanding queries, as indices into [`Pending`].
    pub(crate) queries: Vec<u32>,
    /// Number of queries that count against the limits.
    pub(crate) sends: u32,
    /// The queries among `sends` that this host could not send.
    pub(crate) unsent: u32,
    /// Milliseconds for which the last query waited without a reply.
    pub(crate) waited_ms: u64,
    /// Number of completed rounds. In each round, all servers are queried.
    pub(crate) round: u32,
    /// Servers that were queried in this round, and servers that must not be queried again.
    pub(crate) tried: u64,
    pub(crate) failed: u64,
    /// Servers to query over TCP.
    pub(crate) by_tcp: u64,
    /// Servers to query without EDNS.
    pub(crate) plain: u64,
    /// Servers to query without a cookie, unless they have sent a cookie before.
    pub(crate) without_cookie: u64,
    /// Servers to query in lower case.
    pub(crate) lower_case: u64,
    /// Servers that were last queried only over opportunistic encryption (RFC 9539). They are
    /// queried without encryption next.
    pub(crate) encrypted: u64,
    /// Servers that returned errors, perhaps because of mixed letter case.
    pub(crate) minding_case: u64,
    /// The server that denied a name in mixed case, as a set; empty if there is none. The denial is
    /// being verified with a query in lower case.
    pub(crate) denied: u64,
    /// The RCODE of this denial.
    pub(crate) denied_rcode: Option<Rcode>,
    /// Servers of `plain` that are only assumed to lack EDNS: they did not answer a query with
    /// EDNS, but did not reject EDNS either.
    pub(crate) guessed_plain: u64,
    pub(crate) bad_cookies: u8,
    /// Number of queries that were sent again because the kept connection was closed.
    pub(crate) stream_retries: u8,
    pub(crate) any_unreachable: bool,
    /// The reason why TLS to one of the servers failed.
    pub(crate) tls_fault: Option<TlsFault>,
    pub(crate) any_unusable: bool,
}

impl Exchange {
    /// Resets the exchange for another question. No query may be outstanding.
    pub(crate) fn begin(&mut self) {
        let queries = std::mem::take(&mut self.queries);
        *self = Self { queries, ..Self::default() };
    }
}

/// A server that did not answer a query in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    pub(crate) server: EndpointId,
    /// Milliseconds since the query.
    pub(crate) after_ms: u32,
    /// The server's index among the candidates.
    pub(crate) place: u8,
    /// The transport of the query; the copy of a plain query has [`Passage::PlainAndProbe`].
    pub(crate) passage: Passage,
}

/// The servers that may be queried; each is identified by its index.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Candidates<'a> {
    /// Servers of a rule, which are pinned.
    Pinned(&'a [EndpointId]),
    /// Servers of a zone. A server gets an identifier when it is queried.
    Found(&'a [Endpoint]),
}

impl<'a> Candidates<'a> {
    /// Returns the number of candidates.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Pinned(ids) => ids.len(),
            Self::Found(endpoints) => endpoints.len(),
        }
    }

    /// Returns the set of all candidates, which are at most 64.
    pub(crate) fn all(&self) -> u64 {
        u64::MAX.checked_shr(64 - self.len().min(64) as u32).unwrap_or(0)
    }

    /// Returns the record of the server with this index, if it has one.
    pub(crate) fn known(&self, servers: &'a Servers, place: u8) -> Option<&'a Server> {
        match self {
            Self::Pinned(ids) => ids.get(usize::from(place)).map(|&id| &servers[id]),
            Self::Found(endpoints) => servers.known(*endpoints.get(usize::from(place))?),
        }
    }
}

/// The state that all exchanges of a resolver share.
pub(crate) struct Exchanges {
    pub(crate) servers: Servers,
    pub(crate) pending: Pending,
    pub(crate) timers: Timers,
    pub(crate) loss: Loss,
    /// The number of connections to unproven endpoints.
    pub(crate) links: LinkBounds,
    /// The counter that selects the first server for the next question with
    /// [`Strategy::RoundRobin`](endpoint::Strategy).
    pub(crate) turn: u32,
    pub(crate) rng: ChaCha12Rng,
}

impl Exchanges {
    /// Creates the state without exchanges, for about `expected` questions in flight.
    pub(crate) fn new(servers: Servers, expected: usize, rng: ChaCha12Rng) -> Self {
        Self {
            servers,
            pending: Pending::new(expected),
            timers: Timers::default(),
            loss: Loss::default(),
            links: LinkBounds::default(),
            turn: 0,
            rng,
        }
    }

    /// Ends an outstanding query of an exchange.
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
            SocketSlot::Single(_) => actions.list.push(Action::Close { socket }),
            SocketSlot::SingleStream(_) => {
                server.streams.singles -= 1;
                actions.list.push(Action::Close { socket });
            }
            SocketSlot::Pooled(slot) => {
                if let Some(pinned) = &mut server.pinned {
                    pinned.pool.release(slot);
                }
            }
        }
    }

    /// Ends all outstanding queries of an exchange.
    pub(crate) fn end_all<W>(&mut self, exchange: &mut Exchange, actions: &mut Actions<W>) {
        while let Some(&at) = exchange.queries.last() {
            self.end(exchange, at, Closing::Unanswered, actions);
        }
    }

    /// Returns when the next query of an exchange becomes overdue.
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

    /// Records that queries of an exchange are overdue. Ends those among them that this host could
    /// not send. Returns the servers that did not answer.
    pub(crate) fn expire<W>(
        &mut self,
        exchange: &mut Exchange,
        now_ms: u64,
        actions: &mut Actions<W>,
    ) -> Vec<Silence> {
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
                // Another query has moved to the index of the query that ended.
                place -= 1;
                continue;
            }
            query.overdue = true;
            exchange.waited_ms = query.due_ms - query.sent_ms;
            let (server, sent_ms) = (query.server(), query.sent_ms);
            let after_ms = now_ms.saturating_sub(sent_ms) as u32;
            let (place, is_probe) = (query.place, query.aside);
            self.servers[server].failed(now_ms, sent_ms);
            let passage = match &mut self.servers[server].encryption {
                None => Passage::Plain,
                Some(_) if is_probe => Passage::PlainAndProbe,
                Some(state) => {
                    state.overdue();
                    Passage::Encrypted
                }
            };
            silent.push(Silence { server, after_ms, place, passage });
        }
        silent
    }
}
