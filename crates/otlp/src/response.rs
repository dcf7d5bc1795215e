//! The response of a collector that has accepted all or some spans of a request.

use avocet_protobuf::{FieldValue, Fields, ProtoField};
use serde_json::Value;

use crate::Encoding;

/// Fields of `ExportTraceServiceResponse` and `ExportTracePartialSuccess`.
const PARTIAL_SUCCESS: u64 = 1;
const REJECTED_SPANS: u64 = 1;
const ERROR_MESSAGE: u64 = 2;
/// Maximum number of characters of a message.
const MAX_REASON: usize = 200;

/// Spans that a collector rejected.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Rejected {
    /// The number of rejected spans; zero if the message is only a warning.
    pub spans: u64,
    /// The reason, without control characters.
    pub message: String,
}

/// Returns the spans of a request that the collector rejected, according to the body of its
/// response. Returns an empty value if the body is empty or cannot be read, because the status
/// already shows that the collector accepted the request.
#[must_use]
pub fn read_rejected(encoding: Encoding, body: &[u8]) -> Rejected {
    let found = match encoding {
        Encoding::Protobuf => binary(body),
        Encoding::Json => json(body),
    };
    found.unwrap_or_default()
}

fn binary(body: &[u8]) -> Option<Rejected> {
    let mut rejected = Rejected::default();
    let mut outer = Fields(body);
    while let Some(ProtoField { number, value }) = outer.read_field().ok()? {
        let (PARTIAL_SUCCESS, FieldValue::Octets(inner)) = (number, value) else { continue };
        let mut inner = Fields(inner);
        while let Some(ProtoField { number, value }) = inner.read_field().ok()? {
            match (number, value) {
                (REJECTED_SPANS, FieldValue::Uint(count)) => rejected.spans = positive(count),
                (ERROR_MESSAGE, FieldValue::Octets(text)) => {
                    rejected.message = shown(&String::from_utf8_lossy(text));
                }
                _ => {}
            }
        }
    }
    Some(rejected)
}

fn json(body: &[u8]) -> Option<Rejected> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let partial = &body["partialSuccess"];
    let count = &partial["rejectedSpans"];
    let count = count.as_i64().or_else(|| count.as_str()?.parse().ok()).unwrap_or(0);
    let message = shown(partial["errorMessage"].as_str().unwrap_or_default());
    Some(Rejected { spans: u64::try_from(count).unwrap_or(0), message })
}

/// Converts a signed integer of protocol buffers; returns 0 if it is negative.
fn positive(count: u64) -> u64 {
    u64::try_from(count.cast_signed()).unwrap_or(0)
}

fn shown(text: &str) -> String {
    text.chars().filter(|one| !one.is_control()).take(MAX_REASON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(encoding: Encoding, body: &[u8], spans: u64, message: &str) {
        let expected = Rejected { spans, message: message.to_owned() };
        assert_eq!(read_rejected(encoding, body), expected, "{body:?}");
    }

    #[test]
    fn rejected_spans_and_their_reason_are_read() {
        use Encoding::{Json, Protobuf};
        check(Protobuf, &[], 0, "");
        check(Protobuf, &[0x0a, 0], 0, "");
        check(Protobuf, &[0x0a, 7, 0x08, 3, 0x12, 3, b'b', b'a', b'd'], 3, "bad");
        check(Protobuf, &[0x0a, 4, 0x12, 2, b'\n', b'w'], 0, "w");
        check(Json, b"{}", 0, "");
        check(Json, br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"bad"}}"#, 3, "bad");
        check(Json, br#"{"partialSuccess":{"rejectedSpans":3}}"#, 3, "");
    }

    #[test]
    fn a_damaged_body_is_read_within_bounds() {
        let binary = [0x0a, 10, 0x08, 0xff, 0x7f, 0x12, 5, b'w', b'o', b'r', b'd', b's'];
        let json = br#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"words"}}"#;
        for (encoding, body) in [(Encoding::Protobuf, &binary[..]), (Encoding::Json, &json[..])] {
            for place in 0..body.len() {
                let check = |body: &[u8]| {
                    let rejected = read_rejected(encoding, body);
                    assert!(rejected.message.chars().count() <= MAX_REASON);
                };
                check(&body[..place]);
                for value in 0..=u8::MAX {
                    let mut damaged = body.to_vec();
                    damaged[place] = value;
                    check(&damaged);
                }
            }
        }
    }

    #[test]
    fn hostile_bodies_are_no_rejection() {
        use Encoding::{Json, Protobuf};
        check(Protobuf, b"<html>", 0, "");
        check(Protobuf, &[0x0a, 9, 1], 0, "");
        // The count is minus one.
        let mut minus = vec![0x0a, 11, 0x08];
        minus.extend([0xff; 9]);
        minus.push(1);
        check(Protobuf, &minus, 0, "");
        check(Json, b"<html>", 0, "");
        check(Json, br#"{"partialSuccess":[{"rejectedSpans":-3}]}"#, 0, "");
        check(Json, br#"{"partialSuccess":{"rejectedSpans":-3,"errorMessage":7}}"#, 0, "");
        let long = format!(r#"{{"partialSuccess":{{"errorMessage":"{}"}}}}"#, "x".repeat(5_000));
        check(Json, long.as_bytes(), 0, &"x".repeat(MAX_REASON));
        let deep = "[".repeat(100_000);
        check(Json, deep.as_bytes(), 0, "");
    }
}
