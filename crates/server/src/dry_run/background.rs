//! The dry run for a client of the running server, on a thread of its own.
//!
//! The thread has a low share of the cores and changes no worker and no state in force. It ends
//! after some seconds with the results so far. The lists in force are used from memory. Other lists
//! are compiled from their files and copies, within the limits of lists, so a dry run takes at most
//! the memory of a reload of lists. Only one dry run is in progress at a time.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use avocet_config::Config;
use avocet_config::policy::{ListSource, PolicyConfig};
use avocet_control::ControlError;
use avocet_control::dry_run::{DryRunChanges, DryRunClient, DryRunFound, DryRunLimit, DryRunName};
use avocet_control::log_fault::LogFault;
use avocet_io::process::Thread;
use avocet_nameserver::StateError;
use avocet_nameserver::policy::load::from_texts;
use avocet_nameserver::policy::{GeoDatabase, Lists, Parts, Policy};
use avocet_nameserver::snapshot::Snapshot;
use avocet_querylog::{Filter, LogReader};

use super::logged::{LoggedQueries, judge_log};
use super::report::{ChangedName, Changes, DryRunReport};
use super::side::{Side, Sides};
use crate::lists::open_text;
use crate::query_log::stored::damaged;
use crate::running::Running;

/// Maximum wait for the end of another dry run.
const TURN_PATIENCE: Duration = Duration::from_secs(2);
/// Time after which the scan of the log ends with incomplete results.
const SCAN_TIME: Duration = Duration::from_secs(30);
/// Maximum number of logged queries of a dry run.
const MAX_ENTRIES: u64 = 20_000_000;
/// Number of groups of equal queries between two checks of the clock.
const GROUPS_A_LOOK: u64 = 64;

/// A dry run to do.
pub(crate) struct Proposal {
    /// The proposed configuration.
    pub(crate) config: Config,
    /// The revision that the proposed configuration is compared with.
    pub(crate) revision: Option<u32>,
    /// The directory of the query log.
    pub(crate) directory: PathBuf,
    /// The logged queries.
    pub(crate) filter: Filter,
    /// Maximum number of names and clients of each kind of change in the reply.
    pub(crate) shown: usize,
}

/// Begins a dry run. The receiver gets its result, or is disconnected by a panic.
///
/// # Errors
/// Another dry run is in progress, or the system cannot start a thread.
pub(crate) fn begin(
    running: &Running,
    proposal: Proposal,
) -> Result<Receiver<Result<DryRunFound, ControlError>>, ControlError> {
    let turn = running.query_log.dry_runs.take(TURN_PATIENCE);
    let turn = turn.ok_or(ControlError::Log(LogFault::Busy))?;
    let state = running.shared.snapshot();
    let (sender, found) = channel();
    let work = move || {
        let _turn = turn;
        // If this fails, the dry run competes with the workers for its few seconds.
        let _ = Thread::current().lower_share();
        // The client may have disconnected.
        let _ = sender.send(proposal.judge(&state));
    };
    let spawned = thread::Builder::new().name("dry-run".to_owned()).spawn(work);
    spawned.map_err(|error| ControlError::QueryLog(error.to_string()))?;
    Ok(found)
}

impl Proposal {
    fn judge(self, state: &Arc<Snapshot>) -> Result<DryRunFound, ControlError> {
        let refused = |error: StateError| ControlError::PolicyRefused(error.to_string());
        let failed = |error: &dyn std::fmt::Display| ControlError::QueryLog(error.to_string());
        let present = parts(state, state.parts.lists.clone(), state.parts.countries.clone());
        let now = side(state.config.clone(), &present).map_err(refused)?;
        let (lists, lists_without_copy) = lists(&self.config, state).map_err(refused)?;
        let countries = countries(&self.config.policy, state).map_err(refused)?;
        let proposed = parts(state, lists, countries);
        let then = side(Arc::new(self.config), &proposed).map_err(refused)?;
        let mut sides = Sides { now, then };
        let reader = LogReader::open(self.directory).map_err(|error| failed(&error))?;
        let log = LoggedQueries { reader: &reader, filter: &self.filter };
        let (mut report, mut limits) = (DryRunReport::default(), ScanLimits::begin());
        let scanned = judge_log(&log, &mut report, &mut sides, |entries| limits.check(entries));
        Ok(DryRunFound {
            revision: self.revision,
            examined: scanned.entries,
            cut: limits.reached.filter(|_| scanned.is_cut),
            judged: report.queries,
            left_out: report.left_out,
            without_answer: report.without_answer,
            rules_on_answers: sides.rules_on_answers(),
            newly_blocked: shown(report.newly_blocked, self.shown),
            newly_answered: shown(report.freed, self.shown),
            otherwise_changed: shown(report.otherwise_changed, self.shown),
            lists_without_copy,
            damaged: damaged(scanned.broken),
        })
    }
}

/// The limits of a scan, and the limit that ended it.
struct ScanLimits {
    end: Instant,
    looks: u64,
    reached: Option<DryRunLimit>,
}

impl ScanLimits {
    fn begin() -> Self {
        Self { end: Instant::now() + SCAN_TIME, looks: 0, reached: None }
    }

