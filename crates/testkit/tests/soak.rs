//! Tests that memory does not grow during three days of virtual time with lossy networks and
//! failing servers.

use avocet_testkit::allocations::{Counting, live_bytes};
use avocet_testkit::simulate_hours;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SEED: u64 = 2;
const HOURS: u64 = 72;
/// Hours after which all tables are expected to be full.
const WARM_HOURS: u64 = 24;
/// Permitted growth of memory after that, in bytes: far below a megabyte per hour.
const GROWTH: i64 = 512 << 10;

#[test]
fn three_days_of_faults_are_answered_soundly_and_leave_nothing_behind() {
    let mut held = Vec::with_capacity(HOURS as usize);
    let tally = simulate_hours(SEED, HOURS, &mut |_| held.push(live_bytes()));
    let tally = tally.unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(tally.questions > 3_000 && tally.failed < tally.questions / 4, "{tally:?}");
    let (warm, rest) = held.split_at(WARM_HOURS as usize);
    let (warm, rest) = (warm.iter().max().unwrap(), rest.iter().max().unwrap());
    assert!(*rest <= warm + GROWTH, "{warm} bytes in the first day, {rest} later");
}
