//! Calls of the API without HTTP, for the command line: a method and a path become a request of the
//! control socket, by the same table of routes. A program that may open the control socket may do
//! everything, so no log-in is necessary.

use std::sync::LazyLock;

use avocet_control::Request as ControlRequest;
use avocet_control::revisions::{RevisionText, Submitter};
use axum::http::Uri;
use serde_json::{Map, Value};

use crate::exchange;
use crate::input;
use crate::openapi::Interface;
use crate::problem::{MALFORMED, NO_METHOD, NOT_FOUND, Problem, UNAUTHENTICATED};
use crate::route::{Does, OwnCall, PREFIX, ROUTES, Route};
use crate::tables::{EntryCall, EntryPlan};

/// The document of the API, and the tables of the configuration.
static INTERFACE: LazyLock<Interface> = LazyLock::new(Interface::generate);

/// A call of the API.
#[derive(Debug)]
pub enum LocalCall {
    /// A request of the control socket.
    Request(Box<ControlRequest>),
    /// A call about entries of the configuration, which needs the text in force.
    Entries(EntriesCall),
    /// The OpenAPI document.
    Document(Value),
}

/// A call about entries of the configuration.
#[derive(Debug)]
pub struct EntriesCall {
    call: EntryCall,
    fields: Map<String, Value>,
}

/// The next step of a call about entries.
#[derive(Debug)]
pub enum EntriesStep {
    /// The reply.
    Show(Value),
    /// A request of the control socket, with the reply.
    Request(Box<ControlRequest>),
}

/// The reason why a call does not exist, with the problem and its solution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFault {
    /// The problem.
    pub detail: String,
    /// The action that solves the problem.
    pub next: String,
}

impl std::fmt::Display for LocalFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}; {}", self.detail, self.next)
    }
}

impl std::error::Error for LocalFault {}

impl From<Problem> for LocalFault {
    fn from(problem: Problem) -> Self {
        let body = problem.body();
        Self { detail: body.detail, next: body.next }
    }
}

impl LocalCall {
    /// Reads a call: a method, a path with or without [`PREFIX`] and with the fields of a query,
    /// and the fields of a body.
    ///
    /// # Errors
    /// There is no such route, it belongs to browsers, or its fields are invalid.
    pub fn read(method: &str, path: &str, body: Map<String, Value>) -> Result<Self, LocalFault> {
        Ok(read(method, path, body)?)
    }
}

impl EntriesCall {
    /// Returns the next step of the call with the revision in force.
    ///
    /// # Errors
    /// A field is invalid, or there is no such entry.
    pub fn step(self, in_force: RevisionText, by: Submitter) -> Result<EntriesStep, LocalFault> {
        let plan = INTERFACE.tables.plan(self.call, self.fields, (in_force, by))?;
        Ok(match plan {
            EntryPlan::Show(reply) => EntriesStep::Show(reply),
            EntryPlan::Check(check) => EntriesStep::Request(Box::new(check.into())),
            EntryPlan::Change(change) => EntriesStep::Request(Box::new(change.into())),
        })
    }
}

fn read(method: &str, target: &str, body: Map<String, Value>) -> Result<LocalCall, Problem> {
    let target = target.strip_prefix(PREFIX).unwrap_or(target);
    if !target.starts_with('/') || target.contains('#') {
        let detail = format!("{target:?} is not a path: it begins with / and has %23 for #");
        return Err(MALFORMED.of(detail));
    }
    let uri: Uri = target.parse().map_err(|_| MALFORMED.of(format!("{target:?} is not a path")))?;
    let route = route(method, uri.path())?;
    let fields = if route.verb.has_body() {
        if uri.query().is_some() {
            return Err(MALFORMED.of("this request has its fields in the body, not in the path"));
        }
        body
    } else if body.is_empty() {
        input::of_query(&uri, INTERFACE.query_fields(route))?
    } else {
        return Err(MALFORMED.of("this request has its fields in the path, not in a body"));
    };
    match route.does {
        Does::Call(command, _) => {
            Ok(LocalCall::Request(Box::new(exchange::request(command, fields)?)))
        }
        Does::Entries(call) => Ok(LocalCall::Entries(EntriesCall { call, fields })),
        Does::Own(OwnCall::Document) => Ok(LocalCall::Document(INTERFACE.document.clone())),
        Does::Own(OwnCall::SessionList | OwnCall::SessionRemove) => {
            let command = route.command().unwrap_or_default();
            Ok(LocalCall::Request(Box::new(exchange::request(command, fields)?)))
        }
        Does::Upload(_) => {
            let detail = "the body of this request is a file";
            Err(MALFORMED.of(detail).then("use `avocet restore FILE`"))
        }
        Does::Own(_) => {
            let detail = "this request belongs to the session of a browser";
            Err(UNAUTHENTICATED.of(detail).then("send it over HTTP"))
        }
    }
}

