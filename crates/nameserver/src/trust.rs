//! Trust anchors that are not in the configuration.

use avocet_dnssec::anchor::{Anchor, Anchors};
use avocet_dnssec::negative::NegativeAnchor;
use avocet_wire::FoldedNameBuf;

/// Trust anchors that apply in addition to the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LearntTrust {
    /// Zones with a configured anchor and an automatic rollover, each with the anchors that replace
    /// the configured one.
    pub followed: Vec<(FoldedNameBuf, Vec<Anchor>)>,
    /// Negative trust anchors that were set at run time.
    pub negative: Vec<NegativeAnchor>,
}

impl LearntTrust {
    /// Replaces configured anchors by the current anchors of the zones with followed rollovers.
    pub fn apply(&self, anchors: &mut Anchors) {
        for (zone, followed) in &self.followed {
            if anchors.point(zone.wire()).is_some() {
                anchors.replace(zone, followed.iter().cloned());
            }
        }
    }
}
