//! The keys of the target of Oblivious DNS over HTTPS: `odoh.keys` in the data directory.
//!
//! ```text
//! drawn --> present: in the configurations -- a day --> previous: accepted -- a day --> erased
//! ```
//! Clients keep a configuration for hours, so the keys survive a restart and a take-over. The file
//! has one line per key, with the Unix second of its creation and its seed in hexadecimal form.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use avocet_config::Config;
use avocet_control::status::OdohStatus;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::disk;
use avocet_session::oblivious::{IS_BUILT, ObliviousTarget, SEED_LEN};
use avocet_worker::state::Shared;
use data_encoding::HEXLOWER;
use zeroize::Zeroizing;

use super::Running;
use super::conditions::Condition;

/// The name of the file.
pub(crate) const NAME: &str = "odoh.keys";
/// Seconds after which a key is replaced. It is accepted for the same time again.
const PERIOD_SECS: u64 = 24 * 3_600;
/// Seconds until the next attempt to write the file.
const RETRY_SECS: u64 = 60;
/// Maximum number of octets of the file.
const MAX_OCTETS: u64 = 1 << 10;
/// Number of octets of the ID of a key that are shown.
const SHOWN_LEN: usize = 8;
/// The reason why a program without the feature `odoh` is no target.
const NOT_BUILT: &str = "[odoh]: this program was built without Oblivious DNS over HTTPS; build it \
                         with the feature `odoh`";

/// Returns the reason why this program cannot provide `[odoh]`; `None` if it can.
pub fn fault_of_odoh(config: &Config) -> Option<&'static str> {
    (config.odoh.target && !IS_BUILT).then_some(NOT_BUILT)
}

/// The keys of a running server.
#[derive(Default)]
pub(crate) struct ObliviousKeeping {
    state: Mutex<KeepingState>,
    /// Whether the threads of the proxy were started.
    pub(crate) has_proxy: AtomicBool,
}

/// Keeps the keys of a running server, and reports the problem with them.
pub(crate) fn look(running: &Running) {
    let fault = running.oblivious.look(&running.shared, wall_secs());
    running.conditions.set(Condition::Odoh, fault);
}

#[derive(Default)]
struct KeepingState {
    keys: KeptKeys,
    fault: Option<String>,
    /// The Unix second of the next attempt to write the file; `None` if it is written.
    write_due: Option<u64>,
}

/// The present key, and the previous one.
#[derive(Default, Debug, PartialEq)]
struct KeptKeys(Vec<KeptKey>);

#[derive(PartialEq)]
struct KeptKey {
    created_secs: u64,
    seed: Zeroizing<[u8; SEED_LEN]>,
}

impl std::fmt::Debug for KeptKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptKey").field("created_secs", &self.created_secs).finish_non_exhaustive()
    }
}

impl ObliviousKeeping {
    /// Reads the keys for the first time, and replaces a key that is due.
    pub(crate) fn begin(shared: &Shared, now_secs: u64) -> Self {
        let begun = Self::default();
        begun.look(shared, now_secs);
        begun
    }

    /// Replaces a key that is due, and follows the configuration. Returns the problem with the
    /// keys, if there is one.
    pub(crate) fn look(&self, shared: &Shared, now_secs: u64) -> Option<String> {
        let config = shared.snapshot().config.clone();
        let mut kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fault) = fault_of_odoh(&config) {
            return Some(fault.to_owned());
        }
        if !config.odoh.target {
            if !kept.keys.0.is_empty() {
                *kept = KeepingState::default();
                shared.oblivious.put(None);
            }
            return None;
        }
        let path = config.data.directory.join(NAME);
        let is_first = kept.keys.0.is_empty();
        if is_first {
            kept.keys = read(&path);
        }
        let is_due = kept.keys.is_due(now_secs);
        if is_due {
            let mut seed = Zeroizing::new([0; SEED_LEN]);
            if let Err(error) = getrandom::fill(&mut seed[..]) {
                return Some(format!("[odoh]: no key can be drawn: {error}"));
            }
            kept.keys.push(seed, now_secs);
            kept.write_due = Some(now_secs);
        }
        // A key that clients know must survive a crash.
        kept.save(&path, now_secs);
        if is_first || is_due {
            shared.oblivious.put(kept.keys.target());
        }
        kept.fault.clone()
    }

    /// Returns the state of the target, for display; `None` if this server is no target.
    pub(crate) fn shown(&self, shared: &Shared) -> Option<OdohStatus> {
        let target = shared.oblivious.in_force()?;
        let id = target.key_id();
        let kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let created_at = kept.keys.0.first()?.created_secs;
        Some(OdohStatus {
            key_id: HEXLOWER.encode(id.get(..SHOWN_LEN).unwrap_or(id)),
            created_at,
            next_at: created_at + PERIOD_SECS,
        })
    }
}

