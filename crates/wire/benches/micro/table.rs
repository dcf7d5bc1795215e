//! Cells of a table, measured beside each other: nanoseconds in interleaved rounds, and
//! instructions counted by callgrind.

use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

/// Rounds in which every cell has its turn.
const ROUNDS: usize = 101;
/// How long a turn takes, in nanoseconds: shorter than a time slice, so that most turns are whole.
const TURN_NS: f64 = 100_000.0;
/// The numbers of repetitions whose difference gives the instructions of one.
const COUNTED: [u64; 2] = [1_000, 3_000];

/// One way of doing the operation of a row.
pub(crate) struct Cell {
    row: &'static str,
    column: &'static str,
    run: Box<dyn FnMut(u64)>,
}

/// What a cell costs for one repetition.
#[derive(Clone, Copy)]
struct Cost {
    ns: f64,
    instructions: Option<u64>,
}

impl Cell {
    /// A cell whose operation is run again and again; its result is taken as used.
    pub(crate) fn new<T>(row: &'static str, column: &'static str, mut operation: impl FnMut() -> T + 'static) -> Self {
        let run = move |times| {
            for _ in 0..times {
                black_box(operation());
            }
        };
        Self { row, column, run: Box::new(run) }
    }

    /// Runs the operation so many times.
    pub(crate) fn repeat(&mut self, times: u64) {
        (self.run)(times);
    }

    fn ns(&mut self, times: u64) -> f64 {
        let start = Instant::now();
        self.repeat(times);
        start.elapsed().as_nanos() as f64 / times as f64
    }
}

/// Measures all cells and prints a table for each group of columns.
pub(crate) fn print(cells: &mut [Cell], groups: &[&[&str]], count_instructions: bool) {
    let ns = medians(cells);
    let costs: Vec<Cost> = ns
        .into_iter()
        .enumerate()
        .map(|(index, ns)| Cost { ns, instructions: count_instructions.then(|| instructions(index)).flatten() })
        .collect();
    for columns in groups {
        print_group(cells, &costs, columns);
    }
}

/// The median cost of each cell in nanoseconds, over rounds in which all have their turn.
fn medians(cells: &mut [Cell]) -> Vec<f64> {
    let times: Vec<u64> = cells.iter_mut().map(|cell| (TURN_NS / cell.ns(2_000)) as u64 + 1).collect();
    let mut measured = vec![Vec::with_capacity(ROUNDS); cells.len()];
    for _ in 0..ROUNDS {
        for ((cell, times), rounds) in cells.iter_mut().zip(&times).zip(&mut measured) {
            rounds.push(cell.ns(*times));
        }
    }
    measured
        .into_iter()
        .map(|mut rounds| {
            rounds.sort_by(f64::total_cmp);
            rounds[ROUNDS / 2]
        })
        .collect()
}

/// The instructions of one repetition: this program under callgrind with two numbers of them.
fn instructions(index: usize) -> Option<u64> {
    let [few, many] = COUNTED.map(|times| collected(index, times));
    Some((many? - few?) / (COUNTED[1] - COUNTED[0]))
}

fn collected(index: usize, times: u64) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(["--repeat", &index.to_string(), &times.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn print_group(cells: &[Cell], costs: &[Cost], columns: &[&str]) {
    println!("\n| ns (instructions) | {} |\n|---{}|", columns.join(" | "), "|---".repeat(columns.len()));
    let in_group = |cell: &Cell| columns.contains(&cell.column);
    let mut rows: Vec<&str> = Vec::new();
    for cell in cells.iter().filter(|cell| in_group(cell)) {
        if !rows.contains(&cell.row) {
            rows.push(cell.row);
        }
    }
    for row in rows {
        let texts = columns.iter().map(|column| {
            let index = cells.iter().position(|cell| (cell.row, cell.column) == (row, *column));
            index.map_or_else(String::new, |index| costs[index].text())
        });
        println!("| {row} | {} |", texts.collect::<Vec<_>>().join(" | "));
    }
}

impl Cost {
    fn text(self) -> String {
        match self.instructions {
            Some(instructions) => format!("{:.1} ({instructions})", self.ns),
            None => format!("{:.1}", self.ns),
        }
    }
}
