//! Compares reading and writing of messages with the crates `domain` and `hickory-proto`.
//!
//! Both must read the builder's messages as this crate does, and this crate must read their
//! messages. The lists of exceptions state reasons, and each exception in them must occur.

#[path = "messages/hostile.rs"]
mod hostile;
#[path = "messages/random.rs"]
mod random;
#[path = "messages/specimens.rs"]
mod specimens;
#[path = "rdata_forms/table.rs"]
mod table;

use avocet_wire::builder::{OptFields, Record};
use avocet_wire::edns::EdnsOption;
use avocet_wire::rdata::{expand, from_mnemonic};
use avocet_wire::{Builder, Class, Ede, MessageView, Rcode, Rtype, Section};
use data_encoding::HEXUPPER;
use domain::base::message_builder::{
    AdditionalBuilder, AnswerBuilder, MessageBuilder, TreeCompressor,
};
use domain::base::name::{ParsedName, ToName};
use domain::base::opt::AllOptData;
use domain::base::rdata::ComposeRecordData;
use domain::base::{Message, message::Section as DomainSection};
use domain::rdata::AllRecordData;
use hickory_proto::op::{Message as HickoryMessage, MessageType};
use hickory_proto::rr::Record as HickoryRecord;
use hickory_proto::serialize::binary::BinEncodable;

use random::Random;
use table::CASES;

/// Generated messages for each of the two implementations.
const MESSAGES: usize = 3_000;

/// Everything that is read from a message, with names in lower case.
#[derive(PartialEq, Eq, Debug, Default, Clone)]
struct Reading {
    id: u16,
    /// Flags, OPCODE and RCODE as sent, without Z.
    flags: u16,
    question: Option<(Vec<u8>, u16, u16)>,
    records: Vec<ReadRecord>,
    /// Buffer size, upper bits of the RCODE, version, DO.
    edns: Option<(u16, u8, u8, bool)>,
    /// Codes of the options, with the data of those that are kept unparsed.
    options: Vec<(u16, Vec<u8>)>,
}

/// A record: section, owner, type, class, TTL, and data without compression.
type ReadRecord = (u8, Vec<u8>, u16, u16, u32, Vec<u8>);

fn ours(octets: &[u8]) -> Option<Reading> {
    let view = MessageView::new(octets).ok()?;
    let mut reading =
        Reading { id: view.header().id, flags: view.header().flags & !0x40, ..Reading::default() };
    for question in view.questions() {
        let question = question.ok()?;
        let qname = question.qname().ok()?.folded().wire().to_vec();
        reading.question = Some((qname, question.qtype.0, question.qclass.0));
    }
    let mut rdata = vec![0; octets.len() + 1_024];
    for record in view.records().ok()? {
        let record = record.ok()?;
        let owner = record.owner().ok()?.folded().wire().to_vec();
        let len = record.expand_rdata(&mut rdata).ok()?;
        if record.rtype != Rtype::OPT {
            let fields = (record.rtype.0, record.class.0, record.ttl_secs());
            let section = record.section as u8;
            reading.records.push((
                section,
                owner,
                fields.0,
                fields.1,
                fields.2,
                rdata[..len].to_vec(),
            ));
        }
    }
    if let Some(edns) = view.edns().ok()? {
        reading.edns = Some((edns.udp_size, edns.rcode_high, edns.version, edns.dnssec_ok));
        let options: Result<Vec<_>, _> = edns.raw_options().collect();
        reading.options =
            options.ok()?.into_iter().map(|(code, data)| (code, data.to_vec())).collect();
    }
    Some(reading)
}

