//! Signatures, digests and hashes that other software made: the examples of the RFCs, and a shared
//! collection if it is checked out next to the repository.

use std::path::PathBuf;

use avocet_wire::{Class, NameBuf, Rtype, name, rdata, text};
use data_encoding::BASE32_DNSSEC;

use crate::algorithm::{Algorithm, KeyForm, Policy, Sha1Signatures};
use crate::budget::{Budget, Limits};
use crate::chain::{Signers, ZoneKey};
use crate::ds::Ds;
use crate::key::Dnskey;
use crate::label;
use crate::nsec3::Nsec3;
use crate::rrset::{Context, Rrset};
use crate::rrsig::Rrsig;
use crate::signature::verify_with;
use crate::verdict::Reason;

/// A record of a zone file.
#[derive(Clone, Debug)]
struct Record {
    owner: Vec<u8>,
    rtype: u16,
    ttl_secs: u32,
    data: Vec<u8>,
}

/// Parses records in zone syntax; parentheses may span lines. Lines that are not records are
/// skipped.
fn records(text: &str) -> Vec<Record> {
    let (mut found, mut whole) = (Vec::new(), String::new());
    for line in text.lines() {
        whole.push(' ');
        whole.push_str(line.split(';').next().unwrap());
        let open = whole.matches('(').count();
        if open > whole.matches(')').count() {
            continue;
        }
        found.extend(record(&whole.replace(['(', ')'], " ")));
        whole.clear();
    }
    found
}

fn record(line: &str) -> Option<Record> {
    let tokens: Vec<_> = text::tokens(line.as_bytes()).collect::<Result<_, _>>().ok()?;
    let (owner, rest) = tokens.split_first()?;
    let mut wire = [0; 255];
    let len = text::name_to_wire(owner.text, Some(&[0]), &mut wire).ok()?;
    let number = |text: &[u8]| str::from_utf8(text).ok()?.parse::<u32>().ok();
    let is_before_type = |text: &[u8]| text == b"IN" || number(text).is_some();
    let at = rest.iter().position(|token| !is_before_type(token.text))?;
    let rtype = rdata::from_mnemonic(str::from_utf8(rest[at].text).ok()?)?;
    let mut data = Vec::new();
    rdata::parse_tokens(rtype, &rest[at + 1..], &[0], &mut data).ok()?;
    let ttl_secs = rest[..at].iter().find_map(|token| number(token.text)).unwrap_or(3600);
    Some(Record { owner: wire[..len].to_vec(), rtype, ttl_secs, data })
}

/// The result of verifying a signed RRset.
#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    Verified,
    Refused(Reason),
    /// All signatures use unsupported algorithms or keys.
    Unsupported,
    Unsigned,
}

