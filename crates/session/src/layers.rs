//! Properties of each layer that hold for arbitrary octets. The fuzz target `layers` checks them,
//! and `cargo test` checks them on the target's corpus and on mutations of it.
//!
//! The first octet of an input chooses the layer. The messages that the layer delivers must not
//! depend on how its octets arrive, and the input bounds the number of octets that it keeps and
//! sends. If an input ends a connection, the pieces in which it arrives may decide where the
//! connection ends. The messages of one connection are then the first messages of the other.

use std::fmt::Debug;
use std::ops::ControlFlow;

use crate::frame::FrameReader;
use crate::http::h3::{H3Asked, H3Request, H3Stream};
use crate::http::h3_ask::H3Response;
use crate::http::hpack::{self, FieldDecoder, FieldName, MAX_FIELDS, TABLE_SIZE};
use crate::http::{AltSvc, Http, Http2Client, HttpMethod, HttpTarget, Replies, qpack};
use crate::quic::doq::{DoqQuery, DoqReply, query_of};

/// Lengths of the pieces in which an input arrives, besides the whole input at once.
const PIECES: [usize; 2] = [1, 7];
/// Number of octets that a connection sends without being asked: settings, errors and the end.
const MAX_FIXED: usize = 16 << 10;
/// Number of octets of the fields of a response and of the heads of its frames.
const MAX_HEAD: usize = 256;
/// Maximum number of octets of a response to a request without a query, for each octet of the
/// request. The request may be short, because it may refer to the fields of an earlier one.
const MAX_REFUSAL: usize = 10;
/// A query for `a. A`.
const QUERY: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";

/// The layers, by the first octet of an input.
const LAYERS: [fn(&[u8]); 10] = [
    framing,
    doq,
    http_server,
    http_client,
    h3_request,
    h3_response,
    h3_stream,
    hpack_blocks,
    qpack_block,
    alt_svc,
];

/// Checks the properties of the layer that the first octet chooses.
pub fn check(input: &[u8]) {
    let Some((layer, octets)) = input.split_first() else { return };
    LAYERS[usize::from(*layer) % LAYERS.len()](octets);
}

/// The messages that a connection has delivered.
#[derive(Debug, Default, PartialEq)]
struct Delivered {
    messages: Vec<Vec<u8>>,
    has_ended: bool,
}

/// Checks that the result of reading octets does not depend on the lengths of the pieces in which
/// they arrive.
fn same_in_pieces<T: Debug + PartialEq>(octets: &[u8], read: impl Fn(&[u8], usize) -> T) {
    let whole = read(octets, octets.len().max(1));
    for size in PIECES {
        assert_eq!(read(octets, size), whole, "in pieces of {size}");
    }
}

/// Checks that the messages of a connection do not depend on the lengths of the pieces. One of the
/// two connections may end earlier.
fn same_connection(octets: &[u8], read: impl Fn(&[u8], usize) -> Delivered) {
    let whole = read(octets, octets.len().max(1));
    for size in PIECES {
        let pieces = read(octets, size);
        let count = pieces.messages.len().min(whole.messages.len());
        assert_eq!(pieces.messages[..count], whole.messages[..count], "in pieces of {size}");
        let is_open = !pieces.has_ended && !whole.has_ended;
        let is_equal = pieces.messages.len() == whole.messages.len();
        assert!(!is_open || is_equal, "open in pieces of {size}");
    }
}

fn framing(octets: &[u8]) {
    same_in_pieces(octets, |octets, size| {
        let (mut reader, mut messages) = (FrameReader::new(), Vec::new());
        for piece in octets.chunks(size) {
            let mut deliver = |message: &[u8]| {
                messages.push(message.to_vec());
                stop_at_each_second(messages.len())
            };
            let _ = reader.take(piece, &mut deliver);
            while reader.is_stopped() {
                let _ = reader.resume(&mut deliver);
            }
        }
        assert!(reader.held() <= octets.len());
        messages
    });
}

/// Stops delivery after every second message.
fn stop_at_each_second(count: usize) -> ControlFlow<()> {
    if count.is_multiple_of(2) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn doq(octets: &[u8]) {
    same_in_pieces(octets, |octets, size| {
        let mut query = DoqQuery::default();
        let taken = octets.chunks(size).try_for_each(|piece| query.take(piece));
        assert!(query.held() <= octets.len());
        let asked = taken.and_then(|()| query.end().map(<[u8]>::to_vec));
        assert_eq!(asked.is_ok(), query_of(octets).is_ok());
        let mut reply = DoqReply::default();
        let taken = octets.chunks(size).try_for_each(|piece| reply.take(piece));
        (asked, taken.and_then(|()| reply.end()))
    });
}

fn http_server(octets: &[u8]) {
    same_connection(octets, |octets, size| {
        let (mut http, mut messages) = (Http::new(), Vec::new());
        let mut replied = 0;
        for piece in octets.chunks(size) {
            let mut deliver = |message: &[u8], replies: &mut Replies<'_>| {
                messages.push(message.to_vec());
                // The reply is as long as the query. Each third query gets no reply.
                if messages.len().is_multiple_of(3) {
                    replies.refuse();
                } else {
                    replied += message.len();
                    replies.push(message);
                }
                stop_at_each_second(messages.len())
            };
            let _ = http.take(piece, &mut deliver);
            while http.is_stopped() {
                let _ = http.resume(&mut deliver);
            }
        }
        let bound = MAX_FIXED + replied + MAX_REFUSAL * octets.len() + MAX_HEAD * messages.len();
        assert!(http.unsent() <= bound, "{} of {bound}", http.unsent());
        Delivered { messages, has_ended: http.has_ended() }
    });
}

