//! Replies of unknown length, as lines of JSON or as events. The server produces them on a blocking
//! thread, no faster than the client reads.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use avocet_control::{Control, ControlError, Disconnected, Request};
use axum::body::{Body, Bytes, HttpBody};
use http_body::Frame;
use serde_json::Value;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::problem::Problem;
use crate::standing::Standing;

/// Number of octets of one chunk.
const CHUNK: usize = 16 << 10;
/// Maximum number of chunks that wait for the client.
const WAITING: usize = 4;
/// Maximum number of events that wait until the client reads them or the next part is complete.
const WAITING_EVENTS: usize = 256;
/// Time after a write of events in which further events are collected. People need no faster
/// updates, and each write costs more than an event.
const REST: Duration = Duration::from_millis(100);

/// Longest wait for the first part. An error within this time sets the status of the response.
const FIRST_PART: Duration = Duration::from_millis(250);

/// Time between checks whether the author may still read.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A body whose chunks come from another thread. The body ends when the author of the request loses
/// its rights.
struct LineBody {
    chunks: Receiver<Bytes>,
    standing: Option<Standing>,
    checks: Interval,
    /// The pause after events, in which further events are collected; `None` for lines, which have
    /// no pause.
    rest: Option<Interval>,
}

impl LineBody {
    /// Collects all events that are available.
    fn collect(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let first = match self.chunks.poll_recv(cx) {
            Poll::Ready(Some(first)) => first,
            other => return other,
        };
        let Some(rest) = &mut self.rest else { return Poll::Ready(Some(first)) };
        rest.reset();
        let mut all = first.to_vec();
        while let Ok(next) = self.chunks.try_recv() {
            all.extend_from_slice(&next);
        }
        Poll::Ready(Some(all.into()))
    }
}

impl HttpBody for LineBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        while self.checks.poll_tick(cx).is_ready() {
            if self.standing.as_ref().is_some_and(|standing| !standing.holds()) {
                self.chunks.close();
                return Poll::Ready(None);
            }
        }
        if self.rest.as_mut().is_some_and(|rest| rest.poll_tick(cx).is_pending()) {
            return Poll::Pending;
        }
        let collected = self.collect(cx);
        if let (Poll::Pending, Some(rest)) = (&collected, &mut self.rest) {
            // The pause is over, so the next event is sent at once.
            rest.reset_immediately();
        }
        collected.map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

/// The format that separates the parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Framing {
    /// Lines of JSON, many in a chunk.
    Lines,
    /// Server-Sent Events, ten times a second.
    Events,
}

impl Framing {
    /// Returns the media type.
    pub(crate) const fn media(self) -> &'static str {
        match self {
            Self::Lines => "application/jsonl",
            Self::Events => "text/event-stream",
        }
    }
}

/// The sending end of a body, to which parts are added.
pub(crate) struct PartSender {
    framing: Framing,
    sender: Sender<Bytes>,
    chunk: Vec<u8>,
    /// The channel for the first part, or for an error.
    begun: Option<oneshot::Sender<Result<(), Problem>>>,
}

/// The receiving end of a body, which a client reads.
pub(crate) struct PartReceiver {
    body: Body,
    begun: oneshot::Receiver<Result<(), Problem>>,
}

/// Returns the two ends of a body. The body ends when `standing` no longer holds.
pub(crate) fn parts(framing: Framing, standing: Option<Standing>) -> (PartSender, PartReceiver) {
    let waiting = match framing {
        Framing::Lines => WAITING,
        Framing::Events => WAITING_EVENTS,
    };
    let ((sender, chunks), (begun, begins)) = (channel(waiting), oneshot::channel());
    let sender = PartSender { framing, sender, chunk: Vec::new(), begun: Some(begun) };
    let mut checks = interval(CHECK_INTERVAL);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let rest = (framing == Framing::Events).then(|| interval(REST));
    let body = Body::new(LineBody { chunks, standing, checks, rest });
    (sender, PartReceiver { body, begun: begins })
}

impl PartReceiver {
    /// Returns the body when its first part is ready, or after a short wait. An error after that
    /// becomes the last part.
    pub(crate) async fn begin(self) -> Result<Body, Problem> {
        match timeout(FIRST_PART, self.begun).await {
            Ok(Ok(Err(problem))) => Err(problem),
            Ok(Ok(Ok(())) | Err(_)) | Err(_) => Ok(self.body),
        }
    }
}

impl PartSender {
    fn part(&mut self, event: &str, json: &[u8]) -> Result<(), Disconnected> {
        if let Some(begun) = self.begun.take() {
            // After the short wait, the caller does not listen any more.
            let _ = begun.send(Ok(()));
        }
        match self.framing {
            Framing::Lines => {
                self.chunk.extend_from_slice(json);
                self.chunk.push(b'\n');
                if self.chunk.len() < CHUNK { Ok(()) } else { self.flush() }
            }
            Framing::Events => {
                // Compact JSON has no line breaks, so a value is one line of data.
                let parts = [b"event: ", event.as_bytes(), b"\ndata: ", json, b"\n\n"];
                self.chunk = parts.concat();
                self.flush()
            }
        }
    }

    /// Sends the chunk after waiting for room. The wait ends with the connection, which has a
    /// limited time, because the receiver is dropped then.
    fn flush(&mut self) -> Result<(), Disconnected> {
        let chunk = Bytes::from(std::mem::take(&mut self.chunk));
        self.sender.blocking_send(chunk).map_err(|_| Disconnected)
    }

    /// Writes each part of the reply to a request, and then the end or the error.
    pub(crate) fn answer(mut self, request: Request, control: &dyn Control) {
        let end = request.perform(control, &mut |part| self.part("part", part));
        let written = match end {
            Ok(mut end) => {
                if let Value::Object(fields) = &mut end {
                    fields.insert("done".to_owned(), true.into());
                }
                self.part("end", end.to_string().as_bytes())
            }
            Err(error) => match self.begun.take() {
                Some(begun) => {
                    let _ = begun.send(Err(error.into()));
                    return;
                }
                None => self.error(error),
            },
        };
        // The client may be gone.
        let _ = written.and_then(|()| self.flush());
    }

    fn error(&mut self, error: ControlError) -> Result<(), Disconnected> {
        let body = Problem::from(error).body();
        self.part("problem", &serde_json::to_vec(&body).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn events_that_wait_leave_together() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let (mut sender, receiver) = parts(Framing::Events, None);
        for number in 0..3 {
            sender.part("part", format!("{number}").as_bytes()).unwrap();
        }
        let frame = runtime.block_on(async {
            let mut body = receiver.begin().await.unwrap();
            poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().unwrap()
        });
        let events: String =
            (0..3).map(|number| format!("event: part\ndata: {number}\n\n")).collect();
        assert_eq!(frame.into_data().unwrap(), events);
    }
}
