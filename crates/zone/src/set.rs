//! The set of all hosted zones, and the part of it that a client sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use avocet_wire::suffix::SuffixMap;
use avocet_wire::{FoldedName, Rtype};

use crate::tree::HostedZone;
use crate::zone_id::ZoneId;

/// The zone that answers; `None` if it could not be loaded.
type Loaded = Option<Arc<HostedZone>>;

/// The zones that a server hosts, by name. A set never changes: a new version of a zone is in a new
/// set.
///
/// Look-ups find the zones that all clients see. Zones that only the clients of a view see are
/// stored separately; a set that [`Self::for_view`] returns finds the zones of its views first.
#[derive(Debug, Default)]
pub struct HostedZones {
    zones: SuffixMap<Loaded>,
    /// In a set for a view, the zones that all clients see.
    common: Option<Arc<Self>>,
    /// The zones that only clients of their views see, for all views.
    viewed: BTreeMap<ZoneId, Loaded>,
    /// In a set for a view, the name of each zone that belongs to a view, and the name of that
    /// view.
    views: BTreeMap<Box<[u8]>, Box<str>>,
}

impl HostedZones {
    /// Adds the zones that only clients of their views see.
    #[must_use]
    pub fn with_views(self, viewed: impl IntoIterator<Item = (ZoneId, Loaded)>) -> Self {
        Self { viewed: viewed.into_iter().collect(), ..self }
    }