/// Verifies the RRset to which `first` belongs, at the inception of its first signature.
fn verify(records: &[Record], first: &Record, keys: &[Dnskey<'_>], zone: &[u8]) -> Outcome {
    let policy = Policy { sha1_signatures: Sha1Signatures::Verified };
    let same_owner = |record: &&Record| label::equal(&record.owner, &first.owner);
    let of_set = records.iter().filter(same_owner);
    let data: Vec<&[u8]> =
        of_set.clone().filter(|r| r.rtype == first.rtype).map(|r| r.data.as_slice()).collect();
    let covering = |r: &&Record| {
        r.rtype == 46 && Rrsig::read(&r.data).is_some_and(|s| s.covered.0 == first.rtype)
    };
    let signatures: Vec<&[u8]> = of_set.filter(covering).map(|r| r.data.as_slice()).collect();
    let Some(now_secs) =
        signatures.first().and_then(|data| Rrsig::read(data)).map(|rrsig| rrsig.inception)
    else {
        return Outcome::Unsigned;
    };
    let is_supported = |data: &&[u8]| {
        let rrsig = Rrsig::read(data).unwrap();
        let Some(algorithm) = Algorithm::from_number(rrsig.algorithm) else { return false };
        let mut used = keys.iter().filter(|key| key.tag() == rrsig.key_tag);
        used.all(|key| algorithm.form_of(key.public_key) != KeyForm::UnsupportedSize)
    };
    if !signatures.iter().any(is_supported) {
        return Outcome::Unsupported;
    }
    let usable = |key: &Dnskey<'_>| ZoneKey::of_revoked(key, policy).filter(|_| !key.is_revoked());
    let zone_keys: Vec<ZoneKey> = keys.iter().filter_map(usable).collect();
    let rrset = Rrset {
        owner: &first.owner,
        rtype: Rtype(first.rtype),
        class: Class::IN,
        ttl_secs: first.ttl_secs,
        records: &data,
        signatures: &signatures,
    };
    match verify_with(
        &rrset,
        &Signers { zone, keys: &zone_keys, memo: None },
        &Context { now_secs, policy },
        &mut Budget::default(),
    ) {
        Ok(_) => Outcome::Verified,
        Err(reason) => Outcome::Refused(reason),
    }
}

/// Returns the first record of each RRset.
fn sets(records: &[Record]) -> Vec<&Record> {
    let mut found: Vec<&Record> = Vec::new();
    for record in records.iter().filter(|record| record.rtype != 46) {
        if !found
            .iter()
            .any(|set| set.rtype == record.rtype && label::equal(&set.owner, &record.owner))
        {
            found.push(record);
        }
    }
    found
}

#[track_caller]
fn check_example(text: &str) {
    let records = records(text);
    let keys: Vec<_> =
        records.iter().filter(|r| r.rtype == 48).filter_map(|r| Dnskey::read(&r.data)).collect();
    let zone = &records[0].owner;
    let mut verified = 0;
    for set in sets(&records) {
        match verify(&records, set, &keys, zone) {
            Outcome::Verified => verified += 1,
            Outcome::Unsigned => {}
            other => panic!("{other:?}"),
        }
        if let Some(ds) = Ds::read(&set.data).filter(|_| set.rtype == 43) {
            assert!(ds.is_of(&NameBuf::from_wire(zone).unwrap(), &keys[0]));
        }
    }
    assert!(verified > 0);
}

#[test]
fn the_examples_of_rfc_6605_verify() {
    check_example(
        "example.net. 3600 IN DNSKEY 257 3 13 (
            GojIhhXUN/u4v54ZQqGSnyhWJwaubCvTmeexv7bR6edb krSqQpF64cYbcB7wNcP+e+MAnLr+Wi9xMWyQLc8NAA== )
        example.net. 3600 IN DS 55648 13 2 (
            b4c8c1fe2e7477127b27115656ad6256f424625bf5c1 e2770ce6d6e37df61d17 )
        www.example.net. 3600 IN A 192.0.2.1
        www.example.net. 3600 IN RRSIG A 13 3 3600 ( 20100909100439 20100812100439 55648 example.net.
            qx6wLYqmh+l9oCKTN6qIc+bw6ya+KJ8oMz0YP107epXA yGmt+3SNruPFKG7tZoLBLlUzGGus7ZwmwWep666VCw== )",
    );
    check_example(
        "example.net. 3600 IN DNSKEY 257 3 14 (
            xKYaNhWdGOfJ+nPrL8/arkwf2EY3MDJ+SErKivBVSum1 w/egsXvSADtNJhyem5RCOpgQ6K8X1DRSEkrbYQ+OB+v8
            /uX45NBwY8rp65F6Glur8I/mlVNgF6W/qTI37m40 )
        www.example.net. 3600 IN A 192.0.2.1
        www.example.net. 3600 IN RRSIG A 14 3 3600 ( 20100909102025 20100812102025 10771 example.net.
            /L5hDKIvGDyI1fcARX3z65qrmPsVz73QD1Mr5CEqOiLP 95hxQouuroGCeZOvzFaxsT8Glr74hbavRKayJNuydCuz
            WTSSPdz7wnqXL5bdcJzusdnI0RSMROxxwGipWcJm )",
    );
}

