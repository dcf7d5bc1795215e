//! A world: a resolver, the caches, a network and scripted servers, with a virtual clock.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use avocet_cache::{FailureCache, RrsetCache, TtlBounds};
use avocet_resolver::{
    Action, Actions, Ask, Context, EcsPolicy, Endpoint, EndpointId, Introduction, Plan, Resolved,
    Resolver, Settings, SocketFault, SocketId, SocketSlot, Strategy, Submitted, TlsFault,
    Transport, ZoneRule,
};
use avocet_testkit::{Chance, Faults, Network, Query, name, question};
use avocet_wire::hash::HashKey;
use avocet_wire::{MessageView, Question, Rcode, rdata};

pub(crate) const TTL: TtlBounds =
    TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3600 };
/// The time at which worlds begin, in ms.
pub(crate) const START_MS: u64 = 1_000_000;

/// The replies of a server to a query, each with the time in ms after which it is sent.
pub(crate) type Script = Box<dyn FnMut(&Query) -> Vec<(u64, Vec<u8>)>>;

/// The behaviour of connections to a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tcp {
    Works,
    Refused,
    Silent,
    /// The connection is accepted, and closed when a query arrives.
    Closes,
    /// The connection is closed after each answer.
    ClosesAfterAnswer,
    /// The connection is accepted, and TLS fails.
    Tls(TlsFault),
}

pub(crate) struct Server {
    pub(crate) script: Script,
    pub(crate) tcp: Tcp,
    /// Whether datagrams to the server are answered with the ICMP error "port unreachable".
    pub(crate) unreachable: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    ToServer { socket: OpenSocket, to: SocketAddr, octets: Vec<u8> },
    ToUs { socket: OpenSocket, octets: Vec<u8> },
    Fault { socket: OpenSocket, fault: SocketFault },
}

/// A socket, and the number of sockets with the same identifier that were opened before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSocket {
    id: SocketId,
    incarnation: u64,
}

/// A query that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) to: SocketAddr,
    pub(crate) socket: SocketId,
    pub(crate) query: Query,
}

/// The answer that a waiter got.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) waiter: u32,
    pub(crate) at_ms: u64,
    pub(crate) resolved: Resolved,
    pub(crate) octets: Vec<u8>,
    /// The records as text, such as "answer www.example. 60 A 192.0.2.1", in message order.
    pub(crate) records: Vec<String>,
}

pub(crate) struct World {
    pub(crate) net: Network<Event>,
    pub(crate) resolver: Resolver<u32>,
    pub(crate) actions: Actions<u32>,
    pub(crate) rrsets: RrsetCache,
    pub(crate) failures: FailureCache,
    pub(crate) servers: HashMap<SocketAddr, Server>,
    pub(crate) sent: Vec<Sent>,
    /// The header that came before each query in `sent`.
    pub(crate) headers: Vec<Vec<u8>>,
    pub(crate) answers: Vec<Answer>,
    /// The waiters that got stale data, each with the time.
    pub(crate) overdue: Vec<(u32, u64)>,
    pub(crate) forgotten: Vec<EndpointId>,
    pub(crate) kept_idle: Vec<(SocketId, u32)>,
    pub(crate) dnssec_ok: bool,
    pub(crate) ecs: Vec<u8>,
    pub(crate) client: Option<IpAddr>,
    pub(crate) introduced: Option<IpAddr>,
    pub(crate) stale_available: bool,
    incarnations: HashMap<SocketId, u64>,
    opened: u64,
    waiters: u32,
    hash_key: HashKey,
}

pub(crate) fn addr(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 53))
}

pub(crate) fn settings() -> Settings {
    Settings { minimal: true, stale_client_ms: 1800, in_flight: 4096, waiters: 65_536, ttl: TTL }
}

/// Returns a rule for a zone with the servers 192.0.2.x, which are queried in this order.
pub(crate) fn rule(zone: &str, servers: &[u8]) -> ZoneRule {
    let spec = |&last: &u8| Endpoint { addr: addr(last), transport: Transport::Udp };
    ZoneRule {
        zone: name(zone).into(),
        exception: servers.is_empty(),
        upstreams: servers.iter().map(spec).collect(),
        reserves: Vec::new(),
        strategy: Strategy::Ordered,
        case_randomisation: true,
        ecs: EcsPolicy::Strip,
        introduction: Introduction::None,
        timeout_ms: (50, 2000),
    }
}

pub(crate) fn plan(rules: Vec<ZoneRule>) -> Arc<Plan> {
    Arc::new(Plan::new(rules, settings()).unwrap())
}

