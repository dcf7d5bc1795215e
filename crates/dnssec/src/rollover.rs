//! Follows the rollover of a trust anchor (RFC 5011).
//!
//! ```text
//!             seen                30 days, seen again             not seen
//!   (start) --------> AddPending ---------------------> Valid <-----------> Missing
//!      ^                  |                               |  seen again        |
//!      '---- not seen ----'                               '---- revoked -------'
//!                                                                 |
//!                                       (gone, after 30 days) <- Revoked
//! ```
//! The key of a configured anchor is valid at once. Valid and missing keys are trusted. The state
//! is stored as text, one line per key. If it is lost, tracking starts again from the configured
//! anchors.

use std::fmt;

use avocet_wire::{FoldedNameBuf, NameBuf, Rtype, rdata};

use crate::algorithm::Policy;
use crate::anchor::{Anchor, Anchors};
use crate::budget::Budget;
use crate::chain::{self, Signers};
use crate::key::Dnskey;
use crate::rrset::{Context, Rrset};
use crate::verdict::Reason;
use crate::{label, signature};

const HOUR: u32 = 3600;
const DAY: u32 = 24 * HOUR;
/// Seconds for which a key must be seen before it is trusted, and for which a revoked key is
/// remembered (RFC 5011 §2.4.1, §2.4.2).
pub const HOLD_DOWN_SECS: u64 = 30 * DAY as u64;
/// Maximum number of keys tracked for one zone. Further keys are ignored.
pub const MAX_FOLLOWED_KEYS: usize = 32;

/// The state of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyState {
    /// The key was seen, but not yet for long enough.
    AddPending,
    /// The key is trusted.
    Valid,
    /// The key is trusted, but is no longer in the zone.
    Missing,
    /// The key was permanently revoked by its owner.
    Revoked,
}

const STATES: [(KeyState, &str); 4] = [
    (KeyState::AddPending, "add-pending"),
    (KeyState::Valid, "valid"),
    (KeyState::Missing, "missing"),
    (KeyState::Revoked, "revoked"),
];

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(STATES[*self as usize].1)
    }
}

/// A tracked key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FollowedKey {
    /// DNSKEY data, with the REVOKE bit clear.
    dnskey: Vec<u8>,
    state: KeyState,
    /// The wall clock at which the key entered its state, in seconds since 1970.
    since_secs: u64,
}

impl FollowedKey {
    /// Returns the state of the key.
    #[must_use]
    pub fn state(&self) -> KeyState {
        self.state
    }

    /// Returns the wall clock at which the key entered its state, in seconds since 1970.
    #[must_use]
    pub fn since_secs(&self) -> u64 {
        self.since_secs
    }

    /// Returns the key tag, computed with the REVOKE bit clear.
    #[must_use]
    pub fn tag(&self) -> u16 {
        Dnskey::read(&self.dnskey).map_or(0, |key| key.tag())
    }

    fn is(&self, key: &Dnskey<'_>) -> bool {
        Dnskey::read(&self.dnskey).is_some_and(|own| own.is_same_key(key))
    }

    fn is_trusted(&self) -> bool {
        matches!(self.state, KeyState::Valid | KeyState::Missing)
    }
}

/// A change of a key's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The key tag, computed with the REVOKE bit clear.
    pub key_tag: u16,
    /// The previous state, `None` if the key was not tracked.
    pub from: Option<KeyState>,
    /// The new state, `None` if the key is no longer tracked.
    pub to: Option<KeyState>,
}

/// The result of observing the zone's keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observation {
    /// The changes. If there are any, the state must be written.
    pub changes: Vec<Change>,
    /// Seconds until the next query for the keys (RFC 5011 §2.3).
    pub query_after_secs: u32,
    /// Seconds until the query is repeated if it fails.
    pub retry_after_secs: u32,
}

/// An error in the stored state of a rollover, with the line number from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateError(pub usize);

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: not \"STATE SECONDS NAME IN DNSKEY ...\"", self.0)
    }
}

impl std::error::Error for StateError {}

