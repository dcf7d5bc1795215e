//! Signs certificates (RFC 5280): the proofs of TLS-ALPN-01, and the certificates of a private
//! authority.

use std::net::IpAddr;

use aws_lc_rs::digest::{SHA256, digest};

use crate::der::{
    self, BOOLEAN, GENERALIZED_TIME, INTEGER, OCTET_STRING, OID, SEQUENCE, SET, UTC_TIME,
    UTF8_STRING, bits_with_unused, constructed, nested, primitive,
};
use crate::key::{CertificateKey, KeyFault, algorithm, alternative_names};

const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const SUBJECT_KEY: [u8; 3] = [0x55, 0x1d, 0x0e];
const KEY_USAGE: [u8; 3] = [0x55, 0x1d, 0x0f];
const BASIC_CONSTRAINTS: [u8; 3] = [0x55, 0x1d, 0x13];
const AUTHORITY_KEY: [u8; 3] = [0x55, 0x1d, 0x23];
const EXTENDED_USAGE: [u8; 3] = [0x55, 0x1d, 0x25];
/// The object identifier of `id-kp-serverAuth`.
const SERVER_AUTH: [u8; 8] = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01];
/// Number of octets of a key identifier (RFC 7093 §2, method 1).
const KEY_ID_LEN: usize = 20;

/// Who uses a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A server with host names.
    Server,
    /// An authority that issues certificates for servers.
    Authority,
}

/// The contents of a certificate that vary.
#[derive(Debug, Clone, Copy)]
pub struct CertificateFacts<'a> {
    /// Who uses the certificate.
    pub role: Role,
    /// The common name of the certificate's owner.
    pub subject: &'a str,
    /// The host names.
    pub names: &'a [String],
    /// The addresses.
    pub addresses: &'a [IpAddr],
    /// The public key in DER: see [`CertificateKey::public`].
    pub public: &'a [u8],
    /// The serial number; the first octet is from 1 to 127.
    pub serial: [u8; 16],
    /// The first Unix second in which the certificate is valid.
    pub not_before: u64,
    /// The last Unix second in which the certificate is valid.
    pub not_after: u64,
}

/// The authority that signs.
#[derive(Debug, Clone, Copy)]
pub struct Issuer<'a> {
    /// The common name of the authority.
    pub subject: &'a str,
    /// The key of the authority.
    pub key: &'a CertificateKey,
}

/// Returns a signed certificate in DER.
///
/// # Errors
/// The cryptographic library fails.
pub fn issue(facts: &CertificateFacts<'_>, issuer: Issuer<'_>) -> Result<Vec<u8>, KeyFault> {
    let mut extensions = Vec::new();
    let mut put = |oid: &[u8], value: Vec<u8>| extensions.extend(extension(oid, &[], &value));
    put(&SUBJECT_KEY, der::write(OCTET_STRING, &key_id(facts.public)));
    let of_issuer = der::write(primitive(0), &key_id(&issuer.key.public()));
    put(&AUTHORITY_KEY, der::write(SEQUENCE, &of_issuer));
    if facts.role == Role::Server {
        put(&EXTENDED_USAGE, nested(SEQUENCE, &[&der::write(OID, &SERVER_AUTH)]));
        extensions.extend(alternative_names(facts.names, facts.addresses));
    }
    let (is_authority, usage) = match facts.role {
        // The bits of `keyUsage`: digitalSignature for servers, keyCertSign and cRLSign for
        // authorities.
        Role::Server => (Vec::new(), bits_with_unused(7, &[0x80])),
        Role::Authority => (der::write(BOOLEAN, &[0xff]), bits_with_unused(1, &[0x06])),
    };
    let critical = der::write(BOOLEAN, &[0xff]);
    extensions.extend(extension(&KEY_USAGE, &critical, &usage));
    let constraints = der::write(SEQUENCE, &is_authority);
    extensions.extend(extension(&BASIC_CONSTRAINTS, &critical, &constraints));
    signed(facts, issuer, &extensions)
}

/// Returns a signed certificate with these extensions, in DER.
pub(crate) fn signed(
    facts: &CertificateFacts<'_>,
    issuer: Issuer<'_>,
    extensions: &[u8],
) -> Result<Vec<u8>, KeyFault> {
    let life = nested(SEQUENCE, &[&time(facts.not_before), &time(facts.not_after)]);
    let version = nested(constructed(0), &[&der::write(INTEGER, &[2])]);
    let serial = der::write(INTEGER, &facts.serial);
    let extensions = nested(constructed(3), &[&der::write(SEQUENCE, extensions)]);
    let (from, to) = (name(issuer.subject), name(facts.subject));
    let parts: [&[u8]; 8] =
        [&version, &serial, &algorithm(), &from, &life, &to, facts.public, &extensions];
    issuer.key.signed(&nested(SEQUENCE, &parts))
}

/// Returns an extension. `critical` is the encoded flag, or empty.
pub(crate) fn extension(oid: &[u8], critical: &[u8], value: &[u8]) -> Vec<u8> {
    nested(SEQUENCE, &[&der::write(OID, oid), critical, &der::write(OCTET_STRING, value)])
}

fn key_id(public: &[u8]) -> Vec<u8> {
    digest(&SHA256, public).as_ref().iter().take(KEY_ID_LEN).copied().collect()
}

fn name(common: &str) -> Vec<u8> {
    let fields = [der::write(OID, &COMMON_NAME), der::write(UTF8_STRING, common.as_bytes())];
    let attribute = nested(SEQUENCE, &[&fields[0], &fields[1]]);
    nested(SEQUENCE, &[&nested(SET, &[&attribute])])
}

/// Returns an encoded time. From 2050 on, years have four digits (RFC 5280 §4.1.2.5).
fn time(unix_secs: u64) -> Vec<u8> {
    const YEAR_2050: u64 = 2_524_608_000;
    const MOST_SECS: u64 = 253_402_300_799;
    let secs = i64::try_from(unix_secs.min(MOST_SECS)).unwrap_or_default();
    let time = jiff::Timestamp::from_second(secs).unwrap_or_default();
    let (tag, form) = match unix_secs {
        0..YEAR_2050 => (UTC_TIME, "%y%m%d%H%M%SZ"),
        _ => (GENERALIZED_TIME, "%Y%m%d%H%M%SZ"),
    };
    der::write(tag, time.strftime(form).to_string().as_bytes())
}
