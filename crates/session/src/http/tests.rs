//! Tests of connections with HTTP/1.1 and HTTP/2 in memory: requests, limits and attacks.

mod malformed;

use std::ops::ControlFlow;

use super::frames::PREFACE;
use super::h1::MAX_REJECTED;
use super::h2::{MAX_BUDGET, MAX_HTTP_STREAMS};
use super::{Http, Replies};

const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
/// The header block of POST /dns-query with a DNS message.
const POST: &[u8] = b"\x83\x87\x04\x0a/dns-query\x5f\x17application/dns-message";

/// A header block without path.
const NO_PATH: &[u8] = b"\x82\x87";

/// What the server does with queries.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    Answer,
    Wait,
    Drop,
}

struct Client {
    http: Http,
    then: Then,
    /// Requests that were delivered.
    requests: Vec<u32>,
    messages: Vec<Vec<u8>>,
}

impl Client {
    fn new(then: Then) -> Self {
        Self { http: Http::new(), then, requests: Vec::new(), messages: Vec::new() }
    }

    /// Starts HTTP/2.
    fn two(then: Then) -> Self {
        let mut client = Self::new(then);
        client.send(&[PREFACE, &frame(4, 0, 0, b"")].concat());
        assert_eq!(kinds(&client.out()), [(4, 0, 0), (4, 1, 0)]);
        client
    }

    fn send(&mut self, octets: &[u8]) {
        let Self { http, then, requests, messages } = self;
        let _ = http.take(octets, &mut |message: &[u8], replies: &mut Replies<'_>| {
            requests.push(replies.request());
            messages.push(message.to_vec());
            match then {
                Then::Answer => replies.push(message),
                Then::Wait => {}
                Then::Drop => replies.refuse(),
            }
            ControlFlow::Continue(())
        });
    }

    /// Takes the octets that the server has sent.
    fn out(&mut self) -> Vec<u8> {
        let out = self.http.out();
        let octets = out.unwritten().to_vec();
        out.clear();
        octets
    }

    fn two_mut(&mut self) -> &mut super::Http2 {
        match &mut self.http.0 {
            super::Version::Two(http) => http,
            _ => panic!("not HTTP/2"),
        }
    }
}

fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &id.to_be_bytes(), payload].concat()
}

/// Returns a POST request with a body.
fn post(id: u32, body: &[u8]) -> Vec<u8> {
    [frame(1, 4, id, POST), frame(0, 1, id, body)].concat()
}

/// Returns a GET request with this path.
fn get(id: u32, path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x87, 0x04, 0x7f, (path.len() - 127) as u8 & 0x7f | 0x80];
    block.push(((path.len() - 127) >> 7) as u8);
    frame(1, 5, id, &[&block, path.as_bytes()].concat())
}

/// Returns the frames in some octets.
fn frames(mut octets: &[u8]) -> Vec<(u8, u8, u32, &[u8])> {
    let mut all = Vec::new();
    while let Some(([a, b, c, kind, flags, id @ ..], rest)) = octets.split_first_chunk::<9>() {
        let (payload, rest) = rest.split_at(u32::from_be_bytes([0, *a, *b, *c]) as usize);
        all.push((*kind, *flags, u32::from_be_bytes(*id), payload));
        octets = rest;
    }
    assert_eq!(octets, b"");
    all
}

fn kinds(octets: &[u8]) -> Vec<(u8, u8, u32)> {
    frames(octets).into_iter().map(|(kind, flags, id, _)| (kind, flags, id)).collect()
}

/// Returns the error code of the GOAWAY at the end.
fn goaway(client: &mut Client) -> Option<u8> {
    let octets = client.out();
    let last = frames(&octets).last().map(|(kind, .., payload)| (*kind, payload.to_vec()));
    let (7, payload) = last? else { return None };
    assert!(client.http.has_ended());
    // Nothing is read after the GOAWAY.
    let before = client.messages.len();
    client.send(&post(9_999_999, QUERY));
    assert_eq!((client.messages.len(), client.out()), (before, Vec::new()));
    Some(payload[7])
}

