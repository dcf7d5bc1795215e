//! Tests of rings on one thread, on two threads, and in the loom model.

use super::*;
use crate::entry::NO_EDE;

/// The outcomes of the first stages.
const OUTCOMES: [Outcome; 8] = Outcome::ALL;

/// A query whose fields all depend on a number.
struct Numbered {
    client: IpAddr,
    question: Vec<u8>,
    reply: Vec<u8>,
    facts: RawFacts,
}

impl Numbered {
    fn of(number: u64) -> Self {
        let short = number as u16;
        let length = |most: usize, step: usize| number as usize * step % (most + 1);
        let octets = |count: usize| (0..count).map(|at| (at as u64 ^ number) as u8);
        let question = length(MAX_QUESTION, 5);
        let question: Vec<u8> =
            octets(if question > TYPE_AND_CLASS { question } else { 0 }).collect();
        let reply = if number.is_multiple_of(3) {
            Vec::new()
        } else {
            // There is an answer, unless the question is missing or ANCOUNT is zero.
            let header = [1, 2, 0x81, 0x80, 0, 1, 0, (number % 2) as u8, 0, 0, 0, 0];
            let has_answer = number % 2 == 1 && !question.is_empty();
            let answer = if has_answer { length(MAX_ANSWER_OCTETS, 7) } else { 0 };
            [&header[..], &question, &octets(answer).collect::<Vec<u8>>()].concat()
        };
        let facts = RawFacts {
            time_us: number,
            response_delay_us: number as u32 ^ 1,
            upstream_rtt_ms: number as u32 ^ 2,
            revision: number as u32 ^ 3,
            profile: short ^ 4,
            device: if number.is_multiple_of(3) { number ^ 5 } else { 0 },
            listener: short ^ 6,
            upstream: short ^ 7,
            rule: short ^ 8,
            rcode: short ^ 12,
            ede: short ^ NO_EDE,
            query_size: short ^ 15,
            stage: number as u8 ^ 1,
            transport: number as u8 ^ 2,
            cache: number as u8 ^ 3,
            validation: number as u8 ^ 4,
        };
        let client = if number.is_multiple_of(2) {
            IpAddr::from((number as u32).to_be_bytes())
        } else {
            IpAddr::from((u128::from(number) << 40 | 1).to_be_bytes())
        };
        Self { client, question, reply, facts }
    }

    fn raw(&self) -> RawEntry<'_> {
        RawEntry { client: &self.client, question: &self.question, reply: &self.reply }
    }

    fn push(&self, producer: &mut Producer) {
        producer.push(&self.raw(), &self.facts);
    }

    /// Returns the entry that the record contains.
    fn entry(&self) -> Entry<'_> {
        let Self { client, question, reply, facts } = self;
        let (qname, fixed) = question.split_last_chunk().unwrap_or((&[], &[0; 4]));
        let [type_high, type_low, class_high, class_low] = *fixed;
        let [_, _, flags_high, flags_low, _, _, count_high, count_low] =
            reply.first_chunk().copied().unwrap_or_default();
        let facts = Facts {
            time_us: facts.time_us,
            client: *client,
            response_delay_us: facts.response_delay_us,
            upstream_rtt_us: facts.upstream_rtt_ms.saturating_mul(1000),
            revision: facts.revision,
            profile: facts.profile,
            device: 0,
            known_as: facts.device,
            listener: facts.listener,
            upstream: facts.upstream,
            rule: facts.rule,
            qtype: u16::from_be_bytes([type_high, type_low]),
            qclass: u16::from_be_bytes([class_high, class_low]),
            flags: u16::from_be_bytes([flags_high, flags_low]),
            rcode: facts.rcode,
            ede: facts.ede,
            answer_count: u16::from_be_bytes([count_high, count_low]),
            query_size: facts.query_size,
            response_size: reply.len() as u16,
            stage: facts.stage,
            transport: facts.transport,
            cache: facts.cache,
            validation: facts.validation,
            outcome: OUTCOMES.get(usize::from(facts.stage)).copied().unwrap_or(Outcome::Answered),
            privacy: Privacy::Full,
        };
        let answer = reply.get(HEADER_LEN + question.len()..).unwrap_or_default();
        Entry { facts, qname, lists: &[], answer }
    }
}

#[cfg(not(loom))]
mod threads {
    use super::*;

    #[test]
    fn the_fill_is_that_of_entries_that_wait() {
        let (mut producer, mut consumer) = ring(0, &OUTCOMES);
        let mut record = Record::default();
        assert_eq!(consumer.fill(), 0.0);
        Numbered::of(1).push(&mut producer);
        let one = consumer.fill();
        Numbered::of(1).push(&mut producer);
        assert!(one > 0.0 && consumer.fill() == 2.0 * one);
        assert!(consumer.pop(&mut record) && consumer.pop(&mut record));
        assert_eq!(consumer.fill(), 0.0);
    }

