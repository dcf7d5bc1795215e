//! Pauses and grants, which suspend filtering for a while: saved in `switches.json` of the data
//! directory. If the clock is set back, even while no server runs, they end earlier, so that none
//! of them becomes longer.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use avocet_config::policy::PolicyConfig;
use avocet_control::ControlError;
use avocet_control::policy::{
    GrantInForce, ListCount, PauseInForce, PolicyCounts, PolicyStatus, RuleCount, SwitchesChanged,
    SwitchesInForce,
};
use avocet_io::ownership;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::disk::replace;
use avocet_policy::rule::{Grant, Pause, Scope, Switches};

use crate::running::Running;
use crate::switches_file::{NAME, SavedSwitches};

/// Loads the saved pauses and grants at a wall time, without those that have ended. If they were
/// saved later than that, the clock was set back meanwhile, and they end earlier. A damaged file is
/// renamed, which the log reports: filtering is then in force.
pub(crate) fn load(directory: &Path, now_secs: u64) -> Switches {
    let SavedSwitches { pauses, grants, saved_at_secs, .. } = read(&directory.join(NAME));
    let mut switches = Switches { pauses, grants };
    let back_secs = saved_at_secs.saturating_sub(now_secs);
    switches.end_earlier(back_secs);
    // Without saving, each further start with an earlier clock would give pauses and grants the
    // same time again.
    let is_changed = back_secs > 0 || switches.have_ended(now_secs);
    switches.expire(now_secs);
    if is_changed && let Err(error) = save(directory, &switches, now_secs) {
        tracing::warn!(%error, "cannot save the ends of pauses and grants");
    }
    switches
}

fn read(path: &Path) -> SavedSwitches {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => SavedSwitches::default(),
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "cannot read pauses and grants; \
                                                             starting without");
            SavedSwitches::default()
        }
        Ok(octets) => SavedSwitches::read(&octets).unwrap_or_else(|error| {
            let aside = path.with_extension("damaged");
            tracing::error!(path = %path.display(), %error, aside = %aside.display(), "pauses and \
                                                                                       grants are \
                                                                                       damaged; \
                                                                                       starting \
                                                                                       without");
            let _ = ownership::write().and_then(|_permit| fs::rename(path, &aside));
            SavedSwitches::default()
        }),
    }
}

/// Replaces the file atomically, at a wall time.
fn save(directory: &Path, switches: &Switches, now_secs: u64) -> io::Result<()> {
    replace(&directory.join(NAME), &[&SavedSwitches::octets(switches, now_secs)?])
}

/// The seconds after which pauses and grants in force are saved again, with the time. If the next
/// start is at an earlier wall time, they get that many seconds again at most.
const SAVE_SECS: u64 = 60;

/// The reason why the file does not have the pauses and grants in force, if it does not, and the
/// wall time of the last attempt to save it.
#[derive(Default)]
pub(crate) struct Unsaved(Mutex<Option<String>>, AtomicU64);

impl Unsaved {
    /// Saves pauses and grants. Records and returns the reason if this fails.
    fn save(&self, directory: &Path, switches: &Switches) -> Option<String> {
        let now_secs = wall_secs();
        self.1.store(now_secs, Ordering::Relaxed);
        let saved = save(directory, switches, now_secs);
        let why = saved
            .err()
            .map(|error| format!("cannot save {}: {error}", directory.join(NAME).display()));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&why);
        why
    }

    fn why(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether the file must have a later time.
    fn is_old(&self, now_secs: u64) -> bool {
        now_secs.abs_diff(self.1.load(Ordering::Relaxed)) >= SAVE_SECS
    }
}

/// Tries again to save a change that could not be written to disk.
pub(crate) fn save_again(running: &Running) -> Option<String> {
    running.unsaved_switches.why()?;
    running.reloader.read_parts(|config, parts| {
        let mut switches = parts.switches.clone();
        switches.expire(wall_secs());
        running.unsaved_switches.save(&config.data.directory, &switches)
    })
}

/// Removes the pauses and grants that have ended, also from the file: a start with an earlier clock
/// would put them in force again. For the same reason, saves those in force again after a while.
pub(crate) fn expire(running: &Running) {
    let (state, now_secs) = (running.shared.snapshot(), wall_secs());
    let switches = &state.parts.switches;
    if switches.have_ended(now_secs) {
        // The clock was not set back: the ends stay where they are.
        end_earlier(running, 0);
    } else if *switches != Switches::default() && running.unsaved_switches.is_old(now_secs) {
        running.reloader.read_parts(|config, parts| {
            running.unsaved_switches.save(&config.data.directory, &parts.switches)
        });
    }
}

