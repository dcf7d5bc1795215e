//! A client, the server and the network of a simulation, and what must hold of every answer.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};

use avocet_resolver::{Event as Told, Step, Taken, Trace};
use avocet_wire::header::{AD, CD, QR, RD};
use avocet_wire::view::{RecordSection, RecordView};
use avocet_wire::{Class, MessageView, Rcode, Rtype, name};

use super::authority;
use super::internet::{Internet, MAX_TTL_SECS};
use super::sign::VALID_SECS;
use super::truth::{Fact, Truth};
use super::zone::Wire;
use super::{Tally, Wrong};
use crate::scenario::server::{Effect, Moment, Server};
use crate::scenario::{Simulated, Transport};
use crate::{Chance, Faults, Network, Query, shown};

/// When simulations begin by the monotonic clock, in ms, and by the wall clock, in seconds since 1970.
const START_MS: u64 = 1_000_000;
const START_SECS: u64 = 1_800_000_000;
/// An answer must have come by then, in ms.
const MAX_ANSWER_MS: u64 = 10_000;
/// Most queries to servers for one question.
const MAX_QUERIES: u64 = 64;
/// Turns of a client.
const TURNS: u64 = 8;

type Line = (u32, u64);

#[derive(Clone, Debug)]
enum Event {
    ToServer { line: Line, server: SocketAddr, octets: Vec<u8>, over_tcp: bool },
    ToUs { line: Line, octets: Vec<u8> },
}

/// A question of a client.
struct Asked {
    qname: Wire,
    qtype: Rtype,
    flags: u16,
    dnssec_ok: bool,
    at_ms: u64,
    answers: Vec<(u64, Vec<u8>)>,
}

/// An answer, read.
struct Answer {
    rcode: Rcode,
    is_authentic: bool,
    /// The answer section without signatures.
    facts: BTreeMap<Fact, u32>,
    /// The longest TTL of all.
    ttl_secs: u32,
}

pub(super) struct World {
    internet: Internet,
    server: Server,
    net: Network<Event>,
    wall_offset_secs: i64,
    /// The wall clock was set: what failed for that is remembered for a while.
    was_set: bool,
    lines: HashMap<u32, u64>,
    opened: u64,
    asked: Vec<Asked>,
    sent: u64,
    tally: Tally,
}

impl World {
    pub(super) fn new(seed: u64) -> Result<Self, String> {
        let mut chance = Chance::new(seed);
        let internet = Internet::draw(&mut chance);
        let simulated = Simulated {
            qname_minimisation: chance.percent(70),
            aggressive_nsec: chance.percent(50),
            ..asking(&internet)
        };
        let faults = Faults {
            loss: [0, 0, 0, 5, 20, 40][chance.below(6) as usize],
            duplicate: [0, 0, 10][chance.below(3) as usize],
            delay_ms: 1 + chance.below(40),
            jitter_ms: [0, 5, 60][chance.below(3) as usize],
        };
        let server = Server::simulated(&simulated, seed)?;
        Ok(Self::of(internet, server, Network::new(chance.number(), START_MS, faults)))
    }

    /// A world whose servers are all as they should be, behind a network that loses so many percent each way.
    pub(super) fn lossy(seed: u64, percent: u32) -> Result<Self, String> {
        let mut chance = Chance::new(seed);
        let mut internet = Internet::draw(&mut chance);
        internet.mend();
        let server = Server::simulated(&asking(&internet), seed)?;
        Ok(Self::of(internet, server, Network::new(chance.number(), START_MS, Faults::loss(percent))))
    }

    fn of(internet: Internet, server: Server, net: Network<Event>) -> Self {
        Self {
            internet,
            server,
            net,
            wall_offset_secs: 0,
            was_set: false,
            lines: HashMap::new(),
            opened: 0,
            asked: Vec::new(),
            sent: 0,
            tally: Tally::default(),
        }
    }

    /// Asks for the address of each name once, so many names at a time.
    pub(super) fn play_cold(mut self, together: usize) -> Result<Tally, Wrong> {
        let mut names = std::mem::take(&mut self.internet.names);
        names.retain(|name| Truth::of(&self.internet, name, Rtype::A).has_end);
        for names in names.chunks(together) {
            let first = self.asked.len();
            for qname in names {
                self.submit(qname.clone(), Rtype::A, (true, RD | AD));
            }
            self.settle();
            for number in first..self.asked.len() {
                self.check(number).map_err(|what| self.wrong(number, what))?;
            }
        }
        self.tally.sent = self.sent;
        Ok(self.tally)
    }

