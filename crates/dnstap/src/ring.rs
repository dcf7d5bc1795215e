//! Rings that pass replies from workers to the thread that sends them to the receiver.
//!
//! Each worker has a ring. It holds words, not octets: a slot is an `AtomicU64`, which both sides
//! access without `unsafe`. The worker fills the slots of a record and then publishes the record by
//! one store with release order. If the ring is full, the worker drops and counts the record: it
//! never waits and allocates nothing. The query log has another ring with the same protocol, but
//! without messages in its records.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of words of a record before the octets of its message.
const FIXED: usize = 6;
/// Length of the longest message in octets.
const MAX_OCTETS: usize = u16::MAX as usize;
/// Number of words of the longest record.
const MAX_WORDS: usize = FIXED + MAX_OCTETS.div_ceil(8);

/// A reply, or a query that got no reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TappedReply<'a> {
    /// Time of the reply in Unix microseconds.
    pub time_us: u64,
    /// Microseconds from the query to the reply.
    pub delay_us: u32,
    /// Revision of the configuration under which the query was answered.
    pub revision: u32,
    /// Address of the client.
    pub client: IpAddr,
    /// An identifier of the client's device, which does not depend on its address; zero if the
    /// device is unknown.
    pub device: u64,
    /// The index of the server's address in the configuration.
    pub entrance: u16,
    /// The code of the transport, as in the query log.
    pub transport: u8,
    /// Whether `octets` are a reply. Otherwise they are a question.
    pub is_reply: bool,
    /// The reply in wire format; or the question in wire format, if no reply was sent.
    pub octets: &'a [u8],
}

/// A word in its own pair of cache lines, because processors fetch lines in pairs.
#[repr(align(128))]
struct LoneWord(AtomicU64);

struct RingWords {
    words: Box<[AtomicU64]>,
    /// Index of the word after the last complete record.
    published: LoneWord,
    /// Index of the first word that the receiver has not read.
    consumed: LoneWord,
    /// Number of dropped records.
    dropped: LoneWord,
}

/// Creates a ring that has at least `octets` and room for the longest record. The system zeroes its
/// memory at the first use.
#[must_use]
pub fn ring(octets: usize) -> (TapSender, TapReceiver) {
    let count = octets.div_ceil(8).max(MAX_WORDS).next_power_of_two();
    let lone = || LoneWord(AtomicU64::new(0));
    let ring = Arc::new(RingWords {
        words: bytemuck::allocation::zeroed_slice_box(count),
        published: lone(),
        consumed: lone(),
        dropped: lone(),
    });
    let sender = TapSender { ring: Arc::clone(&ring), end: 0, limit: count as u64, dropped: 0 };
    (sender, TapReceiver { ring, start: 0, end: 0 })
}

/// The worker's end of a ring.
pub struct TapSender {
    ring: Arc<RingWords>,
    /// Index of the next word to write.
    end: u64,
    /// Index before which the slots are known to be free.
    limit: u64,
    dropped: u64,
}

impl TapSender {
    /// Appends a reply, or counts the reply as dropped if there is no room.
    pub fn push(&mut self, reply: &TappedReply<'_>) {
        let octets = &reply.octets[..reply.octets.len().min(MAX_OCTETS)];
        let words = (FIXED + octets.len().div_ceil(8)) as u64;
        if self.end + words > self.limit && !self.has_room(words) {
            self.dropped += 1;
            self.ring.dropped.0.store(self.dropped, Ordering::Relaxed);
            return;
        }
        for word in fixed_words(reply, octets.len()) {
            self.put(word);
        }
        let (whole, rest) = octets.as_chunks::<8>();
        for chunk in whole {
            self.put(u64::from_le_bytes(*chunk));
        }
        if !rest.is_empty() {
            self.put(rest.iter().rev().fold(0, |word, octet| word << 8 | u64::from(*octet)));
        }
        self.ring.published.0.store(self.end, Ordering::Release);
    }

    fn put(&mut self, word: u64) {
        let slot = self.end as usize & (self.ring.words.len() - 1);
        self.ring.words[slot].store(word, Ordering::Relaxed);
        self.end += 1;
    }

    /// Reads how far the receiver has come, and reports whether there is room for this number of
    /// words.
    #[cold]
    fn has_room(&mut self, words: u64) -> bool {
        let consumed = self.ring.consumed.0.load(Ordering::Acquire);
        self.limit = consumed + self.ring.words.len() as u64;
        self.end + words <= self.limit
    }
}

fn fixed_words(reply: &TappedReply<'_>, len: usize) -> [u64; FIXED] {
    let (family, address) = match reply.client {
        IpAddr::V4(address) => (4, u128::from(u32::from(address))),
        IpAddr::V6(address) => (6, u128::from(address)),
    };
    let [low, high] = (len as u16).to_le_bytes();
    let [entrance_low, entrance_high] = reply.entrance.to_le_bytes();
    [
        u64::from_le_bytes([
            low,
            high,
            entrance_low,
            entrance_high,
            reply.transport,
            family,
            u8::from(reply.is_reply),
            0,
        ]),
        reply.time_us,
        address as u64,
        (address >> 64) as u64,
        u64::from(reply.delay_us) | u64::from(reply.revision) << 32,
        reply.device,
    ]
}

