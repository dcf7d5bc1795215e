//! The certificates that clients are shown, in the reply about the state of the server.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// A request for the list of certificates that the server shows to clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateList {}

/// A request to renew the certificate of `[acme]` at once. The server permits five such requests in
/// an hour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateRenew {}

/// The certificates that the server shows to clients.
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

/// A certificate that the server shows to clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CertificateStatus {
    /// The kind of clients to which the server shows the certificate.
    pub purpose: CertificatePurpose,
    /// The host names for which the server shows the certificate.
    pub names: Vec<String>,
    /// The path of the file with the certificate.
    pub file: String,
    /// The path of the file with the private key.
    pub key_file: String,
    /// The Unix second from which the certificate is valid; null if the certificate cannot be read.
    pub not_before: Option<u64>,
    /// The Unix second until which the certificate is valid; null if the certificate cannot be
    /// read.
    pub not_after: Option<u64>,
    /// The listening addresses at which the server shows the certificate.
    pub addresses: Vec<String>,
    /// The renewal of the certificate by ACME. Missing if another program provides the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal: Option<RenewalStatus>,
    /// The certification authority that the server runs to issue this certificate. Missing if
    /// another authority issued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<AuthorityStatus>,
    /// The reason why the server cannot use the present files, and therefore shows an earlier
    /// certificate. Missing if the files can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The certification authority of `[home-ca]`, which the server runs itself. Devices must install
/// its certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct AuthorityStatus {
    /// The number of different names among these queries, at most 50,000.
    pub file: String,
    /// The certificate of the certification authority in PEM form.
    pub pem: String,
    /// The number of queries for further names. The server counts at most 50,000 names separately.
    pub sha256: String,
    /// The Unix second until which the certificate of the authority is valid.
    pub not_after: u64,
}

/// The renewal of a certificate that the server obtains by ACME.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RenewalStatus {
    /// The URL of the ACME directory of the certification authority.
    pub directory: String,
    /// The Unix second of the next attempt to renew.
    pub next_attempt: u64,
    /// The Unix second of the last attempt; null if there was none.
    pub last_attempt: Option<u64>,
    /// The Unix second at which the server last obtained a certificate; null if it obtained none.
    pub last_success: Option<u64>,
    /// The number of failed attempts since the last success.
    pub failures: u32,
    /// The reason why the last attempt failed. Missing if the last attempt succeeded, or if there
    /// was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

words! {
    /// The kind of clients to which the server shows a certificate.
    pub enum CertificatePurpose {
        /// Clients of DNS over TLS, HTTPS and QUIC.
        Dns = "dns",
        /// Browsers and other clients of the HTTP API.
        Web = "web",
    }
}
