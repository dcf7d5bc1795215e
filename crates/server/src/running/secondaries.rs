//! Zones of other servers (RFC 1034 §4.3.5), including zones that are fetched over HTTP or from a
//! database: their checks, transfers and expiry.
//!
//! ```text
//! due, or NOTIFY --> SOA of a primary -- same serial ---> confirmed: the file's time is now
//!                         |    older serial: not followed, a warning
//!                         +-- newer --> IXFR --> checked as a whole --> journal --> in force
//!                                        | not possible
//!                                        +-> AXFR --> checked as a whole --> file --> in force
//! ```
//! The copy is a master file that is replaced as a whole, so that a restart serves it at once,
//! together with later changes from the journal. A zone that no primary has confirmed for the time
//! in its SOA record is no longer served. Each check runs on a thread of its own, at most
//! [`MAX_CHECKS`] at the same time, half of that for members of catalogs, and [`MAX_OF_SOURCE`] at
//! one server: neither a catalog nor a server that hangs delays the zones of other servers. The
//! zone that has waited longest is first, and the next check begins when a check ends. The check of
//! a zone that was removed ends with the next octets from its primary, and counts towards the
//! limits until then.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_config::catalog::CatalogRole;
use avocet_config::database_address::DatabaseAddress;
use avocet_config::name::shown;
use avocet_config::primary::Primary;
use avocet_config::zone::ZoneConfig;
use avocet_config::zone_url::ZoneUrl;
use avocet_dnssec::zonemd;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::transfers::ServerEvent;
use avocet_nameserver::zone_digest::fault_of_digest;
use avocet_nameserver::zone_files::{ZoneChangeError, check_copy};
use avocet_resolver::Timers;
use avocet_wire::master::MasterRecord;
use avocet_wire::{Class, FoldedName, NameBuf, Rtype, rdata};
use avocet_zone::{
    EntryPlace, Faults, HostedRecord, HostedZone, NotExact, Severity, UnsoundZone, ZoneBuilder,
    ZoneEdits, is_newer,
};
use ureq::http::Uri;

use super::Running;
use super::conditions::Condition;
use crate::transfer::{
    ReceivedChanges, TransferError, TransferLimits, UnverifiedRecord, ZoneSource,
};
use crate::transfer_room::TransferRoom;
use avocet_worker::certificates::CertificateFault;
use avocet_worker::upstream_tls;

mod copy;
mod pulled;

use copy::{put_in_force, write};
use pulled::PullError;

/// Maximum number of concurrent checks, which mostly wait.
const MAX_CHECKS: usize = 64;
/// Maximum number of concurrent checks at one server.
const MAX_OF_SOURCE: usize = 8;
/// Time between checks for due work.
const TICK: Duration = Duration::from_secs(1);
/// Bounds of the time between two checks in seconds, regardless of the SOA record.
const LOOK_SECS: (u32, u32) = (5, 86_400);
/// Seconds between checks of a zone that was never transferred.
const FIRST_RETRY_SECS: u32 = 30;
/// Minimum number of seconds between two checks, even if primaries send NOTIFY more often.
const NOTIFIED_SECS: u64 = 1;
/// Maximum number of concurrent checks of members of catalogs.
const MAX_MEMBER_CHECKS: usize = MAX_CHECKS / 2;
/// The bounds of a transfer. Its records take up to 2 GiB until they are checked, and the zone that
/// is made from them takes about the same.
const LIMITS: TransferLimits =
    TransferLimits { octets: 2 << 30, records: 16 << 20, time: Duration::from_secs(3_600) };
/// The log line after a panic of the thread.
const FAULT: &str =
    "a panic ended the thread that checks the primaries of zones; restart the server";

/// All zones that this server transfers from other servers.
#[derive(Default)]
pub(crate) struct Secondaries {
    zones: Mutex<BTreeMap<Box<[u8]>, SecondaryState>>,
    room: TransferRoom,
}

/// The state of a zone of another server.
#[derive(Clone, Default)]
pub(crate) struct SecondaryState {
    /// The configuration; `None` if the zone was removed while its check has not ended yet.
    config: Option<ZoneConfig>,
    /// The resources of the zone's check, while one is in progress.
    check: Option<RunningCheck>,
    /// The Unix second of the last check that began.
    began_at_secs: u64,
    /// The Unix second of the last check in which a primary answered.
    pub(crate) checked_at_secs: Option<u64>,
    /// The Unix second of the next check.
    pub(crate) next_at_secs: u64,
    /// Transfers that were put in force.
    pub(crate) transfers: u64,
    /// Checks without a usable primary.
    pub(crate) failures: u64,
    /// The error of the last check.
    pub(crate) fault: Option<String>,
    /// The index of the primary that the next check queries first.
    first: usize,
}

