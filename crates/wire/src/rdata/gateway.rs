//! Data whose layout depends on one of its fields: the gateway of IPSECKEY (RFC 4025), the relay of
//! AMTRELAY (RFC 8777), A6 (RFC 2874) and the keys of HIP (RFC 8005).

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use data_encoding::{BASE64, HEXUPPER};

use super::Problem;
use super::input::{Input, append_base64, append_hex};
use super::mnemonics::{ALGORITHMS, number_of};
use super::output::Stop;
use super::reader::Reader;
use crate::text::write_name;

/// AMTRELAY's "discovery optional" bit.
const DISCOVERY_OPTIONAL: u8 = 0x80;

/// The kind of a gateway. Both types use the same codes.
#[derive(Clone, Copy)]
enum GatewayType {
    None,
    Ipv4,
    Ipv6,
    Name,
}

impl GatewayType {
    const fn of(number: u8) -> Result<Self, Problem> {
        match number {
            0 => Ok(Self::None),
            1 => Ok(Self::Ipv4),
            2 => Ok(Self::Ipv6),
            3 => Ok(Self::Name),
            _ => Err(Problem::Rule("an unknown kind of gateway")),
        }
    }
}

fn check_gateway(kind: GatewayType, reader: &mut Reader<'_>) -> Result<(), Problem> {
    match kind {
        GatewayType::None => Ok(()),
        GatewayType::Ipv4 => reader.take(4).map(drop),
        GatewayType::Ipv6 => reader.take(16).map(drop),
        GatewayType::Name => reader.name().map(drop),
    }
}

