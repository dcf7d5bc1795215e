//! HTTP/3 for DNS over HTTPS (RFC 9114, RFC 8484): the octets of streams, the server's end. The
//! streams themselves are those of [`quic`](crate::quic).
//!
//! ```text
//! request stream:  HEADERS -- DATA ... -- (HEADERS: trailers, without a meaning) -- end
//! control stream:  SETTINGS -- frames that change nothing here
//! ```

use avocet_wire::MAX_MESSAGE;

use super::hpack::{BadBlock, MAX_FIELDS};
use super::qpack;
use super::request::{
    Media, REASON_TYPE, RequestHead, RequestVerdict, ResponseExtent, ResponseForm, Status, max_age,
};
use super::response::{Content, decimal};

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
/// Most octets of a header block.
pub(super) const MAX_BLOCK: u64 = 32 << 10;
/// Most octets of the settings of a client.
const MAX_SETTINGS: u64 = 1 << 10;
/// The instruction of the encoder stream that a table of no octets permits.
const NO_TABLE: u8 = 0x20;

/// Why a connection or a stream ends (RFC 9114 §8.1, RFC 9204 §6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum H3Error {
    /// Nothing is wrong.
    None = 0x100,
    /// The peer violates the protocol.
    Protocol = 0x101,
    /// The server cannot answer.
    Internal = 0x102,
    /// A stream that the peer must not open.
    StreamCreation = 0x103,
    /// A stream has ended that must not end.
    ClosedCriticalStream = 0x104,
    /// A frame on the wrong stream or at the wrong place.
    FrameUnexpected = 0x105,
    /// A frame of the wrong length.
    Frame = 0x106,
    /// The peer uses more than its share.
    ExcessiveLoad = 0x107,
    /// A setting that must not occur.
    Settings = 0x109,
    /// The first frame of the control stream is another one.
    MissingSettings = 0x10a,
    /// The request is not wanted any more, or gets no response.
    Cancelled = 0x10c,
    /// The request has ended too early.
    RequestIncomplete = 0x10d,
    /// The request is malformed.
    Message = 0x10e,
    /// A header block cannot be read.
    Decompression = 0x200,
    /// The encoder stream changes a table that is not there.
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

/// Splits octets of a stream into frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// An incomplete head of a frame, or an incomplete payload that is collected.
    held: Vec<u8>,
    current: Option<Frame>,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: u64,
    /// Octets of the payload that have not arrived.
    left: u64,
    handling: Handling,
}

/// What happens with the payload of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handling {
    /// It is needed as a whole.
    Collect,
    /// It is passed on as it arrives.
    Pass,
    /// It has no meaning.
    Skip,
}

/// Takes frames.
pub(super) trait FrameSink {
    /// Decides about a frame with this kind and length.
    fn begin(&mut self, kind: u64, len: u64) -> Result<Handling, H3Error>;
    /// Takes a whole payload, or a part of one that is passed on.
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
        /// Octets of two integers.
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

    fn is_between_frames(&self) -> bool {
        self.current.is_none() && self.held.is_empty()
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
    /// The word by which the request names the device of the client.
    word: Option<Box<[u8]>>,
    media: Media,
    content_length: Option<usize>,
    body: Vec<u8>,
    has_trailers: bool,
}

/// The result of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum H3Asked {
    /// It has a query.
    Query(Vec<u8>, ResponseExtent),
    /// It has none.
    Reject(Status),
}

impl H3Request {
    /// Takes octets of the stream. Returns a status once the request is rejected: the rest of it
    /// has no meaning.
    ///
    /// # Errors
    /// A violation of the protocol, which ends the connection, or the stream if it is
    /// [`H3Error::Message`].
    pub(crate) fn take(&mut self, octets: &[u8]) -> Result<Option<Status>, H3Error> {
        self.frames.take(octets, &mut self.message)?;
        Ok(match self.message.verdict {
            Some(RequestVerdict::Reject(status)) => Some(status),
            _ => None,
        })
    }

    /// Returns what the request asks for, at the end of its stream.
    ///
    /// # Errors
    /// It is incomplete, or its body has another length than it says.
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

