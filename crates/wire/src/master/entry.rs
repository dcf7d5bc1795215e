//! Entries of a master file: each is one line, or several lines within parentheses, without
//! comments.

use super::{MAX_ENTRY, MasterError};
use crate::text::Token;

/// A cursor over the text that yields the tokens of one entry at a time.
pub(super) struct Entries<'t> {
    text: &'t [u8],
    /// The offset of the next octet.
    at: usize,
    /// The line at `at`, from 1.
    line: u32,
    /// The offset at which the last entry begins.
    start: usize,
    /// The line on which the last entry begins.
    start_line: u32,
}

/// An error in an entry, and the offset of the error from the start of the entry.
pub(super) struct Misread {
    pub(super) offset: usize,
    pub(super) error: MasterError,
}

impl Misread {
    pub(super) const fn new(offset: usize, error: MasterError) -> Self {
        Self { offset, error }
    }
}

impl<'t> Entries<'t> {
    pub(super) const fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0, line: 1, start: 0, start_line: 1 }
    }

    /// Returns the line, from 1, on which the last entry begins.
    pub(super) const fn start_line(&self) -> u32 {
        self.start_line
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Returns the line and column, from 1, of an octet in the last entry.
    pub(super) fn place(&self, offset: usize) -> (u32, u32) {
        let end = (self.start + offset).min(self.text.len());
        let before = self.text.get(self.start..end).unwrap_or_default();
        let lines = before.iter().filter(|octet| **octet == b'\n').count();
        let column = before.iter().rev().take_while(|octet| **octet != b'\n').count() + 1;
        let line = self.start_line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        (line, u32::try_from(column).unwrap_or(u32::MAX))
    }

    /// Reads the tokens of the next entry. The columns of the tokens are offsets from the start of
    /// the entry.
    ///
    /// # Errors
    /// The entry is too long, or a quote or parenthesis does not match. The rest of the line is
    /// then skipped.
    pub(super) fn next(&mut self, tokens: &mut Vec<Token<'t>>) -> Result<(), Misread> {
        tokens.clear();
        (self.start, self.start_line) = (self.at, self.line);
        self.scan(tokens).inspect_err(|_| self.skip_line())
    }

    fn scan(&mut self, tokens: &mut Vec<Token<'t>>) -> Result<(), Misread> {
        let (mut depth, mut opened, mut octets) = (0_u32, 0, 0);
        while let Some(&octet) = self.text.get(self.at) {
            match octet {
                b'\n' => {
                    self.at += 1;
                    self.line = self.line.saturating_add(1);
                    if depth == 0 {
                        return Ok(());
                    }
                }
                b';' => {
                    let rest = &self.text[self.at..];
                    self.at += rest.iter().position(|octet| *octet == b'\n').unwrap_or(rest.len());
                }
                b'(' => {
                    (depth, opened) = (depth + 1, self.at - self.start);
                    self.at += 1;
                }
                b')' => {
                    let here = self.at - self.start;
                    depth =
                        depth.checked_sub(1).ok_or(Misread::new(here, MasterError::Unopened))?;
                    self.at += 1;
                }
                _ if octet.is_ascii_whitespace() => self.at += 1,
                _ => {
                    let token = self.token()?;
                    octets += token.text.len() + 1;
                    if octets > MAX_ENTRY {
                        return Err(Misread::new(token.column, MasterError::TooLong));
                    }
                    tokens.push(token);
                }
            }
        }
        if depth > 0 { Err(Misread::new(opened, MasterError::Open)) } else { Ok(()) }
    }

    /// Reads the token at the cursor.
    ///
    /// A quote begins a new token, except after `=`: `alpn="h2,h3"` is one token (RFC 9460 §2.1).
    fn token(&mut self) -> Result<Token<'t>, Misread> {
        let start = self.at;
        let mut at = start;
        while let Some(&octet) = self.text.get(at) {
            match octet {
                _ if !ENDS[usize::from(octet)] => at += 1,
                b'\\' if self.text.get(at + 1).is_none_or(|next| *next == b'\n') => at += 1,
                b'\\' => at += 2,
                b'"' if at == start || self.text[at - 1] == b'=' => {
                    at = self.quote_end(at)?;
                    break;
                }
                _ => break,
            }
        }
        self.at = at;
        Ok(Token { text: &self.text[start..at], column: start - self.start })
    }

    /// Returns the offset after the closing quote of the string whose opening quote is at `open`. A
    /// string does not extend over several lines.
    fn quote_end(&mut self, open: usize) -> Result<usize, Misread> {
        let mut at = open + 1;
        while let Some(&octet) = self.text.get(at) {
            match octet {
                b'"' => return Ok(at + 1),
                b'\n' => break,
                b'\\' if self.text.get(at + 1).is_some_and(|next| *next != b'\n') => at += 2,
                _ => at += 1,
            }
        }
        self.at = at;
        Err(Misread::new(open - self.start, MasterError::OpenQuote))
    }

    fn skip_line(&mut self) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        match rest.iter().position(|octet| *octet == b'\n') {
            Some(end) => {
                self.at += end + 1;
                self.line = self.line.saturating_add(1);
            }
            None => self.at = self.text.len(),
        }
    }
}

/// Octets that may end an unquoted token.
const ENDS: [bool; 256] = {
    let mut ends = [false; 256];
    let (octets, mut at) = (*b" \t\n\x0c\r;()\"\\", 0);
    while at < octets.len() {
        ends[octets[at] as usize] = true;
        at += 1;
    }
    ends
};
