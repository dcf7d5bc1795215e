//! The state of the running server that its threads share: how configurations come into force, the
//! state that is saved to disk, and the problems that its operator must know.
//!
//! This state reaches a worker only through [`Shared`]: it puts snapshots in force, sends messages
//! and reads counters.

pub(crate) mod access_requests;
mod alias_targets;
pub(crate) mod catalogs;
pub(crate) mod certificate;
pub(crate) mod conditions;
#[cfg(feature = "postgres")]
pub(crate) mod databases;
pub(crate) mod devices;
pub(crate) mod fingerprint;
pub(crate) mod geo;
pub(crate) mod kernel_events;
pub(crate) mod names;
pub(crate) mod neighbours;
pub(crate) mod networks;
pub(crate) mod notifier;
pub(crate) mod oblivious;
pub(crate) mod persist;
pub(crate) mod pool_state;
pub(crate) mod pool_watch;
pub(crate) mod ports;
pub(crate) mod reach;
pub(crate) mod reload;
pub(crate) mod removed;
pub(crate) mod renewals;
pub(crate) mod restart;
pub(crate) mod revisions;
pub(crate) mod secondaries;
pub(crate) mod shown_certificates;
pub(crate) mod strangers;
pub(crate) mod switches;
pub(crate) mod trust;
pub(crate) mod updates;
mod visits;
pub(crate) mod zones;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::{fmt, io};

use avocet_nameserver::policy::Policy;
use avocet_policy::rule::Switches;
use avocet_web::WebStores;

use crate::backup;
use crate::lists::Keeping;
use crate::otlp::OtlpCounts;
use crate::port_in_use::PortInUse;
use crate::query_log::QueryLog;
use crate::root::RootKeeping;
use crate::tap::TapCounts;
use access_requests::AccessRequests;
use avocet_worker::home_ca::HomeCa;
use avocet_worker::state::Shared;
use certificate::ShownWebCertificate;
pub use certificate::fault_of_certificate;
use conditions::{Condition, Conditions};
use devices::Devices;
pub(crate) use geo::GeoWatch;
use names::ClientNames;
pub use neighbours::fault_of_neighbours;
use oblivious::ObliviousKeeping;
pub use oblivious::fault_of_odoh;
use persist::CacheFile;
use pool_watch::PoolWatch;
use reach::Reach;
use reload::Reloader;
use renewals::AcmeKeeping;
use switches::Unsaved;
use trust::KeptTrust;
pub(crate) use visits::Visits;

/// Seconds after the start in which a worker need not have completed a turn of its event loop.
const START_GRACE_SECS: u32 = 10;
/// Seconds without a completed turn of its event loop after which a worker counts as stuck. An idle
/// worker completes two turns a second.
const STUCK_SECS: u32 = 10;

/// The reason why the server cannot be operated.
#[derive(Debug)]
pub enum OperationError {
    /// Another server uses the same data directory.
    AlreadyRunning(PathBuf),
    /// The control socket cannot be opened.
    Control(PathBuf, io::Error),
    /// The server cannot listen on the HTTP address.
    Http(SocketAddr, io::Error),
    /// The server cannot listen on an address of the block page.
    Page(SocketAddr, io::Error),
    /// The system refused a thread or a descriptor.
    System(io::Error),
    /// A worker ended by itself; the previous log line has the reason.
    WorkerEnded,
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyRunning(directory) => write!(
                f,
                "another avocet is running with data directory {}, or `avocet restore` is working \
                 there; stop it, take over with --take-over, or change [data] directory",
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
            Self::Http(addr, error) if error.kind() == io::ErrorKind::AddrInUse => {
                let advice = PortInUse { addr: *addr, setting: &"[server] http" };
                write!(f, "cannot listen on {addr} for HTTP: {advice}")
            }
            Self::Http(addr, error) => write!(f, "cannot listen on {addr} for HTTP: {error}"),
            Self::Page(addr, error) if error.kind() == io::ErrorKind::AddrInUse => {
                let advice = PortInUse { addr: *addr, setting: &"[policy] block-page" };
                write!(f, "cannot listen on {addr} for the block page: {advice}")
            }
            Self::Page(addr, error) => write!(
                f,
                "cannot listen on {addr} for the block page: {error}; change [policy] block-page; \
                 ports below 1024 need CAP_NET_BIND_SERVICE or root"
            ),
            Self::System(error) => write!(f, "cannot monitor the server: {error}"),
            Self::WorkerEnded => f.write_str("a worker thread ended by itself"),
        }
    }
}

impl std::error::Error for OperationError {}

