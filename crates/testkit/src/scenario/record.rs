//! Records of a scenario: `owner [TTL] [class] type [data]`, names relative to the root.

use avocet_wire::{Rtype, rdata, text};

/// A record.
#[derive(Clone, Debug)]
pub(super) struct Rr {
    pub(super) owner: Vec<u8>,
    pub(super) rtype: Rtype,
    pub(super) class: u16,
    pub(super) ttl_secs: u32,
    pub(super) rdata: Vec<u8>,
}

impl Rr {
    /// Appends the wire form.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend(&self.owner);
        out.extend(self.rtype.0.to_be_bytes());
        out.extend(self.class.to_be_bytes());
        out.extend(self.ttl_secs.to_be_bytes());
        out.extend((self.rdata.len() as u16).to_be_bytes());
        out.extend(&self.rdata);
    }

    /// Returns the type that a signature covers, 0 for other records.
    pub(super) fn covered(&self) -> Rtype {
        match (self.rtype, self.rdata.first_chunk()) {
            (Rtype::RRSIG, Some(&covered)) => Rtype(u16::from_be_bytes(covered)),
            _ => Rtype(0),
        }
    }
}

/// The part of a record before its data.
pub(super) struct Head<'t> {
    pub(super) owner: Vec<u8>,
    pub(super) ttl_secs: u32,
    pub(super) class: u16,
    pub(super) rtype: Rtype,
    /// The rest of the line.
    pub(super) data: &'t str,
}

/// Parses a line up to the data.
pub(super) fn head(line: &str, default_ttl_secs: u32) -> Result<Head<'_>, String> {
    let (owner, mut rest) = word(line);
    let owner = wire_name(owner)?;
    let (mut ttl_secs, mut class) = (default_ttl_secs, 1);
    loop {
        let (token, after) = word(rest);
        if token.is_empty() {
            return Err("there is no type".to_owned());
        }
        if let Some(secs) = ttl(token).filter(|_| !after.is_empty()) {
            ttl_secs = secs;
        } else if let Some(number) = class_number(token, after) {
            class = number;
        } else {
            let rtype = rdata::from_mnemonic(token).ok_or_else(|| format!("{token} is no type"))?;
            return Ok(Head { owner, ttl_secs, class, rtype: Rtype(rtype), data: after });
        }
        rest = after;
    }
}

/// Parses a whole record.
pub(super) fn record(line: &str, default_ttl_secs: u32) -> Result<Rr, String> {
    let Head { owner, ttl_secs, class, rtype, data } = head(line, default_ttl_secs)?;
    let data = without_parentheses(data);
    let mut rdata = Vec::new();
    if !data.is_empty()
        && let Err(error) = rdata::parse(rtype.0, &data, &[0], &mut rdata)
    {
        // Scenarios of broken data contain data that is invalid for its type.
        rdata = unchecked(rtype, &data).ok_or_else(|| error.to_string())?;
    }
    Ok(Rr { owner, rtype, class, ttl_secs, rdata })
}

/// Returns the wire form of a name, relative to the root.
pub(super) fn wire_name(shown: &str) -> Result<Vec<u8>, String> {
    let mut wire = [0; 255];
    let len = text::name_to_wire(shown.as_bytes(), Some(&[0]), &mut wire)
        .map_err(|error| format!("{shown}: {error}"))?;
    Ok(wire[..len].to_vec())
}

/// Removes parentheses, which have no meaning in a record on one line.
fn without_parentheses(data: &str) -> String {
    let mut quoted = false;
    let plain = |letter: char| {
        quoted ^= letter == '"';
        if !quoted && matches!(letter, '(' | ')') { ' ' } else { letter }
    };
    data.chars().map(plain).collect()
}

