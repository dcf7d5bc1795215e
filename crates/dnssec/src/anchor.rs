//! Trust anchors: the starting points of chains of trust (RFC 4033 §2, RFC 9718).
//!
//! An anchor is a DS or DNSKEY record of any zone in presentation form. The root's anchors are
//! built in.
//!
//! ```
//! use avocet_dnssec::anchor::{Anchor, Anchors};
//!
//! let root = Anchors::built_in();
//! assert!(root.closest(b"\x03www\x07example\x00").is_some_and(|zone| zone.wire() == b"\x00"));
//!
//! let anchor = Anchor::parse(
//!     "example. IN DS 60795 15 2 \
//!      da1f7b0056feab8772ff0e19dd9068b2789db9c564057a20675fe0d70736b2e5",
//! )?;
//! assert_eq!(anchor.key_tag(), 60795);
//! let anchors = Anchors::of(vec![anchor]);
//! assert!(anchors.closest(b"\x03com\x00").is_none());
//! # Ok::<(), avocet_dnssec::anchor::AnchorError>(())
//! ```

use std::fmt;

use avocet_wire::{FoldedNameBuf, NameBuf, Rtype, name, rdata, text};

use crate::chain::Trust;
use crate::ds::Ds;
use crate::key::Dnskey;
use crate::label;

/// DS records of the root's keys of 2017 and 2024 (RFC 9718, IANA's `root-anchors.xml`).
pub const ROOT_ANCHORS: [&str; 2] = [
    ". IN DS 20326 8 2 E06D44B80B8F1D39A95C0B0D7C65D08458E880409BBC683457104237C7F8EC8D",
    ". IN DS 38696 8 2 683D2D0ACB8C9B712A1948B27F741219298D0A450D612C483AF444A4C0FB2B16",
];

/// An error in the text of a trust anchor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnchorError {
    /// The owner is not an absolute name.
    Owner(text::TextError),
    /// The type is missing, or neither DS nor DNSKEY.
    Type,
    /// The class is not IN.
    Class,
    /// The data is malformed.
    Data(rdata::RdataError),
    /// The DNSKEY record is revoked or not a zone key, so it cannot be trusted.
    Key,
}

impl fmt::Display for AnchorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(error) => write!(f, "the owner: {error}"),
            Self::Type => f.write_str(
                "neither DS nor DNSKEY; write \"NAME IN DS TAG ALGORITHM DIGEST-TYPE DIGEST\"",
            ),
            Self::Class => f.write_str("the class is not IN"),
            Self::Data(error) => write!(f, "the data: {error}"),
            Self::Key => f.write_str("the key is revoked or not a zone key"),
        }
    }
}

impl std::error::Error for AnchorError {}

/// A trust anchor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Anchor {
    zone: FoldedNameBuf,
    rtype: Rtype,
    data: Vec<u8>,
}

impl Anchor {
    /// Parses a DS or DNSKEY record in presentation form, with optional TTL, class and comment.
    ///
    /// # Errors
    /// The reason why the text is not a trust anchor.
    pub fn parse(line: &str) -> Result<Self, AnchorError> {
        // The data of neither type contains this character.
        let line = line.split(';').next().unwrap_or_default();
        let tokens: Vec<_> =
            text::tokens(line.as_bytes()).collect::<Result<_, _>>().map_err(AnchorError::Owner)?;
        let (owner, mut rest) = tokens.split_first().ok_or(AnchorError::Type)?;
        let mut wire = [0; name::MAX_NAME];
        let len = text::name_to_wire(owner.text, None, &mut wire).map_err(AnchorError::Owner)?;
        let zone = FoldedNameBuf::from_wire(&wire[..len]).map_err(|_| AnchorError::Type)?;
        let rtype = loop {
            let (token, after) = rest.split_first().ok_or(AnchorError::Type)?;
            rest = after;
            match token.text.to_ascii_uppercase().as_slice() {
                b"DS" => break Rtype::DS,
                b"DNSKEY" => break Rtype::DNSKEY,
                b"CH" | b"HS" => return Err(AnchorError::Class),
                b"IN" => {}
                ttl if ttl.iter().all(u8::is_ascii_digit) => {}
                _ => return Err(AnchorError::Type),
            }
        };
        let mut data = Vec::new();
        rdata::parse_tokens(rtype.0, rest, &[0], &mut data).map_err(AnchorError::Data)?;
        Self::of(zone, rtype, data)
    }

