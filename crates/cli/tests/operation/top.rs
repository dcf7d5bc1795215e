//! `avocet top`: one frame as text, and the screen in a terminal.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::query_log::wait_for_written;
use crate::server::{PATIENCE, Site};
use crate::upstream::Upstream;

const ON: &str = "[query-log]\nenabled = true\n";

#[test]
fn one_frame_shows_the_queries_of_the_log() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", ON);
    let _server = site.start();
    site.ask("www.example");
    wait_for_written(&site, 1.0);
    let text = site.avocet_text(&["top", "--once"]);
    for part in ["healthy", "last hour", "www.example.", "127.0.0.1", "answered"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let json = site.avocet_text(&["top", "--json"]);
    let reports: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(reports["latest"][0]["name"], "www.example.", "{json}");
}

#[test]
fn without_a_log_the_counts_of_the_server_remain() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    site.ask("www.example");
    let text = site.avocet_text(&["top", "--once"]);
    assert!(text.contains("no counts without the query log"), "{text}");
    assert!(text.contains("queries since the start"), "{text}");
}

#[test]
fn without_a_terminal_or_a_server_the_reason_is_said() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let refused = |expected: &str| {
        let output = site.avocet(&["top"]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(expected), "{text}");
    };
    refused("no avocet is running");
    let _server = site.start();
    refused("needs a terminal");
}

#[test]
fn in_a_terminal_it_follows_the_queries_and_ends_by_q() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", ON);
    let _server = site.start();
    let (binary, file) = (env!("CARGO_BIN_EXE_avocet"), site.file());
    let command = format!("stty cols 120 rows 40; {binary} top --config {}", file.display());
    let started = Command::new("script")
        .args(["-qefc", &command, "/dev/null"])
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut terminal) = started else {
        assert!(std::env::var_os("CI").is_none(), "script of util-linux is missing");
        return;
    };
    let mut keys = terminal.stdin.take().unwrap();
    let mut screen = terminal.stdout.take().unwrap();
    let mut seen = String::new();
    let mut octets = [0; 4096];
    for attempt in 0..PATIENCE.as_secs() * 100 {
        site.ask(&format!("seen{attempt}.example"));
        let count = screen.read(&mut octets).unwrap();
        assert!(count > 0, "it ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&octets[..count]));
        if seen.contains("example.") {
            break;
        }
    }
    assert!(seen.contains("example."), "{seen}");
    keys.write_all(b"q").unwrap();
    // What else is drawn must be taken, or it would wait for that.
    screen.read_to_end(&mut Vec::new()).unwrap();
    assert!(terminal.wait().unwrap().success());
}
