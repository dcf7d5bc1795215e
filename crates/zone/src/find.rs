//! The look-up of a name in a zone (RFC 1034 §4.3.2, RFC 4592, RFC 6672).

use avocet_wire::{FoldedName, NameBuf, Rtype};

use crate::tree::{Flags, HostedZone, Node};

/// The way in which a name matches a zone.
#[derive(Clone, Copy)]
pub(crate) enum NameMatch<'z> {
    /// The name exists, with or without records. Contains its node.
    Exact(Node<'z>),
    /// The name does not exist, but a wildcard answers for it.
    Wildcard {
        /// The node of the wildcard.
        node: Node<'z>,
        /// The closest encloser of the name, which is the parent of the wildcard.
        closest: Node<'z>,
    },
    /// The name is at or below a delegation. Contains the node of the delegation.
    Cut(Node<'z>),
    /// The name is below a DNAME record. Contains the node of that record.
    Dname(Node<'z>),
    /// The name does not exist, and no wildcard matches.
    Nothing {
        /// The closest encloser of the name.
        closest: Node<'z>,
    },
}

impl HostedZone {
    /// Finds the match of a name that is at or below the apex.
    #[inline]
    pub(crate) fn find(&self, name: FoldedName<'_>, qtype: Rtype) -> Option<NameMatch<'_>> {
        if let Some(node) = self.node(name.wire()) {
            let flags = node.flags();
            if flags.has(Flags::OCCLUDED) {
                return self.occluding(node);
            }
            // DS records belong to the parent, so they are not part of the delegated zone (RFC 4035
            // §3.1.4.1).
            let is_cut = flags.has(Flags::CUT) && qtype != Rtype::DS;
            return Some(if is_cut { NameMatch::Cut(node) } else { NameMatch::Exact(node) });
        }
        self.find_above(name)
    }

    /// Finds the match of a name without a node, from its ancestors.
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

    /// Returns the highest delegation or DNAME record above an occluded node.
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

/// Returns the name of the wildcard directly below a name; `None` if that would be too long.
pub(crate) fn wildcard_name(closest: FoldedName<'_>) -> Option<NameBuf> {
    NameBuf::from_wire(closest.wire()).and_then(|name| name.prefixed(b"*")).ok()
}
