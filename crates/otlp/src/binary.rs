//! Encodes spans as protocol buffers.

use avocet_protobuf::{put_fixed32, put_fixed64, put_octets, put_uint};

use crate::{Attribute, AttributeValue, Resource, Span, SpanEvent};

/// Fields of `ExportTraceServiceRequest`, `ResourceSpans` and `ScopeSpans`.
const RESOURCE_SPANS: u32 = 1;
const RESOURCE: u32 = 1;
const SCOPE_SPANS: u32 = 2;
const SCOPE: u32 = 1;
const SPANS: u32 = 2;
/// Fields of `Resource` and `InstrumentationScope`.
const RESOURCE_ATTRIBUTES: u32 = 1;
const SCOPE_NAME: u32 = 1;
const SCOPE_VERSION: u32 = 2;
/// Fields of `Span`.
const TRACE_ID: u32 = 1;
const SPAN_ID: u32 = 2;
const PARENT_ID: u32 = 4;
const NAME: u32 = 5;
const KIND: u32 = 6;
const START: u32 = 7;
const END: u32 = 8;
const ATTRIBUTES: u32 = 9;
const EVENTS: u32 = 11;
const DROPPED_EVENTS: u32 = 12;
const STATUS: u32 = 15;
const FLAGS: u32 = 16;
/// Fields of `Span.Event`.
const EVENT_TIME: u32 = 1;
const EVENT_NAME: u32 = 2;
const EVENT_ATTRIBUTES: u32 = 3;
/// Fields of `Status`, and the code that means an error.
const STATUS_MESSAGE: u32 = 2;
const STATUS_CODE: u32 = 3;
const CODE_ERROR: u64 = 2;
/// Fields of `KeyValue` and `AnyValue`.
const KEY: u32 = 1;
const VALUE: u32 = 2;
const STRING: u32 = 1;
const BOOL: u32 = 2;
const INT: u32 = 3;

/// The flags of each span: the span is sampled, and its parent span belongs to this server.
pub(crate) const SPAN_FLAGS: u32 = 0x101;

/// Appends the message of a span, without the tag and the length that precede it in a request.
pub(crate) fn span(span: &Span, out: &mut Vec<u8>) {
    put_octets(out, TRACE_ID, &span.trace.0);
    put_octets(out, SPAN_ID, &span.id);
    if let Some(parent) = &span.parent {
        put_octets(out, PARENT_ID, parent);
    }
    put_octets(out, NAME, span.name.as_bytes());
    put_uint(out, KIND, span.kind as u64);
    put_fixed64(out, START, span.start_ns);
    put_fixed64(out, END, span.end_ns);
    let mut memory = Vec::new();
    for one in &span.attributes {
        memory.clear();
        attribute(one, &mut memory);
        put_octets(out, ATTRIBUTES, &memory);
    }
    for one in &span.events {
        memory.clear();
        event(one, &mut memory);
        put_octets(out, EVENTS, &memory);
    }
    if span.dropped_events > 0 {
        put_uint(out, DROPPED_EVENTS, span.dropped_events.into());
    }
    if let Some(error) = &span.error {
        memory.clear();
        if !error.is_empty() {
            put_octets(&mut memory, STATUS_MESSAGE, error.as_bytes());
        }
        put_uint(&mut memory, STATUS_CODE, CODE_ERROR);
        put_octets(out, STATUS, &memory);
    }
    put_fixed32(out, FLAGS, SPAN_FLAGS);
}

fn event(event: &SpanEvent, out: &mut Vec<u8>) {
    put_fixed64(out, EVENT_TIME, event.time_ns);
    put_octets(out, EVENT_NAME, event.name.as_bytes());
    let mut memory = Vec::new();
    for one in &event.attributes {
        memory.clear();
        attribute(one, &mut memory);
        put_octets(out, EVENT_ATTRIBUTES, &memory);
    }
}

fn attribute(attribute: &Attribute, out: &mut Vec<u8>) {
    put_octets(out, KEY, attribute.key.as_bytes());
    let mut value = Vec::with_capacity(16);
    match &attribute.value {
        AttributeValue::Text(text) => put_octets(&mut value, STRING, text.as_bytes()),
        AttributeValue::Bool(is) => put_uint(&mut value, BOOL, u64::from(*is)),
        AttributeValue::Int(int) => put_uint(&mut value, INT, int.cast_unsigned()),
    }
    put_octets(out, VALUE, &value);
}

