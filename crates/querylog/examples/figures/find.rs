//! Answers searches, so that another program can compare its results. Each line of the input has
//! conditions separated by tabs. Each line of the output has the number of matching entries and
//! their latest ids.

use std::io::{self, BufRead as _};
use std::path::Path;

use avocet_querylog::column::{SET_NAMES, Set, TEXT_NAMES, Text};
use avocet_querylog::{Condition, Filter, LogReader, SearchExtent};

/// Maximum number of ids on a line of the output.
const PAGE_ENTRIES: usize = 100;
/// The extent of a search in the whole log.
pub(crate) const WHOLE: SearchExtent =
    SearchExtent { before_id: u64::MAX, entries: PAGE_ENTRIES, max_rows: u64::MAX };

/// Answers the searches on standard input.
pub(crate) fn answer(directory: &Path) {
    let reader = LogReader::open(directory.to_owned()).expect("the directory is readable");
    for line in io::stdin().lock().lines() {
        let line = line.expect("the input is text");
        let mut filter = Filter::default();
        line.split('\t').for_each(|word| add(&mut filter, word));
        let count = reader.count(&filter, WHOLE);
        let page = reader.search(&filter, WHOLE);
        assert!(count.broken.is_empty() && page.broken.is_empty(), "{:?}", page.broken);
        let ids: Vec<String> = page.entries.iter().map(|entry| entry.id.to_string()).collect();
        println!("{} {}", count.entries, ids.join(","));
    }
}

/// Adds one of the conditions `COLUMN=VALUE`, `under=ZONE`, `from=MICROSECONDS` or
/// `to=MICROSECONDS` to a filter.
fn add(filter: &mut Filter, word: &str) {
    let (column, value) = word.split_once('=').expect("COLUMN=VALUE");
    let number = || value.parse().expect("microseconds");
    match column {
        "from" => filter.time_us.start = number(),
        "to" => filter.time_us.end = number(),
        "contains" => filter.conditions.push(Condition::Contains(value.to_owned())),
        "under" => filter.conditions.push(Condition::Under(value.to_owned())),
        _ => filter.conditions.push(condition(column, value)),
    }
}

/// Returns the condition that a column has a value.
pub(crate) fn condition(column: &str, value: &str) -> Condition {
    let value = value.to_owned();
    if let Some(index) = TEXT_NAMES.iter().position(|name| *name == column) {
        return Condition::Is(Text::ALL[index], vec![value]);
    }
    let index = SET_NAMES.iter().position(|name| *name == column).expect("a column");
    Condition::Has(Set::ALL[index], value)
}
