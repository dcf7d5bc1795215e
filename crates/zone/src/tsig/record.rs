//! The TSIG record of a message (RFC 8945 §4.2): parser and writer.

use avocet_wire::header::HEADER_LEN;
use avocet_wire::name::MAX_NAME;
use avocet_wire::view::{MessageView, RecordSection};
use avocet_wire::{Class, FoldedNameBuf, NameBuf, Rtype};

use super::key::TsigKey;

/// Maximum number of octets of a MAC that this server writes, that of HMAC-SHA512.
const MAX_MAC: usize = 64;
/// Number of octets of the fixed fields in the data of a TSIG record, without names, MAC and other
/// data.
const FIXED: usize = 16;
/// Number of octets of a record between its owner and its data.
const HEAD: usize = 10;
/// Maximum number of octets of a TSIG record that this server writes.
pub const MAX_TSIG: usize = 2 * MAX_NAME + HEAD + FIXED + MAX_MAC + 6;

/// The error codes of a TSIG record (RFC 8945 §3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TsigError {
    /// There is no error.
    #[default]
    None,
    /// The MAC does not match.
    BadSig,
    /// The key is not known, or was used with another algorithm.
    BadKey,
    /// The time of signing differs too much from the server's clock.
    BadTime,
    /// The MAC is truncated more than is permitted.
    BadTrunc,
    /// An error with another code.
    Other(u16),
}

impl TsigError {
    /// Returns the code of the error.
    #[must_use]
    pub const fn code(self) -> u16 {
        match self {
            Self::None => 0,
            Self::BadSig => 16,
            Self::BadKey => 17,
            Self::BadTime => 18,
            Self::BadTrunc => 22,
            Self::Other(code) => code,
        }
    }

    const fn from_code(code: u16) -> Self {
        match code {
            0 => Self::None,
            16 => Self::BadSig,
            17 => Self::BadKey,
            18 => Self::BadTime,
            22 => Self::BadTrunc,
            code => Self::Other(code),
        }
    }

    /// Returns the name of the error for logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "NOERROR",
            Self::BadSig => "BADSIG",
            Self::BadKey => "BADKEY",
            Self::BadTime => "BADTIME",
            Self::BadTrunc => "BADTRUNC",
            Self::Other(_) => "other",
        }
    }
}

/// The TSIG record at the end of a message.
#[derive(Clone, Debug)]
pub struct TsigRecord<'m> {
    /// The name of the key.
    pub name: FoldedNameBuf,
    /// The name of the algorithm.
    pub algorithm: FoldedNameBuf,
    /// The Unix time in seconds at which the message was signed, with 48 bits.
    pub signed_at_secs: u64,
    /// The permitted difference of the clocks in seconds (fudge).
    pub fudge_secs: u16,
    /// The message authentication code.
    pub mac: &'m [u8],
    /// The ID of the message when it was signed.
    pub original_id: u16,
    /// The error code.
    pub error: TsigError,
    /// The time of the server if the error is BADTIME; otherwise empty.
    pub other: &'m [u8],
    /// The offset of the record in the message.
    pub(super) at: usize,
}

/// The error that the TSIG record of a message is malformed, is not the last record, or is one of
/// several. The reply is FORMERR (RFC 8945 §5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the TSIG record is malformed")]
pub struct TsigMalformed;

impl<'m> TsigRecord<'m> {
    /// Finds the TSIG record of a message. Returns `None` if the message has none, or is malformed
    /// before the record.
    ///
    /// # Errors
    /// The record is malformed or is not the last one.
    pub fn find(message: &'m [u8]) -> Result<Option<Self>, TsigMalformed> {
        let Ok(mut records) = MessageView::new(message).and_then(|view| view.records()) else {
            return Ok(None);
        };
        while let Some(record) = records.next() {
            let Ok(record) = record else { return Ok(None) };
            if record.rtype != Rtype::TSIG {
                continue;
            }
            let is_last = records.next().is_none() && records.position() == message.len();
            let is_additional = record.section == RecordSection::Additional;
            if !is_last || !is_additional || record.class != Class::ANY || record.ttl_secs() != 0 {
                return Err(TsigMalformed);
            }
            let name = record.owner().map_err(|_| TsigMalformed)?.folded();
            return Self::read(name, record.rdata(), record.offset()).map(Some);
        }
        Ok(None)
    }

