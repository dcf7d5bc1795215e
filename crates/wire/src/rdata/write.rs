//! A writer of record data in presentation form, in the style of `dig +nosplit`.

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use data_encoding::{BASE32HEX_NOPAD, BASE64, HEXLOWER, HEXUPPER};

use super::mnemonics::{ALGORITHMS, CERT_TYPES, DSYNC_SCHEMES, Mnemonics, TSIG_ERRORS, name_of};
use super::output::Stop;
use super::reader::Reader;
use super::table::{self, Field};
use super::{apl, bitmap, check, gateway, location, svcb, time};
use crate::code::Rtype;
use crate::text::{write_name, write_quoted};

/// Returns uncompressed record data in presentation form.
///
/// Opaque data, and data that [`check`] finds malformed, is written as `\# LENGTH HEX` (RFC 3597
/// §5).
pub fn display(rtype: u16, rdata: &[u8]) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        let fields = table::find(rtype).map_or(&[][..], |row| row.fields);
        if fields.is_empty() || check(rtype, rdata).is_err() {
            return write_generic(rdata, f);
        }
        match write_fields(fields, rdata, f) {
            Err(Stop::Output) => Err(fmt::Error),
            Err(Stop::Data) | Ok(()) => Ok(()),
        }
    })
}

fn write_generic(rdata: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "\\# {}", rdata.len())?;
    if rdata.is_empty() {
        return Ok(());
    }
    write!(f, " {}", HEXUPPER.encode_display(rdata))
}

fn write_fields(fields: &[Field], rdata: &[u8], f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let mut reader = Reader::new(rdata);
    for (index, &field) in fields.iter().enumerate() {
        if index > 0 && !(reader.is_empty() && is_nothing_when_empty(field)) {
            f.write_char(' ')?;
        }
        write_field(field, &mut reader, f)?;
    }
    Ok(())
}

/// Reports whether an empty field is omitted together with the space before it.
const fn is_nothing_when_empty(field: Field) -> bool {
    matches!(
        field,
        Field::OptionalCharString
            | Field::OptionalBase64
            | Field::Names
            | Field::TypeBitmap
            | Field::NxtBitmap
            | Field::SvcParams
    )
}

fn write_field(
    field: Field,
    reader: &mut Reader<'_>,
    f: &mut fmt::Formatter<'_>,
) -> Result<(), Stop> {
    match field {
        Field::U8 | Field::Algorithm => write!(f, "{}", reader.u8()?)?,
        Field::U16 => write!(f, "{}", reader.u16()?)?,
        Field::U32 | Field::Ttl => write!(f, "{}", reader.u32()?)?,
        Field::U48 => write!(f, "{}", reader.number(6)?)?,
        Field::U64 => write!(f, "{}", reader.number(8)?)?,
        Field::Timestamp => {
            let [year, month, day, hour, minute, second] = time::date(reader.u32()?);
            write!(f, "{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")?;
        }
        Field::Rtype => write!(f, "{}", Rtype(reader.u16()?))?,
        Field::CertAlgorithm => write_mnemonic(reader.u8()?.into(), ALGORITHMS, f)?,
        Field::DsyncScheme => write_mnemonic(reader.u8()?.into(), DSYNC_SCHEMES, f)?,
        Field::CertType => write_mnemonic(reader.u16()?, CERT_TYPES, f)?,
        Field::TsigError => write_mnemonic(reader.u16()?, TSIG_ERRORS, f)?,
        Field::Ipv4 => write!(f, "{}", Ipv4Addr::from(reader.array::<4>()?))?,
        Field::Ipv6 => write!(f, "{}", Ipv6Addr::from(reader.array::<16>()?))?,
        Field::Name => write_name(reader.name()?, f)?,
        _ => return write_variable(field, reader, f),
    }
    Ok(())
}

