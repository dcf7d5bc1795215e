//! The caches of a scenario's server, searched like a server does: packets first, then records.

use std::sync::Arc;

use avocet_cache::{
    FailureCache, PacketCache, PacketKey, PacketLookup, PacketMeta, ReadAt, RrsetCache,
    packet_flags,
};
use avocet_resolver::{Answers, AskedFor, Assembled, Assembler, Plan, Resolved, Wanted};
use avocet_wire::header::{CD, HEADER_LEN, RD};
use avocet_wire::query::QuestionKey;
use avocet_wire::{Ede, Question, Rcode};

use super::config::Config;

/// Memory of a cache in octets, which no scenario fills.
const CACHE_BYTES: usize = 1 << 20;
const FAILURE_BYTES: usize = 1 << 18;

/// The data to look up.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) key: &'a QuestionKey,
    /// RD and CD.
    pub(super) flags: u16,
    pub(super) dnssec_ok: bool,
}

/// The result of a look-up.
pub(super) struct Found {
    pub(super) message: Vec<u8>,
    pub(super) rcode: Rcode,
    pub(super) ede: Option<(Ede, &'static str)>,
}

/// Whether expired data is accepted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    Fresh,
    /// Expired data is accepted, if the scenario enables it.
    Any,
}

/// Packet cache and RRset cache.
pub(super) struct Caches {
    plan: Arc<Plan>,
    packets: PacketCache,
    pub(super) rrsets: RrsetCache,
    pub(super) failures: FailureCache,
    assembler: Assembler,
    answers: Answers,
    /// Room for a message, reused because clearing it for each look-up would be costly.
    room: Box<[u8]>,
    stale_secs: u32,
}

impl Sought<'_> {
    fn packet_key(&self) -> PacketKey<'_> {
        let set = [
            (self.flags & RD != 0, packet_flags::RD),
            (self.dnssec_ok, packet_flags::DO),
            (self.flags & CD != 0, packet_flags::CD),
        ];
        packet_key(self.key.question(), &set)
    }
}

impl Caches {
    /// Creates empty caches.
    pub(super) fn new(config: &Config, plan: Arc<Plan>) -> Result<Self, String> {
        let too_small = |_| "a cache is too small".to_owned();
        Ok(Self {
            plan,
            packets: PacketCache::new(CACHE_BYTES, config.stale_secs).map_err(too_small)?,
            rrsets: RrsetCache::new(CACHE_BYTES, config.stale_secs, config.ttl, [1; 16])
                .map_err(too_small)?,
            failures: FailureCache::new(FAILURE_BYTES, [2; 16]).map_err(too_small)?,
            assembler: Assembler::default(),
            answers: Answers::default(),
            room: vec![0; usize::from(u16::MAX)].into(),
            stale_secs: config.stale_secs,
        })
    }

    /// Reports whether there is an answer of any age for a client that waits too long.
    pub(super) fn has_stale(&mut self, sought: &Sought<'_>, now_secs: u32) -> bool {
        self.stale_secs > 0 && self.find(sought, now_secs, Age::Any).is_some()
    }

    /// Returns the answer to a question.
    pub(super) fn find(&mut self, sought: &Sought<'_>, now_secs: u32, age: Age) -> Option<Found> {
        let key = sought.packet_key();
        let out = &mut self.room[..];
        match self.packets.lookup(hash(sought.key.hash, &key), &key, now_secs, 0, out) {
            PacketLookup::Hit(hit) => return Some(found(&out[..hit.len], None)),
            PacketLookup::Stale(stale) if age == Age::Any => {
                return Some(found(&out[..stale.len], Some(())));
            }
            _ => {}
        }
        let wanted = Wanted {
            question: sought.key.question(),
            dnssec_ok: sought.dnssec_ok,
            checking_disabled: sought.flags & CD != 0,
            translates: false,
            at: ReadAt {
                now: now_secs,
                stale_window: if age == Age::Any { self.stale_secs } else { 0 },
            },
        };
        self.answers.clear();
        let assembled =
            self.assembler.assemble(&self.plan, &self.rrsets, &wanted, &mut self.answers);
        let Assembled::Complete { resolved, stale_since_secs } = assembled else { return None };
        let answers = std::mem::take(&mut self.answers);
        if stale_since_secs.is_none() {
            self.insert(sought.key.hash, &key, (&resolved, &answers), now_secs);
        }
        let found = found(&answers.octets[resolved.message], stale_since_secs.map(|_| ()));
        self.answers = answers;
        Some(found)
    }

    /// Stores the result of a resolution.
    pub(super) fn keep(
        &self,
        asked: AskedFor,
        (resolved, answers): (&Resolved, &Answers),
        now_secs: u32,
    ) {
        let message = &answers.octets[resolved.message.clone()];
        let question = &message[HEADER_LEN..HEADER_LEN + asked.question_len];
        let set = [
            (true, packet_flags::RD),
            (asked.dnssec_ok, packet_flags::DO),
            (asked.checking_disabled, packet_flags::CD),
        ];
        let key = packet_key(Question::from_folded_unchecked(question), &set);
        if resolved.rcode != Rcode::SERVFAIL {
            self.insert(asked.hash, &key, (resolved, answers), now_secs);
        }
    }

    fn insert(
        &self,
        of_question: u64,
        key: &PacketKey<'_>,
        (resolved, answers): (&Resolved, &Answers),
        now_secs: u32,
    ) {
        if resolved.ttl_secs == 0 {
            return;
        }
        let meta = PacketMeta {
            stored_at: now_secs,
            valid_for: resolved.ttl_secs,
            epoch: 0,
            flags: packet_flags::STALE_OK,
            ede: None,
            note: 0,
        };
        let message = &answers.octets[resolved.message.clone()];
        let ttl_offsets = &answers.ttl_offsets[resolved.ttl_offsets.clone()];
        self.packets.insert(hash(of_question, key), key, message, ttl_offsets, &meta);
    }
}

fn packet_key<'q>(question: Question<'q>, flags: &[(bool, u8)]) -> PacketKey<'q> {
    let flags = flags.iter().filter(|(is_set, _)| *is_set).fold(0, |set, (_, flag)| set | flag);
    PacketKey { profile: 0, flags, question }
}

fn hash(of_question: u64, key: &PacketKey<'_>) -> u64 {
    of_question ^ (u64::from(key.flags) << 32)
}

fn found(message: &[u8], stale: Option<()>) -> Found {
    let rcode = Rcode(u16::from(message[3] & 0xf));
    let ede = stale
        .map(|()| if rcode == Rcode::NXDOMAIN { Ede::STALE_NXDOMAIN } else { Ede::STALE_ANSWER });
    Found { message: message.to_vec(), rcode, ede: ede.map(|ede| (ede, "")) }
}
