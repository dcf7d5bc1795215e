//! Additional records, and answers that are designed to evade the policy: nothing that it blocks
//! reaches a client, in any section.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;

use avocet_wire::builder::{Builder, Record, Section};
use avocet_wire::header::{QR, RA, RD};
use avocet_wire::{Class, MessageView, NameBuf, QueryView, Rtype, text};

use crate::server::{PATIENCE, Site, udp_client};

/// The only address of `bad.evil.com`, which a list blocks.
const LISTED: [u8; 4] = [203, 0, 113, 66];
const PRIVATE: [u8; 4] = [192, 168, 1, 1];
/// An address that a rule blocks.
const RULED: [u8; 4] = [198, 51, 100, 1];
const GOOD: [u8; 4] = [192, 0, 2, 7];

const POLICY: &str = r#"
[[list]]
name = "l"
file = "LIST"
[[rule]]
name = "net"
when = 'answer.ip.in("198.51.100.0/24")'
action = "block"
[policy]
block-private = true
"#;

const SRV: Rtype = Rtype(33);

type Reply = Vec<(Section, String, Rtype, Vec<u8>)>;

fn wire(name: &str) -> Vec<u8> {
    let mut out = [0; 255];
    let len = text::name_to_wire(name.as_bytes(), Some(&[0]), &mut out).unwrap();
    out[..len].to_vec()
}

fn https(priority: u16, target: &str, hint: [u8; 4]) -> Vec<u8> {
    [&priority.to_be_bytes()[..], &wire(target), &[0, 4, 0, 4], &hint].concat()
}

/// The upstream's answers, by the first label of the name.
fn answers(first: &str, name: &str) -> Reply {
    use Section::{Additional, Answer, Authority};
    let (a, aaaa, cname) = (Rtype::A, Rtype::AAAA, Rtype::CNAME);
    let at = |section, owner: &str, rtype, data: &[u8]| {
        (section, owner.to_owned(), rtype, data.to_vec())
    };
    let mapped = |address: [u8; 4]| [&[0; 10][..], &[0xff, 0xff], &address].concat();
    match first {
        "plain" => vec![
            at(Answer, name, a, &GOOD),
            at(Authority, "evil.com.", Rtype::NS, &wire("ns.evil.com.")),
            at(Authority, "evil.com.", Rtype::NS, &wire("bad.evil.com.")),
            at(Additional, "ns.evil.com.", a, &PRIVATE),
            at(Additional, "ns.evil.com.", aaaa, &mapped(PRIVATE)),
            at(Additional, "bad.evil.com.", a, &LISTED),
        ],
        "mx" => vec![
            at(Answer, name, Rtype::MX, &[&[0, 10][..], &wire("bad.evil.com.")].concat()),
            at(Answer, name, Rtype::MX, &[&[0, 20][..], &wire("mail.evil.com.")].concat()),
            at(Additional, "bad.evil.com.", a, &LISTED),
            at(Additional, "mail.evil.com.", a, &RULED),
        ],
        "srv" => vec![
            at(Answer, name, SRV, &[&[0, 1, 0, 1, 0, 80][..], &wire("host.evil.com.")].concat()),
            at(Additional, "host.evil.com.", aaaa, &mapped(PRIVATE)),
        ],
        "ns" => vec![
            at(Answer, name, Rtype::NS, &wire("bad.evil.com.")),
            at(Additional, "bad.evil.com.", a, &LISTED),
        ],
        "mode" => vec![
            at(Answer, name, Rtype::HTTPS, &[&[0, 0][..], &wire("bad.evil.com.")].concat()),
            at(Answer, "bad.evil.com.", Rtype::HTTPS, &https(1, ".", LISTED)),
            at(Additional, "bad.evil.com.", a, &LISTED),
        ],
        "hint" => vec![
            at(Answer, name, Rtype::HTTPS, &https(1, "okay.evil.com.", GOOD)),
            at(Answer, name, Rtype::HTTPS, &https(2, "okay.evil.com.", RULED)),
        ],
        "target" => vec![
            at(Answer, name, Rtype::HTTPS, &https(1, "okay.evil.com.", GOOD)),
            at(Answer, name, Rtype::HTTPS, &https(2, "bad.evil.com.", LISTED)),
        ],
        "chain" => vec![
            at(Answer, "bad.evil.com.", a, &LISTED),
            at(Answer, "okay.evil.com.", cname, &wire("bad.evil.com.")),
            at(Answer, name, cname, &wire("okay.evil.com.")),
        ],
        "tree" => vec![
            at(Answer, "tree.evil.com.", Rtype::DNAME, &wire("bad.evil.com.")),
            at(Answer, name, cname, &wire("x.bad.evil.com.")),
            at(Answer, "x.bad.evil.com.", a, &LISTED),
        ],
        "foreign" => vec![
            at(Answer, name, a, &GOOD),
            at(Answer, "bad.evil.com.", a, &LISTED),
            at(Answer, "other.evil.com.", a, &PRIVATE),
            at(Answer, name, aaaa, &mapped(PRIVATE)),
        ],
        "second" => vec![at(Answer, name, a, &GOOD), at(Answer, name, a, &PRIVATE)],
        _ => vec![],
    }
}

