//! The caches on disk.

use std::fs;
use std::process::Command;

use crate::server::{Server, Site, exists};
use crate::upstream::{ADDRESS, TTL_SECS, Upstream};

#[test]
fn cached_answers_survive_a_restart_and_grow_no_younger() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let server = site.start();
    let mut ttl = site.ask("kept.example").1;
    while ttl == TTL_SECS {
        ttl = site.ask("kept.example").1;
    }
    server.stop();
    upstream.asked();

    let server = site.start();
    server.seen_line("cache snapshot loaded");
    let (address, left) = site.ask("kept.example");
    assert_eq!(address, ADDRESS);
    assert!(left <= ttl, "{left} s left after {ttl} s");
    assert_eq!(upstream.asked().len(), 0);
    assert_eq!(site.metric("avocet_query_outcomes_total{outcome=\"packet-hit\"}"), 1.0);
}

#[test]
fn answers_of_another_configuration_are_not_taken_from_the_disk() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let server = site.start();
    site.ask("host.lan");
    server.stop();
    site.configure(
        upstream.addr,
        "",
        "[[record]]\nname = \"host.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.9\"]\n",
    );
    let _server = site.start();
    assert_eq!(site.ask("host.lan").0, [10, 0, 0, 9]);
}

#[test]
fn answers_of_before_a_pause_are_not_taken_from_the_disk() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let rule =
        "[[rule]]\nname = \"games\"\nwhen = 'qname.under(\"game.example\")'\naction = \"block\"\n";
    site.configure(upstream.addr, "", rule);
    let server = site.start();
    let blocked = [0; 4];
    assert_eq!(site.ask("game.example").0, blocked);
    server.stop();
    // Simulates a crash after this was written and the pause began.
    let written = fs::read(site.snapshot()).unwrap();
    let server = site.start();
    assert_eq!(site.ask("game.example").0, blocked);
    site.control_lines(b"{\"command\":\"pause\",\"secs\":3600}\n");
    server.stop();
    fs::write(site.snapshot(), written).unwrap();
    let _server = site.start();
    assert_eq!(site.ask("game.example").0, ADDRESS);
}

#[test]
fn a_damaged_snapshot_is_put_aside_and_the_server_serves() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let server = site.start();
    site.ask("a.example");
    server.stop();
    let mut octets = fs::read(site.snapshot()).unwrap();
    let middle = octets.len() / 2;
    octets[middle] ^= 1;
    fs::write(site.snapshot(), &octets).unwrap();

    let server = site.start();
    let line = server.seen_line("damaged");
    assert!(line.contains("WARN") && line.contains("starting with empty caches"), "{line}");
    assert_eq!(fs::read(site.data().join("cache.snapshot.damaged")).unwrap(), octets);
    assert!(!exists(&site.snapshot()));
    assert_eq!(site.metric("avocet_snapshot_failures_total"), 1.0);
    assert_eq!(site.metric("avocet_cache_entries{cache=\"rrset\"}"), 0.0);
    assert_eq!(site.ask("a.example").0, ADDRESS);
}

#[test]
fn a_full_disk_costs_a_line_and_the_last_snapshot_stays() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[cache]\nsnapshot-interval-secs = 1\n");
    fs::create_dir_all(site.data()).unwrap();
    let server = site.start();
    site.ask("first.example");
    server.stop();
    let before = fs::read(site.snapshot()).unwrap();

    // No file may grow past 4 KiB, in blocks of 512 bytes; further writes fail as on a full disk.
    let mut limited = Command::new("sh");
    limited
        .args([
            "-c",
            "ulimit -f 8; exec \"$0\" serve --config \"$1\"",
            env!("CARGO_BIN_EXE_avocet"),
        ])
        .arg(site.file());
    let mut server = Server::start(limited);
    for number in 0..100 {
        site.ask(&format!("n{number}.example"));
    }
    let line = server.wait_for_line("cannot save the cache snapshot");
    assert!(line.contains("the previous one is kept"), "{line}");
    assert!(site.metric("avocet_snapshot_failures_total") >= 1.0);
    assert_eq!(site.ask("n5.example").0, ADDRESS);
    assert_eq!(server.stop().iter().filter(|line| line.contains("ERROR")).count(), 0);
    assert!(fs::read(site.snapshot()).unwrap().len() <= 4096);
    assert!(before.len() <= 4096 && !exists(&site.data().join("cache.snapshot.new")));

    site.start().seen_line("cache snapshot loaded");
}
