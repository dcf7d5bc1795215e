//! HTTP/3 for DNS over HTTPS (RFC 9114, RFC 8484): the octets of streams, for the server. The
//! module [`quic`](crate::quic) provides the streams themselves.
//!
//! ```text
//! request stream:  HEADERS -- DATA ... -- (HEADERS: trailers, without a meaning) -- end
//! control stream:  SETTINGS -- frames that change nothing here
//! ```

use avocet_wire::MAX_MESSAGE;

use super::form::{Media, REASON_TYPE, ResponseExtent, ResponseForm, Status, decimal};
use super::hpack::{BadBlock, MAX_FIELDS};
use super::qpack;
use super::request::{RequestHead, RequestVerdict};
use super::response::Content;

/// Frame types (RFC 9114 §7.2).
pub(super) const DATA: u64 = 0;
pub(super) const HEADERS: u64 = 1;
const CANCEL_PUSH: u64 = 3;
pub(super) const SETTINGS: u64 = 4;
pub(super) const PUSH_PROMISE: u64 = 5;
const GOAWAY: u64 = 7;
const MAX_PUSH_ID: u64 = 13;
/// Frame types of HTTP/2 that must not occur (RFC 9114 §7.2.8).
const OF_HTTP2: [u64; 4] = [2, 6, 8, 9];
/// Stream types (RFC 9114 §6.2, RFC 9204 §4.2).
const CONTROL_STREAM: u64 = 0;
const PUSH_STREAM: u64 = 1;
const ENCODER_STREAM: u64 = 2;
const DECODER_STREAM: u64 = 3;
/// Maximum number of octets of a header block.
pub(super) const MAX_BLOCK: u64 = 32 << 10;
/// Maximum number of octets of the settings of a client.
const MAX_SETTINGS: u64 = 1 << 10;
/// The only instruction that may follow on the encoder stream, because the dynamic table has no
/// octets.
const NO_TABLE: u8 = 0x20;

/// The reason why a connection or a stream ends (RFC 9114 §8.1, RFC 9204 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum H3Error {
    /// There is no error.
    None = 0x100,
    /// The peer violates the protocol.
    Protocol = 0x101,
    /// An internal error occurred at the sender of this code.
    Internal = 0x102,
    /// The peer has opened a stream that it must not open.
    StreamCreation = 0x103,
    /// A stream that must stay open has ended.
    ClosedCriticalStream = 0x104,
    /// A frame is on the wrong stream or at the wrong place.
    FrameUnexpected = 0x105,
    /// A frame has the wrong length.
    Frame = 0x106,
    /// The peer causes too much work or sends too much.
    ExcessiveLoad = 0x107,
    /// A stream ID or push ID was not permitted, or contradicts an earlier one.
    Id = 0x108,
    /// The settings contain a setting that is not permitted.
    Settings = 0x109,
    /// The first frame of the control stream is not SETTINGS.
    MissingSettings = 0x10a,
    /// The server has not processed the request.
    RequestRejected = 0x10b,
    /// The request or its response is no longer needed.
    Cancelled = 0x10c,
    /// The request ended before it was complete.
    RequestIncomplete = 0x10d,
    /// The request is malformed.
    Message = 0x10e,
    /// A header block cannot be read.
    Decompression = 0x200,
    /// The encoder stream changes the dynamic table, which does not exist.
    EncoderStream = 0x201,
}

impl From<BadBlock> for H3Error {
    fn from(_: BadBlock) -> Self {
        Self::Decompression
    }
}

/// Reads an integer of variable length (RFC 9000 §16); `None` if it is incomplete.
pub(crate) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let first = *rest.first()?;
    let len = 1usize << (first >> 6);
    let (octets, after) = rest.split_at_checked(len)?;
    *rest = after;
    let value = octets.iter().fold(0, |value, octet| value << 8 | u64::from(*octet));
    Some(value & (u64::MAX >> (64 - 8 * len as u32 + 2)))
}

