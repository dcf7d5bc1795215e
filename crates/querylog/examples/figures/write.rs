//! Writes the trace as the server would, and prints the cost of each step.

use std::collections::HashMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use avocet_querylog::{
    Consumer, DEFAULT_HEAD_ENTRIES, DEFAULT_HEAD_SECS, Entry, Facts, Record, Retention, Upkeep,
    Writer, WriterOptions, ring,
};

use crate::memory::{Phase, cpu_secs};
use crate::print;
use crate::trace::{DAY_ENTRIES, DAY_US, Messages, OUTCOMES, START_US, Texts, Trace};

/// Number of octets of a worker's ring. A worker has two rings.
const RING_OCTETS: usize = 1 << 22;
/// Number of entries that are pushed before the writer empties the rings.
const BATCH: u64 = 30_000;

/// CPU time spent in the steps, and entries that they handled.
#[derive(Default)]
struct Steps {
    written_secs: f64,
    sealed_secs: f64,
    merged_secs: f64,
    head: Size,
    sealed: Size,
}

/// The octets that some entries take.
#[derive(Default)]
struct Size {
    octets: u64,
    entries: u64,
}

impl Size {
    fn each(&self) -> f64 {
        self.octets as f64 / self.entries.max(1) as f64
    }
}

/// Writes entries day by day, as a server would; a day is sealed when it is complete.
pub(crate) fn run(directory: &Path, entries: u64) {
    let (mut trace, mut messages) = (Trace::begin(), Messages::default());
    let lists = trace.lists();
    let options = WriterOptions {
        directory: directory.to_owned(),
        head_entries: DEFAULT_HEAD_ENTRIES,
        // A file of the head is complete when it has enough entries, as on a busy server, and not
        // by its age.
        head_secs: DEFAULT_HEAD_SECS * 24,
        pseudonym_key: [0; 16],
    };
    let phase = Phase::begin();
    let mut writer = Writer::open(options, START_US).expect("the directory is writable");
    let mut upkeep =
        Upkeep::open(directory.to_owned(), Retention::default()).expect("it is readable");
    let (mut rings, mut consumers): (Vec<_>, Vec<_>) =
        (0..2).map(|_| ring(RING_OCTETS, &OUTCOMES)).unzip();
    let mut steps = Steps::default();
    let mut left = entries;
    while left > 0 {
        let day = left.min(DAY_ENTRIES);
        let mut left_today = day;
        while left_today > 0 {
            let batch = left_today.min(BATCH);
            for number in 0..batch as usize {
                messages.push(&trace.next(), &mut rings[number % 2]);
            }
            let now = trace.time_us as u64;
            let start = cpu_secs();
            consumers.iter_mut().for_each(|ring| drain(ring, &lists, &mut writer, now));
            writer.tick(now).expect("the head is synced");
            steps.written_secs += cpu_secs() - start;
            left_today -= batch;
        }
        steps.upkeep(&mut upkeep, directory, trace.time_us as u64);
        left -= day;
    }
    let now = trace.time_us as u64;
    let counters = writer.close(now).expect("the head is closed");
    steps.head = Size { octets: counters.octets, entries: counters.written };
    // Adds an empty file to the head, because the upkeep leaves the last file to the writer.
    fs::write(directory.join("head-7fffffffffffffff.blocks"), b"").expect("it is writable");
    steps.upkeep(&mut upkeep, directory, now + 2 * DAY_US);
    let dropped: u64 = consumers.iter().map(|ring| ring.dropped()).sum();
    assert_eq!((counters.written, dropped), (entries, 0), "all entries are written");
    let peak = phase.peak_mib();
    steps.print(entries, octets(directory, ".parquet"), peak);
}

/// Takes all entries out of a ring and completes them, as the server does.
fn drain(
    ring: &mut Consumer,
    lists: &HashMap<Vec<u8>, Vec<u16>>,
    writer: &mut Writer,
    now_us: u64,
) {
    let mut record = Record::default();
    while ring.pop(&mut record) {
        let entry = record.entry();
        let device = match entry.facts.client {
            IpAddr::V4(address) => address.to_bits() as u16 + 1,
            IpAddr::V6(_) => 0,
        };
        let lists = if entry.facts.rule == 0 { None } else { lists.get(entry.qname) };
        let facts = Facts { device, ..entry.facts };
        let entry = Entry { facts, lists: lists.map_or(&[], Vec::as_slice), ..entry };
        writer.add(&entry, &Texts, now_us).expect("the head is written");
    }
}

impl Steps {
    /// Seals all complete files of the head, and then merges all days that are over.
    fn upkeep(&mut self, upkeep: &mut Upkeep, directory: &Path, now_us: u64) {
        let before = (octets(directory, ".parquet"), upkeep.counters().sealed);
        let start = cpu_secs();
        // On the first day of the trace, no day is over.
        while upkeep.step(START_US).expect("it is sealed") {}
        self.sealed_secs += cpu_secs() - start;
        self.sealed.octets += octets(directory, ".parquet") - before.0;
        self.sealed.entries += upkeep.counters().sealed - before.1;
        let start = cpu_secs();
        while upkeep.step(now_us).expect("days are merged") {}
        self.merged_secs += cpu_secs() - start;
    }

    fn print(&self, entries: u64, merged: u64, peak_mib: f64) {
        let merged = Size { octets: merged, entries };
        print("octets an entry, head", format!("{:.2}", self.head.each()));
        print("octets an entry, sealed by the hour", format!("{:.2}", self.sealed.each()));
        print("octets an entry, merged by the day", format!("{:.2}", merged.each()));
        let rate = |secs: f64| format!("{:.0}", entries as f64 / secs);
        print("entries a second of CPU time, ring to head", rate(self.written_secs));
        print("entries a second of CPU time, seal", rate(self.sealed_secs));
        print("entries a second of CPU time, merge", rate(self.merged_secs));
        let all = self.written_secs + self.sealed_secs + self.merged_secs;
        print("entries a second of CPU time, all three", rate(all));
        print("memory of rings, writer and upkeep, MiB", format!("{peak_mib:.1}"));
    }
}

/// Returns the octets of the files with an ending.
fn octets(directory: &Path, ending: &str) -> u64 {
    let files = fs::read_dir(directory).expect("the directory is readable").flatten();
    let files = files.filter(|file| file.file_name().to_string_lossy().ends_with(ending));
    files.map(|file| file.metadata().map_or(0, |file| file.len())).sum()
}
