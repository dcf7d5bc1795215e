//! The state of a zone's keys and signatures, for the operator.

use avocet_wire::{Rtype, rdata};
use avocet_zone::sign::timeline::{KeyPhase, KeyRole};

use super::ZoneSigner;

/// The name of each role.
const ROLES: [(KeyRole, &str); 3] =
    [(KeyRole::Csk, "csk"), (KeyRole::Ksk, "ksk"), (KeyRole::Zsk, "zsk")];
/// The name of each state.
const PHASES: [(KeyPhase, &str); 7] = [
    (KeyPhase::Prepared, "prepared"),
    (KeyPhase::Published, "published"),
    (KeyPhase::Submitted, "submitted"),
    (KeyPhase::Confirmed, "confirmed"),
    (KeyPhase::Active, "active"),
    (KeyPhase::Retired, "retired"),
    (KeyPhase::Leaving, "leaving"),
];

/// A report on the signing of a zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SigningReport {
    /// The name of the policy.
    pub policy: String,
    /// The keys of the zone, in the order in which they were made.
    pub keys: Vec<KeyReport>,
    /// The DS records that the parent should have.
    pub ds: Vec<String>,
    /// The time at which the first signature expires, in seconds since 1970.
    pub expires_at_secs: Option<u64>,
    /// The time by which the zone is signed again, or by which a key enters its next state, in
    /// seconds since 1970.
    pub next_at_secs: Option<u64>,
    /// Number of signatures that were made since the server started.
    pub made: u64,
    /// The tag of a key for which the parent lacks the DS record, if there is such a key.
    pub awaited_ds: Option<u16>,
    /// Whether the parent has lacked this DS record for longer than the policy permits.
    pub is_overdue: bool,
}

/// A key of a zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyReport {
    /// The tag of the key.
    pub tag: u16,
    /// The mnemonic of the key's algorithm.
    pub algorithm: &'static str,
    /// The role of the key: csk, ksk or zsk.
    pub role: &'static str,
    /// The state of the key.
    pub state: &'static str,
    /// The Unix second at which the key entered this state.
    pub since_secs: u64,
    /// The Unix second at which the key was made.
    pub created_secs: u64,
    /// The DNSKEY record data.
    pub dnskey: String,
    /// The DS record data; `None` for a ZSK.
    pub ds: Option<String>,
}

pub(super) fn role_name(role: KeyRole) -> &'static str {
    ROLES.iter().find(|(other, _)| *other == role).map_or("", |(_, name)| name)
}

/// Returns the role with this name.
#[must_use]
pub fn role_of(name: &str) -> Option<KeyRole> {
    ROLES.iter().find(|(_, other)| *other == name).map(|(role, _)| *role)
}

pub(super) fn phase_name(phase: KeyPhase) -> &'static str {
    PHASES.iter().find(|(other, _)| *other == phase).map_or("", |(_, name)| name)
}

pub(super) fn phase_of(name: &str) -> Option<KeyPhase> {
    PHASES.iter().find(|(_, other)| *other == name).map(|(phase, _)| *phase)
}

impl ZoneSigner {
    pub(crate) fn report(&self, now_secs: u64) -> SigningReport {
        let timeline = self.state.as_ref().map(|state| &state.timeline);
        let keys = timeline.map_or(&[][..], |timeline| &timeline.keys);
        let shown = |data: &[u8], rtype: Rtype| rdata::display(rtype.0, data).to_string();
        let key = |key: &avocet_zone::sign::timeline::TimedKey| KeyReport {
            tag: key.tag,
            algorithm: key.algorithm.mnemonic(),
            role: role_name(key.role),
            state: phase_name(key.phase),
            since_secs: key.since_secs,
            created_secs: key.created_secs,
            dnskey: self
                .keys
                .get(&key.tag)
                .map_or_else(String::new, |key| shown(key.dnskey(), Rtype::DNSKEY)),
            ds: self
                .keys
                .get(&key.tag)
                .filter(|_| key.role.is_entry())
                .map(|key| shown(&key.ds(self.apex.view()), Rtype::DS)),
        };
        let wanted = timeline.map_or_else(Vec::new, |timeline| timeline.key_use().parent);
        let ds = wanted.iter().filter_map(|tag| self.keys.get(tag));
        SigningReport {
            policy: self.policy.name.clone(),
            keys: keys.iter().map(key).collect(),
            ds: ds.map(|key| shown(&key.ds(self.apex.view()), Rtype::DS)).collect(),
            expires_at_secs: self.expires_at_secs,
            next_at_secs: Some(self.due_secs).filter(|at| *at != u64::MAX),
            made: self.made,
            awaited_ds: timeline.and_then(|timeline| timeline.awaited_ds()).map(|key| key.tag),
            is_overdue: self.overdue_ds(now_secs).is_some(),
        }
    }
}