/// The tracked keys of one zone with a trust anchor.
#[derive(Clone, Debug)]
pub struct Rollover {
    zone: FoldedNameBuf,
    configured: Vec<Anchor>,
    keys: Vec<FollowedKey>,
}

impl Rollover {
    /// Starts with the configured anchors of a zone. Anchors of other zones are ignored.
    #[must_use]
    pub fn begin(zone: &NameBuf, configured: &Anchors) -> Self {
        let of_zone = |anchor: &&Anchor| label::equal(anchor.zone().wire(), zone.wire());
        Self {
            zone: zone.folded(),
            configured: configured.iter().filter(of_zone).cloned().collect(),
            keys: Vec::new(),
        }
    }

    /// Restores the state from the text that [`Rollover`] displays.
    ///
    /// # Errors
    /// The first line that cannot be parsed. The state is then unchanged.
    pub fn resume(&mut self, text: &str) -> Result<(), StateError> {
        let mut keys = Vec::new();
        for (at, line) in
            text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with(';'))
        {
            if keys.len() >= MAX_FOLLOWED_KEYS {
                return Err(StateError(at + 1));
            }
            keys.push(self.read_line(line).ok_or(StateError(at + 1))?);
        }
        self.keys = keys;
        Ok(())
    }

    fn read_line(&self, line: &str) -> Option<FollowedKey> {
        let (state, rest) = line.split_once(' ')?;
        let (since, record) = rest.split_once(' ')?;
        let anchor = Anchor::parse(record).ok().filter(|anchor| anchor.zone() == &self.zone)?;
        Some(FollowedKey {
            dnskey: anchor.dnskey()?.to_vec(),
            state: STATES.iter().find(|(_, word)| *word == state)?.0,
            since_secs: since.parse().ok()?,
        })
    }

    /// Returns the zone.
    #[must_use]
    pub fn zone(&self) -> &FoldedNameBuf {
        &self.zone
    }

    /// Returns the tracked keys.
    #[must_use]
    pub fn keys(&self) -> &[FollowedKey] {
        &self.keys
    }

    /// Returns the keys that are trusted now: valid and missing keys, and configured anchors whose
    /// key was never seen. Returns none if every key was revoked.
    #[must_use]
    pub fn anchors(&self) -> Vec<Anchor> {
        let seen =
            |anchor: &&Anchor| !self.keys.iter().any(|key| is_anchor_of(anchor, &key.dnskey));
        let trusted = self.keys.iter().filter(|key| key.is_trusted());
        let trusted = trusted.filter_map(|key| Anchor::of_key(&self.zone, &key.dnskey).ok());
        trusted.chain(self.configured.iter().filter(seen).cloned()).collect()
    }

    /// Updates the states of the keys from a DNSKEY RRset of the zone.
    ///
    /// # Errors
    /// The reason why the RRset does not verify. Revocations in the RRset still take effect,
    /// because a key may always revoke itself (RFC 5011 §2.1).
    pub fn observe(
        &mut self,
        dnskeys: &Rrset<'_>,
        policy: Policy,
        now_secs: u64,
        budget: &mut Budget,
    ) -> Result<Observation, Reason> {
        let context = Context { now_secs: now_secs as u32, policy };
        let anchors = Anchors::of(self.anchors());
        let mut changes = self.revoke(dnskeys, &context, now_secs, budget);
        let point = anchors.point(self.zone.wire()).ok_or(Reason::NoAnchor)?;
        let keys = chain::zone_keys(dnskeys, &point.trust(), &context, budget)?;
        let before = std::mem::take(&mut self.keys);
        let present: Vec<Dnskey<'_>> =
            dnskeys.records.iter().filter_map(|data| Dnskey::read(data)).collect();
        for mut key in before {
            let is_seen = present.iter().any(|seen| key.is(seen) && !seen.is_revoked());
            let from = key.state;
            let to = if is_seen { Some(when_seen(&key, now_secs)) } else { when_missing(&key) };
            let to = to.filter(|_| !self.is_spent(&key, now_secs));
            if to != Some(from) {
                changes.push(Change { key_tag: key.tag(), from: Some(from), to });
                key.since_secs = now_secs;
            }
            if let Some(state) = to {
                self.keys.push(FollowedKey { state, ..key });
            }
        }
        for key in &present {
            changes.extend(self.follow(key, now_secs));
        }
        let lifetime_secs = keys.lifetime_secs(context.now_secs);
        Ok(Observation {
            changes,
            query_after_secs: (lifetime_secs / 2).clamp(HOUR, 15 * DAY),
            retry_after_secs: (lifetime_secs / 10).clamp(HOUR, DAY),
        })
    }

    /// Starts to track a new key.
    fn follow(&mut self, key: &Dnskey<'_>, now_secs: u64) -> Option<Change> {
        let wanted = key.is_zone_key() && key.is_secure_entry_point() && !key.is_revoked();
        if !wanted
            || self.keys.len() >= MAX_FOLLOWED_KEYS
            || self.keys.iter().any(|known| known.is(key))
        {
            return None;
        }
        let configured = self.configured.iter().any(|anchor| anchor.is_of(key));
        let state = if configured { KeyState::Valid } else { KeyState::AddPending };
        self.keys.push(FollowedKey { dnskey: key.rdata.to_vec(), state, since_secs: now_secs });
        Some(Change { key_tag: key.tag(), from: None, to: Some(state) })
    }

    /// Revokes the keys that signed the RRset with their REVOKE bit set.
    fn revoke(
        &mut self,
        dnskeys: &Rrset<'_>,
        context: &Context,
        now_secs: u64,
        budget: &mut Budget,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        let revoked =
            dnskeys.records.iter().filter_map(|data| Dnskey::read(data)).filter(Dnskey::is_revoked);
        for revoked in revoked {
            let known =
                self.keys.iter_mut().find(|key| key.state != KeyState::Revoked && key.is(&revoked));
            let Some(key) = known else { continue };
            let Some(own) = chain::ZoneKey::of_revoked(&revoked, context.policy) else { continue };
            let own = Signers { zone: self.zone.wire(), keys: &[own], memo: None };
            if signature::verify_with(dnskeys, &own, context, budget).is_ok() {
                changes.push(Change {
                    key_tag: key.tag(),
                    from: Some(key.state),
                    to: Some(KeyState::Revoked),
                });
                (key.state, key.since_secs) = (KeyState::Revoked, now_secs);
            }
        }
        changes
    }

    /// Reports whether a revoked key can be forgotten. As long as a configured anchor names the
    /// key, it must be remembered, because the anchor would make it trusted again.
    fn is_spent(&self, key: &FollowedKey, now_secs: u64) -> bool {
        key.state == KeyState::Revoked
            && now_secs.saturating_sub(key.since_secs) >= HOLD_DOWN_SECS
            && !self.configured.iter().any(|anchor| is_anchor_of(anchor, &key.dnskey))
    }
}

