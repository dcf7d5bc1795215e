//! The certificates that clients are shown, in the reply about the state of the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::words::words;

/// A certificate that clients are shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct CertificateStatus {
    /// Who is shown it.
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
    /// Why the present files are not in use, while an earlier certificate is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

words! {
    /// Who is shown a certificate.
    pub enum CertificatePurpose {
        /// Clients of DNS over TLS, HTTPS and QUIC.
        Dns = "dns",
        /// Browsers and clients of the API.
        Web = "web",
    }
}
