//! A cursor over uncompressed record data. It never reads outside of it and never panics.

use super::Problem;
use crate::name;

/// What is left to read of record data.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(octets: &'a [u8]) -> Self {
        Self { octets, at: 0 }
    }

    /// How many octets have been read.
    pub(super) const fn position(&self) -> usize {
        self.at
    }

    /// The octets not yet read, left unread.
    pub(super) fn peek(&self) -> &'a [u8] {
        self.octets.get(self.at..).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.octets.len()
    }

    /// All octets not yet read.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = self.peek();
        self.at = self.octets.len();
        rest
    }

    /// The rest, if it is not empty.
    pub(super) fn some_rest(&mut self) -> Result<&'a [u8], Problem> {
        match self.rest() {
            [] => Err(Problem::Missing),
            rest => Ok(rest),
        }
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], Problem> {
        let taken = self.peek().get(..len).ok_or(Problem::Missing)?;
        self.at += len;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let taken = self.peek().first_chunk::<N>().ok_or(Problem::Missing)?;
        self.at += N;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Problem> {
        self.array::<1>().map(|[octet]| octet)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Problem> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Problem> {
        self.array().map(u32::from_be_bytes)
    }

    /// A big-endian number of `len` octets, at most eight.
    pub(super) fn number(&mut self, len: usize) -> Result<u64, Problem> {
        Ok(self.take(len)?.iter().fold(0, |value, octet| value << 8 | u64::from(*octet)))
    }

    /// An uncompressed name.
    pub(super) fn name(&mut self) -> Result<&'a [u8], Problem> {
        let len = name::wire_len(self.peek())?;
        self.take(len)
    }

    /// The octets of a character-string, its length octet left out (RFC 1035 §3.3).
    pub(super) fn char_string(&mut self) -> Result<&'a [u8], Problem> {
        let len = self.u8()?;
        self.take(usize::from(len))
    }

    /// As many octets as the 16-bit length before them says.
    pub(super) fn counted(&mut self) -> Result<&'a [u8], Problem> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }
}
