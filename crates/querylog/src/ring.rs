//! The ring between a worker and the writer of the log.
//!
//! Each worker has its own ring, so a worker writes memory that no other worker touches. A ring
//! holds words, not octets: a slot is an `AtomicU64`, which both sides may access without `unsafe`.
//! A relaxed store to such a slot costs as much as an ordinary store. The worker fills the slots of
//! a record and then publishes the record by one store with release order. If there is no room, the
//! record is dropped and counted: the worker never waits.
//!
//! ```text
//!            consumed                published
//!               v                        v
//!   ...free...  [record][record][record]  ...free...      indices grow without end; slot = index
//!               ^ the writer reads        ^ the worker writes                       modulo slots
//! ```
//!
//! Each of the two indices has its own cache line. The worker reads the writer's index only if the
//! value it last read leaves no room. A record therefore causes no transfer of cache lines except
//! its own. After the last slot there is room for another record, so that the words of a record are
//! always consecutive. [`Producer::push`] allocates nothing. The row "cache hit, logged" of the
//! bench counts its instructions.
//!
//! ```text
//!  0  octets 16 | octets of the question 16 | validation, cache, transport, stage
//!  1  time, µs 56 | unused 7 | IPv6 1
//!  2  delay, µs 32 | round-trip time, ms 32
//!  3  revision 32 | profile 16 | rule 16
//!  4  upstream 16 | listener 16 | RCODE 16 | extended error 16
//!  5  octets of the query 16 | octets of the reply 16 | IPv4 address 32
//!  6  device 64
//!     an IPv6 address in two words
//!     the start of the reply: header, question, answer
//! ```
//!
//! The last word of the reply ends with its last octet, and repeats octets before it. Numbers that
//! are adjacent in the worker's memory are also adjacent in a record, so the compiler copies them
//! together.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use avocet_wire::hash::MAX_QUESTION;
use avocet_wire::header::HEADER_LEN;

use crate::entry::{Entry, Facts, MAX_ANSWER_OCTETS, Outcome, Privacy, RawEntry, RawFacts};
use crate::sync::{Arc, AtomicU64, Ordering, zeroed_words};

/// Number of words of a record before the IPv6 address and the octets of the reply.
const FIXED: usize = 7;
/// Number of words of an IPv6 address.
const V6_WORDS: usize = 2;
/// Number of octets of QTYPE and QCLASS.
const TYPE_AND_CLASS: usize = 4;
/// Maximum number of octets of a reply that a record keeps.
const MAX_OCTETS: usize = HEADER_LEN + MAX_QUESTION + MAX_ANSWER_OCTETS;
/// Number of words of the longest record.
const MAX_WORDS: usize = FIXED + V6_WORDS + MAX_OCTETS.div_ceil(8);
/// Number of bits of the time in its word. They suffice for two thousand years.
const TIME_BITS: u32 = 56;
/// The bit in the word of the time that marks an IPv6 address.
const IS_V6: u64 = 1 << 63;

/// A word that has a pair of cache lines to itself, because processors fetch cache lines in pairs.
#[repr(align(128))]
struct Lone(AtomicU64);

struct Slots {
    /// The slots, followed by [`MAX_WORDS`] further words. The number of slots is a power of two.
    words: Box<[AtomicU64]>,
    /// The index after the last record that the worker has published.
    published: Lone,
    /// The index of the first word that the writer has not read yet.
    consumed: Lone,
    /// Number of dropped records. Only the worker writes it.
    dropped: Lone,
}

impl Slots {
    /// Returns the number of slots of a ring.
    fn count(&self) -> usize {
        self.words.len() - MAX_WORDS
    }

    /// Returns the words from an index on. They are at least as many words as the longest record
    /// has.
    fn from(&self, index: u64) -> &[AtomicU64] {
        let start = index as usize & (self.count() - 1);
        self.words.get(start..).unwrap_or_default()
    }
}

/// Creates a ring of at least `octets` octets, with room for at least one record. `outcomes` has
/// the outcome for each stage. The consumer looks outcomes up there, so that the worker has less
/// work.
#[must_use]
pub fn ring(octets: usize, outcomes: &'static [Outcome]) -> (Producer, Consumer) {
    let count = octets.div_ceil(8).max(MAX_WORDS).next_power_of_two();
    let slots = Arc::new(Slots {
        words: zeroed_words(count + MAX_WORDS),
        published: Lone(AtomicU64::new(0)),
        consumed: Lone(AtomicU64::new(0)),
        dropped: Lone(AtomicU64::new(0)),
    });
    let limit = count as u64;
    let producer =
        Producer { slots: Arc::clone(&slots), mask: count - 1, end: 0, limit, dropped: 0 };
    (producer, Consumer { slots, outcomes, start: 0, end: 0 })
}

