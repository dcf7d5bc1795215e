//! Expected answers that are computed from a zone file (RFC 1035 §5, RFC 1034 §4.3.2, RFC 4592).
//!
//! Covers the answers of a resolver for names in the zone: RRsets, aliases within the zone,
//! wildcards, NODATA and NXDOMAIN. Names below a delegation or behind an alias out of the zone are
//! not judged.

use std::collections::HashMap;
use std::path::Path;

use avocet_wire::name::{self, NameBuf};
use avocet_wire::text::{self, Token};
use avocet_wire::{FoldedNameBuf, Rcode, Rtype, canonical, rdata};

use super::judge::{Expected, Rcodes, digest_record};
use crate::ask::names::wire_name;
use crate::error::LoadError;

/// Maximum number of aliases followed for one question.
const MAX_ZONE_ALIASES: usize = 8;

/// Maximum number of octets of a zone file.
const MAX_FILE: u64 = 1 << 30;

type Rrsets = Vec<(Rtype, Vec<Box<[u8]>>)>;

/// The records of a zone by owner. Owners and names in data are in lower case.
#[derive(Debug)]
pub struct Zone {
    apex: FoldedNameBuf,
    nodes: HashMap<Box<[u8]>, Rrsets>,
}

impl Zone {
    /// Reads a zone file.
    pub(crate) fn read_file(path: &Path) -> Result<Self, LoadError> {
        let octets = || -> Result<Vec<u8>, LoadError> {
            if std::fs::metadata(path)?.len() > MAX_FILE {
                return Err(LoadError::LargeFile(MAX_FILE));
            }
            Ok(std::fs::read(path)?)
        };
        octets().and_then(|octets| Self::parse(&octets)).map_err(LoadError::in_file(path))
    }

    /// Reads the text of a zone, which must have an SOA record.
    ///
    /// # Errors
    /// An invalid entry, by its line, or a missing SOA record.
    pub fn parse(file: &[u8]) -> Result<Self, LoadError> {
        let mut reader =
            ZoneReader { origin: None, owner: None, apex: None, nodes: HashMap::new() };
        let mut lines = file.split(|octet| *octet == b'\n').zip(1..);
        while let Some((line, number)) = lines.next() {
            let mut entry = Vec::with_capacity(line.len());
            let mut depth = append_line(line, 0, &mut entry);
            while depth > 0 {
                let Some((line, _)) = lines.next() else {
                    return Err(LoadError::in_line(number)(LoadError::OpenParenthesis));
                };
                depth = append_line(line, depth, &mut entry);
            }
            reader.entry(&entry).map_err(LoadError::in_line(number))?;
        }
        let apex = reader.apex.ok_or(LoadError::NoSoa)?;
        let mut zone = Self { apex, nodes: reader.nodes };
        zone.add_empty_names();
        Ok(zone)
    }

    /// Adds the empty non-terminals between owners and the apex (RFC 4592 §2.2.2).
    fn add_empty_names(&mut self) {
        let owners: Vec<Box<[u8]>> = self.nodes.keys().cloned().collect();
        for owner in owners {
            for ancestor in name::ancestors(&owner).skip(1) {
                if !name::is_under(ancestor, self.apex.wire()) || self.nodes.contains_key(ancestor)
                {
                    break;
                }
                self.nodes.insert(ancestor.into(), Rrsets::new());
            }
        }
    }

    /// Returns the name of the zone.
    #[must_use]
    pub fn apex(&self) -> &NameBuf {
        &self.apex
    }

    /// Returns owners and types of RRsets with more than `octets` of data.
    #[must_use]
    pub fn large_rrsets(&self, octets: usize) -> Vec<(NameBuf, Rtype)> {
        let mut found: Vec<(NameBuf, Rtype)> = Vec::new();
        for (owner, rrsets) in &self.nodes {
            for (rtype, records) in rrsets {
                let size: usize = records.iter().map(|rdata| rdata.len() + 12).sum();
                if size > octets
                    && let Ok(owner) = NameBuf::from_wire(owner)
                {
                    found.push((owner, *rtype));
                }
            }
        }
        found.sort_by(|a, b| a.0.wire().cmp(b.0.wire()).then(a.1.cmp(&b.1)));
        found
    }