    /// Returns the form of the response to its query.
    pub(crate) fn media(&self) -> Media {
        self.message.media
    }

    /// Takes the word by which the request names the device of the client.
    pub(crate) fn take_word(&mut self) -> Option<Box<[u8]>> {
        self.message.word.take()
    }

    /// Returns the octets held.
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
            return Ok(());
        }
        if size > MAX_FIELDS {
            self.verdict = Some(RequestVerdict::Reject(Status::LargeFields));
            return Ok(());
        }
        if head.is_malformed || head.is_incomplete() {
            return Err(H3Error::Message);
        }
        self.content_length = head.content_length;
        (self.word, self.media) = (head.take_word(), head.media());
        self.verdict = Some(head.verdict());
        Ok(())
    }
}

/// Returns the octets of a response: with status 200, its body is `message`, else the reason.
pub(crate) fn response(status: Status, message: &[u8], form: ResponseForm) -> Vec<u8> {
    /// Octets of frame heads and fields.
    const OVERHEAD: usize = 64;
    let body = match status {
        Status::Ok => form.media.body(message),
        status => Some(status.reason().as_bytes().into()),
    };
    let status = if body.is_some() { status } else { Status::Refused };
    let body = body.unwrap_or_default();
    let mut block = Vec::with_capacity(OVERHEAD);
    let content = Content { media: form.media, message, len: body.len() };
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
    let Content { media, message, len } = content;
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
        Media::Json => qpack::write_field(b"content-type", media.name(), out),
    }
    qpack::write_value(CONTENT_LENGTH, decimal(len as u32, &mut digits), out);
    let age = [b"max-age=", decimal(max_age(message), &mut digits)].concat();
    qpack::write_value(CACHE_CONTROL, &age, out);
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

/// Returns the frame that tells a client that requests from this stream on are not answered.
pub(crate) fn goaway(stream: u64) -> Vec<u8> {
    let (mut payload, mut out) = (Vec::new(), vec![GOAWAY as u8]);
    write_varint(stream, &mut payload);
    out.push(payload.len() as u8);
    out.extend_from_slice(&payload);
    out
}

/// A stream without a direction back, from the client.
#[derive(Debug, Default)]
pub(crate) struct H3Stream {
    held: Vec<u8>,
    kind: Option<StreamKind>,
    frames: Frames,
    control: ControlFrames,
}

/// The kind of such a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// Frames about the connection.
    Control,
    /// Changes of the table of the server's decoder.
    Encoder,
    /// Answers to the server's encoder, which has no table.
    Decoder,
    /// One that has no meaning here.
    Unknown,
}

#[derive(Debug, Default)]
struct ControlFrames {
    has_settings: bool,
}

impl H3Stream {
    /// Takes octets of the stream.
    ///
    /// # Errors
    /// A violation of the protocol, which ends the connection.
    pub(crate) fn take(&mut self, octets: &[u8]) -> Result<(), H3Error> {
        let mut rest = octets;
        if self.kind.is_none() {
            /// Octets of an integer.
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
            // Their payload is one integer.
            CANCEL_PUSH | GOAWAY | MAX_PUSH_ID if !(1..=8).contains(&len) => Err(H3Error::Frame),
            _ => Ok(Handling::Skip),
        }
    }

