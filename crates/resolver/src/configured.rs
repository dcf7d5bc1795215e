//! The nearest configured zone at or above a name: a forwarded zone or a stub zone.

use avocet_dnssec::anchor::Anchor;
use avocet_dnssec::signal::Sentinel;
use avocet_wire::{FoldedName, Question};

use crate::plan::{Plan, Route};

/// A configured zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Configured {
    /// A forwarded zone: the rule for its names.
    Forward(Route),
    /// A stub zone: its index, and the length of its apex.
    Stub(usize, u8),
}

impl Configured {
    pub(crate) fn apex_len(self) -> u8 {
        match self {
            Self::Forward(route) => route.apex_len,
            Self::Stub(_, len) => len,
        }
    }
}

impl Plan {
    /// Returns the nearest configured zone at or above a folded name.
    pub(crate) fn configured(&self, qname: FoldedName<'_>) -> Option<Configured> {
        let forward = self.route(qname).map(Configured::Forward);
        let stub = self.stubs.nearest(qname).map(|(number, len)| Configured::Stub(number, len));
        [forward, stub].into_iter().flatten().max_by_key(|zone| zone.apex_len())
    }

    /// Returns whether a folded name is resolved by the servers of this rule, because no other
    /// configured zone is nearer.
    pub(crate) fn forwards(&self, qname: FoldedName<'_>, route: Route) -> bool {
        matches!(self.configured(qname), Some(Configured::Forward(nearest)) if nearest == route)
    }
}

impl Plan {
    /// Returns whether a secure answer to this question must become SERVFAIL, so that clients learn
    /// which root keys are trusted (RFC 8509 §2.2).
    pub(crate) fn refuses_sentinel(&self, question: Question<'_>) -> bool {
        let Some(sentinel) = Sentinel::read(question) else { return false };
        let validation =
            self.recursion.as_ref().and_then(|recursion| recursion.validation.as_ref());
        validation.is_some_and(|validation| {
            let of_root = validation.anchors.iter().filter(|anchor| anchor.zone().wire() == [0]);
            sentinel.turns_to_servfail(&of_root.map(Anchor::key_tag).collect::<Vec<_>>())
        })
    }
}
