//! Tasks: questions in flight, with the clients that wait for them.

use std::net::IpAddr;
use std::sync::Arc;

use avocet_cache::FailureKey;
use avocet_dnssec::Reason;
use avocet_wire::{Question, QuestionBuf, Rtype};

use crate::action::AskedFor;
use crate::answer::Gathered;
use crate::bound::Bound;
use crate::chains::Chains;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::iterate::Walk;
use crate::iterate::load::ClientPlace;
use crate::plan::Route;
use crate::scrub::MAX_ALIASES;
use crate::trace::{Step, Trace};

/// The deadline of a question, in ms after its arrival. It ensures that clients get an answer
/// within five seconds.
const DEADLINE_MS: u64 = 4_900;
/// The extended deadline, in ms after arrival, if servers answer but many packets are lost. Many
/// clients wait for this long.
const LAST_DEADLINE_MS: u64 = 9_500;
/// Maximum number of queries for one question without aliases. The limit of BIND and PowerDNS is
/// 50.
const MAX_SENDS: u32 = 64;
/// Number of further queries for each alias that was followed. Its target may be in a zone of an
/// unknown top-level domain, with servers in such a zone, too: six queries without retries.
const SENDS_PER_ALIAS: u32 = 8;
/// Maximum number of queries for one question with [`MAX_ALIASES`]: 152. The limit of BIND and
/// Unbound is 200.
const MAX_SENDS_ALIASES: u32 = MAX_SENDS + SENDS_PER_ALIAS * MAX_ALIASES as u32;
/// Number of octets of replies to one question after which no more queries are sent (PowerDNS:
/// 100,000). It equals 64 replies of 4,096 octets, or four replies of the maximum size. Reading a
/// reply of 64 KiB may take 1 ms, and a question 20 ms.
const MAX_REPLY_OCTETS: usize = 262_144;
/// The deadline is extended only if a server has answered within this number of milliseconds before
/// the deadline.
const PROGRESS_MS: u64 = 2_500;

/// The index that means no task.
const NONE: u32 = u32::MAX;

/// A client that waits for an answer, and the time at which it gets stale data instead; `u64::MAX`
/// for never.
#[derive(Debug)]
pub(crate) struct Waiting<W> {
    pub(crate) waiter: W,
    pub(crate) overdue_at_ms: u64,
    /// The client's address, if servers get it.
    pub(crate) introduced: Option<IpAddr>,
}

/// The properties that distinguish questions in flight. Questions with the same properties are
/// joined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    pub(crate) question: Question<'a>,
    /// The keyed hash of the question, which does not cover the other properties.
    pub(crate) hash: u64,
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
    pub(crate) ecs: &'a [u8],
    /// The client's address, if servers get it. It is a reference, because most questions have
    /// none.
    pub(crate) introduced: Option<&'a IpAddr>,
    /// The index of the set of servers that a client's rule chose instead of the plan's servers;
    /// `None` for the plan's servers.
    pub(crate) set: Option<u16>,
}

/// A question in flight.
#[derive(Debug)]
pub(crate) struct Task<W> {
    pub(crate) question: QuestionBuf,
    hash: u64,
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
    pub(crate) ecs: Vec<u8>,
    /// The client's address that servers get; see [`Key`].
    pub(crate) introduced: Option<IpAddr>,
    /// Whether servers get the address of the client, so that their answers are only for this
    /// client.
    pub(crate) is_personal: bool,
    /// The index of the set of servers; see [`Key`]. Their data is for the clients of one rule, and
    /// is not cached.
    pub(crate) set: Option<u16>,
    /// The plan that applies to this question from its beginning to its end; `None` if this entry
    /// is free.
    pub(crate) bound: Option<Arc<Bound>>,
    pub(crate) waiters: Vec<Waiting<W>>,
    /// The client that sent the question first.
    pub(crate) client: ClientPlace,
    pub(crate) started_ms: u64,
    /// The deadline of the question.
    pub(crate) deadline_ms: u64,
    /// The time of the last progress, in ms: when the question arrived, or later, when a server
    /// answered a query of the question's recursion.
    pub(crate) progress_ms: u64,

