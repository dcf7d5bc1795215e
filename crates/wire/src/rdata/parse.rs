//! A parser of record data in presentation form.

use std::net::{Ipv4Addr, Ipv6Addr};

use data_encoding::BASE32HEX_NOPAD;

use super::check::{check, check_tag};
use super::input::{Input, append_base64, append_counted, append_hex, append_string, read_rtype};
use super::mnemonics::{ALGORITHMS, CERT_TYPES, DSYNC_SCHEMES, TSIG_ERRORS, number_of};
use super::table::{self, Field};
use super::{MAX_RDATA, Problem, RdataError, apl, bitmap, gateway, location, svcb, time};
use crate::text::{self, Token};

/// Parses `text`, a single line, and appends the uncompressed data.
///
/// `origin` is the absolute wire name that completes relative names. Any type may be given as `\#
/// LENGTH HEX` (RFC 3597 §5). The result always passes [`check()`].
///
/// # Errors
/// The first malformed field. `out` is then unchanged.
pub fn parse(rtype: u16, text: &str, origin: &[u8], out: &mut Vec<u8>) -> Result<(), RdataError> {
    let tokens: Result<Vec<_>, _> = text::tokens(text.as_bytes()).collect();
    let tokens = tokens.map_err(|error| RdataError::whole(Problem::Text(error)))?;
    parse_tokens(rtype, &tokens, origin, out)
}

/// Parses tokens, which may come from several lines, as [`parse`] does.
///
/// # Errors
/// The errors of [`parse`].
pub fn parse_tokens(
    rtype: u16,
    tokens: &[Token<'_>],
    origin: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), RdataError> {
    let start = out.len();
    let mut input = Input::new(tokens, origin);
    let parsed = match tokens.first() {
        Some(Token { text: br"\#", .. }) => parse_generic(&mut input, out),
        _ => parse_fields(rtype, &mut input, out),
    };
    let checked = parsed.and_then(|()| {
        let column = input.column();
        check(rtype, &out[start..]).map_err(|error| RdataError { offset: column, ..error })
    });
    if checked.is_err() {
        out.truncate(start);
    }
    checked
}

fn parse_fields(rtype: u16, input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let fields = table::find(rtype).map_or(&[][..], |row| row.fields);
    if fields.is_empty() {
        return Err(RdataError::whole(Problem::Opaque));
    }
    for (index, &field) in fields.iter().enumerate() {
        parse_field(field, input, out)
            .map_err(|problem| RdataError::in_field(problem, index, field, input.column()))?;
    }
    match input.next() {
        Ok(_) => Err(input.error(Problem::Trailing)),
        Err(_) => Ok(()),
    }
}

/// Parses `\# LENGTH HEX`.
fn parse_generic(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), RdataError> {
    let start = out.len();
    let read = |input: &mut Input<'_>, out: &mut Vec<u8>| {
        input.next()?;
        let len = input.number(MAX_RDATA as u64)?;
        append_hex(&input.joined(), out)?;
        match (out.len() - start) as u64 == len {
            true => Ok(()),
            false => Err(Problem::Rule("the length is not that of the data")),
        }
    };
    read(input, out).map_err(|problem| input.error(problem))
}

fn parse_field(field: Field, input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    match field {
        Field::U8 | Field::U16 | Field::U32 | Field::U48 | Field::U64 => {
            append_number(field.width().unwrap_or(8), input, out)?;
        }
        Field::Ttl => out.extend_from_slice(&time::read_ttl(input.next()?)?.to_be_bytes()),
        Field::Timestamp => {
            out.extend_from_slice(&time::read_timestamp(input.next()?)?.to_be_bytes());
        }
        Field::Rtype => out.extend_from_slice(&read_rtype(input.next()?)?.to_be_bytes()),
        Field::Algorithm | Field::CertAlgorithm => {
            out.push(number_of(input.next()?, ALGORITHMS, 255)? as u8);
        }
        Field::DsyncScheme => out.push(number_of(input.next()?, DSYNC_SCHEMES, 255)? as u8),
        Field::CertType => {
            let number = number_of(input.next()?, CERT_TYPES, u16::MAX)?;
            out.extend_from_slice(&number.to_be_bytes());
        }
        Field::TsigError => {
            let number = number_of(input.next()?, TSIG_ERRORS, u16::MAX)?;
            out.extend_from_slice(&number.to_be_bytes());
        }
        Field::Ipv4 => out.extend_from_slice(&input.value::<Ipv4Addr>()?.octets()),
        Field::Ipv6 => out.extend_from_slice(&input.value::<Ipv6Addr>()?.octets()),
        Field::Name => input.name(out)?,
        Field::Names => {
            while input.peek().is_some() {
                input.name(out)?;
            }
        }
        _ => return parse_variable(field, input, out),
    }
    Ok(())
}

