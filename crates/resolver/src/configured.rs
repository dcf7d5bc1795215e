//! Which zone of the configuration a name is under: one that is forwarded, or one whose servers are
//! configured.

use avocet_dnssec::anchor::Anchor;
use avocet_dnssec::signal::Sentinel;

use crate::plan::{Plan, Route};

/// A zone of the configuration that a name is under.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Configured {
    /// Its names are forwarded.
    Forward(Route),
    /// Its servers are configured: number of the stub, octets of its apex.
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
    /// The zone of the configuration that is nearest above a folded name, or is it.
    pub(crate) fn configured(&self, qname: &[u8]) -> Option<Configured> {
        let forward = self.route(qname).map(Configured::Forward);
        let stub = self.stubs.nearest(qname).map(|(number, len)| Configured::Stub(number, len));
        [forward, stub].into_iter().flatten().max_by_key(|zone| zone.apex_len())
    }

    /// Returns whether the servers of this rule are those that are asked for a folded name, and no
    /// others of the configuration are nearer to it.
    pub(crate) fn forwards(&self, qname: &[u8], route: Route) -> bool {
        matches!(self.configured(qname), Some(Configured::Forward(nearest)) if nearest == route)
    }
}

impl Plan {
    /// Is a secure answer to this question to be SERVFAIL, so that clients learn which of the
    /// root's keys are trusted (RFC 8509 §2.2)?
    pub(crate) fn refuses_sentinel(&self, question: &[u8]) -> bool {
        let Some(sentinel) = Sentinel::read(question) else { return false };
        let validation =
            self.recursion.as_ref().and_then(|recursion| recursion.validation.as_ref());
        validation.is_some_and(|validation| {
            let of_root = validation.anchors.iter().filter(|anchor| anchor.zone().wire() == [0]);
            sentinel.turns_to_servfail(&of_root.map(Anchor::key_tag).collect::<Vec<_>>())
        })
    }
}