    fn payload(&mut self, _: u64, octets: &[u8]) -> Result<(), H3Error> {
        /// Settings of HTTP/2 that must not occur (RFC 9114 §7.2.4.1).
        const OF_HTTP2: std::ops::RangeInclusive<u64> = 2..=5;
        self.has_settings = true;
        let mut rest = octets;
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
mod tests {
    use super::*;

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write_varint(kind, &mut out);
        write_varint(payload.len() as u64, &mut out);
        out.extend_from_slice(payload);
        out
    }

    fn post(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut block = qpack::PREFIX.to_vec();
        qpack::write_entry(20, &mut block);
        qpack::write_value(1, b"/dns-query", &mut block);
        qpack::write_entry(44, &mut block);
        fields.iter().for_each(|(name, value)| qpack::write_field(name, value, &mut block));
        frame(HEADERS, &block)
    }

    fn get(path: &[u8]) -> Vec<u8> {
        let mut block = qpack::PREFIX.to_vec();
        qpack::write_entry(17, &mut block);
        qpack::write_value(1, path, &mut block);
        frame(HEADERS, &block)
    }

    fn asked(octets: &[u8], size: usize) -> Result<H3Asked, H3Error> {
        let mut request = H3Request::default();
        for piece in octets.chunks(size) {
            if let Some(status) = request.take(piece)? {
                return Ok(H3Asked::Reject(status));
            }
        }
        request.end()
    }

    fn check(parts: &[&[u8]], expected: &Result<H3Asked, H3Error>) {
        let octets = parts.concat();
        for size in [1, 2, 3, 7, 1_000, 100_000] {
            assert_eq!(&asked(&octets, size), expected, "{octets:.200x?} by {size}");
        }
    }

    #[test]
    fn integers_have_four_lengths() {
        for value in [0, 1, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, (1 << 62) - 1] {
            let mut out = Vec::new();
            write_varint(value, &mut out);
            for len in 0..out.len() {
                assert_eq!(varint(&mut &out[..len]), None);
            }
            let mut rest = out.as_slice();
            assert_eq!((varint(&mut rest), rest.len()), (Some(value), 0));
        }
    }

    #[test]
    fn requests_are_the_same_in_any_pieces() {
        let query = |octets: &[u8], extent| Ok(H3Asked::Query(octets.to_vec(), extent));
        let whole = query(b"query", ResponseExtent::Whole);
        check(&[&post(&[]), &frame(DATA, b"query")], &whole);
        check(&[&post(&[]), &frame(DATA, b"qu"), &frame(DATA, b"ery")], &whole);
        let reserved = frame(0x21, &[7; 300]);
        let parts = [&reserved[..], &post(&[]), &reserved, &frame(DATA, b"query"), &reserved];
        check(&parts, &whole);
        let trailers = frame(HEADERS, &[0, 0, 0x21, b'x', 1, b'y']);
        check(&[&post(&[]), &frame(DATA, b"query"), &trailers], &whole);
        check(&[&get(b"/dns-query?dns=AAEB")], &query(&[0, 1, 1], ResponseExtent::Whole));
        let long = vec![3; MAX_MESSAGE];
        check(&[&post(&[]), &frame(DATA, &long)], &query(&long, ResponseExtent::Whole));
    }

    #[test]
    fn requests_without_a_query_are_rejected() {
        let reject = |status| Ok(H3Asked::Reject(status));
        check(&[&get(b"/")], &reject(Status::NotFound));
        check(&[&post(&[])], &reject(Status::BadRequest));
        let parts = [&get(b"/dns-query?dns=AAEB")[..], &frame(DATA, b"x")];
        check(&parts, &reject(Status::BadRequest));
        let long = vec![3; MAX_MESSAGE + 1];
        check(&[&post(&[]), &frame(DATA, &long)], &reject(Status::LargeBody));
        let large = vec![b'v'; 17_000];
        check(&[&post(&[(b"x", &large)])], &reject(Status::LargeFields));
    }

    #[test]
    fn violations_have_their_error() {
        let data = frame(DATA, b"query");
        for (parts, error) in [
            (vec![data.clone()], H3Error::FrameUnexpected),
            (vec![frame(SETTINGS, &[])], H3Error::FrameUnexpected),
            (vec![frame(2, &[])], H3Error::FrameUnexpected),
            (vec![frame(PUSH_PROMISE, &[0])], H3Error::FrameUnexpected),
            (vec![frame(HEADERS, &[0, 0, 0x80])], H3Error::Decompression),
            (vec![frame(HEADERS, &[0, 0])], H3Error::Message),
            (vec![], H3Error::RequestIncomplete),
            (vec![frame(0x21, &[])], H3Error::RequestIncomplete),
            (vec![post(&[]), data[..data.len() - 1].to_vec()], H3Error::RequestIncomplete),
            (vec![post(&[(b"content-length", b"4")]), data.clone()], H3Error::Message),
            (vec![post(&[(b"connection", b"close")])], H3Error::Message),
        ] {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            check(&parts, &Err(error));
        }
        // The length alone decides about a block that is too long.
        let mut announced = vec![HEADERS as u8];
        write_varint(MAX_BLOCK + 1, &mut announced);
        check(&[&announced], &Err(H3Error::ExcessiveLoad));
    }

    #[test]
    fn data_without_end_is_not_kept() {
        let mut request = H3Request::default();
        request.take(&post(&[])).unwrap();
        let mut announced = vec![DATA as u8];
        write_varint(1 << 40, &mut announced);
        request.take(&announced).unwrap();
        let rejected = (0..20).find_map(|_| request.take(&[0; 10_000]).unwrap());
        assert_eq!(rejected, Some(Status::LargeBody));
        assert_eq!(request.held(), 0);
        // Neither is a frame without a meaning.
        let mut request = H3Request::default();
        let mut announced = vec![0x40, 0x21];
        write_varint(1 << 40, &mut announced);
        request.take(&announced).unwrap();
        request.take(&[0; 100_000]).unwrap();
        assert_eq!(request.held(), 0);
    }

    fn stream(octets: &[u8], size: usize) -> Result<Option<StreamKind>, H3Error> {
        let mut stream = H3Stream::default();
        for piece in octets.chunks(size) {
            stream.take(piece)?;
        }
        assert!(stream.held.len() + stream.frames.held.len() < 16);
        Ok(stream.kind())
    }

    #[test]
    fn streams_of_the_connection_follow_their_rules() {
        let settings_frame = frame(SETTINGS, &[1, 0, 6, 0x40, 0xff, 0x21, 3]);
        let control = |frames: &[&[u8]]| [&[0][..], &frames.concat()].concat();
        for (octets, expected) in [
            (control(&[&settings_frame]), Ok(Some(StreamKind::Control))),
            (settings(), Ok(Some(StreamKind::Control))),
            (control(&[&settings_frame, &frame(13, &[5])]), Ok(Some(StreamKind::Control))),
            (control(&[&settings_frame, &goaway(0)]), Ok(Some(StreamKind::Control))),
            (control(&[&settings_frame, &frame(0x21, &[9; 99])]), Ok(Some(StreamKind::Control))),
            (control(&[&frame(0x21, &[])]), Err(H3Error::MissingSettings)),
            (control(&[&settings_frame, &settings_frame]), Err(H3Error::FrameUnexpected)),
            (control(&[&settings_frame, &frame(DATA, &[])]), Err(H3Error::FrameUnexpected)),
            (control(&[&settings_frame, &frame(8, &[])]), Err(H3Error::FrameUnexpected)),
            (control(&[&settings_frame, &frame(7, &[])]), Err(H3Error::Frame)),
            (control(&[&frame(SETTINGS, &[4, 0])]), Err(H3Error::Settings)),
            (control(&[&frame(SETTINGS, &[6])]), Err(H3Error::Frame)),
            (control(&[&frame(SETTINGS, &[0x21; 2_000])]), Err(H3Error::ExcessiveLoad)),
            (vec![1, 0], Err(H3Error::StreamCreation)),
            (vec![2], Ok(Some(StreamKind::Encoder))),
            (vec![2, 0x20], Ok(Some(StreamKind::Encoder))),
            (vec![2, 0x3f, 0xe1, 0x1f], Err(H3Error::EncoderStream)),
            (vec![3, 0x44], Ok(Some(StreamKind::Decoder))),
            (vec![0x21, 1, 2, 3], Ok(Some(StreamKind::Unknown))),
            (vec![0x40], Ok(None)),
        ] {
            for size in [1, 2, 5, 10_000] {
                assert_eq!(stream(&octets, size), expected, "{octets:x?} by {size}");
            }
        }
    }

    #[test]
    fn responses_have_fields_and_body() {
        let octets = response(Status::NotFound, b"", ResponseForm::MESSAGE);
        assert_eq!(octets[..2], [1, octets.len() as u8 - 2]);
        let whole = response(Status::Ok, b"message", ResponseForm::MESSAGE);
        assert!(whole.ends_with(b"\x00\x07message"));
        let form = ResponseForm { extent: ResponseExtent::Fields, ..ResponseForm::MESSAGE };
        let fields = response(Status::Ok, b"message", form);
        assert_eq!(whole[..fields.len()], fields);
    }
}
