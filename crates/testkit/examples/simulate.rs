//! Plays simulations: `simulate COUNT [FIRST]`, and says of which seeds something does not hold.

use std::env;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use avocet_testkit::{Tally, simulate};

/// Faults that are shown.
const SHOWN: usize = 40;

fn main() -> ExitCode {
    let mut numbers = env::args().skip(1).map(|word| word.parse::<u64>());
    let (Some(Ok(count)), first) = (numbers.next(), numbers.next().unwrap_or(Ok(0)).unwrap_or(0)) else {
        eprintln!("usage: simulate COUNT [FIRST]");
        return ExitCode::from(2);
    };
    let (next, total, faults) = (AtomicU64::new(first), Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    match simulate(seed) {
                        Ok(tally) => total.lock().expect("no panic while it is held").add(&tally),
                        Err(wrong) => faults.lock().expect("no panic while it is held").push((seed, wrong)),
                    }
                }
            });
        }
    });
    let (total, faults) = (total.into_inner().expect("no panic"), faults.into_inner().expect("no panic"));
    for (seed, wrong) in faults.iter().take(SHOWN) {
        println!("seed {seed}, {wrong}");
    }
    println!("{count} seeds, {} with a fault; {total:?}", faults.len());
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
