//! Clients, the server and the network of a simulation, in virtual time.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use avocet_wire::header::{AD, CD, RD};
use avocet_wire::{Rcode, Rtype};

use super::answer::{Answer, Asked};
use super::authority::{self, Delayed, Scene};
use super::internet::{Internet, MAX_TTL_SECS};
use super::judge::{Found, Judge};
use super::sign::{Key, VALID_SECS};
use super::steps::steps;
use super::truth::Truth;
use super::weakness::Weakness;
use super::zone::{Wire, below};
use super::{Fault, Mode, START_SECS, Tally, Wrong, attacker, forwarder};
use crate::scenario::server::{Effect, Moment, Server};
use crate::scenario::{Simulated, Transport};
use crate::{Chance, Faults, Network, Query};

/// The monotonic clock at the start, in ms.
const START_MS: u64 = 1_000_000;
/// The longest time to an answer, in ms.
const MAX_ANSWER_MS: u64 = 10_000;
/// Maximum number of queries to servers for one question: 64, and 8 more for each of 11 aliases.
const MAX_QUERIES: u64 = 64 + 8 * 11;
/// Minimum number of rounds in which clients send questions.
const MIN_TURNS: u64 = 6;
const MORE_TURNS: u64 = 10;
/// Maximum number of workers that share the caches.
const MAX_WORKERS: u64 = 3;
/// Time after its last reply in which an attacker can have an effect, in ms: the highest TTL and
/// the longest memory of a failure or of a server's behaviour.
const AFTERMATH_MS: u64 = 2 * MAX_TTL_SECS as u64 * 1_000;

/// The index of a socket or connection, and the number of those that were opened before it. Because
/// indexes are reused, only both values together identify a connection.
type Line = (u32, u64);

#[derive(Clone, Debug)]
enum Event {
    ToServer { line: Line, server: SocketAddr, octets: Vec<u8>, over_tcp: bool },
    ToUs { line: Line, octets: Vec<u8> },
}

pub(super) struct World {
    internet: Internet,
    server: Server,
    net: Network<Event>,
    wall_offset_secs: i64,
    /// Whether the wall clock was ever wrong. A wrong clock causes failures, and the server caches
    /// these for a while.
    was_set: bool,
    /// The time at which the attacker stopped, in ms. `None` while it is active.
    peace_since_ms: Option<u64>,
    lines: HashMap<u32, u64>,
    opened: u64,
    asked: Vec<Asked>,
    sent: u64,
    weakness: Option<Weakness>,
    tally: Tally,
}

impl World {
    pub(super) fn new(mode: Mode, seed: u64, weakness: Option<Weakness>) -> Result<Self, Wrong> {
        let mut chance = Chance::new(seed);
        let internet = Internet::draw(mode, &mut chance);
        let simulated = Simulated {
            qname_minimisation: chance.percent(70),
            aggressive_nsec: chance.percent(70),
            workers: 1 + chance.below(MAX_WORKERS) as usize,
            ..simulated(&internet, weakness)
        };
        let faults = Faults {
            loss: [0, 0, 0, 5, 20, 40][chance.below(6) as usize],
            duplicate: [0, 0, 10][chance.below(3) as usize],
            delay_ms: 1 + chance.below(40),
            jitter_ms: [0, 5, 60][chance.below(3) as usize],
        };
        let server = Server::simulated(&simulated, seed).map_err(Wrong::of_world)?;
        let world = Self::of(internet, server, Network::new(chance.number(), START_MS, faults));
        Ok(Self { weakness, ..world })
    }

    /// Creates a world with good servers only, and a network that loses datagrams in each
    /// direction.
    pub(super) fn lossy(seed: u64, percent: u32) -> Result<Self, Wrong> {
        let mut chance = Chance::new(seed);
        let mut internet = Internet::draw(Mode::Recursion, &mut chance);
        internet.mend();
        let server =
            Server::simulated(&simulated(&internet, None), seed).map_err(Wrong::of_world)?;
        Ok(Self::of(
            internet,
            server,
            Network::new(chance.number(), START_MS, Faults::loss(percent)),
        ))
    }

    fn of(internet: Internet, server: Server, net: Network<Event>) -> Self {
        Self {
            internet,
            server,
            net,
            wall_offset_secs: 0,
            was_set: false,
            peace_since_ms: None,
            lines: HashMap::new(),
            opened: 0,
            asked: Vec::new(),
            sent: 0,
            weakness: None,
            tally: Tally::default(),
        }
    }

