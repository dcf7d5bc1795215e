//! DNS over HTTP/2 (RFC 9113): the server's end of a connection, as far as DoH needs it.
//!
//! ```text
//!   Preface -- 24 octets --> Settings -- SETTINGS --> Open -- a fault: GOAWAY --> Ended
//!   stream: HEADERS [DATA ...] -- Receiving -> Waiting -> (Sending) -> gone
//! ```
//! There is no push, no priority, and no dynamic table for responses. A stream whose response
//! leaves at once exists only during the call. Everything that a client can repeat without a query
//! takes from a budget, which responses and time refill (Rapid Reset, floods of settings, pings,
//! windows of one octet).

use std::mem;
use std::ops::ControlFlow;

use avocet_wire::MAX_MESSAGE;

use super::frames::{
    ACK, CONTINUATION, Code, DATA, END_HEADERS, END_STREAM, FrameHead, GOAWAY, HEAD, HEADERS,
    MAX_BLOCK, MAX_PAYLOAD, PING, PREFACE, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, StreamEnd,
    WINDOW_UPDATE, WITH_PRIORITY, unpadded, write_frame, write_head,
};
use super::h2_stream::{Block, OpenStream, StreamState};
use super::hpack::{FieldDecoder, MAX_FIELDS};
use super::request::{RequestHead, RequestVerdict, ResponseExtent, Status};
use super::response::{self, Content};
use super::{Replies, ReplyPlace};
use crate::frame::{Outgoing, trim};

/// Most streams of a connection at a time, with those that wait for the client to read.
pub(super) const MAX_HTTP_STREAMS: usize = 100;
/// Most continuations of a header block.
const MAX_CONTINUATIONS: u32 = 8;
/// Most octets of all bodies that are incomplete, and of all responses that wait for a window.
const MAX_KEPT: usize = 256 << 10;
/// What frames without a query may cost before the connection ends.
pub(super) const MAX_BUDGET: u32 = 400;
/// What a response adds to the budget.
const RESPONSE_REFILL: u32 = 4;
/// What a period of time adds to the budget; see [`Http2::refill`].
const TIME_REFILL: u32 = 10;
/// What a reset costs: the query behind it may be work.
const RESET_COST: u32 = 4;
/// The flow-control window before any settings (RFC 9113 §6.9.2).
const WINDOW: i64 = 65_535;
/// The largest window.
const MAX_WINDOW: i64 = (1 << 31) - 1;
/// Octets of received DATA after which the client gets them back.
const RETURNED: u32 = 32 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Preface,
    Settings,
    Open,
    Ended,
}

/// Why the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpEnd {
    /// The client violates the protocol.
    Protocol,
    /// It reaches a limit on what is no query.
    Excess,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Http2 {
    phase: Phase,
    /// An incomplete frame or, after a stop, complete frames too.
    pub(crate) held: Vec<u8>,
    is_stopped: bool,
    /// Why the connection has ended.
    fault: Option<HttpEnd>,
    fields: FieldDecoder,
    block: Option<Block>,
    /// The highest stream of the client.
    last: u32,
    streams: Vec<OpenStream>,
    /// Octets in bodies that are incomplete and in responses that wait for a window.
    kept: usize,
    /// Octets of DATA received and not returned.
    received: u32,
    budget: u32,
    /// What the client takes of all streams, and of a new one.
    window: i64,
    first_window: i64,
    /// Parts of responses sent; wraps.
    pub(super) replied: u32,
    pub(crate) out: Outgoing,
}

impl Default for Http2 {
    fn default() -> Self {
        Self {
            phase: Phase::Preface,
            held: Vec::new(),
            is_stopped: false,
            fault: None,
            fields: FieldDecoder::new(),
            block: None,
            last: 0,
            streams: Vec::new(),
            kept: 0,
            received: 0,
            budget: MAX_BUDGET,
            window: WINDOW,
            first_window: WINDOW,
            replied: 0,
            out: Outgoing::default(),
        }
    }
}

impl Http2 {
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns why the connection has ended, if it has.
    pub(crate) fn fault(&self) -> Option<HttpEnd> {
        self.fault
    }

