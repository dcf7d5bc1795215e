//! A world: a recursive resolver, a network, and authoritative servers.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use avocet_cache::{FailureCache, RrsetCache, TtlBounds};
use avocet_resolver::{
    Action, Actions, Ask, Context, Counters, Dns64, FetchLimits, OwnNames, Plan, Recursion,
    Resolver, RootServer, Settings, Shed, SocketFault, SocketId, SocketSlot, Submitted, Trace,
    Traced,
};
use avocet_testkit::{Faults, Network, Query, Response, name, question, shown};
use avocet_wire::header::{AA, AD, RA, RD};
use avocet_wire::{MessageView, Question, Rcode, rdata};

const TTL: TtlBounds = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3600 };
const START_MS: u64 = 1_000_000;

/// The replies of a server at an address, as octets.
pub(crate) type OctetScript = Box<dyn FnMut(&Query) -> Vec<Vec<u8>>>;
/// The replies of a server at an address.
pub(crate) type Script = Box<dyn FnMut(&Query) -> Option<Response>>;

enum Event {
    Query {
        socket: SocketId,
        to: SocketAddr,
        octets: Vec<u8>,
        over_tcp: bool,
    },
    Reply {
        socket: SocketId,
        octets: Vec<u8>,
    },
    /// The query was not sent, because there was no file descriptor.
    Unsent {
        socket: SocketId,
    },
    /// A connection with TLS ended.
    Ended {
        socket: SocketId,
        fault: SocketFault,
    },
}

/// The behaviour of port 853 of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TlsPort {
    /// The port answers as port 53 does. The first query of a connection is answered after this
    /// number of ms.
    Answers(u64),
    /// The port accepts connections, and sends nothing.
    Silent,
    /// A resolver that refuses queries answers.
    Refuses,
}

/// A query that was sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) to: String,
    pub(crate) what: String,
    pub(crate) octets: Vec<u8>,
}

pub(crate) struct World {
    net: Network<u64>,
    under_way: HashMap<u64, Event>,
    events: u64,
    plan: Arc<Plan>,
    resolver: Resolver<u32>,
    actions: Actions<u32>,
    pub(crate) rrsets: RrsetCache,
    failures: FailureCache,
    servers: HashMap<IpAddr, OctetScript>,
    /// The time that servers take to answer, in ms; 0 for all others.
    pub(crate) slow: HashMap<IpAddr, u64>,
    /// The behaviour of port 853 of servers; all others refuse connections.
    pub(crate) tls: HashMap<IpAddr, TlsPort>,
    /// The connections with TLS.
    pub(crate) tls_open: HashMap<SocketId, SocketAddr>,
    open: HashMap<SocketId, ()>,
    pub(crate) sent: Vec<Sent>,
    /// Number of queries that cannot be sent from now on.
    pub(crate) short_of: usize,
    answers: Vec<(u32, Answer)>,
    waiters: u32,
    /// The time that the resolver has spent on replies, for benches.
    pub(crate) in_replies: Duration,
    began_ms: HashMap<u32, u64>,
    pub(crate) wall_secs: u64,
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) rcode: Rcode,
    pub(crate) ede: Option<u16>,
    pub(crate) authentic: bool,
    /// The records as text, such as "answer www.example. 60 A 192.0.2.1".
    pub(crate) records: Vec<String>,
    pub(crate) took_ms: u64,
}

pub(crate) fn settings() -> Settings {
    Settings { minimal: true, stale_client_ms: 1800, in_flight: 4096, waiters: 4096, ttl: TTL }
}

pub(crate) fn recursion() -> Recursion {
    Recursion {
        hints: vec![RootServer {
            name: name("a.root.").into(),
            addresses: vec![IpAddr::from([192, 0, 2, 1])],
        }],
        priming: false,
        qname_minimisation: false,
        case_randomisation: true,
        cookies: true,
        encrypt: false,
        ipv4: true,
        ipv6: true,
        query_private: false,
        aggressive_nsec: false,
        error_reports: false,
        udp_size: 1232,
        own: Vec::new(),
        stubs: Vec::new(),
        local_root: None,
        validation: None,
    }
}

