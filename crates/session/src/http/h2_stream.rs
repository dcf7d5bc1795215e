//! A stream of HTTP/2, as the server's end keeps it, and the end of a connection.

use super::frames::StreamEnd;
use super::request::{Media, ResponseExtent};

/// The states of a stream, named after the next expected event.
#[derive(Debug)]
pub(super) enum StreamState {
    /// The body is incomplete.
    Receiving(RequestBody),
    /// The query has no response yet.
    Waiting,
    /// The rest of a response waits for a window.
    Sending(Vec<u8>),
}

/// The place of the query in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueryPlace {
    Body,
    /// The body must be empty.
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
    /// The word by which the request names the device of the client.
    pub(super) word: Option<Box<[u8]>>,
}

impl RequestBody {
    /// Returns whether a body with this number of further octets contradicts its stated length (RFC
    /// 9113 §8.1.1).
    pub(super) fn is_contradicted(&self, more: usize, end: StreamEnd) -> bool {
        let before = if self.place == QueryPlace::Body { self.octets.len() } else { 0 };
        let total = before + more;
        self.length.is_some_and(|length| match end {
            StreamEnd::Here => total != length,
            StreamEnd::Later => total > length,
        })
    }
}

/// A stream between its request and the end of its response.
#[derive(Debug)]
pub(super) struct OpenStream {
    pub(super) id: u32,
    /// The flow-control window of the client for the stream.
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

/// A header block whose continuations are missing.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) id: u32,
    pub(super) end: StreamEnd,
    pub(super) octets: Vec<u8>,
    pub(super) continuations: u32,
}
