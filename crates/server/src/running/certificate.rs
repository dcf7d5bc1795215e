//! The files of the certificate of HTTPS.

use std::path::Path;
use std::sync::Arc;

use avocet_config::web::{CertificateFiles, WebConfig};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificates::CertificateFault;

/// Reads the files of a certificate.
///
/// # Errors
/// A file cannot be read, or the two do not belong together.
pub(crate) fn read(files: &CertificateFiles) -> Result<Arc<ServerConfig>, CertificateFault> {
    let CertificateFiles { chain, key } = files;
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| CertificateFault::Unreadable { path, source }
    };
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(unreadable(chain))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(unreadable(key))?;
    let unusable = |source| CertificateFault::Unusable { path: chain.clone(), source };
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns why the certificate of HTTPS cannot be used, if it cannot.
pub fn fault_of_certificate(web: &WebConfig) -> Option<String> {
    let fault = read(&web.https.as_ref()?.certificate).err()?;
    Some(format!("{fault}; correct [web] tls-cert and tls-key, or set https = \"\""))
}
