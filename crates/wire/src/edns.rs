//! EDNS(0): the OPT record and its options (RFC 6891).
//!
//! Options are read only when the caller iterates over them. [`Edns::options`] ends with an error
//! at an option that runs past the end of the record, or after [`MAX_OPTIONS`] options.
//!
//! ```
//! use avocet_wire::edns::{Edns, EdnsOption};
//!
//! // CLASS is the UDP payload size, TTL holds the DO flag, RDATA one empty NSID option.
//! let edns = Edns::from_fields(1232, 0x0000_8000, &[0, 3, 0, 0]);
//! assert!(edns.dnssec_ok);
//! assert_eq!(edns.udp_size, 1232);
//! let options: Result<Vec<_>, _> = edns.options().collect();
//! assert_eq!(options, Ok(vec![EdnsOption::Nsid(b"")]));
//! ```

use std::fmt;

use crate::code::Ede;
use crate::name::{self, NameError};

/// Maximum number of options read from one OPT record. No legitimate message has more.
pub const MAX_OPTIONS: usize = 32;
/// Number of octets of an OPT record without options.
pub const OPT_LEN: usize = 11;

/// Option codes of the IANA registry that this crate understands.
#[allow(missing_docs)] // names as in the registry
pub mod option {
    pub const NSID: u16 = 3;
    pub const ECS: u16 = 8;
    pub const COOKIE: u16 = 10;
    pub const TCP_KEEPALIVE: u16 = 11;
    pub const PADDING: u16 = 12;
    pub const CHAIN: u16 = 13;
    pub const KEY_TAG: u16 = 14;
    pub const EDE: u16 = 15;
    pub const REPORT_CHANNEL: u16 = 18;
    pub const ZONEVERSION: u16 = 19;
}

/// The reason why an OPT record is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EdnsError {
    /// The message has more than one OPT record (RFC 6891 §6.1.1).
    Repeated,
    /// The owner of the OPT record is not the root (RFC 6891 §6.1.2).
    Owner,
    /// An option runs past the end of the record.
    OptionOverrun,
    /// The record has more than [`MAX_OPTIONS`] options.
    TooManyOptions,
    /// The data of the option with this code is malformed.
    OptionForm(u16),
}

impl fmt::Display for EdnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repeated => f.write_str("more than one OPT record"),
            Self::Owner => f.write_str("the owner of OPT is not the root"),
            Self::OptionOverrun => f.write_str("an EDNS option runs past the end"),
            Self::TooManyOptions => f.write_str("too many EDNS options"),
            Self::OptionForm(code) => write!(f, "EDNS option {code} is malformed"),
        }
    }
}

impl std::error::Error for EdnsError {}

/// The content of an OPT record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edns<'a> {
    /// The sender's UDP payload size in octets, as sent. The receiver treats values below 512 as
    /// 512.
    pub udp_size: u16,
    /// The upper eight bits of the RCODE.
    pub rcode_high: u8,
    /// EDNS version.
    pub version: u8,
    /// The DO flag: the sender requests DNSSEC records (RFC 3225).
    pub dnssec_ok: bool,
    options: &'a [u8],
}

impl<'a> Edns<'a> {
    /// Reads the fixed fields of an OPT record. The options in `rdata` are read later.
    #[inline]
    #[must_use]
    pub fn from_fields(class: u16, ttl: u32, rdata: &'a [u8]) -> Self {
        let [rcode_high, version, flags, _] = ttl.to_be_bytes();
        Self { udp_size: class, rcode_high, version, dnssec_ok: flags & 0x80 != 0, options: rdata }
    }

    /// Returns a lazy iterator over the options as pairs of code and data.
    #[must_use]
    pub fn raw_options(&self) -> RawOptions<'a> {
        RawOptions { rest: self.options, seen: 0 }
    }

    /// Returns a lazy iterator over the typed options.
    pub fn options(&self) -> impl Iterator<Item = Result<EdnsOption<'a>, EdnsError>> + use<'a> {
        self.raw_options()
            .map(|option| option.and_then(|(code, data)| EdnsOption::read(code, data)))
    }

    /// Reports whether the record has options.
    #[inline]
    #[must_use]
    pub fn has_options(&self) -> bool {
        !self.options.is_empty()
    }
}

/// An iterator over options as pairs of code and data.
#[derive(Clone, Debug)]
pub struct RawOptions<'a> {
    rest: &'a [u8],
    seen: usize,
}

