//! The shared state of the server's threads: the name server, and the workers' counters, mailboxes
//! and reports.

pub mod discoveries;
pub mod oblivious;
mod pool_waker;
pub mod proxied;
pub mod strangers;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use avocet_cache::BudgetTooSmall;
use avocet_nameserver::metrics::WorkerMetrics;
use avocet_nameserver::name_server::NameServer;
use avocet_nameserver::snapshot::Snapshot;

use crate::certificates::TlsListeners;
use crate::connections::ConnectionCounts;
use crate::load_report::LoadReport;
use crate::logged_upstreams::LoggedUpstreams;
use crate::mailbox::Mailbox;
use crate::resolver_report::ResolverReport;
use crate::upstream_tls::UpstreamPeers;
use discoveries::Discoveries;
use oblivious::ObliviousKeys;
use pool_waker::PoolWaker;
use proxied::ProxyQueue;
use strangers::StrangerQueue;

/// The state that all threads share, and that lives as long as the process.
pub struct Shared {
    /// Caches, secrets, and the snapshot in force.
    pub name_server: NameServer,
    /// The metrics of each worker.
    pub metrics: Vec<WorkerMetrics>,
    /// The last report of each worker on its resolver.
    pub resolver_reports: Vec<Mutex<ResolverReport>>,
    /// The upstreams that the entries of the query log name.
    pub logged_upstreams: LoggedUpstreams,
    /// The last report of each worker on its load.
    pub loads: Vec<Mutex<LoadReport>>,
    /// The mailbox of each worker.
    pub mailboxes: Vec<Mailbox>,
    /// Whether each worker is draining (it takes no more queries, and then ends) and waits for
    /// nothing. Other workers that still wait may send messages to such a worker.
    pub quiet: Vec<AtomicBool>,
    /// The certificates that clients with TLS see.
    pub tls: TlsListeners,
    /// The keys for oblivious queries.
    pub oblivious: ObliviousKeys,
    /// The oblivious queries for other servers.
    pub proxied: ProxyQueue,
    /// The upstreams with TLS.
    pub upstream_peers: Arc<UpstreamPeers>,
    /// The results of the discovery of encrypted servers.
    pub discoveries: Discoveries,
    /// The TCP connections of all workers.
    pub connections: ConnectionCounts,
    /// The clients that must be looked up.
    pub strangers: StrangerQueue,
    /// The waker of the thread that probes pools.
    pub pool_waker: PoolWaker,
}

impl Shared {
    /// Allocates the caches according to the configuration, and one mailbox per worker.
    pub fn new(
        snapshot: Snapshot,
        mailboxes: Vec<Mailbox>,
        secret: [u8; 32],
        (tls, upstream_peers): (TlsListeners, UpstreamPeers),
    ) -> Result<Self, BudgetTooSmall> {
        Ok(Self {
            name_server: NameServer::new(snapshot, mailboxes.len(), secret)?,
            metrics: mailboxes.iter().map(|_| WorkerMetrics::default()).collect(),
            resolver_reports: mailboxes.iter().map(|_| Mutex::default()).collect(),
            logged_upstreams: LoggedUpstreams::default(),
            loads: mailboxes.iter().map(|_| Mutex::default()).collect(),
            quiet: mailboxes.iter().map(|_| AtomicBool::new(false)).collect(),
            mailboxes,
            tls,
            oblivious: ObliviousKeys::default(),
            proxied: ProxyQueue::default(),
            upstream_peers: Arc::new(upstream_peers),
            discoveries: Discoveries::default(),
            connections: ConnectionCounts::default(),
            strangers: StrangerQueue::default(),
            pool_waker: PoolWaker::default(),
        })
    }

    /// Returns the snapshot in force.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.name_server.snapshot()
    }

    /// Makes workers forget keys and NSEC ranges, because names were dropped from the caches.
    pub fn forget_proofs(&self) {
        self.name_server.forget_proofs();
        self.mailboxes.iter().for_each(Mailbox::wake);
    }

    /// Puts a snapshot in force. Wakes the workers and the thread that probes pools, so that they
    /// use it.
    pub fn replace(&self, snapshot: Snapshot) {
        self.name_server.replace(snapshot);
        self.mailboxes.iter().for_each(Mailbox::wake);
        self.pool_waker.wake();
    }
}
