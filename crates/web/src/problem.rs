//! Errors of the interface: problem details (RFC 9457), each with a next step.

use avocet_control::ControlError;
use avocet_control::error::ErrorCode;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::LoginFault;
use crate::oidc::OidcFault;

/// The media type of problem details.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// A problem.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: &'static ProblemKind,
    /// The problem of this request.
    detail: String,
    /// The action that solves the problem, if it differs from the default of the kind.
    next: Option<&'static str>,
    /// Seconds until another attempt may succeed.
    retry_after_secs: Option<u64>,
}

/// An error, as the body of a response (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemBody {
    /// A URI for the kind of error: `urn:avocet:problem:`, followed by the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind of error in words.
    pub title: String,
    /// The status code of the HTTP response.
    pub status: u16,
    /// A description of the error in this request.
    pub detail: String,
    /// The code of the kind of error. A kind keeps its code in later versions.
    pub code: String,
    /// What to do about the error.
    pub next: String,
    /// The number of seconds after which another attempt may succeed.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "retry-after-secs")]
    pub retry_after_secs: Option<u64>,
}

/// A kind of problem: status, code, title, and the next step.
#[derive(Debug)]
pub(crate) struct ProblemKind(StatusCode, &'static str, &'static str, &'static str);

macro_rules! kinds {
    ($($name:ident: $status:ident, $code:literal, $title:literal, $next:literal;)*) => {
        $(
            pub(crate) static $name: ProblemKind =
                ProblemKind(StatusCode::$status, $code, $title, $next);
        )*

        /// All codes, for the manual.
        #[cfg(test)]
        pub(crate) const CODES: &[&str] = &[$($code),*];
    };
}

kinds! {
    MALFORMED: BAD_REQUEST, "malformed", "The request is malformed",
        "see /api/v1/openapi.json for the fields of this request";
    INVALID_VALUE: UNPROCESSABLE_ENTITY, "invalid-value", "A value is invalid",
        "correct the value";
    UNAUTHENTICATED: UNAUTHORIZED, "unauthenticated", "Nobody is logged in",
        "log in with POST /api/v1/session, or send a token in the Authorization header";
    CODE_NEEDED: UNAUTHORIZED, "code-needed", "A second factor is needed",
        "send the code of the second factor, or a recovery code, in `code`";
    FORBIDDEN: FORBIDDEN, "forbidden", "The user or token may not do this",
        "use a user with another role, or a token with this scope";
    FORGED: FORBIDDEN, "forged", "The request may come from another site",
        "repeat the value from GET /api/v1/session in the header X-CSRF-Token";
    FOREIGN_HOST: FORBIDDEN, "foreign-host", "The name in Host does not belong to this network",
        "use an address, or add the name to [server] http-names";
    NOT_LOCAL: FORBIDDEN, "not-local", "Set-up is for the local network",
        "open the link on this machine or in its network, or use `avocet user add`";
    NOT_FOUND: NOT_FOUND, "not-found", "There is no such thing",
        "see /api/v1/openapi.json for the paths, and the matching GET request for what exists";
    NO_METHOD: METHOD_NOT_ALLOWED, "method-not-allowed", "The path has no such method",
        "see the header Allow";
    TIMEOUT: REQUEST_TIMEOUT, "request-timeout", "The request took too long to arrive",
        "send the request again";
    CONFLICT: CONFLICT, "conflict", "Somebody else has changed it",
        "read it again, and repeat the change";
    EXISTS: CONFLICT, "exists", "It exists already",
        "use another name, or change what exists";
    NOT_CONFIGURED: CONFLICT, "not-configured", "The configuration does not have it",
        "change the configuration";
    NOT_POSSIBLE: CONFLICT, "not-possible", "The state of the server does not permit it",
        "see GET /api/v1/status";
    LIMIT_REACHED: CONFLICT, "limit-reached", "A limit is reached",
        "remove something first";
    UNAVAILABLE: CONFLICT, "unavailable", "The data is not available",
        "see the warnings of GET /api/v1/status";
    SETUP_OVER: CONFLICT, "setup-over", "The set-up link is not valid",
        "log in; without a user, restart the server for another link, or use `avocet user add`";
    NOT_BEGUN: CONFLICT, "not-begun", "There is nothing to confirm",
        "begin with POST /api/v1/session/second-factor";
    REPEATED: CONFLICT, "in-progress", "An equal request is in progress",
        "wait for its reply";
    KEY_REUSED: UNPROCESSABLE_ENTITY, "key-reused",
        "The idempotency key belongs to another request",
        "use a new key for a new request";
    CHANGED: PRECONDITION_FAILED, "changed", "The resource has changed",
        "read it again, and repeat the change with its present ETag";
    TOO_LARGE: PAYLOAD_TOO_LARGE, "too-large", "The body is too large",
        "send less";
    NOT_JSON: UNSUPPORTED_MEDIA_TYPE, "not-json", "The body is not JSON",
        "send Content-Type: application/json";
    THROTTLED: TOO_MANY_REQUESTS, "throttled", "There were too many failed attempts",
        "wait";
    REFUSED_CONFIG: UNPROCESSABLE_ENTITY, "configuration-refused", "The configuration has errors",
        "correct the file; `avocet check` shows the errors";
    PROVIDER: BAD_GATEWAY, "provider", "The provider of the log-in cannot be used",
        "try again, or see [oidc] in the configuration and the log of the provider";
    INTERNAL: INTERNAL_SERVER_ERROR, "internal", "The server has a defect",
        "see the log of the server, and report the defect";
    BUSY: SERVICE_UNAVAILABLE, "busy", "The server is busy",
        "try again";
    ENDING: SERVICE_UNAVAILABLE, "shutting-down", "The server is shutting down",
        "try again once it runs";
    NO_ANSWER: GATEWAY_TIMEOUT, "timeout", "Resolution did not finish in time",
        "try again, or see the trace of GET /api/v1/explain";
}

impl ProblemKind {
    /// Returns the name of the kind.
    pub(crate) const fn code(&self) -> &'static str {
        self.1
    }

    /// Returns the problem with its detail.
    pub(crate) fn of(&'static self, detail: impl Into<String>) -> Problem {
        Problem { kind: self, detail: detail.into(), next: None, retry_after_secs: None }
    }
}

