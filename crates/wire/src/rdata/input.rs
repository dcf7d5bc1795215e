//! A cursor over the tokens of record data in presentation form.

use std::str::FromStr;

use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};

use super::{Problem, RdataError, table};
use crate::name::MAX_NAME;
use crate::text::{self, TextError, Token};

/// The remaining tokens of the text.
pub(super) struct Input<'t> {
    tokens: &'t [Token<'t>],
    at: usize,
    origin: &'t [u8],
}

impl<'t> Input<'t> {
    pub(super) fn new(tokens: &'t [Token<'t>], origin: &'t [u8]) -> Self {
        Self { tokens, at: 0, origin }
    }

    /// Returns the next token.
    pub(super) fn next(&mut self) -> Result<&'t [u8], Problem> {
        let token = self.tokens.get(self.at).ok_or(Problem::Missing)?;
        self.at += 1;
        Ok(token.text)
    }

    /// Returns the next token without consuming it.
    pub(super) fn peek(&self) -> Option<&'t [u8]> {
        self.tokens.get(self.at).map(|token| token.text)
    }

    /// Parses a number up to `max`.
    pub(super) fn number(&mut self, max: u64) -> Result<u64, Problem> {
        number(self.next()?, max)
    }

    /// Parses a value by its `FromStr`, such as an address.
    pub(super) fn value<T: FromStr>(&mut self) -> Result<T, Problem> {
        let token = str::from_utf8(self.next()?).map_err(|_| Problem::Encoding)?;
        token.parse().map_err(|_| Problem::Encoding)
    }

    /// Parses a name and appends its wire form.
    pub(super) fn name(&mut self, out: &mut Vec<u8>) -> Result<(), Problem> {
        let mut name = [0; MAX_NAME];
        let len = text::name_to_wire(self.next()?, Some(self.origin), &mut name)?;
        out.extend_from_slice(&name[..len]);
        Ok(())
    }

    /// Joins the remaining tokens.
    pub(super) fn joined(&mut self) -> Vec<u8> {
        let rest = self.tokens.get(self.at..).unwrap_or_default();
        self.at = self.tokens.len();
        rest.iter().flat_map(|token| token.text).copied().collect()
    }

    /// Returns an error located at the last token read.
    pub(super) fn error(&self, problem: Problem) -> RdataError {
        RdataError::on_wire(problem, self.column())
    }

    /// Returns the column of the last token read.
    pub(super) fn column(&self) -> usize {
        let last = self.tokens.get(self.at.saturating_sub(1));
        last.map_or(0, |token| token.column)
    }
}

/// Parses decimal digits as a number up to `max`.
pub(super) fn number(digits: &[u8], max: u64) -> Result<u64, Problem> {
    if digits.is_empty() {
        return Err(Problem::Number);
    }
    let value = digits.iter().try_fold(0_u64, |value, octet| match octet {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(octet - b'0')),
        _ => None,
    });
    value.filter(|value| *value <= max).ok_or(Problem::Number)
}

/// Parses the mnemonic of a type.
pub(super) fn read_rtype(token: &[u8]) -> Result<u16, Problem> {
    let text = str::from_utf8(token).ok();
    text.and_then(table::from_mnemonic).ok_or(Problem::Rule("unknown RR type"))
}

/// Appends octets after a one-octet count.
pub(super) fn append_counted(octets: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    out.push(u8::try_from(octets.len()).map_err(|_| Problem::TooLong)?);
    out.extend_from_slice(octets);
    Ok(())
}

/// Parses and appends a character-string.
pub(super) fn append_string(token: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    let start = out.len();
    out.push(0);
    text::read_string(token, out)?;
    out[start] = u8::try_from(out.len() - start - 1).map_err(|_| TextError::StringTooLong)?;
    Ok(())
}

/// Decodes and appends base64 (RFC 4648 §4): padded, without stray bits.
pub(super) fn append_base64(text: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    out.append(&mut BASE64.decode(text).map_err(|_| Problem::Encoding)?);
    Ok(())
}

/// Decodes and appends hexadecimal digits.
pub(super) fn append_hex(text: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    out.append(&mut HEXLOWER_PERMISSIVE.decode(text).map_err(|_| Problem::Encoding)?);
    Ok(())
}
