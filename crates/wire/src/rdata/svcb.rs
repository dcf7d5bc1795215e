//! Service parameters of SVCB and HTTPS (RFC 9460, RFC 9461, RFC 9540, RFC 9848).

use std::fmt::{self, Display, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use data_encoding::BASE64;

use super::Problem;
use super::input::{Input, append_base64, append_counted, number};
use super::output::Stop;
use super::reader::Reader;
use crate::text::{self, write_quoted};

pub(super) const MANDATORY: u16 = 0;
pub(super) const ALPN: u16 = 1;
pub(super) const NO_DEFAULT_ALPN: u16 = 2;
pub(super) const PORT: u16 = 3;
pub(super) const IPV4HINT: u16 = 4;
const ECH: u16 = 5;
pub(super) const IPV6HINT: u16 = 6;
pub(super) const DOHPATH: u16 = 7;
const OHTTP: u16 = 8;
const TLS_SUPPORTED_GROUPS: u16 = 9;

/// Names of the keys with the codes 0, 1 and so on. Other keys are written as `key`*number*.
const KEYS: [&str; 10] = [
    "mandatory",
    "alpn",
    "no-default-alpn",
    "port",
    "ipv4hint",
    "ech",
    "ipv6hint",
    "dohpath",
    "ohttp",
    "tls-supported-groups",
];

/// A key and its value in wire form.
pub(super) type Param<'a> = (u16, &'a [u8]);

/// Reads the next parameter.
pub(super) fn read_param<'a>(reader: &mut Reader<'a>) -> Result<Param<'a>, Problem> {
    Ok((reader.u16()?, reader.counted()?))
}

/// Checks that keys are strictly ascending, that each value is well-formed, and that all mandatory
/// keys are present.
pub(super) fn check(octets: &[u8]) -> Result<(), Problem> {
    let mut reader = Reader::new(octets);
    let mut least = 0_u32;
    let mut mandatory = &[][..];
    while !reader.is_empty() {
        let (key, value) = read_param(&mut reader)?;
        if u32::from(key) < least {
            return Err(Problem::Rule("a key twice or keys not in ascending order"));
        }
        least = u32::from(key) + 1;
        check_value(key, value)?;
        match key {
            MANDATORY => mandatory = value,
            NO_DEFAULT_ALPN => require(&[ALPN.to_be_bytes()], octets)?,
            _ => {}
        }
    }
    require(mandatory.as_chunks().0, octets)
}

/// Checks that `octets` has all parameters listed in `keys`. Both are in ascending order, so one
/// pass suffices.
fn require(keys: &[[u8; 2]], octets: &[u8]) -> Result<(), Problem> {
    let mut reader = Reader::new(octets);
    for key in keys {
        loop {
            if reader.is_empty() {
                return Err(Problem::Rule("a key is missing that another one needs"));
            }
            if read_param(&mut reader)?.0.to_be_bytes() == *key {
                break;
            }
        }
    }
    Ok(())
}

fn check_value(key: u16, value: &[u8]) -> Result<(), Problem> {
    let valid = match key {
        MANDATORY => {
            let keys = value.as_chunks::<2>().0;
            is_list(value, 2) && keys[0] != [0, 0] && keys.is_sorted_by(|a, b| a < b)
        }
        ALPN => !value.is_empty() && ids(value).all(|id| id.is_ok_and(|id| !id.is_empty())),
        NO_DEFAULT_ALPN | OHTTP => value.is_empty(),
        PORT => value.len() == 2,
        IPV4HINT => is_list(value, 4),
        IPV6HINT => is_list(value, 16),
        ECH => !value.is_empty(),
        DOHPATH => is_doh_path(value),
        TLS_SUPPORTED_GROUPS => is_list(value, 2),
        _ => true,
    };
    if valid { Ok(()) } else { Err(Problem::Rule("a malformed parameter value")) }
}

/// Reports whether the value consists of one or more elements of `width` octets.
fn is_list(value: &[u8], width: usize) -> bool {
    !value.is_empty() && value.len().is_multiple_of(width)
}

/// Reports whether the value is a relative URI template with the variable `dns` (RFC 9461 §5).
fn is_doh_path(value: &[u8]) -> bool {
    let template = str::from_utf8(value).unwrap_or_default();
    template.starts_with('/') && template.contains("{?dns")
}

/// Returns the protocol identifiers in the value of `alpn`.
pub(super) fn ids(value: &[u8]) -> impl Iterator<Item = Result<&[u8], Problem>> {
    let mut reader = Reader::new(value);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let id = reader.char_string();
        if id.is_err() {
            reader.rest();
        }
        Some(id)
    })
}

/// Parses parameters of the form `KEY` or `KEY=VALUE`, in any order.
pub(super) fn parse(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let mut params = Vec::new();
    while input.peek().is_some() {
        params.push(parse_param(input.next()?)?);
    }
    params.sort_by_key(|(key, _)| *key);
    let start = out.len();
    for (key, value) in params {
        out.extend_from_slice(&key.to_be_bytes());
        let len = u16::try_from(value.len()).map_err(|_| Problem::TooLong)?;
        out.extend_from_slice(&len.to_be_bytes());
        out.extend_from_slice(&value);
    }
    check(&out[start..])
}