const QUESTIONS: [(&str, Rtype); 13] = [
    ("plain.evil.com.", Rtype::A),
    ("mx.evil.com.", Rtype::MX),
    ("srv.evil.com.", SRV),
    ("ns.evil.com.", Rtype::NS),
    ("mode.evil.com.", Rtype::HTTPS),
    ("hint.evil.com.", Rtype::HTTPS),
    ("target.evil.com.", Rtype::HTTPS),
    ("chain.evil.com.", Rtype::A),
    ("x.tree.evil.com.", Rtype::A),
    ("foreign.evil.com.", Rtype::A),
    ("second.evil.com.", Rtype::A),
    ("plain.evil.com.", Rtype::ANY),
    ("foreign.evil.com.", Rtype::ANY),
];

fn upstream() -> SocketAddr {
    let socket = crate::server::udp_socket();
    let addr = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let query = QueryView::parse(&buffer[..len]).unwrap();
            let name = query.question();
            let (qname, _) = name.split_last_chunk::<4>().unwrap();
            let text = NameBuf::from_wire(qname).unwrap().to_string().to_ascii_lowercase();
            let first =
                text.split('.').find(|label| label.len() > 1).unwrap_or_default().to_owned();
            let mut out = vec![0; 4096];
            let id = u16::from_be_bytes([buffer[0], buffer[1]]);
            let mut builder = Builder::new(&mut out, 4096, id, QR | RA | RD).unwrap();
            builder.question(qname, query.qtype, Class::IN).unwrap();
            for (section, owner, rtype, rdata) in answers(&first, &text) {
                let owner = if owner == text { qname.to_vec() } else { wire(&owner) };
                let record =
                    Record { owner: &owner, rtype, class: Class::IN, ttl_secs: 300, rdata: &rdata };
                builder.record(section, &record).unwrap();
            }
            let len = builder.finish();
            // The test may be over.
            let _ = socket.send_to(&out[..len], from);
        }
    });
    addr
}

fn query(name: &str, rtype: Rtype) -> Vec<u8> {
    let mut out = vec![0; 512];
    let mut builder = Builder::new(&mut out, 512, 7, RD).unwrap();
    builder.question(&wire(name), rtype, Class::IN).unwrap();
    let len = builder.finish();
    out.truncate(len);
    out
}

fn over_udp(dns: SocketAddr, query: &[u8]) -> Vec<u8> {
    let (socket, mut reply) = (udp_client(), vec![0; 4096]);
    socket.send_to(query, dns).unwrap();
    let (len, _) = socket.recv_from(&mut reply).unwrap();
    reply.truncate(len);
    reply
}

fn over_tcp(dns: SocketAddr, query: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(dns).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&[&(query.len() as u16).to_be_bytes()[..], query].concat()).unwrap();
    let mut len = [0; 2];
    stream.read_exact(&mut len).unwrap();
    let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut reply).unwrap();
    reply
}

fn has(message: &[u8], address: [u8; 4]) -> bool {
    message.windows(4).any(|octets| octets == address)
}

fn start(site: &Site, policy: &str) -> crate::server::Server {
    let list = site.directory.join("list");
    std::fs::write(&list, "||bad.evil.com^\n@@||okay.evil.com^\n").unwrap();
    let policy = policy.replace("LIST", &list.to_string_lossy());
    site.configure(upstream(), "workers = 1\nminimal-responses = false", &policy);
    site.start()
}

#[test]
fn no_section_of_an_answer_holds_what_the_policy_blocks() {
    let site = Site::new();
    let _server = start(&site, POLICY);
    for round in 0..3 {
        for (name, rtype) in QUESTIONS {
            for ask in [over_udp, over_tcp] {
                let reply = ask(site.dns, &query(name, rtype));
                let case = format!("{name} {rtype}, round {round}: {reply:?}");
                for address in [LISTED, PRIVATE, RULED] {
                    assert!(!has(&reply, address), "{address:?} in {case}");
                }
                let view = MessageView::new(&reply).unwrap();
                assert_eq!(view.header().counts[3], 0, "{case}");
            }
        }
    }
    // Without a block the additional records arrive if they are configured.
    let site = Site::new();
    let _server = start(&site, POLICY);
    let reply = over_udp(site.dns, &query("plain.evil.com.", Rtype::A));
    assert_eq!(MessageView::new(&reply).unwrap().header().counts, [1, 1, 2, 0], "{reply:?}");
    assert!(has(&reply, GOOD), "{reply:?}");
}

#[test]
fn without_a_policy_addresses_come_beside_the_answer() {
    let site = Site::new();
    let _server = start(&site, "");
    let reply = over_udp(site.dns, &query("plain.evil.com.", Rtype::A));
    assert_eq!(MessageView::new(&reply).unwrap().header().counts, [1, 1, 2, 3], "{reply:?}");
}
