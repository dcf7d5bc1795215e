//! A worker logs an answer without allocating.

use avocet_querylog::{NO_EDE, RawEntry, RawFacts, Record, ring};
use avocet_testkit::allocations::{Allocations, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn an_entry_is_pushed_dropped_and_popped_without_allocation() {
    let (mut producer, mut consumer) = ring(1 << 16, &[]);
    let mut record = Record::default();
    let facts = RawFacts {
        time_us: 1,
        response_delay_us: 9,
        upstream_rtt_ms: 0,
        revision: 1,
        profile: 1,
        device: 0,
        listener: 0,
        upstream: 0,
        rule: 0,
        rcode: 0,
        ede: NO_EDE,
        query_size: 40,
        stage: 1,
        transport: 0,
        cache: 1,
        validation: 0,
    };
    let question = b"\x03www\x07example\x00\x00\x01\x00\x01";
    let reply = [b"\0\x01\x81\x80\0\x01\0\x02\0\0\0\0", &question[..], &[7; 61]].concat();
    let entry = RawEntry { client: &[192, 0, 2, 1].into(), question, reply: &reply };
    let made = Allocations::of(|| {
        (0..10_000).for_each(|_| producer.push(&entry, &facts));
        while consumer.pop(&mut record) {}
    });
    assert_eq!(made.count, 0);
    assert!(consumer.dropped() > 0);
    let found = record.entry();
    assert_eq!((found.qname, found.facts.qtype), (&b"\x03www\x07example\x00"[..], 1));
    assert_eq!((found.facts.response_size, found.answer), (90, &[7; 61][..]));
}
