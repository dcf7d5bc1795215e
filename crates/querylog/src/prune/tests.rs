//! Compares deletions with the results of later searches while the writer continues.

use std::fs;

use super::*;
use crate::column::{Int, Text};
use crate::scratch::{Numbered, Scratch};
use crate::{
    Condition, Entry, Facts, LogReader, Outcome, Period, Ranking, SearchExtent, Writer,
    WriterOptions,
};

const HOUR_US: u64 = 3_600_000_000;
const START_US: u64 = 490_000 * HOUR_US;

/// A log with an open writer.
struct Log {
    scratch: Scratch,
    writer: Writer,
    next: u32,
}

impl Log {
    fn create() -> Self {
        let scratch = Scratch::create();
        let writer = Writer::open(options(&scratch), START_US).unwrap();
        Self { scratch, writer, next: 0 }
    }

    /// Writes one entry per minute. The delay of an entry is its number. Every third entry is
    /// blocked, and every second entry is for `b.`.
    fn write(&mut self, count: u32) {
        for _ in 0..count {
            let number = self.next;
            self.next += 1;
            let time_us = START_US + u64::from(number) * 60_000_000;
            let outcome =
                if number.is_multiple_of(3) { Outcome::Blocked } else { Outcome::Answered };
            let facts = Facts {
                response_delay_us: number,
                revision: 1,
                outcome,
                ..Facts::of(time_us, [192, 0, 2, (number % 2) as u8].into())
            };
            let qname = if number.is_multiple_of(2) { b"\x01a\x00" } else { b"\x01b\x00" };
            let entry = Entry { facts, qname, lists: &[], answer: b"" };
            self.writer.add(&entry, &Numbered, time_us).unwrap();
            self.writer.tick(time_us).unwrap();
        }
    }

    fn upkeep(&self) -> Upkeep {
        Upkeep::open(self.scratch.0.clone(), Retention::default()).unwrap()
    }

    /// Deletes entries from all files that exist now, as the server does.
    fn prune(&mut self, filter: &Filter) -> Pruned {
        let before_id = self.writer.cut(START_US).unwrap();
        let pruned = self.upkeep().prune_entries(filter, before_id, || true).unwrap();
        self.writer.forget(filter).unwrap();
        pruned
    }

    /// Returns the numbers of the entries that a search finds, the earliest first.
    fn found(&self) -> Vec<u32> {
        let reader = LogReader::open(self.scratch.0.clone()).unwrap();
        let whole = SearchExtent { before_id: u64::MAX, entries: 10_000, max_rows: u64::MAX };
        let page = reader.search(&Filter::default(), whole);
        assert_eq!(page.broken, []);
        page.entries.iter().rev().map(|entry| entry.int(Int::Delay).unwrap() as u32).collect()
    }
}

fn options(scratch: &Scratch) -> WriterOptions {
    let directory = scratch.0.clone();
    WriterOptions { directory, head_entries: 50, head_secs: 1 << 40, pseudonym_key: [0; 16] }
}

fn where_(condition: Condition) -> Filter {
    Filter { conditions: vec![condition], ..Filter::default() }
}

#[test]
fn wanted_entries_go_from_all_files_and_the_writer_goes_on() {
    let mut log = Log::create();
    // Two files of the head become segments. The third file is still open.
    log.write(120);
    let mut upkeep = log.upkeep();
    while upkeep.step(START_US).unwrap() {}
    let blocked = where_(Condition::Is(Text::Outcome, vec!["blocked".to_owned()]));
    let pruned = log.prune(&blocked);
    assert_eq!(pruned, Pruned { entries: 40, broken: Vec::new() });
    let left = |all: u32| (0..all).filter(|number| number % 3 != 0 || *number >= 120);
    assert_eq!(log.found(), left(120).collect::<Vec<_>>());
    log.write(10);
    assert_eq!(log.found(), left(130).collect::<Vec<_>>());
    assert_eq!(log.prune(&blocked).entries, 4, "those that were written since");
    assert_eq!(log.prune(&blocked).entries, 0);
}

