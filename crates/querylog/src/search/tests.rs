//! Tests that compare searches with a plain scan of the entries that were pushed, in all states of
//! the files.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;

use avocet_testkit::Chance;
use parquet::file::metadata::ParquetMetaDataReader;

use super::*;
use crate::scratch::{Numbered, Scratch};
use crate::{
    Entry, ExportFormat, Facts, Outcome, OutcomeDays, Retention, Upkeep, Writer, WriterOptions,
    export,
};

const DAY_US: u64 = 86_400_000_000;
const START_US: u64 = 20_000 * DAY_US;

/// An entry as it was pushed, with the texts that a filter compares.
#[derive(Clone, Debug)]
struct Pushed {
    time_us: u64,
    delay: i64,
    qname: &'static str,
    client: String,
    qtype: &'static str,
    outcome: Outcome,
    lists: Vec<String>,
}

const NAMES: [(&str, &[u8]); 5] = [
    ("a.example.", b"\x01a\x07example\x00"),
    ("b.a.example.", b"\x01b\x01a\x07example\x00"),
    ("example.", b"\x07eXample\x00"),
    ("other.test.", b"\x05other\x04test\x00"),
    ("rare.test.", b"\x04rare\x04test\x00"),
];

struct Log {
    scratch: Scratch,
    pushed: Vec<Pushed>,
    now_us: u64,
}

impl Log {
    /// Writes entries over some days, in files of the head with `head_entries` entries.
    fn written(chance: &mut Chance, count: usize, head_entries: u64) -> Self {
        let mut log = Self { scratch: Scratch::create(), pushed: Vec::new(), now_us: START_US };
        let options = WriterOptions {
            directory: log.scratch.0.clone(),
            head_entries,
            head_secs: 1 << 40,
            pseudonym_key: [0; 16],
        };
        let mut writer = Writer::open(options, log.now_us).unwrap();
        for number in 0..count {
            log.now_us += 1 + chance.below(2 * DAY_US / count as u64 * 2);
            log.push(chance, number, &mut writer);
            if chance.below(20) == 0 {
                writer.tick(log.now_us).unwrap();
            }
        }
        writer.tick(log.now_us).unwrap();
        writer.close(log.now_us).unwrap();
        log
    }

    fn push(&mut self, chance: &mut Chance, number: usize, writer: &mut Writer) {
        let rare = chance.below(50) == 0;
        let (qname, wire) = NAMES[if rare { 4 } else { chance.below(4) as usize }];
        let client = chance.below(7) as u8;
        let (qtype, type_name) = [(1, "A"), (28, "AAAA"), (65, "HTTPS")][chance.below(3) as usize];
        let outcome = Outcome::ALL[chance.below(3) as usize];
        let lists: Vec<u16> = (0..chance.below(4) as u16).map(|list| list + 1).collect();
        let facts = Facts {
            response_delay_us: number as u32,
            revision: 1,
            profile: 1,
            qtype,
            flags: 0x8180,
            query_size: 40,
            response_size: 80,
            outcome,
            ..Facts::of(self.now_us, [192, 0, 2, client].into())
        };
        let entry = Entry { facts, qname: wire, lists: &lists, answer: b"" };
        writer.add(&entry, &Numbered, self.now_us).unwrap();
        self.pushed.push(Pushed {
            time_us: self.now_us,
            delay: number as i64,
            qname,
            client: format!("192.0.2.{client}"),
            qtype: type_name,
            outcome,
            lists: lists.iter().map(|list| format!("List-1-{list}-0")).collect(),
        });
    }

    fn upkeep(&self, retention: Retention) -> Upkeep {
        Upkeep::open(self.scratch.0.clone(), retention).unwrap()
    }

    fn reader(&self) -> LogReader {
        LogReader::open(self.scratch.0.clone()).unwrap()
    }
}