#[test]
fn a_query_is_answered_wherever_its_octets_are_split() {
    let octets = [PREFACE, &frame(4, 0, 0, b""), &post(1, QUERY), &post(3, QUERY)].concat();
    for at in 0..octets.len() {
        let mut client = Client::new(Then::Answer);
        client.send(&octets[..at]);
        client.send(&octets[at..]);
        assert_eq!(client.messages, [QUERY, QUERY], "{at}");
        let out = client.out();
        let expected = [(4, 0, 0), (4, 1, 0), (1, 4, 1), (0, 1, 1), (1, 4, 3), (0, 1, 3)];
        assert_eq!(kinds(&out), expected, "{at}");
        assert!(!client.http.is_partial());
    }
    let mut client = Client::new(Then::Answer);
    octets.iter().for_each(|octet| client.send(&[*octet]));
    assert_eq!(client.messages, [QUERY, QUERY]);
}

#[test]
fn get_and_head_have_the_query_in_the_path() {
    let path = format!("/dns-query?dns={}", "A".repeat(128));
    let mut client = Client::two(Then::Answer);
    client.send(&get(1, &path));
    assert_eq!(client.messages, [[0; 96]]);
    assert_eq!(kinds(&client.out()), [(1, 4, 1), (0, 1, 1)]);
    let mut head = get(3, &path);
    head.splice(9..10, b"\x02\x04HEAD".iter().copied());
    head[2] += 5;
    client.send(&head);
    assert_eq!(kinds(&client.out()), [(1, 5, 3)]);
}

#[test]
fn late_replies_find_their_stream_and_reset_ones_are_dropped() {
    let mut client = Client::two(Then::Wait);
    client.send(&[post(1, QUERY), post(3, QUERY), frame(3, 0, 1, &[0; 4])].concat());
    assert_eq!(client.requests, [1, 3]);
    for request in [3, 1] {
        client.http.replies(request).unwrap().push(QUERY);
    }
    assert_eq!(kinds(&client.out()), [(1, 4, 3), (0, 1, 3)]);
    let mut client = Client::two(Then::Drop);
    client.send(&post(1, QUERY));
    assert_eq!(kinds(&client.out()), [(3, 0, 1)]);
}

#[test]
fn requests_without_a_query_get_a_status() {
    let path = |text: &str| [&[0x82, 0x87, 0x04, text.len() as u8][..], text.as_bytes()].concat();
    let other_type = b"\x83\x87\x04\x0a/dns-query\x5f\x0aimage/jpeg".to_vec();
    for (block, flags, status) in [
        (path("/"), 5, "404"),
        (path("/dns-query"), 5, "400"),
        (path("/dns-query?dns=!"), 5, "400"),
        (other_type, 4, "415"),
        (POST.to_vec(), 5, "400"),
        ([POST, b"\x0f\x0d\x0565536"].concat(), 4, "413"),
        (b"\x02\x03PUT\x87\x04\x0a/dns-query".to_vec(), 5, "405"),
    ] {
        let mut client = Client::two(Then::Answer);
        client.send(&frame(1, flags, 1, &block));
        let out = client.out();
        let (kind, sent, id, payload) = frames(&out)[0];
        assert_eq!((kind, sent, id), (1, 5, 1), "{status}");
        assert_eq!(&payload[..5], [&[8, 3], status.as_bytes()].concat(), "{status}");
        assert_eq!(frames(&out).len(), if flags == 5 { 1 } else { 2 }, "{status}");
        assert!(!client.http.is_partial());
        // The client sent this before it knew of the reset.
        let late = if flags == 5 { Vec::new() } else { frame(0, 0, 1, b"x") };
        client.send(&[late, post(3, QUERY)].concat());
        assert_eq!(client.messages, [QUERY], "{status}");
    }
}

#[test]
fn a_path_of_a_hundred_kilobytes_is_not_decoded() {
    let mut client = Client::two(Then::Answer);
    client.send(&get(1, &format!("/dns-query?dns={}", "A".repeat(9_000))));
    assert_eq!(&frames(&client.out())[0].3[..5], b"\x08\x03414");
    let mut block = vec![0x82, 0x87, 0x04, 0x7f, 0xa1, 0x8c, 0x06];
    block.extend_from_slice(&[b'A'; 100_000]);
    let mut octets = frame(1, 1, 1 + 2, &block[..16_384]);
    for piece in block[16_384..].chunks(16_384) {
        octets.extend(frame(9, 0, 3, piece));
    }
    client.send(&octets);
    assert_eq!(goaway(&mut client), Some(11));
    assert_eq!(client.messages.len(), 0);
}