/// The state that the main thread shares with the threads of control and HTTP clients.
pub(crate) struct Running {
    /// The state that the workers share.
    pub(crate) shared: Arc<Shared>,
    /// The component that puts configurations in force.
    pub(crate) reloader: Reloader,
    /// The caches on disk.
    pub(crate) cache_file: CacheFile,
    /// The maintenance of the lists.
    pub(crate) lists: Keeping,
    /// The reason why pauses and grants are not saved, if they are not.
    pub(crate) unsaved_switches: Unsaved,
    /// The trust anchors that the server keeps in addition to the configuration.
    pub(crate) trust: KeptTrust,
    /// The maintenance of the root zone's copy.
    pub(crate) root: RootKeeping,
    /// The query log.
    pub(crate) query_log: QueryLog,
    /// The counts of dnstap.
    pub(crate) tap_counts: TapCounts,
    /// The counts of the export of traces.
    pub(crate) otlp_counts: OtlpCounts,
    /// The devices at addresses.
    pub(crate) devices: Devices,
    /// The names of clients from PTR records.
    pub(crate) names: ClientNames,
    /// Visits to the block page.
    pub(crate) visits: Visits,
    /// The requests of clients on the block page.
    pub(crate) requests: AccessRequests,
    /// Users, tokens, the audit log and the counts of the HTTP API.
    pub(crate) web: WebStores,
    /// The check whether names can be resolved.
    pub(crate) reach: Reach,
    /// The threads that watch the files of hosted zones, and the zones of other servers.
    pub(crate) zone_watch: zones::ZoneWatch,
    /// The NOTIFY messages to other servers about hosted zones.
    pub(crate) notifier: notifier::Notifier,
    /// The health of the addresses of pools.
    pub(crate) pools: PoolWatch,
    /// The certificate of HTTPS for browsers and the API.
    pub(crate) web_certificate: Mutex<ShownWebCertificate>,
    /// The renewal of the certificate that the server obtains by itself.
    pub(crate) acme: AcmeKeeping,
    /// The keys for oblivious queries.
    pub(crate) oblivious: ObliviousKeeping,
    /// The certification authority of this server.
    pub(crate) home_ca: HomeCa,
    /// The present defects of the server's environment.
    pub(crate) conditions: Conditions,
    /// Whether the server is shutting down.
    pub(crate) draining: AtomicBool,
    /// The start of the server, in Unix seconds.
    pub(crate) started_at_secs: u64,
    /// The start of the server on the monotonic clock, in seconds.
    pub(crate) started: u32,
}

impl Running {
    /// Returns for how long the server has run, in seconds. Settings of the wall clock have no
    /// effect.
    pub(crate) fn uptime_secs(&self) -> u64 {
        self.shared.name_server.clock.now().secs().saturating_sub(self.started).into()
    }

    /// Returns whether all workers have completed a turn of their event loops recently.
    pub(crate) fn is_healthy(&self) -> bool {
        let now = self.shared.name_server.clock.now().secs();
        let mut turned =
            self.shared.metrics.iter().map(|worker| worker.turned_at_secs.value() as u32);
        now.saturating_sub(self.started) < START_GRACE_SECS
            || turned.all(|turned| now.saturating_sub(turned) < STUCK_SECS)
    }

    /// Applies a change of the wall clock: drops answers that are cached until a schedule, pause or
    /// grant ends, because their end was computed with the previous time. If the clock was set
    /// back, pauses, grants, negative trust anchors and a probation end earlier by the same time,
    /// so that none of them becomes longer, and zones of other servers are checked earlier.
    pub(crate) fn follow_wall_clock(&self, by_secs: i64) {
        tracing::info!(by_secs, "the clock was set; schedules use the new time");
        if by_secs < 0 {
            let back_secs = by_secs.unsigned_abs();
            switches::end_earlier(self, back_secs);
            self.end_negative_earlier(back_secs);
            self.reloader.revisions.end_probation_earlier(back_secs);
            self.zone_watch.secondaries.set_back(back_secs);
        }
        let state = self.shared.snapshot();
        let goes_by_time = |policy: &Arc<Policy>| {
            policy.goes_by_time() || state.parts.switches != Switches::default()
        };
        if state.policy.as_ref().is_some_and(goes_by_time)
            && let Err(error) = self.reloader.change_policy(|parts| parts.clock_settings += 1)
        {
            tracing::error!(error = error.to_string(), "cannot re-evaluate time-based rules");
        }
    }

    /// Tries again to save changes that could not be written to disk: pauses, grants, users, trust
    /// anchors, and addresses of pools that were taken out of use.
    pub(crate) fn save_again(&self) {
        let mut faults = self.save_trust_again();
        faults.extend(switches::save_again(self));
        faults.extend(self.web.access.save_again());
        let directory = self.shared.snapshot().config.data.directory.clone();
        faults.extend(self.pools.save_again(&directory));
        let text = format!(
            "{}; changes are lost when the server ends, unless a retry succeeds",
            faults.join("; ")
        );
        self.conditions.set(Condition::State, (!faults.is_empty()).then_some(text));
    }

    /// Updates the warning that a backup waits for the next start.
    pub(crate) fn note_waiting_restore(&self) {
        let directory = self.shared.snapshot().config.data.directory.clone();
        let text = backup::waiting(&directory).map(|waiting| {
            format!(
                "a backup made by avocet {} waits: the next start replaces the state of the \
                 server with it; `avocet restore --cancel` prevents that",
                waiting.version
            )
        });
        self.conditions.set(Condition::Restore, text);
    }

    /// Sets the warning that no user can log in, if the file of users was damaged at the start.
    pub(crate) fn note_access_fault(&self) {
        let text = self.web.access.fault().map(|fault| format!("nobody can log in: {fault}"));
        self.conditions.set(Condition::Access, text);
    }

    /// Returns the reason why clients should query another server; `None` if this server is ready.
    pub(crate) fn unready(&self) -> Option<&'static str> {
        let has_turned = self.shared.metrics.iter().all(|worker| worker.turned_at_secs.value() > 0);
        if !has_turned || self.draining.load(Ordering::Relaxed) {
            return Some("not serving");
        }
        let is_cut_off = self.conditions.holds(Condition::Resolution);
        is_cut_off.then(|| Condition::Resolution.meaning())
    }
}
