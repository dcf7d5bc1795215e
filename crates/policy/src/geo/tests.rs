//! Tests of the cost of reading a file, and of damaged files.

use avocet_testkit::Chance;
use avocet_testkit::mmdb::{Database, Record};

use super::*;

/// Number of damaged files to read.
const DAMAGED: u64 = 10_000;

fn city(number: u32) -> Record {
    Record::map([("country", Record::country("NL")), ("city", Record::number(number))])
}

#[test]
fn work_is_counted_and_ends() {
    // Each network has its own record, and all of them refer to one long record.
    let names = Record::map((0..200).map(|at| (format!("name-{at}"), Record::text("x"))));
    let country = Record::map([("iso_code", Record::text("NL")), ("names", names)]).shared();
    let mut database = Database::new("Test-Country");
    for octet in 0..=255 {
        let record = Record::map([("country", country.clone()), ("number", Record::number(octet))]);
        database.put(&format!("10.0.{octet}.0/24"), record);
    }
    let octets = database.octets();
    let mut steps = Steps::new(MAX_DATABASE_STEPS);
    assert!(Countries::read_within(&octets, &mut steps).is_ok());
    let taken = MAX_DATABASE_STEPS - steps.left();
    assert!(taken > 256 * 400, "{taken}");
    let stopped = Countries::read_within(&octets, &mut Steps::new(taken - 1));
    assert_eq!(stopped.err(), Some(GeoError::Limit("values that are looked at")));
}

#[test]
fn what_tells_no_countries_apart_is_not_kept() {
    let mut database = Database::new("Test-City");
    for octet in 0..=255 {
        let record = Record::map([
            ("country", Record::map([("iso_code", Record::text("NL"))])),
            ("n", city(octet)),
        ]);
        database.put(&format!("10.0.{octet}.0/24"), record);
    }
    let countries = Countries::read(&database.octets()).unwrap();
    assert_eq!(countries.about().nodes, 96 + 16 + 255);
    // On the path to ::10.0.0.0/112 each node separates one network from the rest.
    assert_eq!(countries.octets(), 112 * 8);
    assert_eq!(countries.country([10, 0, 255, 1].into()), Some(*b"NL"));
    assert_eq!(countries.country([10, 1, 0, 1].into()), None);
}

#[test]
fn the_digest_tells_databases_apart() {
    let digest = |networks: &[(&str, &str)], at| {
        Countries::read(&Database::of_countries(networks).with_built_at(at).octets())
            .unwrap()
            .digest()
    };
    let one = digest(&[("192.0.2.0/24", "NL")], 7);
    assert_eq!(one, digest(&[("192.0.2.0/25", "NL"), ("192.0.2.128/25", "NL")], 7));
    assert_ne!(one, digest(&[("192.0.2.0/24", "DE")], 7));
    assert_ne!(one, digest(&[("192.0.2.0/24", "NL")], 8));
}

/// Returns a database that uses all features of the format.
fn whole(bits: usize) -> Vec<u8> {
    let all = [
        ("country", Record::map([("iso_code", Record::text("DE"))])),
        ("double", Record::Double(42)),
        ("yes", Record::Boolean(true)),
        ("wide", Record::U64(u64::MAX)),
        ("many", Record::Array((0..40).map(Record::number).collect())),
        ("long", Record::text(&"x".repeat(400)).shared()),
    ];
    let mut database = Database::new("Test-Country").with_record_bits(bits);
    database.put("192.0.2.0/24", Record::country("NL"));
    database.put("198.51.100.0/24", Record::map(all));
    database.put("2001:db8::/32", Record::map([("country_code", Record::text("us"))]));
    database.alias("2002::/16");
    database.octets()
}

/// Changes some octets, truncates the file, or moves a part of it.
fn damage(octets: &mut Vec<u8>, chance: &mut Chance) {
    for _ in 0..=chance.below(6) {
        let at = chance.below(octets.len() as u64) as usize;
        match chance.below(8) {
            0 => octets[at] = chance.number() as u8,
            1 => octets[at] ^= 1 << chance.below(8),
            2 => octets[at] = 0xff,
            3 => {
                let from = chance.below(octets.len() as u64) as usize;
                let len = chance.below(16) as usize;
                let piece = octets[from..(from + len).min(octets.len())].to_vec();
                octets.splice(at..at, piece);
            }
            4 if chance.percent(10) => octets.truncate(at.max(1)),
            5 => drop(octets.drain(at..(at + 3).min(octets.len() - 1).max(at))),
            // The tree comes first and the metadata last: most of the damage is done there.
            6 => {
                let tail = octets.len() - chance.below(200.min(octets.len() as u64)) as usize - 1;
                octets[tail] = chance.number() as u8;
            }
            _ => octets[at] = octets[at].wrapping_add(1),
        }
    }
}

#[test]
fn damaged_files_end_in_an_error_or_in_countries() {
    let files = [24, 28, 32].map(whole);
    let mut chance = Chance::new(5);
    let (mut taken, mut refused) = (0, std::collections::BTreeMap::<String, u32>::new());
    for number in 0..DAMAGED {
        let mut octets = files[(number % 3) as usize].clone();
        damage(&mut octets, &mut chance);
        // Each record is examined once, in no more steps than the file has octets.
        let most = (octets.len() * octets.len()) as u64;
        match Countries::read_within(&octets, &mut Steps::new(most)) {
            Ok(countries) => {
                taken += 1;
                for _ in 0..50 {
                    let v6 = u128::from(chance.number()) << 64 | u128::from(chance.number());
                    let _ = countries.country(IpAddr::from(v6.to_be_bytes()));
                    let _ = countries.country(IpAddr::from((v6 as u32).to_be_bytes()));
                    let _ = countries.country([192, 0, 2, v6 as u8].into());
                }
            }
            Err(error) => {
                assert_ne!(error, GeoError::Limit("values that are looked at"), "file {number}");
                *refused
                    .entry(
                        error
                            .to_string()
                            .split(": ")
                            .last()
                            .unwrap_or_default()
                            .chars()
                            .take(12)
                            .collect(),
                    )
                    .or_default() += 1;
            }
        }
    }
    // Some files are read, and others are refused for different reasons.
    assert!(taken > DAMAGED / 10 && refused.len() >= 5, "{taken} {refused:?}");
}
