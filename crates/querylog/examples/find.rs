//! Searches a log and prints the count, the newest ids and the time of both.
//!
//! Run with `cargo run --release -p avocet-querylog --example find -- DIRECTORY [COLUMN=VALUE]...`;
//! `under=ZONE` finds a name and all names below it.

use std::path::PathBuf;
use std::time::Instant;

use avocet_querylog::column::{SET_NAMES, Set, TEXT_NAMES, Text};
use avocet_querylog::{Condition, Filter, LogReader, SearchExtent};

const PAGE_ENTRIES: usize = 100;

fn condition(argument: &str) -> Condition {
    let (column, value) = argument.split_once('=').expect("COLUMN=VALUE");
    let value = value.to_owned();
    if column == "under" {
        return Condition::Under(value);
    }
    if let Some(index) = TEXT_NAMES.iter().position(|name| *name == column) {
        return Condition::Is(Text::ALL[index], vec![value]);
    }
    let index = SET_NAMES.iter().position(|name| *name == column).expect("a column");
    Condition::Has(Set::ALL[index], value)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = PathBuf::from(arguments.next().expect("a directory"));
    let conditions = arguments.map(|argument| condition(&argument)).collect();
    let filter = Filter { conditions, ..Filter::default() };
    let start = Instant::now();
    let reader = LogReader::open(directory).expect("the directory is readable");
    println!("open {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let extent = SearchExtent { before_id: u64::MAX, entries: PAGE_ENTRIES, max_rows: u64::MAX };
    for round in ["first", "again"] {
        let start = Instant::now();
        let page = reader.search(&filter, extent);
        println!("page {round} {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        let start = Instant::now();
        let count = reader.count(&filter, extent);
        println!("count {round} {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
        if round == "again" {
            let ids: Vec<String> = page.entries.iter().map(|entry| entry.id.to_string()).collect();
            println!("count {}", count.entries);
            println!("ids {}", ids.join(" "));
            page.broken.iter().for_each(|file| println!("broken {}", file.reason));
        }
    }
}
