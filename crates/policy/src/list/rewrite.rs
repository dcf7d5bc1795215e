//! Answers that a list gives instead of the real one.

use std::net::IpAddr;

use avocet_wire::name::MAX_NAME;
use avocet_wire::{Rcode, Rtype, rdata, text};

use super::binary::{Octets, Write};
use super::name;
use super::reason::Reason;

/// An answer given by a list.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Rewrite {
    /// A response with this RCODE and without records. [`Rcode::NOERROR`] is NODATA.
    Rcode(Rcode),
    /// A CNAME to this name, in lower case and wire form.
    Cname(Box<[u8]>),
    /// A record of this type with this uncompressed data. The records of several lines are
    /// combined.
    Record(Rtype, Box<[u8]>),
    /// An exception with this value removes all rewrites of other lines. Only exceptions have this
    /// value.
    Any,
}

const NAME: &str = "dnsrewrite";

/// RCODEs with names.
const RCODES: [(&str, u16); 10] = [
    ("NOERROR", 0),
    ("FORMERR", 1),
    ("SERVFAIL", 2),
    ("NXDOMAIN", 3),
    ("NOTIMP", 4),
    ("REFUSED", 5),
    ("YXDOMAIN", 6),
    ("YXRRSET", 7),
    ("NXRRSET", 8),
    ("NOTAUTH", 9),
];

impl Rewrite {
    /// Returns the rewrite that answers with this address.
    #[must_use]
    pub fn address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::Record(Rtype::A, Box::from(v4.octets())),
            IpAddr::V6(v6) => Self::Record(Rtype::AAAA, Box::from(v6.octets())),
        }
    }

    /// Parses the value of `$dnsrewrite`: nothing, an address, a name, an RCODE, or
    /// `RCODE;TYPE;DATA`.
    pub(super) fn read(value: &str) -> Result<Self, Reason> {
        let wrong = || Reason::ModifierValue(NAME);
        if value.is_empty() {
            return Ok(Self::Any);
        }
        let Some((code, rest)) = value.split_once(';') else { return Self::read_short(value) };
        let (rtype, data) = rest.split_once(';').ok_or_else(wrong)?;
        let code = rcode(code).ok_or_else(wrong)?;
        if code != Rcode::NOERROR || rtype.is_empty() {
            return Ok(Self::Rcode(code));
        }
        let rtype = rdata::from_mnemonic(rtype).map(Rtype).ok_or_else(wrong)?;
        match rtype {
            Rtype::CNAME => Ok(Self::Cname(name::read(data)?.wire().into())),
            Rtype::TXT => Ok(Self::Record(rtype, character_strings(data.as_bytes()))),
            _ => Self::record(rtype, data),
        }
    }

    fn read_short(value: &str) -> Result<Self, Reason> {
        if let Ok(address) = value.parse() {
            return Ok(Self::address(address));
        }
        // RCODEs are in upper case only, because `refused` may be a name.
        if let Some((_, code)) = RCODES.iter().find(|(name, _)| *name == value) {
            return Ok(Self::Rcode(Rcode(*code)));
        }
        let target = name::read(value).map_err(|_| Reason::ModifierValue(NAME))?;
        Ok(Self::Cname(target.wire().into()))
    }

    /// Parses the data of a record in presentation form. All names in it are absolute.
    pub(super) fn record(rtype: Rtype, data: &str) -> Result<Self, Reason> {
        let mut octets = Vec::new();
        rdata::parse(rtype.0, data, &[0], &mut octets).map_err(|_| Reason::ModifierValue(NAME))?;
        Ok(Self::Record(rtype, octets.into()))
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Rcode(code) => {
                out.push(1);
                out.number(u64::from(code.0));
            }
            Self::Cname(target) => {
                out.push(2);
                out.octets(target);
            }
            Self::Record(rtype, data) => {
                out.push(3);
                out.number(u64::from(rtype.0));
                out.octets(data);
            }
            Self::Any => out.push(4),
        }
    }

    pub(super) fn from_octets(octets: &mut Octets<'_>) -> Option<Self> {
        match octets.octet()? {
            1 => Some(Self::Rcode(Rcode(octets.number()?.try_into().ok()?))),
            2 => {
                let target = octets.octets()?;
                let whole = avocet_wire::name::wire_len(target) == Ok(target.len())
                    && target.len() <= MAX_NAME;
                whole.then(|| Self::Cname(target.into()))
            }
            3 => {
                let rtype = octets.number()?.try_into().ok()?;
                let data = octets.octets()?;
                rdata::check(rtype, data).ok()?;
                Some(Self::Record(Rtype(rtype), data.into()))
            }
            4 => Some(Self::Any),
            _ => None,
        }
    }
}

fn rcode(text: &str) -> Option<Rcode> {
    let named = RCODES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map(|(_, code)| Rcode(*code))
}

/// Converts text to the data of a TXT record, in strings of at most 255 octets.
fn character_strings(text: &[u8]) -> Box<[u8]> {
    let mut out = Vec::with_capacity(text.len() + 1);
    if text.is_empty() {
        out.push(0);
    }
    for part in text.chunks(255) {
        out.push(part.len() as u8);
        out.extend_from_slice(part);
    }
    out.into()
}

impl std::fmt::Display for Rewrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rcode(code) => write!(f, "{code}"),
            Self::Cname(target) => {
                f.write_str("CNAME ")?;
                text::write_name(target, f)
            }
            Self::Record(rtype, data) => write!(f, "{rtype} {}", rdata::display(rtype.0, data)),
            Self::Any => f.write_str("no rewrite"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, expected: Option<&str>) {
        let read = Rewrite::read(value).ok();
        assert_eq!(read.as_ref().map(ToString::to_string).as_deref(), expected, "{value}");
        let Some(read) = read else { return };
        let mut octets = Vec::new();
        read.write(&mut octets);
        assert_eq!(Rewrite::from_octets(&mut Octets::new(&octets)), Some(read));
    }

    #[test]
    fn the_short_forms_are_an_address_a_name_or_a_code() {
        check("1.2.3.4", Some("A 1.2.3.4"));
        check("abcd::1234", Some("AAAA abcd::1234"));
        check("Example.NET", Some("CNAME example.net."));
        check("REFUSED", Some("REFUSED"));
        check("NXDOMAIN", Some("NXDOMAIN"));
        check("", Some("no rewrite"));
        check("a b", None);
    }

    #[test]
    fn the_full_form_has_code_type_and_data() {
        check("NOERROR;A;1.2.3.4", Some("A 1.2.3.4"));
        check("NOERROR;AAAA;abcd::1234", Some("AAAA abcd::1234"));
        check("NOERROR;CNAME;example.org", Some("CNAME example.org."));
        check("NOERROR;MX;32 example.mail", Some("MX 32 example.mail."));
        check("NOERROR;PTR;example.net.", Some("PTR example.net."));
        check("NOERROR;SRV;10 60 8080 example.com", Some("SRV 10 60 8080 example.com."));
        check("NOERROR;TXT;hello world", Some("TXT \"hello world\""));
        check("NOERROR;HTTPS;32 example.com alpn=h3", Some("HTTPS 32 example.com. alpn=\"h3\""));
        check("NXDOMAIN;;", Some("NXDOMAIN"));
        check("refused;;", Some("REFUSED"));
        check("NOERROR;;", Some("NOERROR"));
        for wrong in ["NOERROR;A", "X;A;1.2.3.4", "NOERROR;A;1.2.3", "NOERROR;XX;1", "NOERROR;MX;a"]
        {
            check(wrong, None);
        }
    }
}
