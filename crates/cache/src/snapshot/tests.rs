use std::io::Cursor;

use avocet_wire::{FoldedName, Question};

use super::*;
use crate::{
    packet::{PacketLookup, PacketMeta, packet_flags},
    rrset::{
        Cached, Freshness, Provenance, Rank, ReadAt, ReceivedRrset, RrsetKey, Security, TtlBounds,
    },
};

const SAVED: SnapshotMoment =
    SnapshotMoment { wall_now: 1_700_000_000, now: 5_000, epoch: 9, policy: 42, sources: 6 };
const BOUNDS: TtlBounds = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3_600 };
const PROVENANCE: Provenance = Provenance {
    security: Security::Secure,
    unsupported: None,
    rank: Rank::AuthoritativeAnswer,
    asked_with_do: true,
    asked_with_cd: false,
};

struct Caches {
    packets: PacketCache,
    rrsets: RrsetCache,
}

impl Caches {
    fn empty() -> Caches {
        let packets = PacketCache::new(64 << 10, 100).unwrap();
        Caches { packets, rrsets: RrsetCache::new(64 << 10, 100, BOUNDS, [1; 16]).unwrap() }
    }

    /// Returns three entries in each cache, stored 60 seconds before the snapshot and valid for
    /// 100, 200 and 300 seconds.
    fn filled() -> Caches {
        let caches = Caches::empty();
        for number in 1..=3 {
            caches.put_packet(number, SAVED.epoch);
            let records: [&[u8]; 1] = [&[number; 4]];
            let ttl = u32::from(number) * 100;
            let set = ReceivedRrset {
                provenance: PROVENANCE,
                ttl,
                records: &records,
                signatures: &[b"signature"],
            };
            caches.rrsets.insert(&key_of(&owner(number)), &set, SAVED.now - 60);
        }
        caches
    }

    fn put_packet(&self, number: u8, epoch: u32) {
        let question = question(number);
        let mut response = vec![0; 12];
        response.extend(&question);
        response.extend((u32::from(number) * 100).to_be_bytes());
        let offset = response.len() as u16 - 4;
        let meta = PacketMeta {
            stored_at: SAVED.now - 60,
            valid_for: u32::from(number) * 100,
            epoch,
            flags: packet_flags::STALE_OK,
            ede: Some(29),
            note: 4,
        };
        let key = PacketKey {
            profile: 3,
            flags: packet_flags::DO,
            question: Question::new(&question).unwrap(),
        };
        self.packets.insert(hash(&key), &key, &response, &[offset], &meta);
    }

    /// Returns the remaining seconds of the response (if negative, the seconds since its end), and
    /// the TTL in the message.
    fn packet(&self, number: u8, now: u32, epoch: u32) -> Option<(i64, u32)> {
        let question = question(number);
        let key = PacketKey {
            profile: 3,
            flags: packet_flags::DO,
            question: Question::new(&question).unwrap(),
        };
        let mut out = [0; 128];
        let (remaining, len) = match self.packets.lookup(hash(&key), &key, now, epoch, &mut out) {
            PacketLookup::Hit(hit) => (i64::from(hit.remaining_secs), hit.len),
            PacketLookup::Stale(stale) => (-i64::from(stale.stale_secs), stale.len),
            _ => return None,
        };
        Some((remaining, u32::from_be_bytes(*out[..len].last_chunk().unwrap())))
    }

    fn rrset(&self, number: u8, now: u32) -> Option<i64> {
        let mut buf = [0; 128];
        let at = ReadAt { now, stale_window: 100 };
        let Cached::Rrset(view) = self.rrsets.lookup(&key_of(&owner(number)), at, &mut buf)? else {
            return None;
        };
        assert_eq!(view.records().next(), Some(&[number; 4][..]));
        assert_eq!(
            (view.signatures().next(), view.provenance),
            (Some(&b"signature"[..]), PROVENANCE)
        );
        Some(match view.freshness {
            Freshness::Fresh { remaining_secs } => i64::from(remaining_secs),
            Freshness::Stale { since_secs } => -i64::from(since_secs),
        })
    }
}