fn random_filter(chance: &mut Chance, log: &Log) -> Filter {
    let mut conditions = Vec::new();
    let name = |chance: &mut Chance| NAMES[chance.below(5) as usize].0.to_owned();
    if chance.below(3) == 0 {
        conditions.push(Condition::Is(Text::Qname, vec![name(chance), name(chance)]));
    }
    if chance.below(3) == 0 {
        let zones = ["example.", "a.example.", "test.", ".", "none."];
        conditions.push(Condition::Under(zones[chance.below(5) as usize].to_owned()));
    }
    if chance.below(3) == 0 {
        let parts = ["a.ex", "re", ".", "e.te", "absent"];
        conditions.push(Condition::Contains(parts[chance.below(5) as usize].to_owned()));
    }
    if chance.below(3) == 0 {
        let client = format!("192.0.2.{}", chance.below(9));
        conditions.push(Condition::Is(Text::Client, vec![client]));
    }
    if chance.below(5) == 0 {
        let ip = std::net::Ipv4Addr::new(192, 0, 2, chance.below(9) as u8);
        let network = ClientNetwork::new(ip.into(), 29 + chance.below(3) as u8).unwrap();
        conditions.push(Condition::Within(network));
    }
    if chance.below(3) == 0 {
        conditions.push(Condition::Is(Text::Qtype, vec!["AAAA".to_owned()]));
    }
    if chance.below(3) == 0 {
        conditions.push(Condition::Is(Text::Outcome, vec!["blocked".to_owned()]));
    }
    if chance.below(3) == 0 {
        let list = format!("List-1-{}-0", 1 + chance.below(4));
        conditions.push(Condition::Has(Set::Lists, list));
    }
    // Some filters require one of their conditions instead of all.
    if chance.below(4) == 0 {
        conditions = vec![Condition::Any(conditions)];
    }
    let mut filter = Filter { conditions, ..Filter::default() };
    if chance.below(2) == 0 {
        let span = log.now_us - START_US;
        let start = START_US + chance.below(span);
        filter.time_us = start..start + chance.below(span);
    }
    filter
}

fn matches(filter: &Filter, entry: &Pushed) -> bool {
    filter.time_us.contains(&entry.time_us)
        && filter.conditions.iter().all(|condition| meets(condition, entry))
}

fn meets(condition: &Condition, entry: &Pushed) -> bool {
    match condition {
        Condition::Is(Text::Qname, names) => names.iter().any(|name| name == entry.qname),
        Condition::Is(Text::Client, clients) => clients.contains(&entry.client),
        Condition::Is(Text::Qtype, types) => types.iter().any(|qtype| qtype == entry.qtype),
        Condition::Is(Text::Outcome, _) => entry.outcome == Outcome::Blocked,
        Condition::Is(..) => unreachable!("no such condition is made"),
        Condition::Under(zone) => {
            zone == "." || entry.qname == zone || entry.qname.ends_with(&format!(".{zone}"))
        }
        Condition::Contains(part) => entry.qname.contains(part),
        Condition::Within(network) => network.includes(&entry.client),
        Condition::Has(_, list) => entry.lists.contains(list),
        Condition::Any(conditions) => conditions.iter().any(|one| meets(one, entry)),
    }
}

/// Compares the groups of equal entries with the groups in `pushed`.
fn check_tally(reader: &LogReader, filter: &Filter, pushed: &[Pushed]) {
    let mut expected: BTreeMap<(String, String, u64), u64> = BTreeMap::new();
    for entry in pushed.iter().filter(|entry| matches(filter, entry)) {
        let minute_secs = entry.time_us / 60_000_000 * 60;
        let key = (entry.qname.to_owned(), entry.client.clone(), minute_secs);
        *expected.entry(key).or_default() += 1;
    }
    let mut found: BTreeMap<(String, String, u64), u64> = BTreeMap::new();
    let by = TallyBy { texts: &[Text::Qname, Text::Client], times: TallyTimes::ByMinute };
    let add = |equal: Option<&EqualEntries<'_>>| {
        let Some(equal) = equal else { return ControlFlow::Continue(()) };
        let key = (equal.text(0).to_owned(), equal.text(1).to_owned(), equal.minute_secs);
        *found.entry(key).or_default() += equal.entries;
        ControlFlow::Continue(())
    };
    let tallied = reader.tally(filter, by, add);
    let all = expected.values().sum();
    assert_eq!(tallied, Tallied { entries: all, ..Tallied::default() });
    assert_eq!(found, expected, "{filter:?}");
    // The scan ends at the first group.
    let mut groups = 0;
    let cut = reader.tally(filter, by, |equal| match equal {
        None => ControlFlow::Continue(()),
        Some(_) => {
            groups += 1;
            ControlFlow::Break(())
        }
    });
    assert_eq!((groups, cut.is_cut), (usize::from(all > 0), all > 0));
}

