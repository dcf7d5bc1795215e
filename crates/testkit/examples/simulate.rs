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
#[derive(Default)]
struct Outcome {
    total: Tally,
    faults: Vec<(u64, Wrong)>,
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let Some(series) = read(&words) else {
        eprintln!("usage: simulate [COUNT [FIRST]] [--mode recursion|forwarder|all]");
        return ExitCode::from(2);
    };
    let mut has_fault = false;
    for &mode in &series.modes {
        let began = Instant::now();
        let outcome = play(mode, &series);
        report(mode, &series, &outcome);
        println!("  in {:.1} s", began.elapsed().as_secs_f64());
        has_fault |= !outcome.faults.is_empty();
    }
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

/// Plays all seeds, on all cores.
fn play(mode: Mode, series: &Series) -> Outcome {
    let (next, outcome) = (AtomicU64::new(0), Mutex::new(Outcome::default()));
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
                    let played = simulate(mode, seed);
                    let mut outcome = outcome.lock().expect("no panic while it is held");
                    match played {
                        Ok(tally) => outcome.total.add(&tally),
                        Err(wrong) => outcome.faults.push((seed, wrong)),
                    }
                    if number > 0 && number % PROGRESS == 0 {
                        eprintln!(
                            "{}: {number} seeds, {} with a fault",
                            mode.name(),
                            outcome.faults.len()
                        );
                    }
                }
            });
        }
    });
    outcome.into_inner().expect("no panic")
}

fn report(mode: Mode, series: &Series, outcome: &Outcome) {
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
    let Tally { questions, failed, authentic, sent, changed, most_queries, longest_ms } =
        outcome.total;
    println!("  {questions} questions, {failed} failed, {authentic} with AD");
    println!("  {sent} queries to servers, {changed} replies changed by attackers");
    println!("  at most {most_queries} queries for a question, and {longest_ms} ms");
}
