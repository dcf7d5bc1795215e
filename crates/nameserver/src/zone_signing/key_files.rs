//! The files of a zone's keys. Each zone has one directory, with a file for each private key
//! (PKCS#8), the state of the keys, and the last signed version.
//!
//! A private key is never overwritten, and only the account of the server may read it. The state is
//! replaced as a whole. Keys without state, and state without its keys, are errors. The server does
//! not make new keys then, because the parent may refer to the old keys. A state that lists no keys
//! is written before the first key, so keys without an entry in it have never been in force.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avocet_dnssec::signing::{
    ENTRY_KEY, KeyFault, PrivateKey, SigningAlgorithm, SigningKey, ZONE_KEY,
};
use avocet_io::ownership;
use avocet_wire::{FoldedName, Rtype, rdata};
use avocet_zone::HostedZone;
use avocet_zone::sign::timeline::{
    DsWitness, HeldTtl, KeyPhase, KeyPolicy, KeyRole, KeyTimeline, MAX_ZONE_KEYS, TimedKey,
    WantedKey,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use zeroize::Zeroizing;

use super::report::{phase_name, phase_of, role_name, role_of};
use crate::checksum::{check_sum, sum_line};
use crate::clock::wall_secs;
use crate::disk;

/// The name of the file with the state of the keys.
const STATE: &str = "state.json";
/// The name of the master file with the last signed version.
const SIGNED: &str = "signed.zone";
/// The name of the master file with the next signed version, until the state with its serial is on
/// the disk.
const NEXT: &str = "signed.zone.next";
/// Maximum number of octets of the state file and of a key file.
const MAX_OCTETS: u64 = 64 << 10;
/// Maximum number of octets of the signed zone.
const MAX_SIGNED: u64 = avocet_zone::MAX_ZONE_TEXT;
/// Maximum number of keys that are generated to find one with an unused key tag.
const MAX_TRIES: u32 = 20;
/// Bits of a file's mode that give access to accounts other than the owner.
const OTHERS: u32 = 0o077;

/// The reason why the files of keys cannot be used.
#[derive(Debug, Error)]
pub enum KeyFileError {
    /// A file cannot be read.
    #[error("cannot read {path}: {1}", path = .0.display())]
    Read(PathBuf, io::Error),
    /// A file cannot be written.
    #[error("cannot write {path}: {1}", path = .0.display())]
    Write(PathBuf, io::Error),
    /// The state is damaged.
    #[error("{path} is damaged: {1}", path = .0.display())]
    State(PathBuf, String),
    /// There are keys, but no state.
    #[error(
        "{path} has keys and no state.json: restore it from a backup, or move the keys away",
        path = .0.display()
    )]
    NoState(PathBuf),
    /// A file does not contain a usable key of the zone.
    #[error("{path}: {1}", path = .0.display())]
    Key(PathBuf, KeyFault),
    /// The file contains a key with this tag instead of the expected one.
    #[error("{path} has another key than the one with tag {1}", path = .0.display())]
    OtherKey(PathBuf, u16),
    /// Accounts other than the owner may access the file of a private key.
    #[error("{path} may be used by others: its mode must be 600", path = .0.display())]
    Mode(PathBuf),
    /// There are several keys to import for the same role.
    #[error("{path} is another {1}: one key of each role can be imported", path = .0.display())]
    Several(PathBuf, &'static str),
    /// The keys to import do not cover all roles that the zone needs.
    #[error("the K*.private files in {} are not a CSK, or a KSK and a ZSK", .0.display())]
    Incomplete(PathBuf),
    /// The public part of a key to import is missing.
    #[error("{path} is not the DNSKEY record of the key with the same name", path = .0.display())]
    Public(PathBuf),
    /// No generated key had an unused key tag.
    #[error("no new key has a tag that differs from those of the present ones")]
    Tags,
}

/// The directory with the files of a zone's keys.
#[derive(Debug)]
pub(super) struct KeyFiles {
    directory: PathBuf,
}

