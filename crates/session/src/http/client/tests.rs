//! Tests of the client's end of HTTP/2, against a server written by hand and against the server of
//! this crate.

use std::ops::ControlFlow;

use avocet_wire::edns::EdnsOption;
use avocet_wire::{Ede, MessageView, Rcode};

use super::*;
use crate::http::{Http, Replies};

/// Returns a query for `NAME. A` with this ID and an OPT record.
fn query(id: u16, name: u8) -> Vec<u8> {
    let mut octets = id.to_be_bytes().to_vec();
    octets.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, name, 0, 0, 1, 0, 1]);
    octets.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    octets
}

fn target(method: HttpMethod) -> HttpTarget {
    HttpTarget { authority: "dns.example".into(), path: "/dns-query".into(), method }
}

/// A connection, and the messages that the client has delivered.
struct Pair {
    client: Http2Client,
    delivered: Vec<Vec<u8>>,
}

impl Pair {
    fn new(method: HttpMethod) -> Self {
        Self { client: Http2Client::new(target(method)), delivered: Vec::new() }
    }

    fn receive(&mut self, octets: &[u8]) {
        let Self { client, delivered } = self;
        client.take(octets, &mut |message| delivered.push(message.to_vec()));
    }

    fn frame(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        let mut octets = Vec::new();
        write_frame(&mut octets, [kind, flags], id, payload);
        self.receive(&octets);
    }

    /// Answers a stream with a status and, for 200, the type of DNS messages.
    fn respond(&mut self, id: u32, status: &str, body: &[u8]) {
        let mut block = Vec::new();
        hpack::write(8, status.as_bytes(), &mut block);
        hpack::write(31, MEDIA_TYPE, &mut block);
        self.frame(HEADERS, END_HEADERS, id, &block);
        self.frame(DATA, END_STREAM, id, body);
    }

    /// Takes the frames that the client has sent: kind, flags, stream and payload.
    fn sent(&mut self) -> Vec<(u8, u8, u32, Vec<u8>)> {
        let octets = self.client.out.unwritten().to_vec();
        self.client.out.clear();
        let mut rest = octets.strip_prefix(PREFACE).unwrap_or(&octets);
        let mut frames = Vec::new();
        while let Some((head, after)) = FrameHead::read(rest) {
            frames.push((head.kind, head.flags, head.id, after[..head.len].to_vec()));
            rest = &after[head.len..];
        }
        frames
    }

    /// Takes the streams of the requests that the client has sent.
    fn requests(&mut self) -> Vec<u32> {
        let frames = self.sent();
        frames.iter().filter(|frame| frame.0 == HEADERS).map(|frame| frame.2).collect()
    }

    fn rcodes(&self) -> Vec<Rcode> {
        let rcode = |octets: &Vec<u8>| MessageView::new(octets).unwrap().header().rcode();
        self.delivered.iter().map(rcode).collect()
    }
}

/// Returns the settings of a server.
fn setting(id: u16, value: u32) -> Vec<u8> {
    [&id.to_be_bytes()[..], &value.to_be_bytes()].concat()
}

#[test]
fn both_methods_are_understood_by_the_other_end_and_keep_the_id() {
    for method in [HttpMethod::Get, HttpMethod::Post] {
        let mut pair = Pair::new(method);
        let mut server = Http::new();
        let mut asked = Vec::new();
        for id in 1..=300 {
            pair.client.push(&query(id, b'a'));
        }
        for _ in 0..20 {
            let octets = pair.client.out.unwritten().to_vec();
            pair.client.out.clear();
            let _ = server.take(&octets, &mut |message: &[u8], replies: &mut Replies<'_>| {
                asked.push(message.to_vec());
                let mut reply = message.to_vec();
                reply[2] |= 0x80;
                replies.push(&reply);
                ControlFlow::Continue(())
            });
            let out = server.out();
            let octets = out.unwritten().to_vec();
            out.clear();
            // The octets arrive in small pieces.
            octets.chunks(7).for_each(|part| pair.receive(part));
        }
        assert_eq!((asked.len(), pair.delivered.len()), (300, 300), "{method:?}");
        assert!(asked.iter().all(|message| message[..2] == [0, 0]));
        for (id, message) in (1u16..).zip(&pair.delivered) {
            assert_eq!((&message[..2], message[2]), (&id.to_be_bytes()[..], 0x81));
        }
        assert!(!pair.client.has_ended());
    }
}