fn parse_param(token: &[u8]) -> Result<(u16, Vec<u8>), Problem> {
    let mut parts = token.splitn(2, |octet| *octet == b'=');
    let name = parts.next().unwrap_or_default();
    let mut value = Vec::new();
    text::read_string(parts.next().unwrap_or_default(), &mut value)?;
    let key = parse_key(name)?;
    // If a known key is written by its code, its value is a string of octets, which is checked
    // afterwards.
    match name.starts_with(b"key") {
        true => Ok((key, value)),
        false => Ok((key, parse_value(key, value)?)),
    }
}

fn parse_key(name: &[u8]) -> Result<u16, Problem> {
    if let Some(index) = KEYS.iter().position(|known| known.as_bytes() == name) {
        return Ok(index as u16);
    }
    match name.strip_prefix(b"key") {
        Some([b'0', _, ..]) | None => Err(Problem::Rule("an unknown parameter key")),
        Some(digits) => number(digits, u64::from(u16::MAX)).map(|key| key as u16),
    }
}

fn parse_value(key: u16, value: Vec<u8>) -> Result<Vec<u8>, Problem> {
    let mut out = Vec::new();
    match key {
        MANDATORY => {
            let mut keys = split(&value).map(parse_key).collect::<Result<Vec<_>, _>>()?;
            keys.sort_unstable();
            out.extend(keys.iter().flat_map(|key| key.to_be_bytes()));
        }
        ALPN => parse_ids(&value, &mut out)?,
        PORT => out.extend_from_slice(&parse_u16(&value)?.to_be_bytes()),
        IPV4HINT => {
            for item in split(&value) {
                out.extend_from_slice(&parse_address::<Ipv4Addr>(item)?.octets());
            }
        }
        IPV6HINT => {
            for item in split(&value) {
                out.extend_from_slice(&parse_address::<Ipv6Addr>(item)?.octets());
            }
        }
        ECH => append_base64(&value, &mut out)?,
        TLS_SUPPORTED_GROUPS => {
            for item in split(&value) {
                out.extend_from_slice(&parse_u16(item)?.to_be_bytes());
            }
        }
        _ => return Ok(value),
    }
    Ok(out)
}

fn split(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|octet| *octet == b',')
}

fn parse_u16(digits: &[u8]) -> Result<u16, Problem> {
    number(digits, u64::from(u16::MAX)).map(|value| value as u16)
}

fn parse_address<T: FromStr>(item: &[u8]) -> Result<T, Problem> {
    str::from_utf8(item).ok().and_then(|item| item.parse().ok()).ok_or(Problem::Encoding)
}

/// Parses a list of protocol identifiers. After the usual escapes are resolved, `\,` and `\\` are
/// escapes within the list (RFC 9460 appendix A.1).
fn parse_ids(list: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    let mut id = Vec::new();
    let mut octets = list.iter();
    while let Some(octet) = octets.next() {
        match octet {
            b',' => append_counted(&std::mem::take(&mut id), out)?,
            b'\\' => match octets.next() {
                Some(escaped @ (b',' | b'\\')) => id.push(*escaped),
                _ => return Err(Problem::Rule("a bad escape in a list")),
            },
            _ => id.push(*octet),
        }
    }
    append_counted(&id, out)
}

pub(super) fn write(reader: &mut Reader<'_>, f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let mut separator = "";
    while !reader.is_empty() {
        let (key, value) = read_param(reader)?;
        f.write_str(separator)?;
        write_key(key, f)?;
        if !value.is_empty() {
            f.write_char('=')?;
            write_value(key, value, f)?;
        }
        separator = " ";
    }
    Ok(())
}

fn write_key(key: u16, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match KEYS.get(usize::from(key)) {
        Some(name) => f.write_str(name),
        None => write!(f, "key{key}"),
    }
}

fn write_value(key: u16, value: &[u8], f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let number = |octets: &[u8; 2]| u16::from_be_bytes(*octets);
    match key {
        MANDATORY => write_list(value, |octets, f| write_key(number(octets), f), f)?,
        ALPN => write_ids(value, f)?,
        PORT | TLS_SUPPORTED_GROUPS => {
            write_list(value, |octets, f| write!(f, "{}", number(octets)), f)?;
        }
        IPV4HINT => write_list(value, |octets: &[u8; 4], f| Ipv4Addr::from(*octets).fmt(f), f)?,
        IPV6HINT => write_list(value, |octets: &[u8; 16], f| Ipv6Addr::from(*octets).fmt(f), f)?,
        ECH => write!(f, "{}", BASE64.encode_display(value))?,
        _ => write_quoted(value, f)?,
    }
    Ok(())
}

/// Writes elements of `N` octets, separated by commas.
fn write_list<const N: usize>(
    value: &[u8],
    write: impl Fn(&[u8; N], &mut fmt::Formatter<'_>) -> fmt::Result,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (index, element) in value.as_chunks::<N>().0.iter().enumerate() {
        if index > 0 {
            f.write_char(',')?;
        }
        write(element, f)?;
    }
    Ok(())
}

/// Writes protocol identifiers with the escapes of the list and of the presentation form.
fn write_ids(value: &[u8], f: &mut fmt::Formatter<'_>) -> Result<(), Stop> {
    let mut list = Vec::new();
    for id in ids(value) {
        if !list.is_empty() {
            list.push(b',');
        }
        for octet in id? {
            if matches!(octet, b',' | b'\\') {
                list.push(b'\\');
            }
            list.push(*octet);
        }
    }
    Ok(write_quoted(&list, f)?)
}
