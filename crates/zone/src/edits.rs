//! Edits of a zone: records are removed and added. The resulting version is checked like a zone
//! that was read from a file.

use std::collections::{BTreeMap, HashSet};

use avocet_wire::canonical::{append_rdata, compare_rdata};
use avocet_wire::master::MasterRecord;
use avocet_wire::{Class, FoldedName, NameBuf, Rtype};

use crate::build::ZoneBuilder;
use crate::change::ZoneChange;
use crate::fault::{EntryPlace, Faults, Severity};
use crate::tree::{HostedRecord, HostedZone};

/// Edits of a version of a zone. The version itself does not change; [`Self::finish`] builds a new
/// one.
pub struct ZoneEdits<'z> {
    zone: &'z HostedZone,
    /// The records that differ from the zone: their new form, or `None` if they are removed.
    edits: BTreeMap<EditKey, Option<EditedRecord>>,
    /// Names whose addresses the server determines separately for each answer.
    made: Vec<FoldedName<'z>>,
}

/// A record without its TTL, for comparison. Records whose data are the same in canonical form are
/// equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EditKey {
    owner: Box<[u8]>,
    rtype: Rtype,
    canonical: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq)]
struct EditedRecord {
    ttl_secs: u32,
    rdata: Box<[u8]>,
}

/// A record of a name after the edits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PresentRecord {
    /// The type.
    pub rtype: Rtype,
    /// The TTL in seconds.
    pub ttl_secs: u32,
    /// The data.
    pub rdata: Box<[u8]>,
}

impl PresentRecord {
    /// Borrows the record.
    #[must_use]
    pub fn view(&self) -> HostedRecord<'_> {
        HostedRecord { rtype: self.rtype, ttl_secs: self.ttl_secs, rdata: &self.rdata }
    }
}

/// The error that a change cannot be applied exactly: it removes a record that the zone does not
/// have, or adds one that it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the difference is not one from the version in force")]
pub struct NotExact;

/// The error that the edited zone is not valid. Contains the first fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct UnsoundZone(String);

impl EditKey {
    fn of(owner: FoldedName<'_>, record: &HostedRecord<'_>) -> Self {
        let mut canonical = Vec::with_capacity(record.rdata.len());
        append_rdata(record.rtype.0, record.rdata, &mut canonical);
        Self { owner: owner.wire().into(), rtype: record.rtype, canonical }
    }
}

impl<'z> ZoneEdits<'z> {
    /// Creates an empty set of edits of a version.
    #[must_use]
    pub const fn of(zone: &'z HostedZone) -> Self {
        Self { zone, edits: BTreeMap::new(), made: Vec::new() }
    }

