//! Why lines of lists are not taken.

use std::fmt;

use super::name::NameFault;
use super::patterns::PatternError;
use crate::rpz::ZoneReason;

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
