//! Reading and writing messages.

use std::hint::black_box;

use avocet_wire::builder::Record;
use avocet_wire::hash::HashKey;
use avocet_wire::query::QuestionKey;
use avocet_wire::{Builder, Class, MessageView, NameBuf, QueryView, Rtype, Section};

use crate::cell::Cell;
use crate::material;
use crate::rows::{self, OURS};

/// Octets of the buffer that messages are written to.
const ROOM: usize = 1232;
const SECRET: [u8; 32] = *b"0123456789abcdefFEDCBA9876543210";

/// The cells of Avocet.
pub(crate) fn cells() -> Vec<Cell> {
    let mut cells: Vec<Cell> =
        rows::names().into_iter().map(|(row, message, at)| name(row, message, at)).collect();
    for (row, message) in rows::queries() {
        cells.push(Cell::new(row, OURS, move || {
            QueryView::parse(black_box(&message)).map(|view| view.qtype)
        }));
    }
    for (row, message) in rows::responses() {
        let (mut owner, mut rdata) = (NameBuf::ROOT, [0; 512]);
        cells.push(Cell::new(row, OURS, move || walk(black_box(&message), &mut owner, &mut rdata)));
    }
    cells.extend([
        written(rows::WRITE_QUERY, write_query),
        written(rows::WRITE_RESPONSE, write_response),
    ]);
    cells.extend([write_twelve(), query_round_trip(), response_round_trip(), full_cycle()]);
    cells.push(request_key());
    cells.extend(rows::keyed().map(|(row, messages)| keyed(row, messages)));
    cells
}

fn name(row: &'static str, message: Vec<u8>, at: usize) -> Cell {
    let mut name = NameBuf::ROOT;
    Cell::new(row, OURS, move || {
        let end = name.read_from(black_box(&message), at);
        black_box(&name);
        end
    })
}

/// Computes the key of the caches and of the table of pending queries, from a query that was read.
fn request_key() -> Cell {
    let secret = HashKey::new(SECRET);
    let view =
        QueryView::parse(material::query(material::WWW, Rtype::A, true).leak()).expect("a query");
    let mut key = QuestionKey::EMPTY;
    Cell::new(rows::REQUEST_KEY, OURS, move || {
        key.read(black_box(&view).question(), &secret, 1);
        black_box(&key).hash
    })
}

fn keyed(row: &'static str, messages: Vec<Vec<u8>>) -> Cell {
    let secret = HashKey::new(SECRET);
    let mut next = messages.leak().iter().cycle();
    let mut key = QuestionKey::EMPTY;
    Cell::new(row, OURS, move || {
        let message = next.next().expect("a cycle has no end");
        key.read(QueryView::parse(black_box(message)).expect("a query").question(), &secret, 1);
        black_box(&key).hash
    })
}

/// Reads every record: owner and data, both uncompressed.
fn walk(message: &[u8], owner: &mut NameBuf, rdata: &mut [u8]) -> usize {
    let view = MessageView::new(message).expect("a message");
    let mut total = 0;
    for record in view.records().expect("questions") {
        let record = record.expect("a record");
        record.read_owner(owner).expect("an owner");
        total += record.expand_rdata(rdata).expect("data");
        black_box((&*owner, &*rdata));
    }
    total
}

fn write_query(out: &mut [u8]) -> usize {
    let mut builder = Builder::new(out, ROOM, 7, 0x0100).expect("there is room");
    builder.question(black_box(material::WWW), Rtype::A, Class::IN).expect("there is room");
    builder.finish()
}

fn write_response(out: &mut [u8]) -> usize {
    let mut builder = Builder::new(out, ROOM, 7, 0x8180).expect("there is room");
    builder.question(black_box(material::WWW), Rtype::A, Class::IN).expect("there is room");
    let owner = black_box(material::WWW);
    let address =
        Record { owner, rtype: Rtype::A, class: Class::IN, ttl_secs: 300, rdata: &[192, 0, 2, 1] };
    builder.record(Section::Answer, &address).expect("there is room");
    builder.finish()
}

fn written(row: &'static str, write: fn(&mut [u8]) -> usize) -> Cell {
    let mut out = [0; ROOM];
    Cell::new(row, OURS, move || {
        let len = write(&mut out);
        black_box(&out);
        len
    })
}

fn write_twelve() -> Cell {
    let mut out = [0; ROOM];
    let records = material::twelve();
    Cell::new(rows::WRITE_TWELVE, OURS, move || {
        let mut builder = Builder::new(&mut out, ROOM, 7, 0x8180).expect("there is room");
        builder.question(black_box(material::WWW), Rtype::A, Class::IN).expect("there is room");
        for (section, owner, rtype, rdata) in black_box(&records) {
            let record = Record { owner, rtype: *rtype, class: Class::IN, ttl_secs: 300, rdata };
            builder.record(*section, &record).expect("there is room");
        }
        let len = builder.finish();
        black_box(&out);
        len
    })
}

fn query_round_trip() -> Cell {
    let mut out = [0; ROOM];
    Cell::new(rows::ROUND_TRIP_QUERY, OURS, move || {
        let len = write_query(&mut out);
        QueryView::parse(black_box(&out[..len])).map(|view| view.qtype)
    })
}

fn response_round_trip() -> Cell {
    let mut out = [0; ROOM];
    let (mut owner, mut rdata) = (NameBuf::ROOT, [0; 512]);
    Cell::new(rows::ROUND_TRIP_RESPONSE, OURS, move || {
        let len = write_response(&mut out);
        walk(black_box(&out[..len]), &mut owner, &mut rdata)
    })
}

/// Reads a query, folds and hashes its question, and writes the response.
fn full_cycle() -> Cell {
    let (secret, query) = (HashKey::new(SECRET), material::query(material::WWW, Rtype::A, false));
    let (mut out, mut key) = ([0; ROOM], QuestionKey::EMPTY);
    Cell::new(rows::FULL_CYCLE, OURS, move || {
        key.read(QueryView::parse(black_box(&query)).expect("a query").question(), &secret, 1);
        black_box(&key);
        let len = write_response(&mut out);
        black_box(&out);
        len
    })
}