    /// Returns the zone before the edits.
    #[must_use]
    pub const fn zone(&self) -> &'z HostedZone {
        self.zone
    }

    /// Reports whether the edits leave the zone as it is.
    #[must_use]
    pub fn is_without_effect(&self) -> bool {
        self.edits.iter().all(|(key, edited)| {
            let before = self.ttl_before(FoldedName::from_folded_unchecked(&key.owner), key);
            before == edited.as_ref().map(|record| record.ttl_secs)
        })
    }

    /// Returns the records of a name after the edits, with signatures.
    #[must_use]
    pub fn records(&self, owner: FoldedName<'_>) -> Vec<PresentRecord> {
        let before = self.zone.node(owner.wire()).into_iter().flat_map(|node| node.sets());
        let before = before.flat_map(|set| set.iter().chain(set.signatures()));
        let first = EditKey { owner: owner.wire().into(), rtype: Rtype(0), canonical: Vec::new() };
        let edited: Vec<_> =
            self.edits.range(first..).take_while(|(key, _)| *key.owner == *owner.wire()).collect();
        let is_kept = |record: &HostedRecord<'_>| {
            edited.is_empty() || !self.edits.contains_key(&EditKey::of(owner, record))
        };
        let kept = before.filter(is_kept).map(|HostedRecord { rtype, ttl_secs, rdata }| {
            PresentRecord { rtype, ttl_secs, rdata: rdata.into() }
        });
        let added = edited.iter().filter_map(|(key, record)| {
            let EditedRecord { ttl_secs, rdata } = (*record).clone()?;
            Some(PresentRecord { rtype: key.rtype, ttl_secs, rdata })
        });
        kept.chain(added).collect()
    }

    /// Returns the TTL of a record after the edits; `None` if the zone does not have the record.
    fn ttl_of(&self, owner: FoldedName<'_>, key: &EditKey) -> Option<u32> {
        if let Some(edited) = self.edits.get(key) {
            return edited.as_ref().map(|record| record.ttl_secs);
        }
        self.ttl_before(owner, key)
    }

    /// Returns the TTL of a record before the edits; `None` if the zone did not have the record.
    fn ttl_before(&self, owner: FoldedName<'_>, key: &EditKey) -> Option<u32> {
        let sets = self.zone.node(owner.wire()).into_iter().flat_map(|node| node.sets());
        let mut all = sets.flat_map(|set| set.iter().chain(set.signatures()));
        let is_same = |other: &HostedRecord<'_>| {
            other.rtype == key.rtype
                && other.rdata.len() == key.canonical.len()
                && compare_rdata(key.rtype.0, other.rdata, &key.canonical).is_eq()
        };
        all.find(is_same).map(|found| found.ttl_secs)
    }

    /// Removes a record, whatever its TTL. Reports whether the zone had the record.
    pub fn remove(&mut self, owner: FoldedName<'_>, record: &HostedRecord<'_>) -> bool {
        let key = EditKey::of(owner, record);
        let had = self.ttl_of(owner, &key).is_some();
        if had {
            self.edits.insert(key, None);
        }
        had
    }

    /// Adds a record, or sets its TTL. Reports whether the record is new.
    pub fn add(&mut self, owner: FoldedName<'_>, record: &HostedRecord<'_>) -> bool {
        let key = EditKey::of(owner, record);
        let ttl_secs = self.ttl_of(owner, &key);
        if ttl_secs != Some(record.ttl_secs) {
            let edited = EditedRecord { ttl_secs: record.ttl_secs, rdata: record.rdata.into() };
            self.edits.insert(key, Some(edited));
        }
        ttl_secs.is_none()
    }

    /// Removes the records of a name whose types `is_meant` accepts.
    pub fn remove_all(&mut self, owner: FoldedName<'_>, is_meant: impl Fn(Rtype) -> bool) {
        for one in self.records(owner).iter().filter(|one| is_meant(one.rtype)) {
            self.edits.insert(EditKey::of(owner, &one.view()), None);
        }
    }

    /// Sets the TTL of all records of an RRset.
    pub fn set_ttl(&mut self, owner: FoldedName<'_>, rtype: Rtype, ttl_secs: u32) {
        for PresentRecord { rdata, .. } in self
            .records(owner)
            .into_iter()
            .filter(|one| one.rtype == rtype && one.ttl_secs != ttl_secs)
        {
            let key = EditKey::of(owner, &HostedRecord { rtype, ttl_secs, rdata: &rdata });
            self.edits.insert(key, Some(EditedRecord { ttl_secs, rdata }));
        }
    }

    /// Replaces the SOA record of the zone.
    pub fn set_soa(&mut self, ttl_secs: u32, rdata: &[u8]) {
        let apex = self.zone.apex();
        self.remove_all(apex, |one| one == Rtype::SOA);
        self.add(apex, &HostedRecord { rtype: Rtype::SOA, ttl_secs, rdata });
    }

    /// Applies a change that starts at exactly this version.
    ///
    /// # Errors
    /// The change belongs to another version.
    pub fn apply(&mut self, change: &ZoneChange) -> Result<(), NotExact> {
        let is_here = change.removed.iter().all(|one| self.remove(one.owner, &one.record));
        let is_new = is_here && change.added.iter().all(|one| self.add(one.owner, &one.record));
        if is_new { Ok(()) } else { Err(NotExact) }
    }

    /// Applies a change between other versions: records that are already added or removed are
    /// ignored. The SOA record stays.
    pub fn merge(&mut self, change: &ZoneChange) {
        for one in change.removed.iter().filter(|one| one.record.rtype != Rtype::SOA) {
            self.remove(one.owner, &one.record);
        }
        for one in change.added.iter().filter(|one| one.record.rtype != Rtype::SOA) {
            self.add(one.owner, &one.record);
        }
    }

    /// Marks a name of the zone as one whose addresses the server determines separately for each
    /// answer.
    pub(crate) fn add_made(&mut self, owner: FoldedName<'z>) {
        self.made.push(owner);
    }

    /// Builds the new version of the zone and checks it. `now_secs` is the Unix time at which the
    /// dates of signatures are checked.
    ///
    /// # Errors
    /// The zone has errors.
    pub fn finish(self, now_secs: u64) -> Result<HostedZone, UnsoundZone> {
        let touched: HashSet<&[u8]> = self.edits.keys().map(|key| &*key.owner).collect();
        let (mut builder, mut faults) = (ZoneBuilder::new(self.zone.apex()), Faults::default());
        self.made.iter().for_each(|owner| builder.add_made(*owner));
        let mut one = MasterRecord::empty();
        let mut put = |owner: &NameBuf, record: HostedRecord<'_>| {
            (one.owner, one.class) = (*owner, Class::IN);
            (one.rtype, one.ttl_secs) = (record.rtype, record.ttl_secs);
            one.rdata.clear();
            one.rdata.extend_from_slice(record.rdata);
            builder.add(&one, EntryPlace::default(), &mut faults);
        };
        for node in self.zone.iter() {
            let owner = NameBuf::from_wire(node.name().wire()).unwrap_or(NameBuf::ROOT);
            let is_touched = touched.contains(node.name().wire());
            for record in node.sets().flat_map(|set| set.iter().chain(set.signatures())) {
                let key = is_touched.then(|| EditKey::of(node.name(), &record));
                if !key.is_some_and(|key| self.edits.contains_key(&key)) {
                    put(&owner, record);
                }
            }
        }
        for (key, record) in &self.edits {
            if let Some(EditedRecord { ttl_secs, rdata }) = record {
                let owner = NameBuf::from_wire(&key.owner).unwrap_or(NameBuf::ROOT);
                put(&owner, HostedRecord { rtype: key.rtype, ttl_secs: *ttl_secs, rdata });
            }
        }
        let zone = builder.finish(now_secs, EntryPlace::default(), &mut faults);
        zone.ok_or_else(|| {
            let mut list = faults.list().into_iter();
            let error = list.find(|fault| fault.severity == Severity::Error);
            UnsoundZone(error.map_or_else(String::new, |fault| fault.reason.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::outbound::tests::zone;

    const TEXT: &str =
        "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\na MX 1 Mail.other.\n";

    fn name(text: &str) -> Vec<u8> {
        [&[text.len() as u8], text.as_bytes(), b"\x07example\0"].concat()
    }

    #[test]
    fn names_in_data_are_compared_in_lower_case() {
        let zone = zone(TEXT);
        let a = name("a");
        let a = FoldedName::from_folded_unchecked(&a);
        let mx = |rdata| HostedRecord { rtype: Rtype(15), ttl_secs: 9, rdata };
        let mut edits = ZoneEdits::of(&zone);
        assert!(!edits.remove(a, &mx(b"\0\x02\x04mail\x05other\0")));
        assert!(edits.remove(a, &mx(b"\0\x01\x04mail\x05other\0")));
        assert!(!edits.remove(a, &mx(b"\0\x01\x04mail\x05other\0")));
        assert_eq!(edits.records(a), []);
        assert!(edits.add(a, &mx(b"\0\x01\x04mail\x05other\0")));
        assert!(!edits.add(a, &mx(b"\0\x01\x04MAIL\x05other\0")));
        assert_eq!(edits.records(a).len(), 1);
    }

    #[test]
    fn random_edits_have_the_same_result_as_a_set_of_records() {
        let zone = zone(TEXT);
        let mut random = 7_u32;
        let mut next = |most: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 16) % most
        };
        let mut model: BTreeSet<(u32, u8)> = BTreeSet::new();
        let mut edits = ZoneEdits::of(&zone);
        for _ in 0..2_000 {
            let (host, octet) = (next(20), next(4) as u8);
            let owner = name(&format!("h{host}"));
            let owner = FoldedName::from_folded_unchecked(&owner);
            let rdata = [10, 0, 0, octet];
            let record = HostedRecord { rtype: Rtype::A, ttl_secs: 60, rdata: &rdata };
            match next(2) {
                0 => assert_eq!(edits.add(owner, &record), model.insert((host, octet))),
                _ => assert_eq!(edits.remove(owner, &record), model.remove(&(host, octet))),
            }
            let of_host = model.iter().filter(|(other, _)| *other == host).count();
            assert_eq!(edits.records(owner).len(), of_host);
        }
        let edited = edits.finish(0).unwrap();
        assert_eq!(edited.records() as usize, model.len() + zone.records() as usize);
    }

    #[test]
    fn a_zone_with_errors_is_not_built() {
        let zone = zone(TEXT);
        let mut edits = ZoneEdits::of(&zone);
        let ns = edits.records(zone.apex()).into_iter().find(|record| record.rtype == Rtype::NS);
        edits.remove(zone.apex(), &ns.unwrap().view());
        assert!(edits.finish(0).unwrap_err().to_string().contains("no NS records"));
    }
}