fn route(method: &str, path: &str) -> Result<&'static Route, Problem> {
    let of_path = || ROUTES.iter().filter(|route| route.path == path);
    let is_wanted = |route: &&Route| route.verb.method().as_str().eq_ignore_ascii_case(method);
    if let Some(route) = of_path().find(is_wanted) {
        return Ok(route);
    }
    let methods: Vec<_> = of_path().map(|route| route.verb.method().to_string()).collect();
    if methods.is_empty() {
        return Err(NOT_FOUND
            .of(format!("the API has no path {path:?}"))
            .then("see `avocet call GET /openapi.json` for the paths"));
    }
    Err(NO_METHOD
        .of(format!("{path} has no method {method:?}, only {}", methods.join(", ")))
        .then("use one of these"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(method: &str, path: &str, body: Value) -> Result<LocalCall, LocalFault> {
        LocalCall::read(method, path, body.as_object().cloned().unwrap_or_default())
    }

    #[track_caller]
    fn line(method: &str, path: &str, body: Value) -> Value {
        match read(method, path, body).unwrap() {
            LocalCall::Request(request) => serde_json::to_value(request).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_call_becomes_a_request_of_the_control_socket() {
        assert_eq!(line("get", "/api/v1/status", json!({})), json!({"command": "status"}));
        let search = line("GET", "/queries?limit=5&under=a.example&from=7", json!({}));
        let filter = json!({"under": "a.example", "from": 7});
        assert_eq!(search, json!({"command": "log-search", "limit": 5, "filter": filter}));
        let pause = json!({"secs": 60, "scope": {"group": "kids"}});
        assert_eq!(line("POST", "/policy/pause", pause)["scope"], json!({"group": "kids"}));
        assert_eq!(line("DELETE", "/sessions?id=ab", json!({}))["command"], "session-end");
    }

    #[test]
    fn a_call_that_is_not_possible_says_why() {
        let check = |method: &str, path: &str, body: Value, detail: &str| {
            let fault = read(method, path, body).unwrap_err();
            assert!(fault.detail.contains(detail) && !fault.next.is_empty(), "{fault:?}");
        };
        check("GET", "/nothing", json!({}), "no path");
        check("GET", "nothing at all", json!({}), "not a path");
        check("GET", "/nothing at all", json!({}), "not a path");
        check("GET", "status", json!({}), "not a path");
        check("GET", "/api/v1status", json!({}), "not a path");
        check("DELETE", "http://other.example/queries?all=true", json!({}), "not a path");
        check("DELETE", "/queries?client=a#b", json!({}), "not a path");
        check("PATCH", "/lists", json!({}), "only GET, POST, PUT, DELETE");
        check("GET", "/queries?limit=x", json!({}), "limit: expected an integer");
        check("GET", "/queries?limit=1&limit=2", json!({}), "twice");
        check("GET", "/queries", json!({"limit": 5}), "in the path");
        check("POST", "/policy/pause?secs=5", json!({}), "in the body");
        check("POST", "/policy/pause", json!({"second": 5}), "second");
        check("POST", "/session", json!({"name": "a", "password": "b"}), "browser");
        check("POST", "/restore", json!({}), "file");
    }

    #[test]
    fn every_route_but_those_of_browsers_can_be_called() {
        for route in ROUTES {
            let result = read(route.verb.method().as_str(), route.path, json!({}));
            let detail = result.err().map(|fault| fault.detail).unwrap_or_default();
            let is_refused = detail.contains("browser") || detail.contains("body of this request");
            let expected = match route.does {
                Does::Own(OwnCall::Document | OwnCall::SessionList | OwnCall::SessionRemove) => {
                    false
                }
                Does::Own(_) | Does::Upload(_) => true,
                Does::Call(..) | Does::Entries(_) => false,
            };
            assert_eq!(is_refused, expected, "{} {}: {detail}", route.verb.method(), route.path);
            assert!(expected || detail.is_empty() || detail.contains("missing field"), "{detail}");
        }
    }

    #[test]
    fn entries_are_shown_and_changed_by_the_text_in_force() {
        let in_force = || RevisionText {
            number: 7,
            text: "[[list]]\nname = \"ads\"\nfile = \"ads.txt\"\n".to_owned(),
        };
        let step = |method: &str, path: &str, body: Value| {
            let Ok(LocalCall::Entries(call)) = read(method, path, body) else { panic!("{path}") };
            call.step(in_force(), Submitter::default())
        };
        let Ok(EntriesStep::Show(shown)) = step("GET", "/lists/settings?id=ads", json!({})) else {
            panic!("no entry")
        };
        assert_eq!(shown["entries"][0]["settings"]["file"], "ads.txt");
        let body = json!({"settings": {"name": "more", "file": "more.txt"}, "comment": "why"});
        let Ok(EntriesStep::Request(change)) = step("POST", "/lists", body.clone()) else {
            panic!("no change")
        };
        let change = serde_json::to_value(change).unwrap();
        assert_eq!((&change["command"], &change["base"]), (&json!("config-change"), &json!(7)));
        assert_eq!(change["by"]["comment"], "why");
        let Ok(EntriesStep::Request(check)) =
            step("POST", "/lists/test", json!({"settings": body["settings"]}))
        else {
            panic!("no check")
        };
        assert_eq!(serde_json::to_value(check).unwrap()["command"], "config-check");
        let fault = step("DELETE", "/lists?id=none", json!({})).unwrap_err();
        assert!(fault.detail.contains("no list has the id"), "{fault}");
    }
}