    /// The present question: the original question, or a question with the same type for a name to
    /// which aliases led.
    pub(crate) target: QuestionBuf,
    pub(crate) route: Route,
    /// The aliases that led to the target.
    pub(crate) prefix: Gathered,
    pub(crate) restarts: usize,

    /// The trace of the task, unless the task has a walk, which then has the trace.
    trace: Trace,
    /// The identifier of the request for the trace, if the trace was requested.
    pub(crate) traced: Option<u64>,
    /// Whether the task is an error report, which answers no client (RFC 9567).
    pub(crate) is_report: bool,

    /// The walk of the question, if it is resolved by recursion.
    pub(crate) walk: Option<Box<Walk>>,

    /// The exchange with the upstreams of its route.
    pub(crate) exchange: Exchange,
    /// Number of queries that were sent for all targets.
    pub(crate) sends: u32,
    /// The limit of `sends`.
    max_sends: u32,
    /// Number of octets of the replies that were read for the task.
    pub(crate) reply_octets: usize,
    /// The longest SCOPE PREFIX-LENGTH of the replies from which the answer is made (RFC 7871
    /// §7.2.1); `None` if no reply had one.
    pub(crate) ecs_scope: Option<u8>,
    /// Number of replies with data that does not match its type.
    pub(crate) malformed: u32,
    /// Whether an upstream sent the question back to this server. If so, no more queries are sent.
    pub(crate) looped: bool,
    pub(crate) failure: Failure,

    older: u32,
    newer: u32,
}

impl<W> Task<W> {
    fn vacant() -> Self {
        Self {
            question: QuestionBuf::default(),
            hash: 0,
            dnssec_ok: false,
            checking_disabled: false,
            ecs: Vec::new(),
            introduced: None,
            is_personal: false,
            set: None,
            bound: None,
            waiters: Vec::new(),
            client: ClientPlace::NOBODY,
            started_ms: 0,
            deadline_ms: 0,
            progress_ms: 0,
            target: QuestionBuf::default(),
            route: Route { rule: 0, apex_len: 0 },
            prefix: Gathered::default(),
            restarts: 0,
            trace: Trace::default(),
            traced: None,
            is_report: false,
            walk: None,
            exchange: Exchange::default(),
            sends: 0,
            max_sends: MAX_SENDS,
            reply_octets: 0,
            ecs_scope: None,
            malformed: 0,
            looped: false,
            failure: Failure::Silence,
            older: NONE,
            newer: NONE,
        }
    }

    fn occupy(&mut self, key: &Key<'_>, now_ms: u64) {
        self.question.set(key.question);
        self.target.set(key.question);
        self.ecs.clear();
        self.ecs.extend_from_slice(key.ecs);
        (self.introduced, self.is_personal) = (key.introduced.copied(), false);
        self.set = key.set;
        self.hash = key.hash;
        (self.dnssec_ok, self.checking_disabled) = (key.dnssec_ok, key.checking_disabled);
        (self.started_ms, self.progress_ms) = (now_ms, now_ms);
        self.deadline_ms = now_ms + DEADLINE_MS;
        self.prefix.clear();
        (self.restarts, self.sends, self.max_sends) = (0, 0, MAX_SENDS);
        (self.reply_octets, self.ecs_scope) = (0, None);
        self.looped = false;
        self.failure = Failure::Silence;
        (self.traced, self.is_report) = (None, false);
        self.client = ClientPlace::NOBODY;
        self.trace.begin(now_ms);
        self.begin_target();
    }

