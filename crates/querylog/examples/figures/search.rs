//! Searches: the first page by several conditions, counts, and overviews.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use avocet_querylog::{
    Condition, DEFAULT_HEAD_ENTRIES, DEFAULT_HEAD_SECS, Filter, LogReader, Period, Ranking, Writer,
    WriterOptions,
};

use crate::find::{WHOLE, condition};
use crate::memory::cpu_secs;
use crate::trace::{DAY_US, Trace};
use crate::{lines, print};

/// Ranks of the names that are searched for, the most frequent first.
const RANKS: [usize; 5] = [0, 100, 10_000, 100_000, 199_000];
/// Number of repetitions of a search; the median counts.
const ROUNDS: usize = 5;
/// A top-level domain that has a fifth of the names.
const ZONE: &str = "com.";

/// Number of octets of the parts of names that are searched for.
const PART: usize = 6;

/// A search, with the name of its row in the output.
struct Question {
    row: String,
    filter: Filter,
}

fn questions(last_us: u64) -> Vec<Question> {
    let question = |row: String, conditions: Vec<Condition>| Question {
        row,
        filter: Filter { conditions, ..Filter::default() },
    };
    let mut questions: Vec<Question> = RANKS
        .into_iter()
        .map(|rank| {
            let row = format!("first page by name, rank {}", rank + 1);
            question(row, vec![condition("qname", &Trace::name(rank))])
        })
        .collect();
    let words = [
        ("name that is absent", "qname", "absent.example."),
        ("client, the first", "client_address", "192.168.0.0"),
        ("client, the last", "client_address", "192.168.1.243"),
        ("list", "lists", "list-5"),
        ("outcome", "outcome", "blocked"),
        ("outcome that is absent", "outcome", "failed"),
    ];
    questions.extend(words.map(|(row, column, value)| {
        question(format!("first page by {row}"), vec![condition(column, value)])
    }));
    // Parts of frequent, of rare and of no names.
    let parts = [
        ("name, frequent", Trace::name(RANKS[0])),
        ("name, rare", Trace::name(RANKS[4])),
        ("name, absent", "absent.".to_owned()),
    ];
    questions.extend(parts.map(|(row, name)| {
        let part = name[..name.len().min(PART)].to_owned();
        question(format!("first page by a part of a {row}"), vec![Condition::Contains(part)])
    }));
    let mut day = question("first page of the last 24 h".to_owned(), Vec::new());
    day.filter.time_us.start = last_us.saturating_sub(DAY_US);
    questions.push(day);
    questions
}

/// Measures searches in a log, with its files in the page cache and without.
pub(crate) fn run(directory: &Path) {
    let open = || LogReader::open(directory.to_owned()).expect("the directory is readable");
    evict(directory);
    let start = Instant::now();
    let reader = open();
    print("open, cold, ms", millis(start));
    let newest = reader.search(&Filter::default(), WHOLE);
    let last_us = newest.entries.first().map_or(0, time_us);
    for question in questions(last_us) {
        let cold = cold(directory, || drop(reader.search(&question.filter, WHOLE)));
        print(&format!("{}, cold, ms", question.row), cold);
        let warm = median(|| drop(reader.search(&question.filter, WHOLE)));
        print(&format!("{}, ms", question.row), warm);
    }
    let under = |zone: &str| Filter {
        conditions: vec![Condition::Under(zone.to_owned())],
        ..Filter::default()
    };
    let zone = Trace::name(1);
    for (row, filter) in [("a top level domain", under(ZONE)), ("a name", under(&zone))] {
        let cold = cold(directory, || drop(reader.count(&filter, WHOLE)));
        print(&format!("count of all entries below {row}, cold, ms"), cold);
        let warm = median(|| drop(reader.count(&filter, WHOLE)));
        print(&format!("count of all entries below {row}, ms"), warm);
    }
    let mut day = Filter::default();
    day.time_us.start = last_us.saturating_sub(DAY_US);
    print("count of the last 24 h, ms", median(|| drop(reader.count(&day, WHOLE))));
    let options = WriterOptions {
        directory: directory.to_owned(),
        head_entries: DEFAULT_HEAD_ENTRIES,
        head_secs: DEFAULT_HEAD_SECS,
        pseudonym_key: [0; 16],
    };
    let writer = Writer::open(options, last_us).expect("no other process writes");
    let rollups = writer.rollups();
    let rollups = rollups.lock().expect("no thread has failed");
    let overview = || {
        let sum = rollups.sum(Period::Hour, day.time_us.clone());
        let tops = [Ranking::Qnames, Ranking::Clients, Ranking::Lists, Ranking::Qtypes];
        tops.map(|ranking| sum.top(ranking).texts(10)).concat()
    };
    print("overview of the last 24 h, ms", median(|| drop(std::hint::black_box(overview()))));
}