#[test]
fn the_example_of_rfc_5702_with_sha512_verifies() {
    check_example(
        "example.net. 3600 IN DNSKEY (256 3 10
            AwEAAdHoNTOW+et86KuJOWRDp1pndvwb6Y83nSVXXyLA3DLroROUkN6X0O6pnWnjJQujX/AyhqFDxj13tOnD9u/1kTg7cV6rklMrZDtJ
            CQ5PCl/D7QNPsgVsMu1J2Q8gpMpztNFLpPBz1bWXjDtaR7ZQBlZ3PFY12ZTSncorffcGmhOL )
        www.example.net. 3600 IN A 192.0.2.91
        www.example.net. 3600 IN RRSIG (A 10 3 3600 20300101000000 20000101000000 3740 example.net.
            tsb4wnjRUDnB1BUi+t6TMTXThjVnG+eCkWqjvvjhzQL1d0YRoOe0CbxrVDYd0xDtsuJRaeUw1ep94PzEWzr0iGYgZBWm/zpq+9fOuagY
            JRfDqfReKBzMweOLDiNa8iP5g9vMhpuv6OPlvpXwm9Sa9ZXIbNl1MBGk0fthPgxdDLw= )",
    );
}

#[test]
fn the_examples_of_rfc_8080_verify() {
    check_example(
        "example.com. 3600 IN DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=
        example.com. 3600 IN DS 3613 15 2 3aa5ab37efce57f737fc1627013fee07bdf241bd10f3b1964ab55c78e79a304b
        example.com. 3600 IN MX 10 mail.example.com.
        example.com. 3600 IN RRSIG MX 15 2 3600 ( 1440021600 1438207200 3613 example.com.
            oL9krJun7xfBOIWcGHi7mag5/hdZrKWw15jPGrHpjQeRAvTdszaPD+QLs3fx8A4M3e23mRZ9VrbpMngwcrqNAg== )",
    );
    check_example(
        "example.com. 3600 IN DNSKEY 257 3 15 zPnZ/QwEe7S8C5SPz2OfS5RR40ATk2/rYnE9xHIEijs=
        example.com. 3600 IN DS 35217 15 2 401781b934e392de492ec77ae2e15d70f6575a1c0bc59c5275c04ebe80c6614c
        example.com. 3600 IN MX 10 mail.example.com.
        example.com. 3600 IN RRSIG MX 15 2 3600 ( 1440021600 1438207200 35217 example.com.
            zXQ0bkYgQTEFyfLyi9QoiY6D8ZdYo4wyUhVioYZXFdT410QPRITQSqJSnzQoSm5poJ7gD7AQR0O7KuI5k2pcBg== )",
    );
}

/// Returns the files of the shared collection whose names begin with `start`.
fn shared(start: &str) -> Vec<(String, String)> {
    let directory =
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/scenarios/vectors"));
    let Ok(files) = std::fs::read_dir(&directory) else { return Vec::new() };
    let paths = files.map(|file| file.unwrap().path());
    let named = paths.map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), path));
    let wanted = named.filter(|(name, _)| name.starts_with(start));
    wanted
        .map(|(name, path)| {
            (name, String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned())
        })
        .collect()
}

/// Reports whether the shared collection is missing, and prints a note if so.
fn is_missing<T>(files: &[T]) -> bool {
    if files.is_empty() {
        eprintln!("skipped: there is no ../shared beside the repository");
    }
    files.is_empty()
}

fn entries(text: &str) -> impl Iterator<Item = &str> {
    text.split("ENTRY_BEGIN").skip(1).map(|entry| entry.split("ENTRY_END").next().unwrap())
}

/// Returns the first label of the QNAME.
fn first_label(entry: &str) -> String {
    let question = entry.split("SECTION QUESTION").nth(1).unwrap().lines().map(str::trim);
    let question =
        question.filter(|line| !line.starts_with(';')).find(|line| !line.is_empty()).unwrap();
    question.split('.').next().unwrap().to_owned()
}