/// The source of the facts about an entry. [`Producer::push`] reads them once, at one of two
/// places.
///
/// Implementations should have `#[inline(always)]`. A closure in place of this trait becomes a
/// function, which writes the facts to memory for every entry.
pub trait ReadFacts {
    /// Returns the facts.
    fn read(&self) -> RawFacts;
}

impl ReadFacts for RawFacts {
    #[inline(always)]
    fn read(&self) -> RawFacts {
        *self
    }
}

/// The worker's end of a ring.
pub struct Producer {
    slots: Arc<Slots>,
    /// The mask that converts an index to the position of a slot.
    mask: usize,
    /// The index of the next word that the worker writes.
    end: u64,
    /// The index up to which the slots are known to be free.
    limit: u64,
    dropped: u64,
}

impl Producer {
    /// Appends an entry, or counts it as dropped if there is no room. Reads `facts` only if there
    /// is room.
    #[inline(always)]
    pub fn push(&mut self, entry: &RawEntry<'_>, facts: &impl ReadFacts) {
        let RawEntry { client, question, reply } = *entry;
        match kept(question.len(), reply) {
            Some(octets) => self.put(entry, octets, facts),
            // No argument is a reference, because a value that is referenced would be written to
            // memory for every entry.
            None => self.push_without_question(client, question, reply, facts.read()),
        }
    }

    /// Appends an entry that has no reply, or has a reply without the question.
    #[cold]
    #[inline(never)]
    fn push_without_question(
        &mut self,
        client: &IpAddr,
        question: &[u8],
        reply: &[u8],
        facts: RawFacts,
    ) {
        let mut octets = [0; HEADER_LEN + MAX_QUESTION];
        let (header, rest) = octets.split_at_mut(HEADER_LEN);
        if let Some(sent) = reply.get(..HEADER_LEN) {
            header.copy_from_slice(sent);
        }
        let question = question.get(..MAX_QUESTION).unwrap_or(question);
        rest[..question.len()].copy_from_slice(question);
        let octets = &octets[..HEADER_LEN + question.len()];
        self.put(&RawEntry { client, question, reply }, octets, &facts);
    }

    /// Appends an entry with `octets`, the part of its reply that is kept. `octets` must have at
    /// least eight octets.
    #[inline(always)]
    fn put(&mut self, entry: &RawEntry<'_>, octets: &[u8], facts: &impl ReadFacts) {
        let v6_words = if entry.client.is_ipv6() { V6_WORDS } else { 0 };
        let end = self.end + (FIXED + v6_words + octets.len().div_ceil(8)) as u64;
        if end > self.limit && !self.has_room(end) {
            self.drop_one();
            return;
        }
        let start = self.end as usize & self.mask;
        // One check for the longest record costs less than a check for each of its parts.
        let words = self.slots.words.get(start..).and_then(|words| words.first_chunk());
        // The facts are read after the check for room. Otherwise they would be written to memory
        // for every entry.
        if let Some(words) = words {
            put(words, entry, octets, facts.read());
        }
        self.end = end;
        self.slots.published.0.store(end, Ordering::Release);
    }

    /// Reads again how far the writer has read. Reports whether there is room up to an index.
    #[cold]
    #[inline(never)]
    fn has_room(&mut self, end: u64) -> bool {
        let consumed = self.slots.consumed.0.load(Ordering::Acquire);
        self.limit = consumed + self.slots.count() as u64;
        end <= self.limit
    }

    #[cold]
    #[inline(never)]
    fn drop_one(&mut self) {
        self.dropped += 1;
        self.slots.dropped.0.store(self.dropped, Ordering::Relaxed);
    }
}

/// Returns the octets of a reply that a record keeps: those up to the end of the question, and the
/// start of the answer section, if there is one. Returns `None` if the reply has no question, or if
/// the octets exceed [`MAX_OCTETS`].
#[inline(always)]
fn kept(question: usize, reply: &[u8]) -> Option<&[u8]> {
    let [_, _, _, _, questions_high, questions_low, high, low, ..] = reply else { return None };
    let most = if u16::from_ne_bytes([*high, *low]) == 0 { 0 } else { MAX_ANSWER_OCTETS };
    let has_question = u16::from_be_bytes([*questions_high, *questions_low]) == 1;
    let octets = reply.get(..HEADER_LEN + question + most).unwrap_or(reply);
    (has_question && octets.len() <= MAX_OCTETS).then_some(octets)
}

