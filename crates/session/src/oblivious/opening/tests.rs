//! Tests with the client's functions of the crate `odoh-rs`: queries in memory, and over HTTP.

use std::ops::ControlFlow;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::SeedableRng;
use odoh_rs::{ObliviousDoHConfigContents, decrypt_response, encrypt_query};

use super::*;
use crate::http::{Http, Replies, RequestContent};
use crate::oblivious::proxied_reply;

const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";

fn rng() -> ChaCha12Rng {
    ChaCha12Rng::from_seed([7; 32])
}

/// A client that knows the configurations of a target.
struct Client {
    contents: ObliviousDoHConfigContents,
    query: ObliviousDoHMessagePlaintext,
}

impl Client {
    fn of(target: &ObliviousTarget) -> Self {
        Self::asking(target, QUERY)
    }

    fn asking(target: &ObliviousTarget, query: &[u8]) -> Self {
        let configs: ObliviousDoHConfigs = parse(&mut &target.configs()[..]).unwrap();
        let config = configs.into_iter().next().unwrap();
        Self { contents: config.into(), query: ObliviousDoHMessagePlaintext::new(query, 3) }
    }

    fn ask(&self) -> (Vec<u8>, OdohSecret) {
        let (message, secret) = encrypt_query(&self.query, &self.contents, &mut rng()).unwrap();
        (compose(&message).unwrap().to_vec(), secret)
    }

    fn read(&self, sealed: &[u8], secret: OdohSecret) -> Option<ObliviousDoHMessagePlaintext> {
        let sealed = parse(&mut &sealed[..]).ok()?;
        decrypt_response(&self.query, &sealed, secret).ok()
    }
}

fn fault(target: &ObliviousTarget, octets: &[u8]) -> Option<ObliviousFault> {
    target.open(octets).err()
}

#[test]
fn a_query_and_its_padded_response_pass_sealed() {
    let target = ObliviousTarget::new(&[1; SEED_LEN], None).unwrap();
    let client = Client::of(&target);
    let (sealed, secret) = client.ask();
    let OpenedQuery { query, seal } = target.open(&sealed).unwrap();
    assert_eq!(query, QUERY);
    for (len, padding) in [(12, 456), (468, 0), (469, 467), (MAX_PADDED - 1, 1), (MAX_PADDED, 0)] {
        let reply = seal.seal(&vec![9; len]).unwrap();
        assert!(reply.windows(20).all(|some| some != [9; 20]), "the reply is encrypted");
        let opened = client.read(&reply, secret).unwrap();
        assert_eq!(opened.padding_len(), padding, "{len}");
        assert_eq!(opened.into_msg(), vec![9; len]);
    }
    assert_eq!(seal.seal(&vec![9; MAX_PADDED + 1]), None);
    let reply = seal.seal(QUERY).unwrap();
    assert!(client.read(&reply, [0; 16]).is_none(), "with another secret");
    // A replay is answered like the query, with other keys.
    let again = target.open(&sealed).unwrap().seal.seal(QUERY).unwrap();
    assert_ne!(again, reply);
    assert_eq!(client.read(&again, secret).unwrap().into_msg(), QUERY);
}

#[test]
fn the_previous_key_is_accepted_and_an_earlier_one_is_unknown() {
    let seeds = [[1; SEED_LEN], [2; SEED_LEN], [3; SEED_LEN]];
    let first = ObliviousTarget::new(&seeds[0], None).unwrap();
    let second = ObliviousTarget::new(&seeds[1], Some(&seeds[0])).unwrap();
    let third = ObliviousTarget::new(&seeds[2], Some(&seeds[1])).unwrap();
    let (sealed, _) = Client::of(&first).ask();
    assert_eq!(second.open(&sealed).unwrap().query, QUERY);
    assert_eq!(fault(&third, &sealed), Some(ObliviousFault::UnknownKey));
    assert_ne!(second.configs(), first.configs(), "clients get the present key");
    assert_eq!(second.key_id().len(), 32);
}

