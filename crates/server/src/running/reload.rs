//! Reload of the configuration while the server runs.
//!
//! ```text
//! SIGHUP, changed file, `avocet reload` --> load, check, build --> swap
//!                                               \-- any error: the configuration in force stays,
//!                                                   and the error is reported
//! ```
//! Settings that only a new process can change (sockets, threads, sizes of caches) keep their
//! values, which a log line reports.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use avocet_config::edit::{KeyEdit, check_effect, edited};
use avocet_config::zone::ZoneConfig;
use avocet_config::{Config, ServerConfig, WrittenConfig, read_text};
use avocet_control::ControlError;
use avocet_control::revisions::Submitter;
use avocet_io::probe::has_family;
use avocet_nameserver::StateError;
use avocet_nameserver::file_watch::FileFingerprint;
use avocet_nameserver::flush::FlushExtent;
use avocet_nameserver::policy::Parts;
use avocet_nameserver::query::cookie::CookieSecrets;
use avocet_nameserver::snapshot::{Snapshot, Unconfigured};
use avocet_nameserver::trust::LearntTrust;
use avocet_nameserver::upstream_addresses::UpstreamAddresses;
use avocet_nameserver::zone_files::{AddressLookUp, ZoneChangeError, ZoneFiles};
use avocet_resolver::Introduction;
use avocet_revisions::ChangeOrigin;
use avocet_wire::{FoldedName, FoldedNameBuf};
use avocet_zone::{HostedZone, ZoneId};
use ipnet::IpNet;

use crate::error::BackgroundError;
use crate::log;
use crate::running::catalogs::{Catalogs, write_catalogs};
use crate::running::certificate::fault_of_certificate;
use crate::running::geo::GeoReads;
use crate::running::ports::{self, RESERVED_PORTS};
use crate::running::removed::Removed;
use crate::running::restart::{PendingRestart, keep_what_needs_a_restart};
use crate::running::revisions::{Change, FileWrite, Revisions};
use crate::running::strangers;
use crate::turns::Turns;
use avocet_worker::state::Shared;
use avocet_worker::upstream_tls;

mod checks;
mod members;

use checks::MAX_CHECKS;

/// Maximum number of times that a file is read if it changes while it is read.
const MAX_READS: usize = 8;
/// Maximum wait of a reload until the workers use a new snapshot. A worker that takes longer is
/// stuck; other threads that use the old snapshot store no records.
const LONGEST_TURN: Duration = Duration::from_secs(1);
/// Time between two checks whether the workers use the new snapshot.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The component that builds snapshots and puts them in force, one at a time.
pub(crate) struct Reloader {
    path: Option<PathBuf>,
    shared: Arc<Shared>,
    unconfigured: Mutex<Unconfigured>,
    /// The files of the hosted zones.
    pub(crate) zones: ZoneFiles,
    /// The members of catalogs.
    pub(crate) catalogs: Catalogs,
    /// The history of the configuration file.
    pub(crate) revisions: Revisions,
    /// The changes that take effect only after a restart.
    pending: Mutex<PendingRestart>,
    /// The file with the ports that the kernel reserves for other programs.
    reserved_ports: PathBuf,
    /// Number of configurations that were put in force after the first.
    pub(crate) successes: AtomicU64,
    /// Configurations refused.
    pub(crate) failures: AtomicU64,
    /// The results of reading the geo database.
    pub(crate) geo: GeoReads,
    /// Limits the number of concurrent checks of configurations: costly checks must not take all
    /// places for requests.
    checks: Arc<Turns>,
}

/// The result of a reload.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reloaded {
    /// The changes that take effect only after a restart.
    pub(crate) restart: PendingRestart,
    /// Whether cached answers were dropped.
    pub(crate) new_epoch: bool,
    /// The parts of the previous configuration that the new configuration lacks.
    pub(crate) removed: Removed,
    /// The revision in force.
    pub(crate) revision: Option<u32>,
}

/// A validated configuration that is about to come into force.
struct Incoming {
    config: Config,
    text: String,
    change: Change,
}

