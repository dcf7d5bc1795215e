//! The state that the server keeps for a stream of HTTP/2, and the reasons why it ends a
//! connection.

use super::form::{Media, ResponseExtent};
use super::frames::StreamEnd;

/// The states of a stream, named after the next expected event.
#[derive(Debug)]
pub(super) enum StreamState {
    /// The body is incomplete.
    Receiving(RequestBody),
    /// The query has no response yet.
    Waiting,
    /// The rest of a response waits for a flow-control window.
    Sending(Vec<u8>),
}

/// The part of a request that contains the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryPlace {
    Body,
    /// The query is in the path, and the body must be empty.
    Path,
}

/// The query of a request whose body is incomplete.
#[derive(Debug)]
pub(super) struct RequestBody {
    pub(super) place: QueryPlace,
    /// The received part of the query.
    pub(super) octets: Vec<u8>,
    /// The number of octets of the whole body, if the request states it.
    pub(super) length: Option<usize>,
    /// The device identifier of the client in the path of the request.
    pub(super) word: Option<Box<[u8]>>,
}

impl RequestBody {
    /// Returns whether this number of further octets makes the body longer than stated, or ends it
    /// too early (RFC 9113 §8.1.1).
    pub(super) fn is_contradicted(&self, more: usize, end: StreamEnd) -> bool {
        let before = if self.place == QueryPlace::Body { self.octets.len() } else { 0 };
        let total = before + more;
        self.length.is_some_and(|length| match end {
            StreamEnd::Here => total != length,
            StreamEnd::Later => total > length,
        })
    }

    /// Returns whether there is a body with these further octets although the query is in the path,
    /// or no body although the query is in the body.
    pub(super) fn is_wrong(&self, more: &[u8], end: StreamEnd) -> bool {
        match self.place {
            QueryPlace::Path => !more.is_empty(),
            QueryPlace::Body => end == StreamEnd::Here && self.octets.is_empty() && more.is_empty(),
        }
    }
}

/// A stream between its request and the end of its response.
#[derive(Debug)]
pub(super) struct OpenStream {
    pub(super) id: u32,
    /// The flow-control window that the client grants for the stream.
    pub(super) window: i64,
    pub(super) extent: ResponseExtent,
    pub(super) media: Media,
    pub(super) state: StreamState,
}

/// The reason why the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpEnd {
    /// The client violates the protocol.
    Protocol,
    /// The client exceeds a limit on frames without queries.
    Excess,
}

/// An incomplete header block: more frames of CONTINUATION must follow.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) id: u32,
    pub(super) end: StreamEnd,
    pub(super) octets: Vec<u8>,
    pub(super) continuations: u32,
}
