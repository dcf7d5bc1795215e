//! Compares roll-ups with a plain count, also after a restart.

use std::fs;
use std::ops::ControlFlow;

use avocet_testkit::Chance;

use super::*;
use crate::column::Text;
use crate::recount::RECOUNT_PAGE;
use crate::scratch::{Numbered, Scratch};
use crate::{
    Condition, Entry, Facts, Filter, Label, Labels, LogReader, PartCounts, Privacy, SearchExtent,
    Writer, WriterOptions,
};

const HOUR_US: u64 = 3_600_000_000;
const START_US: u64 = 490_000 * HOUR_US;

fn options(scratch: &Scratch, head_entries: u64) -> WriterOptions {
    let directory = scratch.0.clone();
    WriterOptions { directory, head_entries, head_secs: 1 << 40, pseudonym_key: [0; 16] }
}

/// Writes two entries per minute and returns the writer.
fn write(scratch: &Scratch, head_entries: u64, numbers: std::ops::Range<u64>) -> Writer {
    let mut writer = Writer::open(options(scratch, head_entries), START_US).unwrap();
    for number in numbers {
        let chance = &mut Chance::new(number);
        let time_us = START_US + number * 30_000_000;
        let facts = Facts {
            response_delay_us: 1 << chance.below(4),
            revision: 1,
            rule: chance.below(3) as u16,
            response_size: 60,
            outcome: Outcome::ALL[chance.below(3) as usize],
            privacy: if number.is_multiple_of(2) { Privacy::Full } else { Privacy::NoNames },
            ..Facts::of(time_us, [192, 0, 2, chance.below(4) as u8].into())
        };
        let entry = Entry { facts, qname: b"\x01a\x00", lists: &[1, 2], answer: b"" };
        writer.add(&entry, &Numbered, time_us).unwrap();
        writer.tick(time_us).unwrap();
    }
    writer
}

fn check(rollups: &Rollups, count: u64) {
    let all = 0..u64::MAX;
    for period in Period::ALL {
        let sum = rollups.sum(period, all.clone());
        assert_eq!(sum.entries, count);
        assert_eq!(sum.outcomes.iter().sum::<u64>(), count);
        assert_eq!(sum.delays.iter().sum::<u64>(), count);
        assert_eq!(sum.delays[1..5].iter().sum::<u64>(), count);
    }
    assert_eq!(rollups.series(Period::Minute, all.clone()).count() as u64, count / 2);
    let day = rollups.sum(Period::Day, all);
    let names = day.top(Ranking::Qnames).texts(10);
    assert_eq!(names, [TopText { text: "a.".to_owned(), count: count / 2, error: 0 }]);
    let lists = day.top(Ranking::Lists).texts(10);
    assert_eq!(lists.len(), 2);
    assert_eq!(lists[0].count, count);
    assert_eq!(rollups.end_id(), count);
    let clients = rollups.clients();
    assert_eq!(clients.len(), 4);
    assert_eq!(clients[0].last_us, START_US + (count - 1) * 30_000_000);
    assert_eq!(clients.iter().map(|one| one.first_us).min(), Some(START_US));
    assert!(clients.iter().all(|one| one.first_us <= one.last_us));
}

#[test]
fn totals_and_tops_are_those_of_the_entries_also_after_a_restart() {
    let scratch = Scratch::create();
    let writer = write(&scratch, 1000, 0..300);
    check(&writer.rollups().lock().unwrap(), 300);
    writer.close(START_US).unwrap();
    let writer = write(&scratch, 1000, 300..400);
    check(&writer.rollups().lock().unwrap(), 400);
}

#[test]
fn entries_after_the_stored_state_are_counted_again_after_a_crash() {
    let scratch = Scratch::create();
    // The state is stored whenever a file of the head is complete.
    let writer = write(&scratch, 90, 0..300);
    let expected = writer.rollups().lock().unwrap().clone();
    drop(writer);
    assert!(Rollups::load(&scratch.0).end_id() < 300);
    let writer = Writer::open(options(&scratch, 90), START_US).unwrap();
    let rollups = writer.rollups();
    let rollups = rollups.lock().unwrap();
    check(&rollups, 300);
    for period in Period::ALL {
        let (one, other) = (expected.sum(period, 0..u64::MAX), rollups.sum(period, 0..u64::MAX));
        assert_eq!(one, other);
    }
}

