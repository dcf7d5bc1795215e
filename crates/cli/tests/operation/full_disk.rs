//! Commands with a full disk: their changes are in force until the server ends, and they report
//! that.

use std::fs;
use std::process::{Command, Output};

use crate::server::{Server, Site};
use crate::upstream::{ADDRESS, Upstream};

const BLOCKED: [u8; 4] = [0; 4];
const RULE: &str =
    "[[rule]]\nname = \"games\"\nwhen = 'qname.under(\"game.example\")'\naction = \"block\"\n";

#[track_caller]
fn check_unsaved(output: &Output, file: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("a restart undoes it") && said.contains(file), "{said}");
}

/// Starts a server that must not write any octet to a file: each write fails as on a full disk,
/// also for root.
fn start_on_full_disk(site: &Site) -> Server {
    let mut limited = Command::new("sh");
    limited
        .args([
            "-c",
            "ulimit -f 0; exec \"$0\" serve --config \"$1\"",
            env!("CARGO_BIN_EXE_avocet"),
        ])
        .arg(site.file());
    Server::start(limited)
}

#[test]
fn a_list_that_a_full_disk_refuses_is_in_force_and_said() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let list = site.directory.join("ads.txt");
    fs::write(&list, "ads.example\n").unwrap();
    let table = format!("[[list]]\nname = \"ads\"\nfile = \"{}\"\n", list.display());
    site.configure(upstream.addr, "", &table);
    let _server = start_on_full_disk(&site);
    assert_eq!(site.ask("ads.example").0, BLOCKED);
    fs::write(&list, "ads.example\nmore.example\n").unwrap();
    check_unsaved(&site.avocet(&["lists", "refresh", "ads"]), "cannot save a copy");
    assert_eq!(site.ask("more.example").0, BLOCKED);
}

#[test]
fn what_a_full_disk_refuses_is_in_force_and_said() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let pool =
        "[[pool]]\nname = \"web.lan\"\naddresses = [\"10.0.0.5\"]\nprobe = \"tcp\"\nport = 1\n";
    site.configure(upstream.addr, "", &format!("{RULE}{pool}"));
    let mut server = start_on_full_disk(&site);
    assert_eq!(site.ask("game.example").0, BLOCKED);
    check_unsaved(&site.avocet(&["zone", "pool", "down", "web.lan"]), "pools.json");
    check_unsaved(&site.avocet(&["pause"]), "switches.json");
    assert_eq!(site.ask("game.example").0, ADDRESS);
    check_unsaved(&site.avocet(&["pause", "--end"]), "switches.json");
    assert_eq!(site.ask("game.example").0, BLOCKED);
    check_unsaved(&site.avocet(&["grant", "game.example"]), "switches.json");
    assert_eq!(site.ask("game.example").0, ADDRESS);
    check_unsaved(&site.avocet(&["nta", "add", "broken.example"]), "negative-anchors.state");
    assert!(site.avocet_text(&["nta", "list"]).contains("broken.example."));
    check_unsaved(&site.avocet(&["nta", "remove", "broken.example"]), "negative-anchors.state");
    server.wait_for_line("changes are lost when the server ends");
    assert!(site.avocet_text(&["status"]).contains("warning: cannot save "));
}

#[test]
fn a_take_over_is_refused_while_changes_cannot_be_saved() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", RULE);
    let server = start_on_full_disk(&site);
    check_unsaved(&site.avocet(&["pause"]), "switches.json");
    let output = site.serve().arg("--take-over").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("are not on disk"), "{said}");
    assert_eq!(site.ask("game.example").0, ADDRESS);
    server.stop();
}

#[test]
fn what_a_disk_refused_is_saved_when_it_has_room_again() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", RULE);
    let mut server = site.start();
    let in_the_way = ["switches.json.avocet-new", "negative-anchors.state.new"]
        .map(|name| site.data().join(name));
    in_the_way.iter().for_each(|path| fs::create_dir(path).unwrap());
    check_unsaved(&site.avocet(&["pause", "--for", "2h"]), "switches.json");
    check_unsaved(&site.avocet(&["nta", "add", "broken.example"]), "negative-anchors.state");
    server.wait_for_line("changes are lost when the server ends");
    in_the_way.iter().for_each(|path| fs::remove_dir(path).unwrap());
    server.wait_for_line("condition resolved");
    server.stop();
    let _server = site.start();
    assert_eq!(site.ask("game.example").0, ADDRESS);
    assert!(site.avocet_text(&["nta", "list"]).contains("broken.example."));
}

#[test]
fn tokens_are_revoked_on_a_full_disk() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let server = site.start();
    let token = site.avocet_text(&["token", "create", "t", "--scope", "status:read"]);
    let list = site.avocet_text(&["token", "list"]);
    let id = list.split(' ').next().unwrap().to_owned();
    server.stop();
    let mut server = start_on_full_disk(&site);
    let status = || {
        let token = token.trim();
        site.http(&format!(
            "GET /api/v1/status HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
        ))
        .0
    };
    assert_eq!(status(), 200);
    check_unsaved(&site.avocet(&["token", "revoke", &id]), "access.json");
    assert_eq!(status(), 401);
    server.wait_for_line("changes are lost when the server ends");
}

#[test]
fn a_signed_zone_is_served_as_it_was_signed_last_after_a_start_on_a_full_disk() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let file = site.directory.join("signed.zone");
    let write = |serial: u32, address: &str| {
        let text = format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\nns A {address}\n");
        fs::write(&file, text).unwrap();
    };
    write(1, "192.0.2.1");
    let zone = format!(
        "[[zone]]\nname = \"signed.example\"\nfile = \"{}\"\nsign = true\n",
        file.display()
    );
    site.configure(upstream.addr, "", &zone);
    let server = site.start();
    assert_eq!(site.ask("ns.signed.example").0, [192, 0, 2, 1]);
    server.stop();
    let server = start_on_full_disk(&site);
    assert_eq!(site.ask("ns.signed.example").0, [192, 0, 2, 1]);
    server.stop();
    // A version that cannot be signed now is held back, as if the server had gone on.
    write(2, "192.0.2.2");
    let server = start_on_full_disk(&site);
    assert_eq!(site.ask("ns.signed.example").0, [192, 0, 2, 1]);
    let listed = site.avocet_text(&["zone", "list"]);
    assert!(listed.contains("cannot write") && listed.contains("signed.zone"), "{listed}");
    server.stop();
    let _server = site.start();
    assert_eq!(site.ask("ns.signed.example").0, [192, 0, 2, 2]);
}
