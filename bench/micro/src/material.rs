//! The measured messages.

use avocet_wire::builder::{OptFields, Record};
use avocet_wire::edns::EdnsOption;
use avocet_wire::{Builder, Class, FoldedName, Question, Rcode, Rtype, Section};

/// The name in most of the messages.
pub(crate) const WWW: &[u8] = b"\x03www\x07example\x03com\x00";
/// Seven labels.
pub(crate) const MEDIUM: &[u8] = b"\x04edge\x03cdn\x04eu-1\x06images\x04shop\x07example\x03com\x00";
const EDGE: &[u8] = b"\x04edge\x07example\x03net\x00";
const ZONE: &[u8] = b"\x07example\x03net\x00";
const SERVERS: [&[u8]; 4] = [
    b"\x03ns1\x07example\x03net\x00",
    b"\x03ns2\x07example\x03net\x00",
    b"\x03ns3\x07example\x03net\x00",
    b"\x03ns4\x07example\x03net\x00",
];

/// A query with or without an OPT record.
pub(crate) fn query(qname: &[u8], qtype: Rtype, with_opt: bool) -> Vec<u8> {
    message(0x0100, qname, qtype, |builder| {
        let fields = OptFields { udp_size: 1232, rcode: Rcode(0), dnssec_ok: true };
        if with_opt {
            builder.opt(&fields, &[]).expect("there is room");
        }
    })
}

/// A query for the address of [`WWW`] with these options, and without DO.
pub(crate) fn query_with(options: &[EdnsOption<'_>]) -> Vec<u8> {
    message(0x0100, WWW, Rtype::A, |builder| {
        let fields = OptFields { udp_size: 1232, rcode: Rcode(0), dnssec_ok: false };
        builder.opt(&fields, options).expect("there is room");
    })
}

/// A question for `aaaaaaaa.sample.net`, class IN, type A, with the number in the first label.
pub(crate) fn numbered_question(number: usize) -> [u8; 25] {
    let mut octets = *b"\x08........\x06sample\x03net\x00\x00\x01\x00\x01";
    for (place, octet) in octets[1..9].iter_mut().enumerate() {
        *octet = b'a' + (number >> (4 * place) & 15) as u8;
    }
    octets
}

/// The owner in a question of [`numbered_question`].
pub(crate) fn owner(question: &[u8; 25]) -> FoldedName<'_> {
    folded(question).qname()
}

/// A question of [`numbered_question`] as a key.
pub(crate) fn folded(question: &[u8; 25]) -> Question<'_> {
    Question::from_folded_unchecked(question)
}

/// Queries for 64 names of 9 to 44 octets with letters of both cases, all with OPT.
pub(crate) fn mixed_queries() -> Vec<Vec<u8>> {
    (0..64u32)
        .map(|number| {
            let mut name = Vec::new();
            for length in
                [3 + number * 7 % 23, 2 + number * 5 % 13].into_iter().take(1 + number as usize % 2)
            {
                name.push(length as u8);
                name.extend(
                    (0..length).map(|at| b"Example-Avocet"[(at * 5 + number) as usize % 14]),
                );
            }
            name.extend_from_slice(b"\x03nEt\x00");
            query(&name, Rtype::A, true)
        })
        .collect()
}

/// `www.example.com`, one address.
pub(crate) fn one_address() -> Vec<u8> {
    message(0x8180, WWW, Rtype::A, |builder| {
        put(builder, Section::Answer, WWW, Rtype::A, &[192, 0, 2, 1]);
    })
}

/// A CNAME and the address of its target.
pub(crate) fn alias() -> Vec<u8> {
    message(0x8180, WWW, Rtype::A, |builder| {
        put(builder, Section::Answer, WWW, Rtype::CNAME, EDGE);
        put(builder, Section::Answer, EDGE, Rtype::A, &[192, 0, 2, 1]);
    })
}

/// Twelve records: a CNAME, three addresses, four name servers and their addresses.
pub(crate) fn twelve_records() -> Vec<u8> {
    message(0x8180, WWW, Rtype::A, |builder| {
        for (section, owner, rtype, rdata) in twelve() {
            put(builder, section, owner, rtype, &rdata);
        }
    })
}

/// The records of [`twelve_records`], for writing them again.
pub(crate) fn twelve() -> Vec<(Section, &'static [u8], Rtype, Vec<u8>)> {
    let mut records = vec![(Section::Answer, WWW, Rtype::CNAME, EDGE.to_vec())];
    records.extend((1..=3).map(|last| (Section::Answer, EDGE, Rtype::A, vec![192, 0, 2, last])));
    records.extend(SERVERS.map(|server| (Section::Authority, ZONE, Rtype::NS, server.to_vec())));
    records.extend(
        SERVERS.into_iter().zip(1..).map(|(server, last)| {
            (Section::Additional, server, Rtype::A, vec![198, 51, 100, last])
        }),
    );
    records
}

fn put(builder: &mut Builder<'_>, section: Section, owner: &[u8], rtype: Rtype, rdata: &[u8]) {
    let record = Record { owner, rtype, class: Class::IN, ttl_secs: 300, rdata };
    builder.record(section, &record).expect("there is room");
}

fn message(flags: u16, qname: &[u8], qtype: Rtype, fill: impl FnOnce(&mut Builder<'_>)) -> Vec<u8> {
    let mut out = vec![0; 1232];
    let mut builder = Builder::new(&mut out, 1232, 7, flags).expect("there is room");
    builder.question(qname, qtype, Class::IN).expect("there is room");
    fill(&mut builder);
    let len = builder.finish();
    out.truncate(len);
    out
}
