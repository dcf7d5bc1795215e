//! DNS over HTTP/2 (RFC 8484): the client's end of a connection.
//!
//! Each query has a stream of its own, so a slow response delays no other. Queries wait in order
//! while the server's limits on streams or on flow control permit no more. A query that gets no DNS
//! message gets SERVFAIL with the reason as extended error, because the connection is still usable.
//! Once the server announces the end of the connection (GOAWAY), no query is sent any more, and the
//! connection ends with the last response that is outstanding. Its owner sends the queries that the
//! server did not process over another connection.

use std::collections::VecDeque;
use std::mem;

use avocet_wire::MAX_MESSAGE;
use data_encoding::BASE64URL_NOPAD;
use thiserror::Error;

use super::AltSvc;
use super::answer::{is_response, servfail};
use super::form::MEDIA_TYPE;
use super::frames::{
    ACK, CONTINUATION, Code, DATA, END_HEADERS, END_STREAM, FrameHead, GOAWAY, HEADERS,
    LAST_STREAM, MAX_BLOCK, MAX_PAYLOAD, PING, PREFACE, PUSH_PROMISE, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, WITH_PRIORITY, unpadded, write_frame,
};
use super::hpack::{self, FieldDecoder, FieldName};
use crate::frame::{Outgoing, trim};

/// Maximum number of concurrent streams, even if the server permits more.
const MAX_STREAMS: u32 = 500;
/// Number of concurrent streams before the server has announced its limit (RFC 9113 §6.5.2 asks for
/// at least 100).
const FIRST_STREAMS: u32 = 100;
/// Maximum number of times that a query is sent if the server refuses it unprocessed.
const MAX_TRIES: u8 = 2;
/// Number of calls of [`Http2Client::refill`] after which a query is given up.
const MAX_AGE: u8 = 20;
/// The flow-control window before any settings (RFC 9113 §6.9.2).
const WINDOW: i64 = 65_535;
/// The largest flow-control window.
const MAX_WINDOW: i64 = (1 << 31) - 1;
/// Flow-control window of a response: enough for the longest DNS message with the padding of
/// HTTP/2.
const STREAM_WINDOW: u32 = 128 << 10;
/// Number of octets by which the client raises the initial flow-control window for all responses
/// together.
const MORE_WINDOW: u32 = 4 << 20;
/// Number of octets of received DATA after which the client grants the server the same number
/// again, with WINDOW_UPDATE.
const RETURNED: u32 = 1 << 20;
/// Maximum number of frames that the server may send without completing a response. Each response
/// raises the budget.
const MAX_BUDGET: u32 = 1_000;
const RESPONSE_REFILL: u32 = 8;
/// The increase of the budget per call of [`Http2Client::refill`].
const TIME_REFILL: u32 = 50;
/// Number of octets of the header of a DNS message, and of the ID in it.
const HEADER_LEN: usize = 12;
const ID_LEN: usize = 2;
/// Number of octets of the payload of PING, and of frames whose payload is a 32-bit integer (RFC
/// 9113 §6).
const PING_LEN: usize = 8;
const NUMBER_LEN: usize = 4;
/// Minimum number of octets of the payload of GOAWAY.
const GOAWAY_LEN: usize = 8;

/// The HTTP method of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HttpMethod {
    /// The query is in the path, so that HTTP caches can store the response.
    Get,
    /// The query is in the body of the request.
    #[default]
    Post,
}

/// The reason why a query has no response, or why a connection ends.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HttpFault {
    /// The server refuses the request with this status.
    #[error("the server answers with HTTP status {0}")]
    Status(u16),
    /// The body is not a DNS message that responds to the query.
    #[error("the server answers with something other than a DNS response to the query")]
    MediaType,
    /// The server ends the request with this error code.
    #[error("the server ends the request with HTTP/2 error {0}")]
    Reset(u32),
    /// The server ends the connection with this error code.
    #[error("the server ends the connection with HTTP/2 error {0}")]
    Ended(u32),
    /// The server sends octets that are not HTTP/2, or more frames than permitted.
    #[error("the server does not speak HTTP/2 as expected")]
    Malformed,
}

