//! Keys of ECDSA on P-256: the key of the account, which signs requests (RFC 7515, ES256), and the
//! key of a certificate, which signs the request for it (RFC 2986).

use std::fmt;
use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, KeyPair,
};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde_json::{Value, json};
use thiserror::Error;
use zeroize::Zeroizing;

use crate::der::{self, OCTET_STRING, OID, SEQUENCE, SET, bits, constructed, nested, primitive};

/// `ecPublicKey` and `prime256v1` (RFC 5480).
const EC_PUBLIC_KEY: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
/// `ecdsa-with-SHA256` (RFC 5758).
const ECDSA_SHA256: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02];
/// `extensionRequest` (RFC 2985).
const EXTENSION_REQUEST: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x0e];
/// `subjectAltName` (RFC 5280 §4.2.1.6).
const SUBJECT_ALT_NAME: [u8; 3] = [0x55, 0x1d, 0x11];
/// The tag of a `dNSName` among the names of a certificate.
const DNS_NAME: u8 = primitive(2);
/// The tag of an `iPAddress` among the names of a certificate.
const IP_ADDRESS: u8 = primitive(7);
/// Number of characters of a line of PEM (RFC 7468 §2).
const PEM_LINE: usize = 64;

/// An error: a key cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyFault {
    /// The random source or the cryptographic library fails.
    #[error("no key can be made or used: the cryptography fails")]
    Cryptography,
    /// The octets are not a key on P-256 in PKCS #8.
    #[error("the stored key cannot be read")]
    Octets,
}

/// The key of an account at an authority.
pub struct AccountKey(EcdsaKeyPair);

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountKey(..)")
    }
}

impl AccountKey {
    /// Draws a key.
    ///
    /// # Errors
    /// The random source fails.
    pub fn draw() -> Result<Self, KeyFault> {
        draw(&ECDSA_P256_SHA256_FIXED_SIGNING).map(Self)
    }

    /// Reads a key in PKCS #8.
    ///
    /// # Errors
    /// The octets are not a key on P-256.
    pub fn from_pkcs8(octets: &[u8]) -> Result<Self, KeyFault> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, octets);
        pair.map(Self).map_err(|_| KeyFault::Octets)
    }

    /// Returns the key in PKCS #8.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
        to_pkcs8(&self.0)
    }

    /// Returns the public key as a JSON Web Key (RFC 7517).
    pub(crate) fn public(&self) -> Value {
        let [x, y] = self.coordinates();
        json!({ "crv": "P-256", "kty": "EC", "x": x, "y": y })
    }

    /// Returns the thumbprint of the public key: the digest of its JSON Web Key with the members in
    /// order (RFC 7638).
    pub(crate) fn thumbprint(&self) -> String {
        let [x, y] = self.coordinates();
        let text = format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#);
        BASE64URL_NOPAD.encode(digest(&SHA256, text.as_bytes()).as_ref())
    }

    /// Returns the coordinates of the public key. An uncompressed point is the octet 4, followed by
    /// both coordinates.
    fn coordinates(&self) -> [String; 2] {
        let point = self.0.public_key().as_ref();
        [1, 33].map(|at: usize| BASE64URL_NOPAD.encode(point.get(at..at + 32).unwrap_or(&[])))
    }

    /// Signs a payload together with a header, and returns both with the signature (RFC 7515
    /// §7.2.2).
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub(crate) fn signed(&self, header: &Value, payload: &[u8]) -> Result<Vec<u8>, KeyFault> {
        let protected = BASE64URL_NOPAD.encode(header.to_string().as_bytes());
        let payload = BASE64URL_NOPAD.encode(payload);
        let signed = format!("{protected}.{payload}");
        let signature = self.0.sign(&SystemRandom::new(), signed.as_bytes());
        let signature = signature.map_err(|_| KeyFault::Cryptography)?;
        let signature = BASE64URL_NOPAD.encode(signature.as_ref());
        let body = json!({ "protected": protected, "payload": payload, "signature": signature });
        Ok(body.to_string().into_bytes())
    }
}

/// The key of a certificate.
pub struct CertificateKey(EcdsaKeyPair);

impl fmt::Debug for CertificateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateKey(..)")
    }
}

impl CertificateKey {
    /// Draws a key.
    ///
    /// # Errors
    /// The random source fails.
    pub fn draw() -> Result<Self, KeyFault> {
        draw(&ECDSA_P256_SHA256_ASN1_SIGNING).map(Self)
    }

