//! Executes the actions of the resolver, and resumes the queries that it completes.
//!
//! The policy may look up every name of an answer, so that many answers at once take long. When the
//! time for actions is used up, the remaining actions, and the remaining waiters of an action, wait
//! for the next turn of the event loop, in order.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use avocet_nameserver::close::Ended;
use avocet_nameserver::query::miss::Waiter;
use avocet_nameserver::query::{self, Given, Obtained, Output, QueryContext, QueryStep};
use avocet_resolver::{Action, Actions, Trace};

use super::upstreams::Outbound;
use super::{Resolution, context};
use crate::fault::contained;
#[cfg(test)]
use crate::fault::{IN_ACTION, planted};
use crate::values::{Deliver, LateStep, Time, WorkerTurn};

#[cfg(test)]
mod tests;

/// Actions of the resolver that are executed one after another.
pub(super) struct ActionBatch {
    pub(super) actions: Actions<Box<Waiter>>,
    /// The index of the next action.
    pub(super) next: usize,
    /// The number of waiters of the next action that are already answered.
    pub(super) answered: usize,
}

impl ActionBatch {
    fn is_complete(&self) -> bool {
        self.next >= self.actions.list.len()
    }
}

/// Facts about the end of a client's wait.
#[derive(Clone, Copy, Default)]
pub(super) struct WaitEnd<'t> {
    /// The round-trip time of the upstream that answered, in milliseconds; zero if no upstream was
    /// queried.
    rtt_ms: u32,
    /// The trace of the resolution, if traces are exported.
    trace: Option<&'t Trace>,
}

impl Resolution {
    /// Executes the actions of the resolver, and the actions that result from them, within the time
    /// of this turn of the event loop.
    pub(crate) fn act<D: Deliver>(&mut self, turn: &mut WorkerTurn<'_, D>) {
        while self.allowance.begin_share()
            && let Some(mut batch) = self.next_batch()
        {
            self.allowance.begin(self.now_us());
            let done = catch_unwind(AssertUnwindSafe(|| self.perform_some(&mut batch, turn)));
            if let Err(panic) = done {
                // When the worker recovers, it handles the remaining actions.
                self.backlog = Some(batch);
                resume_unwind(panic);
            }
            self.allowance.end(self.now_us());
            self.upstreams.flush(&batch.actions.octets);
            self.report_faults(turn.time);
            if batch.is_complete() {
                batch.actions.clear();
                self.spare_actions = batch.actions;
            } else {
                self.backlog = Some(batch);
            }
        }
        // Some clients now wait for another name, so queries for that name are submitted.
        if !self.misses.is_empty() {
            self.submit_misses(turn);
        }
    }

    /// Executes the actions of a batch while there is time. An action that panics is not executed
    /// again.
    fn perform_some<D: Deliver>(&mut self, batch: &mut ActionBatch, turn: &mut WorkerTurn<'_, D>) {
        while let Some(action) = batch.actions.list.get(batch.next)
            && self.allowance.begin_share()
        {
            let (place, answered) = (batch.next, std::mem::take(&mut batch.answered));
            batch.next += 1;
            if let Some(answered) = self.perform((place, action), (&batch.actions, answered), turn)
            {
                (batch.next, batch.answered) = (place, answered);
            }
        }
    }

    /// Returns the actions that an earlier turn of the event loop has left, or else the new
    /// actions.
    fn next_batch(&mut self) -> Option<ActionBatch> {
        if self.backlog.is_some() || self.actions.list.is_empty() {
            return self.backlog.take();
        }
        let spare = std::mem::take(&mut self.spare_actions);
        let actions = std::mem::replace(&mut self.actions, spare);
        Some(ActionBatch { actions, next: 0, answered: 0 })
    }

    /// Returns whether actions or held queries wait for the next turn of the event loop.
    pub(crate) fn is_behind(&self) -> bool {
        self.backlog.is_some() || !self.actions.list.is_empty() || self.held.is_behind()
    }

    /// Ends the waits of clients whose answers were postponed to the next turn of the event loop.
    /// Drops all other actions, because the recovery from a panic has replaced the objects that
    /// they refer to.
    pub(super) fn end_backlog<D: Deliver>(
        &mut self,
        batches: impl Iterator<Item = ActionBatch>,
        turn: &mut WorkerTurn<'_, D>,
    ) {
        for ActionBatch { actions, next, answered } in batches {
            let mut answered = Some(answered);
            for (place, action) in actions.list.iter().enumerate().skip(next) {
                if matches!(action, Action::Overdue { .. } | Action::Finish { .. }) {
                    while let Some(before) = answered {
                        answered = self.perform((place, action), (&actions, before), turn);
                    }
                }
                answered = Some(0);
            }
        }
    }

    pub(super) fn now_us(&self) -> u64 {
        self.shared.name_server.clock.now().micros()
    }

    /// Reports sockets and connections that failed to the resolver.
    pub(super) fn report_faults(&mut self, time: Time) {
        let Self { resolver, shared, actions, upstreams, .. } = self;
        for (id, fault) in upstreams.take_faults() {
            resolver.failed(id, fault, &mut context(shared, actions, time));
        }
    }

