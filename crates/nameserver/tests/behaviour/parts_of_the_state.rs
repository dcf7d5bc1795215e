//! A change of one part of the state ends the cached answers that depend on it, and no others.

use crate::asked;

use std::net::SocketAddr;
use std::sync::Arc;

use avocet_nameserver::InProcess;
use avocet_policy::client::Neighbour;
use avocet_policy::rule::{Pause, Scope, Switches};
use avocet_wire::Rtype;

use asked::{ask, wire};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const A: Rtype = Rtype::A;

const UPSTREAM: &str = "[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.53\"]\n";
const RULES: &str = r#"
[[rule]]
name = "ads"
when = 'qname == "ads.example"'
action = "block"

[[rule]]
name = "private"
when = 'answer.ip.in("203.0.113.0/24")'
action = "block"

[[rule]]
name = "phone"
when = 'client.name == "phone"'
action = "allow"
"#;

fn text(more: &str, forward: &str) -> String {
    let caches = "[cache]\npacket-bytes = \"1MiB\"\nrrset-bytes = \"1MiB\"\n";
    format!("[resolver]\nmode = \"forward\"\n{caches}{more}{forward}")
}

fn record(name: &str, value: &str) -> String {
    format!("[[record]]\nname = \"{name}\"\ntype = \"A\"\nvalues = [\"{value}\"]\n")
}

const OF_OTHERS: &str = "www.example.";
const ALIAS: &str = "alias.example.";
const BLOCKED: &str = "ads.example.";
const BLOCKED_ANSWER: &str = "bad.example.";
const LOCAL: &str = "nas.lan.";
const ALL: [&str; 5] = [OF_OTHERS, ALIAS, BLOCKED, BLOCKED_ANSWER, LOCAL];

/// A server that has cached one answer of each kind.
fn start() -> InProcess {
    let config = text(&format!("{}{RULES}", record("nas.lan", "10.0.0.5")), UPSTREAM);
    let mut server = InProcess::new(&config, SocketAddr::from((CLIENT, 4000))).unwrap();
    server.learn(&wire(OF_OTHERS), A.0, 300, &[&[192, 0, 2, 7]]);
    server.learn(&wire(BLOCKED_ANSWER), A.0, 300, &[&[203, 0, 113, 7]]);
    server.learn(&wire(ALIAS), Rtype::CNAME.0, 300, &[&wire("host.example.")]);
    server.learn(&wire("host.example."), A.0, 300, &[&[192, 0, 2, 8]]);
    for name in ALL {
        assert_ne!(ask(&mut server, CLIENT, name, A), "nothing", "{name}");
    }
    check_kept(&server, &ALL);
    server
}

fn reload(server: &mut InProcess, more: &str, forward: &str) {
    let config = text(&format!("{more}{RULES}"), forward);
    server.reload(&config).unwrap();
}

#[track_caller]
fn check_kept(server: &InProcess, expected: &[&str]) {
    let kept = server.kept();
    let is_kept = |name: &&str| {
        kept.iter().any(|question| question.strip_suffix(&[0, 1, 0, 1]) == Some(&*wire(name)))
    };
    let kept: Vec<_> = ALL.into_iter().filter(is_kept).collect();
    assert_eq!(kept, expected);
}

#[test]
fn a_new_cookie_secret_builds_no_part_and_ends_no_answer() {
    let mut server = start();
    let before = server.state().clone();
    server.rotate_cookie_secret([8; 16]).unwrap();
    let now = server.state().clone();
    assert_ne!(before.cookies, now.cookies);
    assert_eq!((before.generations, before.epoch), (now.generations, now.epoch));
    assert!(Arc::ptr_eq(&before.config, &now.config));
    assert!(Arc::ptr_eq(before.policy.as_ref().unwrap(), now.policy.as_ref().unwrap()));
    assert!(Arc::ptr_eq(&before.plan, &now.plan));
    assert!(Arc::ptr_eq(&before.names, &now.names));
    check_kept(&server, &ALL);
}

