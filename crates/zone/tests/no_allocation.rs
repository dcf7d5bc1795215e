//! Tests that authoritative answers allocate nothing, and that the tree takes the memory that it
//! reports.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

use std::path::Path;
use std::sync::Arc;

use avocet_testkit::allocations::{Allocations, Counting, live_bytes};
use avocet_wire::name::MAX_NAME;
use avocet_wire::{FoldedName, FoldedNameBuf, Rcode, Rtype, text};
use avocet_zone::{HostedQuestion, HostedZone, HostedZones, Proofs, answer, load};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const APEX: &[u8] = b"\x07example\x00";

/// NSEC records without signatures are enough for the look-up of proofs.
const ZONE: &str = "$TTL 60
@ SOA ns h 1 2 3 4 5
@ NS ns
@ NSEC alias SOA NS NSEC
ns A 192.0.2.1
alias CNAME www
alias NSEC dn CNAME NSEC
dn DNAME sub
dn NSEC mx DNAME NSEC
mx MX 10 www
mx NSEC ns MX NSEC
ns NSEC sub A NSEC
sub NS ns.sub
sub NSEC www NS NSEC
ns.sub A 192.0.2.2
*.wild TXT w
*.wild NSEC www TXT NSEC
www A 192.0.2.3
www NSEC @ A NSEC
";

fn zone(text: &str) -> HostedZone {
    let apex = FoldedName::new(APEX).unwrap();
    let mut open = |_: &Path, _: u64| Ok(text.as_bytes().to_vec());
    let (zone, faults) = load(apex, Path::new("example"), 0, &mut open);
    zone.unwrap_or_else(|| panic!("{:?}", faults.list()))
}

fn name(text: &str) -> FoldedNameBuf {
    let mut wire = [0; MAX_NAME];
    let len = text::name_to_wire(text.as_bytes(), None, &mut wire).unwrap();
    FoldedNameBuf::from_wire(&wire[..len]).unwrap()
}

#[test]
fn answers_of_every_kind_allocate_nothing() {
    let zones: HostedZones = [(Box::from(APEX), Some(Arc::new(zone(ZONE))))].into_iter().collect();
    let mut out = [0; 1232];
    for (qname, qtype, rcode) in [
        ("www.example.", Rtype::A, Rcode::NOERROR),
        ("www.example.", Rtype::AAAA, Rcode::NOERROR),
        ("example.", Rtype::ANY, Rcode::NOERROR),
        ("mx.example.", Rtype::MX, Rcode::NOERROR),
        ("alias.example.", Rtype::A, Rcode::NOERROR),
        ("x.dn.example.", Rtype::A, Rcode::NOERROR),
        ("a.sub.example.", Rtype::A, Rcode::NOERROR),
        ("a.wild.example.", Rtype::TXT, Rcode::NOERROR),
        ("nope.example.", Rtype::A, Rcode::NXDOMAIN),
    ] {
        for proofs in [Proofs::Included, Proofs::Omitted] {
            let qname = name(qname);
            let question = HostedQuestion { qname: qname.view(), qtype, proofs, limit: 1232 };
            let mut found = None;
            let made = Allocations::of(|| found = answer(&zones, &question, &mut out));
            assert_eq!(found.map(|found| found.rcode), Some(rcode), "{qname}");
            assert_eq!(made, Allocations { count: 0, bytes: 0 }, "{qname} {qtype}");
        }
    }
}

#[test]
fn a_zone_takes_the_memory_that_it_reports_and_at_most_a_hundred_octets_a_record() {
    let hosts: String =
        (0..20_000).map(|host| format!("host-{host:x} A 10.0.{}.1\n", host % 256)).collect();
    let before = live_bytes();
    let zone = zone(&format!("$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{hosts}"));
    let taken = live_bytes() - before;
    let reported = zone.memory_octets() as i64 - size_of::<HostedZone>() as i64;
    assert_eq!(taken, reported);
    assert!(taken <= 100 * i64::from(zone.records()), "{taken}");
}
