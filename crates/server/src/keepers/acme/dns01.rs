//! Proofs in zones: TXT records at `_acme-challenge` (RFC 8555 §8.4).
//!
//! In a hosted zone, a record is added with the same steps as by an UPDATE: serial, journal,
//! signatures, NOTIFY. The first record of a name replaces other records of the name. In a zone of
//! another server, other records stay: they may be proofs of other servers with the same name.
//!
//! A file lists the records from before they are published until they are removed. Records that an
//! interrupted attempt left, such as after the server was killed, are removed after the next start.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use avocet_acme::Proof;
use avocet_config::acme::{AcmeConfig, ProofZoneFault, UpdateServer, proof_owner};
use avocet_config::name::{shown, typed_name};
use avocet_config::zone::ZoneConfig;
use avocet_nameserver::zone_files::ZoneChangeError;
use avocet_wire::{DNS_PORT, FoldedNameBuf, Rtype};
use avocet_zone::{HostedZone, RrsetAction, RrsetEdit, ZoneEdits, apply_rrset_edits};
use thiserror::Error;

use super::spread::{self, MAX_SERVERS, ProofPause};
use super::store::{AcmeStore, StoredProof};
use super::update::{EXCHANGE_TIME, RecordChange, TextRecord, UpdateClient, UpdateFault};
use crate::running::Running;
use crate::running::updates::changed;
use crate::trace::own_questions;

/// TTL of a record; only the authority queries it.
const TTL_SECS: u32 = 1;

/// Time for other servers to transfer a hosted zone after NOTIFY, before the authority queries
/// them.
const TRANSFER_TIME: Duration = Duration::from_secs(5);

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
    #[error("{0}")]
    Update(#[from] UpdateFault),
    #[error("the server {0} of the zone {1} does not have the record in time")]
    Lagging(SocketAddr, String),
    #[error("cannot write {0}: {1}")]
    Disk(String, io::Error),
}

/// The records that are published.
pub(super) struct ProofRecords<'r> {
    running: &'r Running,
    config: &'r AcmeConfig,
    store: AcmeStore,
    shown: Vec<ShownRecord>,
    /// The records of earlier attempts that could not be removed so far.
    left: Vec<ShownRecord>,
}

struct ShownRecord {
    /// The domain name for which the record proves control.
    name: String,
    owner: FoldedNameBuf,
    data: Box<[u8]>,
    /// The zone, if it is a zone of another server.
    elsewhere: Option<FoldedNameBuf>,
}

impl ShownRecord {
    /// Makes the record that proves control of a name; `None` if the name or the text is invalid.
    fn of(name: &str, text: &str) -> Option<Self> {
        let owner = FoldedNameBuf::from_wire(&typed_name(&proof_owner(name)).ok()?).ok()?;
        let len = u8::try_from(text.len()).ok()?;
        let data = [&[len][..], text.as_bytes()].concat().into();
        Some(Self { name: name.to_owned(), owner, data, elsewhere: None })
    }

    fn read(stored: &StoredProof) -> Option<Self> {
        let record = Self::of(&stored.name, &stored.text)?;
        let Some(zone) = &stored.zone else { return Some(record) };
        let zone = FoldedNameBuf::from_wire(&typed_name(zone).ok()?).ok()?;
        Some(Self { elsewhere: Some(zone), ..record })
    }

    fn stored(&self) -> StoredProof {
        StoredProof {
            name: self.name.clone(),
            text: String::from_utf8_lossy(&self.data[1..]).into_owned(),
            zone: self.elsewhere.map(|zone| zone.to_string()),
        }
    }

    fn text(&self) -> TextRecord<'_> {
        TextRecord { owner: self.owner.view(), ttl_secs: TTL_SECS, data: &self.data }
    }
}

impl<'r> ProofRecords<'r> {
    pub(super) fn of(running: &'r Running, config: &'r AcmeConfig) -> Self {
        let store = AcmeStore::at(&config.storage);
        let left = store.proofs().iter().filter_map(ShownRecord::read).collect();
        Self { running, config, store, shown: Vec::new(), left }
    }

    /// Removes the records that earlier attempts left. Returns whether records remain, because they
    /// cannot be removed now.
    pub(super) fn clear_left(&mut self) -> bool {
        self.clear();
        !self.left.is_empty()
    }

    /// Publishes the record of a proof, and waits until the servers of its zone have it.
    pub(super) fn put(&mut self, proof: &Proof) -> Result<(), RecordFault> {
        let name = proof.name.trim_start_matches("*.");
        let is_wanted = |wanted: &String| wanted.strip_prefix("*.").unwrap_or(wanted) == name;
        let unasked = || RecordFault::Unasked(name.chars().take(80).collect());
        if !self.config.names.iter().any(is_wanted) {
            return Err(unasked());
        }
        let one = ShownRecord::of(name, &proof.record()).ok_or_else(unasked)?;
        let snapshot = self.running.shared.snapshot();
        let is_hosted = AcmeConfig::proof_zone(&snapshot.config.zones, &one.name).is_ok();
        // The proof may take minutes, and must not keep a replaced configuration in memory.
        drop(snapshot);
        match &self.config.update {
            Some(server) if !is_hosted => self.put_elsewhere(one, server),
            _ => self.put_hosted(one),
        }
    }

