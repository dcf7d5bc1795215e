//! The files of the certificate of HTTPS.

use std::path::Path;
use std::sync::Arc;

use avocet_config::certificate_files::CertificateFiles;
use avocet_config::web::WebConfig;
use avocet_io::file::read_regular;
use avocet_session::certificate::own_names;
use avocet_session::validity::Validity;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::Error::Io;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use avocet_worker::certificates::{CertificateFault, MAX_PEM};

/// A certificate with its key, ready for connections.
pub(crate) struct WebCertificate {
    /// The settings of connections.
    pub(crate) config: Arc<ServerConfig>,
    /// The files that it was read from.
    pub(crate) files: CertificateFiles,
    /// The host names in the certificate.
    pub(crate) names: Vec<String>,
    /// The validity of the certificate; `None` if it is not in a form of RFC 5280.
    pub(crate) validity: Option<Validity>,
}

/// The state of the certificate of HTTPS, for display.
#[derive(Clone, Default)]
pub(crate) struct ShownWebCertificate {
    /// The certificate in force, if HTTPS has one of its own.
    pub(crate) certificate: Option<Arc<WebCertificate>>,
    /// The reason why the certificate cannot be used, or why there is none.
    pub(crate) fault: Option<String>,
}

/// Reads the files of a certificate.
///
/// # Errors
/// A file cannot be read, or certificate and key do not match.
pub(crate) fn read(files: &CertificateFiles) -> Result<WebCertificate, CertificateFault> {
    let CertificateFiles { chain, key } = files;
    let read = |path: &Path| read_regular(path, MAX_PEM).map_err(Io);
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| CertificateFault::Unreadable { path, source }
    };
    let certificates = read(chain)
        .and_then(|octets| CertificateDer::pem_slice_iter(&octets).collect::<Result<Vec<_>, _>>())
        .map_err(unreadable(chain))?;
    let private = read(key)
        .and_then(|octets| PrivateKeyDer::from_pem_slice(&octets))
        .map_err(unreadable(key))?;
    let first = certificates.first();
    let names = first.map(own_names).unwrap_or_default();
    let validity = first.and_then(Validity::of);
    let unusable = |source| CertificateFault::Unusable { path: chain.clone(), source };
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(WebCertificate { config: Arc::new(config), files: files.clone(), names, validity })
}

/// Returns the reason why the certificate of HTTPS cannot be used; `None` if it can.
pub fn fault_of_certificate(web: &WebConfig) -> Option<String> {
    let fault = read(web.https.as_ref()?.certificate.files()?).err()?;
    Some(format!("{fault}; correct [web] tls-cert and tls-key, or set https = \"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_end_is_no_certificate() {
        let files = CertificateFiles { chain: "/dev/zero".into(), key: "/dev/zero".into() };
        let error = read(&files).err().unwrap().to_string();
        assert!(error.contains("not a file"), "{error}");
    }
}