/// The resources that a check uses, which are limited.
#[derive(Clone)]
struct RunningCheck {
    /// The server that the check queries first.
    server: ServerOfZone,
    /// Whether the zone is a member of a catalog.
    is_member: bool,
}

/// A server of zones.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ServerOfZone {
    Primary(IpAddr),
    /// The host of a URL.
    Host(String),
    /// The database of a URL.
    Database(DatabaseAddress),
}

impl ServerOfZone {
    /// Returns the server that the next check of a zone queries first.
    fn of(config: &ZoneConfig, first: usize) -> Self {
        let servers = &config.primaries.servers;
        match servers.get(first % servers.len().max(1)) {
            Some(primary) => Self::Primary(primary.server.ip()),
            None => {
                let source = config.source_url();
                if let Some(database) = source.and_then(|source| source.database.clone()) {
                    return Self::Database(database);
                }
                let uri = source.and_then(|source| source.url.parse::<Uri>().ok());
                Self::Host(uri.and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default())
            }
        }
    }
}

/// The result of a check with a usable primary.
enum Checked {
    /// The copy in force is the latest version.
    Confirmed(Timers),
    /// A version was transferred and put in force.
    Transferred(Timers),
}

impl Secondaries {
    /// Returns the state of a zone; `None` if it is not a zone of another server.
    pub(crate) fn state(&self, name: &[u8]) -> Option<SecondaryState> {
        self.zones().get(name).filter(|state| state.config.is_some()).cloned()
    }

    /// Returns whether a zone still has this configuration.
    fn has(&self, config: &ZoneConfig) -> bool {
        self.zones().get(&config.name).and_then(|state| state.config.as_ref()) == Some(config)
    }

