//! Answers of the policy: responses to blocked names, and replaced addresses.

use std::net::IpAddr;

use avocet_policy::rpz::Action;
use avocet_wire::builder::{Builder, Full, Record, Section};
use avocet_wire::header::{QR, RA};
use avocet_wire::{Class, MessageView, NameBuf, Rcode, Rtype};

use super::question::LocalQuestion;
use super::respond::{Draft, draft_empty};

/// Number of octets for the SOA data: both names are short.
const SOA_ROOM: usize = 64;
/// MNAME `avocet.invalid.` and RNAME `nobody.invalid.` of the SOA in negative responses.
const SOA_NAMES: &[u8] = b"\x06avocet\x07invalid\x00\x06nobody\x07invalid\x00";
/// Maximum number of records of one answer: the records of a policy zone's trigger, and the aliases
/// that lead to them.
pub const MAX_BLOCK_RECORDS: usize = 64;

/// The content of an answer.
#[derive(Clone, Debug)]
pub enum Form<'a> {
    /// NXDOMAIN.
    Nxdomain,
    /// NODATA.
    Nodata,
    /// This RCODE, without records.
    Rcode(Rcode),
    /// The unspecified address of the queried family.
    Zero,
    /// The addresses of the queried type; NODATA for other types.
    Addresses(&'a [IpAddr]),
    /// The records of the queried type, with uncompressed data; NODATA for other types.
    Records(Vec<(Rtype, Box<[u8]>)>),
    /// The records of the queried type in the local data of a policy zone, with individual TTLs;
    /// NODATA for other types.
    Local(&'a Action),
    /// An alias to this name.
    Alias(Box<NameBuf>),
}

/// Writes the answer of this form, with this TTL in seconds.
pub fn draft(
    question: &LocalQuestion<'_>,
    form: &Form<'_>,
    ttl_secs: u32,
    out: &mut [u8],
) -> Draft {
    match form {
        Form::Rcode(rcode) => empty(question, *rcode, out),
        Form::Nxdomain => deny(question, Rcode::NXDOMAIN, ttl_secs, out),
        Form::Nodata => deny(question, Rcode::NOERROR, ttl_secs, out),
        Form::Zero => match question.qtype {
            Rtype::A => one(question, &[0; 4], ttl_secs, out),
            Rtype::AAAA => one(question, &[0; 16], ttl_secs, out),
            _ => deny(question, Rcode::NOERROR, ttl_secs, out),
        },
        Form::Addresses(list) => {
            let octets: Vec<(Rtype, [u8; 16])> = list.iter().map(of_address).collect();
            let octets =
                octets.iter().map(|(rtype, rdata)| (*rtype, address_octets(*rtype, rdata)));
            of_type(question, octets, ttl_secs, out)
        }
        Form::Records(list) => {
            of_type(question, list.iter().map(|(rtype, rdata)| (*rtype, &**rdata)), ttl_secs, out)
        }
        Form::Local(action) => {
            let local = action
                .records(question.qtype)
                .map(|record| (record.rtype, record.ttl_secs, &*record.rdata));
            records(question, local, ttl_secs, out)
        }
        Form::Alias(target) => records(
            question,
            std::iter::once((Rtype::CNAME, ttl_secs, target.wire())),
            ttl_secs,
            out,
        ),
    }
}

fn empty(question: &LocalQuestion<'_>, rcode: Rcode, out: &mut [u8]) -> Draft {
    let mut octets = [0; avocet_wire::name::MAX_NAME + 4];
    let (name, fixed) = octets.split_at_mut(question.qname.len());
    name.copy_from_slice(&question.qname);
    fixed[..2].copy_from_slice(&question.qtype.0.to_be_bytes());
    fixed[2..4].copy_from_slice(&Class::IN.0.to_be_bytes());
    draft_empty(out, Some(&octets[..question.qname.len() + 4]), rcode)
}

fn deny(question: &LocalQuestion<'_>, rcode: Rcode, ttl_secs: u32, out: &mut [u8]) -> Draft {
    write(question, rcode, out, |builder| {
        let mut room = [0; SOA_ROOM];
        let rdata = soa(ttl_secs, &mut room);
        let owner = question.qname;
        builder.record(
            Section::Authority,
            &Record { owner: &owner, rtype: Rtype::SOA, class: Class::IN, ttl_secs, rdata },
        )
    })
    .unwrap_or_else(|Full| empty(question, rcode, out))
}

/// Returns type and octets of an address; IPv4 uses the first four octets.
fn of_address(address: &IpAddr) -> (Rtype, [u8; 16]) {
    match address {
        IpAddr::V4(address) => {
            let mut room = [0; 16];
            room[..4].copy_from_slice(&address.octets());
            (Rtype::A, room)
        }
        IpAddr::V6(address) => (Rtype::AAAA, address.octets()),
    }
}

fn address_octets(rtype: Rtype, room: &[u8; 16]) -> &[u8] {
    if rtype == Rtype::A { &room[..4] } else { room }
}

/// Returns the records of the queried type, all with the same TTL.
fn of_type<'r>(
    question: &LocalQuestion<'_>,
    list: impl Iterator<Item = (Rtype, &'r [u8])>,
    ttl_secs: u32,
    out: &mut [u8],
) -> Draft {
    let wanted = list.filter(|(rtype, _)| *rtype == question.qtype);
    records(question, wanted.map(|(rtype, rdata)| (rtype, ttl_secs, rdata)), ttl_secs, out)
}

/// Writes records given as type, TTL and data. If there are no records, writes NODATA with a TTL of
/// `denial_secs`.
fn records<'r>(
    question: &LocalQuestion<'_>,
    list: impl Iterator<Item = (Rtype, u32, &'r [u8])>,
    denial_secs: u32,
    out: &mut [u8],
) -> Draft {
    let mut wanted = list.take(MAX_BLOCK_RECORDS).peekable();
    if wanted.peek().is_none() {
        return deny(question, Rcode::NOERROR, denial_secs, out);
    }
    write(question, Rcode::NOERROR, out, |builder| {
        wanted.try_for_each(|(rtype, ttl_secs, rdata)| {
            let record =
                Record { owner: &question.qname, rtype, class: Class::IN, ttl_secs, rdata };
            builder.record(Section::Answer, &record)
        })
    })
    .unwrap_or_else(|Full| empty(question, Rcode::SERVFAIL, out))
}

/// Writes one record of the queried type.
fn one(question: &LocalQuestion<'_>, rdata: &[u8], ttl_secs: u32, out: &mut [u8]) -> Draft {
    write(question, Rcode::NOERROR, out, |builder| {
        let record = Record {
            owner: &question.qname,
            rtype: question.qtype,
            class: Class::IN,
            ttl_secs,
            rdata,
        };
        builder.record(Section::Answer, &record)
    })
    .unwrap_or_else(|Full| empty(question, Rcode::SERVFAIL, out))
}

fn write(
    question: &LocalQuestion<'_>,
    rcode: Rcode,
    out: &mut [u8],
    records: impl FnOnce(&mut Builder<'_>) -> Result<(), Full>,
) -> Result<Draft, Full> {
    let limit = out.len();
    let mut builder = Builder::new(out, limit, 0, QR | RA | rcode.low())?;
    builder.question(&question.qname, question.qtype, Class::IN)?;
    records(&mut builder)?;
    Ok(Draft { len: builder.finish(), rcode, ede: None, note: 0 })
}

/// Returns SOA data that makes clients cache the negative response for `ttl_secs` (RFC 2308 §4).
fn soa(ttl_secs: u32, room: &mut [u8; SOA_ROOM]) -> &[u8] {
    let (names, rest) = room.split_at_mut(SOA_NAMES.len());
    names.copy_from_slice(SOA_NAMES);
    let numbers = [1, 3600, 1200, 604_800, ttl_secs];
    for (place, number) in rest.as_chunks_mut::<4>().0.iter_mut().zip(numbers) {
        *place = number.to_be_bytes();
    }
    &room[..SOA_NAMES.len() + 4 * numbers.len()]
}

/// Writes the offsets of the TTL fields of a message of this server to `room`, up to its size.
/// Returns their number.
pub fn ttl_offsets(message: &[u8], room: &mut [u16; MAX_BLOCK_RECORDS]) -> usize {
    let Ok(records) = MessageView::new(message).and_then(|view| view.records()) else { return 0 };
    let mut count = 0;
    for (place, record) in room.iter_mut().zip(records.filter_map(Result::ok)) {
        *place = record.ttl_offset() as u16;
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rtype: Rtype, form: Form<'_>) -> String {
        let mut out = [0; 512];
        let question = LocalQuestion {
            qname: avocet_wire::FoldedName::new(b"\x03ads\x07example\x00").unwrap(),
            qtype: rtype,
            turn: 0,
        };
        let draft = draft(&question, &form, 60, &mut out);
        let view = MessageView::new(&out[..draft.len]).unwrap();
        let mut offsets = [0; MAX_BLOCK_RECORDS];
        let records: Vec<String> = view
            .records()
            .unwrap()
            .map(|record| record.unwrap())
            .map(|record| {
                format!("{} {} {:?}", record.rtype, record.ttl_secs(), record.rdata().len())
            })
            .collect();
        assert_eq!(ttl_offsets(&out[..draft.len], &mut offsets), records.len());
        format!("{} {}", draft.rcode, records.join(", "))
    }

    #[test]
    fn each_form_answers_each_type() {
        let own = [IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2])];
        assert_eq!(shown(Rtype::A, Form::Zero), "NOERROR A 60 4");
        assert_eq!(shown(Rtype::AAAA, Form::Zero), "NOERROR AAAA 60 16");
        assert_eq!(shown(Rtype::MX, Form::Zero), "NOERROR SOA 60 45");
        assert_eq!(shown(Rtype::A, Form::Nxdomain), "NXDOMAIN SOA 60 45");
        assert_eq!(shown(Rtype::A, Form::Nodata), "NOERROR SOA 60 45");
        assert_eq!(shown(Rtype::A, Form::Rcode(Rcode::REFUSED)), "REFUSED ");
        assert_eq!(shown(Rtype::A, Form::Addresses(&own)), "NOERROR A 60 4, A 60 4");
        assert_eq!(shown(Rtype::AAAA, Form::Addresses(&own)), "NOERROR SOA 60 45");
        let records =
            vec![(Rtype::TXT, Box::from(&b"\x02hi"[..])), (Rtype::A, Box::from([192, 0, 2, 1]))];
        assert_eq!(shown(Rtype::TXT, Form::Records(records)), "NOERROR TXT 60 3");
    }
}
