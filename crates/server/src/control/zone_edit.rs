//! Changes of records for `avocet zone set` and `unset`, and the changes that a zone keeps.
//!
//! A change has the same steps as an UPDATE (RFC 2136): a complete new version, the journal, the
//! serial, signatures and their review, NOTIFY. If an UPDATE would ignore a record, the change is
//! refused.

use std::path::Path;

use avocet_config::catalog::CatalogRole;
use avocet_config::name::shown;
use avocet_config::zone::ZoneConfig;
use avocet_control::ControlError;
use avocet_control::zone_edit::{
    EditAction, MAX_HISTORY, MAX_SHOWN_RECORDS, RecordEdit, ZoneChanges, ZoneDifference, ZoneEdit,
    ZoneEdited, ZoneHistory, ZoneStep,
};
use avocet_control::zones::{MAX_EDITED_RECORDS, ZoneFault, ZoneRecord};
use avocet_nameserver::transfers::ServerEvent;
use avocet_nameserver::zone_files::ZoneChangeError;
use avocet_wire::{FoldedName, Rtype, rdata};
use avocet_zone::{
    HostedZone, OwnedRecord, RecordList, RrsetAction, RrsetEdit, ZoneChange, ZoneEdits,
    apply_rrset_edits, with_serial,
};

use super::zones::{find, record_type, shown_record, within};
use crate::running::Running;
use crate::running::updates::{changed, is_made_here};

/// Default number of changes on a page of the history.
const HISTORY_PAGE: u32 = 20;

/// Changes records of a zone, or checks the change.
pub(super) fn edit(running: &Running, request: &ZoneEdit) -> Result<ZoneEdited, ControlError> {
    let found = find(running, &request.name, request.view.as_deref())?;
    let snapshot = running.shared.snapshot();
    let config = snapshot.config.zones.iter().find(|zone| zone.is(&found.id));
    let config = config.ok_or_else(|| ZoneFault::UnknownZone(request.name.clone()))?;
    let of_file = |zone: &&ZoneConfig| zone.file == config.file && zone.id() != config.id();
    let sharer =
        snapshot.config.zones.iter().find(of_file).filter(|_| !config.file.as_os_str().is_empty());
    let edited = match sharer {
        Some(sharer) => {
            let reason = "its file is also that of zone";
            let way = "give each zone its own file";
            Err(ZoneFault::Edit(format!("{reason} {}: {way}", sharer.id())).into())
        }
        None => Attempt { running, config, request }.run(),
    };
    if !request.dry_run {
        let event = match &edited {
            Ok(ZoneEdited { difference: found, .. })
                if found.removed_count + found.added_count > 0 =>
            {
                ServerEvent::UpdateApplied
            }
            Ok(_) => ServerEvent::UpdateUnchanged,
            Err(ControlError::Zone(ZoneFault::OtherSerial { .. })) => ServerEvent::UpdateUnmet,
            Err(ControlError::Zone(ZoneFault::Disk(_) | ZoneFault::Unsound(_))) => {
                ServerEvent::UpdateFailed
            }
            Err(_) => ServerEvent::UpdateRefused,
        };
        running.shared.name_server.transfers.count(event);
    }
    edited
}

/// A request for a zone of the configuration.
struct Attempt<'a> {
    running: &'a Running,
    config: &'a ZoneConfig,
    request: &'a ZoneEdit,
}

/// Whether a new version was stored on disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsKept {
    Yes,
    No,
}

/// The version that results from edits.
struct EditedVersion {
    zone: HostedZone,
    outcome: EditOutcome,
}

/// The outcome that a reply reports.
#[derive(Default)]
struct EditOutcome {
    difference: ZoneDifference,
    /// The file that loses its comments, if there is one.
    rewrites: Option<String>,
}

