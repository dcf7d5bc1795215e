//! Revisions of a configuration file that people and programs change in turn.

use std::fs;
use std::sync::Arc;

use avocet_config::Config;
use avocet_config::edit::KeyEdit;
use avocet_control::ControlError;
use avocet_control::revisions::ChangeReach;
use avocet_nameserver::policy::Parts;
use avocet_nameserver::query::cookie::CookieSecrets;
use avocet_nameserver::snapshot::{Snapshot, Unconfigured};
use avocet_nameserver::zone_files::ZoneFiles;
use avocet_resolver::LocalRootSlot;

use super::*;

/// A server without workers, with a configuration file and a data directory.
struct Site {
    directory: PathBuf,
    file: PathBuf,
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

const TEXT: &str = "# ours\n[policy] # filter\nblock-ttl-secs = 60 # a minute\n";
const ON_PROBATION: &str = "[config]\nprobation-secs = 60\n";

impl Site {
    fn new(test: &str, text: &str) -> Self {
        let name = format!("avocet-server-revisions-{test}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("avocet.toml");
        fs::write(&file, text).unwrap();
        Self { directory, file }
    }

    /// Starts a server, such as after a crash of the previous one.
    fn start(&self) -> Reloader {
        let unconfigured = Unconfigured {
            limiter: [3; 32],
            cookies: CookieSecrets { current: [5; 16], previous: None },
            trust: Arc::default(),
            certificates: Arc::default(),
            upstream_addresses: Arc::default(),
            zones: Arc::default(),
            local_root: LocalRootSlot::default(),
            own_networks: Arc::default(),
            reserved_ports: Arc::default(),
            drops: 0,
        };
        let text = self.text();
        let config = Config::from_text(Some(&self.file), &text, &Default::default()).unwrap();
        let snapshot = Snapshot::first(config, &unconfigured, Parts::new([8; 32])).unwrap();
        let tls = avocet_worker::certificates::TlsListeners::load(&snapshot.config).unwrap();
        let tls = (tls, avocet_worker::upstream_tls::UpstreamPeers::default());
        let shared = Arc::new(Shared::new(snapshot, Vec::new(), [7; 32], tls).unwrap());
        let revisions = Revisions::begin(&self.directory, Some(self.file.clone()), &text);
        Reloader::new(
            Some(self.file.clone()),
            shared,
            (unconfigured, ZoneFiles::default()),
            revisions,
        )
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }

    /// Replaces the text of the file, as editors do.
    fn save(&self, text: &str) {
        let beside = self.directory.join("saved");
        fs::write(&beside, text).unwrap();
        fs::rename(&beside, &self.file).unwrap();
    }
}

fn set(reloader: &Reloader, key: &str, value: &str) -> Result<u32, BackgroundError> {
    let edit = KeyEdit { key, value: Some(value) };
    let done = reloader.edit(&[edit], None, Submitter::default())?;
    Ok(done.revision.unwrap())
}

fn roll_back(reloader: &Reloader, number: u32) -> Result<u32, BackgroundError> {
    let done = reloader.roll_back(number, ChangeOrigin::Rollback, Submitter::default())?;
    Ok(done.revision.unwrap())
}

/// Returns the numbers and origins of all revisions.
fn history(reloader: &Reloader) -> Vec<(u32, ChangeOrigin)> {
    let read = |store: &Store| Ok(store.all().map(|one| (one.number, one.origin)).collect());
    reloader.revisions.read(read).unwrap()
}

fn text_of(reloader: &Reloader, number: u32) -> String {
    reloader.revisions.read(|store| store.text(number)).unwrap()
}

#[test]
fn one_proposed_configuration_is_checked_at_a_time() {
    let site = Site::new("checks", TEXT);
    let reloader = site.start();
    let edits = [KeyEdit { key: "policy.block-ttl-secs", value: Some("7") }];
    let first = reloader.turn_to_check(Duration::ZERO).unwrap();
    // The first check is in progress, whether its client still waits or not.
    let second = reloader.turn_to_check(Duration::ZERO);
    assert!(matches!(second, Err(ControlError::TooManyChecks)));
    let checked = reloader.check_edit(&edits, ChangeReach::All, &first).unwrap();
    assert_eq!(checked.changed, TEXT.replace("60", "7"));
    assert_eq!((checked.present.as_str(), site.text().as_str()), (TEXT, TEXT));
    drop(first);
    let next = reloader.turn_to_check(Duration::ZERO).unwrap();
    let text = "[policy]\nblock-ttl-secs = true\n";
    assert!(reloader.check_text(text, ChangeReach::All, &next).is_err());
}

#[test]
fn edits_by_hand_and_by_command_in_turn_lose_nothing() {
    let site = Site::new("turns", TEXT);
    let reloader = site.start();
    for round in 1..=100_u32 {
        match round % 3 {
            0 => {
                let by_hand = format!("{}# by hand {round}\n", site.text());
                site.save(&by_hand);
                reloader.reload().unwrap();
            }
            1 => drop(set(&reloader, "policy.block-ttl-secs", &round.to_string()).unwrap()),
            _ => {
                // The file is not in force yet when the command arrives.
                site.save(&format!("{}# saved {round}\n", site.text()));
                set(&reloader, "cache.prefetch", if round % 2 == 0 { "true" } else { "false" })
                    .unwrap();
            }
        }
        let in_force = reloader.revisions.in_force().unwrap();
        assert_eq!(text_of(&reloader, in_force), site.text(), "round {round}");
        assert_eq!(reloader.revisions.text(), site.text());
    }
    let text = site.text();
    assert!(text.starts_with("# ours\n[policy] # filter\n"), "{text}");
    assert!(text.contains("block-ttl-secs = 100 # a minute\n"), "{text}");
    for round in 1..=100 {
        match round % 3 {
            0 => assert!(text.contains(&format!("# by hand {round}\n")), "{round}"),
            2 => assert!(text.contains(&format!("# saved {round}\n")), "{round}"),
            _ => {}
        }
    }
}

#[test]
fn a_rollback_restores_the_text_in_force_and_in_the_file() {
    let site = Site::new("rollback", TEXT);
    let reloader = site.start();
    assert_eq!(set(&reloader, "policy.block-ttl-secs", "30").unwrap(), 2);
    assert_eq!(roll_back(&reloader, 1).unwrap(), 3);
    assert_eq!(site.text(), TEXT);
    site.save("[policy\n");
    assert!(reloader.reload().is_err());
    assert_eq!(roll_back(&reloader, 2).unwrap(), 5);
    assert!(site.text().contains("= 30"));
    assert_eq!(text_of(&reloader, 4), "[policy\n", "the file with errors is kept");
    let origins: Vec<_> = history(&reloader).into_iter().map(|(_, origin)| origin).collect();
    let expected = [
        ChangeOrigin::Start,
        ChangeOrigin::Edit,
        ChangeOrigin::Rollback,
        ChangeOrigin::Refused,
        ChangeOrigin::Rollback,
    ];
    assert_eq!(origins, expected);
    assert!(matches!(
        roll_back(&reloader, 9),
        Err(BackgroundError::Revision(RevisionError::Unknown(9)))
    ));
}

#[test]
fn a_change_that_is_invalid_changes_nothing() {
    let site = Site::new("invalid", TEXT);
    let reloader = site.start();
    for (key, value) in [
        ("policy.block-ttl-secs", "\"x\""),
        ("policy.unknown", "1"),
        ("server.listen", "[]"),
        ("nothing", "1"),
        ("rule[none].enabled", "true"),
    ] {
        assert!(set(&reloader, key, value).is_err(), "{key}");
        assert_eq!((site.text().as_str(), reloader.revisions.in_force()), (TEXT, Some(1)), "{key}");
    }
    let edit = [KeyEdit { key: "policy.block-ttl-secs", value: Some("5") }];
    let other = reloader.edit(&edit, Some(7), Submitter::default());
    assert!(matches!(other, Err(BackgroundError::OtherRevision(Some(1)))));
    site.save("[");
    assert!(set(&reloader, "policy.block-ttl-secs", "5").is_err(), "the file has errors");
    assert_eq!(site.text(), "[", "the edit by hand stays");
    assert_eq!(history(&reloader).len(), 1);
}

#[test]
fn a_probation_is_no_longer_if_the_clock_is_set_back() {
    let site = Site::new("probation-clock", &format!("{TEXT}{ON_PROBATION}"));
    let reloader = site.start();
    set(&reloader, "policy.block-ttl-secs", "30").unwrap();
    let before = reloader.revisions.probation().unwrap().until_secs;
    reloader.revisions.end_probation_earlier(3_600);
    assert_eq!(reloader.revisions.probation().unwrap().until_secs, before - 3_600);
}

#[test]
fn a_probation_is_no_longer_after_a_start_with_an_earlier_clock() {
    const AHEAD_SECS: u64 = 5 * 86_400;
    let site = Site::new("probation-start", &format!("{TEXT}{ON_PROBATION}"));
    let reloader = site.start();
    set(&reloader, "policy.block-ttl-secs", "30").unwrap();
    let before = reloader.revisions.probation().unwrap();
    drop(reloader);
    // The file that a server leaves whose clock is ahead.
    let ahead = Probation {
        until_secs: before.until_secs + AHEAD_SECS,
        saved_at_secs: before.saved_at_secs + AHEAD_SECS,
        ..before.clone()
    };
    let path = site.directory.join(DIRECTORY).join("probation.json");
    fs::write(&path, serde_json::to_string(&ahead).unwrap()).unwrap();
    for _ in 0..2 {
        let until_secs = site.start().revisions.probation().unwrap().until_secs;
        assert!((before.until_secs..before.until_secs + 60).contains(&until_secs), "{until_secs}");
    }
}

#[test]
fn a_revision_that_nobody_confirms_is_rolled_back_in_time() {
    let site = Site::new("probation", &format!("{TEXT}{ON_PROBATION}"));
    let reloader = site.start();
    set(&reloader, "policy.block-ttl-secs", "30").unwrap();
    set(&reloader, "policy.block-ttl-secs", "20").unwrap();
    let probation = reloader.revisions.probation().unwrap();
    assert_eq!((probation.revision, probation.fallback), (3, 1));
    let tick = |now| reloader.judge_probation((now, now), Health::default(), None);
    tick(probation.until_secs - 1);
    assert_eq!(reloader.revisions.in_force(), Some(3));
    tick(probation.until_secs);
    assert_eq!(site.text(), format!("{TEXT}{ON_PROBATION}"));
    assert_eq!(reloader.revisions.in_force(), Some(4));
    assert_eq!(history(&reloader).last(), Some(&(4, ChangeOrigin::Probation)));
    assert_eq!(reloader.revisions.probation(), None);
    tick(probation.until_secs + 1_000);
    assert_eq!(reloader.revisions.in_force(), Some(4));
}

#[test]
fn a_confirmed_revision_stays_and_a_bad_one_falls_before_its_time() {
    let site = Site::new("confirmed", &format!("{TEXT}{ON_PROBATION}"));
    let reloader = site.start();
    let tick = |at_secs, health: Health, unresolved: Option<&str>| {
        let health = Health { at_secs, ..health };
        reloader.judge_probation((0, 0), health, unresolved.map(str::to_owned));
    };
    let usual = Health { queries: 1_000, waited: 1_000, ..Health::default() };
    tick(0, Health::default(), None);
    tick(100, usual, None);
    set(&reloader, "policy.block-ttl-secs", "30").unwrap();
    assert_eq!(reloader.revisions.confirm(), Some(2));
    assert_eq!(reloader.revisions.confirm(), None);
    reloader.judge_probation((u64::MAX, 1), Health { at_secs: 100, ..usual }, None);
    assert_eq!(reloader.revisions.in_force(), Some(2));

    set(&reloader, "policy.block-ttl-secs", "20").unwrap();
    let failing = Health { queries: 1_050, failed: 50, ..usual };
    tick(104, failing, None);
    assert_eq!(reloader.revisions.in_force(), Some(3), "answers may be missing by chance");
    tick(110, failing, None);
    assert_eq!(reloader.revisions.in_force(), Some(4), "most queries fail");
    set(&reloader, "policy.block-ttl-secs", "10").unwrap();
    tick(110, failing, Some("no server responds"));
    assert_eq!(reloader.revisions.in_force(), Some(6), "no name is resolved");
    assert!(site.text().contains("= 30"));
    set(&reloader, "policy.block-ttl-secs", "5").unwrap();
    tick(120, Health { waited: 1_050, slow: 50, ..failing }, None);
    assert_eq!(reloader.revisions.in_force(), Some(8), "most answers are slow");
    let counts = reloader.revisions.rollbacks.each_ref().map(|one| one.load(Ordering::Relaxed));
    assert_eq!(counts, [0, 1, 1, 1]);
}

#[test]
fn a_file_changed_before_a_restart_is_on_probation_too() {
    let site = Site::new("offline", &format!("{TEXT}{ON_PROBATION}"));
    let first = site.text();
    let reloader = site.start();
    set(&reloader, "policy.block-ttl-secs", "30").unwrap();
    reloader.revisions.end_probation_earlier(40);
    drop(reloader);
    fs::write(&site.file, site.text().replace("= 30", "= 20")).unwrap();
    let reloader = site.start();
    let probation = reloader.revisions.probation().unwrap();
    assert_eq!((probation.revision, probation.fallback), (3, 1));
    reloader.judge_probation((probation.until_secs, 0), Health::default(), None);
    assert_eq!(site.text(), first);

    set(&reloader, "policy.block-ttl-secs", "30").unwrap();
    drop(reloader);
    fs::write(&site.file, &first).unwrap();
    assert_eq!(site.start().revisions.probation(), None, "the file is the fallback again");
}

#[test]
fn a_probation_goes_on_after_a_restart() {
    let site = Site::new("restart", &format!("{TEXT}{ON_PROBATION}"));
    set(&site.start(), "policy.block-ttl-secs", "30").unwrap();
    let reloader = site.start();
    let probation = reloader.revisions.probation().unwrap();
    assert_eq!((reloader.revisions.in_force(), probation.fallback), (Some(2), 1));
    reloader.judge_probation((probation.until_secs, 0), Health::default(), None);
    assert!(site.text().contains("= 60"));
    assert_eq!(site.start().revisions.probation(), None);
}

#[test]
fn a_crash_between_the_steps_of_a_change_loses_no_text() {
    let site = Site::new("crash", TEXT);
    let (new, config) = (TEXT.replace("60", "30"), RevisionsConfig { probation_secs: 0, keep: 9 });
    let change = |write| Change { origin: ChangeOrigin::Edit, by: Submitter::default(), write };

    // Crash after the revision was stored: the file still has the text before.
    let reloader = site.start();
    reloader.revisions.keep(&new, &change(FileWrite::Done), &config).unwrap();
    let reloader = site.start();
    assert_eq!(site.text(), TEXT);
    assert_eq!(text_of(&reloader, reloader.revisions.in_force().unwrap()), TEXT);
    assert_eq!(text_of(&reloader, 2), new);

    // Crash after the file was written: the next start puts the text in force.
    let write = FileWrite::Must(TEXT.to_owned());
    let kept = reloader.revisions.keep(&new, &change(write), &config).unwrap();
    let reloader = site.start();
    assert_eq!((site.text(), reloader.revisions.in_force()), (new, kept.number));
}

#[test]
fn a_file_that_cannot_be_written_refuses_commands_and_no_automatic_rollback() {
    let site = Site::new("unwritable", &format!("{TEXT}{ON_PROBATION}"));
    let reloader = site.start();
    set(&reloader, "policy.block-ttl-secs", "30").unwrap();
    fs::remove_file(&site.file).unwrap();
    assert!(set(&reloader, "policy.block-ttl-secs", "20").is_err());
    assert!(roll_back(&reloader, 1).is_err());
    assert_eq!(reloader.revisions.in_force(), Some(2));
    reloader.judge_probation((u64::MAX, 0), Health::default(), None);
    assert_eq!(reloader.revisions.text(), format!("{TEXT}{ON_PROBATION}"));
    assert!(reloader.revisions.unwritten().is_some());
}

#[test]
fn a_text_that_was_rolled_back_is_not_taken_again_before_the_file_changes() {
    let site = Site::new("again", &format!("{TEXT}{ON_PROBATION}"));
    let reloader = site.start();
    set(&reloader, "policy.block-ttl-secs", "30").unwrap();
    let rolled_back = site.text();
    // The file cannot be replaced.
    let obstacle = site.directory.join("avocet.toml.avocet-new");
    fs::create_dir(&obstacle).unwrap();
    reloader.judge_probation((u64::MAX, 0), Health::default(), None);
    assert_eq!(site.text(), rolled_back);
    let before = (reloader.revisions.in_force(), history(&reloader));
    assert!(set(&reloader, "policy.block-ttl-secs", "20").is_err());
    assert!(reloader.reload().is_err() && reloader.has_text_of_file());
    assert_eq!((reloader.revisions.in_force(), history(&reloader)), before);
    assert!(reloader.revisions.text().contains("= 60"));
    // An edit changes the text in force, not the text of the file.
    fs::remove_dir(&obstacle).unwrap();
    set(&reloader, "cache.prefetch", "false").unwrap();
    assert!(site.text().contains("= 60") && site.text().contains("prefetch = false"));
    site.save(&rolled_back);
    reloader.reload().unwrap();
    assert_eq!(reloader.revisions.text(), rolled_back);
}

#[test]
fn who_may_not_change_access_changes_other_keys_only() {
    let site = Site::new("access", &format!("{TEXT}[oidc]\nname-claim = \"email\"\n"));
    let reloader = site.start();
    let by = || Submitter { reach: ChangeReach::NotAccess, ..Submitter::default() };
    let edit = |key, value| reloader.edit(&[KeyEdit { key, value: Some(value) }], None, by());
    let is_refused = |done| matches!(done, Err(BackgroundError::AccessKeys(keys)) if keys.contains("http-names"));
    assert!(is_refused(edit("server.http-names", "[\"evil.example\"]")));
    edit("policy.block-ttl-secs", "30").unwrap();
    set(&reloader, "server.http-names", "[\"dns.example\"]").unwrap();
    // A rollback may grant or revoke access.
    assert!(is_refused(reloader.roll_back(2, ChangeOrigin::Rollback, by())));
    edit("policy.block-ttl-secs", "20").unwrap();
    reloader.roll_back(3, ChangeOrigin::Rollback, by()).unwrap();
    assert!(site.text().contains("dns.example"));
}

#[test]
fn who_may_not_change_access_names_no_file_elsewhere() {
    let site = Site::new("foreign", TEXT);
    let (reloader, directory) = (site.start(), site.directory.display());
    let outside = std::env::temp_dir().join(format!("avocet-foreign-{}", std::process::id()));
    fs::write(&outside, "content of a file elsewhere\n").unwrap();
    let by = |reach| Submitter { reach, ..Submitter::default() };
    let hints = |path: &dyn std::fmt::Display| format!("\"{path}\"");
    let edit = |key, path: &dyn std::fmt::Display, reach| {
        let value = hints(path);
        reloader.edit(&[KeyEdit { key, value: Some(&value) }], None, by(reach))
    };
    let check = |key, path: &dyn std::fmt::Display| {
        let (value, turn) = (hints(path), reloader.turn_to_check(Duration::ZERO).unwrap());
        let edits = [KeyEdit { key, value: Some(&value) }];
        reloader.check_edit(&edits, ChangeReach::NotAccess, &turn).map(drop)
    };
    let is_refused = |error| {
        // An error of the file itself would show a part of it.
        let BackgroundError::AccessKeys(keys) = error else { panic!("{error}") };
        keys.contains(&outside.display().to_string())
    };
    for key in ["resolver.root-hints", "policy.leases"] {
        let refused = edit(key, &outside.display(), ChangeReach::NotAccess).unwrap_err();
        assert!(is_refused(refused), "{key}");
        assert!(is_refused(check(key, &outside.display()).unwrap_err()), "{key}");
    }
    edit("policy.leases", &"leases", ChangeReach::NotAccess).unwrap();
    edit("policy.leases", &format!("{directory}/other"), ChangeReach::NotAccess).unwrap();
    edit("policy.leases", &outside.display(), ChangeReach::All).unwrap();
    // The file stays named by changes of other keys.
    edit("policy.block-ttl-secs", &"", ChangeReach::NotAccess).unwrap_err();
    let other = [KeyEdit { key: "policy.block-ttl-secs", value: Some("20") }];
    reloader.edit(&other, None, by(ChangeReach::NotAccess)).unwrap();
    fs::remove_file(&outside).unwrap();
}