/// Returns a server with these answers, by question. An answer is a list of records, each with its
/// section in front. "*example. A" represents all questions at or below example. Other names are
/// denied with the SOA record of the zone.
pub(crate) fn authority(zone: &str, answers: &[(&str, &[&str])]) -> Script {
    let zone = zone.to_owned();
    let answers: Vec<(String, Vec<String>)> = answers
        .iter()
        .map(|(question, records)| {
            ((*question).to_owned(), records.iter().map(|r| (*r).to_owned()).collect())
        })
        .collect();
    Box::new(move |query| {
        let asked = format!("{} {}", query.qname, query.qtype);
        let known = answers.iter().find(|(question, _)| {
            *question == asked
                || question
                    .strip_prefix('*')
                    .is_some_and(|end| query.qname.ends_with(end.split(' ').next().unwrap()))
        });
        let Some((_, records)) = known else {
            let exists = answers
                .iter()
                .any(|(question, _)| question.split(' ').next().unwrap().ends_with(&query.qname));
            let rcode = if exists { Rcode::NOERROR } else { Rcode::NXDOMAIN };
            let soa = format!("{zone} 300 SOA ns.test. host.test. 1 2 3 4 300");
            return Some(respond(query).flags(AA).rcode(rcode).authority(&soa));
        };
        let is_answer = records.iter().any(|record| record.starts_with("an "));
        let mut response = respond(query);
        if is_answer {
            response = response.flags(AA);
        }
        for record in records {
            let (section, record) = record.split_once(' ').unwrap();
            response = match section {
                "an" => response.answer(record),
                "au" => response.authority(record),
                _ => response.additional(record),
            };
        }
        Some(response)
    })
}

fn respond(query: &Query) -> Response {
    Response::to(query).without_flags(RA | RD)
}

/// Passes a reply to the resolver. Callgrind counts the instructions of this function: see
/// `work.rs`.
#[inline(never)]
fn counted_reply(
    resolver: &mut Resolver<u32>,
    socket: SocketId,
    octets: &[u8],
    cx: &mut Context<'_, u32>,
) {
    resolver.received(socket, octets, cx);
}

impl World {
    pub(crate) fn new(recursion: Recursion) -> Self {
        Self::with_faults(recursion, Faults::NONE)
    }

    pub(crate) fn with_faults(recursion: Recursion, faults: Faults) -> Self {
        Self::of(recursion, faults, |plan| plan)
    }

    pub(crate) fn with_limits(recursion: Recursion, limits: FetchLimits) -> Self {
        Self::of(recursion, Faults::NONE, |plan| plan.with_fetch_limits(limits))
    }

    pub(crate) fn with_dns64(recursion: Recursion, dns64: Dns64) -> Self {
        Self::of(recursion, Faults::NONE, |plan| plan.with_dns64(dns64))
    }

    /// Creates a world as [`World::with_faults`] does. The faults follow from this seed.
    pub(crate) fn seeded(recursion: Recursion, faults: Faults, seed: u64) -> Self {
        let world = Self::with_faults(recursion, faults);
        Self { net: Network::new(seed, START_MS, faults), ..world }
    }

    /// Creates a world with a server that answers these names by itself.
    pub(crate) fn with_own_names(recursion: Recursion, names: impl OwnNames + 'static) -> Self {
        Self::of(recursion, Faults::NONE, |plan| plan.with_own_names(Arc::new(names)))
    }

    fn of(recursion: Recursion, faults: Faults, change: impl FnOnce(Plan) -> Plan) -> Self {
        let plan = Plan::new(Vec::new(), settings()).unwrap().with_recursion(recursion);
        let mut world = Self::with_plan(7, change(plan));
        world.net.faults = faults;
        world
    }

    pub(crate) fn with_plan(seed: u8, plan: Plan) -> Self {
        let plan = Arc::new(plan);
        Self {
            plan: Arc::clone(&plan),
            net: Network::new(1, START_MS, Faults::NONE),
            under_way: HashMap::new(),
            events: 0,
            resolver: Resolver::new(plan, [seed; 32], 16),
            actions: Actions::default(),
            rrsets: RrsetCache::new(4 << 20, 86_400, TTL, [1; 16]).unwrap(),
            failures: FailureCache::new(1 << 18, [2; 16]).unwrap(),
            servers: HashMap::new(),
            slow: HashMap::new(),
            tls: HashMap::new(),
            tls_open: HashMap::new(),
            open: HashMap::new(),
            sent: Vec::new(),
            short_of: 0,
            answers: Vec::new(),
            waiters: 0,
            in_replies: Duration::ZERO,
            began_ms: HashMap::new(),
            wall_secs: 0,
            dnssec_ok: false,
            checking_disabled: false,
        }
    }