fn time_us(entry: &avocet_querylog::LogEntry) -> u64 {
    entry.int(avocet_querylog::column::Int::Time).unwrap_or(0).max(0) as u64
}

/// Writes the trace as JSON lines and searches in them.
pub(crate) fn run_lines(file: &Path, entries: u64) {
    let start = cpu_secs();
    lines::write(file, entries).expect("the file is writable");
    let secs = cpu_secs() - start;
    let octets = file.metadata().map_or(0, |file| file.len());
    print("octets an entry", format!("{:.1}", octets as f64 / entries as f64));
    print("entries a second of CPU time", format!("{:.0}", entries as f64 / secs));
    let member = |name: &str| format!("\"QH\":\"{}\"", name.trim_end_matches('.'));
    let named = RANKS
        .map(|rank| (format!("first page by name, rank {}", rank + 1), member(&Trace::name(rank))));
    let others = [
        ("first page by name that is absent", member("absent.example")),
        ("first page by client, the first", "\"IP\":\"192.168.0.0\"".to_owned()),
        ("first page by client, the last", "\"IP\":\"192.168.1.243\"".to_owned()),
        ("first page by list", "\"FilterListID\":5}".to_owned()),
        ("first page by outcome", "\"IsFiltered\":true".to_owned()),
    ];
    for (row, text) in named.into_iter().chain(others.map(|(row, text)| (row.to_owned(), text))) {
        let once = || lines::latest(file, &text, WHOLE.entries).map(drop);
        print(&format!("{row}, ms"), once_millis(|| once().expect("it is readable")));
    }
    let zone = Trace::name(1);
    for (row, zone) in [("a top level domain", ZONE), ("a name", &zone)] {
        let zone = zone.trim_end_matches('.').as_bytes();
        let once = || lines::count(file, |line| lines::is_under(line, zone)).map(drop);
        let row = format!("count of all entries below {row}, ms");
        print(&row, once_millis(|| once().expect("it is readable")));
    }
}

fn millis(start: Instant) -> String {
    format!("{:.1}", start.elapsed().as_secs_f64() * 1e3)
}

fn once_millis(work: impl FnOnce()) -> String {
    let start = Instant::now();
    work();
    millis(start)
}

fn median(mut work: impl FnMut()) -> String {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    format!("{:.1} (least {:.1})", times[ROUNDS / 2], times[0])
}

/// Returns the time of a search that starts with no file of the log in the page cache.
fn cold(directory: &Path, work: impl FnOnce()) -> String {
    evict(directory);
    once_millis(work)
}

/// Asks the system to forget the files of a directory.
fn evict(directory: &Path) {
    let files = std::fs::read_dir(directory).expect("the directory is readable").flatten();
    for file in files {
        let argument = format!("if={}", file.path().display());
        let status = Command::new("dd")
            .args([&argument, "iflag=nocache", "count=0", "status=none"])
            .status();
        assert!(status.is_ok_and(|status| status.success()), "dd forgets a file");
    }
}
