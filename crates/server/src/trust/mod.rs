//! What is trusted beside the configuration: keys whose roll-over was followed (RFC 5011), and
//! negative trust anchors set while the server runs (RFC 7646). Both are kept in the data
//! directory.
//!
//! ```text
//!   clock ──> Anchors ──asks for DNSKEY──> worker ──> RRset cache ──> Anchors ──┐
//!   `avocet nta` ──> NegativeList ──────────────────────────────────────────────┴─> LearntTrust ──> Snapshot
//! ```

pub(crate) mod anchors;
pub(crate) mod negative;
mod state_file;

use avocet_dnssec::anchor::{Anchor, Anchors};
use avocet_dnssec::negative::NegativeAnchor;
use avocet_wire::NameBuf;

/// What goes with every snapshot beside the configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct LearntTrust {
    /// Zones with a configured anchor, and what is trusted in its place.
    pub(crate) followed: Vec<(NameBuf, Vec<Anchor>)>,
    /// Negative anchors set at run time.
    pub(crate) negative: Vec<NegativeAnchor>,
}

impl LearntTrust {
    /// Takes what was followed in place of the configured anchors.
    pub(crate) fn apply(&self, anchors: &mut Anchors) {
        for (zone, followed) in &self.followed {
            if anchors.point(zone.wire()).is_some() {
                anchors.replace(zone, followed.iter().cloned());
            }
        }
    }
}
