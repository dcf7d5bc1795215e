//! Traces: handles requests for a trace, and keeps the traces of failed questions.

use std::ops::Range;

use avocet_wire::Rcode;

use super::{Context, Resolver, Shed, Submitted};
use crate::exchange::pending::Owner;
use crate::plan::Ask;
use crate::trace::{Step, Trace, Traced};

/// Whether a resolver passes the trace of each question to its driver.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Handing {
    /// The resolver does not pass traces on.
    #[default]
    Off,
    /// The resolver passes the traces on.
    On,
}

impl<W> Resolver<W> {
    /// Resolves a question for its trace, regardless of cached answers, cached failures and equal
    /// questions in flight. [`Resolver::take_traced`] later returns the trace with this `number`.
    /// Cached delegations, addresses and keys are used.
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
    #[inline(always)]
    pub(super) fn record(&mut self, owner: Owner, now_ms: u64, step: Step) {
        match owner {
            Owner::Nobody => {}
            Owner::Task(at) => self.tasks[at].record(now_ms, step),
            Owner::Fetch(at) => self.record_for_fetch(at, now_ms, &step),
        }
    }

    /// Records a step in the traces of all questions that wait for a fetch.
    #[inline(never)]
    pub(super) fn record_for_fetch(&mut self, at: u32, now_ms: u64, step: &Step) {
        let waiters = self.fetches.get(at).map(|fetch| &fetch.waiters[..]);
        for &waiter in waiters.unwrap_or_default() {
            self.tasks[waiter].record(now_ms, step.clone());
        }
    }

    /// Sets whether the trace of each question is passed to the driver, together with the action
    /// that answers its clients: see [`Actions::trace_of`](crate::Actions::trace_of).
    pub fn hand_traces_over(&mut self, handing: Handing) {
        self.handing = handing;
    }

    /// Passes a copy of the trace of a question that is still in flight to the driver, for the
    /// actions from index `first` on.
    pub(super) fn hand_copy_over(&mut self, at: u32, first: usize, cx: &mut Context<'_, W>) {
        if self.handing == Handing::On && first < cx.actions.list.len() {
            let task = &mut self.tasks[at];
            let mut trace = task.with_trace(|trace| trace.clone());
            trace.turn_to(cx.now_ms);
            trace.label(task.question.view(), cx.wall_secs);
            cx.actions.put_trace_since(first, trace);
        }
    }

    /// Records the last step of a question, and passes the trace to the driver or keeps it. The
    /// caller adds the final action next.
    pub(super) fn conclude_trace(
        &mut self,
        at: u32,
        rcode: Rcode,
        message: Range<usize>,
        cx: &mut Context<'_, W>,
    ) {
        let task = &mut self.tasks[at];
        let failed = rcode == Rcode::SERVFAIL;
        let is_handed_over = self.handing == Handing::On && !task.waiters.is_empty();
        if !failed && task.traced.is_none() && !is_handed_over {
            return;
        }
        let mut trace = task.with_trace(std::mem::take);
        trace.label(task.question.view(), cx.wall_secs);
        if let Some(number) = task.traced {
            let answer = cx.actions.answers.octets.get(message).unwrap_or_default().to_vec();
            self.traced.push(Traced { number, trace: trace.clone(), answer });
        }
        let spare = match (failed, is_handed_over) {
            (true, true) => {
                cx.actions.put_trace(trace.clone());
                self.kept.keep(trace)
            }
            (true, false) => self.kept.keep(trace),
            (false, true) => {
                let spare = cx.actions.spare_trace();
                cx.actions.put_trace(trace);
                spare
            }
            (false, false) => trace,
        };
        task.with_trace(|own| *own = spare);
    }
}

#[cfg(test)]
mod tests {
    use avocet_cache::{FailureCache, RrsetCache, TtlBounds};
    use avocet_wire::Question;

    use super::*;
    use crate::{
        Action, Actions, EcsPolicy, Endpoint, Introduction, Plan, Settings, Strategy, Transport,
        ZoneRule,
    };

    /// Queries a server that never answers, until the question fails. For each action about
    /// clients, returns the number of queries in its trace and whether the trace has ended; `None`
    /// without a trace.
    fn handed(handing: Handing, stale_available: bool) -> Vec<Option<(usize, bool)>> {
        let ttl = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3_600 };
        let addr = ([192, 0, 2, 1], 53).into();
        let rule = ZoneRule {
            zone: [0].into(),
            exception: false,
            upstreams: vec![Endpoint { addr, transport: Transport::Udp }],
            reserves: Vec::new(),
            strategy: Strategy::Ordered,
            case_randomisation: false,
            ecs: EcsPolicy::Strip,
            introduction: Introduction::None,
            timeout_ms: (50, 2_000),
        };
        let settings =
            Settings { minimal: true, stale_client_ms: 1_800, in_flight: 64, waiters: 256, ttl };
        let plan = Plan::new(vec![rule], settings).unwrap();
        let rrsets = RrsetCache::new(1 << 20, 0, ttl, [1; 16]).unwrap();
        let failures = FailureCache::new(1 << 20, [2; 16]).unwrap();
        let mut resolver = Resolver::new(plan.into(), [3; 32], 16);
        resolver.hand_traces_over(handing);
        let mut actions = Actions::default();
        let ask = Ask {
            question: Question::new(b"\x01a\x07example\x00\x00\x01\x00\x01").unwrap(),
            hash: 4,
            dnssec_ok: false,
            checking_disabled: false,
            ecs: &[],
            client: None,
            introduced: None,
            stale_available,
            servers: &[],
        };
        let (now_ms, wall_secs) = (30_000, 1_700_000_000);
        let (rrsets, failures) = (&rrsets, &failures);
        let mut cx = Context { now_ms, wall_secs, rrsets, failures, actions: &mut actions };
        resolver.submit(&ask, Some("first"), &mut cx);
        resolver.submit(&ask, Some("second"), &mut cx);
        let mut found = Vec::new();
        loop {
            let mut is_over = false;
            for (place, action) in cx.actions.list.iter().enumerate() {
                let trace = cx.actions.trace_of(place);
                let queries = |trace: &Trace| {
                    assert_eq!(trace.question(), Some(ask.question));
                    let is_query = |event: &&crate::Event| matches!(event.step, Step::Sent { .. });
                    let last = trace.events().last().map(|event| &event.step);
                    let has_ended = matches!(last, Some(Step::Failed { .. }));
                    (trace.events().iter().filter(is_query).count(), has_ended)
                };
                match action {
                    Action::Overdue { .. } => found.push(trace.map(queries)),
                    Action::Finish { .. } => {
                        found.push(trace.map(queries));
                        is_over = true;
                    }
                    _ => assert!(trace.is_none(), "{action:?}"),
                }
            }
            cx.actions.clear();
            if is_over {
                return found;
            }
            cx.now_ms = resolver.next_deadline().unwrap();
            resolver.tick(&mut cx);
        }
    }

    #[test]
    fn traces_are_handed_over_with_the_actions_about_their_clients() {
        let found = handed(Handing::On, false);
        assert!(matches!(found[..], [Some((2.., true))]), "{found:?}");
        assert_eq!(handed(Handing::Off, false), [None]);
        // Both clients get expired data at the same time, so no client waits for the end.
        let found = handed(Handing::On, true);
        assert!(matches!(found[..], [Some((1.., false)), Some((1.., false)), None]), "{found:?}");
        assert_eq!(found[0], found[1]);
        assert_eq!(handed(Handing::Off, true), [None, None, None]);
    }
}