/// Appends an integer of variable length.
pub(crate) fn write_varint(value: u64, out: &mut Vec<u8>) {
    match value {
        0..=0x3f => out.push(value as u8),
        0x40..=0x3fff => out.extend_from_slice(&(value as u16 | 0x4000).to_be_bytes()),
        0x4000..=0x3fff_ffff => out.extend_from_slice(&(value as u32 | 1 << 31).to_be_bytes()),
        _ => out.extend_from_slice(&(value | 3 << 62).to_be_bytes()),
    }
}

/// Splits the octets of a stream into frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// An incomplete head of a frame, or an incomplete payload that is collected.
    held: Vec<u8>,
    current: Option<Frame>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: u64,
    /// Number of octets of the payload that have not arrived.
    left: u64,
    handling: Handling,
}

/// How the payload of a frame is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    /// The payload is needed as a whole.
    Collect,
    /// The payload is passed on as it arrives.
    Pass,
    /// The payload is skipped, because it has no meaning here.
    Skip,
}

/// A receiver of frames.
pub(super) trait FrameSink {
    /// Chooses how a frame of this kind and length is handled.
    fn begin(&mut self, kind: u64, len: u64) -> Result<Handling, H3Error>;
    /// Handles a payload, or a part of a payload that is passed on in pieces.
    fn payload(&mut self, kind: u64, octets: &[u8]) -> Result<(), H3Error>;
}

impl Frames {
    pub(super) fn take(&mut self, octets: &[u8], sink: &mut impl FrameSink) -> Result<(), H3Error> {
        let mut rest = octets;
        loop {
            let Some(frame) = &mut self.current else {
                let Some((kind, left)) = self.head(&mut rest) else { return Ok(()) };
                let handling = sink.begin(kind, left)?;
                self.current = Some(Frame { kind, left, handling });
                continue;
            };
            let taken = rest.len().min(usize::try_from(frame.left).unwrap_or(usize::MAX));
            let (octets, after) = rest.split_at(taken);
            (rest, frame.left) = (after, frame.left - taken as u64);
            let Frame { kind, left, handling } = *frame;
            match handling {
                Handling::Collect => self.held.extend_from_slice(octets),
                Handling::Pass => sink.payload(kind, octets)?,
                Handling::Skip => {}
            }
            if left > 0 {
                return Ok(());
            }
            self.current = None;
            if handling == Handling::Collect {
                let whole = std::mem::take(&mut self.held);
                sink.payload(kind, &whole)?;
            }
        }
    }

    /// Reads the head of a frame: its kind and length.
    fn head(&mut self, rest: &mut &[u8]) -> Option<(u64, u64)> {
        /// Maximum number of octets of the two integers of a head.
        const HEAD_MAX: usize = 16;
        let before = self.held.len();
        let added = rest.len().min(HEAD_MAX - before);
        self.held.extend_from_slice(&rest[..added]);
        let mut head = self.held.as_slice();
        let found = varint(&mut head).and_then(|kind| Some((kind, varint(&mut head)?)));
        let used = self.held.len() - head.len();
        if found.is_some() {
            *rest = &rest[used - before..];
            self.held.clear();
        } else {
            *rest = &[];
        }
        found
    }

    pub(super) fn is_between_frames(&self) -> bool {
        self.current.is_none() && self.held.is_empty()
    }

    /// Returns the number of buffered octets.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }
}

/// The request of a stream, as far as it has arrived.
#[derive(Debug, Default)]
pub(crate) struct H3Request {
    frames: Frames,
    message: RequestMessage,
}

#[derive(Debug, Default)]
struct RequestMessage {
    verdict: Option<RequestVerdict>,
    /// The device identifier of the client in the path of the request.
    word: Option<Box<[u8]>>,
    media: Media,
    content_length: Option<usize>,
    body: Vec<u8>,
    has_trailers: bool,
}

/// The outcome of a complete request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum H3Asked {
    /// The request has a query.
    Query(Vec<u8>, ResponseExtent),
    /// The request has no query.
    Reject(Status),
}

