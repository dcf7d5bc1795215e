use super::*;

const QUESTION: &[u8] = b"\x03www\x02ab\x00\x00\x01\x00\x01";
const KEY: PacketKey =
    PacketKey { profile: 7, flags: packet_flags::RD, question: question(QUESTION) };
const META: PacketMeta =
    PacketMeta { stored_at: 1000, valid_for: 300, epoch: 5, flags: 0, ede: None, note: 0 };
const HASH: u64 = 0x1234_5678_9abc_def0;

const fn question(octets: &[u8]) -> Question<'_> {
    Question::from_folded_unchecked(octets)
}

fn cache() -> PacketCache {
    PacketCache::new(64 << 10, 3600).unwrap()
}

/// Returns a response with one address record for each TTL.
fn response(question: &[u8], ttls: &[u32]) -> (Vec<u8>, Vec<u16>) {
    let mut bytes = vec![0, 0, 0x81, 0x80, 0, 1, 0, ttls.len() as u8, 0, 0, 0, 0];
    bytes.extend(question);
    let mut offsets = Vec::new();
    for ttl in ttls {
        bytes.extend([0xc0, 12, 0, 1, 0, 1]);
        offsets.push(bytes.len() as u16);
        bytes.extend(ttl.to_be_bytes());
        bytes.extend([0, 4, 192, 0, 2, 1]);
    }
    (bytes, offsets)
}

fn put(cache: &PacketCache, key: &PacketKey<'_>, ttls: &[u32], meta: PacketMeta) {
    let (bytes, offsets) = response(key.question.octets(), ttls);
    assert_eq!(cache.insert(HASH, key, &bytes, &offsets, &meta), Inserted::Stored);
}

fn ttls(message: &[u8], offsets: &[u16]) -> Vec<u32> {
    let field = |at: &u16| u32::from_be_bytes(*message[usize::from(*at)..].first_chunk().unwrap());
    offsets.iter().map(field).collect()
}

#[test]
fn a_hit_is_the_response_with_its_ttls_counted_down() {
    let cache = cache();
    let (bytes, offsets) = response(QUESTION, &[300, 400, 7]);
    put(
        &cache,
        &KEY,
        &[300, 400, 7],
        PacketMeta { ede: Some(15), note: 0x0123, flags: 0x82, ..META },
    );
    let mut out = [0xff; 512];
    let hit = PacketHit {
        len: bytes.len(),
        remaining_secs: 280,
        prefetch: false,
        flags: 0x82,
        ede: Some(15),
        note: 0x0123,
    };
    assert_eq!(cache.lookup(HASH, &KEY, 1020, 5, &mut out), PacketLookup::Hit(hit));
    assert_eq!(ttls(&out, &offsets), [280, 380, 0]);
    cache.lookup(HASH, &KEY, 1000, 5, &mut out);
    assert_eq!(out[..bytes.len()], bytes);
}

#[test]
fn ttls_never_grow_when_the_clock_steps_back() {
    let cache = cache();
    let (_, offsets) = response(QUESTION, &[300]);
    put(&cache, &KEY, &[300], META);
    let mut out = [0; 512];
    let PacketLookup::Hit(hit) = cache.lookup(HASH, &KEY, 10, 5, &mut out) else { panic!("a hit") };
    assert_eq!((hit.remaining_secs, ttls(&out, &offsets)), (300, vec![300]));
}

#[test]
fn every_part_of_the_key_counts_even_when_hashes_are_equal() {
    let cache = cache();
    put(&cache, &KEY, &[300], META);
    let mut out = [0; 512];
    let others = [
        PacketKey { profile: 8, ..KEY },
        PacketKey { flags: packet_flags::RD | packet_flags::DO, ..KEY },
        PacketKey { question: question(b"\x03www\x02ab\x00\x00\x1c\x00\x01"), ..KEY },
        PacketKey { question: question(b"\x03wwx\x02ab\x00\x00\x01\x00\x01"), ..KEY },
    ];
    for other in others {
        assert_eq!(cache.lookup(HASH, &other, 1000, 5, &mut out), PacketLookup::Miss, "{other:?}");
        put(&cache, &other, &[60], META);
    }
    for key in others.iter().chain([&KEY]) {
        assert!(
            matches!(cache.lookup(HASH, key, 1000, 5, &mut out), PacketLookup::Hit(_)),
            "{key:?}"
        );
    }
}

