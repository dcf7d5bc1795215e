//! The settings that chains of trust start with, and the result at their end.

use std::sync::Arc;

use avocet_dnssec::anchor::Anchors;
use avocet_dnssec::negative::NegativeAnchors;
use avocet_dnssec::{Policy, Reason, ZoneKeys};
use avocet_wire::suffix::SuffixMap;

/// The settings of validation.
#[derive(Clone, Debug)]
pub struct Validation {
    /// The trust anchors.
    pub anchors: Anchors,
    /// The negative trust anchors. Names at or below them are not validated.
    pub negative: NegativeAnchors,
    /// Configured zones that do not exist in the public tree. They act like negative trust anchors,
    /// unless there is a trust anchor at or below them.
    pub private: SuffixMap<()>,
    /// The accepted algorithms of keys, digests and signatures.
    pub policy: Policy,
}

/// The keys of a zone, or the reason why it has no usable keys.
pub(crate) type Chain = Result<Arc<ZoneKeys>, Reason>;