#[test]
fn a_message_may_have_65535_octets_and_no_more() {
    let mut client = Client::two(Then::Answer);
    let large = vec![7; 65_535];
    let mut octets = frame(1, 4, 1, POST);
    for piece in large.chunks(16_384) {
        octets.extend(frame(0, u8::from(piece.len() < 16_384), 1, piece));
    }
    client.send(&octets);
    assert_eq!(client.messages, [&large[..]]);
    let mut octets = frame(1, 4, 3, POST);
    (0..5).for_each(|_| octets.extend(frame(0, 0, 3, &large[..16_384])));
    let _ = client.out();
    client.send(&octets);
    let out = client.out();
    let status = frames(&out).into_iter().find(|one| one.0 == 1).unwrap();
    assert_eq!(&status.3[..5], b"\x08\x03413");
    assert_eq!(client.two_mut().kept_octets(), 0);
}

#[test]
fn rapid_resets_end_the_connection() {
    let mut client = Client::two(Then::Wait);
    let attack: Vec<u8> = (0..1000)
        .flat_map(|n| [post(2 * n + 1, QUERY), frame(3, 0, 2 * n + 1, &[0; 4])].concat())
        .collect();
    client.send(&attack);
    assert_eq!(goaway(&mut client), Some(11));
    assert!(client.messages.len() <= MAX_BUDGET as usize / 4 + 1, "{}", client.messages.len());
}

#[test]
fn streams_beyond_the_limit_are_refused() {
    let mut client = Client::two(Then::Wait);
    let all: Vec<u8> = (0..200).flat_map(|n| frame(1, 4, 2 * n + 1, POST)).collect();
    client.send(&all);
    let out = client.out();
    assert_eq!(kinds(&out).len(), 200 - MAX_HTTP_STREAMS);
    assert!(frames(&out).iter().all(|one| (one.0, one.3) == (3, &[0, 0, 0, 7][..])));
}

#[test]
fn floods_of_frames_end_the_connection() {
    let window = frame(4, 0, 0, &[0, 4, 0, 0, 0, 1]);
    for attack in [
        frame(4, 0, 0, b""),
        window,
        frame(6, 0, 0, &[0; 8]),
        frame(6, 1, 0, &[0; 8]),
        frame(2, 0, 1, &[0; 5]),
        frame(8, 0, 0, &[0, 0, 0, 1]),
        frame(0x77, 0, 0, b""),
        [frame(4, 1, 0, b""), frame(8, 0, 0, &[0, 0, 0, 1])].concat(),
    ] {
        let mut client = Client::two(Then::Answer);
        client.send(&attack.repeat(10_000));
        let sent = client.http.unsent();
        assert_eq!(goaway(&mut client), Some(11), "{attack:?}");
        assert!(sent < 17 * (MAX_BUDGET as usize + 2), "{sent}");
    }
    // Requests without a query.
    let mut client = Client::two(Then::Answer);
    let block = b"\x82\x87\x04\x01/";
    client.send(&(0..10_000).flat_map(|n| frame(1, 5, 2 * n + 1, block)).collect::<Vec<u8>>());
    let sent = frames(client.http.out().unwritten()).len();
    assert_eq!((goaway(&mut client), sent), (Some(11), MAX_BUDGET as usize));
    let head = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    let (client, text) = one(Then::Answer, &head.repeat(10_000));
    assert_eq!(text.matches("HTTP/1.1 404 ").count(), MAX_REJECTED as usize);
    assert_eq!((text.matches("close").count(), client.http.has_ended()), (1, true));
    // After a query, more requests without a query are permitted.
    let round =
        [&head.repeat(10)[..], b"GET /dns-query?dns=AAAA HTTP/1.1\r\nhost: x\r\n\r\n"].concat();
    let (client, _) = one(Then::Answer, &round.repeat(100));
    assert_eq!((client.messages.len(), client.http.has_ended()), (100, false));
    // Empty DATA, and bodies of single octets.
    for piece in [&b""[..], b"x"] {
        let mut client = Client::two(Then::Answer);
        let attack = frame(0, 0, 1, piece).repeat(10_000);
        client.send(&[frame(1, 4, 1, POST), attack].concat());
        assert_eq!(goaway(&mut client), Some(11));
    }
    // Time and responses refill the budget for frames.
    let mut client = Client::two(Then::Answer);
    client.send(&frame(8, 0, 0, &[0x3f, 0, 0, 0]));
    for n in 0..10_000 {
        client.send(&[post(2 * n + 1, QUERY), frame(6, 0, 0, &[0; 8])].concat());
    }
    assert_eq!(client.messages.len(), 10_000);
    let mut client = Client::two(Then::Answer);
    for _ in 0..10_000 {
        client.http.refill();
        client.send(&frame(6, 0, 0, &[0; 8]));
    }
    assert!(!client.http.has_ended());
}

