//! Errors of requests about the query log.

use std::fmt;
use std::net::IpAddr;

use crate::error::ErrorCode;

/// The reason why a request about the query log has no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFault {
    /// The cursor does not belong to a page.
    InvalidCursor,
    /// A number of the request is out of bounds. Holds the bounds.
    OutOfBounds(&'static str),
    /// The period of the request ends before it begins.
    EmptyTime,
    /// A filter is an empty text, which would match no entry or every entry. Holds the name of the
    /// filter.
    EmptyFilter(&'static str),
    /// The client of a filter is an address with a prefix length that does not cover all its bits.
    /// Holds the network and the prefix length.
    HostBits(IpAddr, u8),
    /// A deletion has both a filter and `all`, or neither.
    UnclearDeletion,
    /// The log has no entry with this ID.
    UnknownEntry(u64),
    /// The maximum number of searches is running.
    Busy,
    /// The search did not end in time.
    Timeout,
}

impl LogFault {
    /// Returns the code of the error.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::InvalidCursor
            | Self::OutOfBounds(_)
            | Self::EmptyTime
            | Self::EmptyFilter(_)
            | Self::HostBits(..)
            | Self::UnclearDeletion => ErrorCode::InvalidValue,
            Self::UnknownEntry(_) => ErrorCode::NotFound,
            Self::Busy => ErrorCode::Busy,
            Self::Timeout => ErrorCode::Timeout,
        }
    }

    /// Returns the next step for the user, if the message does not state it.
    pub const fn next(self) -> Option<&'static str> {
        Some(match self {
            Self::InvalidCursor => "give `next` of the page before, or no cursor",
            Self::Busy => "try again",
            Self::Timeout => "give a shorter time with `from` and `to`",
            _ => return None,
        })
    }
}

impl fmt::Display for LogFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidCursor => f.write_str("the cursor is not that of a page"),
            Self::OutOfBounds(bounds) => write!(f, "expected {bounds}"),
            Self::EmptyTime => f.write_str("the time ends before it begins"),
            Self::EmptyFilter(name) => {
                write!(f, "the filter `{name}` is empty: leave it out, or give a value")
            }
            Self::HostBits(network, prefix) => write!(
                f,
                "the client has bits after the prefix: give `{network}/{prefix}` for the network, \
                 or the address alone"
            ),
            Self::UnclearDeletion => {
                f.write_str("expected a filter for the queries to delete, or `all`, but not both")
            }
            Self::UnknownEntry(id) => write!(f, "the query log has no entry {id}"),
            Self::Busy => f.write_str("too many searches of the query log at once"),
            Self::Timeout => f.write_str("the search of the query log did not end in time"),
        }
    }
}