#[test]
fn a_change_of_the_configuration_alone_ends_no_answer() {
    let mut server = start();
    let before = server.state().clone();
    let more = format!("{}[log]\nlevel = \"warn\"\n", record("nas.lan", "10.0.0.5"));
    reload(&mut server, &more, UPSTREAM);
    let now = server.state().clone();
    assert_ne!(before.generations.configuration, now.generations.configuration);
    assert_eq!(before.epoch, now.epoch);
    assert!(Arc::ptr_eq(before.policy.as_ref().unwrap(), now.policy.as_ref().unwrap()));
    assert!(Arc::ptr_eq(&before.plan, &now.plan));
    assert!(Arc::ptr_eq(&before.names, &now.names));
    check_kept(&server, &ALL);
}

#[test]
fn a_change_of_a_record_ends_the_answers_about_its_name() {
    let mut server = start();
    let before = server.state().clone();
    reload(&mut server, &record("nas.lan", "10.0.0.6"), UPSTREAM);
    let now = server.state().clone();
    assert_eq!(
        (before.generations.policy, before.generations.plan),
        (now.generations.policy, now.generations.plan)
    );
    // An answer that the policy replaced does not show the names that led to it.
    check_kept(&server, &[OF_OTHERS, ALIAS, BLOCKED]);
    server.learn(&wire(OF_OTHERS), A.0, 300, &[&[192, 0, 2, 99]]);
    for _ in 0..2 {
        let answer = ask(&mut server, CLIENT, OF_OTHERS, A);
        assert_eq!(answer, "NOERROR 300 192.0.2.7", "the kept one");
        assert_eq!(ask(&mut server, CLIENT, LOCAL, A), "NOERROR 300 10.0.0.6");
    }
    let packet_hits = |server: &InProcess| {
        server.ended_by_stage().into_iter().find(|(stage, _)| *stage == "packet-hit").unwrap().1
    };
    let hits = packet_hits(&server);
    ask(&mut server, CLIENT, OF_OTHERS, A);
    assert_eq!(packet_hits(&server), hits + 1);
}

#[test]
fn a_removed_record_is_gone_at_once() {
    let mut server = start();
    server.learn(&wire(LOCAL), A.0, 300, &[&[192, 0, 2, 70]]);
    reload(&mut server, "", UPSTREAM);
    check_kept(&server, &[OF_OTHERS, ALIAS, BLOCKED]);
    assert_eq!(ask(&mut server, CLIENT, LOCAL, A), "NOERROR 300 192.0.2.70");
}

#[test]
fn a_cached_name_that_becomes_local_is_answered_by_its_record_at_once() {
    for (name, value) in [("www.example", "10.0.0.7"), ("*.example", "10.0.0.7")] {
        let mut server = start();
        let more = format!("{}{}", record("nas.lan", "10.0.0.5"), record(name, value));
        reload(&mut server, &more, UPSTREAM);
        assert_eq!(ask(&mut server, CLIENT, OF_OTHERS, A), "NOERROR 300 10.0.0.7", "{name}");
        // A rule takes precedence over a local record.
        assert!(ask(&mut server, CLIENT, BLOCKED, A).contains("rule ads"), "{name}");
    }
    let mut server = start();
    reload(&mut server, "[server]\nlocal-zones = [\"example\"]\n", UPSTREAM);
    assert_eq!(ask(&mut server, CLIENT, OF_OTHERS, A), "NXDOMAIN");
}

#[test]
fn a_cached_alias_leads_to_a_name_that_becomes_local_at_once() {
    let mut server = start();
    let more = format!("{}{}", record("nas.lan", "10.0.0.5"), record("host.example", "10.0.0.8"));
    reload(&mut server, &more, UPSTREAM);
    check_kept(&server, &[OF_OTHERS, BLOCKED, LOCAL]);
    assert_eq!(ask(&mut server, CLIENT, ALIAS, A), "NOERROR 300 host.example. 300 10.0.0.8");
    reload(&mut server, &record("nas.lan", "10.0.0.5"), UPSTREAM);
    assert_eq!(ask(&mut server, CLIENT, ALIAS, A), "NOERROR 300 host.example. 300 192.0.2.8");
}

#[test]
fn a_change_of_the_policy_ends_all_answers() {
    let mut server = start();
    let blocked = RULES.replace("ads.example", "www.example");
    let more = format!("{}{blocked}", record("nas.lan", "10.0.0.5"));
    server.reload(&text(&more, UPSTREAM)).unwrap();
    check_kept(&server, &[]);
    assert!(ask(&mut server, CLIENT, OF_OTHERS, A).contains("rule ads"));

    let mut server = start();
    let scope = Scope::default();
    let switches =
        Switches { pauses: vec![Pause { scope, until: u64::MAX }], ..Switches::default() };
    server.switch(switches).unwrap();
    check_kept(&server, &[]);
}