    fn put_hosted(&mut self, one: ShownRecord) -> Result<(), RecordFault> {
        let is_first = self.shown.iter().all(|other| other.name != one.name);
        let action = if is_first { RrsetAction::Replace } else { RrsetAction::Add };
        self.store_with(Some(&one))?;
        let has_secondaries = self.change(&one, action)?;
        self.shown.push(one);
        if has_secondaries {
            // If the attempt must end during this wait, its next request fails.
            let _ = super::wait(self.running, self.config, TRANSFER_TIME);
        }
        Ok(())
    }

    fn put_elsewhere(
        &mut self,
        mut one: ShownRecord,
        server: &UpdateServer,
    ) -> Result<(), RecordFault> {
        let is_closed = || self.running.acme.is_closing();
        let client = UpdateClient { to: server, time: EXCHANGE_TIME, is_closed: &is_closed };
        let zone = client.zone_of(one.owner.view())?;
        one.elsewhere = Some(zone);
        self.store_with(Some(&one))?;
        let changed = client.change(zone.view(), &one.text(), RecordChange::Add);
        let pause = &mut |time| super::wait(self.running, self.config, time);
        let result = match changed {
            Err(fault @ UpdateFault::Refused { .. }) => return Err(fault.into()),
            Err(fault) => Err(fault.into()),
            Ok(()) => self.spread(&client, &one, pause),
        };
        // If only the reply to the update is lost, the record exists and must be removed, too.
        self.shown.push(one);
        result
    }

    /// Waits until the updated server and the name servers of the zone answer with the record.
    fn spread(
        &self,
        client: &UpdateClient<'_>,
        one: &ShownRecord,
        pause: &mut ProofPause<'_>,
    ) -> Result<(), RecordFault> {
        client.confirm(&one.text(), pause)?;
        let Some(zone) = one.elsewhere else { return Ok(()) };
        let mut servers = Vec::new();
        let at_port = |ip| SocketAddr::new(ip, DNS_PORT);
        for name in client.name_servers(zone.view())? {
            match own_questions::addresses(&self.running.shared, &name.to_string()) {
                Ok(found) => servers.extend(found.into_iter().map(at_port)),
                Err(error) => tracing::debug!("the server {name} of the zone {zone}: {error}"),
            }
        }
        servers.retain(|server| *server != client.to.server);
        servers.truncate(MAX_SERVERS);
        let lagging = spread::lagging(&servers, &one.owner.into(), &one.data, pause);
        lagging.map_or(Ok(()), |server| Err(RecordFault::Lagging(server, zone.to_string())))
    }

    /// Stores which records may be published, with one that is about to be.
    fn store_with(&self, next: Option<&ShownRecord>) -> Result<(), RecordFault> {
        let records = self.left.iter().chain(&self.shown).chain(next);
        let stored: Vec<_> = records.map(ShownRecord::stored).collect();
        let path = || self.config.storage.display().to_string();
        self.store.put_proofs(&stored).map_err(|error| RecordFault::Disk(path(), error))
    }

    /// Removes the records.
    pub(super) fn clear(&mut self) {
        let left = std::mem::take(&mut self.left);
        let shown = std::mem::take(&mut self.shown);
        if left.is_empty() && shown.is_empty() {
            return;
        }
        for one in left {
            let name = one.name.clone();
            if self.remove_or_keep(one) {
                tracing::info!("removed the proof for {name}, which an interrupted attempt left");
            }
        }
        for one in shown {
            self.remove_or_keep(one);
        }
        if let Err(fault) = self.store_with(None) {
            tracing::warn!("{fault}");
        }
    }

    /// Removes a record, or keeps it for a later attempt. Returns whether it was removed.
    fn remove_or_keep(&mut self, one: ShownRecord) -> bool {
        let Err(fault) = self.remove(&one) else { return true };
        tracing::warn!("the proof for {} stays in its zone: {fault}", one.name);
        // A zone that is no longer hosted has no record.
        if !matches!(fault, RecordFault::Zone(_)) {
            self.left.push(one);
        }
        false
    }

    fn remove(&self, one: &ShownRecord) -> Result<(), RecordFault> {
        match (one.elsewhere, &self.config.update) {
            (Some(zone), Some(to)) => {
                let client = UpdateClient { to, time: EXCHANGE_TIME, is_closed: &|| false };
                Ok(client.change(zone.view(), &one.text(), RecordChange::Remove)?)
            }
            _ => self.change(one, RrsetAction::Remove).map(drop),
        }
    }

    /// Changes a record of a hosted zone. Returns whether other servers get NOTIFY.
    fn change(&self, one: &ShownRecord, action: RrsetAction) -> Result<bool, RecordFault> {
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
            Ok(_) => Ok(!config.notify.is_empty()),
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
