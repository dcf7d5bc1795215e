//! The path of a query into the export of traces: the worker selects queries when they end, and
//! pushes the selected queries to its queue.
//!
//! ```text
//! worker ── close ──> Selection ──> TraceSender ──queue──> TraceReceiver: the thread that exports
//! ```
//!
//! A query is selected at its end, when its outcome and its duration are known. Resolution records
//! its steps for each question anyway, so no earlier decision is necessary. To select a share of
//! all queries, the worker draws the number of queries to skip; each skipped query costs one
//! decrement.

use std::cell::{Cell, RefCell, RefMut};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use avocet_config::otlp::{OtlpConfig, TraceRule};
use avocet_policy::client::DeviceId;
use avocet_querylog::Outcome;
use avocet_resolver::Trace;
use avocet_wire::hash::{HashKey, MAX_QUESTION, fold_into};
use avocet_wire::suffix::SuffixMap;
use ipnet::IpNet;

use crate::query::asked::Entrance;
use crate::query::decision::Decision;

/// Maximum number of queries in the queue of a worker.
const MAX_QUEUED: usize = 1024;
/// Maximum number of steps of all traces in a worker's queue: about 1.5 MiB, and as much for their
/// names.
const MAX_STEPS: usize = 16_384;
/// Number of octets of the type and class of a question.
const TYPE_AND_CLASS: usize = 4;

/// The queries with exported traces.
#[derive(Debug)]
pub struct Selection {
    /// The fraction of all queries to trace, from 0 to 1.
    share: f64,
    rules: Box<[SelectionRule]>,
    /// Maximum number of queries that each worker traces in one second.
    per_second: u32,
}

/// A rule that selects the queries that meet all of its conditions.
#[derive(Debug)]
struct SelectionRule {
    name: Arc<str>,
    /// The subtrees of names; `None` for all names.
    names: Option<SuffixMap<()>>,
    /// The networks of clients; empty for all clients.
    clients: Box<[IpNet]>,
    /// The outcomes of selected queries: one bit for each outcome.
    outcomes: u16,
    /// The shortest duration of selected queries, in microseconds.
    slower_than_us: u64,
    share: f64,
}

/// A query that ended, with the properties that the selection tests.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'q> {
    pub(crate) outcome: Outcome,
    /// Microseconds from the start to the end of the query.
    pub(crate) took_us: u64,
    /// The address of the client.
    pub(crate) ip: &'q IpAddr,
    /// The question in any letter case; empty if none was read.
    pub(crate) question: &'q [u8],
}

/// The reason why a query was selected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SelectedBy {
    /// The query is one of the share of all queries that is traced.
    Share,
    /// The query meets the conditions of the rule with this name.
    Rule(Arc<str>),
}

/// A query that was selected.
#[derive(Debug)]
pub struct TracedQuery {
    /// The decision that ended the query.
    pub decision: Decision,
    /// The address of the client.
    pub client: IpAddr,
    /// The device of the query, if it is known.
    pub device: DeviceId,
    /// The address at which the query arrived.
    pub entrance: Entrance,
    /// The question in any letter case; empty if none was read.
    pub question: Box<[u8]>,
    /// The time of arrival, in Unix microseconds.
    pub since_us: u64,
    /// The time of arrival on the monotonic clock of traces, in milliseconds.
    pub since_ms: u64,
    /// Microseconds from the arrival of the query to its end.
    pub took_us: u64,
    /// Number of octets of the reply; zero if none was sent.
    pub reply_octets: usize,
    /// The reason for the selection.
    pub selected_by: SelectedBy,
    /// The steps that resolved the question, if it was resolved.
    pub trace: Option<Trace>,
}

impl TracedQuery {
    /// Returns the weight of the query in the queue: its number of steps.
    fn steps(&self) -> usize {
        1 + self.trace.as_ref().map_or(0, |trace| trace.events().len())
    }
}

impl Selection {
    /// Returns the selection of a configuration; `None` if no trace is exported. Each of the
    /// `workers` gets an equal part of the limit per second.
    #[must_use]
    pub fn of(config: &OtlpConfig, workers: usize) -> Option<Self> {
        let is_on = config.endpoint.is_some() && (config.share > 0.0 || !config.rules.is_empty());
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        is_on.then(|| Self {
            share: config.share,
            rules: config.rules.iter().map(SelectionRule::of).collect(),
            per_second: config.per_second.div_ceil(workers),
        })
    }
}

