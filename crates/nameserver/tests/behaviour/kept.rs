//! Cached answers: their source, their lifetime, and their refresh before they expire.

use crate::asked;

use std::net::SocketAddr;

use avocet_nameserver::InProcess;
use avocet_wire::Rtype;

use asked::{ask, wire};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
/// A Monday, 12:00 UTC, in Unix seconds.
const NOON: u64 = 1_704_715_200;

const CONFIGURATION: &str = r#"
[policy]
block-ttl-secs = 100

[[rule]]
name = "games"
when = 'qname.under("games.example")'
action = "block"

[[rule]]
name = "moved"
when = 'qname.under("moved.example")'
action = "redirect"
to = ["10.9.9.9"]

[[rule]]
name = "evening"
when = 'qname.under("printer.lan") && now.between("12:01", "13:00")'
action = "block"

[[record]]
name = "printer.lan"
type = "A"
values = ["10.0.0.7"]

[[record]]
name = "*.lan"
type = "A"
values = ["10.0.0.8"]

[[forward]]
zone = "."
upstreams = ["192.0.2.1"]
"#;

fn server() -> InProcess {
    let mut server = InProcess::new(CONFIGURATION, SocketAddr::from((CLIENT, 4000))).unwrap();
    server.set_wall_clock(NOON);
    server.learn(&wire("www.example."), Rtype::A.0, 100, &[&[192, 0, 2, 7]]);
    server
}

fn a(server: &mut InProcess, name: &str) -> String {
    ask(server, CLIENT, name, Rtype::A)
}

#[test]
fn a_kept_answer_counts_for_the_stage_that_made_it() {
    let mut server = server();
    for (name, stages) in [
        ("www.example.", ["rrset-hit", "packet-hit", "packet-hit"]),
        ("x.games.example.", ["blocked"; 3]),
        ("x.moved.example.", ["rewritten"; 3]),
        ("printer.lan.", ["local"; 3]),
        ("other.lan.", ["local"; 3]),
    ] {
        for stage in stages {
            let before = server.ended_by_stage();
            a(&mut server, name);
            let ended: Vec<_> = server
                .ended_by_stage()
                .into_iter()
                .zip(before)
                .filter_map(|((name, after), (_, before))| (after > before).then_some(name))
                .collect();
            assert_eq!(ended, [stage], "{name}");
        }
    }
}

#[test]
fn a_local_answer_keeps_its_ttl_where_no_rule_begins_to_hold_before() {
    let mut server = server();
    let first = "NOERROR 60 10.0.0.7";
    assert_eq!(a(&mut server, "printer.lan."), first);
    server.pass(59);
    assert_eq!(a(&mut server, "printer.lan."), "NOERROR 1 10.0.0.7");
    server.pass(1);
    assert_eq!(a(&mut server, "printer.lan."), "NOERROR 100 0.0.0.0 [15 rule evening]");
    server.pass(3600);
    for _ in 0..3 {
        assert_eq!(a(&mut server, "printer.lan."), "NOERROR 300 10.0.0.7");
        server.pass(59);
    }
}

#[test]
fn a_popular_name_is_asked_for_once_before_it_ends_and_what_comes_is_taken() {
    let mut server = server();
    // The packet cache has now counted the name as popular.
    for _ in 0..3 {
        assert_eq!(a(&mut server, "www.example."), "NOERROR 100 192.0.2.7");
    }
    server.pass(89);
    a(&mut server, "www.example.");
    assert_eq!(server.waiting(), 0);
    server.pass(2);
    for expected in [1, 0, 0] {
        assert_eq!(a(&mut server, "www.example."), "NOERROR 9 192.0.2.7");
        assert_eq!(server.waiting(), expected, "asked for in this second");
    }
    // No response has arrived, so the answer expires normally.
    server.pass(1);
    assert_eq!(
        (a(&mut server, "www.example."), server.waiting()),
        ("NOERROR 8 192.0.2.7".to_owned(), 0)
    );
    server.learn(&wire("www.example."), Rtype::A.0, 100, &[&[192, 0, 2, 8]]);
    server.pass(7);
    a(&mut server, "www.example.");
    assert_eq!(
        (a(&mut server, "www.example."), server.waiting()),
        ("NOERROR 1 192.0.2.7".to_owned(), 0)
    );
    server.pass(1);
    assert_eq!(
        (a(&mut server, "www.example."), server.waiting()),
        ("NOERROR 92 192.0.2.8".to_owned(), 0)
    );
    // This time the response arrives within a second.
    a(&mut server, "www.example.");
    server.pass(85);
    a(&mut server, "www.example.");
    assert_eq!(
        (a(&mut server, "www.example."), server.waiting()),
        ("NOERROR 7 192.0.2.8".to_owned(), 0)
    );
    server.learn(&wire("www.example."), Rtype::A.0, 100, &[&[192, 0, 2, 9]]);
    server.pass(1);
    assert_eq!(
        (a(&mut server, "www.example."), server.waiting()),
        ("NOERROR 99 192.0.2.9".to_owned(), 0)
    );
}

#[test]
fn what_is_blocked_rewritten_or_local_is_never_asked_for() {
    let mut server = server();
    for name in ["x.games.example.", "x.moved.example.", "printer.lan."] {
        for _ in 0..100 {
            a(&mut server, name);
            assert_eq!(server.waiting(), 0, "{name}");
            server.pass(1);
        }
    }
}
