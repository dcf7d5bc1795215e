//! Record data between text and octets, for every type.

#![allow(clippy::unwrap_used)] // a panic here fails the test

#[path = "rdata_forms/invariants.rs"]
mod invariants;
#[path = "rdata_forms/messages.rs"]
mod messages;
#[path = "rdata_forms/mutation.rs"]
mod mutation;
#[path = "rdata_forms/properties.rs"]
mod properties;
#[path = "rdata_forms/refusals.rs"]
mod refusals;
#[path = "rdata_forms/shared_vectors.rs"]
mod shared_vectors;
#[path = "rdata_forms/table.rs"]
mod table;

use avocet_wire::rdata::{RdataError, check, display, from_mnemonic, mnemonic, parse};
use data_encoding::HEXUPPER;

use table::CASES;

const ROOT: &[u8] = &[0];

fn read(mnemonic: &str, text: &str) -> Result<Vec<u8>, RdataError> {
    let mut out = Vec::new();
    let rtype = from_mnemonic(mnemonic).expect(mnemonic);
    parse(rtype, text, ROOT, &mut out).map(|()| out)
}

#[test]
fn text_becomes_the_known_octets_and_the_known_text() {
    for (mnemonic, text, octets, written) in CASES {
        let rtype = from_mnemonic(mnemonic).expect(mnemonic);
        let rdata =
            read(mnemonic, text).unwrap_or_else(|error| panic!("{mnemonic} {text}: {error}"));
        assert_eq!(HEXUPPER.encode(&rdata), *octets, "{mnemonic} {text}");
        let expected = if written.is_empty() { text } else { written };
        assert_eq!(display(rtype, &rdata).to_string(), *expected, "{mnemonic}");
    }
}

#[test]
fn every_type_that_can_be_stored_has_a_case() {
    for rtype in (1..=40).chain(42..128).chain(249..=250).chain(256..=300).chain(32768..=32800) {
        let Some(mnemonic) = mnemonic(rtype) else { continue };
        assert!(CASES.iter().any(|case| case.0 == mnemonic), "{mnemonic}");
    }
}

#[test]
fn every_case_is_also_read_in_the_generic_form() {
    for (mnemonic, text, octets, _) in CASES {
        let rdata = read(mnemonic, text).unwrap();
        let generic = format!("\\# {} {octets}", rdata.len());
        assert_eq!(read(mnemonic, &generic), Ok(rdata), "{mnemonic} {generic}");
    }
}

#[test]
fn no_structured_data_is_well_formed_when_cut_short_or_drawn_out() {
    // The last field of these types takes any number of remaining octets.
    let open =
        ["NULL", "EID", "NIMLOC", "ATMA", "SINK", "UINFO", "UID", "GID", "UNSPEC", "TYPE731"];
    for (mnemonic, _, octets, _) in CASES.iter().filter(|case| !open.contains(&case.0)) {
        let rtype = from_mnemonic(mnemonic).unwrap();
        let rdata = HEXUPPER.decode(octets.as_bytes()).unwrap();
        for end in 0..rdata.len() {
            invariants::wire_holds(rtype, &rdata[..end]);
        }
        let fixed = ["A", "AAAA", "NS", "MX", "SOA", "SRV", "NAPTR", "LOC", "TSIG", "EUI48", "NID"];
        if fixed.contains(mnemonic) {
            for end in 0..rdata.len() {
                assert!(check(rtype, &rdata[..end]).is_err(), "{mnemonic} of {end} octets");
            }
            let longer = [&rdata[..], &[1]].concat();
            assert!(check(rtype, &longer).is_err(), "{mnemonic} with an octet more");
        }
    }
}

#[test]
fn relative_names_are_completed_by_the_origin() {
    let origin = b"\x07example\0";
    for (mnemonic, text, expected) in [
        ("NS", "ns", &b"\x02ns\x07example\0"[..]),
        ("NS", "@", origin),
        ("MX", "1 mail", b"\0\x01\x04mail\x07example\0"),
        ("HTTPS", "1 .", b"\0\x01\0"),
        ("NSEC", "a A", b"\x01a\x07example\0\x00\x01\x40"),
        ("IPSECKEY", "1 3 0 gw", b"\x01\x03\0\x02gw\x07example\0"),
    ] {
        let mut out = b"before".to_vec();
        parse(from_mnemonic(mnemonic).unwrap(), text, origin, &mut out).unwrap();
        assert_eq!(&out[6..], expected, "{mnemonic} {text}");
    }
}

#[test]
fn malformed_data_is_written_in_the_generic_form() {
    assert_eq!(display(1, &[1, 2, 3]).to_string(), "\\# 3 010203");
    assert_eq!(display(1, &[]).to_string(), "\\# 0");
    assert_eq!(display(15, b"\0\x01\xc0\x0c").to_string(), "\\# 4 0001C00C");
    assert_eq!(display(65_400, &[0xab]).to_string(), "\\# 1 AB");
}

#[test]
fn the_corpus_of_the_fuzz_target_holds() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/presentation");
    let mut count = 0;
    for file in std::fs::read_dir(corpus).unwrap() {
        invariants::hold(&std::fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 100, "{count} files");
}
