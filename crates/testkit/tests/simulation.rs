//! Simulations of random internets, a few hundred; `cargo xtask simulate` plays as many as one likes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use avocet_testkit::{Tally, simulate};

const SEEDS: u64 = 300;

#[test]
fn for_every_seed_what_must_hold_of_an_answer_holds() {
    let (next, total, faults) = (AtomicU64::new(0), Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= SEEDS {
                        return;
                    }
                    match simulate(seed) {
                        Ok(tally) => total.lock().unwrap().add(&tally),
                        Err(wrong) => faults.lock().unwrap().push(format!("seed {seed}, {wrong}")),
                    }
                }
            });
        }
    });
    let (total, faults) = (total.into_inner().unwrap(), faults.into_inner().unwrap());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // It would be of no use if little was asked, or hardly anything found.
    assert!(total.questions > 8 * SEEDS && total.authentic > total.questions / 20, "{total:?}");
    assert!(total.failed < total.questions / 4, "{total:?}");
}

#[test]
fn the_same_seed_plays_the_same() {
    assert_eq!(simulate(7), simulate(7));
}
