//! Resolution in networks that lose datagrams in each direction: success, delay and cost. The zones
//! are signed and unsigned, up to five levels deep; the resolver validates and starts with cold
//! caches.

use avocet_testkit::{Tally, simulate_loss};

/// Number of internets: more than a thousand names in all.
const SEEDS: u64 = 16;
/// Number of names that are resolved at the same time.
const TOGETHER: usize = 32;

fn play(percent: u32) -> Tally {
    let mut total = Tally::default();
    for seed in 0..SEEDS {
        match simulate_loss(seed, percent, TOGETHER) {
            Ok(tally) => total.add(&tally),
            Err(wrong) => panic!("seed {seed}, {wrong}"),
        }
    }
    assert!(total.questions > 1_000 && total.authentic > 100, "too little was asked: {total:?}");
    total
}

/// Checks that at least this many names per thousand are answered, with this many queries per ten
/// names.
#[track_caller]
fn check(percent: u32, per_mille: u64, queries: u64) {
    let total = play(percent);
    assert!(total.failed * 1_000 <= total.questions * (1_000 - per_mille), "{total:?}");
    assert!(total.sent * 10 <= total.questions * queries, "{total:?}");
}

#[test]
fn without_loss_a_cold_name_costs_one_and_a_half_queries() {
    check(0, 1_000, 15);
}

#[test]
fn with_a_tenth_lost_all_names_are_found_for_two_queries_each() {
    check(10, 1_000, 21);
}

#[test]
fn with_a_third_lost_nearly_all_names_are_found_for_four_queries_each() {
    check(30, 999, 40);
}

#[test]
fn with_half_of_all_lost_99_of_100_names_are_found_within_ten_seconds() {
    check(50, 990, 75);
}
