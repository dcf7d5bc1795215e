//! Properties of any octets as the text of a list in each format, as an image and as a policy zone.
//!
//! The first octet selects the kind; the rest is the input.

use avocet_policy::list::{
    Asker, Compiler, Decision, Format, Image, Kind, ListId, ListQuestion, ListSet, Origin,
    Progress, Report, Rewrites, Scratch, Source,
};
use avocet_policy::rpz::{Found, Zone, ZoneRewrites, ZoneSet, Zones};
use avocet_wire::hash::HashKey;
use avocet_wire::master::MasterFile;
use avocet_wire::{NameBuf, Rtype, name};
use siphasher::sip128::{Hasher128, SipHasher13};

/// Names to look up.
const QNAMES: [&[u8]; 6] = [
    b"\x00",
    b"\x07example\x00",
    b"\x03ads\x07example\x03com\x00",
    b"\x01a\x01b\x01c\x01d\x01e\x01f\x00",
    b"\x0dxn--bcher-kva\x07example\x00",
    b"\x041-2_\x03com\x00",
];

/// First octets: a format by its index, then these.
pub(crate) const DETECTED: u8 = 7;
pub(crate) const IMAGE: u8 = 8;
pub(crate) const ZONE: u8 = 9;
const KINDS: u8 = 10;

/// Checks one input.
pub(crate) fn hold(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    match first % KINDS {
        IMAGE => image(rest),
        ZONE => zone(rest),
        DETECTED => text(None, rest),
        place => text(Some(Format::NAMES[usize::from(place)].1), rest),
    }
}

/// Checks that the result does not depend on chunks, and that every match is a line of the text.
fn text(format: Option<Format>, text: &[u8]) {
    let (report, whole) = compile(format, text, text.len().max(1));
    let (same, parts) = compile(format, text, 7);
    assert_eq!((&report, &whole), (&same, &parts));
    assert!(report.faults >= report.first_faults.len() as u64);
    assert!(report.first_faults.iter().all(|fault| (1..=report.lines).contains(&fault.line)));
    let Ok(image) = Image::open(whole) else { panic!("what is compiled can be opened") };
    assert!(report.entries > 0 || image.names() + image.patterns() as u64 == 0);
    ask(&image, report.lines);
}

fn compile(format: Option<Format>, text: &[u8], chunk: usize) -> (Report, Vec<u8>) {
    let mut compiler = Compiler::new([5; 32]);
    let Some(list) = ListId::at(3) else { panic!("few lists") };
    let mut reader = compiler.list(Source {
        list,
        kind: Kind::Block,
        format,
        rewrites: Rewrites::Permitted,
        origin: Origin::Own,
    });
    for part in text.chunks(chunk) {
        if reader.feed(part) == Progress::Enough {
            break;
        }
    }
    (reader.finish(), compiler.finish().0)
}

fn ask(image: &Image, lines: u32) {
    let mut scratch = Scratch::empty();
    for qname in QNAMES {
        let asker =
            Asker { address: "10.1.1.1".parse().ok(), names: &["x".into()], tags: &["y".into()] };
        let question = ListQuestion { qname, qtype: Rtype::A, asker };
        let found = image.lookup(question, &ListSet::ALL, &mut scratch);
        assert!(found.matches().all(|one| (1..=lines).contains(&one.line)));
        assert_eq!(found.deciding().is_some(), found.decision() != Decision::None);
        assert_eq!(found.rewrite().is_some(), found.decision() == Decision::Rewritten);
        let question = ListQuestion { qname, qtype: Rtype::A, asker };
        let none = image.lookup(question, &ListSet::EMPTY, &mut scratch);
        assert_eq!((none.decision(), none.matches().count()), (Decision::None, 0));
    }
}

/// Checks that look-ups in any image that opens terminate without a panic.
fn image(octets: &[u8]) {
    let mut octets = octets.to_vec();
    seal(&mut octets);
    let Ok(image) = Image::open(octets) else { return };
    let mut scratch = Scratch::empty();
    for qname in QNAMES {
        let asker =
            Asker { address: "10.1.1.1".parse().ok(), names: &["x".into()], tags: &["y".into()] };
        let found = image.lookup(
            ListQuestion { qname, qtype: Rtype::A, asker },
            &ListSet::ALL,
            &mut scratch,
        );
        let _ =
            (found.decision(), found.rewrite().map(ToString::to_string), found.matches().count());
    }
}

