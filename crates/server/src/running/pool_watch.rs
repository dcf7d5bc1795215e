//! The health of all targets: from the results of probes to the state that workers read, and the
//! parts that operators may see and change.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avocet_config::name::shown;
use avocet_config::pool::PoolConfig;
use avocet_config::pool_probe::{ProbeConfig, ProbePort};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::pools::{LivePool, hidden_text};
use avocet_nameserver::query::own::Names;
use avocet_wire::FoldedName;
use avocet_zone::pool::{
    AddressFamily, HealthState, MemberControl, PoolMasks, ProbeVerdict, TargetHealth, WhenAllDown,
};

use super::pool_state::{self, SavedState};

/// Maximum number of results of a target that are kept for display.
const MAX_PAST: usize = 20;

/// A target of probes, with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TargetKey {
    /// The address that is probed.
    pub(crate) address: IpAddr,
    /// The port of the target, if it differs from the port of the probe.
    pub(crate) port: Option<u16>,
    /// The probe.
    pub(crate) probe: ProbeConfig,
}

/// The result of a probe, with a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    /// The target responds as required.
    Success(String),
    /// The target is not healthy.
    Failure(String),
    /// The probe could not be made, so it has no result.
    NotRun(String),
}

/// A probe that has ended.
#[derive(Debug, Clone)]
pub(crate) struct PastProbe {
    /// The Unix second of its end.
    pub(crate) at_secs: u64,
    /// The duration of the probe in milliseconds.
    pub(crate) took_ms: u64,
    /// The result of the probe.
    pub(crate) result: ProbeResult,
}

/// The status of a target, for display.
#[derive(Debug, Clone)]
pub(crate) struct TargetStatus {
    /// The health of the target.
    pub(crate) state: HealthState,
    /// The Unix second of its last change.
    pub(crate) since_secs: Option<u64>,
    /// The last probes of the target, the latest first.
    pub(crate) past: VecDeque<PastProbe>,
    /// Changes of its health since the start.
    pub(crate) changes: u64,
    /// Probes with each result since the start: successes, failures, not run.
    pub(crate) probes: [u64; 3],
}

/// The status of an address of a pool, for display.
pub(crate) struct WatchedMember {
    /// The target of the probe.
    pub(crate) target: TargetKey,
    /// The health of the address.
    pub(crate) status: TargetStatus,
    /// The setting of the operator for the address.
    pub(crate) control: MemberControl,
}

/// A target with its health.
#[derive(Debug)]
struct WatchedTarget {
    health: TargetHealth,
    status: TargetStatus,
}

/// All targets, and the settings of operators for addresses.
#[derive(Default)]
pub(crate) struct PoolWatch {
    table: Mutex<PoolTable>,
    /// A lock that is held from the reading of the state to its writing, so that an older state
    /// does not overwrite a newer one. Holds the reason if the last writing failed.
    saving: Mutex<Option<String>>,
}

#[derive(Default)]
struct PoolTable {
    targets: BTreeMap<Arc<TargetKey>, WatchedTarget>,
    pools: Vec<Arc<LivePool>>,
    controls: BTreeMap<(Box<[u8]>, IpAddr), MemberControl>,
    /// The names of the pools that have no effect, because their zones have aliases there.
    hidden: BTreeSet<Box<[u8]>>,
    /// The state from the last run of the server, until the first configuration uses it.
    saved: SavedState,
    /// Whether a change must be published.
    is_changed: bool,
}

impl TargetKey {
    /// Returns the target of an address of a pool.
    pub(crate) fn of(pool: &PoolConfig, position: usize) -> Option<Self> {
        let member = pool.rule.members.get(position)?;
        let at = pool.probed_at.get(position).copied().flatten();
        Some(Self {
            address: at.map_or(member.address, |at| at.address),
            port: at.and_then(|at| at.port),
            probe: pool.probe.clone(),
        })
    }

    /// Returns the address of the probe as text.
    pub(crate) fn shown(&self) -> String {
        match (self.port, self.probe.kind.port()) {
            (Some(port), _) | (None, ProbePort::Known(port)) => {
                format!("{} port {port}", self.address)
            }
            _ => self.address.to_string(),
        }
    }
}

