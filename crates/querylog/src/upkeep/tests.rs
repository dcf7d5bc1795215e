//! Tests of the limit of age while no entry arrives, after a restart, and of damaged segments.

use super::*;
use crate::scratch::{Numbered, Scratch};
use crate::search::{Filter, LogReader, SearchExtent};
use crate::{Entry, Facts, Writer, WriterOptions};

const HOUR_US: u64 = 3_600_000_000;
const START_US: u64 = 20_000 * DAY_US;
const EXTENT: SearchExtent =
    SearchExtent { before_id: u64::MAX, entries: 1000, max_rows: u64::MAX };

fn writer(scratch: &Scratch, now_us: u64) -> Writer {
    let options = WriterOptions {
        directory: scratch.0.clone(),
        head_entries: 1000,
        head_secs: 3600,
        pseudonym_key: [0; 16],
    };
    Writer::open(options, now_us).unwrap()
}

/// Adds entries with the same time: two with the outcome `answered`, and one with `local`.
fn add(writer: &mut Writer, time_us: u64) {
    for outcome in [Outcome::Answered, Outcome::Local, Outcome::Answered] {
        let facts = Facts { revision: 1, outcome, ..Facts::of(time_us, [192, 0, 2, 7].into()) };
        let entry = Entry { facts, qname: b"\x01a\x00", lists: &[], answer: b"" };
        writer.add(&entry, &Numbered, time_us).unwrap();
    }
    writer.tick(time_us + 1_000_000).unwrap();
}

/// Three days for all entries, and one day for entries with the outcome `local`.
fn upkeep(scratch: &Scratch) -> Upkeep {
    let local = OutcomeDays { outcome: Outcome::Local, days: 1 };
    let retention = Retention { days: 3, octets: 0, outcomes: vec![local] };
    Upkeep::open(scratch.0.clone(), retention).unwrap()
}

/// Does all work that is due, and returns the number of entries that are left.
fn left(scratch: &Scratch, upkeep: &mut Upkeep, now_us: u64) -> u64 {
    while upkeep.step(now_us).unwrap() {}
    LogReader::open(scratch.0.clone()).unwrap().count(&Filter::default(), EXTENT).entries
}

#[test]
fn entries_go_by_age_while_no_entry_arrives() {
    let scratch = Scratch::create();
    let (mut writer, mut upkeep) = (writer(&scratch, START_US), upkeep(&scratch));
    add(&mut writer, START_US);
    let mut left_at = |time_us: u64| {
        writer.tick(time_us).unwrap();
        left(&scratch, &mut upkeep, time_us)
    };
    assert_eq!(left_at(START_US + HOUR_US / 2), 3);
    assert_eq!(left_at(START_US + DAY_US), 3);
    assert_eq!(left_at(START_US + DAY_US + HOUR_US), 2, "those with the outcome `local` are gone");
    assert_eq!(left_at(START_US + 3 * DAY_US + HOUR_US), 0);
    assert_eq!(writer.counters().lost, 0);
    add(&mut writer, START_US + 4 * DAY_US);
    assert_eq!(left(&scratch, &mut upkeep, START_US + 4 * DAY_US), 3);
}

#[test]
fn entries_of_an_earlier_process_go_by_age_before_an_entry_arrives() {
    let scratch = Scratch::create();
    let mut before = writer(&scratch, START_US);
    add(&mut before, START_US);
    before.close(START_US + HOUR_US / 2).unwrap();

    let now_us = START_US + 2 * DAY_US;
    let (mut writer, mut upkeep) = (writer(&scratch, now_us), upkeep(&scratch));
    upkeep.set_ages(Ages::Doubtful);
    assert_eq!(left(&scratch, &mut upkeep, now_us), 3);
    upkeep.set_ages(Ages::Known);
    assert_eq!(left(&scratch, &mut upkeep, now_us), 2);
    assert_eq!(left(&scratch, &mut upkeep, START_US + 4 * DAY_US), 0);
    add(&mut writer, START_US + 4 * DAY_US);
    let reader = LogReader::open(scratch.0.clone()).unwrap();
    let page = reader.search(&Filter::default(), EXTENT);
    let ids: Vec<u64> = page.entries.iter().map(|entry| entry.id).collect();
    assert_eq!(ids, [5, 4, 3], "no id is used twice");
}

#[test]
fn the_newest_file_stays_while_it_is_empty_because_its_writer_may_not_have_locked_it() {
    let scratch = Scratch::create();
    let path = scratch.0.join("head-0000000000000000.blocks");
    fs::write(&path, b"").unwrap();
    left(&scratch, &mut upkeep(&scratch), START_US);
    assert!(path.exists());
}

/// The days of the names of the segments.
fn days(scratch: &Scratch) -> Vec<String> {
    let segments = Listing::read(&scratch.0).unwrap().segments;
    segments.iter().map(|segment| segment.label.day().to_owned()).collect()
}

#[test]
fn a_damaged_segment_goes_by_the_day_in_its_name_and_holds_back_no_other() {
    let scratch = Scratch::create();
    let mut writer = writer(&scratch, START_US);
    let mut keep = Upkeep::open(scratch.0.clone(), Retention::default()).unwrap();
    for day in 0..3 {
        add(&mut writer, START_US + day * DAY_US);
        writer.cut(START_US + day * DAY_US).unwrap();
    }
    while keep.step(START_US).unwrap() {}
    let all = days(&scratch);
    assert_eq!(all.len(), 3);
    for place in [0, 2] {
        let damaged = Listing::read(&scratch.0).unwrap().segments.remove(place);
        fs::write(damaged.path, "damaged").unwrap();
    }
    keep.set_retention(Retention { days: 3, ..Retention::default() });
    let mut days_at = |hours: u64| {
        while keep.prune(START_US + hours * HOUR_US).unwrap() {}
        days(&scratch)
    };
    // The times of the damaged segments are unknown, so they stay for up to a day longer.
    assert_eq!(days_at(4 * 24), all);
    assert_eq!(days_at(4 * 24 + 1), [all[0].clone(), all[2].clone()]);
    assert_eq!(days_at(5 * 24), [all[2].clone()]);
    assert_eq!(days_at(7 * 24), [""; 0]);
}