#[test]
fn the_shared_signatures_verify_or_are_refused_as_they_say() {
    let files: Vec<_> = shared("test_sig").into_iter().collect();
    if is_missing(&files) {
        return;
    }
    let (mut verified, mut refused, mut unsupported) = (0, 0, 0);
    for (file, text) in files {
        let mut entries = entries(&text);
        let keys = records(entries.next().unwrap());
        let zone = keys[0].owner.clone();
        let keys: Vec<_> = keys.iter().filter_map(|record| Dnskey::read(&record.data)).collect();
        for entry in entries {
            // The collection treats an RRset as bogus if a signature of one of the algorithms is
            // missing. But one signature is enough (RFC 6840 §5.11).
            let one_is_enough = file == "test_sigs.sha1_and_256";
            let is_bogus = first_label(entry) == "bogus";
            let records = records(entry);
            for set in sets(&records) {
                let is_bogus = is_bogus || name::labels(&set.owner).next() == Some(b"bogus");
                let what = format!("{file} {} {}", rdata::display(2, &set.owner), set.rtype);
                match verify(&records, set, &keys, &zone) {
                    Outcome::Verified if !is_bogus || one_is_enough => verified += 1,
                    Outcome::Refused(_) if is_bogus => refused += 1,
                    Outcome::Unsupported => unsupported += 1,
                    Outcome::Unsigned => {}
                    outcome => panic!("{what}: {outcome:?}"),
                }
            }
        }
    }
    eprintln!(
        "{verified} verified, {refused} refused, {unsupported} of unsupported algorithms or key sizes"
    );
    assert!(verified > 100 && unsupported > 0);
}

#[test]
fn the_shared_digests_match_as_they_say() {
    let files = shared("test_ds");
    if is_missing(&files) {
        return;
    }
    let mut counts = [0, 0];
    for entry in files.iter().flat_map(|(_, text)| entries(text)) {
        // The collection uses old mnemonics for algorithms.
        let records = records(&entry.replace(" RSASHA1 ", " 5 "));
        let [ds, key] = records.as_slice() else { panic!("{entry}") };
        let (ds, zone) = (Ds::read(&ds.data).unwrap(), NameBuf::from_wire(&key.owner).unwrap());
        let matches = ds.is_of(&zone, &Dnskey::read(&key.data).unwrap());
        assert_eq!(matches, first_label(entry) == "yes", "{entry}");
        counts[usize::from(matches)] += 1;
    }
    assert!(counts[0] > 2 && counts[1] > 2, "{counts:?}");
}

#[test]
fn the_shared_hashes_are_ours() {
    let files = shared("test_nsec3_hash");
    if is_missing(&files) {
        return;
    }
    let mut budget = Budget::with_limits(Limits { nsec3_hashes: 1000, ..Limits::default() });
    for entry in files.iter().flat_map(|(_, text)| entries(text)) {
        let question = entry.split("SECTION QUESTION").nth(1).unwrap().trim_start();
        let qname = question.split_whitespace().next().unwrap();
        let mut wire = [0; 255];
        let len = text::name_to_wire(qname.as_bytes(), Some(&[0]), &mut wire).unwrap();
        let records = records(entry);
        let nsec3 = records.iter().find(|record| record.rtype == 50).unwrap();
        let zone = name::parent(&nsec3.owner).unwrap();
        let parameters = Nsec3::read(&nsec3.owner, &nsec3.data, zone).unwrap().parameters;
        let expected = name::labels(&records[0].owner).next().unwrap();
        let hash = BASE32_DNSSEC.encode(&parameters.hash(&wire[..len], &mut budget).unwrap());
        assert_eq!(hash.as_bytes(), expected, "{qname}");
    }
    assert!(budget.nsec3_hashes() > 10);
}
