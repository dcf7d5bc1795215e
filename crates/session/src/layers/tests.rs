//! Checks the properties of the layers on the corpus and on mutations of it.
//!
//! `AVOCET_MUTATIONS` sets the number of mutations of each layer. `AVOCET_WRITE_CORPUS=1` writes
//! the specimens to the corpus.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::http::form::{ResponseForm, Status};
use crate::http::h3::{goaway, response, settings, write_varint};
use crate::http::h3_ask::request;

/// Number of mutations of each layer in a plain `cargo test`.
const MUTATIONS: u64 = 1_000;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Header blocks of HTTP/2.
const POST: &[u8] = b"\x83\x87\x04\x0a/dns-query\x5f\x17application/dns-message";
const GET: &[u8] = b"\x82\x87\x44\x13/dns-query?dns=AAAA";
const OK: &[u8] = b"\x88\x5f\x17application/dns-message\0\x07alt-svc\x08h3=\":44\"";
/// A request of HTTP/1.1.
const ONE: &[u8] = b"POST /dns-query HTTP/1.1\r\nhost: x\r\n\
                     content-type: application/dns-message\r\ncontent-length: 19\r\n\r\n";

fn directory() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/layers"))
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &id.to_be_bytes(), payload].concat()
}

fn h3_frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_varint(kind, &mut out);
    write_varint(payload.len() as u64, &mut out);
    [&out, payload].concat()
}

/// Returns a message after its length.
fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Header blocks, each after its length.
fn blocks(all: &[&[u8]]) -> Vec<u8> {
    all.iter().flat_map(|block| [&[block.len() as u8][..], block].concat()).collect()
}