    /// Reports whether the client owes the rest of a frame, of a header block or of a body.
    pub(crate) fn is_partial(&self) -> bool {
        let is_receiving = |one: &OpenStream| matches!(one.state, StreamState::Receiving(..));
        !self.held.is_empty() || self.block.is_some() || self.streams.iter().any(is_receiving)
    }

    /// Returns the oldest stream that waits for the client: for the rest of a body, or for a
    /// window.
    pub(crate) fn oldest_owed(&self) -> Option<u32> {
        let owed = self.streams.iter().filter(|one| !matches!(one.state, StreamState::Waiting));
        owed.map(|one| one.id).min()
    }

    /// Returns the octets of bodies and responses that are kept.
    #[cfg(test)]
    pub(super) const fn kept_octets(&self) -> usize {
        self.kept
    }

    /// Adds to the budget because time has passed: about half a second.
    pub(crate) fn refill(&mut self) {
        self.budget = (self.budget + TIME_REFILL).min(MAX_BUDGET);
    }

    pub(crate) fn take(
        &mut self,
        octets: &[u8],
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.has_ended() {
            return ControlFlow::Continue(());
        }
        if self.is_stopped || !self.held.is_empty() {
            self.held.extend_from_slice(octets);
            return if self.is_stopped { ControlFlow::Break(()) } else { self.resume(deliver) };
        }
        let used = self.process(octets, deliver);
        self.held.extend_from_slice(&octets[used..]);
        self.flow()
    }

    pub(crate) fn resume(
        &mut self,
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut octets = mem::take(&mut self.held);
        let used = self.process(&octets, deliver);
        octets.drain(..used);
        trim(&mut octets);
        self.held = octets;
        self.flow()
    }

