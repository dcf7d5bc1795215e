//! The octets that have arrived on a stream of QUIC.

use bytes::Bytes;
use quinn_proto::{Connection as Inner, ReadError, StreamId};

/// The data that has arrived on a stream.
pub(super) struct Arrived {
    pub(super) pieces: Vec<Bytes>,
    pub(super) has_ended: bool,
}

/// The error that the peer has reset the stream before its end.
pub(super) struct Cancelled;

impl Arrived {
    /// Reads a stream; `None` if the stream was already read to its end or stopped.
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
        // The result only says whether datagrams should be sent, and the caller asks the connection
        // for datagrams in any case.
        let _ = chunks.finalize();
        result
    }
}
