//! Facts about a client and its device from the TLS handshake: the identity in its certificate,
//! which rustls has verified, and the device identifier in the requested server name.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, Error, ProtocolVersion};
use webpki::EndEntityCert;

use crate::trust::{PIN_LEN, pin};
use crate::validity::Validity;

/// Maximum number of names of a certificate that are used, and of octets of each.
const MAX_NAMES: usize = 16;
const MAX_PROVEN_NAME: usize = 253;
/// Tags of DER (X.690).
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
/// The type of a common name: 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// Facts about a client and its device from the TLS handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeFacts {
    /// Whether the client uses TLS 1.2 instead of 1.3.
    pub is_tls12: bool,
    /// The identity that the certificate of the client proves, if the client has shown one.
    pub proof: Option<ClientProof>,
    /// The first label of the requested server name, if only a wildcard of a certificate matches
    /// the name. The label identifies the device.
    pub word: Option<Box<[u8]>>,
}

impl HandshakeFacts {
    /// Collects the facts. Returns `None` if there are none.
    ///
    /// # Errors
    /// The certificate of the client has expired. A session that is resumed has the certificate of
    /// the first handshake, and only that handshake has verified the certificate.
    pub(crate) fn new(
        shown: Option<&CertificateDer<'_>>,
        word: Option<Box<[u8]>>,
        version: Option<ProtocolVersion>,
    ) -> Result<Option<Arc<Self>>, Error> {
        if shown
            .and_then(Validity::of)
            .is_some_and(|validity| validity.has_ended(UnixTime::now().as_secs()))
        {
            return Err(Error::InvalidCertificate(CertificateError::Expired));
        }
        let proof = shown.and_then(ClientProof::of);
        let is_tls12 = version == Some(ProtocolVersion::TLSv1_2);
        let has_any = proof.is_some() || word.is_some() || is_tls12;
        Ok(has_any.then(|| Arc::new(Self { is_tls12, proof, word })))
    }
}

/// The facts in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientProof {
    /// The SHA-256 digest of the SubjectPublicKeyInfo in the certificate.
    pub pin: [u8; PIN_LEN],
    /// The names in the certificate: DNS names, and the common name of the subject.
    pub names: Vec<String>,
}

impl ClientProof {
    /// Reads the certificate of a client.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = EndEntityCert::try_from(certificate).ok()?;
        let pin = pin(certificate).ok()?;
        let names = parsed.valid_dns_names().take(MAX_NAMES).map(str::to_owned);
        let names = names.chain(common_name(parsed.subject()));
        Some(Self { pin, names: names.filter(|name| name.len() <= MAX_PROVEN_NAME).collect() })
    }
}

/// Returns the common name of a subject: the content of its RDNSequence (RFC 5280 §4.1.2.4).
fn common_name(mut subject: &[u8]) -> Option<String> {
    for _ in 0..MAX_NAMES {
        let (mut set, rest) = element(subject, SET)?;
        subject = rest;
        while !set.is_empty() {
            let (attribute, rest) = element(set, SEQUENCE)?;
            set = rest;
            let (kind, value) = element(attribute, OBJECT_ID)?;
            if kind == COMMON_NAME {
                let mut forms = [UTF8_STRING, PRINTABLE_STRING, IA5_STRING].into_iter();
                let (text, _) = forms.find_map(|form| element(value, form))?;
                return String::from_utf8(text.to_vec()).ok();
            }
        }
    }
    None
}

/// Returns the content of the first element, which has this tag, and the octets after it.
fn element(octets: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let [first, len, rest @ ..] = octets else { return None };
    let (len, rest) = match (*len, rest) {
        (short @ ..=0x7f, rest) => (usize::from(short), rest),
        (0x81, [len, rest @ ..]) => (usize::from(*len), rest),
        (0x82, [high, low, rest @ ..]) => (usize::from(u16::from_be_bytes([*high, *low])), rest),
        _ => return None,
    };
    (*first == tag).then(|| rest.split_at_checked(len))?
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::pem::PemObject;

    use super::*;

    /// Two certificates; the first has expired.
    const EXPIRED: &str = include_str!("../../cli/tests/operation/certificates/expired.pem");
    const TABLET: &str = include_str!("../../cli/tests/operation/certificates/tablet.pem");

    #[test]
    fn an_expired_certificate_proves_nothing_in_a_resumed_session() {
        for (pem, expected) in
            [(TABLET, None), (EXPIRED, Some(Error::InvalidCertificate(CertificateError::Expired)))]
        {
            let shown = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
            assert!(ClientProof::of(&shown).is_some());
            assert_eq!(HandshakeFacts::new(Some(&shown), None, None).err(), expected);
        }
    }

    /// The subject O=home, CN=phone.
    const SUBJECT: &[u8] =
        b"\x31\x0d\x30\x0b\x06\x03\x55\x04\x0a\x0c\x04home\x31\x0e\x30\x0c\x06\x03\x55\x04\x03\x13\x05phone";

    #[test]
    fn the_common_name_is_found_behind_other_attributes() {
        assert_eq!(common_name(SUBJECT).as_deref(), Some("phone"));
    }

    #[test]
    fn octets_that_are_cut_or_changed_are_no_name() {
        for len in 0..SUBJECT.len() {
            assert_eq!(common_name(&SUBJECT[..len]), None, "{len}");
        }
        for at in 0..SUBJECT.len() {
            for value in 0..=255 {
                let mut octets = SUBJECT.to_vec();
                octets[at] = value;
                let _ = common_name(&octets);
            }
        }
        assert_eq!(ClientProof::of(&CertificateDer::from(&b"\x30\x03abc"[..])), None);
    }
}
