//! What was found wrong with a list.

use std::fmt;

use super::format::Format;
use super::limits::{MAX_FAULTS_KEPT, MAX_PASSED_OVER_KEPT, MAX_PASSED_OVER_SHOWN};
use super::name::NameFault;
use super::patterns::PatternError;
use crate::rpz::{ZoneReason, ZoneReport};

/// Why a line was not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// More octets than are read.
    LineTooLong,
    /// Not UTF-8.
    NotUtf8,
    /// The name in it is none.
    Name(NameFault),
    /// The root or everything: nobody means that.
    Everything,
    /// A name of one label in a list of single names.
    TopLevel,
    /// Not of the list's format.
    Malformed(&'static str),
    /// An answer other than a block, and the list is not trusted with such.
    RewriteRefused,
    /// A modifier that does not exist.
    UnknownModifier(String),
    /// The value of the modifier is wrong.
    ModifierValue(&'static str),
    /// The pattern or the regular expression is wrong or too large.
    Pattern(PatternError),
    /// What is wrong with an entry of a policy zone.
    Zone(ZoneReason),
    /// A limit of the whole image is reached: what there is too much of.
    Limit(&'static str),
    /// The list has more than one fetched list may bring of what all lists share.
    Share(&'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LineTooLong => f.write_str("the line is too long"),
            Self::NotUtf8 => f.write_str("the line is not UTF-8"),
            Self::Name(fault) => fault.fmt(f),
            Self::Everything => f.write_str("this is about every name"),
            Self::TopLevel => f.write_str("this is about a top-level domain"),
            Self::Malformed(what) => f.write_str(what),
            Self::RewriteRefused => f.write_str("the list may block only, not choose answers"),
            Self::UnknownModifier(name) => write!(f, "the modifier {name:?} does not exist"),
            Self::ModifierValue(name) => write!(f, "the value of the modifier {name:?} is wrong"),
            Self::Pattern(error) => error.fmt(f),
            Self::Zone(reason) => reason.fmt(f),
            Self::Limit(what) => write!(f, "there are too many {what} in all lists together"),
            Self::Share(what) => write!(f, "the list has more {what} than one fetched list may have"),
        }
    }
}

impl From<NameFault> for Reason {
    fn from(fault: NameFault) -> Self {
        Self::Name(fault)
    }
}

impl From<PatternError> for Reason {
    fn from(error: PatternError) -> Self {
        Self::Pattern(error)
    }
}

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
    /// Lines that say nothing of names and are no fault: comments, cosmetic rules and rules for browsers.
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
    /// Of a policy zone, its triggers by their kinds, in the order of [`crate::rpz::TriggerKind::ALL`].
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
        self.first_faults.extend(faults.map(|fault| Fault { line: fault.line, reason: Reason::Zone(fault.reason) }));
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