fn http_client(octets: &[u8]) {
    const QUERIES: usize = 4;
    /// Number of times that the client may send a query. Each time adds up to `MAX_HEAD` octets to
    /// the query.
    const TRIES: usize = 2;
    for method in [HttpMethod::Get, HttpMethod::Post] {
        same_connection(octets, |octets, size| {
            let target =
                HttpTarget { authority: "dns.example".into(), path: "/dns-query".into(), method };
            let mut client = Http2Client::new(target);
            (0..QUERIES).for_each(|_| client.push(QUERY));
            let mut messages = Vec::new();
            for piece in octets.chunks(size) {
                client.take(piece, &mut |message| messages.push(message.to_vec()));
                let _ = client.take_alternative();
            }
            assert!(messages.len() <= QUERIES, "a reply to each query");
            let bound = MAX_FIXED + QUERIES * TRIES * MAX_HEAD + 2 * octets.len();
            assert!(client.unsent() <= bound, "{} of {bound}", client.unsent());
            Delivered { messages, has_ended: client.has_ended() }
        });
    }
}

fn h3_request(octets: &[u8]) {
    same_in_pieces(octets, |octets, size| {
        let mut request = H3Request::default();
        for piece in octets.chunks(size) {
            let taken = request.take(piece);
            assert!(request.held() <= octets.len());
            // The rest of a rejected request is not read, so a fault in it has no effect.
            if taken != Ok(None) {
                return None;
            }
        }
        match request.end() {
            Ok(H3Asked::Query(query, extent)) => Some((query, extent, request.take_word())),
            Ok(H3Asked::Reject(_)) | Err(_) => None,
        }
    });
}

fn h3_response(octets: &[u8]) {
    same_in_pieces(octets, |octets, size| {
        let mut response = H3Response::default();
        octets.chunks(size).try_for_each(|piece| response.take(piece))?;
        assert!(response.held() <= octets.len());
        Ok::<_, crate::http::h3::H3Error>(response.end())
    });
}

fn h3_stream(octets: &[u8]) {
    same_in_pieces(octets, |octets, size| {
        let mut stream = H3Stream::default();
        octets.chunks(size).try_for_each(|piece| stream.take(piece))?;
        Ok::<_, crate::http::h3::H3Error>((stream.kind(), stream.last()))
    });
}

/// Reads the header blocks of one connection, each after its length.
fn hpack_blocks(octets: &[u8]) {
    let (mut decoder, mut rest) = (FieldDecoder::new(), octets);
    while let Some((len, after)) = rest.split_first() {
        let (block, after) = after.split_at(after.len().min((*len).into()));
        rest = after;
        let mut visited = 0;
        let read = decoder.read(block, &mut |_, _| visited += 1);
        assert!(visited <= MAX_FIELDS / hpack::ENTRY_OVERHEAD + 1, "{visited} fields");
        assert!(decoder.kept() <= TABLE_SIZE, "{}", decoder.kept());
        if read.is_err() {
            break;
        }
    }
    let (name, value) = octets.split_at(octets.len() / 2);
    let mut block = Vec::new();
    hpack::write_named(name, value, &mut block);
    let expected = (FieldName::read(name), value.to_vec());
    let mut fields = Vec::new();
    let read = FieldDecoder::new().read(&block, &mut |name, value| {
        fields.push((name, value.to_vec()));
    });
    assert_eq!(read, Ok(octets.len() + hpack::ENTRY_OVERHEAD));
    assert_eq!(fields, [expected]);
}

fn qpack_block(octets: &[u8]) {
    let mut visited = 0;
    let _ = qpack::read(octets, &mut |_, _| visited += 1);
    assert!(visited <= MAX_FIELDS / hpack::ENTRY_OVERHEAD + 1, "{visited} fields");
    let (name, value) = octets.split_at(octets.len() / 2);
    let mut block = qpack::PREFIX.to_vec();
    qpack::write_field(name, value, &mut block);
    let expected = (FieldName::read(name), value.to_vec());
    let mut fields = Vec::new();
    let read = qpack::read(&block, &mut |name, value| fields.push((name, value.to_vec())));
    assert_eq!(read, Ok(octets.len() + hpack::ENTRY_OVERHEAD));
    assert_eq!(fields, [expected]);
}

fn alt_svc(octets: &[u8]) {
    const DAY_SECS: u32 = 86_400;
    match AltSvc::read(octets, "dns.example") {
        Some(AltSvc::H3 { port, max_age_secs }) => {
            assert!(port != 0 && max_age_secs <= DAY_SECS, "{port} for {max_age_secs}");
        }
        Some(AltSvc::Clear) | None => {}
    }
}

#[cfg(test)]
mod tests;
