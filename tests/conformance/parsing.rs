//! Queries that attack the parser (S30, S31, S46): each gets at most one reply, and the server
//! continues.

use avocet_wire::edns::option;
use avocet_wire::header::{QR, RD};
use avocet_wire::{Class, Rcode};

use crate::harness::{Ask, Reply, Scripted, Server, Setup, Tcp, Udp, wire_name};

/// Empty options in a message of almost 64 KiB.
const FLOOD: usize = 16_000;

fn server() -> (Scripted, Server) {
    let upstream = Scripted::plain(600);
    let server = Setup::forwarding_to(upstream.addr).server("nsid = \"n\"").start();
    // The name is cached, so that no reply waits for the upstream.
    server.ask(&Ask::of("www.example.", "A"));
    (upstream, server)
}

/// Sends a message and then a valid query on the same socket. Returns the reply to the message if
/// it precedes the other. A reply that an earlier message caused upstream may also arrive now.
fn reaction(socket: &Udp, octets: &[u8]) -> Option<Vec<u8>> {
    socket.send(octets);
    let barrier = Ask::of("version.bind.", "TXT").class(Class::CH).id(0xbeef).octets();
    let mut first = None;
    socket.send(&barrier);
    loop {
        let reply = socket.receive(crate::harness::PATIENCE).expect("the barrier is answered");
        if reply[..2] == [0xbe, 0xef] {
            return first;
        }
        if octets.starts_with(&reply[..2]) {
            first = Some(reply);
        }
    }
}

/// Octets after a header that claims one question.
fn question(octets: &[u8]) -> Vec<u8> {
    [&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], octets].concat()
}

/// Octets after a header with these counts.
fn counted(counts: [u8; 4], octets: &[u8]) -> Vec<u8> {
    let [qd, an, ns, ar] = counts;
    [&[0, 1, 1, 0, 0, qd, 0, an, 0, ns, 0, ar][..], octets].concat()
}

/// Thirty messages with false names, counts or lengths (RFC 9267).
fn lies() -> Vec<Vec<u8>> {
    let fixed = [0, 1, 0, 1];
    let with = |name: &[u8]| question(&[name, &fixed].concat());
    let good = [&wire_name("www.example.")[..], &fixed].concat();
    let record = |rdata_len: u8, rdata: &[u8]| {
        [&good[..], &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, rdata_len], rdata].concat()
    };
    let opt = |rdata_len: u8, rdata: &[u8]| {
        counted(
            [1, 0, 0, 1],
            &[&good[..], &[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, rdata_len], rdata].concat(),
        )
    };
    let labels = |count: usize, len: u8| {
        [vec![[vec![len], vec![b'a'; usize::from(len)]].concat(); count].concat(), vec![0]].concat()
    };
    vec![
        with(&[0xc0, 12]),
        with(&[0xc0, 14, 0xc0, 12]),
        with(&[0xc0, 0]),
        with(&[0xff, 0xff]),
        with(&[0xc0]),
        with(&[1, b'a', 0xc0, 12]),
        with(&[0x40, b'a', 0]),
        with(&[0x80, b'a', 0]),
        with(&[63]),
        with(&labels(4, 63)),
        with(&labels(128, 1)),
        with(&labels(127, 1)),
        with(&[0; 1]),
        question(&[]),
        question(&[0]),
        question(&[0, 0, 1]),
        question(&labels(2, 63)[..60]),
        counted([0, 0, 0, 0], &good),
        counted([2, 0, 0, 0], &good),
        counted([255, 255, 255, 255], &good),
        counted([1, 255, 0, 0], &good),
        counted([1, 0, 255, 0], &record(4, &[1, 2, 3, 4])),
        counted([1, 1, 0, 0], &record(4, &[1, 2, 3])),
        counted([1, 1, 0, 0], &record(255, &[1])),
        counted([1, 0, 1, 0], &record(4, &[1, 2, 3, 4])),
        counted([1, 0, 0, 2], &record(4, &[1, 2, 3, 4])),
        opt(1, &[0]),
        opt(4, &[0, 3, 255, 255]),
        opt(8, &[0, 3, 0, 0]),
        opt(255, &[]),
    ]
}

/// Checks a reply to any message: a readable response with the same ID.
fn judge(sent: &[u8], reply: Option<&[u8]>) {
    let Some(octets) = reply else { return };
    let reply = Reply::read(octets);
    assert!(reply.header.has(QR), "{sent:02x?}: {octets:02x?}");
    assert_eq!(octets[..2], sent[..2]);
    assert!(octets.len() <= 512.max(sent.len()), "{sent:02x?}: {octets:02x?}");
}

