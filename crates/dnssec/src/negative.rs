//! Negative trust anchors (RFC 7646): names that the operator temporarily exempts from validation.

use avocet_wire::{FoldedNameBuf, NameBuf, name};

use crate::label;

/// Maximum number of negative trust anchors. Every validation searches all of them.
pub const MAX_NEGATIVE_ANCHORS: usize = 256;

/// A name at and below which data is treated as insecure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NegativeAnchor {
    /// The name.
    pub name: FoldedNameBuf,
    /// The wall clock at which the anchor expires, in seconds since 1970. `None` for anchors from
    /// the configuration.
    pub expires_at_secs: Option<u64>,
}

/// An error: there are already [`MAX_NEGATIVE_ANCHORS`] anchors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMany;

/// The set of negative trust anchors.
#[derive(Clone, Debug, Default)]
pub struct NegativeAnchors {
    anchors: Vec<NegativeAnchor>,
}

impl NegativeAnchors {
    /// Adds an anchor, replacing one with the same name.
    ///
    /// # Errors
    /// There are too many anchors.
    pub fn insert(&mut self, anchor: NegativeAnchor) -> Result<(), TooMany> {
        self.remove(anchor.name.wire());
        if self.anchors.len() >= MAX_NEGATIVE_ANCHORS {
            return Err(TooMany);
        }
        self.anchors.push(anchor);
        Ok(())
    }

    /// Removes the anchor with this name. Returns whether there was one.
    pub fn remove(&mut self, wire: &[u8]) -> bool {
        let before = self.anchors.len();
        self.anchors.retain(|anchor| !label::equal(anchor.name.wire(), wire));
        self.anchors.len() < before
    }

    /// Removes expired anchors (RFC 7646 §2). Returns their number.
    pub fn expire(&mut self, now_secs: u64) -> usize {
        let before = self.anchors.len();
        self.anchors.retain(|anchor| anchor.is_in_force(now_secs));
        before - self.anchors.len()
    }

    /// Returns all anchors, including expired ones.
    pub fn iter(&self) -> impl Iterator<Item = &NegativeAnchor> {
        self.anchors.iter()
    }

    /// Returns the lowest unexpired anchor that covers a name. A trust anchor between the negative
    /// anchor and the name takes precedence: pass the zone from
    /// [`crate::anchor::Anchors::closest`].
    #[must_use]
    pub fn covering(
        &self,
        wire: &[u8],
        closest_anchor: &NameBuf,
        now_secs: u64,
    ) -> Option<&NegativeAnchor> {
        let in_force = self.anchors.iter().filter(|anchor| anchor.is_in_force(now_secs));
        let covering = in_force.filter(|anchor| name::is_under(wire, anchor.name.wire()));
        let lowest = covering.max_by_key(|anchor| label::count(anchor.name.wire()))?;
        (!label::is_below(closest_anchor.wire(), lowest.name.wire())).then_some(lowest)
    }
}

impl NegativeAnchor {
    fn is_in_force(&self, now_secs: u64) -> bool {
        self.expires_at_secs.is_none_or(|end| now_secs < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buf(wire: &[u8]) -> FoldedNameBuf {
        FoldedNameBuf::from_wire(wire).unwrap()
    }

    fn anchors() -> NegativeAnchors {
        let mut anchors = NegativeAnchors::default();
        anchors
            .insert(NegativeAnchor { name: buf(b"\x01b\x01c\0"), expires_at_secs: Some(100) })
            .unwrap();
        anchors.insert(NegativeAnchor { name: buf(b"\x01x\0"), expires_at_secs: None }).unwrap();
        anchors
    }

    #[test]
    fn names_at_and_below_are_covered_until_the_end() {
        let mut anchors = anchors();
        let covers = |anchors: &NegativeAnchors, wire, now| {
            anchors.covering(wire, &NameBuf::ROOT, now).is_some()
        };
        assert!(
            covers(&anchors, b"\x01B\x01c\0", 99) && covers(&anchors, b"\x01a\x01b\x01c\0", 99)
        );
        assert!(!covers(&anchors, b"\x01c\0", 99) && !covers(&anchors, b"\x01b\x01c\0", 100));
        assert!(covers(&anchors, b"\x01x\0", u64::MAX));
        assert_eq!(anchors.expire(100), 1);
        assert_eq!(anchors.iter().count(), 1);
        assert!(anchors.remove(b"\x01X\0") && !anchors.remove(b"\x01x\0"));
    }

    #[test]
    fn a_trust_anchor_below_counts_more() {
        let anchors = anchors();
        let below = buf(b"\x01a\x01b\x01c\0");
        assert!(anchors.covering(b"\x01w\x01a\x01b\x01c\0", &below, 0).is_none());
        assert!(anchors.covering(b"\x01w\x01a\x01b\x01c\0", &buf(b"\x01c\0"), 0).is_some());
        assert!(
            anchors.covering(b"\x01b\x01c\0", &buf(b"\x01b\x01c\0"), 0).is_some(),
            "the operator's last word"
        );
    }

    #[test]
    fn their_number_is_bounded() {
        let mut anchors = NegativeAnchors::default();
        let numbered = |number: usize| NegativeAnchor {
            name: FoldedNameBuf::ROOT.prefixed(number.to_string().as_bytes()).unwrap().folded(),
            expires_at_secs: None,
        };
        (0..MAX_NEGATIVE_ANCHORS).for_each(|number| anchors.insert(numbered(number)).unwrap());
        assert_eq!(anchors.insert(numbered(MAX_NEGATIVE_ANCHORS)), Err(TooMany));
        assert_eq!(anchors.insert(numbered(0)), Ok(()), "in place of the same name");
    }
}
