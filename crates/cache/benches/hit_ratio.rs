//! The hit ratio of the packet cache compared with LRU and SLRU of equal entry counts, on Zipf
//! traces with and without a flood of names that are requested only once. Requests of the flood do
//! not count as hits. Run with `cargo bench -p avocet-cache --bench hit_ratio`.

use std::collections::{BTreeMap, HashMap};

use avocet_cache::{PacketCache, PacketKey, PacketLookup, PacketMeta};
use avocet_wire::Question;

const NAMES: usize = 200_000;
const WARM_UP: usize = 1_000_000;
const REQUESTS: usize = 2_000_000;

fn mix(key: u64) -> u64 {
    let key = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns the requests, each with whether it belongs to the flood.
fn trace(exponent: f64, flood_percent: u64) -> Vec<(u64, bool)> {
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=NAMES)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    let request = |step: u64| {
        if mix(step ^ 0xf00d) % 100 < flood_percent {
            return (NAMES as u64 + step, true);
        }
        let point = mix(step) as f64 / u64::MAX as f64 * sum;
        (sums.partition_point(|below| *below < point) as u64, false)
    };
    (0..(WARM_UP + REQUESTS) as u64).map(request).collect()
}

/// A cache of names. The function returns whether the name was cached, and stores the name.
trait Cache {
    fn ask(&mut self, name: u64) -> bool;
}

/// Returns the percentage of hits among the requests outside the flood.
fn hit_ratio(cache: &mut impl Cache, trace: &[(u64, bool)]) -> f64 {
    let (mut hits, mut asked) = (0u64, 0u64);
    for (step, (name, is_flood)) in trace.iter().enumerate() {
        let hit = cache.ask(*name);
        if step >= WARM_UP && !is_flood {
            asked += 1;
            hits += u64::from(hit);
        }
    }
    100.0 * hits as f64 / asked as f64
}

struct Ours(PacketCache);

impl Cache for Ours {
    fn ask(&mut self, name: u64) -> bool {
        let mut question = *b"\x10................\x00\x00\x01\x00\x01";
        for (place, byte) in question[1..17].iter_mut().enumerate() {
            *byte = b'a' + (name >> (4 * place) & 15) as u8;
        }
        let key = Question::from_folded_unchecked(&question);
        let key = PacketKey { profile: 0, flags: 0, question: key };
        let mut out = [0; 128];
        if self.0.lookup(mix(name), &key, 0, 0, &mut out) != PacketLookup::Miss {
            return true;
        }
        let mut response = [0; 12 + 22 + 16];
        response[12..34].copy_from_slice(&question);
        let meta =
            PacketMeta { stored_at: 0, valid_for: 300, epoch: 0, flags: 0, ede: None, note: 0 };
        self.0.insert(mix(name), &key, &response, &[40], &meta);
        false
    }
}

/// An LRU cache with a fixed number of entries.
#[derive(Default)]
struct Lru {
    capacity: usize,
    clock: u64,
    used_at: HashMap<u64, u64>,
    by_age: BTreeMap<u64, u64>,
}

impl Lru {
    fn new(capacity: usize) -> Lru {
        Lru { capacity, ..Lru::default() }
    }

    fn remove(&mut self, name: u64) -> bool {
        let Some(at) = self.used_at.remove(&name) else {
            return false;
        };
        self.by_age.remove(&at);
        true
    }

    /// Inserts a name at the front and returns the name that had to be evicted.
    fn push(&mut self, name: u64) -> Option<u64> {
        self.clock += 1;
        self.used_at.insert(name, self.clock);
        self.by_age.insert(self.clock, name);
        if self.used_at.len() <= self.capacity {
            return None;
        }
        let (_, oldest) = self.by_age.pop_first()?;
        self.used_at.remove(&oldest);
        Some(oldest)
    }
}

impl Cache for Lru {
    fn ask(&mut self, name: u64) -> bool {
        let hit = self.remove(name);
        self.push(name);
        hit
    }
}

/// A segmented LRU cache: a fifth of the entries is on probation, four fifths are protected.
struct Slru {
    probation: Lru,
    protected: Lru,
}

impl Slru {
    fn new(capacity: usize) -> Slru {
        Slru { probation: Lru::new(capacity / 5), protected: Lru::new(capacity - capacity / 5) }
    }
}

impl Cache for Slru {
    fn ask(&mut self, name: u64) -> bool {
        let hit = self.protected.remove(name) || self.probation.remove(name);
        if !hit {
            self.probation.push(name);
        } else if let Some(demoted) = self.protected.push(name) {
            self.probation.push(demoted);
        }
        hit
    }
}

fn main() {
    println!(
        "| Zipf s | flood | budget KiB | entries | of all names | S3-FIFO (ours) | LRU | SLRU |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for exponent in [0.8, 1.0, 1.2] {
        for flood_percent in [0, 30] {
            let trace = trace(exponent, flood_percent);
            for budget in [192, 1024, 4096] {
                let cache =
                    PacketCache::new(budget << 10, 0).expect("a budget that is large enough");
                let mut ours = Ours(cache);
                let ratio = hit_ratio(&mut ours, &trace);
                let entries = ours.0.stats().entries as usize;
                let lru = hit_ratio(&mut Lru::new(entries), &trace);
                let slru = hit_ratio(&mut Slru::new(entries), &trace);
                let share = 100.0 * entries as f64 / NAMES as f64;
                println!(
                    "| {exponent} | {flood_percent} % | {budget} | {entries} | {share:.1} % | {ratio:.2} | {lru:.2} | {slru:.2} |"
                );
            }
        }
    }
}