impl ProbeResult {
    /// Returns the reason.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Success(reason) | Self::Failure(reason) | Self::NotRun(reason) => reason,
        }
    }
}

impl PoolWatch {
    /// Creates the watch with the state from the last run of the server, and publishes this state.
    pub(crate) fn begin(directory: &Path, names: &Names) -> Self {
        let saved = pool_state::load(directory, wall_secs());
        let table = PoolTable { controls: saved.controls.clone(), saved, ..PoolTable::default() };
        let watch = Self { table: Mutex::new(table), ..Self::default() };
        watch.follow(names);
        // A pool that a later configuration adds starts with unknown health.
        watch.table().saved = SavedState::default();
        watch.publish_changes();
        watch
    }

    /// Waits until no other thread saves the state, and locks the saving.
    pub(crate) fn saving(&self) -> MutexGuard<'_, Option<String>> {
        self.saving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries again to save a state that could not be written to disk. Returns the reason if this
    /// fails.
    pub(crate) fn save_again(&self, directory: &Path) -> Option<String> {
        if self.saving().is_some() {
            pool_state::save(directory, self);
        }
        self.saving().clone()
    }

    /// Applies the pools and the zones of the configuration in force. Returns the new targets.
    pub(crate) fn follow(&self, names: &Names) -> Vec<Arc<TargetKey>> {
        let mut table = self.table();
        table.is_changed = true;
        table.pools = names.pools.iter().cloned().collect();
        table.pools.sort_by(|a, b| a.config.name.cmp(&b.config.name));
        table.note_hidden(names);
        let mut wanted = BTreeMap::new();
        for pool in &table.pools {
            for (position, member) in pool.config.rule.members.iter().enumerate() {
                if let Some(target) = TargetKey::of(&pool.config, position) {
                    let known = table.saved.states.get(&(pool.config.name.clone(), member.address));
                    wanted.entry(target).or_insert_with(|| known.copied());
                }
            }
        }
        table.targets.retain(|target, _| wanted.contains_key(&**target));
        let mut new = Vec::new();
        for (target, known) in wanted {
            if !table.targets.contains_key(&target) {
                let target = Arc::new(target);
                let state = known.unwrap_or(HealthState::Unknown);
                table.targets.insert(target.clone(), WatchedTarget::new(state));
                new.push(target);
            }
        }
        new
    }

    /// Returns the targets that are known, for the first schedule.
    pub(crate) fn targets(&self) -> Vec<Arc<TargetKey>> {
        self.table().targets.keys().cloned().collect()
    }

    /// Returns whether a pool still has a target.
    pub(crate) fn has(&self, target: &TargetKey) -> bool {
        self.table().targets.contains_key(target)
    }

    /// Records the result of a probe that ended at `now_ms` on the monotonic clock and took
    /// `took_ms`.
    pub(crate) fn take(
        &self,
        target: &TargetKey,
        result: ProbeResult,
        (now_ms, took_ms): (u64, u64),
    ) {
        let mut table = self.table();
        let Some(watched) = table.targets.get_mut(target) else { return };
        let verdict = match result {
            ProbeResult::Success(_) => Some(ProbeVerdict::Success),
            ProbeResult::Failure(_) => Some(ProbeVerdict::Failure),
            ProbeResult::NotRun(_) => None,
        };
        let status = &mut watched.status;
        let kind = match verdict {
            Some(ProbeVerdict::Success) => 0,
            Some(ProbeVerdict::Failure) => 1,
            None => 2,
        };
        status.probes[kind] += 1;
        let thresholds = &target.probe.thresholds;
        let change = verdict.and_then(|one| watched.health.take(one, now_ms, thresholds));
        let is_first_not_run = verdict.is_none()
            && !matches!(
                status.past.front(),
                Some(PastProbe { result: ProbeResult::NotRun(_), .. })
            );
        if let Some(change) = change {
            status.state = change.to;
            status.since_secs = Some(wall_secs());
            status.changes += u64::from(change.from != HealthState::Unknown);
            log_change(target, change.to, &result);
        }
        status.past.truncate(MAX_PAST - 1);
        status.past.push_front(PastProbe { at_secs: wall_secs(), took_ms, result });
        table.is_changed |= change.is_some() || is_first_not_run;
    }