    fn of(zone: FoldedNameBuf, rtype: Rtype, data: Vec<u8>) -> Result<Self, AnchorError> {
        let trusted = |key: Dnskey<'_>| key.is_zone_key() && !key.is_revoked();
        if rtype == Rtype::DNSKEY && !Dnskey::read(&data).is_some_and(trusted) {
            return Err(AnchorError::Key);
        }
        Ok(Self { zone, rtype, data })
    }

    /// Creates an anchor from a DNSKEY record of a zone.
    ///
    /// # Errors
    /// The data is malformed, revoked or not a zone key.
    pub fn of_key(zone: &NameBuf, dnskey: &[u8]) -> Result<Self, AnchorError> {
        Self::of(zone.folded(), Rtype::DNSKEY, dnskey.to_vec())
    }

    /// Returns the apex of the zone.
    #[must_use]
    pub fn zone(&self) -> &FoldedNameBuf {
        &self.zone
    }

    /// Returns the key's data if the anchor is a DNSKEY record.
    pub(crate) fn dnskey(&self) -> Option<&[u8]> {
        (self.rtype == Rtype::DNSKEY).then_some(&self.data)
    }

    /// Returns the tag of the trusted key.
    #[must_use]
    pub fn key_tag(&self) -> u16 {
        match self.rtype {
            Rtype::DS => Ds::read(&self.data).map_or(0, |ds| ds.key_tag),
            _ => Dnskey::read(&self.data).map_or(0, |key| key.tag()),
        }
    }

    /// Reports whether this key of the zone is the trusted one.
    #[must_use]
    pub fn is_of(&self, key: &Dnskey<'_>) -> bool {
        match self.rtype {
            Rtype::DS => Ds::read(&self.data).is_some_and(|ds| ds.is_of(&self.zone, key)),
            _ => self.data == key.rdata,
        }
    }

    /// Returns whether this anchor trusts each key that `other` trusts. A DNSKEY anchor covers the
    /// DS anchors of its key.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let of_key = || self.dnskey().and_then(Dnskey::read).is_some_and(|key| other.is_of(&key));
        self.zone == other.zone && (self == other || of_key())
    }
}

impl fmt::Display for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} IN {} {}", self.zone, self.rtype, rdata::display(self.rtype.0, &self.data))
    }
}

/// The trust anchors of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Anchors {
    anchors: Vec<Anchor>,
}

impl Anchors {
    /// Returns the built-in anchors of the root.
    #[must_use]
    pub fn built_in() -> Self {
        Self { anchors: ROOT_ANCHORS.iter().filter_map(|line| Anchor::parse(line).ok()).collect() }
    }

    /// Creates a set of the given anchors.
    #[must_use]
    pub fn of(anchors: Vec<Anchor>) -> Self {
        Self { anchors }
    }

    /// Replaces all anchors of a zone, as a rollover does (RFC 5011).
    pub fn replace(&mut self, zone: &NameBuf, anchors: impl IntoIterator<Item = Anchor>) {
        self.anchors.retain(|anchor| !label::equal(anchor.zone.wire(), zone.wire()));
        self.anchors.extend(anchors);
    }

    /// Returns all anchors.
    pub fn iter(&self) -> impl Iterator<Item = &Anchor> {
        self.anchors.iter()
    }

    /// Returns the lowest zone that has an anchor and is `wire` or an ancestor of it. Without such
    /// a zone, returns `None`: the name is indeterminate, which is treated as insecure (RFC 4035
    /// §4.3).
    #[must_use]
    pub fn closest(&self, wire: &[u8]) -> Option<&FoldedNameBuf> {
        let above = self.anchors.iter().filter(|anchor| name::is_under(wire, anchor.zone.wire()));
        above.max_by_key(|anchor| label::count(anchor.zone.wire())).map(|anchor| &anchor.zone)
    }

