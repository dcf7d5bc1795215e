//! The life of the keys of a zone (RFC 6781, RFC 7583): which of them are published, which sign,
//! and when that changes. The code is free of I/O: the caller passes the time and the records of
//! the parent.
//!
//! ```text
//! zsk      Published --TTL--> Active --replaced--> Retired --TTL--> removed
//! ksk,csk  Published --TTL--> Submitted --DS seen--> Confirmed --TTL of DS--> Active --> Retired
//!
//! another algorithm:  Prepared --TTL--> Published ...           Active --replaced--> Leaving
//! ```
//!
//! A ZSK is published before it signs. A KSK signs the DNSKEY RRset together with the previous KSK
//! until the parent's DS record has changed everywhere; only then does a CSK sign the zone. With
//! another algorithm, signatures come before the key and go after it (RFC 6781 §4.1.4).
//!
//! No step happens before the TTL of the records that caches may hold has passed. If the parent
//! does not change its DS record, the keys stay as they are. If it goes back to the previous one,
//! the keys do as well.

mod ds;
mod held;

use avocet_dnssec::signing::SigningAlgorithm;

pub use ds::DsWitness;
pub use held::{HeldTtl, MAX_HELD_SECS};

/// Maximum number of keys of a zone: enough for two keys in each role, for two algorithms, with
/// some to spare.
pub const MAX_ZONE_KEYS: usize = 16;

/// The role of a key: the records that it signs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KeyRole {
    /// The key signs all records.
    Csk,
    /// The key signs the DNSKEY, CDS and CDNSKEY RRsets.
    Ksk,
    /// The key signs everything except the DNSKEY, CDS and CDNSKEY RRsets.
    Zsk,
}

impl KeyRole {
    /// Reports whether the parent has DS records for keys in this role.
    #[must_use]
    pub const fn is_entry(self) -> bool {
        matches!(self, Self::Csk | Self::Ksk)
    }

    /// Reports whether keys in this role sign the records of the zone other than the DNSKEY RRset.
    #[must_use]
    pub const fn signs_zone(self) -> bool {
        matches!(self, Self::Csk | Self::Zsk)
    }
}

/// The state of a key; see the diagram of the module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KeyPhase {
    /// The key signs the zone, but is not in the DNSKEY RRset. This is the first step of a change
    /// to another algorithm.
    Prepared,
    /// The key is in the DNSKEY RRset, but caches may still have that RRset without the key.
    Published,
    /// All caches have the key or will fetch it; the parent is asked to publish its DS record.
    Submitted,
    /// The parent has published the DS record of the key, but caches may still have the previous
    /// one.
    Confirmed,
    /// The key is fully in use.
    Active,
    /// The key was replaced. It is still in the DNSKEY RRset, because caches have signatures that
    /// it made.
    Retired,
    /// The key is not in the DNSKEY RRset, but still signs, because caches have the key. This is
    /// the last step of a change to another algorithm.
    Leaving,
}

/// A key and its place in the sequence of states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimedKey {
    /// The tag of the key, which no other key of the zone has.
    pub tag: u16,
    /// The algorithm of the key.
    pub algorithm: SigningAlgorithm,
    /// The role of the key.
    pub role: KeyRole,
    /// The state of the key.
    pub phase: KeyPhase,
    /// The Unix time in seconds at which the key entered its state.
    pub since_secs: u64,
    /// The Unix time in seconds at which the key was made.
    pub created_secs: u64,
    /// The TTL in seconds of the parent's DS records, as it was when the record of this key was
    /// seen.
    pub ds_ttl_secs: u32,
    /// What is known about the parent's DS record of the key.
    pub witness: DsWitness,
}

