//! The end of a task, or its continuation with the name to which aliases lead.

use std::sync::Arc;

use avocet_cache::{ReadAt, RrsetKey};
use avocet_wire::header::AD;
use avocet_wire::{Ede, FoldedNameBuf, Rcode};

use super::{Context, Resolver};
use crate::action::{Action, AskedFor};
use crate::answer::{self, Gathered, Resolved, Source};
use crate::assemble::{Trail, Wanted};
use crate::exchange::pending::Owner;
use crate::exchange::timers::Timer;
use crate::failure::Failure;
use crate::iterate::rrset::Signed;
use crate::scrub::MAX_ALIASES;
use crate::store::{self, Fetched};
use crate::task::Key;
use crate::trace::Step;

/// Seconds after a failure during which successes are reported to the failure cache. It is longer
/// than the lifetime of any entry there.
const FAILURE_MEMORY_SECS: u32 = 600;

/// Seconds for which a denial without any record is cached. Such a denial has no TTL (RFC 2308 §5).
const EMPTY_SECS: u32 = 5;

/// An answer with its properties.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundAnswer {
    pub(super) rcode: Rcode,
    pub(super) cacheable: bool,
    pub(super) source: Option<Source>,
    /// Whether the whole answer is validated.
    pub(super) authentic: bool,
    /// The extended error for the client.
    pub(super) ede: Option<(Ede, &'static str)>,
}

impl<W> Resolver<W> {
    /// Returns whether the task follows the plan in force. The result of an older plan may come
    /// from servers that are no longer allowed. The waiting clients get this result, but it is not
    /// cached.
    pub(super) fn is_current(&self, at: u32) -> bool {
        self.tasks[at].bound.as_ref().is_some_and(|bound| Arc::ptr_eq(bound, &self.bound))
    }

    /// Caches the records of the last reply, unless the reply is only for some clients.
    pub(super) fn store(
        &self,
        at: u32,
        rcode: Option<Rcode>,
        signatures: Signed,
        cx: &Context<'_, W>,
    ) {
        if !self.is_current(at) || self.tasks[at].set.is_some() {
            return;
        }
        let task = &self.tasks[at];
        // The servers of this rule learn the client's address, so their answer may depend on it and
        // must not be used for other clients.
        if self.bound.plan.introduces(task.route) {
            return;
        }
        let fetched = Fetched {
            with_do: signatures == Signed::Yes,
            with_cd: task.checking_disabled,
            now_secs: cx.now_secs(),
        };
        store::positive(cx.rrsets, &self.gathered, &fetched);
        if let Some(rcode) = rcode {
            let target = task.target.view();
            let (rtype, class) = (target.qtype().0, target.qclass().0);
            let key = RrsetKey { owner: self.chain_end.view(), rtype, class };
            store::negative(cx.rrsets, &key, rcode, &self.gathered, &fetched);
        }
    }

    /// Continues with the name to which the gathered aliases lead.
    pub(super) fn follow_alias(&mut self, at: u32, cx: &mut Context<'_, W>) {
        let end = self.chain_end;
        let task = &mut self.tasks[at];
        task.prefix.append(&self.gathered);
        task.restarts += 1;
        task.permit_alias();
        if task.restarts > MAX_ALIASES || task.prefix.has_alias(end.view()) {
            task.note(Failure::Aliases);
            return self.fail(at, cx);
        }
        self.exchanges.end_all(&mut self.tasks[at].exchange, cx.actions);
        match self.tasks[at].set {
            Some(_) => self.begin_at(at, &end, cx),
            None => self.follow_cached(at, end, cx),
        }
    }

    /// Continues with the name to which cached aliases of `start` lead.
    fn follow_cached(&mut self, at: u32, start: FoldedNameBuf, cx: &mut Context<'_, W>) {
        let Some(bound) = self.tasks[at].bound.clone() else { return };
        let task = &mut self.tasks[at];
        let wanted = Wanted {
            question: task.question.view(),
            dnssec_ok: task.dnssec_ok,
            checking_disabled: task.checking_disabled,
            translates: false,
            at: ReadAt { now: cx.now_secs(), stale_window: 0 },
        };
        match self.assembler.follow(&bound.plan, cx.rrsets, &wanted, start, &mut task.prefix) {
            Trail::Complete { rcode, .. } => {
                self.gathered.clear();
                self.finish(
                    at,
                    FoundAnswer {
                        rcode,
                        cacheable: true,
                        source: None,
                        authentic: false,
                        ede: None,
                    },
                    cx,
                );
            }
            Trail::Incomplete(name) => self.begin_at(at, &name, cx),
            Trail::Loop => {
                task.note(Failure::Aliases);
                self.fail(at, cx);
            }
        }
    }