    /// Publishes the health of all pools, if it has changed. Returns whether it has changed.
    pub(crate) fn publish_changes(&self) -> bool {
        let mut table = self.table();
        if !std::mem::take(&mut table.is_changed) {
            return false;
        }
        for pool in &table.pools {
            pool.publish(table.masks(pool));
        }
        true
    }

    /// Returns the problems of the pools; `None` if there are none.
    pub(crate) fn fault(&self) -> Option<String> {
        let table = self.table();
        let hidden = table.hidden.iter().map(|name| hidden_text(name));
        let faults: Vec<_> = hidden.chain(table.fault_of_probes()).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// Changes the setting of an operator for one address of a pool, or for all. Returns whether
    /// there is such an address.
    pub(crate) fn control(
        &self,
        pool: &[u8],
        address: Option<IpAddr>,
        control: MemberControl,
    ) -> bool {
        let mut table = self.table();
        let Some(pool) = table.pools.iter().find(|one| *one.config.name == *pool).cloned() else {
            return false;
        };
        let members = pool.config.rule.members.iter().map(|member| member.address);
        let chosen: Vec<_> =
            members.filter(|one| address.is_none_or(|address| address == *one)).collect();
        for address in &chosen {
            let key = (pool.config.name.clone(), *address);
            match control {
                MemberControl::Auto => drop(table.controls.remove(&key)),
                control => drop(table.controls.insert(key, control)),
            }
        }
        // Workers must see the setting before the reply to the command is sent.
        pool.publish(table.masks(&pool));
        table.is_changed = true;
        !chosen.is_empty()
    }

    /// Returns the pools by name.
    pub(crate) fn pools(&self) -> Vec<Arc<LivePool>> {
        self.table().pools.clone()
    }

    /// Returns the state of an address of a pool.
    pub(crate) fn status(&self, pool: &PoolConfig, position: usize) -> Option<WatchedMember> {
        let table = self.table();
        let target = TargetKey::of(pool, position)?;
        let status = table.targets.get(&target)?.status.clone();
        let address = pool.rule.members.get(position)?.address;
        let control = table.controls.get(&(pool.name.clone(), address)).copied();
        Some(WatchedMember { target, status, control: control.unwrap_or_default() })
    }

    /// Returns the state to save for a restart.
    pub(crate) fn to_save(&self) -> SavedState {
        let table = self.table();
        let mut states = BTreeMap::new();
        for pool in &table.pools {
            for (position, member) in pool.config.rule.members.iter().enumerate() {
                if let Some(watched) = TargetKey::of(&pool.config, position)
                    .and_then(|target| table.targets.get(&target))
                {
                    let key = (pool.config.name.clone(), member.address);
                    states.insert(key, watched.health.state());
                }
            }
        }
        SavedState { states, controls: table.controls.clone() }
    }

    fn table(&self) -> MutexGuard<'_, PoolTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WatchedTarget {
    fn new(state: HealthState) -> Self {
        let status = TargetStatus {
            state,
            since_secs: None,
            past: VecDeque::new(),
            changes: 0,
            probes: [0; 3],
        };
        Self { health: TargetHealth::of(state), status }
    }
}

impl PoolTable {
    fn masks(&self, pool: &LivePool) -> PoolMasks {
        let config = &pool.config;
        PoolMasks::of(config.rule.members.iter().enumerate().map(|(position, member)| {
            let target = TargetKey::of(config, position);
            let watched = target.and_then(|target| self.targets.get(&target));
            let state = watched.map_or(HealthState::Unknown, |one| one.health.state());
            let control = self.controls.get(&(config.name.clone(), member.address)).copied();
            (state, control.unwrap_or_default())
        }))
    }

    /// Notes which pools have no effect, and logs those that had one before.
    fn note_hidden(&mut self, names: &Names) {
        let is_hidden =
            |name: &[u8]| names.zones.leads_elsewhere(FoldedName::from_folded_unchecked(name));
        let all = self.pools.iter().map(|pool| pool.config.name.clone());
        let hidden: BTreeSet<_> = all.filter(|name| is_hidden(name)).collect();
        for name in hidden.difference(&self.hidden) {
            tracing::warn!("{}", hidden_text(name));
        }
        self.hidden = hidden;
    }