/// The settings for the keys of a zone: which keys it has, and how long the steps of a roll-over
/// wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPolicy {
    /// The algorithm of new keys.
    pub algorithm: SigningAlgorithm,
    /// Whether the zone has one key, or separate keys for the DNSKEY RRset and the rest.
    pub scheme: KeyScheme,
    /// The age in seconds at which a KSK or CSK is replaced; zero means never.
    pub entry_lifetime_secs: u64,
    /// The age in seconds at which a ZSK is replaced; zero means never.
    pub zone_lifetime_secs: u64,
    /// The TTL of the DNSKEY RRset in seconds.
    pub dnskey_ttl_secs: u32,
    /// Time in seconds until all servers of the zone have a new version.
    pub propagation_secs: u32,
    /// The lowest TTL in seconds that the parent's DS records are assumed to have.
    pub parent_ds_ttl_secs: u32,
    /// Time in seconds until all servers of the parent have a new version.
    pub parent_propagation_secs: u32,
}

/// The kinds of keys that a zone has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyScheme {
    /// The zone has a CSK, which signs all records.
    Csk,
    /// The zone has a KSK for the DNSKEY RRset, and a ZSK for the other records.
    Split,
}

impl KeyScheme {
    /// Returns the roles of the keys in this scheme.
    #[must_use]
    pub const fn roles(self) -> &'static [KeyRole] {
        match self {
            Self::Csk => &[KeyRole::Csk],
            Self::Split => &[KeyRole::Ksk, KeyRole::Zsk],
        }
    }
}

/// The facts that decide which steps of the keys are due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyFacts<'f> {
    /// The current Unix time in seconds.
    pub now_secs: u64,
    /// The highest TTL in seconds of any record of the zone that a cache may have.
    pub max_ttl_secs: u32,
    /// The DS records of the parent, if they were looked up since the previous call.
    pub parent: Option<ParentDs<'f>>,
    /// The tag of the key whose DS record, according to the operator, is the only one at the
    /// parent.
    pub word: Option<u16>,
}

/// The DS records that the parent has for a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParentDs<'f> {
    /// The tags of the keys of the zone to which the records refer.
    pub tags: &'f [u16],
    /// The TTL of the records in seconds.
    pub ttl_secs: u32,
}

/// A key that must be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WantedKey {
    /// The role of the key.
    pub role: KeyRole,
    /// The algorithm of the key.
    pub algorithm: SigningAlgorithm,
    /// The state in which the key starts.
    pub phase: KeyPhase,
}

/// A transition of a key from one state to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyStep {
    /// The tag of the key.
    pub tag: u16,
    /// The state before.
    pub from: KeyPhase,
    /// The state after; `None` if the key was removed.
    pub to: Option<KeyPhase>,
}

/// The states of all keys of a zone.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct KeyTimeline {
    /// The keys, in the order in which they were made.
    pub keys: Vec<TimedKey>,
}

/// The tags of the keys of a zone at one time, by their use.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct KeyUse {
    /// The keys in the DNSKEY RRset.
    pub published: Vec<u16>,
    /// The keys that sign the DNSKEY RRset.
    pub entry: Vec<u16>,
    /// The keys that sign the rest of the zone.
    pub zone: Vec<u16>,
    /// The keys in the CDS and CDNSKEY RRsets.
    pub parent: Vec<u16>,
}

impl KeyTimeline {
    /// Returns the tags of the keys by their use.
    #[must_use]
    pub fn key_use(&self) -> KeyUse {
        let tags = |is: &dyn Fn(&TimedKey) -> bool| {
            self.keys.iter().filter(|key| is(key)).map(|key| key.tag).collect::<Vec<_>>()
        };
        let is_published =
            |key: &TimedKey| !matches!(key.phase, KeyPhase::Prepared | KeyPhase::Leaving);
        let submitted = tags(&|key| {
            key.role.is_entry() && matches!(key.phase, KeyPhase::Submitted | KeyPhase::Confirmed)
        });
        let active = tags(&|key| key.role.is_entry() && key.phase == KeyPhase::Active);
        KeyUse {
            published: tags(&is_published),
            entry: tags(&|key| key.role.is_entry() && is_published(key)),
            zone: self.zone_signers(),
            parent: if submitted.is_empty() { active } else { submitted },
        }
    }

