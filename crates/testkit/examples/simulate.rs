//! Plays simulations: `simulate [COUNT [FIRST]] [--mode recursion|forwarder|all]`, and prints the
//! seeds with faults.

use std::collections::BTreeMap;
use std::env;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use avocet_testkit::{Fault, Mode, Tally, Wrong, simulate};

/// Default number of simulations of each mode.
const COUNT: u64 = 10_000;
/// Maximum number of faults that are printed in full.
const SHOWN: usize = 40;
/// Number of simulations between two lines on progress.
const PROGRESS: u64 = 100_000;

struct Series {
    modes: Vec<Mode>,
    count: u64,
    first: u64,
}

/// The results of a series in one mode.
struct Outcome {
    mode: Mode,
    total: Tally,
    faults: Vec<(u64, Wrong)>,
}

impl Outcome {
    fn of(mode: Mode) -> Self {
        Self { mode, total: Tally::default(), faults: Vec::new() }
    }

    fn add(&mut self, seed: u64, played: Result<Tally, Wrong>) {
        match played {
            Ok(tally) => self.total.add(&tally),
            Err(wrong) => self.faults.push((seed, wrong)),
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let Some(series) = read(&words) else {
        eprintln!("usage: simulate [COUNT [FIRST]] [--mode recursion|forwarder|all]");
        return ExitCode::from(2);
    };
    let began = Instant::now();
    let mut outcomes = play(&series);
    for outcome in &mut outcomes {
        outcome.faults.sort_unstable_by_key(|(seed, _)| *seed);
        report(&series, outcome);
    }
    println!("in {:.1} s", began.elapsed().as_secs_f64());
    let has_fault = outcomes.iter().any(|outcome| !outcome.faults.is_empty());
    if has_fault { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn read(words: &[String]) -> Option<Series> {
    let (mut modes, mut numbers, mut words) = (Mode::ALL.to_vec(), Vec::new(), words.iter());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--mode" => {
                let wanted = words.next()?;
                modes.retain(|mode| wanted == "all" || wanted == mode.name());
            }
            number => numbers.push(number.replace('_', "").parse().ok()?),
        }
    }
    let [count, first] = match numbers[..] {
        [] => [COUNT, 0],
        [count] => [count, 0],
        [count, first] => [count, first],
        _ => return None,
    };
    (!modes.is_empty()).then_some(Series { modes, count, first })
}

/// Plays all seeds in all modes, on all cores. A thread plays a seed in one mode after the other,
/// because most seeds have the same signed zones in all modes.
fn play(series: &Series) -> Vec<Outcome> {
    let outcomes: Vec<Outcome> = series.modes.iter().map(|&mode| Outcome::of(mode)).collect();
    let (next, outcomes) = (AtomicU64::new(0), Mutex::new(outcomes));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= series.count {
                        return;
                    }
                    let seed = series.first + number;
                    let played: Vec<_> =
                        series.modes.iter().map(|&mode| simulate(mode, seed)).collect();
                    let mut outcomes = outcomes.lock().expect("no panic while it is held");
                    for (outcome, played) in outcomes.iter_mut().zip(played) {
                        outcome.add(seed, played);
                    }
                    if number > 0 && number % PROGRESS == 0 {
                        progress(number, &outcomes);
                    }
                }
            });
        }
    });
    outcomes.into_inner().expect("no panic")
}

fn progress(number: u64, outcomes: &[Outcome]) {
    for Outcome { mode, faults, .. } in outcomes {
        eprintln!("{}: {number} seeds, {} with a fault", mode.name(), faults.len());
    }
}

fn report(series: &Series, outcome: &Outcome) {
    let mode = outcome.mode;
    for (seed, wrong) in outcome.faults.iter().take(SHOWN) {
        println!("{} seed {seed}, {wrong}", mode.name());
    }
    let mut kinds: BTreeMap<Fault, Vec<u64>> = BTreeMap::new();
    for (seed, wrong) in &outcome.faults {
        kinds.entry(wrong.fault).or_default().push(*seed);
    }
    println!("{}: {} seeds, {} with a fault", mode.name(), series.count, outcome.faults.len());
    for (fault, seeds) in kinds {
        let shown: Vec<String> = seeds.iter().take(SHOWN).map(u64::to_string).collect();
        println!("  {fault:?}: {} ({})", seeds.len(), shown.join(" "));
    }
    let Tally { questions, failed, authentic, sent, changed, most_queries, longest_ms, digest } =
        outcome.total;
    println!("  {questions} questions, {failed} failed, {authentic} with AD");
    println!("  {sent} queries to servers, {changed} replies changed by attackers");
    println!("  at most {most_queries} queries for a question, and {longest_ms} ms");
    println!("  digest of all answers {digest:016x}");
}
