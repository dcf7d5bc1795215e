use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::thread;
use std::time::Duration;

use avocet_wire::builder::{OptFields, Record};
use avocet_wire::edns::EdnsOption;
use avocet_wire::header::{CD, QR, RA, RD, TC};
use avocet_wire::{Builder, Class, Ede, MessageView, Rcode, Rtype, Section};

use super::*;
use crate::exchange::{Carrier, Reply, exchange};
use crate::request::{Cookie, OutputForm, QUERY_ROOM, Request};

fn request(line: &str) -> Result<Request, ClientError> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Request::from_words(&words)
}

/// Returns the query for a command line, with a fixed ID and cookie.
fn query(line: &str) -> Vec<u8> {
    let cookie = Cookie { client: *b"12345678", server: Vec::new() };
    let mut out = [0; QUERY_ROOM];
    let len = request(line).unwrap().write(7, &cookie, &mut out).unwrap();
    out[..len].to_vec()
}

/// Returns a reply to `query` with one address for the name, and these flags and options.
fn reply_to(query: &[u8], flags: u16, rcode: Rcode, options: &[EdnsOption<'_>]) -> Vec<u8> {
    let view = MessageView::new(query).unwrap();
    let question = view.question().unwrap();
    let name = question.qname().unwrap();
    let mut out = vec![0; 512];
    let mut reply = Builder::new(&mut out, 512, view.header().id, QR | flags).unwrap();
    reply.question(name.wire(), question.qtype, question.qclass).unwrap();
    if flags & TC == 0 {
        let record = Record {
            owner: name.wire(),
            rtype: Rtype::A,
            class: Class::IN,
            ttl_secs: 300,
            rdata: &[192, 0, 2, 1],
        };
        reply.record(Section::Answer, &record).unwrap();
    }
    reply.opt(&OptFields { udp_size: 1232, rcode, dnssec_ok: false }, options).unwrap();
    let len = reply.finish();
    out.truncate(len);
    out
}

/// Starts a UDP server that receives `queries` datagrams and sends the results of `answer` for
/// each.
fn udp_server(
    mut answer: impl FnMut(usize, &[u8]) -> Vec<Vec<u8>> + Send + 'static,
    queries: usize,
) -> (SocketAddr, thread::JoinHandle<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let server = thread::spawn(move || {
        for count in 0..queries {
            let mut buffer = [0; 512];
            let (len, client) = socket.recv_from(&mut buffer).unwrap();
            for reply in answer(count, &buffer[..len]) {
                socket.send_to(&reply, client).unwrap();
            }
        }
    });
    (address, server)
}

fn fixed_reply(octets: Vec<u8>) -> Reply {
    Reply {
        octets,
        server: SocketAddr::from(([127, 0, 0, 1], 5300)),
        carrier: Carrier::Udp,
        elapsed: Duration::from_micros(1_500),
    }
}

#[test]
fn words_are_server_name_type_class_and_options() {
    let asked = request("@[::1]:5300 www.example aaaa CH +tcp +short +norecurse").unwrap();
    assert_eq!(asked.server, Some("[::1]:5300".parse().unwrap()));
    assert_eq!(&*asked.name, b"\x03www\x07example\0");
    assert_eq!((asked.rtype, asked.class), (Rtype::AAAA, Class::CH));
    assert!(asked.tcp && !asked.recurse);
    assert_eq!(asked.form, OutputForm::Short);
    for (word, server) in [
        ("@192.0.2.1", "192.0.2.1:53"),
        ("@192.0.2.1:5300", "192.0.2.1:5300"),
        ("@2001:db8::1", "[2001:db8::1]:53"),
        ("@[2001:db8::1]", "[2001:db8::1]:53"),
    ] {
        let asked = request(&format!("example {word}")).unwrap();
        assert_eq!(asked.server, Some(server.parse().unwrap()), "{word}");
        assert_eq!((asked.rtype, asked.class), (Rtype::A, Class::IN));
    }
}

#[test]
fn words_that_mean_nothing_are_named() {
    for (line, expected) in [
        ("+tcp", "the name is missing"),
        ("a..b", "\"a..b\" is not a name: a name with an empty label"),
        ("x +tpc", "\"+tpc\" is not an option; see avocet query --help"),
        ("x +tcp=1", "\"+tcp=1\" is not an option; see avocet query --help"),
        ("x +bufsize=511", "+bufsize=511: expected a number from 512 to 65535"),
        ("x +time=0", "+time=0: expected a number from 1 to 60"),
        ("x +subnet=y", "+subnet=y: expected a network such as 192.0.2.0/24"),
        ("x AXFR", "AXFR is a zone transfer, which avocet query does not support"),
        ("x AB", "\"AB\" is neither a type such as AAAA or TYPE65 nor a class such as CH"),
    ] {
        assert_eq!(request(line).unwrap_err().to_string(), expected, "{line}");
    }
}

#[test]
fn names_in_other_alphabets_and_addresses_become_names_of_the_dns() {
    for (line, name) in [
        ("Bücher.example", &b"\x0dxn--bcher-kva\x07example\0"[..]),
        ("192.0.2.1 PTR", b"\x011\x012\x010\x03192\x07in-addr\x04arpa\0"),
        ("192.0.2.1", b"\x03192\x010\x012\x011\0"),
    ] {
        assert_eq!(&*request(line).unwrap().name, name, "{line}");
    }
}

#[test]
fn a_query_carries_what_was_asked_for() {
    let octets = query("Example +cd +dnssec +nsid +zoneversion +bufsize=4096 +subnet=192.0.2.7/20");
    let message = MessageView::new(&octets).unwrap();
    assert_eq!(message.header().flags, RD | CD);
    assert_eq!(message.question().unwrap().qname().unwrap().wire(), b"\x07Example\0");
    let edns = message.edns().unwrap().unwrap();
    assert!(edns.dnssec_ok);
    assert_eq!((edns.udp_size, edns.version), (4096, 0));
    let options: Vec<_> = edns.options().map(Result::unwrap).collect();
    assert_eq!(
        options,
        [
            EdnsOption::Cookie { client: b"12345678", server: &[] },
            EdnsOption::Nsid(&[]),
            EdnsOption::ZoneVersion(None),
            EdnsOption::Ecs {
                family: 1,
                source_prefix: 20,
                scope_prefix: 0,
                address: &[192, 0, 0]
            },
        ]
    );
    let octets = query("example +norecurse +nocookie");
    let message = MessageView::new(&octets).unwrap();
    assert_eq!(message.header().flags, 0);
    assert!(!message.edns().unwrap().unwrap().has_options());
    let octets = query("example +dnssec +noedns");
    assert_eq!(MessageView::new(&octets).unwrap().edns().unwrap(), None);
}

#[test]
fn datagrams_of_another_query_are_left_lying() {
    let (address, server) = udp_server(
        |_, query| {
            let good = reply_to(query, RA, Rcode::NOERROR, &[]);
            let mut other_id = good.clone();
            other_id[0] ^= 1;
            let mut other_name = good.clone();
            other_name[13] ^= 1;
            vec![vec![], other_id, other_name, query.to_vec(), good]
        },
        1,
    );
    let reply = exchange(&request("example").unwrap(), address).unwrap();
    assert_eq!(text::short(&reply).unwrap(), "192.0.2.1\n");
    assert_eq!((reply.carrier, reply.server), (Carrier::Udp, address));
    server.join().unwrap();
}

#[test]
fn a_truncated_reply_is_asked_for_again_over_tcp() {
    let listener = TcpListener::bind("127.77.0.2:0").unwrap();
    let address = listener.local_addr().unwrap();
    let socket = UdpSocket::bind(address).unwrap();
    let server = thread::spawn(move || {
        for _ in 0..2 {
            let mut buffer = [0; 512];
            let (len, client) = socket.recv_from(&mut buffer).unwrap();
            let reply = reply_to(&buffer[..len], TC, Rcode::NOERROR, &[]);
            socket.send_to(&reply, client).unwrap();
        }
        let (mut stream, _) = listener.accept().unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut query).unwrap();
        let reply = reply_to(&query, RA, Rcode::NOERROR, &[]);
        // The message is sent in two pieces: TCP does not preserve message boundaries.
        stream.write_all(&(reply.len() as u16).to_be_bytes()).unwrap();
        stream.write_all(&reply).unwrap();
    });
    let truncated = exchange(&request("example +ignore").unwrap(), address).unwrap();
    assert_eq!((truncated.carrier, text::short(&truncated).unwrap().as_str()), (Carrier::Udp, ""));
    let whole = exchange(&request("example").unwrap(), address).unwrap();
    assert_eq!(
        (whole.carrier, text::short(&whole).unwrap().as_str()),
        (Carrier::Tcp, "192.0.2.1\n")
    );
    server.join().unwrap();
}

