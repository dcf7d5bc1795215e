//! A measured operation.

use std::hint::black_box;
use std::time::Instant;

use avocet_testkit::allocations::Allocations;

/// One implementation of the operation of a row.
pub(crate) struct Cell {
    /// Name of the operation.
    pub(crate) row: &'static str,
    /// The implementation.
    pub(crate) column: &'static str,
    run: Box<dyn FnMut(u64)>,
}

impl Cell {
    /// A cell that repeats its operation; the result goes through `black_box`.
    pub(crate) fn new<T>(
        row: &'static str,
        column: &'static str,
        mut operation: impl FnMut() -> T + 'static,
    ) -> Self {
        let run = move |times| {
            for _ in 0..times {
                black_box(operation());
            }
        };
        Self { row, column, run: Box::new(run) }
    }

    /// Repeats the operation.
    pub(crate) fn repeat(&mut self, times: u64) {
        (self.run)(times);
    }

    /// Nanoseconds of one repetition, as the mean of `times`.
    pub(crate) fn ns(&mut self, times: u64) -> f64 {
        let start = Instant::now();
        self.repeat(times);
        start.elapsed().as_nanos() as f64 / times as f64
    }

    /// Bytes allocated by one repetition, as the mean of `times`.
    pub(crate) fn bytes(&mut self, times: u64) -> f64 {
        Allocations::of(|| self.repeat(times)).bytes as f64 / times as f64
    }
}
