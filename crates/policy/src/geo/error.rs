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
    /// A node of the tree points outside the data.
    Node(usize),
    /// A value is malformed. Holds its offset in its section.
    Value(usize),
    /// A limit is exceeded.
    Limit(&'static str),
    /// No record of a database of this type has a country.
    NoCountries(String),
}

impl fmt::Display for GeoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMetadata => f.write_str(
                "it is no MaxMind DB file, or its end is missing: there are no metadata",
            ),
            Self::Metadata(key) => write!(f, "it is damaged: its metadata have no usable {key}"),
            Self::Tree => {
                f.write_str("it is damaged: its search tree does not end where the metadata say")
            }
            Self::Node(node) => {
                write!(f, "it is damaged: node {node} of its search tree leads out of the data")
            }
            Self::Value(at) => {
                write!(f, "it is damaged: the value at octet {at} of its data cannot be read")
            }
            Self::Limit(what) => write!(f, "it has too many {what}"),
            Self::NoCountries(kind) => {
                write!(
                    f,
                    "no record in it has a country; it is of type {kind:?}, and one of countries \
                     is needed"
                )
            }
        }
    }
}

impl std::error::Error for GeoError {}
