//! Handmade messages that attack their reader or writer, and responses cut short at every octet.
//!
//! To show that the work is bounded, the tests count what is read and written instead of measuring
//! time.

#[path = "messages/hostile.rs"]
mod hostile;
#[path = "messages/specimens.rs"]
mod specimens;

use avocet_wire::builder::Record;
use avocet_wire::edns::{EdnsError, MAX_OPTIONS};
use avocet_wire::name::{MAX_NAME, NameError};
use avocet_wire::{
    Builder, Class, MessageView, NameBuf, QueryError, QueryView, Rtype, Section, WireError,
};

use hostile::Fate;

/// Maximum number of octets of a message.
const LARGEST: usize = 65_535;
/// Number of octets of a record without owner and data.
const FIXED: usize = 10;

/// Reads the whole message and returns the outcome.
fn fate(octets: &[u8]) -> Fate {
    let Ok(view) = MessageView::new(octets) else { return Fate::NoMessage };
    if view.questions().any(|question| question.map_or(true, |question| question.qname().is_err()))
    {
        return Fate::BadQuestion;
    }
    let (mut walked, mut read) = (0, 0);
    let mut rdata = vec![0; LARGEST + 3 * MAX_NAME];
    for record in view.records().expect("the questions were read") {
        let Ok(record) = record else { return Fate::WalkedTo(walked) };
        walked += 1;
        read += usize::from(record.owner().is_ok() && record.expand_rdata(&mut rdata).is_ok());
    }
    if read == walked { Fate::Sound } else { Fate::Unreadable(walked - read) }
}

#[test]
fn hostile_messages_are_refused_at_the_place_that_is_wrong() {
    let cases = hostile::all();
    assert!(cases.len() >= 30);
    let wrong: Vec<_> = cases
        .iter()
        .map(|(name, expected, octets)| (name, expected, fate(octets)))
        .filter(|(_, expected, found)| *expected != found)
        .collect();
    assert!(wrong.is_empty(), "name, expected, found: {wrong:?}");
}

#[test]
fn answers_cut_short_anywhere_are_refused() {
    for (name, octets) in specimens::all() {
        assert_eq!(fate(&octets), Fate::Sound, "{name}");
        let records = MessageView::new(&octets).unwrap().records().unwrap().count();
        for len in 0..octets.len() {
            match fate(&octets[..len]) {
                Fate::NoMessage => assert!(len < 12, "{name} of {len}"),
                Fate::BadQuestion => {}
                Fate::WalkedTo(walked) => assert!(walked < records, "{name} of {len}"),
                other => panic!("{name} of {len}: {other:?}"),
            }
            let query = QueryView::parse(&octets[..len]);
            assert!(query.is_err(), "{name} of {len}");
        }
    }
}

#[test]
fn a_flood_of_empty_options_is_read_to_the_bound() {
    let octets = hostile::option_flood(16_000);
    assert!(octets.len() > 64_000);
    let edns = QueryView::parse(&octets).unwrap().edns.unwrap();
    assert_eq!(edns.options().count(), MAX_OPTIONS + 1);
    assert_eq!(edns.options().last(), Some(Err(EdnsError::TooManyOptions)));
    let few = hostile::option_flood(MAX_OPTIONS as u16);
    let edns = QueryView::parse(&few).unwrap().edns.unwrap();
    assert_eq!(edns.options().filter(Result::is_ok).count(), MAX_OPTIONS);
}

#[test]
fn names_of_255_octets_pass_and_of_256_do_not_on_every_way() {
    for (octets, passes) in [(255, true), (256, false)] {
        let name = hostile::long_name(octets);
        let mut query = hostile::header([1, 0, 0, 0]);
        query[2] = 1;
        query.extend_from_slice(&name);
        query.extend_from_slice(b"\x00\x01\x00\x01");
        assert_eq!(name.len(), octets);
        assert_eq!(QueryView::parse(&query).is_ok(), passes);
        assert_eq!(NameBuf::from_wire(&name).is_ok(), passes);
        assert_eq!(NameBuf::read(&query, 12).is_ok(), passes);
        let question = MessageView::new(&query).unwrap().question();
        assert_eq!(question.is_ok(), passes);
    }
    assert_eq!(NameBuf::read(&hostile::long_name(256), 0), Err(NameError::TooLong));
    assert_eq!(
        QueryView::parse(&hostile::header([1, 0, 0, 0])[..11]).err(),
        Some(QueryError::Ignore)
    );
}

