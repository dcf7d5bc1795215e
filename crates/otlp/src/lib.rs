//! Spans in the OpenTelemetry protocol (OTLP 1.x), which a collector receives over HTTP as protocol
//! buffers or JSON.
//!
//! ```text
//! Span -- encode --> octets of one span --+
//!                       ...               +-- Resource::request --> body of a request
//!                    octets of one span --+
//! body of a response ------------------------ read_rejected ------> spans that were rejected
//! ```
//! The crate has no socket, no clock and no randomness. A span is encoded when it ends, so that its
//! size is known while it waits to be sent. Encoded spans of one [`Encoding`] are then sent in one
//! request. The field numbers are those of the protocol's `trace.proto`.
//!
//! ```
//! use avocet_otlp::{Encoding, Resource, Span, SpanKind, TraceId};
//!
//! let mut span = Span::new(TraceId([1; 16]), [2; 8], SpanKind::Server);
//! span.name = "DNS A".to_owned();
//! span.put("dns.question.name", "www.example");
//! let mut octets = Vec::new();
//! span.encode(Encoding::Json, &mut octets);
//! let resource = Resource { attributes: Vec::new(), scope: "avocet", version: "1" };
//! let body = resource.request(Encoding::Json, [&octets[..]]);
//! assert!(String::from_utf8_lossy(&body).contains(r#""traceId":"01010101"#));
//! ```

#![forbid(unsafe_code)]

mod binary;
mod json;
mod response;

use std::borrow::Cow;

pub use response::{Rejected, read_rejected};

/// The encoding of spans.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Encoding {
    /// Protocol buffers.
    #[default]
    Protobuf,
    /// The JSON mapping of the protocol buffers, with the exceptions that the protocol makes:
    /// identifiers are hexadecimal, enumerations are numbers.
    Json,
}

impl Encoding {
    /// Returns the media type of requests and responses.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }
}

/// The identifier of a trace: random, not zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceId(pub [u8; 16]);

/// The identifier of a span: random, not zero.
pub type SpanId = [u8; 8];

/// The role of a span in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpanKind {
    /// Work inside the server.
    Internal = 1,
    /// A request that the server received.
    Server = 2,
    /// A request that the server sent.
    Client = 3,
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttributeValue {
    /// A text.
    Text(Cow<'static, str>),
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u32> for AttributeValue {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

impl From<u16> for AttributeValue {
    fn from(value: u16) -> Self {
        Self::Int(value.into())
    }
}

impl From<usize> for AttributeValue {
    fn from(value: usize) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

/// A key with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attribute {
    /// The key.
    pub key: &'static str,
    /// The value.
    pub value: AttributeValue,
}

impl Attribute {
    /// Creates an attribute.
    pub fn new(key: &'static str, value: impl Into<AttributeValue>) -> Self {
        Self { key, value: value.into() }
    }
}

/// An event during a span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpanEvent {
    /// The time in Unix nanoseconds.
    pub time_ns: u64,
    /// The name of the event.
    pub name: &'static str,
    /// The attributes of the event.
    pub attributes: Vec<Attribute>,
}

/// A span.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// The trace of the span.
    pub trace: TraceId,
    /// The identifier of the span.
    pub id: SpanId,
    /// The parent span; `None` if the span is the root of the trace.
    pub parent: Option<SpanId>,
    /// The name of the span, which must be one of a small set of names.
    pub name: String,
    /// The role of the span.
    pub kind: SpanKind,
    /// The start of the span in Unix nanoseconds.
    pub start_ns: u64,
    /// The end of the span in Unix nanoseconds.
    pub end_ns: u64,
    /// The attributes of the span.
    pub attributes: Vec<Attribute>,
    /// The events, in order.
    pub events: Vec<SpanEvent>,
    /// The number of events that were not recorded.
    pub dropped_events: u32,
    /// The error with which the span ended, if any.
    pub error: Option<Cow<'static, str>>,
}

impl Span {
    /// Creates a span without a name, times and attributes.
    #[must_use]
    pub fn new(trace: TraceId, id: SpanId, kind: SpanKind) -> Self {
        Self {
            trace,
            id,
            parent: None,
            name: String::new(),
            kind,
            start_ns: 0,
            end_ns: 0,
            attributes: Vec::new(),
            events: Vec::new(),
            dropped_events: 0,
            error: None,
        }
    }

    /// Adds an attribute.
    pub fn put(&mut self, key: &'static str, value: impl Into<AttributeValue>) {
        self.attributes.push(Attribute::new(key, value));
    }

    /// Appends the span to `out`, for [`Resource::request`].
    pub fn encode(&self, encoding: Encoding, out: &mut Vec<u8>) {
        match encoding {
            Encoding::Protobuf => binary::span(self, out),
            Encoding::Json => json::span(self, out),
        }
    }
}

/// The source of spans.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resource<'r> {
    /// The attributes of the source.
    pub attributes: Vec<Attribute>,
    /// The name of the software that made the spans.
    pub scope: &'r str,
    /// The version of this software.
    pub version: &'r str,
}

impl Resource<'_> {
    /// Returns the body of a request with encoded spans, all of the same encoding.
    pub fn request<'s>(
        &self,
        encoding: Encoding,
        spans: impl IntoIterator<Item = &'s [u8]>,
    ) -> Vec<u8> {
        match encoding {
            Encoding::Protobuf => binary::request(self, spans),
            Encoding::Json => json::request(self, spans),
        }
    }
}