impl<'a> Iterator for RawOptions<'a> {
    type Item = Result<(u16, &'a [u8]), EdnsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        self.seen += 1;
        let option = match self.rest.split_first_chunk::<4>() {
            _ if self.seen > MAX_OPTIONS => Err(EdnsError::TooManyOptions),
            Some((head, rest)) => {
                let code = u16::from_be_bytes([head[0], head[1]]);
                let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
                rest.split_at_checked(len)
                    .map(|(data, rest)| (code, data, rest))
                    .ok_or(EdnsError::OptionOverrun)
            }
            None => Err(EdnsError::OptionOverrun),
        };
        match option {
            Ok((code, data, rest)) => {
                self.rest = rest;
                Some(Ok((code, data)))
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

/// A typed EDNS option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EdnsOption<'a> {
    /// Name server identifier, empty in queries (RFC 5001).
    Nsid(&'a [u8]),
    /// Client subnet (RFC 7871).
    Ecs {
        /// 1 for IPv4, 2 for IPv6.
        family: u16,
        /// SOURCE PREFIX-LENGTH in bits.
        source_prefix: u8,
        /// SCOPE PREFIX-LENGTH in bits.
        scope_prefix: u8,
        /// The address, truncated to the octets that the source prefix needs.
        address: &'a [u8],
    },
    /// DNS cookie (RFC 7873): 8 octets from the client and 0 or 8 to 32 from the server.
    Cookie {
        /// Client cookie.
        client: &'a [u8; 8],
        /// Server cookie, empty in the client's first query.
        server: &'a [u8],
    },
    /// edns-tcp-keepalive (RFC 7828): the idle timeout in units of 100 ms; `None` in queries.
    TcpKeepalive(Option<u16>),
    /// Padding with this number of octets (RFC 7830).
    Padding(u16),
    /// The closest trust point that the client knows, a wire name (RFC 7901).
    Chain(&'a [u8]),
    /// Key tags of the trust anchors in use, two octets each (RFC 8145).
    KeyTag(&'a [u8]),
    /// Extended DNS error with its text in UTF-8, as sent (RFC 8914).
    Ede(Ede, &'a [u8]),
    /// Agent domain for error reports, a wire name (RFC 9567).
    ReportChannel(&'a [u8]),
    /// Zone version: label count, type and version; empty in queries (RFC 9660).
    ZoneVersion(Option<(u8, u8, &'a [u8])>),
    /// Any other option.
    Unknown(u16, &'a [u8]),
}

impl<'a> EdnsOption<'a> {
    /// Reads the data of the option with this code.
    pub fn read(code: u16, data: &'a [u8]) -> Result<Self, EdnsError> {
        let form = EdnsError::OptionForm(code);
        Ok(match code {
            option::NSID => Self::Nsid(data),
            option::ECS => read_ecs(data).ok_or(form)?,
            option::COOKIE => {
                let (client, server) = data.split_first_chunk::<8>().ok_or(form)?;
                if !matches!(server.len(), 0 | 8..=32) {
                    return Err(form);
                }
                Self::Cookie { client, server }
            }
            option::TCP_KEEPALIVE => match *data {
                [] => Self::TcpKeepalive(None),
                [high, low] => Self::TcpKeepalive(Some(u16::from_be_bytes([high, low]))),
                _ => return Err(form),
            },
            option::PADDING => Self::Padding(data.len() as u16),
            option::CHAIN => Self::Chain(whole_name(data).map_err(|_| form)?),
            option::KEY_TAG if data.len().is_multiple_of(2) => Self::KeyTag(data),
            option::KEY_TAG => return Err(form),
            option::EDE => {
                let (info, text) = data.split_first_chunk::<2>().ok_or(form)?;
                Self::Ede(Ede(u16::from_be_bytes(*info)), text)
            }
            option::REPORT_CHANNEL => Self::ReportChannel(whole_name(data).map_err(|_| form)?),
            option::ZONEVERSION => match *data {
                [] => Self::ZoneVersion(None),
                [labels, kind, ref version @ ..] => {
                    Self::ZoneVersion(Some((labels, kind, version)))
                }
                // Data in a query is ignored (RFC 9660 §3.2).
                _ => Self::Unknown(code, data),
            },
            other => Self::Unknown(other, data),
        })
    }

    /// Writes the option with its code and length to the front of `out`. Returns the number of
    /// octets written, or `None` if the option does not fit.
    pub fn write(&self, out: &mut [u8]) -> Option<usize> {
        let mut at = 4;
        let mut put = |bytes: &[u8]| {
            out.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
            at += bytes.len();
            Some(())
        };
        let code = match *self {
            Self::Nsid(id) => put(id).map(|()| option::NSID)?,
            Self::Ecs { family, source_prefix, scope_prefix, address } => {
                put(&family.to_be_bytes())?;
                put(&[source_prefix, scope_prefix])?;
                put(address).map(|()| option::ECS)?
            }
            Self::Cookie { client, server } => {
                put(client)?;
                put(server).map(|()| option::COOKIE)?
            }
            Self::TcpKeepalive(None) => option::TCP_KEEPALIVE,
            Self::TcpKeepalive(Some(units)) => {
                put(&units.to_be_bytes()).map(|()| option::TCP_KEEPALIVE)?
            }
            Self::Padding(len) => {
                out.get_mut(at..at + usize::from(len))?.fill(0);
                at += usize::from(len);
                option::PADDING
            }
            Self::Chain(name) => put(name).map(|()| option::CHAIN)?,
            Self::KeyTag(tags) => put(tags).map(|()| option::KEY_TAG)?,
            Self::Ede(code, text) => {
                put(&code.0.to_be_bytes())?;
                put(text).map(|()| option::EDE)?
            }
            Self::ReportChannel(name) => put(name).map(|()| option::REPORT_CHANNEL)?,
            Self::ZoneVersion(None) => option::ZONEVERSION,
            Self::ZoneVersion(Some((labels, kind, version))) => {
                put(&[labels, kind])?;
                put(version).map(|()| option::ZONEVERSION)?
            }
            Self::Unknown(code, data) => put(data).map(|()| code)?,
        };
        let [code_high, code_low] = code.to_be_bytes();
        let [len_high, len_low] = u16::try_from(at - 4).ok()?.to_be_bytes();
        out.get_mut(..4)?.copy_from_slice(&[code_high, code_low, len_high, len_low]);
        Some(at)
    }
}

fn whole_name(data: &[u8]) -> Result<&[u8], NameError> {
    if name::wire_len(data)? == data.len() { Ok(data) } else { Err(NameError::TooLong) }
}

/// Reads ECS data. Checks that the address has exactly the octets that the source prefix needs, and
/// that its spare bits are zero (RFC 7871 §6).
fn read_ecs(data: &[u8]) -> Option<EdnsOption<'_>> {
    let (&[high, low, source_prefix, scope_prefix], address) = data.split_first_chunk::<4>()?;
    let family = u16::from_be_bytes([high, low]);
    let bits = match family {
        1 => 32,
        2 => 128,
        _ => return None,
    };
    let spare = source_prefix % 8;
    let spare_is_zero = spare == 0 || address.last().is_none_or(|last| last << spare == 0);
    let exact = address.len() == usize::from(source_prefix).div_ceil(8);
    (source_prefix <= bits && scope_prefix <= bits && exact && spare_is_zero)
        .then_some(EdnsOption::Ecs { family, source_prefix, scope_prefix, address })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_written_as_it_was_read() {
        let options = [
            EdnsOption::Nsid(b"gw1"),
            EdnsOption::Ecs {
                family: 1,
                source_prefix: 20,
                scope_prefix: 0,
                address: &[192, 0, 0x20],
            },
            EdnsOption::Cookie { client: b"12345678", server: b"abcdefgh" },
            EdnsOption::TcpKeepalive(None),
            EdnsOption::TcpKeepalive(Some(100)),
            EdnsOption::Padding(7),
            EdnsOption::Chain(b"\x03com\x00"),
            EdnsOption::KeyTag(&[0, 1, 0, 2]),
            EdnsOption::Ede(Ede::BLOCKED, b"list"),
            EdnsOption::ReportChannel(b"\x05agent\x00"),
            EdnsOption::ZoneVersion(None),
            EdnsOption::ZoneVersion(Some((2, 0, &[0, 0, 0, 9]))),
            EdnsOption::Unknown(65001, b"x"),
        ];
        let mut octets = [0; 512];
        let mut len = 0;
        for option in &options {
            len += option.write(&mut octets[len..]).unwrap();
        }
        let edns = Edns::from_fields(1232, 0, &octets[..len]);
        let read: Result<Vec<_>, _> = edns.options().collect();
        assert_eq!(read.unwrap(), options);
        for short in 1..len {
            assert!(options[0].write(&mut [0; 6]).is_none());
            let _ = Edns::from_fields(1232, 0, &octets[..short]).options().count();
        }
    }

    #[test]
    fn malformed_options_are_refused() {
        for (code, data) in [
            (option::COOKIE, &b"1234567"[..]),
            (option::COOKIE, b"123456789"),
            (option::COOKIE, &[0; 41]),
            (option::ECS, b"\x00\x01\x20\x00\x01"),
            (option::ECS, b"\x00\x01\x21\x00\x01\x02\x03\x04\x00"),
            (option::ECS, b"\x00\x01\x07\x00\x01"),
            (option::ECS, b"\x00\x09\x08\x00\x01"),
            (option::TCP_KEEPALIVE, b"\x01"),
            (option::EDE, b"\x00"),
            (option::CHAIN, b"\x03com"),
            (option::REPORT_CHANNEL, b"\x03com\x00x"),
            (option::KEY_TAG, b"\x00"),
        ] {
            assert_eq!(EdnsOption::read(code, data), Err(EdnsError::OptionForm(code)));
        }
    }

    #[test]
    fn overruns_and_floods_of_options_end_with_an_error() {
        let overrun = Edns::from_fields(512, 0, &[0, 3, 0, 5, 1]);
        assert_eq!(overrun.raw_options().last(), Some(Err(EdnsError::OptionOverrun)));
        let flood = [0u8; 64_000];
        let edns = Edns::from_fields(512, 0, &flood);
        assert_eq!(edns.raw_options().count(), MAX_OPTIONS + 1);
        assert_eq!(edns.raw_options().last(), Some(Err(EdnsError::TooManyOptions)));
    }
}
