//! Acknowledged changes of a zone whose file was edited by hand, over restarts.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;

use crate::server::{Server, is_here};
use crate::updates::Updated;

/// How the file is edited before a change is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edit {
    None,
    SameSerial,
    RaisedSerial,
    /// With an error that is corrected while the server is down.
    Broken,
    /// With an error that is corrected after the next start.
    BrokenOverStart,
    /// After the change, while the server is down.
    WhileDown,
}

/// How the server ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Kill,
    Terminate,
    TakeOver,
}

/// How the record is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Command,
    Update,
}

/// A zone that is changed once, and the steps around the change.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// The value of `sign` of the zone.
    sign: &'static str,
    edit: Edit,
    /// Steps before the change.
    before: Before,
    change: Change,
    end: End,
}

/// The step between the edit and the change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Before {
    /// The edit waits until it has settled.
    Nothing,
    /// A command makes the server read the file.
    Reload,
}

/// A server that hosts `corp.example`. It reads the file of the zone only when a command requests
/// it.
struct Hosted(Updated);

impl Hosted {
    fn start(settings: &str) -> Self {
        Self(Updated::start_settling(3_600, settings))
    }

    /// Saves the file as most editors do.
    fn save(&self, text: &str) {
        let saved = self.0.site.directory.join("saved");
        fs::write(&saved, text).unwrap();
        fs::rename(saved, &self.0.file).unwrap();
    }

    fn edited(&self) -> String {
        fs::read_to_string(&self.0.file).unwrap() + "hand A 192.0.2.77\n"
    }

    fn broken(&self) -> String {
        fs::read_to_string(&self.0.file).unwrap() + "hand A 192.0.2.777\n"
    }

    fn correct(&self) {
        self.save(&fs::read_to_string(&self.0.file).unwrap().replace("2.777", "2.77"));
    }

    fn change(&self, change: Change) {
        if change == Change::Command {
            self.0.site.avocet_text(&["zone", "set", "corp.example", "kept", "A", "192.0.2.9"]);
            return;
        }
        let commands = "update add kept.corp.example. 60 A 192.0.2.9";
        let (is_done, text) = self.0.run("nsupdate", "all", &[], commands);
        assert!(is_done, "{text}");
    }

    /// Ends the server and starts another one. `between` runs while no server runs, or just before
    /// one takes over.
    fn restart(&mut self, end: End, between: impl FnOnce(&Self)) {
        let server = self.0.server.take().unwrap();
        if end == End::TakeOver {
            between(self);
            let mut command = self.0.site.serve();
            command.arg("--take-over");
            self.0.server = Some(Server::start(command));
            server.wait();
            return;
        }
        server.signal(if end == End::Kill { "KILL" } else { "TERM" });
        server.wait();
        between(self);
        self.0.server = Some(self.0.site.start());
    }
}

/// Checks that the change and the edit are in force after the restart.
fn check(case: Case) {
    let Case { sign, edit, before, change, end } = case;
    let mut zone = Hosted::start(&format!("allow-update = [\"key all\"]\nsign = {sign}"));
    match edit {
        Edit::SameSerial => zone.save(&zone.edited()),
        Edit::RaisedSerial => zone.save(&zone.edited().replace("host 1 ", "host 5 ")),
        Edit::Broken | Edit::BrokenOverStart => zone.save(&zone.broken()),
        Edit::None | Edit::WhileDown => {}
    }
    if before == Before::Reload {
        // The reading of a broken file fails.
        zone.0.site.avocet(&["zone", "reload", "corp.example"]);
    }
    zone.change(change);
    zone.restart(end, |zone| match edit {
        Edit::Broken => zone.correct(),
        Edit::WhileDown => zone.save(&zone.edited()),
        _ => {}
    });
    if edit == Edit::BrokenOverStart {
        zone.correct();
        zone.0.site.avocet_text(&["zone", "reload", "corp.example"]);
    }
    let records = zone.0.records();
    assert!(records.contains("kept.corp.example. 60 IN A 192.0.2.9\n"), "{case:?}: {records}");
    let is_edited = records.contains("hand.corp.example. 60 IN A 192.0.2.77\n");
    assert_eq!(is_edited, edit != Edit::None, "{case:?}: {records}");
    assert_eq!(zone.0.site.ask("kept.corp.example").0, [192, 0, 2, 9], "{case:?}");
}

