//! The responses of the server over HTTP/2, within the flow-control windows of the client (RFC 9113
//! §6.9).

use std::mem;
use std::sync::Arc;

use super::{Http2, MAX_BUDGET, MAX_KEPT, MAX_WINDOW, RESET_COST};
use crate::http::form::{Media, RequestContent, ResponseExtent, Status};
use crate::http::frames::{
    Code, DATA, END_HEADERS, END_STREAM, FrameHead, HEAD, HEADERS, MAX_PAYLOAD, StreamEnd,
    write_head,
};
use crate::http::h2_stream::{OpenStream, StreamState};
use crate::http::response::{self, Content};
use crate::oblivious::ReplySeal;

/// The increase of the budget per response.
const RESPONSE_REFILL: u32 = 4;

impl Http2 {
    /// Answers the query of a stream, if the client has not reset it.
    pub(crate) fn answer(&mut self, id: u32, message: &[u8]) {
        let Some(at) = self.position(id) else { return };
        let mut stream = self.streams.swap_remove(at);
        let media = mem::take(&mut stream.media);
        // A request for configurations costs as much as other requests without a query.
        self.budget = match media.content() {
            RequestContent::Configs => self.budget.saturating_sub(1),
            _ => (self.budget + RESPONSE_REFILL).min(MAX_BUDGET),
        };
        self.replied = self.replied.wrapping_add(1);
        let (status, message) = media.answered(message);
        if status != Status::Ok {
            return self.head(id, status, Content::NONE, StreamEnd::Here);
        }
        let Some(whole) = media.body(message) else {
            return self.head(id, Status::Refused, Content::NONE, StreamEnd::Here);
        };
        let body = if stream.extent == ResponseExtent::Whole { &*whole } else { &[] };
        let end = if body.is_empty() { StreamEnd::Here } else { StreamEnd::Later };
        let h3_port = mem::take(&mut self.h3_port);
        let content = Content { media: &media, message, len: whole.len(), h3_port };
        self.head(id, Status::Ok, content, end);
        let sent = self.send(id, body, &mut stream.window);
        let rest = &body[sent..];
        if rest.is_empty() {
            return;
        }
        if self.kept + rest.len() > MAX_KEPT {
            return self.reset(id, Code::EnhanceYourCalm);
        }
        self.kept += rest.len();
        stream.state = StreamState::Sending(rest.to_vec());
        self.streams.push(stream);
    }

    /// Ends the stream of a query that gets no DNS message.
    pub(crate) fn refuse(&mut self, id: u32) {
        if self.forget(id) {
            self.reset(id, Code::Cancel);
        }
    }

    /// Sets the keys that seal the response on a stream.
    pub(crate) fn seal_with(&mut self, id: u32, seal: Arc<ReplySeal>) {
        if let Some(at) = self.position(id) {
            self.streams[at].media = Media::Oblivious(Some(seal));
        }
    }

    /// Answers a request that was delivered with a status. The attempt to decrypt it has caused
    /// work.
    pub(crate) fn reject_delivered(&mut self, id: u32, status: Status) {
        if !self.forget(id) {
            return;
        }
        let spent = self.spend(RESET_COST).and_then(|()| self.reject(id, status, StreamEnd::Here));
        if let Err(code) = spent {
            self.end(code);
        }
    }

    /// Answers a request without query.
    pub(super) fn reject(&mut self, id: u32, status: Status, end: StreamEnd) -> Result<(), Code> {
        self.forget(id);
        // Requests without a query cost as much as other frames.
        self.spend(1)?;
        let (reason, room) = (status.reason().as_bytes(), self.window.min(self.first_window));
        if reason.is_empty() || end == StreamEnd::Later || room < reason.len() as i64 {
            self.head(id, status, Content::NONE, StreamEnd::Here);
        } else {
            self.head(id, status, Content { len: reason.len(), ..Content::NONE }, StreamEnd::Later);
            self.send(id, reason, &mut { self.first_window });
        }
        if end == StreamEnd::Later {
            // The client need not send the rest (RFC 9113 §8.1).
            self.reset(id, Code::NoError);
        }
        Ok(())
    }

