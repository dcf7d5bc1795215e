//! The cost of single operations: nanoseconds and bytes in a table, instructions for the gate.
//!
//! ```text
//!    avocet-bench-micro table [TEXT]   the rows that contain the text, with other crates
//!    avocet-bench-micro octets         folding, hashing and comparing, by words and by octets
//!    avocet-bench-micro count RUNS     prints our rows; under callgrind, a dump of each
//! ```

#![forbid(unsafe_code)]

mod caches;
mod cell;
mod count;
#[cfg(feature = "counterparts")]
mod domain_crate;
#[cfg(feature = "counterparts")]
mod hickory_crate;
mod material;
mod messages;
mod octets;
mod path;
mod resolution;
mod rows;
mod table;

use std::process::ExitCode;

use avocet_testkit::allocations::Counting;

use cell::Cell;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["table"] => table::print(beside_others(""), &rows::COLUMNS),
        ["table", text] => table::print(beside_others(text), &rows::COLUMNS),
        ["octets"] => table::print(octets::cells(), &octets::COLUMNS),
        ["count", runs] if runs.parse::<u64>().is_ok_and(|runs| runs > 0) => {
            count::all(ours(), runs.parse().unwrap_or(1));
        }
        _ => {
            eprintln!("usage: avocet-bench-micro table [TEXT] | octets | count RUNS");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The cells of Avocet for every row, in the order of the table.
fn ours() -> Vec<Cell> {
    let mut cells = messages::cells();
    cells.extend(resolution::cells());
    cells.extend(caches::cells());
    cells.extend(path::cells());
    cells
}

fn beside_others(text: &str) -> Vec<Cell> {
    let mut cells = ours();
    #[cfg(feature = "counterparts")]
    {
        cells.extend(domain_crate::cells());
        cells.extend(hickory_crate::cells());
    }
    cells.retain(|cell| cell.row.contains(text));
    cells
}
