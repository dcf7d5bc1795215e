//! A reply as one JSON object; names, types and data are in presentation format.

use avocet_wire::edns::{Edns, EdnsError, EdnsOption};
use avocet_wire::view::{RecordSection, RecordView, WireError};
use avocet_wire::{MessageView, Rtype};
use serde_json::{Value, json};

use super::text::{data, flags, harmless, hex, name, rcode, subnet};
use crate::exchange::{Carrier, Reply};

/// Converts a reply.
pub fn object(reply: &Reply) -> Result<Value, WireError> {
    let message = MessageView::new(&reply.octets)?;
    let header = message.header();
    let mut questions = Vec::new();
    for question in message.questions() {
        let question = question?;
        questions.push(json!({
            "name": name(&question.qname()?),
            "type": question.qtype.to_string(),
            "class": question.qclass.to_string(),
        }));
    }
    Ok(json!({
        "server": reply.server.to_string(),
        "transport": match reply.carrier {
            Carrier::Udp => "udp",
            Carrier::Tcp => "tcp",
        },
        "time-us": u64::try_from(reply.elapsed.as_micros()).unwrap_or(u64::MAX),
        "size": reply.octets.len(),
        "id": header.id,
        "opcode": header.opcode().0,
        "rcode": rcode(&message).to_string(),
        "flags": flags(&header),
        "question": questions,
        "answer": records(&message, RecordSection::Answer)?,
        "authority": records(&message, RecordSection::Authority)?,
        "additional": records(&message, RecordSection::Additional)?,
        "edns": message.edns()?.as_ref().map(edns),
    }))
}

fn records(message: &MessageView<'_>, section: RecordSection) -> Result<Vec<Value>, WireError> {
    message
        .section(section)?
        .filter(|record| !record.as_ref().is_ok_and(|record| record.rtype == Rtype::OPT))
        .map(|found| record(&found?))
        .collect()
}

fn record(record: &RecordView<'_>) -> Result<Value, WireError> {
    Ok(json!({
        "name": name(&record.owner()?),
        "type": record.rtype.to_string(),
        "class": record.class.to_string(),
        "ttl": record.ttl_secs(),
        "data": data(record),
    }))
}

fn edns(edns: &Edns<'_>) -> Value {
    json!({
        "version": edns.version,
        "udp-size": edns.udp_size,
        "dnssec-ok": edns.dnssec_ok,
        "options": edns.options().map(option).collect::<Vec<_>>(),
    })
}

fn option(found: Result<EdnsOption<'_>, EdnsError>) -> Value {
    match found {
        Err(error) => json!({ "malformed": error.to_string() }),
        Ok(EdnsOption::Ede(code, extra)) => {
            json!({ "ede": { "code": code.0, "meaning": code.meaning(), "text": harmless(extra) } })
        }
        Ok(EdnsOption::Cookie { client, server }) => {
            json!({ "cookie": { "client": hex(client), "server": hex(server) } })
        }
        Ok(EdnsOption::Nsid(id)) => json!({ "nsid": harmless(id) }),
        Ok(EdnsOption::Ecs { family, source_prefix, scope_prefix, address }) => {
            let address = subnet(family, address);
            json!({ "subnet": { "address": address, "source": source_prefix, "scope": scope_prefix } })
        }
        Ok(EdnsOption::TcpKeepalive(units)) => {
            json!({ "keepalive-ms": units.map(|units| u32::from(units) * 100) })
        }
        Ok(EdnsOption::Padding(len)) => json!({ "padding": len }),
        Ok(EdnsOption::Unknown(code, octets)) => json!({ "code": code, "data": hex(octets) }),
        Ok(other) => json!({ "other": format!("{other:?}") }),
    }
}
