//! Reads the text of one list into the compiler, in chunks as they arrive.

use super::compile::Compiler;
use super::detect;
use super::entry::Entry;
use super::format::{self, Format, Taken};
use super::limits::{DETECTED_FROM, MAX_TEXT};
use super::lines::{Line, Lines};
use super::reason::Reason;
use super::report::{Refusal, Report};
use super::set::ListId;

/// The purpose of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// The names on the list are blocked.
    Block,
    /// The names on the list are allowed. Allow lists override block lists, except for lines with
    /// `$important`.
    Allow,
}

/// Whether a list may answer names with its own addresses, aliases and records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rewrites {
    /// Rewrites are permitted.
    Permitted,
    /// Only blocks are permitted, and lines with rewrites are errors. Lists from third parties are
    /// read in this way. They could otherwise redirect clients, for example from a bank to another
    /// server.
    Refused,
}

/// The origin of a list's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The text is a local file. The operator is responsible for its content.
    Own,
    /// The text was fetched from the network.
    Fetched,
}

/// The description of a list to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Source {
    /// The identifier of the list.
    pub list: ListId,
    /// The purpose of the list.
    pub kind: Kind,
    /// The format of the list, or `None` to detect it from the text.
    pub format: Option<Format>,
    /// Whether the list may rewrite answers.
    pub rewrites: Rewrites,
    /// The origin of the list, which determines its share of the common limits.
    pub origin: Origin,
}

/// Whether reading continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Progress {
    /// The reader needs more text.
    More,
    /// The text is refused, and the rest is ignored.
    Enough,
}

/// A reader of one list. It holds at most one line and the octets for format detection. For a
/// policy zone, it holds the whole text.
pub struct ListReader<'c> {
    compiler: &'c mut Compiler,
    source: Source,
    lines: Lines,
    /// The start of the text, until the format is known.
    held: Vec<u8>,
    octets: u64,
    state: State,
    entries: Vec<Entry>,
    report: Report,
}

/// The state of the reader.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Starting,
    Reading,
    /// The text is a policy zone, which is held as a whole until its end.
    Holding,
    Refused,
}

impl<'c> ListReader<'c> {
    pub(super) fn of(compiler: &'c mut Compiler, source: Source) -> Self {
        let report = Report::of(source.format.unwrap_or(Format::Domains));
        let (lines, held, entries) = (Lines::default(), Vec::new(), Vec::new());
        Self { compiler, source, lines, held, octets: 0, state: State::Starting, entries, report }
    }

    /// Reads the next octets of the text.
    pub fn feed(&mut self, chunk: &[u8]) -> Progress {
        let room = usize::try_from(MAX_TEXT - self.octets).unwrap_or(usize::MAX);
        let (chunk, rest) = chunk.split_at(chunk.len().min(room));
        self.octets += chunk.len() as u64;
        match self.state {
            State::Refused => {}
            State::Reading => self.read(chunk),
            State::Holding => self.held.extend_from_slice(chunk),
            State::Starting => {
                let missing = DETECTED_FROM - self.held.len();
                let (start, beyond) = chunk.split_at(chunk.len().min(missing));
                self.held.extend_from_slice(start);
                if self.held.len() == DETECTED_FROM {
                    self.start();
                    match self.state {
                        State::Holding => self.held.extend_from_slice(beyond),
                        _ => self.read(beyond),
                    }
                }
            }
        }
        if !rest.is_empty() && self.state != State::Refused {
            self.refuse(Refusal::TooLarge);
        }
        if self.state == State::Refused { Progress::Enough } else { Progress::More }
    }

    /// Ends the text and returns the report. The entries of the list are then in the compiler.
    #[must_use]
    pub fn finish(mut self) -> Report {
        if self.state == State::Starting {
            self.start();
        }
        if self.state == State::Reading {
            let mut lines = std::mem::take(&mut self.lines);
            lines.finish(|number, line| self.take(number, line));
            self.lines = lines;
        }
        self.report.lines = self.lines.number();
        if self.state == State::Holding {
            self.finish_zone();
        }
        self.report
    }

    /// Detects the format from the start of the text, and then reads that part of the text.
    fn start(&mut self) {
        let held = std::mem::take(&mut self.held);
        let text = held.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&held);
        if let Some(refusal) = detect::refusal_of(text) {
            return self.refuse(refusal);
        }
        self.report.format = self.source.format.unwrap_or_else(|| detect::format_of(text));
        if self.report.format == Format::Rpz {
            self.state = State::Holding;
            self.held = held;
            return;
        }
        self.state = State::Reading;
        self.read(text);
    }

    fn finish_zone(&mut self) {
        let text = std::mem::take(&mut self.held);
        let ends = memchr::memchr_iter(b'\n', &text).count() + usize::from(!text.ends_with(b"\n"));
        self.report.lines = u32::try_from(ends).unwrap_or(u32::MAX);
        if self.source.kind == Kind::Allow {
            return self
                .report
                .fault(1, Reason::Malformed("a policy zone determines itself what it allows"));
        }
        match self.compiler.add_zone(&self.source, &text) {
            Ok(zone) => self.report.take_zone(zone),
            Err(reason) => self.report.fault(1, reason),
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.state = State::Refused;
        self.report.refusal = Some(refusal);
    }

    fn read(&mut self, chunk: &[u8]) {
        if self.state == State::Reading {
            let mut lines = std::mem::take(&mut self.lines);
            lines.feed(chunk, |number, line| self.take(number, line));
            self.lines = lines;
        }
    }

    fn take(&mut self, number: u32, line: Line<'_>) {
        let Line::Whole(octets) = line else {
            return self.report.fault(number, Reason::LineTooLong);
        };
        let Ok(text) = str::from_utf8(octets) else { return self.take_unreadable(number, octets) };
        self.entries.clear();
        let taken = format::read_line(self.report.format, text, &mut self.entries);
        for entry in self.entries.drain(..) {
            match self.compiler.add(entry, &self.source, number) {
                Ok(()) => self.report.entries += 1,
                Err(reason) => self.report.fault(number, reason),
            }
        }
        match taken {
            Ok(Taken::Entries) => {}
            Ok(Taken::Nothing) => self.report.skipped += 1,
            Ok(Taken::PassedOver(why)) => self.report.pass_over(number, text, why),
            Err(reason) => self.report.fault(number, reason),
        }
    }

    /// Handles a line that is not UTF-8. Only a comment may be in another encoding.
    fn take_unreadable(&mut self, number: u32, octets: &[u8]) {
        match octets.trim_ascii_start().first() {
            Some(b'#' | b'!' | b';') => self.report.skipped += 1,
            _ => self.report.fault(number, Reason::NotUtf8),
        }
    }
}
