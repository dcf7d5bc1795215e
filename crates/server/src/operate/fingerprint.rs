//! Two fingerprints: of what in a configuration decides about answers, and of a file that may change.

use std::fmt;
use std::fs;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use siphasher::sip::SipHasher13;

use crate::config::{Config, ServerConfig};
use crate::policy::Parts;
use crate::state::Snapshot;

/// Equal for configurations under which the same final answers hold. Another release of the server
/// may build answers in another way, so its version counts too.
///
/// Every field is named, so that one that is added must be put on one side or the other.
pub(crate) fn answers_fingerprint(config: &Config) -> u64 {
    let Config {
        // What it says is in the others.
        is_bare: _,
        server,
        resolver,
        stubs,
        dnssec,
        dns64,
        forwards,
        cache,
        records,
        policy,
        // Decided for each query or reply; the packet cache holds answers from before that.
        rate_limit: _,
        log: _,
        data: _,
    } = config;
    let decides = (
        (env!("CARGO_PKG_VERSION"), answers_of_server(server)),
        (forwards, records, cache),
        (resolver, stubs, dnssec, dns64),
        policy,
    );
    of_text(&format!("{decides:?}"))
}

/// The keys of `[server]` that decide about what the packet cache holds.
fn answers_of_server(server: &ServerConfig) -> impl fmt::Debug {
    let ServerConfig {
        local_names,
        local_zones,
        max_udp_size,
        minimal_responses,
        // Who is served, where, and by how many threads.
        listen: _,
        workers: _,
        pin_workers: _,
        http: _,
        http_names: _,
        allow: _,
        user: _,
        control_group: _,
        tcp: _,
        // Answers of class CH are not kept, and OPT is appended to each reply.
        version: _,
        id_server: _,
        nsid: _,
        cookies: _,
        cookie_secret: _,
    } = server;
    (*local_names, local_zones, *max_udp_size, *minimal_responses)
}

/// Equal for snapshots of one configuration whose policies say the same to the same profile: lists, countries, what is
/// switched off, and what the numbers of profiles stand for.
pub(crate) fn policy_fingerprint(state: &Snapshot) -> u64 {
    let Parts { lists, countries, switches, .. } = &state.parts;
    // Policy zones are in no image: only the stamps of their texts tell of them.
    let lists = lists.as_ref().map(|lists| (lists.digest(), &lists.making().lists));
    let countries = countries.as_ref().map(|database| database.digest());
    let profiles = state.policy.as_ref().map(|policy| policy.meanings());
    of_text(&format!("{:?}", (lists, countries, switches, profiles)))
}

fn of_text(text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// What tells whether a file was written or replaced; none while it is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileFingerprint {
    modified: (i64, i64),
    size: u64,
    device: u64,
    inode: u64,
    /// Changes with permissions, too.
    changed: (i64, i64),
}

impl FileFingerprint {
    /// Of the file at `path`, following symbolic links.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let facts = fs::metadata(path).ok()?;
        Some(Self {
            modified: (facts.mtime(), facts.mtime_nsec()),
            size: facts.size(),
            device: facts.dev(),
            inode: facts.ino(),
            changed: (facts.ctime(), facts.ctime_nsec()),
        })
    }
}

/// The file of the configuration, as it was before it was read at the start.
pub(crate) struct ConfigFile {
    /// None: there is none.
    pub(crate) path: Option<PathBuf>,
    /// What may have changed since.
    pub(crate) seen: Option<FileFingerprint>,
}

impl ConfigFile {
    /// The file at a path, which is to be read next.
    pub(crate) fn about_to_be_read(path: Option<PathBuf>) -> Self {
        Self { seen: path.as_deref().and_then(FileFingerprint::of), path }
    }
}

/// Watches a file for changes by looking at it now and then.
#[derive(Default)]
pub(crate) struct FileWatch {
    acted_on: Option<FileFingerprint>,
    last_seen: Option<FileFingerprint>,
}

impl FileWatch {
    /// Takes the file as it is now to be known.
    pub(crate) fn new(now: Option<FileFingerprint>) -> Self {
        Self { acted_on: now, last_seen: now }
    }

    /// Has the file changed, and stayed the same since the last look? A file that is still being
    /// written could be valid and yet lack its end.
    pub(crate) fn has_settled(&mut self, now: Option<FileFingerprint>) -> bool {
        let is_stable = now == self.last_seen;
        self.last_seen = now;
        if !is_stable || now.is_none() || now == self.acted_on {
            return false;
        }
        self.acted_on = now;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn print(size: u64) -> Option<FileFingerprint> {
        Some(FileFingerprint { modified: (1, 2), size, device: 3, inode: 4, changed: (5, 6) })
    }

    #[test]
    fn a_change_counts_once_and_only_when_it_has_settled() {
        let mut watch = FileWatch::new(print(1));
        let looks = [
            (print(1), false),
            (print(2), false),
            (print(3), false),
            (print(3), true),
            (print(3), false),
            (None, false),
            (None, false),
            (print(3), false),
            (print(3), false),
            (print(1), false),
            (print(1), true),
        ];
        for (number, (now, expected)) in looks.into_iter().enumerate() {
            assert_eq!(watch.has_settled(now), expected, "look {number}");
        }
    }

    #[test]
    fn a_file_whose_permissions_change_has_changed() {
        let path = std::env::temp_dir().join(format!("avocet-fingerprint-{}", std::process::id()));
        let of_mode = |mode| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            FileFingerprint::of(&path)
        };
        fs::write(&path, "x").unwrap();
        let before = of_mode(0o000);
        while of_mode(0o600) == before {
            // The clock of the file system goes in steps of some milliseconds.
            of_mode(0o000);
        }
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn only_what_decides_about_answers_changes_the_fingerprint() {
        let with = |name: &str, value: &str| {
            Config::load(None, [(name.to_owned(), value.to_owned())])
                .map(|config| answers_fingerprint(&config))
                .unwrap()
        };
        let plain = with("UNRELATED", "1");
        assert_eq!(plain, with("AVOCET_LOG__LEVEL", "debug"));
        assert_eq!(plain, with("AVOCET_SERVER__ALLOW", "127.0.0.0/8"));
        assert_ne!(plain, with("AVOCET_SERVER__MINIMAL_RESPONSES", "false"));
        assert_ne!(plain, with("AVOCET_CACHE__MIN_TTL_SECS", "10"));
        assert_ne!(plain, with("AVOCET_DNSSEC__VALIDATE", "false"));
        let translating = with("AVOCET_DNS64__PREFIX", "64:ff9b::/96");
        assert_ne!(plain, translating);
        assert_ne!(translating, with("AVOCET_DNS64__PREFIX", "2001:db8:64::/96"));
    }
}