    fn check(&mut self, entries: u64) -> ControlFlow<()> {
        self.looks += 1;
        if entries >= MAX_ENTRIES {
            self.reached = Some(DryRunLimit::Entries);
        } else if self.looks.is_multiple_of(GROUPS_A_LOOK) && Instant::now() >= self.end {
            self.reached = Some(DryRunLimit::Time);
        }
        match self.reached {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}

/// Returns the inputs of a policy without pauses and grants, and with counts of its own.
fn parts(
    state: &Snapshot,
    lists: Option<Arc<Lists>>,
    countries: Option<Arc<GeoDatabase>>,
) -> Parts {
    let neighbours = state.parts.neighbours.clone();
    Parts { lists, neighbours, countries, ..Parts::new([0; 32]) }
}

fn side(config: Arc<Config>, parts: &Parts) -> Result<Side, StateError> {
    let policy = Policy::build(&config.policy, &config.server.entrances(), parts, None)?;
    Ok(Side::new(config, policy.map(Arc::new)))
}

/// Returns the lists of a configuration, and the names of the lists without a text.
fn lists(
    config: &Config,
    state: &Snapshot,
) -> Result<(Option<Arc<Lists>>, Vec<String>), StateError> {
    let sources = |config: &Config| -> Vec<ListSource> {
        config.policy.lists.iter().map(|list| list.source.clone()).collect()
    };
    let has_same_sources = sources(config) == sources(&state.config);
    let in_force = state.parts.lists.as_ref().filter(|_| has_same_sources);
    if let Some(lists) = in_force.filter(|lists| lists.belong_to(&config.policy)) {
        let absent = lists.making().lists.iter().filter(|list| list.stamp.is_none());
        return Ok((Some(lists.clone()), absent.map(|list| list.name.clone()).collect()));
    }
    let mut secret = [0; 32];
    // If this fails, the compiled lists of the dry run have a constant hash key.
    let _ = getrandom::fill(&mut secret);
    let mut absent = Vec::new();
    let lists = from_texts(&config.policy, secret, |list| {
        let text = open_text(&state.config.data.directory, list)?;
        if text.is_none() {
            absent.push(list.name.clone());
        }
        Ok(text)
    })?;
    Ok((lists.map(Arc::new), absent))
}

fn countries(
    policy: &PolicyConfig,
    state: &Snapshot,
) -> Result<Option<Arc<GeoDatabase>>, StateError> {
    let Some(path) = policy.geo_database.as_deref() else { return Ok(None) };
    match state.parts.countries.as_ref().filter(|database| database.path() == path) {
        Some(in_force) => Ok(Some(in_force.clone())),
        None => Ok(Some(Arc::new(GeoDatabase::read(path)?))),
    }
}

/// Returns the changes in the form of the reply, with the names and clients that have the highest
/// numbers of queries.
fn shown(changes: Changes, most: usize) -> DryRunChanges {
    let Changes { queries, names, clients, unlisted } = changes;
    let (name_count, client_count) = (names.len() as u64, clients.len() as u64);
    let name = |(ChangedName { name, why }, queries)| DryRunName { name, why, queries };
    let client = |(client, queries)| DryRunClient { client, queries };
    DryRunChanges {
        queries,
        name_count,
        client_count,
        unlisted,
        names: top(names, most).into_iter().map(name).collect(),
        clients: top(clients, most).into_iter().map(client).collect(),
    }
}

/// Returns the keys with the highest counts, the highest first.
fn top<K: Ord>(counts: BTreeMap<K, u64>, most: usize) -> Vec<(K, u64)> {
    let mut counts: Vec<(K, u64)> = counts.into_iter().collect();
    counts.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    counts.truncate(most);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_ends_at_the_limit_of_entries_or_of_time() {
        let mut limits = ScanLimits::begin();
        assert!(limits.check(MAX_ENTRIES - 1).is_continue());
        assert!(limits.check(MAX_ENTRIES).is_break());
        assert_eq!(limits.reached, Some(DryRunLimit::Entries));
        let mut limits = ScanLimits { end: Instant::now(), ..ScanLimits::begin() };
        let looks = (0..).take_while(|_| limits.check(0).is_continue()).count() as u64;
        assert_eq!((looks, limits.reached), (GROUPS_A_LOOK - 1, Some(DryRunLimit::Time)));
    }

    #[test]
    fn the_names_with_most_queries_are_shown() {
        let name = |name: &str| ChangedName { name: name.to_owned(), why: "list a".to_owned() };
        let mut changes = Changes { queries: 12, unlisted: 1, ..Changes::default() };
        changes.names = BTreeMap::from([(name("a."), 1), (name("b."), 5), (name("c."), 5)]);
        changes.clients = BTreeMap::from([("x".to_owned(), 12)]);
        let shown = shown(changes, 2);
        let names: Vec<_> = shown.names.iter().map(|one| (&*one.name, one.queries)).collect();
        assert_eq!(names, [("b.", 5), ("c.", 5)]);
        assert_eq!((shown.queries, shown.name_count, shown.unlisted), (12, 3, 1));
        assert_eq!(shown.clients[0].client, "x");
    }
}