impl Reloader {
    /// Creates the reloader of the file at `path`. `None` means that only defaults and the
    /// environment apply.
    pub(crate) fn new(
        path: Option<PathBuf>,
        shared: Arc<Shared>,
        (unconfigured, zones): (Unconfigured, ZoneFiles),
        revisions: Revisions,
    ) -> Self {
        let catalogs = Catalogs::load(&shared.snapshot().config.data.directory);
        Self {
            path,
            revisions,
            shared,
            catalogs,
            unconfigured: Mutex::new(unconfigured),
            zones,
            pending: Mutex::default(),
            reserved_ports: RESERVED_PORTS.into(),
            successes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            geo: GeoReads::default(),
            checks: Arc::new(Turns::new(MAX_CHECKS)),
        }
    }

    /// Returns the path of the configuration file, if there is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the changes that take effect only after a restart.
    pub(crate) fn pending_restart(&self) -> PendingRestart {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the configuration and puts it in force.
    ///
    /// # Errors
    /// All faults of the configuration, each with `FILE:LINE:COLUMN`. Nothing changes then.
    pub(crate) fn reload(&self) -> Result<Reloaded, BackgroundError> {
        self.submit(|| self.read())
    }

    /// Edits the configuration file and puts it in force. If the file was changed by hand and this
    /// change is not in force yet, it comes into force first.
    ///
    /// # Errors
    /// The file or the result has errors, or the revision in force is not `base`.
    pub(crate) fn edit(
        &self,
        edits: &[KeyEdit<'_>],
        base: Option<u32>,
        by: Submitter,
    ) -> Result<Reloaded, BackgroundError> {
        let file = self.revisions.quiet_text()?;
        let text = self.base(&file);
        if text != self.revisions.text() {
            self.reload()?;
        }
        let in_force = self.revisions.in_force();
        if base.is_some() && base != in_force {
            return Err(BackgroundError::OtherRevision(in_force));
        }
        let change = Change { origin: ChangeOrigin::Edit, by, write: FileWrite::Must(file) };
        self.submit(|| {
            check_effect(edits, |name| std::env::var_os(name).is_some())?;
            self.validated(edited(&text, edits)?, change)
        })
    }

    /// Returns the text to edit: the text of the file, or the text in force if a rollback could not
    /// replace the file.
    fn base(&self, file: &str) -> String {
        match self.revisions.is_rolled_back(file) {
            true => self.revisions.text(),
            false => file.to_owned(),
        }
    }

    /// Puts an earlier revision in force again.
    ///
    /// # Errors
    /// The revision does not exist or has errors now, or the file cannot be written.
    pub(crate) fn roll_back(
        &self,
        number: u32,
        origin: ChangeOrigin,
        by: Submitter,
    ) -> Result<Reloaded, BackgroundError> {
        let text = self.revisions.read(|store| store.text(number))?;
        let base = self.revisions.file_text().unwrap_or_default();
        let is_taken = base == self.revisions.text() || self.revisions.is_rolled_back(&base);
        if !is_taken && self.reload().is_err() {
            let keep = self.shared.snapshot().config.revisions.keep;
            self.revisions.keep_refused(&base, keep);
        }
        let write = match origin {
            ChangeOrigin::Probation => FileWrite::Try(base),
            _ => FileWrite::Must(base),
        };
        self.submit(|| self.validated(text, Change { origin, by, write }))
    }

    fn validated(&self, text: String, change: Change) -> Result<Incoming, BackgroundError> {
        let config = self.permitted(&text, change.by.reach)?;
        let written = WrittenConfig { config: &config, text: &text };
        self.check_reach(written, change.by.reach)?;
        Ok(Incoming { config, text, change })
    }

    /// Puts a configuration in force, and logs the result.
    fn submit(
        &self,
        incoming: impl FnOnce() -> Result<Incoming, BackgroundError>,
    ) -> Result<Reloaded, BackgroundError> {
        let mut unconfigured = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        let reserved_ports = ports::read(&self.reserved_ports).into();
        let mut changed = Unconfigured { reserved_ports, ..unconfigured.clone() };
        let result = incoming().and_then(|incoming| self.replace(incoming, &mut changed));
        if result.is_ok() {
            *unconfigured = changed;
        }
        match &result {
            Ok(reloaded) => {
                self.successes.fetch_add(1, Ordering::Relaxed);
                if !reloaded.removed.is_empty() {
                    tracing::warn!("this reload removes {}", reloaded.removed);
                }
                tracing::info!(new_epoch = reloaded.new_epoch, "configuration reloaded");
                if !reloaded.restart.is_empty() {
                    tracing::warn!("a restart is needed for {}", reloaded.restart);
                }
                *self.pending.lock().unwrap_or_else(PoisonError::into_inner) =
                    reloaded.restart.clone();
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                for line in error.to_string().lines() {
                    tracing::error!(
                        "configuration not reloaded, the current one stays in force: {line}"
                    );
                }
            }
        }
        result
    }

    fn replace(
        &self,
        incoming: Incoming,
        unconfigured: &mut Unconfigured,
    ) -> Result<Reloaded, BackgroundError> {
        let Incoming { mut config, text, change } = incoming;
        // The start has already logged these addresses.
        let _ = without_missing_families(&mut config.server);
        let old = self.shared.snapshot();
        // An empty file is not an intended configuration. Either the disk was full, or the program
        // that writes the file has just emptied it.
        if config.is_bare && !old.config.is_bare {
            return Err(BackgroundError::NoSettings(self.file()));
        }
        let restart = keep_what_needs_a_restart(&mut config, &old.config);
        self.catalogs.extend(&mut config);
        let mut parts = old.parts.clone();
        self.geo.take(&config.policy, &mut parts)?;
        parts.links = strangers::links_for(&config.policy);
        let tls = self.shared.tls.read(&config)?;
        let peers = upstream_tls::read(&config).map_err(BackgroundError::Upstream)?;
        unconfigured.certificates = tls.shown_names(&config);
        write_catalogs(&config.zones);
        self.zones.rename(&old.config.zones, &config.zones).map_err(BackgroundError::Unmoved)?;
        // After a later failure, the previous zones stay in force, so the catalogs must list them
        // again.
        let new_zones = config.zones.clone();
        let list_again = || {
            write_catalogs(&old.config.zones);
            if let Err(error) = self.zones.rename(&new_zones, &old.config.zones) {
                tracing::error!(%error, "cannot move the changes of zones back");
            }
        };
        // Zones are read last: that changes their journals and keys, which a configuration that is
        // refused must not.
        let staged =
            old.replaced(Arc::new(config), unconfigured, parts).inspect_err(|_| list_again())?;
        let kept = self
            .revisions
            .keep(&text, &change, &staged.config.revisions)
            .inspect_err(|_| list_again())?;
        let (snapshot, read) = self.with_zones(staged, unconfigured)?;
        let new_epoch = snapshot.epoch != old.epoch;
        log::set_level(snapshot.config.log.level);
        let doubts = &snapshot.config.doubts;
        doubts.iter().for_each(|doubt| tracing::warn!("{doubt}"));
        if let Some(fault) = fault_of_certificate(&snapshot.config.web) {
            tracing::warn!("{fault}");
        }
        let zones = rerouted_zones(&old.config, &snapshot.config);
        let before = self.revisions.text();
        let removed = Removed::between(
            WrittenConfig { config: &old.config, text: &before },
            WrittenConfig { config: &snapshot.config, text: &text },
        );
        // A change that turns probation off is still on probation.
        let probation_secs = snapshot.config.revisions.probation_secs;
        let probation_secs = probation_secs.max(old.config.revisions.probation_secs);
        self.zones.put(read);
        self.shared.tls.put(tls);
        self.shared.upstream_peers.put(peers);
        self.shared.replace(snapshot);
        self.revisions.came_into_force((text, &kept), change.origin, probation_secs);
        self.drop_below(&zones, &old, unconfigured);
        Ok(Reloaded { restart, new_epoch, removed, revision: kept.number })
    }

    /// Reads the configuration. A file that is being written may be valid although its end is
    /// missing. Therefore, the fingerprint of the file must be the same before and after the
    /// reading.
    fn read(&self) -> Result<Incoming, BackgroundError> {
        let fingerprint = || self.path().and_then(FileFingerprint::of);
        let load = || self.path().map_or_else(|| Ok(String::new()), read_text);
        match read_settled(fingerprint, load) {
            Some(text) => match text? {
                text if self.revisions.is_rolled_back(&text) => {
                    Err(BackgroundError::RolledBack(self.file()))
                }
                text => self.validated(text, Change::of_file()),
            },
            None => Err(BackgroundError::BeingWritten(self.file())),
        }
    }

    /// Returns whether the file already has the text in force, such as after a change by a request.
    pub(crate) fn has_text_of_file(&self) -> bool {
        self.revisions.file_text().is_ok_and(|text| self.base(&text) == self.revisions.text())
    }

    fn file(&self) -> PathBuf {
        self.path.clone().unwrap_or_default()
    }

    /// Changes the parts of the policy that are not in the configuration.
    ///
    /// # Errors
    /// The policy cannot be built. Nothing changes then.
    pub(crate) fn change_policy(&self, change: impl FnOnce(&mut Parts)) -> Result<(), StateError> {
        let change = |_: &Config, parts: &mut Parts| {
            change(parts);
            Ok(())
        };
        self.change_parts(change, |error| error)
    }

    /// Changes the policy like [`Self::change_policy`], with a change that may fail. Changes are
    /// made one at a time: each change sees the result of the previous one.
    ///
    /// # Errors
    /// The change failed, or the policy cannot be built. Nothing changes then.
    pub(crate) fn try_change_policy<T>(
        &self,
        change: impl FnOnce(&Config, &mut Parts) -> Result<T, ControlError>,
    ) -> Result<T, ControlError> {
        self.change_parts(change, |error| ControlError::PolicyRefused(error.to_string()))
    }

    fn change_parts<T, E>(
        &self,
        change: impl FnOnce(&Config, &mut Parts) -> Result<T, E>,
        refused: impl FnOnce(StateError) -> E,
    ) -> Result<T, E> {
        let unconfigured = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.shared.snapshot();
        let mut parts = state.parts.clone();
        let made = change(&state.config, &mut parts)?;
        let snapshot =
            state.replaced(state.config.clone(), &unconfigured, parts).map_err(refused)?;
        self.shared.replace(snapshot);
        Ok(made)
    }

    /// Calls `read` with the configuration and the parts of the policy, which do not change during
    /// the call.
    pub(crate) fn read_parts<T>(&self, read: impl FnOnce(&Config, &Parts) -> T) -> T {
        let _unchanged = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.shared.snapshot();
        read(&state.config, &state.parts)
    }

    /// Admits clients of these networks if `allow` contains `local`.
    pub(crate) fn change_own_networks(&self, own: &[IpNet]) {
        let mut unconfigured = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        if *unconfigured.own_networks == *own {
            return;
        }
        unconfigured.own_networks = own.into();
        let state = self.shared.snapshot();
        if !state.config.server.allows_local() {
            return;
        }
        self.apply(&state, &unconfigured, "cannot apply the networks of this host");
    }

    /// Puts zones with changed files in force. `now_secs` is on the monotonic clock.
    pub(crate) fn watch_zones(&self, now_secs: u64) {
        // Reading takes long, so it is done before the lock that every change of the state takes.
        if self.zones.watch(now_secs) {
            self.apply_zones();
        }
    }

    /// Puts the zones in force whose files were only prepared until now.
    pub(crate) fn begin_zones(&self, configured: &[ZoneConfig]) {
        self.zones.begin(configured);
        self.apply_zones();
    }

    /// Signs zones whose signatures expire soon or whose keys change their state. `now_secs` is the
    /// Unix second.
    pub(crate) fn sign_zones(&self, now_secs: u64) {
        if self.zones.sign_due(now_secs) {
            self.apply_zones();
        }
    }

    /// Publishes a zone with the addresses behind its ALIAS records. `now_secs` is the Unix second.
    pub(crate) fn publish_addresses(
        &self,
        id: &ZoneId,
        looked_up: Vec<AddressLookUp>,
        now_secs: u64,
    ) {
        if self.zones.note_addresses(id, looked_up, now_secs) {
            self.apply_zones();
        }
    }

    /// Withdraws zones of other servers that have expired.
    pub(crate) fn expire_zones(&self, now_secs: u64) {
        if self.zones.expire(now_secs) {
            self.apply_zones();
        }
    }

    /// Reads the given zone, or all zones if none is given, and puts zones without errors in force.
    /// Returns whether the given zone exists.
    pub(crate) fn reload_zones(&self, id: Option<&ZoneId>) -> bool {
        let is_known = self.zones.reload(id);
        self.apply_zones();
        is_known
    }

    /// Puts the zone version that `make` creates in force; see [`ZoneFiles::change`].
    pub(crate) fn change_zone<E>(
        &self,
        id: &ZoneId,
        make: impl FnOnce(&HostedZone) -> Result<Option<HostedZone>, E>,
    ) -> Result<Option<Arc<HostedZone>>, ZoneChangeError<E>> {
        let changed = self.zones.change(id, make)?;
        if changed.is_some() {
            self.apply_zones();
        }
        Ok(changed)
    }

    /// Puts the versions of zones in force that were read last. They may include zones that another
    /// thread has read.
    fn apply_zones(&self) {
        let mut unconfigured = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        let zones = self.zones.current();
        if !zones.changed_to(&unconfigured.zones).is_empty() {
            unconfigured.zones = zones;
            self.apply(&self.shared.snapshot(), &unconfigured, "cannot apply the zones");
        }
    }

    /// Puts the names of the presented certificates in force, after certificate files have changed.
    pub(crate) fn announce_certificates(&self) {
        let mut unconfigured = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.shared.snapshot();
        let shown = self.shared.tls.shown_names(&state.config);
        if shown != unconfigured.certificates {
            unconfigured.certificates = shown;
            self.apply(&state, &unconfigured, "cannot announce the certificates");
        }
    }

    /// Puts other trust anchors in force in addition to the configuration. Drops data that is
    /// cached at and below these names, because the previous anchors validated it.
    pub(crate) fn change_trust(
        &self,
        change: impl FnOnce(&mut LearntTrust),
        judged_anew: &[FoldedNameBuf],
    ) {
        let mut unconfigured = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        let mut trust = LearntTrust::clone(&unconfigured.trust);
        change(&mut trust);
        if trust == *unconfigured.trust && judged_anew.is_empty() {
            return;
        }
        unconfigured.trust = Arc::new(trust);
        let old = self.shared.snapshot();
        self.apply(&old, &unconfigured, "cannot update the trust anchors");
        let zones: Vec<_> = judged_anew.iter().map(|name| name.wire().into()).collect();
        self.drop_below(&zones, &old, &mut unconfigured);
    }

    /// Returns the addresses of upstreams that are configured by name.
    pub(crate) fn upstream_addresses(&self) -> Arc<UpstreamAddresses> {
        let unconfigured = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        unconfigured.upstream_addresses.clone()
    }

    /// Puts other addresses of upstreams in force that are configured by name. Drops cached
    /// failures at and below these zones, because a missing address may have caused them.
    pub(crate) fn change_upstream_addresses(
        &self,
        change: impl FnOnce(&mut UpstreamAddresses),
        zones: &[Box<[u8]>],
    ) {
        let mut unconfigured = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        let mut addresses = UpstreamAddresses::clone(&unconfigured.upstream_addresses);
        change(&mut addresses);
        if addresses == *unconfigured.upstream_addresses {
            return;
        }
        unconfigured.upstream_addresses = Arc::new(addresses);
        self.apply(&self.shared.snapshot(), &unconfigured, "cannot use addresses of upstreams");
        let zones: Vec<_> = zones.iter().filter_map(|zone| FoldedName::new(zone)).collect();
        self.shared.name_server.flush_failures(&zones);
    }

    /// Drops cached data at and below zones that are resolved or validated differently than by the
    /// snapshot `old`, which was replaced.
    ///
    /// A worker that uses `old` may store records until it takes the next snapshot. A worker that
    /// has already taken it may make answers from these records. Therefore, this function drops the
    /// records again once no worker uses `old`, and then invalidates the answers.
    fn drop_below(
        &self,
        zones: &[Box<[u8]>],
        old: &Arc<Snapshot>,
        unconfigured: &mut Unconfigured,
    ) {
        if zones.is_empty() {
            return;
        }
        self.flush(zones);
        outlast(old);
        self.flush(zones);
        unconfigured.drops = unconfigured.drops.wrapping_add(1);
        self.apply(&self.shared.snapshot(), unconfigured, "cannot end answers from old records");
    }

    fn flush(&self, zones: &[Box<[u8]>]) {
        let zones: Vec<_> = zones.iter().filter_map(|zone| FoldedName::new(zone)).collect();
        self.shared.name_server.flush_rrsets(&zones, FlushExtent::Tree);
        self.shared.name_server.flush_failures(&zones);
    }

    /// Makes cookies with a new secret. Cookies made with the previous secret are still accepted.
    /// Has no effect if the secret is configured or cookies are off.
    pub(crate) fn rotate_cookie_secret(&self, current: [u8; 16]) {
        let mut unconfigured = self.unconfigured.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.shared.snapshot();
        if !state.config.server.cookies || state.config.server.cookie_secret.is_some() {
            return;
        }
        unconfigured.cookies =
            CookieSecrets { current, previous: Some(unconfigured.cookies.current) };
        self.apply(&state, &unconfigured, "cannot rotate the cookie secret");
    }

    /// Puts changes in force that are not in the configuration or the policy.
    fn apply(&self, state: &Snapshot, unconfigured: &Unconfigured, failed: &str) {
        match state.replaced(state.config.clone(), unconfigured, state.parts.clone()) {
            Ok(snapshot) => self.shared.replace(snapshot),
            Err(error) => tracing::error!(%error, "{failed}"),
        }
    }
}

/// Waits until no worker uses a snapshot that was replaced, for at most [`LONGEST_TURN`].
fn outlast(old: &Arc<Snapshot>) {
    // The caller and the list of replaced snapshots each keep a reference.
    const KEPT: usize = 2;
    let began = Instant::now();
    while Arc::strong_count(old) > KEPT && began.elapsed() < LONGEST_TURN {
        thread::park_timeout(LOOK_AGAIN);
    }
}

/// Returns the contents of a file that has the same fingerprint before and after reading; `None` if
/// it keeps changing.
fn read_settled<T>(
    mut fingerprint: impl FnMut() -> Option<FileFingerprint>,
    read: impl Fn() -> T,
) -> Option<T> {
    let mut before = fingerprint();
    for _ in 0..MAX_READS {
        let made = read();
        let behind = fingerprint();
        if behind == before {
            return Some(made);
        }
        before = behind;
    }
    None
}

/// Returns the zones below the root that gained or lost a rule or a stub: their cached data comes
/// from other servers. Returns the root if all names are resolved or validated in another way.
fn rerouted_zones(old: &Config, new: &Config) -> Vec<Box<[u8]>> {
    let zones = |config: &Config| -> HashSet<(Box<[u8]>, bool)> {
        config.forwards.iter().map(|forward| (forward.zone.clone(), forward.exception)).collect()
    };
    let (rules, new_rules) = (zones(old), zones(new));
    let rerouted = rules.symmetric_difference(&new_rules).map(|(zone, _)| zone);
    let stubs = old.stubs.iter().filter(|stub| !new.stubs.contains(stub));
    let stubs = stubs
        .chain(new.stubs.iter().filter(|stub| !old.stubs.contains(stub)))
        .map(|stub| &stub.zone);
    let mut rerouted: Vec<_> =
        rerouted.chain(stubs).filter(|zone| zone.len() > 1).cloned().collect();
    // If each client gets its own answers for a zone, answers that servers gave to all clients are
    // not used.
    let personal = |config: &Config| -> HashSet<Box<[u8]>> {
        let rules = config.forwards.iter().filter(|rule| rule.introduction != Introduction::None);
        rules.map(|rule| rule.zone.clone()).collect()
    };
    rerouted.extend(personal(new).difference(&personal(old)).cloned());
    // Data from another source, or with another reason for trust, is resolved again.
    if old.resolver.mode != new.resolver.mode || old.dnssec != new.dnssec {
        rerouted.push([0].into());
    }
    rerouted
}

/// Removes IPv6 addresses if the system has no IPv6 and other addresses remain. Returns the removed
/// addresses.
pub(crate) fn without_missing_families(server: &mut ServerConfig) -> Vec<SocketAddr> {
    let mut missing = Vec::new();
    remove_missing(&mut server.listen, |address| *address, &mut missing);
    remove_missing(&mut server.encrypted, |one| one.address, &mut missing);
    for listener in &mut server.listeners {
        remove_missing(&mut listener.listen, |address| *address, &mut missing);
        remove_missing(&mut listener.encrypted, |one| one.address, &mut missing);
    }
    missing
}

fn remove_missing<T: Copy>(
    listen: &mut Vec<T>,
    address: impl Fn(&T) -> SocketAddr,
    all_missing: &mut Vec<SocketAddr>,
) {
    let (served, missing): (Vec<T>, Vec<T>) =
        listen.iter().partition(|one| has_family(address(one)));
    if !served.is_empty() {
        *listen = served;
        all_missing.extend(missing.iter().map(address));
    }
}

#[cfg(test)]
mod tests;