/// Writes a record to the start of some words.
#[inline(always)]
fn put(words: &[AtomicU64; MAX_WORDS], entry: &RawEntry<'_>, octets: &[u8], facts: RawFacts) {
    let set = |place: usize, word: u64| words[place].store(word, Ordering::Relaxed);
    let RawFacts { stage, transport, cache, validation, .. } = facts;
    let bytes = u32::from_le_bytes([validation, cache, transport, stage]);
    set(0, octets.len() as u64 | (entry.question.len() as u64) << 16 | u64::from(bytes) << 32);
    set(2, halves(facts.response_delay_us, facts.upstream_rtt_ms));
    set(3, u64::from(facts.revision) | quarters([0, 0, facts.profile, facts.rule]));
    set(4, quarters([facts.upstream, facts.listener, facts.rcode, facts.ede]));
    // The device is written even if it is zero, because to write a word costs less than to decide
    // whether it must be written.
    set(6, facts.device);
    let sizes = quarters([facts.query_size, entry.reply.len() as u16, 0, 0]);
    match entry.client {
        IpAddr::V4(address) => {
            set(1, facts.time_us);
            set(5, sizes | u64::from(address.to_bits()) << 32);
            put_octets(&words[FIXED..], octets);
        }
        IpAddr::V6(address) => {
            set(1, facts.time_us | IS_V6);
            set(5, sizes);
            let address = address.to_bits();
            set(FIXED, address as u64);
            set(FIXED + 1, (address >> 64) as u64);
            put_octets(&words[FIXED + V6_WORDS..], octets);
        }
    }
}

/// Writes at least eight octets to the start of a slice of words.
#[inline(always)]
fn put_octets(words: &[AtomicU64], octets: &[u8]) {
    let set = |word: &AtomicU64, octets| word.store(u64::from_le_bytes(octets), Ordering::Relaxed);
    let Some(last) = octets.last_chunk() else { return };
    let (pairs, rest) = octets[..octets.len() - 1].as_chunks::<16>();
    let Some((twos, ones)) = words.split_at_checked(2 * pairs.len()) else { return };
    // Each step writes two words, because the cost of a step exceeds that of the words.
    for ([low, high], pair) in twos.as_chunks::<2>().0.iter().zip(pairs) {
        let pair = u128::from_le_bytes(*pair);
        low.store(pair as u64, Ordering::Relaxed);
        high.store((pair >> 64) as u64, Ordering::Relaxed);
    }
    match (ones, rest.first_chunk()) {
        ([one, end, ..], Some(chunk)) => {
            set(one, *chunk);
            set(end, *last);
        }
        ([end, ..], None) => set(end, *last),
        _ => {}
    }
}

#[inline]
fn halves(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline]
fn quarters([a, b, c, d]: [u16; 4]) -> u64 {
    u64::from(a) | u64::from(b) << 16 | u64::from(c) << 32 | u64::from(d) << 48
}

/// The writer's end of a ring.
pub struct Consumer {
    slots: Arc<Slots>,
    /// The outcome for each stage of the query path, by the identifier of the stage.
    outcomes: &'static [Outcome],
    start: u64,
    /// The index up to which records are known to be complete.
    end: u64,
}

impl Consumer {
    /// Moves the oldest record of the ring to `record`, or returns `false` if there is none.
    pub fn pop(&mut self, record: &mut Record) -> bool {
        if self.start == self.end {
            self.end = self.slots.published.0.load(Ordering::Acquire);
            if self.start == self.end {
                return false;
            }
        }
        self.start += record.read(self.slots.from(self.start)) as u64;
        let outcome = self.outcomes.get(usize::from(record.facts.stage));
        record.facts.outcome = outcome.copied().unwrap_or(Outcome::Answered);
        self.slots.consumed.0.store(self.start, Ordering::Release);
        true
    }

    /// Returns which part of the ring is in use, from 0 to 1.
    #[must_use]
    pub fn fill(&self) -> f64 {
        let published = self.slots.published.0.load(Ordering::Relaxed);
        published.saturating_sub(self.start) as f64 / self.slots.count() as f64
    }

    /// Returns the number of records that were dropped since the ring was created.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.slots.dropped.0.load(Ordering::Relaxed)
    }
}

