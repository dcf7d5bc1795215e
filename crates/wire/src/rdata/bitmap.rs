//! Bit maps in record data: the types at a name (NSEC, NSEC3, CSYNC, NXT) and the ports of WKS.
//!
//! The first bit is the highest of the first octet. A map that ends in a zero octet is refused, so
//! each map has exactly one form (RFC 4034 §4.1.2).

use std::fmt::{self, Write};

use super::Problem;
use super::input::{Input, read_rtype};
use super::mnemonics::{PROTOCOLS, SERVICES, number_of};
use super::output::Stop;
use super::reader::Reader;
use crate::code::Rtype;

/// Maximum number of octets of the map in one window (RFC 4034 §4.1.2).
const MAX_WINDOW: usize = 32;
/// Maximum number of octets of the bit map in NXT, which covers only types below 128 (RFC 2535
/// §5.2).
const MAX_NXT: usize = 16;
/// Maximum number of octets of a port map.
const MAX_SERVICES: usize = 8192;
/// The first type that does not fit into NXT's map.
const NXT_TYPES: u16 = 128;

/// Returns the indices of the set bits.
fn bits(map: &[u8]) -> impl Iterator<Item = u16> {
    let numbered = map.iter().zip(0_u16..);
    numbered.flat_map(|(octet, at)| {
        (0..8).filter(move |bit| octet & (0x80 >> bit) != 0).map(move |bit| at * 8 + bit)
    })
}

/// Appends the map in which the bits with these indices are set. The indices must be ascending.
fn append_map(numbers: impl Iterator<Item = u16>, out: &mut Vec<u8>) {
    let start = out.len();
    for number in numbers {
        let at = start + usize::from(number / 8);
        out.resize(at + 1, 0);
        out[at] |= 0x80 >> (number % 8);
    }
}

fn check_map(map: &[u8], max: usize) -> Result<(), Problem> {
    match map.last() {
        Some(0) => Err(Problem::Rule("the bit map ends with an octet of zeros")),
        _ if map.len() > max => Err(Problem::TooLong),
        _ => Ok(()),
    }
}

/// Checks that windows are in ascending order and have 1 to 32 octets each.
pub(super) fn check_types(octets: &[u8]) -> Result<(), Problem> {
    let mut reader = Reader::new(octets);
    let mut least = 0;
    while !reader.is_empty() {
        let window = i32::from(reader.u8()?);
        if window < least {
            return Err(Problem::Rule("the windows are not in ascending order"));
        }
        least = window + 1;
        match reader.char_string()? {
            [] => return Err(Problem::Rule("an empty window")),
            map => check_map(map, MAX_WINDOW)?,
        }
    }
    Ok(())
}

/// Reads type tokens up to the end, and returns them sorted without duplicates.
fn read_types(input: &mut Input<'_>) -> Result<Vec<u16>, Problem> {
    let mut types = Vec::new();
    while input.peek().is_some() {
        types.push(read_rtype(input.next()?)?);
    }
    types.sort_unstable();
    types.dedup();
    Ok(types)
}

pub(super) fn parse_types(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let types = read_types(input)?;
    for window in types.chunk_by(|a, b| a >> 8 == b >> 8) {
        let start = out.len();
        out.extend_from_slice(&[(window[0] >> 8) as u8, 0]);
        append_map(window.iter().map(|rtype| rtype & 0xff), out);
        out[start + 1] = (out.len() - start - 2) as u8;
    }
    Ok(())
}

pub(super) fn write_types(reader: &mut Reader<'_>, f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let mut separator = "";
    while !reader.is_empty() {
        let window = u16::from(reader.u8()?) << 8;
        for bit in bits(reader.char_string()?) {
            f.write_str(separator)?;
            write!(f, "{}", Rtype(window | bit))?;
            separator = " ";
        }
    }
    Ok(())
}

/// Checks the bit map of NXT. A map whose first bit is set has another format, which no RFC
/// defines.
pub(super) fn check_nxt(map: &[u8]) -> Result<(), Problem> {
    match map.first() {
        Some(0x80..) => Err(Problem::Rule("an unknown format of NXT")),
        _ => check_map(map, MAX_NXT),
    }
}

pub(super) fn parse_nxt(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let types = read_types(input)?;
    if types.iter().any(|rtype| *rtype == 0 || *rtype >= NXT_TYPES) {
        return Err(Problem::Rule("NXT has the types from 1 to 127 only"));
    }
    append_map(types.into_iter(), out);
    Ok(())
}

pub(super) fn write_nxt(reader: &mut Reader<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, bit) in bits(reader.rest()).enumerate() {
        if index > 0 {
            f.write_char(' ')?;
        }
        write!(f, "{}", Rtype(bit))?;
    }
    Ok(())
}

pub(super) fn check_services(reader: &mut Reader<'_>) -> Result<(), Problem> {
    reader.u8()?;
    check_map(reader.rest(), MAX_SERVICES)
}

pub(super) fn parse_services(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    out.push(number_of(input.next()?, PROTOCOLS, 255)? as u8);
    let mut ports = Vec::new();
    while input.peek().is_some() {
        ports.push(number_of(input.next()?, SERVICES, u16::MAX)?);
    }
    ports.sort_unstable();
    append_map(ports.into_iter(), out);
    Ok(())
}

/// Writes protocol and ports as numbers.
pub(super) fn write_services(
    reader: &mut Reader<'_>,
    f: &mut fmt::Formatter<'_>,
) -> Result<(), Stop> {
    write!(f, "{}", reader.u8()?)?;
    for port in bits(reader.rest()) {
        write!(f, " {port}")?;
    }
    Ok(())
}
