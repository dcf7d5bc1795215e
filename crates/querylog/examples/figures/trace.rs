//! The trace: queries of 500 clients for 200,000 names, both with frequencies by Zipf's law. There
//! are eight lists and two million queries per day. Answers and their sizes depend on the name.

use std::collections::HashMap;
use std::net::IpAddr;

use avocet_querylog::{
    Entry, Facts, Label, Labels, NO_EDE, Outcome, Privacy, Producer, RawEntry, RawFacts,
};

const NAMES: usize = 200_000;
const CLIENTS: usize = 500;
const LISTS: u16 = 8;
pub(crate) const DAY_US: u64 = 86_400_000_000;
/// Number of queries per day.
pub(crate) const DAY_ENTRIES: u64 = 2_000_000;
/// The start of the trace: 2026-11-01.
pub(crate) const START_US: u64 = 1_793_491_200_000_000;

/// A generator of pseudo-random numbers: splitmix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Returns a number in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A table for drawing ranks with frequencies in proportion to 1/rank.
struct Zipf(Vec<f64>);

impl Zipf {
    fn of(count: usize) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = Vec::with_capacity(count);
        for rank in 1..=count {
            sum += 1.0 / rank as f64;
            sums.push(sum);
        }
        sums.iter_mut().for_each(|value| *value /= sum);
        Self(sums)
    }

    fn draw(&self, chance: &mut Chance) -> usize {
        let wanted = chance.unit();
        self.0.partition_point(|sum| *sum < wanted).min(self.0.len() - 1)
    }
}

/// A name with its answers in the trace.
struct Known {
    wire: Vec<u8>,
    answer: Vec<u8>,
    is_blocked: bool,
    lists: Vec<u16>,
    response_size: u16,
}

impl Known {
    fn of(rank: usize) -> Self {
        let mut chance = Chance(rank as u64);
        let words = ["www", "api", "cdn", "img", "static", "mail", "login", "edge", "events", "m"];
        let zones = ["com", "net", "org", "de", "io"];
        let mut letters = |least: u64, most: u64| -> String {
            let count = least + chance.below(most - least);
            (0..count)
                .map(|_| char::from(b"etaoinshrdlucmfwyp"[chance.below(18) as usize]))
                .collect()
        };
        let host = letters(3, 10);
        let zone = letters(4, 13);
        let labels = [
            if rank.is_multiple_of(3) { host } else { words[rank % words.len()].to_owned() },
            zone,
            zones[rank % zones.len()].to_owned(),
        ];
        let mut wire = Vec::new();
        for label in labels {
            wire.push(label.len() as u8);
            wire.extend_from_slice(label.as_bytes());
        }
        wire.push(0);
        let is_blocked = chance.below(5) == 0;
        let mut answer = Vec::new();
        if !is_blocked {
            answer.extend_from_slice(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x01\x2c\x00\x04");
            answer.extend_from_slice(&(chance.next() as u32).to_be_bytes());
        }
        let count = if is_blocked { 1 + chance.below(3) } else { 0 };
        let lists = (0..count).map(|_| 1 + chance.below(u64::from(LISTS)) as u16).collect();
        let response_size = wire.len() as u16 + 27 + 16 * (1 + chance.below(4) as u16);
        Self { wire, answer, is_blocked, lists, response_size }
    }
}

/// The queries, one after another.
pub(crate) struct Trace {
    chance: Chance,
    names: Vec<Known>,
    by_name: Zipf,
    by_client: Zipf,
    /// Time of the latest entry in microseconds since the epoch.
    pub(crate) time_us: f64,
    gap_us: f64,
}

impl Trace {
    /// Returns the name of a rank in presentation format; zero is the most frequent.
    pub(crate) fn name(rank: usize) -> String {
        shown(&Known::of(rank).wire)
    }

    pub(crate) fn begin() -> Self {
        Self {
            chance: Chance(1),
            names: (0..NAMES).map(Known::of).collect(),
            by_name: Zipf::of(NAMES),
            by_client: Zipf::of(CLIENTS),
            time_us: START_US as f64,
            gap_us: DAY_US as f64 / DAY_ENTRIES as f64,
        }
    }

    /// Returns the lists of each name that is blocked.
    pub(crate) fn lists(&self) -> HashMap<Vec<u8>, Vec<u16>> {
        let blocked = self.names.iter().filter(|name| name.is_blocked);
        blocked.map(|name| (name.wire.clone(), name.lists.clone())).collect()
    }

