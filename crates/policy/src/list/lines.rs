//! Splits chunks of text into lines of bounded length.

use super::limits::MAX_LIST_LINE;

/// A line that [`Lines`] found in the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Line<'a> {
    /// The octets of the line, without its ending.
    Whole(&'a [u8]),
    /// The line is longer than [`MAX_LIST_LINE`] and was dropped.
    TooLong,
}

/// Assembles lines from chunks of text. Keeps at most [`MAX_LIST_LINE`] octets.
#[derive(Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
    overlong: bool,
    number: u32,
}

impl Lines {
    /// Calls `take` with each line that the chunk completes, numbered from 1.
    pub(super) fn feed(&mut self, chunk: &[u8], mut take: impl FnMut(u32, Line<'_>)) {
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if self.begun.is_empty() && !self.overlong {
                self.number = self.number.saturating_add(1);
                take(self.number, bounded(line));
            } else {
                self.keep(line);
                self.end_line(&mut take);
            }
            rest = after;
        }
        self.keep(rest);
    }

    /// Calls `take` with the last line if the text does not end with a line ending.
    pub(super) fn finish(&mut self, mut take: impl FnMut(u32, Line<'_>)) {
        if !self.begun.is_empty() || self.overlong {
            self.end_line(&mut take);
        }
    }

    /// Returns the number of the last line.
    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    fn end_line(&mut self, take: &mut impl FnMut(u32, Line<'_>)) {
        self.number = self.number.saturating_add(1);
        take(self.number, if self.overlong { Line::TooLong } else { bounded(&self.begun) });
        self.begun.clear();
        self.overlong = false;
    }

    fn keep(&mut self, part: &[u8]) {
        // The maximum, and one octet for the carriage return.
        if self.overlong || self.begun.len() + part.len() > MAX_LIST_LINE + 1 {
            self.overlong = true;
            self.begun.clear();
        } else {
            self.begun.extend_from_slice(part);
        }
    }
}

fn bounded(line: &[u8]) -> Line<'_> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() > MAX_LIST_LINE { Line::TooLong } else { Line::Whole(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunks: &[&[u8]], expected: &[(u32, Option<&[u8]>)]) {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        let mut take = |number, line: Line<'_>| {
            let octets = match line {
                Line::Whole(octets) => Some(octets.to_vec()),
                Line::TooLong => None,
            };
            found.push((number, octets));
        };
        chunks.iter().for_each(|chunk| lines.feed(chunk, &mut take));
        lines.finish(&mut take);
        let expected: Vec<_> =
            expected.iter().map(|(number, line)| (*number, line.map(<[u8]>::to_vec))).collect();
        assert_eq!(found, expected);
        assert_eq!(lines.number() as usize, expected.len());
    }

    #[test]
    fn lines_end_with_either_end_of_line_or_with_the_text() {
        check(
            &[b"a\r\nb\n\nc"],
            &[(1, Some(b"a")), (2, Some(b"b")), (3, Some(b"")), (4, Some(b"c"))],
        );
        check(&[b"a\n"], &[(1, Some(b"a"))]);
        check(&[b""], &[]);
    }

    #[test]
    fn a_line_may_come_in_parts() {
        check(&[b"a", b"b\r", b"\nc", b"\n"], &[(1, Some(b"ab")), (2, Some(b"c"))]);
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let part = [b'x'; 1000];
        let mut chunks: Vec<&[u8]> = vec![&part; 10_000];
        chunks.push(b"\nnext\n");
        check(&chunks, &[(1, None), (2, Some(b"next"))]);
        let (long, longest) = ([b'x'; MAX_LIST_LINE + 1], [b'x'; MAX_LIST_LINE]);
        check(&[&long, b"\n"], &[(1, None)]);
        check(&[&longest, b"\r\n"], &[(1, Some(&longest))]);
    }
}
