//! Proofs in hosted zones: TXT records at `_acme-challenge` (RFC 8555 §8.4).
//!
//! A record is added with the same steps as by an UPDATE: serial, journal, signatures, NOTIFY. The
//! first record of a name replaces records that an interrupted attempt left, such as after the
//! server was killed.

use avocet_acme::Proof;
use avocet_config::acme::{AcmeConfig, ProofZoneFault, proof_owner};
use avocet_config::name::{shown, typed_name};
use avocet_config::zone::ZoneConfig;
use avocet_nameserver::zone_files::ZoneChangeError;
use avocet_wire::{FoldedNameBuf, Rtype};
use avocet_zone::{HostedZone, RrsetAction, RrsetEdit, ZoneEdits, apply_rrset_edits};
use thiserror::Error;

use crate::running::Running;
use crate::running::updates::changed;

/// TTL of a record; only the authority queries it.
const TTL_SECS: u32 = 1;

/// The servers that the authority may query for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// Only this server, as far as it knows its own names.
    ThisServer,
    /// Other servers, which get NOTIFY.
    OtherServers,
}

/// An error: a record cannot be published.
#[derive(Debug, Error)]
pub(super) enum RecordFault {
    #[error("the authority wants a proof for {0}, which is not in `names`")]
    Unasked(String),
    #[error("{0}")]
    Zone(#[from] ProofZoneFault),
    #[error("the zone {0} has signatures of another server")]
    Signed(String),
    #[error("zone {0}: {1}")]
    Change(String, String),
}

/// The records that are published.
pub(super) struct ProofRecords<'r> {
    running: &'r Running,
    config: &'r AcmeConfig,
    shown: Vec<ShownRecord>,
}

struct ShownRecord {
    /// The name whose control the record proves.
    name: String,
    owner: FoldedNameBuf,
    data: Box<[u8]>,
}

impl<'r> ProofRecords<'r> {
    pub(super) fn of(running: &'r Running, config: &'r AcmeConfig) -> Self {
        Self { running, config, shown: Vec::new() }
    }

    /// Publishes the record of a proof, and returns the servers that the authority may query for
    /// it.
    pub(super) fn put(&mut self, proof: &Proof) -> Result<Audience, RecordFault> {
        let name = proof.name.trim_start_matches("*.");
        let is_wanted = |wanted: &String| wanted.strip_prefix("*.").unwrap_or(wanted) == name;
        let unasked = || RecordFault::Unasked(name.chars().take(80).collect());
        if !self.config.names.iter().any(is_wanted) {
            return Err(unasked());
        }
        let wire = typed_name(&proof_owner(name)).map_err(|_| unasked())?;
        let owner = FoldedNameBuf::from_wire(&wire).map_err(|_| unasked())?;
        let text = proof.record();
        let mut data = vec![text.len() as u8];
        data.extend_from_slice(text.as_bytes());
        let is_first = self.shown.iter().all(|one| one.name != name);
        let action = if is_first { RrsetAction::Replace } else { RrsetAction::Add };
        let one = ShownRecord { name: name.to_owned(), owner, data: data.into() };
        let audience = self.change(&one, action)?;
        self.shown.push(one);
        Ok(audience)
    }

    /// Removes the records.
    pub(super) fn clear(&mut self) {
        for one in std::mem::take(&mut self.shown) {
            if let Err(fault) = self.change(&one, RrsetAction::Remove) {
                tracing::warn!("the proof for {} stays in its zone: {fault}", one.name);
            }
        }
    }

    fn change(&self, one: &ShownRecord, action: RrsetAction) -> Result<Audience, RecordFault> {
        let snapshot = self.running.shared.snapshot();
        let config = AcmeConfig::proof_zone(&snapshot.config.zones, &one.name)?;
        let edit = RrsetEdit {
            owner: one.owner,
            rtype: Some(Rtype::TXT),
            action,
            ttl_secs: (action != RrsetAction::Remove).then_some(TTL_SECS),
            data: vec![one.data.clone()],
        };
        let make = |zone: &HostedZone| edited(config, zone, edit);
        match self.running.reloader.change_zone(&config.id(), make) {
            Ok(_) if config.notify.is_empty() => Ok(Audience::ThisServer),
            Ok(_) => Ok(Audience::OtherServers),
            Err(ZoneChangeError::Refused(fault)) => Err(fault),
            Err(error) => Err(RecordFault::Change(shown(&config.name), error.to_string())),
        }
    }
}

/// Returns the version of a zone with an edit, or `None` if the edit changes nothing.
fn edited(
    config: &ZoneConfig,
    zone: &HostedZone,
    edit: RrsetEdit,
) -> Result<Option<HostedZone>, RecordFault> {
    let name = || shown(&config.name);
    if zone.is_signed() {
        return Err(RecordFault::Signed(name()));
    }
    let mut changes = ZoneEdits::of(zone);
    apply_rrset_edits(&[edit], &mut changes)
        .map_err(|fault| RecordFault::Change(name(), fault.to_string()))?;
    changed(config, changes).map_err(|fault| RecordFault::Change(name(), fault.to_string()))
}
