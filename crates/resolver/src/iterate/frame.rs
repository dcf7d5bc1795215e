//! The chain of nested questions: from the client's question to the one that is being resolved.

use avocet_wire::{FoldedName, Rtype};

use super::fetch::Extent;
use super::rrset::Name;

/// Maximum depth of nested look-ups of name servers (BIND: 7).
const MAX_NESTING: u32 = 8;

/// A question, with a link to the question that needs its answer. The chain of questions has no
/// cycle.
pub(crate) struct Frame<'a> {
    above: Option<&'a Frame<'a>>,
    name: Name,
    qtype: Rtype,
    depth: u32,
    /// The part of the name that a denial must cover to end the look-up.
    pub(super) to_deny: Extent,
}

impl Frame<'_> {
    pub(crate) fn first(name: Name, qtype: Rtype) -> Self {
        Frame { above: None, name, qtype, depth: 0, to_deny: Extent::Whole }
    }

    /// Returns whether this is the client's question.
    pub(crate) fn is_first(&self) -> bool {
        self.depth == 0
    }

    /// Returns whether this question is in the chain. The A and AAAA questions for a server count
    /// as the same.
    fn contains(&self, name: FoldedName<'_>, qtype: Rtype) -> bool {
        let is_address = |qtype| matches!(qtype, Rtype::A | Rtype::AAAA);
        let is_same_type = self.qtype == qtype || is_address(qtype) && is_address(self.qtype);
        let is_this = is_same_type && *self.name == *name;
        is_this || self.above.is_some_and(|above| above.contains(name, qtype))
    }

    /// Adds a question to the chain. Returns `None` if this would be a cycle, or if the chain is
    /// too long.
    pub(crate) fn below<'b>(&'b self, name: &Name, qtype: Rtype) -> Option<Frame<'b>> {
        let fits = self.depth < MAX_NESTING && !self.contains(name.view(), qtype);
        let (depth, to_deny) = (self.depth + 1, Extent::Whole);
        fits.then(|| Frame { above: Some(self), name: name.clone(), qtype, depth, to_deny })
    }

    /// Returns this question with another value for the part of the name that a denial must cover.
    pub(crate) fn denied_by(self, extent: Extent) -> Self {
        Self { to_deny: extent, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iterate::rrset::name_of;

    #[test]
    fn circles_and_depth_end_a_chain() {
        let name = |octet| name_of(&[1, octet, 0]);
        let first = Frame::first(name(b'a'), Rtype::A);
        let second = first.below(&name(b'b'), Rtype::A).unwrap();
        assert!(second.below(&name(b'a'), Rtype::A).is_none());
        assert!(second.below(&name(b'a'), Rtype::AAAA).is_none());
        assert!(second.below(&name(b'a'), Rtype::DS).is_some());
        fn deeper(frame: &Frame<'_>, octet: u8) -> u32 {
            frame
                .below(&name_of(&[1, octet, 0]), Rtype::A)
                .map_or(0, |frame| 1 + deeper(&frame, octet + 1))
        }
        assert_eq!(deeper(&first, b'b'), MAX_NESTING);
    }
}
