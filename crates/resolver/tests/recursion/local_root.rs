//! A copy of the root zone that replaces the root servers (RFC 8806), and copies that are rejected
//! (RFC 8976).

use std::sync::Arc;

use avocet_dnssec::zonemd::{Fault, ZoneRecord};
use avocet_dnssec::{Context, Reason};
use avocet_resolver::{LocalRoot, LocalRootFault, LocalRootSlot, Recursion};
use avocet_testkit::name;
use avocet_wire::{Rcode, Rtype, rdata};
use aws_lc_rs::digest::{SHA384, digest};

use crate::secure::{NOW_SECS, Setup, validation};
use crate::world::{World, recursion};

const SOA: &str = ". 300 SOA a.root. host. 7 1800 900 604800 300";

/// A record of an unknown type.
const UNKNOWN: &str = ". 300 TYPE65400 \\# 2 ABCD";

/// A record in wire form: owner, type, TTL and data.
type Wire = (Vec<u8>, Rtype, u32, Vec<u8>);

fn wire(record: &str) -> Wire {
    let fields: Vec<&str> = record.splitn(4, ' ').collect();
    let rtype = rdata::from_mnemonic(fields[2]).unwrap();
    let mut data = Vec::new();
    rdata::parse(rtype, fields[3], &[0], &mut data).unwrap();
    (name(fields[0]), Rtype(rtype), fields[1].parse().unwrap(), data)
}

/// Returns the root zone of a setup, with its digest. example. is signed and test. is not.
fn zone(setup: &Setup) -> Vec<Wire> {
    let root = &setup.root;
    // The owners are in canonical order.
    let owners: [&[(bool, String)]; 4] = [
        &[
            (true, UNKNOWN.to_owned()),
            (true, ". 300 NS a.root.".to_owned()),
            (true, SOA.to_owned()),
            (true, ". 300 NSEC example. NS SOA RRSIG NSEC DNSKEY ZONEMD TYPE65400".to_owned()),
            (true, root.dnskey()),
        ],
        &[
            (false, "example. 300 NS ns.example.".to_owned()),
            (true, setup.example.ds()),
            (true, "example. 300 NSEC test. NS DS RRSIG NSEC".to_owned()),
        ],
        &[(false, "ns.example. 300 A 192.0.2.2".to_owned())],
        &[
            (false, "test. 300 NS ns.example.".to_owned()),
            (true, "test. 300 NSEC . NS RRSIG NSEC".to_owned()),
        ],
    ];
    let mut digested = Vec::new();
    let mut records: Vec<Wire> = Vec::new();
    for owner in owners {
        let mut here: Vec<Wire> = Vec::new();
        for (is_signed, record) in owner {
            here.push(wire(record));
            if *is_signed {
                here.push(wire(root.sign("an", record)[1].strip_prefix("an ").unwrap()));
            }
        }
        here.sort_by(|a, b| (a.1.0, &a.3).cmp(&(b.1.0, &b.3)));
        for (owner, rtype, ttl_secs, data) in &here {
            digested.extend(
                [&owner[..], &rtype.0.to_be_bytes(), &[0, 1], &ttl_secs.to_be_bytes()].concat(),
            );
            digested.extend([&(data.len() as u16).to_be_bytes(), &data[..]].concat());
        }
        records.extend(here);
    }
    let hex: String =
        digest(&SHA384, &digested).as_ref().iter().map(|octet| format!("{octet:02X}")).collect();
    let zonemd = root.sign("an", &format!(". 300 ZONEMD 7 1 1 {hex}"));
    records.extend(zonemd.iter().map(|record| wire(record.strip_prefix("an ").unwrap())));
    records
}

fn local_root(setup: &Setup, records: &[Wire], now_secs: u64) -> Result<LocalRoot, LocalRootFault> {
    let lend = |(owner, rtype, ttl_secs, rdata): &'_ Wire| {
        (owner.clone(), *rtype, *ttl_secs, rdata.clone())
    };
    let owned: Vec<Wire> = records.iter().map(lend).collect();
    let lent: Vec<ZoneRecord<'_>> = owned
        .iter()
        .map(|(owner, rtype, ttl_secs, rdata)| ZoneRecord {
            owner,
            rtype: *rtype,
            ttl_secs: *ttl_secs,
            rdata,
        })
        .collect();
    let validation = validation(&setup.root);
    LocalRoot::new(
        &lent,
        &validation.anchors,
        &Context { now_secs: now_secs as u32, policy: validation.policy },
    )
}

/// Returns a world with a copy of the root zone that is used until `expires_at_secs`, and with a
/// root server at .1.
fn world(setup: &Setup, expires_at_secs: u64) -> World {
    let slot = LocalRootSlot::default();
    slot.put(Arc::new(local_root(setup, &zone(setup), NOW_SECS).unwrap()), expires_at_secs);
    let validation = Some(validation(&setup.root));
    setup.world_with(Recursion { local_root: Some(slot), validation, priming: true, ..recursion() })
}

