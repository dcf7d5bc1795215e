//! DNS over HTTP/1.1 (RFC 9112): one request after the other, for clients without HTTP/2.
//!
//! Responses keep the order of requests, so the next request is read only after the previous
//! request has its response.

use std::ops::ControlFlow;
use std::sync::Arc;

use avocet_wire::MAX_MESSAGE;
use httparse::{EMPTY_HEADER, Error, Header, Request};

use super::form::{Media, RequestContent, ResponseExtent, Status};
use super::hpack::FieldName;
use super::request::{RequestHead, RequestVerdict};
use super::response::alternative;
use super::{Replies, ReplyPlace};
use crate::frame::{Outgoing, trim};
use crate::oblivious::ReplySeal;

/// Maximum number of fields of a request.
const MAX_FIELD_COUNT: usize = 64;
/// Maximum number of octets before the body.
const MAX_HEAD: usize = 16 << 10;
/// Maximum number of pieces in which the head of a request arrives. Each piece causes another
/// attempt to read the head.
const MAX_PIECES: u32 = 64;
/// Maximum number of requests without a query before the next query. The last of them ends the
/// connection.
pub(super) const MAX_REJECTED: u32 = 64;
/// The interim response that lets a client send its body (RFC 9110 §10.1.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 \r\n\r\n";
/// The header field of the last response of a connection.
const CLOSE: &str = "Connection: close\r\n";

/// A request that has no response yet.
#[derive(Debug)]
struct PendingRequest {
    extent: ResponseExtent,
    media: Media,
    /// Whether the request is the last one of its connection.
    is_last: bool,
}

impl PendingRequest {
    /// A rejected request, which has no query.
    const REJECTED: Self =
        Self { extent: ResponseExtent::Whole, media: Media::Message, is_last: false };
}

/// A connection.
#[derive(Debug, Default)]
pub(crate) struct Http1 {
    /// The octets that were received but not processed yet.
    pub(crate) held: Vec<u8>,
    pub(crate) out: Outgoing,
    pending: Option<PendingRequest>,
    /// Whether a complete request may wait in `held`.
    is_stopped: bool,
    pieces: u32,
    /// Number of octets of the first request in `held`; known once the head of the request is
    /// complete.
    needed: usize,
    /// Number of requests without a query since the last query.
    rejected: u32,
    /// Number of responses that were sent; it wraps.
    pub(super) replied: u32,
    /// The port of HTTP/3 that a response still has to announce to the client; 0 for none.
    pub(super) h3_port: u16,
    has_ended: bool,
    /// Whether the next request is the last one of the connection.
    is_ending: bool,
}

/// The result of an attempt to read a request.
enum Progress {
    Incomplete,
    /// The request was processed. It had this number of octets.
    Used(usize, ControlFlow<()>),
    /// The connection has ended.
    Ended,
}

impl Http1 {
    /// Creates a connection that announces the port of HTTP/3 to its client.
    pub(super) fn announcing(h3_port: u16) -> Self {
        Self { h3_port, ..Self::default() }
    }

