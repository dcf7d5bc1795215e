//! A reply as text, in the format of dig.

use std::fmt::{self, Write};

use avocet_wire::edns::{Edns, EdnsOption};
use avocet_wire::header::{AA, AD, CD, Header, QR, RA, RD, TC, Z};
use avocet_wire::view::{RecordSection, RecordView, WireError};
use avocet_wire::{MessageView, NameBuf, Rcode, Rtype, rdata, text};

use crate::exchange::Reply;

/// Names of the header's flags, in dig's order.
pub(super) const FLAGS: [(u16, &str); 8] =
    [(QR, "qr"), (AA, "aa"), (TC, "tc"), (RD, "rd"), (RA, "ra"), (Z, "z"), (AD, "ad"), (CD, "cd")];

/// Returns the names of the flags that are set.
pub(super) fn flags(header: &Header) -> Vec<&'static str> {
    FLAGS.iter().filter(|(flag, _)| header.has(*flag)).map(|(_, name)| *name).collect()
}

/// Returns the extended RCODE, whose upper bits are in OPT.
pub(super) fn rcode(message: &MessageView<'_>) -> Rcode {
    let high = message.edns().ok().flatten().map_or(0, |edns| u16::from(edns.rcode_high));
    Rcode(high << 4 | message.header().rcode().0)
}

/// Returns a name as text.
pub(super) fn name(name: &NameBuf) -> String {
    let mut out = String::new();
    let _ = text::write_name(name.wire(), &mut out);
    out
}

/// Returns the data of a record as text, with complete names.
pub(super) fn data(record: &RecordView<'_>) -> String {
    // Decompressed data can be longer than its message.
    let mut wire = vec![0; usize::from(u16::MAX)];
    let octets = match record.expand_rdata(&mut wire) {
        Ok(len) => wire.get(..len).unwrap_or_default(),
        Err(_) => record.rdata(),
    };
    rdata::display(record.rtype.0, octets).to_string()
}

/// Writes octets as lower-case hexadecimal digits.
pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut out, octet| {
        let _ = write!(out, "{octet:02x}");
        out
    })
}

/// Returns text from the network, with control characters escaped for terminals.
pub(super) fn harmless(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets)
        .chars()
        .flat_map(|letter| {
            let escape = letter.is_control().then(|| letter.escape_default());
            let plain = escape.is_none().then_some(letter);
            escape.into_iter().flatten().chain(plain)
        })
        .collect()
}

/// Returns the data of each answer on a separate line.
pub fn short(reply: &Reply) -> Result<String, WireError> {
    let message = MessageView::new(&reply.octets)?;
    let mut out = String::new();
    for record in message.section(RecordSection::Answer)? {
        let _ = writeln!(out, "{}", data(&record?));
    }
    Ok(out)
}

/// Returns the complete reply.
pub fn full(reply: &Reply) -> Result<String, WireError> {
    let message = MessageView::new(&reply.octets)?;
    let mut out = String::new();
    let _ = write_header(&message, &mut out);
    if let Some(edns) = message.edns()? {
        let _ = write_edns(&edns, &mut out);
    }
    write_question(&message, &mut out)?;
    for (section, title) in [
        (RecordSection::Answer, "ANSWER"),
        (RecordSection::Authority, "AUTHORITY"),
        (RecordSection::Additional, "ADDITIONAL"),
    ] {
        write_section(&message, section, title, &mut out)?;
    }
    let _ = write_end(reply, &mut out);
    Ok(out)
}

fn write_header(message: &MessageView<'_>, out: &mut String) -> fmt::Result {
    let header = message.header();
    let [questions, answers, authorities, additional] = header.counts;
    let opcode = match header.opcode().0 {
        0 => "QUERY".to_owned(),
        other => format!("OPCODE{other}"),
    };
    let status = rcode(message);
    writeln!(out, ";; ->>HEADER<<- opcode: {opcode}, status: {status}, id: {}", header.id)?;
    writeln!(
        out,
        ";; flags: {}; QUERY: {questions}, ANSWER: {answers}, AUTHORITY: {authorities}, \
         ADDITIONAL: {additional}\n",
        flags(&header).join(" ")
    )
}

fn write_edns(edns: &Edns<'_>, out: &mut String) -> fmt::Result {
    let flags = if edns.dnssec_ok { " do" } else { "" };
    writeln!(out, ";; OPT PSEUDOSECTION:")?;
    writeln!(out, "; EDNS: version: {}, flags:{flags}; udp: {}", edns.version, edns.udp_size)?;
    for option in edns.options() {
        match option {
            Ok(option) => write_option(&option, out)?,
            Err(error) => writeln!(out, "; malformed: {error}")?,
        }
    }
    Ok(())
}

