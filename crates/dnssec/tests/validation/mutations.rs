//! Checks the properties of the fuzz target `validation` on its corpus and on mutations of it.
//!
//! `AVOCET_MUTATIONS` sets the number of mutations. `AVOCET_WRITE_CORPUS=1` writes the corpus. Its
//! signatures are the same in each run, because the key comes from a fixed seed and Ed25519 is
//! deterministic.

use std::fs;
use std::path::PathBuf;

use avocet_wire::canonical;

use crate::hostile::{self, holds};
use crate::mutation_steps::broken;
use crate::random::Random;
use crate::sets::{Set, data};
use crate::signer::Signer;
use crate::zones::{Hashing, one_of_each};

/// Mutations in a plain `cargo test`.
const MUTATIONS: u64 = 4_000;
/// The seed of the key that signs the corpus.
const SEED: [u8; 32] = [1; 32];

fn encode(sets: &[Set]) -> Vec<u8> {
    let mut out = Vec::new();
    for set in sets {
        out.push(set.owner.len() as u8);
        out.extend(&set.owner);
        out.extend([set.rtype.0 as u8, 36, set.records.len() as u8, set.signatures.len() as u8]);
        for datum in set.records.iter().chain(&set.signatures) {
            out.extend((datum.len() as u16).to_be_bytes());
            out.extend(datum);
        }
    }
    out
}

fn with_key(signer: &Signer, mut sets: Vec<Set>) -> Vec<Set> {
    let mut dnskeys = Set::of("z.", "DNSKEY", &[]);
    dnskeys.records = vec![signer.dnskey.clone()];
    sets.insert(0, dnskeys);
    sets.iter_mut().for_each(|set| signer.sign(set));
    sets
}

/// Returns data that the zone has signed: a positive answer, a wildcard answer, and parts of its
/// NSEC chain and its NSEC3 chain.
fn specimens() -> Vec<(String, Vec<Set>)> {
    let signer = Signer::of_seed("z.", &SEED);
    let zone = one_of_each();
    let answers = vec![
        Set::of("a.z.", "A", &["192.0.2.1", "192.0.2.2"]),
        Set::of("*.w.z.", "MX", &["10 Mail.w.z."]),
        Set::of("s.z.", "DS", &["1 13 2 00"]),
        Set::of("z.", "SOA", &["a.z. b.z. 1 2 3 4 5"]),
    ];
    let mut found = vec![("answers".to_owned(), with_key(&signer, answers))];
    let hashing = Hashing { iterations: 1, salt: "aabb", opts_out: true };
    for (name, chain) in [("nsec", zone.nsecs()), ("nsec3", zone.nsec3s(hashing))] {
        for (number, part) in chain.chunks(6).enumerate() {
            found.push((format!("{name}-{number}"), with_key(&signer, part.to_vec())));
        }
    }
    found
}

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/validation"))
}

#[test]
fn the_corpus_is_what_the_tests_say() {
    let write = std::env::var_os("AVOCET_WRITE_CORPUS").is_some();
    for (name, sets) in specimens() {
        let path = directory().join(&name);
        if write {
            fs::create_dir_all(directory()).unwrap();
            fs::write(&path, encode(&sets)).unwrap();
        }
        assert_eq!(fs::read(&path).ok(), Some(encode(&sets)), "{name}");
    }
}

#[test]
fn all_of_the_corpus_verifies() {
    for (name, sets) in specimens() {
        // The DNSKEY RRset is verified twice: as part of the chain and as data.
        assert_eq!(holds(&encode(&sets)).len(), sets.len() + 1, "{name}");
    }
    assert_eq!(
        data("DNSKEY", hostile::KEY.split_once("DNSKEY ").unwrap().1),
        Signer::of_seed("z.", &SEED).dnskey
    );
}

type Content = (Vec<u8>, u16, Vec<Vec<u8>>);

/// Returns the content of an RRset in a form that does not depend on the order, case and repetition
/// of records.
fn content(owner: &[u8], rtype: u16, records: &[Vec<u8>]) -> Content {
    let canonical = |record: &Vec<u8>| {
        let mut out = Vec::new();
        canonical::append_rdata(rtype, record, &mut out);
        out
    };
    let mut records: Vec<_> = records.iter().map(canonical).collect();
    records.sort();
    records.dedup();
    (owner.to_ascii_lowercase(), rtype, records)
}

/// Records that were changed, truncated, repeated or mixed do not verify unless the zone has signed
/// the result.
#[test]
fn no_mutation_makes_anything_true() {
    let count = std::env::var("AVOCET_MUTATIONS").map_or(MUTATIONS, |count| count.parse().unwrap());
    let specimens = specimens();
    let sets = specimens.iter().flat_map(|(_, sets)| sets);
    let signed: Vec<Content> =
        sets.map(|set| content(&set.owner, set.rtype.0, &set.records)).collect();
    let corpus: Vec<_> = specimens.iter().map(|(_, sets)| encode(sets)).collect();
    let mut random = Random(0x5ec);
    let (mut octets, mut verified) = (Vec::new(), 0);
    for _ in 0..count {
        broken(&mut random, &corpus, &mut octets);
        for (owner, rtype, records) in holds(&octets) {
            assert!(
                signed.contains(&content(&owner, rtype.0, &records)),
                "{owner:?} {rtype} {records:?}"
            );
            verified += 1;
        }
    }
    assert!(verified > count / 2, "{verified}: the mutations leave enough in place");
}