#[test]
fn continuations_without_end_end_the_connection() {
    let mut client = Client::two(Then::Answer);
    client.send(&frame(1, 0, 1, POST));
    for _ in 0..100 {
        client.send(&frame(9, 0, 1, b""));
    }
    assert_eq!(goaway(&mut client), Some(11));
}

#[test]
fn a_bomb_of_references_is_refused_without_being_expanded() {
    let mut client = Client::two(Then::Answer);
    let mut bomb = [POST, &[0x40, 1, b'x', 0x7f, 0xa1, 0x1e]].concat();
    bomb.extend([b'v'; 4000]);
    bomb.extend([0xbe; 10_000]);
    client.send(&frame(1, 5, 1, &bomb));
    assert_eq!(&frames(&client.out())[0].3[..5], b"\x08\x03431");
    // The decoder has kept its dynamic table.
    client.send(&post(3, QUERY));
    assert_eq!(client.messages, [QUERY]);
}

#[test]
fn windows_of_one_octet_delay_only_their_client() {
    let mut client = Client::two(Then::Answer);
    client.send(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 1]));
    client.send(&post(1, QUERY));
    let out = client.out();
    assert_eq!(kinds(&out), [(4, 1, 0), (1, 4, 1), (0, 0, 1)]);
    assert_eq!(frames(&out)[2].3.len(), 1);
    assert_eq!(client.two_mut().kept_octets(), QUERY.len() - 1);
    for n in 1..QUERY.len() {
        client.send(&frame(8, 0, 1, &[0, 0, 0, 1]));
        let is_last = u8::from(n == QUERY.len() - 1);
        assert_eq!(kinds(&client.out()), [(0, is_last, 1)]);
    }
    assert_eq!(client.two_mut().kept_octets(), 0);
}