/// Returns the response to [`query`] with the ID 0, which has no records.
fn response(name: u8) -> Vec<u8> {
    let mut octets = query(0, name);
    octets[2] |= 0x80;
    octets
}

#[test]
fn a_body_that_is_no_response_to_the_query_is_servfail_at_once() {
    let whole = response(b'a');
    let with = |at: usize, octet: u8| {
        let mut octets = whole.clone();
        octets[at] = octet;
        octets
    };
    let refused = [&with(3, 5)[..4], &[0; 8]].concat();
    for (body, expected) in [
        (query(0, b'a'), Rcode::SERVFAIL),
        (response(b'b'), Rcode::SERVFAIL),
        (whole[..whole.len() - 1].to_vec(), Rcode::SERVFAIL),
        // Records that do not follow.
        (with(7, 1), Rcode::SERVFAIL),
        (b"<html>this is another service</html>".to_vec(), Rcode::SERVFAIL),
        ([&whole[..4], &[0; 8]].concat(), Rcode::SERVFAIL),
        (refused, Rcode::REFUSED),
        (response(b'A'), Rcode::NOERROR),
        (whole.clone(), Rcode::NOERROR),
    ] {
        let mut pair = Pair::new(HttpMethod::Post);
        pair.client.push(&query(1, b'a'));
        let stream = pair.requests()[0];
        pair.respond(stream, "200", &body);
        assert_eq!(pair.rcodes(), [expected], "{body:x?}");
        let is_fault = pair.client.take_failure() == Some(HttpFault::MediaType);
        assert_eq!(is_fault, expected == Rcode::SERVFAIL, "{body:x?}");
        assert!(!pair.client.has_ended());
    }
}

#[test]
fn a_response_without_a_dns_message_is_servfail_with_its_reason() {
    let mut pair = Pair::new(HttpMethod::Post);
    for id in 1..=5 {
        pair.client.push(&query(id, b'a'));
    }
    assert_eq!(pair.requests(), [1, 3, 5, 7, 9]);
    pair.respond(1, "404", b"<html>");
    assert_eq!(pair.client.take_failure(), Some(HttpFault::Status(404)));
    let mut block = vec![0x88];
    hpack::write(31, b"text/html", &mut block);
    pair.frame(HEADERS, END_HEADERS, 3, &block);
    pair.frame(DATA, END_STREAM, 3, b"<html>please log in to this network</html>");
    assert_eq!(pair.client.take_failure(), Some(HttpFault::MediaType));
    pair.respond(5, "200", b"short");
    pair.frame(RST_STREAM, 0, 7, &2u32.to_be_bytes());
    assert_eq!(pair.client.take_failure(), Some(HttpFault::Reset(2)));
    pair.respond(9, "200", &response(b'a'));
    assert_eq!(pair.client.take_failure(), None);
    let servfail = Rcode::SERVFAIL;
    assert_eq!(pair.rcodes(), [servfail, servfail, servfail, servfail, Rcode::NOERROR]);
    let message = MessageView::new(&pair.delivered[0]).unwrap();
    let edns = message.edns().unwrap().unwrap();
    let reason: Vec<_> = edns.options().collect::<Result<_, _>>().unwrap();
    let text = "the server answers with HTTP status 404";
    assert_eq!(reason, [EdnsOption::Ede(Ede::NETWORK_ERROR, text.as_bytes())]);
    assert_eq!(message.header().id, 1);
    assert!(!pair.client.has_ended(), "other queries are answered");
}

#[test]
fn limits_of_the_server_hold_queries_back() {
    let mut pair = Pair::new(HttpMethod::Post);
    pair.frame(SETTINGS, 0, 0, &setting(3, 2));
    let len = query(1, b'a').len();
    for id in 1..=5 {
        pair.client.push(&query(id, b'a'));
    }
    assert_eq!(pair.requests(), [1, 3]);
    assert!(pair.client.unsent() >= 3 * len);
    pair.respond(3, "200", &response(b'a'));
    assert_eq!(pair.requests(), [5]);
    // The server permits no stream at first. Later it permits one, with a flow-control window that
    // is too small.
    pair.frame(SETTINGS, 0, 0, &setting(3, 0));
    pair.respond(1, "200", &response(b'a'));
    pair.respond(5, "200", &response(b'a'));
    assert_eq!(pair.requests(), []);
    pair.frame(SETTINGS, 0, 0, &[setting(3, 9), setting(4, len as u32 - 1)].concat());
    assert_eq!(pair.requests(), []);
    pair.frame(SETTINGS, 0, 0, &setting(4, len as u32));
    assert_eq!(pair.requests(), [7, 9]);
    assert_eq!(pair.delivered.len(), 3);
}

