//! The result of reading a list.

use std::fmt;

use super::format::Format;
use super::limits::{MAX_FAULTS_KEPT, MAX_PASSED_OVER_KEPT, MAX_PASSED_OVER_SHOWN};
use super::reason::Reason;
use crate::rpz::ZoneReport;

/// A rejected line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The number of the rejected line, from 1.
    pub line: u32,
    /// The reason.
    pub reason: Reason,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

/// A valid line without effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PassedOver {
    /// The number of the line, from 1.
    pub line: u32,
    /// The text of the line, possibly shortened.
    pub text: Box<str>,
    /// The reason why the line has no effect.
    pub why: &'static str,
}

/// The reason why a text is refused as a whole. Entries that were read before remain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The octets are not text, for example an archive.
    Binary,
    /// The text is a web page: an error or login page instead of the list.
    WebPage,
    /// The text is too large.
    TooLarge,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Binary => "not a text",
            Self::WebPage => "a web page, not a list",
            Self::TooLarge => "too large for a list",
        })
    }
}

/// The result of reading one list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The given or detected format.
    pub format: Format,
    /// Number of lines.
    pub lines: u32,
    /// Number of entries.
    pub entries: u64,
    /// Number of valid lines that do not concern names, such as comments, cosmetic rules and rules
    /// for browsers.
    pub skipped: u64,
    /// Number of valid lines that have no effect, without empty lines and comments.
    pub passed_over: u64,
    /// The first of the lines that `passed_over` counts.
    pub first_passed_over: Vec<PassedOver>,
    /// Number of rejected lines.
    pub faults: u64,
    /// Number of rejected lines that exceed a limit that all lists have in common, or the list's
    /// share of such a limit.
    pub beyond_limits: u64,
    /// The first rejected lines.
    pub first_faults: Vec<Fault>,
    /// The reason why reading ended early.
    pub refusal: Option<Refusal>,
    /// The number of triggers of each kind, in the order of [`crate::rpz::TriggerKind::ALL`].
    /// `None` unless the list is a policy zone.
    pub triggers: Option<[u64; 5]>,
}

impl Report {
    /// Returns the report of a text that has no lines.
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

    /// Copies the counts of a policy zone's report to this report.
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