    /// Announces the end of the connection in the next response.
    pub(super) fn announce_end(&mut self) {
        self.is_ending = true;
        if let Some(pending) = &mut self.pending {
            pending.is_last = true;
            self.has_ended = true;
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped && self.pending.is_none()
    }

    /// Reports whether a response must be sent before the next request is read.
    pub(crate) fn must_wait(&self) -> bool {
        self.pending.is_some()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended && self.pending.is_none()
    }

    pub(crate) fn is_partial(&self) -> bool {
        !self.held.is_empty() && self.pending.is_none()
    }

    pub(crate) fn take(
        &mut self,
        octets: &[u8],
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if !self.has_ended {
            self.held.extend_from_slice(octets);
        }
        if self.is_stopped || self.pending.is_some() {
            self.is_stopped = true;
            return ControlFlow::Break(());
        }
        self.resume(deliver)
    }

    pub(crate) fn resume(
        &mut self,
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let octets = std::mem::take(&mut self.held);
        let mut used = 0;
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue() && used < octets.len() {
            match self.request(&octets[used..], deliver) {
                Progress::Incomplete => break,
                Progress::Ended => {
                    self.has_ended = true;
                    return ControlFlow::Continue(());
                }
                Progress::Used(taken, then) => {
                    used += taken;
                    flow = if self.pending.is_some() { ControlFlow::Break(()) } else { then };
                }
            }
            if self.has_ended {
                return ControlFlow::Continue(());
            }
        }
        self.held = octets;
        self.held.drain(..used);
        trim(&mut self.held);
        self.is_stopped = flow.is_break();
        flow
    }

    fn request(
        &mut self,
        octets: &[u8],
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> Progress {
        if octets.len() < self.needed {
            return Progress::Incomplete;
        }
        let is_continued = std::mem::take(&mut self.needed) > 0;
        let mut fields = [EMPTY_HEADER; MAX_FIELD_COUNT];
        let mut request = Request::new(&mut fields);
        let head_len = match request.parse(octets) {
            Ok(httparse::Status::Complete(len)) if len <= MAX_HEAD => len,
            Ok(httparse::Status::Partial) if octets.len() < MAX_HEAD => return self.piece(),
            Ok(_) | Err(Error::TooManyHeaders) => return self.end(Status::LargeFields),
            Err(_) => return self.end(Status::BadRequest),
        };
        let Http1Head { mut head, is_last, expects } = match read_head(&request) {
            Ok(read) => read,
            Err(status) => return self.end(status),
        };
        let is_last = is_last || self.is_ending;
        let body_len = head.content_length.unwrap_or(0);
        if body_len > MAX_MESSAGE {
            return self.end(Status::LargeBody);
        }
        let Some(body) = octets.get(head_len..head_len + body_len) else {
            self.needed = head_len + body_len;
            if expects == Expects::Continue && !is_continued {
                self.out.end().extend_from_slice(CONTINUE);
            }
            return Progress::Incomplete;
        };
        self.pieces = 0;
        let has_length = head.content_length.is_some();
        let (word, media) = (head.take_word(), head.media());
        self.has_ended = is_last;
        let verdict = match head.verdict() {
            RequestVerdict::Body if has_length && body.is_empty() => {
                RequestVerdict::Reject(Status::BadRequest)
            }
            verdict => verdict,
        };
        let (message, extent) = match verdict {
            RequestVerdict::Query(message, extent) => (message, extent),
            RequestVerdict::Body if has_length => (body.to_vec(), ResponseExtent::Whole),
            RequestVerdict::Body => return self.end(Status::NoLength),
            RequestVerdict::Reject(status) => {
                self.rejected += 1;
                self.has_ended |= self.rejected >= MAX_REJECTED;
                let is_last = self.has_ended;
                self.respond(status, b"", PendingRequest { is_last, ..PendingRequest::REJECTED });
                return Progress::Used(head_len + body_len, ControlFlow::Continue(()));
            }
        };
        let content = media.content();
        if content == RequestContent::Query {
            self.rejected = 0;
        } else {
            // Set back when an oblivious query is decrypted or forwarded.
            self.rejected += 1;
            self.has_ended |= self.rejected >= MAX_REJECTED;
        }
        let is_last = self.has_ended;
        self.pending = Some(PendingRequest { extent, media, is_last });
        let place = ReplyPlace::One(self);
        let flow = deliver(&message, &mut Replies::at(place).named(word.as_deref()).of(content));
        Progress::Used(head_len + body_len, flow)
    }

    fn piece(&mut self) -> Progress {
        self.pieces += 1;
        if self.pieces > MAX_PIECES { self.end(Status::Slow) } else { Progress::Incomplete }
    }

    /// Ends the connection with a response.
    fn end(&mut self, status: Status) -> Progress {
        self.respond(status, b"", PendingRequest { is_last: true, ..PendingRequest::REJECTED });
        Progress::Ended
    }

    /// Answers the request that has no response yet.
    pub(crate) fn answer(&mut self, message: &[u8]) {
        let Some(pending) = self.pending.take() else { return };
        if pending.media.content() == RequestContent::Proxied {
            self.rejected = 0;
        }
        let (status, message) = pending.media.answered(message);
        self.respond(status, message, pending);
    }

    /// Sets the keys that seal the response.
    pub(super) fn seal_with(&mut self, seal: Arc<ReplySeal>) {
        self.rejected = 0;
        if let Some(pending) = &mut self.pending {
            pending.media = Media::Oblivious(Some(seal));
        }
    }

    /// Answers the request that has no response yet with a status.
    pub(super) fn reject(&mut self, status: Status) {
        if let Some(PendingRequest { is_last, .. }) = self.pending.take() {
            self.respond(status, b"", PendingRequest { is_last, ..PendingRequest::REJECTED });
        }
    }

    /// Ends the request that has no response yet, without a DNS message.
    pub(crate) fn refuse(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.respond(Status::Refused, b"", pending);
        }
    }

    /// Writes a response. Status 200 has the message as body, other statuses may have an
    /// explanation.
    fn respond(&mut self, status: Status, message: &[u8], request: PendingRequest) {
        self.replied = self.replied.wrapping_add(1);
        let body = match status {
            Status::Ok => request.media.body(message),
            status => Some(status.reason().as_bytes().into()),
        };
        let status = if body.is_some() { status } else { Status::Refused };
        let announced = if status == Status::Ok { std::mem::take(&mut self.h3_port) } else { 0 };
        let body = body.unwrap_or_default();
        let out = self.out.end();
        let mut text = |part: &str| out.extend_from_slice(part.as_bytes());
        text("HTTP/1.1 ");
        text(status.digits());
        text(" \r\n");
        if status != Status::Ok && !body.is_empty() {
            text("Content-Type: text/plain\r\n");
        }
        if status == Status::Ok {
            text("Content-Type: ");
            text(str::from_utf8(request.media.name()).unwrap_or_default());
            text("\r\nCache-Control: ");
            let freshness = request.media.freshness(message);
            text(str::from_utf8(freshness.write(&mut [0; 18])).unwrap_or_default());
            text("\r\n");
        }
        if announced != 0 {
            text("Alt-Svc: ");
            text(&alternative(announced));
            text("\r\n");
        }
        if status == Status::BadMethod {
            text("Allow: GET, HEAD, POST\r\n");
        }
        if request.is_last {
            text(CLOSE);
        }
        text("Content-Length: ");
        text(&body.len().to_string());
        text("\r\n\r\n");
        if request.extent == ResponseExtent::Whole {
            out.extend_from_slice(&body);
        }
    }
}

/// The reply that the client waits for before it sends the body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expects {
    Nothing,
    Continue,
}