#[test]
fn damaged_queries_have_their_reasons() {
    let target = ObliviousTarget::new(&[1; SEED_LEN], None).unwrap();
    let (sealed, _) = Client::of(&target).ask();
    for len in 0..sealed.len() {
        assert_eq!(fault(&target, &sealed[..len]), Some(ObliviousFault::Malformed), "{len}");
    }
    let longer = [&sealed[..], &[0]].concat();
    assert_eq!(fault(&target, &longer), Some(ObliviousFault::Malformed));
    // The type, the length of the key ID, the key ID, the length of the rest, and the rest.
    for at in 0..sealed.len() {
        let mut damaged = sealed.clone();
        damaged[at] ^= 0x40;
        let expected = match at {
            0..3 | 35..37 => ObliviousFault::Malformed,
            3..35 => ObliviousFault::UnknownKey,
            _ => ObliviousFault::Undecipherable,
        };
        assert_eq!(fault(&target, &damaged), Some(expected), "{at}");
    }
    // A response, and a query whose encrypted part is shorter than a key.
    let response = [&[2], &sealed[1..]].concat();
    assert_eq!(fault(&target, &response), Some(ObliviousFault::Malformed));
    let short = [&sealed[..35], &[0, 1, 0]].concat();
    assert_eq!(fault(&target, &short), Some(ObliviousFault::Undecipherable));
    assert_eq!(fault(&target, &[1; MAX_SEALED + 1]), Some(ObliviousFault::Long));
    assert_eq!(fault(&target, &[0xff; MAX_SEALED]), Some(ObliviousFault::Malformed));
}

#[test]
fn only_queries_are_opened() {
    let target = ObliviousTarget::new(&[1; SEED_LEN], None).unwrap();
    let update = [&[0, 0, 0x28, 0], &QUERY[4..]].concat();
    let response = [&[0, 0, 0x80, 0], &QUERY[4..]].concat();
    for other in [&b""[..], &QUERY[..11], &update, &response] {
        let (sealed, _) = Client::asking(&target, other).ask();
        assert_eq!(fault(&target, &sealed), Some(ObliviousFault::NotQuery), "{other:?}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let target = ObliviousTarget::new(&[1; SEED_LEN], None).unwrap();
    let (sealed, _) = Client::of(&target).ask();
    let text = format!("{target:?} {:?}", target.open(&sealed).unwrap().seal);
    assert_eq!(text, "ObliviousTarget { .. } ReplySeal { .. }");
}

/// A server with HTTP/1.1 that is a target. Its queries are answered by themselves.
fn serve(http: &mut Http, target: Option<&ObliviousTarget>, octets: &[u8]) -> Vec<u8> {
    let _ = http.take(octets, &mut |message: &[u8], replies: &mut Replies<'_>| {
        match (replies.content(), target) {
            (RequestContent::Query, _) => replies.push(message),
            (_, None) => replies.reject(ObliviousFault::NoTarget),
            (RequestContent::Proxied, Some(_)) => {
                // The target responds with 200 to `ok`, and otherwise with 401.
                let status = if message == b"ok" { 200 } else { 401 };
                assert_eq!((replies.word(), replies.parameters()), (None, PARAMETERS));
                replies.push(&proxied_reply(status, message));
            }
            (RequestContent::Configs, Some(target)) => replies.push(target.configs()),
            (RequestContent::Oblivious, Some(target)) => match target.open(message) {
                Ok(OpenedQuery { query, seal }) => {
                    replies.seal_with(seal);
                    replies.push(&query);
                }
                Err(fault) => replies.reject(fault),
            },
        }
        ControlFlow::Continue(())
    });
    let out = http.out();
    let octets = out.unwritten().to_vec();
    out.clear();
    octets
}

fn post(body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /dns-query HTTP/1.1\r\nHost: a\r\nContent-Type: application/oblivious-dns-message\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

const GET_CONFIGS: &[u8] = b"GET /.well-known/odohconfigs HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn http_answers_oblivious_queries_and_sends_the_configurations() {
    let target = ObliviousTarget::new(&[1; SEED_LEN], None).unwrap();
    let client = Client::of(&target);
    let (sealed, secret) = client.ask();
    let mut http = Http::new();
    let response = serve(&mut http, Some(&target), &post(&sealed));
    let end = response.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = str::from_utf8(&response[..end]).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("Content-Type: application/oblivious-dns-message\r\n"), "{head}");
    assert!(head.contains("Cache-Control: no-store\r\n"), "{head}");
    assert_eq!(client.read(&response[end..], secret).unwrap().into_msg(), QUERY);
    let response = serve(&mut http, Some(&target), GET_CONFIGS);
    assert!(response.ends_with(target.configs()));
    let head = String::from_utf8_lossy(&response).into_owned();
    assert!(head.contains("Cache-Control: max-age=3600\r\n"), "{head}");
}

