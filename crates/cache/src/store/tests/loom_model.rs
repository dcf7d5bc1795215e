//! A loom model of the slot protocol with one to three preemptions: a reader of a shard whose
//! writer overwrites or moves the entry being read. Run with `RUSTFLAGS="--cfg loom" cargo test -p
//! avocet-cache --release loom`.

use loom::{sync::Arc, thread};

use crate::store::{
    entry::{EntryParts, Meta},
    shard::{Geometry, Shard},
};

/// A shard with room for one entry of two payload words in each ring.
const TINY: Geometry = Geometry { buckets: 1, ghost_words: 1, small_words: 10, main_words: 5 };

const META: Meta = Meta { stored_at: 0, valid_for: 9, epoch: 0, user: 0 };

fn put(shard: &Shard, key: u8, version: u8) {
    let payload = [key, version, version, version, version, version, version, version];
    let entry = EntryParts { meta: META, parts: [&payload, &payload] };
    shard.insert(u64::from(key), &entry, |_, payload| payload.first() == Some(&key), |_| true);
}

/// Checks that a read is a miss or one consistent version of the key.
fn check(shard: &Shard, key: u8) {
    let mut out = [0; 16];
    if shard.read(u64::from(key), &mut out, |_, payload| payload.first() == Some(&key)).is_some() {
        let version = out[1];
        assert_eq!(out[8], key);
        assert!(out[1..8].iter().chain(&out[9..]).all(|byte| *byte == version), "torn: {out:?}");
    }
}

fn check_all(write: impl Fn(&Shard) + Send + Sync + Copy + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let shard = Arc::new(Shard::several(1, TINY, 0).into_vec().remove(0));
        put(&shard, 1, 1);
        let reader = thread::spawn({
            let shard = Arc::clone(&shard);
            move || check(&shard, 1)
        });
        write(&shard);
        reader.join().unwrap();
    });
}

#[test]
fn loom_a_rewrite_in_place_is_not_seen_half_done() {
    check_all(|shard| put(shard, 1, 2));
}

#[test]
fn loom_words_taken_by_other_keys_are_not_seen() {
    check_all(|shard| {
        put(shard, 2, 3);
        put(shard, 3, 4);
    });
}

#[test]
fn loom_an_entry_that_goes_to_main_is_read_whole_or_not_at_all() {
    check_all(|shard| {
        check(shard, 1);
        put(shard, 2, 3);
        put(shard, 3, 4);
        put(shard, 1, 5);
    });
}

/// A shard whose small ring holds two entries of five payload words. Its main ring holds one such
/// entry after an entry of a single word.
const OVERLAPPING: Geometry =
    Geometry { buckets: 1, ghost_words: 1, small_words: 16, main_words: 13 };

/// Stores `count` payload words, each with the key and the index of the word.
fn put_numbered(shard: &Shard, key: u8, count: u8) {
    let payload: Vec<u8> = (0..count).flat_map(|number| [key, number, 0, 0, 0, 0, 0, 0]).collect();
    let entry = EntryParts { meta: META, parts: [&payload, &[]] };
    shard.insert(u64::from(key), &entry, |_, payload| payload.first() == Some(&key), |_| true);
}

/// Returns whether the entry was found, and checks that each word is in its place.
fn check_numbered(shard: &Shard, key: u8) -> bool {
    let mut out = [0; 40];
    let found = shard.read(u64::from(key), &mut out, |_, payload| payload.first() == Some(&key));
    for (number, word) in out.as_chunks::<8>().0.iter().enumerate().filter(|_| found.is_some()) {
        assert_eq!(word[..2], [key, number as u8], "torn: {out:?}");
    }
    found.is_some()
}

#[test]
fn loom_an_entry_moved_onto_its_own_words_is_not_seen_half_done() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(1);
    model.max_branches = 10_000;
    // With this number of relaxed loads, there are too many outcomes to explore them all.
    model.max_permutations = Some(50_000);
    model.check(|| {
        let shard = Arc::new(Shard::several(1, OVERLAPPING, 0).into_vec().remove(0));
        // Keys 1 and 2 move on to the main ring. Keys 2 and 3 have been read, so key 5 sends key 3
        // to the main ring. This evicts key 1 and moves key 2 four words down to the place of key
        // 1.
        for (key, count) in [(1, 1), (2, 5), (3, 5), (4, 5)] {
            put_numbered(&shard, key, count);
        }
        assert!(check_numbered(&shard, 2) && check_numbered(&shard, 3));
        let reader = thread::spawn({
            let shard = Arc::clone(&shard);
            move || check_numbered(&shard, 2)
        });
        put_numbered(&shard, 5, 5);
        reader.join().unwrap();
    });
}
