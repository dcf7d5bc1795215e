//! Pauses and grants: what lifts filtering for a while, kept in `switches.json` of the data
//! directory.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::{fs, io};

use avocet_config::policy::PolicyConfig;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::disk::replace;
use avocet_policy::rule::{Grant, Pause, Scope, Switches};
use serde_json::{Value, json};

use crate::running::Running;

const NAME: &str = "switches.json";

/// The pauses and grants that were in force when the last server ended, without those that have
/// ended since. A damaged file is put aside, and a line says so: filtering is in force then.
pub(crate) fn load(directory: &Path) -> Switches {
    let path = directory.join(NAME);
    let mut switches: Switches = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Switches::default(),
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "cannot read pauses and grants; \
                                                             starting without");
            Switches::default()
        }
        Ok(octets) => serde_json::from_slice(&octets).unwrap_or_else(|error| {
            let aside = path.with_extension("damaged");
            tracing::error!(path = %path.display(), %error, aside = %aside.display(), "pauses and \
                                                                                       grants are \
                                                                                       damaged; \
                                                                                       starting \
                                                                                       without");
            let _ = fs::rename(&path, &aside);
            Switches::default()
        }),
    };
    switches.expire(wall_secs());
    switches
}

/// Replaces the file: there is always a whole one.
fn save(directory: &Path, switches: &Switches) -> io::Result<()> {
    replace(&directory.join(NAME), &[json!(switches).to_string().as_bytes()])
}

/// Why the file does not have the pauses and grants that are in force, where it has not.
#[derive(Default)]
pub(crate) struct Unsaved(Mutex<Option<String>>);

impl Unsaved {
    /// Saves them, and notes how that went.
    fn save(&self, directory: &Path, switches: &Switches) -> Option<String> {
        let saved = save(directory, switches);
        let why = saved
            .err()
            .map(|error| format!("cannot save {}: {error}", directory.join(NAME).display()));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&why);
        why
    }

    fn why(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Tries again to save what the disk refused. Returns why it still does.
pub(crate) fn save_again(running: &Running) -> Option<String> {
    running.unsaved_switches.why()?;
    running.reloader.read_parts(|config, parts| {
        let mut switches = parts.switches.clone();
        switches.expire(wall_secs());
        running.unsaved_switches.save(&config.data.directory, &switches)
    })
}

/// What a control client wants changed.
pub(crate) enum Change {
    /// Begin a pause.
    Pause(Pause),
    /// End the pauses of these.
    Resume(Vec<Scope>),
    /// Begin a grant.
    Grant(Grant),
    /// End the grants of a name to these.
    Revoke(String, Vec<Scope>),
}

/// Makes a change that lasts over a restart and acts on the next query, and gives the answer to the
/// client. Where the disk refuses it, it is made all the same: who ends a pause wants to be
/// protected now.
pub(crate) fn change(running: &Running, change: Change) -> Value {
    let changed = running.reloader.try_change_policy(|config, parts| {
        let mut switches = parts.switches.clone();
        switches.expire(wall_secs());
        apply(change, &config.policy, &mut switches)?;
        let unsaved = running.unsaved_switches.save(&config.data.directory, &switches);
        parts.switches = switches.clone();
        Ok((switches, unsaved))
    });
    match changed {
        Ok((switches, unsaved)) => {
            let mut answer = show(&switches);
            answer["unsaved"] = unsaved.into();
            answer
        }
        Err(error) => json!({ "error": error }),
    }
}

fn apply(change: Change, policy: &PolicyConfig, switches: &mut Switches) -> Result<(), String> {
    match change {
        Change::Pause(pause) => known(policy, &pause.scope).and_then(|()| switches.pause(pause)),
        Change::Grant(grant) => known(policy, &grant.scope).and_then(|()| switches.grant(grant)),
        Change::Resume(scopes) => {
            let ended = scopes.iter().filter(|scope| switches.resume(scope)).count();
            found(ended, "no such pause")
        }
        Change::Revoke(name, scopes) => {
            let ended = scopes.iter().filter(|scope| switches.revoke(&name, scope)).count();
            found(ended, "no such grant")
        }
    }
}

/// All that is in force, and how often it held.
pub(crate) fn status(running: &Running) -> Value {
    let mut switches = running.shared.snapshot().parts.switches.clone();
    switches.expire(wall_secs());
    let mut answer = show(&switches);
    let state = running.shared.snapshot();
    let Some(policy) = &state.policy else { return answer };
    let rules = policy.rule_counts().map(|(rule, held)| {
        json!({ "name": rule.name, "action": rule.action.word(), "log-only": rule.log_only, "held": held })
    });
    let lists = state.config.policy.lists.iter().enumerate();
    let lists = lists
        .map(|(place, list)| json!({ "name": list.name, "answers": policy.list_count(place) }));
    answer["rules"] = rules.collect();
    answer["lists"] = lists.collect();
    answer["geo-database"] = running.reloader.geo.status(&state);
    answer
}

fn show(switches: &Switches) -> Value {
    let now = wall_secs();
    let left = |until: u64| until.saturating_sub(now);
    let pauses: Vec<Value> = switches
        .pauses
        .iter()
        .map(|pause| json!({ "scope": pause.scope, "until": pause.until, "left-secs": left(pause.until) }))
        .collect();
    let grants: Vec<Value> = switches
        .grants
        .iter()
        .map(|grant| json!({ "name": grant.name, "scope": grant.scope, "until": grant.until, "left-secs": left(grant.until) }))
        .collect();
    json!({ "done": true, "pauses": pauses, "grants": grants })
}

fn found(count: usize, message: &str) -> Result<(), String> {
    if count > 0 { Ok(()) } else { Err(message.to_owned()) }
}

fn known(policy: &PolicyConfig, scope: &Scope) -> Result<(), String> {
    if policy.is_empty() {
        return Err("nothing is filtered: there are no lists and no rules".to_owned());
    }
    match scope {
        Scope::All | Scope::Address(_) => Ok(()),
        Scope::Group(name) => found(
            usize::from(policy.vocabulary().groups.contains(name)),
            &format!("unknown group {name:?}"),
        ),
        Scope::Client(name) => {
            let count = policy.clients.iter().filter(|client| client.name == *name).count();
            found(count, &format!("unknown client {name:?}; add a [[client]], or use its address"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        save(&directory, &switches).unwrap();
        assert_eq!(load(&directory).pauses, [pause(group, u64::MAX)]);
        fs::write(directory.join(NAME), b"{\"pauses\": [").unwrap();
        assert_eq!(load(&directory), Switches::default());
        assert!(directory.join("switches.damaged").exists() && !directory.join(NAME).exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