#[test]
fn acknowledged_changes_and_edits_by_hand_survive_each_end() {
    if !is_here("nsupdate") {
        return;
    }
    let edits = [
        Edit::None,
        Edit::SameSerial,
        Edit::RaisedSerial,
        Edit::Broken,
        Edit::BrokenOverStart,
        Edit::WhileDown,
    ];
    let ends = [End::Kill, End::Terminate, End::TakeOver];
    // Each edit with each end. The other settings alternate, so that each has each edit.
    for (row, edit) in edits.into_iter().enumerate() {
        for (column, end) in ends.into_iter().enumerate() {
            if edit == Edit::BrokenOverStart && end == End::TakeOver {
                // A process cannot take over while the file has errors.
                continue;
            }
            let change = if (row + column) % 2 == 0 { Change::Update } else { Change::Command };
            let sign = if column == 1 { "true" } else { "false" };
            let before = if column == 2 { Before::Nothing } else { Before::Reload };
            check(Case { sign, edit, before, change, end });
        }
    }
}

#[test]
fn files_of_the_user_next_to_a_zone_survive_its_changes() {
    for settings in ["", "allow-update = [\"key all\"]"] {
        let zone = Hosted::start(settings);
        let file = |ending: &str| zone.0.file.with_added_extension(ending);
        let precious = zone.0.site.directory.join("precious");
        fs::write(&precious, "precious\n").unwrap();
        fs::write(file("new"), "; my draft\n").unwrap();
        symlink(&precious, file("avocet-new")).unwrap();
        zone.change(Change::Command);
        zone.0.wait_for_file("kept");
        assert_eq!(fs::read_to_string(file("new")).unwrap(), "; my draft\n");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious\n");
        assert!(fs::symlink_metadata(&zone.0.file).unwrap().is_file());
        assert!(zone.0.site.avocet_text(&["status"]).contains("healthy"));
    }
}

/// Returns the names of the files of keys of the only signed zone.
fn keys(zone: &Updated) -> BTreeSet<OsString> {
    let directories: Vec<_> = fs::read_dir(zone.site.data().join("keys")).unwrap().collect();
    assert_eq!(directories.len(), 1, "{directories:?}");
    let files = fs::read_dir(directories[0].as_ref().unwrap().path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().contains(|one: char| one.is_ascii_digit())).collect()
}

#[test]
fn changes_and_keys_follow_a_zone_to_another_view_at_a_reload_and_at_a_start() {
    const NAME: &str = "name = \"corp.example\"\n";
    let mut zone = Updated::start_settling(3_600, "allow-update = [\"key all\"]\nsign = true");
    let text = fs::read_to_string(zone.site.file()).unwrap();
    let known = keys(&zone);
    assert!(!known.is_empty());
    let mut wanted = Vec::new();
    for (number, network) in ["127.0.0.0/8", "0.0.0.0/0", "", "0.0.0.0/0"].into_iter().enumerate() {
        // The change is not in the file yet when the view changes.
        wanted.push(format!("v{number}"));
        assert_eq!(zone.add(&wanted[number]), 0);
        let view =
            if network.is_empty() { String::new() } else { format!("view = [{network:?}]\n") };
        zone.site.write_as_it_is(&text.replace(NAME, &format!("{NAME}{view}")));
        if number == 3 {
            zone.restart_killed();
        } else {
            zone.site.avocet_text(&["reload"]);
        }
        let view = ["--view", network];
        let view = if network.is_empty() { &[][..] } else { &view[..] };
        let records = zone.site.avocet_text(&[&["zone", "export", "corp.example"], view].concat());
        for name in &wanted {
            assert!(records.contains(&format!("\n{name}.corp.example. ")), "{name}: {records}");
        }
        assert_eq!(keys(&zone), known, "{view:?}");
    }
}