impl From<Code> for HttpFault {
    fn from(_: Code) -> Self {
        Self::Malformed
    }
}

/// The target of queries on a server of DNS over HTTPS.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HttpTarget {
    /// The host, with its port unless the port is 443.
    pub authority: Box<str>,
    /// The path, such as `/dns-query`.
    pub path: Box<str>,
    /// The method of requests.
    pub method: HttpMethod,
}

impl HttpTarget {
    /// Returns the host without its port.
    fn host(&self) -> &str {
        let port = |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
        match self.authority.rsplit_once(':') {
            Some((host, text)) if port(text) => host,
            _ => &self.authority,
        }
    }
}

/// A query without a response. It was sent, or waits until the server permits another stream.
#[derive(Debug)]
struct OpenQuery {
    /// The stream ID; 0 while the query waits.
    stream: u32,
    query: Vec<u8>,
    status: u16,
    is_dns_message: bool,
    body: Vec<u8>,
    tries: u8,
    age: u8,
}

/// An incomplete header block: more frames of CONTINUATION must follow.
#[derive(Debug)]
struct HeaderBlock {
    head: FrameHead,
    octets: Vec<u8>,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Http2Client {
    pub(crate) out: Outgoing,
    target: HttpTarget,
    /// The fields of a request that do not depend on the query.
    fields: Vec<u8>,
    /// An incomplete frame.
    held: Vec<u8>,
    decoder: FieldDecoder,
    block: Option<HeaderBlock>,
    /// Queries that were sent, the oldest first.
    open: Vec<OpenQuery>,
    waiting: VecDeque<OpenQuery>,
    waiting_octets: usize,
    next_stream: u32,
    max_streams: u32,
    /// The flow-control window that the server grants for all streams together, and its initial
    /// value for a new stream.
    window: i64,
    first_window: i64,
    /// Number of octets of received DATA for which no WINDOW_UPDATE was sent yet.
    received: u32,
    budget: u32,
    is_draining: bool,
    /// The queries that the server did not process before it announced the end of the connection.
    unprocessed: Vec<Vec<u8>>,
    end: Option<HttpFault>,
    /// The reason why the last unsuccessful query has no response.
    failure: Option<HttpFault>,
    alternative: HeardAlternative,
}

/// The server's announcement of HTTP/3. It is read in one response between two calls of
/// [`Http2Client::refill`].
#[derive(Debug)]
enum HeardAlternative {
    /// The next response will be read.
    Wanted,
    /// A response has this announcement.
    Said(AltSvc),
    /// A response was read since the last call of [`Http2Client::refill`].
    Read,
}

impl Http2Client {
    /// Begins a connection.
    pub fn new(target: HttpTarget) -> Self {
        const ENABLE_PUSH: u16 = 2;
        const INITIAL_WINDOW_SIZE: u16 = 4;
        let mut settings = Vec::new();
        for (id, value) in [(ENABLE_PUSH, 0u32), (INITIAL_WINDOW_SIZE, STREAM_WINDOW)] {
            settings.extend_from_slice(&id.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        let mut out = Outgoing::new();
        let octets = out.end();
        octets.extend_from_slice(PREFACE);
        write_frame(octets, [SETTINGS, 0], 0, &settings);
        write_frame(octets, [WINDOW_UPDATE, 0], 0, &MORE_WINDOW.to_be_bytes());
        Self {
            out,
            fields: common_fields(&target),
            target,
            held: Vec::new(),
            decoder: FieldDecoder::new(),
            block: None,
            open: Vec::new(),
            waiting: VecDeque::new(),
            waiting_octets: 0,
            next_stream: 1,
            max_streams: FIRST_STREAMS,
            window: WINDOW,
            first_window: WINDOW,
            received: 0,
            budget: MAX_BUDGET,
            is_draining: false,
            unprocessed: Vec::new(),
            end: None,
            failure: None,
            alternative: HeardAlternative::Wanted,
        }
    }

    /// Reports whether a query still waits for its response.
    pub(crate) fn is_owed(&self) -> bool {
        !self.open.is_empty() || !self.waiting.is_empty()
    }

    /// Reports whether no further query can be sent, while responses are outstanding.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining && !self.has_ended()
    }

    /// Takes the queries that were not processed, if no further query can be sent.
    pub(crate) fn take_unprocessed(&mut self) -> Vec<Vec<u8>> {
        if !self.is_draining {
            return Vec::new();
        }
        self.waiting_octets = 0;
        let mut queries = mem::take(&mut self.unprocessed);
        queries.extend(self.waiting.drain(..).map(|query| query.query));
        queries
    }

    /// Takes the server's announcement of HTTP/3.
    pub(crate) fn take_alternative(&mut self) -> Option<AltSvc> {
        let HeardAlternative::Said(said) = self.alternative else { return None };
        self.alternative = HeardAlternative::Read;
        Some(said)
    }

    /// Queues a query. Drops a query without a complete header.
    pub(crate) fn push(&mut self, query: &[u8]) {
        if query.len() < HEADER_LEN || query.len() > MAX_MESSAGE {
            return;
        }
        self.waiting_octets += query.len();
        self.waiting.push_back(OpenQuery {
            stream: 0,
            query: query.to_vec(),
            status: 0,
            is_dns_message: false,
            body: Vec::new(),
            tries: 0,
            age: 0,
        });
        self.send_waiting();
    }

    /// Returns how many octets wait to be sent.
    pub(crate) fn unsent(&self) -> usize {
        self.out.len() + self.waiting_octets
    }

    /// Reports whether a part of a frame has arrived.
    pub(crate) fn is_partial(&self) -> bool {
        !self.held.is_empty() || self.block.is_some()
    }

    /// Reports whether the connection is over.
    pub(crate) fn has_ended(&self) -> bool {
        self.end.is_some() || self.is_draining && self.open.is_empty()
    }

    /// Takes the reason why a query has no response, or why a fault of the server has ended the
    /// connection.
    pub(crate) fn take_failure(&mut self) -> Option<HttpFault> {
        self.failure.take()
    }

    /// Takes octets of the server, and delivers the messages that are complete.
    pub(crate) fn take(&mut self, octets: &[u8], deliver: &mut impl FnMut(&[u8])) {
        if self.has_ended() {
            return;
        }
        if self.held.is_empty() {
            let used = self.process(octets, deliver);
            self.held.extend_from_slice(&octets[used..]);
        } else {
            let mut held = mem::take(&mut self.held);
            held.extend_from_slice(octets);
            let used = self.process(&held, deliver);
            held.drain(..used);
            trim(&mut held);
            self.held = held;
        }
        self.send_waiting();
    }

    /// Raises the budget of frames that the server may send without a response; called about every
    /// half second. Also drops queries that have waited too long, to make room for other queries.
    pub(crate) fn refill(&mut self) {
        self.budget = (self.budget + TIME_REFILL).min(MAX_BUDGET);
        self.alternative = HeardAlternative::Wanted;
        let Self { open, waiting, waiting_octets, out, .. } = self;
        let is_old = |query: &mut OpenQuery| {
            query.age = query.age.saturating_add(1);
            query.age > MAX_AGE
        };
        for query in open.extract_if(.., is_old) {
            let code = Code::Cancel as u32;
            write_frame(out.end(), [RST_STREAM, 0], query.stream, &code.to_be_bytes());
        }
        waiting.retain_mut(|query| {
            let is_old = is_old(query);
            *waiting_octets -= if is_old { query.query.len() } else { 0 };
            !is_old
        });
        self.send_waiting();
    }

    /// Announces to the server that no more requests follow.
    pub(crate) fn close(&mut self) {
        if self.end.is_none() {
            write_frame(self.out.end(), [GOAWAY, 0], 0, &[0; 8]);
        }
    }

    /// Sends as many of the waiting queries as the server permits.
    fn send_waiting(&mut self) {
        let limit = self.max_streams.min(MAX_STREAMS) as usize;
        while self.end.is_none()
            && !self.is_draining
            && self.open.len() < limit
            && let Some(query) = self.waiting.front()
        {
            let len = query.query.len() as i64;
            let is_get = self.target.method == HttpMethod::Get;
            if !is_get && len > self.window.min(self.first_window) {
                return;
            }
            // The stream IDs are used up: another connection must take over.
            if self.next_stream > LAST_STREAM {
                self.is_draining = true;
                return;
            }
            let Some(query) = self.waiting.pop_front() else { return };
            self.waiting_octets -= query.query.len();
            self.window -= if is_get { 0 } else { len };
            self.send(query);
        }
    }

    fn send(&mut self, mut query: OpenQuery) {
        const PATH: u8 = 4;
        query.stream = self.next_stream;
        query.tries += 1;
        self.next_stream += 2;
        // The ID is 0, so that equal queries have equal requests (RFC 8484 §4.1).
        let mut message = query.query.clone();
        message[..ID_LEN].fill(0);
        let mut block = self.fields.clone();
        let out = self.out.end();
        if self.target.method == HttpMethod::Get {
            let path = format!("{}?dns={}", self.target.path, BASE64URL_NOPAD.encode(&message));
            hpack::write(PATH, path.as_bytes(), &mut block);
            write_accept(&mut block);
            write_header_block(out, query.stream, &block);
        } else {
            write_frame(out, [HEADERS, END_HEADERS], query.stream, &block);
            write_body(out, query.stream, &message);
        }
        self.open.push(query);
    }

    /// Processes complete frames. Returns the number of octets that it used.
    fn process(&mut self, octets: &[u8], deliver: &mut impl FnMut(&[u8])) -> usize {
        let mut rest = octets;
        while !self.has_ended()
            && let Some((head, after)) = FrameHead::read(rest)
        {
            if head.len > MAX_PAYLOAD {
                self.fail(HttpFault::Malformed);
            }
            let Some(payload) = after.get(..head.len) else { break };
            rest = &after[head.len..];
            if let Err(fault) = self.frame(head, payload, deliver) {
                self.fail(fault);
            }
        }
        octets.len() - rest.len()
    }

    /// Ends the connection because of a fault of the server.
    fn fail(&mut self, fault: HttpFault) {
        self.failure = Some(fault.clone());
        self.end.get_or_insert(fault);
    }

    fn frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<(), HttpFault> {
        if self.block.is_some() != (head.kind == CONTINUATION) {
            return Err(HttpFault::Malformed);
        }
        self.budget = self.budget.checked_sub(1).ok_or(HttpFault::Malformed)?;
        match head.kind {
            HEADERS | CONTINUATION => self.header_block(head, payload, deliver),
            DATA => self.data(head, payload, deliver),
            SETTINGS | PING | GOAWAY if head.id != 0 => Err(HttpFault::Malformed),
            SETTINGS if !head.has(ACK) => self.settings(payload),
            SETTINGS if !payload.is_empty() => Err(HttpFault::Malformed),
            PING if payload.len() != PING_LEN => Err(HttpFault::Malformed),
            PING if !head.has(ACK) => {
                write_frame(self.out.end(), [PING, ACK], 0, payload);
                Ok(())
            }
            RST_STREAM | WINDOW_UPDATE if payload.len() != NUMBER_LEN => Err(HttpFault::Malformed),
            WINDOW_UPDATE => self.window_update(head.id, number(payload) & LAST_STREAM),
            RST_STREAM => {
                self.is_ours(head.id)?;
                self.reset(head.id, number(payload), deliver);
                Ok(())
            }
            GOAWAY if payload.len() < GOAWAY_LEN => Err(HttpFault::Malformed),
            GOAWAY => self.goaway(payload),
            PUSH_PROMISE => Err(HttpFault::Malformed),
            _ => Ok(()),
        }
    }

    /// Processes a WINDOW_UPDATE. Only the window of the connection matters, because each query
    /// fits the window of its stream.
    fn window_update(&mut self, id: u32, more: u32) -> Result<(), HttpFault> {
        if more == 0 {
            return Err(HttpFault::Malformed);
        }
        if id != 0 {
            return self.is_ours(id);
        }
        self.window += i64::from(more);
        if self.window > MAX_WINDOW { Err(HttpFault::Malformed) } else { Ok(()) }
    }

    fn settings(&mut self, payload: &[u8]) -> Result<(), HttpFault> {
        const MAX_CONCURRENT_STREAMS: u16 = 3;
        const INITIAL_WINDOW_SIZE: u16 = 4;
        let (entries, rest) = payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(HttpFault::Malformed);
        }
        for [high, low, value @ ..] in entries {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*high, *low]) {
                MAX_CONCURRENT_STREAMS => self.max_streams = value,
                INITIAL_WINDOW_SIZE if i64::from(value) > MAX_WINDOW => {
                    return Err(HttpFault::Malformed);
                }
                INITIAL_WINDOW_SIZE => self.first_window = value.into(),
                _ => {}
            }
        }
        write_frame(self.out.end(), [SETTINGS, ACK], 0, &[]);
        Ok(())
    }

    fn goaway(&mut self, payload: &[u8]) -> Result<(), HttpFault> {
        let last = number(payload) & LAST_STREAM;
        match number(payload.get(4..).unwrap_or_default()) {
            0 => {}
            code => return Err(HttpFault::Ended(code)),
        }
        // Later queries were not processed: they are sent again over another connection.
        let later = self.open.extract_if(.., |query| query.stream > last);
        self.unprocessed.extend(later.map(|query| query.query));
        self.is_draining = true;
        Ok(())
    }

    fn header_block(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<(), HttpFault> {
        /// Number of octets for the weight and the parent of a stream.
        const PRIORITY_LEN: usize = 5;
        let mut block = match self.block.take() {
            None => {
                let octets = unpadded(head, payload)?;
                let skipped = if head.has(WITH_PRIORITY) { PRIORITY_LEN } else { 0 };
                let octets = octets.get(skipped..).ok_or(HttpFault::Malformed)?.to_vec();
                HeaderBlock { head, octets }
            }
            Some(mut block) => {
                if block.head.id != head.id || block.octets.len() + payload.len() > MAX_BLOCK {
                    return Err(HttpFault::Malformed);
                }
                block.octets.extend_from_slice(payload);
                block
            }
        };
        if !head.has(END_HEADERS) {
            self.block = Some(block);
            return Ok(());
        }
        self.is_ours(head.id)?;
        let (mut status, mut is_dns_message) = (0, false);
        let (alternative, target) = (&mut self.alternative, &self.target);
        let mut visit = |name, value: &[u8]| match name {
            FieldName::Status => {
                status = str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0);
            }
            FieldName::ContentType => is_dns_message = value.starts_with(MEDIA_TYPE),
            FieldName::AltSvc if matches!(alternative, HeardAlternative::Wanted) => {
                let said = AltSvc::read(value, target.host());
                *alternative = said.map_or(HeardAlternative::Read, HeardAlternative::Said);
            }
            _ => {}
        };
        // The header block of a query that was given up still changes the table of fields.
        let octets = mem::take(&mut block.octets);
        self.decoder.read(&octets, &mut visit).map_err(|_| HttpFault::Malformed)?;
        if let Some(query) = self.open.iter_mut().find(|query| query.stream == head.id)
            // Header fields without a status are trailers, which do not change the stored status.
            && status != 0
        {
            (query.status, query.is_dns_message) = (status, is_dns_message);
        }
        if block.head.has(END_STREAM) {
            self.finish(head.id, deliver);
        }
        Ok(())
    }

    fn data(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<(), HttpFault> {
        self.is_ours(head.id)?;
        let content = unpadded(head, payload)?;
        self.received += payload.len() as u32;
        if self.received >= RETURNED {
            let returned = mem::take(&mut self.received).to_be_bytes();
            write_frame(self.out.end(), [WINDOW_UPDATE, 0], 0, &returned);
        }
        if let Some(query) = self.open.iter_mut().find(|query| query.stream == head.id) {
            // Other contents, such as an HTML page, are ignored.
            if query.status == 200 && query.is_dns_message {
                if query.body.len() + content.len() > MAX_MESSAGE {
                    return Err(HttpFault::Malformed);
                }
                query.body.extend_from_slice(content);
            }
        }
        if head.has(END_STREAM) {
            self.finish(head.id, deliver);
        }
        Ok(())
    }

    /// Checks that the client has opened the stream of a frame. The query of the stream may have
    /// been given up.
    fn is_ours(&self, id: u32) -> Result<(), HttpFault> {
        if id % 2 == 1 && id < self.next_stream { Ok(()) } else { Err(HttpFault::Malformed) }
    }

    fn remove(&mut self, id: u32) -> Option<OpenQuery> {
        let at = self.open.iter().position(|query| query.stream == id)?;
        Some(self.open.remove(at))
    }

    /// Delivers the response of a stream that is complete.
    fn finish(&mut self, id: u32, deliver: &mut impl FnMut(&[u8])) {
        let Some(mut query) = self.remove(id) else { return };
        self.budget = (self.budget + RESPONSE_REFILL).min(MAX_BUDGET);
        let fault = match query.status {
            200 if query.is_dns_message && is_response(&query.body, &query.query) => {
                query.body[..ID_LEN].copy_from_slice(&query.query[..ID_LEN]);
                return deliver(&query.body);
            }
            200 => HttpFault::MediaType,
            status => HttpFault::Status(status),
        };
        self.give_up(&query, fault, deliver);
    }

    fn reset(&mut self, id: u32, code: u32, deliver: &mut impl FnMut(&[u8])) {
        let Some(query) = self.remove(id) else { return };
        if code == Code::RefusedStream as u32 && query.tries < MAX_TRIES {
            self.waiting_octets += query.query.len();
            self.waiting.push_front(query);
            return;
        }
        self.give_up(&query, HttpFault::Reset(code), deliver);
    }

    fn give_up(&mut self, query: &OpenQuery, fault: HttpFault, deliver: &mut impl FnMut(&[u8])) {
        if let Some(message) = servfail(&query.query, &fault.to_string()) {
            deliver(&message);
        }
        self.failure = Some(fault);
    }
}

