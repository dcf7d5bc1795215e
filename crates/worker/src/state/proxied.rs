//! The queue of oblivious queries for other servers: from the workers to the threads of the proxy.
//!
//! ```text
//!   worker ── push ──> waiting ── take ──> in progress ── finish or drop ──> the place is free
//! ```
//! A target that does not respond holds each of its queries until the timeout. So that other
//! targets and clients are served meanwhile, each target and each client has only some of the
//! places, and a target that has failed has one place until it responds.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use avocet_nameserver::clock::Moment;
use avocet_nameserver::query::miss::StreamRoute;
use avocet_session::oblivious::NamedTarget;

/// Maximum number of queries that wait for a thread. The client of a further query gets status 503.
const MAX_WAITING: usize = 256;
/// Maximum number of these queries of one client.
const MAX_OF_CLIENT: usize = 32;
/// Maximum number of these queries for a target that has failed.
const MAX_FOR_FAILED: usize = 16;
/// Number of failures in a row after which a target counts as failed.
const MANY_FAILURES: u32 = 3;
/// Number of queries that are forwarded at the same time.
pub const PROXY_PLACES: usize = 16;
/// Maximum number of these queries of one client.
const MAX_PLACES_OF_CLIENT: usize = 8;
/// Maximum number of these queries for one target.
const MAX_PLACES_OF_TARGET: usize = 12;

/// The results of proxied queries, in metrics.
pub const PROXIED: [&str; 5] = ["answered", "rejected", "failed", "foreign", "busy"];

/// The result of a proxied query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyResult {
    /// The target has sent a sealed response.
    Answered = 0,
    /// The target has sent another status.
    Rejected = 1,
    /// The target could not be reached, or did not respond in time.
    Failed = 2,
    /// The proxy does not forward to the target.
    Foreign = 3,
    /// Too many queries wait.
    Busy = 4,
}

/// A query to forward.
#[derive(Debug)]
pub struct ProxiedQuery {
    /// Where the reply goes.
    pub route: StreamRoute,
    /// The client, which the target does not learn.
    pub ip: IpAddr,
    /// The target.
    pub target: NamedTarget,
    /// The encrypted query.
    pub octets: Vec<u8>,
    /// The time of its arrival.
    pub since: Moment,
}

/// The queue of queries to forward.
#[derive(Default)]
pub struct ProxyQueue {
    waiting: Mutex<WaitingQueries>,
    arrived: Condvar,
    results: [AtomicU64; PROXIED.len()],
}

#[derive(Default)]
struct WaitingQueries {
    queries: VecDeque<ProxiedQuery>,
    /// The queries that are forwarded now.
    in_progress: Vec<Forwarded>,
    /// The targets with queries that failed since the last response.
    failed: HashMap<(String, u16), FailedQueries>,
    is_closed: bool,
}

/// The queries to a target that failed since its last response.
struct FailedQueries {
    count: u32,
    /// The client of the first of them.
    first: IpAddr,
    /// Whether there was another client, too. The client chooses the path at the target, so that
    /// failures of one client say nothing about the target.
    has_other: bool,
}

/// The client and the target of a query that is forwarded now.
#[derive(PartialEq, Eq)]
struct Forwarded {
    ip: IpAddr,
    target: (String, u16),
}

impl Forwarded {
    fn of(query: &ProxiedQuery) -> Self {
        Self { ip: query.ip, target: (query.target.host.clone(), query.target.port) }
    }

    fn is_to(&self, target: &NamedTarget) -> bool {
        self.target.1 == target.port && self.target.0 == target.host
    }
}

impl WaitingQueries {
    fn has_failed(&self, target: &NamedTarget) -> bool {
        self.failed.iter().any(|((host, port), failed)| {
            *port == target.port
                && *host == target.host
                && failed.has_other
                && failed.count >= MANY_FAILURES
        })
    }

    /// Returns whether a query of its client and for its target may begin now.
    fn may_begin(&self, query: &ProxiedQuery) -> bool {
        let places = if self.has_failed(&query.target) { 1 } else { MAX_PLACES_OF_TARGET };
        let of_client = self.in_progress.iter().filter(|one| one.ip == query.ip).count();
        let to_target = self.in_progress.iter().filter(|one| one.is_to(&query.target)).count();
        of_client < MAX_PLACES_OF_CLIENT && to_target < places
    }

    /// Removes the oldest query that may begin now.
    fn next(&mut self) -> Option<ProxiedQuery> {
        let at = self.queries.iter().position(|query| self.may_begin(query))?;
        self.queries.remove(at)
    }
}

/// A query that a thread forwards. Dropping the value frees its place.
pub struct TakenQuery<'q> {
    queue: &'q ProxyQueue,
    /// The query.
    pub query: ProxiedQuery,
}

impl TakenQuery<'_> {
    /// Counts the result, and records whether the target responds.
    pub fn finish(self, result: ProxyResult) {
        self.queue.count(result);
        let target = Forwarded::of(&self.query).target;
        let failed = &mut self.queue.lock().failed;
        match result {
            ProxyResult::Failed => {
                let ip = self.query.ip;
                let none = FailedQueries { count: 0, first: ip, has_other: false };
                let of_target = failed.entry(target).or_insert(none);
                of_target.count = of_target.count.saturating_add(1);
                of_target.has_other |= of_target.first != ip;
            }
            // If the configuration no longer has the target, its failure is forgotten, too.
            ProxyResult::Answered | ProxyResult::Rejected | ProxyResult::Foreign => {
                failed.remove(&target);
            }
            ProxyResult::Busy => {}
        }
    }
}

