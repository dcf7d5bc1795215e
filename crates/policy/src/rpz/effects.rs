//! The effects of triggers, each stored once.
//!
//! While a zone is read, each record has its own effect, a *draft*. At the end, the drafts of each
//! trigger are merged into one effect, and unused effects are dropped.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use avocet_wire::master::MasterRecord;
use avocet_wire::{Rtype, short};

use super::action::{Action, LocalRecord};
use super::names::{Presence, Row, Stand};
use super::zone::ZoneReason;

/// Maximum number of records of local data of one trigger.
const MAX_RECORDS: usize = 48;

/// An action and the TTL of its answer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Effect {
    pub(super) action: Action,
    pub(super) ttl_secs: u32,
}

/// The effects of a zone that is being read, by index.
#[derive(Default)]
pub(super) struct Drafts {
    effects: Vec<Effect>,
    /// The index of each effect, by the hash of the effect. If two effects have the same hash, the
    /// second is not found again and may be stored twice.
    numbers: HashMap<u64, u32>,
    hasher: RandomState,
    /// The content of the last record with an effect that does not depend on its owner, and the
    /// index of the effect.
    last: Option<(Said, u32)>,
}

/// The content of a record, without the owner.
struct Said {
    rtype: Rtype,
    ttl_secs: u32,
    rdata: Vec<u8>,
}

impl Drafts {
    /// Returns the index of the record's effect if the record has the same content as the previous
    /// record, as most records of a zone do.
    pub(super) fn known(&self, record: &MasterRecord) -> Option<u32> {
        let (last, number) = self.last.as_ref()?;
        let is_same = record.rtype == last.rtype
            && record.ttl_secs == last.ttl_secs
            && short::same(&record.rdata, &last.rdata);
        is_same.then_some(*number)
    }

    /// Returns the index of the effect of a record, or `None` if there are too many effects.
    pub(super) fn number_of(&mut self, record: &MasterRecord, action: Action) -> Option<u32> {
        let is_for_all = match &action {
            Action::Data(_) => true,
            // The effect of an alias also depends on the owner: an alias to the owner itself has
            // another meaning.
            Action::Cname(_) => false,
            action => *action == Action::of_cname(&record.rdata),
        };
        let number = self.place(Effect { action, ttl_secs: record.ttl_secs })?;
        let MasterRecord { rtype, ttl_secs, ref rdata, .. } = *record;
        self.last = is_for_all.then(|| (Said { rtype, ttl_secs, rdata: rdata.clone() }, number));
        Some(number)
    }

    fn place(&mut self, effect: Effect) -> Option<u32> {
        let next = self.effects.len();
        if next >= Stand::MAX_EFFECTS {
            return None;
        }
        let hash = self.hasher.hash_one(&effect);
        let known = *self.numbers.entry(hash).or_insert(next as u32);
        if self.effects.get(known as usize) == Some(&effect) {
            return Some(known);
        }
        self.effects.push(effect);
        Some(next as u32)
    }

    /// Merges the rows of each trigger, which are adjacent and sorted by line, into the first row.
    /// Reports rejected records with their lines.
    pub(super) fn merge(&mut self, rows: &mut Vec<Row>, faults: &mut Vec<(u32, ZoneReason)>) {
        let (mut kept, mut at) = (0, 0);
        while at < rows.len() {
            let same = rows[at..].iter().take_while(|row| row.shares_trigger(&rows[at])).count();
            let mut first = rows[at];
            if same > 1 {
                first.stand = first.stand.with_effect(self.merged(&rows[at..at + same], faults));
            }
            rows[kept] = first;
            (kept, at) = (kept + 1, at + same);
        }
        rows.truncate(kept);
    }

    /// Returns the combined effect of all records of a trigger. Duplicates count once (RFC 2181
    /// §5).
    fn merged(&mut self, rows: &[Row], faults: &mut Vec<(u32, ZoneReason)>) -> u32 {
        let effect_of = |row: &Row| self.effects.get(row.stand.effect() as usize);
        let number = rows[0].stand.effect();
        let Some(mut all) = effect_of(&rows[0]).cloned() else { return number };
        for row in &rows[1..] {
            let Some(one) = effect_of(row) else { continue };
            if let Err(reason) = add(&mut all.action, &one.action) {
                faults.push((row.line, reason));
            }
        }
        let is_first = self.effects.get(number as usize) == Some(&all);
        if is_first { number } else { self.place(all).unwrap_or(number) }
    }