impl KeepingState {
    /// Writes the file, if it is not written yet. Without the file, the keys last until the server
    /// ends.
    fn save(&mut self, path: &Path, now_secs: u64) {
        // The clock may have been set back.
        let is_due = |due: u64| now_secs >= due || due > now_secs + RETRY_SECS;
        if !self.write_due.is_some_and(is_due) {
            return;
        }
        match write(path, &self.keys) {
            Ok(()) => (self.write_due, self.fault) = (None, None),
            Err(error) => {
                self.write_due = Some(now_secs + RETRY_SECS);
                let path = path.display();
                self.fault = Some(format!(
                    "[odoh]: {path} cannot be written: {error}; the keys are lost when the server \
                     ends"
                ));
            }
        }
    }
}

impl KeptKeys {
    /// Returns whether the present key must be replaced. If the clock was set back, a key would be
    /// used for too long.
    fn is_due(&self, now_secs: u64) -> bool {
        let is_present =
            |key: &KeptKey| (key.created_secs..key.created_secs + PERIOD_SECS).contains(&now_secs);
        !self.0.first().is_some_and(is_present)
    }

    /// Adds a key, and erases keys that are not accepted any more.
    fn push(&mut self, seed: Zeroizing<[u8; SEED_LEN]>, now_secs: u64) {
        self.0.retain(|key| now_secs < key.created_secs + 2 * PERIOD_SECS);
        self.0.truncate(1);
        self.0.insert(0, KeptKey { created_secs: now_secs, seed });
    }

    fn target(&self) -> Option<Arc<ObliviousTarget>> {
        let previous = self.0.get(1).map(|key| &*key.seed);
        ObliviousTarget::new(&self.0.first()?.seed, previous).map(Arc::new)
    }

    /// Reads the text of the file; `None` if it is damaged.
    fn of_text(text: &[u8]) -> Option<Self> {
        let mut keys = Vec::new();
        for line in str::from_utf8(text).ok()?.lines() {
            let (created, hex) = line.split_once(' ')?;
            let mut seed = Zeroizing::new([0; SEED_LEN]);
            if hex.len() != 2 * SEED_LEN || keys.len() == 2 {
                return None;
            }
            HEXLOWER.decode_mut(hex.as_bytes(), &mut seed[..]).ok()?;
            keys.push(KeptKey { created_secs: created.parse().ok()?, seed });
        }
        // A time far in the future would overflow when the periods are added.
        let is_sound = |key: &KeptKey| key.created_secs < u64::MAX / 2;
        keys.iter().all(is_sound).then_some(Self(keys))
    }

    fn to_text(&self) -> Zeroizing<Vec<u8>> {
        /// Number of octets of a line: so that no copy remains in memory, the text never grows.
        const LINE: usize = 20 + 1 + 2 * SEED_LEN + 1;
        let mut text = Zeroizing::new(Vec::with_capacity(self.0.len() * LINE));
        for key in &self.0 {
            let mut hex = Zeroizing::new([0; 2 * SEED_LEN]);
            HEXLOWER.encode_mut(&key.seed[..], &mut hex[..]);
            text.extend_from_slice(key.created_secs.to_string().as_bytes());
            text.push(b' ');
            text.extend_from_slice(&hex[..]);
            text.push(b'\n');
        }
        text
    }
}