    /// Returns the tags of the keys that sign the zone, one for each algorithm. A key in use is
    /// preferred to its successor, and the successor to a key that was replaced.
    fn zone_signers(&self) -> Vec<u16> {
        let rank = |phase| match phase {
            KeyPhase::Active => 0,
            KeyPhase::Confirmed => 1,
            KeyPhase::Submitted => 2,
            KeyPhase::Published => 3,
            KeyPhase::Prepared => 4,
            KeyPhase::Retired => 5,
            KeyPhase::Leaving => 6,
        };
        let mut signers: Vec<&TimedKey> = Vec::new();
        for key in self.keys.iter().filter(|key| key.role.signs_zone()) {
            match signers.iter_mut().find(|other| other.algorithm == key.algorithm) {
                Some(other) if rank(key.phase) < rank(other.phase) => *other = key,
                Some(_) => {}
                None => signers.push(key),
            }
        }
        signers.into_iter().map(|key| key.tag).collect()
    }

    /// Reports whether any key is not in the state [`KeyPhase::Active`].
    #[must_use]
    pub fn is_rolling(&self) -> bool {
        self.keys.iter().any(|key| key.phase != KeyPhase::Active)
    }

    /// Returns the key whose DS record the parent should publish, if there is one.
    #[must_use]
    pub fn awaited_ds(&self) -> Option<&TimedKey> {
        self.keys.iter().find(|key| key.phase == KeyPhase::Submitted)
    }

    /// Returns the keys that must be made now: the first keys, or successors of keys that are too
    /// old or have another algorithm than the policy. The key of the role `forced` is replaced
    /// regardless of its age.
    #[must_use]
    pub fn wanted(
        &self,
        policy: &KeyPolicy,
        now_secs: u64,
        forced: Option<KeyRole>,
    ) -> Vec<WantedKey> {
        let algorithm = policy.algorithm;
        if self.keys.is_empty() {
            let first = |role: &KeyRole| WantedKey {
                role: *role,
                algorithm,
                phase: match role {
                    KeyRole::Zsk => KeyPhase::Active,
                    KeyRole::Csk | KeyRole::Ksk => KeyPhase::Published,
                },
            };
            return policy.scheme.roles().iter().map(first).collect();
        }
        // A roll-over begins only if no other is in progress.
        let is_settled = |key: &TimedKey| key.phase == KeyPhase::Active;
        let roles: Vec<KeyRole> = self.keys.iter().map(|key| key.role).collect();
        let all_settled = self.keys.iter().all(is_settled);
        if self.keys.iter().any(|key| key.algorithm != algorithm) {
            if !all_settled {
                return Vec::new();
            }
            let wanted = |role| WantedKey { role, algorithm, phase: KeyPhase::Prepared };
            return roles.into_iter().map(wanted).collect();
        }
        let is_due = |key: &TimedKey| {
            let lifetime = match key.role {
                KeyRole::Zsk => policy.zone_lifetime_secs,
                KeyRole::Csk | KeyRole::Ksk => policy.entry_lifetime_secs,
            };
            let is_old = lifetime > 0 && now_secs.saturating_sub(key.since_secs) >= lifetime;
            is_settled(key) && (is_old || forced == Some(key.role))
        };
        let is_alone = |role| self.keys.iter().filter(|key| key.role == role).count() == 1;
        let due = self.keys.iter().filter(|key| is_due(key) && is_alone(key.role));
        due.map(|key| WantedKey { role: key.role, algorithm, phase: KeyPhase::Published }).collect()
    }

    /// Performs all steps that are due. Returns them in order.
    pub fn advance(&mut self, policy: &KeyPolicy, facts: &KeyFacts<'_>) -> Vec<KeyStep> {
        let mut steps = self.note_ds(facts);
        // The limit is never reached: a key takes each step at most once.
        for _ in 0..MAX_ZONE_KEYS * 8 {
            let Some((at, to)) = self.next_step(policy, facts) else { break };
            let key = &mut self.keys[at];
            steps.push(KeyStep { tag: key.tag, from: key.phase, to });
            let Some(to) = to else {
                self.keys.remove(at);
                continue;
            };
            if to == KeyPhase::Confirmed {
                let seen = facts.parent.map_or(0, |parent| parent.ttl_secs.min(MAX_HELD_SECS));
                key.ds_ttl_secs = seen.max(policy.parent_ds_ttl_secs);
            }
            (key.phase, key.since_secs) = (to, facts.now_secs);
            let key = *key;
            if to == KeyPhase::Active {
                steps.extend(self.replace(&key, facts.now_secs));
            }
        }
        steps
    }

