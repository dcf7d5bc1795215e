//! Checks that a look-up does not allocate once its memory has been used.

use avocet_policy::list::{
    Asker, Compiler, Decision, Format, Image, Kind, ListId, ListQuestion, ListSet, Origin,
    Rewrites, Scratch, Source,
};
use avocet_policy::rpz::{Zone, ZoneRewrites, ZoneSet, Zones};
use avocet_testkit::allocations::{Allocations, Counting};
use avocet_wire::Rtype;
use avocet_wire::hash::HashKey;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TEXT: &[u8] =
    b"||ads.example^\n@@||ok.ads.example^$client=10.0.0.0/8\n||r.example^$dnsrewrite=192.0.2.1\n\
    /^track[0-9]+\\./\n/^[0-9]+\\./\n||cdn*.ads|\n||x.example^$dnstype=A\n||x.example^$badfilter\n";

const NAMES: [&[u8]; 7] = [
    b"\x03www\x07example\x03org\x00",
    b"\x01a\x03ads\x07example\x00",
    b"\x02ok\x03ads\x07example\x00",
    b"\x01r\x07example\x00",
    b"\x06track7\x01x\x00",
    b"\x0212\x01x\x00",
    b"\x04cdn1\x03ads\x00",
];

#[test]
fn no_look_up_allocates() {
    let mut compiler = Compiler::new([1; 32]);
    let list = ListId::at(0).unwrap_or_else(|| unreachable!("the first list"));
    let format = Some(Format::Adblock);
    let mut reader = compiler.list(Source {
        list,
        kind: Kind::Block,
        format,
        rewrites: Rewrites::Permitted,
        origin: Origin::Own,
    });
    let _ = reader.feed(TEXT);
    assert_eq!(reader.finish().entries, 8);
    let Ok(image) = Image::open(compiler.finish().0) else { panic!("the image is whole") };
    let mut scratch = Scratch::empty();
    let asker = Asker { address: "10.0.0.1".parse().ok(), names: &["x".into()], tags: &[] };
    let mut decisions = Vec::with_capacity(NAMES.len());
    let mut ask_all = |decisions: &mut Vec<Decision>| {
        for qname in NAMES {
            let question = ListQuestion { qname, qtype: Rtype::A, asker };
            let found = image.lookup(question, &ListSet::ALL, &mut scratch);
            assert!(found.matches().count() < 3 && found.deciding().is_none_or(|one| one.line < 9));
            decisions.push(found.decision());
        }
    };
    // Twice, because a lazy automaton builds its states on first use.
    ask_all(&mut decisions);
    decisions.clear();
    ask_all(&mut decisions);
    decisions.clear();
    let made = Allocations::of(|| ask_all(&mut decisions));
    assert_eq!(made, Allocations { count: 0, bytes: 0 });
    use Decision::{Allowed, Blocked, None, Rewritten};
    assert_eq!(decisions, [None, Blocked, Allowed, Rewritten, Blocked, Blocked, Blocked]);
}

#[test]
fn no_look_up_in_policy_zones_allocates() {
    let key = HashKey::new([1; 32]);
    let read = |text: &str| Zone::read(text.as_bytes(), ZoneRewrites::Permitted, key).0;
    let zones = [
        "@ SOA a. b. 1 2 3 4 5\n*.ads.example CNAME .\ncdn1.ads CNAME *.\n8.0.0.0.10.rpz-ip CNAME .\n",
        "@ SOA a. b. 1 2 3 4 5\nr.example A 192.0.2.1\n*.example.rpz-nsdname CNAME .\n24.0.0.0.10.rpz-nsip CNAME .\n",
    ];
    let Some(zones) = Zones::of(zones.map(read).into()) else { panic!("two zones") };
    let address = std::net::IpAddr::from([10, 0, 0, 1]);
    let fired = |name: &[u8]| {
        let addresses = || std::iter::once(address);
        [
            zones.on_qname(ZoneSet::ALL, name),
            zones.on_nsnames(ZoneSet::ALL, || std::iter::once(name)),
            zones.on_answer_addresses(ZoneSet::ALL, addresses),
            zones.on_nsaddresses(ZoneSet::ALL, addresses),
            zones.on_client(ZoneSet::ALL, address),
        ]
        .map(|found| found.is_some())
    };
    let mut all = [[false; 5]; NAMES.len()];
    let made = Allocations::of(|| all = NAMES.map(fired));
    assert_eq!(made, Allocations { count: 0, bytes: 0 });
    let counts: [usize; 5] =
        std::array::from_fn(|kind| all.iter().filter(|fired| fired[kind]).count());
    // Four of the seven names have triggers, and three are below a name of a server. The address is
    // always the same.
    assert_eq!(counts, [4, 3, 7, 7, 0]);
}
