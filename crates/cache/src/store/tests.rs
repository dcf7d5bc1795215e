//! Tests of the store against a plain map, with threads and under attack, and of its slot protocol
//! with loom.

#[cfg(loom)]
mod loom_model;

use std::collections::HashMap;

use super::*;

/// A reproducible pseudo-random generator.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash_of(self.0)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Hashes a key with the last step of splitmix64.
pub(super) fn hash_of(key: u64) -> u64 {
    let mixed = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn store(bytes: usize) -> Store {
    Store::new(StoreConfig { bytes, mean_entry_bytes: 96, keep_secs: 10 }).unwrap()
}

fn meta(now: u32) -> Meta {
    Meta { stored_at: now, valid_for: 1_000_000, epoch: 0, user: 0 }
}

fn is_key(key: u64) -> impl Fn(&Meta, &[u8]) -> bool {
    move |_, payload| payload.get(..8) == Some(&key.to_be_bytes())
}

fn put(store: &Store, hash: u64, key: u64, value: &[u8]) -> Inserted {
    let key_bytes = key.to_be_bytes();
    let entry = EntryParts { meta: meta(0), parts: [&key_bytes, value] };
    store.insert(hash, &entry, is_key(key), |_| true)
}

fn read(store: &Store, hash: u64, key: u64) -> Option<Vec<u8>> {
    let mut out = vec![0; MAX_PAYLOAD_BYTES];
    let found = store.read(hash, &mut out, is_key(key))?;
    Some(out[8..found.len].to_vec())
}

#[test]
fn budgets_too_small_are_refused_with_the_least_that_would_do() {
    let config = StoreConfig { bytes: MIN_BUDGET_BYTES - 1, mean_entry_bytes: 96, keep_secs: 0 };
    let error = Store::new(config).err().unwrap();
    assert_eq!(error.to_string(), "a cache of 65535 bytes is too small: give it at least 65536");
}

#[test]
fn memory_is_never_above_the_budget() {
    for bytes in [64 << 10, 100_001, 1 << 20, 5_000_003, 9 << 20, 300 << 20] {
        for mean_entry_bytes in [56, 72, 96] {
            let store = Store::new(StoreConfig { bytes, mean_entry_bytes, keep_secs: 0 }).unwrap();
            let allocated: usize = store.shards.iter().map(|shard| shard.geometry.bytes()).sum();
            assert!(allocated + size_of::<Store>() <= bytes);
            assert!(allocated > bytes / 100 * 99, "{allocated} of {bytes} are put to use");
        }
    }
}

/// Checks that a read returns the last payload stored for the key, or nothing.
fn check_against_map(bytes: usize, keys: u64, longest: u64, hash: impl Fn(u64) -> u64) {
    let store = store(bytes);
    let mut map: HashMap<u64, Vec<u8>> = HashMap::new();
    let mut random = Random(bytes as u64 ^ keys);
    let mut found = 0;
    for step in 0..60_000u64 {
        let key = random.below(keys).min(random.below(keys));
        match random.below(10) {
            0..4 => {
                let value = vec![step as u8; random.below(longest) as usize];
                match put(&store, hash(key), key, &value) {
                    Inserted::Stored => drop(map.insert(key, value)),
                    Inserted::Refused => drop(map.remove(&key)),
                    Inserted::Kept => panic!("nothing was to be kept"),
                }
            }
            4 => {
                store.remove(hash(key), is_key(key));
                map.remove(&key);
            }
            _ => {
                if let Some(value) = read(&store, hash(key), key) {
                    assert_eq!(Some(&value), map.get(&key), "key {key} at step {step}");
                    found += 1;
                }
            }
        }
        if step % 1000 == 0 {
            let stats = store.stats();
            assert!(stats.bytes_used <= stats.bytes_limit && stats.entries <= map.len() as u64);
        }
    }
    assert!(found > 1000, "only {found} look-ups found anything");
    let mut entries = 0;
    let seen = store.try_for_each(|_, payload| {
        let (key, value) = payload.split_first_chunk().unwrap();
        entries += 1;
        if map.get(&u64::from_be_bytes(*key)).map(Vec::as_slice) == Some(value) {
            Ok(())
        } else {
            Err(())
        }
    });
    assert_eq!((seen, entries), (Ok(()), store.stats().entries));
}

#[test]
fn agrees_with_a_map_while_evicting() {
    check_against_map(64 << 10, 2_000, 200, hash_of);
    check_against_map(64 << 10, 300, 3_000, hash_of);
    check_against_map(10 << 20, 3_000, 20_000, hash_of);
}

#[test]
fn agrees_with_a_map_when_it_never_evicts() {
    check_against_map(1 << 20, 500, 100, hash_of);
}

#[test]
fn agrees_with_a_map_when_hashes_collide() {
    check_against_map(64 << 10, 40, 50, |_| 0);
    check_against_map(64 << 10, 400, 50, |key| hash_of(key) & 0xffff_0000_0000_0003);
}

#[test]
fn a_cache_that_is_not_full_forgets_nothing() {
    let store = store(1 << 20);
    for key in 0..8_000u64 {
        put(&store, hash_of(key), key, &[1; 36]);
    }
    let kept = (0..8_000).filter(|key| read(&store, hash_of(*key), *key).is_some()).count();
    assert!(kept >= 7_990, "{kept} of 8000 that take 70 % of the memory");
}

#[test]
fn outlived_entries_give_their_room_to_new_ones() {
    let store = store(256 << 10);
    let insert = |key: u64, now: u32| {
        let entry = EntryParts {
            meta: Meta { valid_for: 60, ..meta(now) },
            parts: [&key.to_be_bytes(), &[0; 60]],
        };
        store.insert(hash_of(key), &entry, is_key(key), |_| true);
    };
    (0..10_000).for_each(|key| insert(key, 0));
    (10_000..11_500).for_each(|key| insert(key, 1_000));
    let kept = (10_000..11_500).filter(|key| read(&store, hash_of(*key), *key).is_some()).count();
    assert!(kept > 1_450, "{kept} of 1500 new entries are there");
    assert!(store.stats().outlived > 0);
}

#[test]
fn refreshing_an_entry_takes_no_new_room() {
    let store = store(64 << 10);
    put(&store, hash_of(1), 1, &[1; 40]);
    let used = store.stats().bytes_used;
    for value in 0..20 {
        put(&store, hash_of(1), 1, &[value; 40]);
        assert_eq!(read(&store, hash_of(1), 1), Some(vec![value; 40]));
    }
    assert_eq!(store.stats().bytes_used, used);
}

#[test]
fn what_is_too_long_is_refused_and_takes_the_old_value_along() {
    let store = store(64 << 10);
    assert_eq!(put(&store, hash_of(1), 1, &[1; 40]), Inserted::Stored);
    assert_eq!(put(&store, hash_of(1), 1, &[1; 60_000]), Inserted::Refused);
    assert_eq!(read(&store, hash_of(1), 1), None);
    assert_eq!(store.stats().refused, 1);
}

#[test]
fn large_budgets_take_a_message_of_64_kib() {
    let store = store(64 << 20);
    assert_eq!(put(&store, hash_of(1), 1, &[5; 65_535]), Inserted::Stored);
    assert_eq!(read(&store, hash_of(1), 1), Some(vec![5; 65_535]));
    assert_eq!(put(&store, hash_of(1), 1, &[5; MAX_PAYLOAD_BYTES]), Inserted::Refused);
}

#[test]
fn retain_removes_what_is_declined() {
    let store = store(1 << 20);
    for key in 0..1000u64 {
        put(&store, hash_of(key), key, b"value");
    }
    let removed = store.retain(|_, payload| payload[7] % 2 == 0);
    assert_eq!((removed, store.stats().entries), (500, 500));
    assert!((0..1000).all(|key| read(&store, hash_of(key), key).is_some() == (key % 2 == 0)));
}

/// Returns the hit rate of popular keys, in percent, while an attacker stores ten sets of 64 kB per
/// step.
fn popular_hit_rate(store: &Store, attacked: bool) -> f64 {
    const POPULAR: u64 = 10_000;
    let mut random = Random(3);
    let (mut hits, mut asked) = (0u64, 0u64);
    for step in 0..600u64 {
        for _ in 0..500 {
            let key = random.below(POPULAR).min(random.below(POPULAR));
            let hit = read(store, hash_of(key), key).is_some();
            if !hit {
                put(store, hash_of(key), key, &[7; 60]);
            }
            if step >= 100 {
                asked += 1;
                hits += u64::from(hit);
            }
        }
        if attacked {
            for set in 0..10 {
                let key = 1_000_000 + step * 10 + set;
                put(store, hash_of(key), key, &[9; 64_000]);
            }
        }
    }
    100.0 * hits as f64 / asked as f64
}

#[test]
fn floods_of_huge_sets_cost_popular_names_less_than_two_points() {
    let calm = popular_hit_rate(&store(16 << 20), false);
    let store = store(16 << 20);
    let attacked = popular_hit_rate(&store, true);
    let stats = store.stats();
    assert!(calm - attacked < 2.0, "hit rate {calm:.2} % calm, {attacked:.2} % attacked");
    assert!(stats.bytes_used <= stats.bytes_limit);
    assert!(stats.evicted_unvisited > 4_000, "the attack did fill the cache");
}

#[test]
fn a_million_keys_of_one_bucket_cost_evictions_but_no_search() {
    let store = store(8 << 20);
    let crafted = |key: u64| (hash_of(key) << 48) | ((hash_of(key) & 0x3fff) << 32) | 77;
    for key in 0..1_000_000 {
        put(&store, crafted(key), key, &[1; 20]);
    }
    let stats = store.stats();
    assert!(stats.entries <= 32, "two shards of two buckets");
    assert!(stats.evicted_bucket > 990_000);
    assert!(stats.walked <= 2 * stats.inserts, "{} ring entries looked at", stats.walked);
}

#[test]
fn making_room_walks_few_entries_an_insertion() {
    let store = store(1 << 20);
    let mut random = Random(9);
    for key in 0..300_000u64 {
        put(&store, hash_of(key), key, &[1; 40]);
        // Most entries have been read, which is the worst case for moving entries to the head.
        for _ in 0..8 {
            let recent = key - random.below(9_000).min(key);
            read(&store, hash_of(recent), recent);
        }
    }
    let stats = store.stats();
    assert!(stats.walked < 6 * stats.inserts, "{} walked for {}", stats.walked, stats.inserts);
}

#[test]
fn threads_never_see_a_torn_or_a_foreign_value() {
    let store = store(64 << 10);
    let value_of = |key: u64, version: u64| {
        let word = hash_of(key ^ (version << 32)).to_be_bytes();
        let mut value = version.to_be_bytes().to_vec();
        value.extend(word.repeat(1 + (key % 13) as usize));
        value
    };
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let store = &store;
            scope.spawn(move || {
                let mut random = Random(thread);
                for version in 0..60_000 {
                    let key = random.below(700);
                    put(store, hash_of(key), key, &value_of(key, version));
                }
            });
        }
        for thread in 10..12u64 {
            let store = &store;
            scope.spawn(move || {
                let mut random = Random(thread);
                let mut out = vec![0; 512];
                for _ in 0..300_000 {
                    let key = random.below(700);
                    if let Some(found) = store.read(hash_of(key), &mut out, is_key(key)) {
                        let value = &out[8..found.len];
                        let version = u64::from_be_bytes(*value.first_chunk().unwrap());
                        assert_eq!(value, value_of(key, version), "key {key} is torn");
                    }
                }
            });
        }
    });
    assert!(store.stats().entries > 0);
}
