//! The crate `domain` orders and encodes the records of an RRset, and a key signs the result. This
//! crate must accept the signature.

use std::cmp::Ordering;

use avocet_wire::canonical::compare_names;
use domain::base::iana::{Rtype, SecurityAlgorithm};
use domain::base::name::FlattenInto;
use domain::base::{CanonicalOrd, Name, Record, RecordData as _, Ttl};
use domain::rdata::ZoneRecordData;
use domain::rdata::dnssec::{ProtoRrsig, Timestamp};
use domain::zonefile::inplace::{Entry, Zonefile};

use crate::chains::keys_of;
use crate::random::Random;
use crate::sets::{NOW, Set};
use crate::signatures::verify;
use crate::signer::Signer;

type TheirName = Name<Vec<u8>>;

fn scan(
    owner: &str,
    mnemonic: &str,
    text: &str,
) -> Record<TheirName, ZoneRecordData<Vec<u8>, TheirName>> {
    let mut zone = Zonefile::new();
    zone.extend_from_slice(format!("{owner} 3600 IN {mnemonic} {text}\n").as_bytes());
    zone.set_origin(Name::root());
    match zone.next_entry() {
        Ok(Some(Entry::Record(record))) => record.flatten_into(),
        other => panic!("{text}: {other:?}"),
    }
}

/// Returns the signature of the RRset over the data that `domain` computes.
fn signed_by_the_other(signer: &Signer, owner: &str, mnemonic: &str, texts: &[&str]) -> Vec<u8> {
    let mut records: Vec<_> = texts.iter().map(|text| scan(owner, mnemonic, text)).collect();
    records.sort_by(|a, b| a.data().canonical_cmp(b.data()));
    let labels = owner.split('.').filter(|label| !label.is_empty() && *label != "*").count() as u8;
    let rtype: Rtype = records[0].data().rtype();
    let head = ProtoRrsig::new(
        rtype,
        SecurityAlgorithm::ECDSAP256SHA256,
        labels,
        Ttl::from_secs(3600),
        Timestamp::from(NOW + 1000),
        Timestamp::from(NOW - 1000),
        signer.tag(),
        "Example.".parse::<TheirName>().unwrap(),
    );
    let (mut message, mut data) = (Vec::new(), Vec::new());
    head.compose_canonical(&mut message).unwrap();
    head.compose(&mut data).unwrap();
    for record in records {
        record.compose_canonical(&mut message).unwrap();
    }
    data.extend(signer.signature(&message));
    data
}

const SETS: &[(&str, &str, &[&str])] = &[
    ("www.Example.", "A", &["192.0.2.200", "192.0.2.3", "10.0.0.1"]),
    ("A.B.example.", "AAAA", &["2001:db8::2", "2001:db8::1"]),
    ("example.", "NS", &["NS2.example.", "a.ns.example.", "ns1.Example."]),
    ("example.", "SOA", &["NS1.Example. Root.example. 1 2 3 4 5"]),
    ("mail.example.", "MX", &["10 B.example.", "10 a.example.", "5 zzz.example.", "5 z.example."]),
    ("*.w.example.", "TXT", &["\"B\" \"a\"", "\"b\"", "A", "\"\""]),
    ("s.example.", "SRV", &["1 2 3 Host.example.", "1 2 3 host1.example."]),
    ("n.example.", "NAPTR", &["10 20 \"S\" \"SIP+D2U\" \"\" _Sip._udp.Example."]),
    ("d.example.", "DNAME", &["Target.Example."]),
    ("c.example.", "CNAME", &["Target.Example."]),
    ("p.example.", "PTR", &["Host.Example."]),
    ("h.example.", "HINFO", &["CPU OS"]),
    ("r.example.", "RP", &["Admin.example. Txt.example."]),
    ("k.example.", "DS", &["1 13 2 0011", "1 13 1 0011"]),
    ("x.example.", "HTTPS", &["1 Svc.Example. alpn=h2", "0 Alias.Example."]),
    ("t.example.", "TLSA", &["3 1 1 00ff", "3 1 1 00"]),
    ("y.example.", "CAA", &["0 issue \"Ca.example\"", "0 iodef \"mailto:a@b\""]),
    ("a.example.", "NSEC", &["B.Example. A RRSIG NSEC"]),
    ("u.example.", "TYPE65300", &["\\# 3 414243", "\\# 2 6162"]),
];

#[test]
fn what_the_other_signs_verifies() {
    let signer = Signer::of("example.");
    let keys = keys_of(&signer);
    for (owner, mnemonic, texts) in SETS {
        let mut set = match mnemonic.strip_prefix("TYPE") {
            None => Set::of(owner, mnemonic, texts),
            Some(number) => {
                let mut set = Set::of(owner, "TXT", &[]);
                set.rtype = avocet_wire::Rtype(number.parse().unwrap());
                set.records = vec![b"ABC".to_vec(), b"ab".to_vec()];
                set
            }
        };
        set.signatures = vec![signed_by_the_other(&signer, owner, mnemonic, texts)];
        assert!(verify(&set, &keys).is_ok(), "{owner} {mnemonic}: {:?}", verify(&set, &keys));
        set.records.reverse();
        assert!(verify(&set, &keys).is_ok(), "{owner} {mnemonic} reversed");
    }
}

fn random_name(random: &mut Random) -> Vec<u8> {
    const OCTETS: &[u8] = b"aAbB*-\x00\x01\x41\x5a\x5b\x60\x7b\xff.";
    let mut wire = Vec::new();
    for _ in 0..random.below(5) {
        let len = 1 + random.below(4);
        wire.push(len as u8);
        wire.extend((0..len).map(|_| OCTETS[random.below(OCTETS.len())]));
    }
    wire.push(0);
    wire
}

#[test]
fn names_are_ordered_as_there() {
    let mut random = Random(0xd0_4a11);
    let mut equal = 0;
    for _ in 0..50_000 {
        let (a, b) = (random_name(&mut random), random_name(&mut random));
        let theirs = |wire: &[u8]| Name::from_octets(wire.to_vec()).unwrap();
        let order = theirs(&a).canonical_cmp(&theirs(&b));
        assert_eq!(compare_names(&a, &b), order, "{a:?} {b:?}");
        equal += usize::from(order == Ordering::Equal);
    }
    assert!(equal > 100, "{equal}");
}
