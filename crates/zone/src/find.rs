//! The look-up of a name in a zone (RFC 1034 §4.3.2, RFC 4592, RFC 6672).

use avocet_wire::{FoldedName, NameBuf, Rtype};

use crate::tree::{Flags, HostedZone, Node};

/// The match of a name in a zone.
#[derive(Clone, Copy)]
pub(crate) enum NameMatch<'z> {
    /// The name exists, with or without records.
    Exact(Node<'z>),
    /// The name does not exist; this wildcard directly below the closest encloser answers.
    Wildcard {
        /// The wildcard.
        node: Node<'z>,
        /// The closest encloser.
        closest: Node<'z>,
    },
    /// The name is at or below this zone cut.
    Cut(Node<'z>),
    /// The name is below this DNAME.
    Dname(Node<'z>),
    /// The name does not exist.
    Nothing {
        /// The closest encloser.
        closest: Node<'z>,
    },
}

impl HostedZone {
    /// Finds a name at or below the apex.
    #[inline]
    pub(crate) fn find(&self, name: FoldedName<'_>, qtype: Rtype) -> Option<NameMatch<'_>> {
        if let Some(node) = self.node(name.wire()) {
            let flags = node.flags();
            if flags.has(Flags::OCCLUDED) {
                return self.occluding(node);
            }
            // The parent's side of a zone cut has the DS records (RFC 4035 §3.1.4.1).
            let is_cut = flags.has(Flags::CUT) && qtype != Rtype::DS;
            return Some(if is_cut { NameMatch::Cut(node) } else { NameMatch::Exact(node) });
        }
        self.find_above(name)
    }

    /// Finds the match of a name that has no node.
    fn find_above(&self, name: FoldedName<'_>) -> Option<NameMatch<'_>> {
        let apex_len = self.apex().len();
        let above = name.ancestors().skip(1).take_while(|above| above.len() >= apex_len);
        let closest = above.filter_map(|above| self.node(above.wire())).next()?;
        let flags = closest.flags();
        if flags.has(Flags::OCCLUDED) {
            return self.occluding(closest);
        }
        if flags.has(Flags::CUT) {
            return Some(NameMatch::Cut(closest));
        }
        if flags.has(Flags::DNAME) {
            return Some(NameMatch::Dname(closest));
        }
        if flags.has(Flags::HAS_WILDCARD)
            && let Some(node) = self.wildcard_below(closest)
        {
            return Some(NameMatch::Wildcard { node, closest });
        }
        Some(NameMatch::Nothing { closest })
    }

    /// Returns the wildcard directly below a name.
    pub(crate) fn wildcard_below(&self, closest: Node<'_>) -> Option<Node<'_>> {
        self.node(wildcard_name(closest.name())?.wire())
    }

    /// Returns the highest delegation or DNAME above an occluded node.
    fn occluding(&self, node: Node<'_>) -> Option<NameMatch<'_>> {
        let above = node.name().ancestors().skip(1);
        let node = above
            .filter_map(|name| self.node(name.wire()))
            .find(|node| !node.flags().has(Flags::OCCLUDED))?;
        let flags = node.flags();
        if flags.has(Flags::CUT) {
            return Some(NameMatch::Cut(node));
        }
        flags.has(Flags::DNAME).then_some(NameMatch::Dname(node))
    }
}

/// Returns the name of the wildcard directly below a name, if that is not too long.
pub(crate) fn wildcard_name(closest: FoldedName<'_>) -> Option<NameBuf> {
    NameBuf::from_wire(closest.wire()).and_then(|name| name.prefixed(b"*")).ok()
}