    /// Continues with the target of a cached DNAME above the question's name, for example if an
    /// alias leads below that DNAME. Returns `false` if there is no such DNAME. Also returns
    /// `false` for a question without a client, because its purpose is to refresh the cache.
    pub(super) fn follow_cached_dname(&mut self, at: u32, cx: &mut Context<'_, W>) -> bool {
        let task = &self.tasks[at];
        if !cx.rrsets.may_hold_dnames() || task.set.is_some() || task.waiters.is_empty() {
            return false;
        }
        let Some(bound) = &task.bound else { return false };
        let wanted = Wanted {
            question: task.question.view(),
            dnssec_ok: task.dnssec_ok,
            checking_disabled: task.checking_disabled,
            translates: false,
            at: ReadAt { now: cx.now_secs(), stale_window: 0 },
        };
        if !self.assembler.has_dname_above(&bound.plan, cx.rrsets, &wanted) {
            return false;
        }
        let qname = task.question.view().qname().to_buf();
        self.follow_cached(at, qname, cx);
        true
    }

    fn begin_at(&mut self, at: u32, name: &FoldedNameBuf, cx: &mut Context<'_, W>) {
        self.counters.restarts += 1;
        let task = &mut self.tasks[at];
        task.record(cx.now_ms, Step::Alias(name.view().into()));
        task.target.set_qname(name.view());
        let route = match task.set.is_none() {
            true => task.bound.as_ref().and_then(|bound| bound.plan.route(name.view())),
            false => Some(task.route),
        };
        let Some(route) = route else {
            task.note(Failure::NoRule);
            return self.fail(at, cx);
        };
        task.route = route;
        task.begin_target();
        let is_shared = task.introduced.is_none() && !task.waiters.is_empty();
        match task.bound.as_ref() {
            Some(bound) if is_shared && bound.plan.introduces(route) => self.split(at, cx),
            _ => self.begin_target(at, cx),
        }
    }

    /// Splits a question that several clients share into one question for each client. This is
    /// necessary if aliases lead to servers that get the client's address. Clients for which there
    /// is no room get a failure.
    fn split(&mut self, at: u32, cx: &mut Context<'_, W>) {
        let waiters = std::mem::take(&mut self.tasks[at].waiters);
        for waiting in waiters {
            let task = &self.tasks[at];
            let question = task.question.clone();
            let (ecs, AskedFor { hash, dnssec_ok, checking_disabled, .. }) =
                (task.ecs.clone(), task.asked_for());
            let key = Key {
                question: question.view(),
                hash,
                dnssec_ok,
                checking_disabled,
                ecs: &ecs,
                introduced: waiting.introduced.as_ref(),
                set: None,
            };
            let known = self.tasks.find(&key).filter(|&one| one != at && self.is_current(one));
            let has_room = self.tasks.len() < self.bound.plan.settings.in_flight;
            match known {
                Some(one) => {
                    self.tasks[one].waiters.push(waiting);
                    self.rearm(Owner::Task(one));
                }
                None if has_room && waiting.introduced.is_some() => {
                    let part = self.tasks.insert(&key, cx.now_ms);
                    self.tasks.copy_state(at, part);
                    self.tasks[part].waiters.push(waiting);
                    self.begin_target(part, cx);
                }
                None => self.tasks[at].waiters.push(waiting),
            }
        }
        if self.tasks[at].waiters.is_empty() {
            return self.retire(at, cx);
        }
        self.tasks[at].note(Failure::Crowded);
        self.end_early(at, cx);
    }