    /// Discards the state of the resolver, except the caches.
    pub(crate) fn restart(&mut self) {
        self.resolver = Resolver::new(Arc::clone(&self.plan), [9; 32], 16);
    }

    /// Adds a server at 192.0.2.x.
    pub(crate) fn serve(&mut self, last: u8, script: Script) -> &mut Self {
        let mut script = script;
        self.serve_octets(
            last,
            Box::new(move |query| script(query).iter().map(Response::octets).collect()),
        );
        self
    }

    /// Adds a server at any address.
    pub(crate) fn serve_at(&mut self, address: &str, mut script: Script) {
        let octets = move |query: &Query| script(query).iter().map(Response::octets).collect();
        self.servers.insert(address.parse().unwrap(), Box::new(octets));
    }

    /// Adds a server at 192.0.2.x that sends these octets.
    pub(crate) fn serve_octets(&mut self, last: u8, script: OctetScript) {
        self.servers.insert(IpAddr::from([192, 0, 2, last]), script);
    }

    fn with(&mut self, event: impl FnOnce(&mut Resolver<u32>, &mut Context<'_, u32>)) {
        let mut cx = Context {
            now_ms: self.net.now_ms,
            wall_secs: self.wall_secs,
            rrsets: &self.rrsets,
            failures: &self.failures,
            actions: &mut self.actions,
        };
        event(&mut self.resolver, &mut cx);
        self.perform();
    }

    /// Submits a question such as "www.example. A", and waits for the answer.
    pub(crate) fn resolve(&mut self, what: &str) -> Answer {
        let waiter = self.submit(what, IpAddr::from([198, 51, 100, 9])).expect("it is taken");
        self.run();
        assert!(self.open.is_empty(), "every socket is closed in the end");
        assert_eq!(
            self.answers.iter().filter(|(of, _)| *of == waiter).count(),
            1,
            "one answer each"
        );
        self.answer_to(waiter).unwrap()
    }

    /// Returns the answer to a question that was submitted, if there is one yet.
    pub(crate) fn answer_to(&self, waiter: u32) -> Option<Answer> {
        let (_, answer) = self.answers.iter().find(|(of, _)| *of == waiter)?;
        Some(Answer { took_ms: answer.took_ms - self.began_ms[&waiter], ..answer.clone() })
    }

    /// Submits a question, and does not wait.
    pub(crate) fn submit(&mut self, what: &str, client: IpAddr) -> Result<u32, Shed> {
        self.submit_at_once(what, client, 1).remove(0)
    }

    /// Submits a question several times before any action is executed, and does not wait.
    pub(crate) fn submit_at_once(
        &mut self,
        what: &str,
        client: IpAddr,
        times: u32,
    ) -> Vec<Result<u32, Shed>> {
        let waiters: Vec<_> = (self.waiters + 1..=self.waiters + times).collect();
        self.waiters += times;
        let question = question(what);
        let hash =
            question.iter().fold(7, |hash: u64, &octet| hash.wrapping_mul(31) + u64::from(octet));
        let (dnssec_ok, checking_disabled) = (self.dnssec_ok, self.checking_disabled);
        self.began_ms.extend(waiters.iter().map(|waiter| (*waiter, self.net.now_ms)));
        let ask = Ask {
            question: Question::new(&question).unwrap(),
            hash,
            dnssec_ok,
            checking_disabled,
            ecs: &[],
            client: Some(client),
            introduced: None,
            stale_available: false,
            servers: &[],
        };
        let mut taken = Vec::new();
        self.with(|resolver, cx| {
            for waiter in waiters {
                taken.push(match resolver.submit(&ask, Some(waiter), cx) {
                    Submitted::Shed { reason, .. } => Err(reason),
                    _ => Ok(waiter),
                });
            }
        });
        taken
    }

    /// Discards keys and NSEC ranges as a reload does, but not the caches.
    pub(crate) fn forget_proofs(&mut self) {
        self.resolver.forget_proofs();
    }

    /// Stops all servers from answering.
    pub(crate) fn silence(&mut self) {
        self.servers.clear();
    }

    /// Returns the number of questions in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.resolver.in_flight()
    }

    /// Sets the percentage of time for which the thread of the resolver is busy.
    pub(crate) fn note_busy(&mut self, percent: u32) {
        self.resolver.note_busy(percent);
    }