#[test]
fn a_damaged_file_is_replaced_by_what_the_log_has() {
    let scratch = Scratch::create();
    write(&scratch, 90, 0..300).close(START_US).unwrap();
    let path = scratch.0.join("rollups");
    let mut octets = fs::read(&path).unwrap();
    octets[20] ^= 1;
    fs::write(&path, octets).unwrap();
    let writer = Writer::open(options(&scratch, 90), START_US).unwrap();
    check(&writer.rollups().lock().unwrap(), 300);
}

#[test]
fn periods_are_bounded_and_a_clock_that_jumps_is_followed() {
    let mut rollups = Rollups::default();
    for number in 0..3000 {
        rollups.totals(Period::Minute, number * Period::Minute.us());
    }
    let minutes = |rollups: &Rollups| -> Vec<u64> {
        let starts = rollups.series(Period::Minute, 0..u64::MAX);
        starts.map(|totals| totals.start_us / Period::Minute.us()).collect()
    };
    assert_eq!(minutes(&rollups), (1560..3000).collect::<Vec<_>>());
    assert_eq!(rollups.totals(Period::Minute, 0).start_us, 1560 * Period::Minute.us());
    rollups.totals(Period::Minute, 5000 * Period::Minute.us()).entries = 7;
    assert_eq!(rollups.totals(Period::Minute, 5000 * Period::Minute.us()).entries, 7);
    assert_eq!(minutes(&rollups).len(), 1440);
}

#[test]
fn a_list_counts_alone_if_no_other_list_and_no_rule_blocks() {
    let scratch = Scratch::create();
    let mut writer = Writer::open(options(&scratch, 1000), START_US).unwrap();
    let cases: [(Outcome, u16, &[u16]); 6] = [
        (Outcome::Blocked, 0, &[1]),
        (Outcome::Blocked, 0, &[1]),
        (Outcome::Blocked, 0, &[1, 2]),
        (Outcome::Blocked, 5, &[2]),
        (Outcome::Rewritten, 0, &[2]),
        (Outcome::Blocked, 0, &[]),
    ];
    for (outcome, rule, lists) in cases {
        let facts = Facts {
            rule,
            revision: 1,
            outcome,
            privacy: Privacy::Full,
            ..Facts::of(START_US, [192, 0, 2, 1].into())
        };
        let entry = Entry { facts, qname: b"\x01a\x00", lists, answer: b"" };
        writer.add(&entry, &OneText, START_US).unwrap();
    }
    let rollups = writer.rollups();
    writer.close(START_US).unwrap();
    let check = |rollups: &Rollups| {
        let top = |ranking| rollups.top(Period::Day, 0..u64::MAX, ranking).texts(9);
        let one = |text: &str, count| TopText { text: text.to_owned(), count, error: 0 };
        assert_eq!(top(Ranking::LoneLists), [one("List 1", 2)]);
        assert_eq!(top(Ranking::Lists), [one("List 1", 3), one("List 2", 3)]);
    };
    check(&rollups.lock().unwrap());
    let reader = LogReader::open(scratch.0.clone()).unwrap();
    let ranked = crate::rank(&reader, &Filter::default(), Ranking::LoneLists, |_| {});
    assert_eq!(ranked.top.texts(9).len(), 1);
    // The roll-ups are counted again from the entries.
    fs::remove_file(scratch.0.join("rollups")).unwrap();
    check(&Rollups::read(&scratch.0).unwrap());
}

/// Labels with a text for each number but zero.
struct OneText;

impl Labels for OneText {
    fn texts(&self, _: u32, label: Label, number: u16, found: &mut dyn FnMut(&str)) {
        if number > 0 {
            found(&format!("{label:?} {number}"));
        }
    }
}

