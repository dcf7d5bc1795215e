//! Reasons why lines of lists are rejected.

use std::fmt;

use super::name::NameFault;
use super::patterns::PatternError;
use crate::rpz::ZoneReason;

/// The reason why a line was rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reason {
    /// The line is too long.
    LineTooLong,
    /// The line is not UTF-8.
    NotUtf8,
    /// The name is invalid.
    Name(NameFault),
    /// The line covers the root or every name, which is treated as a mistake.
    Everything,
    /// A list of names has a name with only one label.
    TopLevel,
    /// The line does not match the format.
    Malformed(&'static str),
    /// The line has a rewrite, but the list has no permission to rewrite.
    RewriteRefused,
    /// The modifier is unknown.
    UnknownModifier(String),
    /// The value of the modifier is invalid.
    ModifierValue(&'static str),
    /// The pattern or regular expression is invalid or too large.
    Pattern(PatternError),
    /// An entry of a policy zone is invalid.
    Zone(ZoneReason),
    /// A limit that all lists have in common is reached.
    Limit(&'static str),
    /// The list exceeds the share of a common limit that one fetched list gets.
    Share(&'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LineTooLong => f.write_str("the line is too long"),
            Self::NotUtf8 => f.write_str("the line is not UTF-8"),
            Self::Name(fault) => fault.fmt(f),
            Self::Everything => f.write_str("the line matches every name"),
            Self::TopLevel => f.write_str("the line matches a top-level domain"),
            Self::Malformed(what) => f.write_str(what),
            Self::RewriteRefused => f.write_str("the list may only block, not choose answers"),
            Self::UnknownModifier(name) => write!(f, "unknown modifier {name:?}"),
            Self::ModifierValue(name) => write!(f, "invalid value of the modifier {name:?}"),
            Self::Pattern(error) => error.fmt(f),
            Self::Zone(reason) => reason.fmt(f),
            Self::Limit(what) => write!(f, "too many {what} in all lists together"),
            Self::Share(what) => {
                write!(f, "the list has more {what} than one fetched list may have")
            }
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
