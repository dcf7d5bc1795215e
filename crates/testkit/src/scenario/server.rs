//! The server of a scenario: the resolver with its caches, and the minimal path between client and
//! resolver: RD, AD, OPT and sizes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use avocet_cache::FailureKey;
use avocet_resolver::{
    Action, Actions, Ask, Context, Plan, Resolved, Resolver, SocketId, Submitted, Trace,
};
use avocet_wire::builder::OptFields;
use avocet_wire::edns::EdnsOption;
use avocet_wire::hash::{HashKey, eq_folded};
use avocet_wire::header::{AD, CD, HEADER_LEN, Header, QR, RA, RD, TC};
use avocet_wire::query::QuestionKey;
use avocet_wire::{Ede, QueryError, QueryView, Rcode};

use super::caches::{Age, Caches, Sought};
use super::config::{Config, Simulated};
use super::message::{HEAD_ROOM, Transport};
use crate::Chance;

/// Maximum number of octets of a datagram to a client, and the size in its OPT record.
const UDP_SIZE: u16 = 4096;

/// The monotonic and the wall clock.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) now_ms: u64,
    pub(crate) wall_secs: u64,
}

/// An action that the server requests.
pub(crate) enum Effect {
    /// Send the query from the socket or connection with this index.
    Ask { line: u32, server: SocketAddr, octets: Vec<u8>, transport: Transport },
    /// Close the socket or connection.
    Close { line: u32 },
    /// Answer a client.
    Answer { client: usize, octets: Vec<u8> },
}

/// A waiting client.
struct Client {
    number: usize,
    id: u16,
    /// RD and CD.
    flags: u16,
    wants_ad: bool,
    /// The DO flag, `None` without OPT.
    edns: Option<bool>,
    limit: usize,
    question: Vec<u8>,
    key: QuestionKey,
}

/// A server for scenarios and simulations.
pub(crate) struct Server {
    /// One resolver per worker. All share the caches.
    workers: Vec<Resolver<Client>>,
    /// The sockets by their indexes in [`Effect`].
    sockets: HashMap<u32, SocketId>,
    caches: Caches,
    plan: Arc<Plan>,
    actions: Actions<Client>,
    key: HashKey,
}

impl Server {
    /// Creates a server with empty caches.
    pub(super) fn new(config: &Config, seed: u64) -> Result<Self, String> {
        let plan = Arc::new(config.plan()?);
        Ok(Self {
            workers: vec![resolver(&plan, seed)],
            sockets: HashMap::new(),
            caches: Caches::new(config, Arc::clone(&plan))?,
            plan,
            actions: Actions::default(),
            key: HashKey::new(octets(seed)),
        })
    }

    /// Creates the server of a simulation.
    pub(crate) fn simulated(simulated: &Simulated, seed: u64) -> Result<Self, String> {
        let mut server = Self::new(&Config::of(simulated), seed)?;
        for number in 1..simulated.workers as u64 {
            server.workers.push(resolver(&server.plan, seed ^ number.rotate_right(8)));
        }
        Ok(server)
    }

    /// Makes one of the workers drop its keys and NSEC ranges, as after a change of anchors.
    pub(crate) fn forget_proofs(&mut self, number: u64) {
        let worker = (number % self.workers.len() as u64) as usize;
        self.workers[worker].forget_proofs();
    }

    /// Replaces the workers, as a restart does that keeps the caches. No question may be in flight.
    pub(crate) fn restart(&mut self, seed: u64) {
        for (number, worker) in (0..).zip(&mut self.workers) {
            debug_assert_eq!(worker.in_flight(), 0, "all clients were answered");
            *worker = resolver(&self.plan, seed ^ u64::rotate_right(number, 8));
        }
    }

    /// Returns the worker for a question with this hash, whose highest bits depend on the question
    /// alone.
    fn owner_of(&self, hash: u64) -> usize {
        ((hash >> 48) % self.workers.len() as u64) as usize
    }

    /// Processes a client's query.
    pub(crate) fn query(
        &mut self,
        number: usize,
        octets: &[u8],
        transport: Transport,
        at: Moment,
    ) -> Vec<Effect> {
        let view = match QueryView::parse(octets) {
            Ok(view) => view,
            Err(error) => return malformed(number, octets, error).into_iter().collect(),
        };
        let header = view.header();
        let edns = view.edns.map(|edns| edns.dnssec_ok);
        let datagram = view.edns.map_or(512, |edns| edns.udp_size.clamp(512, UDP_SIZE));
        let client = Client {
            number,
            id: header.id,
            flags: header.flags & (RD | CD),
            wants_ad: header.has(AD) || edns == Some(true),
            edns,
            limit: usize::from(if transport == Transport::Tcp { u16::MAX } else { datagram }),
            question: view.question().to_vec(),
            key: view.key(&self.key, 0),
        };
        if let Some(found) = self.caches.find(&client.sought(), at.now_secs(), Age::Fresh) {
            let octets = client.answer(&found.message, found.rcode, found.ede);
            return vec![Effect::Answer { client: number, octets }];
        }
        if client.flags & RD == 0 {
            let question = client.key.question();
            let failure_key = FailureKey { question, checking_disabled: client.flags & CD != 0 };
            if self.caches.failures.lookup(&failure_key, at.now_secs()).is_some() {
                let ede = Some((Ede::CACHED_ERROR, "resolution failed lately"));
                return vec![Effect::Answer {
                    client: number,
                    octets: client.empty(Rcode::SERVFAIL, ede),
                }];
            }
            let ede = Some((Ede::NOT_AUTHORITATIVE, "not in the cache"));
            return vec![Effect::Answer {
                client: number,
                octets: client.empty(Rcode::REFUSED, ede),
            }];
        }
        self.submit(client, at)
    }