/// The state of a zone's keys that is kept on disk.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct SignerState {
    pub(super) timeline: KeyTimeline,
    /// The serial of the last published version.
    pub(super) last_serial: Option<u32>,
    /// The highest TTL of the zone's records.
    pub(super) zone_ttl: HeldTtl,
    /// The TTL of the DNSKEY RRset.
    pub(super) dnskey_ttl: HeldTtl,
    /// The TTL of the parent's DS records.
    pub(super) ds_ttl: HeldTtl,
    /// The Unix second of the last check.
    pub(super) looked_at_secs: u64,
}

/// The state in the form in which it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct StoredState {
    version: u32,
    last_serial: Option<u32>,
    max_ttl_secs: u32,
    looked_at_secs: u64,
    /// The TTLs. Absent in files of earlier versions.
    #[serde(default)]
    ttls: Option<StoredTtls>,
    keys: Vec<StoredKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct StoredTtls {
    zone: StoredTtl,
    dnskey: StoredTtl,
    ds: StoredTtl,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct StoredTtl {
    secs: u32,
    before_secs: u32,
    since_secs: u64,
}

impl From<HeldTtl> for StoredTtl {
    fn from(HeldTtl { secs, before_secs, since_secs }: HeldTtl) -> Self {
        Self { secs, before_secs, since_secs }
    }
}

impl From<StoredTtl> for HeldTtl {
    fn from(StoredTtl { secs, before_secs, since_secs }: StoredTtl) -> Self {
        Self { secs, before_secs, since_secs }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct StoredKey {
    tag: u16,
    algorithm: u8,
    role: String,
    state: String,
    since_secs: u64,
    created_secs: u64,
    ds_ttl_secs: u32,
    /// Whether the DS record was seen at the parent. Absent in files of earlier versions.
    #[serde(default)]
    witness: StoredWitness,
}

/// The knowledge about the DS record of a key at the parent.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StoredWitness {
    #[default]
    None,
    Word,
    Seen,
    Lost,
}

impl From<DsWitness> for StoredWitness {
    fn from(witness: DsWitness) -> Self {
        match witness {
            DsWitness::None => Self::None,
            DsWitness::Word => Self::Word,
            DsWitness::Seen => Self::Seen,
            DsWitness::Lost => Self::Lost,
        }
    }
}

impl From<StoredWitness> for DsWitness {
    fn from(witness: StoredWitness) -> Self {
        match witness {
            StoredWitness::None => Self::None,
            StoredWitness::Word => Self::Word,
            StoredWitness::Seen => Self::Seen,
            StoredWitness::Lost => Self::Lost,
        }
    }
}

/// The TTLs for which the steps of keys wait.
pub(super) struct Waits {
    /// The policy with the largest TTLs that caches may hold.
    pub(super) policy: KeyPolicy,
    /// The highest TTL in seconds of any record of the zone that a cache may hold.
    pub(super) max_ttl_secs: u32,
}

impl SignerState {
    /// Removes the time since the last check from the ages of the keys' states if it is negative or
    /// longer than `gap_secs`. In that time, the server did not run, or the clock was set. The ages
    /// at the last check stay.
    pub(super) fn leave_out_gap(&mut self, now_secs: u64, gap_secs: u64) {
        let looked_at_secs = std::mem::replace(&mut self.looked_at_secs, now_secs);
        let passed = now_secs.checked_sub(looked_at_secs);
        let is_gap = passed.is_none_or(|secs| secs > gap_secs);
        let moved = |since_secs: u64| match is_gap {
            true => now_secs.saturating_sub(looked_at_secs.saturating_sub(since_secs)),
            false => since_secs.min(now_secs),
        };
        // Keys in use also grow older while the server does not run. After a start with a clock in
        // the past, they must not become too old as soon as the clock is set.
        let waiting = self.timeline.keys.iter_mut().filter(|key| key.phase != KeyPhase::Active);
        waiting.for_each(|key| key.since_secs = moved(key.since_secs));
        for ttl in [&mut self.zone_ttl, &mut self.dnskey_ttl, &mut self.ds_ttl] {
            ttl.since_secs = moved(ttl.since_secs);
        }
    }

    /// Returns whether time counts for a key or a TTL: a key waits, or at the last check, caches
    /// may have held records with a larger TTL than the present one.
    pub(super) fn is_waiting(&self, policy: &KeyPolicy) -> bool {
        let at_secs = self.looked_at_secs;
        let delay = policy.propagation_secs;
        self.timeline.is_rolling()
            || self.zone_ttl.is_held(delay, at_secs)
            || self.dnskey_ttl.is_held(delay, at_secs)
            || self.ds_ttl.is_held(policy.parent_propagation_secs, at_secs)
    }

    /// Records the TTLs of the version that is published now.
    pub(super) fn note_ttls(&mut self, zone_ttl_secs: u32, policy: &KeyPolicy, now_secs: u64) {
        let delay = policy.propagation_secs;
        self.zone_ttl.note(zone_ttl_secs, delay, now_secs);
        self.dnskey_ttl.note(policy.dnskey_ttl_secs, delay, now_secs);
    }

    /// Returns the policy with the largest TTLs that caches may hold, and the largest TTL of the
    /// zone's records.
    pub(super) fn waits(&self, policy: &KeyPolicy, now_secs: u64) -> Waits {
        let delay = policy.propagation_secs;
        let of_keys = self.dnskey_ttl.largest_secs(delay, now_secs);
        let of_parent = self.ds_ttl.largest_secs(policy.parent_propagation_secs, now_secs);
        let policy = KeyPolicy {
            dnskey_ttl_secs: of_keys.max(policy.dnskey_ttl_secs),
            parent_ds_ttl_secs: of_parent.max(policy.parent_ds_ttl_secs),
            ..*policy
        };
        Waits { policy, max_ttl_secs: self.zone_ttl.largest_secs(delay, now_secs) }
    }

    fn stored(&self) -> StoredState {
        let key = |key: &TimedKey| StoredKey {
            tag: key.tag,
            algorithm: key.algorithm.number(),
            role: role_name(key.role).to_owned(),
            state: phase_name(key.phase).to_owned(),
            since_secs: key.since_secs,
            created_secs: key.created_secs,
            ds_ttl_secs: key.ds_ttl_secs,
            witness: key.witness.into(),
        };
        StoredState {
            version: 1,
            last_serial: self.last_serial,
            // Earlier versions of Avocet read only this field.
            max_ttl_secs: self.zone_ttl.secs.max(self.zone_ttl.before_secs),
            looked_at_secs: self.looked_at_secs,
            ttls: Some(StoredTtls {
                zone: self.zone_ttl.into(),
                dnskey: self.dnskey_ttl.into(),
                ds: self.ds_ttl.into(),
            }),
            keys: self.timeline.keys.iter().map(key).collect(),
        }
    }

    fn of(stored: StoredState) -> Option<Self> {
        let key = |key: StoredKey| {
            Some(TimedKey {
                tag: key.tag,
                algorithm: SigningAlgorithm::from_number(key.algorithm)?,
                role: role_of(&key.role)?,
                phase: phase_of(&key.state)?,
                since_secs: key.since_secs,
                created_secs: key.created_secs,
                ds_ttl_secs: key.ds_ttl_secs,
                witness: key.witness.into(),
            })
        };
        let keys: Option<Vec<_>> = stored.keys.into_iter().map(key).collect();
        let keys = keys.filter(|keys| stored.version == 1 && keys.len() <= MAX_ZONE_KEYS)?;
        let of_zone = HeldTtl { secs: stored.max_ttl_secs, ..HeldTtl::default() };
        let (zone_ttl, dnskey_ttl, ds_ttl) = match stored.ttls {
            Some(StoredTtls { zone, dnskey, ds }) => (zone.into(), dnskey.into(), ds.into()),
            None => (of_zone, HeldTtl::default(), HeldTtl::default()),
        };
        Some(Self {
            timeline: KeyTimeline { keys },
            last_serial: stored.last_serial,
            zone_ttl,
            dnskey_ttl,
            ds_ttl,
            looked_at_secs: stored.looked_at_secs,
        })
    }
}

impl KeyFiles {
    pub(super) const fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn key_path(&self, tag: u16) -> PathBuf {
        self.directory.join(format!("{tag:05}.pkcs8"))
    }

    /// Reads the state. Without a file, returns the state of imported keys, or an empty state if
    /// there are no keys. A state without keys takes the imported keys.
    pub(super) fn load(&self) -> Result<SignerState, KeyFileError> {
        let path = self.directory.join(STATE);
        let text = disk::read(&path, MAX_OCTETS)
            .map_err(|error| KeyFileError::Read(path.clone(), error))?;
        let Some(text) = text else {
            let imported = self.import()?;
            return if !imported.timeline.keys.is_empty() {
                Ok(imported)
            } else if self.has_keys() {
                Err(KeyFileError::NoState(self.directory.clone()))
            } else {
                Ok(SignerState::default())
            };
        };
        let stored: StoredState = serde_json::from_slice(&text)
            .map_err(|error| KeyFileError::State(path.clone(), error.to_string()))?;
        let invalid = || KeyFileError::State(path.clone(), "an unknown value".to_owned());
        let mut state = SignerState::of(stored).ok_or_else(invalid)?;
        if state.timeline.keys.is_empty() {
            state.timeline = self.import()?.timeline;
        }
        Ok(state)
    }

    fn has_keys(&self) -> bool {
        self.paths_with("pkcs8").next().is_some()
    }

    /// Returns the paths of the files in the directory with this ending.
    fn paths_with(&self, ending: &'static str) -> impl Iterator<Item = PathBuf> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        paths.filter(move |path| path.extension().is_some_and(|other| other == ending))
    }

    /// Imports the keys of another server from the files `K*.private` and `K*.key` of BIND. The
    /// imported keys count as in use.
    fn import(&self) -> Result<SignerState, KeyFileError> {
        let mut state = SignerState::default();
        let paths: Vec<_> = self.paths_with("private").take(MAX_ZONE_KEYS + 1).collect();
        for path in &paths {
            let (key, is_entry) = imported_key(path)?;
            let role = match (is_entry, paths.len()) {
                (true, 1) => KeyRole::Csk,
                (true, _) => KeyRole::Ksk,
                (false, _) => KeyRole::Zsk,
            };
            let algorithm = key.private().algorithm();
            let keys = &mut state.timeline.keys;
            if keys.iter().any(|other| other.role == role || other.tag == key.tag()) {
                return Err(KeyFileError::Several(path.clone(), role_name(role)));
            }
            // An earlier attempt that was not completed may have written the file.
            if !self.key_path(key.tag()).exists() {
                self.write_key(&key)?;
            }
            let now_secs = wall_secs();
            keys.push(TimedKey {
                tag: key.tag(),
                algorithm,
                role,
                phase: KeyPhase::Active,
                since_secs: now_secs,
                created_secs: now_secs,
                ds_ttl_secs: 0,
                witness: DsWitness::None,
            });
        }
        let keys = &state.timeline.keys;
        let is_complete = keys.is_empty()
            || (keys.iter().any(|key| key.role.is_entry())
                && keys.iter().any(|key| key.role.signs_zone()));
        if is_complete { Ok(state) } else { Err(KeyFileError::Incomplete(self.directory.clone())) }
    }

    /// Writes the state to disk.
    pub(super) fn save(&self, state: &SignerState) -> Result<(), KeyFileError> {
        let path = self.directory.join(STATE);
        let written = self.make_directory().and_then(|()| {
            let text = serde_json::to_vec_pretty(&state.stored()).map_err(io::Error::other)?;
            disk::replace(&path, &[&text, b"\n"])
        });
        written.map_err(|error| KeyFileError::Write(path, error))
    }

    fn make_directory(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)
    }

    /// Reads the private key from its file.
    pub(super) fn read_key(&self, key: &TimedKey) -> Result<SigningKey, KeyFileError> {
        let path = self.key_path(key.tag);
        let failed = |error| KeyFileError::Read(path.clone(), error);
        check_mode(&path)?;
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let octets = disk::read(&path, MAX_OCTETS).and_then(|read| read.ok_or_else(missing));
        let octets = Zeroizing::new(octets.map_err(failed)?);
        let private = PrivateKey::from_pkcs8(key.algorithm, &octets)
            .map_err(|fault| KeyFileError::Key(path.clone(), fault))?;
        let read = SigningKey::new(private, flags_of(key.role));
        if read.tag() == key.tag { Ok(read) } else { Err(KeyFileError::OtherKey(path, key.tag)) }
    }

    /// Makes a key with a tag that no other key has, and writes the key to a file.
    pub(super) fn make_key(
        &self,
        wanted: &WantedKey,
        others: &BTreeMap<u16, Arc<SigningKey>>,
    ) -> Result<SigningKey, KeyFileError> {
        for _ in 0..MAX_TRIES {
            let private = PrivateKey::generate(wanted.algorithm)
                .map_err(|fault| KeyFileError::Key(self.directory.clone(), fault))?;
            let key = SigningKey::new(private, flags_of(wanted.role));
            if !others.contains_key(&key.tag()) {
                self.write_key(&key)?;
                return Ok(key);
            }
        }
        Err(KeyFileError::Tags)
    }

    /// Writes a key to a file that does not exist yet.
    pub(super) fn write_key(&self, key: &SigningKey) -> Result<(), KeyFileError> {
        let path = self.key_path(key.tag());
        let octets = key.private().to_pkcs8();
        let octets = octets.map_err(|fault| KeyFileError::Key(path.clone(), fault))?;
        let written = self.make_directory().and_then(|()| {
            let _permit = ownership::write()?;
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            let written = file.write_all(&octets).and_then(|()| file.sync_all());
            if written.is_err() {
                let _ = fs::remove_file(&path);
            }
            written.and_then(|()| File::open(&self.directory)?.sync_all())
        });
        written.map_err(|error| KeyFileError::Write(path, error))
    }

    /// Deletes the file of a key that is no longer used.
    pub(super) fn remove(&self, tag: u16) {
        let path = self.key_path(tag);
        let removed = ownership::write().and_then(|_permit| fs::remove_file(&path));
        if let Err(error) = removed {
            tracing::warn!(%error, "cannot delete the key {}", path.display());
        }
    }

    /// Writes the next signed version to a file. After the state, [`Self::confirm_copy`] puts the
    /// file in the place of the copy of the last version. After a restart, the server serves the
    /// copy if it cannot sign the zone, for example because the disk is full.
    pub(super) fn keep_copy(&self, zone: &HostedZone) -> Result<(), KeyFileError> {
        let path = self.directory.join(NEXT);
        let mut text = String::new();
        for node in zone.iter() {
            let owner = node.name().to_buf();
            for record in node.sets().flat_map(|set| set.iter().chain(set.signatures())) {
                let data = rdata::display(record.rtype.0, record.rdata);
                // Writing to a `String` does not fail.
                let _ = writeln!(text, "{owner} {} IN {} {data}", record.ttl_secs, record.rtype);
            }
        }
        let sum = sum_line(&[text.as_bytes()]);
        let parts = [text.as_bytes(), sum.as_bytes()];
        let written = self.make_directory().and_then(|()| disk::replace(&path, &parts));
        written.map_err(|error| KeyFileError::Write(path, error))
    }

    /// Replaces the copy of the last signed version by the copy of the next one. If this fails, the
    /// next start repeats it.
    pub(super) fn confirm_copy(&self) {
        let (next, path) = (self.directory.join(NEXT), self.directory.join(SIGNED));
        let renamed = ownership::write().and_then(|_permit| {
            fs::rename(&next, &path)?;
            File::open(&self.directory)?.sync_all()
        });
        if let Err(error) = renamed {
            tracing::warn!(%error, "cannot keep the signed zone in {}", path.display());
        }
    }

    /// Removes the copy of a signed version that is not published.
    pub(super) fn drop_copy(&self) {
        let next = self.directory.join(NEXT);
        let removed = ownership::write().and_then(|_permit| fs::remove_file(&next));
        if let Err(error) = removed
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot remove {}", next.display());
        }
    }

    /// Reads the last signed version, if its file exists and is complete. `last_serial` is the
    /// serial in the state.
    pub(super) fn signed_copy(
        &self,
        apex: FoldedName<'_>,
        last_serial: Option<u32>,
    ) -> Option<HostedZone> {
        if let Some(next) = self.read_copy(apex, NEXT) {
            if last_serial == Some(next.serial()) {
                self.confirm_copy();
                return Some(next);
            }
            self.drop_copy();
        }
        self.read_copy(apex, SIGNED)
    }

    fn read_copy(&self, apex: FoldedName<'_>, name: &str) -> Option<HostedZone> {
        let path = self.directory.join(name);
        let mut open = |path: &Path, most: u64| {
            let missing = || io::Error::from(io::ErrorKind::NotFound);
            let octets = disk::read(path, most.min(MAX_SIGNED))?.ok_or_else(missing)?;
            check_sum(&octets).map(|()| octets)
        };
        if !path.exists() {
            return None;
        }
        let (zone, faults) = avocet_zone::load(apex, &path, wall_secs(), &mut open);
        if zone.is_none() {
            let fault = faults.list().first().map(ToString::to_string).unwrap_or_default();
            tracing::error!(
                "{} is damaged and not used; all signatures are made again: {fault}",
                path.display()
            );
        }
        zone
    }
}