    /// Creates the set for clients that see these zones of views. These zones precede those for all
    /// clients.
    #[must_use]
    pub fn for_view<'z>(self: &Arc<Self>, seen: impl IntoIterator<Item = &'z ZoneId>) -> Self {
        let (mut zones, mut views) = (Vec::new(), BTreeMap::new());
        for id in seen {
            let (Some(zone), Some(view)) = (self.viewed.get(id), &id.view) else { continue };
            zones.push((id.name.clone(), zone.clone()));
            views.insert(id.name.clone(), view.clone());
        }
        let zones = zones.into_iter().collect();
        Self { zones, common: Some(self.clone()), viewed: BTreeMap::new(), views }
    }

    /// Returns the identity of the zone that [`Self::get`] finds under this name.
    #[must_use]
    pub fn id_of(&self, apex: &[u8]) -> ZoneId {
        ZoneId { name: apex.into(), view: self.views.get(apex).cloned() }
    }

    /// Reports whether the set finds no zone.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty() && self.common.as_ref().is_none_or(|common| common.is_empty())
    }

    /// Returns the zone with this name.
    #[must_use]
    pub fn get(&self, apex: &[u8]) -> Option<&Option<Arc<HostedZone>>> {
        self.zones.get(apex).or_else(|| self.common.as_ref()?.get(apex))
    }

    /// Returns the zone with this identity: the zone of a view, or the zone for all clients.
    #[must_use]
    pub fn by_id(&self, id: &ZoneId) -> Option<&Option<Arc<HostedZone>>> {
        if id.is_common() { self.zones.get(&id.name) } else { self.viewed.get(id) }
    }

    /// Returns the names of the zones that were added, removed, loaded or replaced in `next`.
    #[must_use]
    pub fn changed_to(&self, next: &Self) -> Vec<Box<[u8]>> {
        let version = |zone: Option<&Loaded>| zone.map(|zone| zone.as_ref().map(Arc::as_ptr));
        let is_other =
            |apex: &&[u8]| version(self.zones.get(apex)) != version(next.zones.get(apex));
        let apexes = self.zones.iter().chain(next.zones.iter()).map(|(apex, _)| apex);
        let ids = self.viewed.keys().chain(next.viewed.keys());
        let viewed = ids.filter(|id| version(self.viewed.get(id)) != version(next.viewed.get(id)));
        apexes.filter(is_other).map(Box::from).chain(viewed.map(|id| id.name.clone())).collect()
    }

    /// Returns the zone that contains `name`, with the name of the zone. Of several zones, the one
    /// with the longest name counts.
    #[inline]
    fn nearest<'n>(&self, name: &'n [u8]) -> Option<(&'n [u8], &Loaded)> {
        let own = self.zones.nearest(name);
        match &self.common {
            None => own,
            Some(common) => longer(own, common.zones.nearest(name)),
        }
    }

    /// Returns the zone that answers a question. Returns `None` if no hosted zone contains the
    /// name, and `Some(None)` if the zone could not be loaded. For DS records, the zone is that of
    /// the parent, if that is hosted (RFC 4035 §3.1.4.1).
    #[inline]
    #[must_use]
    pub fn zone_of(&self, qname: FoldedName<'_>, qtype: Rtype) -> Option<Option<&HostedZone>> {
        self.answering(qname, qtype).map(|(_, zone)| zone.as_deref())
    }

    /// Returns whether the zone of a name has an alias at or above the name: see
    /// [`HostedZone::leads_elsewhere`].
    #[must_use]
    pub fn leads_elsewhere(&self, name: FoldedName<'_>) -> bool {
        self.zone_of(name, Rtype::A).flatten().is_some_and(|zone| zone.leads_elsewhere(name))
    }

    /// Returns the zone of [`Self::zone_of`] as a shared pointer, if the zone is loaded.
    #[must_use]
    pub fn shared_zone_of(&self, qname: FoldedName<'_>, qtype: Rtype) -> Option<Arc<HostedZone>> {
        self.answering(qname, qtype)?.1.clone()
    }

    /// Returns the name of the zone that [`Self::zone_of`] returns.
    #[must_use]
    pub fn apex_of<'n>(&self, qname: FoldedName<'n>, qtype: Rtype) -> Option<&'n [u8]> {
        self.answering(qname, qtype).map(|(apex, _)| apex)
    }

    #[inline]
    fn answering<'n>(&self, qname: FoldedName<'n>, qtype: Rtype) -> Option<(&'n [u8], &Loaded)> {
        let (apex, zone) = self.nearest(qname.wire())?;
        if qtype == Rtype::DS
            && apex.len() == qname.len()
            && let Some(parent) = qname.parent()
            && let Some(above) = self.nearest(parent.wire())
        {
            return Some(above);
        }
        Some((apex, zone))
    }

    /// Reports whether a question is for the DS records of a hosted zone whose parent is not
    /// hosted. Only the servers of the parent have these records (RFC 4035 §3.1.4.1).
    #[inline]
    #[must_use]
    pub fn is_for_other_parent(&self, qname: FoldedName<'_>, qtype: Rtype) -> bool {
        qtype == Rtype::DS
            && self.get(qname.wire()).is_some()
            && qname.parent().is_some_and(|parent| self.nearest(parent.wire()).is_none())
    }
}

/// Returns the zone with the longer name, or the first of two zones with the same name.
fn longer<'n, 'z>(
    first: Option<(&'n [u8], &'z Loaded)>,
    second: Option<(&'n [u8], &'z Loaded)>,
) -> Option<(&'n [u8], &'z Loaded)> {
    match (first, second) {
        (Some(first), Some(second)) if second.0.len() > first.0.len() => Some(second),
        (first, second) => first.or(second),
    }
}