impl fmt::Display for Rollover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "; Keys of {} as of RFC 5011: state, since when in seconds of 1970, record.",
            self.zone
        )?;
        for key in &self.keys {
            let data = rdata::display(Rtype::DNSKEY.0, &key.dnskey);
            writeln!(f, "{} {} {} IN DNSKEY {data}", key.state, key.since_secs, self.zone)?;
        }
        Ok(())
    }
}

fn is_anchor_of(anchor: &Anchor, dnskey: &[u8]) -> bool {
    Dnskey::read(dnskey).is_some_and(|key| anchor.is_of(&key))
}

/// Returns the state after an RRset that contains the key (RFC 5011 §4.2).
fn when_seen(key: &FollowedKey, now_secs: u64) -> KeyState {
    let held_down = now_secs.saturating_sub(key.since_secs) >= HOLD_DOWN_SECS;
    match key.state {
        KeyState::AddPending if held_down => KeyState::Valid,
        KeyState::Missing => KeyState::Valid,
        state => state,
    }
}

/// Returns the state after an RRset without the key (RFC 5011 §4.2), `None` if the key is dropped.
fn when_missing(key: &FollowedKey) -> Option<KeyState> {
    match key.state {
        KeyState::AddPending => None,
        KeyState::Valid => Some(KeyState::Missing),
        state => Some(state),
    }
}