/// Parses fields other than numbers and names.
fn parse_variable(field: Field, input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    match field {
        Field::CharString => append_string(input.next()?, out),
        Field::OptionalCharString => input.next().map_or(Ok(()), |token| append_string(token, out)),
        Field::CharStrings => {
            append_string(input.next()?, out)?;
            while let Some(token) = input.peek() {
                input.next()?;
                append_string(token, out)?;
            }
            Ok(())
        }
        Field::CaaTag => {
            let tag = input.next()?;
            check_tag(tag)?;
            append_counted(tag, out)
        }
        Field::Text | Field::NonEmptyText => append_text(field, input.next()?, out),
        Field::Base64 => append_base64(&some(input.joined())?, out),
        Field::OptionalBase64 => append_base64(&input.joined(), out),
        Field::Base64OrDash => match some(input.joined())?.as_slice() {
            b"-" => Ok(()),
            text => append_base64(text, out),
        },
        Field::CountedBase64 => append_counted_base64(input, out),
        Field::Hex | Field::ZonemdDigest => append_hex(&some(input.joined())?, out),
        Field::Salt => append_salt(input.next()?, out),
        Field::Hash => append_hash(input.next()?, out),
        Field::TypeBitmap => bitmap::parse_types(input, out),
        Field::NxtBitmap => bitmap::parse_nxt(input, out),
        Field::Services => bitmap::parse_services(input, out),
        Field::SvcParams => svcb::parse(input, out),
        Field::AddressPrefixes => apl::parse(input, out),
        Field::Location => location::parse(input, out),
        Field::Nsap => append_nsap(input.next()?, out),
        Field::Eui48 => append_groups::<6>(input.next()?, b'-', out),
        Field::Eui64 => append_groups::<8>(input.next()?, b'-', out),
        Field::Locator64 => append_locator(input.next()?, out),
        Field::IpsecGateway => gateway::parse_ipsec(input, out),
        Field::AmtRelay => gateway::parse_relay(input, out),
        Field::A6 => gateway::parse_a6(input, out),
        Field::HostIdentity => gateway::parse_host_identity(input, out),
        _ => Err(Problem::Opaque),
    }
}

/// Parses a number and appends it in `width` octets, at most eight.
fn append_number(width: u8, input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let spare = 8 - usize::from(width);
    let value = input.number(u64::MAX >> (8 * spare))?;
    out.extend_from_slice(&value.to_be_bytes()[spare..]);
    Ok(())
}

fn some(text: Vec<u8>) -> Result<Vec<u8>, Problem> {
    if text.is_empty() { Err(Problem::Missing) } else { Ok(text) }
}

fn append_text(field: Field, token: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    let start = out.len();
    text::read_string(token, out)?;
    if field == Field::NonEmptyText && out.len() == start {
        return Err(Problem::Missing);
    }
    Ok(())
}

/// Parses a length and, unless it is 0, that many octets in base64, which may contain white space.
fn append_counted_base64(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let len = input.number(u64::from(u16::MAX))? as usize;
    out.extend_from_slice(&(len as u16).to_be_bytes());
    let digits = len.div_ceil(3) * 4;
    let mut text = Vec::new();
    while text.len() < digits {
        text.extend_from_slice(input.next()?);
    }
    let start = out.len();
    append_base64(&text, out)?;
    match out.len() - start == len {
        true => Ok(()),
        false => Err(Problem::Rule("the length is not that of the data")),
    }
}

/// Parses the salt of NSEC3 (RFC 5155 §3.3). The token `-` means an empty salt.
fn append_salt(token: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    let mut salt = Vec::new();
    if token != b"-" {
        append_hex(token, &mut salt)?;
    }
    append_counted(&salt, out)
}

fn append_hash(token: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    let hash = BASE32HEX_NOPAD.decode(&token.to_ascii_uppercase());
    append_counted(&some(hash.map_err(|_| Problem::Encoding)?)?, out)
}

/// Parses `0x` and hexadecimal digits. Dots may stand anywhere between them (RFC 1706 §5).
fn append_nsap(token: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    let [b'0', b'x' | b'X', digits @ ..] = token else { return Err(Problem::Encoding) };
    let digits: Vec<u8> = digits.iter().copied().filter(|octet| *octet != b'.').collect();
    append_hex(&some(digits)?, out)
}

/// Parses `N` octets as pairs of hexadecimal digits with a separator between them.
fn append_groups<const N: usize>(
    token: &[u8],
    separator: u8,
    out: &mut Vec<u8>,
) -> Result<(), Problem> {
    let mut count = 0;
    for group in token.split(|octet| *octet == separator) {
        if group.len() != 2 {
            return Err(Problem::Encoding);
        }
        append_hex(group, out)?;
        count += 1;
    }
    if count == N { Ok(()) } else { Err(Problem::Encoding) }
}

/// Parses four groups of one to four hexadecimal digits (RFC 6742 §2.1.2).
fn append_locator(token: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    let mut groups = 0;
    for group in token.split(|octet| *octet == b':') {
        let mut digits = *b"0000";
        let pad = digits.len().checked_sub(group.len()).filter(|pad| *pad < 4);
        digits[pad.ok_or(Problem::Encoding)?..].copy_from_slice(group);
        append_hex(&digits, out)?;
        groups += 1;
    }
    if groups == 4 { Ok(()) } else { Err(Problem::Encoding) }
}