    /// Returns the expected answer to a question, if the zone determines it.
    #[must_use]
    pub fn answer(&self, qname: &NameBuf, qtype: Rtype) -> Option<Expected> {
        let mut owner = qname.folded();
        let mut digest = 0u64;
        for _ in 0..MAX_ZONE_ALIASES {
            let Some(rrsets) = self.find(&owner)? else {
                return Some(Expected {
                    rcodes: Rcodes::only(Rcode::NXDOMAIN),
                    answers: Some(digest),
                });
            };
            if let Some((_, records)) = rrsets.iter().find(|(rtype, _)| *rtype == qtype) {
                let sum = records.iter().map(|rdata| digest_record(owner.wire(), qtype, rdata));
                digest = sum.fold(digest, u64::wrapping_add);
                return Some(Expected {
                    rcodes: Rcodes::only(Rcode::NOERROR),
                    answers: Some(digest),
                });
            }
            let alias = rrsets
                .iter()
                .find(|(rtype, _)| *rtype == Rtype::CNAME)
                .and_then(|(_, records)| records.first());
            let Some(target) = alias else {
                return Some(Expected {
                    rcodes: Rcodes::only(Rcode::NOERROR),
                    answers: Some(digest),
                });
            };
            digest = digest.wrapping_add(digest_record(owner.wire(), Rtype::CNAME, target));
            owner = FoldedNameBuf::from_wire(target).ok()?;
        }
        None
    }

    /// Returns the RRsets of a name or of the wildcard that covers it. Returns `Some(None)` if the
    /// name does not exist, and `None` if the zone does not determine that.
    fn find(&self, owner: &NameBuf) -> Option<Option<&Rrsets>> {
        if !name::is_under(owner.wire(), self.apex.wire()) {
            return None;
        }
        let mut encloser = None;
        for ancestor in name::ancestors(owner.wire()) {
            let node = self.nodes.get(ancestor);
            if let (None, Some(_)) = (encloser, node) {
                encloser = Some(ancestor);
            }
            if ancestor == self.apex.wire() {
                break;
            }
            let has = |wanted| {
                node.is_some_and(|rrsets| rrsets.iter().any(|(rtype, _)| *rtype == wanted))
            };
            if has(Rtype::NS) || (has(Rtype::DNAME) && ancestor != owner.wire()) {
                return None;
            }
        }
        let encloser = encloser?;
        if encloser == owner.wire() {
            return Some(self.nodes.get(encloser));
        }
        let wildcard = [b"\x01*", encloser].concat();
        Some(self.nodes.get(&wildcard[..]))
    }
}

/// Appends a line without its comment and parentheses. Returns the number of parentheses that are
/// still open.
fn append_line(line: &[u8], mut depth: usize, out: &mut Vec<u8>) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for &octet in line {
        match octet {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b';' if !quoted => break,
            b'(' | b')' if !quoted => {
                depth = if octet == b'(' { depth + 1 } else { depth.saturating_sub(1) };
                out.push(b' ');
                continue;
            }
            _ => {}
        }
        out.push(octet);
    }
    out.push(b' ');
    depth
}

/// The state between the entries of a file.
struct ZoneReader {
    origin: Option<NameBuf>,
    owner: Option<NameBuf>,
    apex: Option<FoldedNameBuf>,
    nodes: HashMap<Box<[u8]>, Rrsets>,
}

impl ZoneReader {
    fn entry(&mut self, entry: &[u8]) -> Result<(), LoadError> {
        let tokens: Vec<Token<'_>> = text::tokens(entry).collect::<Result<_, _>>()?;
        let Some((first, mut rest)) = tokens.split_first() else { return Ok(()) };
        if first.text.starts_with(b"$") {
            return self.directive(first.text, rest.first());
        }
        if entry.first().is_some_and(u8::is_ascii_whitespace) {
            rest = &tokens;
        } else {
            self.owner = Some(self.name(first.text)?);
        }
        let owner = self.owner.ok_or(LoadError::NoOwner)?.folded();
        let (rtype, fields) = record_type(rest)?;
        let origin = self.origin.as_ref().map_or(&[0][..], NameBuf::wire);
        let mut data = Vec::new();
        rdata::parse_tokens(rtype.0, fields, origin, &mut data)?;
        let mut folded = Vec::with_capacity(data.len());
        canonical::append_rdata(rtype.0, &data, &mut folded);
        if rtype == Rtype::SOA {
            self.apex.get_or_insert(owner);
        }
        self.add(&owner, rtype, folded.into());
        Ok(())
    }

    fn add(&mut self, owner: &NameBuf, rtype: Rtype, data: Box<[u8]>) {
        let rrsets = self.nodes.entry(owner.wire().into()).or_default();
        match rrsets.iter_mut().find(|(known, _)| *known == rtype) {
            // Records with equal data are duplicates (RFC 2181 §5).
            Some((_, records)) if records.contains(&data) => {}
            Some((_, records)) => records.push(data),
            None => rrsets.push((rtype, vec![data])),
        }
    }

