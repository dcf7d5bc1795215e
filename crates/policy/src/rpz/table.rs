//! The names of all zones in one table. For each zone separately, it finds the trigger of a name
//! or, if the zone does not have the name, of its closest encloser (RFC 4592 §3.3.1).
//!
//! ```text
//! filter   | one word per six names: most names that are in no zone end here
//! buckets  | 0 | 3 | 7 | 12 ...       the first row of each range of hashes, four rows on average
//! rows     | 03.. 0:x | 11.. 0:x | 11.. 2:*y | 4a.. 1:x ...
//!          |   sorted by hash: zone, presence, effect, line
//! ```
//! The structure is that of the list image, but each row contains its zone and line. A question
//! costs one pass over its octets and one word of the filter per label, for any number of zones. As
//! in the image, names themselves are not stored. With a million triggers, one question in 10^12
//! hits a wrong trigger because two hashes are equal. An attacker cannot construct such a name
//! without the key.

use avocet_wire::hash::{CHAIN_ROOM, HashKey};
use avocet_wire::name::MAX_NAME;
use avocet_wire::short;

use super::names::{Presence, Row, ZoneNames};
use super::zones::ZoneSet;
use crate::list::filter;
use crate::list::hash::MAX_LABELS;
use crate::list::layout::{bucket_of, buckets_for};

/// The names of all zones. Immutable.
#[derive(Default)]
pub(super) struct Table {
    key: HashKey,
    depths: u128,
    filter: Box<[u8]>,
    buckets: Box<[u32]>,
    rows: Box<[Row]>,
}

/// The index of the first row of each ancestor of a name in the table, plus one. The array is
/// indexed by the number of the label that the ancestor begins with. Zero means that the ancestor
/// is not in the table.
type Hits = [u32; MAX_LABELS + 1];

impl Table {
    /// Builds the table from the sorted names of the zones, which share one hash key.
    pub(super) fn of(zones: Vec<ZoneNames>) -> Self {
        let Some(key) = zones.first().map(|names| names.key) else { return Self::default() };
        let depths = zones.iter().fold(0, |depths, names| depths | names.depths);
        let mut rows = Vec::new();
        rows.reserve_exact(zones.iter().map(|names| names.rows.len()).sum());
        for (zone, names) in zones.into_iter().enumerate() {
            rows.extend(names.into_rows(zone));
        }
        // A stable sort exploits that the rows of each zone are already sorted.
        rows.sort_by_key(Row::order);
        let names = rows.chunk_by(|a, b| a.subject == b.subject).count();
        let mut filter = vec![0; filter::octets_for(names)];
        let count = buckets_for(rows.len());
        let mut buckets = Vec::with_capacity(count + 1);
        for (place, row) in (0..).zip(&rows) {
            filter::insert(&mut filter, row.subject);
            buckets.resize(buckets.len().max(bucket_of(row.subject, count) + 1), place);
        }
        buckets.resize(count + 1, rows.len() as u32);
        Self { key, depths, filter: filter.into(), buckets: buckets.into(), rows: rows.into() }
    }