    /// Executes an action. Skips the waiters that are `answered`. If the time of this turn of the
    /// event loop does not suffice for all waiters, returns how many are answered then.
    fn perform<D: Deliver>(
        &mut self,
        (place, action): (usize, &Action),
        (actions, answered): (&Actions<Box<Waiter>>, usize),
        turn: &mut WorkerTurn<'_, D>,
    ) -> Option<usize> {
        #[cfg(test)]
        planted(&IN_ACTION);
        match action {
            Action::Send { socket, to, renew, octets, header_len, header_place } => {
                let query = Outbound {
                    socket: *socket,
                    to: *to,
                    renew: *renew,
                    octets: octets.clone(),
                    header: (usize::from(*header_len), *header_place),
                };
                self.upstreams.send(turn.poller, query, &actions.octets, turn.time.millis());
            }
            Action::Close { socket } => self.upstreams.close(*socket),
            Action::KeepIdle { socket, idle_ms } => self.upstreams.keep_idle(*socket, *idle_ms),
            Action::Forget { endpoint } => self.upstreams.forget(*endpoint),
            Action::Overdue { waiters } => {
                let end = WaitEnd { rtt_ms: 0, trace: actions.trace_of(place) };
                let waiters = (&actions.waiters[waiters.clone()], answered);
                let mut given = Given::default();
                return self.end_waits(waiters, end, turn, |cx, waiter, output| {
                    query::resume(cx, waiter, (None, &mut given), output)
                });
            }
            Action::Finish { waiters, resolved, asked } => {
                let waiters = &actions.waiters[waiters.clone()];
                let obtained = Obtained {
                    rcode: resolved.rcode,
                    message: &actions.answers.octets[resolved.message.clone()],
                    ttl_offsets: &actions.answers.ttl_offsets[resolved.ttl_offsets.clone()],
                    kept_for: NonZeroU32::new(resolved.ttl_secs),
                    ede: resolved.ede,
                    stage: Obtained::stage_of(resolved.rcode, resolved.ede),
                    upstream: resolved.source.map(|source| source.upstream),
                };
                // After a prefetch, no client waits.
                if waiters.is_empty() {
                    let cx = self.query_context(turn.time);
                    contained(self.metrics(), || query::share(&cx, asked, obtained, waiters));
                    return None;
                }
                let rtt_ms = resolved.source.map_or(0, |source| source.rtt_ms);
                let end = WaitEnd { rtt_ms, trace: actions.trace_of(place) };
                let (mut shared, mut given) = (None, Given::default());
                return self.end_waits((waiters, answered), end, turn, |cx, waiter, output| {
                    // Done for the first client, so that a panic ends only that query.
                    let obtained =
                        shared.get_or_insert_with(|| query::share(cx, asked, obtained, waiters));
                    query::resume(cx, waiter, (Some(obtained), &mut given), output)
                });
            }
        }
        None
    }

    /// Ends the waits of clients while there is time, of one client at least. Skips the clients
    /// that are `answered`, and returns how many are then; `None` if all are.
    fn end_waits<D: Deliver>(
        &mut self,
        (waiters, answered): (&[Box<Waiter>], usize),
        end: WaitEnd<'_>,
        turn: &mut WorkerTurn<'_, D>,
        mut take: impl FnMut(&QueryContext<'_>, &Waiter, Output<'_>) -> QueryStep,
    ) -> Option<usize> {
        for (place, waiter) in waiters.iter().enumerate().skip(answered) {
            if place > answered && !self.allowance.begin_share() {
                return Some(place);
            }
            self.end_wait(waiter, end, turn, |cx, output| take(cx, waiter, output));
        }
        None
    }

    /// Ends the wait of a client: runs the query path for its query, and passes the result on.
    pub(super) fn end_wait<D: Deliver>(
        &mut self,
        waiter: &Waiter,
        WaitEnd { rtt_ms, trace }: WaitEnd<'_>,
        turn: &mut WorkerTurn<'_, D>,
        take: impl FnOnce(&QueryContext<'_>, Output<'_>) -> QueryStep,
    ) {
        if let Some(ip) = waiter.unverified_ip() {
            self.shares.give_back(ip);
        }
        let Self { index, shared, state, scratch, misses, message, .. } = self;
        let metrics = &shared.metrics[usize::from(*index)];
        let Time { now, wall_secs } = turn.time;
        let cx = QueryContext { shared: &shared.name_server, state, now, wall_secs, scratch };
        let output = Output { message: &mut *message, misses };
        // A client whose query caused a panic gets no reply. If it has a connection, the connection
        // is informed.
        let step = contained(metrics, || take(&cx, output))
            .unwrap_or_else(|| QueryStep::Silent(waiter.failed(state.revision)));
        let ended = Ended { trace, ..Ended::waiting(waiter, rtt_ms) };
        let route = &waiter.route;
        turn.late.deliver(LateStep { ended, route, step, message, cx: &cx });
        // A query that is rejected before the actions of its turn does not use the time for these
        // actions.
        self.allowance.note(|| shared.name_server.clock.now().micros());
    }

    /// Ends a query that is rejected without a reply. The query was not counted as waiting.
    pub(super) fn turn_away<D: Deliver>(&mut self, waiter: &Waiter, turn: &mut WorkerTurn<'_, D>) {
        let step = QueryStep::Silent(waiter.turned_away(self.state.revision));
        let cx = self.query_context(turn.time);
        let (ended, route) = (Ended::waiting(waiter, 0), &waiter.route);
        turn.late.deliver(LateStep { ended, route, step, message: &mut [], cx: &cx });
    }
}