    /// Answers all waiting clients with the gathered records.
    pub(super) fn finish(&mut self, at: u32, found: FoundAnswer, cx: &mut Context<'_, W>) {
        let task = &mut self.tasks[at];
        if !task.prefix.is_empty() {
            task.prefix.append(&self.gathered);
        }
        let gathered = if !task.prefix.is_empty() { &task.prefix } else { &self.gathered };
        let flags = found.rcode.low() | if found.authentic { AD } else { 0 };
        let Some(resolved) =
            answer::write(&mut cx.actions.answers, task.question.view(), flags, gathered)
        else {
            task.note(Failure::Unusable);
            return self.fail(at, cx);
        };
        let now_secs = cx.now_secs();
        let is_by_plan = task.set.is_none();
        if is_by_plan
            && self
                .last_failure_secs
                .is_some_and(|last| now_secs.wrapping_sub(last) < FAILURE_MEMORY_SECS)
        {
            cx.failures.clear(&task.failure_key());
        }
        self.counters.answered += 1;
        let (rcode, authentic) = (found.rcode, found.authentic);
        self.tasks[at].record(cx.now_ms, Step::Answered { rcode, authentic });
        let may_be_kept = found.cacheable
            && !self.tasks[at].is_for_few()
            && self.is_current(at)
            && !self.tasks[at].is_report;
        // An empty denial is cached for as long as a failure, so that the same question is not sent
        // again immediately.
        let brief =
            found.cacheable && resolved.ttl_offsets.is_empty() && self.tasks[at].is_recursive();
        let ttl_secs = if brief { EMPTY_SECS } else { resolved.ttl_secs };
        let ttl_secs = if may_be_kept { ttl_secs } else { 0 };
        let (ecs_scope, source) = (self.tasks[at].ecs_scope, found.source);
        self.conclude(at, Resolved { ttl_secs, ecs_scope, source, ede: found.ede, ..resolved }, cx);
    }

    /// Answers all waiting clients with the most informative failure, and caches it (RFC 9520).
    pub(super) fn fail(&mut self, at: u32, cx: &mut Context<'_, W>) {
        self.fail_with(at, &Gathered::default(), cx);
    }

    /// Fails like [`Resolver::fail`], with records that show the reason.
    pub(super) fn fail_with(&mut self, at: u32, shown: &Gathered, cx: &mut Context<'_, W>) {
        // If the answer depends on the client or its network, the servers may fail for this client
        // only.
        let is_for_all = !self.tasks[at].is_for_few() && self.tasks[at].ecs.is_empty();
        if self.is_current(at) && self.tasks[at].set.is_none() && is_for_all {
            let task = &self.tasks[at];
            let (ede, _) = task.failure.ede();
            cx.failures.record(&task.failure_key(), ede.0, cx.now_secs());
            self.last_failure_secs = Some(cx.now_secs());
        }
        self.end_unanswered(at, shown, cx);
    }

    /// Fails like [`Resolver::fail`], for a task that must end before it is resolved.
    pub(super) fn end_early(&mut self, at: u32, cx: &mut Context<'_, W>) {
        self.end_unanswered(at, &Gathered::default(), cx);
    }

    fn end_unanswered(&mut self, at: u32, shown: &Gathered, cx: &mut Context<'_, W>) {
        self.counters.failed += 1;
        let task = &mut self.tasks[at];
        let (code, text) = task.failure.ede();
        task.with_trace(|trace| {
            trace.turn_to(cx.now_ms);
            trace.conclude(Step::Failed { ede: code.0, text });
        });
        let resolved = answer::write(
            &mut cx.actions.answers,
            task.question.view(),
            Rcode::SERVFAIL.low(),
            shown,
        );
        if let Some(resolved) = resolved {
            let ede = Some(task.failure.ede());
            self.conclude(at, Resolved { ede, ..resolved }, cx);
        }
    }

    fn conclude(&mut self, at: u32, resolved: Resolved, cx: &mut Context<'_, W>) {
        self.exchanges.end_all(&mut self.tasks[at].exchange, cx.actions);
        self.drop_walk(at, cx);
        self.conclude_trace(at, resolved.rcode, resolved.message.clone(), cx);
        let first = cx.actions.waiters.len();
        let waiting = self.tasks[at].waiters.drain(..);
        cx.actions.waiters.extend(waiting.map(|waiting| waiting.waiter));
        let waiters = first..cx.actions.waiters.len();
        self.waiters -= waiters.len();
        let asked = self.tasks[at].asked_for();
        cx.actions.list.push(Action::Finish { waiters, resolved, asked });
        self.retire(at, cx);
    }

    /// Removes a task that has neither waiting clients nor queries.
    fn retire(&mut self, at: u32, cx: &mut Context<'_, W>) {
        self.exchanges.timers.clear(Timer::Task(at));
        let bound = self.tasks[at].bound.take();
        self.tasks.remove(at);
        // The removed task was the last one with a plan that has been replaced.
        if bound.is_some_and(|bound| Arc::strong_count(&bound) == 1) {
            self.forget_unplanned(cx.actions);
        }
    }
}
