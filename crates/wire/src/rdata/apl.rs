//! Lists of address prefixes: APL (RFC 3123).

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::Problem;
use super::input::{Input, append_counted, number};
use super::output::Stop;
use super::reader::Reader;

/// IANA's code of the IPv4 address family.
const IPV4: u16 = 1;
/// IANA's code of the IPv6 address family.
const IPV6: u16 = 2;
/// The bit in the length octet that negates an item.
const NEGATED: u8 = 0x80;

/// One prefix. The wire form omits zero octets at the end of the address.
struct Item<'a> {
    family: u16,
    prefix: u8,
    negated: bool,
    address: &'a [u8],
}

fn read_item<'a>(reader: &mut Reader<'a>) -> Result<Item<'a>, Problem> {
    let (family, prefix, len) = (reader.u16()?, reader.u8()?, reader.u8()?);
    let address = reader.take(usize::from(len & !NEGATED))?;
    let max = address_len(family)?;
    if usize::from(prefix) > 8 * max {
        return Err(Problem::Rule("the prefix is longer than the address"));
    }
    if address.len() > max || address.last() == Some(&0) {
        return Err(Problem::Rule("an address too long or with zeros at its end"));
    }
    Ok(Item { family, prefix, negated: len & NEGATED != 0, address })
}

fn address_len(family: u16) -> Result<usize, Problem> {
    match family {
        IPV4 => Ok(4),
        IPV6 => Ok(16),
        _ => Err(Problem::Rule("an unknown address family")),
    }
}

pub(super) fn check(octets: &[u8]) -> Result<(), Problem> {
    let mut reader = Reader::new(octets);
    while !reader.is_empty() {
        read_item(&mut reader)?;
    }
    Ok(())
}

/// Parses items of the form `[!]FAMILY:ADDRESS/PREFIX`.
pub(super) fn parse(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    while input.peek().is_some() {
        let token = str::from_utf8(input.next()?).map_err(|_| Problem::Encoding)?;
        parse_item(token, out)?;
    }
    Ok(())
}

fn parse_item(token: &str, out: &mut Vec<u8>) -> Result<(), Problem> {
    let (negated, item) = token.strip_prefix('!').map_or((0, token), |item| (NEGATED, item));
    let (family, rest) = item.split_once(':').ok_or(Problem::Missing)?;
    let (address, prefix) = rest.split_once('/').ok_or(Problem::Missing)?;
    let family = number(family.as_bytes(), u64::from(u16::MAX))? as u16;
    let prefix = number(prefix.as_bytes(), 8 * address_len(family)? as u64)? as u8;
    let mut octets = match family {
        IPV4 => address.parse::<Ipv4Addr>().map(|address| address.octets().to_vec()),
        _ => address.parse::<Ipv6Addr>().map(|address| address.octets().to_vec()),
    }
    .map_err(|_| Problem::Encoding)?;
    let used = octets.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
    octets.truncate(used);
    out.extend_from_slice(&family.to_be_bytes());
    out.push(prefix);
    let start = out.len();
    append_counted(&octets, out)?;
    out[start] |= negated;
    Ok(())
}

pub(super) fn write(reader: &mut Reader<'_>, f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let mut first = true;
    while !reader.is_empty() {
        let item = read_item(reader)?;
        if !first {
            f.write_char(' ')?;
        }
        first = false;
        write_item(&item, f)?;
    }
    Ok(())
}

fn write_item(item: &Item<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut octets = [0; 16];
    octets[..item.address.len()].copy_from_slice(item.address);
    let negation = if item.negated { "!" } else { "" };
    write!(f, "{negation}{}:", item.family)?;
    match (item.family, octets) {
        (IPV4, [a, b, c, d, ..]) => write!(f, "{}", Ipv4Addr::new(a, b, c, d))?,
        _ => write!(f, "{}", Ipv6Addr::from(octets))?,
    }
    write!(f, "/{}", item.prefix)
}
