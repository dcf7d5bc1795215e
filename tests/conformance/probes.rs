//! The 48 probes of EDNS and header compliance (RFC 6891, RFC 8906, RFC 9619): each is a raw
//! message over both transports with exactly one right reaction.
//!
//! In addition, every reply must satisfy: QR and RA are set; RD and CD are those of the query; AA,
//! TC, AD and Z are 0; ID, OPCODE and question are those of the query; OPT is present exactly if
//! the query has a readable one, in version 0, without flags except DO and without options that the
//! query did not request.

use avocet_wire::edns::option;
use avocet_wire::header::{AA, AD, CD, QR, RA, RD, TC, Z};
use avocet_wire::{Class, Rcode};

use crate::harness::{Answer, Ask, Reply, Scripted, Server, Setup, Tcp, Udp};

const NAME: &str = "Www.Probe.Example.";
const ID: u16 = 0x4a56;
const ANY_OPCODE: u16 = 0x7800;

/// The expected reaction to a probe.
#[derive(Clone, Copy)]
enum Reaction {
    /// No reply.
    Silence,
    /// RCODE, number of answer records, and whether there is OPT.
    Reply(Rcode, u16, bool),
}

use Reaction::{Reply as Is, Silence};

struct Probe {
    name: &'static str,
    octets: Vec<u8>,
    reaction: Reaction,
    /// The option codes of the reply, over UDP and over TCP.
    options: [&'static [u16]; 2],
}

/// A probe with a well-formed query.
fn probe(name: &'static str, ask: Ask, reaction: Reaction) -> Probe {
    Probe { name, octets: ask.octets(), reaction, options: [&[], &[]] }
}

/// A probe with a modified query.
fn broken(
    name: &'static str,
    ask: Ask,
    change: impl Fn(&mut Vec<u8>),
    reaction: Reaction,
) -> Probe {
    let mut octets = ask.octets();
    change(&mut octets);
    Probe { name, octets, reaction, options: [&[], &[]] }
}

fn a() -> Ask {
    Ask::of(NAME, "A")
}

fn edns() -> Ask {
    a().edns(1232)
}

const GOOD: Reaction = Is(Rcode::NOERROR, 1, false);
const GOOD_OPT: Reaction = Is(Rcode::NOERROR, 1, true);
const FORMERR: Reaction = Is(Rcode::FORMERR, 0, false);
const FORMERR_OPT: Reaction = Is(Rcode::FORMERR, 0, true);
const BADVERS: Reaction = Is(Rcode::BADVERS, 0, true);
const NOTIMP: Reaction = Is(Rcode::NOTIMP, 0, false);

fn header_probes() -> Vec<Probe> {
    let flag = |name, flags| probe(name, a().flags(flags), GOOD);
    let opcode = |name, opcode: u16| probe(name, a().flags(RD | opcode << 11), NOTIMP);
    vec![
        flag("plain", RD),
        flag("AA in the query", RD | AA),
        flag("AD in the query", RD | AD),
        flag("CD in the query", RD | CD),
        flag("RA in the query", RD | RA),
        flag("no RD, for a name in the cache", 0),
        flag("TC in the query", RD | TC),
        flag("Z in the query", RD | Z),
        probe("QR in the query", a().flags(RD | QR), Silence),
        opcode("OPCODE 15", 15),
        opcode("OPCODE IQUERY", 1),
        opcode("OPCODE NOTIFY", 4),
        opcode("OPCODE UPDATE", 5),
        probe("type 666", Ask::of(NAME, "TYPE666"), Is(Rcode::NOERROR, 0, false)),
        probe("class CH", Ask::of("version.bind.", "TXT").class(Class::CH), GOOD),
        probe("type ANY", Ask::of(NAME, "ANY"), GOOD),
        probe("type OPT", Ask::of(NAME, "OPT"), FORMERR),
        probe("type AXFR", Ask::of(NAME, "AXFR"), Is(Rcode::REFUSED, 0, false)),
        probe("letters in random case", Ask::of("wWw.PrObE.eXaMpLe.", "A"), GOOD),
    ]
}

fn edns_probes() -> Vec<Probe> {
    let with = |name, code, data: &[u8], reaction| probe(name, edns().option(code, data), reaction);
    let answered = |mut probe: Probe, udp: &'static [u16], tcp: &'static [u16]| {
        probe.options = [udp, tcp];
        probe
    };
    vec![
        probe("EDNS 0", edns(), GOOD_OPT),
        probe("EDNS 0 with DO", edns().dnssec_ok(), GOOD_OPT),
        probe("EDNS 1", edns().edns_version(1, 0), BADVERS),
        probe("EDNS 1 with an option", edns().edns_version(1, 0).option(100, b"x"), BADVERS),
        probe("EDNS 1 with DO", edns().edns_version(1, 0x8000), BADVERS),
        probe("EDNS 1 with an unknown flag", edns().edns_version(1, 0x40), BADVERS),
        with("an unknown option", 65_001, b"data", GOOD_OPT),
        probe("an unknown flag", edns().edns_version(0, 0x40), GOOD_OPT),
        probe("size 512", a().edns(512), GOOD_OPT),
        probe("size 0", a().edns(0), GOOD_OPT),
        answered(with("NSID", option::NSID, b"", GOOD_OPT), &[3], &[3]),
        answered(with("a client cookie", option::COOKIE, b"12345678", GOOD_OPT), &[10], &[10]),
        with("a cookie of 7 octets", option::COOKIE, b"1234567", FORMERR_OPT),
        with("a cookie of 41 octets", option::COOKIE, &[7; 41], FORMERR_OPT),
        with("a client subnet", option::ECS, &[0, 1, 24, 0, 192, 0, 2], GOOD_OPT),
        with("EXPIRE", 9, b"", GOOD_OPT),
        answered(with("TCP keepalive", option::TCP_KEEPALIVE, b"", GOOD_OPT), &[], &[11]),
        with("padding", option::PADDING, &[0; 64], GOOD_OPT),
    ]
}

fn malformed_probes() -> Vec<Probe> {
    let count = |at: usize, count: u8| move |octets: &mut Vec<u8>| octets[at] = count;
    let second_opt = |octets: &mut Vec<u8>| {
        octets[11] = 2;
        octets.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    };
    let owner_of_opt = |octets: &mut Vec<u8>| {
        let opt = octets.len() - 11;
        octets.splice(opt..=opt, [1, b'x', 0]);
    };
    let long_option = |octets: &mut Vec<u8>| {
        let end = octets.len();
        octets[end - 1] = 4;
        octets.extend_from_slice(&[0, 3, 0, 9]);
    };
    let twice = |octets: &mut Vec<u8>| {
        octets[5] = 2;
        octets.extend_from_within(12..);
    };
    let pointer = |octets: &mut Vec<u8>| {
        octets.truncate(12);
        octets.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1]);
    };
    vec![
        broken("two OPT records", edns(), second_opt, FORMERR),
        broken("an OPT record below a name", edns(), owner_of_opt, FORMERR),
        broken("an option that runs past its record", edns(), long_option, FORMERR_OPT),
        broken(
            "an OPT record that runs past the message",
            edns(),
            |octets| octets.truncate(octets.len() - 2),
            FORMERR,
        ),
        broken(
            "no question",
            a(),
            |octets| {
                octets[5] = 0;
                octets.truncate(12)
            },
            FORMERR,
        ),
        broken("two questions", a(), twice, FORMERR),
        broken("octets behind the last record", a(), |octets| octets.push(0), FORMERR),
        broken("a name that points to itself", a(), pointer, FORMERR),
        broken("half a question", a(), |octets| octets.truncate(20), FORMERR),
        broken("a record that is not there", a(), count(7, 1), FORMERR),
        broken(
            "a header alone that promises a question",
            a(),
            |octets| octets.truncate(12),
            FORMERR,
        ),
    ]
}