#[test]
fn a_request_that_waits_for_the_client_is_known_while_others_go_on() {
    let mut client = Client::two(Then::Answer);
    client.send(&[frame(1, 4, 1, POST), frame(0, 0, 1, b"\0"), post(3, QUERY)].concat());
    assert_eq!(client.http.oldest_owed(), Some(1));
    client.send(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    client.send(&[frame(0, 1, 1, &QUERY[1..]), post(5, QUERY)].concat());
    // Responses that wait for a window.
    assert_eq!(client.http.oldest_owed(), Some(1));
    client.send(&frame(8, 0, 1, &[0, 0, 1, 0]));
    assert_eq!(client.http.oldest_owed(), Some(5));
    client.send(&frame(8, 0, 5, &[0, 0, 1, 0]));
    assert_eq!(client.http.oldest_owed(), None);
}

#[test]
fn only_responses_count_as_replies() {
    let mut client = Client::two(Then::Answer);
    let before = client.http.replied();
    client.send(&[frame(6, 0, 0, &[0; 8]), frame(4, 0, 0, &[0, 4, 0, 0, 0, 1])].concat());
    assert_eq!(client.http.replied(), before);
    client.send(&post(1, QUERY));
    assert_ne!(client.http.replied(), before);
    let before = client.http.replied();
    client.send(&frame(8, 0, 0, &[0, 0, 0, 1]));
    assert_eq!(client.http.replied(), before);
    client.send(&frame(8, 0, 1, &[0, 0, 0, 1]));
    assert_ne!(client.http.replied(), before);
}

#[test]
fn responses_that_nobody_takes_are_bounded() {
    let mut client = Client::two(Then::Wait);
    client.send(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    let large = vec![7; 65_535];
    for n in 0..50 {
        client.send(&post(2 * n + 1, QUERY));
    }
    for n in 0..50 {
        client.http.replies(2 * n + 1).unwrap().push(&large);
    }
    assert!(client.two_mut().kept_octets() <= 256 << 10);
    let _ = client.out();
    // The responses are sent when the flow-control windows open.
    client.send(&frame(8, 0, 0, &[0x3f, 0xff, 0xff, 0xff]));
    client.send(&frame(4, 0, 0, &[0, 4, 0, 1, 0, 0]));
    let sent: usize =
        frames(&client.out()).iter().filter(|one| one.0 == 0).map(|one| one.3.len()).sum();
    assert_eq!((sent, client.two_mut().kept_octets()), (4 * 65_535, 0));
}

#[test]
fn faults_of_the_protocol_end_the_connection_with_their_code() {
    let wide = [&[0, 4, 0x80][..], &[0; 3]].concat();
    for (octets, code) in [
        (frame(0, 1, 1, b""), 1),
        (frame(0, 1, 0, b""), 1),
        (frame(1, 5, 2, POST), 1),
        (frame(1, 5, 0, POST), 1),
        (frame(1, 5, 1, &[0x80]), 9),
        (frame(1, 13, 1, &[200, 0]), 1),
        (frame(1, 0x25, 1, &[0]), 6),
        (frame(3, 0, 1, &[0; 4]), 1),
        (frame(3, 0, 0, &[0; 4]), 1),
        (frame(3, 0, 1, b""), 6),
        (frame(4, 0, 1, b""), 1),
        (frame(4, 0, 0, b"x"), 6),
        (frame(4, 1, 0, b"x"), 6),
        (frame(4, 0, 0, &[0, 2, 0, 0, 0, 2]), 1),
        (frame(4, 0, 0, &wide), 3),
        (frame(4, 0, 0, &[0, 5, 0, 0, 0, 1]), 1),
        (frame(5, 0, 1, b""), 1),
        (frame(6, 0, 0, b""), 6),
        (frame(6, 0, 1, &[0; 8]), 1),
        (frame(7, 0, 1, &[0; 8]), 1),
        (frame(8, 0, 0, &[0; 4]), 1),
        (frame(8, 0, 1, &[0, 0, 0, 1]), 1),
        (frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), 3),
        (frame(8, 0, 0, b""), 6),
        (frame(9, 4, 1, b""), 1),
        (frame(2, 0, 0, &[0; 5]), 1),
        (frame(2, 0, 1, b""), 6),
        (vec![0, 0x40, 1, 0, 0, 0, 0, 0, 0], 6),
        ([frame(1, 1, 1, POST), post(3, QUERY)].concat(), 1),
        ([post(3, QUERY), post(1, QUERY)].concat(), 1),
        ([post(1, QUERY), post(1, QUERY)].concat(), 5),
        ([post(1, QUERY), frame(0, 1, 1, b"")].concat(), 5),
        ([post(1, QUERY), post(3, QUERY), frame(0, 1, 1, b"")].concat(), 5),
        ([frame(1, 4, 1, POST), frame(3, 0, 1, &[0; 4]), frame(0, 1, 1, b"")].concat(), 5),
        ([frame(1, 4, 1, POST), frame(1, 4, 1, b"")].concat(), 1),
        // No request has the number of a stream that was reset.
        ([frame(1, 5, 1, NO_PATH), frame(1, 5, 1, POST)].concat(), 1),
    ] {
        let mut client = Client::two(Then::Answer);
        client.send(&octets);
        assert_eq!(goaway(&mut client), Some(code), "{octets:x?}");
    }
    for start in [&b"PRI * HTTP/1.1\r\n"[..], &[PREFACE, &frame(6, 0, 0, &[0; 8])].concat()] {
        let mut client = Client::new(Then::Answer);
        client.send(start);
        assert_eq!(goaway(&mut client), Some(1));
    }
}

fn one(then: Then, octets: &[u8]) -> (Client, String) {
    let mut client = Client::new(then);
    client.send(octets);
    let text = String::from_utf8_lossy(&client.out()).into_owned();
    (client, text)
}

fn post_one(fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /dns-query HTTP/1.1\r\nHost: x\r\nContent-Type: application/dns-message\r\n{fields}\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn requests_of_http_1_are_answered_in_their_order() {
    let octets = post_one("Content-Length: 19\r\n", QUERY);
    for at in 0..octets.len() {
        let mut client = Client::new(Then::Answer);
        client.send(&octets[..at]);
        client.send(&octets[at..]);
        assert_eq!(client.messages, [QUERY], "{at}");
    }
    let get = b"GET /dns-query?dns=AAAA HTTP/1.1\r\nhost: x\r\n\r\n";
    let (mut client, text) = one(Then::Wait, &[get, &octets[..]].concat());
    assert_eq!((client.messages.len(), text.as_str()), (1, ""));
    assert!(client.http.must_wait());
    client.http.replies(0).unwrap().push(QUERY);
    let text = String::from_utf8_lossy(&client.out()).into_owned();
    assert!(text.starts_with("HTTP/1.1 200 \r\nContent-Type: application/dns-message\r\n"));
    assert!(text.contains("Content-Length: 19\r\n\r\n"), "{text}");
    assert!(client.http.is_stopped());
    let mut count = 0;
    let _ = client.http.resume(&mut |_: &[u8], _: &mut Replies<'_>| {
        count += 1;
        ControlFlow::Continue(())
    });
    assert_eq!(count, 1);
}

#[test]
fn requests_of_http_1_without_a_query_get_a_status() {
    let long = format!("GET /dns-query?dns={} HTTP/1.1\r\nhost: x\r\n\r\n", "A".repeat(9_000));
    let huge = format!("GET /{}", "A".repeat(100_000));
    let fields = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
    let chunked = post_one("Transfer-Encoding: chunked\r\n", b"0\r\n\r\n");
    for (request, status, has_ended) in [
        (b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(), "404", false),
        (b"GET /dns-query HTTP/1.1\r\nhost: x\r\nconnection: Close\r\n\r\n".to_vec(), "400", true),
        (b"PUT /dns-query HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(), "405", false),
        (post_one("", b""), "411", true),
        (post_one("Content-Length: 70000\r\n", b""), "413", true),
        (post_one("Content-Length: x\r\n", b""), "400", true),
        (chunked, "411", true),
        (long.into_bytes(), "414", false),
        (huge.into_bytes(), "431", true),
        (fields.into_bytes(), "431", true),
        (b"\x16\x03\x01 no HTTP".to_vec(), "400", true),
        (b"GET /dns-query?dns=AAAA HTTP/1.1\r\n\r\n".to_vec(), "400", true),
        (b"GET / HTTP/1.1\r\nhost: x\r\nhost: y\r\n\r\n".to_vec(), "400", true),
    ] {
        let (client, text) = one(Then::Answer, &request);
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {text}");
        assert_eq!((client.messages.len(), client.http.has_ended()), (0, has_ended), "{status}");
    }
    let (client, text) = one(Then::Drop, b"GET /dns-query?dns=AAAA HTTP/1.0\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 500 ") && client.http.has_ended(), "{text}");
}

#[test]
fn a_request_of_single_octets_ends_the_connection_before_it_costs_much() {
    let mut client = Client::new(Then::Answer);
    for _ in 0..10_000 {
        client.send(b"G");
    }
    assert!(String::from_utf8_lossy(&client.out()).starts_with("HTTP/1.1 408 "));
    assert!(client.http.has_ended());
}

#[test]
fn the_target_of_http_1_may_name_the_host() {
    for target in ["https://dns.example/dns-query", "HTTP://x:1/dns-query", "/dns-query"] {
        let request = format!("GET {target}?dns=AAAA HTTP/1.1\r\nHost: x\r\n\r\n");
        let (client, _) = one(Then::Answer, request.as_bytes());
        assert_eq!(client.messages, [[0; 3]], "{target}");
    }
    let (_, text) = one(Then::Answer, b"GET https://dns-query HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 404 "), "{text}");
}