    /// Returns the effects that rows use, and changes the indices in the rows accordingly.
    pub(super) fn finish<'r>(self, rows: impl Iterator<Item = &'r mut Row>) -> Box<[Effect]> {
        let mut effects: Vec<Option<Effect>> = self.effects.into_iter().map(Some).collect();
        let (mut numbers, mut kept) = (vec![0; effects.len()], Vec::new());
        for row in rows.filter(|row| row.stand.presence() != Presence::Between) {
            let draft = row.stand.effect() as usize;
            if let Some(effect) = effects.get_mut(draft).and_then(Option::take) {
                numbers[draft] = kept.len() as u32;
                kept.push(effect);
            }
            row.stand = row.stand.with_effect(numbers.get(draft).copied().unwrap_or(0));
        }
        kept.into()
    }
}

/// Adds the action of a further record of the same trigger.
fn add(all: &mut Action, one: &Action) -> Result<(), ZoneReason> {
    let (all, one) = match (all, one) {
        (Action::Data(all), Action::Data(one)) => (all, one),
        (all, one) if *all == *one => return Ok(()),
        _ => return Err(ZoneReason::CnameAndOther),
    };
    let is_there = |all: &[LocalRecord], one: &LocalRecord| {
        all.iter().any(|known| known.rtype == one.rtype && known.rdata == one.rdata)
    };
    for record in one {
        if is_there(all, record) {
            continue;
        }
        if all.len() >= MAX_RECORDS {
            return Err(ZoneReason::Limit);
        }
        all.push(record.clone());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(rtype: Rtype, rdata: &[u8]) -> MasterRecord {
        MasterRecord { rtype, ttl_secs: 60, rdata: rdata.to_vec(), ..MasterRecord::empty() }
    }

    #[test]
    fn records_that_say_the_same_share_an_effect() {
        let mut drafts = Drafts::default();
        let (block, alias) = (record(Rtype::CNAME, b"\0"), record(Rtype::CNAME, b"\x01a\0"));
        assert_eq!(drafts.known(&block), None);
        assert_eq!(drafts.number_of(&block, Action::NxDomain), Some(0));
        assert_eq!(drafts.known(&block), Some(0));
        assert_eq!(drafts.known(&record(Rtype::A, b"\0")), None);
        assert_eq!(drafts.known(&MasterRecord { ttl_secs: 61, ..block.clone() }), None);
        // With another owner, the same alias could refer to the owner itself.
        assert_eq!(drafts.number_of(&alias, Action::of_cname(b"\x01a\0")), Some(1));
        assert_eq!(drafts.known(&alias), None);
        assert_eq!(drafts.number_of(&alias, Action::Passthru), Some(2));
        assert_eq!(drafts.known(&alias), None);
        assert_eq!(drafts.number_of(&block, Action::NxDomain), Some(0));
    }

    #[test]
    fn effects_without_a_trigger_are_dropped() {
        let mut drafts = Drafts::default();
        let data = |octet| record(Rtype::A, &[192, 0, 2, octet]);
        let local = |octet| {
            Action::Data(vec![LocalRecord {
                rtype: Rtype::A,
                ttl_secs: 60,
                rdata: data(octet).rdata.into(),
            }])
        };
        let mut row = |subject, octet, line| {
            let effect = drafts.number_of(&data(octet), local(octet)).unwrap();
            Row { subject, stand: Stand::of(Presence::Name, effect), line }
        };
        let mut rows = vec![
            row(1, 1, 1),
            row(1, 2, 2),
            row(1, 1, 3),
            row(2, 2, 4),
            row(3, 1, 5),
            row(3, 2, 6),
        ];
        let mut faults = Vec::new();
        drafts.merge(&mut rows, &mut faults);
        let effects = drafts.finish(rows.iter_mut());
        let shown: Vec<_> =
            rows.iter().map(|row| (row.subject, row.line, row.stand.effect())).collect();
        assert_eq!((shown, faults), (vec![(1, 1, 0), (2, 4, 1), (3, 5, 0)], vec![]));
        let counts: Vec<_> =
            effects.iter().map(|effect| effect.action.records(Rtype::A).count()).collect();
        assert_eq!(counts, [2, 1]);
    }
}