fn by_domain(octets: &[u8]) -> Option<Reading> {
    let message = Message::from_octets(octets).ok()?;
    let header = message.header();
    let flags = u16::from_be_bytes([header.as_slice()[2], header.as_slice()[3]]) & !0x40;
    let mut reading = Reading { id: header.id(), flags, ..Reading::default() };
    for question in message.question() {
        let question = question.ok()?;
        let qname = question.qname().to_vec().as_slice().to_ascii_lowercase();
        reading.question = Some((qname, question.qtype().to_int(), question.qclass().to_int()));
    }
    for record in message.iter() {
        let (record, section) = record.ok()?;
        let typed = record.to_any_record::<AllRecordData<_, ParsedName<_>>>().ok()?;
        if record.rtype().to_int() == 41 {
            continue;
        }
        let mut rdata = Vec::new();
        typed.data().compose_rdata(&mut rdata).ok()?;
        let section =
            [DomainSection::Answer, DomainSection::Authority].iter().position(|s| *s == section);
        let owner = record.owner().to_vec().as_slice().to_ascii_lowercase();
        let fields = (record.rtype().to_int(), record.class().to_int(), record.ttl().as_secs());
        reading.records.push((
            section.unwrap_or(2) as u8,
            owner,
            fields.0,
            fields.1,
            fields.2,
            rdata,
        ));
    }
    if let Some(opt) = message.opt() {
        let high = (opt.rcode(header).to_int() >> 4) as u8;
        reading.edns = Some((opt.udp_payload_size(), high, opt.version(), opt.dnssec_ok()));
        for option in opt.opt().iter::<domain::base::opt::UnknownOptData<_>>() {
            let option = option.ok()?;
            reading.options.push((option.code().to_int(), option.as_slice().to_vec()));
        }
        opt.opt().iter::<AllOptData<_, _>>().all(|option| option.is_ok()).then_some(())?;
    }
    Some(reading)
}

fn by_hickory(octets: &[u8]) -> Option<Reading> {
    let message = HickoryMessage::from_vec(octets).ok()?;
    let metadata = &message.metadata;
    let flag = |set: bool, bit: u16| if set { bit } else { 0 };
    let flags = flag(metadata.message_type == MessageType::Response, 0x8000)
        | u16::from(u8::from(metadata.op_code)) << 11
        | flag(metadata.authoritative, 0x400)
        | flag(metadata.truncation, 0x200)
        | flag(metadata.recursion_desired, 0x100)
        | flag(metadata.recursion_available, 0x80)
        | flag(metadata.authentic_data, 0x20)
        | flag(metadata.checking_disabled, 0x10)
        | u16::from(metadata.response_code.low());
    let mut reading = Reading { id: metadata.id, flags, ..Reading::default() };
    for query in &message.queries {
        let qname = query.name().to_bytes().ok()?.to_ascii_lowercase();
        reading.question = Some((qname, query.query_type().into(), query.query_class().into()));
    }
    for (section, records) in
        [&message.answers, &message.authorities, &message.additionals].into_iter().enumerate()
    {
        for record in records {
            reading.records.push(hickory_record(section as u8, record)?);
        }
    }
    if let Some(edns) = &message.edns {
        reading.edns =
            Some((edns.max_payload(), edns.rcode_high(), edns.version(), edns.flags().dnssec_ok));
        reading.options =
            edns.options().as_ref().iter().map(|(code, _)| ((*code).into(), vec![])).collect();
    }
    Some(reading)
}

/// Converts a record. `hickory-proto` compresses the names in data against each other.
fn hickory_record(section: u8, record: &HickoryRecord) -> Option<ReadRecord> {
    let octets = record.data.to_bytes().ok()?;
    let rtype = u16::from(record.record_type());
    let mut rdata = vec![0; octets.len() + 1_024];
    let len = expand(rtype, &octets, 0, octets.len(), &mut rdata).ok()?;
    rdata.truncate(len);
    let owner = record.name.to_bytes().ok()?.to_ascii_lowercase();
    Some((section, owner, rtype, record.dns_class.into(), record.ttl, rdata))
}

/// Keeps only the parts of a reading on which all implementations agree: data in lower case, and
/// option codes.
fn roughly(mut reading: Reading) -> Reading {
    for record in &mut reading.records {
        record.5.make_ascii_lowercase();
    }
    for option in &mut reading.options {
        option.1.clear();
    }
    reading
}

/// Returns the message after `domain` has read and written it, with its own compression.
fn written_by_domain(octets: &[u8]) -> Option<Vec<u8>> {
    let message = Message::from_octets(octets).ok()?;
    let mut builder = MessageBuilder::from_target(TreeCompressor::new(Vec::new())).ok()?;
    *builder.header_mut() = message.header();
    let mut questions = builder.question();
    for question in message.question() {
        questions.push(question.ok()?).ok()?;
    }
    let mut answers: AnswerBuilder<_> = questions.answer();
    let of_section = |wanted: DomainSection| {
        message
            .iter()
            .filter_map(Result::ok)
            .filter(move |(_, section)| *section == wanted)
            .map(|(record, _)| record)
    };
    for record in of_section(DomainSection::Answer) {
        answers.push(record.into_any_record::<AllRecordData<_, ParsedName<_>>>().ok()?).ok()?;
    }
    let mut authorities = answers.authority();
    for record in of_section(DomainSection::Authority) {
        authorities.push(record.into_any_record::<AllRecordData<_, ParsedName<_>>>().ok()?).ok()?;
    }
    let mut additional: AdditionalBuilder<_> = authorities.additional();
    for record in of_section(DomainSection::Additional) {
        additional.push(record.into_any_record::<AllRecordData<_, ParsedName<_>>>().ok()?).ok()?;
    }
    Some(additional.finish().into_target())
}

