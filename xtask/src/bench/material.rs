//! The zone and the query files, which are identical on every machine.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use super::{blocklist, signed};
use crate::random::Random;

/// Number of names with addresses in the zone.
const NAMES: u32 = 200_000;
/// The address of every name below the wildcard.
pub(super) const WILDCARD_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
/// The prefix of the IPv6 addresses of the zone. The rest of an address is the index of its name.
pub(super) const ADDRESS_PREFIX: u128 = 0x2001_0db8 << 96;
/// Number of names of the hot workloads.
pub(super) const HOT_NAMES: u32 = 10_000;
pub(super) const ZIPF_QUERIES: usize = 300_000;
/// Number of queries for names that are not cached. The fastest relay processes fewer in 20 seconds
/// on one core.
const MISS_QUERIES: u32 = 3_000_000;
const MEMORY_QUERIES: u32 = 1_000_000;
const SEED: u64 = 1;

/// The paths of the files.
pub(super) struct Material {
    pub(super) zone: PathBuf,
    pub(super) hot: PathBuf,
    /// The file with the names of the signed zone.
    pub(super) signed: PathBuf,
    pub(super) zipf: PathBuf,
    pub(super) miss: PathBuf,
    pub(super) memory: PathBuf,
    pub(super) blocked: PathBuf,
}

impl Material {
    /// Writes all files into a directory.
    pub(super) fn write(directory: &Path) -> io::Result<Self> {
        let file = |name: &str| directory.join(name);
        let material = Self {
            zone: file("bench.test.zone"),
            hot: file("hot.txt"),
            signed: file("signed.txt"),
            zipf: file("zipf.txt"),
            miss: file("miss.txt"),
            memory: file("memory.txt"),
            blocked: file("blocked.txt"),
        };
        fs::write(&material.zone, zone())?;
        let mut random = Random(SEED);
        let hot =
            shuffled(HOT_NAMES, &mut random).into_iter().map(|index| format!("{} A", name(index)));
        write_lines(&material.hot, hot)?;
        let names = (0..HOT_NAMES).map(|index| format!("{} A", signed::name(index)));
        write_lines(&material.signed, names)?;
        write_lines(&material.zipf, zipf(&mut random))?;
        write_lines(&material.miss, (0..MISS_QUERIES).map(unique_query))?;
        write_lines(&material.memory, (0..MEMORY_QUERIES).map(unique_query))?;
        let blocked = shuffled(blocklist::NAMES, &mut random).into_iter().take(HOT_NAMES as usize);
        write_lines(
            &material.blocked,
            blocked.map(|index| format!("{} A", blocklist::name(index))),
        )?;
        Ok(material)
    }
}

/// Returns the name with this index, without its final dot.
pub(super) fn name(index: u32) -> String {
    format!("www{index}.site.bench.test")
}

/// Returns the address of the name with this index.
pub(super) fn address(index: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a00_0000 | index)
}

/// Returns the zone. Each name has an address, half of them have AAAA, and a tenth each have TXT
/// and CNAME. There is also a wildcard.
fn zone() -> String {
    let mut text = String::from(
        "$ORIGIN bench.test.\n$TTL 3600\n@ SOA ns admin 1 3600 600 86400 300\n@ NS ns\nns A \
         192.0.2.53\n",
    );
    let _ = writeln!(text, "*.miss A {WILDCARD_ADDRESS}");
    for index in 0..NAMES {
        let _ = writeln!(text, "www{index}.site A {}", address(index));
        if index % 2 == 0 {
            let address = Ipv6Addr::from_bits(ADDRESS_PREFIX | u128::from(index));
            let _ = writeln!(text, "www{index}.site AAAA {address}");
        }
        match index % 10 {
            0 => drop(writeln!(
                text,
                "www{index}.site TXT \"v=spf1 include:_spf{index}.example -all\""
            )),
            5 => drop(writeln!(text, "alias{index}.site CNAME www{index}.site")),
            _ => {}
        }
    }
    text
}

/// Returns queries for names by Zipf's law (s = 1): 75 % A, 15 % AAAA, 5 % aliases, 5 % names that
/// do not exist.
fn zipf(random: &mut Random) -> impl Iterator<Item = String> {
    let ranked = shuffled(NAMES, random);
    let mut sum = 0.0;
    let weigh = |rank| {
        sum += 1.0 / f64::from(rank);
        sum
    };
    let cumulative: Vec<f64> = (1..=NAMES).map(weigh).collect();
    (0..ZIPF_QUERIES).map(move |_| {
        let drawn = random.unit() * sum;
        let index =
            ranked[cumulative.partition_point(|weight| *weight <= drawn).min(ranked.len() - 1)];
        match random.below(20) {
            0..15 => format!("{} A", name(index)),
            15..18 => format!("{} AAAA", name(index)),
            18 => format!("alias{}.site.bench.test A", index / 10 * 10 + 5),
            _ => format!("none{index}.site.bench.test A"),
        }
    })
}

/// Returns a query for a name below the wildcard, unique to this number.
pub(super) fn unique_query(index: u32) -> String {
    // An odd factor permutes the 32-bit numbers, so that consecutive queries are not in name order.
    format!("u{:08x}.miss.bench.test A", index.wrapping_mul(2_654_435_761))
}

/// Writes lines to a file.
pub(super) fn write_lines(path: &Path, lines: impl Iterator<Item = String>) -> io::Result<()> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    for line in lines {
        writeln!(file, "{line}")?;
    }
    file.flush()
}

/// Returns the numbers below `count` in a random order.
fn shuffled(count: u32, random: &mut Random) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).collect();
    random.shuffle(&mut numbers);
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, HashSet};

    #[test]
    fn the_mix_follows_zipf_and_its_shares() {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        let mut names: BTreeMap<String, u32> = BTreeMap::new();
        for line in zipf(&mut Random(SEED)).take(20_000) {
            let kind = match (line.starts_with("www"), line.ends_with("AAAA")) {
                (true, false) => "A",
                (true, true) => "AAAA",
                (false, _) if line.starts_with("alias") => "alias",
                (false, _) => "none",
            };
            *counts.entry(kind).or_default() += 1;
            *names.entry(line).or_default() += 1;
        }
        for (kind, percent) in [("A", 75), ("AAAA", 15), ("alias", 5), ("none", 5)] {
            assert!(counts[kind].abs_diff(percent * 200) < 300, "{kind}: {counts:?}");
        }
        // The first name has 1 / H(200,000) = 7.8 % of the queries. Three quarters of these are for
        // A.
        let most = names.values().max().copied().unwrap();
        assert!((1000..1400).contains(&most), "{most}");
    }

    #[test]
    fn unique_queries_are_unique_and_repeatable() {
        let queries: HashSet<String> = (0..100_000).map(unique_query).collect();
        assert_eq!(queries.len(), 100_000);
        assert_eq!(unique_query(1), "u9e3779b1.miss.bench.test A");
    }

    #[test]
    fn addresses_contain_the_number_of_their_name() {
        assert_eq!(address(70_000), Ipv4Addr::new(10, 1, 17, 112));
        assert!(zone().contains("\nwww70000.site A 10.1.17.112\n"));
    }
}
