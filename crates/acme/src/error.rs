//! Errors: the reasons why no certificate is obtained.

use std::fmt;

use thiserror::Error;

use crate::key::KeyFault;
use crate::world::{PresentFault, Silence, Stopped};

/// Maximum number of characters of a text of the authority that errors contain.
const MAX_TEXT: usize = 400;

/// An error: no certificate was obtained.
#[derive(Debug, Error)]
pub enum AcmeError {
    /// The authority cannot be reached, or its response is incomplete.
    #[error("{0}")]
    Silence(#[from] Silence),
    /// The authority refuses a request.
    #[error("the authority refuses {step}: {problem}")]
    Refused {
        /// The refused request.
        step: &'static str,
        /// The reason.
        problem: AuthorityProblem,
    },
    /// The authority has not found the proof for a name.
    #[error("the authority does not accept the proof for {name} ({kind}): {problem}")]
    Proof {
        /// The host name.
        name: String,
        /// The kind of challenge.
        kind: &'static str,
        /// The reason.
        problem: AuthorityProblem,
    },
    /// The authority does not offer the configured kind of challenge.
    #[error("for {name}, the authority offers no {kind}, only {offered}")]
    NotOffered {
        /// The host name.
        name: String,
        /// The kind of challenge.
        kind: &'static str,
        /// The kinds that the authority offers.
        offered: String,
    },
    /// A response does not follow RFC 8555.
    #[error("the response of the authority to {step} is invalid: {what}")]
    Invalid {
        /// The request to which the authority responds.
        step: &'static str,
        /// What is wrong with the response.
        what: String,
    },
    /// The authority takes too long for a step.
    #[error("the authority did not complete {0} in time")]
    TooSlow(&'static str),
    /// The authority says that the order has failed.
    #[error("the authority gave up the order: {0}")]
    Order(AuthorityProblem),
    /// A proof cannot be presented to the authority.
    #[error("the proof for {name} cannot be shown: {source}")]
    Present {
        /// The host name.
        name: String,
        /// The reason.
        source: PresentFault,
    },
    /// A key cannot be made or used.
    #[error("{0}")]
    Key(#[from] KeyFault),
    /// The server stops, or the configuration has changed.
    #[error("{0}")]
    Stopped(#[from] Stopped),
}

impl AcmeError {
    /// Returns the number of seconds to wait before the next request, if the authority states it.
    pub fn retry_after_secs(&self) -> Option<u64> {
        match self {
            Self::Refused { problem, .. } => problem.retry_after_secs,
            _ => None,
        }
    }

    /// Reports whether the authority limits the number of requests.
    pub fn is_rate_limit(&self) -> bool {
        matches!(self, Self::Refused { problem, .. } if problem.kind == "rateLimited")
    }
}

/// The reason that an authority gives for a failure (RFC 7807, RFC 8555 §6.7): its texts are
/// printable and of bounded length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorityProblem {
    /// The type, without `urn:ietf:params:acme:error:`, such as `unauthorized`.
    pub kind: String,
    /// The reason in words; may be empty.
    pub detail: String,
    /// The HTTP status; 0 if the problem is part of a larger response.
    pub status: u16,
    /// The seconds after which the request may be repeated.
    pub retry_after_secs: Option<u64>,
}

impl fmt::Display for AuthorityProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.detail.as_str(), self.kind.as_str(), self.status) {
            ("", "", 0) => f.write_str("it gives no reason"),
            ("", "", status) => write!(f, "HTTP status {status}"),
            ("", kind, _) => f.write_str(kind),
            (detail, "", _) => f.write_str(detail),
            (detail, kind, _) => write!(f, "{detail} ({kind})"),
        }
    }
}

/// Returns a text of the authority in a form that is safe in a log line.
pub(crate) fn printable(text: &str) -> String {
    let shown = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.chars().take(MAX_TEXT).map(shown).collect()
}