    pub(crate) fn next(&mut self) -> Entry<'_> {
        let chance = &mut self.chance;
        self.time_us += -self.gap_us * (1.0 - chance.unit()).ln();
        let name = &self.names[self.by_name.draw(chance)];
        let client = self.by_client.draw(chance) as u32;
        let qtype = [1, 1, 1, 1, 1, 28, 28, 28, 65, 65][chance.below(10) as usize];
        let is_hit = chance.below(100) < 85;
        let is_resolved = !is_hit && !name.is_blocked;
        let rtt = if is_resolved { 4_000 + chance.below(60_000) as u32 } else { 0 };
        let facts = Facts {
            time_us: self.time_us as u64,
            client: IpAddr::from((0xc0a8_0000 | client).to_be_bytes()),
            response_delay_us: rtt + 4 + chance.below(12) as u32,
            upstream_rtt_us: rtt,
            revision: 3,
            profile: (client % 5) as u16,
            device: client as u16 + 1,
            known_as: 0,
            listener: 0,
            upstream: if is_resolved { 1 + chance.below(2) as u16 } else { 0 },
            rule: if name.is_blocked { name.lists[0] } else { 0 },
            qtype,
            qclass: 1,
            flags: 0x8180,
            rcode: 0,
            ede: if name.is_blocked { 15 } else { NO_EDE },
            answer_count: u16::from(!name.answer.is_empty()),
            query_size: name.wire.len() as u16 + 27,
            response_size: name.response_size,
            stage: if name.is_blocked {
                1
            } else if is_hit {
                2
            } else {
                3
            },
            transport: 0,
            cache: if name.is_blocked { 0 } else { 1 + u8::from(is_hit) },
            validation: 0,
            outcome: if name.is_blocked { Outcome::Blocked } else { Outcome::Answered },
            privacy: Privacy::Full,
        };
        Entry { facts, qname: &name.wire, lists: &name.lists, answer: &name.answer }
    }
}

/// The outcome for each stage in the trace: no stage, blocked, answered by the cache, and answered
/// by an upstream.
pub(crate) const OUTCOMES: [Outcome; 4] =
    [Outcome::Answered, Outcome::Blocked, Outcome::Answered, Outcome::Answered];

/// Messages of an entry, with reused memory.
#[derive(Default)]
pub(crate) struct Messages {
    reply: Vec<u8>,
}

impl Messages {
    /// Pushes the entry as a worker does.
    pub(crate) fn push(&mut self, entry: &Entry<'_>, producer: &mut Producer) {
        let facts = &entry.facts;
        self.reply.clear();
        for number in [0, facts.flags, 1, facts.answer_count, 0, 0] {
            self.reply.extend_from_slice(&number.to_be_bytes());
        }
        let header = self.reply.len();
        self.reply.extend_from_slice(entry.qname);
        self.reply.extend_from_slice(&facts.qtype.to_be_bytes());
        self.reply.extend_from_slice(&facts.qclass.to_be_bytes());
        let question = self.reply.len();
        self.reply.extend_from_slice(entry.answer);
        // The added octets stand for the other sections, which the ring does not keep.
        self.reply.resize(facts.response_size.into(), 0);
        let raw = RawFacts {
            time_us: facts.time_us,
            response_delay_us: facts.response_delay_us,
            upstream_rtt_ms: facts.upstream_rtt_us.div_ceil(1000),
            revision: facts.revision,
            profile: facts.profile,
            device: 0,
            listener: facts.listener,
            upstream: facts.upstream,
            rule: facts.rule,
            rcode: facts.rcode,
            ede: facts.ede,
            query_size: facts.query_size,
            stage: facts.stage,
            transport: facts.transport,
            cache: facts.cache,
            validation: facts.validation,
        };
        let question = &self.reply[header..question];
        producer.push(&RawEntry { client: &facts.client, question, reply: &self.reply }, &raw);
    }
}

/// The texts of the numbers in the trace.
pub(crate) struct Texts;

impl Labels for Texts {
    fn texts(&self, _revision: u32, label: Label, number: u16, found: &mut dyn FnMut(&str)) {
        match label {
            Label::Stage => {
                found(["none", "blocked", "packet-hit", "resolved"][usize::from(number)]);
            }
            Label::Transport => found("udp"),
            Label::Cache => found(["not-asked", "miss", "hit"][usize::from(number)]),
            Label::Validation => found("unknown"),
            Label::Device => found(&format!("device-{number}")),
            Label::Upstream => found(&format!("9.9.9.{number}:53")),
            Label::Rule | Label::List => found(&format!("list-{number}")),
            Label::Groups => {
                found(["adults", "children", "guests", "work", "media"][usize::from(number)])
            }
            Label::Listener => {}
        }
    }
}

/// Returns a name in presentation format; the names of the trace need no escapes.
pub(crate) fn shown(wire: &[u8]) -> String {
    let (mut text, mut rest) = (String::new(), wire);
    while let Some((len, after)) = rest.split_first().filter(|(len, _)| **len > 0) {
        let (label, next) = after.split_at(usize::from(*len));
        text += str::from_utf8(label).expect("labels are ASCII");
        text.push('.');
        rest = next;
    }
    text
}
