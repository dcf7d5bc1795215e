//! Checks that reading the caches does not allocate.

use avocet_cache::{
    Cached, FailureCache, FailureKey, PacketCache, PacketKey, PacketLookup, PacketMeta, Provenance,
    Rank, ReadAt, ReceivedRrset, RrsetCache, RrsetKey, Security, TtlBounds,
};
use avocet_testkit::allocations::{Allocations, Counting};
use avocet_wire::Question;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts the allocations of `operation`.
fn allocations(operation: impl FnOnce()) -> u64 {
    Allocations::of(operation).count
}

const QUESTION: Question<'_> =
    Question::from_folded_unchecked(b"\x03www\x02ab\x00\x00\x01\x00\x01");

#[test]
fn hits_and_misses_of_the_packet_cache() {
    let cache = PacketCache::new(64 << 10, 100).unwrap();
    let key = PacketKey { profile: 0, flags: 0, question: QUESTION };
    let mut response = [0; 40];
    let question = QUESTION.octets();
    response[12..12 + question.len()].copy_from_slice(question);
    let meta = PacketMeta { stored_at: 0, valid_for: 60, epoch: 0, flags: 1, ede: None, note: 0 };
    assert_eq!(
        allocations(|| drop(std::hint::black_box(Box::new(1)))),
        1,
        "what is allocated is counted"
    );
    let count = allocations(|| {
        cache.insert(9, &key, &response, &[30], &meta);
    });
    assert_eq!(count, 0, "a small answer is stored without");
    let mut out = [0; 512];
    let count = allocations(|| {
        assert!(matches!(cache.lookup(9, &key, 1, 0, &mut out), PacketLookup::Hit(_)));
        assert!(matches!(cache.lookup(9, &key, 70, 0, &mut out), PacketLookup::Stale(_)));
        assert_eq!(cache.lookup(8, &key, 1, 0, &mut out), PacketLookup::Miss);
    });
    assert_eq!(count, 0);
}

#[test]
fn hits_and_misses_of_the_rrset_and_the_failure_cache() {
    let bounds = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3_600 };
    let cache = RrsetCache::new(64 << 10, 100, bounds, [1; 16]).unwrap();
    let failures = FailureCache::new(64 << 10, [1; 16]).unwrap();
    let provenance = Provenance {
        security: Security::Unchecked,
        unsupported: None,
        rank: Rank::Additional,
        asked_with_do: false,
        asked_with_cd: false,
    };
    let key = RrsetKey { owner: QUESTION.qname(), rtype: 1, class: 1 };
    cache.insert(
        &key,
        &ReceivedRrset { provenance, ttl: 60, records: &[&[1; 4]], signatures: &[b"s"] },
        0,
    );
    failures.record(&FailureKey { question: QUESTION, checking_disabled: false }, 22, 0);
    let mut buf = [0; 512];
    let at = ReadAt { now: 1, stale_window: 0 };
    let count = allocations(|| {
        let Some(Cached::Rrset(view)) = cache.lookup(&key, at, &mut buf) else { panic!("a set") };
        assert_eq!(view.records().chain(view.signatures()).count(), 2);
        assert!(cache.covering_nxdomain(key.owner, 1, at, &mut buf).is_none());
        assert!(
            failures
                .lookup(&FailureKey { question: QUESTION, checking_disabled: false }, 1)
                .is_some()
                && failures
                    .lookup(&FailureKey { question: QUESTION, checking_disabled: true }, 1)
                    .is_none()
        );
    });
    assert_eq!(count, 0);
}
