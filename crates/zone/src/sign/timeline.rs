//! The life of the keys of a zone (RFC 6781, RFC 7583): which of them are published, which sign,
//! and when that changes. Pure: the time and the records of the parent come from the caller.
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

use avocet_dnssec::signing::SigningAlgorithm;

pub use ds::DsWitness;

/// Maximum number of keys of a zone: two for each role in a roll-over, of two algorithms, and some
/// to spare.
pub const MAX_ZONE_KEYS: usize = 16;

/// The role of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KeyRole {
    /// The key signs everything.
    Csk,
    /// The key signs the DNSKEY RRset.
    Ksk,
    /// The key signs everything except the DNSKEY RRset.
    Zsk,
}

impl KeyRole {
    /// Reports whether the parent has a DS record for a key in this state.
    #[must_use]
    pub const fn is_entry(self) -> bool {
        matches!(self, Self::Csk | Self::Ksk)
    }

    /// Reports whether a key in this state signs the records of the zone.
    #[must_use]
    pub const fn signs_zone(self) -> bool {
        matches!(self, Self::Csk | Self::Zsk)
    }
}

/// The state of a key: see the diagram of the module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum KeyPhase {
    /// The key signs the zone and is not published: the first step to another algorithm.
    Prepared,
    /// The key is in the DNSKEY RRset, which caches may not have yet.
    Published,
    /// All caches have the key; the parent is asked for its DS record.
    Submitted,
    /// The parent has the DS record of the key; caches may still have the previous DS record.
    Confirmed,
    /// The key is in use.
    Active,
    /// The key was replaced. It is still published, because caches have its signatures.
    Retired,
    /// The key is not published, but still signs, because caches have the key: the last step to
    /// another algorithm.
    Leaving,
}

/// A key and its state.
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
    /// The time at which the key entered its state, in seconds since 1970.
    pub since_secs: u64,
    /// The Unix second in which the key was made.
    pub created_secs: u64,
    /// The TTL of the parent's DS records when the record of the key was seen.
    pub ds_ttl_secs: u32,
    /// What is known about the parent's DS record of the key.
    pub witness: DsWitness,
}

/// The times that the steps wait for, in seconds, and the keys that the policy requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyPolicy {
    /// The algorithm of new keys.
    pub algorithm: SigningAlgorithm,
    /// Whether one key signs everything.
    pub scheme: KeyScheme,
    /// The age at which a KSK or CSK is replaced; zero for never.
    pub entry_lifetime_secs: u64,
    /// The age at which a ZSK is replaced; zero for never.
    pub zone_lifetime_secs: u64,
    /// The TTL of the DNSKEY RRset.
    pub dnskey_ttl_secs: u32,
    /// Seconds until all servers of the zone have a new version.
    pub propagation_secs: u32,
    /// The least TTL that the parent's DS records are assumed to have.
    pub parent_ds_ttl_secs: u32,
    /// Seconds until all servers of the parent have a new version.
    pub parent_propagation_secs: u32,
}

/// The keys of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyScheme {
    /// The zone has one key that signs everything.
    Csk,
    /// A KSK and a ZSK.
    Split,
}

impl KeyScheme {
    /// Returns the roles of the keys.
    #[must_use]
    pub const fn roles(self) -> &'static [KeyRole] {
        match self {
            Self::Csk => &[KeyRole::Csk],
            Self::Split => &[KeyRole::Ksk, KeyRole::Zsk],
        }
    }
}

/// The facts on which the examination of the keys depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyFacts<'f> {
    /// The time in seconds since 1970.
    pub now_secs: u64,
    /// The highest TTL of a record of the zone that a cache may have.
    pub max_ttl_secs: u32,
    /// The DS records of the parent, if they were looked up since the last examination.
    pub parent: Option<ParentDs<'f>>,
    /// The key that has the only DS record at the parent, as the operator says.
    pub word: Option<u16>,
}

/// The DS records of the parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ParentDs<'f> {
    /// The tags of the keys of the zone that they refer to.
    pub tags: &'f [u16],
    /// The TTL of the records in seconds.
    pub ttl_secs: u32,
}

/// A key that must be made, and its first state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WantedKey {
    /// The role of the key.
    pub role: KeyRole,
    /// The algorithm of the key.
    pub algorithm: SigningAlgorithm,
    /// The first state of the key.
    pub phase: KeyPhase,
}

/// A step of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyStep {
    /// The tag.
    pub tag: u16,
    /// The previous state.
    pub from: KeyPhase,
    /// The new state; `None` if the key was removed.
    pub to: Option<KeyPhase>,
}

