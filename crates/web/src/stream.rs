//! Replies of unknown length, as lines of JSON. The server produces them on a blocking thread, no
//! faster than the client reads.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use avocet_control::{Control, Disconnected, Request};
use axum::body::{Body, Bytes, HttpBody};
use http_body::Frame;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::problem::Problem;

/// Octets of one chunk.
const CHUNK: usize = 16 << 10;
/// Chunks that wait for the client.
const WAITING: usize = 4;

/// A body whose chunks come from another thread.
struct LineBody(Receiver<Bytes>);

impl HttpBody for LineBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

/// The end of a body at which lines arrive.
pub(crate) struct LineSender {
    sender: Sender<Bytes>,
    chunk: Vec<u8>,
}

/// Returns a body and its other end.
pub(crate) fn lines() -> (LineSender, Body) {
    let (sender, receiver) = channel(WAITING);
    (LineSender { sender, chunk: Vec::new() }, Body::new(LineBody(receiver)))
}

impl LineSender {
    fn line(&mut self, value: &Value) -> Result<(), Disconnected> {
        self.chunk.extend_from_slice(value.to_string().as_bytes());
        self.chunk.push(b'\n');
        if self.chunk.len() < CHUNK { Ok(()) } else { self.flush() }
    }

    /// Waits for room. The receiver is dropped with the connection, whose time is bounded.
    fn flush(&mut self) -> Result<(), Disconnected> {
        let chunk = Bytes::from(std::mem::take(&mut self.chunk));
        self.sender.blocking_send(chunk).map_err(|_| Disconnected)
    }

    /// Writes each part of the reply to a request, and its end or error, as lines.
    pub(crate) fn answer(mut self, request: Request, control: &dyn Control) {
        let end = request.perform(control, &mut |part| self.line(&part));
        let mut end = match end {
            Ok(end) => end,
            Err(error) => serde_json::to_value(Problem::from(error).body()).unwrap_or_default(),
        };
        if let Value::Object(fields) = &mut end
            && !fields.contains_key("status")
        {
            fields.insert("done".to_owned(), true.into());
        }
        // The client may be gone.
        let _ = self.line(&end).and_then(|()| self.flush());
    }
}
