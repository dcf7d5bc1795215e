//! The JSON objects that the authority sends (RFC 8555 §7.1). Unused members are skipped.

use serde::Deserialize;

use crate::error::{AuthorityProblem, printable};

/// Maximum number of members of a list in a response: names, authorizations, challenges.
pub(crate) const MAX_ITEMS: usize = 100;
/// The beginning of the types of problems (RFC 8555 §6.7).
const PROBLEM_TYPE: &str = "urn:ietf:params:acme:error:";

/// The URLs of an authority (RFC 8555 §7.1.1).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Directory {
    pub(crate) new_nonce: String,
    pub(crate) new_account: String,
    pub(crate) new_order: String,
    /// The URL for renewal information (RFC 9773), if the authority offers it.
    pub(crate) renewal_info: Option<String>,
}

/// The state of an order, an authorization or a challenge (RFC 8555 §7.1.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProgressState {
    Pending,
    Ready,
    Processing,
    Valid,
    #[serde(other)]
    Failed,
}

/// An order (RFC 8555 §7.1.3).
#[derive(Debug, Deserialize)]
pub(crate) struct Order {
    pub(crate) status: ProgressState,
    #[serde(default)]
    pub(crate) authorizations: Vec<String>,
    #[serde(default)]
    pub(crate) finalize: String,
    pub(crate) certificate: Option<String>,
    pub(crate) error: Option<Problem>,
}

/// The authority's state of one name: the proof that it requires (RFC 8555 §7.1.4).
#[derive(Debug, Deserialize)]
pub(crate) struct Authorization {
    pub(crate) status: ProgressState,
    pub(crate) identifier: Identifier,
    #[serde(default)]
    pub(crate) challenges: Vec<Challenge>,
}

/// The identifier of an order or authorization: a host name.
#[derive(Debug, Deserialize)]
pub(crate) struct Identifier {
    pub(crate) value: String,
}

/// A way to prove the control of a name (RFC 8555 §7.1.5).
#[derive(Debug, Deserialize)]
pub(crate) struct Challenge {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) url: String,
    #[serde(default)]
    pub(crate) token: String,
    pub(crate) error: Option<Problem>,
}

/// The reason for a failure (RFC 7807).
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Problem {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    detail: String,
    #[serde(default)]
    subproblems: Vec<SubProblem>,
}

/// The problem with one name (RFC 8555 §6.7.1).
#[derive(Debug, Deserialize)]
struct SubProblem {
    #[serde(default)]
    detail: String,
    identifier: Option<Identifier>,
}

impl Problem {
    /// Returns the problem in a form that is safe in logs.
    pub(crate) fn shown(&self, status: u16, retry_after_secs: Option<u64>) -> AuthorityProblem {
        let mut detail = self.detail.clone();
        for part in self.subproblems.iter().take(MAX_ITEMS) {
            let name = part.identifier.as_ref().map_or("", |name| name.value.as_str());
            detail.push_str(&format!("; {name}: {}", part.detail));
        }
        AuthorityProblem {
            kind: printable(self.kind.strip_prefix(PROBLEM_TYPE).unwrap_or(&self.kind)),
            detail: printable(&detail),
            status,
            retry_after_secs,
        }
    }
}

/// The renewal information of a certificate, as the authority sends it (RFC 9773 §4.2).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RenewalInfo {
    pub(crate) suggested_window: SuggestedWindow,
}

/// A period between two times of RFC 3339.
#[derive(Debug, Deserialize)]
pub(crate) struct SuggestedWindow {
    pub(crate) start: String,
    pub(crate) end: String,
}