fn written_by_hickory(octets: &[u8]) -> Option<Vec<u8>> {
    HickoryMessage::from_vec(octets).ok()?.to_vec().ok()
}

/// A record to write into a message.
struct Ingredient {
    mnemonic: &'static str,
    text: &'static str,
    rtype: u16,
    rdata: Vec<u8>,
}

fn ingredients() -> Vec<Ingredient> {
    CASES
        .iter()
        .filter_map(|(mnemonic, text, octets, _)| {
            let rdata = HEXUPPER.decode(octets.as_bytes()).ok()?;
            Some(Ingredient { mnemonic, text, rtype: from_mnemonic(mnemonic)?, rdata })
        })
        .filter(|ingredient| !Rtype(ingredient.rtype).is_meta())
        .collect()
}

/// Returns a name from a fixed set. Some of the names are below others, and some differ only in
/// case.
fn pooled(random: &mut Random) -> Vec<u8> {
    const HOSTS: [&[u8]; 5] = [b"\x03www", b"\x04mail", b"\x03NS1", b"\x01a\x01b\x01c", b""];
    const ZONES: [&[u8]; 5] = [
        b"\x07example\x03com\0",
        b"\x07EXAMPLE\x03com\0",
        b"\x07example\x03net\0",
        b"\x03com\0",
        b"\0",
    ];
    [HOSTS[random.below(5)], ZONES[random.below(5)]].concat()
}

/// Generates a message with up to forty of the records in all sections, mostly with OPT.
fn generated(random: &mut Random, from: &[&Ingredient]) -> Vec<u8> {
    let mut out = vec![0; 16_384];
    let opcode_and_rcode = 0x780f;
    let flags = random.next() as u16 & !opcode_and_rcode & !0x40;
    let mut builder =
        Builder::new(&mut out, 16_384, random.next() as u16, flags).expect("there is room");
    builder
        .question(&pooled(random), Rtype([1, 28, 15, 65, 255][random.below(5)]), Class::IN)
        .expect("there is room");
    for section in [Section::Answer, Section::Authority, Section::Additional] {
        for _ in 0..random.below(14) {
            let Ingredient { rtype, rdata, .. } = from[random.below(from.len())];
            let owner = pooled(random);
            let ttl_secs = random.next() as u32 >> 1;
            let record =
                Record { owner: &owner, rtype: Rtype(*rtype), class: Class::IN, ttl_secs, rdata };
            builder.record(section, &record).expect("there is room");
        }
    }
    let options = [
        EdnsOption::Nsid(b"server"),
        EdnsOption::Cookie { client: b"clientck", server: b"servercookie----" },
        EdnsOption::Ecs { family: 1, source_prefix: 24, scope_prefix: 16, address: &[192, 0, 2] },
        EdnsOption::Padding(random.below(64) as u16),
        EdnsOption::Ede(Ede::BLOCKED, b"by list"),
        EdnsOption::TcpKeepalive(Some(100)),
        EdnsOption::Unknown(65_100, b"private"),
    ];
    let first = random.below(8);
    if first < 7 {
        let last = first + random.below(8 - first);
        let fields = OptFields {
            udp_size: 512 + random.below(4_000) as u16,
            rcode: Rcode(0),
            dnssec_ok: first % 2 == 1,
        };
        builder.opt(&fields, &options[first..last]).expect("there is room");
    }
    let len = builder.finish();
    out.truncate(len);
    out
}

fn single(ingredient: &Ingredient) -> Vec<u8> {
    let mut out = vec![0; 16_384];
    let mut builder = Builder::new(&mut out, 16_384, 7, 0x8180).expect("there is room");
    // Most names of the table can be compressed with this name.
    let (owner, rtype) = (&b"\x07example\0"[..], Rtype(ingredient.rtype));
    builder.question(owner, rtype, Class::IN).expect("there is room");
    let record = Record { owner, rtype, class: Class::IN, ttl_secs: 1, rdata: &ingredient.rdata };
    builder.record(Section::Answer, &record).expect("there is room");
    let len = builder.finish();
    out.truncate(len);
    out
}