    fn zones(&self) -> MutexGuard<'_, BTreeMap<Box<[u8]>, SecondaryState>> {
        self.zones.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the errors of the last checks in one sentence each.
    fn fault(&self) -> Option<String> {
        let zones = self.zones();
        let faults: Vec<_> = zones
            .iter()
            .filter(|(_, state)| state.config.is_some())
            .filter_map(|(name, state)| {
                let fault = state.fault.as_ref()?;
                let config = state.config.as_ref()?;
                let who = match config.source_url() {
                    Some(_) => "its url is not",
                    None => "no primary is",
                };
                let members = match config.catalog {
                    CatalogRole::Consumer => "; the members of the catalog stay as they are",
                    _ => "",
                };
                Some(format!("zone {}: {who} usable: {fault}{members}", shown(name)))
            })
            .collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// Applies the zones of the configuration in force. A zone with a changed configuration is due
    /// at once.
    fn follow(&self, configured: &[ZoneConfig], now_secs: u64) {
        let mut zones = self.zones();
        let secondaries = configured.iter().filter(|zone| zone.is_fetched());
        let names: BTreeSet<_> = secondaries.map(|zone| &*zone.name).collect();
        zones.retain(|name, state| names.contains(&**name) || state.check.is_some());
        for (_, state) in zones.iter_mut().filter(|(name, _)| !names.contains(&***name)) {
            state.config = None;
        }
        for config in configured.iter().filter(|zone| zone.is_fetched()) {
            let state = zones.entry(config.name.clone()).or_default();
            if state.config.as_ref() != Some(config) {
                state.config = Some(config.clone());
                state.next_at_secs = now_secs;
            }
        }
    }

    /// Marks zones as due because their primaries sent NOTIFY.
    pub(crate) fn note(&self, names: impl IntoIterator<Item = Box<[u8]>>) {
        let mut zones = self.zones();
        for name in names {
            if let Some(state) = zones.get_mut(&name) {
                let earliest = state.began_at_secs + NOTIFIED_SECS;
                state.next_at_secs = state.next_at_secs.min(earliest);
            }
        }
    }

    /// Moves the times of checks to an earlier wall time, because the clock was set back.
    pub(super) fn set_back(&self, by_secs: u64) {
        for state in self.zones().values_mut() {
            state.began_at_secs = state.began_at_secs.saturating_sub(by_secs);
            if state.next_at_secs != u64::MAX {
                state.next_at_secs = state.next_at_secs.saturating_sub(by_secs);
            }
        }
    }

    /// Returns the zones that are due, the longest overdue first, as far as the limits on checks
    /// permit, and marks their checks as begun.
    fn take_due(&self, now_secs: u64) -> Vec<ZoneConfig> {
        let mut zones = self.zones();
        let (mut checks, mut members, mut of_server) = (0, 0, BTreeMap::new());
        for check in zones.values().filter_map(|state| state.check.as_ref()) {
            (checks, members) = (checks + 1, members + usize::from(check.is_member));
            *of_server.entry(check.server.clone()).or_insert(0) += 1;
        }
        let mut waiting: Vec<_> = zones
            .values_mut()
            .filter(|state| state.check.is_none() && state.next_at_secs <= now_secs)
            .collect();
        waiting.sort_by_key(|state| state.next_at_secs);
        let mut due = Vec::new();
        for state in waiting {
            if checks >= MAX_CHECKS {
                break;
            }
            let Some(config) = &state.config else { continue };
            let is_member = config.catalog.is_member();
            if is_member && members >= MAX_MEMBER_CHECKS {
                continue;
            }
            let server = ServerOfZone::of(config, state.first);
            let taken = of_server.entry(server.clone()).or_insert(0);
            if *taken >= MAX_OF_SOURCE {
                continue;
            }
            *taken += 1;
            (checks, members) = (checks + 1, members + usize::from(is_member));
            due.push(config.clone());
            state.check = Some(RunningCheck { server, is_member });
            state.began_at_secs = now_secs;
            // A NOTIFY during the check makes the zone due again.
            state.next_at_secs = u64::MAX;
        }
        due
    }

    /// Records the end of a check.
    fn end(
        &self,
        config: &ZoneConfig,
        checked: Option<&Checked>,
        faults: &[String],
        held: Option<Timers>,
    ) {
        let mut zones = self.zones();
        let Some(state) = zones.get_mut(&config.name) else { return };
        state.check = None;
        if state.config.as_ref() != Some(config) {
            // The zone was removed, or is due with its new configuration.
            return;
        }
        let now_secs = wall_secs();
        let wait = match checked {
            Some(one @ (Checked::Confirmed(timers) | Checked::Transferred(timers))) => {
                state.transfers += u64::from(matches!(one, Checked::Transferred(_)));
                (state.checked_at_secs, state.fault) = (Some(now_secs), None);
                timers.refresh_secs
            }
            None => {
                state.failures += 1;
                state.first = state.first.wrapping_add(1);
                state.fault = Some(faults.join(", "));
                held.map_or(FIRST_RETRY_SECS, |timers| timers.retry_secs)
            }
        };
        state.next_at_secs = state.next_at_secs.min(now_secs + jittered(wait));
    }
}

/// Returns a time within the bounds, shortened at random by up to a tenth, so that servers that
/// started together do not send queries together.
fn jittered(secs: u32) -> u64 {
    let secs = u64::from(secs.clamp(LOOK_SECS.0, LOOK_SECS.1));
    let mut random = [0; 2];
    let _ = getrandom::fill(&mut random);
    secs - secs * u64::from(u16::from_be_bytes(random)) / (10 * 65_536)
}

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>) -> io::Result<()> {
    let work = move || {
        running.conditions.contain(Condition::Threads, FAULT, || work(&running));
    };
    thread::Builder::new().name("secondaries".to_owned()).spawn(work).map(drop)
}

