//! Traces: requests for a trace, and the end of traces that were not requested.

use std::ops::Range;

use avocet_wire::Rcode;

use super::{Context, Resolver, Shed, Submitted};
use crate::exchange::pending::Owner;
use crate::plan::Ask;
use crate::trace::{Step, Trace, Traced};

impl<W> Resolver<W> {
    /// Resolves a question for its trace, regardless of cached answers, cached failures and equal
    /// questions in flight. [`Resolver::take_traced`] returns the trace under this number. Cached
    /// delegations, addresses and keys are used.
    pub fn submit_traced(
        &mut self,
        ask: &Ask<'_>,
        number: u64,
        cx: &mut Context<'_, W>,
    ) -> Submitted<W> {
        let Some(route) = self.route_of(ask) else {
            return Submitted::Shed { reason: Shed::NoRule, waiter: None };
        };
        if self.tasks.len() >= self.bound.plan.settings.in_flight {
            self.counters.shed_tasks += 1;
            return Submitted::Shed { reason: Shed::Tasks, waiter: None };
        }
        let key = self.key_of(ask, route, &[]);
        self.counters.started += 1;
        let at = self.tasks.insert(&key, cx.now_ms);
        self.tasks[at].traced = Some(number);
        self.start(at, (route, ask), cx);
        Submitted::Started
    }

    /// Returns the requested traces that are complete, and removes them.
    pub fn take_traced(&mut self) -> Vec<Traced> {
        std::mem::take(&mut self.traced)
    }

    /// Returns the last traces of failed questions, oldest first.
    pub fn kept_traces(&self) -> impl Iterator<Item = &Trace> {
        self.kept.iter()
    }

    /// Records a step in the traces of all questions of an exchange.
    #[inline]
    pub(super) fn record(&mut self, owner: Owner, now_ms: u64, step: Step) {
        match owner {
            Owner::Nobody => {}
            Owner::Task(at) => self.tasks[at].record(now_ms, step),
            Owner::Fetch(at) => {
                let waiters = self.fetches.get(at).map(|fetch| &fetch.waiters[..]);
                for &waiter in waiters.unwrap_or_default() {
                    self.tasks[waiter].record(now_ms, step.clone());
                }
            }
        }
    }

    /// Records the end, and hands the trace over or keeps it.
    pub(super) fn conclude_trace(
        &mut self,
        at: u32,
        rcode: Rcode,
        message: Range<usize>,
        cx: &Context<'_, W>,
    ) {
        let task = &mut self.tasks[at];
        let failed = rcode == Rcode::SERVFAIL;
        if !failed && task.traced.is_none() {
            return;
        }
        let mut trace = task.with_trace(std::mem::take);
        trace.label(task.question.view(), cx.wall_secs);
        if let Some(number) = task.traced {
            let answer = cx.actions.answers.octets.get(message).unwrap_or_default().to_vec();
            self.traced.push(Traced { number, trace: trace.clone(), answer });
            if !failed {
                return;
            }
        }
        let spare = self.kept.keep(trace);
        task.with_trace(|own| *own = spare);
    }
}