/// Refuses a private key to which accounts other than its owner have access.
fn check_mode(path: &Path) -> Result<(), KeyFileError> {
    let facts = fs::metadata(path).map_err(|error| KeyFileError::Read(path.to_owned(), error))?;
    let is_open = facts.permissions().mode() & OTHERS != 0;
    if is_open { Err(KeyFileError::Mode(path.to_owned())) } else { Ok(()) }
}

/// Reads a key of BIND from its private file. From its public file, reads whether the DNSKEY record
/// has the flag of a KSK.
fn imported_key(path: &Path) -> Result<(SigningKey, bool), KeyFileError> {
    let read = |path: &Path| {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let octets = disk::read(path, MAX_OCTETS).and_then(|read| read.ok_or_else(missing));
        let octets = octets.map(Zeroizing::new);
        let text =
            octets.map(|octets| Zeroizing::new(String::from_utf8_lossy(&octets).into_owned()));
        text.map_err(|error| KeyFileError::Read(path.to_owned(), error))
    };
    check_mode(path)?;
    let private = PrivateKey::from_bind(&read(path)?)
        .map_err(|fault| KeyFileError::Key(path.to_owned(), fault))?;
    let beside = path.with_extension("key");
    let text = read(&beside)?;
    let words: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(';'))
        .flat_map(str::split_whitespace)
        .skip_while(|word| *word != "DNSKEY")
        .collect();
    let flags = words.get(1).and_then(|flags| flags.parse().ok());
    let flags = flags.filter(|flags| [ENTRY_KEY, ZONE_KEY].contains(flags));
    let public = || KeyFileError::Public(beside.clone());
    let key = SigningKey::new(private, flags.ok_or_else(public)?);
    let mut data = Vec::new();
    let is_same = rdata::parse(Rtype::DNSKEY.0, &words[1..].join(" "), &[0], &mut data).is_ok()
        && data == key.dnskey();
    if is_same { Ok((key, flags == Some(ENTRY_KEY))) } else { Err(public()) }
}

const fn flags_of(role: KeyRole) -> u16 {
    if role.is_entry() { ENTRY_KEY } else { ZONE_KEY }
}