fn all() -> Vec<Probe> {
    [header_probes(), edns_probes(), malformed_probes()].into_iter().flatten().collect()
}

fn upstream() -> Scripted {
    Scripted::start(|query| {
        let question = &query.octets[12..];
        let asks_for_a = question.windows(4).any(|fixed| fixed == [0, 1, 0, 1]);
        let answer: Answer<'_> = query.answer();
        if asks_for_a {
            answer.own(600, "A", "192.0.2.1").send()
        } else {
            answer.soa("probe.example.", 600).send()
        }
    })
}

fn server(upstream: &Scripted) -> Server {
    let server = Setup::forwarding_to(upstream.addr).server("nsid = \"probed\"").start();
    // The probed names are cached, so that no reply waits for the upstream.
    for ask in [a(), edns().dnssec_ok(), Ask::of(NAME, "TYPE666")] {
        server.ask(&ask);
    }
    server
}

/// Sends the probe and then a valid query; the first reply is the reaction. Replies that need no
/// upstream keep their order on a socket and on a connection.
fn react(server: &Server, over_tcp: bool, probe: &Probe) -> Option<Vec<u8>> {
    let next = a().id(0x7777).octets();
    let first = if over_tcp {
        let mut connection = Tcp::to(server.addr);
        connection
            .send(&probe.octets)
            .and_then(|()| connection.send(&next))
            .expect("an open connection");
        connection.receive()
    } else {
        let socket = Udp::to(server.addr);
        socket.send(&probe.octets);
        socket.send(&next);
        socket.receive(crate::harness::PATIENCE)
    };
    let first = first.expect("the second query is answered at least");
    (first[..2] != [0x77, 0x77]).then_some(first)
}

