//! How a client decides whether it accepts the certificate of a server: by its issuer, by its key,
//! or not at all.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DEFAULT_VERSIONS, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme, SupportedProtocolVersion,
};

use crate::certificate::Certificate;
use crate::tls::provider;

/// Number of octets of a pin: SHA-256 of a SubjectPublicKeyInfo (RFC 7858 §4.2).
pub const PIN_LEN: usize = 32;

/// How a client verifies a server.
#[derive(Debug)]
pub enum Trust {
    /// The certificate must be issued by one of these authorities and contain the name of the
    /// server.
    Authorities(RootCertStore),
    /// The public key of the server must have one of these digests.
    Pins(Vec<[u8; PIN_LEN]>),
    /// The authority, the name and the key must match.
    AuthoritiesAndPins(RootCertStore, Vec<[u8; PIN_LEN]>),
    /// No certificate is accepted.
    Nobody,
}

/// Reads authorities in PEM form.
///
/// # Errors
/// The text has no certificate, or an invalid one.
pub fn authorities(text: &[u8]) -> io::Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for one in authority_certificates(text)? {
        store.add(one).map_err(io::Error::other)?;
    }
    Ok(store)
}

/// Reads certificates of authorities in PEM form, without checking them.
///
/// # Errors
/// The text has no certificate.
pub fn authority_certificates(text: &[u8]) -> io::Result<Vec<CertificateDer<'static>>> {
    let all: Vec<_> =
        CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().map_err(io::Error::other)?;
    if all.is_empty() { Err(io::Error::other(pem::Error::NoItemsFound)) } else { Ok(all) }
}

/// Returns the configuration of a client that speaks one of these protocols.
///
/// # Errors
/// There is no authority.
pub fn client(trust: Trust, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, Error> {
    client_showing(trust, None, alpn)
}

/// Returns the configuration of a client that speaks one of these protocols, and presents a
/// certificate to servers that request one.
///
/// # Errors
/// There is no authority.
pub fn client_showing(
    trust: Trust,
    shown: Option<&Certificate>,
    alpn: &[&[u8]],
) -> Result<Arc<ClientConfig>, Error> {
    client_speaking(DEFAULT_VERSIONS, (trust, shown), alpn)
}

/// Returns the configuration of [`client_showing`] for TLS 1.3 only, as zone transfers require it
/// (RFC 9103 §7.2).
///
/// # Errors
/// There is no authority.
pub fn client_of_transfers(
    trust: Trust,
    shown: Option<&Certificate>,
    alpn: &[&[u8]],
) -> Result<Arc<ClientConfig>, Error> {
    client_speaking(&[&TLS13], (trust, shown), alpn)
}

fn client_speaking(
    versions: &[&'static SupportedProtocolVersion],
    (trust, shown): (Trust, Option<&Certificate>),
    alpn: &[&[u8]],
) -> Result<Arc<ClientConfig>, Error> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let authorities = |roots: RootCertStore| {
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .build()
            .map_err(|error| Error::General(error.to_string()))
    };
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Authorities(roots) => authorities(roots)?,
        Trust::Pins(pins) => Arc::new(Pinned { pins, algorithms, authorities: None }),
        Trust::AuthoritiesAndPins(roots, pins) => {
            Arc::new(Pinned { pins, algorithms, authorities: Some(authorities(roots)?) })
        }
        Trust::Nobody => Arc::new(Anyone(algorithms)),
    };
    let verifier = Arc::new(Noting(verifier));
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match shown {
        None => config.with_no_client_auth(),
        Some(shown) => config.with_client_cert_resolver(shown.for_servers()),
    };
    config.alpn_protocols = alpn.iter().map(|one| one.to_vec()).collect();
    Ok(Arc::new(config))
}

/// Returns the pin of a certificate.
///
/// # Errors
/// The octets are not a certificate.
pub fn pin(certificate: &CertificateDer<'_>) -> Result<[u8; PIN_LEN], Error> {
    let parsed = webpki::EndEntityCert::try_from(certificate)
        .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
    let digest =
        aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &parsed.subject_public_key_info());
    let octets = digest.as_ref().try_into();
    octets.map_err(|_| Error::General("SHA-256 has 32 octets".to_owned()))
}

/// A verifier that accepts a certificate with a known key (RFC 8310 §8.2). If it also has
/// authorities, they must accept the certificate too; otherwise the other contents do not matter.
#[derive(Debug)]
struct Pinned {
    pins: Vec<[u8; PIN_LEN]>,
    algorithms: WebPkiSupportedAlgorithms,
    authorities: Option<Arc<WebPkiServerVerifier>>,
}

thread_local! {
    /// The reason of the last refusal of a certificate on this thread.
    static REFUSAL: RefCell<Option<Error>> = const { RefCell::new(None) };
}

/// Takes the reason why a certificate was last refused on this thread. `quinn-proto` verifies
/// certificates within its calls and reports only a text.
pub(crate) fn take_refusal() -> Option<Error> {
    REFUSAL.take()
}

/// A verifier that notes the reason of each refusal for [`take_refusal`].
#[derive(Debug)]
struct Noting(Arc<dyn ServerCertVerifier>);

impl ServerCertVerifier for Noting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let result = self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp, now);
        result.inspect_err(|error| REFUSAL.set(Some(error.clone())))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// A verifier that accepts each certificate: the connection is encrypted, but its other end is
/// unknown.
#[derive(Debug)]
struct Anyone(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.pins.contains(&pin(end_entity)?) {
            let fault = CertificateError::ApplicationVerificationFailure;
            return Err(Error::InvalidCertificate(fault));
        }
        match &self.authorities {
            None => Ok(ServerCertVerified::assertion()),
            Some(authorities) => {
                authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp, now)
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
