//! The query on a stream of QUIC, from its first octets to the last octet of its response.

use std::time::Instant;

use bytes::Bytes;

use super::arrived::Arrived;
use super::doq::{DoqQuery, DoqViolation};
use super::service::Envelope;
use crate::http::form::{Media, ResponseExtent, ResponseForm, Status};
use crate::http::h3::{H3Asked, H3Error, H3Request};

/// A query that is incomplete or unanswered, or whose response is not sent completely.
pub(super) struct Request {
    pub(super) index: u32,
    pub(super) since: Instant,
    pub(super) state: QueryState,
}

pub(super) enum QueryState {
    /// The query is incomplete.
    Reading(IncompleteQuery),
    /// The query is complete, but must wait for the end of the handshake.
    Early(Vec<u8>),
    /// The query waits for its reply.
    Waiting(ResponseForm),
    /// The client has not read the response yet. Holds the rest of the response.
    Sending(Bytes),
}

/// A query that is complete.
pub(super) struct CompleteQuery<'q> {
    pub(super) message: &'q [u8],
    pub(super) form: ResponseForm,
    pub(super) word: Option<&'q [u8]>,
    pub(super) envelope: Envelope,
}

impl QueryState {
    pub(super) fn held(&self) -> usize {
        match self {
            Self::Reading(query) => query.held(),
            Self::Early(message) => message.len(),
            Self::Waiting(_) => 0,
            Self::Sending(rest) => rest.len(),
        }
    }
}

/// An incomplete query.
pub(super) enum IncompleteQuery {
    Doq(DoqQuery),
    H3(Box<H3Request>),
}

/// How far the octets of a stream have been read.
pub(super) enum Reached {
    /// The query is incomplete.
    More,
    /// The query is complete: its message, and the extent of the response.
    Query(Vec<u8>, ResponseExtent),
    /// The request has no query.
    Reject(Status),
}

/// The reason why a stream cannot be read.
pub(super) enum Violation {
    /// The client violates DNS over QUIC, so the connection ends.
    Doq,
    /// The client violates HTTP/3, so the connection ends.
    Connection(H3Error),
    /// The request is malformed: its stream ends.
    Stream,
}

impl From<DoqViolation> for Violation {
    fn from(_: DoqViolation) -> Self {
        Self::Doq
    }
}

impl From<H3Error> for Violation {
    fn from(error: H3Error) -> Self {
        match error {
            H3Error::Message | H3Error::RequestIncomplete => Self::Stream,
            error => Self::Connection(error),
        }
    }
}

impl IncompleteQuery {
    pub(super) fn held(&self) -> usize {
        match self {
            Self::Doq(query) => query.held(),
            Self::H3(request) => request.held(),
        }
    }

    /// Returns the form of the response.
    pub(super) fn media(&self) -> Media {
        match self {
            Self::Doq(_) => Media::Message,
            Self::H3(request) => request.media(),
        }
    }

    /// Takes the device identifier of the client from the path of the request.
    pub(super) fn take_word(&mut self) -> Option<Box<[u8]>> {
        match self {
            Self::Doq(_) => None,
            Self::H3(request) => request.take_word(),
        }
    }

    /// Takes the data that has arrived.
    pub(super) fn take(&mut self, arrived: &Arrived) -> Result<Reached, Violation> {
        match self {
            Self::Doq(query) => {
                for piece in &arrived.pieces {
                    query.take(piece)?;
                }
                if !arrived.has_ended {
                    return Ok(Reached::More);
                }
                Ok(Reached::Query(query.end()?.to_vec(), ResponseExtent::Whole))
            }
            Self::H3(request) => {
                for piece in &arrived.pieces {
                    if let Some(status) = request.take(piece)? {
                        return Ok(Reached::Reject(status));
                    }
                }
                if !arrived.has_ended {
                    return Ok(Reached::More);
                }
                Ok(match request.end()? {
                    H3Asked::Query(query, extent) => Reached::Query(query, extent),
                    H3Asked::Reject(status) => Reached::Reject(status),
                })
            }
        }
    }
}