    fn directive(&mut self, word: &[u8], value: Option<&Token<'_>>) -> Result<(), LoadError> {
        match (word, value) {
            (b"$ORIGIN", Some(value)) => self.origin = Some(self.name(value.text)?),
            (b"$TTL", Some(_)) => {}
            _ => return Err(LoadError::Directive(String::from_utf8_lossy(word).into_owned())),
        }
        Ok(())
    }

    fn name(&self, text: &[u8]) -> Result<NameBuf, LoadError> {
        let Some(origin) = &self.origin else { return wire_name(text) };
        let mut wire = [0; name::MAX_NAME];
        if text == b"@" {
            return Ok(*origin);
        }
        let len = text::name_to_wire(text, Some(origin.wire()), &mut wire)?;
        Ok(NameBuf::from_wire(wire.get(..len).unwrap_or_default())?)
    }
}

/// Returns the type of a record and the fields of its data. The TTL and the class before the type
/// may be in either order.
fn record_type<'t>(tokens: &'t [Token<'t>]) -> Result<(Rtype, &'t [Token<'t>]), LoadError> {
    for (at, token) in tokens.iter().enumerate().take(3) {
        let word = str::from_utf8(token.text).unwrap_or_default();
        let is_ttl = word.starts_with(|c: char| c.is_ascii_digit());
        if is_ttl || word.eq_ignore_ascii_case("IN") {
            continue;
        }
        let rtype =
            rdata::from_mnemonic(word).ok_or_else(|| LoadError::NotAType(word.to_owned()))?;
        return Ok((Rtype(rtype), tokens.get(at + 1..).unwrap_or_default()));
    }
    Err(LoadError::NoType)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: &str = "\
$ORIGIN example.
$TTL 1h
@ IN SOA ns admin ( 1 3600 ; serial, refresh
    600 86400 300 )
  NS ns
ns 300 IN A 192.0.2.53
www IN 300 A 192.0.2.1
    A 192.0.2.2
    TXT \"a;b (c)\"
alias CNAME WWW
away CNAME www.other.
deep.er.name A 192.0.2.3
*.wild A 192.0.2.4
sub NS ns.sub
loop CNAME loop
";

    fn expected(name: &str, qtype: Rtype) -> Option<(bool, u64)> {
        let zone = Zone::parse(ZONE.as_bytes()).unwrap();
        let answer = zone.answer(&wire_name(name.as_bytes()).unwrap(), qtype)?;
        Some((answer.rcodes.has(Rcode::NXDOMAIN), answer.answers.unwrap()))
    }

    fn digest(owner: &str, data: &[&[u8]]) -> u64 {
        let owner = wire_name(owner.as_bytes()).unwrap();
        data.iter()
            .map(|data| digest_record(owner.wire(), Rtype::A, data))
            .fold(0, u64::wrapping_add)
    }

    #[test]
    fn rrsets_are_answered_in_any_order() {
        let wanted = digest("www.example", &[&[192, 0, 2, 2], &[192, 0, 2, 1]]);
        assert_eq!(expected("WWW.example", Rtype::A), Some((false, wanted)));
        assert_eq!(expected("www.example", Rtype::AAAA), Some((false, 0)));
        assert_eq!(expected("none.example", Rtype::A), Some((true, 0)));
        assert_eq!(expected("er.name.example", Rtype::A), Some((false, 0)), "an empty name exists");
    }

    #[test]
    fn aliases_and_wildcards_are_followed() {
        let alias = digest_record(b"\x05alias\x07example\0", Rtype::CNAME, b"\x03www\x07example\0");
        let www = digest("www.example", &[&[192, 0, 2, 1], &[192, 0, 2, 2]]);
        assert_eq!(expected("alias.example", Rtype::A), Some((false, alias.wrapping_add(www))));
        let wild = digest("a.b.wild.example", &[&[192, 0, 2, 4]]);
        assert_eq!(expected("a.b.wild.example", Rtype::A), Some((false, wild)));
    }

    #[test]
    fn what_the_zone_does_not_know_is_not_judged() {
        for name in ["www.other", "away.example", "x.sub.example", "loop.example"] {
            assert_eq!(expected(name, Rtype::A), None, "{name}");
        }
    }

    #[test]
    fn a_fault_is_told_with_its_line() {
        for (text, wanted) in
            [("a A 1\n", "line 1"), ("a. SOA (\n", "not closed"), ("a. A 192.0.2.1\n", "no SOA")]
        {
            let error = Zone::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