#[test]
fn the_window_of_the_connection_holds_bodies_back_but_not_requests_by_get() {
    for (method, sent) in
        [(HttpMethod::Post, WINDOW as usize / query(1, b'a').len()), (HttpMethod::Get, 4_000)]
    {
        let mut pair = Pair::new(method);
        pair.frame(SETTINGS, 0, 0, &setting(3, 1_000_000));
        let mut requests = 0;
        for id in 0..4_000u16 {
            pair.client.push(&query(id, b'a'));
            for stream in pair.requests() {
                requests += 1;
                pair.respond(stream, "200", &response(b'a'));
            }
        }
        assert_eq!(requests, sent, "{method:?}");
        pair.frame(WINDOW_UPDATE, 0, 0, &1_000_000u32.to_be_bytes());
        while let streams = pair.requests()
            && !streams.is_empty()
        {
            requests += streams.len();
            streams.iter().for_each(|stream| pair.respond(*stream, "200", &response(b'a')));
        }
        assert_eq!((requests, pair.delivered.len()), (4_000, 4_000));
    }
}

#[test]
fn the_end_that_a_server_announces_loses_nothing_that_it_processes() {
    let mut pair = Pair::new(HttpMethod::Post);
    for id in 1..=3 {
        pair.client.push(&query(id, b'a'));
    }
    pair.frame(GOAWAY, 0, 0, &[3u32.to_be_bytes(), [0; 4]].concat());
    pair.requests();
    pair.client.push(&query(4, b'a'));
    assert_eq!(pair.requests(), [], "nothing is sent any more");
    assert!(!pair.client.has_ended() && pair.client.is_draining());
    assert_eq!(pair.client.take_unprocessed(), [query(3, b'a'), query(4, b'a')]);
    assert!(pair.client.take_unprocessed().is_empty() && pair.client.is_owed());
    pair.respond(1, "200", &response(b'a'));
    assert!(!pair.client.has_ended());
    pair.respond(3, "200", &response(b'a'));
    assert!(pair.client.has_ended() && !pair.client.is_owed());
    assert_eq!((pair.delivered.len(), pair.client.take_failure()), (2, None));
    let mut pair = Pair::new(HttpMethod::Post);
    pair.client.push(&query(1, b'a'));
    pair.frame(GOAWAY, 0, 0, &[[0; 4], 11u32.to_be_bytes()].concat());
    assert!(pair.client.has_ended());
    assert_eq!(pair.client.take_failure(), Some(HttpFault::Ended(11)));
}

#[test]
fn a_refused_stream_is_sent_once_more() {
    let mut pair = Pair::new(HttpMethod::Get);
    pair.client.push(&query(1, b'a'));
    for stream in [1, 3] {
        assert_eq!(pair.requests(), [stream]);
        pair.frame(RST_STREAM, 0, stream, &7u32.to_be_bytes());
    }
    assert_eq!((pair.requests(), pair.rcodes()), (vec![], vec![Rcode::SERVFAIL]));
}

#[test]
fn queries_that_nobody_waits_for_make_room() {
    let mut pair = Pair::new(HttpMethod::Get);
    pair.frame(SETTINGS, 0, 0, &setting(3, 1));
    pair.client.push(&query(1, b'a'));
    pair.sent();
    for _ in 0..=MAX_AGE {
        pair.client.refill();
    }
    pair.client.push(&query(2, b'a'));
    let sent: Vec<_> = pair.sent().into_iter().map(|(kind, _, id, _)| (kind, id)).collect();
    assert_eq!(sent, [(RST_STREAM, 1), (HEADERS, 3)]);
    // The response to the query that was given up may still come. The response only changes the
    // table of fields.
    pair.respond(1, "200", &response(b'a'));
    assert!(pair.delivered.is_empty() && !pair.client.has_ended());
    pair.respond(3, "200", &response(b'a'));
    assert_eq!(pair.delivered.len(), 1);
    // Queries that were never sent are dropped, too.
    pair.frame(SETTINGS, 0, 0, &setting(3, 0));
    pair.client.push(&query(3, b'a'));
    pair.sent();
    for _ in 0..=MAX_AGE {
        pair.client.refill();
    }
    assert_eq!(pair.client.unsent(), 0);
}