/// Writes a valid digest to octets that may not be an image.
pub(crate) fn seal(octets: &mut [u8]) {
    if octets.len() < 32 {
        return;
    }
    let mut hasher = SipHasher13::new();
    std::hash::Hasher::write(&mut hasher, &octets[32..]);
    octets[16..32].copy_from_slice(&hasher.finish128().as_u128().to_le_bytes());
}

/// Checks that each trigger that fires is a line of the zone, that a second zone with the same text
/// changes nothing, and that each name with a trigger is found.
fn zone(text: &[u8]) {
    let key = HashKey::new([5; 32]);
    let (zone, report) = Zone::read(text, ZoneRewrites::Permitted, key);
    let lines = text.split(|octet| *octet == b'\n').count() as u32;
    assert!(report.first_faults.iter().all(|fault| (1..=lines).contains(&fault.line)));
    assert!(report.first_faults.is_sorted_by_key(|fault| fault.line));
    let origin = zone.origin();
    let Some(zones) = Zones::of(vec![zone, Zone::read(text, ZoneRewrites::Permitted, key).0])
    else {
        panic!("two zones of one key")
    };
    let addresses = [std::net::IpAddr::from([10, 1, 1, 1]), std::net::IpAddr::from([0; 16])];
    let by_address = [
        zones.on_client(ZoneSet::ALL, addresses[0]),
        zones.on_answer_addresses(ZoneSet::ALL, || addresses.into_iter()),
        zones.on_nsaddresses(ZoneSet::ALL, || addresses.into_iter()),
    ];
    let by_name = QNAMES.iter().flat_map(|qname| on_name(&zones, qname));
    for found in by_name.chain(by_address.into_iter().flatten()) {
        assert!(found.zone == 0 && (1..=lines).contains(&found.line));
        let _ =
            QNAMES.map(|qname| (found.action.alias(qname), found.action.records(Rtype::A).count()));
    }
    if report.faults == report.first_faults.len() as u64 {
        let faulty: Vec<u32> = report.first_faults.iter().map(|fault| fault.line).collect();
        owners_are_found(text, origin.wire(), &faulty, &zones);
    }
}

/// Returns the triggers for a name as QNAME and as the name of a server, which the second zone
/// alone must also yield.
fn on_name<'z>(zones: &'z Zones, name: &[u8]) -> impl Iterator<Item = Found<'z>> {
    let mut second = ZoneSet::default();
    second.insert(1);
    let fired = |set| [zones.on_qname(set, name), zones.on_nsnames(set, || std::iter::once(name))];
    let (both, one) = (fired(ZoneSet::ALL), fired(second));
    let shown = |found: Option<Found<'_>>| {
        found.map(|found| (found.line, found.action.clone(), found.ttl_secs))
    };
    assert_eq!(both.map(shown), one.map(shown));
    both.into_iter().flatten()
}

fn owners_are_found(text: &[u8], origin: &[u8], faulty: &[u32], zones: &Zones) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    for (line, record) in MasterFile::new(text, NameBuf::ROOT) {
        let Ok(record) = record else { continue };
        let Some(own) = record.owner.wire().strip_suffix(origin) else { continue };
        let own = [own, &[0]].concat();
        let last = name::labels(&own).last().unwrap_or_default();
        let is_name = !last.is_empty() && !last.starts_with(b"rpz-") && !own.starts_with(b"\x01*");
        if !is_name || faulty.contains(&line) || is_no_policy(record.rtype) {
            continue;
        }
        let found = zones.on_qname(ZoneSet::ALL, &own);
        assert!(found.is_some_and(|found| found.line <= line), "line {line} is found");
    }
}

/// Reports whether records of this type are no policy.
fn is_no_policy(rtype: Rtype) -> bool {
    rtype.is_dnssec_proof() || matches!(rtype, Rtype::DNAME | Rtype::NS | Rtype::SOA)
}