#[test]
fn two_opt_records_are_an_error() {
    let (_, _, octets) = hostile::all().into_iter().find(|case| case.0 == "two-opt").unwrap();
    let view = MessageView::new(&octets).unwrap();
    assert_eq!(view.edns(), Err(WireError::Edns(EdnsError::Repeated)));
}

/// Writes the same kind of record until the message is full. Returns the octets and the number of
/// records.
fn filled(mut record: impl FnMut(usize) -> (Vec<u8>, Rtype, Vec<u8>)) -> (Vec<u8>, usize) {
    let mut out = vec![0; LARGEST];
    let mut builder = Builder::new(&mut out, LARGEST, 7, 0x8180).expect("there is room");
    builder.question(b"\x01q\x00", Rtype::NS, Class::IN).expect("there is room");
    let mut count = 0;
    loop {
        let (owner, rtype, rdata) = record(count);
        let record = Record { owner: &owner, rtype, class: Class::IN, ttl_secs: 1, rdata: &rdata };
        if builder.record(Section::Answer, &record).is_err() {
            break;
        }
        count += 1;
    }
    let len = builder.finish();
    out.truncate(len);
    (out, count)
}

/// Returns a name of 127 labels with one octet each. The last labels encode `number`.
fn bushy(number: usize) -> Vec<u8> {
    let digits = (0..127).map(|at| if at < 114 { 0 } else { number >> (126 - at) & 1 });
    let mut name: Vec<u8> = digits.flat_map(|bit| [1, b'a' + bit as u8]).collect();
    name.push(0);
    name
}

#[test]
fn the_largest_answers_are_read_in_as_many_steps_as_they_have_records() {
    // The message with the most records: each has the shortest owner and no data.
    let (octets, count) = filled(|_| (vec![0], Rtype(65_280), vec![]));
    assert_eq!(count, (LARGEST - 12 - 7) / (1 + FIXED));
    assert_eq!(fate(&octets), Fate::Sound);
    // The message with the most pointers: each owner and each server name is a pointer.
    let (octets, count) = filled(|_| (b"\x01q\x00".to_vec(), Rtype::NS, b"\x01q\x00".to_vec()));
    assert_eq!(count, (LARGEST - 12 - 7) / (2 + FIXED + 2));
    assert_eq!(fate(&octets), Fate::Sound);
}

#[test]
fn names_that_are_hard_to_compress_are_written_in_full_once_they_cost_too_much() {
    // Each name has 127 labels. Compressing all names would take 127 steps each.
    let same = |_: usize| (bushy(0), Rtype(65_280), vec![]);
    let (octets, count) = filled(same);
    let view = MessageView::new(&octets).unwrap();
    let owners: Vec<_> =
        view.records().unwrap().map(|record| record.unwrap().owner().unwrap()).collect();
    assert_eq!(owners.len(), count);
    assert!(owners.iter().all(|owner| owner.wire() == bushy(0)));
    let sizes = record_sizes(&octets);
    let compressed = sizes.iter().filter(|size| **size < FIXED + 255).count();
    assert!((64..=65_536 / 127).contains(&compressed), "{compressed} of {count}");
    assert_eq!(sizes.last(), Some(&(FIXED + 255)), "the rest is in full");
    // Names that differ only near the root cannot be compressed, and fill the message after a few
    // records.
    let (octets, count) = filled(|number| (bushy(number + 1), Rtype(65_280), vec![]));
    assert!(count < LARGEST / 200, "{count}");
    assert_eq!(fate(&octets), Fate::Sound);
}

/// Returns the size of each record in octets.
fn record_sizes(octets: &[u8]) -> Vec<usize> {
    let view = MessageView::new(octets).expect("a sound message");
    let mut starts: Vec<_> = view
        .records()
        .expect("a sound message")
        .map(|record| record.expect("a sound message").offset())
        .collect();
    starts.push(octets.len());
    starts.windows(2).map(|pair| pair[1] - pair[0]).collect()
}
