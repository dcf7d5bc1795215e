//! Changes of records over the API and the command line, with their journal, signatures and rights.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;

use serde_json::{Value, json};

use crate::server::{Server, Site, is_here};
use crate::upstream::Upstream;

const ZONE: &str = "; the office\n$TTL 60\n@ SOA ns host 1 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.1\n\
                    old 30 A 192.0.2.9 ; the printer\nold 30 A 192.0.2.8\n";

/// A server that hosts `corp.example`.
struct Edited {
    site: Site,
    server: Option<Server>,
    file: PathBuf,
    _upstream: Upstream,
}

impl Edited {
    /// Starts one with these settings of the zone.
    fn start(settings: &str) -> Self {
        let (upstream, site) = (Upstream::start(), Site::new());
        let file = site.directory.join("corp.zone");
        fs::write(&file, ZONE).unwrap();
        let zone = format!(
            "[[zone]]\nname = \"corp.example\"\nfile = \"{}\"\nsettle-secs = 3600\n{settings}\n",
            file.display()
        );
        site.configure(upstream.addr, "", &zone);
        let server = Some(site.start());
        Self { site, server, file, _upstream: upstream }
    }

    fn restart_killed(&mut self) {
        let server = self.server.take().unwrap();
        server.signal("KILL");
        server.wait();
        self.server = Some(self.site.start());
    }

    fn zone(&self, words: &[&str]) -> String {
        self.site.avocet_text(&[&["zone"], words].concat())
    }

    /// Runs a command that fails; returns its error.
    #[track_caller]
    fn refused(&self, words: &[&str]) -> String {
        let output = self.site.avocet(&[&["zone"], words].concat());
        assert!(!output.status.success(), "{words:?}: {}", said(&output));
        said(&output)
    }

    fn records(&self) -> String {
        self.zone(&["export", "corp.example"])
    }

    fn token(&self, scope: &str) -> String {
        let text = self.site.avocet_text(&["token", "create", "t", "--scope", scope, "--json"]);
        let reply: Value = serde_json::from_str(&text).unwrap();
        reply["token"].as_str().unwrap().to_owned()
    }

    fn post(&self, token: &str, fields: &Value) -> (u16, Value) {
        post(&self.site, token, fields)
    }

