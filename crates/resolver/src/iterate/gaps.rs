//! Validated NSEC and NSEC3 records of signed zones: each record denies all names in the range
//! between two names (RFC 8198 §5). The module `synthesis` makes answers from these records.

use std::collections::{BTreeMap, HashMap, VecDeque};

use avocet_dnssec::nsec3::{Hash, Nsec3};
use avocet_wire::hash::DrawnHashKey;
use avocet_wire::{FoldedName, Rtype};

use super::rrset::{Name, Rrset};
use crate::name_order::order;

/// Maximum number of zones with ranges, in each resolver.
const MAX_ZONES: usize = 512;
/// Maximum number of ranges of one zone.
const MAX_GAPS: usize = 1_024;
/// Maximum number of ranges in each resolver. A range takes about 400 octets with signatures of
/// usual sizes.
const MAX_ALL_GAPS: usize = 32_768;

/// A range to look for among the cached ranges.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sought {
    /// The range at or right before a name, in the nearest zone above the name that has ranges.
    Name(Name),
    /// The range at or right before a hash, in the zone with this apex.
    Hash(Name, Hash),
}

/// The records that were found for a [`Sought`] range.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    pub(crate) apex: Name,
    /// The SOA record of the zone; `None` if no negative response of the zone was seen yet.
    pub(crate) soa: Option<Rrset>,
    pub(crate) by: By,
}

impl Gap {
    /// Returns the NSEC3 record of the range.
    pub(crate) fn nsec3(&self) -> Option<Nsec3<'_>> {
        let By::Set(set) = &self.by else { return None };
        Nsec3::read(&set.owner, set.records.first()?, &self.apex)
    }
}

/// The proof in a [`Gap`]. Its TTLs are reduced by the time since it was cached.
#[derive(Clone, Debug)]
pub(crate) enum By {
    /// The NSEC or NSEC3 RRset.
    Set(Rrset),
    /// The zone uses NSEC3 with these parameters, so the caller must look for hashes instead of the
    /// name.
    Hashing(Hashing),
}

/// The NSEC3 parameters of a zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hashing {
    pub(crate) iterations: u16,
    pub(crate) salt: Box<[u8]>,
}

/// An RRset and the time at which it expires, in ms.
type Timed = (Rrset, u64);

/// The ranges of one zone.
///
/// One of the two maps is empty: if a zone changes from NSEC to NSEC3 or back, only the ranges of
/// the later kind are kept.
#[derive(Debug, Default)]
struct ZoneProofs {
    soa: Option<Timed>,
    /// NSEC RRsets by their owners, in canonical order; see [`order`].
    names: BTreeMap<Vec<u8>, Timed>,
    hashing: Option<Hashing>,
    /// NSEC3 RRsets by their owners' hashes.
    hashes: BTreeMap<Hash, Timed>,
    /// Whether the ranges were used since the zone was inserted. An eviction that finds this set
    /// keeps the zone once, and clears it.
    used: bool,
}

/// The ranges of all zones.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    zones: HashMap<Name, ZoneProofs, DrawnHashKey>,
    /// The zones, in the order in which they are considered for eviction.
    order: VecDeque<Name>,
    count: usize,
}

fn left((set, until_ms): &Timed, now_ms: u64) -> Option<Rrset> {
    let ttl_secs = until_ms.checked_sub(now_ms)? / 1_000;
    (ttl_secs > 0).then(|| Rrset { ttl_secs: ttl_secs as u32, ..set.clone() })
}

/// Makes room for another entry. Removes the expired entries; if there are none, removes all
/// entries.
fn make_room<K: Ord>(map: &mut BTreeMap<K, Timed>, now_ms: u64) {
    if map.len() >= MAX_GAPS {
        map.retain(|_, (_, until_ms)| *until_ms > now_ms);
    }
    if map.len() >= MAX_GAPS {
        map.clear();
    }
}

impl ZoneProofs {
    fn len(&self) -> usize {
        self.names.len() + self.hashes.len()
    }

    fn insert(&mut self, apex: FoldedName<'_>, set: Rrset, now_ms: u64) {
        let until_ms = now_ms + u64::from(set.ttl_secs) * 1_000;
        if set.rtype == Rtype::NSEC {
            (self.hashing, self.hashes) = (None, BTreeMap::new());
            make_room(&mut self.names, now_ms);
            self.names.insert(order(&set.owner), (set, until_ms));
            return;
        }
        let Some(nsec3) = set.records.first().and_then(|data| Nsec3::read(&set.owner, data, &apex))
        else {
            return;
        };
        let hashing =
            Hashing { iterations: nsec3.parameters.iterations, salt: nsec3.parameters.salt.into() };
        if self.hashing.as_ref() != Some(&hashing) {
            self.hashes.clear();
        }
        (self.hashing, self.names) = (Some(hashing), BTreeMap::new());
        let hash = nsec3.hash;
        make_room(&mut self.hashes, now_ms);
        self.hashes.insert(hash, (set, until_ms));
    }