#[test]
fn an_entry_of_any_epoch_is_stale_within_the_window_if_its_owner_accepts_it() {
    let with = |window| PacketCache::new(1 << 20, window).unwrap();
    let stale_ok = PacketMeta { flags: packet_flags::STALE_OK, ..META };
    let age = |cache: &PacketCache, now, room: usize| {
        let mut out = [0; 512];
        let found =
            cache.lookup_stale(HASH, &KEY, now, &mut out[..room], |stored| stored.epoch == 5);
        found.map(|stale| (stale.stale_secs, ttls(&out, &response(QUESTION, &[300]).1)))
    };
    let cache = with(100);
    put(&cache, &KEY, &[300], stale_ok);
    assert_eq!(age(&cache, 1010, 512), Some((0, vec![30])));
    assert_eq!(age(&cache, 1399, 512), Some((99, vec![30])));
    assert_eq!(age(&cache, 1400, 512), None);
    assert_eq!(age(&cache, 1010, 20), None);
    put(&cache, &KEY, &[300], PacketMeta { epoch: 6, ..stale_ok });
    assert_eq!(age(&cache, 1010, 512), None);
    put(&cache, &KEY, &[300], META);
    assert_eq!(age(&cache, 1010, 512), None);
    let cache = with(0);
    put(&cache, &KEY, &[300], stale_ok);
    assert_eq!(age(&cache, 1010, 512), None);
}

#[test]
fn an_entry_of_another_epoch_is_no_hit() {
    let cache = cache();
    put(&cache, &KEY, &[300], PacketMeta { flags: packet_flags::STALE_OK, ..META });
    let mut out = [0; 512];
    for (now, epoch) in [(1000, 4), (1000, 6), (1400, 6)] {
        assert_eq!(cache.lookup(HASH, &KEY, now, epoch, &mut out), PacketLookup::Earlier);
    }
}

#[test]
fn an_entry_that_still_holds_moves_to_a_later_epoch_and_no_further() {
    let cache = cache();
    let (bytes, offsets) = response(QUESTION, &[300]);
    put(&cache, &KEY, &[300], PacketMeta { flags: 0b1010_0000, ede: Some(15), note: 7, ..META });
    let mut out = [0; 512];
    assert!(!cache.renew(HASH, &KEY, 6, &mut out, |_| false));
    assert!(!cache.renew(HASH, &KEY, 6, &mut out[..bytes.len()], |_| true), "no room");
    assert_eq!(cache.lookup(HASH, &KEY, 1000, 6, &mut out), PacketLookup::Earlier);
    let mut seen = None;
    let renewed = cache.renew(HASH, &KEY, 6, &mut out, |stored| {
        seen = Some((stored.epoch, stored.flags, stored.response.to_vec()));
        true
    });
    assert!(renewed);
    assert_eq!(seen, Some((5, 0b1010_0000, bytes.clone())));
    let hit = PacketHit {
        len: bytes.len(),
        remaining_secs: 200,
        prefetch: false,
        flags: 0b1010_0000,
        ede: Some(15),
        note: 7,
    };
    assert_eq!(cache.lookup(HASH, &KEY, 1100, 6, &mut out), PacketLookup::Hit(hit));
    assert_eq!(ttls(&out, &offsets), [200], "its age is what it was");
    for epoch in [5, 7] {
        assert_eq!(cache.lookup(HASH, &KEY, 1100, epoch, &mut out), PacketLookup::Earlier);
    }
    let other = PacketKey { profile: KEY.profile + 1, ..KEY };
    assert!(!cache.renew(HASH, &other, 7, &mut out, |_| true), "not in the cache");
}

#[test]
fn entries_that_no_longer_hold_are_not_shown() {
    let cache = cache();
    put(&cache, &KEY, &[300], META);
    let shown = |epoch| {
        let mut count = 0;
        let visited: Result<(), ()> = cache.try_visit(
            1000,
            |stored| stored.epoch >= epoch,
            |_, _, _| {
                count += 1;
                Ok(())
            },
        );
        visited.map(|()| count)
    };
    assert_eq!([5, 6].map(shown), [Ok(1), Ok(0)]);
}

