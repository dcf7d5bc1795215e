//! The state of the running server that its threads share: how configurations come into force, what
//! is kept on the disk, and what its operator must know.
//!
//! Nothing here touches a worker but through [`Shared`]: a snapshot put in force, a letter in a
//! mailbox, counters read.

pub(crate) mod conditions;
pub(crate) mod fingerprint;
pub(crate) mod geo;
pub(crate) mod leases;
pub(crate) mod names;
pub(crate) mod neighbours;
pub(crate) mod networks;
pub(crate) mod persist;
pub(crate) mod ports;
pub(crate) mod reach;
pub(crate) mod reload;
pub(crate) mod removed;
pub(crate) mod switches;
pub(crate) mod trust;
mod visits;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, io};

use avocet_nameserver::policy::Policy;
use avocet_policy::rule::Switches;

use crate::lists::Keeping;
use crate::root::RootKeeping;
use crate::state::Shared;
use conditions::{Condition, Conditions};
pub(crate) use geo::GeoWatch;
pub use leases::fault_of_leases;
use names::ClientNames;
pub use neighbours::fault_of_neighbours;
use persist::CacheFile;
use reach::Reach;
use reload::Reloader;
use switches::Unsaved;
use trust::KeptTrust;
pub(crate) use visits::Visits;

/// Seconds after its start during which a worker need not have turned yet.
const START_GRACE_SECS: u32 = 10;
/// A worker that has not turned for so many seconds is stuck: it does so twice a second.
const STUCK_SECS: u32 = 10;

/// Why the server cannot be operated.
#[derive(Debug)]
pub enum OperationError {
    /// Another server uses the same data directory.
    AlreadyRunning(PathBuf),
    /// The control socket cannot be opened.
    Control(PathBuf, io::Error),
    /// The HTTP address cannot be listened on.
    Http(SocketAddr, io::Error),
    /// An address of the block page cannot be listened on.
    Page(SocketAddr, io::Error),
    /// The system refused something small: a thread, a descriptor.
    System(io::Error),
    /// A worker ended by itself; the line before says why.
    WorkerEnded,
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRunning(directory) => write!(
                f,
                "another avocet is running with data directory {}; stop it, take over with \
                 --take-over, or change [data] directory",
                directory.display()
            ),
            Self::Control(path, error) if error.kind() == io::ErrorKind::PermissionDenied => {
                write!(
                    f,
                    "cannot open the control socket {}: {error}; the data directory must belong \
                     to the account that the server runs as",
                    path.display()
                )
            }
            Self::Control(path, error) => {
                write!(f, "cannot open the control socket {}: {error}", path.display())
            }
            Self::Http(addr, error) if error.kind() == io::ErrorKind::AddrInUse => write!(
                f,
                "cannot listen on {addr} for HTTP: another server is using it; stop that one, or \
                 change [server] http"
            ),
            Self::Http(addr, error) => write!(f, "cannot listen on {addr} for HTTP: {error}"),
            Self::Page(addr, error) => write!(
                f,
                "cannot listen on {addr} for the block page: {error}; change [policy] block-page, \
                 or stop what is in the way; ports below 1024 need CAP_NET_BIND_SERVICE or root"
            ),
            Self::System(error) => write!(f, "cannot monitor the server: {error}"),
            Self::WorkerEnded => f.write_str("a worker thread ended by itself"),
        }
    }
}

impl std::error::Error for OperationError {}

/// What the main thread shares with those that serve control and HTTP clients.
pub(crate) struct Running {
    /// What the workers share.
    pub(crate) shared: Arc<Shared>,
    /// Puts configurations in force.
    pub(crate) reloader: Reloader,
    /// The caches on disk.
    pub(crate) cache_file: CacheFile,
    /// The keeping of lists.
    pub(crate) lists: Keeping,
    /// Whether pauses and grants are on the disk.
    pub(crate) unsaved_switches: Unsaved,
    /// What is trusted beside the configuration.
    pub(crate) trust: KeptTrust,
    /// The keeping of a copy of the root zone.
    pub(crate) root: RootKeeping,
    /// The names of clients by PTR records.
    pub(crate) names: ClientNames,
    /// Who is on the page of blocked names.
    pub(crate) visits: Visits,
    /// The looks at whether names can be resolved.
    pub(crate) reach: Reach,
    /// What its operator has to know of.
    pub(crate) conditions: Conditions,
    /// The server is about to end.
    pub(crate) draining: AtomicBool,
    /// When it started: wall time in seconds.
    pub(crate) started_at_secs: u64,
    /// The same on the monotonic clock.
    pub(crate) started: u32,
}

impl Running {
    /// Have all workers turned lately?
    pub(crate) fn is_healthy(&self) -> bool {
        let now = self.shared.name_server.clock.now().secs();
        let mut turned =
            self.shared.metrics.iter().map(|worker| worker.turned_at_secs.value() as u32);
        now.saturating_sub(self.started) < START_GRACE_SECS
            || turned.all(|turned| now.saturating_sub(turned) < STUCK_SECS)
    }

    /// Answers that are kept until a schedule, a pause or a grant ends are so by the clock as it
    /// was.
    pub(crate) fn follow_wall_clock(&self) {
        tracing::info!("the clock was set; schedules, pauses and grants use the new time");
        let state = self.shared.snapshot();
        let goes_by_time = |policy: &Arc<Policy>| {
            policy.goes_by_time() || state.parts.switches != Switches::default()
        };
        if state.policy.as_ref().is_some_and(goes_by_time)
            && let Err(error) = self.reloader.change_policy(|parts| parts.clock_settings += 1)
        {
            tracing::error!(error, "cannot re-evaluate time-based rules");
        }
    }

    /// Tries again to save what was changed by commands and by trust anchors, where the disk
    /// refused it.
    pub(crate) fn save_again(&self) {
        let mut faults = self.save_trust_again();
        faults.extend(switches::save_again(self));
        let text = format!(
            "{}; changes are lost when the server ends, unless a retry succeeds",
            faults.join("; ")
        );
        self.conditions.set(Condition::State, (!faults.is_empty()).then_some(text));
    }

    /// Why queries had better go to another server; none: they are served.
    pub(crate) fn unready(&self) -> Option<String> {
        let has_turned = self.shared.metrics.iter().all(|worker| worker.turned_at_secs.value() > 0);
        if !has_turned || self.draining.load(Ordering::Relaxed) {
            return Some("not serving".to_owned());
        }
        self.conditions.text(Condition::Resolution)
    }
}
