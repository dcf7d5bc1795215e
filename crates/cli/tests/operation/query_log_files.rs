//! The files of the query log, as the commands that read them show them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use avocet_querylog::{
    Entry, Facts, Label, Labels, Outcome, Retention, Upkeep, Writer, WriterOptions,
};
use serde_json::Value;

use crate::server::Site;

/// 2026-11-22 20:00:00 UTC.
const START_US: u64 = 1_795_377_600_000_000;
const SECOND_US: u64 = 1_000_000;

/// Texts of the numbers in the entries.
struct Texts;

impl Labels for Texts {
    fn texts(&self, _revision: u32, label: Label, number: u16, found: &mut dyn FnMut(&str)) {
        found(match (label, number) {
            (Label::Stage, 0) => "packet-hit",
            (Label::Stage, _) => "blocked",
            (Label::Transport, _) => "udp",
            (Label::Device, _) => "tablet",
            (Label::Upstream, _) => "9.9.9.9:53",
            (Label::Rule, _) => "homework",
            (Label::List, _) => "ads",
            _ => "",
        });
    }
}

/// An answer from the cache.
fn facts() -> Facts {
    Facts {
        response_delay_us: 41,
        revision: 1,
        flags: 0x8180,
        query_size: 40,
        response_size: 80,
        ..Facts::of(START_US, [192, 0, 2, 7].into())
    }
}

const WWW: &[u8] = b"\x03www\x07example\x00";
const ADS: &[u8] = b"\x03ads\x07eXample\x00";
const OTHER: &[u8] = b"\x05other\x04test\x00";

/// Adds entries to a log, in a file of the head of their own.
fn write(directory: &Path, entries: &[Entry<'_>]) {
    let options = WriterOptions {
        directory: directory.to_owned(),
        head_entries: 1 << 18,
        head_secs: 3600,
        pseudonym_key: [0; 16],
    };
    let now_us = START_US + 60 * SECOND_US;
    let mut writer = Writer::open(options, now_us).unwrap();
    for entry in entries {
        writer.add(entry, &Texts, now_us).unwrap();
    }
    writer.close(now_us).unwrap();
}

/// A site with three queries in its log, a second apart: `www.example`, `ads.example`, which a list
/// blocks, and `other.test`, which does not exist.
fn site() -> Site {
    let site = Site::new();
    configure(&site, "enabled = true");
    let (www, ads, other) = (facts(), facts(), facts());
    let ads = Facts { time_us: START_US + SECOND_US, qtype: 28, device: 1, stage: 1, ..ads };
    let ads = Facts { outcome: Outcome::Blocked, ..ads };
    let other = Facts { time_us: START_US + 2 * SECOND_US, rcode: 3, upstream: 1, ..other };
    let other = Facts { client: [192, 0, 2, 8].into(), rule: 1, ..other };
    let entry = |facts, qname| Entry { facts, qname, lists: &[], answer: b"" };
    let ads = Entry { lists: &[1], ..entry(ads, ADS) };
    write(&log(&site), &[entry(www, WWW), ads, entry(other, OTHER)]);
    site
}

fn configure(site: &Site, query_log: &str) {
    let data = site.data();
    let text = format!(
        "[data]\ndirectory = \"{}\"\n[policy]\ntime-zone = \"Europe/Berlin\"\n\
         [query-log]\n{query_log}\n",
        data.display()
    );
    site.write(&text);
}

fn log(site: &Site) -> PathBuf {
    site.data().join("query-log")
}

fn stdout(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), errors.as_ref()), (Some(0), ""));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The first labels of the names that a search finds.
fn found(site: &Site, filter: &[&str]) -> String {
    let lines = stdout(&site.avocet(&[&["log", "search", "--json"], filter].concat()));
    let label = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        entry["qname"].as_str().unwrap().split('.').next().unwrap().to_owned()
    };
    let labels: Vec<String> = lines.lines().map(label).collect();
    let count = stdout(&site.avocet(&[&["log", "search", "--count"], filter].concat()));
    if !filter.contains(&"--limit") {
        assert_eq!(count.trim(), labels.len().to_string(), "{filter:?}");
    }
    labels.join(" ")
}

#[test]
fn a_search_shows_the_latest_queries_first_in_the_time_zone_of_the_policy() {
    let lines = stdout(&site().avocet(&["log", "search"]));
    let expected = "\
        2026-11-22 21:00:02.000 192.0.2.8 udp A other.test. packet-hit by rule homework NXDOMAIN \
        41 us from 9.9.9.9:53\n\
        2026-11-22 21:00:01.000 192.0.2.7 (tablet) udp AAAA ads.example. blocked by list ads \
        NOERROR 41 us\n\
        2026-11-22 21:00:00.000 192.0.2.7 udp A www.example. packet-hit NOERROR 41 us\n";
    assert_eq!(lines, expected);
}