impl H3Request {
    /// Takes octets of the stream. Returns a status once the request is rejected: the rest of the
    /// request is not read.
    ///
    /// # Errors
    /// The client violates the protocol: [`H3Error::Message`] ends the stream, any other error the
    /// connection.
    pub(crate) fn take(&mut self, octets: &[u8]) -> Result<Option<Status>, H3Error> {
        self.frames.take(octets, &mut self.message)?;
        Ok(match self.message.verdict {
            Some(RequestVerdict::Reject(status)) => Some(status),
            _ => None,
        })
    }

    /// Returns the query of the request, or the status of its rejection, at the end of its stream.
    ///
    /// # Errors
    /// The request is incomplete, or its body has another length than stated.
    pub(crate) fn end(&mut self) -> Result<H3Asked, H3Error> {
        let RequestMessage { verdict, content_length, body, .. } = &mut self.message;
        let verdict = verdict.take().filter(|_| self.frames.is_between_frames());
        if content_length.is_some_and(|len| len != body.len()) {
            return Err(H3Error::Message);
        }
        Ok(match verdict.ok_or(H3Error::RequestIncomplete)? {
            RequestVerdict::Reject(status) => H3Asked::Reject(status),
            RequestVerdict::Query(..) if !body.is_empty() => H3Asked::Reject(Status::BadRequest),
            RequestVerdict::Query(query, extent) => H3Asked::Query(query, extent),
            RequestVerdict::Body if body.is_empty() => H3Asked::Reject(Status::BadRequest),
            RequestVerdict::Body => H3Asked::Query(std::mem::take(body), ResponseExtent::Whole),
        })
    }

    /// Returns the form of the response to the query.
    pub(crate) fn media(&self) -> Media {
        self.message.media.clone()
    }

    /// Takes the device identifier of the client from the path of the request.
    pub(crate) fn take_word(&mut self) -> Option<Box<[u8]>> {
        self.message.word.take()
    }

    /// Returns the number of buffered octets.
    pub(crate) fn held(&self) -> usize {
        let query = match &self.message.verdict {
            Some(RequestVerdict::Query(query, _)) => query.len(),
            _ => 0,
        };
        self.frames.held.len() + self.message.body.len() + query
    }
}

impl FrameSink for RequestMessage {
    fn begin(&mut self, kind: u64, len: u64) -> Result<Handling, H3Error> {
        match kind {
            HEADERS if self.has_trailers => Err(H3Error::FrameUnexpected),
            HEADERS if len > MAX_BLOCK => Err(H3Error::ExcessiveLoad),
            HEADERS => Ok(Handling::Collect),
            DATA if self.verdict.is_none() || self.has_trailers => Err(H3Error::FrameUnexpected),
            DATA => Ok(Handling::Pass),
            CANCEL_PUSH | SETTINGS | PUSH_PROMISE | GOAWAY | MAX_PUSH_ID => {
                Err(H3Error::FrameUnexpected)
            }
            kind if OF_HTTP2.contains(&kind) => Err(H3Error::FrameUnexpected),
            _ => Ok(Handling::Skip),
        }
    }

    fn payload(&mut self, kind: u64, octets: &[u8]) -> Result<(), H3Error> {
        if kind == DATA {
            if self.body.len() + octets.len() > MAX_MESSAGE {
                self.verdict = Some(RequestVerdict::Reject(Status::LargeBody));
                self.body = Vec::new();
            } else if matches!(self.verdict, Some(RequestVerdict::Body | RequestVerdict::Query(..)))
            {
                self.body.extend_from_slice(octets);
            }
            return Ok(());
        }
        let mut head = RequestHead::default();
        let size = qpack::read(octets, &mut |name, value| head.field(name, value))?;
        if self.verdict.is_some() {
            self.has_trailers = true;
            return if head.may_be_trailers() { Ok(()) } else { Err(H3Error::Message) };
        }
        if size > MAX_FIELDS {
            self.verdict = Some(RequestVerdict::Reject(Status::LargeFields));
            return Ok(());
        }
        if head.is_malformed || head.is_incomplete() || head.lacks_host() {
            return Err(H3Error::Message);
        }
        self.content_length = head.content_length;
        (self.word, self.media) = (head.take_word(), head.media());
        self.verdict = Some(head.verdict());
        Ok(())
    }
}