fn work(running: &Arc<Running>) {
    let notices = &running.shared.name_server.notices;
    let mut followed_at = None::<Instant>;
    loop {
        let (names, is_closed) = notices.wait(TICK);
        if is_closed {
            return;
        }
        let secondaries = &running.zone_watch.secondaries;
        // Checks may end in quick succession. Work that depends on the number of zones is done only
        // once per tick, or after a NOTIFY.
        if followed_at.is_none_or(|at| at.elapsed() >= TICK) || !names.is_empty() {
            let snapshot = running.shared.snapshot();
            secondaries.follow(&snapshot.config.zones, wall_secs());
            #[cfg(feature = "postgres")]
            running.zone_watch.databases.follow(running, &snapshot.config.zones);
            for list in &snapshot.config.policy.lists {
                if list.source.zone().is_some_and(|own| names.contains(&own.zone)) {
                    running.lists.note(&list.name);
                }
            }
            secondaries.note(names);
            running.reloader.expire_zones(wall_secs());
            running.conditions.set(Condition::Primaries, secondaries.fault());
            followed_at = Some(Instant::now());
        }
        for config in secondaries.take_due(wall_secs()) {
            let running = running.clone();
            let name = config.name.clone();
            let begun = thread::Builder::new().name("transfer".to_owned()).spawn({
                let running = running.clone();
                move || {
                    running
                        .conditions
                        .contain(Condition::Threads, FAULT, || check(&running, &config));
                }
            });
            if let Err(error) = begun {
                tracing::error!(%error, "cannot start a thread for a transfer");
                if let Some(state) = running.zone_watch.secondaries.zones().get_mut(&name) {
                    state.check = None;
                    state.next_at_secs = wall_secs() + u64::from(FIRST_RETRY_SECS);
                }
            }
        }
    }
}

/// Checks a zone at its primaries. The state is recorded before the log shows it.
fn check(running: &Running, config: &ZoneConfig) {
    let held = running.reloader.zones.timers(&config.id());
    let secondaries = &running.zone_watch.secondaries;
    let (held, AskedSources { mut faults, result }) = match config.source_url() {
        Some(source) => {
            let held = held.map(|held| pulled::timers(source, held.serial));
            (held, ask_url(running, config, source))
        }
        None => (held, ask_primaries(running, config, held)),
    };
    let name = shown(&config.name);
    if !secondaries.has(config) {
        // The check failed because the zone was removed or changed, so its faults are not reported.
        faults.clear();
    }
    secondaries.end(config, result.as_ref().map(|(_, checked)| checked), &faults, held);
    running.shared.name_server.notices.make_room();
    running.conditions.set(Condition::Primaries, secondaries.fault());
    for fault in faults {
        tracing::warn!("zone {name}: {fault}");
    }
    if let Some((primary, Checked::Transferred(timers))) = result {
        tracing::info!(primary, serial = timers.serial, "zone {name} transferred");
    }
}

/// The sources that were queried for a zone.
struct AskedSources {
    /// The problem of each source that is not usable.
    faults: Vec<String>,
    /// The usable source, and its result.
    result: Option<(String, Checked)>,
}

/// Queries the primaries in order, beginning with the one that was usable last. After a check in
/// which none was usable, begins with the one after it.
fn ask_primaries(running: &Running, config: &ZoneConfig, held: Option<Timers>) -> AskedSources {
    let first = running.zone_watch.secondaries.state(&config.name).map_or(0, |state| state.first);
    let (mut faults, mut result) = (Vec::new(), None);
    let servers = &config.primaries.servers;
    for place in 0..servers.len() {
        let primary = &servers[(first + place) % servers.len()];
        match ask(running, config, primary, held) {
            Ok(checked) => {
                result = Some((primary.shown(), checked));
                break;
            }
            Err(fault) => faults.push(format!("{}: {fault}", primary.shown())),
        }
    }
    AskedSources { faults, result }
}

/// Requests the zone from the server of a URL.
fn ask_url(running: &Running, config: &ZoneConfig, source: &ZoneUrl) -> AskedSources {
    match pulled::pull(running, config, source) {
        Ok(checked) => {
            AskedSources { faults: Vec::new(), result: Some((source.url.clone(), checked)) }
        }
        Err(fault) => {
            AskedSources { faults: vec![format!("{}: {fault}", source.url)], result: None }
        }
    }
}

