//! Measures cells in interleaved rounds and prints a table.

use crate::cell::Cell;
use crate::rows;

/// Rounds; every cell has one turn in each.
const ROUNDS: usize = 101;
/// Nanoseconds of a turn: shorter than a time slice, so that most turns are not interrupted.
const TURN_NS: f64 = 100_000.0;
/// Repetitions before anything is measured.
const WARM_UP: u64 = 2_000;
/// Repetitions in which allocated bytes are counted.
const COUNTED: u64 = 1_000;
/// A published figure should be at least this many times ours.
const WANTED_RATIO: f64 = 3.0;

/// The cost of a repetition.
struct Cost {
    ns: f64,
    bytes: f64,
}

/// Measures all cells and prints a row for each operation: the first column with its bytes and the
/// published figures, then the others.
pub(crate) fn print(mut cells: Vec<Cell>, columns: &[&'static str]) {
    let costs = costs(&mut cells);
    let [first, others @ ..] = columns else { return };
    let heads: String = others.iter().map(|column| format!(" {column} ns | B |")).collect();
    println!("| operation | published ns | B | {first} ns | B | times |{heads}");
    println!("|---|---|---|---|---|---|{}", "---|---|".repeat(others.len()));
    let mut late = Vec::new();
    for (cell, cost) in cells.iter().zip(&costs).filter(|(cell, _)| cell.column == *first) {
        let published = rows::published(cell.row);
        let ratio = published.map(|(ns, _)| ns / cost.ns);
        if ratio.is_some_and(|ratio| ratio < WANTED_RATIO) {
            late.push(cell.row);
        }
        let (ns, bytes) = published.map_or_else(Default::default, |(ns, bytes)| {
            (format!("{ns}"), bytes.map_or_else(String::new, |bytes| bytes.to_string()))
        });
        let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.1}"));
        print!("| {} | {ns} | {bytes} | {:.1} | {:.0} | {ratio} |", cell.row, cost.ns, cost.bytes);
        for column in others {
            let at =
                cells.iter().position(|other| (other.row, other.column) == (cell.row, *column));
            match at.and_then(|at| costs.get(at)) {
                Some(cost) => print!(" {:.1} | {:.0} |", cost.ns, cost.bytes),
                None => print!(" | |"),
            }
        }
        println!();
    }
    if !late.is_empty() {
        println!("\nmore than a third of what was published: {}", late.join(", "));
    }
}

/// The cost of each cell: its median over interleaved rounds.
fn costs(cells: &mut [Cell]) -> Vec<Cost> {
    let times: Vec<u64> =
        cells.iter_mut().map(|cell| (TURN_NS / cell.ns(WARM_UP)) as u64 + 1).collect();
    let mut measured = vec![Vec::with_capacity(ROUNDS); cells.len()];
    for _ in 0..ROUNDS {
        for ((cell, times), rounds) in cells.iter_mut().zip(&times).zip(&mut measured) {
            rounds.push(cell.ns(*times));
        }
    }
    let medians = measured.into_iter().map(|mut rounds| {
        rounds.sort_by(f64::total_cmp);
        rounds[ROUNDS / 2]
    });
    medians.zip(cells).map(|(ns, cell)| Cost { ns, bytes: cell.bytes(COUNTED) }).collect()
}