#[test]
fn past_its_time_an_entry_is_stale_until_the_window_ends() {
    let cache = cache();
    let (bytes, offsets) = response(QUESTION, &[300, 12]);
    put(&cache, &KEY, &[300, 12], PacketMeta { flags: packet_flags::STALE_OK, ..META });
    let mut out = [0; 512];
    let stale = |stale_secs| {
        let flags = packet_flags::STALE_OK;
        PacketLookup::Stale(PacketStale { len: bytes.len(), stale_secs, flags, ede: None })
    };
    assert_eq!(cache.lookup(HASH, &KEY, 1300, 5, &mut out), stale(0));
    assert_eq!(ttls(&out, &offsets), [30, 12], "30 seconds, but never above the original");
    assert_eq!(cache.lookup(HASH, &KEY, 1300 + 3599, 5, &mut out), stale(3599));
    assert_eq!(cache.lookup(HASH, &KEY, 1300 + 3600, 5, &mut out), PacketLookup::Miss);
}

#[test]
fn a_stale_entry_has_no_ad() {
    let cache = cache();
    let (mut bytes, offsets) = response(QUESTION, &[300]);
    let with_ad = 0x81a0u16.to_be_bytes();
    bytes[2..4].copy_from_slice(&with_ad);
    let meta = PacketMeta { flags: packet_flags::STALE_OK, ..META };
    cache.insert(HASH, &KEY, &bytes, &offsets, &meta);
    let mut out = [0; 512];
    assert!(matches!(cache.lookup(HASH, &KEY, 1299, 5, &mut out), PacketLookup::Hit(_)));
    assert_eq!(out[2..4], with_ad);
    assert!(matches!(cache.lookup(HASH, &KEY, 1300, 5, &mut out), PacketLookup::Stale(_)));
    assert_eq!(out[2..4], 0x8180u16.to_be_bytes());
}

#[test]
fn what_must_not_be_served_stale_is_not() {
    let cache = cache();
    put(&cache, &KEY, &[300], META);
    assert_eq!(cache.lookup(HASH, &KEY, 1300, 5, &mut [0; 512]), PacketLookup::Miss);
}

#[test]
fn the_last_tenth_of_a_popular_entry_asks_for_a_prefetch() {
    let cache = cache();
    put(&cache, &KEY, &[300], META);
    let prefetch_at = |now| match cache.lookup(HASH, &KEY, now, 5, &mut [0; 512]) {
        PacketLookup::Hit(hit) => hit.prefetch,
        other => panic!("{other:?}"),
    };
    assert!(!prefetch_at(1299), "nobody had asked for it before");
    assert!(!prefetch_at(1270), "a tenth remains");
    assert!(prefetch_at(1271));
}

#[test]
fn a_short_buffer_gets_the_start_and_learns_the_length() {
    let cache = cache();
    let (bytes, _) = response(QUESTION, &[300; 20]);
    put(&cache, &KEY, &[300; 20], META);
    let mut out = [0; 100];
    let PacketLookup::Longer { needed } = cache.lookup(HASH, &KEY, 1000, 5, &mut out) else {
        panic!("too short")
    };
    assert_eq!(out[..], bytes[..100]);
    let mut out = vec![0; needed];
    assert!(
        matches!(cache.lookup(HASH, &KEY, 1000, 5, &mut out), PacketLookup::Hit(hit) if hit.len == bytes.len())
    );
}

#[test]
fn responses_that_do_not_fit_their_key_are_refused() {
    let cache = cache();
    let (bytes, offsets) = response(QUESTION, &[300]);
    let short = &bytes[..bytes.len() - 8];
    let other = PacketKey { question: question(b"\x03wwx\x02ab\x00\x00\x01\x00\x01"), ..KEY };
    for (key, response) in [(KEY, short), (other, &bytes), (KEY, &bytes[..10])] {
        assert_eq!(cache.insert(HASH, &key, response, &offsets, &META), Inserted::Refused);
    }
}

#[test]
fn flushing_a_name_takes_what_is_below_it_and_nothing_else() {
    let cache = cache();
    let questions: [&[u8]; 3] =
        [b"\x02ab\x00\x00\x01\x00\x01", QUESTION, b"\x05xx.ab\x00\x00\x01\x00\x01"];
    for octets in questions {
        put(&cache, &PacketKey { question: question(octets), ..KEY }, &[300], META);
    }
    assert_eq!(cache.flush(question(questions[0]).qname()), 2);
    let kept = PacketKey { question: question(questions[2]), ..KEY };
    assert!(matches!(cache.lookup(HASH, &kept, 1000, 5, &mut [0; 512]), PacketLookup::Hit(_)));
    assert_eq!((cache.flush(FoldedName::ROOT), cache.stats().entries), (1, 0));
}