impl Drop for TakenQuery<'_> {
    fn drop(&mut self) {
        let forwarded = Forwarded::of(&self.query);
        let in_progress = &mut self.queue.lock().in_progress;
        if let Some(at) = in_progress.iter().position(|one| *one == forwarded) {
            in_progress.swap_remove(at);
        }
        self.queue.arrived.notify_all();
    }
}

impl ProxyQueue {
    /// Adds a query. Returns whether there was room.
    pub fn push(&self, query: ProxiedQuery) -> bool {
        let mut waiting = self.lock();
        let is_of_client = |one: &&ProxiedQuery| one.ip == query.ip;
        let of_client = waiting.queries.iter().filter(is_of_client).count();
        let target = Forwarded::of(&query);
        let is_to_target = |one: &&ProxiedQuery| target.is_to(&one.target);
        let is_full = waiting.queries.len() >= MAX_WAITING
            || of_client >= MAX_OF_CLIENT
            || waiting.has_failed(&query.target)
                && waiting.queries.iter().filter(is_to_target).count() >= MAX_FOR_FAILED;
        if is_full || waiting.is_closed {
            return false;
        }
        waiting.queries.push_back(query);
        drop(waiting);
        self.arrived.notify_one();
        true
    }

    /// Waits for a query that may begin. Returns `None` if the thread must end.
    pub fn take(&self) -> Option<TakenQuery<'_>> {
        let mut waiting = self.lock();
        loop {
            if let Some(query) = waiting.next() {
                waiting.in_progress.push(Forwarded::of(&query));
                return Some(TakenQuery { queue: self, query });
            }
            if waiting.is_closed && waiting.queries.is_empty() {
                return None;
            }
            waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the threads after the queries that wait.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.arrived.notify_all();
    }

    /// Counts a result.
    pub fn count(&self, result: ProxyResult) {
        self.results[result as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers of the results, in the order of [`PROXIED`].
    pub fn results(&self) -> [u64; PROXIED.len()] {
        std::array::from_fn(|at| self.results[at].load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, WaitingQueries> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use avocet_nameserver::clock::Clock;

    use super::*;

    fn query(client: u8) -> ProxiedQuery {
        query_to("a", client)
    }

    fn query_to(host: &str, client: u8) -> ProxiedQuery {
        let target = NamedTarget { host: host.into(), port: 443, path: "/".into() };
        let route = StreamRoute { worker: 0, slot: 0, generation: 0, request: client.into() };
        ProxiedQuery {
            route,
            ip: IpAddr::from([192, 0, 2, client]),
            target,
            octets: Vec::new(),
            since: Clock::start().now(),
        }
    }

    #[test]
    fn the_queue_is_bounded_for_each_client_and_in_all() {
        let queue = ProxyQueue::default();
        assert_eq!((0..100).filter(|_| queue.push(query(1))).count(), MAX_OF_CLIENT);
        assert!(queue.push(query(2)), "another client has room");
        let more = (3..=255).filter(|client| queue.push(query(*client))).count();
        assert_eq!(more, MAX_WAITING - MAX_OF_CLIENT - 1);
        assert_eq!(queue.take().map(|taken| taken.query.route.request), Some(1));
        queue.close();
        assert!(!queue.push(query(9)));
        let rest = std::iter::from_fn(|| queue.take().map(|taken| taken.query.ip));
        assert_eq!(rest.count(), MAX_WAITING - 1);
    }

    #[test]
    fn no_client_and_no_target_takes_all_places() {
        let queue = ProxyQueue::default();
        let begin = |expected: usize| {
            let mut waiting = queue.lock();
            let mut count = 0;
            while let Some(query) = waiting.next() {
                waiting.in_progress.push(Forwarded::of(&query));
                count += 1;
            }
            assert_eq!(count, expected);
        };
        (0..MAX_OF_CLIENT).for_each(|_| assert!(queue.push(query(1))));
        begin(MAX_PLACES_OF_CLIENT);
        (0..MAX_OF_CLIENT).for_each(|_| assert!(queue.push(query(2))));
        begin(MAX_PLACES_OF_TARGET - MAX_PLACES_OF_CLIENT);
        assert!(queue.push(query_to("b", 3)), "another client, and another target");
        begin(1);
    }

    #[test]
    fn a_target_that_fails_has_one_place_until_it_responds() {
        let queue = ProxyQueue::default();
        let fail = |client: u8| {
            assert!(queue.push(query(client)));
            queue.take().unwrap().finish(ProxyResult::Failed);
        };
        (0..9).for_each(|_| fail(1));
        (0..2).for_each(|_| assert!(queue.push(query(1))));
        let others: Vec<_> = (0..2).map(|_| queue.take().unwrap()).collect();
        drop(others);
        fail(2);
        assert!(queue.push(query(1)));
        let probe = queue.take().unwrap();
        (1..=MAX_FOR_FAILED).for_each(|client| assert!(queue.push(query(client as u8))));
        assert!(!queue.push(query(99)), "the target has failed, and many queries wait for it");
        assert!(queue.push(query_to("b", 99)));
        assert_eq!(queue.take().unwrap().query.target.host, "b");
        assert!(queue.lock().next().is_none(), "the target has no other place");
        probe.finish(ProxyResult::Answered);
        let both = [queue.take().unwrap(), queue.take().unwrap()];
        assert_eq!(both.each_ref().map(|taken| taken.query.route.request), [1, 2]);
        drop(both);
        fail(1);
        fail(2);
        assert!(!queue.lock().has_failed(&query(1).target), "two failures may be by chance");
    }
}
