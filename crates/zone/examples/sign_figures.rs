//! Prints the time in which a zone file is signed, signed again with nothing to do, and reviewed.
//!
//! ```sh
//! cargo run --release -p avocet-zone --example sign_figures -- ZONEFILE NAME THREADS
//! ```
//! The zone is signed with one CSK (ECDSA P-256) and NSEC, as `kzonesign` and `dnssec-signzone`
//! sign it for comparison.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that people run by hand")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use avocet_dnssec::signing::{ENTRY_KEY, PrivateKey, SigningAlgorithm, SigningKey};
use avocet_dnssec::zonemd::DigestHash;
use avocet_wire::{FoldedName, text};
use avocet_zone::sign::{SignatureTimes, SignedDenial, Signing, ZoneSigners, review};

const DAY: u32 = 86_400;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (file, name) = (arguments.next().unwrap(), arguments.next().unwrap());
    let threads = arguments.next().map_or(1, |text| text.parse().unwrap());
    let mut wire = [0; 255];
    let len = text::name_to_wire(name.as_bytes(), None, &mut wire).unwrap();
    let apex = FoldedName::new(&wire[..len]).unwrap();
    let mut open = |path: &Path, _| fs::read(path);
    let (source, faults) = avocet_zone::load(apex, Path::new(&file), 0, &mut open);
    let Some(source) = source else { panic!("{:?}", faults.list()) };
    let private = PrivateKey::generate(SigningAlgorithm::EcdsaP256Sha256).unwrap();
    let keys = vec![Arc::new(SigningKey::new(private, ENTRY_KEY))];
    let signers = ZoneSigners {
        published: keys.clone(),
        entry: keys.clone(),
        zone: keys.clone(),
        parent: keys,
    };
    let times = SignatureTimes {
        now_secs: 1_800_000_000,
        validity_secs: 14 * DAY,
        refresh_secs: 7 * DAY,
        dnskey_ttl_secs: 3_600,
    };
    let signing = Signing {
        signers: &signers,
        denial: SignedDenial::Nsec,
        digest: Some(DigestHash::Sha384),
        times,
        last: None,
        last_serial: None,
        seed: 1,
        threads,
        begin: || {},
    };
    let timed = |what: &str, began: Instant| {
        println!("{what}: {:.3} s", began.elapsed().as_secs_f64());
    };
    let began = Instant::now();
    let signed = signing.sign(&source).unwrap();
    timed(&format!("{} signatures on {threads} threads", signed.made), began);
    let octets = signed.zone.memory_octets();
    println!("{} records, {octets} octets", signed.zone.records());
    let began = Instant::now();
    let again = Signing { last: Some(&signed.zone), ..signing.clone() }.sign(&source).unwrap();
    timed(&format!("again, {} signatures", again.made), began);
    let began = Instant::now();
    review(&signed.zone, &signers, &times).unwrap();
    timed("review", began);
}
