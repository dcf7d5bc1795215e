//! Query files, encoded before the clock starts.

use std::path::Path;
use std::{fs, io};

use crate::invalid;
use crate::message::{self, Form};

/// Encoded queries in one buffer, asked in order and then again.
pub(crate) struct Queries {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    next: usize,
}

impl Queries {
    /// Reads a file of lines `name TYPE`. A line that cannot be encoded is an error that names it.
    pub(crate) fn read(path: &Path, form: Form) -> io::Result<Self> {
        let text = fs::read_to_string(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        Self::parse(&text, form).map_err(|error| invalid(&format!("{}: {error}", path.display())))
    }

    /// Encodes lines `name TYPE`; an error names the line that cannot be.
    pub(crate) fn parse(text: &str, form: Form) -> Result<Self, String> {
        let mut queries = Self { bytes: Vec::new(), ends: Vec::new(), next: 0 };
        for (index, line) in text.lines().enumerate() {
            let query = message::query(line, form)
                .ok_or_else(|| format!("{}: not `name TYPE`: {line}", index + 1))?;
            queries.bytes.extend_from_slice(&query);
            queries.ends.push(queries.bytes.len());
        }
        if queries.ends.is_empty() { Err("no queries".to_owned()) } else { Ok(queries) }
    }

    /// The next query to ask.
    pub(crate) fn take(&mut self) -> &[u8] {
        let index = self.next;
        self.next = if index + 1 == self.ends.len() { 0 } else { index + 1 };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    /// Goes back by `count` queries that were taken but not sent.
    pub(crate) fn put_back(&mut self, count: usize) {
        let length = self.ends.len();
        self.next = (self.next + length - count % length) % length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_come_in_order_and_again() {
        let mut queries = Queries { bytes: b"abbc".to_vec(), ends: vec![1, 3, 4], next: 0 };
        let taken: Vec<Vec<u8>> = (0..4).map(|_| queries.take().to_vec()).collect();
        assert_eq!(taken, [&b"a"[..], b"bb", b"c", b"a"]);
        queries.put_back(2);
        assert_eq!(queries.take(), b"c");
    }
}
