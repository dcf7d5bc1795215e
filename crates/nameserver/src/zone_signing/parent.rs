//! The parent of a signed zone: when to look up its DS records, and which effect they have on the
//! keys.
//!
//! The interval of the signing policy applies while a key waits for its DS record, or while another
//! key's DS record will cause a key to be removed. The DS records are also looked up just before a
//! key is removed. Otherwise they are looked up daily, because a DS record without a matching key
//! makes the zone bogus.

use avocet_dnssec::signing::{SigningKey, is_ds_of};
use avocet_zone::sign::timeline::{DsWitness, KeyPhase, KeyStep, ParentDs};

use super::key_files::Waits;
use super::{SigningError, ZoneSigner};

/// Seconds between two look-ups while no key depends on the parent. Up to an hour is added.
const CALM_SECS: u64 = 86_400;
/// Seconds from the start to the first such look-up. Up to an hour is added.
const FIRST_CALM_SECS: u64 = 300;
/// Maximum number of seconds that are added to the times above. The addition differs between zones,
/// so that they are not all looked up at the same time.
const SPREAD_SECS: u64 = 3_600;
/// Seconds for which the result of a look-up may be used. The records may change at any time.
const FRESH_SECS: u64 = 120;

/// The DS records that the parent had at a look-up.
#[derive(Clone, Debug)]
struct SeenDs {
    tags: Vec<u16>,
    ttl_secs: u32,
    at_secs: u64,
}

/// The reason why no key of the zone can be validated with the parent's DS records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DsFault {
    /// The parent had a DS record of the zone before, and has none now.
    Absent,
    /// No DS record matches a key of the zone.
    Foreign,
}

/// The knowledge of a signer about the parent.
#[derive(Default, Debug)]
pub(super) struct ParentView {
    /// The DS records that were looked up since the last check.
    seen: Option<SeenDs>,
    /// The tag of the key with the only DS record at the parent, according to the operator.
    pub(super) word: Option<u16>,
    /// The Unix second of the last look-up.
    looked_at_secs: u64,
    /// The Unix second of the next look-up, if no key depends on the parent.
    calm_at_secs: Option<u64>,
    fault: Option<DsFault>,
}

impl ParentView {
    /// Returns the DS records of the last look-up; `None` if it was too long ago.
    pub(super) fn fresh(&self, now_secs: u64) -> Option<ParentDs<'_>> {
        let seen = self.seen.as_ref()?;
        let is_fresh = now_secs.abs_diff(seen.at_secs) <= FRESH_SECS;
        is_fresh.then_some(ParentDs { tags: &seen.tags, ttl_secs: seen.ttl_secs })
    }

    /// Forgets the DS records of the last look-up and the key that the operator named, because the
    /// version of the zone that was just published already takes them into account.
    pub(super) fn clear(&mut self) {
        (self.seen, self.word) = (None, None);
    }
}

impl ZoneSigner {
    /// Returns whether the DS records of the parent must be looked up now.
    pub(crate) fn wants_parent(&mut self, now_secs: u64) -> bool {
        let Some(state) = &self.state else { return false };
        let (parent, policy) = (&mut self.parent, &self.policy);
        let spread = self.seed % SPREAD_SECS;
        let calm_at = *parent.calm_at_secs.get_or_insert(now_secs + FIRST_CALM_SECS + spread);
        let since = now_secs.checked_sub(parent.looked_at_secs);
        let is_due = if state.timeline.ds_key().is_some() {
            let timeline = &state.timeline;
            let looked_at_secs = parent.looked_at_secs;
            let Waits { policy: waits, max_ttl_secs } = state.waits(&policy.keys, now_secs);
            since.is_none_or(|secs| secs >= policy.parent_check_secs.into())
                || timeline.needs_look(&waits, max_ttl_secs, now_secs, looked_at_secs)
        } else {
            // A wait longer than any that is planned here means that the clock was set back.
            now_secs >= calm_at || calm_at - now_secs > CALM_SECS + SPREAD_SECS
        };
        if is_due {
            parent.looked_at_secs = now_secs;
            parent.calm_at_secs = Some(now_secs + CALM_SECS + spread);
        }
        is_due
    }

    /// Records the result of a look-up of the DS records at the parent.
    pub(crate) fn note_parent(&mut self, records: &[Vec<u8>], ttl_secs: u32, now_secs: u64) {
        let refers = |key: &SigningKey| {
            records.iter().any(|ds| is_ds_of(ds, self.apex.view(), key.dnskey()))
        };
        let tags: Vec<u16> =
            self.keys.iter().filter(|(_, key)| refers(key)).map(|(tag, _)| *tag).collect();
        let Some(state) = &mut self.state else { return };
        if !records.is_empty() {
            let delay = self.policy.keys.parent_propagation_secs;
            state.ds_ttl.note(ttl_secs, delay, now_secs);
        }
        self.parent.fault = None;
        let entries = state.timeline.keys.iter_mut().filter(|key| key.role.is_entry());
        if tags.is_empty() && !records.is_empty() {
            self.parent.fault = Some(DsFault::Foreign);
        } else if tags.is_empty() {
            let mut entries = entries;
            let was_seen = entries.any(|key| key.witness == DsWitness::Seen);
            self.parent.fault = was_seen.then_some(DsFault::Absent);
        } else if state.timeline.ds_key().is_none() {
            self.witness(&tags);
        }
        if self.depends_on_parent() {
            self.parent.seen = Some(SeenDs { tags, ttl_secs, at_secs: now_secs });
            self.due_secs = 0;
        }
    }