impl World {
    pub(crate) fn new(seed: u64, faults: Faults, plan: Arc<Plan>) -> Self {
        let mut chance = Chance::new(seed);
        let mut octets = [0; 32];
        octets
            .chunks_mut(8)
            .for_each(|chunk| chunk.copy_from_slice(&chance.number().to_le_bytes()));
        Self {
            net: Network::new(seed, START_MS, faults),
            resolver: Resolver::new(plan, octets, 4096),
            actions: Actions::default(),
            rrsets: RrsetCache::new(4 << 20, 86_400, TTL, [1; 16]).unwrap(),
            failures: FailureCache::new(1 << 18, [2; 16]).unwrap(),
            servers: HashMap::new(),
            sent: Vec::new(),
            headers: Vec::new(),
            answers: Vec::new(),
            overdue: Vec::new(),
            forgotten: Vec::new(),
            kept_idle: Vec::new(),
            dnssec_ok: false,
            ecs: Vec::new(),
            client: None,
            introduced: None,
            stale_available: false,
            incarnations: HashMap::new(),
            opened: 0,
            waiters: 0,
            hash_key: HashKey::new(octets),
        }
    }

    /// Creates a world with one server for all names, on a network without faults.
    pub(crate) fn simple(script: impl FnMut(&Query) -> Vec<(u64, Vec<u8>)> + 'static) -> Self {
        let mut world = Self::new(1, Faults::NONE, plan(vec![rule(".", &[1])]));
        world.serve(1, script);
        world
    }

    pub(crate) fn serve(
        &mut self,
        last: u8,
        script: impl FnMut(&Query) -> Vec<(u64, Vec<u8>)> + 'static,
    ) {
        self.servers.insert(
            addr(last),
            Server { script: Box::new(script), tcp: Tcp::Works, unreachable: false },
        );
    }

    pub(crate) fn server(&mut self, last: u8) -> &mut Server {
        self.servers.get_mut(&addr(last)).unwrap()
    }

