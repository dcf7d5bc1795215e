//! A few thousand simulations of random internets. `cargo xtask simulate` plays any number.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use avocet_testkit::{Fault, Mode, Tally, Weakness, Wrong, simulate, simulate_weak};

/// Number of seeds of each mode, and the first seed.
const SEEDS: u64 = 1_500;
const FIRST_SEED: u64 = 0;
/// Seeds within which a planted weakness must be found.
const SEEDS_FOR_WEAKNESS: u64 = 150;

/// Plays seeds on all cores, and returns the total with the faults.
fn play(
    seeds: u64,
    simulate: impl Fn(u64) -> Result<Tally, Wrong> + Sync,
) -> (Tally, Vec<(u64, Wrong)>) {
    let (next, total, faults) =
        (AtomicU64::new(0), Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    match simulate(seed) {
                        Ok(tally) => total.lock().expect("no panic while it is held").add(&tally),
                        Err(wrong) => {
                            faults.lock().expect("no panic while it is held").push((seed, wrong))
                        }
                    }
                }
            });
        }
    });
    (total.into_inner().expect("no panic"), faults.into_inner().expect("no panic"))
}

#[track_caller]
fn check(mode: Mode) {
    let (total, faults) = play(SEEDS, |number| simulate(mode, FIRST_SEED + number));
    let shown: Vec<String> =
        faults.iter().map(|(seed, wrong)| format!("seed {}, {wrong}", FIRST_SEED + seed)).collect();
    assert!(faults.is_empty(), "{}", shown.join("\n"));
    // Few questions, few attacks or hardly any answers would show little.
    assert!(total.questions > 10 * SEEDS && total.authentic > total.questions / 10, "{total:?}");
    assert!(total.failed < total.questions / 2 && total.changed > 10 * SEEDS, "{total:?}");
}

#[test]
fn for_every_seed_what_must_hold_of_an_answer_holds() {
    check(Mode::Recursion);
}

#[test]
fn for_every_seed_what_must_hold_of_an_answer_holds_with_a_forwarder() {
    check(Mode::Forwarder);
}

/// Further seeds in which a fault was once found. Changes of the simulation change their effect.
const FOUND: [(Mode, u64); 16] = [
    (Mode::Recursion, 13_731),
    (Mode::Recursion, 31_543),
    (Mode::Recursion, 56_089),
    (Mode::Recursion, 57_224),
    (Mode::Forwarder, 6_724),
    (Mode::Forwarder, 26_686),
    (Mode::Forwarder, 36_633),
    (Mode::Forwarder, 45_995),
    (Mode::Forwarder, 86_526),
    (Mode::Forwarder, 174_196),
    (Mode::Forwarder, 251_675),
    (Mode::Forwarder, 260_261),
    (Mode::Forwarder, 408_545),
    (Mode::Forwarder, 1_027_974),
    (Mode::Forwarder, 1_164_165),
    (Mode::Forwarder, 1_216_207),
];

#[test]
fn seeds_that_had_a_fault_have_none() {
    for (mode, seed) in FOUND {
        let played = simulate(mode, seed);
        assert!(played.is_ok(), "{} seed {seed}, {}", mode.name(), played.unwrap_err());
    }
}

#[test]
fn the_same_seed_plays_the_same() {
    for mode in Mode::ALL {
        assert_eq!(simulate(mode, 7), simulate(mode, 7));
    }
}

/// Returns the faults by which a weakness must be found, among others.
fn expected(weakness: Weakness) -> &'static [Fault] {
    match weakness {
        Weakness::ValidatesNothing => &[Fault::NoAd, Fault::FalseData],
        Weakness::AlwaysAuthentic => &[Fault::AdOnFalse, Fault::AdOnInsecure],
        Weakness::NeverAuthentic => &[Fault::NoAd],
        Weakness::ForgesAddresses => &[Fault::FalseData, Fault::AdOnFalse],
        Weakness::FailsOften => &[Fault::Failure],
        Weakness::RaisesTtls => &[Fault::Ttl],
        Weakness::DeniesAll => &[Fault::FalseData, Fault::AdOnFalse],
    }
}

#[test]
fn planted_weaknesses_are_found() {
    for mode in Mode::ALL {
        for weakness in Weakness::ALL {
            let (_, faults) = play(SEEDS_FOR_WEAKNESS, |seed| simulate_weak(mode, seed, weakness));
            let found: BTreeSet<Fault> = faults.iter().map(|(_, wrong)| wrong.fault).collect();
            let missed: Vec<_> =
                expected(weakness).iter().filter(|fault| !found.contains(fault)).collect();
            assert!(missed.is_empty(), "{mode:?}, {weakness:?}: {missed:?} not in {found:?}");
        }
    }
}
