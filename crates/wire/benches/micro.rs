//! What reading and writing messages costs, beside the crates `domain` and `hickory-proto`.
//!
//! `cargo bench -p avocet-wire --bench micro -- --instructions`: medians of interleaved rounds in
//! nanoseconds and, with that option, instructions of one repetition counted by callgrind.

#[path = "micro/domain_crate.rs"]
mod domain_crate;
#[path = "micro/hickory_crate.rs"]
mod hickory_crate;
#[path = "micro/material.rs"]
mod material;
#[path = "micro/octets.rs"]
mod octets;
#[path = "micro/ours.rs"]
mod ours;
#[path = "micro/rows.rs"]
mod rows;
#[path = "micro/table.rs"]
mod table;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut cells = ours::cells();
    cells.extend(domain_crate::cells());
    cells.extend(hickory_crate::cells());
    cells.extend(octets::cells());
    if let [repeat, index, times] = &arguments[..]
        && repeat == "--repeat"
    {
        let cell: &mut table::Cell = &mut cells[index.parse::<usize>().expect("the number of a cell")];
        return cell.repeat(times.parse().expect("a number of repetitions"));
    }
    let with_instructions = arguments.iter().any(|argument| argument == "--instructions");
    let groups: [&[&str]; 2] = [&[rows::OURS, rows::DOMAIN, rows::HICKORY], &[octets::WORDS, octets::OCTETS]];
    table::print(&mut cells, &groups, with_instructions);
}
