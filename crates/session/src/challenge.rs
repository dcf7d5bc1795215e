//! Certificates that prove to an ACME authority that this server controls a name (TLS-ALPN-01, RFC
//! 8737). The server presents them only to clients that offer no other protocol than `acme-tls/1`,
//! and only while the authority checks the names.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{Error, ServerConfig};

use crate::tls::provider;

/// The protocol of the proof in ALPN (RFC 8737 §3).
pub const ALPN_ACME: &[u8] = b"acme-tls/1";

/// The certificates that the server presents at this time, by host name in lower case.
#[derive(Clone, Default)]
pub struct ChallengeCertificates(HashMap<String, Arc<CertifiedKey>>);

impl ChallengeCertificates {
    /// Adds a certificate in DER with its key in PKCS #8.
    ///
    /// # Errors
    /// The key cannot be read.
    pub fn put(&mut self, name: &str, certificate: &[u8], key: &[u8]) -> Result<(), Error> {
        let chain = vec![CertificateDer::from(certificate.to_vec())];
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.to_vec()));
        // `CertifiedKey::new` does not compare the key with the certificate. A comparison would
        // parse the certificate, and rustls refuses its critical extension.
        let key = CertifiedKey::new(chain, provider().key_provider.load_private_key(key)?);
        self.0.insert(name.to_ascii_lowercase(), Arc::new(key));
        Ok(())
    }
}

/// The choice of a certificate: ACME authorities get a proof, and all other clients get the usual
/// certificates of the listener.
struct WithProofs {
    proofs: Arc<ChallengeCertificates>,
    /// The certificates for other clients; `None` refuses their handshakes.
    others: Option<Arc<dyn ResolvesServerCert>>,
}

impl fmt::Debug for WithProofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithProofs").field("proofs", &self.proofs.0.len()).finish()
    }
}

impl ResolvesServerCert for WithProofs {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_of_authority = hello
            .alpn()
            .is_some_and(|mut all| all.next() == Some(ALPN_ACME) && all.next().is_none());
        if !is_of_authority {
            return self.others.as_ref()?.resolve(hello);
        }
        self.proofs.0.get(&hello.server_name()?.to_ascii_lowercase()).cloned()
    }
}

/// Returns the configuration of a listener that also answers ACME authorities with `proofs`.
pub fn with_proofs(
    listener: &ServerConfig,
    proofs: Arc<ChallengeCertificates>,
) -> Arc<ServerConfig> {
    let mut config = listener.clone();
    let others = Some(config.cert_resolver.clone());
    config.cert_resolver = Arc::new(WithProofs { proofs, others });
    config.alpn_protocols.push(ALPN_ACME.to_vec());
    Arc::new(config)
}

/// Returns the configuration of a listener that only answers ACME authorities with `proofs`, and
/// refuses all other clients.
///
/// # Errors
/// The provider of cryptography does not suffice for TLS 1.2 and 1.3.
pub fn only_proofs(proofs: Arc<ChallengeCertificates>) -> Result<Arc<ServerConfig>, Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(WithProofs { proofs, others: None }));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![ALPN_ACME.to_vec()];
    Ok(Arc::new(config))
}
