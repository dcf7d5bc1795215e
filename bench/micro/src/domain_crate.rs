//! The operations with the crate `domain`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::hint::black_box;

use domain::base::Message;
use domain::base::iana::{Class, Rtype};
use domain::base::message_builder::{MessageBuilder, StaticCompressor};
use domain::base::name::{Name, ParsedName, ToName};
use domain::dep::octseq::{Array, Parser};
use domain::rdata::{A, AllRecordData};

use crate::cell::Cell;
use crate::material;
use crate::rows;

const DOMAIN: &str = rows::DOMAIN;

/// The cells of `domain`.
pub(crate) fn cells() -> Vec<Cell> {
    let mut cells: Vec<Cell> =
        rows::names().into_iter().map(|(row, message, at)| name(row, message, at)).collect();
    for (row, message) in rows::queries() {
        cells.push(Cell::new(row, DOMAIN, move || query(black_box(&message))));
    }
    for (row, messages) in rows::keyed() {
        let mut next = messages.leak().iter().cycle();
        cells.push(Cell::new(row, DOMAIN, move || {
            keyed(black_box(next.next().expect("a cycle has no end")))
        }));
    }
    for (row, message) in rows::responses() {
        cells.push(Cell::new(row, DOMAIN, move || walk(black_box(&message))));
    }
    cells.push(Cell::new(rows::WRITE_RESPONSE, DOMAIN, encode_one));
    cells
}

fn name(row: &'static str, message: Vec<u8>, at: usize) -> Cell {
    Cell::new(row, DOMAIN, move || {
        let mut parser = Parser::from_ref(black_box(&message[..]));
        parser.seek(at).expect("an offset");
        let name = ParsedName::parse(&mut parser).expect("a name");
        black_box(&flattened(&name));
    })
}

fn flattened(name: &ParsedName<&[u8]>) -> Name<Array<255>> {
    name.try_to_name().expect("a name has at most 255 octets")
}

fn query(message: &[u8]) -> (Rtype, Option<u16>) {
    let message = Message::from_octets(message).expect("a message");
    let question = message.sole_question().expect("a question");
    (question.qtype(), message.opt().map(|opt| opt.udp_payload_size()))
}

fn keyed(message: &[u8]) -> u64 {
    let message = Message::from_octets(message).expect("a message");
    let question = message.sole_question().expect("a question");
    black_box(message.opt().map(|opt| opt.udp_payload_size()));
    let mut hasher = DefaultHasher::new();
    question.hash(&mut hasher);
    hasher.finish()
}

fn walk(message: &[u8]) -> usize {
    let message = Message::from_octets(message).expect("a message");
    let mut total = 0;
    for record in message.iter() {
        let (record, _) = record.expect("a record");
        let record = record.into_any_record::<AllRecordData<_, ParsedName<_>>>().expect("data");
        black_box(&flattened(record.owner()));
        match record.data() {
            AllRecordData::Ns(ns) => drop(black_box(flattened(ns.nsdname()))),
            AllRecordData::Cname(cname) => drop(black_box(flattened(cname.cname()))),
            other => drop(black_box(other)),
        }
        total += 1;
    }
    total
}

fn encode_one() -> usize {
    let owner = Name::from_slice(black_box(material::WWW)).expect("a name");
    let target = StaticCompressor::new(Array::<1232>::new());
    let mut message = MessageBuilder::from_target(target).expect("there is room").question();
    message.header_mut().set_id(7);
    message.header_mut().set_qr(true);
    message.header_mut().set_rd(true);
    message.header_mut().set_ra(true);
    message.push((owner, Rtype::A)).expect("there is room");
    let mut message = message.answer();
    message.push((owner, Class::IN, 300, A::from_octets(192, 0, 2, 1))).expect("there is room");
    black_box(message.as_slice()).len()
}