impl Attempt<'_> {
    fn run(&self) -> Result<ZoneEdited, ControlError> {
        let name = self.config.id().to_string();
        if self.config.is_secondary() {
            return Err(ZoneFault::Secondary(name).into());
        }
        if self.config.catalog == CatalogRole::Producer {
            return Err(ZoneFault::Catalog(name).into());
        }
        if self.config.provided.is_some() {
            return Err(ZoneFault::Provided(name).into());
        }
        let apex = FoldedName::new(&self.config.name);
        let apex = apex.ok_or_else(|| ZoneFault::UnknownZone(name.clone()))?;
        let edits = read_all(apex, &self.request.edits)?;
        if self.request.dry_run {
            let zone = self.running.reloader.zones.source(&self.config.id());
            let zone = zone.ok_or_else(|| ZoneFault::NotLoaded(name.clone()))?;
            let edited = self.edited(&zone, &edits)?;
            let outcome = edited.map(|edited| edited.outcome).unwrap_or_default();
            return Ok(self.reply(outcome, IsKept::No));
        }
        let mut outcome = EditOutcome::default();
        let make = |zone: &HostedZone| -> Result<Option<HostedZone>, ZoneFault> {
            Ok(self.edited(zone, &edits)?.map(|edited| {
                outcome = edited.outcome;
                edited.zone
            }))
        };
        match self.running.reloader.change_zone(&self.config.id(), make) {
            Ok(Some(zone)) => {
                let ZoneDifference { removed_count: removed, added_count: added, .. } =
                    outcome.difference;
                let serial = zone.serial();
                tracing::info!(serial, removed, added, "zone {name} changed by a request");
                Ok(self.reply(outcome, IsKept::Yes))
            }
            Ok(None) => Ok(self.reply(outcome, IsKept::No)),
            Err(ZoneChangeError::Refused(fault)) => Err(fault.into()),
            Err(ZoneChangeError::NotLoaded) => Err(ZoneFault::NotLoaded(name).into()),
            Err(ZoneChangeError::Edited { kept }) => {
                let kept = kept.map(|path| path.display().to_string());
                Err(ZoneFault::FileEdited { name, kept }.into())
            }
            Err(fault @ (ZoneChangeError::Digest(_) | ZoneChangeError::Unsignable(_))) => {
                Err(ZoneFault::Edit(fault.to_string()).into())
            }
            Err(ZoneChangeError::Disk(error)) => {
                tracing::error!("zone {name}: a change cannot be kept on disk: {error}");
                Err(ZoneFault::Disk(error.to_string()).into())
            }
        }
    }

    /// Returns the version that results from the edits, or `None` if they change nothing.
    fn edited(
        &self,
        zone: &HostedZone,
        edits: &[RrsetEdit],
    ) -> Result<Option<EditedVersion>, ZoneFault> {
        let name = || self.config.id().to_string();
        let serials = self.running.reloader.zones.serials(&self.config.id());
        let found = serials.map_or(zone.serial(), |serials| serials.current);
        if let Some(expected) = self.request.serial.filter(|expected| *expected != found) {
            return Err(ZoneFault::OtherSerial { name: name(), expected, found });
        }
        if zone.is_signed() {
            return Err(ZoneFault::SignedElsewhere(name()));
        }
        let is_made_here = |edit: &&RrsetEdit| {
            edit.rtype.is_some_and(|rtype| is_made_here(self.config, edit.owner.view(), rtype))
        };
        if let Some(edit) = edits.iter().find(is_made_here) {
            let reason = "this server makes these records itself";
            return Err(ZoneFault::Edit(format!("{}: {reason}", edit.owner)));
        }
        let mut changes = ZoneEdits::of(zone);
        apply_rrset_edits(edits, &mut changes)
            .map_err(|fault| ZoneFault::Edit(fault.to_string()))?;
        let after = changed(self.config, changes);
        let after = after.map_err(|fault| ZoneFault::Unsound(fault.to_string()))?;
        Ok(after.map(|after| {
            let change = ZoneChange::difference(zone, &after, usize::MAX);
            let difference = change.as_ref().map(difference).unwrap_or_default();
            let zones = &self.running.reloader.zones;
            let rewrites = zones.losing_comments(&self.config.id(), &after);
            let rewrites = rewrites.as_deref().map(Path::display).map(|file| file.to_string());
            EditedVersion { zone: after, outcome: EditOutcome { difference, rewrites } }
        }))
    }

    fn reply(&self, outcome: EditOutcome, kept: IsKept) -> ZoneEdited {
        let serials = self.running.reloader.zones.serials(&self.config.id());
        let serial = serials.as_ref().map_or(0, |serials| serials.current);
        // If the edits change nothing, the version that has them may still be held back.
        let error = serials.filter(|_| !self.request.dry_run).and_then(|all| all.signing_fault);
        let published = kept == IsKept::Yes && error.is_none();
        let name = shown(&self.config.name);
        let EditOutcome { difference, rewrites } = outcome;
        ZoneEdited { name, serial, published, difference, rewrites, error }
    }
}

