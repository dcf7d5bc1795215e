//! Tests of the writer after failures, and while other programs change its directory.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::head::tests::{numbered, options};
use crate::scratch::{Numbered, Scratch};
use crate::search::LogReader;
use crate::search::SearchExtent;
use crate::upkeep::{Retention, Upkeep};
use crate::{Filter, Privacy};

const EXTENT: SearchExtent =
    SearchExtent { before_id: u64::MAX, entries: 1000, max_rows: u64::MAX };

/// A writer with a clock that advances by one second per entry.
struct Writing {
    scratch: Scratch,
    writer: Writer,
    now_us: u64,
}

impl Writing {
    fn begin() -> Self {
        let scratch = Scratch::create();
        let writer = Writer::open(options(&scratch), 0).unwrap();
        Self { scratch, writer, now_us: 0 }
    }

    /// Writes an entry after one second.
    fn write(&mut self) -> Result<(), LogError> {
        self.now_us += 1_000_000;
        self.writer.add(&numbered(1, Privacy::Full), &Numbered, self.now_us)?;
        self.writer.tick(self.now_us)
    }

    fn heads(&self) -> Vec<PathBuf> {
        let heads = Listing::read(&self.scratch.0).unwrap().heads;
        heads.into_iter().map(|head| head.path).collect()
    }

    fn found(&self) -> (u64, usize) {
        let reader = LogReader::open(self.scratch.0.clone()).unwrap();
        let count = reader.count(&Filter::default(), EXTENT);
        (count.entries, count.broken.len())
    }
}

#[test]
fn the_file_that_grows_is_not_sealed_whatever_files_are_added() {
    let mut log = Writing::begin();
    log.write().unwrap();
    let own = log.heads().remove(0);
    fs::copy(&own, log.scratch.0.join("head-00000000000368a6.blocks")).unwrap();
    fs::write(log.scratch.0.join("head-ffffffffffffffff.blocks"), b"").unwrap();
    let mut upkeep = Upkeep::open(log.scratch.0.clone(), Retention::default()).unwrap();
    let refused = upkeep.step(log.now_us).unwrap_err().to_string();
    assert!(refused.contains("its name is that of another file"), "{refused}");
    for _ in 0..4 {
        upkeep.step(log.now_us).unwrap();
    }
    assert!(own.exists());
    log.write().unwrap();
    assert_eq!(log.found(), (3, 0));
}

#[test]
fn a_file_that_another_program_deletes_is_counted_and_the_next_one_begins() {
    let mut log = Writing::begin();
    log.write().unwrap();
    fs::remove_file(&log.heads()[0]).unwrap();
    let error = log.write().unwrap_err().to_string();
    assert!(error.contains("another program deleted it"), "{error}");
    assert_eq!(
        log.writer.counters(),
        WriterCounters { lost: 2, failures: 1, ..log.writer.counters() }
    );
    // Entries stay counted as written, because a counter in metrics never decreases.
    assert_eq!(log.writer.counters().written, 2);
    log.write().unwrap();
    assert_eq!(log.found(), (1, 0));

    fs::remove_dir_all(&log.scratch.0).unwrap();
    log.write().unwrap_err();
    log.write().unwrap();
    assert_eq!(log.found(), (1, 0));
}

#[test]
fn after_a_failure_it_rests_for_two_seconds_and_leaves_no_empty_files() {
    let mut log = Writing::begin();
    // A directory has the path of the first file, which has the effect of any disk error.
    let place = directory::head_path(&log.scratch.0, 0);
    fs::create_dir(&place).unwrap();
    log.write().unwrap_err();
    log.write().unwrap();
    assert_eq!(log.writer.counters().lost, 2);
    assert_eq!(log.writer.counters().failures, 1);
    log.write().unwrap();
    assert_eq!(log.writer.counters().written, 1);
    assert_eq!(log.heads().len(), 1);
}

#[test]
fn damage_in_the_head_is_named_by_each_search() {
    let mut log = Writing::begin();
    for _ in 0..3 {
        log.write().unwrap();
    }
    let path = log.heads().remove(0);
    let mut octets = fs::read(&path).unwrap();
    let middle = octets.len() / 2;
    octets[middle] ^= 1;
    fs::write(&path, &octets).unwrap();
    assert_eq!(log.found(), (2, 1));
    let reader = LogReader::open(log.scratch.0.clone()).unwrap();
    let page = reader.search(&Filter::default(), EXTENT);
    assert!(page.broken[0].reason.contains("no intact block"), "{:?}", page.broken);
    assert_eq!(reader.verify(|_, _| ()).len(), 1);
}

#[test]
fn damaged_counts_are_kept_under_another_name_and_reported_once() {
    let scratch = Scratch::create();
    let file = scratch.0.join("rollups");
    fs::write(&file, b"AVQT and more").unwrap();
    assert_eq!(LogReader::open(scratch.0.clone()).unwrap().verify(|_, _| ()).len(), 1);
    let mut writer = Writer::open(options(&scratch), 0).unwrap();
    let error = writer.take_damage().unwrap().to_string();
    assert!(error.contains("rollups"), "{error}");
    assert!(writer.take_damage().is_none());
    writer.close(0).unwrap();
    assert_eq!(fs::read(scratch.0.join("rollups.damaged")).unwrap(), b"AVQT and more");
    let mut again = Writer::open(options(&scratch), 0).unwrap();
    assert!(again.take_damage().is_none());
}