#[test]
fn filters_select_entries_alone_and_together() {
    let site = site();
    let check = |filter: &[&str], expected: &str| {
        assert_eq!(found(&site, filter), expected, "{filter:?}");
    };
    check(&[], "other ads www");
    check(&["--limit", "2"], "other ads");
    check(&["--name", "WWW.example"], "www");
    check(&["--name", "example"], "");
    check(&["--under", "example"], "ads www");
    check(&["--client", "192.0.2.7"], "ads www");
    check(&["--client", "tablet"], "ads");
    check(&["--type", "aaaa"], "ads");
    check(&["--rcode", "nxdomain"], "other");
    check(&["--outcome", "packet-hit"], "other www");
    check(&["--outcome", "answered"], "other www");
    check(&["--outcome", "blocked"], "ads");
    check(&["--rule", "homework"], "other");
    check(&["--list", "ads"], "ads");
    check(&["--upstream", "9.9.9.9"], "other");
    check(&["--from", "1795377601"], "other ads");
    check(&["--to", "2026-11-22 21:00:01"], "www");
    check(&["--from", "2026-11-22 21:00", "--to", "1795377602"], "ads www");
    check(&["--from", "1s"], "");
    check(&["--under", "example", "--outcome", "packet-hit"], "www");
    let count = stdout(&site.avocet(&["log", "search", "--count", "--json"]));
    assert_eq!(count, "{\"entries\":3}\n");
}

#[test]
fn an_export_is_a_private_file_or_standard_output() {
    let site = site();
    let csv = stdout(&site.avocet(&["log", "export", "--format", "csv", "--list", "ads"]));
    let lines: Vec<&str> = csv.split("\r\n").collect();
    assert!(lines[0].starts_with("id,time,"), "{csv}");
    assert!(lines[1].starts_with("1,2026-11-22T20:00:01.000000Z,"), "{csv}");
    assert_eq!(&lines[2..], [""], "{csv}");

    let file = site.directory.join("export.json");
    let export = ["log", "export", "--output", file.to_str().unwrap()];
    let shown = stdout(&site.avocet(&export));
    assert_eq!(shown, format!("3 entries written to {}\n", file.display()));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let written = fs::read_to_string(&file).unwrap();
    assert_eq!(written, stdout(&site.avocet(&["log", "export", "--format", "json"])));
    assert_eq!(written, stdout(&site.avocet(&["log", "search", "--json"])));

    let parquet = site.directory.join("export.parquet");
    let path = parquet.to_str().unwrap();
    stdout(&site.avocet(&["log", "export", "--format", "parquet", "--output", path]));
    let octets = fs::read(&parquet).unwrap();
    assert!(octets.starts_with(b"PAR1") && octets.ends_with(b"PAR1"));

    let again = site.avocet(&export);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
}

#[test]
fn damaged_files_are_named_after_the_others_were_searched() {
    let site = site();
    let whole = stdout(&site.avocet(&["log", "verify"]));
    assert_eq!(whole, "1 files read, 3 entries\n");

    let mut upkeep = Upkeep::open(log(&site), Retention::default()).unwrap();
    while upkeep.step(START_US).unwrap() {}
    write(&log(&site), &[Entry { facts: facts(), qname: WWW, lists: &[], answer: b"" }]);
    let files = fs::read_dir(log(&site)).unwrap().map(|file| file.unwrap().path());
    let sealed = files.into_iter().find(|path| path.extension().is_some_and(|is| is == "parquet"));
    let sealed = sealed.unwrap();
    fs::write(&sealed, &fs::read(&sealed).unwrap()[..100]).unwrap();
    for (command, lines) in [(["log", "search"], 1), (["log", "export"], 1), (["log", "verify"], 1)]
    {
        let output = site.avocet(&command);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command:?}");
        assert!(errors.contains(&sealed.display().to_string()), "{errors}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), lines, "{command:?}");
    }
}

#[test]
fn a_missing_log_and_wrong_words_are_explained() {
    let site = Site::new();
    configure(&site, "");
    let check = |arguments: &[&str], expected: &str| {
        let output = site.avocet(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{errors}");
        assert!(errors.contains(expected), "{errors}");
    };
    let nothing = format!("no query log in {}: set `enabled = true`", log(&site).display());
    for command in ["search", "export", "verify"] {
        check(&["log", command], &nothing);
    }
    fs::create_dir_all(log(&site)).unwrap();
    check(&["log", "search"], &nothing);
    configure(&site, "enabled = true");
    assert_eq!(stdout(&site.avocet(&["log", "search"])), "");
    check(&["log", "search", "--outcome", "bloked"], "expected one of");
    check(&["log", "search", "--from", "yesterday"], "is not a time");
    check(&["log", "search", "--type", "NOTYPE"], "is not a record type");
}

#[test]
fn a_closed_pipe_ends_the_output_silently() {
    let site = site();
    let entry = Entry { facts: facts(), qname: WWW, lists: &[], answer: b"" };
    // More than a pipe holds.
    write(&log(&site), &vec![entry; 2_000]);
    for arguments in [&["log", "export"][..], &["log", "search", "--limit", "2000"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_avocet"))
            .args(arguments)
            .arg("--config")
            .arg(site.file())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}
