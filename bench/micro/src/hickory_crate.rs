//! The operations with the crate `hickory-proto`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::hint::black_box;

use hickory_proto::op::Message;
use hickory_proto::rr::{LowerName, Name};
use hickory_proto::serialize::binary::{BinDecodable, BinDecoder, BinEncodable, BinEncoder};

use crate::cell::Cell;
use crate::material;
use crate::rows;

const HICKORY: &str = rows::HICKORY;

/// The cells of `hickory-proto`. It always parses the complete message, also to read a query.
pub(crate) fn cells() -> Vec<Cell> {
    let mut cells: Vec<Cell> =
        rows::names().into_iter().map(|(row, message, at)| name(row, message, at)).collect();
    for (row, message) in rows::queries().into_iter().chain(rows::responses()) {
        cells.push(Cell::new(row, HICKORY, move || Message::from_vec(black_box(&message)).is_ok()));
    }
    for (row, messages) in rows::keyed() {
        let mut next = messages.leak().iter().cycle();
        cells.push(Cell::new(row, HICKORY, move || {
            keyed(black_box(next.next().expect("a cycle has no end")))
        }));
    }
    cells.push(encode(rows::WRITE_RESPONSE, &material::one_address()));
    cells.push(encode(rows::WRITE_TWELVE, &material::twelve_records()));
    cells
}

fn name(row: &'static str, message: Vec<u8>, at: usize) -> Cell {
    Cell::new(row, HICKORY, move || {
        let mut decoder = BinDecoder::new(black_box(&message)).clone(at as u16);
        black_box(&Name::read(&mut decoder).expect("a name"));
    })
}

fn keyed(message: &[u8]) -> u64 {
    let message = Message::from_vec(message).expect("a message");
    let mut hasher = DefaultHasher::new();
    let question = &message.queries[0];
    LowerName::new(question.name()).hash(&mut hasher);
    question.query_type().hash(&mut hasher);
    hasher.finish()
}

/// Measures only the writing of an existing message, into a buffer that is large enough.
fn encode(row: &'static str, octets: &[u8]) -> Cell {
    let message = Message::from_vec(octets).expect("a message");
    let mut out = Vec::with_capacity(1232);
    Cell::new(row, HICKORY, move || {
        out.clear();
        message.emit(&mut BinEncoder::new(&mut out)).expect("there is room");
        black_box(&out).len()
    })
}
