//! Compares the parsing of record data with the crates `domain` and `hickory-proto`.
//!
//! Each text of the table and each generated text must give the same octets, or the lists must
//! contain the text with a reason.

#![allow(clippy::unwrap_used)] // a panic here fails the test

#[path = "rdata_forms/mutation.rs"]
mod mutation;
#[path = "rdata_forms/table.rs"]
mod table;

use avocet_wire::rdata::{check, display, expand, mnemonic};
use critical_section as _; // linked for hickory-proto
use data_encoding::HEXUPPER;
use domain::base::rdata::ComposeRecordData;
use domain::zonefile::inplace::{Entry, Zonefile};
use hickory_proto::rr::{RData, RecordType};
use hickory_proto::serialize::binary::BinEncodable;
use proptest::prelude::*;

use table::CASES;

/// Parses a text with another implementation and returns the octets.
type Oracle = fn(&str, &str) -> Option<Vec<u8>>;

/// The types that an implementation parses, and a function that finds the generated texts that it
/// refuses or changes.
type Known<'a> = (&'a [&'a str], fn(&str, &str) -> bool);

/// The types that `domain` parses.
#[rustfmt::skip]
const DOMAIN: &[&str] = &[
    "A", "CNAME", "HINFO", "MB", "MD", "MF", "MG", "MINFO", "MR", "MX", "NS", "PTR", "SOA", "TXT", "AAAA", "CAA",
    "CDNSKEY", "CDS", "DNAME", "DNSKEY", "RRSIG", "NSEC", "DS", "IPSECKEY", "NAPTR", "NSEC3", "NSEC3PARAM",
    "OPENPGPKEY", "RP", "SRV", "SSHFP", "SVCB", "HTTPS", "TLSA", "ZONEMD",
];

/// The types that `hickory-proto` parses. CERT and CSYNC are absent: the crate reads no short keys
/// of CERT, and only three flags and few types of CSYNC.
#[rustfmt::skip]
const HICKORY: &[&str] = &[
    "A", "AAAA", "CAA", "CNAME", "HINFO", "HTTPS", "MX", "NAPTR", "NS", "OPENPGPKEY", "PTR", "SMIMEA", "SOA", "SRV",
    "SSHFP", "SVCB", "TLSA", "TXT",
];

/// Beginnings of the texts of the table that `domain` refuses or reads differently.
const DOMAIN_DIFFERS: &[(&str, &str, &str)] = &[
    ("SOA", "ns.example. host\\.master.example. 2026010100 1h", "times without units"),
    ("RRSIG", "TYPE65534 RSASHA256 0 86400 1048354263", "times as dates only"),
    ("SVCB", "16 foo.example.org. alpn=\"f\\\\", "no escapes in lists"),
    ("SVCB", "16 foo.example.org. alpn=f\\\\", "no escapes in lists"),
    ("SVCB", "1 a. key1=", "no numbers for keys that have a name"),
];

/// Beginnings of the texts of the table that `hickory-proto` refuses or reads differently.
const HICKORY_DIFFERS: &[(&str, &str, &str)] = &[
    ("NS", "\\000", "no label that is not text"),
    ("TXT", "\"a string\" plain", "\\DDD is a character there, not an octet"),
    ("SVCB", "1 foo.example.com. key667=\"hello\\210", "no escapes in values"),
    ("SVCB", "16 foo.example.org. alpn=h2,h3-19 mandatory", "keys in ascending order only"),
    ("SVCB", "16 foo.example.org. alpn=\"f\\\\", "no escapes in values"),
    ("SVCB", "16 foo.example.org. alpn=f\\\\", "no escapes in values"),
    ("SVCB", "1 dns.example. alpn=dot", "no newer keys"),
    ("SVCB", "1 a. key1=", "no escapes in values"),
    ("SVCB", "1 . key102 key101", "keys in ascending order only"),
    ("HTTPS", "1 . alpn=\"h2,h3\" ipv4hint", "keys in ascending order only"),
];

fn domain(mnemonic: &str, text: &str) -> Option<Vec<u8>> {
    let mut zone = Zonefile::new();
    zone.extend_from_slice(format!("x. 60 IN {mnemonic} {text}\n").as_bytes());
    zone.set_origin(domain::base::Name::root());
    let Ok(Some(Entry::Record(record))) = zone.next_entry() else { return None };
    let mut out = Vec::new();
    record.data().compose_rdata(&mut out).ok()?;
    Some(out)
}

/// Parses with `hickory-proto`, which compresses names against each other. Writes the names of SVCB
/// in lower case.
fn hickory(mnemonic: &str, text: &str) -> Option<Vec<u8>> {
    let rtype: RecordType = mnemonic.parse().ok()?;
    let octets = RData::try_from_str(rtype, text).ok()?.to_bytes().ok()?;
    let mut out = vec![0; octets.len() + 512];
    let len = expand(rtype.into(), &octets, 0, octets.len(), &mut out).ok()?;
    out.truncate(len);
    Some(out)
}

fn check_table(oracle: Oracle, types: &[&str], differs: &[(&str, &str, &str)]) {
    let mut unseen = differs.to_vec();
    for (mnemonic, text, octets, _) in CASES.iter().filter(|case| types.contains(&case.0)) {
        let read = oracle(mnemonic, text).map(|octets| HEXUPPER.encode(&octets));
        let listed = unseen
            .iter()
            .position(|(rtype, start, _)| rtype == mnemonic && text.starts_with(start));
        if let Some(index) = listed {
            unseen.remove(index);
            assert_ne!(read.as_deref(), Some(*octets), "{mnemonic} {text} no longer differs");
        } else {
            assert_eq!(read.as_deref(), Some(*octets), "{mnemonic} {text}");
        }
    }
    assert!(unseen.is_empty(), "not in the table: {unseen:?}");
}

#[test]
fn the_texts_of_the_table_are_read_the_same() {
    check_table(domain, DOMAIN, DOMAIN_DIFFERS);
    check_table(hickory, HICKORY, HICKORY_DIFFERS);
}

/// Reports whether `domain` refuses a generated text: escapes in parameters, some key numbers,
/// repeated TLS groups, the types NSAP-PTR and ALIAS in a list, and IPSECKEY with an IPv6 gateway
/// or without a key.
fn domain_refuses(mnemonic: &str, text: &str) -> bool {
    match mnemonic {
        "SVCB" | "HTTPS" => ["\\", "key", "groups"].iter().any(|part| text.contains(part)),
        "NSEC" | "NSEC3" | "RRSIG" => {
            ["NSAP-PTR", "ALIAS"].iter().any(|rtype| text.contains(rtype))
        }
        "IPSECKEY" => text.split(' ').nth(1) == Some("2") || text.split(' ').count() == 4,
        _ => false,
    }
}

/// Reports whether `hickory-proto` refuses a generated text: escapes, names that are not host
/// names, newer parameters, and SOA times above 2^31.
fn hickory_refuses(mnemonic: &str, text: &str) -> bool {
    let host = |letter: char| letter.is_ascii_alphanumeric() || ". ".contains(letter);
    match mnemonic {
        "TXT" | "HINFO" | "CAA" | "AAAA" => text.contains('\\'),
        "SOA" => true,
        _ => !text.chars().all(host) || text.contains("ohttp") || text.contains("key"),
    }
}

fn check_generated(oracle: Oracle, (types, refuses): Known<'_>, rtype: u16, rdata: &[u8]) {
    let Some(mnemonic) = mnemonic(rtype).filter(|mnemonic| types.contains(mnemonic)) else {
        return;
    };
    let text = display(rtype, rdata).to_string();
    if check(rtype, rdata).is_err() || refuses(mnemonic, &text) {
        return;
    }
    let read = oracle(mnemonic, &text).unwrap_or_else(|| panic!("{mnemonic} {text}"));
    assert!(read.eq_ignore_ascii_case(rdata), "{mnemonic} {text}: {read:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8192, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn generated_data_is_read_the_same((rtype, rdata) in mutation::mutated()) {
        check_generated(domain, (DOMAIN, domain_refuses), rtype, &rdata);
        check_generated(hickory, (HICKORY, hickory_refuses), rtype, &rdata);
    }
}
