//! Errors in a database of countries.

use std::fmt;

/// An error in a database of countries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GeoError {
    /// The file has no metadata: it is of another type or truncated.
    NoMetadata,
    /// A key of the metadata is missing or out of range.
    Metadata(&'static str),
    /// The search tree does not end where the metadata states.
    Tree,
    /// The node with this index points outside the data.
    Node(usize),
    /// The value at this offset in its section is malformed.
    Value(usize),
    /// The file exceeds this limit.
    Limit(&'static str),
    /// No record of a database of this type has a country.
    NoCountries(String),
}

impl fmt::Display for GeoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMetadata => f.write_str("not a MaxMind DB file, or truncated: no metadata"),
            Self::Metadata(key) => write!(f, "damaged: the metadata has no usable {key}"),
            Self::Tree => {
                f.write_str("damaged: the size of the search tree does not match the metadata")
            }
            Self::Node(node) => {
                write!(f, "damaged: node {node} of the search tree points outside the data")
            }
            Self::Value(at) => {
                write!(f, "damaged: invalid value at octet {at} of the data")
            }
            Self::Limit(what) => write!(f, "it has too many {what}"),
            Self::NoCountries(kind) => {
                write!(
                    f,
                    "no record has a country; its type is {kind:?}, but a country database is \
                     needed"
                )
            }
        }
    }
}

impl std::error::Error for GeoError {}
