//! Running each operation for callgrind, which counts only what happens in [`counted_operation`]
//! and writes its count to a file of its own each time that function returns.

use crate::cell::Cell;

/// Repetitions before the count: what is made once is made then.
const WARM_UP: u64 = 200;

/// Runs each cell so many times under count, and prints their rows in the order of the files.
pub(crate) fn all(mut cells: Vec<Cell>, runs: u64) {
    for cell in &mut cells {
        cell.repeat(WARM_UP);
        counted_operation(cell, runs);
        println!("{}", cell.row);
    }
}

/// `cargo xtask gate` names this function to callgrind.
#[inline(never)]
fn counted_operation(cell: &mut Cell, runs: u64) {
    cell.repeat(runs);
}