fn specimens() -> Vec<(&'static str, u8, Vec<u8>)> {
    let with_length = [POST, b"\x0f\x0d\x0219"].concat();
    let two = |frames: &[Vec<u8>]| {
        [PREFACE, &frame(4, 0, 0, b"\0\x04\0\x01\0\0"), &frames.concat()].concat()
    };
    let answered = [frame(4, 0, 0, &[0, 3, 0, 0, 0, 2]), frame(1, 4, 1, OK), frame(0, 1, 1, QUERY)];
    let refused =
        [frame(3, 0, 3, &[0, 0, 0, 7]), frame(1, 4, 9, b"\x88"), frame(0, 9, 9, b"\x01x\0")];
    let ended = [frame(1, 0, 1, &OK[..9]), frame(9, 4, 1, &OK[9..]), frame(7, 0, 0, &[0; 8])];
    let block = [&qpack::PREFIX[..], b"\xd1\xd7\x50\x01x\x51\x13/dns-query?dns=AAAA"].concat();
    let trailers = h3_frame(1, b"\0\0\x21x\x01y");
    let mut id_0 = QUERY.to_vec();
    id_0[..2].fill(0);
    vec![
        ("framing", 0, framed(QUERY).repeat(3)),
        ("framing-empty", 0, [framed(b""), framed(&QUERY[..5]), vec![0xff, 0xff, 1]].concat()),
        ("doq", 1, framed(&id_0)),
        ("doq-two", 1, framed(&id_0).repeat(2)),
        ("server-post", 2, two(&[frame(1, 4, 1, &with_length), frame(0, 1, 1, QUERY)])),
        ("server-get", 2, two(&[frame(1, 5, 1, GET), frame(1, 5, 3, b"\x82\x87\xbe")])),
        (
            "server-trailers",
            2,
            two(&[
                frame(1, 4, 1, POST),
                frame(0, 8, 1, b"\x01xy\0"),
                frame(1, 5, 1, b"\0\x01x\x01y"),
            ]),
        ),
        (
            "server-windows",
            2,
            two(&[
                frame(4, 0, 0, &[0, 4, 0, 0, 0, 1]),
                frame(1, 5, 1, GET),
                frame(8, 0, 1, &[0, 0, 0, 9]),
            ]),
        ),
        ("server-one", 2, [ONE, QUERY].concat().repeat(2)),
        ("client-answer", 3, answered.concat()),
        ("client-refused", 3, refused.concat()),
        ("client-end", 3, ended.concat()),
        ("h3-get", 4, request("dns.example", "/dns-query", QUERY, HttpMethod::Get)),
        (
            "h3-post",
            4,
            [request("dns.example", "/q", QUERY, HttpMethod::Post), trailers.clone()].concat(),
        ),
        ("h3-pieces", 4, [h3_frame(0x21, b"x"), h3_frame(1, &block), h3_frame(0, b"")].concat()),
        ("h3-response", 5, response(Status::Ok, QUERY, &ResponseForm::MESSAGE)),
        (
            "h3-refusal",
            5,
            [response(Status::NotFound, b"", &ResponseForm::MESSAGE), trailers].concat(),
        ),
        ("h3-control", 6, [settings(), goaway(8), h3_frame(0x21, b"x")].concat()),
        ("h3-encoder", 6, vec![2, 0x20, 0x20]),
        ("hpack", 7, blocks(&[POST, GET, b"\x82\x87\xbe", b"\x3f\x01\xbe\x40\x01x\x01y"])),
        ("hpack-coded", 7, blocks(&[b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf"])),
        ("qpack", 8, block),
        ("qpack-coded", 8, b"\0\0\x2f\x01\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x81\x8f".to_vec()),
        ("alt-svc", 9, b"h2=\":1\", h3=\"dns.example:8443\"; persist=1; ma=\"60\"".to_vec()),
        ("alt-svc-clear", 9, b" clear\t".to_vec()),
    ]
}

/// A generator of pseudorandom numbers (xorshift).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Changes octets after the first one, because the first one chooses the layer.
fn mutated(seed: &[u8], draw: &mut Draw) -> Vec<u8> {
    let mut octets = seed.to_vec();
    for _ in 0..=draw.below(4) {
        let at = 1 + draw.below(octets.len());
        match draw.below(4) {
            0 => octets.insert(at, draw.below(256) as u8),
            1 if at < octets.len() => octets[at] ^= 1 << draw.below(8),
            2 if at < octets.len() => drop(octets.remove(at)),
            _ => {
                let from = 1 + draw.below(at);
                octets.extend_from_within(from.min(at)..at);
            }
        }
    }
    octets
}

#[test]
fn the_corpus_and_its_mutations_cause_no_fault() {
    if std::env::var_os("AVOCET_WRITE_CORPUS").is_some() {
        fs::create_dir_all(directory()).unwrap();
        for (name, layer, octets) in specimens() {
            fs::write(directory().join(name), [&[layer][..], &octets].concat()).unwrap();
        }
    }
    let files = fs::read_dir(directory()).unwrap();
    let corpus: Vec<_> = files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
    for (name, layer, octets) in specimens() {
        assert!(corpus.contains(&[&[layer][..], &octets].concat()), "{name}");
    }
    corpus.iter().for_each(|input| check(input));
    let count = std::env::var("AVOCET_MUTATIONS").ok().and_then(|count| count.parse().ok());
    let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
    for layer in 0..LAYERS.len() {
        let is_of_layer =
            |input: &&Vec<u8>| input.first().is_some_and(|one| usize::from(*one) == layer);
        let seeds: Vec<_> = corpus.iter().filter(is_of_layer).collect();
        assert!(!seeds.is_empty(), "{layer}");
        for _ in 0..count.unwrap_or(MUTATIONS) {
            check(&mutated(seeds[draw.below(seeds.len())], &mut draw));
        }
    }
}

#[test]
fn specimens_reach_what_their_layer_delivers() {
    let (mut http, mut messages) = (Http::new(), 0);
    let mut client = Http2Client::new(HttpTarget {
        authority: "dns.example".into(),
        path: "/dns-query".into(),
        method: HttpMethod::Post,
    });
    client.push(QUERY);
    let mut replies = 0;
    for (name, _, octets) in specimens() {
        match name {
            "doq" => assert!(query_of(&octets).is_ok()),
            "server-post" => {
                let _ = http.take(&octets, &mut |_: &[u8], _: &mut Replies<'_>| {
                    messages += 1;
                    ControlFlow::Continue(())
                });
            }
            "client-answer" => client.take(&octets, &mut |_| replies += 1),
            "h3-get" => {
                let mut asked = H3Request::default();
                assert_eq!(asked.take(&octets), Ok(None));
                assert!(matches!(asked.end(), Ok(H3Asked::Query(..))));
            }
            "h3-response" => {
                let mut answer = H3Response::default();
                assert_eq!(answer.take(&octets), Ok(()));
                assert_eq!(answer.end(), Ok(QUERY.to_vec()));
            }
            _ => {}
        }
    }
    assert_eq!((messages, replies), (1, 1));
}