#[test]
fn a_part_of_the_entries_is_counted_alone_and_says_how_far_back() {
    let scratch = Scratch::create();
    let writer = write(&scratch, 90, 0..300);
    let all = writer.rollups().lock().unwrap().clone();
    writer.close(START_US).unwrap();
    let reader = LogReader::open(scratch.0.clone()).unwrap();
    let of_client = |last: u8| Condition::Is(Text::Client, vec![format!("192.0.2.{last}")]);
    let filter = |conditions: Vec<Condition>| Filter {
        conditions: vec![Condition::Any(conditions)],
        ..Filter::default()
    };
    let count = |filter: &Filter| PartCounts::of(&reader, filter, || ControlFlow::Continue(()));
    let sum = |part: &PartCounts| part.rollups.sum(Period::Hour, 0..u64::MAX);
    let all_sum = all.sum(Period::Hour, 0..u64::MAX);
    let clients = all_sum.top(Ranking::Clients).texts(10);
    for client in 0..4 {
        let part = count(&filter(vec![of_client(client)]));
        let expected = clients.iter().find(|one| one.text == format!("192.0.2.{client}")).unwrap();
        assert_eq!((sum(&part).entries, part.cut_us), (expected.count, 0));
        assert_eq!(part.rollups.clients().len(), 1);
    }
    // An entry that meets several conditions counts once.
    let three = count(&filter(vec![of_client(0), of_client(1), Condition::Under("a.".to_owned())]));
    let more = clients.iter().filter(|one| ["192.0.2.2", "192.0.2.3"].contains(&&*one.text));
    assert!(
        sum(&three).entries < 300
            && sum(&three).entries >= 300 - more.map(|one| one.count).sum::<u64>()
    );
    assert_eq!(count(&filter(Vec::new())).rollups, Rollups::default());
    assert_eq!(sum(&count(&Filter::default())), all_sum);
}

#[test]
fn work_that_is_ended_says_since_when_it_has_counted() {
    let scratch = Scratch::create();
    let count = RECOUNT_PAGE as u64 + 100;
    write(&scratch, 1 << 14, 0..count).close(START_US).unwrap();
    let reader = LogReader::open(scratch.0.clone()).unwrap();
    let part = PartCounts::of(&reader, &Filter::default(), || ControlFlow::Break(()));
    let sum = part.rollups.sum(Period::Hour, 0..u64::MAX);
    assert_eq!(sum.entries, RECOUNT_PAGE as u64);
    assert_eq!(part.cut_us, START_US + 100 * 30_000_000);
}

#[test]
fn work_that_is_ended_says_how_far_it_came_also_without_a_match() {
    let scratch = Scratch::create();
    let mut writer = write(&scratch, 50, 0..300);
    writer.tick(START_US + 300 * 30_000_000).unwrap();
    writer.close(START_US + 300 * 30_000_000).unwrap();
    let reader = LogReader::open(scratch.0.clone()).unwrap();
    let nobody = Condition::Is(Text::Client, vec!["192.0.2.99".to_owned()]);
    let filter = Filter { conditions: vec![nobody], ..Filter::default() };
    let mut slices = 0;
    let part = PartCounts::in_slices(&reader, &filter, 1, || {
        slices += 1;
        if slices < 2 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let extent = |before_id| SearchExtent { before_id, entries: 9, max_rows: 1 };
    let first = reader.search(&filter, extent(u64::MAX)).next_before_id.unwrap();
    let reached = reader.search(&filter, extent(first)).next_before_id.unwrap();
    assert_eq!(part.rollups, Rollups::default());
    assert!((1..first).contains(&reached));
    assert_eq!(part.cut_us, START_US + reached * 30_000_000);
    // No entry after the wanted time is counted, even if the work ends early.
    let early = Filter { time_us: 0..START_US + 1, ..filter };
    let part = PartCounts::in_slices(&reader, &early, 1, || ControlFlow::Break(()));
    assert!(part.cut_us <= START_US + 1);
}

#[test]
fn tops_of_past_periods_are_small_in_each_order_of_counting() {
    let check = |hours: &mut dyn Iterator<Item = u64>| {
        let mut rollups = Rollups::default();
        let mut last = 0;
        for hour in hours {
            last = hour * HOUR_US;
            for number in 0..500 {
                let totals = rollups.totals(Period::Hour, last);
                let top = &mut totals.tops[Ranking::Qnames as usize];
                top.add(&format!("{number}"), number + 1, Period::Hour.open_texts());
            }
        }
        for totals in rollups.series(Period::Hour, 0..u64::MAX) {
            let top = totals.top(Ranking::Qnames);
            let most = if totals.start_us == last { 500 } else { Period::Hour.closed_texts() };
            assert_eq!(top.texts(usize::MAX).len(), most, "{}", totals.start_us / HOUR_US);
        }
    };
    check(&mut (0..9));
    check(&mut (0..9).rev());
    // After periods that were stored, the newest entries come first.
    check(&mut (0..4).chain((4..9).rev()));
}