#[test]
fn a_client_that_expects_it_is_asked_for_the_body_once() {
    let octets = post_one("Content-Length: 19\r\nExpect: 100-Continue\r\n", QUERY);
    let head = octets.len() - QUERY.len();
    let (mut client, text) = one(Then::Answer, &octets[..head]);
    assert_eq!(text, "HTTP/1.1 100 \r\n\r\n");
    client.send(&octets[head..=head]);
    assert_eq!(client.out(), b"");
    client.send(&octets[head + 1..]);
    assert!(client.out().starts_with(b"HTTP/1.1 200 "));
    // If the body has arrived already, the server does not ask for it.
    assert!(one(Then::Answer, &octets).1.starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_body_may_arrive_in_any_number_of_pieces() {
    let body = vec![7; 20_000];
    let octets = post_one("Content-Length: 20000\r\n", &body);
    let mut client = Client::new(Then::Answer);
    octets.chunks(100).for_each(|piece| client.send(piece));
    assert_eq!(client.messages, [body]);
}

#[test]
fn the_end_of_a_connection_names_the_last_request() {
    let mut client = Client::two(Then::Answer);
    client.send(&post(5, QUERY));
    let _ = client.out();
    client.http.close();
    let out = client.out();
    assert_eq!(kinds(&out), [(7, 0, 0)]);
    assert_eq!(frames(&out)[0].3, [0, 0, 0, 5, 0, 0, 0, 0]);
    assert_eq!(client.http.fault(), None);
}

#[test]
fn requests_after_an_announced_end_are_answered() {
    let mut client = Client::two(Then::Answer);
    client.http.announce_end();
    let out = client.out();
    assert_eq!(kinds(&out), [(7, 0, 0)]);
    assert_eq!(frames(&out)[0].3, [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    client.send(&post(1, QUERY));
    assert_eq!((client.messages.len(), client.http.has_ended()), (1, false));
    assert!(!client.out().is_empty());

    let mut client = Client::new(Then::Answer);
    let has_close = |octets: &[u8]| octets.windows(17).any(|part| part == b"Connection: close");
    client.send(&post_one("Content-Length: 1\r\n", b"a"));
    assert!(!has_close(&client.out()));
    client.http.announce_end();
    assert!(client.out().is_empty() && !client.http.has_ended());
    client.send(&post_one("Content-Length: 1\r\n", b"a"));
    assert!(has_close(&client.out()) && client.http.has_ended());
}

#[test]
fn the_first_answer_of_a_connection_announces_http_3() {
    let announcing = || Client { http: Http::announcing(8443), ..Client::new(Then::Answer) };
    let has = |octets: &[u8]| {
        let value = b"h3=\":8443\"; ma=86400";
        octets.windows(value.len()).any(|window| window == value)
    };
    let mut one = announcing();
    one.send(b"GET /other HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(!has(&one.out()), "no answer");
    for is_first in [true, false] {
        one.send(b"GET /dns-query?dns=AAABAAABAAAAAAAAAWEAAAEAAQ HTTP/1.1\r\nhost: x\r\n\r\n");
        assert_eq!(has(&one.out()), is_first);
    }
    let mut two = announcing();
    two.send(&[PREFACE, &frame(4, 0, 0, b"")].concat());
    two.send(&frame(1, 5, 1, b"\x82\x87\x44\x06/other"));
    assert!(!has(&two.out()), "no answer");
    let path = b"/dns-query?dns=AAABAAABAAAAAAAAAWEAAAEAAQ";
    let get = [&[0x82, 0x87, 0x44, path.len() as u8][..], path].concat();
    for (id, is_first) in [(3, true), (5, false)] {
        two.send(&frame(1, 5, id, &get));
        assert_eq!(has(&two.out()), is_first, "{}", two.messages.len());
    }
    let mut silent = Client::new(Then::Answer);
    silent.send(&[PREFACE, &frame(4, 0, 0, b""), &frame(1, 5, 1, &get)].concat());
    assert!(!silent.out().windows(7).any(|window| window == b"alt-svc"));
}
