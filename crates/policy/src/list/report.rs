//! What was found wrong with a list.

use std::fmt;

use super::format::Format;
use super::limits::{MAX_FAULTS_KEPT, MAX_PASSED_OVER_KEPT, MAX_PASSED_OVER_SHOWN};
use super::reason::Reason;
use crate::rpz::ZoneReport;

/// A line that was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Its number, from 1.
    pub line: u32,
    /// What is wrong with it.
    pub reason: Reason,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// A line without effect that is no fault.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassedOver {
    /// Its number, from 1.
    pub line: u32,
    /// Its text, perhaps shortened.
    pub text: Box<str>,
    /// Why it has no effect.
    pub why: &'static str,
}

/// Why a text as a whole is no list. What was read of it before counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Octets that are no text, such as an archive.
    Binary,
    /// A web page: an error or log-in page in place of the list.
    WebPage,
    /// More octets than are read of one list.
    TooLarge,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Binary => "not a text",
            Self::WebPage => "a web page, not a list",
            Self::TooLarge => "larger than a list may be",
        })
    }
}

/// What came out of reading one list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The format as it was given or detected.
    pub format: Format,
    /// How many lines there are.
    pub lines: u32,
    /// How many entries were taken.
    pub entries: u64,
    /// Lines that say nothing of names and are no fault: comments, cosmetic rules and rules for
    /// browsers.
    pub skipped: u64,
    /// Of these, the lines that are neither empty nor comments.
    pub passed_over: u64,
    /// The first of those.
    pub first_passed_over: Vec<PassedOver>,
    /// Lines that were not taken.
    pub faults: u64,
    /// Of these, the lines for which there was no room.
    pub beyond_limits: u64,
    /// The first of these.
    pub first_faults: Vec<Fault>,
    /// Why reading ended early.
    pub refusal: Option<Refusal>,
    /// Of a policy zone, its triggers by their kinds, in the order of
    /// [`crate::rpz::TriggerKind::ALL`].
    pub triggers: Option<[u64; 5]>,
}

impl Report {
    /// Of a text without lines.
    #[must_use]
    pub const fn of(format: Format) -> Self {
        Self {
            format,
            lines: 0,
            entries: 0,
            skipped: 0,
            passed_over: 0,
            first_passed_over: Vec::new(),
            faults: 0,
            beyond_limits: 0,
            first_faults: Vec::new(),
            refusal: None,
            triggers: None,
        }
    }

    /// Takes over what is told of a policy zone.
    pub(super) fn take_zone(&mut self, zone: ZoneReport) {
        self.entries = zone.triggers.iter().sum();
        self.triggers = Some(zone.triggers);
        self.skipped = zone.skipped;
        self.faults += zone.faults;
        let faults = zone.first_faults.into_iter();
        self.first_faults.extend(
            faults.map(|fault| Fault { line: fault.line, reason: Reason::Zone(fault.reason) }),
        );
    }

    pub(super) fn pass_over(&mut self, line: u32, text: &str, why: &'static str) {
        self.skipped += 1;
        self.passed_over += 1;
        if self.first_passed_over.len() < MAX_PASSED_OVER_KEPT {
            let text = text.trim_ascii().chars().take(MAX_PASSED_OVER_SHOWN).collect();
            self.first_passed_over.push(PassedOver { line, text, why });
        }
    }

    pub(super) fn fault(&mut self, line: u32, reason: Reason) {
        self.faults += 1;
        self.beyond_limits += u64::from(matches!(reason, Reason::Limit(_) | Reason::Share(_)));
        if self.first_faults.len() < MAX_FAULTS_KEPT {
            self.first_faults.push(Fault { line, reason });
        }
    }
}