#[test]
fn all_are_deleted_with_the_roll_ups_and_ids_are_not_used_again() {
    let mut log = Log::create();
    log.write(60);
    let mut upkeep = log.upkeep();
    while upkeep.step(START_US).unwrap() {}
    // A damaged segment also contains queries, so it must be reported.
    for file in fs::read_dir(&log.scratch.0).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|end| end == "parquet") {
            fs::write(file, "damaged").unwrap();
        }
    }
    let damaged = log.scratch.0.join("rollups.damaged");
    fs::write(&damaged, "damaged").unwrap();
    assert_eq!(log.prune(&Filter::default()).broken, []);
    assert_eq!(log.found(), [0; 0]);
    assert!(!damaged.exists());
    let clients = log.writer.rollups().lock().unwrap().clients();
    assert_eq!(clients, []);
    let rollups = log.writer.rollups().lock().unwrap().clone();
    assert_eq!(rollups.sum(Period::Day, 0..u64::MAX).entries, 0);
    log.write(1);
    let reader = LogReader::open(log.scratch.0.clone()).unwrap();
    let whole = SearchExtent { before_id: u64::MAX, entries: 10, max_rows: u64::MAX };
    let ids: Vec<u64> =
        reader.search(&Filter::default(), whole).entries.iter().map(|entry| entry.id).collect();
    assert_eq!(ids, [60]);
}

#[test]
fn roll_ups_lose_what_was_deleted_as_far_as_counts_permit() {
    let mut log = Log::create();
    // The entries cover a day and a half.
    log.write(36 * 60);
    let hours = |log: &Log| {
        let rollups = log.writer.rollups().lock().unwrap().clone();
        rollups.series(Period::Hour, 0..u64::MAX).count()
    };
    assert_eq!(hours(&log), 36);
    // If only a part of an hour is deleted, the hour remains in the roll-ups.
    let old = Filter { time_us: 0..START_US + 10 * HOUR_US + 1, ..Filter::default() };
    assert_eq!(log.prune(&old).entries, 601);
    assert_eq!(hours(&log), 26);
    let names = |log: &Log, ranking| {
        let rollups = log.writer.rollups().lock().unwrap().clone();
        let top = rollups.sum(Period::Hour, 0..u64::MAX).top(ranking).texts(10);
        top.into_iter().map(|one| one.text).collect::<Vec<_>>()
    };
    assert_eq!(names(&log, Ranking::BlockedQnames), ["a.", "b."]);
    let name = where_(Condition::Under("b.".to_owned()));
    log.prune(&name);
    assert_eq!(names(&log, Ranking::Qnames), ["a."]);
    assert_eq!(names(&log, Ranking::BlockedQnames), ["a."]);
    let client = where_(Condition::Is(Text::Client, vec!["192.0.2.0".to_owned()]));
    log.prune(&client);
    assert_eq!(names(&log, Ranking::Clients), ["192.0.2.1"]);
    assert_eq!(log.found(), [0; 0]);
}

#[test]
fn a_log_that_is_written_is_not_changed_by_another_process() {
    let mut log = Log::create();
    log.write(10);
    let directory = log.scratch.0.clone();
    let refused = prune(&directory, &Filter::default(), || ());
    assert!(matches!(refused, Err(LogError::Locked(_))), "{refused:?}");
    let Log { scratch, writer, .. } = log;
    writer.close(START_US).unwrap();
    let odd = where_(Condition::Is(Text::Client, vec!["192.0.2.1".to_owned()]));
    assert_eq!(prune(&directory, &odd, || ()).unwrap().entries, 5);
    let writer = Writer::open(options(&scratch), START_US).unwrap();
    let day = writer.rollups().lock().unwrap().sum(Period::Day, 0..u64::MAX);
    assert_eq!(day.top(Ranking::Clients).texts(10).len(), 1);
}