    fn count(&self, result: &str) -> f64 {
        self.site.metric(&format!("avocet_zone_updates_total{{result=\"{result}\"}}"))
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

fn post(site: &Site, token: &str, fields: &Value) -> (u16, Value) {
    let body = fields.to_string();
    let request = format!(
        "POST /api/v1/zones/records HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \
         {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (status, text) = site.http(&request);
    (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
}

/// A request with one edit.
fn request(serial: Option<u32>, edit: &Value) -> Value {
    json!({"name": "corp.example", "serial": serial, "edits": [edit]})
}

#[test]
fn a_record_that_is_set_is_in_the_next_answer_and_survives_a_kill() {
    let mut zone = Edited::start("allow-transfer = [\"127.0.0.0/8\"]");
    let dry = zone.zone(&["set", "corp.example", "www", "A", "192.0.2.7", "--dry-run"]);
    assert!(dry.contains("+www.corp.example. 60 IN A 192.0.2.7\n"), "{dry}");
    assert!(dry.contains("serial 1 stays in force"), "{dry}");
    assert_eq!(zone.records().lines().count(), 5);

    let text = zone.zone(&["set", "corp.example", "www", "1h", "A", "192.0.2.7"]);
    assert!(text.contains("+www.corp.example. 3600 IN A 192.0.2.7\n"), "{text}");
    assert!(text.contains("serial 2 is in force"), "{text}");
    assert_eq!(zone.site.ask("www.corp.example").0, [192, 0, 2, 7]);
    zone.zone(&["set", "corp.example", "www.corp.example.", "A", "192.0.2.17", "--add"]);
    let shown = zone.zone(&["show", "corp.example", "www", "--type", "a"]);
    assert_eq!(shown.lines().count(), 2, "{shown}");
    // A set is replaced as a whole and keeps its TTL.
    zone.zone(&["set", "corp.example", "old", "A", "192.0.2.10"]);
    assert_eq!(zone.site.ask("old.corp.example").0, [192, 0, 2, 10]);
    zone.zone(&["set", "corp.example", "@", "TXT", "v=spf1 -all", "--serial", "4"]);
    zone.zone(&["unset", "corp.example", "www", "A", "192.0.2.7"]);
    let before = zone.records();
    for record in [
        "corp.example. 60 IN TXT \"v=spf1 -all\"",
        "old.corp.example. 30 IN A 192.0.2.10",
        "www.corp.example. 3600 IN A 192.0.2.17",
    ] {
        assert!(before.contains(record), "{record}: {before}");
    }
    assert_eq!(before.lines().count(), 6, "{before}");
    let same = zone.zone(&["unset", "corp.example", "none", "A"]);
    assert!(same.contains("nothing to change, serial 6"), "{same}");
    assert_eq!((zone.count("applied"), zone.count("unchanged")), (5.0, 1.0));

    zone.restart_killed();
    assert_eq!(zone.records(), before);
    let history = zone.zone(&["history", "corp.example", "--limit", "2"]);
    assert!(history.starts_with("serial 5 to 6:\n-www.corp.example. 3600 IN A 192.0.2.7\n"));
    assert!(history.ends_with("zone corp.example.: 2 of 5 changes\n"), "{history}");
    let found = zone.zone(&["show", "corp.example", "--contains", "WW", "--unsigned"]);
    assert_eq!(found, "www.corp.example. 3600 IN A 192.0.2.17\n");
}

#[test]
fn a_zone_that_shares_its_file_is_not_changed() {
    let zone = Edited::start("[[zone]]\nname = \"shop.example\"\nfile = \"corp.zone\"");
    for name in ["corp.example", "shop.example"] {
        for more in [&[][..], &["--dry-run"]] {
            let text = zone.refused(&[&["set", name, "www", "A", "192.0.2.7"], more].concat());
            assert!(text.contains("give each zone its own file"), "{text}");
        }
    }
    assert_eq!(fs::read_to_string(&zone.file).unwrap(), ZONE);
    assert_eq!(zone.site.ask("old.shop.example").0, [192, 0, 2, 9]);
}

#[test]
fn another_server_gets_the_change_alone() {
    if !is_here("dig") {
        return;
    }
    let zone = Edited::start("allow-transfer = [\"127.0.0.0/8\"]");
    // The whole zone is not longer than the changes otherwise.
    let token = zone.token("zones:write");
    let data: Vec<String> = (0..200).map(|host| format!("10.0.0.{host}")).collect();
    let edit = json!({"action": "add", "owner": "all", "type": "A", "data": data});
    assert_eq!(zone.post(&token, &request(None, &edit)).0, 200);
    zone.zone(&["set", "corp.example", "www", "A", "192.0.2.7"]);
    zone.zone(&["unset", "corp.example", "old"]);
    let dns = zone.site.dns;
    let ran = Command::new("dig")
        .arg(format!("@{}", dns.ip()))
        .args(["-p", &dns.port().to_string(), "+tcp", "+noall", "+answer", "corp.example"])
        .arg("IXFR=2")
        .output()
        .unwrap();
    let text = said(&ran);
    assert!(text.contains("192.0.2.7") && text.contains("192.0.2.9"), "{text}");
    assert!(!text.contains("ns.corp.example.\t60"), "{text}");
}

#[test]
fn without_a_journal_the_file_has_the_change_at_once_but_an_unread_edit_stays() {
    let mut zone = Edited::start("");
    zone.zone(&["set", "corp.example", "www", "A", "192.0.2.7"]);
    let text = fs::read_to_string(&zone.file).unwrap();
    let raised = ZONE.replace("host 1 2h", "host 2 2h");
    assert_eq!(text, format!("{raised}www.corp.example. 60 IN A 192.0.2.7\n"));
    zone.restart_killed();
    assert_eq!(zone.site.ask("www.corp.example").0, [192, 0, 2, 7]);

    let edited = text.replace("192.0.2.7", "192.0.2.77");
    fs::write(&zone.file, &edited).unwrap();
    let error = zone.refused(&["set", "corp.example", "a", "A", "192.0.2.3"]);
    assert!(error.contains("was edited and is not read yet"), "{error}");
    assert_eq!(fs::read_to_string(&zone.file).unwrap(), edited);
    zone.zone(&["reload", "corp.example"]);
    zone.zone(&["set", "corp.example", "a", "A", "192.0.2.3"]);
    assert_eq!(zone.site.ask("www.corp.example").0, [192, 0, 2, 77]);
    assert_eq!(zone.site.ask("a.corp.example").0, [192, 0, 2, 3]);
}

#[test]
fn a_file_whose_lines_are_no_records_is_written_as_a_whole_and_kept() {
    let zone = Edited::start("");
    let text = format!("{ZONE}$GENERATE 1-3 h$ A 192.0.2.$\n");
    fs::write(&zone.file, &text).unwrap();
    zone.zone(&["reload", "corp.example"]);
    let said = zone.zone(&["set", "corp.example", "www", "A", "192.0.2.7"]);
    let kept = zone.file.with_added_extension("before-updates");
    assert!(said.contains(&kept.display().to_string()), "{said}");
    let written = fs::read_to_string(&zone.file).unwrap();
    assert!(written.starts_with("; Written by Avocet") && written.contains("h2."), "{written}");
    assert_eq!(fs::read_to_string(kept).unwrap(), text);
    assert!(!zone.zone(&["unset", "corp.example", "www"]).contains("before-updates"));
}

#[test]
fn a_file_with_an_old_serial_gets_a_higher_one_after_a_change_here() {
    let zone = Edited::start("allow-transfer = [\"127.0.0.0/8\"]");
    zone.zone(&["set", "corp.example", "www", "A", "192.0.2.7"]);
    zone.zone(&["set", "corp.example", "www", "A", "192.0.2.8"]);
    fs::write(&zone.file, ZONE.replace("192.0.2.9", "192.0.2.99")).unwrap();
    let text = zone.zone(&["reload", "corp.example"]);
    assert!(text.contains("serial 4, "), "{text}");
    assert_eq!(zone.site.ask("ns.corp.example").0, [192, 0, 2, 1]);
    assert!(zone.records().contains("192.0.2.99"));
}

#[test]
fn a_signed_zone_stays_valid_after_each_change() {
    let zone = Edited::start("sign = true\nallow-transfer = [\"127.0.0.0/8\"]");
    for words in [
        &["set", "corp.example", "www", "A", "192.0.2.7"][..],
        &["set", "corp.example", "*", "MX", "10", "www", "--add"],
        &["unset", "corp.example", "old"],
    ] {
        let text = zone.zone(words);
        assert!(text.contains("is in force") && !text.contains("RRSIG"), "{text}");
        if is_here("ldns-verify-zone") {
            let file = zone.site.directory.join("exported");
            fs::write(&file, zone.records()).unwrap();
            let ran = Command::new("ldns-verify-zone").arg(&file).output().unwrap();
            assert!(ran.status.success(), "{words:?}: {}", said(&ran));
        }
    }
    let plain = zone.zone(&["show", "corp.example", "--unsigned"]);
    assert!(!plain.contains("RRSIG") && plain.contains("*.corp.example. 60 IN MX"), "{plain}");
    let same = zone.site.directory.join("same.zone");
    fs::write(&same, &plain).unwrap();
    let text = zone.zone(&["diff", "corp.example", same.to_str().unwrap()]);
    assert!(text.starts_with("zone corp.example.: serial 5 is in force"), "{text}");
    fs::write(&same, plain.replace("192.0.2.7", "192.0.2.70")).unwrap();
    let text = zone.refused(&["diff", "corp.example", same.to_str().unwrap()]);
    let lines = "-www.corp.example. 60 IN A 192.0.2.7\n+www.corp.example. 60 IN A 192.0.2.70\nzone";
    assert!(text.starts_with(lines), "{text}");
    fs::write(&same, "no zone").unwrap();
    let text = zone.refused(&["diff", "corp.example", same.to_str().unwrap()]);
    assert!(text.contains("same.zone: the zone has no SOA record"), "{text}");
    let text = zone.refused(&["set", "corp.example", "@", "TYPE59", "\\#", "5", "0000000000"]);
    assert!(text.contains("makes these records itself"), "{text}");
}

#[test]
fn bad_changes_are_refused_with_owner_type_and_reason_and_change_nothing() {
    let zone = Edited::start("allow-transfer = [\"127.0.0.0/8\"]");
    let before = zone.records();
    let check = |words: &[&str], expected: &[&str]| {
        let error = zone.refused(words);
        assert!(expected.iter().all(|part| error.contains(part)), "{words:?}: {error}");
        assert_eq!(zone.records(), before, "{words:?}");
    };
    let z = "corp.example";
    check(&["set", z, "www", "A", "192.0.2"], &["www.corp.example. A 192.0.2: ", "IPv4"]);
    check(&["set", z, "www", "A"], &["data of the A record is missing"]);
    check(&["set", z, "www", "1h"], &["expected a record after the name"]);
    check(&["set", z, "www", "NOTYPE", "x"], &["\"NOTYPE\" is not a record type"]);
    check(&["set", z, "a.other.", "A", "192.0.2.1"], &["a.other. is not in the zone"]);
    check(&["set", z, "ns", "CNAME", "old"], &["ns.corp.example. has a CNAME record and other"]);
    check(&["set", z, "a..b", "A", "192.0.2.1"], &["name"]);
    check(&["unset", z, "@", "NS"], &["no NS records"]);
    check(&["unset", z, "@", "SOA"], &["only be replaced"]);
    check(&["set", z, "www", "RRSIG", "x"], &["www.corp.example. RRSIG"]);
    check(&["set", z, "a", "A", "192.0.2.1", "--serial", "7"], &["serial 1, not 7"]);
    check(&["set", "other.example", "a", "A", "192.0.2.1"], &["no hosted zone"]);
    let token = zone.token("zones:write");
    let data: Vec<String> = (0..4_097).map(|n| format!("10.0.{}.{}", n / 256, n % 256)).collect();
    let edit = |data: &[String]| json!({"action": "add", "owner": "m", "type": "A", "data": data});
    for most in [4_097, 2_000] {
        let (status, reply) = zone.post(&token, &request(None, &edit(&data[..most])));
        assert!((400..500).contains(&status) && reply.to_string().contains("several"), "{reply}");
    }
    // All edits or none.
    let good = json!({"action": "add", "owner": "m", "type": "A", "data": ["192.0.2.4"]});
    let bad = json!({"action": "add", "owner": "m", "type": "CNAME", "data": ["ns"]});
    let both = json!({"name": z, "edits": [good, bad]});
    let (status, reply) = zone.post(&token, &both);
    assert_eq!(status, 422, "{reply}");
    assert_eq!(zone.records(), before);
    assert_eq!(zone.count("applied"), 0.0);
}

#[test]
fn of_two_changes_that_expect_one_serial_one_wins() {
    let zone = Edited::start("allow-transfer = [\"127.0.0.0/8\"]");
    let (token, site) = (&zone.token("zones:write"), &zone.site);
    for serial in 1..6 {
        let send = |number: u32| {
            let data = [format!("\"{serial} {number}\"")];
            let edit = json!({"action": "replace", "owner": "t", "type": "TXT", "data": data});
            post(site, token, &request(Some(serial), &edit))
        };
        let send = &send;
        let replies: Vec<(u16, Value)> = thread::scope(|scope| {
            let sent: Vec<_> = (0..4).map(|number| scope.spawn(move || send(number))).collect();
            sent.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let mut statuses: Vec<u16> = replies.iter().map(|(status, _)| *status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409, 409, 409], "{replies:?}");
        let (_, lost) = replies.iter().find(|(status, _)| *status == 409).unwrap();
        assert!(lost.to_string().contains("changed meanwhile"), "{lost}");
        let (_, won) = replies.iter().find(|(status, _)| *status == 200).unwrap();
        assert_eq!((&won["serial"], &won["published"]), (&json!(serial + 1), &json!(true)));
        let data = won["difference"]["added"][0]["data"].as_str().unwrap();
        assert!(zone.records().contains(data), "{won}");
    }
}

#[test]
fn rights_decide_who_changes_zones_and_the_audit_log_has_each_change() {
    let zone = Edited::start("");
    let edit = json!({"action": "replace", "owner": "www", "type": "A", "data": ["192.0.2.7"]});
    let wanted = request(Some(1), &edit);
    for scope in ["zones:read", "config:write"] {
        let (status, reply) = zone.post(&zone.token(scope), &wanted);
        assert_eq!(status, 403, "{reply}");
    }
    assert!(!zone.records().contains("192.0.2.7"));
    let (status, reply) = zone.post(&zone.token("zones:write"), &wanted);
    assert_eq!((status, &reply["serial"]), (200, &json!(2)), "{reply}");
    let audit = fs::read_to_string(zone.site.data().join("audit.jsonl")).unwrap();
    let line = audit.lines().find(|line| line.contains("/zones/records")).unwrap();
    assert!(audit.contains("\"owner\":\"www\"") && audit.contains("\"192.0.2.7\""), "{line}");
    let unknown = json!({"name": "corp.example", "edits": [{"action": "drop", "owner": "a"}]});
    assert_eq!(zone.post(&zone.token("zones:write"), &unknown).0, 400);
}

#[test]
fn a_zone_of_another_server_is_not_changed_here() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let zone = "[[zone]]\nname = \"corp.example\"\nprimaries = [\"127.0.0.1:9\"]\n";
    site.configure(upstream.addr, "", zone);
    let _server = site.start();
    let output = site.avocet(&["zone", "set", "corp.example", "a", "A", "192.0.2.1"]);
    let text = said(&output);
    assert!(text.contains("transferred from another server") && text.contains("primary"), "{text}");
}
