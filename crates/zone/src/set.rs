//! All hosted zones.

use std::sync::Arc;

use avocet_wire::suffix::SuffixMap;
use avocet_wire::{FoldedName, Rtype};

use crate::tree::HostedZone;

/// The zones that a server hosts, by name. Immutable: a new version of a zone makes a new set.
#[derive(Debug, Default)]
pub struct HostedZones {
    /// `None` for a zone that could not be loaded.
    zones: SuffixMap<Option<Arc<HostedZone>>>,
}

impl HostedZones {
    /// Returns whether there is no zone.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// Returns the zone with this name.
    #[must_use]
    pub fn get(&self, apex: &[u8]) -> Option<&Option<Arc<HostedZone>>> {
        self.zones.get(apex)
    }

    /// Returns all zones with their names, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Option<Arc<HostedZone>>)> {
        self.zones.iter()
    }

    /// Returns the names of the zones that are other in `next`: added, removed, loaded or replaced.
    #[must_use]
    pub fn changed_to(&self, next: &Self) -> Vec<Box<[u8]>> {
        let version =
            |zones: &Self, apex: &[u8]| zones.get(apex).map(|zone| zone.as_ref().map(Arc::as_ptr));
        let apexes = self.iter().chain(next.iter()).map(|(apex, _)| apex);
        let changed = apexes.filter(|apex| version(self, apex) != version(next, apex));
        changed.map(Box::from).collect()
    }

    /// Returns the zone that answers a question, or `None` if no zone does; `Some(None)` if the
    /// zone could not be loaded. The parent's zone answers for DS records, if it is hosted (RFC
    /// 4035 §3.1.4.1).
    #[inline]
    #[must_use]
    pub fn zone_of(&self, qname: FoldedName<'_>, qtype: Rtype) -> Option<Option<&HostedZone>> {
        let (apex, zone) = self.zones.nearest(qname.wire())?;
        if qtype == Rtype::DS
            && apex.len() == qname.len()
            && let Some(parent) = qname.parent()
            && let Some((_, above)) = self.zones.nearest(parent.wire())
        {
            return Some(above.as_deref());
        }
        Some(zone.as_deref())
    }

    /// Reports whether a question is for the DS records of a zone whose parent is not hosted: only
    /// the servers of the parent have them (RFC 4035 §3.1.4.1).
    #[inline]
    #[must_use]
    pub fn is_for_other_parent(&self, qname: FoldedName<'_>, qtype: Rtype) -> bool {
        qtype == Rtype::DS
            && self.zones.get(qname.wire()).is_some()
            && qname.parent().is_some_and(|parent| self.zones.nearest(parent.wire()).is_none())
    }
}

impl FromIterator<(Box<[u8]>, Option<Arc<HostedZone>>)> for HostedZones {
    fn from_iter<I>(zones: I) -> Self
    where
        I: IntoIterator<Item = (Box<[u8]>, Option<Arc<HostedZone>>)>,
    {
        Self { zones: zones.into_iter().collect() }
    }
}