    /// Makes the KSK or CSK wait like the first key of a zone, because the zone was published
    /// without signatures meanwhile. Returns the steps. A replacement of the KSK or CSK, or of the
    /// algorithm, ends: only the key with the DS record that the parent had last stays. A roll-over
    /// of ZSKs goes on.
    pub fn begin_again(&mut self, now_secs: u64) -> Vec<KeyStep> {
        let mut steps = Vec::new();
        if let Some(kept) = self.last_at_parent().copied() {
            self.keys.retain(|key| {
                let stays = match key.role.is_entry() {
                    true => key.tag == kept.tag,
                    false => key.algorithm == kept.algorithm,
                };
                if !stays {
                    steps.push(KeyStep { tag: key.tag, from: key.phase, to: None });
                }
                stays
            });
        }
        for key in self.keys.iter_mut().filter(|key| key.role.is_entry()) {
            let to = KeyPhase::Published;
            steps.push(KeyStep { tag: key.tag, from: key.phase, to: Some(to) });
            (key.phase, key.since_secs) = (to, now_secs);
            (key.witness, key.ds_ttl_secs) = (DsWitness::None, 0);
        }
        steps
    }

    /// Returns the KSK or CSK with the DS record that the parent is known to have. In a roll-over,
    /// this is the old key until the parent has only the DS record of the new key.
    fn last_at_parent(&self) -> Option<&TimedKey> {
        let entry = |phase| {
            let mut keys = self.keys.iter();
            keys.find(|key| key.role.is_entry() && key.phase == phase)
        };
        let first = || self.keys.iter().find(|key| key.role.is_entry());
        entry(KeyPhase::Confirmed).or_else(|| entry(KeyPhase::Active)).or_else(first)
    }

    /// Moves the keys that `by` replaces to the next state.
    fn replace(&mut self, by: &TimedKey, now_secs: u64) -> Vec<KeyStep> {
        let mut steps = Vec::new();
        for key in &mut self.keys {
            let is_replaced =
                key.role == by.role && key.tag != by.tag && key.phase == KeyPhase::Active;
            if is_replaced {
                let is_same = key.algorithm == by.algorithm;
                let to = if is_same { KeyPhase::Retired } else { KeyPhase::Leaving };
                steps.push(KeyStep { tag: key.tag, from: key.phase, to: Some(to) });
                (key.phase, key.since_secs) = (to, now_secs);
            }
        }
        steps
    }

    /// Returns the first step that is due: the index of the key and its next state, or `None` if
    /// the key is removed.
    fn next_step(
        &self,
        policy: &KeyPolicy,
        facts: &KeyFacts<'_>,
    ) -> Option<(usize, Option<KeyPhase>)> {
        self.keys.iter().enumerate().find_map(|(at, key)| {
            let is_over = self.wait_secs(key, policy, facts.max_ttl_secs).is_some_and(|wait| {
                facts.now_secs.saturating_sub(key.since_secs) >= u64::from(wait)
            });
            if !is_over || !self.may_step(key, facts) {
                return None;
            }
            Some((at, next_phase(key)))
        })
    }

    /// Reports whether a key may go to its next state, apart from the time that it must wait.
    fn may_step(&self, key: &TimedKey, facts: &KeyFacts<'_>) -> bool {
        match (key.phase, key.role) {
            (KeyPhase::Published, KeyRole::Zsk) => !self.awaits_ksk(key),
            _ => self.is_permitted(key, facts),
        }
    }