    /// Returns the trigger that fires for a folded name, in the first zone in force with such a
    /// trigger. Also returns the owner of the trigger without the asterisk: the name itself or its
    /// closest encloser.
    #[inline]
    pub(super) fn find<'n>(&self, in_force: ZoneSet, name: &'n [u8]) -> Option<(Row, &'n [u8])> {
        if self.depths == 0 {
            return None;
        }
        // The look-up in lists computes the same hashes, but stores all of them in an array.
        // Clearing such an array would cost more than an unsuccessful look-up here.
        let name = &name[..name.len().min(MAX_NAME)];
        let mut starts = [0_u8; MAX_LABELS + 1];
        let (mut labels, mut end) = (0, 0);
        while let Some(&length @ 1..=63) = name.get(end) {
            let next = end + 1 + usize::from(length);
            if labels == MAX_LABELS || next > name.len() {
                break;
            }
            starts[labels] = end as u8;
            labels += 1;
            end = next;
        }
        starts[labels] = end as u8;
        let mut octets = [0; CHAIN_ROOM];
        short::copy(name, &mut octets[..name.len()]);
        let (mut hits, mut is_hit): (Hits, _) = ([0; MAX_LABELS + 1], false);
        let (mut hash, mut depths) = (self.key.chain_start(), self.depths);
        for (hit, start) in hits[..=labels].iter_mut().zip(&starts).rev() {
            let start = usize::from(*start);
            if start < end {
                hash = self.key.chain(hash, &octets, start, end - start);
                end = start;
            }
            if depths & 1 == 1 && filter::may_contain(&self.filter, hash) {
                *hit = self.first_row(hash);
                is_hit |= *hit > 0;
            }
            depths >>= 1;
        }
        if !is_hit {
            return None;
        }
        let (row, label) = self.decide(in_force, &hits[..=labels])?;
        Some((row, &name[usize::from(starts[label])..]))
    }

    /// Returns the index of the first row with this hash plus one, or zero.
    fn first_row(&self, hash: u64) -> u32 {
        let Some(count) = self.buckets.len().checked_sub(1) else { return 0 };
        let bucket = bucket_of(hash, count);
        let (first, end) = (self.buckets[bucket], self.buckets[bucket + 1]);
        let rows = &self.rows[first as usize..end as usize];
        (first + 1..).zip(rows).find(|(_, row)| row.subject == hash).map_or(0, |(place, _)| place)
    }

    /// Selects the first zone with a trigger for the name. In each zone, only the lowest existing
    /// name counts: the name itself or its closest encloser.
    fn decide(&self, in_force: ZoneSet, hits: &[u32]) -> Option<(Row, usize)> {
        let (mut said, mut best) = (ZoneSet::default(), None::<(Row, usize)>);
        for (label, hit) in hits.iter().enumerate() {
            let Some(first) = hit.checked_sub(1) else { continue };
            let wanted = if label == 0 { Presence::Name } else { Presence::Wildcard };
            let (rows, below) = (&self.rows[first as usize..], said);
            for row in rows.iter().take_while(|row| row.subject == rows[0].subject) {
                let zone = row.stand.zone();
                if !in_force.contains(zone) || below.contains(zone) {
                    continue;
                }
                said.insert(zone);
                if row.stand.presence() == wanted
                    && best.is_none_or(|(best, _)| zone < best.stand.zone())
                {
                    best = Some((*row, label));
                }
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use avocet_wire::name;
    use proptest::prelude::*;

    use super::super::names::Gathering;
    use super::super::trigger::Covers;
    use super::*;

    fn wire(labels: &[u8]) -> Vec<u8> {
        let octets = labels.iter().flat_map(|label| [1, b'a' + label]);
        octets.chain([0]).collect()
    }

    /// Computes the expected result from plain maps: the name itself if it or a descendant exists,
    /// otherwise the wildcard at the closest encloser.
    fn expected(rules: &BTreeMap<(bool, Vec<u8>), u32>, asked: &[u8]) -> Option<u32> {
        let is_there = |name: &[u8]| rules.keys().any(|(_, owner)| name::is_under(owner, name));
        if is_there(asked) {
            return rules.get(&(false, asked.to_vec())).copied();
        }
        let encloser = name::ancestors(asked).skip(1).find(|above| is_there(above));
        rules.get(&(true, encloser?.to_vec())).copied()
    }

    type Triggers = Vec<(bool, Vec<u8>)>;

    fn triggers() -> impl Strategy<Value = Vec<Triggers>> {
        let labels = prop::collection::vec(0_u8..3, 0..5);
        prop::collection::vec(prop::collection::vec((any::<bool>(), labels), 0..24), 1..4)
    }

    proptest! {
        #[test]
        fn names_are_found_as_in_plain_maps(
            zones in triggers(),
            asked in prop::collection::vec(prop::collection::vec(0_u8..3, 0..6), 24),
            secret in any::<[u8; 32]>(),
        ) {
            let (mut names, mut maps) = (Vec::new(), Vec::new());
            for triggers in &zones {
                let mut gathering = Gathering::new(HashKey::new(secret));
                let mut rules = BTreeMap::new();
                for (line, (is_wild, labels)) in (0..).zip(triggers) {
                    // A name without labels cannot be a trigger.
                    let is_wild = *is_wild || labels.is_empty();
                    let name = wire(labels);
                    let covers = if is_wild { Covers::Below } else { Covers::Name };
                    rules.entry((is_wild, name.clone())).or_insert(line);
                    gathering.add((covers, &name), (line, line));
                }
                names.push(gathering.finish(|rows| rows.dedup_by(|row, before| row.shares_trigger(before))));
                maps.push(rules);
            }
            let table = Table::of(names);
            let all = zones.iter().flatten().map(|(_, labels)| labels);
            for labels in asked.iter().chain(all) {
                let name = wire(labels);
                let found = table.find(ZoneSet::ALL, &name);
                let shown = found.map(|(row, _)| (row.stand.zone(), row.line));
                let first = maps.iter().enumerate().find_map(|(zone, rules)| Some((zone, expected(rules, &name)?)));
                prop_assert_eq!(shown, first);
                prop_assert!(found.is_none_or(|(row, owner)| name::is_under(&name, owner)
                    && row.stand.effect() == row.line
                    && (owner == name) == (row.stand.presence() == Presence::Name)));
            }
        }
    }

    #[test]
    fn names_between_are_kept_below_wildcards_alone() {
        let mut gathering = Gathering::new(HashKey::default());
        for (covers, name) in [
            (Covers::Name, &b"\x01a\x01b\x01c\x00"[..]),
            (Covers::Name, b"\x01x\x01y\x01z\x01w\x00"),
            (Covers::Below, b"\x01w\x00"),
        ] {
            gathering.add((covers, name), (0, 1));
        }
        let names = gathering.finish(|_| {});
        // The rows are for the three triggers and for `z.w`. The other names between (`c`, `b.c`,
        // `w` and `y.z.w`) have no rows.
        assert_eq!((names.rows.len(), names.depths), (4, 0b11110));
        let table = Table::of(vec![names]);
        assert!(table.find(ZoneSet::ALL, b"\x01q\x01w\x00").is_some());
        assert!(table.find(ZoneSet::ALL, b"\x01q\x01z\x01w\x00").is_none());
        assert!(table.find(ZoneSet::ALL, b"\x01q\x01y\x01z\x01w\x00").is_none());
        assert!(table.find(ZoneSet::ALL, b"\x01w\x00").is_none());
    }

    #[test]
    fn a_name_takes_less_than_nineteen_octets() {
        let mut gathering = Gathering::new(HashKey::default());
        for number in 0..7_000_u32 {
            let name = [&[4][..], &number.to_be_bytes(), &[0]].concat();
            gathering.add((Covers::Name, &name), (0, number));
        }
        let table = Table::of(vec![gathering.finish(|_| {})]);
        let octets = size_of_val(&*table.rows) + size_of_val(&*table.buckets) + table.filter.len();
        assert!(octets < 7_000 * 19, "{octets}");
        let (row, owner) = table.find(ZoneSet::ALL, b"\x04\x00\x00\x00\x07\x00").unwrap();
        assert_eq!((row.line, owner), (7, &b"\x04\x00\x00\x00\x07\x00"[..]));
    }
}