/// Moves the ends of pauses and grants to an earlier wall time, because the clock was set back.
pub(crate) fn end_earlier(running: &Running, back_secs: u64) {
    let ended = running.reloader.try_change_policy(|config, parts| {
        parts.switches.end_earlier(back_secs);
        parts.switches.expire(wall_secs());
        running.unsaved_switches.save(&config.data.directory, &parts.switches);
        Ok(())
    });
    if let Err(error) = ended {
        tracing::error!(%error, "pauses and grants end late");
    }
}

/// A change by a control client.
pub(crate) enum Change {
    /// Begin a pause.
    Pause(Pause),
    /// End the pauses of these scopes.
    Resume(Vec<Scope>),
    /// Begin a grant.
    Grant(Grant),
    /// End the grants of a name in these scopes.
    Revoke(String, Vec<Scope>),
}

/// Makes a change that survives a restart and applies to the next query. If the change cannot be
/// written to disk, it is made nevertheless, because a client that ends a pause needs protection at
/// once.
///
/// # Errors
/// The change is not possible. The state then remains unchanged.
pub(crate) fn change(running: &Running, change: Change) -> Result<SwitchesChanged, ControlError> {
    let (switches, unsaved) = running.reloader.try_change_policy(|config, parts| {
        let mut switches = parts.switches.clone();
        switches.expire(wall_secs());
        apply(change, &config.policy, &mut switches)?;
        let unsaved = running.unsaved_switches.save(&config.data.directory, &switches);
        parts.switches = switches.clone();
        Ok((switches, unsaved))
    })?;
    Ok(SwitchesChanged { switches: in_force(switches), unsaved })
}

fn apply(
    change: Change,
    policy: &PolicyConfig,
    switches: &mut Switches,
) -> Result<(), ControlError> {
    match change {
        Change::Pause(pause) => {
            check_scope(policy, &pause.scope)?;
            switches.pause(pause).map_err(ControlError::SwitchRefused)
        }
        Change::Grant(grant) => {
            check_scope(policy, &grant.scope)?;
            switches.grant(grant).map_err(ControlError::SwitchRefused)
        }
        Change::Resume(scopes) => {
            match scopes.iter().filter(|scope| switches.resume(scope)).count() {
                0 => Err(ControlError::NoSuchPause),
                _ => Ok(()),
            }
        }
        Change::Revoke(name, scopes) => {
            match scopes.iter().filter(|scope| switches.revoke(&name, scope)).count() {
                0 => Err(ControlError::NoSuchGrant),
                _ => Ok(()),
            }
        }
    }
}

/// Returns all pauses and grants in force, with the number of matches.
pub(crate) fn status(running: &Running) -> PolicyStatus {
    let state = running.shared.snapshot();
    let mut switches = state.parts.switches.clone();
    switches.expire(wall_secs());
    let counts = state.policy.as_ref().map(|policy| {
        let rules = policy.rule_counts().map(|(rule, held)| RuleCount {
            name: rule.name.to_string(),
            action: (&rule.action).into(),
            log_only: rule.log_only,
            held,
        });
        let lists = state.config.policy.lists.iter().enumerate();
        let lists = lists.map(|(place, list)| ListCount {
            name: list.name.clone(),
            answers: policy.list_count(place),
        });
        PolicyCounts {
            rules: rules.collect(),
            lists: lists.collect(),
            geo_database: running.reloader.geo.status(&state),
        }
    });
    PolicyStatus { switches: in_force(switches), counts }
}

fn in_force(switches: Switches) -> SwitchesInForce {
    let now = wall_secs();
    let left = |until: u64| until.saturating_sub(now);
    let pauses = switches.pauses.into_iter().map(|Pause { scope, until }| PauseInForce {
        scope,
        until,
        left_secs: left(until),
    });
    let grants = switches.grants.into_iter().map(|Grant { name, scope, until }| GrantInForce {
        name,
        scope,
        until,
        left_secs: left(until),
    });
    SwitchesInForce { pauses: pauses.collect(), grants: grants.collect() }
}