    fn with<R>(&mut self, event: impl FnOnce(&mut Resolver<u32>, &mut Context<'_, u32>) -> R) -> R {
        let mut cx = Context {
            now_ms: self.net.now_ms,
            wall_secs: 0,
            rrsets: &self.rrsets,
            failures: &self.failures,
            actions: &mut self.actions,
        };
        let result = event(&mut self.resolver, &mut cx);
        self.perform();
        result
    }

    /// Submits a question such as "www.example. A". Returns the waiter.
    pub(crate) fn ask(&mut self, what: &str) -> u32 {
        self.waiters += 1;
        let waiter = self.waiters;
        self.submit(what, Some(waiter));
        waiter
    }

    pub(crate) fn submit(&mut self, what: &str, waiter: Option<u32>) -> Submitted<u32> {
        self.submit_octets(
            &question(&what.to_ascii_lowercase().replace(" a", " A").replace(" cname", " CNAME")),
            waiter,
        )
    }

    /// Submits a question in wire form.
    pub(crate) fn submit_octets(&mut self, question: &[u8], waiter: Option<u32>) -> Submitted<u32> {
        let (dnssec_ok, ecs, client, stale_available) =
            (self.dnssec_ok, self.ecs.clone(), self.client, self.stale_available);
        let hash = self.hash_key.hash(question, 0);
        let ask = Ask {
            question: Question::new(question).unwrap(),
            hash,
            dnssec_ok,
            checking_disabled: false,
            ecs: &ecs,
            client,
            introduced: self.introduced,
            stale_available,
            servers: &[],
        };
        self.with(|resolver, cx| resolver.submit(&ask, waiter, cx))
    }

    /// Submits a question, and waits until all questions are answered.
    pub(crate) fn resolve(&mut self, what: &str) -> Answer {
        let waiter = self.ask(what);
        self.settle();
        self.answer_to(waiter)
    }

    pub(crate) fn answer_to(&self, waiter: u32) -> Answer {
        let mut answers = self.answers.iter().filter(|answer| answer.waiter == waiter);
        let answer = answers.next().expect("an answer").clone();
        assert!(answers.next().is_none(), "one answer each");
        answer
    }

    /// Advances the time until nothing is in flight.
    pub(crate) fn settle(&mut self) {
        self.run(u64::MAX);
    }

    /// Advances the time until `until_ms`, or until nothing is in flight.
    pub(crate) fn run(&mut self, until_ms: u64) {
        loop {
            let next =
                [self.net.next_ms(), self.resolver.next_deadline()].into_iter().flatten().min();
            let Some(next) = next.filter(|&next| next <= until_ms) else { break };
            self.net.now_ms = self.net.now_ms.max(next);
            while let Some(event) = self.net.arrived() {
                self.deliver(event);
            }
            self.with(Resolver::tick);
        }
        if until_ms != u64::MAX {
            self.net.now_ms = self.net.now_ms.max(until_ms);
        }
    }

    fn deliver(&mut self, event: Event) {
        match event {
            Event::ToServer { socket, to, octets } => self.at_server(socket, to, &octets),
            Event::ToUs { socket, octets } if self.is_open(socket) => {
                self.with(|resolver, cx| resolver.received(socket.id, &octets, cx));
            }
            Event::Fault { socket, fault } if self.is_open(socket) => {
                if socket.id.slot == SocketSlot::Stream {
                    // Data in flight on this connection is lost. A later connection has another
                    // number.
                    self.incarnations.remove(&socket.id);
                }
                self.with(|resolver, cx| resolver.failed(socket.id, fault, cx));
            }
            Event::ToUs { .. } | Event::Fault { .. } => {}
        }
    }

    fn is_open(&self, socket: OpenSocket) -> bool {
        self.incarnations.get(&socket.id) == Some(&socket.incarnation)
    }

    fn at_server(&mut self, socket: OpenSocket, to: SocketAddr, octets: &[u8]) {
        let Some(server) = self.servers.get_mut(&to) else { return };
        let over_tcp = socket.id.slot.is_stream();
        let fault = match (over_tcp, server.tcp) {
            (false, _) if server.unreachable => {
                let fault = SocketFault::Unreachable;
                return self.net.send(&Event::Fault { socket, fault }, 0);
            }
            (true, Tcp::Refused) => Some(SocketFault::Unreachable),
            (true, Tcp::Closes) => Some(SocketFault::Closed),
            (true, Tcp::Tls(fault)) => Some(SocketFault::Tls(fault)),
            (true, Tcp::Silent) => return,
            _ => None,
        };
        if let Some(fault) = fault {
            return self.net.schedule(Event::Fault { socket, fault }, 10);
        }
        let closes = over_tcp && server.tcp == Tcp::ClosesAfterAnswer;
        for (after_ms, octets) in (server.script)(&Query::read(octets, over_tcp)) {
            let event = Event::ToUs { socket, octets };
            match over_tcp {
                false => self.net.send(&event, after_ms),
                true => self.net.schedule(event, after_ms + 10),
            }
            if closes {
                let fault = Event::Fault { socket, fault: SocketFault::Closed };
                self.net.schedule(fault, after_ms + 10);
            }
        }
    }

    /// Executes the actions of the resolver, and checks that they are valid.
    pub(crate) fn perform(&mut self) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in &actions.list {
            match action.clone() {
                Action::Send { socket, to, renew, octets, header_len, .. } => {
                    self.open(socket, renew);
                    let (header, message) =
                        actions.octets[octets].split_at(usize::from(header_len));
                    self.headers.push(header.to_vec());
                    self.send(socket, to.addr, message);
                }
                Action::Close { socket } => {
                    assert!(self.incarnations.remove(&socket).is_some(), "closed what was open");
                }
                Action::KeepIdle { socket, idle_ms } => self.kept_idle.push((socket, idle_ms)),
                Action::Forget { endpoint } => {
                    self.forgotten.push(endpoint);
                    self.incarnations.retain(|socket, _| socket.endpoint != endpoint);
                }
                Action::Overdue { waiters } => {
                    for &waiter in &actions.waiters[waiters] {
                        self.overdue.push((waiter, self.net.now_ms));
                    }
                }
                Action::Finish { waiters, resolved, .. } => {
                    let octets = &actions.answers.octets[resolved.message.clone()];
                    check_offsets(
                        octets,
                        &actions.answers.ttl_offsets[resolved.ttl_offsets.clone()],
                    );
                    for &waiter in &actions.waiters[waiters] {
                        let (octets, resolved) = (octets.to_vec(), resolved.clone());
                        let records = records(&octets);
                        self.answers.push(Answer {
                            waiter,
                            at_ms: self.net.now_ms,
                            resolved,
                            octets,
                            records,
                        });
                    }
                }
            }
        }
        actions.clear();
        self.actions = actions;
    }

    fn open(&mut self, socket: SocketId, renew: bool) {
        if renew || !self.incarnations.contains_key(&socket) {
            self.opened += 1;
            self.incarnations.insert(socket, self.opened);
        }
    }