    fn find(&self, sought: &Sought, now_ms: u64) -> Option<By> {
        match (sought, &self.hashing) {
            (Sought::Name(_), Some(hashing)) => Some(By::Hashing(hashing.clone())),
            (Sought::Name(owner), None) => {
                let (_, nsec) = self.names.range(..=order(owner)).next_back()?;
                left(nsec, now_ms).map(By::Set)
            }
            (Sought::Hash(_, hash), _) => {
                // The range that begins at the last hash also covers the hashes before the first
                // one.
                let before = self
                    .hashes
                    .range(..=*hash)
                    .next_back()
                    .or_else(|| self.hashes.last_key_value())?;
                left(before.1, now_ms).map(By::Set)
            }
        }
    }
}

impl Gaps {
    /// Inserts NSEC or NSEC3 RRsets of a zone, and its SOA RRset if there is one.
    pub(crate) fn insert(
        &mut self,
        apex: &Name,
        soa: Option<Rrset>,
        sets: Vec<Rrset>,
        now_ms: u64,
    ) {
        if sets.is_empty() {
            return;
        }
        if !self.zones.contains_key(apex) {
            self.order.push_back(apex.clone());
        }
        let zone = self.zones.entry(apex.clone()).or_default();
        self.count -= zone.len();
        if let Some(soa) = soa {
            let until_ms = now_ms + u64::from(soa.ttl_secs) * 1_000;
            zone.soa = Some((soa, until_ms));
        }
        for set in sets {
            zone.insert(apex.view(), set, now_ms);
        }
        self.count += zone.len();
        while self.order.len() > MAX_ZONES || self.count > MAX_ALL_GAPS {
            self.evict();
        }
    }

    /// Removes the first zone that was not used since the last eviction. Zones that an attacker
    /// queries once thus do not displace zones that are in use.
    fn evict(&mut self) {
        while let Some(first) = self.order.pop_front() {
            match self.zones.get_mut(&first) {
                Some(zone) if zone.used => {
                    zone.used = false;
                    self.order.push_back(first);
                }
                _ => {
                    let removed = self.zones.remove(&first);
                    self.count -= removed.map_or(0, |zone| zone.len());
                    return;
                }
            }
        }
    }