    /// Reports whether a key is a ZSK of another algorithm than the ZSK in use. Such a key starts
    /// to be used at the same time as its KSK.
    fn awaits_ksk(&self, key: &TimedKey) -> bool {
        let is_active =
            |other: &TimedKey, role| other.role == role && other.phase == KeyPhase::Active;
        let is_of_other =
            |other: &TimedKey| is_active(other, KeyRole::Zsk) && other.algorithm != key.algorithm;
        let is_its_ksk =
            |other: &TimedKey| is_active(other, KeyRole::Ksk) && other.algorithm == key.algorithm;
        (key.role, key.phase) == (KeyRole::Zsk, KeyPhase::Published)
            && self.keys.iter().any(is_of_other)
            && !self.keys.iter().any(is_its_ksk)
    }

    /// Returns the time in seconds that a key must stay in its state; `None` if the state does not
    /// end with time.
    fn wait_secs(&self, key: &TimedKey, policy: &KeyPolicy, max_ttl_secs: u32) -> Option<u32> {
        let of_keys = policy.dnskey_ttl_secs.saturating_add(policy.propagation_secs);
        let of_data = max_ttl_secs.max(policy.dnskey_ttl_secs);
        let of_data = of_data.saturating_add(policy.propagation_secs);
        let is_first =
            !self.keys.iter().any(|other| other.role == key.role && other.tag != key.tag);
        match key.phase {
            // For the first key, all records without signatures must also have left the caches
            // before the parent makes the zone secure.
            KeyPhase::Published if is_first => Some(of_data),
            KeyPhase::Published => Some(of_keys),
            KeyPhase::Prepared | KeyPhase::Retired => Some(of_data),
            KeyPhase::Submitted => Some(0),
            KeyPhase::Confirmed => {
                Some(key.ds_ttl_secs.saturating_add(policy.parent_propagation_secs))
            }
            KeyPhase::Active => None,
            KeyPhase::Leaving => Some(of_keys),
        }
    }

    /// Returns the next Unix time in seconds at which a step is due or a key must be replaced.
    /// Steps that only wait for a look-up of the parent, or for the step of another key, are
    /// ignored.
    #[must_use]
    pub fn next_due_secs(
        &self,
        policy: &KeyPolicy,
        max_ttl_secs: u32,
        now_secs: u64,
    ) -> Option<u64> {
        // The policy may have got another algorithm during a roll-over that has just ended.
        if !self.keys.is_empty() && !self.wanted(policy, now_secs, None).is_empty() {
            return Some(now_secs);
        }
        let due = self.keys.iter().filter_map(|key| match key.phase {
            KeyPhase::Submitted => None,
            KeyPhase::Active => {
                let lifetime = match key.role {
                    KeyRole::Zsk => policy.zone_lifetime_secs,
                    KeyRole::Csk | KeyRole::Ksk => policy.entry_lifetime_secs,
                };
                // A key that is too old already is being replaced.
                let end = key.since_secs.saturating_add(lifetime);
                (lifetime > 0 && end > now_secs).then_some(end)
            }
            _ => {
                let wait = self.wait_secs(key, policy, max_ttl_secs)?;
                let due = key.since_secs.saturating_add(wait.into());
                let awaits_other = self.awaits_look(key) || self.awaits_ksk(key);
                (due > now_secs || !awaits_other).then_some(due)
            }
        });
        due.min()
    }
}

/// Returns the state after the present one; `None` if the key is then removed.
fn next_phase(key: &TimedKey) -> Option<KeyPhase> {
    match (key.phase, key.role) {
        (KeyPhase::Prepared, _) => Some(KeyPhase::Published),
        (KeyPhase::Published, KeyRole::Zsk) => Some(KeyPhase::Active),
        (KeyPhase::Published, _) => Some(KeyPhase::Submitted),
        (KeyPhase::Submitted, _) => Some(KeyPhase::Confirmed),
        (KeyPhase::Confirmed, _) => Some(KeyPhase::Active),
        (KeyPhase::Active, _) => Some(KeyPhase::Active),
        (KeyPhase::Retired | KeyPhase::Leaving, _) => None,
    }
}
