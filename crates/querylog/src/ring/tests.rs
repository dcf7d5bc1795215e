//! Rings on one thread, on two, and in the loom model.

use super::*;

/// Returns the entry with a number: each field depends on it.
fn numbered<'a>(number: u64, octets: &'a [u8], lists: &'a [u16]) -> Entry<'a> {
    let short = number as u16;
    let facts = Facts {
        time_us: number,
        client: if number.is_multiple_of(2) {
            IpAddr::from((number as u32).to_be_bytes())
        } else {
            IpAddr::from((u128::from(number) << 40 | 1).to_be_bytes())
        },
        response_delay_us: number as u32 ^ 1,
        upstream_rtt_us: number as u32 ^ 2,
        revision: number as u32 ^ 3,
        profile: short ^ 4,
        device: short ^ 5,
        listener: short ^ 6,
        upstream: short ^ 7,
        rule: short ^ 8,
        qtype: short ^ 9,
        qclass: short ^ 10,
        flags: short ^ 11,
        rcode: short ^ 12,
        ede: short ^ 13,
        answer_count: short ^ 14,
        query_size: short ^ 15,
        response_size: short ^ 16,
        stage: number as u8 ^ 1,
        transport: number as u8 ^ 2,
        cache: number as u8 ^ 3,
        validation: number as u8 ^ 4,
        outcome: Outcome::ALL[number as usize % 8],
        privacy: Privacy::from_number(number as u8 % 4),
    };
    let length = |most: usize| (number as usize * 7 % (most + 1)).min(octets.len());
    Entry {
        facts,
        qname: &octets[..length(MAX_QNAME)],
        lists: &lists[..number as usize % (MAX_ENTRY_LISTS + 1)],
        answer: &octets[..length(MAX_ANSWER_OCTETS)],
    }
}

#[cfg(not(loom))]
mod threads {
    use super::*;

    const LISTS: [u16; MAX_ENTRY_LISTS + 3] =
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18];

    fn octets() -> Vec<u8> {
        (0..=255).collect()
    }

    #[test]
    fn every_field_survives_and_lengths_are_cut() {
        let octets = octets();
        let (mut producer, mut consumer) = ring(0);
        let mut record = Record::default();
        for number in 0..5_000 {
            let entry = numbered(number, &octets, &LISTS);
            producer.push(&entry);
            assert!(consumer.pop(&mut record));
            assert_eq!(record.entry(), entry);
        }
        let long = Entry { answer: &octets, lists: &LISTS, ..numbered(1, &octets, &LISTS) };
        producer.push(&long);
        assert!(consumer.pop(&mut record));
        assert_eq!(record.entry().answer, &octets[..MAX_ANSWER_OCTETS]);
        assert_eq!(record.entry().lists, &LISTS[..MAX_ENTRY_LISTS]);
        assert!(!consumer.pop(&mut record));
        assert_eq!(consumer.dropped(), 0);
    }

    #[test]
    fn a_full_ring_drops_and_counts_and_goes_on() {
        let octets = octets();
        let (mut producer, mut consumer) = ring(4096);
        (0..1000).for_each(|number| producer.push(&numbered(number, &octets, &LISTS)));
        let mut record = Record::default();
        let mut kept = 0;
        while consumer.pop(&mut record) {
            kept += 1;
        }
        assert!(kept > 5);
        assert_eq!(consumer.dropped(), 1000 - kept);
        producer.push(&numbered(7, &octets, &LISTS));
        assert!(consumer.pop(&mut record));
        assert_eq!(record.entry(), numbered(7, &octets, &LISTS));
    }

    #[test]
    fn two_threads_lose_only_what_is_counted_and_keep_the_order() {
        const COUNT: u64 = 200_000;
        let octets = octets();
        let (mut producer, mut consumer) = ring(1 << 14);
        let push = std::thread::spawn({
            let octets = octets.clone();
            move || (0..COUNT).for_each(|n| producer.push(&numbered(n, &octets, &LISTS)))
        });
        let (mut record, mut seen, mut last) = (Record::default(), 0, None);
        loop {
            let is_over = push.is_finished();
            while consumer.pop(&mut record) {
                let entry = record.entry();
                assert_eq!(entry, numbered(entry.facts.time_us, &octets, &LISTS));
                assert!(Some(entry.facts.time_us) > last);
                last = Some(entry.facts.time_us);
                seen += 1;
            }
            if is_over {
                break;
            }
        }
        push.join().unwrap();
        assert_eq!(seen + consumer.dropped(), COUNT);
    }
}

/// Every interleaving of a worker and the writer. Run with `RUSTFLAGS="--cfg loom" cargo test -p
/// avocet-querylog --release loom`.
#[cfg(loom)]
#[test]
fn loom_a_record_is_seen_whole_or_not_at_all() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let (mut producer, mut consumer) = ring(0);
        // The indices start near the end of the slots, so that records wrap around.
        let start = consumer.slots.words.len() as u64 - 7;
        producer.end = start;
        producer.limit = start + FIXED as u64 + 2;
        consumer.start = start;
        consumer.end = start;
        consumer.slots.published.0.store(start, Ordering::Relaxed);
        consumer.slots.consumed.0.store(start, Ordering::Relaxed);
        let worker = loom::thread::spawn(move || {
            (1..3).for_each(|number| producer.push(&numbered(number, b"", &[1; MAX_ENTRY_LISTS])));
        });
        let (mut record, mut last) = (Record::default(), 0);
        for _ in 0..2 {
            if consumer.pop(&mut record) {
                let number = record.entry().facts.time_us;
                assert!(number > last);
                assert_eq!(record.entry(), numbered(number, b"", &[1; MAX_ENTRY_LISTS]));
                last = number;
            }
        }
        worker.join().unwrap();
        assert_eq!(consumer.dropped(), 0);
    });
}