fn check_scope(policy: &PolicyConfig, scope: &Scope) -> Result<(), ControlError> {
    if policy.is_empty() {
        return Err(ControlError::NothingFiltered);
    }
    match scope {
        Scope::Group(name) if !policy.vocabulary().groups.contains(name) => {
            Err(ControlError::UnknownGroup(name.clone()))
        }
        Scope::Client(name) if !policy.clients.iter().any(|client| client.name == *name) => {
            Err(ControlError::UnknownClientInScope(name.clone()))
        }
        Scope::All | Scope::Address(_) | Scope::Group(_) | Scope::Client(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_in_force_are_saved_again_after_a_while() {
        let directory =
            std::env::temp_dir().join(format!("avocet-switches-again-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let now_secs = wall_secs();
        let pause = Pause { scope: Scope::All, until: now_secs + 3_600 };
        let switches = Switches { pauses: vec![pause], grants: Vec::new() };
        let unsaved = Unsaved::default();
        // The server has just started.
        assert!(unsaved.is_old(now_secs));
        assert_eq!(unsaved.save(&directory, &switches), None);
        assert!(!unsaved.is_old(now_secs) && unsaved.is_old(now_secs + 3 * SAVE_SECS));
        // A start with an earlier clock leaves the time that was left when they were saved.
        let left = load(&directory, now_secs - 10_000).pauses[0].until - (now_secs - 10_000);
        assert!((3_590..=3_600).contains(&left), "{left}");
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn no_changed_bit_makes_a_pause_longer() {
        let name = format!("avocet-switches-bits-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let (scope, until) = (Scope::Group("kids".to_owned()), 1_800_007_200);
        let switches = Switches { pauses: vec![Pause { scope, until }], grants: Vec::new() };
        save(&directory, &switches, 1_800_000_000).unwrap();
        let whole = fs::read(directory.join(NAME)).unwrap();
        for at in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            fs::write(directory.join(NAME), damaged).unwrap();
            let read = load(&directory, 1_800_000_000);
            assert!(read == switches || read == Switches::default(), "{at}: {read:?}");
        }
        // A file of an earlier version has no checksum.
        let text = String::from_utf8(whole).unwrap();
        let old = text.split_once(",\"sum\":").unwrap().0.to_owned() + "}";
        fs::write(directory.join(NAME), old).unwrap();
        assert_eq!(load(&directory, 1_800_000_000), switches);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn switches_come_back_without_those_that_ended() {
        let directory =
            std::env::temp_dir().join(format!("avocet-switches-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let pause = |scope, until| Pause { scope, until };
        let group = Scope::Group("kids".to_owned());
        let switches = Switches {
            pauses: vec![pause(Scope::All, 1), pause(group.clone(), u64::MAX)],
            grants: Vec::new(),
        };
        save(&directory, &switches, 5).unwrap();
        assert_eq!(load(&directory, 5).pauses, [pause(group, u64::MAX)]);
        fs::write(directory.join(NAME), b"{\"pauses\": [").unwrap();
        assert_eq!(load(&directory, 5), Switches::default());
        assert!(directory.join("switches.damaged").exists() && !directory.join(NAME).exists());
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_has_ended_does_not_begin_again_at_a_start_with_an_earlier_clock() {
        let directory =
            std::env::temp_dir().join(format!("avocet-switches-ended-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let pause = |until| Pause { scope: Scope::All, until };
        let switches = Switches { pauses: vec![pause(900_020)], ..Switches::default() };
        save(&directory, &switches, 900_000).unwrap();
        assert_eq!(load(&directory, 900_030).pauses, []);
        assert_eq!(load(&directory, 1_000).pauses, []);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_start_with_an_earlier_clock_makes_none_longer() {
        let directory =
            std::env::temp_dir().join(format!("avocet-switches-clock-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let grant = |until| Grant { name: "a.example".to_owned(), scope: Scope::All, until };
        let switches = Switches { grants: vec![grant(900_600)], ..Switches::default() };
        save(&directory, &switches, 900_000).unwrap();
        assert_eq!(load(&directory, 900_100).grants, [grant(900_600)]);
        // The clock is set back by days while no server runs.
        assert_eq!(load(&directory, 1_000).grants, [grant(1_600)]);
        assert_eq!(load(&directory, 1_500).grants, [grant(1_600)], "time passes between starts");
        assert_eq!(load(&directory, 1_600).grants, []);
        // A file of an earlier version has no time.
        fs::write(directory.join(NAME), serde_json::to_vec(&switches).unwrap()).unwrap();
        assert_eq!(load(&directory, 1_000).grants, [grant(900_600)]);
        let octets = fs::read(directory.join(NAME)).unwrap();
        crate::switches_file::check(&octets).unwrap();
        fs::remove_dir_all(&directory).unwrap();
    }
}