    /// Writes the header fields of a response.
    fn head(&mut self, id: u32, status: Status, content: Content<'_>, end: StreamEnd) {
        let out = self.out.end();
        let start = out.len();
        out.extend_from_slice(&[0; HEAD]);
        response::write_fields(status, content, out);
        let len = (out.len() - start - HEAD) as u32;
        let flags = END_HEADERS | if end == StreamEnd::Here { END_STREAM } else { 0 };
        write_head(&mut out[start..start + HEAD], len, [HEADERS, flags], id);
    }

    /// Sends as much of a body as the flow-control windows permit. Returns the number of octets
    /// sent.
    fn send(&mut self, id: u32, body: &[u8], window: &mut i64) -> usize {
        let mut sent = 0;
        while sent < body.len() {
            let room = self.window.min(*window).min(MAX_PAYLOAD as i64);
            let Ok(room) = usize::try_from(room) else { break };
            let part = &body[sent..body.len().min(sent + room)];
            if part.is_empty() {
                break;
            }
            sent += part.len();
            self.window -= part.len() as i64;
            *window -= part.len() as i64;
            let flags = if sent == body.len() { END_STREAM } else { 0 };
            self.put(DATA, flags, id, part);
        }
        sent
    }

    /// Sends responses that have waited for a flow-control window.
    pub(super) fn send_waiting(&mut self) {
        let mut at = 0;
        while self.window > 0 && at < self.streams.len() {
            let OpenStream { id, mut window, .. } = self.streams[at];
            let StreamState::Sending(rest) = &mut self.streams[at].state else {
                at += 1;
                continue;
            };
            let mut rest = mem::take(rest);
            let sent = self.send(id, &rest, &mut window);
            self.kept -= sent;
            self.replied = self.replied.wrapping_add(u32::from(sent > 0));
            if sent == rest.len() {
                self.streams.swap_remove(at);
                continue;
            }
            rest.drain(..sent);
            let stream = &mut self.streams[at];
            (stream.window, stream.state) = (window, StreamState::Sending(rest));
            at += 1;
        }
    }

    /// Sets the initial flow-control window, which also changes the windows of all open streams
    /// (RFC 9113 §6.9.2). A window may become negative.
    pub(super) fn set_first_window(&mut self, value: i64) -> Result<(), Code> {
        let change = value - self.first_window;
        self.first_window = value;
        for stream in &mut self.streams {
            stream.window += change;
            if stream.window > MAX_WINDOW {
                return Err(Code::FlowControl);
            }
        }
        // Each setting costs budget: a frame with many settings would otherwise cause too much work
        // for its size.
        self.spend(1)
    }

    pub(super) fn window_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Code> {
        let octets: [u8; 4] = payload.try_into().map_err(|_| Code::FrameSize)?;
        let more = i64::from(u32::from_be_bytes(octets) & !(1 << 31));
        if head.id > self.last {
            return Err(Code::Protocol);
        }
        self.spend(1)?;
        if head.id == 0 {
            self.window += more;
            if more == 0 || self.window > MAX_WINDOW {
                return Err(if more == 0 { Code::Protocol } else { Code::FlowControl });
            }
        } else if let Some(at) = self.position(head.id) {
            self.streams[at].window += more;
            if more == 0 || self.streams[at].window > MAX_WINDOW {
                let code = if more == 0 { Code::Protocol } else { Code::FlowControl };
                // The query of the stream may have caused work, as with a reset by the client.
                self.spend(RESET_COST)?;
                self.forget(head.id);
                self.reset(head.id, code);
            }
        }
        self.send_waiting();
        Ok(())
    }
}