/// The head of a request.
struct Http1Head {
    head: RequestHead,
    /// Whether the connection ends after the request.
    is_last: bool,
    expects: Expects,
}

/// Reads the fields.
fn read_head(request: &Request<'_, '_>) -> Result<Http1Head, Status> {
    let mut head = RequestHead::default();
    head.field(FieldName::Method, request.method.unwrap_or_default().as_bytes());
    head.field(FieldName::Path, origin_form(request.path.unwrap_or_default()).as_bytes());
    let is_old = request.version == Some(0);
    let (mut is_last, mut expects, mut hosts) = (is_old, Expects::Nothing, 0);
    for Header { name, value } in request.headers.iter() {
        if name.eq_ignore_ascii_case("content-type") {
            head.field(FieldName::ContentType, value);
        } else if name.eq_ignore_ascii_case("content-length") {
            head.field(FieldName::ContentLength, value);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            // A chunked body does not state its length. A request with both fields may be an attack
            // (RFC 9112 §6.3).
            return Err(Status::NoLength);
        } else if name.eq_ignore_ascii_case("connection") {
            is_last |= value.trim_ascii().eq_ignore_ascii_case(b"close");
        } else if name.eq_ignore_ascii_case("host") {
            hosts += 1;
        } else if name.eq_ignore_ascii_case("expect")
            && value.trim_ascii().eq_ignore_ascii_case(b"100-continue")
            && !is_old
        {
            expects = Expects::Continue;
        }
    }
    // A request has one Host field, which only HTTP/1.0 permits to leave out (RFC 9112 §3.2).
    let lacks_host = hosts == 0 && !is_old;
    if head.is_malformed || lacks_host || hosts > 1 {
        return Err(Status::BadRequest);
    }
    Ok(Http1Head { head, is_last, expects })
}

/// Returns the path and the parameters of a request target. The target may begin with a scheme and
/// a host (RFC 9112 §3.2.2).
fn origin_form(target: &str) -> &str {
    let has_scheme = |scheme: &&str| {
        target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    match ["https://", "http://"].iter().find(|scheme| has_scheme(scheme)) {
        Some(scheme) => {
            let rest = &target[scheme.len()..];
            rest.find('/').map_or("/", |at| &rest[at..])
        }
        None => target,
    }
}
