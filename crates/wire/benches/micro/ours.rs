//! The operations as Avocet does them.

use std::hint::black_box;

use avocet_wire::builder::Record;
use avocet_wire::hash::HashKey;
use avocet_wire::{Builder, Class, MessageView, NameBuf, QueryView, Rtype, Section};

use crate::material;
use crate::rows;
use crate::table::Cell;

const OURS: &str = rows::OURS;

/// Our cell of every row.
pub(crate) fn cells() -> Vec<Cell> {
    let mut cells: Vec<Cell> = rows::names().into_iter().map(|(row, message, at)| name(row, message, at)).collect();
    for (row, message) in rows::queries() {
        cells.push(Cell::new(row, OURS, move || QueryView::parse(black_box(&message)).map(|view| view.qtype)));
    }
    for (row, messages) in rows::keyed() {
        cells.push(keyed(row, messages));
    }
    for (row, message) in rows::responses() {
        let (mut owner, mut rdata) = (NameBuf::ROOT, [0; 512]);
        cells.push(Cell::new(row, OURS, move || walk(black_box(&message), &mut owner, &mut rdata)));
    }
    cells.push(encode_one());
    cells.push(encode_twelve());
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

fn keyed(row: &'static str, messages: Vec<Vec<u8>>) -> Cell {
    let secret = HashKey::new(*b"0123456789abcdefFEDCBA9876543210");
    let mut next = messages.into_iter().collect::<Vec<_>>().leak().iter().cycle();
    Cell::new(row, OURS, move || {
        let message = next.next().expect("a cycle has no end");
        let key = QueryView::parse(black_box(message)).expect("a query").key(&secret, 1);
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

fn encode_one() -> Cell {
    let mut out = [0; 1232];
    Cell::new(rows::ENCODE_ONE, OURS, move || {
        let mut builder = Builder::new(&mut out, 1232, 7, 0x8180).expect("there is room");
        builder.question(black_box(material::WWW), Rtype::A, Class::IN).expect("there is room");
        let owner = black_box(material::WWW);
        let address = Record { owner, rtype: Rtype::A, class: Class::IN, ttl_secs: 300, rdata: &[192, 0, 2, 1] };
        builder.record(Section::Answer, &address).expect("there is room");
        let len = builder.finish();
        black_box(&out);
        len
    })
}

fn encode_twelve() -> Cell {
    let mut out = [0; 1232];
    let records = material::twelve();
    Cell::new(rows::ENCODE_TWELVE, OURS, move || {
        let mut builder = Builder::new(&mut out, 1232, 7, 0x8180).expect("there is room");
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