/// Parses deliberately malformed data: `\# LENGTH HEX`, DS records with digests of any length,
/// base64 with excess characters.
fn unchecked(rtype: Rtype, data: &str) -> Option<Vec<u8>> {
    let words: Vec<_> = data.split_whitespace().collect();
    match (rtype, &words[..]) {
        (_, ["\\#", _, hex @ ..]) => octets(&hex.concat()),
        (Rtype::DS, [tag, algorithm, digest_type, hex @ ..]) => {
            let mut out = tag.parse::<u16>().ok()?.to_be_bytes().to_vec();
            out.push(algorithm.parse().ok()?);
            out.push(digest_type.parse().ok()?);
            out.extend(octets(&hex.concat())?);
            Some(out)
        }
        (_, [.., last]) if last.ends_with('=') => {
            let mut out = Vec::new();
            rdata::parse(rtype.0, data.trim_end_matches('='), &[0], &mut out).ok().map(|()| out)
        }
        _ => None,
    }
}

/// Parses octets in hexadecimal, ignoring white space.
pub(super) fn octets(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = hex.bytes().filter(|octet| !octet.is_ascii_whitespace()).collect();
    let pairs = digits.chunks(2);
    pairs
        .map(|pair| {
            u8::from_str_radix(str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?, 16).ok()
        })
        .collect()
}

/// Parses seconds, or a number with a unit.
fn ttl(token: &str) -> Option<u32> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];
    let last = token.chars().last()?.to_ascii_lowercase();
    match units.iter().find(|(unit, _)| *unit == last) {
        Some((_, secs)) => token[..token.len() - 1].parse::<u32>().ok()?.checked_mul(*secs),
        None => token.parse().ok(),
    }
}

fn class_number(token: &str, after: &str) -> Option<u16> {
    match token.to_ascii_uppercase().as_str() {
        "IN" => Some(1),
        "CH" => Some(3),
        "HS" => Some(4),
        "NONE" => Some(254),
        // At the end of a question, ANY is a type.
        "ANY" if !after.is_empty() => Some(255),
        other => other.strip_prefix("CLASS")?.parse().ok(),
    }
}

/// Splits off the first word.
pub(super) fn word(line: &str) -> (&str, &str) {
    let line = line.trim_start();
    let end = line.find(char::is_whitespace).unwrap_or(line.len());
    (&line[..end], line[end..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, ttl_secs: u32, class: u16, rtype: Rtype, rdata: &[u8]) {
        let record = record(line, 3600).unwrap();
        assert_eq!((record.ttl_secs, record.class, record.rtype), (ttl_secs, class, rtype));
        assert_eq!(record.rdata, rdata);
    }

    #[test]
    fn records_are_read_with_and_without_ttl_and_class() {
        check("www.example. A 192.0.2.1", 3600, 1, Rtype::A, &[192, 0, 2, 1]);
        check("www.example.\t2m IN\tA\t192.0.2.1", 120, 1, Rtype::A, &[192, 0, 2, 1]);
        check("www.example 60 CH TXT \"a b\"", 60, 3, Rtype::TXT, b"\x03a b");
        check("example. IN DS 1 8 2 abcd", 3600, 1, Rtype::DS, &[0, 1, 8, 2, 0xab, 0xcd]);
        check("example. A \\# 3 c00002", 3600, 1, Rtype::A, &[192, 0, 2]);
        check("example. MX ( 1 . )", 3600, 1, Rtype::MX, &[0, 1, 0]);
        check("example. IN A", 3600, 1, Rtype::A, &[]);
        assert!(
            record("example. IN", 3600).is_err() && record("example. A 192.0.2", 3600).is_err()
        );
    }

    #[test]
    fn any_is_a_class_before_a_type_and_a_type_at_the_end() {
        let (first, second) = (head("a. IN ANY", 0).unwrap(), head("a. ANY A", 0).unwrap());
        assert_eq!((first.class, first.rtype), (1, Rtype::ANY));
        assert_eq!((second.class, second.rtype), (255, Rtype::A));
    }
}