fn judge(probe: &Probe, over_tcp: bool, octets: Option<&[u8]>) -> Result<(), String> {
    let (octets, (rcode, records, opt)) = match (octets, probe.reaction) {
        (None, Silence) => return Ok(()),
        (None, _) => return Err("no reply".to_owned()),
        (Some(octets), Silence) => return Err(format!("a reply: {octets:02x?}")),
        (Some(octets), Is(rcode, records, opt)) => (octets, (rcode, records, opt)),
    };
    let reply = Reply::read(octets);
    let sent = u16::from_be_bytes([probe.octets[2], probe.octets[3]]);
    let echoed = sent & (RD | CD | ANY_OPCODE);
    let options: Vec<u16> =
        reply.opt.iter().flat_map(|opt| opt.options.iter().map(|(code, _)| *code)).collect();
    let dnssec_ok = probe.octets.ends_with(&[0x80, 0, 0, 0]);
    let expect =
        |holds: bool, what: &str| if holds { Ok(()) } else { Err(format!("{what}: {reply:?}")) };
    expect(reply.rcode == rcode, "RCODE")?;
    expect(reply.header.id == ID, "ID")?;
    // Answers about the server itself are authoritative (RFC 4892).
    let authoritative = if reply.question.ends_with(&[0, 3]) { AA } else { 0 };
    expect(reply.header.flags == QR | RA | authoritative | echoed | rcode.low(), "flags")?;
    expect(reply.header.counts[1] == records, "number of records")?;
    expect(
        reply.question.is_empty() || probe.octets[12..].starts_with(&reply.question),
        "question",
    )?;
    expect(!reply.question.is_empty() || rcode != Rcode::NOERROR, "no question")?;
    expect(reply.opt.is_some() == opt, "OPT")?;
    expect(
        reply.opt.as_ref().is_none_or(|opt| opt.version == 0 && opt.udp_size == 1232),
        "version or size",
    )?;
    expect(
        reply.opt.as_ref().is_none_or(|opt| opt.flags == if dnssec_ok { 0x8000 } else { 0 }),
        "flags of OPT",
    )?;
    expect(
        options.iter().all(|code| {
            *code == option::EDE || probe.options[usize::from(over_tcp)].contains(code)
        }),
        "options",
    )?;
    expect(
        probe.options[usize::from(over_tcp)].iter().all(|code| options.contains(code)),
        "options that lack",
    )
}

#[test]
fn all_48_probes_meet_with_the_right_reaction() {
    let (upstream, probes) = (upstream(), all());
    assert_eq!(probes.len(), 48);
    let server = server(&upstream);
    let (mut failures, mut passed) = (Vec::new(), 0);
    for probe in &probes {
        let before = failures.len();
        for over_tcp in [false, true] {
            let reply = react(&server, over_tcp, probe);
            if let Err(what) = judge(probe, over_tcp, reply.as_deref()) {
                failures.push(format!(
                    "{} {}: {what}",
                    if over_tcp { "TCP" } else { "UDP" },
                    probe.name
                ));
            }
        }
        passed += usize::from(failures.len() == before);
    }
    // Parsed by `cargo xtask conformance`.
    eprintln!("{passed} of {} probes meet with the right reaction", probes.len());
    assert!(failures.is_empty(), "{} of 96 fail:\n{}", failures.len(), failures.join("\n"));
}
