//! Response policy zones that are transferred from Knot DNS, NSD and BIND. Skipped for each program
//! that is missing.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::peers::{ALL, PATIENCE, Peer, Program, Role, SECRET};
use crate::server::{Server, Site, free_address};
use crate::transfers::send_notify;
use crate::upstream::{ADDRESS, Upstream};

const OTHER_SECRET: &str = "YW5vdGhlciBhbm90aGVyIGFub3RoZXIgYW5vdGhlciE=";
/// The RCODE NXDOMAIN.
const DENIED: u16 = 3;

/// A policy zone with these rules.
fn zone(serial: u32, rules: &str) -> String {
    // BIND sends no incremental changes of a small zone.
    let more: String = (0..50).map(|host| format!("h{host}.example CNAME .\n")).collect();
    format!(
        "$ORIGIN corp.example.\n$TTL 60\n@ SOA ns host {serial} 2h 3m 4w 60\n@ NS ns\nns A \
         192.0.2.1\nv{serial} A 192.0.2.2\n{rules}{more}"
    )
}

fn secret(site: &Site, text: &str) {
    let file = site.directory.join("secret");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
}

fn configure(site: &Site, upstream: &Upstream, primary: SocketAddr) {
    let list = format!(
        "[[key]]\nname = \"transfer\"\nsecret-file = \"secret\"\n[[list]]\nname = \
         \"threats\"\nformat = \"rpz\"\nzone = \"corp.example\"\nprimaries = \
         [\"{primary}\"]\nkey = \"transfer\"\n"
    );
    site.configure(upstream.addr, "", &list);
}

fn start(primary: SocketAddr) -> (Site, Server, Upstream) {
    let (upstream, site) = (Upstream::start(), Site::new());
    secret(&site, SECRET);
    configure(&site, &upstream, primary);
    let server = site.start();
    (site, server, upstream)
}

/// Asks for a list's zone now; returns the outcome.
fn refresh(site: &Site, more: &[&str]) -> Value {
    let arguments: Vec<&str> =
        ["lists", "refresh", "threats", "--json"].iter().chain(more).copied().collect();
    let output = site.avocet(&arguments);
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap();
    outcome["lists"][0].clone()
}

/// Waits until a name gets the RCODE that a rule gives it.
fn wait_for(site: &Site, name: &str, rcode: u16, context: &str) {
    let until = Instant::now() + PATIENCE;
    while site.ask_any(name).0 & 15 != rcode {
        assert!(Instant::now() < until, "{context}: {name}");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

#[test]
fn a_rule_comes_with_the_zone_and_goes_by_its_changes_from_knot_nsd_and_bind() {
    let rules = "bad.example CNAME .\nother.example CNAME .\nwalled.example A 192.0.2.9\n";
    for program in ALL {
        let text = zone(1, rules);
        let Some(peer) = Peer::start(program, Role::Primary, &text, free_address()) else {
            continue;
        };
        let context = format!("{program:?}");
        peer.wait_for("v1.corp.example");
        let (site, mut server, upstream) = start(peer.addr());
        wait_for(&site, "bad.example", DENIED, &context);
        assert_eq!(site.ask("walled.example").0, [192, 0, 2, 9], "{context}");
        assert_eq!(site.ask("fine.example").0, ADDRESS, "{context}");
        let why = site.avocet_text(&["why", "bad.example"]);
        assert!(why.contains("list threats"), "{context}: {why}");
        let status = site.avocet_text(&["lists", "status"]);
        let source = format!("corp.example. from {}", peer.addr());
        assert!(status.contains(&source), "{context}: {status}");

        let rules = rules.replace("bad.example CNAME .\n", "new.example CNAME .\n");
        peer.publish(&zone(2, &rules));
        peer.wait_for("v2.corp.example");
        assert_eq!(send_notify(site.dns, "corp.example", "127.0.0.2"), 5, "{context}");
        assert_eq!(send_notify(site.dns, "corp.example", "127.0.0.1"), 0, "{context}");
        wait_for(&site, "new.example", DENIED, &context);
        server.wait_for_line("the changes of a list's zone transferred");
        assert_eq!(site.ask("bad.example").0, ADDRESS, "{context}: the rule is gone");
        assert_eq!(refresh(&site, &[])["changed"], false, "{context}");

        // Over a restart, without the primary.
        server.stop();
        drop(peer);
        let _server = site.start();
        wait_for(&site, "new.example", DENIED, &context);
        assert_eq!(site.ask("bad.example").0, ADDRESS, "{context}");
        assert!(refresh(&site, &[])["error"].is_string(), "{context}");
        assert_eq!(site.ask_any("new.example").0 & 15, DENIED, "{context}: the last good copy");
        drop(upstream);
    }
}

#[test]
fn a_wrong_key_and_a_zone_without_rules_change_nothing() {
    let text = zone(1, "bad.example CNAME .\n");
    let Some(peer) = Peer::start(Program::Knot, Role::Primary, &text, free_address()) else {
        return;
    };
    peer.wait_for("v1.corp.example");
    let (site, _server, _upstream) = start(peer.addr());
    wait_for(&site, "bad.example", DENIED, "the first transfer");

    secret(&site, OTHER_SECRET);
    site.avocet_text(&["reload"]);
    let error = refresh(&site, &[])["error"].as_str().unwrap().to_owned();
    assert!(error.contains(&peer.addr().to_string()), "{error}");
    let status = site.avocet_text(&["lists", "status"]);
    assert!(status.contains(&error), "{status}");
    assert_eq!(site.metric("avocet_list_failures_total{list=\"threats\"}"), 1.0);
    assert_eq!(site.ask_any("bad.example").0 & 15, DENIED);
    secret(&site, SECRET);
    site.avocet_text(&["reload"]);
    assert!(refresh(&site, &[])["error"].is_null());

    // A zone without rules, and a zone with only broken rules.
    let empty = "$ORIGIN corp.example.\n$TTL 60\n@ SOA ns.other. host 2 2h 3m 4w 60\n@ NS \
                 ns.other.\n";
    let broken =
        format!("{}1.2.rpz-ip CNAME .\nv3 CNAME rpz-unknown.\n", empty.replace(" 2 2h", " 3 2h"));
    for (text, serial) in [(empty, 2), (&broken, 3)] {
        peer.publish(text);
        let until = Instant::now() + PATIENCE;
        let mut error = refresh(&site, &[])["error"].clone();
        while !error.as_str().is_some_and(|error| error.contains("no entries")) {
            assert!(Instant::now() < until, "{serial}: {error}");
            std::thread::park_timeout(Duration::from_millis(50));
            error = refresh(&site, &[])["error"].clone();
        }
        assert_eq!(site.ask_any("bad.example").0 & 15, DENIED, "{serial}");
    }
    // An older serial is not followed.
    assert!(refresh(&site, &["--force"])["error"].is_null());
    wait_for(&site, "bad.example", 0, "taken by force");
}
