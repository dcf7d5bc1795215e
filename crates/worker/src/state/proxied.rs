//! The queue of oblivious queries for other servers: from the workers to the threads of the proxy.

use std::collections::VecDeque;
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
    is_closed: bool,
}

impl ProxyQueue {
    /// Adds a query. Returns whether there was room.
    pub fn push(&self, query: ProxiedQuery) -> bool {
        let mut waiting = self.lock();
        let is_of_client = |one: &&ProxiedQuery| one.ip == query.ip;
        let of_client = waiting.queries.iter().filter(is_of_client).count();
        let is_full = waiting.queries.len() >= MAX_WAITING || of_client >= MAX_OF_CLIENT;
        if is_full || waiting.is_closed {
            return false;
        }
        waiting.queries.push_back(query);
        drop(waiting);
        self.arrived.notify_one();
        true
    }

    /// Waits for a query. Returns `None` if the thread must end.
    pub fn take(&self) -> Option<ProxiedQuery> {
        let is_idle =
            |waiting: &mut WaitingQueries| waiting.queries.is_empty() && !waiting.is_closed;
        let waited = self.arrived.wait_while(self.lock(), is_idle);
        waited.unwrap_or_else(PoisonError::into_inner).queries.pop_front()
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
        let target = NamedTarget { host: "a".into(), port: 443, path: "/".into() };
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
        assert_eq!(queue.take().map(|query| query.route.request), Some(1));
        queue.close();
        assert!(!queue.push(query(9)));
        assert_eq!(std::iter::from_fn(|| queue.take()).count(), MAX_WAITING - 1);
    }
}