#[test]
fn messages_that_lie_get_formerr_or_nothing() {
    let (_upstream, server) = server();
    let socket = Udp::to(server.addr);
    let lies = lies();
    assert_eq!(lies.len(), 30);
    for (number, mut sent) in lies.into_iter().enumerate() {
        sent[0] = number as u8;
        let reply = reaction(&socket, &sent);
        judge(&sent, reply.as_deref());
        let rcode = reply.map(|octets| Reply::read(&octets).rcode);
        // A name of exactly 255 octets, the root, and complete surplus records are valid.
        let is_fine = [127 * 2 + 1 + 4 + 12, 1 + 4 + 12].contains(&sent.len())
            || sent[4..12] == [0, 1, 0, 0, 0, 1, 0, 0];
        if !is_fine {
            assert_eq!(rcode, Some(Rcode::FORMERR), "{sent:02x?}");
        }
    }
}

#[test]
fn every_cut_and_every_changed_octet_of_a_query_leaves_the_server_well() {
    let (_upstream, mut server) = server();
    let socket = Udp::to(server.addr);
    let good = Ask::of("www.example.", "A")
        .edns(1232)
        .option(option::NSID, b"")
        .option(option::COOKIE, b"12345678");
    let good = good.octets();
    for len in 0..good.len() {
        judge_loosely(&good[..len], reaction(&socket, &good[..len]));
    }
    for at in 2..good.len() {
        for value in [0, 1, 0x3f, 0x40, 0x80, 0xc0, 0xff] {
            let mut changed = good.clone();
            changed[at] = value;
            judge_loosely(&changed, reaction(&socket, &changed));
        }
    }
    assert!(server.is_alive());
}

fn judge_loosely(sent: &[u8], reply: Option<Vec<u8>>) {
    if sent.len() < 12 || sent[2] & 0x80 != 0 {
        assert_eq!(reply, None, "{sent:02x?}");
    }
    judge(sent, reply.as_deref());
}

#[test]
fn thousands_of_options_are_refused_and_repeated_ones_count_once() {
    let (_upstream, server) = server();
    let mut flood = Ask::of("www.example.", "A").edns(1232);
    for _ in 0..FLOOD {
        flood = flood.option(65_001, b"");
    }
    assert_eq!(server.ask_tcp(&flood).rcode, Rcode::FORMERR);
    let cookies = Ask::of("www.example.", "A").edns(1232).option(option::COOKIE, b"12345678");
    let twice = cookies
        .option(option::COOKIE, b"abcdefgh")
        .option(option::NSID, b"")
        .option(option::NSID, b"");
    let options = server.ask(&twice).opt.expect("OPT").options;
    let codes: Vec<u16> = options.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes.iter().filter(|code| **code == option::NSID).count(), 1);
    let cookies: Vec<_> = options.iter().filter(|(code, _)| *code == option::COOKIE).collect();
    assert!(cookies.len() == 1 && cookies[0].1.starts_with(b"12345678"), "{cookies:?}");
}

#[test]
fn classes_opcodes_and_meta_types_meet_with_what_the_table_says() {
    let (_upstream, mut server) = server();
    let socket = Udp::to(server.addr);
    let mut number = 0;
    for class in [0, 1, 2, 3, 4, 254, 255, 65_535] {
        for opcode in 0..16 {
            for rtype in [
                "A", "TYPE0", "OPT", "TYPE128", "TKEY", "TSIG", "IXFR", "AXFR", "MAILB", "MAILA",
                "ANY",
            ] {
                number += 1;
                let ask = Ask::of("www.example.", rtype)
                    .id(number)
                    .class(Class(class))
                    .flags(RD | opcode << 11);
                let reply = reaction(&socket, &ask.octets()).map(|octets| Reply::read(&octets));
                let expected = expected(class, opcode, rtype);
                match reply {
                    Some(reply) => assert_eq!(Some(reply.rcode), expected, "{ask:?}"),
                    None => assert!(expected.is_none(), "no reply to {ask:?}"),
                }
            }
        }
    }
    assert!(server.is_alive());
}

/// The expected RCODE, by OPCODE, then class, then type.
fn expected(class: u16, opcode: u16, rtype: &str) -> Option<Rcode> {
    Some(match (opcode, class, rtype) {
        (1.., ..) => Rcode::NOTIMP,
        (_, 254, _) => Rcode::FORMERR,
        (_, 1, "OPT" | "TYPE0" | "TYPE128") => Rcode::FORMERR,
        (_, 1, "TKEY" | "TSIG" | "MAILA" | "MAILB") => Rcode::NOTIMP,
        (_, 1, "A" | "ANY") => Rcode::NOERROR,
        _ => Rcode::REFUSED,
    })
}

#[test]
fn a_stream_of_noise_closes_or_is_answered_and_leaves_the_server_well() {
    let (_upstream, mut server) = server();
    for noise in [
        &[0, 0][..],
        &[0, 1, 7],
        &[0xff, 0xff, 0, 0, 0],
        &[0, 12, 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0xff; 4096],
    ] {
        let mut connection = Tcp::to(server.addr);
        connection.send_raw(noise).expect("an open connection");
    }
    assert_eq!(server.ask_tcp(&Ask::of("www.example.", "A")).rcode, Rcode::NOERROR);
    assert!(server.is_alive());
}