    /// Returns the records for a [`Sought`] range.
    pub(crate) fn get(&mut self, sought: &Sought, now_ms: u64) -> Option<Gap> {
        let apex: Name = match sought {
            Sought::Name(owner) => {
                owner.view().ancestors().find(|apex| self.zones.contains_key(apex.wire()))?.into()
            }
            Sought::Hash(apex, _) => apex.clone(),
        };
        let zone = self.zones.get_mut(&apex)?;
        zone.used = true;
        let soa = zone.soa.as_ref().and_then(|soa| left(soa, now_ms));
        Some(Gap { apex, soa, by: zone.find(sought, now_ms)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iterate::rrset::name_of;
    use avocet_wire::canonical::compare_names;

    const EXAMPLE: &[u8] = b"\x07example\x00";

    fn set(owner: &[u8], rtype: Rtype) -> Rrset {
        Rrset::empty(name_of(owner), rtype, 10)
    }

    #[test]
    fn keys_are_in_the_order_of_names() {
        let names: [&[u8]; 9] = [
            b"\x00",
            EXAMPLE,
            b"\x01a\x07example\x00",
            b"\x08yljkjljk\x01a\x07example\x00",
            b"\x01Z\x01a\x07example\x00",
            b"\x01\x01\x01z\x07example\x00",
            b"\x01\x00\x01z\x07example\x00",
            b"\x02\x00\x01\x01z\x07example\x00",
            b"\x01*\x01z\x07example\x00",
        ];
        for a in names {
            for b in names {
                assert_eq!(order(a).cmp(&order(b)), compare_names(a, b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn gaps_are_found_until_they_end_and_are_bounded() {
        let mut gaps = Gaps::default();
        let nsec = set(b"\x01b\x07example\x00", Rtype::NSEC);
        gaps.insert(&name_of(EXAMPLE), Some(set(EXAMPLE, Rtype::SOA)), vec![nsec], 1_000);
        let ttl_secs = |gaps: &mut Gaps, owner: &[u8], now_ms| {
            gaps.get(&Sought::Name(name_of(owner)), now_ms).map(|gap| match gap.by {
                By::Set(set) => set.ttl_secs,
                By::Hashing(_) => panic!("the zone does not hash its names"),
            })
        };
        let c = b"\x01c\x07example\x00";
        let mut at = |now_ms| ttl_secs(&mut gaps, c, now_ms);
        assert_eq!((at(1_000), at(6_000), at(11_000)), (Some(10), Some(5), None));
        assert_eq!(
            ttl_secs(&mut gaps, b"\x01a\x07example\x00", 1_000),
            None,
            "before the first that is known"
        );
        assert_eq!(ttl_secs(&mut gaps, b"\x04test\x00", 1_000), None);
        for number in 0..=MAX_ZONES as u16 {
            let zone = [&[5], format!("{number:05}").as_bytes(), &[0]].concat();
            gaps.insert(&name_of(&zone), None, vec![set(&zone, Rtype::NSEC)], 1_000);
        }
        assert_eq!((gaps.zones.len(), gaps.count), (MAX_ZONES, MAX_ZONES));
    }

    #[test]
    fn all_zones_together_are_bounded() {
        let mut gaps = Gaps::default();
        for zone in 0..=(MAX_ALL_GAPS / MAX_GAPS) as u8 {
            let apex = [&[3], format!("{zone:03}").as_bytes(), &[0]].concat();
            let owner =
                |number: usize| [b"\x04", format!("{number:04}").as_bytes(), &apex].concat();
            let sets = (0..MAX_GAPS).map(|number| set(&owner(number), Rtype::NSEC)).collect();
            gaps.insert(&name_of(&apex), None, sets, 0);
        }
        assert!(gaps.count <= MAX_ALL_GAPS && gaps.zones.len() == MAX_ALL_GAPS / MAX_GAPS);
    }

    #[test]
    fn zones_in_use_outlive_those_that_a_stranger_fills() {
        let mut gaps = Gaps::default();
        let sought = Sought::Name(name_of(b"\x01c\x07example\x00"));
        gaps.insert(&name_of(EXAMPLE), None, vec![set(EXAMPLE, Rtype::NSEC)], 0);
        for zone in 0..4 * (MAX_ALL_GAPS / MAX_GAPS) as u8 {
            assert!(gaps.get(&sought, 0).is_some_and(|gap| *gap.apex == *EXAMPLE), "after {zone}");
            let apex = [&[3], format!("{zone:03}").as_bytes(), &[0]].concat();
            let owner =
                |number: usize| [b"\x04", format!("{number:04}").as_bytes(), &apex].concat();
            let sets = (0..MAX_GAPS).map(|number| set(&owner(number), Rtype::NSEC)).collect();
            gaps.insert(&name_of(&apex), None, sets, 0);
        }
        assert!(gaps.count <= MAX_ALL_GAPS);
    }

    fn nsec3(label: &[u8; 32], data: &str) -> Rrset {
        let mut nsec3 = set(&[&[32], &label[..], EXAMPLE].concat(), Rtype::NSEC3);
        let mut octets = Vec::new();
        avocet_wire::rdata::parse(Rtype::NSEC3.0, data, &[0], &mut octets).unwrap();
        nsec3.records.push(&octets);
        nsec3
    }

    /// S20: after a zone changes its kind of proof or its hash parameters, only the later records
    /// count.
    #[test]
    fn a_zone_that_proves_in_another_way_is_known_by_that_alone() {
        const FIRST: &[u8; 32] = b"0p9mhaveqvm6t7vbl5lop2u3t2rp3tom";
        const NEXT: &str = "2t7b4g4vsa5smi47k61mv5bv1a22bojr";
        let (mut gaps, apex): (_, Name) = (Gaps::default(), name_of(EXAMPLE));
        let sought = Sought::Name(name_of(b"\x01c\x07example\x00"));
        let hashing = |gaps: &mut Gaps| match gaps.get(&sought, 0).map(|gap| gap.by) {
            Some(By::Hashing(hashing)) => Some((hashing.iterations, hashing.salt.to_vec())),
            _ => None,
        };
        gaps.insert(&apex, None, vec![set(EXAMPLE, Rtype::NSEC)], 0);
        assert_eq!(hashing(&mut gaps), None);
        gaps.insert(&apex, None, vec![nsec3(FIRST, &format!("1 0 0 - {NEXT} A"))], 0);
        assert_eq!(hashing(&mut gaps), Some((0, vec![])));
        let wrapped = gaps.get(&Sought::Hash(apex.clone(), [0; 20]), 0);
        assert!(matches!(wrapped, Some(Gap { by: By::Set(_), .. })), "the gap around the end");
        gaps.insert(&apex, None, vec![nsec3(FIRST, &format!("1 0 1 ab {NEXT} A"))], 0);
        assert_eq!((hashing(&mut gaps), gaps.count), (Some((1, vec![0xab])), 1));
        gaps.insert(&apex, None, vec![set(EXAMPLE, Rtype::NSEC)], 0);
        assert_eq!((hashing(&mut gaps), gaps.count), (None, 1));
    }
}
