//! `avocet call`: any request of the HTTP API, over the control socket of the running server.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use avocet_control::Request;
use avocet_control::line::LineKind;
use avocet_control::revisions::ConfigText;
use avocet_web::local::{EntriesStep, LocalCall};
use clap::Args;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::call::{Done, exchange, exchange_lines, refuse, whereabouts};
use crate::control_args::ControlArgs;
use crate::error::CommandError;
use crate::output::{self, Reader};
use crate::revisions::submitter;

/// Maximum number of octets of fields on standard input, equal to the longest request.
const MAX_INPUT: u64 = 512 << 10;

/// Arguments of `avocet call`.
#[derive(Debug, Args)]
pub(crate) struct ApiCallArgs {
    /// Method of the request: GET, POST, PUT or DELETE
    #[arg(value_name = "METHOD")]
    method: String,
    /// Path of the request, with or without /api/v1, such as /queries?limit=5
    #[arg(value_name = "PATH")]
    path: String,
    /// The fields of the request. For POST and PUT, the command sends VALUE as JSON if it is valid
    /// JSON, and otherwise as text. A text that looks like JSON needs quotes: 'secret="123"'
    #[arg(value_name = "FIELD=VALUE")]
    fields: Vec<String>,
    /// For POST and PUT, read the fields as one JSON object from standard input. Secrets then do
    /// not appear in the list of processes
    #[arg(long, conflicts_with = "fields")]
    stdin: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// Runs `avocet call`.
pub(crate) fn run(args: &ApiCallArgs) -> ExitCode {
    match whereabouts(&args.control).and_then(|found| call(args, &found.directory)) {
        Ok(done) => done.exit_code(),
        Err(error) => refuse(&error),
    }
}

fn call(args: &ApiCallArgs, directory: &Path) -> Result<Done, CommandError> {
    match read(args)? {
        LocalCall::Document(document) => write(&document),
        LocalCall::Request(request) => send(directory, *request),
        LocalCall::Entries(call) => {
            let asked = ConfigText { number: None };
            let in_force = exchange(directory, asked, |_, _| Ok(Reader::Reads))?;
            let in_force = in_force.ok_or(CommandError::Incomplete)?;
            match call.step(in_force, submitter(None))? {
                EntriesStep::Show(reply) => write(&reply),
                EntriesStep::Request(request) => send(directory, *request),
            }
        }
    }
}

fn read(args: &ApiCallArgs) -> Result<LocalCall, CommandError> {
    let mut fields = Vec::new();
    for text in &args.fields {
        let field = text.split_once('=').filter(|(name, _)| !name.is_empty());
        fields.push(field.ok_or_else(|| CommandError::NotAField(text.clone()))?);
    }
    let method = args.method.to_ascii_uppercase();
    if matches!(method.as_str(), "POST" | "PUT") {
        let body = if args.stdin { of_input()? } else { of_fields(&fields)? };
        return Ok(LocalCall::read(&method, &args.path, body)?);
    }
    let mut path = args.path.clone();
    for (name, value) in fields {
        path.push(if path.contains('?') { '&' } else { '?' });
        path += &format!("{}={}", escaped(name), escaped(value));
    }
    let body = if args.stdin { of_input()? } else { Map::new() };
    Ok(LocalCall::read(&method, &path, body)?)
}

fn of_input() -> Result<Map<String, Value>, CommandError> {
    let mut text = Zeroizing::new(Vec::new());
    let mut input = std::io::stdin().lock().take(MAX_INPUT + 1);
    input.read_to_end(&mut text).map_err(CommandError::NoInput)?;
    if text.len() as u64 > MAX_INPUT {
        return Err(CommandError::LongInput(MAX_INPUT));
    }
    Ok(serde_json::from_slice(&text)?)
}

/// Returns fields as the object of a body. A value that is not JSON becomes a string.
fn of_fields(fields: &[(&str, &str)]) -> Result<Map<String, Value>, CommandError> {
    let mut body = Map::new();
    for (name, text) in fields {
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(*text));
        if body.insert((*name).to_owned(), value).is_some() {
            return Err(CommandError::FieldTwice((*name).to_owned()));
        }
    }
    Ok(body)
}

/// Returns a text as a part of a query (RFC 3986 §2.1).
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for octet in text.bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                escaped.push(char::from(octet));
            }
            _ => escaped += &format!("%{octet:02X}"),
        }
    }
    escaped
}

/// Sends a request and prints the lines of its reply. The history shows who made a change.
fn send(directory: &Path, mut request: Request) -> Result<Done, CommandError> {
    let refreshes = matches!(request, Request::ListsRefresh(_));
    let by = match &mut request {
        Request::ConfigChange(change) => Some(&mut change.by),
        Request::ConfigRollback(rollback) => Some(&mut rollback.by),
        _ => None,
    };
    if let Some(by) = by {
        *by = submitter(by.comment.as_ref());
    }
    let mut end = Value::Null;
    exchange_lines(directory, request, |line, kind| {
        if kind == LineKind::End {
            end = serde_json::from_str(line)?;
        }
        output::write_data(&format!("{line}\n"))
    })?;
    let has_failed = |list: &Value| list["error"].is_string();
    let failed = end["lists"].as_array().is_some_and(|lists| lists.iter().any(has_failed));
    Ok(match end["unsaved"].as_str() {
        Some(why) => Done::Unsaved(why.to_owned()),
        None if refreshes && failed => Done::InPart,
        None => Done::Whole,
    })
}

fn write(reply: &Value) -> Result<Done, CommandError> {
    output::write_data(&format!("{reply}\n")).map(|_| Done::Whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_or_texts() {
        let fields = [("secs", "60"), ("name", "a.example"), ("scope", r#"{"group":"kids"}"#)];
        let body = Value::Object(of_fields(&fields).unwrap());
        let expected =
            serde_json::json!({"secs": 60, "name": "a.example", "scope": {"group": "kids"}});
        assert_eq!(body, expected);
        assert!(matches!(of_fields(&[("a", "1"), ("a", "2")]), Err(CommandError::FieldTwice(_))));
    }

    #[test]
    fn a_query_has_any_text() {
        assert_eq!(escaped("a-b.c_~9"), "a-b.c_~9");
        assert_eq!(escaped("a&b=c d+\u{e9}%"), "a%26b%3Dc%20d%2B%C3%A9%25");
    }
}