#[test]
fn a_referral_with_its_keys_comes_from_the_copy_and_the_roots_servers_are_not_asked() {
    let mut world = world(&Setup::new(), NOW_SECS + 60);
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, &["answer www.example. 300 A 198.51.100.1"]);
    assert!(answer.authentic);
    assert_eq!(world.take_sent(), ["2: example. DNSKEY", "2: www.example. A"]);
}

#[test]
fn names_that_the_root_does_not_have_are_denied_with_proof() {
    let setup = Setup::new();
    for (what, rcode) in
        [("www.nothing. A", Rcode::NXDOMAIN), ("zz. A", Rcode::NXDOMAIN), (". A", Rcode::NOERROR)]
    {
        let mut world = world(&setup, NOW_SECS + 60);
        world.dnssec_ok = true;
        let answer = world.resolve(what);
        assert_eq!((answer.rcode, answer.authentic), (rcode, true), "{what}");
        assert!(answer.records.iter().any(|record| record.contains(" NSEC ")), "{answer:?}");
        assert_eq!(world.take_sent(), Vec::<String>::new());
    }
}

#[test]
fn data_of_the_root_and_ds_records_of_its_children_come_from_the_copy() {
    let setup = Setup::new();
    let mut world = world(&setup, NOW_SECS + 60);
    for what in [". SOA", ". NS", ". DNSKEY", "example. DS"] {
        let answer = world.resolve(what);
        assert!(
            answer.authentic && answer.rcode == Rcode::NOERROR && answer.records.len() == 1,
            "{what}: {answer:?}"
        );
    }
    let denied = world.resolve("test. DS");
    assert_eq!(
        (denied.rcode, denied.authentic),
        (Rcode::NOERROR, true),
        "that it has none is proven"
    );
    assert_eq!(world.take_sent(), Vec::<String>::new());
}

/// A server that reports the copy as current must not keep an old copy in use.
#[test]
fn a_copy_expires_with_its_signatures_however_often_it_is_found_to_be_the_latest() {
    let copy = |expires_at_secs| {
        let mut setup = Setup::new();
        setup.root.expires_at_secs = expires_at_secs;
        local_root(&setup, &zone(&setup), NOW_SECS).unwrap()
    };
    // The expiry time in the SOA record is 604,800 seconds.
    assert_eq!(copy(NOW_SECS + 86_400).expires_at_secs(NOW_SECS + 80_000), NOW_SECS + 86_400);
    assert_eq!(copy(NOW_SECS + 5_000).expires_at_secs(NOW_SECS), NOW_SECS + 5_000);
    assert_eq!(copy(NOW_SECS + 86_400).expires_at_secs(NOW_SECS - 600_000), NOW_SECS + 4_800);
}

/// If a copy with such a type were rejected, names would not resolve after the previous copy has
/// expired.
#[test]
fn a_copy_may_have_types_that_nobody_knows() {
    let mut world = world(&Setup::new(), NOW_SECS + 60);
    let answer = world.resolve(". TYPE65400");
    answer.check(Rcode::NOERROR, &[&format!("answer {UNKNOWN}")]);
    assert!(answer.authentic);
    assert_eq!(world.take_sent(), Vec::<String>::new());
}

#[test]
fn a_copy_that_has_expired_is_not_used() {
    let mut world = world(&Setup::new(), NOW_SECS);
    assert!(world.resolve("www.example. A").authentic);
    assert!(world.take_sent().iter().any(|sent| sent.starts_with("1: ")), "using the root servers");
}

#[test]
fn a_copy_that_was_changed_or_is_out_of_its_time_is_refused() {
    let setup = Setup::new();
    let whole = zone(&setup);
    let refused = |records: &[Wire], now_secs| local_root(&setup, records, now_secs).unwrap_err();
    for at in 0..whole.len() {
        let mut less = whole.clone();
        less.remove(at);
        let mut other = whole.clone();
        *other[at].3.last_mut().unwrap() ^= 1;
        let mut longer = whole.clone();
        longer[at].2 += 1;
        for records in [less, other] {
            refused(&records, NOW_SECS);
        }
        let (_, rtype, _, data) = &whole[at];
        let is_digest = rtype.0 == 63 || *rtype == Rtype::RRSIG && data.starts_with(&[0, 63]);
        assert_eq!(local_root(&setup, &longer, NOW_SECS).is_ok(), is_digest, "the TTL of {rtype}");
    }
    let late = refused(&whole, NOW_SECS + 2 * 86_400);
    assert!(
        matches!(late, LocalRootFault::Digest(Fault::Unverified(_, Reason::SignatureExpired))),
        "{late:?}"
    );
    let mut other = Setup::new();
    other.root = other.example;
    other.example = Setup::new().example;
    assert!(local_root(&other, &whole, NOW_SECS).is_err(), "another anchor");
}