    /// Resolves a question such as "www.example. A" for its trace.
    pub(crate) fn trace(&mut self, what: &str) -> Traced {
        let question = question(what);
        let (dnssec_ok, checking_disabled) = (self.dnssec_ok, self.checking_disabled);
        let ask = Ask {
            question: Question::new(&question).unwrap(),
            hash: 1,
            dnssec_ok,
            checking_disabled,
            ecs: &[],
            client: None,
            introduced: None,
            stale_available: false,
            servers: &[],
        };
        self.with(|resolver, cx| {
            resolver.submit_traced(&ask, 5, cx);
        });
        self.run();
        let mut traced = self.resolver.take_traced();
        assert_eq!(traced.iter().map(|traced| traced.number).collect::<Vec<_>>(), [5]);
        traced.remove(0)
    }

    /// Returns the traces of failed questions.
    pub(crate) fn kept(&self) -> Vec<Trace> {
        self.resolver.kept_traces().cloned().collect()
    }

    /// Returns the present time of the caches, in seconds.
    pub(crate) fn now_secs(&self) -> u32 {
        (self.net.now_ms / 1_000) as u32
    }

    /// Advances the time by this number of seconds.
    pub(crate) fn pass(&mut self, secs: u64) {
        self.net.now_ms += secs * 1000;
        self.wall_secs += secs;
    }

    /// Processes events until no event is left.
    pub(crate) fn run(&mut self) {
        while self.run_until(u64::MAX) {}
    }

    /// Processes the events of the next `ms` milliseconds.
    pub(crate) fn run_for(&mut self, ms: u64) {
        let end_ms = self.net.now_ms + ms;
        while self.run_until(end_ms) {}
        self.net.now_ms = end_ms;
    }

    /// Processes the next event, if it is not later than `end_ms`. Returns whether there was such
    /// an event.
    fn run_until(&mut self, end_ms: u64) -> bool {
        let next = [self.net.next_ms(), self.resolver.next_deadline()].into_iter().flatten().min();
        let Some(next) = next.filter(|next| *next <= end_ms) else { return false };
        self.net.now_ms = self.net.now_ms.max(next);
        while let Some(event) = self.net.arrived() {
            self.deliver(event);
        }
        self.with(Resolver::tick);
        true
    }

    fn deliver(&mut self, event: u64) {
        match self.under_way.remove(&event) {
            Some(Event::Query { socket, to, octets, over_tcp }) => {
                let query = Query::read(&octets, over_tcp);
                if to.port() == 853 && !self.tls_open.contains_key(&socket) {
                    return;
                }
                let Some(script) = self.servers.get_mut(&to.ip()) else { return };
                let replies = script(&query);
                let after_ms = self.slow.get(&to.ip()).copied().unwrap_or(0);
                for octets in replies {
                    self.schedule(Event::Reply { socket, octets }, after_ms);
                }
            }
            Some(Event::Reply { socket, octets }) => {
                let began = Instant::now();
                self.with(|resolver, cx| counted_reply(resolver, socket, &octets, cx));
                self.in_replies += began.elapsed();
            }
            Some(Event::Unsent { socket }) => {
                self.with(|resolver, cx| resolver.failed(socket, SocketFault::Shortage, cx))
            }
            Some(Event::Ended { socket, fault }) => self.end_tls(socket, fault),
            None => {}
        }
    }

    /// Ends a connection with TLS, if it is open.
    pub(crate) fn end_tls(&mut self, socket: SocketId, fault: SocketFault) {
        if self.tls_open.remove(&socket).is_some() {
            self.with(|resolver, cx| resolver.failed(socket, fault, cx));
        }
    }

    fn send_by_tls(&mut self, socket: SocketId, to: SocketAddr, octets: &[u8]) {
        assert_eq!(socket.slot, SocketSlot::Stream);
        let query = Query::read(octets, true);
        let qname = shown(&query.question[..query.question.len() - 4].to_ascii_lowercase());
        let what = format!("{qname} {} by TLS", query.qtype);
        self.sent.push(Sent { to: to.ip().to_string(), what, octets: octets.to_vec() });
        let is_first = self.tls_open.insert(socket, to).is_none();
        let octets = octets.to_vec();
        match self.tls.get(&to.ip()).copied() {
            Some(TlsPort::Answers(ms)) => {
                let after_ms = if is_first { ms } else { 0 };
                self.schedule(Event::Query { socket, to, octets, over_tcp: true }, after_ms);
            }
            Some(TlsPort::Silent) => {}
            Some(TlsPort::Refuses) => {
                let reply = Response::to(&query).rcode(Rcode::REFUSED).octets();
                self.schedule(Event::Reply { socket, octets: reply }, 0);
            }
            None => {
                let fault = SocketFault::Unreachable;
                self.schedule(Event::Ended { socket, fault }, 0);
            }
        }
    }