    /// Returns the anchors of a zone, or `None` if it has none.
    #[must_use]
    pub fn point(&self, zone: &[u8]) -> Option<TrustPoint<'_>> {
        let data = |rtype: Rtype| -> Vec<&[u8]> {
            let of_zone = self
                .anchors
                .iter()
                .filter(|a| a.rtype == rtype && label::equal(a.zone.wire(), zone));
            of_zone.map(|anchor| anchor.data.as_slice()).collect()
        };
        let point = TrustPoint { ds: data(Rtype::DS), dnskeys: data(Rtype::DNSKEY) };
        (!point.ds.is_empty() || !point.dnskeys.is_empty()).then_some(point)
    }
}

/// The anchors of one zone.
#[derive(Clone, Debug)]
pub struct TrustPoint<'a> {
    ds: Vec<&'a [u8]>,
    dnskeys: Vec<&'a [u8]>,
}

impl TrustPoint<'_> {
    /// Returns the anchors in the form that [`crate::chain::zone_keys`] takes.
    #[must_use]
    pub fn trust(&self) -> Trust<'_> {
        Trust { ds: &self.ds, dnskeys: &self.dnskeys, lifetime_secs: u32::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roots_keys_are_built_in() {
        let anchors = Anchors::built_in();
        assert_eq!(anchors.iter().map(Anchor::key_tag).collect::<Vec<_>>(), [20326, 38696]);
        assert_eq!(anchors.closest(b"\x03com\0"), Some(&FoldedNameBuf::ROOT));
        assert_eq!(anchors.point(&[0]).unwrap().trust().ds.len(), 2);
        assert!(anchors.point(b"\x03com\0").is_none());
        for (anchor, line) in anchors.iter().zip(ROOT_ANCHORS) {
            assert_eq!(anchor.to_string(), line);
        }
    }

    /// The DNSKEY records of the root.
    const ROOT_KEYS: [&str; 2] = [
        "257 3 8 \
         AwEAAaz/tAm8yTn4Mfeh5eyI96WSVexTBAvkMgJzkKTOiW1vkIbzxeF3+/4RgWOq7HrxRixHlFlExOLAJr5emLvN7SWXgnLh4+B5\
         xQlNVz8Og8kvArMtNROxVQuCaSnIDdD5LKyWbRd2n9WGe2R8PzgCmr3EgVLrjyBxWezF0jLHwVN8efS3rCj/EWgvIWgb9tarpVUD\
         K/b58Da+sqqls3eNbuv7pr+eoZG+SrDK6nWeL3c6H5Apxz7LjVc1uTIdsIXxuOLYA4/ilBmSVIzuDWfdRUfhHdY6+cn8HFRm+2hM\
         8AnXGXws9555KrUB5qihylGa8subX2Nn6UwNR1AkUTV74bU=",
        "257 3 8 \
         AwEAAa96jeuknZlaeSrvyAJj6ZHv28hhOKkx3rLGXVaC6rXTsDc449/cidltpkyGwCJNnOAlFNKF2jBosZBU5eeHspaQWOmOElZs\
         jICMQMC3aeHbGiShvZsx4wMYSjH8e7Vrhbu6irwCzVBApESjbUdpWWmEnhathWu1jo+siFUiRAAxm9qyJNg/wOZqqzL/dL/q8Pkc\
         RU5oUKEpUge71M3ej2/7CPqpdVwuMoTvoB+ZOT4YeGyxMvHmbrxlFzGOHOijtzN+u1TQNatX2XBuzZNQ1K+s2CXkPIZo7s6JgZyv\
         aBevYtxPvYLw4z9mR7K2vaF18UYH9Z9GNUUeayffKC73PYc=",
    ];

    #[test]
    fn the_built_in_digests_are_those_of_the_roots_keys() {
        for (anchor, text) in Anchors::built_in().iter().zip(ROOT_KEYS) {
            let mut data = Vec::new();
            rdata::parse(Rtype::DNSKEY.0, text, &[0], &mut data).unwrap();
            let key = Dnskey::read(&data).unwrap();
            assert!(
                anchor.is_of(&key) && key.is_secure_entry_point() && key.tag() == anchor.key_tag()
            );
        }
    }

    #[test]
    fn an_anchor_of_a_key_covers_those_of_its_digests() {
        let [first, second] = ROOT_KEYS.map(|text| {
            let mut data = Vec::new();
            rdata::parse(Rtype::DNSKEY.0, text, &[0], &mut data).unwrap();
            Anchor::of_key(&NameBuf::ROOT, &data).unwrap()
        });
        let digest = Anchor::parse(ROOT_ANCHORS[0]).unwrap();
        assert!(first.covers(&first) && first.covers(&digest) && digest.covers(&digest));
        assert!(!second.covers(&digest) && !second.covers(&first));
        assert!(!digest.covers(&first), "another key may have the same digest");
    }

    #[test]
    fn ttl_and_class_may_be_left_out_and_any_name_be_given() {
        for line in [
            "Example. DS 1 8 2 00",
            "example. 3600 IN DS 1 8 2 00",
            "example.  IN  3600 ds 1 8 2 0 0",
            "example. DS 1 8 2 00 ; its key",
        ] {
            assert_eq!(
                Anchor::parse(line).unwrap().to_string(),
                "example. IN DS 1 8 2 00",
                "{line}"
            );
        }
        let key = Anchor::parse("a.b. DNSKEY 257 3 13 AAAA AAAA").unwrap();
        assert_eq!(key.to_string(), "a.b. IN DNSKEY 257 3 13 AAAAAAAA");
        assert_eq!(key.zone().wire(), b"\x01a\x01b\0");
    }

    #[test]
    fn what_cannot_be_trusted_is_refused() {
        for line in
            ["", "example.", "example. A 192.0.2.1", "example. IN", "example. 1h DS 1 8 2 00"]
        {
            assert_eq!(Anchor::parse(line), Err(AnchorError::Type), "{line}");
        }
        assert!(matches!(Anchor::parse("example DS 1 8 2 00"), Err(AnchorError::Owner(_))));
        assert!(matches!(Anchor::parse("example. DS 1 8 2"), Err(AnchorError::Data(_))));
        assert_eq!(Anchor::parse("example. CH DS 1 8 2 00"), Err(AnchorError::Class));
        for flags in [385, 1, 0] {
            assert_eq!(
                Anchor::parse(&format!(". DNSKEY {flags} 3 8 AAAA")),
                Err(AnchorError::Key),
                "{flags}"
            );
        }
    }

    #[test]
    fn the_lowest_anchor_counts() {
        let anchors =
            [". DS 1 8 2 00", "b. DS 2 8 2 00", "a.b. DS 3 8 2 00", "B. DNSKEY 257 3 13 AAAA"];
        let mut anchors =
            Anchors::of(anchors.iter().map(|line| Anchor::parse(line).unwrap()).collect());
        let closest = |anchors: &Anchors, wire: &[u8]| anchors.closest(wire).unwrap().to_string();
        assert_eq!(closest(&anchors, b"\x01x\x01A\x01b\0"), "a.b.");
        assert_eq!(closest(&anchors, b"\x01c\x01b\0"), "b.");
        assert_eq!(closest(&anchors, b"\x01c\0"), ".");
        let point = anchors.point(b"\x01b\0").unwrap();
        assert_eq!((point.trust().ds.len(), point.trust().dnskeys.len()), (1, 1));
        let b = NameBuf::from_wire(b"\x01b\0").unwrap();
        anchors.replace(&b, []);
        assert!(anchors.point(b"\x01b\0").is_none());
        assert_eq!(anchors.iter().count(), 2);
    }
}