/// A record taken from a ring.
pub struct Record {
    facts: Facts,
    octets: [u8; MAX_OCTETS.next_multiple_of(8)],
    /// Number of octets of the reply that are kept.
    len: usize,
    /// Number of octets of the question.
    question: usize,
}

impl Default for Record {
    fn default() -> Self {
        let facts = facts(&[0; FIXED], IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        Self { facts, octets: [0; _], len: HEADER_LEN, question: 0 }
    }
}

impl Record {
    /// Returns the entry with the data that the worker has written. The entry has no lists and no
    /// device name, and its privacy is [`Privacy::Full`].
    #[must_use]
    pub fn entry(&self) -> Entry<'_> {
        let after_header = self.octets.get(HEADER_LEN..self.len).unwrap_or_default();
        let parts = after_header.split_at_checked(self.question);
        // If the question is empty, the octets are not an answer.
        let (question, answer) =
            parts.filter(|(question, _)| !question.is_empty()).unwrap_or_default();
        let (qname, fixed) = question.split_last_chunk().unwrap_or((&[], &[0; TYPE_AND_CLASS]));
        let [type_high, type_low, class_high, class_low] = *fixed;
        let [_, _, flags_high, flags_low, _, _, count_high, count_low] =
            self.octets.first_chunk().copied().unwrap_or_default();
        let facts = Facts {
            qtype: u16::from_be_bytes([type_high, type_low]),
            qclass: u16::from_be_bytes([class_high, class_low]),
            flags: u16::from_be_bytes([flags_high, flags_low]),
            answer_count: u16::from_be_bytes([count_high, count_low]),
            ..self.facts
        };
        Entry { facts, qname, lists: &[], answer }
    }

    /// Reads the record at the start of a slice of words. Returns the number of words of the
    /// record.
    fn read(&mut self, words: &[AtomicU64]) -> usize {
        let Some((slots, rest)) = words.split_first_chunk::<FIXED>() else { return 0 };
        let fixed = slots.each_ref().map(|word| word.load(Ordering::Relaxed));
        let word = |place: usize| rest.get(place).map_or(0, |word| word.load(Ordering::Relaxed));
        let (client, at) = if fixed[1] & IS_V6 == 0 {
            (IpAddr::V4(Ipv4Addr::from_bits((fixed[5] >> 32) as u32)), 0)
        } else {
            let bits = u128::from(word(0)) | u128::from(word(1)) << 64;
            (IpAddr::V6(Ipv6Addr::from_bits(bits)), V6_WORDS)
        };
        self.facts = facts(&fixed, client);
        self.len = usize::from(fixed[0] as u16).min(MAX_OCTETS);
        self.question = usize::from((fixed[0] >> 16) as u16);
        let octets = rest.get(at..).unwrap_or_default().iter().take(self.len.div_ceil(8));
        let mut last = 0;
        for (word, chunk) in octets.zip(self.octets.as_chunks_mut().0) {
            last = word.load(Ordering::Relaxed);
            *chunk = last.to_le_bytes();
        }
        if let Some(end) = self.octets[..self.len].last_chunk_mut() {
            *end = last.to_le_bytes();
        }
        FIXED + at + self.len.div_ceil(8)
    }
}

/// Returns the facts of a record except for the outcome and the facts that come from its messages.
fn facts(fixed: &[u64; FIXED], client: IpAddr) -> Facts {
    let [_, _, _, _, validation, cache, transport, stage] = fixed[0].to_le_bytes();
    let quarter = |word: usize, place: u32| (fixed[word] >> (16 * place)) as u16;
    Facts {
        time_us: fixed[1] & ((1 << TIME_BITS) - 1),
        client,
        response_delay_us: fixed[2] as u32,
        upstream_rtt_us: ((fixed[2] >> 32) as u32).saturating_mul(1000),
        revision: fixed[3] as u32,
        profile: quarter(3, 2),
        device: 0,
        known_as: fixed[6],
        listener: quarter(4, 1),
        upstream: quarter(4, 0),
        rule: quarter(3, 3),
        qtype: 0,
        qclass: 0,
        flags: 0,
        rcode: quarter(4, 2),
        ede: quarter(4, 3),
        answer_count: 0,
        query_size: quarter(5, 0),
        response_size: quarter(5, 1),
        stage,
        transport,
        cache,
        validation,
        outcome: Outcome::Answered,
        privacy: Privacy::Full,
    }
}

#[cfg(test)]
mod tests;
