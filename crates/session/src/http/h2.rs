//! DNS over HTTP/2 (RFC 9113): the server's end of a connection, as far as DoH needs it.
//!
//! ```text
//!   Preface -- 24 octets --> Settings -- SETTINGS --> Open -- a fault: GOAWAY --> Ended
//!   stream: HEADERS [DATA ...] -- Receiving -> Waiting -> (Sending) -> gone
//! ```
//! There is no push, no priority, and no dynamic table for responses. A stream whose response is
//! sent at once exists only during the call. All frames that a client can repeat without a query
//! cost budget, which responses and time refill: this limits Rapid Reset, floods of SETTINGS and
//! PING, and windows of one octet.

mod responses;

use std::mem;
use std::ops::ControlFlow;

use avocet_wire::MAX_MESSAGE;

use super::form::{ResponseExtent, Status};
use super::frames::{
    ACK, CONTINUATION, Code, DATA, END_HEADERS, END_STREAM, FrameHead, GOAWAY, HEADERS,
    LAST_STREAM, MAX_BLOCK, MAX_PAYLOAD, PING, PREFACE, PRIORITY, PUSH_PROMISE, RST_STREAM,
    SETTINGS, StreamEnd, WINDOW_UPDATE, WITH_PRIORITY, unpadded, write_frame,
};
use super::h2_stream::{Block, HttpEnd, OpenStream, QueryPlace, RequestBody, StreamState};
use super::hpack::{FieldDecoder, MAX_FIELDS};
use super::request::{RequestHead, RequestVerdict};
use super::{Replies, ReplyPlace};
use crate::frame::{Outgoing, trim};

/// Maximum number of concurrent streams of a connection, including those that wait for the client
/// to read.
pub(super) const MAX_HTTP_STREAMS: usize = 100;
/// Maximum number of CONTINUATION frames of a header block.
const MAX_CONTINUATIONS: u32 = 8;
/// Maximum number of octets of all incomplete bodies and of all responses that wait for a
/// flow-control window.
const MAX_KEPT: usize = 256 << 10;
/// The budget for frames without a query; the connection ends when it is used up.
pub(super) const MAX_BUDGET: u32 = 400;
/// The increase of the budget per call of [`Http2::refill`].
const TIME_REFILL: u32 = 10;
/// The cost of a reset: the query of the stream may have caused work.
const RESET_COST: u32 = 4;
/// The flow-control window before any settings (RFC 9113 §6.9.2).
const WINDOW: i64 = 65_535;
/// The largest flow-control window.
const MAX_WINDOW: i64 = (1 << 31) - 1;
/// Number of octets of received DATA after which the server grants the client the same number
/// again, with WINDOW_UPDATE.
const RETURNED: u32 = 32 << 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Preface,
    Settings,
    Open,
    Ended,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Http2 {
    phase: Phase,
    /// An incomplete frame or, after a stop, complete frames too.
    pub(crate) held: Vec<u8>,
    is_stopped: bool,
    /// The reason why the connection has ended.
    fault: Option<HttpEnd>,
    fields: FieldDecoder,
    block: Option<Block>,
    /// The highest stream ID that the client has used.
    last: u32,
    /// The highest ID of a stream that the server has reset. Frames of streams up to this ID may
    /// have been sent before the client learned of the reset.
    last_reset: u32,
    streams: Vec<OpenStream>,
    /// Number of octets in incomplete bodies and in responses that wait for a flow-control window.
    kept: usize,
    /// Number of octets of received DATA for which no WINDOW_UPDATE was sent yet.
    received: u32,
    budget: u32,
    /// The flow-control window that the client grants for all streams together, and its initial
    /// value for a new stream.
    window: i64,
    first_window: i64,
    /// Number of parts of responses that were sent; it wraps.
    pub(super) replied: u32,
    /// The port of HTTP/3 that a response still has to announce to the client; 0 for none.
    pub(super) h3_port: u16,
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
            last_reset: 0,
            streams: Vec::new(),
            kept: 0,
            received: 0,
            budget: MAX_BUDGET,
            window: WINDOW,
            first_window: WINDOW,
            replied: 0,
            h3_port: 0,
            out: Outgoing::default(),
        }
    }
}

