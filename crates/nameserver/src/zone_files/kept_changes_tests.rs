//! Acknowledged changes and manual edits across restarts: compares the server, its journal and its
//! file with a model.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use avocet_config::Config;
use avocet_zone::{HostedRecord, ZoneEdits};

use super::*;

/// A zone with a journal, and the records that it must have.
struct Model {
    directory: PathBuf,
    config: [ZoneConfig; 1],
    files: ZoneFiles,
    now_secs: u64,
    /// The names that the zone must have.
    wanted: BTreeSet<String>,
    random: u64,
    /// The operations until now.
    log: String,
}

impl Model {
    fn of(seed: u64) -> Self {
        let name = format!("avocet-kept-{seed}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("example.zone");
        fs::write(&file, "; top\n@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns.other.\n").unwrap();
        let secret = directory.join("secret");
        fs::write(&secret, "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISE=").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let text = format!(
            "[[key]]\nname = \"k\"\nsecret-file = {secret:?}\n[[zone]]\nname = \"example\"\n\
             file = {file:?}\nallow-update = [\"key k\"]\nsettle-secs = 0\n"
        );
        let mut zones = Config::from_text(None, &text, &BTreeMap::new()).unwrap().zones;
        zones[0].journal = directory.join("zones").join("example.journal");
        let config = [zones.remove(0)];
        Self {
            files: ZoneFiles::of(&config),
            directory,
            config,
            now_secs: 100,
            wanted: BTreeSet::new(),
            random: seed,
            log: String::new(),
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % limit
    }

    fn file(&self) -> &Path {
        &self.config[0].file
    }

    fn owner(name: &str) -> Vec<u8> {
        [&[name.len() as u8], name.as_bytes(), b"\x07example\0"].concat()
    }

    /// Adds a record, or removes it, as an update does. Returns whether it is acknowledged.
    fn update(&mut self, name: &str) -> bool {
        let is_new = !self.wanted.contains(name);
        let owner = Self::owner(name);
        let owner = FoldedName::new(&owner).unwrap();
        let record =
            HostedRecord { rtype: avocet_wire::Rtype::A, ttl_secs: 60, rdata: &[192, 0, 2, 1] };
        let changed = self.files.change(&self.config[0].id(), |zone| {
            let mut edits = ZoneEdits::of(zone);
            let _ = if is_new { edits.add(owner, &record) } else { edits.remove(owner, &record) };
            let soa = zone.soa().unwrap();
            edits.set_soa(60, &avocet_zone::with_serial(soa.rdata, zone.serial() + 1));
            Ok::<_, ()>(Some(edits.finish(0).unwrap()))
        });
        if changed.is_ok() {
            let _ = if is_new { self.wanted.insert(name.into()) } else { self.wanted.remove(name) };
        }
        changed.is_ok()
    }

    /// Saves the text of the file after a change by `edit`, as an editor does.
    fn edit(&self, edit: impl FnOnce(String) -> String) {
        let text = edit(fs::read_to_string(self.file()).unwrap());
        let saved = self.directory.join("saved");
        fs::write(&saved, text).unwrap();
        fs::rename(saved, self.file()).unwrap();
    }

    fn add_line(&mut self, name: &str) {
        self.edit(|text| format!("{text}{name} 60 A 192.0.2.1\n"));
        self.wanted.insert(name.into());
    }

    fn restart(&mut self) {
        self.files = ZoneFiles::of(&self.config);
    }

    #[track_caller]
    fn check(&self) {
        let zone = self.files.source(&self.config[0].id());
        let zone = zone.unwrap_or_else(|| panic!("{:?}: {}", self.files.fault(), self.log));
        for name in &self.wanted {
            assert!(has(&zone, name), "{name} is missing: {}", self.log);
        }
        assert_eq!(zone.records() as usize, 2 + self.wanted.len(), "{}", self.log);
        assert_eq!(self.files.fault(), None, "{}", self.log);
    }

    /// Reads edits and writes changes to the file, as the server does every second.
    fn watch(&mut self) {
        self.now_secs += 10;
        self.files.watch(self.now_secs);
        self.files.watch(self.now_secs + 1);
    }

    /// Does one of the steps, with a name that no other step uses.
    fn step(&mut self, number: u64) {
        let step = self.below(9);
        writeln!(self.log, "{number}: {step}").unwrap();
        match step {
            0 | 1 => assert!(self.update(&format!("u{number}"))),
            2 => {
                let known = self.wanted.iter().find(|name| name.starts_with('u')).cloned();
                known.into_iter().for_each(|name| assert!(self.update(&name)));
            }
            3 => self.add_line(&format!("h{number}")),
            4 => {
                self.add_line(&format!("h{number}"));
                let serial = self.files.source(&self.config[0].id()).unwrap().serial();
                self.edit(|text| {
                    let (head, rest) = text
                        .split_once("ns h ")
                        .or_else(|| text.split_once("ns.example. h.example. "))
                        .unwrap();
                    let rest = rest.split_once(' ').unwrap().1;
                    format!("{head}ns h {} {rest}", serial + 10)
                });
            }
            5 => {
                let good = fs::read_to_string(self.file()).unwrap();
                self.edit(|text| format!("{text}broken A 1.2\n"));
                self.files.reload(None);
                assert!(self.update(&format!("u{number}")));
                if self.below(2) == 0 {
                    self.restart();
                    assert!(self.files.fault().is_some());
                }
                self.edit(|_| good);
                self.files.reload(None);
            }
            6 => drop(self.files.reload(None)),
            7 => {
                // The configuration is reloaded, and something else happens meanwhile.
                let read = self.files.read(&self.config);
                match self.below(3) {
                    0 => assert!(self.update(&format!("u{number}"))),
                    1 => self.add_line(&format!("h{number}")),
                    _ => self.watch(),
                }
                self.files.put(read);
            }
            _ => self.watch(),
        }
        if self.below(3) == 0 {
            writeln!(self.log, "restart").unwrap();
            self.restart();
            self.check();
        }
    }
}

fn has(zone: &HostedZone, name: &str) -> bool {
    let owner = Model::owner(name);
    zone.in_order().any(|(name, _)| name.wire() == owner)
}

impl Drop for Model {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn no_change_and_no_edit_is_lost_in_any_order_of_steps() {
    for seed in 1..33 {
        let mut model = Model::of(seed);
        (0..24).for_each(|number| model.step(number));
        model.files.reload(None);
        model.check();
    }
}

#[test]
fn a_reload_of_the_configuration_while_the_file_is_written_brings_nothing_back() {
    let mut model = Model::of(1_003);
    assert!(model.update("gone") && model.update("stays"));
    let read = model.files.read(&model.config);
    model.watch();
    model.files.put(read);
    assert!(model.update("gone"));
    model.watch();
    model.check();
}

#[test]
fn a_change_while_a_zone_gets_another_file_is_not_lost() {
    let mut model = Model::of(5);
    assert!(model.update("before"));
    let file = model.directory.join("other.zone");
    fs::copy(model.file(), &file).unwrap();
    let mut config = model.config.clone();
    config[0].file = file;
    let read = model.files.read(&config);
    assert!(model.update("between"));
    model.config = config;
    model.files.put(read);
    model.check();
    assert!(model.update("after"));
    model.restart();
    model.check();
}

#[test]
fn a_step_from_the_file_is_applied_exactly_with_its_history() {
    let mut model = Model::of(1_000);
    model.add_line("h");
    model.files.reload(None);
    assert!(model.update("u"));
    let id = model.config[0].id();
    let before = model.files.source(&id).unwrap();
    model.restart();
    let after = model.files.source(&id).unwrap();
    assert_eq!((after.version(), after.serial()), (before.version(), 3));
    assert_eq!(after.changes(), before.changes());
    model.check();
}

#[test]
fn a_change_that_contradicts_an_edit_is_kept_aside_and_reported_until_its_file_is_removed() {
    let mut model = Model::of(1_001);
    assert!(model.update("first") && model.update("second"));
    // A name with a CNAME record has no other records.
    model.edit(|text| format!("{text}first 60 CNAME other.\n"));
    model.restart();
    let zone = model.files.source(&model.config[0].id()).unwrap();
    assert!(has(&zone, "second"), "only what contradicts is left out");
    let aside = model.config[0].journal.with_added_extension("not-applied-1");
    let text = fs::read_to_string(&aside).unwrap();
    assert!(
        text.contains("+first.example. 60 IN A 192.0.2.1") && !text.contains("second"),
        "{text}"
    );
    let fault = |model: &Model| model.files.fault().unwrap_or_default();
    assert!(fault(&model).contains(&aside.display().to_string()), "{}", fault(&model));
    model.restart();
    assert!(fault(&model).contains("acknowledged changes"), "{}", fault(&model));
    fs::remove_file(&aside).unwrap();
    model.files.watch(1_000);
    assert_eq!(model.files.fault(), None);
}

/// Returns the ends of the entries of a journal of the zone `example`.
fn ends_of_entries(journal: &[u8]) -> Vec<usize> {
    let mut ends = vec![b"AVOJRNL1\x07example\0".len()];
    while let Some(len) = journal.get(ends[ends.len() - 1]..).and_then(|rest| rest.first_chunk()) {
        ends.push(ends[ends.len() - 1] + 8 + u32::from_be_bytes(*len) as usize);
    }
    ends
}

#[test]
fn damage_in_a_journal_costs_only_the_damaged_change_which_is_reported() {
    const NAMES: [&str; 5] = ["first", "second", "third", "fourth", "fifth"];
    let mut model = Model::of(1_004);
    assert!(NAMES.iter().all(|name| model.update(name)));
    let (id, path) = (model.config[0].id(), model.config[0].journal.clone());
    let serial = model.files.source(&id).unwrap().serial();
    let (whole, file) = (fs::read(&path).unwrap(), fs::read(model.file()).unwrap());
    let (ends, mut all_lost) = (ends_of_entries(&whole), 0);
    for (entry, pair) in ends.windows(2).enumerate() {
        let mut damaged = whole.clone();
        damaged[usize::midpoint(pair[0], pair[1])] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        model.restart();
        let zone = model.files.source(&id).unwrap();
        let lost = NAMES.iter().filter(|name| !has(&zone, name)).count();
        let copy = path.with_added_extension("damaged-1");
        let fault = model.files.fault().unwrap_or_default();
        if lost > 0 {
            assert_eq!((lost, fs::read(&copy).unwrap()), (1, damaged), "{entry}");
            assert!(avocet_zone::is_newer(zone.serial(), serial), "{entry}: {}", zone.serial());
            assert!(fault.contains("damaged") && fault.contains("damaged-1"), "{fault}");
            // The damage is reported until the operator removes the copy.
            model.restart();
            assert_eq!(model.files.source(&id).unwrap().version(), zone.version());
            assert_eq!(model.files.fault(), Some(fault));
            fs::remove_file(&copy).unwrap();
            model.files.watch(1_000);
        }
        assert_eq!(model.files.fault(), None, "{entry}");
        fs::write(model.file(), &file).unwrap();
        all_lost += lost;
    }
    assert_eq!(all_lost, NAMES.len(), "one for each entry with a change");
}

#[test]
fn damage_before_the_version_in_the_file_costs_nothing() {
    let mut model = Model::of(1_005);
    assert!(model.update("first") && model.update("second"));
    model.watch();
    assert!(model.update("third"));
    let path = model.config[0].journal.clone();
    let mut journal = fs::read(&path).unwrap();
    let ends = ends_of_entries(&journal);
    journal[ends[1] + 20] ^= 1;
    fs::write(&path, &journal).unwrap();
    model.restart();
    model.check();
    assert!(!path.with_added_extension("damaged-1").exists());
}

#[test]
fn an_empty_or_foreign_journal_is_reported() {
    let mut model = Model::of(1_006);
    assert!(model.update("lost"));
    let path = model.config[0].journal.clone();
    for octets in [&b""[..], b"AVOJRNL1\x05other\0", b"\0\0\0\0\0\0\0\0\0\0\0\0"] {
        fs::write(&path, octets).unwrap();
        model.restart();
        let fault = model.files.fault().unwrap_or_default();
        assert!(fault.contains("damaged"), "{fault}");
        let copy = path.with_added_extension("damaged-1");
        assert_eq!(fs::read(&copy).unwrap(), octets);
        fs::remove_file(&copy).unwrap();
    }
}

#[test]
fn changes_reach_the_file_when_the_zone_needs_no_journal_any_more() {
    for is_restarted in [false, true] {
        let mut model = Model::of(1_002);
        assert!(model.update("u"));
        model.config[0].allow_update.clear();
        if is_restarted {
            model.restart();
        } else {
            model.files.put(model.files.read(&model.config));
        }
        model.check();
        model.files.watch(1_000);
        assert!(fs::read_to_string(model.file()).unwrap().contains("192.0.2.1"));
        model.restart();
        model.check();
    }
}

/// Returns the zone `example` of a configuration with this file and view, in a data directory.
fn viewed(directory: &Path, file: &Path, view: &str) -> ZoneConfig {
    let secret = directory.join("secret");
    let view = if view.is_empty() { String::new() } else { format!("view = [\"{view}\"]\n") };
    let text = format!(
        "[data]\ndirectory = {directory:?}\n[[key]]\nname = \"k\"\nsecret-file = {secret:?}\n\
         [[group]]\nname = \"office\"\nclients = [\"10.0.0.0/8\"]\n\
         [[group]]\nname = \"vpn\"\nclients = [\"10.9.0.0/16\"]\n\
         [[zone]]\nname = \"example\"\nfile = {file:?}\nallow-update = [\"key k\"]\n{view}\
         sign = true\nsettle-secs = 0\n"
    );
    Config::from_text(None, &text, &BTreeMap::new()).unwrap().zones.remove(0)
}

/// The ways in which a configuration with other views comes into force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Reload,
    Restart,
}

#[test]
fn changes_and_keys_of_a_zone_follow_it_to_another_view() {
    for change in [Change::Reload, Change::Restart] {
        let mut model = Model::of(9_000 + change as u64);
        let (directory, file) = (model.directory.clone(), model.file().to_owned());
        model.config = [viewed(&directory, &file, "")];
        model.restart();
        let serial = |model: &Model| model.files.serials(&model.config[0].id()).unwrap().current;
        let keys = |model: &Model| {
            let report = model.files.signing(&model.config[0].id()).unwrap();
            report.keys.iter().map(|key| key.tag).collect::<Vec<_>>()
        };
        let known = keys(&model);
        for (number, view) in ["office", "vpn", "", "vpn"].into_iter().enumerate() {
            // The change is only in the journal.
            assert!(model.update(&format!("v{number}")));
            let before = serial(&model);
            let after = [viewed(&directory, &file, view)];
            match change {
                Change::Reload => {
                    model.files.rename(&model.config, &after).unwrap();
                    // The configuration is refused, and is then accepted.
                    drop(model.files.read(&after));
                    model.files.rename(&after, &model.config).unwrap();
                    model.check();
                    model.files.rename(&model.config, &after).unwrap();
                    model.files.put(model.files.read(&after));
                    model.config = after;
                }
                Change::Restart => {
                    model.config = after;
                    model.restart();
                }
            }
            model.check();
            assert_eq!(keys(&model), known, "{change:?} to {view:?}");
            assert!(serial(&model) >= before, "{change:?} to {view:?}");
            model.restart();
            model.check();
        }
    }
}

#[test]
fn files_keep_their_names_if_one_cannot_be_renamed() {
    let mut model = Model::of(9_200);
    let (directory, file) = (model.directory.clone(), model.file().to_owned());
    model.config = [viewed(&directory, &file, "")];
    model.restart();
    assert!(model.update("one"));
    // The last file of the state, the directory with the keys, has no free name.
    let after = [viewed(&directory, &file, "office")];
    let keys = &after[0].signing.as_ref().unwrap().directory;
    fs::create_dir_all(keys).unwrap();
    for number in 1..=99 {
        fs::create_dir(keys.with_added_extension(format!("old-{number}"))).unwrap();
    }
    model.files.rename(&model.config, &after).unwrap_err();
    assert!(model.config[0].journal.exists() && !after[0].journal.exists());
    model.check();
    assert!(model.update("two"));
    model.restart();
    model.check();
}

#[test]
fn zones_that_exchange_their_views_keep_their_changes() {
    let mut model = Model::of(9_100);
    let (directory, file) = (model.directory.clone(), model.file().to_owned());
    let other = directory.join("other.zone");
    fs::copy(&file, &other).unwrap();
    let config =
        |one: &str, two: &str| [viewed(&directory, &file, one), viewed(&directory, &other, two)];
    let before = config("office", "vpn");
    (model.files, model.config) = (ZoneFiles::of(&before), [before[0].clone()]);
    assert!(model.update("one"));
    model.config = [before[1].clone()];
    model.wanted.clear();
    assert!(model.update("two"));
    let after = config("vpn", "office");
    model.files.rename(&before, &after).unwrap();
    model.files.put(model.files.read(&after));
    for restarts in 0..2 {
        for (zone, name) in after.iter().zip(["one", "two"]) {
            model.config = [zone.clone()];
            model.wanted = BTreeSet::from([name.to_owned()]);
            model.check();
        }
        if restarts == 0 {
            model.files = ZoneFiles::of(&after);
        }
    }
}