fn write_option(option: &EdnsOption<'_>, out: &mut String) -> fmt::Result {
    match *option {
        EdnsOption::Nsid(id) => writeln!(out, "; NSID: {} (\"{}\")", hex(id), harmless(id)),
        EdnsOption::Cookie { client, server } => {
            let kind = if server.is_empty() { "" } else { " (with server cookie)" };
            writeln!(out, "; COOKIE: {}{}{kind}", hex(client), hex(server))
        }
        EdnsOption::Ede(code, extra) => {
            let extra = match extra {
                [] => String::new(),
                _ => format!(": ({})", harmless(extra)),
            };
            writeln!(out, "; EDE: {} ({}){extra}", code.0, code.meaning())
        }
        EdnsOption::Ecs { source_prefix, scope_prefix, address, family } => {
            let address = subnet(family, address);
            writeln!(out, "; CLIENT-SUBNET: {address}/{source_prefix}/{scope_prefix}")
        }
        EdnsOption::TcpKeepalive(Some(units)) => {
            writeln!(out, "; TCP-KEEPALIVE: {}.{} secs", units / 10, units % 10)
        }
        EdnsOption::TcpKeepalive(None) => writeln!(out, "; TCP-KEEPALIVE"),
        EdnsOption::Padding(len) => writeln!(out, "; PADDING: {len} octets"),
        EdnsOption::ZoneVersion(Some((labels, 0, &[a, b, c, d]))) => {
            let serial = u32::from_be_bytes([a, b, c, d]);
            writeln!(out, "; ZONEVERSION: serial {serial} of the zone with {labels} labels")
        }
        EdnsOption::Unknown(code, octets) => writeln!(out, "; OPT={code}: {}", hex(octets)),
        ref other => writeln!(out, "; {other:?}"),
    }
}

/// Returns the address of a client subnet, with omitted octets as zero.
pub(super) fn subnet(family: u16, octets: &[u8]) -> String {
    let mut whole = [0; 16];
    for (place, octet) in whole.iter_mut().zip(octets) {
        *place = *octet;
    }
    let [a, b, c, d, ..] = whole;
    if family == 1 {
        std::net::Ipv4Addr::from([a, b, c, d]).to_string()
    } else {
        std::net::Ipv6Addr::from(whole).to_string()
    }
}

fn write_question(message: &MessageView<'_>, out: &mut String) -> Result<(), WireError> {
    let mut is_first = true;
    for question in message.questions() {
        let question = question?;
        if is_first {
            out.push_str(";; QUESTION SECTION:\n");
            is_first = false;
        }
        let owner = padded(format!(";{}", name(&question.qname()?)), 32);
        let _ = writeln!(out, "{owner}{}\t{}", question.qclass, question.qtype);
    }
    Ok(())
}

fn write_section(
    message: &MessageView<'_>,
    section: RecordSection,
    title: &str,
    out: &mut String,
) -> Result<(), WireError> {
    let mut is_first = true;
    for record in message.section(section)? {
        let record = record?;
        if record.rtype == Rtype::OPT {
            continue;
        }
        if is_first {
            let _ = writeln!(out, "\n;; {title} SECTION:");
            is_first = false;
        }
        let owner = padded(name(&record.owner()?), 24);
        let ttl = padded(record.ttl_secs().to_string(), 8);
        let _ = writeln!(out, "{owner}{ttl}{}\t{}\t{}", record.class, record.rtype, data(&record));
    }
    Ok(())
}

/// Returns the text, followed by at least one tab, up to a column.
fn padded(mut text: String, column: usize) -> String {
    let mut at = text.chars().count();
    loop {
        text.push('\t');
        at = (at / 8 + 1) * 8;
        if at >= column {
            return text;
        }
    }
}

fn write_end(reply: &Reply, out: &mut String) -> fmt::Result {
    let carrier = reply.carrier.name();
    let micros = reply.elapsed.as_micros();
    let server = reply.server;
    writeln!(out, "\n;; Query time: {}.{:03} msec", micros / 1000, micros % 1000)?;
    writeln!(out, ";; SERVER: {}#{} ({carrier})", server.ip(), server.port())?;
    writeln!(out, ";; MSG SIZE  rcvd: {}", reply.octets.len())
}
