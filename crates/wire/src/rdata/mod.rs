//! Record data of every RR type: its structure, its presentation form and the names within it.
//!
//! Data is *uncompressed* everywhere except in messages. [`expand`] copies data from a message, and
//! [`compressible_names`] returns the names that may be compressed when the data is written to a
//! message. One table lists the fields of each type. Types without a row are opaque (RFC 3597).
//!
//! ```text
//! text   --tokens--> [Token]  --parse_tokens--> data --display--> text
//! message -----------expand-------------------> data --check----> well-formed?
//! ```
//!
//! The reader of zone files ([`master`](crate::master)) handles owner names, TTLs, classes,
//! parentheses and comments. This crate does not interpret the data.
//!
//! ```
//! use avocet_wire::rdata;
//!
//! let (mx, mut data) = (15, Vec::new());
//! rdata::parse(mx, "10 mail", b"\x07example\x00", &mut data)?;
//! assert_eq!(data, b"\x00\x0a\x04mail\x07example\x00");
//! assert_eq!(rdata::display(mx, &data).to_string(), "10 mail.example.");
//! # Ok::<(), rdata::RdataError>(())
//! ```

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
mod service;
mod svcb;
mod table;
mod time;
mod write;

use std::fmt;

pub use check::check;
pub(crate) use names::{Data, expand_within, folded_names};
pub use names::{compressible_names, expand};
pub use parse::{parse, parse_tokens};
pub use service::ServiceBinding;
pub use table::{NameLayout, from_mnemonic, mnemonic};
pub use write::display;

use crate::name::NameError;
use crate::text::TextError;
use table::Field;

/// Maximum number of octets of record data, whose length is a 16-bit field (RFC 1035 §3.2.1).
const MAX_RDATA: usize = 65_535;

/// The problem with record data, on the wire or as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    /// The data or the text ends before the field does.
    Missing,
    /// Octets or tokens follow the last field.
    Trailing,
    /// The field exceeds the buffer, its length field or 65,535 octets.
    TooLong,
    /// A name in the data is malformed.
    Name(NameError),
    /// A name, a character-string or a token is malformed.
    Text(TextError),
    /// The field is not a number, or out of range.
    Number,
    /// The field is not base64, base32hex or hexadecimal.
    Encoding,
    /// The data breaks a rule of its type. The text states the rule.
    Rule(&'static str),
    /// The type has no presentation form other than `\#`.
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

/// A problem with record data and its location.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RdataError {
    /// The problem.
    pub problem: Problem,
    /// The index of the field, from 1, and its expected content. `None` if the problem concerns the
    /// data as a whole.
    pub field: Option<(u8, &'static str)>,
    /// For text, the column of the offending token, from 0. On the wire, the offset within the data
    /// at which the field starts.
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