/// The receiver's end of a ring.
pub struct TapReceiver {
    ring: Arc<RingWords>,
    start: u64,
    /// Index before which records are known to be complete.
    end: u64,
}

impl TapReceiver {
    /// Moves the oldest record to `record`, or returns `false` if there is none.
    pub fn pop(&mut self, record: &mut TapRecord) -> bool {
        if self.start == self.end {
            self.end = self.ring.published.0.load(Ordering::Acquire);
            if self.start == self.end {
                return false;
            }
        }
        record.fixed = std::array::from_fn(|_| self.take());
        let len = record.len();
        record.octets.clear();
        for _ in 0..len.div_ceil(8) {
            record.octets.extend_from_slice(&self.take().to_le_bytes());
        }
        record.octets.truncate(len);
        self.ring.consumed.0.store(self.start, Ordering::Release);
        true
    }

    /// Returns the number of records dropped since the ring was created.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.ring.dropped.0.load(Ordering::Relaxed)
    }

    fn take(&mut self) -> u64 {
        let words = &self.ring.words;
        let word = words[self.start as usize & (words.len() - 1)].load(Ordering::Relaxed);
        self.start += 1;
        word
    }
}

/// A record taken from a ring.
#[derive(Default)]
pub struct TapRecord {
    fixed: [u64; FIXED],
    octets: Vec<u8>,
}

impl TapRecord {
    fn len(&self) -> usize {
        let [low, high, ..] = self.fixed[0].to_le_bytes();
        u16::from_le_bytes([low, high]).into()
    }

    /// Returns the reply as the worker pushed it.
    #[must_use]
    pub fn reply(&self) -> TappedReply<'_> {
        let [_, _, entrance_low, entrance_high, transport, family, is_reply, _] =
            self.fixed[0].to_le_bytes();
        let address = u128::from(self.fixed[2]) | u128::from(self.fixed[3]) << 64;
        let client = match family {
            4 => IpAddr::from((address as u32).to_be_bytes()),
            _ => IpAddr::V6(Ipv6Addr::from(address)),
        };
        TappedReply {
            time_us: self.fixed[1],
            delay_us: self.fixed[4] as u32,
            revision: (self.fixed[4] >> 32) as u32,
            client,
            device: self.fixed[5],
            entrance: u16::from_le_bytes([entrance_low, entrance_high]),
            transport,
            is_reply: is_reply != 0,
            octets: &self.octets,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn reply(octets: &[u8]) -> TappedReply<'_> {
        TappedReply {
            time_us: 1_795_377_600_000_001,
            delay_us: 41,
            revision: 7,
            client: [192, 0, 2, 7].into(),
            device: 9,
            entrance: 0x0102,
            transport: 1,
            is_reply: true,
            octets,
        }
    }

    #[test]
    fn replies_come_out_as_they_went_in() {
        let (mut sender, mut receiver) = ring(0);
        let mut record = TapRecord::default();
        let octets: Vec<u8> = (0..=255).cycle().take(MAX_OCTETS).collect();
        for len in [0, 1, 7, 8, 9, 500, 4097, MAX_OCTETS] {
            let mut one = reply(&octets[..len]);
            if len % 2 == 1 {
                one.client = "2001:db8::7".parse().unwrap();
                one.is_reply = false;
            }
            sender.push(&one);
            assert!(receiver.pop(&mut record));
            assert_eq!(record.reply(), one);
        }
        assert!(!receiver.pop(&mut record));
    }

    #[test]
    fn without_room_replies_are_dropped_and_counted() {
        let (mut sender, mut receiver) = ring(0);
        let octets = [7; 1000];
        (0..1000).for_each(|_| sender.push(&reply(&octets)));
        let (mut record, mut taken) = (TapRecord::default(), 0);
        while receiver.pop(&mut record) {
            assert_eq!(record.reply().octets, octets);
            taken += 1;
        }
        assert!(taken > 0 && receiver.dropped() > 0);
        assert_eq!(taken + receiver.dropped(), 1000);
        sender.push(&reply(&octets));
        assert!(receiver.pop(&mut record));
    }

    #[test]
    fn the_two_ends_work_on_different_threads() {
        let (mut sender, mut receiver) = ring(0);
        let worker = thread::spawn(move || {
            for number in 0..100_000_u32 {
                sender.push(&TappedReply { delay_us: number, ..reply(&number.to_be_bytes()) });
            }
        });
        let (mut record, mut taken, mut last) = (TapRecord::default(), 0, None);
        loop {
            let is_over = worker.is_finished();
            while receiver.pop(&mut record) {
                let reply = record.reply();
                assert_eq!(reply.octets, reply.delay_us.to_be_bytes());
                assert!(last < Some(reply.delay_us));
                last = Some(reply.delay_us);
                taken += 1;
            }
            if is_over {
                break;
            }
        }
        assert_eq!(taken + receiver.dropped(), 100_000);
    }
}
