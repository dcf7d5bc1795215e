//! What is trusted in addition to the configuration.

use avocet_dnssec::anchor::{Anchor, Anchors};
use avocet_dnssec::negative::NegativeAnchor;
use avocet_wire::NameBuf;

/// What goes with every snapshot beside the configuration.
#[derive(Clone, Debug, Default)]
pub struct LearntTrust {
    /// Zones with a configured anchor, and what is trusted in its place.
    pub followed: Vec<(NameBuf, Vec<Anchor>)>,
    /// Negative anchors set at run time.
    pub negative: Vec<NegativeAnchor>,
}

impl LearntTrust {
    /// Takes what was followed in place of the configured anchors.
    pub fn apply(&self, anchors: &mut Anchors) {
        for (zone, followed) in &self.followed {
            if anchors.point(zone.wire()).is_some() {
                anchors.replace(zone, followed.iter().cloned());
            }
        }
    }
}
