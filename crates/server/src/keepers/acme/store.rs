//! The files of `[acme]`: the account, the certificate with its key, and the state of renewals.
//! Only the system account of the server can read them; each file is replaced as a whole.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use avocet_acme::schedule::{self, FIRST_RETRY_SECS, Life};
use avocet_acme::{Account, AccountKey};
use avocet_config::acme::AcmeConfig;
use avocet_nameserver::disk;
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use zeroize::{Zeroize, Zeroizing};

/// Maximum number of octets of a file that is read.
const MAX_OCTETS: u64 = 1 << 20;

/// The state that is kept over a restart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(super) struct StoredState {
    /// The settings with which the certificate was obtained: see [`settings`].
    pub(super) settings: String,
    /// The Unix second of the next attempt; 0 for an attempt at once.
    pub(super) next_attempt: u64,
    /// The Unix second of the last attempt.
    pub(super) last_attempt: Option<u64>,
    /// The Unix second at which the certificate was obtained.
    pub(super) last_success: Option<u64>,
    /// Number of failures since the last success.
    pub(super) failures: u32,
    /// The reason for the last failure.
    pub(super) last_error: Option<String>,
    /// The identifier of the certificate (RFC 9773 §4.1).
    pub(super) identifier: Option<String>,
    /// The first and the last second of the validity of the certificate.
    pub(super) life: Option<[u64; 2]>,
}

impl StoredState {
    /// Plans the next attempt again if the clock was set back since the last one, because a planned
    /// time may be years away. A valid certificate is renewed as if its attempt had succeeded.
    /// Returns whether the clock was set back.
    pub(super) fn follow_clock(&mut self, now: u64, draw: f64) -> bool {
        if self.last_attempt.is_none_or(|last| last <= now + FIRST_RETRY_SECS) {
            return false;
        }
        self.last_attempt = None;
        self.last_success = self.last_success.filter(|last| *last <= now);
        let valid = self.life.filter(|[from, to]| (*from..=*to).contains(&now));
        let renewal = valid.map(|[not_before, not_after]| {
            schedule::renewal(Life { not_before, not_after }, None, draw)
        });
        self.next_attempt = renewal.unwrap_or(0);
        if self.next_attempt > now {
            (self.failures, self.last_error) = (0, None);
        }
        true
    }
}

/// Returns the settings that determine the contents of a certificate.
pub(super) fn settings(config: &AcmeConfig) -> String {
    format!("{} {}", config.directory, config.names.join(" "))
}

/// A record that proves control of a name, from before it is published until it is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct StoredProof {
    /// The domain name for which the record proves control.
    pub(super) name: String,
    /// The text of the record.
    pub(super) text: String,
    /// The zone of another server in which the record is; `None` for a hosted zone.
    pub(super) zone: Option<String>,
}

/// The file of the account.
#[derive(Serialize, Deserialize)]
struct AccountFile {
    directory: String,
    url: String,
    /// The key, as PKCS #8 in base64.
    key: String,
}

impl Drop for AccountFile {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// The storage directory.
pub(super) struct AcmeStore {
    directory: PathBuf,
}

impl AcmeStore {
    pub(super) fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Creates the directory, which only the system account of the server can read.
    pub(super) fn create(&self) -> io::Result<()> {
        if !self.directory.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        }
        std::fs::set_permissions(&self.directory, Permissions::from_mode(0o700))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the stored state. If the file is missing or damaged, returns the state of a server
    /// without certificate.
    pub(super) fn state(&self) -> StoredState {
        self.read("state.json").unwrap_or_default()
    }

    pub(super) fn put_state(&self, state: &StoredState) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(state)?;
        disk::replace(&self.path("state.json"), &[&text, b"\n"])
    }

    /// Returns the records that may be published; none if the file is missing or damaged.
    pub(super) fn proofs(&self) -> Vec<StoredProof> {
        self.read("proofs.json").unwrap_or_default()
    }