/// The keys of a zone, in the order in which they were made.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct KeyTimeline {
    /// The keys.
    pub keys: Vec<TimedKey>,
}

/// The keys at one time, by their use.
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
    /// Returns the use of each key.
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

    /// Returns the keys that sign the zone, one of each algorithm. The key in use takes precedence
    /// over its successors, and these over the key that it replaced.
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

    /// Reports whether a key is being replaced.
    #[must_use]
    pub fn is_rolling(&self) -> bool {
        self.keys.iter().any(|key| key.phase != KeyPhase::Active)
    }

    /// Returns the key with a DS record that the parent should publish, and the start of the wait.
    #[must_use]
    pub fn awaited_ds(&self) -> Option<&TimedKey> {
        self.keys.iter().find(|key| key.phase == KeyPhase::Submitted)
    }

    /// Returns the keys that must be made now: the first keys, or successors of keys that are too
    /// old or have another algorithm than the policy. `forced` is a role with a key that is
    /// replaced regardless of its age.
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
        // Only one roll-over takes place at a time.
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

    /// Performs the steps of the keys that are due, and returns them.
    pub fn advance(&mut self, policy: &KeyPolicy, facts: &KeyFacts<'_>) -> Vec<KeyStep> {
        let mut steps = self.note_ds(facts);
        // Each key takes each step at most once.
        for _ in 0..MAX_ZONE_KEYS * 8 {
            let Some((at, to)) = self.next_step(policy, facts) else { break };
            let key = &mut self.keys[at];
            steps.push(KeyStep { tag: key.tag, from: key.phase, to });
            let Some(to) = to else {
                self.keys.remove(at);
                continue;
            };
            if to == KeyPhase::Confirmed {
                let seen = facts.parent.map_or(0, |parent| parent.ttl_secs);
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

    /// Retires the keys that a key replaces.
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

    /// Returns the first step that is due: the place of the key, and its next state.
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

    /// Reports whether all conditions except time are met for the next state of a key.
    fn may_step(&self, key: &TimedKey, facts: &KeyFacts<'_>) -> bool {
        match (key.phase, key.role) {
            // A ZSK of another algorithm follows its KSK, and goes with it.
            (KeyPhase::Published, KeyRole::Zsk) if self.is_of_other_algorithm(key) => {
                self.keys.iter().any(|other| {
                    other.role == KeyRole::Ksk
                        && other.algorithm == key.algorithm
                        && other.phase == KeyPhase::Active
                })
            }
            _ => self.is_permitted(key, facts),
        }
    }

    fn is_of_other_algorithm(&self, key: &TimedKey) -> bool {
        let is_other =
            |other: &TimedKey| other.role == key.role && other.algorithm != key.algorithm;
        self.keys.iter().any(|other| is_other(other) && other.phase == KeyPhase::Active)
    }

    /// Returns the seconds that a key must stay in its state; `None` if it stays.
    fn wait_secs(&self, key: &TimedKey, policy: &KeyPolicy, max_ttl_secs: u32) -> Option<u32> {
        let of_keys = policy.dnskey_ttl_secs.saturating_add(policy.propagation_secs);
        let of_data = max_ttl_secs.max(policy.dnskey_ttl_secs);
        let of_data = of_data.saturating_add(policy.propagation_secs);
        let is_first =
            !self.keys.iter().any(|other| other.role == key.role && other.tag != key.tag);
        match key.phase {
            // Before the parent makes the zone secure, caches have all records with signatures.
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

    /// Returns the next second in which a step is due, or a key must be replaced. A step that only
    /// waits for a look-up of the parent has no time.
    #[must_use]
    pub fn next_due_secs(
        &self,
        policy: &KeyPolicy,
        max_ttl_secs: u32,
        now_secs: u64,
    ) -> Option<u64> {
        let due = self.keys.iter().filter_map(|key| match key.phase {
            KeyPhase::Submitted => None,
            KeyPhase::Active => {
                let lifetime = match key.role {
                    KeyRole::Zsk => policy.zone_lifetime_secs,
                    KeyRole::Csk | KeyRole::Ksk => policy.entry_lifetime_secs,
                };
                (lifetime > 0).then(|| key.since_secs.saturating_add(lifetime))
            }
            _ => {
                let wait = self.wait_secs(key, policy, max_ttl_secs)?;
                let due = key.since_secs.saturating_add(wait.into());
                (due > now_secs || !self.awaits_look(key)).then_some(due)
            }
        });
        due.min()
    }
}

/// Returns the next state; `None` if the key is then removed.
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
