//! A worker logs an answer without allocating.

use avocet_querylog::{Entry, Facts, Record, ring};
use avocet_testkit::allocations::{Allocations, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn an_entry_is_pushed_dropped_and_popped_without_allocation() {
    let (mut producer, mut consumer) = ring(1 << 16);
    let mut record = Record::default();
    let facts = Facts {
        response_delay_us: 9,
        revision: 1,
        profile: 1,
        device: 1,
        flags: 0x8180,
        answer_count: 1,
        query_size: 40,
        response_size: 90,
        stage: 1,
        cache: 1,
        ..Facts::of(1, [192, 0, 2, 1].into())
    };
    let entry = Entry { facts, qname: b"\x03www\x07example\x00", lists: &[1; 9], answer: &[7; 90] };
    let made = Allocations::of(|| {
        (0..10_000).for_each(|_| producer.push(&entry));
        while consumer.pop(&mut record) {}
    });
    assert_eq!(made.count, 0);
    assert!(consumer.dropped() > 0);
    assert_eq!(record.entry(), entry);
}