    fn submit(&mut self, client: Client, at: Moment) -> Vec<Effect> {
        let stale_available = self.caches.has_stale(&client.sought(), at.now_secs());
        let key = client.key;
        let ask = Ask {
            question: key.question(),
            hash: key.hash,
            dnssec_ok: client.edns == Some(true),
            checking_disabled: client.flags & CD != 0,
            ecs: &[],
            client: None,
            introduced: None,
            stale_available,
            servers: &[],
        };
        let mut shed = None;
        let worker = self.owner_of(key.hash);
        let mut effects = self.with(worker, at, |resolver, cx| {
            if let Submitted::Shed { waiter, .. } = resolver.submit(&ask, Some(client), cx) {
                shed = waiter;
            }
        });
        effects.extend(shed.map(|client| Effect::Answer {
            client: client.number,
            octets: client.empty(Rcode::SERVFAIL, Some((Ede::OTHER, "too many"))),
        }));
        effects
    }

    /// Processes a reply on a socket or connection.
    pub(crate) fn reply(&mut self, line: u32, octets: &[u8], at: Moment) -> Vec<Effect> {
        let worker = line as usize % self.workers.len();
        let Some(&socket) = self.sockets.get(&line) else { return Vec::new() };
        self.with(worker, at, |resolver, cx| resolver.received(socket, octets, cx))
    }

    /// Returns the traces of failed questions, the latest of each worker last.
    pub(crate) fn kept_traces(&self) -> impl Iterator<Item = &Trace> {
        self.workers.iter().flat_map(Resolver::kept_traces)
    }

    /// Advances the time.
    pub(crate) fn tick(&mut self, at: Moment) -> Vec<Effect> {
        let workers = 0..self.workers.len();
        workers.flat_map(|worker| self.with(worker, at, |resolver, cx| resolver.tick(cx))).collect()
    }

    /// Returns when to call [`Self::tick`] next, in ms.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.workers.iter().filter_map(Resolver::next_deadline).min()
    }

    fn with(
        &mut self,
        worker: usize,
        at: Moment,
        act: impl FnOnce(&mut Resolver<Client>, &mut Context<'_, Client>),
    ) -> Vec<Effect> {
        let mut actions = std::mem::take(&mut self.actions);
        let (rrsets, failures) = (&self.caches.rrsets, &self.caches.failures);
        let Moment { now_ms, wall_secs } = at;
        act(
            &mut self.workers[worker],
            &mut Context { now_ms, wall_secs, rrsets, failures, actions: &mut actions },
        );
        let mut effects = Vec::new();
        for action in &actions.list {
            self.perform(action, (&actions, at), &mut effects);
        }
        // Each worker numbers its lines from 0.
        let workers = self.workers.len() as u32;
        for action in &actions.list {
            if let Action::Send { socket, .. } = action {
                self.sockets.insert(line_of(*socket) * workers + worker as u32, *socket);
            }
        }
        for effect in &mut effects {
            if let Effect::Ask { line, .. } | Effect::Close { line } = effect {
                *line = *line * workers + worker as u32;
            }
        }
        actions.clear();
        self.actions = actions;
        effects
    }

    fn perform(
        &mut self,
        action: &Action,
        (actions, at): (&Actions<Client>, Moment),
        effects: &mut Vec<Effect>,
    ) {
        match action.clone() {
            Action::Send { socket, to: server, octets, .. } => {
                let octets = actions.octets[octets].to_vec();
                let over_tcp = socket.slot.is_stream();
                let transport = if over_tcp { Transport::Tcp } else { Transport::Udp };
                effects.push(Effect::Ask {
                    line: line_of(socket),
                    server: server.addr,
                    octets,
                    transport,
                });
            }
            // Connections of the simulation stay open.
            Action::KeepIdle { .. } => {}
            Action::Close { socket } => effects.push(Effect::Close { line: line_of(socket) }),
            Action::Overdue { waiters } => {
                for client in &actions.waiters[waiters] {
                    let octets = self.late(client, None, at);
                    effects.push(Effect::Answer { client: client.number, octets });
                }
            }
            Action::Finish { waiters, resolved, asked } => {
                self.caches.keep(asked, (&resolved, &actions.answers), at.now_secs());
                let message = &actions.answers.octets[resolved.message.clone()];
                for client in &actions.waiters[waiters] {
                    let octets = self.late(client, Some((&resolved, message)), at);
                    effects.push(Effect::Answer { client: client.number, octets });
                }
            }
            Action::Forget { .. } => unreachable!("recursion pins no server"),
        }
    }

    /// Answers a waiting client, with stale data instead of a failure (RFC 8767).
    fn late(&mut self, client: &Client, found: Option<(&Resolved, &[u8])>, at: Moment) -> Vec<u8> {
        if let Some((resolved, message)) =
            found.filter(|(resolved, _)| resolved.rcode != Rcode::SERVFAIL)
        {
            return client.answer(message, resolved.rcode, resolved.ede);
        }
        let sought = client.sought();
        if self.caches.has_stale(&sought, at.now_secs())
            && let Some(stale) = self.caches.find(&sought, at.now_secs(), Age::Any)
        {
            return client.answer(&stale.message, stale.rcode, stale.ede);
        }
        if let Some((resolved, message)) = found.filter(|(_, message)| message[6..8] != [0, 0]) {
            return client.answer(message, resolved.rcode, resolved.ede);
        }
        let slow = (Ede::NO_REACHABLE_AUTHORITY, "no answer in time");
        client.empty(
            Rcode::SERVFAIL,
            Some(found.and_then(|(resolved, _)| resolved.ede).unwrap_or(slow)),
        )
    }
}