/// Writes a field of a kind that [`write_field`] does not write itself.
fn write_variable(
    field: Field,
    reader: &mut Reader<'_>,
    f: &mut fmt::Formatter<'_>,
) -> Result<(), Stop> {
    match field {
        Field::Names => write_names(reader, f)?,
        Field::OptionalCharString if reader.is_empty() => {}
        Field::CharString | Field::OptionalCharString => write_quoted(reader.char_string()?, f)?,
        Field::CharStrings => write_strings(reader, f)?,
        Field::CaaTag => write_ascii(reader.char_string()?, f)?,
        Field::Text | Field::NonEmptyText => write_quoted(reader.rest(), f)?,
        Field::Base64OrDash if reader.is_empty() => f.write_char('-')?,
        Field::Base64 | Field::OptionalBase64 | Field::Base64OrDash => {
            write!(f, "{}", BASE64.encode_display(reader.rest()))?;
        }
        Field::CountedBase64 => write_counted(reader.counted()?, f)?,
        Field::Hex | Field::ZonemdDigest => {
            write!(f, "{}", HEXUPPER.encode_display(reader.rest()))?;
        }
        Field::Salt => match reader.char_string()? {
            [] => f.write_char('-')?,
            salt => write!(f, "{}", HEXUPPER.encode_display(salt))?,
        },
        Field::Hash => write!(f, "{}", BASE32HEX_NOPAD.encode_display(reader.char_string()?))?,
        Field::TypeBitmap => bitmap::write_types(reader, f)?,
        Field::NxtBitmap => bitmap::write_nxt(reader, f)?,
        Field::Services => bitmap::write_services(reader, f)?,
        Field::SvcParams => svcb::write(reader, f)?,
        Field::AddressPrefixes => apl::write(reader, f)?,
        Field::Location => location::write(reader, f)?,
        Field::Nsap => write!(f, "0x{}", HEXLOWER.encode_display(reader.rest()))?,
        Field::Eui48 => write_pairs(reader.take(6)?, f)?,
        Field::Eui64 => write_pairs(reader.take(8)?, f)?,
        Field::Locator64 => write_locator(reader.array()?, f)?,
        Field::IpsecGateway => gateway::write_ipsec(reader, f)?,
        Field::AmtRelay => gateway::write_relay(reader, f)?,
        Field::A6 => gateway::write_a6(reader, f)?,
        Field::HostIdentity => gateway::write_host_identity(reader, f)?,
        _ => return Err(Stop::Data),
    }
    Ok(())
}

fn write_mnemonic(number: u16, table: Mnemonics, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match name_of(number, table) {
        Some(name) => f.write_str(name),
        None => write!(f, "{number}"),
    }
}

/// Writes names, separated by spaces.
fn write_names(reader: &mut Reader<'_>, f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let mut separator = "";
    while !reader.is_empty() {
        f.write_str(separator)?;
        write_name(reader.name()?, f)?;
        separator = " ";
    }
    Ok(())
}

/// Writes character-strings, separated by spaces.
fn write_strings(reader: &mut Reader<'_>, f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let mut separator = "";
    while !reader.is_empty() {
        f.write_str(separator)?;
        write_quoted(reader.char_string()?, f)?;
        separator = " ";
    }
    Ok(())
}

fn write_ascii(octets: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    octets.iter().try_for_each(|octet| f.write_char(char::from(*octet)))
}

fn write_counted(octets: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{}", octets.len())?;
    if octets.is_empty() {
        return Ok(());
    }
    write!(f, " {}", BASE64.encode_display(octets))
}

/// Writes pairs of hexadecimal digits, separated by hyphens.
fn write_pairs(octets: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, octet) in octets.iter().enumerate() {
        let separator = if index > 0 { "-" } else { "" };
        write!(f, "{separator}{octet:02x}")?;
    }
    Ok(())
}

/// Writes four groups of hexadecimal digits, without leading zeros.
fn write_locator(octets: [u8; 8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, group) in octets.as_chunks().0.iter().enumerate() {
        let separator = if index > 0 { ":" } else { "" };
        write!(f, "{separator}{:x}", u16::from_be_bytes(*group))?;
    }
    Ok(())
}
