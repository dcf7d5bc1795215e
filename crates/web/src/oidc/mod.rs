//! Log-in by an OpenID Connect provider: authorization code with PKCE (OpenID Connect Core 1.0
//! §3.1, RFC 7636, RFC 9207).
//!
//! ```text
//!   GET /session/oidc ──303──> provider: the user logs in ──303──> GET /session/oidc/callback
//!     state, nonce, verifier                                         state, issuer
//!     sealed in a cookie                                             code ──> token endpoint
//!                                                                    ID token: signature, claims
//!                                                                    claims ──> name and role
//! ```
//! The cookie binds the log-in to the browser that began it, and the server keeps nothing for
//! log-ins that never end. A state is valid once. The provider belongs to the configuration: the
//! server reaches it at any address, private ones included.

mod flow;
mod provider;
mod token;

use avocet_control::access::{Role, Secret};
use serde_json::{Map, Value};

pub(crate) use flow::{BegunFlow, FLOW_SECS, Flow, FlowReturn};

/// The configuration of the log-in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// The URL of the issuer.
    pub issuer: String,
    /// The name under which the issuer knows this server.
    pub client_id: String,
    /// The secret of the client; `None` for a public client.
    pub client_secret: Option<Secret>,
    /// The URL of this server for browsers, without a slash at its end.
    pub public_url: String,
    /// The scopes that are requested in addition to `openid`.
    pub scopes: Vec<String>,
    /// The claim with the name of a user.
    pub name_claim: String,
    /// The claim with the groups or roles of a user.
    pub role_claim: String,
    /// The values of the claim for each role, with the highest role first.
    pub roles: Vec<(Role, Vec<String>)>,
}

/// A request to the provider.
#[derive(Debug)]
pub struct ProviderRequest {
    /// The URL.
    pub url: String,
    /// The header `Authorization`.
    pub authorization: Option<Secret>,
    /// The fields of a POST. A GET has none.
    pub form: Option<Secret>,
}

/// The response of the provider.
#[derive(Debug)]
pub struct ProviderResponse {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// The reason why the provider did not respond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSilence(pub String);

/// The reason why a log-in by the provider failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OidcFault {
    /// No issuer is configured.
    Off,
    /// The provider cannot be used. Holds the reason.
    Provider(String),
    /// Another request waits for the provider, or too many log-ins came back lately.
    Busy,
    /// The browser did not begin this log-in, took too long, or has already ended it.
    NotBegun,
    /// The provider refused the log-in. Holds its reason.
    Denied(String),
    /// The token is not valid for this log-in. Holds the reason.
    Token(&'static str),
    /// The user has no role here.
    NoRole,
    /// The claim with the name is missing, or is not valid as the name of a user.
    Name(String),
}

/// Claims of a token, or of the userinfo endpoint.
type Claims = Map<String, Value>;

impl OidcSettings {
    /// Returns a text that differs if any setting differs, except the secret.
    pub(crate) fn identity(&self) -> String {
        // The `Debug` format of a secret does not show it.
        format!("{self:?}")
    }

    /// Returns the URL to which the provider sends browsers back.
    fn redirect_uri(&self) -> String {
        format!("{}{}", self.public_url, flow::CALLBACK)
    }

    /// Returns the highest role that the claims grant.
    fn role(&self, claims: &Claims) -> Option<Role> {
        let claim = claims.get(&self.role_claim)?;
        let has = |value: &str| match claim {
            Value::String(text) => text == value,
            Value::Array(texts) => texts.iter().any(|text| text == value),
            _ => false,
        };
        let mut roles = self.roles.iter();
        roles.find(|(_, values)| values.iter().any(|value| has(value))).map(|(role, _)| *role)
    }
}