/// Compares pages and counts of random filters with a scan of `pushed`.
fn check(chance: &mut Chance, log: &Log, reader: &LogReader, pushed: &[Pushed]) {
    for _ in 0..12 {
        let filter = random_filter(chance, log);
        let mut expected: Vec<i64> = pushed
            .iter()
            .filter(|entry| matches(&filter, entry))
            .map(|entry| entry.delay)
            .collect();
        expected.reverse();
        let mut extent = SearchExtent {
            before_id: u64::MAX,
            entries: 1 + chance.below(40) as usize,
            max_rows: 1 + chance.below(1000),
        };
        let count = reader.count(&filter, SearchExtent { max_rows: u64::MAX, ..extent });
        assert_eq!(count.entries, expected.len() as u64, "{filter:?}");
        assert_eq!(count.next_before_id, None);
        check_tally(reader, &filter, pushed);
        let mut found = Vec::new();
        loop {
            let page = reader.search(&filter, extent);
            assert!(page.broken.is_empty(), "{:?}", page.broken);
            assert!(page.entries.len() <= extent.entries);
            found.extend(page.entries.iter().map(|entry| entry.int(Int::Delay).unwrap()));
            let Some(next) = page.next_before_id else { break };
            assert!(next < extent.before_id);
            extent.before_id = next;
        }
        assert_eq!(found, expected, "{filter:?}");
    }
}

#[test]
fn searches_find_what_a_scan_finds_while_files_are_sealed_and_merged() {
    for seed in 0..6 {
        let chance = &mut Chance::new(seed);
        let log = Log::written(chance, 800, 150);
        check(chance, &log, &log.reader(), &log.pushed);
        let mut upkeep = log.upkeep(Retention::default());
        let mut reader = log.reader();
        while upkeep.step(log.now_us + DAY_US).unwrap() {
            reader.refresh().unwrap();
            check(chance, &log, &reader, &log.pushed);
        }
        assert!(upkeep.counters().merged > 0);
        assert!(log.reader().verify(|_, _| ()).is_empty());
    }
}

#[test]
fn an_entry_of_a_segment_is_that_of_the_head() {
    let chance = &mut Chance::new(9);
    let log = Log::written(chance, 300, 100);
    let extent = SearchExtent { before_id: u64::MAX, entries: 1000, max_rows: u64::MAX };
    let before = log.reader().search(&Filter::default(), extent);
    assert_eq!(before.entries.len(), 300);
    let mut upkeep = log.upkeep(Retention::default());
    while upkeep.step(log.now_us + DAY_US).unwrap() {}
    assert_eq!(log.reader().search(&Filter::default(), extent), before);
}

#[test]
fn retention_deletes_by_age_octets_and_outcome() {
    let chance = &mut Chance::new(3);
    let log = Log::written(chance, 600, 100);
    let run = |retention: Retention, now_us: u64| {
        let mut upkeep = log.upkeep(retention);
        while upkeep.step(now_us).unwrap() {}
        upkeep.counters().deleted
    };
    run(Retention::default(), log.now_us);
    let blocked = OutcomeDays { outcome: Outcome::Blocked, days: 1 };
    let retention = Retention { outcomes: vec![blocked], ..Retention::default() };
    let now_us = log.now_us + 2 * DAY_US;
    let deleted = run(retention.clone(), now_us);
    let is_kept = |entry: &&Pushed| entry.outcome != Outcome::Blocked;
    let kept: Vec<Pushed> = log.pushed.iter().filter(is_kept).cloned().collect();
    assert_eq!(deleted, (log.pushed.len() - kept.len()) as u64);
    assert_eq!(run(retention, now_us), 0);
    check(chance, &log, &log.reader(), &kept);
    run(Retention { days: 1, ..Retention::default() }, log.now_us + DAY_US / 2);
    let left = log.reader().count(
        &Filter::default(),
        SearchExtent { before_id: u64::MAX, entries: 0, max_rows: u64::MAX },
    );
    assert!((1..kept.len() as u64).contains(&left.entries), "{left:?}");
    run(Retention { octets: 1, ..Retention::default() }, log.now_us);
    check(chance, &log, &log.reader(), &[]);
}