    /// Reads a key in PKCS #8.
    ///
    /// # Errors
    /// The octets are not a key on P-256.
    pub fn from_pkcs8(octets: &[u8]) -> Result<Self, KeyFault> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, octets);
        pair.map(Self).map_err(|_| KeyFault::Octets)
    }

    /// Returns the key in PKCS #8.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
        to_pkcs8(&self.0)
    }

    /// Returns the key in PEM form (RFC 7468 §10).
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub fn to_pem(&self) -> Result<Zeroizing<String>, KeyFault> {
        Ok(pem("PRIVATE KEY", &self.to_pkcs8()?))
    }

    /// Returns the request for a certificate with these names (RFC 2986), in DER.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub(crate) fn request(&self, names: &[String]) -> Result<Vec<u8>, KeyFault> {
        let extensions = nested(SEQUENCE, &[&alternative_names(names, &[])]);
        let attribute =
            nested(SEQUENCE, &[&der::write(OID, &EXTENSION_REQUEST), &nested(SET, &[&extensions])]);
        let version = der::write(der::INTEGER, &[0]);
        let no_subject = nested(SEQUENCE, &[]);
        let attributes = nested(constructed(0), &[&attribute]);
        let facts = nested(SEQUENCE, &[&version, &no_subject, &self.public(), &attributes]);
        self.signed(&facts)
    }

    /// Returns the public key (RFC 5480 §2), in DER.
    pub fn public(&self) -> Vec<u8> {
        let algorithm =
            nested(SEQUENCE, &[&der::write(OID, &EC_PUBLIC_KEY), &der::write(OID, &P256)]);
        nested(SEQUENCE, &[&algorithm, &bits(self.0.public_key().as_ref())])
    }

    /// Signs data in DER, and returns the data with the algorithm and the signature. Certificates
    /// and requests for certificates have this form.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub(crate) fn signed(&self, facts: &[u8]) -> Result<Vec<u8>, KeyFault> {
        let signature = self.0.sign(&SystemRandom::new(), facts);
        let signature = signature.map_err(|_| KeyFault::Cryptography)?;
        Ok(nested(SEQUENCE, &[facts, &algorithm(), &bits(signature.as_ref())]))
    }
}

/// Returns the algorithm of signatures, in DER.
pub(crate) fn algorithm() -> Vec<u8> {
    nested(SEQUENCE, &[&der::write(OID, &ECDSA_SHA256)])
}

/// Returns the extension with host names and addresses (RFC 5280 §4.2.1.6), in DER.
pub(crate) fn alternative_names(names: &[String], addresses: &[IpAddr]) -> Vec<u8> {
    let names = names.iter().map(|name| der::write(DNS_NAME, name.as_bytes()));
    let addresses = addresses.iter().map(|address| match address {
        IpAddr::V4(address) => der::write(IP_ADDRESS, &address.octets()),
        IpAddr::V6(address) => der::write(IP_ADDRESS, &address.octets()),
    });
    let all: Vec<u8> = names.chain(addresses).flatten().collect();
    let value = der::write(OCTET_STRING, &der::write(SEQUENCE, &all));
    nested(SEQUENCE, &[&der::write(OID, &SUBJECT_ALT_NAME), &value])
}

/// Returns octets in PEM form (RFC 7468) with a label such as "CERTIFICATE".
pub fn pem(label: &str, octets: &[u8]) -> Zeroizing<String> {
    let text = Zeroizing::new(BASE64.encode(octets));
    let mut pem = Zeroizing::new(String::with_capacity(text.len() + text.len() / 32 + 128));
    pem.extend(["-----BEGIN ", label, "-----\n"]);
    let mut rest = text.as_str();
    while let Some((line, more)) = rest.split_at_checked(PEM_LINE.min(rest.len()))
        && !line.is_empty()
    {
        pem.extend([line, "\n"]);
        rest = more;
    }
    pem.extend(["-----END ", label, "-----\n"]);
    pem
}

fn draw(algorithm: &'static EcdsaSigningAlgorithm) -> Result<EcdsaKeyPair, KeyFault> {
    EcdsaKeyPair::generate(algorithm).map_err(|_| KeyFault::Cryptography)
}

fn to_pkcs8(pair: &EcdsaKeyPair) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
    let document = pair.to_pkcs8v1().map_err(|_| KeyFault::Cryptography)?;
    Ok(Zeroizing::new(document.as_ref().to_vec()))
}
