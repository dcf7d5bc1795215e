//! Databases of countries: the country of a record, and agreement with the format's reference
//! library.

mod invariants;

use std::net::IpAddr;
use std::path::Path;

use avocet_policy::geo::{Countries, GeoError};
use avocet_testkit::Chance;
use avocet_testkit::mmdb::{Database, Record};

/// Number of random databases to compare.
const COMPARED: u64 = 60;
/// Number of addresses looked up in each database.
const LOOKED_UP: usize = 300;

fn shown(countries: &Countries, address: &str) -> String {
    let country = countries.country(address.parse().unwrap());
    country.map_or("-".to_owned(), |letters| String::from_utf8(letters.to_vec()).unwrap())
}

#[track_caller]
fn check(database: &Database, expected: &[(&str, &str)]) {
    let countries = Countries::read(&database.octets()).unwrap();
    for (address, country) in expected {
        assert_eq!(shown(&countries, address), *country, "{address}");
    }
}

#[test]
fn a_country_is_found_where_makers_of_databases_write_it() {
    let iso = |code: &str| Record::map([("iso_code", Record::text(code))]);
    let mut database = Database::new("Test-Country");
    let records = [
        ("10.0.0.0/16", Record::map([("country", iso("NL")), ("registered_country", iso("US"))])),
        (
            "10.1.0.0/16",
            Record::map([
                ("registered_country", iso("US")),
                ("continent", Record::map([("code", Record::text("EU"))])),
            ]),
        ),
        (
            "10.2.0.0/16",
            Record::map([
                ("country", Record::text("Germany")),
                ("country_code", Record::text("DE")),
            ]),
        ),
        ("10.3.0.0/16", Record::map([("country", Record::text("fr"))])),
        (
            "10.4.0.0/16",
            Record::map([("country", Record::map([("geoname_id", Record::number(1))]))]),
        ),
        (
            "10.5.0.0/16",
            Record::map([("country", iso("ZZ")), ("country_code", Record::text("ZZ"))]),
        ),
        ("10.6.0.0/16", Record::map([("country_code", Record::text("DEU"))])),
        ("10.7.0.0/16", Record::text("DE")),
        ("10.8.0.0/16", Record::map([("country_code", Record::number(276))])),
        (
            "10.9.0.0/16",
            Record::map([
                ("country", Record::map([("geoname_id", Record::number(1))])),
                ("registered_country", iso("SE")),
            ]),
        ),
    ];
    records.into_iter().for_each(|(network, record)| database.put(network, record));
    check(
        &database,
        &[
            ("10.0.255.255", "NL"),
            ("10.1.0.0", "US"),
            ("10.2.0.1", "DE"),
            ("10.3.0.1", "FR"),
            ("10.4.0.1", "-"),
            ("10.5.0.1", "-"),
            ("10.6.0.1", "-"),
            ("10.7.0.1", "-"),
            ("10.8.0.1", "-"),
            ("10.9.0.1", "SE"),
            ("10.10.0.1", "-"),
        ],
    );
}

#[test]
fn the_longest_network_counts_and_what_is_in_none_has_no_country() {
    let networks = [
        ("0.0.0.0/1", "US"),
        ("10.0.0.0/8", "NL"),
        ("10.1.2.3/32", "DE"),
        ("2001:db8::/32", "FR"),
        ("2001:db8:1::/48", "SE"),
    ];
    for bits in [24, 28, 32] {
        let database = Database::of_countries(&networks).with_record_bits(bits);
        check(
            &database,
            &[
                ("9.255.255.255", "US"),
                ("10.1.2.2", "NL"),
                ("10.1.2.3", "DE"),
                ("10.1.2.4", "NL"),
                ("128.0.0.1", "-"),
                ("2001:db8::1", "FR"),
                ("2001:db8:1:ffff::", "SE"),
                ("2001:db9::", "-"),
                ("fe80::1", "-"),
            ],
        );
    }
}

#[test]
fn an_ipv4_address_in_an_ipv6_one_counts_as_itself() {
    let forms =
        ["192.0.2.7", "::ffff:192.0.2.7", "::192.0.2.7", "64:ff9b::192.0.2.7", "2002:c000:207::1"];
    let all: Vec<(&str, &str)> = forms.iter().map(|form| (*form, "NL")).collect();
    check(&Database::of_countries(&[("192.0.2.0/24", "NL")]), &all);
    let mut v4_only = Database::new("Test-Country").of_v4_only();
    v4_only.put("192.0.2.0/24", Record::country("NL"));
    check(&v4_only, &all);
    check(&v4_only, &[("2001:db8::1", "-"), ("192.0.3.1", "-")]);
    // The client of Teredo, whose octets are inverted (RFC 4380 §4), not its server.
    let teredo = [("2001:0:cb00:7101::3fff:fdf8", "NL"), ("2001:0:c000:207::1", "-")];
    check(&Database::of_countries(&[("192.0.2.0/24", "NL")]), &teredo);
    // Other networks that the writer maps to IPv4 addresses have their countries.
    let mut aliased = Database::of_countries(&[("192.0.2.0/24", "NL")]);
    aliased.alias("2001:db8::/32");
    check(&aliased, &[("2001:db8:c000:207::1", "NL")]);
}

#[test]
fn a_file_without_countries_is_refused_by_its_type() {
    let mut database = Database::new("GeoLite2-ASN");
    database
        .put("192.0.2.0/24", Record::map([("autonomous_system_number", Record::number(64_496))]));
    let error = Countries::read(&database.octets()).err().unwrap();
    assert_eq!(error, GeoError::NoCountries("GeoLite2-ASN".to_owned()));
    assert!(error.to_string().contains("GeoLite2-ASN"), "{error}");
}