#[test]
fn what_no_server_may_send_ends_the_connection() {
    type Case = (&'static str, fn(&mut Pair));
    let cases: [Case; 23] = [
        ("a stream that was not opened", |pair| pair.respond(3, "200", b"")),
        ("an even stream", |pair| pair.frame(DATA, 0, 2, b"")),
        ("a push", |pair| pair.frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])),
        ("a long frame", |pair| pair.receive(&[0xff; 9])),
        ("a continuation of nothing", |pair| pair.frame(CONTINUATION, END_HEADERS, 1, b"")),
        ("something inside of a block", |pair| {
            pair.frame(HEADERS, 0, 1, &[0x88]);
            pair.frame(PING, 0, 0, &[0; 8]);
        }),
        ("a block without end", |pair| {
            pair.frame(HEADERS, 0, 1, &[]);
            (0..4).for_each(|_| pair.frame(CONTINUATION, 0, 1, &[0; MAX_PAYLOAD]));
        }),
        ("a wrong block", |pair| pair.frame(HEADERS, END_HEADERS, 1, &[0x80])),
        ("a flood of pings", |pair| {
            (0..=MAX_BUDGET).for_each(|_| pair.frame(PING, 0, 0, &[0; 8]));
        }),
        ("a long ping, which would be kept to send it back", |pair| {
            pair.frame(PING, 0, 0, &[0; MAX_PAYLOAD]);
        }),
        ("a reset without a code", |pair| pair.frame(RST_STREAM, 0, 1, &[])),
        ("a reset of a stream that was not opened", |pair| {
            pair.frame(RST_STREAM, 0, 3, &7u32.to_be_bytes());
        }),
        ("a window of three octets", |pair| pair.frame(WINDOW_UPDATE, 0, 0, &[0; 3])),
        ("a window that is too large", |pair| {
            (0..2).for_each(|_| pair.frame(WINDOW_UPDATE, 0, 0, &LAST_STREAM.to_be_bytes()));
        }),
        ("no more window", |pair| pair.frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        ("no more window of a stream", |pair| pair.frame(WINDOW_UPDATE, 0, 1, &[0; 4])),
        ("a window of a stream that was not opened", |pair| {
            pair.frame(WINDOW_UPDATE, 0, 3, &[0, 0, 0, 1]);
        }),
        ("settings of a stream", |pair| pair.frame(SETTINGS, 0, 1, &[])),
        ("an acknowledgement with settings", |pair| {
            pair.frame(SETTINGS, ACK, 0, &setting(3, 1));
        }),
        ("a ping of a stream", |pair| pair.frame(PING, 0, 1, &[0; 8])),
        ("the end of a stream for all", |pair| pair.frame(GOAWAY, 0, 1, &[0; 8])),
        ("an end without a code", |pair| pair.frame(GOAWAY, 0, 0, &[0; 7])),
        ("a body that is too long", |pair| {
            let mut block = vec![0x88];
            hpack::write(31, MEDIA_TYPE, &mut block);
            pair.frame(HEADERS, END_HEADERS, 1, &block);
            (0..5).for_each(|_| pair.frame(DATA, 0, 1, &[0; MAX_PAYLOAD]));
        }),
    ];
    for (what, act) in cases {
        let mut pair = Pair::new(HttpMethod::Post);
        pair.client.push(&query(1, b'a'));
        act(&mut pair);
        assert!(pair.client.has_ended(), "{what}");
        assert_eq!(pair.client.take_failure(), Some(HttpFault::Malformed), "{what}");
        assert!(pair.client.unsent() < 64 << 10, "{what}");
        pair.client.push(&query(2, b'a'));
        pair.sent();
        pair.receive(&[0; 100]);
        assert!(pair.delivered.is_empty(), "{what}");
    }
}

#[test]
fn random_octets_do_no_harm() {
    let mut seed = 1u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as u32
    };
    for _ in 0..5_000 {
        let mut pair = Pair::new(HttpMethod::Post);
        pair.client.push(&query(1, b'a'));
        for _ in 0..next() % 20 {
            let payload: Vec<u8> = (0..next() % 40).map(|_| next() as u8).collect();
            pair.frame((next() % 11) as u8, next() as u8, next() % 4, &payload);
        }
        assert!(pair.client.unsent() < 64 << 10);
    }
}