/// Returns the octets of a response. With status 200, the body is `message`; otherwise it explains
/// the status.
pub(crate) fn response(status: Status, message: &[u8], form: &ResponseForm) -> Vec<u8> {
    /// Estimated number of octets of frame heads and header fields.
    const OVERHEAD: usize = 64;
    let body = match status {
        Status::Ok => form.media.body(message),
        status => Some(status.reason().as_bytes().into()),
    };
    let status = if body.is_some() { status } else { Status::Refused };
    let body = body.unwrap_or_default();
    let mut block = Vec::with_capacity(OVERHEAD);
    let content = Content { media: &form.media, message, len: body.len(), ..Content::NONE };
    write_fields(status, content, &mut block);
    let mut out = Vec::with_capacity(OVERHEAD + block.len() + body.len());
    write_varint(HEADERS, &mut out);
    write_varint(block.len() as u64, &mut out);
    out.extend_from_slice(&block);
    if !body.is_empty() && form.extent == ResponseExtent::Whole {
        write_varint(DATA, &mut out);
        write_varint(body.len() as u64, &mut out);
        out.extend_from_slice(&body);
    }
    out
}

fn write_fields(status: Status, content: Content<'_>, out: &mut Vec<u8>) {
    /// Entries of the static table.
    const CONTENT_LENGTH: u8 = 4;
    const STATUS: u8 = 24;
    const OK: u8 = 25;
    const CACHE_CONTROL: u8 = 36;
    const DNS_MESSAGE: u8 = 44;
    let Content { media, message, len, .. } = content;
    out.extend_from_slice(&qpack::PREFIX);
    if status != Status::Ok {
        qpack::write_value(STATUS, status.digits().as_bytes(), out);
        if status == Status::BadMethod {
            qpack::write_field(b"allow", b"GET, HEAD, POST", out);
        }
        if len > 0 {
            qpack::write_field(b"content-type", REASON_TYPE, out);
        }
        return;
    }
    let mut digits = [0; 10];
    qpack::write_entry(OK, out);
    match media {
        Media::Message => qpack::write_entry(DNS_MESSAGE, out),
        _ => qpack::write_field(b"content-type", media.name(), out),
    }
    qpack::write_value(CONTENT_LENGTH, decimal(len as u32, &mut digits), out);
    let freshness = media.freshness(message);
    qpack::write_value(CACHE_CONTROL, freshness.write(&mut [0; 18]), out);
}

/// Returns the octets with which the control stream of the server begins.
pub(crate) fn settings() -> Vec<u8> {
    const MAX_FIELD_SECTION_SIZE: u64 = 6;
    let mut payload = Vec::new();
    write_varint(MAX_FIELD_SECTION_SIZE, &mut payload);
    write_varint(MAX_FIELDS as u64, &mut payload);
    let mut out = vec![CONTROL_STREAM as u8, SETTINGS as u8, payload.len() as u8];
    out.extend_from_slice(&payload);
    out
}

/// Returns a GOAWAY frame: requests from this stream ID on are not answered.
pub(crate) fn goaway(stream: u64) -> Vec<u8> {
    let (mut payload, mut out) = (Vec::new(), vec![GOAWAY as u8]);
    write_varint(stream, &mut payload);
    out.push(payload.len() as u8);
    out.extend_from_slice(&payload);
    out
}

/// A unidirectional stream from the peer.
#[derive(Debug, Default)]
pub(crate) struct H3Stream {
    held: Vec<u8>,
    kind: Option<StreamKind>,
    frames: Frames,
    control: ControlFrames,
}

/// The kind of a unidirectional stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// The control stream, with settings and other frames.
    Control,
    /// Changes to the dynamic table of the decoder at this end.
    Encoder,
    /// Acknowledgements for the encoder at this end, which has no dynamic table.
    Decoder,
    /// A stream of an unknown kind.
    Unknown,
}

#[derive(Debug, Default)]
struct ControlFrames {
    has_settings: bool,
    /// The lowest stream ID whose request the peer does not answer, after its GOAWAY.
    last: Option<u64>,
    /// The highest push ID that the peer accepts.
    max_push: Option<u64>,
}