    /// Asks for names that are there and names that are not for so many hours, while the network changes from hour to hour
    /// and servers break and are mended. Tells when an hour is over.
    pub(super) fn play_hours(mut self, hours: u64, over: &mut dyn FnMut(u64)) -> Result<Tally, Wrong> {
        for hour in 0..hours {
            let chance = &mut self.net.chance;
            self.net.faults = Faults {
                loss: [0, 5, 20, 40, 50][chance.below(5) as usize],
                duplicate: chance.below(20) as u32,
                delay_ms: 1 + chance.below(40),
                jitter_ms: chance.below(60),
            };
            self.internet.wear(chance);
            let end_ms = START_MS + (hour + 1) * 3_600_000;
            while self.net.now_ms < end_ms {
                self.ask();
                self.settle();
                for number in 0..self.asked.len() {
                    self.check(number).map_err(|what| self.wrong(number, what))?;
                }
                self.asked.clear();
                self.net.now_ms += self.net.chance.below(120_000);
            }
            over(hour);
        }
        self.tally.sent = self.sent;
        Ok(self.tally)
    }

    pub(super) fn play(mut self) -> Result<Tally, Wrong> {
        for _ in 0..TURNS {
            let together = 1 + self.net.chance.below(3);
            let first = self.asked.len();
            let before = self.sent;
            for _ in 0..together {
                self.ask();
            }
            self.settle();
            let cost = self.sent - before;
            if cost > MAX_QUERIES * together {
                return Err(self.wrong(first, format!("{cost} queries for {together} questions")));
            }
            self.tally.most_queries = self.tally.most_queries.max(cost.div_ceil(together));
            for number in first..self.asked.len() {
                self.check(number).map_err(|what| self.wrong(number, what))?;
            }
            self.pass();
        }
        self.tally.sent = self.sent;
        Ok(self.tally)
    }

    fn wrong(&self, number: usize, what: String) -> Wrong {
        let asked = &self.asked[number];
        let question = format!("{} {}", shown(&asked.qname), asked.qtype);
        let wire = [&asked.qname[..], &asked.qtype.0.to_be_bytes(), &[0, 1]].concat();
        let traces = self.server.kept_traces().filter(|trace| trace.question() == wire);
        let steps = traces.last().map(steps).unwrap_or_default();
        Wrong { question, number, what, steps }
    }

    /// Time goes by, and now and then somebody sets the clock.
    fn pass(&mut self) {
        let chance = &mut self.net.chance;
        let waits_ms = [0, 1_000, 30_000, 400_000, 4_000_000][chance.below(5) as usize];
        match chance.below(12) {
            0 => self.wall_offset_secs -= 86_400,
            1 => self.wall_offset_secs += 86_400,
            2 => self.wall_offset_secs += 2 * VALID_SECS as i64,
            3 => self.wall_offset_secs = 0,
            _ => {}
        }
        self.was_set |= self.wall_offset_secs != 0;
        self.net.now_ms += waits_ms;
    }

    fn moment(&self) -> Moment {
        let now_ms = self.net.now_ms;
        let since_secs = (now_ms - START_MS) / 1_000;
        Moment { now_ms, wall_secs: (START_SECS + since_secs).saturating_add_signed(self.wall_offset_secs) }
    }

    /// Is the wall clock within the time of all signatures?
    fn is_in_time(&self) -> bool {
        self.moment().wall_secs.abs_diff(START_SECS) < VALID_SECS - 86_400
    }

    fn ask(&mut self) {
        let chance = &mut self.net.chance;
        let names = &self.internet.names;
        let mut qname = names[chance.below(names.len() as u64) as usize].clone();
        if chance.percent(10) {
            qname = super::internet::child(format!("z{}", chance.below(1 << 20)).as_bytes(), &qname);
        }
        const TYPES: [Rtype; 10] = [
            Rtype::A,
            Rtype::A,
            Rtype::A,
            Rtype::A,
            Rtype::TXT,
            Rtype::NS,
            Rtype::DS,
            Rtype::SOA,
            Rtype::DNSKEY,
            Rtype::MX,
        ];
        let qtype = TYPES[chance.below(10) as usize];
        let how = (chance.percent(50), if chance.percent(10) { RD | CD | AD } else { RD | AD });
        self.submit(qname, qtype, how);
    }