impl Problem {
    /// Returns the problem with a time to wait.
    pub(crate) fn after(mut self, secs: u64) -> Self {
        self.retry_after_secs = Some(secs);
        self
    }

    /// Returns the problem with a next step that differs from the default of its kind.
    pub(crate) fn then(mut self, next: &'static str) -> Self {
        self.next = Some(next);
        self
    }

    /// Returns the name of the kind.
    pub(crate) const fn code(&self) -> &'static str {
        self.kind.1
    }

    /// Returns the problem as the body of a response.
    pub(crate) fn body(&self) -> ProblemBody {
        let ProblemKind(status, code, title, next) = self.kind;
        ProblemBody {
            kind: format!("urn:avocet:problem:{code}"),
            title: (*title).to_owned(),
            status: status.as_u16(),
            detail: self.detail.clone(),
            code: (*code).to_owned(),
            next: self.next.unwrap_or(next).to_owned(),
            retry_after_secs: self.retry_after_secs,
        }
    }

    /// Returns the response.
    pub(crate) fn response(&self) -> Response<Body> {
        let body = serde_json::to_vec(&self.body()).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.kind.0;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if self.kind.0 == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"avocet\""));
        }
        if let Some(secs) = self.retry_after_secs {
            headers.insert(RETRY_AFTER, HeaderValue::from(secs));
        }
        response
    }
}

impl From<ControlError> for Problem {
    fn from(error: ControlError) -> Self {
        let kind = match error.code() {
            ErrorCode::NotARequest => &MALFORMED,
            ErrorCode::Busy => &BUSY,
            ErrorCode::ShuttingDown | ErrorCode::Disconnected => &ENDING,
            ErrorCode::InvalidValue => &INVALID_VALUE,
            ErrorCode::NotFound => &NOT_FOUND,
            ErrorCode::Forbidden => &FORBIDDEN,
            ErrorCode::Conflict => &CONFLICT,
            ErrorCode::Exists => &EXISTS,
            ErrorCode::NotConfigured => &NOT_CONFIGURED,
            ErrorCode::NotPossible => &NOT_POSSIBLE,
            ErrorCode::LimitReached => &LIMIT_REACHED,
            ErrorCode::ConfigurationRefused => &REFUSED_CONFIG,
            ErrorCode::Unavailable => &UNAVAILABLE,
            ErrorCode::Timeout => &NO_ANSWER,
            ErrorCode::Internal => &INTERNAL,
        };
        let problem = Problem { next: error.next(), ..kind.of(error.to_string()) };
        if kind.0 == StatusCode::SERVICE_UNAVAILABLE { problem.after(1) } else { problem }
    }
}

impl From<LoginFault> for Problem {
    fn from(fault: LoginFault) -> Self {
        match fault {
            LoginFault::Throttled(secs) => {
                THROTTLED.of(format!("the next attempt is permitted in {secs} seconds")).after(secs)
            }
            LoginFault::Wrong => UNAUTHENTICATED.of("the name, the password or the code is wrong"),
            LoginFault::CodeNeeded => CODE_NEEDED.of("the user has a second factor"),
            LoginFault::SetupOver => SETUP_OVER.of("it is wrong, was used, or has expired"),
            LoginFault::NothingToConfirm => NOT_BEGUN.of("no second factor was drawn"),
            LoginFault::Access(fault) => ControlError::from(fault).into(),
        }
    }
}

impl From<OidcFault> for Problem {
    fn from(fault: OidcFault) -> Self {
        match fault {
            OidcFault::Off => {
                NOT_FOUND.of("there is no provider").then("set issuer in [oidc], or use a password")
            }
            OidcFault::Provider(reason) => PROVIDER.of(reason),
            OidcFault::Busy => BUSY.of("another log-in asks the provider").after(1),
            OidcFault::NotBegun => {
                let detail = "this browser did not begin the log-in, or it took too long";
                UNAUTHENTICATED.of(detail).then(BEGIN_AGAIN)
            }
            OidcFault::Denied(reason) => {
                UNAUTHENTICATED.of(format!("the provider refuses: {reason:?}")).then(BEGIN_AGAIN)
            }
            OidcFault::Token(reason) => {
                UNAUTHENTICATED.of(format!("the token is refused: {reason}")).then(BEGIN_AGAIN)
            }
            OidcFault::NoRole => FORBIDDEN
                .of("the user has no role here")
                .then("add a group of the user to admins, operators or viewers in [oidc]"),
            OidcFault::Name(claim) => FORBIDDEN
                .of(format!("the claim {claim:?} is missing, or is no name of a user"))
                .then("set name-claim in [oidc] to a claim with a short name"),
        }
    }
}

const BEGIN_AGAIN: &str = "begin again with GET /api/v1/session/oidc";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_lists_every_code() {
        let page = include_str!("../../../docs/manual/api.md");
        for code in CODES {
            assert!(page.contains(&format!("| `{code}` |")), "{code}");
        }
    }
}