impl FromIterator<(Box<[u8]>, Option<Arc<HostedZone>>)> for HostedZones {
    fn from_iter<I>(zones: I) -> Self
    where
        I: IntoIterator<Item = (Box<[u8]>, Option<Arc<HostedZone>>)>,
    {
        Self { zones: zones.into_iter().collect(), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Faults;

    const APEX: &[u8] = b"\x04corp\x07example\x00";
    const BELOW: &[u8] = b"\x01a\x04corp\x07example\x00";

    fn zone(apex: &[u8], serial: u32) -> Loaded {
        let text = format!(
            "@ 60 IN SOA ns.other.test. a.other.test. {serial} 1 1 1 1\n@ 60 IN NS ns.other.test.\n"
        );
        let mut open = |_: &std::path::Path, _: u64| Ok(text.clone().into_bytes());
        let apex = FoldedName::new(apex).unwrap();
        let (zone, faults) = crate::load(apex, std::path::Path::new("z"), 0, &mut open);
        assert!(!Faults::has_errors(&faults));
        zone.map(Arc::new)
    }

    fn of_view(apex: &[u8], view: &str) -> ZoneId {
        ZoneId { name: apex.into(), view: Some(view.into()) }
    }

    fn serial_for(zones: &HostedZones, qname: &[u8], qtype: Rtype) -> Option<u32> {
        let zone = zones.zone_of(FoldedName::new(qname).unwrap(), qtype);
        zone.flatten().map(HostedZone::serial)
    }

    #[test]
    fn a_view_has_its_zones_before_the_common_ones() {
        let (office, guests) = (of_view(APEX, "office"), of_view(BELOW, "guests"));
        let common: HostedZones = [(Box::from(APEX), zone(APEX, 1))].into_iter().collect();
        let viewed = [(office.clone(), zone(APEX, 2)), (guests.clone(), zone(BELOW, 3))];
        let all = Arc::new(common.with_views(viewed));
        let check = |zones: &HostedZones, at: u32, below: u32| {
            assert_eq!(serial_for(zones, APEX, Rtype::A), Some(at));
            assert_eq!(serial_for(zones, BELOW, Rtype::A), Some(below));
            // The parent zone answers for the DS records.
            assert_eq!(serial_for(zones, BELOW, Rtype::DS), Some(at));
            assert_eq!(zones.get(APEX).unwrap().as_ref().unwrap().serial(), at);
        };
        check(&all, 1, 1);
        check(&all.for_view([&office]), 2, 2);
        assert_eq!(all.for_view([&office]).id_of(APEX), office);
        assert_eq!(all.for_view([&guests]).id_of(APEX), ZoneId::common(APEX));
        check(&all.for_view([&guests]), 1, 3);
        check(&all.for_view([&office, &guests]), 2, 3);
        check(&all.for_view([]), 1, 1);
    }

    #[test]
    fn a_zone_of_a_view_alone_is_in_no_other() {
        let office = of_view(APEX, "office");
        let all = HostedZones::default().with_views([(office.clone(), zone(APEX, 2))]);
        let all = Arc::new(all);
        assert!(all.is_empty() && all.for_view([]).is_empty());
        assert_eq!(serial_for(&all, BELOW, Rtype::A), None);
        let seen = all.for_view([&office]);
        assert!(!seen.is_empty());
        assert_eq!(serial_for(&seen, BELOW, Rtype::A), Some(2));
        let ds_of = |zones: &HostedZones| {
            zones.is_for_other_parent(FoldedName::new(APEX).unwrap(), Rtype::DS)
        };
        assert!(ds_of(&seen) && !ds_of(&all));
        // A zone that could not be loaded stays in the set, so that no other server answers for it.
        let failed = HostedZones::default().with_views([(office.clone(), None)]);
        let failed = Arc::new(failed).for_view([&office]);
        assert!(
            failed
                .zone_of(FoldedName::new(BELOW).unwrap(), Rtype::A)
                .is_some_and(|zone| zone.is_none())
        );
    }

    #[test]
    fn a_change_in_a_view_is_one_of_its_name() {
        let office = of_view(APEX, "office");
        let set = |zone: Loaded| HostedZones::default().with_views([(office.clone(), zone)]);
        let (first, second) = (zone(APEX, 1), zone(APEX, 2));
        assert!(set(first.clone()).changed_to(&set(first.clone())).is_empty());
        assert_eq!(set(first.clone()).changed_to(&set(second))[0], Box::from(APEX));
        assert_eq!(set(first.clone()).changed_to(&HostedZones::default()), [Box::from(APEX)]);
        let common: HostedZones = [(Box::from(APEX), first.clone())].into_iter().collect();
        assert_eq!(set(first).changed_to(&common)[0], Box::from(APEX));
    }
}
