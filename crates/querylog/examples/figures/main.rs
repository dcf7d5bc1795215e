//! Measures the query log: octets per entry, entries per second of each step, memory, and searches.
//! For comparison, the same trace is written as rows for SQLite with the schema of Pi-hole, and as
//! JSON lines in the form of AdGuard Home.
//!
//! ```text
//! figures write DIRECTORY ENTRIES      the trace through ring, writer, sealing and merging
//! figures search DIRECTORY             searches in a log that `write` has left
//! figures rows ENTRIES                 the trace as rows for SQLite, on standard output
//! figures lines FILE ENTRIES           the trace as JSON lines, and searches in them
//! figures find DIRECTORY               counts and ids for the conditions on standard input
//! ```
//!
//! `cargo xtask bench querylog` runs them all. Lines of output are `row | figure`.

mod find;
mod lines;
mod memory;
mod rows;
mod search;
mod trace;
mod write;

use std::path::Path;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u64>().expect("a number of entries");
    match words[..] {
        ["write", directory, entries] => write::run(Path::new(directory), number(entries)),
        ["search", directory] => search::run(Path::new(directory)),
        ["rows", entries] => rows::write(number(entries)).expect("standard output is open"),
        ["lines", file, entries] => search::run_lines(Path::new(file), number(entries)),
        ["find", directory] => find::answer(Path::new(directory)),
        _ => panic!("see the first lines of the source"),
    }
}

/// Prints a figure.
fn print(row: &str, figure: impl std::fmt::Display) {
    println!("{row} | {figure}");
}
