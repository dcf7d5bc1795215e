//! Queries that must wait for resolution: passes them to the workers that resolve their names.

use avocet_nameserver::query;
use avocet_nameserver::query::miss::Miss;
use avocet_resolver::{Ask, Shed, Submitted};

use super::act::WaitEnd;
use super::{Resolution, context};
use crate::mailbox::Letter;
use crate::setup::owner_of;
use crate::values::{Deliver, WorkerTurn};

impl Resolution {
    /// Passes the queries that must wait to the workers that resolve their names.
    pub(crate) fn submit_misses<D: Deliver>(&mut self, turn: &mut WorkerTurn<'_, D>) {
        if self.scratch.has_held() {
            self.hold_strangers(turn);
        }
        if self.misses.is_empty() {
            return;
        }
        // The queries are taken one by one, so that a panic loses only one of them. The order
        // within a batch does not matter.
        while let Some(miss) = self.misses.pop() {
            let owner = owner_of(miss.hash, self.shared.mailboxes.len());
            if owner == usize::from(self.index) {
                self.submit(miss, turn);
                continue;
            }
            self.metrics().handed_over.add(1);
            if let Err(Letter::Miss(miss)) =
                self.shared.mailboxes[owner].send(Letter::Miss(Box::new(miss)))
                && let Some(waiter) = miss.waiter
            {
                self.end_wait(&waiter, WaitEnd::default(), turn, |cx, output| {
                    query::shed(cx, &waiter, Shed::Waiters, output)
                });
            }
        }
        self.act(turn);
    }

    /// Submits a query to the resolver of this worker. [`Resolution::act`] later executes the
    /// resulting actions.
    pub(crate) fn submit<D: Deliver>(&mut self, miss: Miss, turn: &mut WorkerTurn<'_, D>) {
        let Miss { question, hash, dnssec_ok, checking_disabled, subnet, stale_available, waiter } =
            miss;
        match waiter.as_ref().map(|waiter| (waiter, waiter.unverified_ip())) {
            None => self.metrics().prefetches.add(1),
            // No reply is sent: if the client's address is forged, a reply would reach the victim.
            Some((waiter, Some(ip))) if !self.shares.take(ip, self.resolver.room()) => {
                return self.turn_away(waiter, turn);
            }
            Some(_) => {}
        }
        let servers = waiter.as_ref().and_then(|waiter| waiter.servers.clone());
        let ask = Ask {
            question: question.view(),
            hash,
            dnssec_ok,
            checking_disabled,
            ecs: subnet.as_deref().unwrap_or_default(),
            client: waiter.as_ref().and_then(|waiter| waiter.datagram_ip()),
            introduced: waiter.as_ref().map(|waiter| waiter.ip.to_canonical()),
            stale_available,
            servers: servers.as_deref().unwrap_or_default(),
        };
        let Self { resolver, shared, actions, .. } = self;
        let mut cx = context(shared, actions, turn.time);
        if let Submitted::Shed { waiter: Some(waiter), reason } =
            resolver.submit(&ask, waiter, &mut cx)
        {
            self.end_wait(&waiter, WaitEnd::default(), turn, |cx, output| {
                query::shed(cx, &waiter, reason, output)
            });
        }
    }
}
