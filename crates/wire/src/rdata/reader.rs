//! A cursor over uncompressed record data. It never reads out of bounds and never panics.

use super::Problem;
use crate::name;

/// The unread part of record data.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(octets: &'a [u8]) -> Self {
        Self { octets, at: 0 }
    }

    /// Returns the number of octets that were read.
    pub(super) const fn position(&self) -> usize {
        self.at
    }

    /// Returns the remaining octets without consuming them.
    pub(super) fn peek(&self) -> &'a [u8] {
        self.octets.get(self.at..).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at >= self.octets.len()
    }

    /// Consumes and returns the remaining octets.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        let rest = self.peek();
        self.at = self.octets.len();
        rest
    }

    /// Consumes and returns the remaining octets. It is an error if none remain.
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

    /// Reads a big-endian number of `len` octets, at most eight.
    pub(super) fn number(&mut self, len: usize) -> Result<u64, Problem> {
        Ok(self.take(len)?.iter().fold(0, |value, octet| value << 8 | u64::from(*octet)))
    }

    /// Reads an uncompressed name.
    pub(super) fn name(&mut self) -> Result<&'a [u8], Problem> {
        let len = name::wire_len(self.peek())?;
        self.take(len)
    }

    /// Reads a character-string and returns it without its length octet (RFC 1035 §3.3).
    pub(super) fn char_string(&mut self) -> Result<&'a [u8], Problem> {
        let len = self.u8()?;
        self.take(usize::from(len))
    }

    /// Reads a 16-bit length and returns this number of octets.
    pub(super) fn counted(&mut self) -> Result<&'a [u8], Problem> {
        let len = self.u16()?;
        self.take(usize::from(len))
    }
}
