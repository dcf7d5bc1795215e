//! Runs each operation for callgrind, which counts only [`counted_operation`] and writes its count
//! to a separate file each time that function returns.

use crate::cell::Cell;

/// Repetitions before the count, so that one-time work is not part of it.
const WARM_UP: u64 = 200;

/// Counts `runs` repetitions of each cell, and prints the rows in the order of the files.
pub(crate) fn all(mut cells: Vec<Cell>, runs: u64) {
    for cell in &mut cells {
        cell.repeat(WARM_UP);
        counted_operation(cell, runs);
        println!("{}", cell.row);
    }
}

/// `cargo xtask gate` passes the name of this function to callgrind.
#[inline(never)]
fn counted_operation(cell: &mut Cell, runs: u64) {
    cell.repeat(runs);
}
