//! The keys of `[acme]` in the file.

use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::Deserialize;

use super::error::SettingError;
use super::setting::{FromText, List, Setting, Text};

/// The table `[acme]`: a certificate that the server obtains by ACME (RFC 8555).
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct AcmeSpec {
    /// Host names in the certificate, at most 100. If the list is empty, the server obtains no
    /// certificate.
    #[schemars(extend("default" = []))]
    pub(super) names: Setting<List<String>>,
    /// URL of the ACME directory of the certification authority.
    #[schemars(extend("default" = "https://acme-v02.api.letsencrypt.org/directory"))]
    pub(super) directory: Setting<String>,
    /// E-mail address of the operator, for messages of the authority; "" sends none.
    #[schemars(extend("default" = ""))]
    pub(super) email: Setting<String>,
    /// Consent to the terms of the authority; required with `names`.
    #[schemars(extend("default" = false))]
    pub(super) agree_to_terms: Setting<bool>,
    /// How the server proves that it controls the names: "http-01" on port 80, "tls-alpn-01" on
    /// port 443, or "dns-01" by a record in a hosted zone or in a zone of `update-server`.
    #[schemars(extend("default" = "http-01"))]
    pub(super) challenge: Setting<Text<AcmeChallenge>>,
    /// Addresses with port that the server opens during a proof by "http-01". The authority
    /// connects to port 80 of the names, so port 80 must lead to one of these addresses.
    #[schemars(extend("default" = ["0.0.0.0:80", "[::]:80"]))]
    pub(super) http_listen: Setting<List<Text<SocketAddr>>>,
    /// Server that gets the records of "dns-01" by dynamic updates (RFC 2136), for names that are
    /// in no hosted zone of this server. "" means that there is no such server.
    #[schemars(extend("default" = ""))]
    pub(super) update_server: Setting<String>,
    /// Name of the `[[key]]` that signs the updates and the replies of `update-server`; required
    /// with `update-server`.
    #[schemars(extend("default" = ""))]
    pub(super) update_key: Setting<String>,
    /// File with the certificates of the authorities that may issue the certificate of the ACME
    /// directory itself, in PEM form; "" trusts the authorities of the system.
    #[schemars(extend("default" = ""))]
    pub(super) ca: Setting<String>,
    /// Directory for the account, the certificate and its private key; "" is `acme` in the data
    /// directory.
    #[schemars(extend("default" = ""))]
    pub(super) storage: Setting<String>,
}

/// How the control of names is proven.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// A file on port 80 proves the control (RFC 8555 §8.3).
    #[default]
    Http01,
    /// A certificate on port 443 proves the control (RFC 8737).
    TlsAlpn01,
    /// A record in a zone proves the control (RFC 8555 §8.4).
    Dns01,
}

impl AcmeChallenge {
    /// Returns the name of the challenge, which the file and the protocol share.
    pub fn text(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Dns01 => "dns-01",
        }
    }
}

impl FromText for AcmeChallenge {
    const EXPECTED: &'static str = "\"http-01\", \"tls-alpn-01\" or \"dns-01\"";
    const CHOICES: &'static [&'static str] = &["http-01", "tls-alpn-01", "dns-01"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "http-01" => Ok(Self::Http01),
            "tls-alpn-01" => Ok(Self::TlsAlpn01),
            "dns-01" => Ok(Self::Dns01),
            _ => Err(None),
        }
    }
}