/// The parameters of a query for another server.
const PARAMETERS: &[u8] = b"targethost=a&targetpath=/b";

#[test]
fn http_passes_on_the_response_of_another_target() {
    let target = ObliviousTarget::new(&[1; SEED_LEN], None).unwrap();
    let request = |body: &[u8]| {
        let text = String::from_utf8(post(body)).unwrap();
        text.replacen("/dns-query", "/proxy?targethost=a&targetpath=/b", 1).into_bytes()
    };
    let mut http = Http::new();
    let respond = |http: &mut Http, body: &[u8]| {
        String::from_utf8(serve(http, Some(&target), &request(body))).unwrap()
    };
    let response = respond(&mut http, b"ok");
    assert!(response.starts_with("HTTP/1.1 200 ") && response.ends_with("\r\n\r\nok"));
    assert!(response.contains("Content-Type: application/oblivious-dns-message\r\n"));
    assert!(response.contains("Cache-Control: no-store\r\n"), "{response}");
    assert!(respond(&mut http, b"x").starts_with("HTTP/1.1 401 "));
    (0..100).for_each(|_| drop(respond(&mut http, b"ok")));
    assert!(!http.has_ended());
}

#[test]
fn http_has_a_status_for_each_fault_and_a_server_without_target_has_nothing() {
    let target = ObliviousTarget::new(&[1; SEED_LEN], None).unwrap();
    let other = ObliviousTarget::new(&[2; SEED_LEN], None).unwrap();
    let (good, _) = Client::of(&target).ask();
    let (unknown, _) = Client::of(&other).ask();
    let mut broken = good.clone();
    *broken.last_mut().unwrap() ^= 1;
    for (target, request, status) in [
        (Some(&target), post(&unknown), "401"),
        (Some(&target), post(&broken), "400"),
        (Some(&target), post(b"x"), "400"),
        (None, post(&good), "415"),
        (None, GET_CONFIGS.to_vec(), "404"),
    ] {
        let mut http = Http::new();
        let response = serve(&mut http, target, &request);
        let head = String::from_utf8_lossy(&response);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(!http.has_ended(), "the connection continues");
    }
}

#[test]
fn a_connection_with_only_rejected_queries_ends() {
    let target = ObliviousTarget::new(&[1; SEED_LEN], None).unwrap();
    let (good, _) = Client::of(&target).ask();
    let mut broken = good.clone();
    *broken.last_mut().unwrap() ^= 1;
    let mut http = Http::new();
    let mut attempts = 0;
    while !http.has_ended() {
        serve(&mut http, Some(&target), &post(&broken));
        attempts += 1;
    }
    assert_eq!(attempts, 64);
    let mut http = Http::new();
    for _ in 0..100 {
        serve(&mut http, Some(&target), &post(&broken));
        serve(&mut http, Some(&target), &post(&good));
        assert!(!http.has_ended());
    }
    // Requests for configurations count like rejected ones.
    (0..64).for_each(|_| drop(serve(&mut http, Some(&target), GET_CONFIGS)));
    assert!(http.has_ended());
}

/// A frame of HTTP/2 on a stream.
fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &id.to_be_bytes(), payload].concat()
}

#[test]
fn http2_ends_a_connection_with_many_rejected_queries() {
    const HEAD: &[u8] = b"\x83\x87\x04\x0a/dns-query\x5f\x21application/oblivious-dns-message";
    let target = ObliviousTarget::new(&[1; SEED_LEN], None).unwrap();
    let (good, _) = Client::of(&target).ask();
    let mut broken = good.clone();
    *broken.last_mut().unwrap() ^= 1;
    let mut http = Http::new();
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(4, 0, 0, b"")[..]].concat();
    serve(&mut http, Some(&target), &preface);
    let mut id = 1;
    let mut ask = |http: &mut Http, body: &[u8]| {
        let request = [frame(1, 4, id, HEAD), frame(0, 1, id, body)].concat();
        id += 2;
        serve(http, Some(&target), &request)
    };
    // The client never enlarges its window of 65,535 octets.
    for _ in 0..100 {
        let response = ask(&mut http, &good);
        assert!(response.len() > 468 && !http.has_ended());
    }
    let mut rejected = 0;
    while !http.has_ended() {
        ask(&mut http, &broken);
        rejected += 1;
        assert!(rejected < 101);
    }
    assert!(rejected > 50, "{rejected}");
}
