//! Pushes entries into a ring and prints the time of one push, without the writer.
//!
//! Run with `cargo run --release -p avocet-querylog --example push -- ENTRIES`, with fewer entries
//! than the 460,000 that the ring holds. For the instructions of a push, run it under callgrind
//! with two numbers of entries, and divide the difference.

use std::hint::black_box;
use std::time::Instant;

use avocet_querylog::{NO_EDE, RawEntry, RawFacts, ring};

const RING_OCTETS: usize = 1 << 26;
const QUESTION: &[u8] = b"\x03www\x07example\x03com\x00\x00\x01\x00\x01";

fn main() {
    let count = std::env::args().nth(1).map_or(100_000, |text| text.parse().expect("a number"));
    let (mut producer, consumer) = ring(RING_OCTETS, &[]);
    let header = b"\0\x01\x81\x80\0\x01\0\x02\0\0\0\0";
    let reply = [header, QUESTION, &[7; 32]].concat();
    let client = [192, 0, 2, 1].into();
    let start = Instant::now();
    for number in 0..count {
        let facts = RawFacts {
            time_us: number,
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
        let entry = RawEntry { client: &client, question: QUESTION, reply: &reply };
        producer.push(black_box(&entry), black_box(&facts));
    }
    println!("{:.1} ns for each entry", start.elapsed().as_nanos() as f64 / count as f64);
    assert_eq!(consumer.dropped(), 0, "the ring is too small");
}
