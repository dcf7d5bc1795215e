//! The identifiers that a device itself sends or proves over encrypted transports. A device sends a
//! word in the path of HTTPS or in the server name that it requests. It proves a certificate with
//! its key.

use std::hash::{Hash, Hasher};

use data_encoding::BASE64;
use siphasher::sip::SipHasher24;

use super::identity::host_name;

/// Maximum number of octets of a word: the limit of a label, because a word may be a label of a
/// server name.
const MAX_WORD: usize = 63;
/// The bit of a [`DeviceId`] that is set if the device proved its identity.
const PROVEN: u64 = 1;

/// An identifier that a device sends or proves, independent of its address.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum DeviceKey {
    /// A word that the device sends, in lower case. Anybody can send it.
    Word(String),
    /// A name in the certificate of the device, in lower case. A certificate authority that the
    /// server trusts has confirmed the name.
    Certificate(String),
    /// SHA-256 of the public key (SubjectPublicKeyInfo) in the certificate of the device.
    Pin([u8; 32]),
}

impl DeviceKey {
    /// Reads `id:WORD`, `certificate:NAME` or `pin:BASE64`. Returns `None` for a text without one
    /// of these prefixes, and `Some(None)` if the text after the prefix is invalid.
    pub(super) fn read(text: &str) -> Option<Option<Self>> {
        let (form, rest) = text.split_once(':')?;
        match form {
            "id" => Some(word(rest.as_bytes()).map(Self::Word)),
            "certificate" => Some(host_name(rest).map(Self::Certificate)),
            "pin" => {
                let octets = BASE64.decode(rest.as_bytes()).ok();
                Some(octets.and_then(|octets| octets.try_into().ok()).map(Self::Pin))
            }
            _ => None,
        }
    }

    /// Returns the compact form of this identifier.
    #[must_use]
    pub fn device(&self) -> DeviceId {
        match self {
            Self::Word(word) => DeviceId::of_word(word.as_bytes()),
            Self::Certificate(name) => DeviceId::of_certificate_name(name),
            Self::Pin(pin) => DeviceId::of_pin(pin),
        }
    }
}

/// Reads a word of letters, digits, hyphens and underscores. Returns it in lower case.
fn word(octets: &[u8]) -> Option<String> {
    let is_of_word = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
    let is_word = (1..=MAX_WORD).contains(&octets.len()) && octets.iter().all(is_of_word);
    let text = is_word.then(|| str::from_utf8(octets).ok())??;
    Some(text.to_ascii_lowercase())
}

/// The compact form of a [`DeviceKey`]. It is the same in all policies, so that it stays valid if
/// the configuration changes while a query waits. Zero means no device.
///
/// It is a hash, which need not withstand attacks: an attacker who can find another word with the
/// same hash could find the word itself. One bit distinguishes the hashes of words from the hashes
/// of proven identities.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct DeviceId(u64);

impl DeviceId {
    /// The identifier of an unknown device.
    pub const NONE: Self = Self(0);

    /// Returns the identifier for a word in any letter case, as a client has sent it.
    #[must_use]
    pub fn of_word(word: &[u8]) -> Self {
        let mut lower = [0; MAX_WORD];
        let Some(lower) = lower.get_mut(..word.len()) else { return Self::NONE };
        lower.copy_from_slice(word);
        lower.make_ascii_lowercase();
        Self(hash(0, lower) & !PROVEN)
    }

    /// Returns the identifier for a name in a certificate that was verified.
    #[must_use]
    pub fn of_certificate_name(name: &str) -> Self {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        Self(hash(1, name.as_bytes()) | PROVEN)
    }

    /// Returns the identifier for a key whose possession was proven.
    #[must_use]
    pub fn of_pin(pin: &[u8; 32]) -> Self {
        Self(hash(2, pin) | PROVEN)
    }

    /// Reports whether the device has proven its identity.
    #[must_use]
    pub fn is_proven(self) -> bool {
        self.0 & PROVEN != 0
    }

    /// Reports whether this is the identifier of an unknown device.
    #[inline]
    #[must_use]
    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the identifier as a number, for records.
    #[inline]
    #[must_use]
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the identifier from its number.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        Self(number)
    }
}

fn hash(kind: u8, octets: &[u8]) -> u64 {
    let mut hasher = SipHasher24::new();
    (kind, octets).hash(&mut hasher);
    // 0 means an unknown device, and 1 would become 0 when the bit for proofs is cleared.
    hasher.finish().max(2)
}

/// The identities that a client claims: those that it proves come before those that it only sends.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceClaims<'c> {
    /// The identities that the certificate of the client proves.
    pub proven: &'c [DeviceId],
    /// The words that the client sends: in the path of HTTPS, and in the server name of TLS.
    pub words: [DeviceId; 2],
}

impl DeviceClaims<'_> {
    /// A client that sends and proves no identity.
    pub const NONE: Self = Self { proven: &[], words: [DeviceId::NONE; 2] };

    /// Returns the claims of a client whose device is already known.
    #[must_use]
    pub fn of(device: DeviceId) -> Self {
        Self { words: [device, DeviceId::NONE], ..Self::NONE }
    }

    /// Reports whether nothing identifies the device.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.proven.is_empty() && self.words.iter().all(|one| one.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_told_apart_and_checked() {
        let pin = BASE64.encode(&[7; 32]);
        let word = |text: &str| Some(Some(DeviceKey::Word(text.to_owned())));
        assert_eq!(DeviceKey::read("id:Ana-Phone_1"), word("ana-phone_1"));
        let name = DeviceKey::Certificate("phone.example".to_owned());
        assert_eq!(DeviceKey::read("certificate:Phone.example."), Some(Some(name)));
        assert_eq!(DeviceKey::read(&format!("pin:{pin}")), Some(Some(DeviceKey::Pin([7; 32]))));
        let long = format!("id:{}", "a".repeat(64));
        for text in ["id:", "id:a b", "id:ä", "id:a.b", &long, "pin:AAAA", "pin:", "certificate:"]
        {
            assert_eq!(DeviceKey::read(text), Some(None), "{text}");
        }
        for text in ["phone", "2001:db8::1", "02:00:00:00:00:01", "ids:x"] {
            assert_eq!(DeviceKey::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_word_never_has_the_number_of_a_proof() {
        let word = DeviceId::of_word(b"phone.example");
        let name = DeviceId::of_certificate_name("PHONE.example.");
        assert!(name.is_proven() && !word.is_proven() && word != name);
        assert_eq!(DeviceId::of_word(b"PHONE.example"), word);
        assert_eq!(name, DeviceKey::Certificate("phone.example".to_owned()).device());
        assert!(DeviceId::of_word(&[b'a'; 64]).is_none());
    }
}
