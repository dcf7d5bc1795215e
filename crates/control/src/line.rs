//! The form on the control socket: a request is one line of JSON, and a reply is lines of JSON. The
//! last line has `done` or `error`; the lines before it are the parts of the reply.

use std::fmt;
use std::io::{self, Write};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{Call, Control, Request};
use crate::error::{ControlError, ErrorCode};
use crate::part::{Disconnected, Part};

/// The last line of a reply.
#[derive(Serialize)]
struct End<R> {
    done: bool,
    #[serde(flatten)]
    reply: R,
}

/// The last line of the reply to a request that failed. Other lines of the reply may come before
/// this line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorLine {
    /// A message that describes the problem.
    error: String,
    /// The name of the kind of error. A kind keeps its name in later versions.
    code: ErrorCode,
    /// What to do about the problem, if the server knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
}

impl From<&ControlError> for ErrorLine {
    fn from(error: &ControlError) -> Self {
        Self { error: error.to_string(), code: error.code(), next: error.next() }
    }
}

/// Returns the line of a request.
pub fn of_request(request: impl Into<Request>) -> String {
    // Requests have texts and numbers, which JSON can hold.
    let line = serde_json::to_string(&request.into()).unwrap_or_default();
    format!("{line}\n")
}

/// Reads the line of a request.
///
/// # Errors
/// [`ControlError::NotARequest`].
pub fn read_request(line: &[u8]) -> Result<Request, ControlError> {
    if !line.trim_ascii_start().starts_with(b"{") {
        let message = "expected an object such as {\"command\":\"status\"}";
        return Err(ControlError::NotARequest(message.to_owned()));
    }
    serde_json::from_slice(line).map_err(|error| ControlError::NotARequest(error.to_string()))
}

/// Calls the method of a request and writes its reply. Returns the error code if the method fails.
pub(crate) fn answer<C: Call>(
    request: C,
    control: &(impl Control + ?Sized),
    out: &mut impl Write,
) -> io::Result<Option<ErrorCode>> {
    let (mut fault, mut line) = (None, Vec::new());
    let mut write_part = |part: C::Part| {
        line.clear();
        part.write_json(&mut line);
        line.push(b'\n');
        let written = out.write_all(&line).and_then(|()| match C::Part::IS_URGENT {
            true => out.flush(),
            false => Ok(()),
        });
        written.map_err(|error| {
            fault = Some(error);
            Disconnected
        })
    };
    let result = request.call(control, &mut write_part);
    match (fault, result) {
        (Some(fault), _) => Err(fault),
        (None, Ok(reply)) => write(out, &End { done: true, reply }).map(|()| None),
        (None, Err(error)) => write_error(out, &error).map(|()| Some(error.code())),
    }
}

/// Calls the method of a request with parts and reply as JSON.
pub(crate) fn perform<C: Call>(
    request: C,
    control: &(impl Control + ?Sized),
    part: &mut dyn FnMut(&[u8]) -> Result<(), Disconnected>,
) -> Result<Value, ControlError> {
    let mut text = Vec::new();
    let mut convert = |value: C::Part| {
        text.clear();
        value.write_json(&mut text);
        part(&text)
    };
    let reply = request.call(control, &mut convert)?;
    // Replies have texts and numbers, which JSON can hold.
    Ok(serde_json::to_value(&reply).unwrap_or_default())
}

/// Writes the line of an error.
///
/// # Errors
/// The client has disconnected, or does not read.
pub fn write_error(out: &mut impl Write, error: &ControlError) -> io::Result<()> {
    write(out, &ErrorLine::from(error))
}

pub(crate) fn write(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// A line of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyLine<C: Call> {
    /// A part; other lines follow.
    Part(C::Part),
    /// The end.
    End(C::Reply),
}

/// The reason why a line of a reply cannot be used.
#[derive(Debug)]
pub enum ReplyError {
    /// The server reports an error. The texts are its message and the next step.
    Refused(String, Option<String>),
    /// The line does not have the form of the reply.
    Malformed(serde_json::Error),
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error, None) => f.write_str(error),
            Self::Refused(error, Some(next)) => write!(f, "{error}; {next}"),
            Self::Malformed(error) => write!(
                f,
                "cannot read the reply of the running avocet: {error}; if it has another version, \
                 restart it"
            ),
        }
    }
}

impl std::error::Error for ReplyError {}

/// The fields that distinguish the kinds of lines. A part or a last line may also have a field
/// `error`, for example about one of several lists. Only an [`ErrorLine`] has a code, too.
#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    done: bool,
    #[serde(default)]
    error: Value,
    #[serde(default)]
    code: Value,
    #[serde(default)]
    next: Value,
}

/// The place of a line in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// The line is a part: other lines follow.
    Part,
    /// The last line.
    End,
}

/// Reads the place of a line in the reply to any request.
///
/// # Errors
/// The server reports an error, or the line is no object.
pub fn read_kind(line: &str) -> Result<LineKind, ReplyError> {
    let envelope: Envelope = serde_json::from_str(line).map_err(ReplyError::Malformed)?;
    match envelope {
        Envelope { done: true, .. } => Ok(LineKind::End),
        Envelope { error: Value::String(error), code: Value::String(_), next, .. } => {
            Err(ReplyError::Refused(error, next.as_str().map(str::to_owned)))
        }
        _ => Ok(LineKind::Part),
    }
}

/// Reads a line of the reply to a request.
///
/// # Errors
/// The server reports an error, or the line is of another form.
pub fn read_reply<C: Call>(line: &str) -> Result<ReplyLine<C>, ReplyError> {
    let read = match read_kind(line)? {
        LineKind::End => serde_json::from_str(line).map(ReplyLine::End),
        LineKind::Part => serde_json::from_str(line).map(ReplyLine::Part),
    };
    read.map_err(ReplyError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_a_reply_is_no_error_of_the_request() {
        assert_eq!(read_kind(r#"{"done":true,"error":"held back"}"#).unwrap(), LineKind::End);
        assert_eq!(read_kind(r#"{"name":"a","error":"no copy"}"#).unwrap(), LineKind::Part);
        let line = r#"{"error":"no such zone","code":"unknown-zone","next":"look"}"#;
        assert_eq!(read_kind(line).unwrap_err().to_string(), "no such zone; look");
    }

    #[test]
    fn a_line_that_is_no_object_is_refused_without_names_of_types() {
        for line in ["null", " null", "3", "[]", "\"status\"", ""] {
            let error = read_request(line.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("{\"command\":\"status\"}"), "{line}: {error}");
            assert!(!error.contains("enum"), "{line}: {error}");
        }
        assert!(read_request(b" {\"command\":\"status\"}").is_ok());
        let error = read_request(b"{}").unwrap_err().to_string();
        assert!(error.contains("command") && !error.contains("enum"), "{error}");
    }
}