#[test]
fn a_change_of_the_plan_ends_the_answers_of_other_servers() {
    let mut server = start();
    reload(&mut server, &record("nas.lan", "10.0.0.5"), &UPSTREAM.replace(".53", ".54"));
    check_kept(&server, &[BLOCKED, LOCAL]);
    let before = server.state().clone();
    let dns64 = format!("{}[dns64]\nprefix = \"64:ff9b::/96\"\n", record("nas.lan", "10.0.0.5"));
    reload(&mut server, &dns64, &UPSTREAM.replace(".53", ".54"));
    assert!(server.state().generations.plan > before.generations.plan);
    assert_eq!(server.state().generations.policy, before.generations.policy);
}

#[test]
fn another_table_of_neighbours_or_clients_ends_no_answer() {
    let mut server = start();
    let phone = |address: [u8; 4]| Neighbour {
        address: address.into(),
        mac: None,
        name: Some("phone".to_owned()),
    };
    let epoch = server.state().epoch;
    let other = [10, 0, 0, 2];
    assert!(ask(&mut server, other, BLOCKED, A).contains("rule ads"));
    server.meet(&[phone(other)]).unwrap();
    check_kept(&server, &ALL);
    server.meet(&[phone([10, 0, 0, 3])]).unwrap();
    check_kept(&server, &ALL);
    let client = "[[client]]\nname = \"tv\"\nids = [\"10.0.0.9\"]\n";
    let more = format!("{}{client}", record("nas.lan", "10.0.0.5"));
    reload(&mut server, &more, UPSTREAM);
    check_kept(&server, &ALL);
    assert_eq!(server.state().epoch, epoch);
}

#[test]
fn a_client_that_moves_to_another_profile_gets_the_answers_of_that() {
    let rules = RULES.replace("qname == \"ads.example\"", "client.name == \"phone\"");
    let config = text(&rules, UPSTREAM);
    let mut server = InProcess::new(&config, SocketAddr::from((CLIENT, 4000))).unwrap();
    server.learn(&wire(OF_OTHERS), A.0, 300, &[&[192, 0, 2, 7]]);
    let check = |server: &mut InProcess, expected: [bool; 2]| {
        for _ in 0..2 {
            let blocked = [CLIENT, [10, 0, 0, 2]]
                .map(|client| ask(server, client, OF_OTHERS, A).contains("rule ads"));
            assert_eq!(blocked, expected);
        }
    };
    let phone = |address: [u8; 4]| {
        [Neighbour { address: address.into(), mac: None, name: Some("phone".to_owned()) }]
    };
    check(&mut server, [false, false]);
    server.meet(&phone(CLIENT)).unwrap();
    check(&mut server, [true, false]);
    server.meet(&phone([10, 0, 0, 2])).unwrap();
    check(&mut server, [false, true]);
    server.meet(&[]).unwrap();
    check(&mut server, [false, false]);
}

#[test]
fn a_cached_service_whose_target_becomes_local_is_withheld_at_once() {
    let private = "[policy]\nblock-private = true\n";
    let config = |more: &str| text(&format!("{private}{more}"), UPSTREAM);
    let mut server = InProcess::new(&config(""), SocketAddr::from((CLIENT, 4000))).unwrap();
    let https = |target: &str| [&[0, 1][..], &wire(target)].concat();
    server.learn(&wire("svc.example."), Rtype::HTTPS.0, 300, &[&https("nas.house.example.")]);
    server.learn(&wire("other.example."), Rtype::HTTPS.0, 300, &[&https("far.example.")]);
    let ask = |server: &mut InProcess, name| ask(server, CLIENT, name, Rtype::HTTPS);
    let names = ["svc.example.", "other.example."];
    let before = names.map(|name| ask(&mut server, name));
    assert!(before.iter().all(|answer| answer.starts_with("NOERROR") && !answer.contains('[')));
    server.reload(&config(&record("nas.house.example", "192.168.1.9"))).unwrap();
    let withheld = "NOERROR [15 private address for a public name]".to_owned();
    let [_, other] = before;
    assert_eq!(names.map(|name| ask(&mut server, name)), [withheld, other]);
}
