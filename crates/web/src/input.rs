//! The fields of a request: from the query for GET and DELETE, from the body for POST and PUT.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, Uri};
use serde_json::{Map, Value};
use tokio::time::timeout;
use zeroize::Zeroizing;

use crate::problem::{MALFORMED, NOT_JSON, Problem, TIMEOUT, TOO_LARGE};

/// Number of octets of memory that is allocated for a body at once: sufficient for every body with
/// a password.
const USUAL_BODY: usize = 16 << 10;
/// Longest time for which a body may take to arrive.
const BODY_TIME: Duration = Duration::from_secs(5);
/// Maximum number of octets of a query.
const MAX_QUERY: usize = 4096;

/// The types of fields in a query, where everything is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// A text.
    Text,
    /// An integer.
    Number,
    /// `true` or `false`.
    Flag,
}

/// A field of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueryField {
    /// The type of the field.
    pub(crate) kind: FieldKind,
    /// The object of the request to which the field belongs. A query has no objects.
    pub(crate) within: Option<String>,
}

/// Reads the fields of a query. Unknown fields remain texts, and are refused with the request.
///
/// # Errors
/// The query is malformed, or has a field twice.
pub(crate) fn of_query(
    uri: &Uri,
    known: &BTreeMap<String, QueryField>,
) -> Result<Map<String, Value>, Problem> {
    let query = uri.query().unwrap_or_default();
    if query.len() > MAX_QUERY {
        return Err(TOO_LARGE.of(format!("the query has more than {MAX_QUERY} octets")));
    }
    let mut fields = Map::new();
    for (name, text) in form_urlencoded::parse(query.as_bytes()) {
        let field = known.get(&*name);
        let value = match field.map(|field| field.kind) {
            Some(FieldKind::Number) => {
                let number = text.parse::<u64>();
                number
                    .map(Value::from)
                    .map_err(|_| MALFORMED.of(format!("{name}: expected an integer from 0")))?
            }
            Some(FieldKind::Flag) => match &*text {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => return Err(MALFORMED.of(format!("{name}: expected true or false"))),
            },
            Some(FieldKind::Text) | None => Value::from(&*text),
        };
        let is_second = match field.and_then(|field| field.within.as_ref()) {
            None => fields.insert(name.clone().into_owned(), value).is_some(),
            Some(object) => {
                let object = fields.entry(object).or_insert_with(|| Value::Object(Map::new()));
                let inside = object.as_object_mut();
                inside
                    .is_none_or(|inside| inside.insert(name.clone().into_owned(), value).is_some())
            }
        };
        if is_second {
            return Err(MALFORMED.of(format!("the query has {name} twice")));
        }
    }
    Ok(fields)
}

/// Reads the fields of a body. An empty body has no fields.
///
/// # Errors
/// The body is too large or too slow, or is not an object in JSON.
pub(crate) async fn of_body(
    headers: &HeaderMap,
    body: Body,
    max_body: usize,
) -> Result<Map<String, Value>, Problem> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|len| len.to_str().ok()?.parse().ok());
    if announced.is_some_and(|len: u64| len > max_body as u64) {
        return Err(too_large(max_body));
    }
    let octets = timeout(BODY_TIME, collect(body, max_body)).await;
    let octets = octets.map_err(|_| TIMEOUT.of("the body did not arrive within 5 seconds"))??;
    if octets.is_empty() {
        return Ok(Map::new());
    }
    // Another site can make a browser send other content types without a preflight request.
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case(JSON)) {
        return Err(NOT_JSON.of(format!("the body has the type {kind:?}")));
    }
    match serde_json::from_slice(&octets) {
        Ok(Value::Object(mut fields)) => {
            fields.values_mut().for_each(integral);
            Ok(fields)
        }
        Ok(_) => Err(MALFORMED.of("expected an object in JSON")),
        Err(error) => Err(MALFORMED.of(error.to_string())),
    }
}

/// Converts numbers such as `7.0` to integers: in JSON Schema, and in some languages, the two are
/// equal. The parser bounds the depth.
fn integral(value: &mut Value) {
    /// The range in which a float represents each integer exactly.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) => {
            let float = number.as_f64().filter(|_| number.is_f64());
            let whole = float.filter(|one| one.fract() == 0.0 && one.abs() <= EXACT);
            if let Some(whole) = whole {
                *number = (whole as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(integral),
        Value::Object(fields) => fields.values_mut().for_each(integral),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

const JSON: &str = "application/json";

fn too_large(max_body: usize) -> Problem {
    TOO_LARGE.of(format!("the body has more than {max_body} octets"))
}

/// Collects a body into memory that is erased afterwards, because the body may contain a password.
async fn collect(mut body: Body, max_body: usize) -> Result<Zeroizing<Vec<u8>>, Problem> {
    // The memory is allocated at once, because a vector that grows leaves copies.
    let mut octets = Zeroizing::new(Vec::with_capacity(USUAL_BODY));
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|error| MALFORMED.of(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if octets.len() + data.len() > max_body {
            return Err(too_large(max_body));
        }
        octets.extend_from_slice(&data);
    }
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_by_the_types_of_its_fields() {
        let field = |kind| QueryField { kind, within: None };
        let known = BTreeMap::from([
            ("at".to_owned(), field(FieldKind::Number)),
            ("force".to_owned(), field(FieldKind::Flag)),
            ("name".to_owned(), field(FieldKind::Text)),
            (
                "under".to_owned(),
                QueryField { kind: FieldKind::Text, within: Some("filter".to_owned()) },
            ),
        ]);
        let read = |query: &str| of_query(&format!("/x?{query}").parse().unwrap(), &known);
        let nested = read("under=a&name=b").unwrap();
        assert_eq!(
            Value::Object(nested),
            serde_json::json!({"filter": {"under": "a"}, "name": "b"})
        );
        let fields = read("name=a%0Ab+c&at=17&force=true&x=1").unwrap();
        let expected = serde_json::json!({"name": "a\nb c", "at": 17, "force": true, "x": "1"});
        assert_eq!(Value::Object(fields), expected);
        for wrong in ["at=-1", "at=x", "at=", "force=1", "name=a&name=b", "under=a&under=b"] {
            assert_eq!(read(wrong).unwrap_err().code(), "malformed", "{wrong}");
        }
        assert_eq!(read(&"a".repeat(5000)).unwrap_err().code(), "too-large");
    }
}
