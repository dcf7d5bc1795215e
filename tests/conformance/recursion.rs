//! Recursion over real sockets, with authoritative servers of a stub zone.

use std::process::Command;

use avocet_wire::Rcode;

use crate::harness::{Ask, Received, Scripted, Server, Setup, Udp, Verdict, until};

/// A recursive server that queries this server for the zone `corp.`.
fn recursing(authority: &Scripted, negative: &str) -> Server {
    let servers = format!("{}@{}", authority.addr.ip(), authority.addr.port());
    Setup::plain()
        .tables("[resolver]\nmode = \"recurse\"\nroot-hints = \"\"")
        .tables(&format!("[[stub]]\nzone = \"corp\"\nservers = [\"{servers}\"]"))
        .tables(&format!("[dnssec]\nnegative-anchors = [{negative}]"))
        .start()
}

fn good(query: &Received) -> Verdict {
    query.answer().own(60, "A", "192.0.2.1").send()
}

#[test]
fn a_stub_zone_is_asked_at_its_servers_and_cached() {
    let authority = Scripted::start(good);
    let server = recursing(&authority, "\"corp\"");
    let client = Udp::to(server.addr);
    for _ in 0..2 {
        let reply = client.ask(&Ask::of("www.corp.", "A"));
        assert_eq!((reply.rcode, reply.texts()), (Rcode::NOERROR, vec!["192.0.2.1".to_owned()]));
    }
    assert_eq!(authority.count_of("www.corp."), 1);
}

#[test]
fn a_truncated_answer_is_asked_for_over_tcp() {
    let authority = Scripted::start(|query| {
        if query.over_tcp { good(query) } else { query.answer().truncated().send() }
    });
    let server = recursing(&authority, "\"corp\"");
    let reply = Udp::to(server.addr).ask(&Ask::of("large.corp.", "A"));
    assert_eq!((reply.rcode, reply.texts()), (Rcode::NOERROR, vec!["192.0.2.1".to_owned()]));
    assert_eq!(authority.received().iter().filter(|query| query.over_tcp).count(), 1);
}

#[test]
fn without_recursion_desired_only_the_cache_is_asked() {
    let authority = Scripted::start(good);
    let server = recursing(&authority, "\"corp\"");
    let client = Udp::to(server.addr);
    let plain = || Ask::of("www.corp.", "A").flags(0);
    assert_eq!(client.ask(&plain()).rcode, Rcode::REFUSED);
    client.ask(&Ask::of("www.corp.", "A"));
    assert_eq!(client.ask(&plain()).texts(), ["192.0.2.1"]);
    assert_eq!(authority.count_of("www.corp."), 1);
}

/// A negative trust anchor disables validation of a zone until it is removed (RFC 7646).
#[test]
fn a_negative_anchor_set_at_run_time_holds_until_it_is_removed() {
    let authority = Scripted::start(good);
    let servers = format!("{}@{}", authority.addr.ip(), authority.addr.port());
    let anchor = format!("corp. IN DS 1 13 2 {}", "AB".repeat(32));
    let server = Setup::plain()
        .tables("[resolver]\nmode = \"recurse\"")
        .tables(&format!("[[stub]]\nzone = \"corp\"\nservers = [\"{servers}\"]"))
        .tables(&format!("[dnssec]\ntrust-anchors = [\"{anchor}\"]"))
        .start();
    let command = |words: &[&str]| {
        let config = server.directory.path().join("avocet.toml");
        let mut command = Command::new(env!("CARGO_BIN_EXE_avocet"));
        let done =
            command.args(words).arg("--config").arg(config).output().expect("the command runs");
        assert!(done.status.success(), "{done:?}");
    };
    let ask = || server.ask(&Ask::of("www.corp.", "A"));
    assert_eq!(ask().rcode, Rcode::SERVFAIL, "it is not signed as its anchor wants");
    command(&["nta", "add", "corp", "--for", "1h"]);
    let unsigned = until("the anchor is in force", || {
        Some(ask()).filter(|reply| reply.rcode == Rcode::NOERROR)
    });
    assert_eq!(unsigned.texts(), ["192.0.2.1"]);
    command(&["nta", "remove", "corp"]);
    until("the anchor is gone", || Some(ask()).filter(|reply| reply.rcode == Rcode::SERVFAIL));
}