    fn submit(&mut self, qname: Wire, qtype: Rtype, (dnssec_ok, flags): (bool, u16)) {
        let number = self.asked.len();
        let mut octets = Vec::new();
        for word in [number as u16, flags, 1, 0, 0, 1] {
            octets.extend(word.to_be_bytes());
        }
        octets.extend(&qname);
        octets.extend(qtype.0.to_be_bytes());
        octets.extend(Class::IN.0.to_be_bytes());
        octets.extend([0, 0, 41, 16, 0, 0, 0, u8::from(dnssec_ok) << 7, 0, 0, 0]);
        self.asked.push(Asked { qname, qtype, flags, dnssec_ok, at_ms: self.net.now_ms, answers: Vec::new() });
        let effects = self.server.query(number, &octets, Transport::Tcp, self.moment());
        self.perform(effects);
    }

    fn settle(&mut self) {
        loop {
            let next = [self.net.next_ms(), self.server.next_deadline()].into_iter().flatten().min();
            let Some(next) = next else { return };
            self.net.now_ms = self.net.now_ms.max(next);
            while let Some(event) = self.net.arrived() {
                self.deliver(event);
            }
            let effects = self.server.tick(self.moment());
            self.perform(effects);
        }
    }

    fn deliver(&mut self, event: Event) {
        match event {
            Event::ToUs { line: (number, opened), octets } => {
                if self.lines.get(&number) == Some(&opened) {
                    let effects = self.server.reply(number, &octets, self.moment());
                    self.perform(effects);
                }
            }
            Event::ToServer { line, server, octets, over_tcp } => {
                let query = Query::read(&octets, over_tcp);
                let Some(at) = self.internet.servers.iter().find(|known| IpAddr::from(known.addr) == server.ip())
                else {
                    return;
                };
                let mut chance = Chance::new(self.net.chance.number());
                for (after_ms, octets) in authority::replies(&self.internet, at, &query, (&mut chance, START_SECS)) {
                    let event = Event::ToUs { line, octets };
                    if over_tcp { self.net.schedule(event, after_ms + 10) } else { self.net.send(&event, after_ms) }
                }
            }
        }
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask { line, server, octets, transport } => {
                    self.opened += 1;
                    self.sent += 1;
                    self.lines.insert(line, self.opened);
                    let over_tcp = transport == Transport::Tcp;
                    let event = Event::ToServer { line: (line, self.opened), server, octets, over_tcp };
                    if over_tcp { self.net.schedule(event, 10) } else { self.net.send(&event, 0) }
                }
                Effect::Close { line } => {
                    self.lines.remove(&line);
                }
                Effect::Answer { client, octets } => {
                    let now_ms = self.net.now_ms;
                    self.asked[client].answers.push((now_ms, octets));
                }
            }
        }
    }

    fn check(&mut self, number: usize) -> Result<(), String> {
        let asked = &self.asked[number];
        let [(at_ms, octets)] = &asked.answers[..] else { return Err(format!("{} answers", asked.answers.len())) };
        let took_ms = at_ms - asked.at_ms;
        if took_ms > MAX_ANSWER_MS {
            return Err(format!("answered after {took_ms} ms"));
        }
        let answer = read(octets, number as u16, asked)?;
        let truth = Truth::of(&self.internet, &asked.qname, asked.qtype);
        self.compare(asked, &answer, &truth)?;
        self.tally.questions += 1;
        self.tally.failed += u64::from(answer.rcode == Rcode::SERVFAIL);
        self.tally.authentic += u64::from(answer.is_authentic);
        self.tally.longest_ms = self.tally.longest_ms.max(took_ms);
        Ok(())
    }

    fn compare(&self, asked: &Asked, answer: &Answer, truth: &Truth) -> Result<(), String> {
        let is_true = answer.rcode == truth.rcode && answer.facts.keys().eq(truth.answer.keys());
        let is_validated = asked.flags & CD == 0;
        if answer.is_authentic && !(truth.is_secure && is_true) {
            return Err(format!("AD on what is not so, or not secure: {}", told(answer, truth)));
        }
        if answer.ttl_secs > MAX_TTL_SECS {
            return Err(format!("a TTL of {} s", answer.ttl_secs));
        }
        let grown = answer.facts.iter().find(|(fact, ttl)| truth.answer.get(*fact).is_some_and(|most| *ttl > most));
        if let Some((fact, ttl_secs)) = grown {
            return Err(format!("the TTL of {} has grown to {ttl_secs} s", shown(&fact.0)));
        }
        if !truth.has_end || answer.rcode == Rcode::SERVFAIL {
            return self.may_fail(truth);
        }
        let must_be_true = !truth.is_tainted || truth.is_secure && is_validated;
        if must_be_true && !is_true {
            return Err(format!("not what the zones say: {}", told(answer, truth)));
        }
        if is_true && truth.is_secure && is_validated && !answer.is_authentic && truth.rcode != Rcode::YXDOMAIN {
            return Err(format!("secure, and no AD: {}", told(answer, truth)));
        }
        Ok(())
    }

    /// Each zone has a server that is as it should be: where no datagram is lost, nobody lies, and the clock is right, there
    /// is no excuse.
    fn may_fail(&self, truth: &Truth) -> Result<(), String> {
        let is_sound = !self.internet.is_hostile && self.net.faults.loss == 0;
        if truth.has_end && is_sound && self.is_in_time() && !self.was_set {
            return Err("SERVFAIL, and nothing is wrong".to_owned());
        }
        Ok(())
    }
}

