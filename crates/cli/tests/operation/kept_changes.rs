//! Acknowledged changes of a zone whose file was edited by hand, over restarts.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::server::{Server, Site, is_here};
use crate::upstream::Upstream;

/// In base64.
const SECRET: &str = "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISE=";
const ZONE: &str = "; the office\n$TTL 60\n@ SOA ns host 1 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.1\n";

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

/// A server that hosts `corp.example`.
struct Hosted {
    site: Site,
    server: Option<Server>,
    file: PathBuf,
    _upstream: Upstream,
}

impl Hosted {
    fn start(settings: &str) -> Self {
        let (upstream, site) = (Upstream::start(), Site::new());
        let (file, secret) = (site.directory.join("corp.zone"), site.directory.join("secret"));
        fs::write(&file, ZONE).unwrap();
        fs::write(&secret, SECRET).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let text = format!(
            "[[key]]\nname = \"all\"\nsecret-file = {secret:?}\n[[zone]]\nname = \
             \"corp.example\"\nfile = {file:?}\nsettle-secs = 3600\n{settings}\n"
        );
        site.configure(upstream.addr, "", &text);
        let server = Some(site.start());
        Self { site, server, file, _upstream: upstream }
    }

    /// Saves the file as most editors do.
    fn save(&self, text: &str) {
        let saved = self.site.directory.join("saved");
        fs::write(&saved, text).unwrap();
        fs::rename(saved, &self.file).unwrap();
    }

    fn edited(&self) -> String {
        fs::read_to_string(&self.file).unwrap() + "hand A 192.0.2.77\n"
    }

    fn broken(&self) -> String {
        fs::read_to_string(&self.file).unwrap() + "hand A 192.0.2.777\n"
    }

    fn correct(&self) {
        self.save(&fs::read_to_string(&self.file).unwrap().replace("2.777", "2.77"));
    }

    fn change(&self, change: Change) {
        if change == Change::Command {
            self.site.avocet_text(&["zone", "set", "corp.example", "kept", "A", "192.0.2.9"]);
            return;
        }
        let dns = self.site.dns;
        let mut child = Command::new("nsupdate")
            .args(["-y", &format!("hmac-sha256:all:{SECRET}")])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let text = format!(
            "server {} {}\nzone corp.example.\nupdate add kept.corp.example. 60 A 192.0.2.9\n\
             send\n",
            dns.ip(),
            dns.port()
        );
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// Ends the server and starts another one. `between` runs while no server runs, or just before
    /// one takes over.
    fn restart(&mut self, end: End, between: impl FnOnce(&Self)) {
        let server = self.server.take().unwrap();
        if end == End::TakeOver {
            between(self);
            let mut command = self.site.serve();
            command.arg("--take-over");
            self.server = Some(Server::start(command));
            server.wait();
            return;
        }
        server.signal(if end == End::Kill { "KILL" } else { "TERM" });
        server.wait();
        between(self);
        self.server = Some(self.site.start());
    }
}

/// Checks that the change and the edit are in force after the restart.
fn check(sign: bool, is_reloaded: bool, edit: Edit, end: End, change: Change) {
    let case = format!("sign {sign}, reloaded {is_reloaded}, {edit:?}, {end:?}, {change:?}");
    let mut zone = Hosted::start(&format!("allow-update = [\"key all\"]\nsign = {sign}"));
    match edit {
        Edit::SameSerial => zone.save(&zone.edited()),
        Edit::RaisedSerial => zone.save(&zone.edited().replace("host 1 ", "host 5 ")),
        Edit::Broken | Edit::BrokenOverStart => zone.save(&zone.broken()),
        Edit::None | Edit::WhileDown => {}
    }
    if is_reloaded {
        zone.site.avocet(&["zone", "reload", "corp.example"]);
    }
    zone.change(change);
    zone.restart(end, |zone| match edit {
        Edit::Broken => zone.correct(),
        Edit::WhileDown => zone.save(&zone.edited()),
        _ => {}
    });
    if edit == Edit::BrokenOverStart {
        zone.correct();
        zone.site.avocet_text(&["zone", "reload", "corp.example"]);
    }
    let records = zone.site.avocet_text(&["zone", "export", "corp.example"]);
    assert!(records.contains("kept.corp.example. 60 IN A 192.0.2.9\n"), "{case}: {records}");
    let is_edited = records.contains("hand.corp.example. 60 IN A 192.0.2.77\n");
    assert_eq!(is_edited, edit != Edit::None, "{case}: {records}");
    assert_eq!(zone.site.ask("kept.corp.example").0, [192, 0, 2, 9], "{case}");
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
            let change = if (row + column) % 2 == 0 { Change::Update } else { Change::Command };
            check(column == 1, column != 2, edit, end, change);
        }
    }
}

#[test]
fn files_of_the_user_beside_a_zone_survive_its_changes() {
    for settings in ["", "allow-update = [\"key all\"]"] {
        let zone = Hosted::start(settings);
        let beside = |ending: &str| zone.file.with_added_extension(ending);
        let precious = zone.site.directory.join("precious");
        fs::write(&precious, "precious\n").unwrap();
        fs::write(beside("new"), "; my draft\n").unwrap();
        symlink(&precious, beside("avocet-new")).unwrap();
        zone.change(Change::Command);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !fs::read_to_string(&zone.file).unwrap().contains("kept") {
            assert!(std::time::Instant::now() < until);
            std::thread::yield_now();
        }
        assert_eq!(fs::read_to_string(beside("new")).unwrap(), "; my draft\n");
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious\n");
        assert!(fs::symlink_metadata(&zone.file).unwrap().is_file());
        assert!(zone.site.avocet_text(&["status"]).contains("healthy"));
    }
}
