//! A stream of HTTP/2, as the server's end keeps it.

use super::frames::StreamEnd;
use super::request::{Media, ResponseExtent};

/// What a stream waits for.
#[derive(Debug)]
pub(super) enum StreamState {
    /// The body is incomplete. The word names the device of the client.
    Receiving(Vec<u8>, Option<Box<[u8]>>),
    /// The query has no response yet.
    Waiting,
    /// The rest of a response waits for a window.
    Sending(Vec<u8>),
}

/// A stream between its request and the end of its response.
#[derive(Debug)]
pub(super) struct OpenStream {
    pub(super) id: u32,
    /// What the client takes of it.
    pub(super) window: i64,
    pub(super) extent: ResponseExtent,
    pub(super) media: Media,
    pub(super) state: StreamState,
}

/// A header block whose continuations are missing.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) id: u32,
    pub(super) end: StreamEnd,
    pub(super) octets: Vec<u8>,
    pub(super) continuations: u32,
}