    /// Returns the counters of the resolver.
    pub(crate) fn counters(&self) -> &Counters {
        self.resolver.counters()
    }

    fn schedule(&mut self, event: Event, after_ms: u64) {
        self.events += 1;
        self.under_way.insert(self.events, event);
        self.net.send(&self.events.clone(), after_ms);
    }

    fn perform(&mut self) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.list.clone() {
            match action {
                Action::Send { socket, to, octets, .. } => {
                    self.send(socket, to.addr, &actions.octets[octets]);
                }
                Action::Close { socket } => {
                    assert!(self.open.remove(&socket).is_some(), "closed what was open");
                }
                Action::Finish { waiters, resolved, .. } => {
                    let octets = &actions.answers.octets[resolved.message.clone()];
                    let answer = Answer {
                        rcode: resolved.rcode,
                        ede: resolved.ede.map(|(code, _)| code.0),
                        authentic: MessageView::new(octets).unwrap().header().has(AD),
                        records: records(octets),
                        took_ms: self.net.now_ms,
                    };
                    for &waiter in &actions.waiters[waiters] {
                        self.answers.push((waiter, answer.clone()));
                    }
                }
                Action::Forget { endpoint } => {
                    self.tls_open.retain(|socket, _| socket.endpoint != endpoint);
                }
                other => panic!("recursion has no upstreams: {other:?}"),
            }
        }
        actions.clear();
        self.actions = actions;
    }

    fn send(&mut self, socket: SocketId, to: SocketAddr, octets: &[u8]) {
        if to.port() == 853 {
            return self.send_by_tls(socket, to, octets);
        }
        let over_tcp = socket.slot.is_stream();
        assert!(socket.slot.single().is_some(), "each query has a socket of its own");
        assert!(self.open.insert(socket, ()).is_none(), "each query has a socket of its own");
        assert_eq!(to.port(), 53);
        if let Some(left) = self.short_of.checked_sub(1) {
            self.short_of = left;
            self.events += 1;
            self.under_way.insert(self.events, Event::Unsent { socket });
            return self.net.schedule(self.events, 0);
        }
        let query = Query::read(octets, over_tcp);
        let qname = shown(&query.question[..query.question.len() - 4].to_ascii_lowercase());
        let transport = if over_tcp { " by TCP" } else { "" };
        let what = format!("{qname} {}{transport}", query.qtype);
        self.sent.push(Sent { to: to.ip().to_string(), what, octets: octets.to_vec() });
        self.schedule(Event::Query { socket, to, octets: octets.to_vec(), over_tcp }, 0);
    }

    /// Returns the queries sent since the last call, as "1: www.example. A" for 192.0.2.1.
    pub(crate) fn take_sent(&mut self) -> Vec<String> {
        let line =
            |sent: &Sent| format!("{}: {}", sent.to.trim_start_matches("192.0.2."), sent.what);
        let lines = self.sent.iter().map(line).collect();
        self.sent.clear();
        lines
    }
}

impl Answer {
    #[track_caller]
    pub(crate) fn check(&self, rcode: Rcode, records: &[&str]) {
        assert_eq!(
            (self.rcode, &self.records[..]),
            (rcode, &records.iter().map(|r| (*r).to_owned()).collect::<Vec<_>>()[..])
        );
    }
}

fn records(octets: &[u8]) -> Vec<String> {
    let view = MessageView::new(octets).unwrap();
    let line = |record: avocet_wire::view::RecordView<'_>| {
        let mut data = vec![0; 65_535];
        let len = record.expand_rdata(&mut data).unwrap();
        let text = rdata::display(record.rtype.0, &data[..len]);
        let section = format!("{:?}", record.section).to_ascii_lowercase();
        format!(
            "{section} {} {} {} {text}",
            record.owner().unwrap(),
            record.ttl_field,
            record.rtype
        )
    };
    view.records().unwrap().map(|record| line(record.unwrap())).collect()
}