/// Another implementation: how it reads and writes, and where it differs.
struct Oracle {
    read: fn(&[u8]) -> Option<Reading>,
    write: fn(&[u8]) -> Option<Vec<u8>>,
    /// Type, beginning of the text, and reason.
    differs: &'static [(&'static str, &'static str, &'static str)],
}

const DOMAIN: Oracle = Oracle { read: by_domain, write: written_by_domain, differs: &[] };
const HICKORY: Oracle = Oracle {
    read: by_hickory,
    write: written_by_hickory,
    differs: &[
        ("MD", "md.", "not known there, so its name, which we compress, is not read"),
        ("MF", "mf.", "the same"),
        ("MB", "mb.", "the same"),
        ("MG", "mg.", "the same"),
        ("MR", "mr.", "the same"),
        ("MINFO", "a.example. b.example.", "the same"),
        ("SIG", "NXT 1 3", "only in the additional section"),
        ("APL", "", "no record without data but in updates"),
        ("TYPE731", "\\# 0", "no record without data but in updates"),
    ],
};

/// Returns the records that the implementation reads and writes without a difference, each in a
/// message of its own.
fn agreed<'i>(oracle: &Oracle, all: &'i [Ingredient]) -> Vec<&'i Ingredient> {
    let mut unseen = oracle.differs.to_vec();
    let mut unlisted = Vec::new();
    let mut agreed = Vec::new();
    for ingredient in all {
        let octets = single(ingredient);
        let expected = ours(&octets).map(roughly);
        let same = (oracle.read)(&octets).map(roughly) == expected
            && (oracle.write)(&octets).and_then(|written| ours(&written)).map(roughly) == expected;
        let listed = unseen.iter().position(|(mnemonic, start, _)| {
            *mnemonic == ingredient.mnemonic && ingredient.text.starts_with(start)
        });
        match (same, listed) {
            (true, _) => agreed.push(ingredient),
            (false, Some(index)) => drop(unseen.remove(index)),
            (false, None) => unlisted.push((ingredient.mnemonic, ingredient.text)),
        }
    }
    assert!(
        unlisted.is_empty() && unseen.is_empty(),
        "differ: {unlisted:#?}, no longer differ: {unseen:?}"
    );
    agreed
}

fn check(oracle: &Oracle, seed: u64) {
    let all = ingredients();
    let agreed = agreed(oracle, &all);
    let mut random = Random(seed);
    for number in 0..MESSAGES {
        let octets = generated(&mut random, &agreed);
        let expected = roughly(ours(&octets).expect("we read what we write"));
        let read = (oracle.read)(&octets).map(roughly);
        assert_eq!(read.as_ref(), Some(&expected), "message {number} read");
        let written = (oracle.write)(&octets).expect("it can be written");
        assert_eq!(ours(&written).map(roughly), Some(expected), "message {number} written");
    }
}

#[test]
fn messages_are_the_same_for_domain() {
    check(&DOMAIN, 1);
}

#[test]
fn messages_are_the_same_for_hickory() {
    check(&HICKORY, 2);
}

/// Messages that others accept and this crate refuses: name, implementation and reason. This crate
/// accepts no message that they refuse or read differently.
const TAKEN_BY_OTHERS: &[(&str, &str, &str)] = &[
    ("128-pointers", "domain", "no name needs more pointers than it can have labels"),
    ("128-pointers", "hickory-proto", "the same"),
    ("8000-pointers", "hickory-proto", "the same: each owner would cost 8,000 steps"),
    ("two-opt", "domain", "RFC 6891 section 6.1.1: FORMERR; there the first one counts"),
    ("16000-empty-options", "domain", "more than 32 options are a flood"),
    ("16000-empty-options", "hickory-proto", "the same"),
];

#[test]
fn others_take_some_hostile_messages_and_refuse_none_that_we_take() {
    let specimens = specimens::all().into_iter();
    let hostile = hostile::all().into_iter().map(|(name, _, octets)| (name, octets));
    let mut taken = Vec::new();
    for (name, octets) in specimens.chain(hostile) {
        let expected = ours(&octets).map(roughly);
        for (oracle, read) in
            [("domain", by_domain as fn(&[u8]) -> _), ("hickory-proto", by_hickory)]
        {
            let theirs = read(&octets).map(roughly);
            if expected.is_none() && theirs.is_some() {
                taken.push((name, oracle));
            } else {
                assert_eq!(theirs, expected, "{name} by {oracle}");
            }
        }
    }
    let listed: Vec<_> = TAKEN_BY_OTHERS.iter().map(|verdict| (verdict.0, verdict.1)).collect();
    assert_eq!(taken, listed);
}