impl Http2 {
    /// Creates a connection that announces the port of HTTP/3 to its client.
    pub(super) fn announcing(h3_port: u16) -> Self {
        Self { h3_port, ..Self::default() }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns the reason why the connection has ended, if it has.
    pub(crate) fn fault(&self) -> Option<HttpEnd> {
        self.fault
    }

    /// Reports whether the client has sent only a part of a frame, of a header block or of a body.
    pub(crate) fn is_partial(&self) -> bool {
        let is_receiving = |one: &OpenStream| matches!(one.state, StreamState::Receiving(..));
        !self.held.is_empty() || self.block.is_some() || self.streams.iter().any(is_receiving)
    }

    /// Returns the oldest stream on which the server waits for the client: for the rest of a body,
    /// or for a larger flow-control window.
    pub(crate) fn oldest_owed(&self) -> Option<u32> {
        let owed = self.streams.iter().filter(|one| !matches!(one.state, StreamState::Waiting));
        owed.map(|one| one.id).min()
    }

    /// Returns the number of octets of buffered bodies and responses.
    #[cfg(test)]
    pub(super) const fn kept_octets(&self) -> usize {
        self.kept
    }

    /// Refills the budget; called about every half second.
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

    /// Processes complete frames. Returns the number of octets that it used.
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
            self.ignore(head.id)?;
            return Ok(ControlFlow::Continue(()));
        };
        let StreamState::Receiving(body) = &mut self.streams[at].state else {
            return Err(Code::StreamClosed);
        };
        let has_room = body.octets.len() + content.len() <= MAX_MESSAGE;
        if !has_room || self.kept + content.len() > MAX_KEPT {
            self.reject(head.id, Status::LargeBody, head.end())?;
            return Ok(ControlFlow::Continue(()));
        }
        if body.is_contradicted(content.len(), head.end()) {
            return self.refuse_malformed(head.id);
        }
        if body.is_wrong(content, head.end()) {
            self.reject(head.id, Status::BadRequest, head.end())?;
            return Ok(ControlFlow::Continue(()));
        }
        if body.octets.is_empty() && head.has(END_STREAM) {
            let word = body.word.take();
            let stream = &mut self.streams[at];
            stream.state = StreamState::Waiting;
            let of = stream.media.content();
            let place = ReplyPlace::Two(self, head.id);
            return Ok(deliver(content, &mut Replies::at(place).named(word.as_deref()).of(of)));
        }
        body.octets.extend_from_slice(content);
        self.kept += content.len();
        if !head.has(END_STREAM) {
            return Ok(ControlFlow::Continue(()));
        }
        Ok(self.complete(at, deliver))
    }

    /// Ignores a frame of a closed stream that the client may have sent before it learned of the
    /// end.
    fn ignore(&mut self, id: u32) -> Result<(), Code> {
        if id > self.last_reset {
            return Err(Code::StreamClosed);
        }
        self.spend(1)
    }

    /// Ends the stream of a request that is malformed (RFC 9113 §8.1.1).
    fn refuse_malformed(&mut self, id: u32) -> Result<ControlFlow<()>, Code> {
        self.spend(1)?;
        self.forget(id);
        self.reset(id, Code::Protocol);
        Ok(ControlFlow::Continue(()))
    }

    /// Delivers the query in the complete body of a stream.
    fn complete(
        &mut self,
        at: usize,
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let stream = &mut self.streams[at];
        let (id, of) = (stream.id, stream.media.content());
        let state = mem::replace(&mut stream.state, StreamState::Waiting);
        let StreamState::Receiving(RequestBody { octets, word, .. }) = state else {
            return ControlFlow::Continue(());
        };
        self.kept -= octets.len();
        let replies = Replies::at(ReplyPlace::Two(self, id));
        deliver(&octets, &mut replies.named(word.as_deref()).of(of))
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
            self.check_trailers(head)?;
        }
        if head.has(END_HEADERS) {
            return self.request(head.id, head.end(), block, deliver);
        }
        let (id, end) = (head.id, head.end());
        self.block = Some(Block { id, end, octets: block.to_vec(), continuations: 0 });
        Ok(ControlFlow::Continue(()))
    }

    /// Checks HEADERS of a stream that is open already: trailers, which must end their stream (RFC
    /// 9113 §8.1).
    fn check_trailers(&self, head: FrameHead) -> Result<(), Code> {
        match self.position(head.id).map(|at| &self.streams[at].state) {
            Some(StreamState::Receiving(_)) if head.has(END_STREAM) => Ok(()),
            Some(StreamState::Receiving(_)) => Err(Code::Protocol),
            Some(_) => Err(Code::StreamClosed),
            None if head.id <= self.last_reset => Ok(()),
            None if head.id == self.last => Err(Code::StreamClosed),
            // The client cannot open a stream with an ID below its last one (RFC 9113 §5.1.1).
            None => Err(Code::Protocol),
        }
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

    /// Handles a complete header block.
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
            return self.trailers(id, &head, deliver);
        }
        self.last = id;
        // Without DATA, the body has no octets.
        let lacks_body = end == StreamEnd::Here && head.content_length.is_some_and(|len| len > 0);
        if self.streams.len() >= MAX_HTTP_STREAMS || self.kept >= MAX_KEPT {
            self.spend(1)?;
            self.reset(id, Code::RefusedStream);
        } else if octets > MAX_FIELDS {
            self.reject(id, Status::LargeFields, end)?;
        } else if head.is_malformed || head.is_incomplete() || lacks_body {
            return self.refuse_malformed(id);
        } else {
            return self.decide(id, end, head, deliver);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Handles the trailers of a request: its body is complete.
    fn trailers(
        &mut self,
        id: u32,
        fields: &RequestHead,
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Code> {
        let Some(at) = self.position(id) else {
            // The request was rejected already. Its trailers may still arrive, but not another
            // request.
            return if fields.may_be_trailers() {
                self.ignore(id).map(ControlFlow::Continue)
            } else {
                Err(Code::Protocol)
            };
        };
        let is_received = |is_so: fn(&RequestBody) -> bool| {
            matches!(&self.streams[at].state,
            StreamState::Receiving(body) if is_so(body))
        };
        let is_contradicted = is_received(|body| body.is_contradicted(0, StreamEnd::Here));
        if is_contradicted || !fields.may_be_trailers() {
            return self.refuse_malformed(id);
        }
        if is_received(|body| body.is_wrong(&[], StreamEnd::Here)) {
            self.reject(id, Status::BadRequest, StreamEnd::Here)?;
            return Ok(ControlFlow::Continue(()));
        }
        Ok(self.complete(at, deliver))
    }

    fn decide(
        &mut self,
        id: u32,
        end: StreamEnd,
        mut head: RequestHead,
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Code> {
        let (word, media, length) = (head.take_word(), head.media(), head.content_length);
        let of = media.content();
        let open = |extent, state| {
            self.streams.push(OpenStream { id, window: self.first_window, extent, media, state });
        };
        match head.verdict() {
            RequestVerdict::Reject(status) => self.reject(id, status, end)?,
            // The request continues with an empty body or with trailers.
            RequestVerdict::Query(message, extent) if end == StreamEnd::Later => {
                if self.kept + message.len() > MAX_KEPT {
                    self.spend(1)?;
                    self.reset(id, Code::RefusedStream);
                    return Ok(ControlFlow::Continue(()));
                }
                self.kept += message.len();
                let place = QueryPlace::Path;
                let body = RequestBody { place, octets: message, length, word };
                open(extent, StreamState::Receiving(body));
            }
            RequestVerdict::Body if end == StreamEnd::Here => {
                self.reject(id, Status::BadRequest, end)?
            }
            RequestVerdict::Body => {
                let place = QueryPlace::Body;
                let body = RequestBody { place, octets: Vec::new(), length, word };
                open(ResponseExtent::Whole, StreamState::Receiving(body))
            }
            RequestVerdict::Query(message, extent) => {
                open(extent, StreamState::Waiting);
                let place = ReplyPlace::Two(self, id);
                let replies = Replies::at(place).named(word.as_deref());
                return Ok(deliver(&message, &mut replies.of(of)));
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

    /// Returns the index of a stream. The search begins with the latest stream, which is the most
    /// probable one.
    fn position(&self, id: u32) -> Option<usize> {
        self.streams.iter().rposition(|one| one.id == id)
    }

    /// Removes a stream. Returns whether the stream existed.
    fn forget(&mut self, id: u32) -> bool {
        let Some(at) = self.position(id) else { return false };
        match self.streams.swap_remove(at).state {
            StreamState::Receiving(body) => self.kept -= body.octets.len(),
            StreamState::Sending(octets) => self.kept -= octets.len(),
            StreamState::Waiting => {}
        }
        true
    }

    fn reset(&mut self, id: u32, code: Code) {
        self.last_reset = self.last_reset.max(id);
        self.put(RST_STREAM, 0, id, &(code as u32).to_be_bytes());
    }

    /// Ends the connection because of a fault of the client.
    fn end(&mut self, code: Code) {
        if self.has_ended() {
            return;
        }
        let is_excess = code == Code::EnhanceYourCalm;
        self.fault = Some(if is_excess { HttpEnd::Excess } else { HttpEnd::Protocol });
        self.go_away(code);
    }

    /// Announces the end of the connection (RFC 9113 §6.8): the client sends further requests over
    /// another connection. Requests that still arrive are answered.
    pub(super) fn announce_end(&mut self) {
        if matches!(self.phase, Phase::Settings | Phase::Open) {
            self.put_go_away(LAST_STREAM, Code::NoError);
        }
    }

    /// Ends the connection. The client can repeat the requests that were not processed over another
    /// connection (RFC 9113 §6.8).
    pub(crate) fn close(&mut self) {
        if matches!(self.phase, Phase::Settings | Phase::Open) {
            self.go_away(Code::NoError);
        }
    }

    fn go_away(&mut self, code: Code) {
        self.phase = Phase::Ended;
        (self.streams, self.block, self.kept) = (Vec::new(), None, 0);
        self.put_go_away(self.last, code);
    }

    fn put_go_away(&mut self, last: u32, code: Code) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last.to_be_bytes());
        payload[4..].copy_from_slice(&(code as u32).to_be_bytes());
        self.put(GOAWAY, 0, 0, &payload);
    }

    fn put(&mut self, kind: u8, flags: u8, id: u32, payload: &[u8]) {
        write_frame(self.out.end(), [kind, flags], id, payload);
    }
}
