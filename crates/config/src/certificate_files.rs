//! The paths of a certificate and its key.

use std::path::PathBuf;

/// The files of a certificate, in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CertificateFiles {
    /// The certificate, followed by those of its issuers.
    pub chain: PathBuf,
    /// The private key.
    pub key: PathBuf,
}