#[test]
fn a_cookie_that_the_server_wants_is_sent_back_once() {
    let (address, server) = udp_server(
        |count, query| {
            let edns = MessageView::new(query).unwrap().edns().unwrap().unwrap();
            let Some(Ok(EdnsOption::Cookie { client, server })) = edns.options().next() else {
                panic!("a cookie");
            };
            let expected: &[u8] = if count == 0 { b"" } else { b"abcdefgh" };
            assert_eq!(server, expected);
            let cookie = EdnsOption::Cookie { client, server: b"abcdefgh" };
            vec![reply_to(query, RA, Rcode::BADCOOKIE, &[cookie])]
        },
        2,
    );
    let reply = exchange(&request("example").unwrap(), address).unwrap();
    assert!(text::full(&reply).unwrap().contains("status: BADCOOKIE"));
    server.join().unwrap();
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = exchange(&request("example +tries=1").unwrap(), address).unwrap_err().to_string();
    assert_eq!(error, format!("no answer from {address} over UDP: connection refused"));
    let error = exchange(&request("example +tcp").unwrap(), address).unwrap_err().to_string();
    assert_eq!(error, format!("no answer from {address} over TCP: connection refused"));
}

#[test]
fn a_reply_is_shown_as_dig_shows_it() {
    let options = [
        EdnsOption::Ede(Ede::BLOCKED, b"list \x1b[31m\xff"),
        EdnsOption::Cookie { client: b"12345678", server: b"abcdefgh" },
        EdnsOption::Nsid(b"gw1"),
        EdnsOption::ZoneVersion(Some((2, 0, &[0, 0, 0, 7]))),
        EdnsOption::ZoneVersion(Some((2, 9, &[7]))),
    ];
    let reply = fixed_reply(reply_to(&query("www.example"), RD | RA, Rcode::NOERROR, &options));
    let expected = "\
;; ->>HEADER<<- opcode: QUERY, status: NOERROR, id: 7
;; flags: qr rd ra; QUERY: 1, ANSWER: 1, AUTHORITY: 0, ADDITIONAL: 1

;; OPT PSEUDOSECTION:
; EDNS: version: 0, flags:; udp: 1232
; EDE: 15 (Blocked): (list \\u{1b}[31m\u{fffd})
; COOKIE: 31323334353637386162636465666768 (with server cookie)
; NSID: 677731 (\"gw1\")
; ZONEVERSION: serial 7 of the zone with 2 labels
; ZoneVersion(Some((2, 9, [7])))
;; QUESTION SECTION:
;www.example.\t\t\tIN\tA

;; ANSWER SECTION:
www.example.\t\t300\tIN\tA\t192.0.2.1

;; Query time: 1.500 msec
;; SERVER: 127.0.0.1#5300 (UDP)
;; MSG SIZE  rcvd: ";
    let shown = text::full(&reply).unwrap();
    assert_eq!(shown, format!("{expected}{}\n", reply.octets.len()));
}

#[test]
fn a_reply_is_one_json_object() {
    let options = [EdnsOption::Ede(Ede::BLOCKED, b"list")];
    let reply = fixed_reply(reply_to(&query("www.example"), RD | RA, Rcode(16), &options));
    let object = serde_json::to_value(json::ReplyObject::of(&reply).unwrap()).unwrap();
    assert_eq!(object["rcode"], "BADVERS");
    assert_eq!(object["flags"], serde_json::json!(["qr", "rd", "ra"]));
    assert_eq!(object["question"][0]["name"], "www.example.");
    assert_eq!(
        object["answer"],
        serde_json::json!([
            { "name": "www.example.", "type": "A", "class": "IN", "ttl": 300, "data": "192.0.2.1" }
        ])
    );
    assert_eq!(object["additional"], serde_json::json!([]));
    assert_eq!(
        object["edns"]["options"],
        serde_json::json!([{ "ede": { "code": 15, "meaning": "Blocked", "text": "list" } }])
    );
    assert_eq!(object["time-us"], 1_500);
}

#[test]
fn a_reply_cut_anywhere_is_an_error_and_no_panic() {
    let whole = reply_to(&query("www.example"), RA, Rcode::NOERROR, &[EdnsOption::Nsid(b"gw1")]);
    for len in 0..whole.len() {
        let reply = fixed_reply(whole[..len].to_vec());
        assert!(text::full(&reply).is_err(), "{len}");
        assert!(json::ReplyObject::of(&reply).is_err(), "{len}");
    }
}