/// Reads the keys. A damaged file is replaced: its clients fetch the configurations again.
fn read(path: &Path) -> KeptKeys {
    let text = match disk::read(path, MAX_OCTETS) {
        Ok(text) => text.map(Zeroizing::new),
        Err(error) => {
            tracing::warn!("{} cannot be read: {error}; a new key replaces it", path.display());
            return KeptKeys::default();
        }
    };
    let Some(text) = text else { return KeptKeys::default() };
    KeptKeys::of_text(&text).unwrap_or_else(|| {
        tracing::warn!("{} is damaged; a new key replaces it", path.display());
        KeptKeys::default()
    })
}

/// Writes the keys to a file that only its owner may read.
fn write(path: &Path, keys: &KeptKeys) -> io::Result<()> {
    disk::replace(path, &[&keys.to_text()])?;
    fs::set_permissions(path, Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed(octet: u8) -> Zeroizing<[u8; SEED_LEN]> {
        Zeroizing::new([octet; SEED_LEN])
    }

    #[test]
    fn a_key_is_present_for_a_day_and_accepted_for_another() {
        let mut keys = KeptKeys::default();
        assert!(keys.is_due(1_000));
        keys.push(seed(1), 1_000);
        for (now_secs, is_due) in
            [(999, true), (1_000, false), (87_399, false), (87_400, true), (u64::MAX, true)]
        {
            assert_eq!(keys.is_due(now_secs), is_due, "{now_secs}");
        }
        let seeds = |keys: &KeptKeys| keys.0.iter().map(|key| key.seed[0]).collect::<Vec<_>>();
        keys.push(seed(2), 87_400);
        assert_eq!(seeds(&keys), [2, 1]);
        keys.push(seed(3), 173_800);
        assert_eq!(seeds(&keys), [3, 2]);
        keys.push(seed(4), 173_800 + 2 * PERIOD_SECS);
        assert_eq!(seeds(&keys), [4], "the server was off for long");
    }

    #[test]
    fn the_file_has_the_same_keys_again_and_damage_is_recognized() {
        let mut keys = KeptKeys::default();
        keys.push(seed(1), 1_000);
        keys.push(seed(0xfe), 87_400);
        let text = keys.to_text();
        assert_eq!(KeptKeys::of_text(&text), Some(keys));
        let text = String::from_utf8(text.to_vec()).unwrap();
        let hex = "01".repeat(SEED_LEN);
        for damaged in [
            text.replacen("fe", "xy", 1),
            text.replacen("fe", "FE", 1),
            text.replacen("fe", "", 1),
            text.repeat(2),
            format!("{hex}\n"),
            format!("-1 {hex}\n"),
            format!("{} {hex}\n", u64::MAX),
            "1000 \n".to_owned(),
        ] {
            assert_eq!(KeptKeys::of_text(damaged.as_bytes()), None, "{damaged}");
        }
        assert_eq!(KeptKeys::of_text(b"\xff"), None);
        assert_eq!(KeptKeys::of_text(b""), Some(KeptKeys::default()));
    }

    #[test]
    fn secrets_are_not_shown() {
        let key = KeptKey { created_secs: 1, seed: seed(0xab) };
        assert!(!format!("{key:?}").contains("171"), "{key:?}");
    }

    #[test]
    fn only_the_owner_may_read_the_file() {
        let directory = std::env::temp_dir().join(format!("avocet-odoh-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(NAME);
        let mut keys = KeptKeys::default();
        keys.push(seed(7), 1_000);
        write(&path, &keys).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&path), keys);
        fs::write(&path, "damaged").unwrap();
        assert_eq!(read(&path), KeptKeys::default());
        assert_eq!(read(&directory.join("none")), KeptKeys::default());
        fs::remove_dir_all(&directory).unwrap();
    }
}
