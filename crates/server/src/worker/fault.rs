//! What is left of a worker after a panic: all but the one query that made it.
//!
//! Where one query or one answer is being made, the panic ends there ([`contained`]). Elsewhere it
//! ends the turn; then what may be half changed is made anew, and the questions in flight are asked
//! again, once each: a reply that brings its resolver down a second time is answered with SERVFAIL.

use std::panic::{AssertUnwindSafe, catch_unwind};
#[cfg(test)]
use std::sync::atomic::{AtomicBool, Ordering};

use avocet_nameserver::metrics::WorkerMetrics;
use avocet_nameserver::query;
use avocet_nameserver::query::miss::Miss;
use avocet_nameserver::query::octets::Octets;
use avocet_nameserver::query::scratch::Scratch;
use avocet_resolver::{Abandoned, Actions, Resolver, Shed};
use chacha20::rand_core::Rng;

use avocet_wire::MAX_MESSAGE;

use super::endpoints::Endpoints;
use super::share::Shares;
use super::traces::TraceOrders;
use super::{Waiter, Worker};

/// Makes the next turn of a worker panic.
#[cfg(test)]
pub(crate) static IN_TURN: AtomicBool = AtomicBool::new(false);
/// Makes the next query that a worker reads panic.
#[cfg(test)]
pub(crate) static IN_QUERY: AtomicBool = AtomicBool::new(false);

/// Panics if a test has planted a fault there.
#[cfg(test)]
pub(super) fn planted(fault: &AtomicBool) {
    assert!(!fault.swap(false, Ordering::Relaxed), "a fault, planted by a test");
}

/// What `make` gives; none if it panics. It must leave nothing half changed that others read.
#[inline]
pub(super) fn contained<T>(metrics: &WorkerMetrics, make: impl FnOnce() -> T) -> Option<T> {
    let made = catch_unwind(AssertUnwindSafe(make));
    if made.is_err() {
        metrics.panics.add(1);
    }
    made.ok()
}

impl Worker {
    /// After a panic in [`Worker::run`]: makes anew what may be half changed. Listeners and
    /// connections stay, and so do the queries that wait.
    pub(crate) fn recover(&mut self) {
        self.metrics().panics.add(1);
        let abandoned: Vec<_> = self.resolver.abandon().collect();
        let (mut seed, mut shares_key) = ([0; 32], [0; 32]);
        self.rng.fill_bytes(&mut seed);
        self.rng.fill_bytes(&mut shares_key);
        let (pool_size, sockets) = self.sockets;
        self.resolver = Resolver::new(self.state.plan.clone(), seed, pool_size as usize);
        self.endpoints = Endpoints::new(pool_size, sockets, self.state.ports.clone());
        self.faults.clear();
        self.shares = Shares::new(shares_key);
        self.wanted = TraceOrders::default();
        (self.actions, self.spare_actions) = (Actions::default(), Actions::default());
        self.prepared.clear();
        self.readable.clear();
        self.scratch = Scratch::of(usize::from(self.index));
        self.buffer = vec![0; MAX_MESSAGE].into_boxed_slice();
        abandoned.into_iter().for_each(|question| self.resume(question));
    }

    /// Asks again for those who have waited, unless this is their second time.
    fn resume(&mut self, question: Abandoned<Waiter>) {
        let Abandoned { question, hash, dnssec_ok, checking_disabled, ecs, waiters } = question;
        for mut waiter in waiters {
            if waiter.is_resumed {
                self.end_wait(&waiter, |cx, output| query::shed(cx, &waiter, Shed::Tasks, output));
                continue;
            }
            waiter.is_resumed = true;
            self.misses.push(Miss {
                question: Octets::new(&question),
                hash,
                dnssec_ok,
                checking_disabled,
                subnet: (!ecs.is_empty()).then(|| ecs.clone().into_boxed_slice()),
                // He gets what is resolved now, however long he has waited.
                stale_available: false,
                waiter: Some(waiter),
            });
        }
    }
}