    /// Returns the key of the task in the failure cache.
    pub(crate) fn failure_key(&self) -> FailureKey<'_> {
        FailureKey { question: self.question.view(), checking_disabled: self.checking_disabled }
    }

    /// Resets the state that belongs to the previous target.
    pub(crate) fn begin_target(&mut self) {
        self.exchange.begin();
    }

    /// Returns the type of the target.
    pub(crate) fn target_type(&self) -> Rtype {
        self.target.view().qtype()
    }

    /// Extends the deadline of a question whose recursion makes progress. Returns `false` if it
    /// makes none, or if the deadline was already extended.
    pub(crate) fn extend_deadline(&mut self, now_ms: u64) -> bool {
        let deadline_ms = (self.progress_ms + PROGRESS_MS).min(self.started_ms + LAST_DEADLINE_MS);
        let may_go_on =
            self.walk.is_some() && self.progress_ms > self.started_ms && deadline_ms > now_ms;
        if may_go_on {
            self.deadline_ms = deadline_ms;
        }
        may_go_on
    }

    /// Records a step in the trace.
    #[inline]
    pub(crate) fn record(&mut self, now_ms: u64, step: Step) {
        match &self.walk {
            None => self.trace.record_at(now_ms, step),
            Some(walk) => record_on_walk(walk, now_ms, step),
        }
    }

    pub(crate) fn with_trace<R>(&mut self, act: impl FnOnce(&mut Trace) -> R) -> R {
        match &self.walk {
            Some(walk) => walk.with_trace(act),
            None => act(&mut self.trace),
        }
    }

    /// Returns whether the question is within its limits of queries sent and octets read.
    pub(crate) fn may_ask(&self) -> bool {
        self.sends < self.max_sends && self.reply_octets < MAX_REPLY_OCTETS
    }

    /// Permits the further queries for the target of an alias.
    pub(crate) fn permit_alias(&mut self) {
        self.max_sends = (self.max_sends + SENDS_PER_ALIAS).min(MAX_SENDS_ALIASES);
    }

    /// Returns whether the result is for one client, or for some networks only (RFC 7871 §7.3.1),
    /// so that it is not cached.
    pub(crate) fn is_for_few(&self) -> bool {
        self.is_personal || self.ecs_scope.is_some_and(|scope| scope > 0)
    }

    /// Returns whether the task is resolved by recursion.
    pub(crate) fn is_recursive(&self) -> bool {
        self.set.is_none()
            && self.bound.as_ref().is_some_and(|bound| bound.plan.recursion.is_some())
    }

    /// Returns why the question fails, from the failure of its walk. If links of the chain of trust
    /// are missing because the question has reached a limit on its queries, that limit is the
    /// reason.
    pub(crate) fn cause(&self, failure: Failure) -> Failure {
        let is_not_asked = failure == Failure::Bogus(Reason::NotAsked.ede().0);
        match self.failure {
            Failure::TooManyQueries if is_not_asked => self.failure,
            _ => failure,
        }
    }

    pub(crate) fn note(&mut self, failure: Failure) {
        self.failure = self.failure.max(failure);
    }

    pub(crate) fn asked_for(&self) -> AskedFor {
        AskedFor {
            question_len: self.question.view().octets().len(),
            hash: self.hash,
            dnssec_ok: self.dnssec_ok,
            checking_disabled: self.checking_disabled,
        }
    }

    fn is_for(&self, key: &Key<'_>) -> bool {
        self.is_question(key) && self.ecs == key.ecs
    }

    fn is_question(&self, key: &Key<'_>) -> bool {
        self.hash == key.hash
            && self.question.view() == key.question
            && self.dnssec_ok == key.dnssec_ok
            && self.checking_disabled == key.checking_disabled
            && is_same_client(self.introduced.as_ref(), key.introduced)
            && self.set == key.set
    }
}

/// All tasks. They are found by index, by question, and by age.
#[derive(Debug)]
pub(crate) struct Tasks<W> {
    all: Vec<Task<W>>,
    free: Vec<u32>,
    index: Chains,
    oldest: u32,
    newest: u32,
}

/// Returns whether both clients are the same. Most questions have no client here.
#[inline]
fn is_same_client(one: Option<&IpAddr>, other: Option<&IpAddr>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one == other,
        _ => false,
    }
}

