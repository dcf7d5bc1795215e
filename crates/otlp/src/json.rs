//! Encodes spans as JSON.

use serde_json::{Value, json};

use crate::binary::SPAN_FLAGS;
use crate::{Attribute, AttributeValue, Resource, Span, SpanEvent};

/// The code of a `Status` that means an error.
const CODE_ERROR: u32 = 2;

/// Appends a span.
pub(crate) fn span(span: &Span, out: &mut Vec<u8>) {
    let mut value = json!({
        "traceId": hexadecimal(&span.trace.0),
        "spanId": hexadecimal(&span.id),
        "name": span.name,
        "kind": span.kind as u32,
        "startTimeUnixNano": span.start_ns.to_string(),
        "endTimeUnixNano": span.end_ns.to_string(),
        "attributes": attributes(&span.attributes),
        "flags": SPAN_FLAGS,
    });
    if let Some(parent) = &span.parent {
        value["parentSpanId"] = hexadecimal(parent).into();
    }
    if !span.events.is_empty() {
        value["events"] = span.events.iter().map(event).collect();
    }
    if span.dropped_events > 0 {
        value["droppedEventsCount"] = span.dropped_events.into();
    }
    if let Some(error) = &span.error {
        value["status"] = json!({ "message": error, "code": CODE_ERROR });
    }
    out.extend_from_slice(value.to_string().as_bytes());
}

fn event(event: &SpanEvent) -> Value {
    json!({
        "timeUnixNano": event.time_ns.to_string(),
        "name": event.name,
        "attributes": attributes(&event.attributes),
    })
}

fn attributes(all: &[Attribute]) -> Value {
    let one = |attribute: &Attribute| {
        let value = match &attribute.value {
            AttributeValue::Text(text) => json!({ "stringValue": text }),
            AttributeValue::Bool(is) => json!({ "boolValue": is }),
            // In the JSON mapping of protocol buffers, a 64-bit integer is a string.
            AttributeValue::Int(int) => json!({ "intValue": int.to_string() }),
        };
        json!({ "key": attribute.key, "value": value })
    };
    all.iter().map(one).collect()
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Returns the body of a request that sends encoded spans.
pub(crate) fn request<'s>(
    resource: &Resource<'_>,
    spans: impl IntoIterator<Item = &'s [u8]>,
) -> Vec<u8> {
    let known = json!({ "attributes": attributes(&resource.attributes) });
    let scope = json!({ "name": resource.scope, "version": resource.version });
    let mut body = format!(
        "{{\"resourceSpans\":[{{\"resource\":{known},\
         \"scopeSpans\":[{{\"scope\":{scope},\"spans\":["
    )
    .into_bytes();
    for (place, span) in spans.into_iter().enumerate() {
        if place > 0 {
            body.push(b',');
        }
        body.extend_from_slice(span);
    }
    body.extend_from_slice(b"]}]}]}");
    body
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Encoding, SpanKind, TraceId};

    /// Returns a resource and a span with every part.
    pub(crate) fn example() -> (Resource<'static>, Span) {
        let mut span = Span::new(TraceId([0x5b; 16]), [0xee; 8], SpanKind::Server);
        span.parent = Some([0x01; 8]);
        span.name = "DNS A".to_owned();
        (span.start_ns, span.end_ns) = (1_544_712_660_000_000_000, 1_544_712_661_000_000_000);
        span.put("dns.question.name", "a\"b.example");
        span.put("server.port", 53_u16);
        span.put("avocet.secure", false);
        let attributes = vec![Attribute::new("avocet.zone", ".")];
        span.events = vec![SpanEvent { time_ns: 7, name: "zone", attributes }];
        span.dropped_events = 3;
        span.error = Some("SERVFAIL".into());
        let attributes = vec![Attribute::new("service.name", "home")];
        (Resource { attributes, scope: "avocet", version: "0.1.0" }, span)
    }

    #[test]
    fn a_request_is_the_json_of_the_protocol() {
        let (resource, span) = example();
        let mut octets = Vec::new();
        span.encode(Encoding::Json, &mut octets);
        let body = resource.request(Encoding::Json, [&octets[..], &octets[..]]);
        let body: Value = serde_json::from_slice(&body).unwrap();
        let expected = json!({
            "traceId": "5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b5b",
            "spanId": "eeeeeeeeeeeeeeee",
            "parentSpanId": "0101010101010101",
            "name": "DNS A",
            "kind": 2,
            "startTimeUnixNano": "1544712660000000000",
            "endTimeUnixNano": "1544712661000000000",
            "attributes": [
                { "key": "dns.question.name", "value": { "stringValue": "a\"b.example" } },
                { "key": "server.port", "value": { "intValue": "53" } },
                { "key": "avocet.secure", "value": { "boolValue": false } },
            ],
            "events": [{
                "timeUnixNano": "7",
                "name": "zone",
                "attributes": [{ "key": "avocet.zone", "value": { "stringValue": "." } }],
            }],
            "droppedEventsCount": 3,
            "status": { "message": "SERVFAIL", "code": 2 },
            "flags": 0x101,
        });
        let scope = &body["resourceSpans"][0]["scopeSpans"][0];
        assert_eq!(scope["spans"], json!([expected, expected]));
        assert_eq!(scope["scope"], json!({ "name": "avocet", "version": "0.1.0" }));
        let resource = &body["resourceSpans"][0]["resource"]["attributes"][0];
        assert_eq!(*resource, json!({ "key": "service.name", "value": { "stringValue": "home" } }));
    }

    #[test]
    fn a_request_without_spans_is_still_json() {
        let body = example().0.request(Encoding::Json, []);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["resourceSpans"][0]["scopeSpans"][0]["spans"], json!([]));
    }
}
