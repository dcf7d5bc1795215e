//! Backups of a data directory, damaged backups, and restores that are interrupted.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use avocet_revisions::{ChangeOrigin, Store, Submission};
use avocet_zone::pool::MemberControl;
use serde_json::{Value, json};

use super::*;
use crate::running::pool_state;

/// A data directory with a configuration file.
struct Server {
    root: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

impl Server {
    fn empty(name: &str) -> Self {
        let root =
            std::env::temp_dir().join(format!("avocet-backup-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("data")).unwrap();
        let server = Self { root };
        fs::write(server.file(), server.configuration("")).unwrap();
        server
    }

    /// Returns a server whose files contain this mark.
    fn new(name: &str, mark: &str) -> Self {
        let server = Self::empty(name);
        let mut store = Store::open(&server.data().join("revisions")).unwrap();
        let text = server.configuration(&format!("# {mark}\n"));
        let new = Submission {
            at_secs: 7,
            origin: ChangeOrigin::Start,
            author: None,
            source: None,
            comment: Some(mark.to_owned()),
        };
        store.add(&text, new, (9, &[])).unwrap();
        fs::write(server.file(), text).unwrap();
        let switches =
            json!({"pauses": [], "grants": [{"name": mark, "scope": "all", "until": 9}]});
        server.put("switches.json", &switches.to_string());
        server.put("access.json", r#"{"version":1,"users":[],"tokens":[]}"#);
        server.put("audit.jsonl", &format!("{{\"who\":\"{mark}\"}}\n"));
        server
    }

    fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    fn file(&self) -> PathBuf {
        self.root.join("avocet.toml")
    }

    fn configuration(&self, rest: &str) -> String {
        format!("{rest}[data]\ndirectory = \"{}\"\n", self.data().display())
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.data().join(name), text).unwrap();
    }

    fn backup(&self) -> String {
        let source = BackupSource {
            directory: self.data(),
            configuration: Some(fs::read_to_string(self.file()).unwrap()),
            query_log: Some(self.data().join("query-log")),
            at: 1_000,
        };
        let mut text = String::new();
        let end = write(&source, &mut |line| {
            text += &serde_json::to_string(&line).unwrap();
            text.push('\n');
            Ok(())
        });
        let mut end = serde_json::to_value(end.unwrap()).unwrap();
        end["done"] = Value::Bool(true);
        format!("{text}{end}\n")
    }

    fn keep(&self, backup: &str) -> PathBuf {
        let path = self.root.join("backup.jsonl");
        fs::write(&path, backup).unwrap();
        path
    }

    fn restore(&self, backup: &str) -> Result<BackupFacts, BackupError> {
        let file = self.file();
        let directory = self.data();
        let place = Place { directory: &directory, configuration: Some(&file) };
        restore(&self.keep(backup), place, 2_000)
    }

    fn check(&self, backup: &str) -> Result<BackupFacts, BackupError> {
        let (file, directory) = (self.file(), self.data());
        check(&self.keep(backup), Place { directory: &directory, configuration: Some(&file) })
    }

    /// Returns the content of all files that a backup has, and of the configuration.
    fn state(&self) -> BTreeMap<String, String> {
        let mut state = BTreeMap::new();
        for directory in ["", "revisions/", "query-log/"] {
            for entry in fs::read_dir(self.data().join(directory)).into_iter().flatten() {
                let name = format!("{directory}{}", entry.unwrap().file_name().to_str().unwrap());
                let path = self.data().join(&name);
                if path.is_file() {
                    let octets = fs::read(path).unwrap();
                    state.insert(name, String::from_utf8_lossy(&octets).into_owned());
                }
            }
        }
        state.insert(CONFIGURATION.to_owned(), fs::read_to_string(self.file()).unwrap());
        state
    }
}

/// Returns the backup of one server as a backup of another server with another directory.
fn moved(backup: &str, from: &Server, to: &Server) -> String {
    let (from, to) = (from.data(), to.data());
    let mut lines: Vec<Value> =
        backup.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &mut lines {
        if line["file"] == CONFIGURATION {
            let text = line["text"].as_str().unwrap();
            let text = text.replace(from.to_str().unwrap(), to.to_str().unwrap());
            line["text"] = Value::from(text);
        }
    }
    sealed(&lines[..lines.len() - 1])
}

/// Adds the end to lines of a backup.
fn sealed(lines: &[Value]) -> String {
    let head = serde_json::from_value(lines[0].clone()).unwrap();
    let (mut digest, mut octets) = (read::BackupDigest::of(&head), 0);
    let mut names: Vec<&str> = Vec::new();
    for line in &lines[1..] {
        let name = line["file"].as_str().unwrap_or_default();
        let data = line["data"].as_str().map(|data| data_encoding::BASE64.decode(data.as_bytes()));
        let data = data.transpose().unwrap();
        let text = data.unwrap_or_else(|| line["text"].as_str().unwrap_or_default().into());
        digest.add(name, &text);
        octets += text.len();
        if names.last() != Some(&name) {
            names.push(name);
        }
    }
    let end = json!({"done": true, "files": names.len(), "octets": octets,
                     "sha256": digest.finish()});
    lines.iter().chain([&end]).map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_restore_brings_back_all_files_and_keeps_those_that_it_replaces() {
    let server = Server::new("back", "one");
    fs::create_dir(server.data().join("query-log")).unwrap();
    fs::write(server.data().join("query-log/queries-1.parquet"), [0xff, 0, 10]).unwrap();
    fs::write(server.data().join("query-log/lock"), "").unwrap();
    let (backup, before) = (server.backup(), server.state());
    assert!(!backup.contains("query-log/lock"));

    fs::remove_dir_all(server.data()).unwrap();
    fs::create_dir(server.data()).unwrap();
    let other = Server::new("back-other", "two");
    for (name, text) in other.state() {
        if name != CONFIGURATION {
            fs::create_dir_all(server.data().join(&name).parent().unwrap()).unwrap();
            server.put(&name, &text);
        }
    }
    server.put("trust-anchors.state", "not in the backup");
    fs::write(server.file(), server.configuration("# two\n")).unwrap();

    let facts = server.restore(&backup).unwrap();
    assert_eq!((facts.at, facts.files), (1_000, 6));
    let mut after = server.state();
    let audit = after.remove("audit.jsonl").unwrap();
    assert!(audit.starts_with(&before["audit.jsonl"]) && audit.contains("\"restore\""), "{audit}");
    let mut expected = before;
    expected.remove("audit.jsonl");
    expected.remove("query-log/lock");
    assert_eq!(after, expected);
    let kept = server.data().join("restored-2000/before");
    assert!(fs::read_to_string(kept.join("switches.json")).unwrap().contains("two"));
    assert_eq!(fs::read_to_string(kept.join("trust-anchors.state")).unwrap(), "not in the backup");
    assert!(kept.join("revisions/1.revision").exists() && kept.join("audit.jsonl").exists());
    let replaced = server.data().join("restored-2000/configuration.before");
    assert!(fs::read_to_string(replaced).unwrap().starts_with("# two\n"));
    for name in ["access.json", "revisions/1.revision", "restored-2000/backup.jsonl"] {
        let mode = fs::metadata(server.data().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

/// Returns the entries of the query log: its files of blocks.
fn log_files(server: &Server) -> Vec<(String, String)> {
    server.state().into_iter().filter(|(name, _)| name.ends_with(".blocks")).collect()
}

#[test]
fn the_query_log_of_another_server_does_not_hide_that_of_the_backup() {
    const FIRST: &str = "query-log/head-0000000000000000.blocks";
    const NEXT: &str = "query-log/head-0000000000000007.blocks";
    let server = Server::new("log", "one");
    fs::create_dir(server.data().join("query-log")).unwrap();
    server.put("query-log/pseudonym.key", "0123456789abcdef");
    server.put(FIRST, "seven");
    let backup = server.backup();

    // The same log has grown meanwhile.
    server.put(FIRST, "seven and more");
    server.put(NEXT, "next");
    let grown = log_files(&server);
    assert_eq!(server.restore(&backup).unwrap().replaced_log, None);
    assert_eq!(log_files(&server), grown);

    // Another server began its log at the same id.
    server.put("query-log/pseudonym.key", "another one here");
    server.put(FIRST, "seven, too");
    let facts = server.restore(&backup).unwrap();
    let log = facts.replaced_log.unwrap();
    assert_eq!(log_files(&server), [(FIRST.to_owned(), "seven".to_owned())]);
    assert_eq!(
        fs::read_to_string(server.data().join("query-log/pseudonym.key")).unwrap(),
        "0123456789abcdef"
    );
    assert!(log.starts_with(server.data()) && log.join("head-0000000000000007.blocks").exists());

    // The next start completes moving a log after a crash.
    let pending = server.data().join("restore.pending");
    let (file, directory) = (server.file(), server.data());
    let place = Place { directory: &directory, configuration: Some(&file) };
    place_upload(&server.keep(&backup), &directory).unwrap();
    stage(place).unwrap();
    server.put(NEXT, "of another log");
    fs::create_dir_all(pending.join("query-log.before")).unwrap();
    fs::create_dir(pending.join("before")).unwrap();
    let moved = server.data().join(FIRST);
    fs::rename(moved, pending.join("query-log.before/head-0000000000000000.blocks")).unwrap();
    let log = finish(place, 3_000).unwrap().unwrap().replaced_log.unwrap();
    assert_eq!(log_files(&server), [(FIRST.to_owned(), "seven".to_owned())]);
    assert!(log.join("head-0000000000000007.blocks").exists());

    // Two servers continued copies of the same log.
    server.put(FIRST, "seve and other entries");
    assert!(server.restore(&backup).unwrap().replaced_log.is_some());
    assert_eq!(log_files(&server), [(FIRST.to_owned(), "seven".to_owned())]);
}

#[test]
fn decisions_about_addresses_of_pools_come_back() {
    let server = Server::new("pools", "one");
    let text = |control: &str| {
        format!(
            "{{\"saved_at\":7,\"addresses\":[{{\"pool\":\"www.corp.example.\",\"address\":\
             \"192.0.2.1\",\"state\":\"up\",\"control\":\"{control}\"}}]}}"
        )
    };
    server.put("pools.json", &text("down"));
    let backup = server.backup();
    server.put("pools.json", &text("up"));
    server.restore(&backup).unwrap();
    assert_eq!(server.state()["pools.json"], text("down"));
    // The server ignores the old health of the address, and keeps the setting of the operator.
    let saved = pool_state::load(&server.data(), 1_000_000);
    assert!(saved.states.is_empty());
    assert_eq!(saved.controls.into_values().collect::<Vec<_>>(), [MemberControl::Down]);
}

#[test]
fn certificates_come_back_as_a_whole_and_stay_if_the_backup_has_none() {
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\n";
    let server = Server::new("certificates", "one");
    let without = server.backup();
    let put = |name: &str, text: &str| {
        fs::create_dir_all(server.data().join(name).parent().unwrap()).unwrap();
        server.put(name, text);
    };
    let read = |name: &str| fs::read_to_string(server.data().join(name)).unwrap();
    put("home-ca/authority.key", KEY);
    put("home-ca/authority.key.new", "half of it");
    put("acme/account.json", "{\"url\":\"one\"}\n");
    put("keys/zone.key", "another kind of key");
    let backup = server.backup();
    assert!(!backup.contains("half of it") && !backup.contains("another kind"), "{backup}");
    put("home-ca/authority.key", &KEY.replace("PRIVATE", "OTHER"));
    put("home-ca/certificate.pem", "issued by the other");
    fs::remove_dir_all(server.data().join("acme")).unwrap();
    let inode = || fs::metadata(server.data().join("home-ca")).unwrap().ino();
    let before = inode();
    server.restore(&backup).unwrap();
    assert_eq!(inode(), before, "the directory may be a mount point");
    assert_eq!((read("home-ca/authority.key").as_str(), read("keys/zone.key").len()), (KEY, 19));
    assert!(read("acme/account.json").contains("one"));
    assert!(!server.data().join("home-ca/certificate.pem").exists(), "it belongs to the other");
    let kept = "restored-2000/before/home-ca";
    assert!(read(&format!("{kept}/authority.key")).contains("OTHER"));
    assert_eq!(read(&format!("{kept}/certificate.pem")), "issued by the other");
    let mode =
        |name: &str| fs::metadata(server.data().join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("home-ca/authority.key"), mode("acme/account.json")), (0o600, 0o600));
    assert_eq!((mode("acme"), mode(kept)), (0o700, 0o700));
    server.restore(&without).unwrap();
    assert_eq!(read("home-ca/authority.key"), KEY);
}

#[test]
fn a_damaged_certificate_file_is_left_out_and_the_rest_is_restored() {
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\n";
    let server = Server::new("unusable-certificates", "one");
    let put = |name: &str, text: &str| {
        fs::create_dir_all(server.data().join(name).parent().unwrap()).unwrap();
        server.put(name, text);
    };
    let read = |name: &str| fs::read_to_string(server.data().join(name)).unwrap();
    put("acme/account.json", "{\"url\":\"one\"}\n");
    put("acme/state.json", "");
    put("home-ca/authority.key", "");
    put("home-ca/authority.pem", "-----BEGIN CERTIFICATE-----\n");
    let backup = server.backup();
    assert!(!backup.contains("state.json") && !backup.contains("authority.key"), "{backup}");
    assert!(server.check(&backup).unwrap().left_out.is_empty());
    // A backup without the private key of an authority does not replace a complete authority.
    put("home-ca/authority.key", KEY);
    put("home-ca/authority.pem", "of this key");
    server.restore(&backup).unwrap();
    assert_eq!(
        (read("home-ca/authority.key").as_str(), read("home-ca/authority.pem").as_str()),
        (KEY, "of this key")
    );

    // A backup that contains damaged files nevertheless.
    let lines: Vec<Value> =
        backup.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let bad = [("acme/state.json", "{"), ("home-ca/authority.key", "no key")];
    let bad = bad.map(|(file, text)| json!({"file": file, "text": text}));
    let lines = [&lines[..lines.len() - 1], &bad].concat();
    put("acme/state.json", "{\"later\":1}");
    put("acme/account.json", "{\"url\":\"two\"}\n");
    server.put("switches.json", "{\"pauses\": [], \"grants\": []}");
    let facts = server.restore(&sealed(&lines)).unwrap();
    let left_out: Vec<&str> = facts.left_out.iter().map(|one| one.file.as_str()).collect();
    assert_eq!(left_out, ["acme/state.json", "home-ca/authority.key"]);
    assert!(facts.left_out[1].reason.contains("PEM"));
    assert!(read("switches.json").contains("one") && read("acme/account.json").contains("one"));
    assert!(!server.data().join("acme/state.json").exists(), "it belongs to the other account");
    assert_eq!(read("home-ca/authority.key"), KEY);
    assert!(!server.data().join("acme/state.json.restored").exists());
}

#[test]
fn a_backup_that_is_cut_or_changed_anywhere_changes_nothing() {
    let server = Server::new("damaged", "one");
    let (backup, before) = (server.backup(), server.state());
    assert!(server.check(&backup).is_ok());
    for len in 0..backup.len() {
        assert!(server.check(&backup[..len]).is_err(), "cut at {len}");
    }
    for at in 0..backup.len() {
        let mut octets = backup.clone().into_bytes();
        octets[at] ^= 1;
        fs::write(server.root.join("backup.jsonl"), &octets).unwrap();
        let (file, directory) = (server.file(), server.data());
        let place = Place { directory: &directory, configuration: Some(&file) };
        assert!(check(&server.root.join("backup.jsonl"), place).is_err(), "changed at {at}");
    }
    assert!(server.restore(&backup[..backup.len() - 9]).is_err());
    assert!(server.restore(&format!("{backup}{{}}\n")).is_err());
    assert_eq!(server.state(), before);
}

#[test]
fn a_file_that_no_backup_has_is_refused() {
    for name in [
        "../avocet.toml",
        "/etc/passwd",
        "revisions/../access.json",
        "revisions/01.revision",
        "revisions/1.revision.new",
        "query-log/../access.json",
        "query-log/.parquet",
        "query-log/a/b.parquet",
        "audit.0.jsonl",
        "audit.10.jsonl",
        "control.sock",
        "acme/other",
        "acme/../access.json",
        "acme",
        "home-ca/authority.key.new",
        "home-ca/state.json",
        "restore.pending",
        "",
    ] {
        assert_eq!(FileKind::of(name), None, "{name}");
    }
    let server = Server::empty("names");
    let head = json!({"avocet-backup": 1, "version": "1", "at": 1});
    let piece = json!({"file": "../avocet.toml", "text": "x"});
    let refused = server.check(&sealed(&[head, piece]));
    assert!(matches!(refused, Err(BackupError::Name(_))), "{refused:?}");
}

#[test]
fn what_a_file_means_is_checked_before_anything_is_replaced() {
    let server = Server::new("content", "one");
    let before = server.state();
    let head = json!({"avocet-backup": 1, "version": "1", "at": 1});
    let check = |file: &str, text: &str, expected: &str| {
        let backup = sealed(&[head.clone(), json!({"file": file, "text": text})]);
        let error = server.restore(&backup).unwrap_err().to_string();
        assert!(error.contains(expected), "{file}: {error}");
    };
    check(CONFIGURATION, "[policy]\nblok = 1\n", "has errors");
    check(CONFIGURATION, "[data]\ndirectory = \"/elsewhere\"\n", "/elsewhere");
    check("access.json", "{}", "cannot be used");
    check("access.json", r#"{"version":9,"users":[],"tokens":[]}"#, "version 9");
    check("switches.json", "[", "cannot be used");
    check("pools.json", "{}", "cannot be used");
    check("revisions/1.revision", "{}\n", "checksum");
    check("trust-anchors.state", "x", "checksum");
    let version = json!({"avocet-backup": 2, "version": "9", "at": 1});
    let refused = server.check(&sealed(&[version]));
    assert!(matches!(refused, Err(BackupError::Version(2))), "{refused:?}");
    let twice = [json!({"file": "switches.json", "text": "{}"}), json!({"file": "audit.jsonl"})];
    let [one, other] = twice;
    assert!(server.check(&sealed(&[head.clone(), one.clone(), other, one])).is_err());
    assert_eq!(server.state(), before);
}

/// Changes the directory as a restore that crashes after `steps` renames would.
fn interrupted(server: &Server, steps: usize) {
    let (pending, directory) = (server.data().join("restore.pending"), server.data());
    let names = ["access.json", "audit.jsonl", "revisions", "switches.json"];
    let mut done = 0;
    let mut step = |from: PathBuf, to: PathBuf| {
        done += 1;
        if done <= steps {
            fs::rename(from, to).unwrap();
        }
    };
    for name in names {
        step(directory.join(name), pending.join("before").join(name));
        step(pending.join("new").join(name), directory.join(name));
    }
}

#[test]
fn a_crash_in_the_middle_is_completed_at_the_next_start() {
    let source = Server::new("crash-source", "one");
    for steps in 0..=8 {
        let server = Server::new("crash", "two");
        let backup = moved(&source.backup(), &source, &server);
        let (file, directory) = (server.file(), server.data());
        let place = Place { directory: &directory, configuration: Some(&file) };
        place_upload(&server.keep(&backup), &directory).unwrap();
        stage(place).unwrap();
        assert!(has_pending(&directory).unwrap() && !has_begun(&directory));
        assert!(server.state()["switches.json"].contains("two"), "it waits");
        restore::unpack(&directory.join("restore.pending")).unwrap();
        fs::create_dir(directory.join("restore.pending/before")).unwrap();
        interrupted(&server, steps);
        assert!(matches!(stage(place), Err(BackupError::Begun)));
        finish(place, 5).unwrap().unwrap();
        assert!(!has_pending(&directory).unwrap());
        let state = server.state();
        assert!(state["switches.json"].contains("one"), "{steps}");
        assert!(state[CONFIGURATION].starts_with("# one"), "{steps}");
        assert!(state["revisions/1.revision"].contains("\"one\""), "{steps}");
        let kept = fs::read_to_string(directory.join("restored-5/before/switches.json")).unwrap();
        assert!(kept.contains("two"), "{steps}");
        assert!(finish(place, 6).unwrap().is_none());
    }
}

#[test]
fn a_restore_that_waits_is_shown_and_can_be_cancelled_until_it_begins() {
    let server = Server::new("cancel", "one");
    let before = server.state();
    let (file, directory) = (server.file(), server.data());
    let place = Place { directory: &directory, configuration: Some(&file) };
    assert!(waiting(&directory).is_none());
    assert!(matches!(cancel(&directory), Err(BackupError::NoneWaits)));
    place_upload(&server.keep(&server.backup()), &directory).unwrap();
    let staged = stage(place).unwrap();
    let shown = waiting(&directory).unwrap();
    assert_eq!((&shown.version, shown.at), (&staged.version, staged.at));
    assert_eq!(cancel(&directory).unwrap(), shown);
    assert!(finish(place, 5).unwrap().is_none() && !directory.join("restore.pending").exists());
    assert_eq!(server.state(), before);
    place_upload(&server.keep(&server.backup()), &directory).unwrap();
    stage(place).unwrap();
    fs::create_dir(directory.join("restore.pending/before")).unwrap();
    assert!(matches!(cancel(&directory), Err(BackupError::Begun)));
}

#[test]
fn a_backup_with_another_account_is_refused() {
    let server = Server::new("account", "one");
    let with = |lines: &str| server.configuration(&format!("[server]\n{lines}\n"));
    let user = "user = \"avocet\"\ncontrol-group = \"adm\"";
    let backup_with = |text: &str| {
        let head = json!({"avocet-backup": 1, "version": "1", "at": 1});
        sealed(&[head, json!({"file": CONFIGURATION, "text": text})])
    };
    // Nothing is said about the account.
    assert!(server.check(&backup_with(&with(user))).is_ok());
    fs::write(server.file(), with(user)).unwrap();
    assert!(server.check(&backup_with(&with(&format!("workers = 1\n{user}")))).is_ok());
    for other in ["", "user = \"avocet\"", &user.replace("adm", "disk"), "user = \"root\""] {
        let refused = server.check(&backup_with(&with(other)));
        assert!(matches!(refused, Err(BackupError::OtherAccount(_))), "{other}: {refused:?}");
    }
}

#[test]
fn numbers_of_revisions_that_a_restore_replaces_are_not_given_again() {
    let server = Server::new("numbers", "one");
    let (file, directory) = (server.file(), server.data());
    let place = Place { directory: &directory, configuration: Some(&file) };
    let backup = server.keep(&server.backup());
    server.put("revisions/41.revision", "later");
    place_upload(&backup, &directory).unwrap();
    stage(place).unwrap();
    finish(place, 5).unwrap().unwrap();
    assert!(!directory.join("revisions/41.revision").exists());
    assert_eq!(avocet_revisions::store::last_number(&directory.join("revisions")), 41);
}

#[test]
fn a_backup_that_cannot_be_used_at_the_start_changes_nothing() {
    let server = Server::new("unusable", "one");
    let before = server.state();
    let (file, directory) = (server.file(), server.data());
    let place = Place { directory: &directory, configuration: Some(&file) };
    place_upload(&server.keep(&server.backup()), &directory).unwrap();
    stage(place).unwrap();
    fs::write(directory.join("restore.pending/backup.jsonl"), "{}\n").unwrap();
    assert!(finish(place, 5).is_err());
    assert!(!has_begun(&directory));
    assert_eq!(server.state(), before);
    // Another backup replaces the waiting one.
    place_upload(&server.keep(&server.backup()), &directory).unwrap();
    assert!(stage(place).is_ok() && finish(place, 5).unwrap().is_some());
}

#[test]
fn damaged_revisions_are_not_part_of_a_backup() {
    let server = Server::new("revision", "one");
    server.put("revisions/2.revision", "damaged");
    let backup = server.backup();
    assert!(!backup.contains("2.revision"));
    assert!(server.check(&backup).is_ok());
}