fn parse_gateway(
    kind: GatewayType,
    input: &mut Input<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Problem> {
    match kind {
        GatewayType::None if input.next()? != b"." => {
            return Err(Problem::Rule("no gateway is written as a dot"));
        }
        GatewayType::None => {}
        GatewayType::Ipv4 => out.extend_from_slice(&input.value::<Ipv4Addr>()?.octets()),
        GatewayType::Ipv6 => out.extend_from_slice(&input.value::<Ipv6Addr>()?.octets()),
        GatewayType::Name => input.name(out)?,
    }
    Ok(())
}

fn write_gateway(
    kind: GatewayType,
    reader: &mut Reader<'_>,
    f: &mut fmt::Formatter<'_>,
) -> Result<(), Stop> {
    match kind {
        GatewayType::None => f.write_char('.')?,
        GatewayType::Ipv4 => write!(f, "{}", Ipv4Addr::from(reader.array::<4>()?))?,
        GatewayType::Ipv6 => write!(f, "{}", Ipv6Addr::from(reader.array::<16>()?))?,
        GatewayType::Name => write_name(reader.name()?, f)?,
    }
    Ok(())
}

pub(super) fn check_ipsec(reader: &mut Reader<'_>) -> Result<(), Problem> {
    let kind = GatewayType::of(reader.u8()?)?;
    reader.u8()?;
    check_gateway(kind, reader)
}

/// Parses kind, algorithm and gateway.
pub(super) fn parse_ipsec(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let kind = input.number(255)? as u8;
    let algorithm = input.number(255)? as u8;
    out.extend_from_slice(&[kind, algorithm]);
    parse_gateway(GatewayType::of(kind)?, input, out)
}

pub(super) fn write_ipsec(reader: &mut Reader<'_>, f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let (kind, algorithm) = (reader.u8()?, reader.u8()?);
    write!(f, "{kind} {algorithm} ")?;
    write_gateway(GatewayType::of(kind)?, reader, f)
}

pub(super) fn check_relay(reader: &mut Reader<'_>) -> Result<(), Problem> {
    let kind = reader.u8()? & !DISCOVERY_OPTIONAL;
    check_gateway(GatewayType::of(kind)?, reader)
}

/// Parses discovery bit, kind and relay.
pub(super) fn parse_relay(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let optional = input.number(1)? as u8;
    let kind = input.number(127)? as u8;
    out.push(optional << 7 | kind);
    parse_gateway(GatewayType::of(kind)?, input, out)
}

pub(super) fn write_relay(reader: &mut Reader<'_>, f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let octet = reader.u8()?;
    let kind = octet & !DISCOVERY_OPTIONAL;
    write!(f, "{} {kind} ", octet >> 7)?;
    write_gateway(GatewayType::of(kind)?, reader, f)
}

/// Returns the number of octets of the address suffix after a prefix of this many bits.
fn suffix_len(prefix: u8) -> Result<usize, Problem> {
    match 128_usize.checked_sub(usize::from(prefix)) {
        Some(bits) => Ok(bits.div_ceil(8)),
        None => Err(Problem::Rule("a prefix of more than 128 bits")),
    }
}

/// Returns the address whose last octets are `suffix`, if all bits within the prefix are 0.
fn suffix_address(prefix: u8, suffix: &[u8]) -> Result<Ipv6Addr, Problem> {
    let address = suffix.iter().fold(0, |value, octet| value << 8 | u128::from(*octet));
    let allowed = u128::MAX.checked_shr(u32::from(prefix)).unwrap_or(0);
    match address & !allowed {
        0 => Ok(Ipv6Addr::from_bits(address)),
        _ => Err(Problem::Rule("bits of the prefix are set in the address")),
    }
}

/// Returns the offset of A6's prefix name, if the data has one.
pub(super) fn a6_name(rdata: &[u8]) -> Option<usize> {
    let prefix = *rdata.first().filter(|prefix| **prefix > 0)?;
    Some(1 + suffix_len(prefix).ok()?)
}

pub(super) fn check_a6(reader: &mut Reader<'_>) -> Result<(), Problem> {
    let prefix = reader.u8()?;
    suffix_address(prefix, reader.take(suffix_len(prefix)?)?)?;
    if prefix > 0 { reader.name().map(drop) } else { Ok(()) }
}

/// Parses the prefix length, the address suffix (absent if the prefix has 128 bits) and the prefix
/// name (absent if the prefix has none).
pub(super) fn parse_a6(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let prefix = input.number(128)? as u8;
    out.push(prefix);
    let len = suffix_len(prefix)?;
    if len > 0 {
        let octets = input.value::<Ipv6Addr>()?.octets();
        suffix_address(prefix, &octets)?;
        out.extend_from_slice(&octets[16 - len..]);
    }
    if prefix > 0 { input.name(out) } else { Ok(()) }
}

pub(super) fn write_a6(reader: &mut Reader<'_>, f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let prefix = reader.u8()?;
    write!(f, "{prefix}")?;
    let len = suffix_len(prefix)?;
    if len > 0 {
        write!(f, " {}", suffix_address(prefix, reader.take(len)?)?)?;
    }
    if prefix > 0 {
        f.write_char(' ')?;
        write_name(reader.name()?, f)?;
    }
    Ok(())
}

/// Reads the host identity tag and the public key of HIP, preceded by the lengths of both.
fn read_host_identity<'a>(reader: &mut Reader<'a>) -> Result<(u8, &'a [u8], &'a [u8]), Problem> {
    let (tag_len, algorithm, key_len) = (reader.u8()?, reader.u8()?, reader.u16()?);
    let (tag, key) = (reader.take(tag_len.into())?, reader.take(key_len.into())?);
    match tag.is_empty() || key.is_empty() {
        true => Err(Problem::Rule("an empty host identity tag or key")),
        false => Ok((algorithm, tag, key)),
    }
}

pub(super) fn check_host_identity(reader: &mut Reader<'_>) -> Result<(), Problem> {
    read_host_identity(reader).map(drop)
}

/// Parses algorithm, tag in hexadecimal and key in base64.
pub(super) fn parse_host_identity(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let algorithm = number_of(input.next()?, ALGORITHMS, 255)? as u8;
    let (mut tag, mut key) = (Vec::new(), Vec::new());
    append_hex(input.next()?, &mut tag)?;
    append_base64(input.next()?, &mut key)?;
    out.push(u8::try_from(tag.len()).map_err(|_| Problem::TooLong)?);
    out.push(algorithm);
    let key_len = u16::try_from(key.len()).map_err(|_| Problem::TooLong)?;
    out.extend_from_slice(&key_len.to_be_bytes());
    out.append(&mut tag);
    out.append(&mut key);
    Ok(())
}

pub(super) fn write_host_identity(
    reader: &mut Reader<'_>,
    f: &mut fmt::Formatter<'_>,
) -> Result<(), Stop> {
    let (algorithm, tag, key) = read_host_identity(reader)?;
    write!(f, "{algorithm} {} ", HEXUPPER.encode_display(tag))?;
    write!(f, "{}", BASE64.encode_display(key))?;
    Ok(())
}
