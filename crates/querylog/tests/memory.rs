//! Tests that the writer and the upkeep stay within their memory bound, even during an attack with
//! random names.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

use std::fs;
use std::path::PathBuf;

use avocet_querylog::{
    DEFAULT_HEAD_ENTRIES, DEFAULT_HEAD_SECS, Entry, Facts, Label, Labels, Retention, Upkeep,
    Writer, WriterOptions,
};
use avocet_testkit::Chance;

/// The bound of 64 MiB, minus the memory that the rings of two workers take in the server.
const BOUND_KIB: u64 = (64 - 2 * 4) * 1024;
const DAY_US: u64 = 86_400_000_000;
/// Number of entries, which is enough for several files of the head with such names.
const ENTRIES: u64 = 150_000;

struct Texts;

impl Labels for Texts {
    fn texts(&self, _revision: u32, label: Label, number: u16, found: &mut dyn FnMut(&str)) {
        found(&format!("{label:?}-{number}"));
    }
}

fn facts(time_us: u64, client: u32) -> Facts {
    Facts {
        response_delay_us: client % 100_000,
        upstream_rtt_us: client % 90_000,
        revision: 1,
        profile: 1,
        device: 1,
        upstream: 1,
        flags: 0x8183,
        rcode: 3,
        query_size: 200,
        response_size: 300,
        stage: 1,
        cache: 1,
        ..Facts::of(time_us, client.to_be_bytes().into())
    }
}

/// Returns a name with three random labels of 60 letters.
fn name(chance: &mut Chance) -> Vec<u8> {
    let mut wire = Vec::new();
    for _ in 0..3 {
        wire.push(60);
        wire.extend((0..60).map(|_| b'a' + chance.below(26) as u8));
    }
    wire.push(0);
    wire
}

/// Returns a size in KiB from `/proc/self/status`.
fn status_kib(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn memory_is_bounded_while_every_name_is_a_different_one() {
    let directory = std::env::temp_dir().join(format!("avocet-memory-{}", std::process::id()));
    let before = status_kib("VmRSS");
    write(directory.clone());
    let peak = status_kib("VmHWM") - before;
    fs::remove_dir_all(&directory).unwrap();
    assert!(peak <= BOUND_KIB, "{peak} KiB");
}

fn write(directory: PathBuf) {
    let start_us = 20_000 * DAY_US;
    let options = WriterOptions {
        directory: directory.clone(),
        head_entries: DEFAULT_HEAD_ENTRIES,
        head_secs: DEFAULT_HEAD_SECS,
        pseudonym_key: [0; 16],
    };
    let mut writer = Writer::open(options, start_us).unwrap();
    let mut upkeep = Upkeep::open(directory, Retention::default()).unwrap();
    let chance = &mut Chance::new(1);
    let mut now_us = start_us;
    for number in 0..ENTRIES {
        now_us += 1000;
        let qname = name(chance);
        let client = chance.below(1 << 32) as u32;
        let entry = Entry { facts: facts(now_us, client), qname: &qname, lists: &[], answer: b"" };
        writer.add(&entry, &Texts, now_us).unwrap();
        if number.is_multiple_of(1000) {
            writer.tick(now_us).unwrap();
            while upkeep.step(now_us).unwrap() {}
        }
    }
    writer.close(now_us).unwrap();
    // The day is over, so its segments are merged into one.
    while upkeep.step(now_us + 2 * DAY_US).unwrap() {}
    let counters = upkeep.counters();
    assert!(counters.sealed > ENTRIES / 2 && counters.merged > 1, "{counters:?}");
}
