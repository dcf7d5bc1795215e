//! Checks that reading a query, iterating a response and writing one do not allocate.

#[path = "messages/specimens.rs"]
mod specimens;

use avocet_testkit::allocations::{Allocations, Counting};
use avocet_wire::builder::{OptFields, Record};
use avocet_wire::hash::HashKey;
use avocet_wire::{Builder, Class, MessageView, NameBuf, QueryView, Rcode, Rtype, Section};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    Allocations::of(work).count
}

fn named(name: &str) -> Vec<u8> {
    specimens::all().into_iter().find(|specimen| specimen.0 == name).expect(name).1
}

#[test]
fn allocations_are_counted() {
    assert_eq!(allocations(|| drop(std::hint::black_box(Box::new(1)))), 1);
}

#[test]
fn reading_a_query_and_its_key_allocates_nothing() {
    let secret = HashKey::new([3; 32]);
    for name in ["query-a", "edns-many", "query-escaped"] {
        let octets = named(name);
        let count = allocations(|| {
            let query = QueryView::parse(&octets).unwrap();
            let options = query.edns.map_or(0, |edns| edns.options().flatten().count());
            assert!(options < 32 && !query.key(&secret, 1).question().octets().is_empty());
        });
        assert_eq!(count, 0, "{name}");
    }
}

#[test]
fn walking_a_response_allocates_nothing() {
    let octets = named("answer-twelve");
    let mut walked = 0;
    let count = allocations(|| {
        let (mut owner, mut rdata) = (NameBuf::ROOT, [0; 512]);
        for record in MessageView::new(&octets).unwrap().records().unwrap() {
            let record = record.unwrap();
            record.read_owner(&mut owner).unwrap();
            assert!(record.expand_rdata(&mut rdata).unwrap() >= 4);
            walked += 1;
        }
    });
    assert_eq!((count, walked), (0, 12));
}

#[test]
fn writing_a_response_allocates_nothing() {
    let mut out = [0; 1232];
    let mut len = 0;
    let count = allocations(|| {
        let mut builder = Builder::new(&mut out, 1232, 7, 0x8180).unwrap();
        let owner = b"\x03www\x07example\x03com\x00";
        builder.question(owner, Rtype::A, Class::IN).unwrap();
        for (section, rtype, rdata) in [
            (Section::Answer, Rtype::CNAME, &b"\x04edge\x07example\x03net\x00"[..]),
            (Section::Answer, Rtype::A, &[192, 0, 2, 1]),
            (Section::Authority, Rtype::NS, b"\x02ns\x07example\x03NET\x00"),
        ] {
            let record = Record { owner, rtype, class: Class::IN, ttl_secs: 60, rdata };
            builder.record(section, &record).unwrap();
        }
        builder.opt(&OptFields { udp_size: 1232, rcode: Rcode(0), dnssec_ok: true }, &[]).unwrap();
        len = builder.finish();
    });
    assert_eq!(count, 0);
    assert_eq!(MessageView::new(&out[..len]).unwrap().records().unwrap().count(), 4);
}