impl Selection {
    /// Returns the reason why a query is selected, if it is selected. `draw` returns random numbers
    /// in `0..1`.
    pub(crate) fn selects(
        &self,
        scratch: &TraceScratch,
        query: &Candidate<'_>,
        draw: impl Fn() -> f64,
    ) -> Option<SelectedBy> {
        if self.share > 0.0 && scratch.is_in_share(self.share, &draw) {
            return Some(SelectedBy::Share);
        }
        let is_selected = |rule: &&SelectionRule| {
            rule.is_met(query) && (rule.share >= 1.0 || draw() < rule.share)
        };
        let rule = self.rules.iter().find(is_selected)?;
        Some(SelectedBy::Rule(rule.name.clone()))
    }

    /// Counts a selected query, and returns whether the worker may trace one more query in this
    /// second.
    pub(crate) fn has_room(&self, scratch: &TraceScratch, second: u32) -> bool {
        scratch.has_room(second, self.per_second)
    }
}

impl SelectionRule {
    fn of(rule: &TraceRule) -> Self {
        let TraceRule { name, names, clients, outcomes, slower_than_ms, share } = rule;
        let bits = outcomes.iter().fold(0, |bits, one| bits | 1 << *one as u16);
        Self {
            name: name.as_str().into(),
            names: (!names.is_empty())
                .then(|| names.iter().map(|name| (name.clone(), ())).collect()),
            clients: clients.as_slice().into(),
            outcomes: if outcomes.is_empty() { u16::MAX } else { bits },
            slower_than_us: u64::from(*slower_than_ms) * 1000,
            share: *share,
        }
    }

    /// Returns whether a query meets all conditions of this rule.
    fn is_met(&self, query: &Candidate<'_>) -> bool {
        let Candidate { outcome, took_us, ip, question } = *query;
        self.outcomes & 1 << outcome as u16 != 0
            && took_us >= self.slower_than_us
            && (self.clients.is_empty() || self.clients.iter().any(|net| net.contains(ip)))
            && self.names.as_ref().is_none_or(|names| has_ancestor_of(names, question))
    }
}

/// Returns whether the map contains the QNAME of this question or an ancestor of the QNAME.
fn has_ancestor_of(names: &SuffixMap<()>, question: &[u8]) -> bool {
    let Some(len) = question.len().checked_sub(TYPE_AND_CLASS) else { return false };
    let mut memory = [0; MAX_QUESTION];
    let Some(folded) = memory.get_mut(..len) else { return false };
    fold_into(question, folded);
    names.nearest(folded).is_some()
}

/// The memory of a worker for the selection of queries.
#[derive(Default)]
pub struct TraceScratch {
    /// The worker's end of its queue.
    sender: RefCell<Option<TraceSender>>,
    /// Number of queries to skip before the next query to trace.
    to_pass: Cell<u64>,
    /// The share in force when `to_pass` was drawn.
    drawn_for: Cell<f64>,
    /// The number of random numbers that were drawn.
    draws: Cell<u64>,
    /// The second to which `in_second` belongs.
    second: Cell<u32>,
    /// Number of queries selected in this second.
    in_second: Cell<u32>,
}

impl TraceScratch {
    /// Sets the worker's end of its queue.
    pub fn set_sender(&self, sender: Option<TraceSender>) {
        *self.sender.borrow_mut() = sender;
    }

    /// Takes the worker's end of its queue.
    pub fn take_sender(&self) -> Option<TraceSender> {
        self.sender.take()
    }

    /// Returns the worker's end of its queue.
    pub(crate) fn sender(&self) -> Option<RefMut<'_, TraceSender>> {
        RefMut::filter_map(self.sender.borrow_mut(), Option::as_mut).ok()
    }

    /// Returns the next random number in `0..1`, which depends on the secret, the worker's index
    /// and the number of earlier draws.
    pub(crate) fn draw(&self, secret: &HashKey, worker: usize) -> f64 {
        self.draws.set(self.draws.get().wrapping_add(1));
        uniform(secret.hash(&worker.to_le_bytes(), self.draws.get()))
    }

    /// Returns whether to trace the next query if `share` of all queries are traced. `draw` returns
    /// a random number in `0..1`.
    fn is_in_share(&self, share: f64, draw: impl FnOnce() -> f64) -> bool {
        if share == self.drawn_for.get() {
            let to_pass = self.to_pass.get();
            if to_pass > 0 {
                self.to_pass.set(to_pass - 1);
                return false;
            }
            self.to_pass.set(passed_over(share, draw()));
            return true;
        }
        // The share has changed since the last query, so the number of queries to skip is drawn
        // again.
        self.drawn_for.set(share);
        let to_pass = passed_over(share, draw());
        self.to_pass.set(to_pass.saturating_sub(1));
        to_pass == 0
    }

    /// Counts a selected query, and returns whether the worker may trace one more query in this
    /// second.
    fn has_room(&self, second: u32, per_second: u32) -> bool {
        if self.second.replace(second) != second {
            self.in_second.set(0);
        }
        let count = self.in_second.get();
        self.in_second.set(count.saturating_add(1));
        count < per_second
    }
}