/// Returns the fields of a request that all queries share.
fn common_fields(target: &HttpTarget) -> Vec<u8> {
    const AUTHORITY: u8 = 1;
    const PATH: u8 = 4;
    const CONTENT_TYPE: u8 = 31;
    /// `:method: GET`, `:method: POST` and `:scheme: https` in the static table.
    const GET: u8 = 0x82;
    const POST: u8 = 0x83;
    const HTTPS: u8 = 0x87;
    let is_get = target.method == HttpMethod::Get;
    let mut out = vec![if is_get { GET } else { POST }, HTTPS];
    hpack::write(AUTHORITY, target.authority.as_bytes(), &mut out);
    // With GET, the path contains the query, and comes before the fields without a colon.
    if !is_get {
        hpack::write(PATH, target.path.as_bytes(), &mut out);
        hpack::write(CONTENT_TYPE, MEDIA_TYPE, &mut out);
        write_accept(&mut out);
    }
    out
}

fn write_accept(out: &mut Vec<u8>) {
    const ACCEPT: u8 = 19;
    hpack::write(ACCEPT, MEDIA_TYPE, out);
}

/// Writes the header block of a request without a body.
fn write_header_block(out: &mut Vec<u8>, id: u32, block: &[u8]) {
    let mut parts = block.chunks(MAX_PAYLOAD).peekable();
    let mut kind = [HEADERS, END_STREAM];
    while let Some(part) = parts.next() {
        kind[1] |= if parts.peek().is_none() { END_HEADERS } else { 0 };
        write_frame(out, kind, id, part);
        kind = [CONTINUATION, 0];
    }
}

fn write_body(out: &mut Vec<u8>, id: u32, body: &[u8]) {
    let mut parts = body.chunks(MAX_PAYLOAD).peekable();
    while let Some(part) = parts.next() {
        let end = if parts.peek().is_none() { END_STREAM } else { 0 };
        write_frame(out, [DATA, end], id, part);
    }
}

fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets))
}

#[cfg(test)]
mod tests;
