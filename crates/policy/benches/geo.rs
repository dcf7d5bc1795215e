//! A database of half a million networks: time to read it, memory in use, and look-ups compared
//! with the format's reference library. Run with `cargo bench -p avocet-policy --bench geo`.

use std::hint::black_box;
use std::net::IpAddr;
use std::time::Instant;

use avocet_policy::geo::Countries;
use avocet_testkit::Chance;
use avocet_testkit::mmdb::{Database, Record};

const NETWORKS: usize = 500_000;
const CODES: usize = 240;
const ROUNDS: usize = 11;
/// Operations per round: a round must exceed the kernel's tick, the unit of measurement.
const PER_ROUND: usize = 500_000;
/// Distinct addresses: their nodes exceed the processor's caches.
const ADDRESSES: usize = 65_536;

/// Returns the processor time of this thread in nanoseconds, which other load does not affect.
fn cpu_ns(since: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
    spent.unwrap_or_else(|| since.elapsed().as_nanos() as f64)
}

/// Prints the median and the minimum over the rounds of the nanoseconds per operation.
fn measure(name: &str, per_round: usize, mut operation: impl FnMut(usize)) {
    let (mut step, clock) = (0, Instant::now());
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = cpu_ns(clock);
            for _ in 0..per_round {
                operation(step);
                step += 1;
            }
            (cpu_ns(clock) - start) / per_round as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("| {name} | {:.1} | {:.1} |", rounds[ROUNDS / 2], rounds[0]);
}

/// Returns networks distributed as in country databases: four of five IPv4, with 16 to 24 bits.
fn database(chance: &mut Chance) -> Vec<u8> {
    let code = |number: usize| {
        String::from_utf8(vec![b'A' + (number / 26) as u8, b'A' + (number % 26) as u8])
    };
    let records: Vec<Record> =
        (0..CODES).map(|at| Record::country(&code(at).expect("letters"))).collect();
    let mut networks: Vec<(u8, String)> = (0..NETWORKS)
        .map(|_| {
            let [a, b, c, d, ..] = chance.number().to_be_bytes();
            let len = chance.below(9) as u8;
            match d % 5 {
                0 => (32 + 2 * len, format!("2a{a:02x}:{b:x}{c:02x}:{d:x}::/{}", 32 + 2 * len)),
                _ => (16 + len, format!("{}.{b}.{c}.0/{}", a.max(1), 16 + len)),
            }
        })
        .collect();
    networks.sort();
    let mut database = Database::new("Bench-Country");
    networks.iter().for_each(|(_, network)| {
        database.put(network, records[chance.below(CODES as u64) as usize].clone())
    });
    database.octets()
}

fn main() {
    let mut chance = Chance::new(1);
    let octets = database(&mut chance);
    let countries = Countries::read(&octets).expect("a database");
    let library = maxminddb::Reader::from_source(&octets[..]).expect("a database");
    let (nodes, kept) = (countries.about().nodes, countries.octets());
    println!("{} octets, {nodes} nodes, {kept} octets kept\n", octets.len());
    let addresses: Vec<IpAddr> =
        (0..ADDRESSES).map(|_| IpAddr::from((chance.number() as u32).to_be_bytes())).collect();
    println!("| operation | median ns | least ns |\n|---|---|---|");
    measure("read the file", 1, |_| drop(black_box(Countries::read(black_box(&octets)))));
    measure("one address again and again", PER_ROUND, |_| {
        let _ = black_box(countries.country(black_box(addresses[0])));
    });
    measure("addresses by chance", PER_ROUND, |step| {
        let _ = black_box(countries.country(addresses[step % ADDRESSES]));
    });
    measure("the same by the library, decoded", PER_ROUND, |step| {
        let found = library.lookup(addresses[step % ADDRESSES]).expect("a sound database");
        drop(black_box(found.decode_path::<&str>(&maxminddb::path!["country", "iso_code"])));
    });
}