/// Checks a zone at one primary.
fn ask(
    running: &Running,
    config: &ZoneConfig,
    primary: &Primary,
    held: Option<Timers>,
) -> Result<Checked, CheckError> {
    let secondaries = &running.zone_watch.secondaries;
    let is_closed = || running.shared.name_server.notices.is_closed() || !secondaries.has(config);
    let apex = FoldedName::new(&config.name).ok_or(TransferError::Malformed)?;
    let snapshot = running.shared.snapshot();
    let key = config.primaries.key_for(primary).and_then(|name| snapshot.config.key(name));
    let tls = upstream_tls::of_primary(&config.primaries, primary)?;
    let share = secondaries.room.share(primary.server.ip());
    let source = ZoneSource {
        primary: primary.server,
        tls,
        apex,
        key,
        limits: LIMITS,
        share: Some(&share),
        is_closed: &is_closed,
    };
    let theirs = source.timers()?;
    if let Some(ours) = held {
        if theirs.serial == ours.serial {
            running.reloader.zones.confirm(&config.id()).map_err(CheckError::Disk)?;
            return Ok(Checked::Confirmed(ours));
        }
        if !is_newer(theirs.serial, ours.serial) {
            let (theirs, ours) = (theirs.serial, ours.serial);
            return Err(CheckError::Older { theirs, ours });
        }
    }
    let records = match held.map(|held| changes(running, config, &source, held)).transpose()? {
        Some(Transferred::Changes(timers)) => return Ok(Checked::Transferred(timers)),
        Some(Transferred::Whole(records)) => records,
        Some(Transferred::Nothing) | None => {
            check_copy(config).map_err(CheckError::Disk)?;
            source.zone()?
        }
    };
    let timers = checked(config, apex, &records)?;
    if held.is_some_and(|ours| !is_newer(timers.serial, ours.serial)) {
        let ours = held.map_or(0, |ours| ours.serial);
        return Err(CheckError::Older { theirs: timers.serial, ours });
    }
    if is_closed() {
        return Err(TransferError::Closed.into());
    }
    write(config, &records).map_err(CheckError::Disk)?;
    put_in_force(running, config, timers.serial)?;
    count(running, &source);
    Ok(Checked::Transferred(timers))
}

/// Counts a transfer that was put in force.
fn count(running: &Running, source: &ZoneSource<'_>) {
    let events = &running.shared.name_server.transfers;
    events.count(ServerEvent::Received);
    if source.tls.is_some() {
        events.count(ServerEvent::ReceivedOverTls);
    }
}

/// The result of IXFR.
enum Transferred {
    /// The changes are in force.
    Changes(Timers),
    /// The primary sent the whole zone.
    Whole(Vec<UnverifiedRecord>),
    /// The primary cannot send changes, or the changes do not apply to this version.
    Nothing,
}

/// Transfers the changes since the version in force, and puts them in force.
fn changes(
    running: &Running,
    config: &ZoneConfig,
    source: &ZoneSource<'_>,
    held: Timers,
) -> Result<Transferred, CheckError> {
    let zones = &running.reloader.zones;
    let Some(zone) = zones.source(&config.id()) else { return Ok(Transferred::Nothing) };
    let soa = zone.soa().map(|soa| soa.rdata).unwrap_or_default();
    let name = shown(&config.name);
    let lines = match source.changes(soa) {
        Ok(ReceivedChanges::Changes(lines)) => lines,
        Ok(ReceivedChanges::Whole(records)) => return Ok(Transferred::Whole(records)),
        Ok(ReceivedChanges::Latest) => return Ok(Transferred::Nothing),
        Err(error) if error.is_of_server() => {
            tracing::info!("zone {name}: IXFR from {}: {error}", source.primary);
            return Ok(Transferred::Nothing);
        }
        Err(error) => return Err(error.into()),
    };
    let make = |zone: &HostedZone| {
        let after = changed(zone, &lines, held)?;
        match fault_of_digest(config.zonemd, &after) {
            None => Ok(Some(after)),
            Some(fault) => Err(UnusableChanges::Digest(fault)),
        }
    };
    match running.reloader.change_zone(&config.id(), make) {
        Ok(Some(zone)) => {
            zones.confirm(&config.id()).map_err(CheckError::Disk)?;
            count(running, source);
            running.shared.name_server.transfers.count(ServerEvent::ReceivedChanges);
            let soa = zone.soa().and_then(|soa| Timers::of(soa.rdata));
            Ok(Transferred::Changes(soa.unwrap_or(held)))
        }
        Err(ZoneChangeError::Refused(fault)) => {
            tracing::warn!("zone {name}: IXFR from {}: {fault}", source.primary);
            Ok(Transferred::Nothing)
        }
        Err(ZoneChangeError::Disk(error)) => Err(CheckError::Disk(error)),
        // There are no changes, or a transfer of the whole zone will report the problem.
        Ok(None) | Err(_) => Ok(Transferred::Nothing),
    }
}