    /// Asks for the address of each name once, `together` names at a time.
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
                self.check(number).map_err(|found| self.wrong(number, found))?;
            }
        }
        self.tally.sent = self.sent;
        Ok(self.tally)
    }

    /// Asks for names for some hours, while the network changes hourly and servers break and are
    /// repaired. Calls `over` at the end of each hour.
    pub(super) fn play_hours(
        mut self,
        hours: u64,
        over: &mut dyn FnMut(u64),
    ) -> Result<Tally, Wrong> {
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
                    self.check(number).map_err(|found| self.wrong(number, found))?;
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
        let turns = MIN_TURNS + self.net.chance.below(MORE_TURNS);
        // Some attackers stop. Everything must then recover in time.
        let peace_at = self.net.chance.below(2 * turns);
        for turn in 0..turns {
            if turn == peace_at {
                self.peace_since_ms = Some(self.net.now_ms);
            }
            let together = 1 + self.net.chance.below(3);
            let first = self.asked.len();
            let before = self.sent;
            for _ in 0..together {
                self.ask();
            }
            self.settle();
            let cost = self.sent - before;
            if cost > MAX_QUERIES * together {
                let found = (Fault::Queries, format!("{cost} queries for {together} questions"));
                return Err(self.wrong(first, found));
            }
            self.tally.most_queries = self.tally.most_queries.max(cost.div_ceil(together));
            for number in first..self.asked.len() {
                self.check(number).map_err(|found| self.wrong(number, found))?;
            }
            self.pass();
        }
        self.tally.sent = self.sent;
        Ok(self.tally)
    }

    fn wrong(&self, number: usize, (fault, what): Found) -> Wrong {
        let asked = &self.asked[number];
        let wire = asked.question();
        let traces = self
            .server
            .kept_traces()
            .filter(|trace| trace.question().is_some_and(|question| question.octets() == wire));
        let steps = traces.last().map(steps).unwrap_or_default();
        Wrong {
            fault,
            question: asked.shown(),
            number,
            what,
            internet: self.internet.shown(),
            steps,
        }
    }

    /// Lets time pass. Occasionally sets the clock, and reloads or restarts the server.
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
        match chance.below(10) {
            0 | 1 => self.server.forget_proofs(chance.number()),
            2 => self.server.restart(chance.number()),
            _ => {}
        }
        self.was_set |= self.wall_offset_secs != 0;
        self.net.now_ms += waits_ms;
    }

    fn moment(&self) -> Moment {
        let now_ms = self.net.now_ms;
        let since_secs = (now_ms - START_MS) / 1_000;
        Moment {
            now_ms,
            wall_secs: (START_SECS + since_secs).saturating_add_signed(self.wall_offset_secs),
        }
    }

    /// Reports whether the wall clock is within the validity of all signatures.
    fn is_in_time(&self) -> bool {
        self.moment().wall_secs.abs_diff(START_SECS) < VALID_SECS - 86_400
    }

    fn ask(&mut self) {
        const TYPES: [Rtype; 12] = [
            Rtype::A,
            Rtype::A,
            Rtype::A,
            Rtype::A,
            Rtype::A,
            Rtype::TXT,
            Rtype::NS,
            Rtype::DS,
            Rtype::SOA,
            Rtype::DNSKEY,
            Rtype::CNAME,
            Rtype::MX,
        ];
        let chance = &mut self.net.chance;
        let names = &self.internet.names;
        let mut qname = names[chance.below(names.len() as u64) as usize].clone();
        if chance.percent(20) {
            qname = below(format!("z{}", chance.below(1 << 20)).as_bytes(), &qname);
        }
        let qtype = TYPES[chance.below(TYPES.len() as u64) as usize];
        let how = (chance.percent(50), if chance.percent(10) { RD | CD | AD } else { RD | AD });
        self.submit(qname, qtype, how);
    }

    fn submit(&mut self, qname: Wire, qtype: Rtype, (dnssec_ok, flags): (bool, u16)) {
        let number = self.asked.len();
        let asked =
            Asked { qname, qtype, flags, dnssec_ok, at_ms: self.net.now_ms, answers: Vec::new() };
        let octets = asked.octets(number as u16);
        self.asked.push(asked);
        let effects = self.server.query(number, &octets, Transport::Tcp, self.moment());
        self.perform(effects);
    }

    fn settle(&mut self) {
        loop {
            let next =
                [self.net.next_ms(), self.server.next_deadline()].into_iter().flatten().min();
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
                for Delayed { after_ms, octets } in self.replies(server.ip(), &query) {
                    let event = Event::ToUs { line, octets };
                    if over_tcp {
                        self.net.schedule(event, after_ms + 10)
                    } else {
                        self.net.send(&event, after_ms)
                    }
                }
            }
        }
    }

    fn replies(&mut self, server: IpAddr, query: &Query) -> Vec<Delayed> {
        if server == IpAddr::from(attacker::FORGED) {
            return attacker::replies(query);
        }
        let internet = &self.internet;
        let chance = Chance::new(self.net.chance.number());
        let mut scene =
            Scene { internet, is_attacked: self.peace_since_ms.is_none(), chance, changed: 0 };
        let mut forwarders = internet.forwarding.iter().flat_map(|rule| &rule.servers);
        let replies = if let Some((_, behaviour)) =
            forwarders.find(|(addr, _)| IpAddr::from(*addr) == server)
        {
            forwarder::replies(&mut scene, *behaviour, query)
        } else {
            let known = internet.servers.iter().find(|known| IpAddr::from(known.addr) == server);
            known.map(|server| authority::replies(&mut scene, server, query)).unwrap_or_default()
        };
        self.tally.changed += scene.changed;
        replies
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask { line, server, octets, transport } => {
                    self.opened += 1;
                    self.sent += 1;
                    self.lines.insert(line, self.opened);
                    let over_tcp = transport == Transport::Tcp;
                    let event =
                        Event::ToServer { line: (line, self.opened), server, octets, over_tcp };
                    if over_tcp { self.net.schedule(event, 10) } else { self.net.send(&event, 0) }
                }
                Effect::Close { line } => {
                    self.lines.remove(&line);
                }
                Effect::Answer { client, mut octets } => {
                    let now_ms = self.net.now_ms;
                    let asked = &mut self.asked[client];
                    if let Some(weakness) = self.weakness {
                        weakness.spoil(&mut octets, asked.question().len());
                    }
                    asked.answers.push((now_ms, octets));
                }
            }
        }
    }

    fn check(&mut self, number: usize) -> Result<(), Found> {
        let asked = &self.asked[number];
        let [(at_ms, octets)] = &asked.answers[..] else {
            return Err((Fault::Answers, format!("{} answers", asked.answers.len())));
        };
        let took_ms = at_ms - asked.at_ms;
        if took_ms > MAX_ANSWER_MS {
            return Err((Fault::Late, format!("answered after {took_ms} ms")));
        }
        let answer =
            Answer::read(octets, number as u16, asked).map_err(|what| (Fault::Message, what))?;
        let is_attacked =
            self.peace_since_ms.is_none_or(|since_ms| self.net.now_ms < since_ms + AFTERMATH_MS);
        let is_sound = self.net.faults.loss == 0 && self.is_in_time() && !self.was_set;
        let judge = Judge { internet: &self.internet, is_sound, is_attacked };
        judge.judge(asked, &answer)?;
        self.tally.questions += 1;
        self.tally.failed += u64::from(answer.rcode == Rcode::SERVFAIL);
        self.tally.authentic += u64::from(answer.is_authentic);
        self.tally.longest_ms = self.tally.longest_ms.max(took_ms);
        let mut hasher = DefaultHasher::new();
        (number, at_ms, octets).hash(&mut hasher);
        self.tally.digest = self.tally.digest.wrapping_add(hasher.finish());
        Ok(())
    }
}

/// Returns the server's configuration for an internet.
fn simulated(internet: &Internet, weakness: Option<Weakness>) -> Simulated {
    let port = |addr: &std::net::Ipv4Addr| SocketAddr::from((*addr, 53));
    let zone = |number: usize| internet.zones[number].apex.clone();
    let forwards = internet.forwarding.iter();
    let forwards = forwards
        .map(|rule| (zone(rule.zone), rule.servers.iter().map(|(addr, _)| port(addr)).collect()));
    let stubs = internet.stub.iter();
    let root_key = internet.zones[0].key.as_deref().map(Key::dnskey);
    Simulated {
        hints: internet.addresses(0).into_iter().map(IpAddr::from).collect(),
        root_key: root_key.filter(|_| weakness != Some(Weakness::ValidatesNothing)),
        qname_minimisation: true,
        aggressive_nsec: true,
        workers: 1,
        forwards: forwards.collect(),
        stubs: stubs
            .map(|&stub| (zone(stub), internet.addresses(stub).iter().map(port).collect()))
            .collect(),
    }
}
