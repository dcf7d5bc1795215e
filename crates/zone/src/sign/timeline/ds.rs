//! The steps of a key that depend on the parent's DS records, and the steps back if the parent
//! withdraws them.
//!
//! ```text
//! Submitted --DS seen--> Confirmed --TTL of DS, DS seen--> Active     Retired --DS seen--> removed
//!     ^----- DS gone, or the previous one is back ----------'            |
//!     ^----- new key ---------------------------------------'  Active <--'  previous key
//! ```
//!
//! The parent may go back to the previous DS record at any time. While the previous key exists, the
//! zone stays secure with either record, so each look-up of the parent counts until that key is
//! removed.

use super::{KeyFacts, KeyPhase, KeyPolicy, KeyRole, KeyStep, KeyTimeline, ParentDs, TimedKey};

/// The evidence that the parent has the DS record of a key.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DsWitness {
    /// There is no evidence.
    #[default]
    None,
    /// The operator says that the parent has the record, but no look-up has found it yet.
    Word,
    /// A look-up has found the record, and no record of a key that it replaces.
    Seen,
    /// A look-up has found the record, but a later one has found other records. The key waits
    /// again.
    Lost,
}

impl ParentDs<'_> {
    /// Reports whether the parent has the DS record of this key, and of no other key of the zone.
    /// The other keys can then be removed.
    fn is_only(&self, tag: u16) -> bool {
        self.tags.contains(&tag) && self.tags.iter().all(|other| *other == tag)
    }
}

impl KeyTimeline {
    /// Returns the key whose DS record must be the only one at the parent before the roll-over can
    /// go on; `None` if no key waits for this.
    #[must_use]
    pub fn ds_key(&self) -> Option<&TimedKey> {
        let mut entries = self.keys.iter().filter(|key| key.role.is_entry());
        let waits =
            |key: &&TimedKey| matches!(key.phase, KeyPhase::Submitted | KeyPhase::Confirmed);
        let in_use = |key: &&TimedKey| key.phase == KeyPhase::Active;
        entries.clone().find(waits).or_else(|| {
            let is_replaced = self.keys.iter().any(is_leaving);
            entries.find(in_use).filter(|_| is_replaced)
        })
    }

    /// Reports whether the parent must be looked up because a step is due. `looked_at_secs` is the
    /// time of the last look-up.
    #[must_use]
    pub fn needs_look(
        &self,
        policy: &KeyPolicy,
        max_ttl_secs: u32,
        now_secs: u64,
        looked_at_secs: u64,
    ) -> bool {
        self.keys.iter().filter(|key| self.awaits_look(key)).any(|key| {
            let wait = self.wait_secs(key, policy, max_ttl_secs);
            let due = wait.map(|wait| key.since_secs.saturating_add(wait.into()));
            due.is_some_and(|due| due <= now_secs && looked_at_secs < due)
        })
    }

    /// Reports whether the next step of a key needs a look-up of the parent.
    pub(super) fn awaits_look(&self, key: &TimedKey) -> bool {
        let is_dependent = is_leaving(key)
            || (key.role.is_entry()
                && matches!(key.phase, KeyPhase::Submitted | KeyPhase::Confirmed));
        is_dependent && self.ds_key().is_some_and(|of| of.witness != DsWitness::Word)
    }

    /// Reports whether the parent permits the next step of a key.
    pub(super) fn is_permitted(&self, key: &TimedKey, facts: &KeyFacts<'_>) -> bool {
        let is_only = |tag| facts.parent.is_some_and(|parent| parent.is_only(tag));
        !self.awaits_look(key) || self.ds_key().is_none_or(|of| is_only(of.tag))
    }

    /// Processes the DS records of the parent. If a key was confirmed by records that are no longer
    /// there, it waits again. Returns the steps back.
    pub(super) fn note_ds(&mut self, facts: &KeyFacts<'_>) -> Vec<KeyStep> {
        let Some(TimedKey { tag, phase, witness, .. }) = self.ds_key().copied() else {
            return Vec::new();
        };
        let is_lost = match facts.parent {
            _ if facts.word == Some(tag) => {
                self.witness(tag, DsWitness::Word);
                false
            }
            Some(parent) if parent.is_only(tag) => {
                self.witness(tag, DsWitness::Seen);
                false
            }
            // If no look-up has ever found the record, the look-ups may reach another parent, so
            // they do not count.
            Some(_) => phase != KeyPhase::Submitted && witness != DsWitness::Word,
            None => false,
        };
        if is_lost { self.recede(tag, facts.now_secs) } else { Vec::new() }
    }

    fn witness(&mut self, tag: u16, witness: DsWitness) {
        if let Some(key) = self.keys.iter_mut().find(|key| key.tag == tag) {
            key.witness = witness;
        }
    }

    /// Makes a key wait for its DS record again, and takes the keys that it replaced back into use.
    /// Returns the steps.
    fn recede(&mut self, tag: u16, now_secs: u64) -> Vec<KeyStep> {
        let Some(of) = self.keys.iter().find(|key| key.tag == tag).copied() else {
            return Vec::new();
        };
        let changes_algorithm = self.keys.iter().any(|key| key.phase == KeyPhase::Leaving);
        let mut steps = Vec::new();
        for key in &mut self.keys {
            let to = if key.tag == tag {
                (key.witness, key.ds_ttl_secs) = (DsWitness::Lost, 0);
                KeyPhase::Submitted
            } else if is_leaving(key) {
                KeyPhase::Active
            } else if changes_algorithm
                && (key.role, key.algorithm, key.phase)
                    == (KeyRole::Zsk, of.algorithm, KeyPhase::Active)
            {
                // In a change of algorithm, the ZSK is used only together with its KSK.
                KeyPhase::Published
            } else {
                continue;
            };
            steps.push(KeyStep { tag: key.tag, from: key.phase, to: Some(to) });
            (key.phase, key.since_secs) = (to, now_secs);
        }
        steps
    }
}

/// Reports whether a key was replaced, and can be removed only after the DS record of its successor
/// is confirmed.
fn is_leaving(key: &TimedKey) -> bool {
    match key.phase {
        KeyPhase::Retired => key.role.is_entry(),
        KeyPhase::Leaving => true,
        _ => false,
    }
}
