//! Proofs of the control of a name (RFC 8555 §8, RFC 8737).

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64URL_NOPAD;

use crate::der::{self, BOOLEAN, OCTET_STRING};
use crate::issue::{CertificateFacts, Issuer, Role, extension, signed};
use crate::key::{CertificateKey, KeyFault, alternative_names};

/// Maximum number of octets of a token. Usual tokens have 43.
const MAX_TOKEN: usize = 256;
/// `id-pe-acmeIdentifier` (RFC 8737 §6.1).
const ACME_IDENTIFIER: [u8; 8] = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x1f];
/// The owner and issuer of certificates of TLS-ALPN-01.
const ALPN_SUBJECT: &str = "ACME challenge";

/// A kind of challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChallengeKind {
    /// A file at `http://NAME/.well-known/acme-challenge/` (RFC 8555 §8.3).
    Http01,
    /// A certificate at port 443 of the name (RFC 8737).
    TlsAlpn01,
    /// A TXT record below the name (RFC 8555 §8.4).
    Dns01,
}

impl ChallengeKind {
    /// Returns the name of the challenge in the protocol.
    pub fn text(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Dns01 => "dns-01",
        }
    }
}

/// A proof that the authority expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The method by which the authority verifies the proof.
    pub kind: ChallengeKind,
    /// The host name, without `*.`.
    pub name: String,
    /// The token of the challenge: letters, digits, `-` and `_`.
    pub token: String,
    /// The text at the path of HTTP-01 (RFC 8555 §8.1).
    pub authorization: String,
}

impl Proof {
    /// Creates a proof; `None` if the token has octets that RFC 8555 §8.3 does not permit.
    pub(crate) fn new(
        kind: ChallengeKind,
        name: &str,
        token: &str,
        thumbprint: &str,
    ) -> Option<Self> {
        let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_".contains(&octet);
        let is_token = !token.is_empty() && token.len() <= MAX_TOKEN && token.bytes().all(is_plain);
        let authorization = format!("{token}.{thumbprint}");
        is_token.then(|| Self {
            kind,
            name: name.to_owned(),
            token: token.to_owned(),
            authorization,
        })
    }

    /// Returns the digest that a certificate of TLS-ALPN-01 contains.
    fn digest(&self) -> Vec<u8> {
        digest(&SHA256, self.authorization.as_bytes()).as_ref().to_vec()
    }

    /// Returns the text of the record `_acme-challenge.NAME TXT` (RFC 8555 §8.4).
    pub fn record(&self) -> String {
        BASE64URL_NOPAD.encode(&self.digest())
    }
}

/// A certificate of TLS-ALPN-01, which is self-signed.
pub struct AlpnCertificate {
    /// The certificate in DER.
    pub certificate: Vec<u8>,
    /// The key of the certificate.
    pub key: CertificateKey,
}

/// Returns the certificate that proves the control of a name at its port 443 (RFC 8737 §3). Its
/// period of validity does not matter, because only the authority sees it.
///
/// # Errors
/// The cryptographic library fails.
pub fn alpn_certificate(proof: &Proof) -> Result<AlpnCertificate, KeyFault> {
    let key = CertificateKey::draw()?;
    let digest = der::write(OCTET_STRING, &proof.digest());
    let critical = der::write(BOOLEAN, &[0xff]);
    let mut extensions = alternative_names(std::slice::from_ref(&proof.name), &[]);
    extensions.extend(extension(&ACME_IDENTIFIER, &critical, &digest));
    let facts = CertificateFacts {
        role: Role::Server,
        subject: ALPN_SUBJECT,
        names: &[],
        addresses: &[],
        public: &key.public(),
        serial: [1; 16],
        not_before: 0,
        not_after: u64::MAX,
    };
    let issuer = Issuer { subject: ALPN_SUBJECT, key: &key };
    Ok(AlpnCertificate { certificate: signed(&facts, issuer, &extensions)?, key })
}