    /// Returns the problems with the health of the pools; `None` if there are none.
    fn fault_of_probes(&self) -> Option<String> {
        let not_run =
            self.targets.iter().find_map(|(target, watched)| match watched.status.past.front() {
                Some(PastProbe { result: ProbeResult::NotRun(reason), .. }) => {
                    let kind = target.probe.kind.name();
                    Some(format!("{} cannot be probed by {kind}: {reason}", target.address))
                }
                _ => None,
            });
        if not_run.is_some() {
            return not_run;
        }
        let is_down = |watched: &WatchedTarget| watched.health.state() == HealthState::Down;
        let count = self.targets.len();
        if count > 1 && self.targets.values().all(is_down) {
            return Some(format!(
                "all {count} targets of pools fail at once: is the network of this server down? \
                 when-all-down decides about the answers"
            ));
        }
        let answering = self.pools.iter().filter(|pool| !self.hidden.contains(&pool.config.name));
        let faults: Vec<_> = answering.filter_map(|pool| self.fault_of(pool)).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    /// Returns the problem of a pool; `None` if there is none.
    fn fault_of(&self, pool: &LivePool) -> Option<String> {
        let (rule, masks) = (&pool.config.rule, self.masks(pool));
        let usable = masks.healthy | masks.drained;
        let families = [AddressFamily::V4, AddressFamily::V6].map(|one| rule.positions_of(one));
        let is_down = families.into_iter().any(|of| of != 0 && usable & of == 0);
        let given = match rule.when_all_down {
            WhenAllDown::All => "answers contain all",
            WhenAllDown::None => "answers contain none",
            WhenAllDown::Fallback => "answers contain those of `fallback`",
        };
        let name = shown(&pool.config.name);
        is_down.then(|| format!("the pool {name} has no healthy address: {given}"))
    }
}

fn log_change(target: &TargetKey, to: HealthState, result: &ProbeResult) {
    let (at, kind, reason) = (target.shown(), target.probe.kind.name(), result.reason());
    match to {
        HealthState::Down => tracing::warn!(probe = kind, "{at} is down: {reason}"),
        _ => tracing::info!(probe = kind, "{at} is up: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn settings_are_saved_again_and_a_damaged_file_is_kept() {
        let name = format!("avocet-pool-state-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let (file, away) = (directory.join("pools.json"), directory.join("away"));
        fs::create_dir_all(&directory).unwrap();
        let member = r#"{"pool":"www.example.","address":"192.0.2.1","control":"down"}"#;
        fs::write(&file, format!(r#"{{"saved_at":7,"addresses":[{member}]}}"#)).unwrap();
        let watch = PoolWatch::default();
        watch.table().controls = pool_state::load(&directory, 7).controls;
        pool_state::save(&away, &watch);
        let fault = watch.save_again(&away).unwrap();
        assert!(fault.contains("cannot save") && fault.contains("away"), "{fault}");
        fs::create_dir_all(&away).unwrap();
        assert_eq!(watch.save_again(&away), None);
        let saved = pool_state::load(&away, 7).controls;
        assert_eq!(saved.into_values().collect::<Vec<_>>(), [MemberControl::Down]);

        // A damaged setting costs no other one.
        let other = member.replace("down", "dowm").replace("2.1", "2.2");
        fs::write(&file, format!(r#"{{"saved_at":7,"addresses":[{other},{member}]}}"#)).unwrap();
        let saved = pool_state::load(&directory, 7).controls;
        assert_eq!(saved.into_values().collect::<Vec<_>>(), [MemberControl::Down]);
        for damaged in ["no JSON", ""] {
            fs::write(&file, damaged).unwrap();
            assert!(pool_state::load(&directory, 7).controls.is_empty() && !file.exists());
            assert_eq!(fs::read_to_string(file.with_extension("damaged")).unwrap(), damaged);
        }
        fs::remove_dir_all(&directory).unwrap();
    }
}
