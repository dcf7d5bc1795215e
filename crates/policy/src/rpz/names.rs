//! The names of a zone's triggers while it is read: rows of keyed hashes, collected in file order
//! and sorted once at the end.
//!
//! A wildcard covers a name only if the zone has no closer encloser of it (RFC 4592 §3.3.1), and
//! empty non-terminals also exist in the zone. Rows for empty non-terminals are created only
//! directly below the owner of a wildcard. Deeper empty non-terminals are below one of these. Those
//! without a wildcard above them have no effect.

use avocet_wire::hash::HashKey;

use super::trigger::Covers;
use crate::list::filter;
use crate::list::hash::Suffixes;

/// Number of recently recorded ancestors of triggers that are remembered. They fit into the
/// first-level cache.
const RECENT: usize = 1024;

/// The presence of a name in one zone: the zone, the kind of presence, and the effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stand(u32);

/// The way a name is present in a zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Presence {
    /// The name is an empty non-terminal.
    Between,
    /// The name has a trigger for itself.
    Name,
    /// The name has a wildcard directly below it.
    Wildcard,
}

impl Stand {
    const EFFECT_BITS: u32 = 24;
    const ZONE_BITS: u32 = 6;
    /// Maximum number of effects of a zone.
    pub(super) const MAX_EFFECTS: usize = 1 << Self::EFFECT_BITS;
    /// Maximum number of zones.
    pub(super) const MAX_ZONES: usize = 1 << Self::ZONE_BITS;

    pub(super) const fn of(presence: Presence, effect: u32) -> Self {
        let presence = presence as u32;
        Self(presence << Self::EFFECT_BITS | effect & (Self::MAX_EFFECTS as u32 - 1))
    }

    #[inline]
    pub(super) const fn zone(self) -> usize {
        (self.0 >> (Self::EFFECT_BITS + 2)) as usize
    }

    #[inline]
    pub(super) const fn effect(self) -> u32 {
        self.0 & (Self::MAX_EFFECTS as u32 - 1)
    }

    #[inline]
    pub(super) const fn presence(self) -> Presence {
        match self.0 >> Self::EFFECT_BITS & 3 {
            1 => Presence::Name,
            2 => Presence::Wildcard,
            _ => Presence::Between,
        }
    }

    const fn in_zone(self, zone: usize) -> Self {
        let own = self.0 & ((1 << (Self::EFFECT_BITS + 2)) - 1);
        Self(own | (zone as u32) << (Self::EFFECT_BITS + 2))
    }

    pub(super) const fn with_effect(self, effect: u32) -> Self {
        Self(self.0 & !(Self::MAX_EFFECTS as u32 - 1) | effect & (Self::MAX_EFFECTS as u32 - 1))
    }
}

/// One presence of a name in a zone. A row has sixteen octets, so a cache line holds four.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Row {
    /// The hash of the name or, for a trigger on addresses, the number of its network.
    pub(super) subject: u64,
    pub(super) stand: Stand,
    /// The line in the zone's file.
    pub(super) line: u32,
}

const _: () = assert!(size_of::<Row>() == 16);

impl Row {
    /// Returns the key for sorting by name, then zone, presence and line.
    pub(super) const fn order(&self) -> (u64, u32, u32) {
        (self.subject, self.stand.0 >> Stand::EFFECT_BITS, self.line)
    }

    /// Reports whether both rows belong to the same trigger.
    pub(super) fn shares_trigger(&self, other: &Self) -> bool {
        self.subject == other.subject && self.stand.presence() == other.stand.presence()
    }
}

/// An ancestor of a trigger, and its parent.
#[derive(Clone, Copy)]
struct Between {
    name: u64,
    above: u64,
}

/// The names collected so far.
pub(super) struct Gathering {
    key: HashKey,
    suffixes: Suffixes,
    rows: Vec<Row>,
    between: Vec<Between>,
    recent: Box<[u64; RECENT]>,
    depths: u128,
}

impl Gathering {
    pub(super) fn new(key: HashKey) -> Self {
        Self {
            key,
            suffixes: Suffixes::empty(),
            rows: Vec::new(),
            between: Vec::new(),
            recent: Box::new([0; RECENT]),
            depths: 0,
        }
    }

    /// Returns the number of rows.
    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a record of a trigger on a name, with its effect and line.
    pub(super) fn add(&mut self, (covers, name): (Covers, &[u8]), (effect, line): (u32, u32)) {
        self.suffixes.of(&self.key, name);
        let (labels, hashes) = (self.suffixes.labels(), self.suffixes.hashes());
        self.depths |= 1 << labels;
        for pair in hashes[..labels].windows(2).rev() {
            let [above, name] = *pair else { break };
            let seen = &mut self.recent[name as usize % RECENT];
            if *seen == name {
                break;
            }
            *seen = name;
            self.between.push(Between { name, above });
        }
        let presence = match covers {
            Covers::Name => Presence::Name,
            Covers::Below => Presence::Wildcard,
        };
        self.rows.push(Row {
            subject: self.suffixes.whole(),
            stand: Stand::of(presence, effect),
            line,
        });
    }

    /// Returns the sorted names. `merge` reduces the rows of each trigger to one.
    pub(super) fn finish(self, merge: impl FnOnce(&mut Vec<Row>)) -> ZoneNames {
        let Self { key, mut rows, between, mut depths, .. } = self;
        rows.sort_unstable_by_key(Row::order);
        merge(&mut rows);
        let wildcards = rows.iter().filter(|row| row.stand.presence() == Presence::Wildcard);
        let blockers = right_below(wildcards.map(|row| row.subject).collect(), between);
        if !blockers.is_empty() {
            // Empty non-terminals are one label deeper than the owner of a wildcard, and above
            // other names.
            let (least, most) = (depths.trailing_zeros(), depths.checked_ilog2().unwrap_or(0));
            depths = (least..=most).fold(0, |all, depth| all | 1 << depth);
            let stand = Stand::of(Presence::Between, 0);
            rows.extend(blockers.into_iter().map(|subject| Row { subject, stand, line: 0 }));
            rows.sort_by_key(Row::order);
        }
        rows.shrink_to_fit();
        ZoneNames { key, rows, depths }
    }
}

/// Returns the empty non-terminals directly below the owner of a wildcard. `owners` is sorted.
fn right_below(owners: Vec<u64>, between: Vec<Between>) -> Vec<u64> {
    let mut test = vec![0; filter::octets_for(owners.len())];
    owners.iter().for_each(|owner| filter::insert(&mut test, *owner));
    let is_owner =
        |name: u64| filter::may_contain(&test, name) && owners.binary_search(&name).is_ok();
    let mut names: Vec<u64> =
        between.into_iter().filter(|edge| is_owner(edge.above)).map(|edge| edge.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The names of one zone, sorted by hash.
pub(super) struct ZoneNames {
    pub(super) key: HashKey,
    pub(super) rows: Vec<Row>,
    /// The depths of names: bit N is set if a name has N labels.
    pub(super) depths: u128,
}

impl ZoneNames {
    /// Returns the rows, assigned to the zone with this index.
    pub(super) fn into_rows(self, zone: usize) -> impl Iterator<Item = Row> {
        self.rows.into_iter().map(move |row| Row { stand: row.stand.in_zone(zone), ..row })
    }
}