fn read_all(apex: FoldedName<'_>, edits: &[RecordEdit]) -> Result<Vec<RrsetEdit>, ControlError> {
    let records = edits.iter().map(|edit| edit.data.len().max(1));
    if records.sum::<usize>() > MAX_EDITED_RECORDS {
        return Err(ZoneFault::TooManyRecords.into());
    }
    edits.iter().map(|edit| read(apex, edit)).collect()
}

fn read(apex: FoldedName<'_>, edit: &RecordEdit) -> Result<RrsetEdit, ControlError> {
    let owner = within(apex, &edit.owner)?;
    let rtype = edit.rtype.as_deref().map(record_type).transpose()?;
    let parse = |text: &String| -> Result<Box<[u8]>, ControlError> {
        let Some(rtype) = rtype else {
            return Err(ZoneFault::Edit(format!("{owner}: expected a type")).into());
        };
        let mut data = Vec::new();
        let refused = |error| ZoneFault::Edit(format!("{owner} {rtype} {text}: {error}"));
        rdata::parse(rtype.0, text, apex.wire(), &mut data).map_err(refused)?;
        Ok(data.into())
    };
    let data = edit.data.iter().map(parse).collect::<Result<_, _>>()?;
    let action = match edit.action {
        EditAction::Replace => RrsetAction::Replace,
        EditAction::Add => RrsetAction::Add,
        EditAction::Remove => RrsetAction::Remove,
    };
    Ok(RrsetEdit { owner, rtype, action, ttl_secs: edit.ttl, data })
}

/// Returns the latest changes of a zone.
pub(super) fn history(
    running: &Running,
    request: &ZoneHistory,
) -> Result<ZoneChanges, ControlError> {
    let found = find(running, &request.name, request.view.as_deref())?;
    let limit = request.limit.unwrap_or(HISTORY_PAGE);
    if !(1..=MAX_HISTORY).contains(&limit) {
        let reason = format!("expected a limit of 1 to {MAX_HISTORY} changes");
        return Err(ZoneFault::Edit(reason).into());
    }
    let zone = running.reloader.zones.source(&found.id);
    let zone = zone.ok_or_else(|| ZoneFault::NotLoaded(found.id.to_string()))?;
    let step = |change: &ZoneChange| ZoneStep {
        from: change.from.serial,
        to: change.to.serial,
        difference: difference(change),
    };
    let changes = zone.changes();
    Ok(ZoneChanges {
        name: shown(&found.id.name),
        kept: changes.len() as u32,
        changes: changes.iter().rev().take(limit as usize).map(|change| step(change)).collect(),
    })
}

/// Returns the records of a change, without SOA records that differ in their serial alone.
fn difference(change: &ZoneChange) -> ZoneDifference {
    let soa = |list: &RecordList| {
        let first = list.iter().next()?;
        Some((first.record.ttl_secs, with_serial(first.record.rdata, 0)))
    };
    let is_serial_alone = soa(&change.removed) == soa(&change.added);
    let is_shown = |one: &OwnedRecord<'_>| !is_serial_alone || one.record.rtype != Rtype::SOA;
    let records = |list: &RecordList| -> Vec<ZoneRecord> {
        let shown = list.iter().filter(is_shown).take(MAX_SHOWN_RECORDS);
        shown.map(|one| shown_record(one.owner, &one.record)).collect()
    };
    let count = |list: &RecordList| list.len() - u32::from(is_serial_alone && !list.is_empty());
    ZoneDifference {
        removed: records(&change.removed),
        added: records(&change.added),
        removed_count: count(&change.removed),
        added_count: count(&change.added),
    }
}