    /// Returns whether a key was replaced because of DS records that the parent may still change.
    pub(crate) fn follows_parent(&self) -> bool {
        let key = self.state.as_ref().and_then(|state| state.timeline.ds_key());
        key.is_some_and(|key| key.phase != KeyPhase::Submitted)
    }

    fn depends_on_parent(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.timeline.ds_key().is_some())
    }

    /// Records that the parent has the DS records of these keys in use.
    fn witness(&mut self, tags: &[u16]) {
        let Some(state) = &mut self.state else { return };
        let keys = state.timeline.keys.iter_mut().filter(|key| {
            key.phase == KeyPhase::Active
                && key.witness != DsWitness::Seen
                && tags.contains(&key.tag)
        });
        let mut is_changed = false;
        for key in keys {
            (key.witness, is_changed) = (DsWitness::Seen, true);
        }
        if is_changed && let Err(error) = self.files.save(state) {
            tracing::error!("zone {}: {error}", self.name());
        }
    }

    /// Records the operator's confirmation that the DS record of this key, and no other, is at the
    /// parent.
    ///
    /// # Errors
    /// No key waits for this record.
    pub(crate) fn confirm_parent(&mut self, tag: u16) -> Result<(), SigningError> {
        self.read_files()?;
        let awaited = self.state.as_ref().and_then(|state| state.timeline.ds_key());
        if awaited.is_none_or(|key| key.tag != tag) {
            return Err(SigningError::NotAwaited(tag));
        }
        self.parent.word = Some(tag);
        self.due_secs = 0;
        Ok(())
    }

    /// Returns a description of wrong DS records at the parent, and of the remedy.
    pub(crate) fn ds_fault(&self, now_secs: u64) -> Option<String> {
        let name = self.name();
        match self.parent.fault {
            Some(DsFault::Foreign) => Some(format!(
                "the DS records at the parent of zone {name} match no key of the zone, so that \
                 validators refuse it: give the parent the record of `avocet zone keys {name}`"
            )),
            Some(DsFault::Absent) => Some(format!(
                "the parent of zone {name} no longer has a DS record, so that nobody validates the \
                 zone: give the parent the record of `avocet zone keys {name}`"
            )),
            None => self.lost_ds().or_else(|| self.overdue_ds(now_secs)),
        }
    }

    /// Returns a description of the DS record that the parent had during a roll-over, but now lacks
    /// or has together with others.
    fn lost_ds(&self) -> Option<String> {
        let timeline = &self.state.as_ref()?.timeline;
        let key = timeline.awaited_ds().filter(|key| key.witness == DsWitness::Lost)?;
        Some(self.lost_text(key.tag))
    }

    fn lost_text(&self, tag: u16) -> String {
        let name = self.name();
        format!(
            "the parent of zone {name} had only the DS record of key {tag}, and has changed it \
             back; the roll-over waits again, with both keys: give the parent the DS record of key \
             {tag} and no other: see `avocet zone keys {name}`"
        )
    }

    /// Logs that keys wait again because the parent has changed its DS records.
    pub(super) fn warn_of_lost(&self, steps: &[KeyStep]) {
        for step in steps {
            let was_ahead = matches!(step.from, KeyPhase::Confirmed | KeyPhase::Active);
            if was_ahead && step.to == Some(KeyPhase::Submitted) {
                tracing::warn!("{}", self.lost_text(step.tag));
            }
        }
    }

    /// Returns a sentence about the DS record that the parent has lacked for too long, if there is
    /// one.
    pub(crate) fn overdue_ds(&self, now_secs: u64) -> Option<String> {
        let state = self.state.as_ref()?;
        let key = state.timeline.awaited_ds()?;
        let is_roll =
            state.timeline.keys.iter().any(|other| other.tag != key.tag && other.role.is_entry());
        let waited = now_secs.saturating_sub(key.since_secs);
        if !is_roll || waited < u64::from(self.policy.parent_patience_secs) {
            return None;
        }
        let (days, name) = (waited / 86_400, self.name());
        Some(format!(
            "the parent of zone {name} has lacked the DS record of key {} for {days} days; the \
             roll-over waits: see `avocet zone keys {name}`",
            key.tag
        ))
    }
}