    pub(super) fn put_proofs(&self, proofs: &[StoredProof]) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(proofs)?;
        disk::replace(&self.path("proofs.json"), &[&text, b"\n"])
    }

    /// Returns the stored account at an authority; `None` if there is none.
    pub(super) fn account(&self, directory: &str) -> Option<Account> {
        let mut file: AccountFile = self.read("account.json")?;
        if file.directory != directory {
            return None;
        }
        let octets = Zeroizing::new(BASE64.decode(file.key.as_bytes()).ok()?);
        let key = AccountKey::from_pkcs8(&octets).ok()?;
        Some(Account { key, url: Some(std::mem::take(&mut file.url)) })
    }

    /// Stores an account that the authority knows.
    pub(super) fn put_account(&self, directory: &str, account: &Account) -> io::Result<()> {
        let Some(url) = account.url.clone() else { return Ok(()) };
        let octets = account.key.to_pkcs8().map_err(io::Error::other)?;
        let key = BASE64.encode(&octets);
        let file = AccountFile { directory: directory.to_owned(), url, key };
        let text = Zeroizing::new(serde_json::to_vec_pretty(&file)?);
        disk::replace(&self.path("account.json"), &[&text, b"\n"])
    }

    pub(super) fn has_certificate(&self) -> bool {
        self.path("certificate.pem").is_file()
    }

    /// Stores a certificate with its key.
    pub(super) fn put_certificate(&self, chain: &str, key: &str) -> io::Result<()> {
        let line_end: &[u8] = if chain.ends_with('\n') { b"" } else { b"\n" };
        let parts = [chain.as_bytes(), line_end, key.as_bytes()];
        disk::replace(&self.path("certificate.pem"), &parts)
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Option<T> {
        let path = self.path(name);
        let octets = match disk::read(&path, MAX_OCTETS) {
            Ok(octets) => Zeroizing::new(octets?),
            Err(error) => {
                tracing::warn!(%error, "cannot read {}", path.display());
                return None;
            }
        };
        match serde_json::from_slice(&octets) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::warn!(%error, "{} is damaged and has no effect", path.display());
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory for one test, which is removed at the end of the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let directory =
                std::env::temp_dir().join(format!("avocet-acme-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&directory);
            Self(directory)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn state_and_account_survive_a_restart() {
        let scratch = Scratch::new("restart");
        let store = AcmeStore::at(&scratch.0);
        assert_eq!(store.state(), StoredState::default());
        store.create().unwrap();
        let state = StoredState { failures: 3, life: Some([1, 2]), ..StoredState::default() };
        store.put_state(&state).unwrap();
        let url = Some("https://ca.example/account/1".to_owned());
        let account = Account { key: AccountKey::draw().unwrap(), url };
        store.put_account("https://ca.example/directory", &account).unwrap();
        let later = AcmeStore::at(&scratch.0);
        assert_eq!(later.state(), state);
        let read = later.account("https://ca.example/directory").unwrap();
        assert_eq!(read.url, account.url);
        assert_eq!(*read.key.to_pkcs8().unwrap(), *account.key.to_pkcs8().unwrap());
        assert!(later.account("https://other.example/directory").is_none());
    }

    #[test]
    fn damaged_files_are_those_of_a_server_without_account() {
        let scratch = Scratch::new("damaged");
        let store = AcmeStore::at(&scratch.0);
        store.create().unwrap();
        for text in
            ["", "{", "[]", "{\"key\":7}", "{\"directory\":\"d\",\"url\":\"u\",\"key\":\"!\"}"]
        {
            std::fs::write(store.path("account.json"), text).unwrap();
            std::fs::write(store.path("state.json"), text).unwrap();
            assert!(store.account("d").is_none(), "{text}");
            assert_eq!(store.state().failures, 0, "{text}");
        }
    }

    #[test]
    fn only_the_owner_reads_the_directory() {
        let scratch = Scratch::new("mode");
        std::fs::create_dir_all(&scratch.0).unwrap();
        AcmeStore::at(&scratch.0).create().unwrap();
        let mode = std::fs::metadata(&scratch.0).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_clock_that_was_ahead_does_not_put_off_the_next_attempt() {
        const DAY: u64 = 86_400;
        let (now, ahead) = (20_000 * DAY, 21_000 * DAY);
        let check = |life: Option<[u64; 2]>, failures: u32, expected: (u64, u32)| {
            let last_error = Some("is the clock of this host right?".to_owned());
            let mut state = StoredState {
                next_attempt: ahead + 600,
                last_attempt: Some(ahead),
                last_success: life.map(|_| ahead),
                failures,
                last_error,
                life,
                ..StoredState::default()
            };
            assert!(!state.follow_clock(ahead - 1, 0.0), "a small step");
            assert!(state.follow_clock(now, 0.0));
            assert_eq!((state.next_attempt, state.failures), expected, "{life:?}");
            assert!(!state.follow_clock(now, 0.0), "once");
        };
        check(None, 3, (0, 3));
        check(Some([now - DAY, now + 89 * DAY]), 1, (now + 59 * DAY, 0));
        // Valid according to the wrong clock only.
        check(Some([ahead, ahead + 90 * DAY]), 0, (0, 0));
    }
}
