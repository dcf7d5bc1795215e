//! Saves the health and the settings of addresses over a restart, in a file of the data directory.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::pool_watch::PoolWatch;
use crate::pools_file::{PoolsFile, SavedMember};
use avocet_config::name::{shown, typed_name};
use avocet_io::ownership;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::disk;
use avocet_zone::pool::{HealthState, MemberControl};

/// Seconds after which the health from the last run is too old to be used.
const MAX_AGE_SECS: u64 = 600;
/// Maximum number of octets of the file that are read: 64 addresses of each of ten thousand pools.
const MAX_OCTETS: u64 = 64 << 20;

/// The key of an address of a pool: the name of the pool, and the address.
type MemberKey = (Box<[u8]>, IpAddr);

/// The state that is kept over a restart.
#[derive(Default)]
pub(crate) struct SavedState {
    /// The health of addresses.
    pub(crate) states: BTreeMap<MemberKey, HealthState>,
    /// The settings of operators.
    pub(crate) controls: BTreeMap<MemberKey, MemberControl>,
}

fn path(directory: &Path) -> PathBuf {
    directory.join("pools.json")
}

/// Reads the file. A missing file counts as empty. A file that is damaged or cannot be read also
/// does, and is renamed, so that it is not overwritten. Health that is too old is left out.
pub(crate) fn load(directory: &Path, now_secs: u64) -> SavedState {
    let path = path(directory);
    let octets = match disk::read(&path, MAX_OCTETS) {
        Ok(Some(octets)) => octets,
        Ok(None) => return SavedState::default(),
        Err(error) => return put_aside(&path, &error.to_string()),
    };
    // The server never writes an empty file, so that such a file is damaged.
    match serde_json::from_slice(&octets) {
        Ok(file) => of_file(file, now_secs),
        Err(error) => put_aside(&path, &error.to_string()),
    }
}

fn put_aside(path: &Path, error: &str) -> SavedState {
    let aside = path.with_extension("damaged");
    let renamed = ownership::write().and_then(|_permit| fs::rename(path, &aside));
    let kept = match renamed {
        Ok(()) => format!("renamed to {}", aside.display()),
        Err(error) => format!("cannot rename it: {error}"),
    };
    tracing::error!(
        error,
        "{} has no effect: commands for addresses of pools are forgotten ({kept})",
        path.display()
    );
    SavedState::default()
}

fn of_file(file: PoolsFile, now_secs: u64) -> SavedState {
    let is_recent = now_secs.abs_diff(file.saved_at) <= MAX_AGE_SECS;
    let mut saved = SavedState::default();
    for member in file.addresses {
        let Ok(name) = typed_name(&member.pool) else { continue };
        let key = (name.to_ascii_lowercase().into_boxed_slice(), member.address);
        let state = match member.state.as_deref().filter(|_| is_recent) {
            Some("up") => Some(HealthState::Up),
            Some("down") => Some(HealthState::Down),
            _ => None,
        };
        saved.states.extend(state.map(|state| (key.clone(), state)));
        let Some(word) = member.control else { continue };
        match MemberControl::from_name(&word) {
            Some(control) => drop(saved.controls.insert(key, control)),
            None => tracing::error!(
                pool = member.pool,
                address = %member.address,
                "pools.json has the unknown setting {word:?}: it has no effect"
            ),
        }
    }
    saved
}

/// Writes the file, and records in `watch` whether this failed. Returns the reason for a failure.
pub(crate) fn save(directory: &Path, watch: &PoolWatch) -> Option<String> {
    let mut unsaved = watch.saving();
    let SavedState { states, controls } = watch.to_save();
    let path = path(directory);
    if states.is_empty() && controls.is_empty() && !path.exists() {
        *unsaved = None;
        return None;
    }
    let mut members: BTreeMap<MemberKey, SavedMember> = BTreeMap::new();
    let new = |(name, address): &MemberKey| SavedMember {
        pool: shown(name),
        address: *address,
        state: None,
        control: None,
    };
    for (key, state) in states {
        let member = members.entry(key.clone()).or_insert_with(|| new(&key));
        member.state = (state != HealthState::Unknown).then(|| state.name().to_owned());
    }
    for (key, control) in controls {
        let member = members.entry(key.clone()).or_insert_with(|| new(&key));
        member.control = Some(control.name().to_owned());
    }
    let file = PoolsFile { saved_at: wall_secs(), addresses: members.into_values().collect() };
    let written = serde_json::to_vec(&file)
        .map_err(std::io::Error::other)
        .and_then(|text| disk::replace(&path, &[&text]));
    *unsaved = written.err().map(|error| format!("cannot save {}: {error}", path.display()));
    unsaved.clone()
}
