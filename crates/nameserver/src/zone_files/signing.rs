//! The signing of zones. If a version cannot be signed, the previous version stays in force. The
//! unsigned version is kept with all its changes, and is signed later.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use avocet_config::zone::ZoneConfig;
use avocet_wire::{FoldedName, NameBuf};
use avocet_zone::sign::timeline::KeyRole;
use avocet_zone::{HostedZone, ZoneId, ZoneProblem};

use super::kept::KeptZone;
use super::{ZoneFiles, lock};
use crate::clock::wall_secs;
use crate::zone_signing::{SigningError, SigningReport, ZoneSigner};

/// Returns the reason why a version of a zone, or its answers, can never be signed as configured. A
/// transferred zone with RRsets that are too large is not refused. It is kept, but not published.
pub(super) fn fault_of_signing(config: &ZoneConfig, zone: &HostedZone) -> Option<ZoneProblem> {
    if config.signing.is_none() && zone.is_signed() {
        let alias = zone.first_alias()?;
        let owner = NameBuf::from_wire(alias.wire()).unwrap_or(NameBuf::ROOT);
        return Some(ZoneProblem::AliasOfSigned(owner));
    }
    let is_refused = config.signing.is_some() && !config.is_secondary();
    is_refused.then(|| zone.unsignable_set()).flatten()
}

/// The signers of all signed zones.
#[derive(Default)]
pub(super) struct KnownSigners(Mutex<BTreeMap<ZoneId, SharedSigner>>);

pub(super) type SharedSigner = Arc<Mutex<ZoneSigner>>;

impl KnownSigners {
    /// Returns the signer of a zone, if the zone is signed here.
    pub(super) fn of(&self, config: &ZoneConfig) -> Option<SharedSigner> {
        let signing = config.signing.as_ref()?;
        let apex = FoldedName::new(&config.name)?;
        let new = || Arc::new(Mutex::new(ZoneSigner::new(apex, signing)));
        Some(lock(&self.0).entry(config.id()).or_insert_with(new).clone())
    }

    /// Moves signers from one zone to another, with the directory of the keys that `directory`
    /// returns.
    pub(super) fn rename(
        &self,
        ids: &[(ZoneId, ZoneId)],
        directory: impl Fn(&ZoneId) -> Option<PathBuf>,
    ) {
        let mut signers = lock(&self.0);
        let moved: Vec<_> = ids.iter().map(|(from, to)| (to, signers.remove(from))).collect();
        for (to, signer) in moved {
            let (Some(signer), Some(directory)) = (signer, directory(to)) else { continue };
            lock(&signer).move_files(directory);
            signers.insert(to.clone(), signer);
        }
    }

    /// Drops the signers of the other zones. If such a zone is signed again, its keys are read from
    /// their files, which may have been replaced or deleted meanwhile.
    pub(super) fn retain(&self, is_signed: impl Fn(&ZoneId) -> bool) {
        lock(&self.0).retain(|id, _| is_signed(id));
    }
}

impl ZoneFiles {
    /// Signs the zones with signatures that end soon, or with a key that enters its next state.
    /// Returns whether a zone was replaced. `now_secs` is the time since 1970.
    pub fn sign_due(&self, now_secs: u64) -> bool {
        let configs: Vec<_> = {
            let kept = self.kept();
            let loaded = kept.values().filter(|zone| zone.source.is_some());
            loaded.map(|zone| zone.config.clone()).collect()
        };
        let mut is_replaced = false;
        for config in configs {
            let Some(signer) = self.signers.of(&config) else { continue };
            // If another thread is signing the zone, this check is not necessary.
            let Ok(mut signer) = signer.try_lock() else { continue };
            if let Err(error) = signer.note(now_secs) {
                tracing::error!("zone {}: {error}", config.id());
            }
            let is_due = signer.is_due(now_secs);
            drop(signer);
            if is_due {
                is_replaced |=
                    self.alter(&config.id(), |zone, _| self.sign_again(zone)) == Some(true);
            }
        }
        is_replaced
    }

    /// Signs a zone. Returns whether the version in force has changed.
    pub(super) fn sign_again(&self, zone: &mut KeptZone) -> bool {
        let before = zone.zone.clone();
        zone.reading = self.next_reading();
        zone.sign(&self.signers)
            && before.as_ref().map(Arc::as_ptr) != zone.zone.as_ref().map(Arc::as_ptr)
    }

    /// Returns the zones for which the DS records of the parent must be looked up now.
    pub fn awaiting_parents(&self, now_secs: u64) -> Vec<ZoneId> {
        let wants = |signer: &SharedSigner| {
            signer.try_lock().is_ok_and(|mut signer| signer.wants_parent(now_secs))
        };
        let mut ids: Vec<_> = {
            let signers = lock(&self.signers.0);
            signers.iter().filter(|(_, signer)| wants(signer)).map(|(id, _)| id.clone()).collect()
        };
        // A zone that is not in the configuration in force may have a signer.
        let kept = self.kept();
        ids.retain(|id| kept.contains_key(id));
        ids
    }

    /// Returns whether a key of the zone was replaced because of DS records that the parent may
    /// still change.
    pub fn follows_parent(&self, id: &ZoneId) -> bool {
        self.signer(id).is_some_and(|signer| lock(&signer).follows_parent())
    }

    /// Records the DS records that were found at the parent of a zone. `ttl_secs` is their TTL in
    /// seconds.
    pub fn note_parent(&self, id: &ZoneId, records: &[Vec<u8>], ttl_secs: u32) {
        if let Some(signer) = self.signer(id) {
            lock(&signer).note_parent(records, ttl_secs, wall_secs());
        }
    }

    /// Records the operator's confirmation that the DS record of this key, and no other, is at the
    /// parent.
    ///
    /// # Errors
    /// No key waits for this record.
    pub fn confirm_parent(&self, id: &ZoneId, tag: u16) -> Result<(), SigningError> {
        self.signer(id).map_or(Ok(()), |signer| lock(&signer).confirm_parent(tag))
    }

    /// Begins to replace a key of a zone.
    ///
    /// # Errors
    /// A key is being replaced, or the zone has no such key.
    pub fn roll_key(&self, id: &ZoneId, role: KeyRole) -> Result<(), SigningError> {
        self.signer(id).map_or(Ok(()), |signer| lock(&signer).roll(role))
    }

    /// Returns the state of the keys of a zone that is signed here.
    pub fn signing(&self, id: &ZoneId) -> Option<SigningReport> {
        Some(lock(&*self.signer(id)?).report(wall_secs()))
    }

    /// Returns the signer of a zone in the configuration in force.
    fn signer(&self, id: &ZoneId) -> Option<SharedSigner> {
        let config = self.kept().get(id)?.config.clone();
        self.signers.of(&config)
    }

    /// Returns one sentence for each zone with wrong DS records at its parent, or with a roll-over
    /// that has waited for the parent for too long; `None` if there are none.
    pub fn signing_fault(&self) -> Option<String> {
        let configs: Vec<_> = self.kept().values().map(|zone| zone.config.clone()).collect();
        let signers = configs.iter().filter_map(|config| self.signers.of(config));
        let fault = |signer: SharedSigner| {
            signer.try_lock().ok().and_then(|signer| signer.ds_fault(wall_secs()))
        };
        let faults: Vec<_> = signers.filter_map(fault).collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }
}