    fn read(name: FoldedNameBuf, rdata: &'m [u8], at: usize) -> Result<Self, TsigMalformed> {
        let name_end = avocet_wire::name::wire_len(rdata).map_err(|_| TsigMalformed)?;
        let (algorithm, rest) = rdata.split_at_checked(name_end).ok_or(TsigMalformed)?;
        let algorithm = NameBuf::from_wire(algorithm).map_err(|_| TsigMalformed)?.folded();
        let (&[a, b, c, d, e, f, high, low], rest) =
            rest.split_first_chunk().ok_or(TsigMalformed)?;
        let (mac, rest) = counted(rest)?;
        let (&[id_high, id_low, error_high, error_low], rest) =
            rest.split_first_chunk().ok_or(TsigMalformed)?;
        let (other, rest) = counted(rest)?;
        if !rest.is_empty() {
            return Err(TsigMalformed);
        }
        Ok(Self {
            name,
            algorithm,
            signed_at_secs: u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
            fudge_secs: u16::from_be_bytes([high, low]),
            mac,
            original_id: u16::from_be_bytes([id_high, id_low]),
            error: TsigError::from_code(u16::from_be_bytes([error_high, error_low])),
            other,
            at,
        })
    }

    /// Returns the message as it was signed: without the TSIG record, and with the original ID.
    #[must_use]
    pub fn bare(&self, message: &[u8]) -> Vec<u8> {
        let mut bare = message[..self.at].to_vec();
        bare[..2].copy_from_slice(&self.original_id.to_be_bytes());
        let additional = u16::from_be_bytes([bare[10], bare[11]]).wrapping_sub(1);
        bare[10..HEADER_LEN].copy_from_slice(&additional.to_be_bytes());
        bare
    }
}

/// Splits off a field that begins with its length in octets. Returns the field and the rest.
fn counted(octets: &[u8]) -> Result<(&[u8], &[u8]), TsigMalformed> {
    let (len, rest) = octets.split_first_chunk().ok_or(TsigMalformed)?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*len))).ok_or(TsigMalformed)
}

/// The fields of a TSIG record that are signed and written.
#[derive(Clone, Debug)]
pub(super) struct TsigValues {
    pub(super) signed_at_secs: u64,
    pub(super) fudge_secs: u16,
    pub(super) error: TsigError,
    /// The time of the server; only present if the error is BADTIME.
    pub(super) other: Option<u64>,
}

impl TsigValues {
    pub(super) fn other(&self) -> Vec<u8> {
        self.other.map_or_else(Vec::new, |secs| secs.to_be_bytes()[2..].to_vec())
    }

    /// Encodes the time and the fudge as the record has them.
    pub(super) fn timers(signed_at_secs: u64, fudge_secs: u16) -> [u8; 8] {
        let [_, _, a, b, c, d, e, f] = signed_at_secs.to_be_bytes();
        let [high, low] = fudge_secs.to_be_bytes();
        [a, b, c, d, e, f, high, low]
    }
}

/// The names in a TSIG record: the owner, which is the name of the key, and the algorithm.
#[derive(Clone, Copy)]
pub(super) struct TsigNames<'n> {
    pub(super) key: &'n [u8],
    pub(super) algorithm: &'n [u8],
}

impl<'n> TsigNames<'n> {
    pub(super) fn of(key: &'n TsigKey) -> Self {
        Self { key: key.name().wire(), algorithm: key.algorithm().wire() }
    }
}

/// Appends a TSIG record to a message.
pub(super) fn append(message: &mut Vec<u8>, names: TsigNames<'_>, values: &TsigValues, mac: &[u8]) {
    let id = [message[0], message[1]];
    let other = values.other();
    message.extend_from_slice(names.key);
    message.extend_from_slice(&[0, 250, 0, 255, 0, 0, 0, 0]);
    let len = names.algorithm.len() + FIXED + mac.len() + other.len();
    message.extend_from_slice(&(len as u16).to_be_bytes());
    message.extend_from_slice(names.algorithm);
    message.extend_from_slice(&TsigValues::timers(values.signed_at_secs, values.fudge_secs));
    message.extend_from_slice(&(mac.len() as u16).to_be_bytes());
    message.extend_from_slice(mac);
    message.extend_from_slice(&id);
    message.extend_from_slice(&values.error.code().to_be_bytes());
    message.extend_from_slice(&(other.len() as u16).to_be_bytes());
    message.extend_from_slice(&other);
    let additional = u16::from_be_bytes([message[10], message[11]]).wrapping_add(1);
    message[10..HEADER_LEN].copy_from_slice(&additional.to_be_bytes());
}