fn owner(number: u8) -> Vec<u8> {
    vec![1, b'a' + number, 2, b'a', b'b', 0]
}

fn question(number: u8) -> Vec<u8> {
    [&owner(number)[..], &[0, 1, 0, 1]].concat()
}

fn key_of(owner: &[u8]) -> RrsetKey<'_> {
    RrsetKey { owner: FoldedName::new(owner).unwrap(), rtype: 1, class: 1 }
}

fn hash(key: &PacketKey<'_>) -> u64 {
    key.question.octets().iter().fold(u64::from(key.profile), |sum, byte| {
        sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(*byte)
    })
}

fn saved() -> Vec<u8> {
    let caches = Caches::filled();
    let mut bytes = Vec::new();
    let counts = save(&mut bytes, &caches.packets, &caches.rrsets, &SAVED, |_| true).unwrap();
    assert_eq!(counts, SnapshotCounts { packets: 3, rrsets: 3, dropped: 0 });
    bytes
}

fn load_at(bytes: &[u8], at: &SnapshotMoment) -> (Caches, Result<SnapshotCounts, SnapshotError>) {
    let caches = Caches::empty();
    let result = load(&mut Cursor::new(bytes), &caches.packets, &caches.rrsets, at, hash);
    (caches, result)
}

#[test]
fn entries_come_back_as_old_as_the_time_between_makes_them() {
    // The monotonic clock has started again, and its time is lower than the ages of the entries.
    let at =
        SnapshotMoment { wall_now: SAVED.wall_now + 30, now: 7, epoch: 1, policy: 42, sources: 6 };
    let (caches, counts) = load_at(&saved(), &at);
    assert_eq!(counts.unwrap(), SnapshotCounts { packets: 3, rrsets: 3, dropped: 0 });
    for (number, remaining) in [(1, 10), (2, 110), (3, 210)] {
        assert_eq!(caches.packet(number, 7, 1), Some((remaining, remaining as u32)));
        assert_eq!(caches.rrset(number, 7), Some(remaining));
    }
    assert_eq!(caches.packet(2, 17, 1), Some((100, 100)));
}

#[test]
fn records_of_other_servers_are_left_out() {
    let (caches, counts) = load_at(&saved(), &SnapshotMoment { sources: 7, ..SAVED });
    assert_eq!(counts.unwrap(), SnapshotCounts { packets: 3, rrsets: 0, dropped: 3 });
    assert_eq!(caches.rrset(1, SAVED.now), None);
}

#[test]
fn what_expired_meanwhile_is_stale_or_gone() {
    let at = SnapshotMoment { wall_now: SAVED.wall_now + 190, ..SAVED };
    let (caches, counts) = load_at(&saved(), &at);
    assert_eq!(counts.unwrap(), SnapshotCounts { packets: 2, rrsets: 2, dropped: 2 });
    assert_eq!((caches.packet(1, at.now, 9), caches.rrset(1, at.now)), (None, None));
    assert_eq!(
        (caches.packet(2, at.now, 9), caches.rrset(2, at.now)),
        (Some((-50, 30)), Some(-50))
    );
    assert_eq!((caches.packet(3, at.now, 9), caches.rrset(3, at.now)), (Some((50, 50)), Some(50)));
}

#[test]
fn nothing_gets_younger_when_the_wall_clock_went_back() {
    for wall_now in [SAVED.wall_now - 100_000, 0] {
        let (caches, _) = load_at(&saved(), &SnapshotMoment { wall_now, ..SAVED });
        assert_eq!(caches.packet(2, SAVED.now, 9), Some((140, 140)));
        assert_eq!(caches.rrset(2, SAVED.now), Some(140));
    }
}

#[test]
fn a_wall_clock_far_ahead_drops_all() {
    for wall_now in [SAVED.wall_now + 1_000_000, u64::MAX] {
        let (_, counts) = load_at(&saved(), &SnapshotMoment { wall_now, ..SAVED });
        assert_eq!(counts.unwrap(), SnapshotCounts { packets: 0, rrsets: 0, dropped: 6 });
    }
}

