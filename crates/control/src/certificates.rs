//! The certificates that clients are shown, in the reply about the state of the server.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// A request for the certificates that clients are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateList {}

/// A request to renew at once the certificate that the server obtains by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateRenew {}

/// The certificates that clients are shown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CertificatesReport {
    /// The certificates for DNS in the order of the configuration, then the certificate of HTTPS
    /// for browsers.
    pub certificates: Vec<CertificateStatus>,
}

/// The reason why a certificate is not renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewalRefusal {
    /// The server obtains no certificate by itself.
    Off,
    /// There were too many requests for renewal within an hour. Holds the limit.
    TooMany(usize),
}

impl fmt::Display for RenewalRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("this server obtains no certificate by itself"),
            Self::TooMany(most) => write!(f, "{most} renewals were ordered within an hour"),
        }
    }
}

/// A certificate that clients are shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CertificateStatus {
    /// The clients that are shown the certificate.
    pub purpose: CertificatePurpose,
    /// The host names for which it is shown.
    pub names: Vec<String>,
    /// The file of the certificate.
    pub file: String,
    /// The file of its key.
    pub key_file: String,
    /// The Unix second from which it is valid; null if it cannot be read.
    pub not_before: Option<u64>,
    /// The Unix second until which it is valid; null if it cannot be read.
    pub not_after: Option<u64>,
    /// The addresses where it is shown.
    pub addresses: Vec<String>,
    /// The renewal of the certificate by the server; missing if another program provides the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal: Option<RenewalStatus>,
    /// The authority of this server that issues it; missing for other certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<AuthorityStatus>,
    /// The reason why the server uses an earlier certificate instead of the present files, if it
    /// does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The certification authority of the server itself, which devices install.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct AuthorityStatus {
    /// The file of its certificate.
    pub file: String,
    /// The certificate of the certification authority in PEM form.
    pub pem: String,
    /// The SHA-256 of its certificate in DER, in hexadecimal form.
    pub sha256: String,
    /// The Unix second until which it is valid.
    pub not_after: u64,
}

/// The renewal of a certificate that the server obtains (ACME).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RenewalStatus {
    /// The URL of the directory of the authority.
    pub directory: String,
    /// The Unix second of the next attempt.
    pub next_attempt: u64,
    /// The Unix second of the last attempt; null if there was none.
    pub last_attempt: Option<u64>,
    /// The Unix second at which the last certificate was obtained; null if none was obtained.
    pub last_success: Option<u64>,
    /// The number of failed attempts since the last success.
    pub failures: u32,
    /// The reason why the last attempt failed, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

words! {
    /// The clients that are shown a certificate.
    pub enum CertificatePurpose {
        /// Clients of DNS over TLS, HTTPS and QUIC.
        Dns = "dns",
        /// Browsers and clients of the API.
        Web = "web",
    }
}
