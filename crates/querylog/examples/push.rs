//! Pushes entries into a ring and prints the time of one, without the writer.
//!
//! Run with `cargo run --release -p avocet-querylog --example push -- ENTRIES`, with fewer entries
//! than the 460,000 that the ring holds. For the instructions of a push, run it under callgrind
//! with two numbers of entries, and divide the difference.

use std::hint::black_box;
use std::time::Instant;

use avocet_querylog::{Entry, Facts, ring};

const RING_OCTETS: usize = 1 << 26;

fn main() {
    let count = std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("a number"));
    let (mut producer, consumer) = ring(RING_OCTETS);
    let facts = Facts {
        response_delay_us: 9,
        revision: 1,
        profile: 1,
        device: 1,
        flags: 0x8180,
        answer_count: 2,
        query_size: 40,
        response_size: 90,
        stage: 1,
        cache: 1,
        ..Facts::of(1, [192, 0, 2, 1].into())
    };
    let answer = [7_u8; 32];
    let start = Instant::now();
    for number in 0..count {
        let entry = Entry {
            facts: Facts { time_us: number, ..facts },
            qname: b"\x03www\x07example\x03com\x00",
            lists: &[],
            answer: &answer,
        };
        producer.push(black_box(&entry));
    }
    println!("{:.1} ns for each entry", start.elapsed().as_nanos() as f64 / count as f64);
    assert_eq!(consumer.dropped(), 0, "the ring is too small");
}
