//! Pauses and grants: what lifts filtering for a while, kept in `switches.json` of the data directory.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use avocet_policy::rule::{Grant, Pause, Scope, Switches};
use serde_json::{Value, json};

use super::Running;
use crate::clock::wall_secs;
use crate::config::policy::PolicyConfig;

const NAME: &str = "switches.json";

/// The pauses and grants that were in force when the last server ended, without those that have ended since. A damaged
/// file is put aside, and a line says so: filtering is in force then.
pub(crate) fn load(directory: &Path) -> Switches {
    let path = directory.join(NAME);
    let mut switches: Switches = match fs::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Switches::default(),
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "cannot read pauses and grants; there are none");
            Switches::default()
        }
        Ok(octets) => serde_json::from_slice(&octets).unwrap_or_else(|error| {
            let aside = path.with_extension("damaged");
            tracing::error!(path = %path.display(), %error, aside = %aside.display(), "pauses and grants are damaged; there are none");
            let _ = fs::rename(&path, &aside);
            Switches::default()
        }),
    };
    switches.expire(wall_secs());
    switches
}

/// Writes beside the file, to the disk, and renames: there is always a whole one.
fn save(directory: &Path, switches: &Switches) -> io::Result<()> {
    let path: PathBuf = directory.join(NAME);
    let beside = path.with_extension("tmp");
    let mut file = fs::File::create(&beside)?;
    file.write_all(json!(switches).to_string().as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, &path)
}

/// What a control client wants changed.
pub(super) enum Change {
    /// Begin a pause.
    Pause(Pause),
    /// End a pause.
    Resume(Scope),
    /// Begin a grant.
    Grant(Grant),
    /// End a grant.
    Revoke(String, Scope),
}

/// Makes a change that lasts over a restart and acts on the next query, and gives the answer to the client.
pub(super) fn change(running: &Running, change: Change) -> Value {
    let state = running.shared.snapshot();
    let mut switches = state.parts.switches.clone();
    switches.expire(wall_secs());
    let applied = match change {
        Change::Pause(pause) => known(&state.config.policy, &pause.scope).and_then(|()| switches.pause(pause)),
        Change::Grant(grant) => known(&state.config.policy, &grant.scope).and_then(|()| switches.grant(grant)),
        Change::Resume(scope) => found(switches.resume(&scope), "there is no such pause"),
        Change::Revoke(name, scope) => found(switches.revoke(&name, &scope), "there is no such grant"),
    };
    if let Err(error) = applied {
        return json!({ "error": error });
    }
    if let Err(error) = save(&state.config.data.directory, &switches) {
        return json!({ "error": format!("cannot write {NAME}, nothing has changed: {error}") });
    }
    let put_in_force = switches.clone();
    match running.reloader.change_policy(move |parts| parts.switches = put_in_force) {
        Ok(()) => show(&switches),
        Err(error) => json!({ "error": error }),
    }
}

/// All that is in force, and how often it held.
pub(super) fn status(running: &Running) -> Value {
    let mut switches = running.shared.snapshot().parts.switches.clone();
    switches.expire(wall_secs());
    let mut answer = show(&switches);
    let state = running.shared.snapshot();
    let Some(policy) = &state.policy else { return answer };
    let rules = policy.rule_counts().map(|(rule, held)| {
        json!({ "name": rule.name, "action": rule.action.word(), "log-only": rule.log_only, "held": held })
    });
    let lists = state.config.policy.lists.iter().enumerate();
    let lists = lists.map(|(place, list)| json!({ "name": list.name, "answers": policy.list_count(place) }));
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

fn found(is_there: bool, message: &str) -> Result<(), String> {
    if is_there { Ok(()) } else { Err(message.to_owned()) }
}

fn known(policy: &PolicyConfig, scope: &Scope) -> Result<(), String> {
    if policy.is_empty() {
        return Err("nothing is filtered: there are no lists and no rules".to_owned());
    }
    match scope {
        Scope::All => Ok(()),
        Scope::Group(name) => {
            let is_there = policy.vocabulary().groups.contains(name);
            found(is_there, &format!("there is no group {name:?}"))
        }
        Scope::Client(name) => {
            let is_there = policy.clients.iter().any(|client| client.name == *name);
            found(is_there, &format!("there is no client {name:?}; write a [[client]]"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_come_back_without_those_that_ended() {
        let directory = std::env::temp_dir().join(format!("avocet-switches-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let pause = |scope, until| Pause { scope, until };
        let group = Scope::Group("kids".to_owned());
        let switches =
            Switches { pauses: vec![pause(Scope::All, 1), pause(group.clone(), u64::MAX)], grants: Vec::new() };
        save(&directory, &switches).unwrap();
        assert_eq!(load(&directory).pauses, [pause(group, u64::MAX)]);
        fs::write(directory.join(NAME), b"{\"pauses\": [").unwrap();
        assert_eq!(load(&directory), Switches::default());
        assert!(directory.join("switches.damaged").exists() && !directory.join(NAME).exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