/// Records a step in the trace of a walk. The function is not inlined, because forwarded questions
/// have no walk.
#[inline(never)]
fn record_on_walk(walk: &Walk, now_ms: u64, step: Step) {
    walk.with_trace(|trace| trace.record_at(now_ms, step));
}

impl<W> Tasks<W> {
    pub(crate) fn new(expected: usize) -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
            index: Chains::new(expected),
            oldest: NONE,
            newest: NONE,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Returns the task with this key. The function is inlined, because it is called once for each
    /// submitted question.
    #[inline(always)]
    pub(crate) fn find(&self, key: &Key<'_>) -> Option<u32> {
        self.index.candidates(key.hash).find(|&at| self.all[at as usize].is_for(key))
    }

    /// Returns the number of tasks that equal `key`, or differ from it only in the client subnet.
    pub(crate) fn same_question(&self, key: &Key<'_>) -> usize {
        self.index.candidates(key.hash).filter(|&at| self.all[at as usize].is_question(key)).count()
    }

    pub(crate) fn insert(&mut self, key: &Key<'_>, now_ms: u64) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(Task::vacant());
            (self.all.len() - 1) as u32
        });
        let older = self.newest;
        let task = &mut self.all[at as usize];
        task.occupy(key, now_ms);
        (task.older, task.newer) = (older, NONE);
        if older == NONE {
            self.oldest = at;
        } else {
            self.all[older as usize].newer = at;
        }
        self.newest = at;
        self.index.insert(key.hash, at);
        at
    }

    /// Copies the state of a task to a new task: aliases, target, trace and limits.
    pub(crate) fn copy_state(&mut self, from: u32, to: u32) {
        let other = &mut self.all[from as usize];
        let (bound, trace) = (other.bound.clone(), other.with_trace(|trace| trace.clone()));
        let (route, restarts, sends) = (other.route, other.restarts, other.sends);
        let (reply_octets, ecs_scope) = (other.reply_octets, other.ecs_scope);
        let max_sends = other.max_sends;
        let times = [other.started_ms, other.deadline_ms, other.progress_ms];
        let target = other.target.clone();
        let prefix = std::mem::take(&mut other.prefix);
        let task = &mut self.all[to as usize];
        task.prefix.append(&prefix);
        (task.bound, task.trace, task.target) = (bound, trace, target);
        (task.route, task.restarts, task.sends) = (route, restarts, sends);
        (task.reply_octets, task.ecs_scope) = (reply_octets, ecs_scope);
        task.max_sends = max_sends;
        [task.started_ms, task.deadline_ms, task.progress_ms] = times;
        self.all[from as usize].prefix = prefix;
    }

    pub(crate) fn remove(&mut self, at: u32) {
        let task = &mut self.all[at as usize];
        let (older, newer, hash) = (task.older, task.newer, task.hash);
        task.bound = None;
        match older {
            NONE => self.oldest = newer,
            _ => self.all[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.all[newer as usize].older = older,
        }
        self.index.remove(hash, at);
        self.free.push(at);
    }

    /// Removes and returns all questions in flight. Works even if a panic left the tasks
    /// inconsistent.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Task<W>> {
        std::mem::take(&mut self.all).into_iter().filter(|task| task.bound.is_some())
    }

    /// Returns the indices of the tasks, oldest first.
    pub(crate) fn by_age(&self) -> impl Iterator<Item = u32> + '_ {
        let first = (self.oldest != NONE).then_some(self.oldest);
        std::iter::successors(first, |&at| {
            let newer = self.all[at as usize].newer;
            (newer != NONE).then_some(newer)
        })
    }
}

impl<W> std::ops::Index<u32> for Tasks<W> {
    type Output = Task<W>;

    fn index(&self, at: u32) -> &Task<W> {
        &self.all[at as usize]
    }
}

impl<W> std::ops::IndexMut<u32> for Tasks<W> {
    fn index_mut(&mut self, at: u32) -> &mut Task<W> {
        &mut self.all[at as usize]
    }
}
