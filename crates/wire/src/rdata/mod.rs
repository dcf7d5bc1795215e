//! Record data of every RR type: its structure, its presentation form, the names inside.
//!
//! Data is held *uncompressed* everywhere but in messages: [`expand`] takes it out of one,
//! [`compressible_names`] says what may be compressed on the way back. What a type's data is
//! made of stands in one table; types outside of it are opaque (RFC 3597).
//!
//! ```text
//! text   --tokens--> [Token]  --parse_tokens--> data --display--> text
//! message -----------expand-------------------> data --check----> well-formed?
//! ```
//!
//! Not here: owner names, TTLs, classes, parentheses and comments, which belong to the reader
//! of zone files, and the meaning of the data.

mod apl;
mod bitmap;
mod check;
mod gateway;
mod input;
mod location;
mod mnemonics;
mod names;
mod output;
mod parse;
mod reader;
mod svcb;
mod table;
mod time;
mod write;

use std::fmt;

pub use check::check;
pub(crate) use names::{Data, expand_within, folded_names};
pub use names::{compressible_names, expand};
pub use parse::{parse, parse_tokens};
pub use table::{NameLayout, from_mnemonic, mnemonic};
pub use write::display;

use crate::name::NameError;
use crate::text::TextError;
use table::Field;

/// Most octets of record data: its length is a 16-bit field (RFC 1035 §3.2.1).
const MAX_RDATA: usize = 65_535;

/// What is wrong with record data, on the wire or as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The data or the text ends before the field does.
    Missing,
    /// Something follows the last field.
    Trailing,
    /// Longer than the buffer, than its length field can say or than 65,535 octets.
    TooLong,
    /// A name in the data is malformed.
    Name(NameError),
    /// A name, a character-string or a token is malformed.
    Text(TextError),
    /// Not a number, or out of range.
    Number,
    /// Not base64, base32hex or hexadecimal.
    Encoding,
    /// Breaks a rule of this type, which the text says.
    Rule(&'static str),
    /// The type has no presentation form but `\#`.
    Opaque,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("ends too early"),
            Self::Trailing => f.write_str("something follows the last field"),
            Self::TooLong => f.write_str("too long"),
            Self::Name(error) => error.fmt(f),
            Self::Text(error) => error.fmt(f),
            Self::Number => f.write_str("not a number in range"),
            Self::Encoding => f.write_str("badly encoded"),
            Self::Rule(rule) => f.write_str(rule),
            Self::Opaque => f.write_str("the type's data is written as \\# LENGTH HEX"),
        }
    }
}

impl From<NameError> for Problem {
    fn from(error: NameError) -> Self {
        Self::Name(error)
    }
}

impl From<TextError> for Problem {
    fn from(error: TextError) -> Self {
        Self::Text(error)
    }
}

/// Why record data, on the wire or as text, was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RdataError {
    /// What is wrong.
    pub problem: Problem,
    /// The number of the field, from 1, and what it is to hold; none for the data as a whole.
    pub field: Option<(u8, &'static str)>,
    /// Text: the column, from 0, of the token at fault. Wire: the octet within the data where
    /// the field starts.
    pub offset: usize,
}

impl RdataError {
    const fn whole(problem: Problem) -> Self {
        Self { problem, field: None, offset: 0 }
    }

    const fn on_wire(problem: Problem, offset: usize) -> Self {
        Self { problem, field: None, offset }
    }

    const fn in_field(problem: Problem, index: usize, field: Field, offset: usize) -> Self {
        Self { problem, field: Some((index as u8 + 1, field.describe())), offset }
    }
}

impl fmt::Display for RdataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((number, what)) = self.field {
            write!(f, "field {number} ({what}) ")?;
        }
        write!(f, "at {}: {}", self.offset, self.problem)
    }
}

impl std::error::Error for RdataError {}
