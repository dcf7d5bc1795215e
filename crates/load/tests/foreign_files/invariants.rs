//! Properties of any octets as an input file: a recording, a query file, a zone file.

use std::io::{BufReader, Read};

use avocet_load::{Form, Questions, Recording, Zone};
use avocet_wire::name::{self, NameBuf};
use avocet_wire::{Class, QueryView, Rcode, Rtype, text};

const FORM: Form = Form { edns_size: Some(1232), dnssec_ok: true };

/// Octets of the longest accepted query.
const MAX_QUERY: usize = 512;

/// Names below an owner that are queried as well.
const BELOW: [&[u8]; 2] = [b"x", b"*"];

/// A reader that returns one octet at a time, as a pipe may.
struct Dripping<'t>(&'t [u8]);

impl Read for Dripping<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        match (self.0.split_first(), out.first_mut()) {
            (Some((octet, rest)), Some(place)) => {
                (*place, self.0) = (*octet, rest);
                Ok(1)
            }
            _ => Ok(0),
        }
    }
}

/// Checks that queries of a recording are complete, in order, and have a client.
pub(crate) fn recording(octets: &[u8]) {
    let read = Recording::read(octets).map_err(|error| error.to_string());
    let dripped = Recording::read(Dripping(octets)).map_err(|error| error.to_string());
    assert_eq!(read, dripped, "however it comes");
    let Ok(read) = read else { return };
    let count = read.questions.len();
    assert_eq!((read.due_ns.len(), read.clients.len()), (count, count));
    assert_eq!(read.due_ns.first(), Some(&0));
    assert!(read.due_ns.is_sorted());
    assert!(read.clients.iter().all(|client| (*client as usize) < read.client_count));
    whole(&read.questions);
}

/// Checks that each query of a file is complete, and that its question survives a round trip as a
/// line.
pub(crate) fn queries(octets: &[u8]) {
    let read = Questions::read(octets, &FORM).map_err(|error| error.to_string());
    let dripped = Questions::read(BufReader::with_capacity(1, Dripping(octets)), &FORM);
    assert_eq!(read, dripped.map_err(|error| error.to_string()), "however it comes");
    let Ok(read) = read else { return };
    whole(&read);
    let mut lines = String::new();
    for at in 0..read.len() {
        let Ok(view) = QueryView::parse(read.query(at)) else {
            panic!("a query that was made is none")
        };
        assert_eq!(view.qclass, Class::IN);
        let Ok(name) = NameBuf::from_wire(&view.question()[..view.question().len() - 4]) else {
            panic!("no name")
        };
        lines.extend([written(&name), format!(" TYPE{}\n", view.qtype.0)]);
    }
    assert_eq!(Questions::read(lines.as_bytes(), &FORM).ok(), Some(read), "{lines}");
}

/// Writes a name for a query file, with a leading comment character escaped.
fn written(name: &NameBuf) -> String {
    let mut out = String::new();
    assert!(text::write_name(name.wire(), &mut out).is_ok());
    if out.starts_with('#') { format!("\\{out}") } else { out }
}

fn whole(questions: &Questions) {
    for at in 0..questions.len() {
        let query = questions.query(at);
        assert!(query.len() <= MAX_QUERY);
        let Ok(view) = QueryView::parse(query) else { panic!("query {at} is none: {query:?}") };
        assert_eq!(view.question(), questions.question(at));
    }
}

/// Checks that the zone's data is found, that names elsewhere are not judged, and that every search
/// ends.
pub(crate) fn zone_file(octets: &[u8]) {
    let Ok(zone) = Zone::parse(octets) else { return };
    let apex = *zone.apex();
    assert!(zone.answer(&apex, Rtype::SOA).is_none_or(|answer| answer.rcodes.has(Rcode::NOERROR)));
    for (owner, rtype) in zone.large_rrsets(0) {
        let answer = zone.answer(&owner, rtype);
        if !name::is_under(owner.wire(), apex.wire()) {
            assert_eq!(answer, None, "{owner} is not in {apex}");
            continue;
        }
        assert!(answer.is_none_or(|answer| !answer.rcodes.has(Rcode::NXDOMAIN)), "{owner} {rtype}");
        for name in BELOW.iter().filter_map(|label| owner.prefixed(label).ok()) {
            let _ = zone.answer(&name, Rtype::A);
        }
    }
}