#[test]
fn packets_of_another_policy_are_not_loaded() {
    let (caches, counts) = load_at(&saved(), &SnapshotMoment { policy: 43, ..SAVED });
    assert_eq!(counts.unwrap(), SnapshotCounts { packets: 0, rrsets: 3, dropped: 3 });
    assert_eq!(caches.packet(2, SAVED.now, 9), None);
}

#[test]
fn packets_that_no_longer_hold_are_not_saved() {
    let caches = Caches::filled();
    caches.put_packet(4, SAVED.epoch - 1);
    let holds = |stored: &StoredPacket<'_>| stored.epoch == SAVED.epoch;
    let counts = save(&mut Vec::new(), &caches.packets, &caches.rrsets, &SAVED, holds).unwrap();
    assert_eq!(counts.packets, 3);
}

#[test]
fn every_flipped_bit_is_refused_and_nothing_is_taken() {
    let good = saved();
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (caches, result) = load_at(&bytes, &SAVED);
        assert!(result.is_err(), "bit {bit}");
        assert_eq!((caches.packets.stats().inserts, caches.rrsets.stats().inserts), (0, 0));
    }
}

#[test]
fn every_truncation_is_refused_and_nothing_is_taken() {
    let good = saved();
    for length in 0..good.len() {
        let (caches, result) = load_at(&good[..length], &SAVED);
        assert!(matches!(result, Err(SnapshotError::Truncated)), "{length} bytes: {result:?}");
        assert_eq!((caches.packets.stats().inserts, caches.rrsets.stats().inserts), (0, 0));
    }
}

#[test]
fn errors_name_what_is_wrong() {
    let check = |change: &dyn Fn(&mut Vec<u8>), expected: &str| {
        let mut bytes = saved();
        change(&mut bytes);
        assert_eq!(load_at(&bytes, &SAVED).1.unwrap_err().to_string(), expected);
    };
    check(&|bytes| bytes[0] = b'X', "not a cache snapshot: it does not start with AVOCACHE");
    check(&|bytes| bytes[8] = 1, "the cache snapshot has version 1, but this server reads 3");
    check(&|bytes| bytes.truncate(50), "the cache snapshot is truncated");
    check(&|bytes| bytes.push(0), "the cache snapshot is damaged: bytes after its end");
    check(&|bytes| bytes[36] = 7, "the cache snapshot is damaged: an entry of kind 7");
    check(&|bytes| bytes[68] ^= 1, "the cache snapshot is damaged: its checksum is wrong");
    let too_long = "the cache snapshot is damaged: an entry of 4294967295 bytes, at most 73728";
    check(&|bytes| bytes[37..41].fill(0xff), too_long);
}

#[test]
fn payloads_of_a_wrong_shape_under_a_right_checksum_are_dropped() {
    let meta = Meta { stored_at: SAVED.now, valid_for: 60, epoch: 9, user: 8191 };
    for kind in [PACKET, RRSET] {
        for payload in [&b""[..], b"\x05ab", &[0; 12], &[0; 30], b"\x00\x00\x01", &[0x3f; 300]] {
            let mut bytes = Vec::new();
            let mut writer = Summed { inner: &mut bytes, sum: crc32fast::Hasher::new() };
            writer.put(MAGIC).unwrap();
            writer.put(&VERSION.to_le_bytes()).unwrap();
            writer
                .put(&[SAVED.wall_now, SAVED.policy, SAVED.sources].map(u64::to_le_bytes).concat())
                .unwrap();
            writer.put_entry(kind, &meta, payload, &SAVED).unwrap();
            let counts = [u64::from(kind == PACKET), u64::from(kind == RRSET)];
            writer.put(&[END]).unwrap();
            writer.put(&counts.map(u64::to_le_bytes).concat()).unwrap();
            let sum = writer.sum.finalize();
            bytes.extend(sum.to_le_bytes());
            let (caches, counts) = load_at(&bytes, &SAVED);
            let taken = counts.unwrap();
            assert_eq!(taken.packets, 0);
            assert_eq!(
                taken.rrsets,
                u64::from(kind == RRSET && payload.first() == Some(&0) && payload.len() >= 5)
            );
            caches.rrsets.flush(FoldedName::new(b"\x00").unwrap());
        }
    }
}