/// Returns the body of a request that sends encoded spans.
pub(crate) fn request<'s>(
    resource: &Resource<'_>,
    spans: impl IntoIterator<Item = &'s [u8]>,
) -> Vec<u8> {
    let (mut known, mut memory) = (Vec::new(), Vec::new());
    for one in &resource.attributes {
        memory.clear();
        attribute(one, &mut memory);
        put_octets(&mut known, RESOURCE_ATTRIBUTES, &memory);
    }
    let mut scope = Vec::new();
    put_octets(&mut scope, SCOPE_NAME, resource.scope.as_bytes());
    put_octets(&mut scope, SCOPE_VERSION, resource.version.as_bytes());
    let mut scope_spans = Vec::new();
    put_octets(&mut scope_spans, SCOPE, &scope);
    for span in spans {
        put_octets(&mut scope_spans, SPANS, span);
    }
    let mut resource_spans = Vec::with_capacity(scope_spans.len() + 256);
    put_octets(&mut resource_spans, RESOURCE, &known);
    put_octets(&mut resource_spans, SCOPE_SPANS, &scope_spans);
    let mut body = Vec::with_capacity(resource_spans.len() + 8);
    put_octets(&mut body, RESOURCE_SPANS, &resource_spans);
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::example;
    use crate::{Encoding, SpanKind, TraceId};

    #[test]
    fn the_octets_of_a_span_are_those_of_the_schema() {
        let mut one = Span::new(TraceId([0xa1; 16]), [0xb2; 8], SpanKind::Client);
        (one.name, one.start_ns, one.end_ns) = ("q".to_owned(), 1, 2);
        one.parent = Some([0xc3; 8]);
        one.put("k", true);
        one.error = Some("e".into());
        let mut out = Vec::new();
        one.encode(Encoding::Protobuf, &mut out);
        let mut expected = vec![0x0a, 16];
        expected.extend([0xa1; 16]);
        expected.extend([0x12, 8]);
        expected.extend([0xb2; 8]);
        expected.extend([0x22, 8]);
        expected.extend([0xc3; 8]);
        expected.extend([0x2a, 1, b'q', 0x30, 3]);
        expected.extend([0x39, 1, 0, 0, 0, 0, 0, 0, 0, 0x41, 2, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0x4a, 7, 0x0a, 1, b'k', 0x12, 2, 0x10, 1]);
        expected.extend([0x7a, 5, 0x12, 1, b'e', 0x18, 2]);
        expected.extend([0x85, 1, 1, 1, 0, 0]);
        assert_eq!(out, expected);
    }

    #[test]
    fn a_request_has_the_resource_the_scope_and_each_span() {
        let (resource, span) = example();
        let mut octets = Vec::new();
        span.encode(Encoding::Protobuf, &mut octets);
        let body = resource.request(Encoding::Protobuf, [&octets[..], &octets[..]]);
        let found = body.windows(octets.len()).filter(|part| *part == &octets[..]).count();
        assert_eq!((body[0], found), (0x0a, 2));
        // ResourceSpans has a Resource with one attribute, and ScopeSpans with the scope.
        let start =
            [&[0x0a, 24, 0x0a, 22, 0x0a, 12][..], b"service.name", &[0x12, 6, 0x0a, 4], b"home"]
                .concat();
        assert_eq!(body[3..][..start.len()], start);
        assert!(body.windows(8).any(|part| part == [0x0a, 6, b'a', b'v', b'o', b'c', b'e', b't']));
    }

    #[test]
    fn a_negative_integer_takes_ten_octets() {
        let mut out = Vec::new();
        attribute(&Attribute { key: "k", value: AttributeValue::Int(-1) }, &mut out);
        let mut expected = vec![0x0a, 1, b'k', 0x12, 11, 0x18];
        expected.extend([0xff; 9]);
        expected.push(1);
        assert_eq!(out, expected);
    }
}