#[test]
fn what_is_no_database_or_lost_a_part_is_refused() {
    let whole = Database::of_countries(&[("192.0.2.0/24", "NL")]).octets();
    let end = whole.len();
    for (what, octets) in [
        ("nothing", &b""[..]),
        ("text", b"192.0.2.0/24 NL\n"),
        ("the first half", &whole[..end / 2]),
    ] {
        assert_eq!(Countries::read(octets).err(), Some(GeoError::NoMetadata), "{what}");
    }
    assert_eq!(
        Countries::read(&whole[7..]).err(),
        Some(GeoError::Tree),
        "the beginning is missing"
    );
    for len in 0..end {
        assert!(Countries::read(&whole[..len]).is_err(), "{len} of {end} octets");
    }
}

/// Looks up an address with the reference library. Returns `None` if it has no country, and an
/// error if the library cannot read the record.
fn by_library(
    reader: &maxminddb::Reader<&[u8]>,
    address: IpAddr,
) -> Result<Option<String>, maxminddb::MaxMindDbError> {
    let found = reader.lookup(address)?;
    found.decode_path(&maxminddb::path!["country", "iso_code"])
}

#[test]
fn the_library_of_the_format_finds_the_same() {
    const CODES: [&str; 5] = ["NL", "DE", "US", "SE", "FR"];
    let (mut chance, mut found) = (Chance::new(11), 0);
    for number in 0..COMPARED {
        let mut database =
            Database::new("Test-Country").with_record_bits([24, 28, 32][(number % 3) as usize]);
        let mut networks: Vec<(u8, String)> = Vec::new();
        for _ in 0..=chance.below(300) {
            let (len, bits) = (1 + chance.below(32) as u8, chance.number());
            let [a, b, c, d, ..] = bits.to_be_bytes();
            // IPv6 networks avoid the part that holds IPv4.
            networks.push((len, format!("{a}.{b}.{c}.{d}/{len}")));
            let len = 8 + chance.below(120) as u8;
            networks.push((len, format!("2a{a:02x}:{b:x}:{c:x}::{d:x}/{len}")));
        }
        networks.sort();
        for (_, network) in &networks {
            let code = CODES[chance.below(5) as usize];
            match chance.percent(20) {
                true => database.put(
                    network,
                    Record::map([("number", Record::number(chance.number() as u32))]),
                ),
                false => database.put(network, Record::country(code)),
            }
        }
        database.put("192.0.2.0/24", Record::country("NL"));
        let octets = database.octets();
        let (ours, theirs) = (
            Countries::read(&octets).unwrap(),
            maxminddb::Reader::from_source(&octets[..]).unwrap(),
        );
        theirs.verify().unwrap();
        for at in 0..LOOKED_UP {
            let near = &networks[at % networks.len()].1.split_once('/').unwrap().0;
            let address: IpAddr = match near.parse().unwrap() {
                address if chance.percent(50) => address,
                IpAddr::V4(address) => {
                    IpAddr::from((u32::from(address) ^ 1 << chance.below(32)).to_be_bytes())
                }
                IpAddr::V6(address) => {
                    IpAddr::from((u128::from(address) ^ 1 << chance.below(120)).to_be_bytes())
                }
            };
            let country =
                ours.country(address).map(|letters| String::from_utf8(letters.to_vec()).unwrap());
            found += u32::from(country.is_some());
            assert_eq!(
                country,
                by_library(&theirs, address).unwrap(),
                "database {number}, {address}"
            );
        }
    }
    assert!(found > 1_000, "{found}");
}

/// Returns files in all forms, including truncated ones and ones with pointer cycles.
fn specimens() -> Vec<(String, Vec<u8>)> {
    let mut specimens = Vec::new();
    for bits in [24, 28, 32] {
        let mut database = Database::of_countries(&[("192.0.2.0/24", "NL")]).with_record_bits(bits);
        database.put(
            "2001:db8::/32",
            Record::map([("country_code", Record::text("de")), ("as", Record::text("AS1"))]),
        );
        database.put(
            "198.51.100.0/24",
            Record::map([("country", Record::Boolean(true)), ("n", Record::Double(1))]),
        );
        database.alias("2002::/16");
        specimens.push((format!("records-of-{bits}"), database.octets()));
    }
    let whole = specimens[0].1.clone();
    specimens.push(("cut".to_owned(), whole[..whole.len() - 9].to_vec()));
    let mut around = whole;
    // The target of bit 0 at the root.
    around[0..3].copy_from_slice(&[0, 0, 0]);
    specimens.push(("root-to-itself".to_owned(), around));
    let mut v4_only = Database::new("v4").of_v4_only();
    v4_only.put("0.0.0.0/1", Record::map([("country", Record::text("NL"))]));
    specimens.push(("one-node".to_owned(), v4_only.octets()));
    specimens
}

/// With `AVOCET_WRITE_CORPUS=1` the files of the corpus are rewritten.
#[test]
fn the_corpus_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/geo");
    if std::env::var_os("AVOCET_WRITE_CORPUS").is_some() {
        std::fs::create_dir_all(&corpus).unwrap();
        specimens()
            .into_iter()
            .for_each(|(name, octets)| std::fs::write(corpus.join(name), octets).unwrap());
    }
    for (name, octets) in specimens() {
        assert_eq!(std::fs::read(corpus.join(&name)).unwrap(), octets, "{name}");
    }
    for entry in std::fs::read_dir(corpus).unwrap() {
        invariants::hold(&std::fs::read(entry.unwrap().path()).unwrap());
    }
}