    fn flow(&self) -> ControlFlow<()> {
        if self.is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Takes complete frames. Returns how many octets it used.
    fn process(
        &mut self,
        octets: &[u8],
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> usize {
        self.is_stopped = false;
        let mut rest = octets;
        if self.phase == Phase::Preface {
            if !PREFACE.starts_with(&rest[..rest.len().min(PREFACE.len())]) {
                self.end(Code::Protocol);
                return octets.len();
            }
            let Some(after) = rest.get(PREFACE.len()..) else { return 0 };
            rest = after;
            self.greet();
        }
        while let Some((head, after)) = FrameHead::read(rest) {
            if head.len > MAX_PAYLOAD {
                self.end(Code::FrameSize);
            }
            let payload = after.get(..head.len);
            let Some(payload) = payload.filter(|_| !self.has_ended()) else { break };
            rest = &after[head.len..];
            match self.frame(head, payload, deliver) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => {
                    self.is_stopped = true;
                    break;
                }
                Err(code) => self.end(code),
            }
        }
        if self.has_ended() { octets.len() } else { octets.len() - rest.len() }
    }

    /// Sends the settings of the server.
    fn greet(&mut self) {
        const MAX_CONCURRENT_STREAMS: u8 = 3;
        const MAX_HEADER_LIST_SIZE: u8 = 6;
        self.phase = Phase::Settings;
        let mut settings = [0; 12];
        settings[1] = MAX_CONCURRENT_STREAMS;
        settings[2..6].copy_from_slice(&(MAX_HTTP_STREAMS as u32).to_be_bytes());
        settings[7] = MAX_HEADER_LIST_SIZE;
        settings[8..].copy_from_slice(&(MAX_FIELDS as u32).to_be_bytes());
        self.put(SETTINGS, 0, 0, &settings);
    }

    fn frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Code> {
        if self.phase == Phase::Settings {
            if head.kind != SETTINGS || head.has(ACK) {
                return Err(Code::Protocol);
            }
            self.phase = Phase::Open;
        }
        if self.block.is_some() && head.kind != CONTINUATION {
            return Err(Code::Protocol);
        }
        match head.kind {
            DATA => return self.data(head, payload, deliver),
            HEADERS => return self.headers(head, payload, deliver),
            CONTINUATION => return self.continuation(head, payload, deliver),
            PRIORITY if payload.len() != 5 => return Err(Code::FrameSize),
            PRIORITY if head.id == 0 => return Err(Code::Protocol),
            PRIORITY => self.spend(1)?,
            RST_STREAM => self.reset_by_client(head, payload)?,
            SETTINGS => self.settings(head, payload)?,
            PUSH_PROMISE => return Err(Code::Protocol),
            PING => self.ping(head, payload)?,
            GOAWAY if head.id != 0 => return Err(Code::Protocol),
            WINDOW_UPDATE => self.window_update(head, payload)?,
            // An unknown frame (RFC 9113 §5.5) and GOAWAY change nothing.
            _ => self.spend(1)?,
        }
        Ok(ControlFlow::Continue(()))
    }

    fn spend(&mut self, cost: u32) -> Result<(), Code> {
        self.budget = self.budget.checked_sub(cost).ok_or(Code::EnhanceYourCalm)?;
        Ok(())
    }

    fn data(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Code> {
        if head.id == 0 || head.id > self.last {
            return Err(Code::Protocol);
        }
        let content = unpadded(head, payload)?;
        self.received += head.len as u32;
        if self.received >= RETURNED {
            let returned = mem::take(&mut self.received);
            self.put(WINDOW_UPDATE, 0, 0, &returned.to_be_bytes());
        }
        if !head.has(END_STREAM) {
            self.spend(1)?;
        }
        let Some(at) = self.position(head.id) else {
            // Of a stream that has ended here.
            self.spend(1)?;
            return Ok(ControlFlow::Continue(()));
        };
        let StreamState::Receiving(body, word) = &mut self.streams[at].state else {
            return Err(Code::StreamClosed);
        };
        if body.len() + content.len() > MAX_MESSAGE || self.kept + content.len() > MAX_KEPT {
            self.reject(head.id, Status::LargeBody, head.end())?;
            return Ok(ControlFlow::Continue(()));
        }
        if body.is_empty() && head.has(END_STREAM) {
            let word = word.take();
            self.streams[at].state = StreamState::Waiting;
            let place = ReplyPlace::Two(self, head.id);
            return Ok(deliver(content, &mut Replies::at(place).named(word.as_deref())));
        }
        body.extend_from_slice(content);
        self.kept += content.len();
        if !head.has(END_STREAM) {
            return Ok(ControlFlow::Continue(()));
        }
        Ok(self.complete(at, deliver))
    }

    /// Delivers the body of a stream.
    fn complete(
        &mut self,
        at: usize,
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let stream = &mut self.streams[at];
        let id = stream.id;
        let state = mem::replace(&mut stream.state, StreamState::Waiting);
        let StreamState::Receiving(body, word) = state else {
            return ControlFlow::Continue(());
        };
        self.kept -= body.len();
        deliver(&body, &mut Replies::at(ReplyPlace::Two(self, id)).named(word.as_deref()))
    }

    fn headers(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Code> {
        const PRIORITY_LEN: usize = 5;
        if head.id.is_multiple_of(2) {
            return Err(Code::Protocol);
        }
        let mut block = unpadded(head, payload)?;
        if head.has(WITH_PRIORITY) {
            block = block.get(PRIORITY_LEN..).ok_or(Code::FrameSize)?;
        }
        if head.id <= self.last {
            let stream = self.streams.iter().find(|one| one.id == head.id);
            let is_open = stream.is_some_and(|one| matches!(one.state, StreamState::Receiving(..)));
            // Trailers end their stream (RFC 9113 §8.1).
            if !is_open || !head.has(END_STREAM) {
                return Err(if is_open { Code::Protocol } else { Code::StreamClosed });
            }
        }
        if head.has(END_HEADERS) {
            return self.request(head.id, head.end(), block, deliver);
        }
        let (id, end) = (head.id, head.end());
        self.block = Some(Block { id, end, octets: block.to_vec(), continuations: 0 });
        Ok(ControlFlow::Continue(()))
    }

    fn continuation(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Code> {
        let block = self.block.as_mut().filter(|block| block.id == head.id);
        let block = block.ok_or(Code::Protocol)?;
        block.continuations += 1;
        let is_long = block.octets.len() + payload.len() > MAX_BLOCK;
        if is_long || block.continuations > MAX_CONTINUATIONS {
            return Err(Code::EnhanceYourCalm);
        }
        block.octets.extend_from_slice(payload);
        if head.has(END_HEADERS)
            && let Some(Block { id, end, octets, .. }) = self.block.take()
        {
            return self.request(id, end, &octets, deliver);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Takes a complete header block.
    fn request(
        &mut self,
        id: u32,
        end: StreamEnd,
        block: &[u8],
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Code> {
        let mut head = RequestHead::default();
        let octets = self.fields.read(block, &mut |name, value| head.field(name, value))?;
        if id <= self.last {
            let at = self.position(id).ok_or(Code::StreamClosed)?;
            return Ok(self.complete(at, deliver));
        }
        self.last = id;
        if self.streams.len() >= MAX_HTTP_STREAMS || self.kept >= MAX_KEPT {
            self.spend(1)?;
            self.reset(id, Code::RefusedStream);
        } else if octets > MAX_FIELDS {
            self.reject(id, Status::LargeFields, end)?;
        } else if head.is_malformed || head.is_incomplete() {
            self.spend(1)?;
            self.reset(id, Code::Protocol);
        } else {
            return self.decide(id, end, head, deliver);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn decide(
        &mut self,
        id: u32,
        end: StreamEnd,
        mut head: RequestHead,
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Code> {
        let (word, media) = (head.take_word(), head.media());
        let mut open = |extent, state| {
            self.streams.push(OpenStream { id, window: self.first_window, extent, media, state });
        };
        match head.verdict() {
            RequestVerdict::Reject(status) => self.reject(id, status, end)?,
            RequestVerdict::Query(..) if end == StreamEnd::Later => {
                self.reject(id, Status::BadRequest, end)?
            }
            RequestVerdict::Body if end == StreamEnd::Here => {
                self.reject(id, Status::BadRequest, end)?
            }
            RequestVerdict::Body => {
                open(ResponseExtent::Whole, StreamState::Receiving(Vec::new(), word))
            }
            RequestVerdict::Query(message, extent) => {
                open(extent, StreamState::Waiting);
                let place = ReplyPlace::Two(self, id);
                return Ok(deliver(&message, &mut Replies::at(place).named(word.as_deref())));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn reset_by_client(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Code> {
        if payload.len() != 4 {
            return Err(Code::FrameSize);
        }
        if head.id == 0 || head.id > self.last {
            return Err(Code::Protocol);
        }
        self.forget(head.id);
        self.spend(RESET_COST)
    }

    fn settings(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Code> {
        const ENABLE_PUSH: u16 = 2;
        const INITIAL_WINDOW_SIZE: u16 = 4;
        const MAX_FRAME_SIZE: u16 = 5;
        const LARGEST_FRAME: u32 = (1 << 24) - 1;
        if head.id != 0 {
            return Err(Code::Protocol);
        }
        self.spend(1)?;
        if head.has(ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(Code::FrameSize) };
        }
        let (all, []) = payload.as_chunks::<6>() else { return Err(Code::FrameSize) };
        for [a, b, value @ ..] in all {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                ENABLE_PUSH if value > 1 => return Err(Code::Protocol),
                INITIAL_WINDOW_SIZE if i64::from(value) > MAX_WINDOW => {
                    return Err(Code::FlowControl);
                }
                INITIAL_WINDOW_SIZE => self.set_first_window(value.into())?,
                MAX_FRAME_SIZE if !(MAX_PAYLOAD as u32..=LARGEST_FRAME).contains(&value) => {
                    return Err(Code::Protocol);
                }
                _ => {}
            }
        }
        self.put(SETTINGS, ACK, 0, &[]);
        self.send_waiting();
        Ok(())
    }

    /// Changes the window of all streams (RFC 9113 §6.9.2). It may become negative.
    fn set_first_window(&mut self, value: i64) -> Result<(), Code> {
        let change = value - self.first_window;
        self.first_window = value;
        for stream in &mut self.streams {
            stream.window += change;
            if stream.window > MAX_WINDOW {
                return Err(Code::FlowControl);
            }
        }
        // A list of settings in one frame must not be more work than its octets.
        self.spend(1)
    }

    fn ping(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Code> {
        if payload.len() != 8 {
            return Err(Code::FrameSize);
        }
        if head.id != 0 {
            return Err(Code::Protocol);
        }
        self.spend(1)?;
        if !head.has(ACK) {
            self.put(PING, ACK, 0, payload);
        }
        Ok(())
    }

    fn window_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Code> {
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
                self.forget(head.id);
                self.reset(head.id, code);
            }
        }
        self.send_waiting();
        Ok(())
    }

    /// Answers the query of a stream, if the client has not reset it.
    pub(crate) fn answer(&mut self, id: u32, message: &[u8]) {
        let Some(at) = self.position(id) else { return };
        let mut stream = self.streams.swap_remove(at);
        self.budget = (self.budget + RESPONSE_REFILL).min(MAX_BUDGET);
        let media = stream.media;
        self.replied = self.replied.wrapping_add(1);
        let Some(whole) = media.body(message) else {
            return self.head(id, Status::Refused, Content::NONE, StreamEnd::Here);
        };
        let body = if stream.extent == ResponseExtent::Whole { &*whole } else { &[] };
        let end = if body.is_empty() { StreamEnd::Here } else { StreamEnd::Later };
        self.head(id, Status::Ok, Content { media, message, len: whole.len() }, end);
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

    /// Answers a request without query.
    fn reject(&mut self, id: u32, status: Status, end: StreamEnd) -> Result<(), Code> {
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

    /// Writes the fields of a response.
    fn head(&mut self, id: u32, status: Status, content: Content<'_>, end: StreamEnd) {
        let out = self.out.end();
        let start = out.len();
        out.extend_from_slice(&[0; HEAD]);
        response::write_fields(status, content, out);
        let len = (out.len() - start - HEAD) as u32;
        let flags = END_HEADERS | if end == StreamEnd::Here { END_STREAM } else { 0 };
        write_head(&mut out[start..start + HEAD], len, [HEADERS, flags], id);
    }

    /// Sends as much of a body as the windows permit. Returns its octets.
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

    /// Sends what has waited for a window.
    fn send_waiting(&mut self) {
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

    /// Returns the place of a stream. The latest is the most probable.
    fn position(&self, id: u32) -> Option<usize> {
        self.streams.iter().rposition(|one| one.id == id)
    }

    /// Removes a stream. Returns whether there was one.
    fn forget(&mut self, id: u32) -> bool {
        let Some(at) = self.position(id) else { return false };
        match self.streams.swap_remove(at).state {
            StreamState::Receiving(octets, _) | StreamState::Sending(octets) => {
                self.kept -= octets.len();
            }
            StreamState::Waiting => {}
        }
        true
    }

    fn reset(&mut self, id: u32, code: Code) {
        self.put(RST_STREAM, 0, id, &(code as u32).to_be_bytes());
    }

    /// Ends the connection by a fault of the client.
    fn end(&mut self, code: Code) {
        if self.has_ended() {
            return;
        }
        let is_excess = code == Code::EnhanceYourCalm;
        self.fault = Some(if is_excess { HttpEnd::Excess } else { HttpEnd::Protocol });
        self.go_away(code);
    }

    /// Ends the connection: the client can repeat the requests after the last one elsewhere (RFC
    /// 9113 §6.8).
    pub(crate) fn close(&mut self) {
        if matches!(self.phase, Phase::Settings | Phase::Open) {
            self.go_away(Code::NoError);
        }
    }

    fn go_away(&mut self, code: Code) {
        self.phase = Phase::Ended;
        (self.streams, self.block, self.kept) = (Vec::new(), None, 0);
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&self.last.to_be_bytes());
        payload[4..].copy_from_slice(&(code as u32).to_be_bytes());
        self.put(GOAWAY, 0, 0, &payload);
    }

    fn put(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        write_frame(self.out.end(), [kind, flags], id, payload);
    }
}
