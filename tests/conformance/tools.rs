//! `dig` and `kdig` accept every answer without warnings.

use std::process::Command;

use crate::harness::peers::{self, Kind};
use crate::harness::{Server, Setup, rtype};
use crate::zones::{self, APEX, TYPES};

/// Runs a tool and returns its output.
fn run(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().expect("it runs");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{program} {words:?}: {text}");
    text
}

#[track_caller]
fn check(program: &str, server: &Server, words: &[&str], expected: &[&str]) {
    let (at, port) = (format!("@{}", server.addr.ip()), server.addr.port().to_string());
    let once = if program == "dig" { "+tries=1" } else { "+retry=0" };
    // Another address: with the same one, the tool might draw the server's port and receive its own
    // query.
    let text = run(
        program,
        &[&[&at, "-p", &port, "-b", "127.0.0.2", once, "+timeout=15"], words].concat(),
    );
    let lower = text.to_lowercase();
    for complaint in
        ["warning", "malformed", "mismatch", "bad packet", "extra bytes", "unexpected", "badcookie"]
    {
        assert!(!lower.contains(complaint), "{program} {words:?}: {text}");
    }
    for part in expected {
        assert!(text.contains(part), "{program} {words:?}: no `{part}` in {text}");
    }
}

fn all_answers(program: &str) {
    if !peers::is_installed(program) {
        return;
    }
    let Some(upstream) = Kind::Nsd.serve(&[zones::everything(), zones::other()]) else { return };
    let server = Setup::forwarding_to(upstream.addr).server("nsid = \"probed\"").start();
    for (mnemonic, _) in TYPES {
        let (owner, number) = (zones::owner_of(mnemonic), format!("TYPE{}", rtype(mnemonic).0));
        check(program, &server, &[&owner, &number], &["NOERROR", &owner]);
        check(program, &server, &[&owner, &number, "+dnssec", "+tcp"], &["NOERROR", &owner]);
    }
    let www = format!("www.many.{APEX}");
    let many = format!("many.{APEX}");
    check(program, &server, &[&many, "A", "+bufsize=512"], &["NOERROR", "192.0.2.5"]);
    check(program, &server, &[&many, "A", "+cookie"], &["NOERROR", "COOKIE: "]);
    check(program, &server, &[&many, "A", "+nsid"], &["NOERROR", "NSID"]);
    check(program, &server, &[&many, "ANY", "+notcp"], &["NOERROR", "RFC8482"]);
    check(program, &server, &[&www, "A", "+dnssec"], &["NXDOMAIN", "SOA"]);
    check(program, &server, &[&format!("huge.{APEX}"), "TXT", "+tcp"], &["NOERROR", "0061xxx"]);
    check(program, &server, &[&format!("a.d2.{APEX}"), "A"], &["NOERROR"]);
    check(program, &server, &["version.bind.", "TXT", "CH"], &["NOERROR", "avocet"]);
}

#[test]
fn dig_reads_every_answer_without_complaint() {
    all_answers("dig");
}

#[test]
fn kdig_reads_every_answer_without_complaint() {
    all_answers("kdig");
}