/// How an internet is asked.
fn asking(internet: &Internet) -> Simulated {
    Simulated {
        hints: internet.hints().into_iter().map(IpAddr::from).collect(),
        root_key: internet.zones[0].key.as_ref().map(super::sign::Key::dnskey),
        qname_minimisation: true,
        aggressive_nsec: true,
    }
}

/// The steps of a trace, one a line.
fn steps(trace: &Trace) -> Vec<String> {
    let line = |event: &Told| {
        let step = match &event.step {
            Step::Seek { name, rtype, .. } => format!("seek {} {rtype}", shown(name)),
            Step::Cut { zone, addresses, .. } => format!("cut {}, {addresses} addresses", shown(zone)),
            Step::Sent { server, name, rtype, over_tcp, .. } => {
                let name = name.as_ref().map(|name| shown(name)).unwrap_or_default();
                format!("ask {} {name} {rtype}{}", server.ip(), if *over_tcp { " by TCP" } else { "" })
            }
            Step::Replied { server, reaction, .. } => format!("{}: {reaction:?}", server.ip()),
            Step::Taken(Taken::Referral(zone)) => format!("referral to {}", shown(zone)),
            Step::Alias(name) => format!("on with {}", shown(name)),
            Step::Judged { name, rtype, verdict, fault, .. } => {
                format!("{} {rtype}: {verdict:?} {fault:?}", shown(name))
            }
            Step::Chain { zone, fault, .. } => format!("keys of {}: {fault:?}", shown(zone)),
            Step::KnownChain { zone, fault } => format!("known keys of {}: {fault:?}", shown(zone)),
            Step::Cached { name, rtype, find, .. } => format!("cached {} {rtype}: {find:?}", shown(name)),
            other => format!("{other:?}"),
        };
        format!("{:>5} ms {}{step}", event.at_ms, "  ".repeat(event.depth.into()))
    };
    trace.events().iter().map(line).collect()
}

fn told(answer: &Answer, truth: &Truth) -> String {
    let facts = |facts: &BTreeMap<Fact, u32>| {
        let fact = |(owner, rtype, data): &Fact| format!("{} {} {data:?}", shown(owner), Rtype(*rtype));
        facts.keys().map(fact).collect::<Vec<_>>().join(", ")
    };
    format!("{} [{}], expected {} [{}]", answer.rcode, facts(&answer.facts), truth.rcode, facts(&truth.answer))
}

fn read(octets: &[u8], id: u16, asked: &Asked) -> Result<Answer, String> {
    let view = MessageView::new(octets).map_err(|error| format!("{error:?}"))?;
    let header = view.header();
    let question = [&asked.qname[..], &asked.qtype.0.to_be_bytes(), &[0, 1]].concat();
    let is_ours = header.id == id && header.has(QR) && octets[12..].starts_with(&question);
    if !is_ours {
        return Err("not the answer to this question".to_owned());
    }
    let mut answer =
        Answer { rcode: header.rcode(), is_authentic: header.has(AD), facts: BTreeMap::new(), ttl_secs: 0 };
    for record in view.records().map_err(|error| format!("{error:?}"))? {
        let record: RecordView<'_> = record.map_err(|error| format!("{error:?}"))?;
        if record.rtype == Rtype::OPT {
            continue;
        }
        answer.ttl_secs = answer.ttl_secs.max(record.ttl_field);
        if record.rtype.is_dnssec_proof() && !asked.dnssec_ok && record.rtype != asked.qtype {
            return Err(format!("{} without DO", record.rtype));
        }
        if record.section == RecordSection::Answer && record.rtype != Rtype::RRSIG {
            let mut data = vec![0; usize::from(u16::MAX)];
            let len = record.expand_rdata(&mut data).map_err(|error| format!("{error:?}"))?;
            data.truncate(len);
            let owner = record.owner().map_err(|error| format!("{error:?}"))?.folded().wire().to_vec();
            answer.facts.insert((owner, record.rtype.0, data), record.ttl_field);
        }
    }
    debug_assert!(name::wire_len(&asked.qname).is_ok());
    Ok(answer)
}
