//! The cost of cache operations: median nanoseconds over rounds, on one thread, and bytes per
//! entry. Run with `cargo bench -p avocet-cache --bench operations`.

use std::{hint::black_box, io::Cursor, time::Instant};

use avocet_cache::{
    PacketCache, PacketKey, PacketLookup, PacketMeta, Provenance, Rank, ReadAt, ReceivedRrset,
    RrsetCache, RrsetKey, Security, SnapshotMoment, TtlBounds, load, save,
};
use avocet_wire::{FoldedName, Question};

const ROUNDS: usize = 31;
const PER_ROUND: u64 = 100_000;
const MILLION: u64 = 1_000_000;
const BOUNDS: TtlBounds = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3_600 };
const PROVENANCE: Provenance = Provenance {
    security: Security::Secure,
    unsupported: None,
    rank: Rank::AuthoritativeAnswer,
    asked_with_do: true,
    asked_with_cd: false,
};

fn mix(key: u64) -> u64 {
    let key = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns the question `NNNNNNNN.example.net` IN A: 25 octets, the mean of popular names.
fn question(key: u64) -> [u8; 25] {
    let mut bytes = *b"\x08........\x06sample\x03net\x00\x00\x01\x00\x01";
    for (place, byte) in bytes[1..9].iter_mut().enumerate() {
        *byte = b'a' + (key >> (4 * place) & 15) as u8;
    }
    bytes
}

/// Prints the nanoseconds per operation: the median of the rounds.
fn measure(name: &str, mut operation: impl FnMut(u64)) {
    let mut step = 0;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..PER_ROUND {
                operation(step);
                step += 1;
            }
            start.elapsed().as_nanos() as f64 / PER_ROUND as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("| {name} | {:.1} |", rounds[ROUNDS / 2]);
}

fn put_packet(cache: &PacketCache, number: u64) {
    let question = question(number);
    let key =
        PacketKey { profile: 1, flags: 4, question: Question::from_folded_unchecked(&question) };
    let mut response = [0u8; 12 + 25 + 16];
    response[12..37].copy_from_slice(&question);
    response[37..].copy_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4, 192, 0, 2, 1]);
    let meta = PacketMeta { stored_at: 0, valid_for: 300, epoch: 1, flags: 1, ede: None, note: 0 };
    cache.insert(mix(number), &key, &response, &[43], &meta);
}

fn ask_packet(cache: &PacketCache, number: u64, out: &mut [u8]) {
    let question = question(number);
    let key =
        PacketKey { profile: 1, flags: 4, question: Question::from_folded_unchecked(&question) };
    let found = cache.lookup(mix(number), &key, 10, 1, out);
    assert!(matches!(black_box(found), PacketLookup::Hit(_)) || number >= MILLION);
}

fn packets() {
    let cache = PacketCache::new(256 << 20, 3600).expect("a budget that is large enough");
    let before = cache.stats().bytes_used;
    (0..MILLION).for_each(|number| put_packet(&cache, number));
    let mut out = [0; 512];
    measure("packet: question and hash alone", |step| {
        black_box((question(step % 1000), mix(step)));
    });
    measure("packet: hit, 1,000 names of 1 M", |step| ask_packet(&cache, step % 1000, &mut out));
    measure("packet: hit, 1 M names at random", |step| {
        ask_packet(&cache, mix(step) % MILLION, &mut out)
    });
    measure("packet: miss", |step| ask_packet(&cache, MILLION + mix(step) % MILLION, &mut out));
    measure("packet: refresh of a name", |step| put_packet(&cache, mix(step) % MILLION));
    let stats = cache.stats();
    let grown = stats.bytes_used - before;
    eprintln!(
        "packets: {} entries, {:.1} bytes each in the rings",
        stats.entries,
        grown as f64 / stats.entries as f64
    );
    let small = PacketCache::new(16 << 20, 3600).expect("a budget that is large enough");
    measure("packet: new name, evicting", |step| put_packet(&small, step));
    let stats = small.stats();
    let each = stats.bytes_limit as f64 / stats.entries as f64;
    eprintln!("packets: a full cache takes {each:.1} bytes an entry, all memory counted");
}

/// Returns the owner in a question.
fn owner(question: &[u8; 25]) -> FoldedName<'_> {
    FoldedName::from_folded_unchecked(&question[..21])
}

fn put_rrset(cache: &RrsetCache, number: u64) {
    let question = question(number);
    let key = RrsetKey { owner: owner(&question), rtype: 1, class: 1 };
    let set = ReceivedRrset {
        provenance: PROVENANCE,
        ttl: 300,
        records: &[&[192, 0, 2, 1]],
        signatures: &[],
    };
    cache.insert(&key, &set, 0);
}

fn rrsets() {
    let cache =
        RrsetCache::new(256 << 20, 3600, BOUNDS, [5; 16]).expect("a budget that is large enough");
    (0..MILLION).for_each(|number| put_rrset(&cache, number));
    let mut buf = [0; 512];
    measure("RRset: hit, 1,000 names of 1 M", |step| {
        let question = question(step % 1000);
        let key = RrsetKey { owner: owner(&question), rtype: 1, class: 1 };
        assert!(
            black_box(cache.lookup(&key, ReadAt { now: 1, stale_window: 0 }, &mut buf)).is_some()
        );
    });
    let small =
        RrsetCache::new(16 << 20, 3600, BOUNDS, [5; 16]).expect("a budget that is large enough");
    measure("RRset: new name, evicting", |step| put_rrset(&small, step));
    let stats = small.stats();
    let each = stats.bytes_limit as f64 / stats.entries as f64;
    eprintln!("RRsets: a full cache takes {each:.1} bytes an entry, all memory counted");
}

/// Saves and loads a million entries through memory.
fn snapshots() {
    let packets = PacketCache::new(256 << 20, 3600).expect("a budget that is large enough");
    let rrsets =
        RrsetCache::new(1 << 20, 3600, BOUNDS, [5; 16]).expect("a budget that is large enough");
    (0..MILLION).for_each(|number| put_packet(&packets, number));
    let at = SnapshotMoment { wall_now: 1_800_000_000, now: 10, epoch: 1, policy: 0, sources: 0 };
    let mut bytes = Vec::with_capacity(256 << 20);
    let start = Instant::now();
    let saved =
        save(&mut bytes, &packets, &rrsets, &at, |_| true).expect("memory takes all writes");
    let saving = start.elapsed();
    let fresh = PacketCache::new(256 << 20, 3600).expect("a budget that is large enough");
    let start = Instant::now();
    let hash = |key: &PacketKey<'_>| {
        key.question.octets()[1..9].iter().fold(0, |sum, byte| mix(sum ^ u64::from(*byte)))
    };
    let loaded = load(&mut Cursor::new(&bytes), &fresh, &rrsets, &at, hash)
        .expect("what was saved is sound");
    eprintln!(
        "snapshot: {} entries, {} bytes, saved in {saving:?}; {} loaded in {:?}",
        saved.packets,
        bytes.len(),
        loaded.packets,
        start.elapsed()
    );
}

fn main() {
    println!("| operation | ns |\n|---|---|");
    packets();
    rrsets();
    snapshots();
}