/// Tests that checksums cover every octet of a file, including octets that no search reads.
#[test]
fn a_segment_that_is_truncated_or_has_a_flipped_bit_is_refused_and_named() {
    let chance = &mut Chance::new(5);
    let log = Log::written(chance, 200, 50);
    let mut upkeep = log.upkeep(Retention::default());
    while upkeep.step(START_US).unwrap() {}
    let listing = Listing::read(&log.scratch.0).unwrap();
    let first = &listing.segments[0];
    let whole = fs::read(&first.path).unwrap();
    let after = first.label.ids.end() + 1;
    assert!(listing.segments.len() > 1 && after < 200);
    let extent = SearchExtent { before_id: u64::MAX, entries: 1000, max_rows: u64::MAX };
    let check_search = || {
        let broken = log.reader().verify(|_, _| ());
        assert_eq!(broken.len(), 1);
        assert_eq!(broken[0].path, first.path);
        let page = log.reader().search(&Filter::default(), extent);
        assert_eq!(page.broken, broken);
        let ids: Vec<_> = page.entries.iter().map(|entry| entry.id).collect();
        // The entries are those of the rest of the log, and perhaps those on the last pages of the
        // file, which are intact.
        assert!(ids.len() as u64 >= 200 - after);
        assert_eq!(ids, (200 - ids.len() as u64..200).rev().collect::<Vec<_>>());
        assert!(page.entries.iter().all(|entry| entry.int(Int::Delay) == Some(entry.id as i64)));
    };
    let is_long = std::env::var_os("AVOCET_LONG_TESTS").is_some();
    let check_broken = |place: usize| {
        let opened = Segment::open(first).and_then(|segment| segment.verify());
        let reason = opened.unwrap_err().to_string();
        assert!(reason.contains(&first.path.display().to_string()), "{reason}");
        // A search verifies the same checksums.
        if is_long || place.is_multiple_of(499) {
            check_search();
        }
    };
    let file = fs::OpenOptions::new().write(true).open(&first.path).unwrap();
    for (place, octet) in whole.iter().enumerate() {
        for bit in (0..8).filter(|bit| is_long || *bit == place % 8) {
            file.write_all_at(&[octet ^ 1 << bit], place as u64).unwrap();
            check_broken(place);
        }
        file.write_all_at(&[*octet], place as u64).unwrap();
    }
    for len in (0..whole.len()).rev() {
        file.set_len(len as u64).unwrap();
        check_broken(len);
    }
    fs::write(&first.path, &whole).unwrap();
    assert!(log.reader().verify(|_, _| ()).is_empty());
}

#[test]
fn what_a_crash_leaves_between_two_steps_is_not_counted_twice() {
    let chance = &mut Chance::new(6);
    let log = Log::written(chance, 400, 50);
    let copy = |extension: &str| {
        let files = fs::read_dir(&log.scratch.0).unwrap().flatten().map(|file| file.path());
        let files = files.filter(|path| path.extension().is_some_and(|own| own == extension));
        files.map(|path| (path.clone(), fs::read(path).unwrap())).collect::<Vec<_>>()
    };
    let mut upkeep = log.upkeep(Retention::default());
    let heads = copy("blocks");
    while upkeep.step(START_US).unwrap() {}
    let segments = copy("parquet");
    while upkeep.step(log.now_us + DAY_US).unwrap() {}
    for (path, octets) in heads.iter().chain(&segments) {
        fs::write(path, octets).unwrap();
    }
    fs::write(log.scratch.0.join("queries-0.part"), b"half").unwrap();
    check(chance, &log, &log.reader(), &log.pushed);
    let mut upkeep = log.upkeep(Retention::default());
    while upkeep.step(log.now_us + DAY_US).unwrap() {}
    check(chance, &log, &log.reader(), &log.pushed);
    assert!(copy("blocks").is_empty() && copy("part").is_empty());
}

/// Writes an export to a file with the name of a segment.
fn name_as_segment(scratch: &Scratch, octets: &[u8]) {
    let metadata = ParquetMetaDataReader::new()
        .parse_and_finish(&bytes::Bytes::copy_from_slice(octets))
        .unwrap();
    let columns = metadata.row_groups().iter().flat_map(|group| group.columns());
    let end = columns.last().map_or(4, |column| column.byte_range().0 + column.byte_range().1);
    let tail = &octets[end as usize..];
    let name = format!(
        "queries-0-{:016x}-{:016x}-00-{:08x}-{:08x}.parquet",
        0,
        1_u64 << 61,
        tail.len(),
        crc32fast::hash(tail)
    );
    fs::write(scratch.0.join(name), octets).unwrap();
}

#[test]
fn an_export_as_parquet_has_the_wanted_entries() {
    let chance = &mut Chance::new(7);
    let log = Log::written(chance, 900, 100);
    let mut upkeep = log.upkeep(Retention::default());
    for _ in 0..6 {
        upkeep.step(START_US).unwrap();
    }
    for _ in 0..8 {
        let filter = random_filter(chance, &log);
        let mut octets = Vec::new();
        let reader = log.reader();
        let exported =
            export(&reader, &filter, ExportFormat::Parquet, &mut octets, |_| ()).unwrap();
        let scratch = Scratch::create();
        let extent = SearchExtent { before_id: u64::MAX, entries: 1000, max_rows: u64::MAX };
        let expected = reader.search(&filter, extent).entries;
        assert_eq!(exported.entries, expected.len() as u64);
        assert!(exported.broken.is_empty());
        name_as_segment(&scratch, &octets);
        let copy = LogReader::open(scratch.0.clone()).unwrap();
        assert_eq!(copy.search(&Filter::default(), extent).entries, expected);
    }
}
