//! The state that the threads of the server share: the name server's, and what workers count, hand
//! to each other and report.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use avocet_cache::BudgetTooSmall;
use avocet_nameserver::metrics::WorkerMetrics;
use avocet_nameserver::name_server::NameServer;
use avocet_nameserver::snapshot::Snapshot;

use crate::connections::ConnectionCounts;
use crate::mailbox::Mailbox;
use crate::resolver_report::ResolverReport;

/// What lives as long as the process.
pub(crate) struct Shared {
    /// Caches, secrets, and the snapshot in force.
    pub(crate) name_server: NameServer,
    /// One for each worker.
    pub(crate) metrics: Vec<WorkerMetrics>,
    /// One for each worker: the state of its resolver at its last sweep.
    pub(crate) resolver_reports: Vec<Mutex<ResolverReport>>,
    /// One for each worker.
    pub(crate) mailboxes: Vec<Mailbox>,
    /// For each worker: it drains, and waits for nothing. Workers that still wait may send it
    /// letters.
    pub(crate) quiet: Vec<AtomicBool>,
    /// TCP connections of all workers.
    pub(crate) connections: ConnectionCounts,
}

impl Shared {
    /// Allocates the caches as the configuration has them, for as many workers as mailboxes.
    pub(crate) fn new(
        snapshot: Snapshot,
        mailboxes: Vec<Mailbox>,
        secret: [u8; 32],
    ) -> Result<Self, BudgetTooSmall> {
        Ok(Self {
            name_server: NameServer::new(snapshot, mailboxes.len(), secret)?,
            metrics: mailboxes.iter().map(|_| WorkerMetrics::default()).collect(),
            resolver_reports: mailboxes.iter().map(|_| Mutex::default()).collect(),
            quiet: mailboxes.iter().map(|_| AtomicBool::new(false)).collect(),
            mailboxes,
            connections: ConnectionCounts::default(),
        })
    }

    /// Returns the snapshot in force.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.name_server.snapshot()
    }

    /// Has workers forget keys and gaps between names, as names were dropped from the caches.
    pub(crate) fn forget_proofs(&self) {
        self.name_server.forget_proofs();
        self.mailboxes.iter().for_each(Mailbox::wake);
    }

    /// Puts a snapshot in force and wakes the workers to take it.
    pub(crate) fn replace(&self, snapshot: Snapshot) {
        self.name_server.replace(snapshot);
        self.mailboxes.iter().for_each(Mailbox::wake);
    }
}
