//! Octets of a stream, read from a connection.

use bytes::Bytes;
use quinn_proto::{Connection as Inner, ReadError, StreamId};

/// The data that has arrived on a stream.
pub(super) struct Arrived {
    pub(super) pieces: Vec<Bytes>,
    pub(super) has_ended: bool,
}

/// The error that the peer has ended the stream early.
pub(super) struct Cancelled;

impl Arrived {
    /// Reads a stream; `None` if it was read to its end or stopped earlier.
    pub(super) fn read(connection: &mut Inner, id: StreamId) -> Result<Option<Self>, Cancelled> {
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Ok(None) };
        let mut arrived = Self { pieces: Vec::new(), has_ended: false };
        let result = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => arrived.pieces.push(chunk.bytes),
                Ok(None) => {
                    arrived.has_ended = true;
                    break Ok(Some(arrived));
                }
                Err(ReadError::Blocked) => break Ok(Some(arrived)),
                Err(ReadError::Reset(_)) => break Err(Cancelled),
            }
        };
        // Whatever this returns, the connection is asked for datagrams to send at the end of the
        // turn.
        let _ = chunks.finalize();
        result
    }
}
