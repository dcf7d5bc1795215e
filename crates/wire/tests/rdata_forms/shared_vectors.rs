//! Test vectors of a shared collection, if it is checked out next to the repository. Its lines have
//! whole records in wire form, each followed by the text of the record.

use std::path::PathBuf;

use avocet_wire::rdata::{check, display, from_mnemonic, parse};
use data_encoding::HEXUPPER;

use super::ROOT;

/// Returns the line of text without its comment and parentheses.
fn plain(line: &str) -> String {
    let line = line.split(" ;{").next().unwrap_or(line);
    line.replace(" ( ", " ").replace(" ) ", " ").replace("( ", "").replace(" )", "")
}

/// Returns type and data of a record in wire form.
fn split_record(record: &[u8]) -> (u16, &[u8]) {
    let owner_len = avocet_wire::name::wire_len(record).unwrap();
    let rest = &record[owner_len..];
    let len = usize::from(u16::from_be_bytes([rest[8], rest[9]]));
    assert_eq!(rest.len(), 10 + len);
    (u16::from_be_bytes([rest[0], rest[1]]), &rest[10..])
}

fn check_pair(hex: &str, line: &str) {
    let record = HEXUPPER.decode(hex.as_bytes()).unwrap();
    let (rtype, rdata) = split_record(&record);
    let fields: Vec<&str> = line.splitn(5, '\t').collect();
    let [_, _, _, mnemonic, text] = fields[..] else { panic!("{line}") };
    assert_eq!(from_mnemonic(mnemonic), Some(rtype));
    // The collection differs here: it has hexadecimal for types that this crate treats as opaque, a
    // name with an unescaped quote, and a name where RFC 1706 §6 has a character-string.
    if ["ATMA", "NSAP-PTR"].contains(&mnemonic) || text == "10 \"foo." {
        return;
    }
    assert_eq!(check(rtype, rdata), Ok(()), "{line}");
    for text in [plain(text), display(rtype, rdata).to_string()] {
        let mut read = Vec::new();
        let parsed = parse(rtype, &text, ROOT, &mut read);
        assert_eq!(parsed, Ok(()), "{mnemonic} {text}");
        assert_eq!(read, rdata, "{mnemonic} {text}");
    }
}

#[test]
fn the_shared_vectors_are_read_and_written() {
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/scenarios/vectors");
    let vectors = PathBuf::from(vectors);
    if !vectors.exists() {
        eprintln!("skipped: there is no ../shared beside the repository");
        return;
    }
    let mut count = 0;
    for number in 1..=5 {
        let path = vectors.join(format!("test_ldnsrr.c{number}"));
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        for pair in lines.chunks_exact(2) {
            check_pair(pair[0], pair[1]);
            count += 1;
        }
    }
    assert!(count > 1000, "{count} pairs");
    eprintln!("{count} pairs");
}