/// Returns the index of a socket or connection for one query.
fn line_of(socket: SocketId) -> u32 {
    socket.slot.single().expect("each query of a walk has its own")
}

fn resolver(plan: &Arc<Plan>, seed: u64) -> Resolver<Client> {
    Resolver::new(Arc::clone(plan), octets(seed), 64)
}

fn octets(seed: u64) -> [u8; 32] {
    let mut chance = Chance::new(seed);
    let mut octets = [0; 32];
    octets.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&chance.number().to_le_bytes()));
    octets
}

impl Moment {
    fn now_secs(self) -> u32 {
        (self.now_ms / 1000) as u32
    }
}

impl Client {
    fn sought(&self) -> Sought<'_> {
        Sought { key: &self.key, flags: self.flags, dnssec_ok: self.edns == Some(true) }
    }

    fn empty(&self, rcode: Rcode, ede: Option<(Ede, &'static str)>) -> Vec<u8> {
        let header = Header { id: 0, flags: QR | RA | rcode.low(), counts: [1, 0, 0, 0] };
        let mut message = vec![0; HEADER_LEN];
        if let Some(head) = message.first_chunk_mut() {
            header.write(head);
        }
        message.extend(&self.question);
        self.answer(&message, rcode, ede)
    }

    /// Converts a message of the resolver to this client's answer.
    fn answer(&self, message: &[u8], rcode: Rcode, ede: Option<(Ede, &'static str)>) -> Vec<u8> {
        let mut header = Header::read(message).expect("a whole message");
        let end = HEADER_LEN + self.question.len();
        assert!(
            eq_folded(&message[HEADER_LEN..end], &self.question),
            "the answer to another question"
        );
        let fields = self.edns.map(|dnssec_ok| OptFields { udp_size: UDP_SIZE, rcode, dnssec_ok });
        let opt = fields.map(|fields| opt(&fields, ede)).unwrap_or_default();
        header.id = self.id;
        header.flags |= self.flags;
        if !self.wants_ad {
            header.flags &= !AD;
        }
        let mut out = message.to_vec();
        if out.len() + opt.len() > self.limit {
            out.truncate(end);
            header.flags |= TC;
            header.counts = [1, 0, 0, 0];
        }
        header.counts[3] += u16::from(!opt.is_empty());
        if let Some(head) = out.first_chunk_mut() {
            header.write(head);
        }
        out[HEADER_LEN..end].copy_from_slice(&self.question);
        out.extend(opt);
        out
    }
}

/// Returns the answer to a malformed query.
fn malformed(client: usize, octets: &[u8], error: QueryError) -> Option<Effect> {
    let rcode = match error {
        QueryError::Ignore => return None,
        QueryError::NotImplemented => Rcode::NOTIMP,
        QueryError::NoQuestion | QueryError::Format(_) => Rcode::FORMERR,
    };
    let header = Header::read(octets)?;
    let answer =
        Header { id: header.id, flags: QR | RA | header.flags & RD | rcode.low(), counts: [0; 4] };
    let mut octets = vec![0; HEADER_LEN];
    answer.write(octets.first_chunk_mut()?);
    Some(Effect::Answer { client, octets })
}

fn opt(fields: &OptFields, ede: Option<(Ede, &'static str)>) -> Vec<u8> {
    let mut option = [0; HEAD_ROOM];
    let len = ede
        .and_then(|(code, text)| EdnsOption::Ede(code, text.as_bytes()).write(&mut option))
        .unwrap_or(0);
    let mut out = fields.head().to_vec();
    out.extend((len as u16).to_be_bytes());
    out.extend(&option[..len]);
    out
}