    fn send(&mut self, id: SocketId, to: SocketAddr, octets: &[u8]) {
        let over_tcp = id.slot.is_stream();
        self.sent.push(Sent { to, socket: id, query: Query::read(octets, over_tcp) });
        let socket = OpenSocket { id, incarnation: self.incarnations[&id] };
        let event = Event::ToServer { socket, to, octets: octets.to_vec() };
        match over_tcp {
            false => self.net.send(&event, 0),
            true => self.net.schedule(event, 10),
        }
    }

    /// Returns the number of queries that were sent to 192.0.2.x.
    pub(crate) fn sent_to(&self, last: u8) -> usize {
        self.sent.iter().filter(|sent| sent.to == addr(last)).count()
    }

    /// Delivers a datagram to a socket now, from any sender.
    pub(crate) fn inject(&mut self, socket: SocketId, octets: &[u8]) {
        self.with(|resolver, cx| resolver.received(socket, octets, cx));
    }

    pub(crate) fn fail(&mut self, socket: SocketId, fault: SocketFault) {
        self.incarnations.remove(&socket);
        self.with(|resolver, cx| resolver.failed(socket, fault, cx));
    }

    pub(crate) fn socket_error(&mut self, socket: SocketId) {
        self.with(|resolver, cx| resolver.failed(socket, SocketFault::Unreachable, cx));
    }

    /// Reports that the query from this socket could not be sent, because there was no file
    /// descriptor.
    pub(crate) fn unsent(&mut self, socket: SocketId) {
        self.with(|resolver, cx| resolver.failed(socket, SocketFault::Shortage, cx));
    }

    /// Reports that this socket was closed, because its port must no longer be used.
    pub(crate) fn withdraw(&mut self, socket: SocketId) {
        self.with(|resolver, cx| resolver.failed(socket, SocketFault::Withdrawn, cx));
    }

    pub(crate) fn reload(&mut self, plan: Arc<Plan>) {
        self.resolver.replace_plan(plan, &mut self.actions);
        self.perform();
    }
}

impl Sent {
    /// Returns whether the query was sent over TCP.
    pub(crate) fn is_by_tcp(&self) -> bool {
        self.socket.slot.is_stream()
    }

    /// Returns the slot of the pool; `None` for TCP and for a socket for one query.
    pub(crate) fn slot(&self) -> Option<u16> {
        match self.socket.slot {
            SocketSlot::Pooled(slot) => Some(slot),
            _ => None,
        }
    }
}

impl Answer {
    pub(crate) fn rcode(&self) -> Rcode {
        self.resolved.rcode
    }

    pub(crate) fn ede(&self) -> Option<u16> {
        self.resolved.ede.map(|(code, _)| code.0)
    }

    #[track_caller]
    pub(crate) fn check(&self, rcode: Rcode, records: &[&str]) {
        assert_eq!(
            (self.rcode(), &self.records[..]),
            (rcode, &records.iter().map(|r| (*r).to_owned()).collect::<Vec<_>>()[..])
        );
        let view = MessageView::new(&self.octets).unwrap();
        assert_eq!(
            (view.header().flags, view.header().id),
            (0x8080 | rcode.low(), 0),
            "QR and RA only"
        );
    }
}

fn records(octets: &[u8]) -> Vec<String> {
    let view = MessageView::new(octets).unwrap();
    let mut out = Vec::new();
    for record in view.records().unwrap() {
        let record = record.unwrap();
        let mut data = vec![0; 65_535];
        let len = record.expand_rdata(&mut data).unwrap();
        let text = rdata::display(record.rtype.0, &data[..len]);
        let section = format!("{:?}", record.section).to_ascii_lowercase();
        let owner = record.owner().unwrap();
        out.push(format!("{section} {owner} {} {} {text}", record.ttl_field, record.rtype));
    }
    out
}

fn check_offsets(octets: &[u8], offsets: &[u16]) {
    let view = MessageView::new(octets).unwrap();
    let expected: HashSet<_> =
        view.records().unwrap().map(|record| record.unwrap().ttl_offset() as u16).collect();
    assert_eq!(expected, offsets.iter().copied().collect());
}

/// Returns the replies of a server that has one address for each name.
pub(crate) fn any_address(query: &Query) -> Vec<(u64, Vec<u8>)> {
    vec![(0, address(query).octets())]
}

pub(crate) fn address(query: &Query) -> avocet_testkit::Response {
    avocet_testkit::Response::to(query).answer(&format!("{} 300 A 192.0.2.80", query.qname))
}
