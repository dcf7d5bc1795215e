//! Resolution after a panic of its worker.

use avocet_nameserver::query;
use avocet_nameserver::query::miss::{Miss, Waiter};
use avocet_nameserver::query::scratch::Scratch;
use avocet_resolver::{Abandoned, Actions, Resolver, Shed};
use avocet_wire::MAX_MESSAGE;

use super::act::{ActionBatch, WaitEnd};
use super::share::Shares;
use super::traces::TraceOrders;
use super::upstreams::Upstreams;
use super::{Resolution, handing, port_draws, secret};
use crate::values::{Deliver, WorkerTurn};

impl Resolution {
    /// Rebuilds all state that a panic may have left inconsistent. The questions in flight are
    /// queued again for [`Resolution::submit_misses`].
    pub(crate) fn recover<D: Deliver>(&mut self, turn: &mut WorkerTurn<'_, D>) {
        let abandoned: Vec<_> = self.resolver.abandon().collect();
        let (seed, shares_key) = (secret(&mut self.rng), secret(&mut self.rng));
        let draws = port_draws(&mut self.rng);
        let pool_size = self.limits.pool_size as usize;
        self.resolver = Resolver::new(self.state.plan.clone(), seed, pool_size);
        self.resolver.hand_traces_over(handing(&self.state));
        self.upstreams = Upstreams::new(
            self.limits,
            self.state.ports.clone(),
            self.shared.upstream_peers.clone(),
            draws,
        );
        self.shares = Shares::new(shares_key);
        self.wanted = TraceOrders::default();
        let actions = std::mem::take(&mut self.actions);
        let batch = ActionBatch { actions, next: 0, answered: 0 };
        let left = self.backlog.take().into_iter().chain([batch]);
        self.spare_actions = Actions::default();
        let (log, tap) = (self.scratch.take_log(), self.scratch.take_tap());
        let traces = self.scratch.traces().take_sender();
        self.hold_strangers(turn);
        self.scratch = Scratch::of(usize::from(self.index));
        self.scratch.set_log(log);
        self.scratch.set_tap(tap);
        self.report_upstreams();
        self.scratch.traces().set_sender(traces);
        self.message = vec![0; MAX_MESSAGE].into_boxed_slice();
        self.end_backlog(left, turn);
        abandoned.into_iter().for_each(|question| self.resume(question, turn));
    }

    /// Queues again the query of each client that waits for this question. Ends the queries that
    /// were already resumed once.
    fn resume<D: Deliver>(
        &mut self,
        question: Abandoned<Box<Waiter>>,
        turn: &mut WorkerTurn<'_, D>,
    ) {
        let Abandoned { question, hash, dnssec_ok, checking_disabled, ecs, waiters } = question;
        for mut waiter in waiters {
            if waiter.is_resumed {
                self.end_wait(&waiter, WaitEnd::default(), turn, |cx, output| {
                    query::shed(cx, &waiter, Shed::Tasks, output)
                });
                continue;
            }
            waiter.is_resumed = true;
            self.misses.push(Miss {
                question: question.view().into(),
                hash,
                dnssec_ok,
                checking_disabled,
                subnet: (!ecs.is_empty()).then(|| ecs.clone().into_boxed_slice()),
                // The client gets the result of the new resolution, even if it has waited for long.
                stale_available: false,
                waiter: Some(waiter),
            });
        }
    }
}