/// Returns how many queries to skip before the next query to trace, from the share of traced
/// queries and a random number in `0..1`. The numbers have the geometric distribution, so each
/// query is traced with the same probability.
fn passed_over(share: f64, random: f64) -> u64 {
    if share >= 1.0 {
        return 0;
    }
    if share <= 0.0 {
        return u64::MAX;
    }
    // Both logarithms are negative; the cast limits the result to the range of `u64`.
    ((1.0 - random).ln() / (-share).ln_1p()) as u64
}

/// Returns a random number in `0..1` that is made from the first 53 of 64 random bits.
fn uniform(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

/// A value with its own pair of cache lines, because processors fetch lines in pairs.
#[derive(Default, Debug)]
#[repr(align(128))]
struct LoneCount<T>(T);

#[derive(Default, Debug)]
struct QueueCounts {
    /// Number of steps in the queue.
    steps: LoneCount<AtomicUsize>,
    /// Queries dropped because the queue was full.
    dropped: LoneCount<AtomicU64>,
    /// Queries dropped because the limit per second was reached.
    limited: LoneCount<AtomicU64>,
}

/// Creates the queue of a worker.
#[must_use]
pub fn trace_queue() -> (TraceSender, TraceReceiver) {
    let (sender, receiver) = sync_channel(MAX_QUEUED);
    let counts = Arc::new(QueueCounts::default());
    (
        TraceSender { queue: sender, counts: counts.clone() },
        TraceReceiver { queue: receiver, counts },
    )
}

/// The worker's end of its queue.
pub struct TraceSender {
    queue: SyncSender<Box<TracedQuery>>,
    counts: Arc<QueueCounts>,
}

impl TraceSender {
    /// Returns whether the queue has room for the steps of a trace. If not, the caller need not
    /// copy the trace.
    pub(crate) fn has_room_for(&self, trace: &Trace) -> bool {
        self.counts.steps.0.load(Ordering::Relaxed) + trace.events().len() < MAX_STEPS
    }

    /// Counts a query that is dropped because the limit per second is reached.
    pub(crate) fn count_limited(&self) {
        self.counts.limited.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a query that is dropped because the queue is full.
    pub(crate) fn count_dropped(&self) {
        self.counts.dropped.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Appends a query, or counts it as dropped if there is no room. Never waits.
    pub(crate) fn push(&mut self, query: TracedQuery) {
        let QueueCounts { steps: LoneCount(steps), dropped, .. } = &*self.counts;
        let weight = query.steps();
        let has_room = steps.fetch_add(weight, Ordering::Relaxed) + weight <= MAX_STEPS;
        if !has_room || self.queue.try_send(Box::new(query)).is_err() {
            steps.fetch_sub(weight, Ordering::Relaxed);
            dropped.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The exporter's end of the queue of a worker.
pub struct TraceReceiver {
    queue: Receiver<Box<TracedQuery>>,
    counts: Arc<QueueCounts>,
}

/// The numbers of queries that a worker selected but dropped.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TraceDrops {
    /// Queries dropped because the queue was full.
    pub queue: u64,
    /// Queries dropped because the limit per second was reached.
    pub limit: u64,
}

impl TraceReceiver {
    /// Removes the oldest query, if there is one.
    pub fn pop(&mut self) -> Option<Box<TracedQuery>> {
        let query = self.queue.try_recv().ok()?;
        self.counts.steps.0.fetch_sub(query.steps(), Ordering::Relaxed);
        Some(query)
    }

    /// Returns the numbers of queries dropped since the queue was created.
    #[must_use]
    pub fn drops(&self) -> TraceDrops {
        TraceDrops {
            queue: self.counts.dropped.0.load(Ordering::Relaxed),
            limit: self.counts.limited.0.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use avocet_config::OutcomeKind;

    use super::*;
    use crate::query::asked::Transport;
    use crate::query::decision::Stage;

    fn query(number: u16) -> TracedQuery {
        TracedQuery {
            decision: Decision::at(Stage::PacketHit, Transport::Udp, 1),
            client: [192, 0, 2, 1].into(),
            device: DeviceId::NONE,
            entrance: Entrance(number),
            question: Box::default(),
            since_us: 1,
            since_ms: 1,
            took_us: 1,
            reply_octets: 40,
            selected_by: SelectedBy::Share,
            trace: None,
        }
    }

    #[test]
    fn a_full_queue_drops_the_last_queries_and_counts_them() {
        let (mut sender, mut receiver) = trace_queue();
        for number in 0..MAX_QUEUED as u16 + 3 {
            sender.push(query(number));
        }
        assert_eq!(receiver.drops(), TraceDrops { queue: 3, limit: 0 });
        for number in 0..MAX_QUEUED as u16 {
            assert_eq!(receiver.pop().unwrap().entrance, Entrance(number));
        }
        assert!(receiver.pop().is_none());
        assert_eq!(receiver.counts.steps.0.load(Ordering::Relaxed), 0);
        sender.push(query(7));
        assert!(receiver.pop().is_some());
        // The receiver no longer exists, so no thread takes this query.
        drop(receiver);
        sender.push(query(8));
        assert_eq!(sender.counts.dropped.0.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn the_share_of_queries_is_that_of_the_configuration() {
        let (random, mut draws) = (HashKey::new([7; 32]), 0);
        let mut draw = || {
            draws += 1;
            uniform(random.hash(&[], draws))
        };
        let scratch = TraceScratch::default();
        let mut check = |share: f64, expected: std::ops::RangeInclusive<usize>| {
            let found = (0..100_000).filter(|_| scratch.is_in_share(share, &mut draw)).count();
            assert!(expected.contains(&found), "{share}: {found}");
        };
        check(1.0, 100_000..=100_000);
        check(0.1, 9_500..=10_500);
        check(0.001, 60..=140);
        check(0.5, 49_000..=51_000);
        // The new share takes effect at once, even after a share that skips every query.
        check(1e-300, 0..=0);
        check(1.0, 100_000..=100_000);
    }

    #[test]
    fn extreme_draws_are_in_range() {
        assert_eq!(passed_over(0.5, 0.0), 0);
        assert_eq!(passed_over(1.0, 0.999), 0);
        assert_eq!(passed_over(0.0, 0.5), u64::MAX);
        assert!(passed_over(1e-9, 0.999_999_999_999_999_9) > 1_000_000_000);
        assert!(passed_over(f64::MIN_POSITIVE, 0.5) > 1 << 60);
    }

    #[test]
    fn a_second_has_as_many_queries_as_allowed() {
        let scratch = TraceScratch::default();
        let check = |second: u32, expected: [bool; 4]| {
            let found = [0; 4].map(|_| scratch.has_room(second, 2));
            assert_eq!(found, expected, "{second}");
        };
        check(0, [true, true, false, false]);
        check(1, [true, true, false, false]);
        check(9, [true, true, false, false]);
    }

    #[test]
    fn a_rule_selects_by_all_of_its_conditions() {
        let rule = SelectionRule::of(&TraceRule {
            name: "r".to_owned(),
            names: vec![b"\x07example\0".as_slice().into()],
            clients: vec!["192.0.2.0/24".parse().unwrap()],
            outcomes: vec![OutcomeKind::Failed, OutcomeKind::Blocked],
            slower_than_ms: 5,
            share: 1.0,
        });
        let check = |question: &[u8], last: [u8; 4], (outcome, took_us), expected: bool| {
            let ip = IpAddr::from(last);
            let query = Candidate { outcome, took_us, ip: &ip, question };
            assert_eq!(rule.is_met(&query), expected, "{question:?} {ip}");
        };
        let name = b"\x03wWw\x07eXample\0\0\x01\0\x01";
        let (inside, slow) = ([192, 0, 2, 9], (Outcome::Failed, 5_000));
        check(name, inside, slow, true);
        check(name, inside, (Outcome::Blocked, 5_000), true);
        check(name, inside, (Outcome::Failed, 4_999), false);
        check(name, inside, (Outcome::Answered, 5_000), false);
        check(name, [192, 0, 3, 9], slow, false);
        check(b"\x07example\0\0\x01\0\x01", inside, slow, true);
        check(b"\x08xexample\0\0\x01\0\x01", inside, slow, false);
        check(b"\0\0\x01\0\x01", inside, slow, false);
        check(b"", inside, slow, false);
        check(&[1; 400], inside, slow, false);
    }

    #[test]
    fn outcomes_of_the_configuration_are_those_of_the_log() {
        for (kind, outcome) in [
            (OutcomeKind::Answered, Outcome::Answered),
            (OutcomeKind::Local, Outcome::Local),
            (OutcomeKind::Blocked, Outcome::Blocked),
            (OutcomeKind::Rewritten, Outcome::Rewritten),
            (OutcomeKind::Refused, Outcome::Refused),
            (OutcomeKind::Dropped, Outcome::Dropped),
            (OutcomeKind::Failed, Outcome::Failed),
            (OutcomeKind::Malformed, Outcome::Malformed),
        ] {
            assert_eq!(kind as u16, outcome as u16);
        }
    }
}
