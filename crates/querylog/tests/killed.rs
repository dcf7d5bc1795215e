//! Kills a process that writes the log again and again. Afterwards, every file can be opened, at
//! most the entries of the last second are lost, and the next process counts them.
//!
//! The test starts itself as that process. The process has a simulated clock and prints its time
//! with each batch. The test kills the process after a random number of lines, so it need not wait.
//! `AVOCET_LONG_TESTS=1` kills 100 times.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use avocet_querylog::column::Int;
use avocet_querylog::{
    Entry, Facts, Filter, Label, Labels, LogReader, Retention, SearchExtent, Upkeep, Writer,
    WriterOptions,
};
use avocet_testkit::Chance;

/// The environment variable with the directory of the log, for the process that is killed.
const DIRECTORY: &str = "AVOCET_KILLED_DIRECTORY";
const TEST: &str = "a_process_that_is_killed_loses_at_most_its_last_second";
const START_US: u64 = 1_700_000_000_000_000;
/// Simulated time between two batches of entries.
const TURN_US: u64 = 50_000;
const ENTRIES_PER_TURN: u64 = 40;
/// Number of entries in a file of the head. Each process completes several files, so that some
/// kills interrupt sealing.
const HEAD_ENTRIES: u64 = 2_000;

/// Number of kills before the log is deleted.
const LOG_ROUNDS: usize = 5;

struct NoLabels;

impl Labels for NoLabels {
    fn texts(&self, _revision: u32, _label: Label, _number: u16, _found: &mut dyn FnMut(&str)) {}
}

fn facts(time_us: u64) -> Facts {
    Facts {
        response_delay_us: 9,
        revision: 1,
        flags: 0x8180,
        query_size: 40,
        response_size: 90,
        ..Facts::of(time_us, [192, 0, 2, 1].into())
    }
}

fn name(number: u64) -> Vec<u8> {
    let label = format!("n{}", number % 5_000);
    let mut wire = vec![label.len() as u8];
    wire.extend_from_slice(label.as_bytes());
    wire.extend_from_slice(b"\x07example\x00");
    wire
}

fn options(directory: &Path) -> WriterOptions {
    WriterOptions {
        directory: directory.to_owned(),
        head_entries: HEAD_ENTRIES,
        head_secs: 3600,
        pseudonym_key: [0; 16],
    }
}

/// Writes entries until it is killed. Prints a line for each batch: the time up to which entries
/// were handed to the writer.
fn write(directory: PathBuf, mut now_us: u64) {
    let mut writer = Writer::open(options(&directory), now_us).unwrap();
    let mut upkeep = Upkeep::open(directory, Retention::default()).unwrap();
    for turn in 0.. {
        for number in 0..ENTRIES_PER_TURN {
            now_us += TURN_US / ENTRIES_PER_TURN;
            let qname = name(turn * ENTRIES_PER_TURN + number);
            let entry = Entry { facts: facts(now_us), qname: &qname, lists: &[], answer: b"" };
            writer.add(&entry, &NoLabels, now_us).unwrap();
        }
        writer.tick(now_us).unwrap();
        upkeep.step(now_us).unwrap();
        println!("at {now_us}");
    }
}

/// The entries in the files, the newest first.
struct Found {
    ids: Vec<u64>,
    times_us: Vec<u64>,
}

fn found(directory: &Path) -> Found {
    let reader = LogReader::open(directory.to_owned()).unwrap();
    let extent = SearchExtent { before_id: u64::MAX, entries: usize::MAX, max_rows: u64::MAX };
    let page = reader.search(&Filter::default(), extent);
    assert!(page.broken.is_empty(), "{:?}", page.broken);
    // Only the octets of a block that was being written may belong to no intact block, and they are
    // reported.
    let broken = reader.verify(|_, _| ());
    assert!(broken.iter().all(|file| file.path.extension().unwrap() == "blocks"), "{broken:?}");
    Found {
        ids: page.entries.iter().map(|entry| entry.id).collect(),
        times_us: page.entries.iter().map(|entry| entry.int(Int::Time).unwrap() as u64).collect(),
    }
}

/// Checks that a writer after the kill counts at least these entries as lost, and only once.
fn assert_counted(directory: &Path, end_id: u64, lost: u64) {
    let counted = || Writer::open(options(directory), START_US).unwrap().counters().lost;
    let first = counted();
    assert_eq!(counted(), 0, "a loss is counted once");
    // The process may have taken the entries of one more second than its last line shows.
    let most = lost + 1_000_000 / TURN_US * ENTRIES_PER_TURN;
    assert!((lost..=most).contains(&first), "{first} of {lost} after {end_id}");
}

#[test]
fn a_process_that_is_killed_loses_at_most_its_last_second() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let directory = PathBuf::from(directory);
        let now_us = found(&directory).times_us.first().copied().unwrap_or(START_US);
        return write(directory, now_us);
    }
    let directory = std::env::temp_dir().join(format!("avocet-killed-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let rounds = if std::env::var_os("AVOCET_LONG_TESTS").is_some() { 100 } else { 5 };
    let chance = &mut Chance::new(1);
    let mut before = Found { ids: Vec::new(), times_us: Vec::new() };
    for round in 0..rounds {
        // Each round compares all entries that were found before, so the log must not grow without
        // limit.
        if round % LOG_ROUNDS == 0 {
            fs::remove_dir_all(&directory).unwrap();
            fs::create_dir_all(&directory).unwrap();
            before = Found { ids: Vec::new(), times_us: Vec::new() };
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([TEST, "--exact", "--nocapture"])
            .env(DIRECTORY, &directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = 1 + chance.below(120) as usize;
        let output = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let times = output.filter_map(|line| line.strip_prefix("at ")?.parse::<u64>().ok());
        let last_us = times.take(lines).last().expect("the process writes");
        child.kill().unwrap();
        child.wait().unwrap();
        let after = found(&directory);
        // No entry that was found before is lost, and ids have no gaps except those of earlier
        // kills.
        assert!(after.ids.ends_with(&before.ids), "round {round}");
        assert!(after.ids.is_sorted_by(|newer, older| newer > older));
        let new = &after.times_us[..after.times_us.len() - before.times_us.len()];
        let first_us = before.times_us.first().copied().unwrap_or(START_US);
        let step = TURN_US / ENTRIES_PER_TURN;
        assert!(new.iter().rev().zip(1..).all(|(time, n)| *time == first_us + n * step));
        let newest = new.first().copied().unwrap_or(first_us);
        let end_id = after.ids.first().map_or(0, |id| id + 1);
        assert_counted(&directory, end_id, (last_us - newest.min(last_us)) / step);
        assert!(newest + 1_000_000 >= last_us, "round {round}: {newest} before {last_us}");
        before = after;
    }
    fs::remove_dir_all(&directory).unwrap();
}
