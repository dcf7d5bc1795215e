//! Three days of virtual time through networks that lose and servers that break: what is held does
//! not grow.

use avocet_testkit::allocations::{Counting, live_bytes};
use avocet_testkit::simulate_hours;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SEED: u64 = 2;
const HOURS: u64 = 72;
/// Tables fill in the first day.
const WARM_HOURS: u64 = 24;
/// What the rest of the time may add to the most that was held, in bytes: far below a megabyte an
/// hour.
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
