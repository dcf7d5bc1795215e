//! A reply as one JSON object; names, types and data are in presentation format.

use avocet_wire::edns::{Edns, EdnsError, EdnsOption};
use avocet_wire::view::{RecordSection, RecordView, WireError};
use avocet_wire::{MessageView, Rtype};
use serde::Serialize;

use super::text::{data, flags, harmless, hex, name, rcode, subnet};
use crate::exchange::{Carrier, Reply};

/// The JSON object of a reply.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ReplyObject {
    server: String,
    transport: TransportWord,
    time_us: u64,
    size: usize,
    id: u16,
    opcode: u8,
    rcode: String,
    flags: Vec<&'static str>,
    question: Vec<QuestionObject>,
    answer: Vec<RecordObject>,
    authority: Vec<RecordObject>,
    additional: Vec<RecordObject>,
    edns: Option<EdnsObject>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum TransportWord {
    Udp,
    Tcp,
    Tls,
    /// DNS over HTTPS with HTTP/2.
    Https,
    Quic,
    H3,
}

#[derive(Serialize)]
struct QuestionObject {
    name: String,
    #[serde(rename = "type")]
    qtype: String,
    class: String,
}

#[derive(Serialize)]
struct RecordObject {
    name: String,
    #[serde(rename = "type")]
    rtype: String,
    class: String,
    ttl: u32,
    data: String,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct EdnsObject {
    version: u8,
    udp_size: u16,
    dnssec_ok: bool,
    options: Vec<OptionObject>,
}

/// An EDNS option: an object with the option's name as its only key. For an unknown option, the
/// object has its code and data.
#[derive(Serialize)]
#[serde(untagged)]
enum OptionObject {
    Named(NamedOption),
    Unknown { code: u16, data: String },
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum NamedOption {
    Malformed(String),
    Ede { code: u16, meaning: &'static str, text: String },
    Cookie { client: String, server: String },
    Nsid(String),
    Subnet { address: String, source: u8, scope: u8 },
    KeepaliveMs(Option<u32>),
    Padding(u16),
    ZoneVersion { labels: u8, serial: u32 },
    Other(String),
}

impl ReplyObject {
    /// Reads the whole reply.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn of(reply: &Reply) -> Result<Self, WireError> {
        let message = MessageView::new(&reply.octets)?;
        let header = message.header();
        let mut question = Vec::new();
        for found in message.questions() {
            let found = found?;
            question.push(QuestionObject {
                name: name(&found.qname()?),
                qtype: found.qtype.to_string(),
                class: found.qclass.to_string(),
            });
        }
        Ok(Self {
            server: reply.server.to_string(),
            transport: match reply.carrier {
                Carrier::Udp => TransportWord::Udp,
                Carrier::Tcp => TransportWord::Tcp,
                Carrier::Tls => TransportWord::Tls,
                Carrier::Https => TransportWord::Https,
                Carrier::Quic => TransportWord::Quic,
                Carrier::H3 => TransportWord::H3,
            },
            time_us: u64::try_from(reply.elapsed.as_micros()).unwrap_or(u64::MAX),
            size: reply.octets.len(),
            id: header.id,
            opcode: header.opcode().0,
            rcode: rcode(&message).to_string(),
            flags: flags(&header),
            question,
            answer: records(&message, RecordSection::Answer)?,
            authority: records(&message, RecordSection::Authority)?,
            additional: records(&message, RecordSection::Additional)?,
            edns: message.edns()?.as_ref().map(edns),
        })
    }
}

fn records(
    message: &MessageView<'_>,
    section: RecordSection,
) -> Result<Vec<RecordObject>, WireError> {
    message
        .section(section)?
        .filter(|record| !record.as_ref().is_ok_and(|record| record.rtype == Rtype::OPT))
        .map(|found| record(&found?))
        .collect()
}

fn record(record: &RecordView<'_>) -> Result<RecordObject, WireError> {
    Ok(RecordObject {
        name: name(&record.owner()?),
        rtype: record.rtype.to_string(),
        class: record.class.to_string(),
        ttl: record.ttl_secs(),
        data: data(record),
    })
}

fn edns(edns: &Edns<'_>) -> EdnsObject {
    EdnsObject {
        version: edns.version,
        udp_size: edns.udp_size,
        dnssec_ok: edns.dnssec_ok,
        options: edns.options().map(option).collect(),
    }
}

fn option(found: Result<EdnsOption<'_>, EdnsError>) -> OptionObject {
    OptionObject::Named(match found {
        Err(error) => NamedOption::Malformed(error.to_string()),
        Ok(EdnsOption::Ede(code, extra)) => {
            NamedOption::Ede { code: code.0, meaning: code.meaning(), text: harmless(extra) }
        }
        Ok(EdnsOption::Cookie { client, server }) => {
            NamedOption::Cookie { client: hex(client), server: hex(server) }
        }
        Ok(EdnsOption::Nsid(id)) => NamedOption::Nsid(harmless(id)),
        Ok(EdnsOption::Ecs { family, source_prefix, scope_prefix, address }) => {
            let address = subnet(family, address);
            NamedOption::Subnet { address, source: source_prefix, scope: scope_prefix }
        }
        Ok(EdnsOption::TcpKeepalive(units)) => {
            NamedOption::KeepaliveMs(units.map(|units| u32::from(units) * 100))
        }
        Ok(EdnsOption::Padding(len)) => NamedOption::Padding(len),
        Ok(EdnsOption::ZoneVersion(Some((labels, 0, &[a, b, c, d])))) => {
            NamedOption::ZoneVersion { labels, serial: u32::from_be_bytes([a, b, c, d]) }
        }
        Ok(EdnsOption::Unknown(code, octets)) => {
            return OptionObject::Unknown { code, data: hex(octets) };
        }
        Ok(other) => NamedOption::Other(format!("{other:?}")),
    })
}