/// Applies received changes to the version that they were requested for.
fn changed(
    zone: &HostedZone,
    lines: &[UnverifiedRecord],
    held: Timers,
) -> Result<HostedZone, UnusableChanges> {
    if zone.serial() != held.serial {
        return Err(UnusableChanges::Overtaken);
    }
    let mut edits = ZoneEdits::of(zone);
    let mut is_added = true;
    for line in lines.iter().skip(1) {
        let owner = FoldedName::from_folded_unchecked(&line.owner);
        let UnverifiedRecord { rtype, ttl_secs, rdata, .. } = line;
        let record = HostedRecord { rtype: *rtype, ttl_secs: *ttl_secs, rdata };
        is_added ^= *rtype == Rtype::SOA;
        if rdata::check(rtype.0, rdata).is_err() {
            return Err(UnusableChanges::Malformed { rtype: *rtype });
        }
        let is_exact = match is_added {
            true => edits.add(owner, &record),
            false => edits.remove(owner, &record),
        };
        if !is_exact {
            return Err(UnusableChanges::NotExact(NotExact));
        }
    }
    let after = edits.finish(wall_secs())?;
    let latest = lines.first().and_then(|soa| Timers::of(&soa.rdata)).map(|soa| soa.serial);
    match Some(after.serial()) == latest && is_newer(after.serial(), held.serial) {
        true => Ok(after),
        false => Err(UnusableChanges::OtherSerial),
    }
}

/// The reason why received changes are not used.
#[derive(Debug, thiserror::Error)]
enum UnusableChanges {
    #[error("another version came into force meanwhile")]
    Overtaken,
    #[error("{0}")]
    NotExact(NotExact),
    #[error("the data of a record of type {rtype} is malformed")]
    Malformed { rtype: Rtype },
    #[error("the zone would have errors: {0}")]
    Unsound(#[from] UnsoundZone),
    #[error("the zone would have errors: {0}")]
    Digest(zonemd::Fault),
    #[error("the changes lead to another serial than announced")]
    OtherSerial,
}

/// The reason why a primary is not usable.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("{0}")]
    Transfer(TransferError),
    #[error("{0}")]
    Tls(#[from] CertificateFault),
    #[error("{0}")]
    Pull(#[from] PullError),
    #[error("its serial {theirs} is older than {ours}, which is in force: not followed")]
    Older { theirs: u32, ours: u32 },
    #[error("the zone has errors: {0}")]
    Zone(String),
    #[error("its serial {serial} was transferred and is not in force: {reason}")]
    NotInForce { serial: u32, reason: String },
    #[error("cannot keep the zone on disk: {0}")]
    Disk(io::Error),
}

impl From<TransferError> for CheckError {
    fn from(error: TransferError) -> Self {
        Self::Transfer(error)
    }
}

/// Checks a transferred zone as a whole. Returns its timers.
fn checked(
    config: &ZoneConfig,
    apex: FoldedName<'_>,
    records: &[UnverifiedRecord],
) -> Result<Timers, CheckError> {
    let (mut builder, mut faults) = (ZoneBuilder::new(apex), Faults::default());
    let mut record = MasterRecord::empty();
    for one in records {
        if let Err(fault) = rdata::check(one.rtype.0, &one.rdata) {
            let owner = shown(&one.owner);
            let fault = format!("the data of {owner} {} is malformed: {fault}", one.rtype);
            return Err(CheckError::Zone(fault));
        }
        record.owner = NameBuf::from_wire(&one.owner).unwrap_or(NameBuf::ROOT);
        (record.ttl_secs, record.class, record.rtype) = (one.ttl_secs, Class::IN, one.rtype);
        record.rdata.clear();
        record.rdata.extend_from_slice(&one.rdata);
        builder.add(&record, EntryPlace::default(), &mut faults);
    }
    let zone = builder.finish(wall_secs(), EntryPlace::default(), &mut faults);
    let soa = records.first().and_then(|soa| Timers::of(&soa.rdata));
    if let (Some(zone), Some(timers)) = (zone, soa) {
        let fault = fault_of_digest(config.zonemd, &zone);
        return fault.map_or(Ok(timers), |fault| Err(CheckError::Zone(fault.to_string())));
    }
    let mut list = faults.list().into_iter();
    let error = list.find(|fault| fault.severity == Severity::Error);
    Err(CheckError::Zone(error.map_or_else(String::new, |fault| fault.reason.to_string())))
}

#[cfg(test)]
mod tests;