impl H3Stream {
    /// Takes octets of the stream.
    ///
    /// # Errors
    /// The peer violates the protocol: the connection must end.
    pub(crate) fn take(&mut self, octets: &[u8]) -> Result<(), H3Error> {
        let mut rest = octets;
        if self.kind.is_none() {
            /// Maximum number of octets of an encoded integer.
            const KIND_MAX: usize = 8;
            let before = self.held.len();
            let added = rest.len().min(KIND_MAX - before);
            self.held.extend_from_slice(&rest[..added]);
            let mut head = self.held.as_slice();
            let Some(kind) = varint(&mut head) else { return Ok(()) };
            rest = &rest[self.held.len() - head.len() - before..];
            self.held = Vec::new();
            self.kind = Some(match kind {
                CONTROL_STREAM => StreamKind::Control,
                ENCODER_STREAM => StreamKind::Encoder,
                DECODER_STREAM => StreamKind::Decoder,
                // Only servers push.
                PUSH_STREAM => return Err(H3Error::StreamCreation),
                _ => StreamKind::Unknown,
            });
        }
        match self.kind {
            Some(StreamKind::Control) => self.frames.take(rest, &mut self.control),
            Some(StreamKind::Encoder) if rest.iter().any(|octet| *octet != NO_TABLE) => {
                Err(H3Error::EncoderStream)
            }
            _ => Ok(()),
        }
    }

    /// Returns the lowest stream ID whose request the peer does not answer, once the peer has sent
    /// GOAWAY.
    pub(crate) fn last(&self) -> Option<u64> {
        self.control.last
    }

    /// Returns the kind of the stream, once it is known.
    pub(crate) fn kind(&self) -> Option<StreamKind> {
        self.kind
    }
}

impl FrameSink for ControlFrames {
    fn begin(&mut self, kind: u64, len: u64) -> Result<Handling, H3Error> {
        match kind {
            SETTINGS if self.has_settings => Err(H3Error::FrameUnexpected),
            SETTINGS if len > MAX_SETTINGS => Err(H3Error::ExcessiveLoad),
            SETTINGS => Ok(Handling::Collect),
            _ if !self.has_settings => Err(H3Error::MissingSettings),
            DATA | HEADERS | PUSH_PROMISE => Err(H3Error::FrameUnexpected),
            kind if OF_HTTP2.contains(&kind) => Err(H3Error::FrameUnexpected),
            // The payload of these frames is one integer.
            CANCEL_PUSH | GOAWAY | MAX_PUSH_ID if !(1..=8).contains(&len) => Err(H3Error::Frame),
            // This end has sent no push, so the peer can cancel none (RFC 9114 §7.2.3).
            CANCEL_PUSH => Err(H3Error::Id),
            GOAWAY | MAX_PUSH_ID => Ok(Handling::Collect),
            _ => Ok(Handling::Skip),
        }
    }

    fn payload(&mut self, kind: u64, octets: &[u8]) -> Result<(), H3Error> {
        /// Settings of HTTP/2 that must not occur (RFC 9114 §7.2.4.1).
        const OF_HTTP2: std::ops::RangeInclusive<u64> = 2..=5;
        let mut rest = octets;
        if kind == GOAWAY || kind == MAX_PUSH_ID {
            let number = varint(&mut rest).filter(|_| rest.is_empty()).ok_or(H3Error::Frame)?;
            let goes_back = if kind == GOAWAY {
                // RFC 9114 §5.2: the ID in GOAWAY must not rise.
                self.last.replace(number).is_some_and(|before| number > before)
            } else {
                // RFC 9114 §7.2.7: the maximum push ID must not fall.
                self.max_push.replace(number).is_some_and(|before| number < before)
            };
            return if goes_back { Err(H3Error::Id) } else { Ok(()) };
        }
        self.has_settings = true;
        while !rest.is_empty() {
            let name = varint(&mut rest).ok_or(H3Error::Frame)?;
            varint(&mut rest).ok_or(H3Error::Frame)?;
            if OF_HTTP2.contains(&name) {
                return Err(H3Error::Settings);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
