//! The unidirectional streams of a connection of HTTP/3 (RFC 9114 §6.2). The requests have other
//! streams.

use bytes::Bytes;
use quinn_proto::{Connection as Inner, Dir, StreamId};

use super::arrived::Arrived;
use crate::http::h3::{H3Error, H3Stream, StreamKind, goaway, settings};

/// The streams of HTTP/3 other than those of requests: the control stream and the QPACK streams of
/// the peer, and the control stream of this end.
#[derive(Default)]
pub(super) struct H3State {
    streams: Vec<OpenStream>,
    /// The control stream that this end has opened.
    control: Option<StreamId>,
    /// The ID of the stream on which the next request will begin.
    next_request: u64,
}

struct OpenStream {
    id: StreamId,
    stream: H3Stream,
}

/// The reason why a stream of the peer is not read.
pub(super) enum StreamFault {
    /// The kind of the stream is unknown.
    Unknown,
    /// The stream violates HTTP/3: the connection ends.
    Connection(H3Error),
}

impl H3State {
    /// Opens the control stream of this end.
    pub(super) fn begin(&mut self, connection: &mut Inner) {
        self.control = connection.streams().open(Dir::Uni);
        self.write(connection, settings());
    }

    fn write(&mut self, connection: &mut Inner, octets: Vec<u8>) {
        if let Some(id) = self.control {
            // The few octets of this stream fit into the initial flow-control windows of every
            // client.
            let _ = connection.send_stream(id).write_chunks(&mut [Bytes::from(octets)]);
        }
    }

    /// Records that the request with this index has begun.
    pub(super) fn note_request(&mut self, index: u32) {
        self.next_request = self.next_request.max(u64::from(index) + 1);
    }

    /// Announces to the client that later requests are not answered.
    pub(super) fn go_away(&mut self, connection: &mut Inner) {
        /// The difference between the stream IDs of two successive requests.
        const STEP: u64 = 4;
        let stream = self.next_request * STEP;
        self.write(connection, goaway(stream));
    }

    /// Returns the lowest stream ID whose request the peer does not answer; `None` until the peer
    /// announces it.
    pub(super) fn last(&self) -> Option<u64> {
        self.streams.iter().find_map(|one| one.stream.last())
    }

    /// Takes the data that has arrived on a stream.
    pub(super) fn take(&mut self, id: StreamId, arrived: &Arrived) -> Result<(), StreamFault> {
        let Arrived { pieces, has_ended } = arrived;
        let place = self.streams.iter().position(|one| one.id == id).unwrap_or_else(|| {
            self.streams.push(OpenStream { id, stream: H3Stream::default() });
            self.streams.len() - 1
        });
        let stream = &mut self.streams[place].stream;
        for piece in pieces {
            stream.take(piece).map_err(StreamFault::Connection)?;
        }
        let kind = stream.kind();
        match kind {
            None if !*has_ended => Ok(()),
            None | Some(StreamKind::Unknown) => {
                self.streams.swap_remove(place);
                Err(StreamFault::Unknown)
            }
            Some(_) if *has_ended => Err(StreamFault::Connection(H3Error::ClosedCriticalStream)),
            Some(_) if self.streams.iter().filter(|one| one.stream.kind() == kind).count() > 1 => {
                Err(StreamFault::Connection(H3Error::StreamCreation))
            }
            Some(_) => Ok(()),
        }
    }
}
