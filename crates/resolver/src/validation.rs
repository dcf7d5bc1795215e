//! What chains of trust begin with, and what they end in.

use std::sync::Arc;

use avocet_dnssec::anchor::Anchors;
use avocet_dnssec::negative::NegativeAnchors;
use avocet_dnssec::{Policy, Reason, ZoneKeys};
use avocet_wire::suffix::SuffixMap;

/// What validation goes by.
#[derive(Clone, Debug)]
pub struct Validation {
    /// Where chains of trust begin.
    pub anchors: Anchors,
    /// Names below which nothing is validated.
    pub negative: NegativeAnchors,
    /// Zones with servers in the configuration that the public tree denies, and that nothing above
    /// vouches for: they are as good as negative anchors, unless there is a trust anchor at or
    /// below them.
    pub private: SuffixMap<()>,
    /// Which algorithms count.
    pub policy: Policy,
}

/// The keys of a zone, or why it has none that count.
pub(crate) type Chain = Result<Arc<ZoneKeys>, Reason>;