    #[test]
    fn every_field_survives() {
        let (mut producer, mut consumer) = ring(0, &OUTCOMES);
        let mut record = Record::default();
        for number in 0..5_000 {
            let pushed = Numbered::of(number);
            pushed.push(&mut producer);
            assert!(consumer.pop(&mut record));
            assert_eq!(record.entry(), pushed.entry());
        }
        assert!(!consumer.pop(&mut record));
        assert_eq!(consumer.dropped(), 0);
    }

    #[test]
    fn lengths_are_cut() {
        let (mut producer, mut consumer) = ring(0, &OUTCOMES);
        let mut record = Record::default();
        let mut long = Numbered::of(7);
        long.reply.extend_from_slice(&[8; 200]);
        long.push(&mut producer);
        assert!(consumer.pop(&mut record));
        let kept = Entry { answer: &long.entry().answer[..MAX_ANSWER_OCTETS], ..long.entry() };
        assert_eq!(record.entry(), kept);
        long.reply.clear();
        long.question = vec![9; 1000];
        long.push(&mut producer);
        assert!(consumer.pop(&mut record));
        assert_eq!(record.entry().qname, &[9; 255]);
    }

    #[test]
    fn a_reply_without_its_question_or_without_records_has_no_answer() {
        let (mut producer, mut consumer) = ring(0, &OUTCOMES);
        let mut record = Record::default();
        for (place, qdcount_or_ancount) in [(5, 0), (7, 0)] {
            let mut pushed = Numbered::of(7);
            pushed.reply[place] = qdcount_or_ancount;
            pushed.push(&mut producer);
            assert!(consumer.pop(&mut record));
            assert_eq!(record.entry(), Entry { answer: &[], ..pushed.entry() });
        }
    }

    #[test]
    fn a_full_ring_drops_and_counts_and_goes_on() {
        let (mut producer, mut consumer) = ring(4096, &OUTCOMES);
        (0..1000).for_each(|number| Numbered::of(number).push(&mut producer));
        let (mut record, mut kept, mut last) = (Record::default(), 0, None);
        while consumer.pop(&mut record) {
            // A short record may fit after a long record did not.
            let number = record.entry().facts.time_us;
            assert_eq!(record.entry(), Numbered::of(number).entry());
            assert!(Some(number) > last);
            last = Some(number);
            kept += 1;
        }
        assert!(kept > 5);
        assert_eq!(consumer.dropped(), 1000 - kept);
        Numbered::of(7).push(&mut producer);
        assert!(consumer.pop(&mut record));
        assert_eq!(record.entry(), Numbered::of(7).entry());
    }

    #[test]
    fn two_threads_lose_only_what_is_counted_and_keep_the_order() {
        const COUNT: u64 = 200_000;
        let (mut producer, mut consumer) = ring(1 << 14, &OUTCOMES);
        let push = std::thread::spawn(move || {
            (0..COUNT).for_each(|number| Numbered::of(number).push(&mut producer));
        });
        let (mut record, mut seen, mut last) = (Record::default(), 0, None);
        loop {
            let is_over = push.is_finished();
            while consumer.pop(&mut record) {
                let entry = record.entry();
                assert_eq!(entry, Numbered::of(entry.facts.time_us).entry());
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

/// Tests all interleavings of a worker and the writer. Run with `RUSTFLAGS="--cfg loom" cargo test
/// -p avocet-querylog --release loom`.
#[cfg(loom)]
#[test]
fn loom_a_record_is_seen_whole_or_not_at_all() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let (mut producer, mut consumer) = ring(0, &OUTCOMES);
        // The indices start near the end of the slots, so that some records cross this end.
        let start = consumer.slots.count() as u64 - 7;
        producer.end = start;
        producer.limit = start + FIXED as u64 + 2;
        consumer.start = start;
        consumer.end = start;
        consumer.slots.published.0.store(start, Ordering::Relaxed);
        consumer.slots.consumed.0.store(start, Ordering::Relaxed);
        let bare = |number| {
            let (question, reply) = (Vec::new(), Vec::new());
            Numbered { question, reply, ..Numbered::of(number) }
        };
        let worker = loom::thread::spawn(move || {
            (1..3).for_each(|number| bare(number).push(&mut producer));
        });
        let (mut record, mut last) = (Record::default(), 0);
        for _ in 0..2 {
            if consumer.pop(&mut record) {
                let number = record.entry().facts.time_us;
                assert!(number > last);
                assert_eq!(record.entry(), bare(number).entry());
                last = number;
            }
        }
        worker.join().unwrap();
        assert_eq!(consumer.dropped(), 0);
    });
}
