//! Hosted zones for `avocet zone`: their state, pages of their records, their text.

use std::sync::Arc;
use std::time::Duration;

use avocet_config::catalog::CatalogRole;
use avocet_config::name::{shown, typed_name};
use avocet_config::provided::ProviderKind;
use avocet_config::view_item::ViewItem;
use avocet_config::zone::ZoneConfig;
use avocet_control::zones::{
    CatalogPart, MAX_ZONE_PAGE, ZoneCatalog, ZoneExport, ZoneExported, ZoneFault,
    ZoneNotifications, ZoneNotify, ZonePage, ZoneRecord, ZoneRecords, ZoneReload, ZoneState,
    ZoneStatus, ZoneText, ZoneTransfers, ZonesReport, ZonesStatus,
};
use avocet_control::{ControlError, Parts};
use avocet_nameserver::zone_files::ZoneFileState;
use avocet_wire::{FoldedName, FoldedNameBuf, Rtype, rdata};
use avocet_zone::{HostedRecord, HostedSet, HostedZone, append_line};

use crate::running::catalogs::moves_of;
use crate::running::notifier::NotifyReport;
use crate::running::{self, Running};

/// Number of records of a page by default.
const PAGE: u32 = 100;
/// Number of octets of text that are sent together.
const TEXT: usize = 16 << 10;
/// Maximum time that a reload waits for another reload. Meanwhile, the request counts as one of the
/// concurrent requests of the control socket.
const RELOAD_PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of RRsets that are examined for a page, which takes some hundredths of a second.
const MAX_LOOKED: usize = 200_000;

/// Returns the state of all zones.
pub(super) fn status(running: &Running) -> Vec<ZoneStatus> {
    states(running, &running.reloader.zones.states())
}

fn states(running: &Running, of: &[ZoneFileState]) -> Vec<ZoneStatus> {
    let moves = moves_of(&running.shared.snapshot().config.zones);
    let shown = |of: &ZoneFileState| {
        let mut status = state(running, of);
        if let Some(catalog) = &mut status.catalog {
            catalog.moving = moves.get(&of.id.name).cloned();
        }
        status
    };
    of.iter().map(shown).collect()
}

fn state(running: &Running, of: &ZoneFileState) -> ZoneStatus {
    let snapshot = running.shared.snapshot();
    let config = snapshot.config.zones.iter().find(|zone| zone.is(&of.id));
    let provided = config.and_then(|zone| zone.provided.as_ref());
    let kind = provided.map_or(ProviderKind::File, |provided| provided.kind);
    let primaries = config.map_or(&[][..], |zone| &zone.primaries.servers);
    // A zone with views is not transferred from primaries.
    let copied = Some(&of.id.name).filter(|_| of.id.is_common());
    let copied = copied.and_then(|name| running.zone_watch.secondaries.state(name));
    let transfers = copied.map(|state| ZoneTransfers {
        checked_at: state.checked_at_secs,
        next_check: Some(state.next_at_secs).filter(|at| *at != u64::MAX),
        expires: of.expires_at_secs,
        transferred: state.transfers,
        failures: state.failures,
        error: state.fault,
    });
    let zone = of.zone.as_deref();
    ZoneStatus {
        name: shown(&of.id.name),
        view: config.map_or_else(Vec::new, |zone| items_of(&zone.view)),
        file: of.file.display().to_string(),
        state: match (zone, &of.fault) {
            (None, _) => ZoneState::Failed,
            (Some(_), Some(_)) => ZoneState::OutOfDate,
            (Some(_), None) => ZoneState::Served,
        },
        serial: zone.map(HostedZone::serial),
        records: zone.map_or(0, HostedZone::records),
        names: zone.map_or(0, HostedZone::names),
        octets: zone.map_or(0, HostedZone::memory_octets),
        signed: zone.is_some_and(HostedZone::is_signed),
        loaded_at: of.loaded_at_secs,
        failures: of.failures,
        error: of.fault.clone(),
        provider: kind.name().to_owned(),
        catalog: config.and_then(|zone| shown_catalog(running, zone)),
        primaries: primaries.iter().map(ToString::to_string).collect(),
        url: config.and_then(ZoneConfig::source_url).map(|source| source.url.clone()),
        transfers,
        notifications: config.and_then(|zone| notifications(running, zone)),
        changes_since: zone.and_then(|zone| zone.first_sent_serial()),
        notify: running.notifier.reports(&of.id).into_iter().map(shown_notify).collect(),
    }
}

/// Returns whether the database of a zone announces its changes.
#[cfg(feature = "postgres")]
fn notifications(running: &Running, zone: &ZoneConfig) -> Option<ZoneNotifications> {
    use crate::running::databases::ListenState;
    let state = running.zone_watch.databases.state_of(zone)?;
    let (listening, error) = (state == ListenState::Listening, state.fault());
    Some(ZoneNotifications { listening, error })
}

#[cfg(not(feature = "postgres"))]
fn notifications(_: &Running, _: &ZoneConfig) -> Option<ZoneNotifications> {
    None
}

fn items_of(view: &[ViewItem]) -> Vec<String> {
    view.iter().map(ToString::to_string).collect()
}

/// Returns the relation of a zone to catalogs, if it has one.
fn shown_catalog(running: &Running, zone: &ZoneConfig) -> Option<ZoneCatalog> {
    let catalogs = &running.reloader.catalogs;
    let role = |role| ZoneCatalog {
        role,
        name: None,
        groups: Vec::new(),
        members: None,
        error: None,
        refused: Vec::new(),
        moving: None,
    };
    match &zone.catalog {
        CatalogRole::Plain => None,
        CatalogRole::Producer => {
            let snapshot = running.shared.snapshot();
            let is_own = |other: &&ZoneConfig| match &other.catalog {
                CatalogRole::Listed { catalog, .. } => *catalog == zone.name,
                _ => false,
            };
            let members = snapshot.config.zones.iter().filter(is_own).count() as u64;
            Some(ZoneCatalog { members: Some(members), ..role(CatalogPart::Producer) })
        }
        CatalogRole::Consumer => {
            let (state, members) = catalogs.state(&zone.name);
            let (error, refused) = (state.fault, state.refused);
            let of = role(CatalogPart::Consumer);
            Some(ZoneCatalog { members: Some(members), error, refused, ..of })
        }
        CatalogRole::Listed { catalog, group } => Some(ZoneCatalog {
            name: Some(shown(catalog)),
            groups: Some(group.clone()).filter(|group| !group.is_empty()).into_iter().collect(),
            ..role(CatalogPart::Listed)
        }),
        CatalogRole::Member { catalog } => Some(ZoneCatalog {
            name: Some(shown(catalog)),
            groups: catalogs.membership(&zone.name).map_or_else(Vec::new, |member| member.groups),
            ..role(CatalogPart::Member)
        }),
    }
}

fn shown_notify(report: NotifyReport) -> ZoneNotify {
    let NotifyReport { server, serial, is_acknowledged, tries, fault } = report;
    let (server, acknowledged) = (server.to_string(), is_acknowledged);
    ZoneNotify { server, serial, acknowledged, tries, error: fault }
}

/// Returns the state of one zone, or of all.
pub(super) fn report(
    running: &Running,
    request: &ZonesStatus,
) -> Result<ZonesReport, ControlError> {
    let ZonesStatus { name, view } = request;
    let Some(name) = name else { return Ok(ZonesReport { zones: status(running) }) };
    Ok(ZonesReport { zones: states(running, &[find(running, name, view.as_deref())?]) })
}

/// Reads one zone, or all, and returns their state.
pub(super) fn reload(running: &Running, request: &ZoneReload) -> Result<ZonesReport, ControlError> {
    let ZoneReload { name, view } = request.clone();
    let found = name.as_deref().map(|name| find(running, name, view.as_deref())).transpose()?;
    // Each reload of a large zone holds another version of it in memory.
    let _turn = running.zone_watch.reloads.take(RELOAD_PATIENCE).ok_or(ZoneFault::Reading)?;
    running::zones::reload(running, found.as_ref().map(|found| &found.id));
    report(running, &ZonesStatus { name, view })
}

/// Returns a page of the records of a zone.
pub(super) fn page(running: &Running, request: &ZoneRecords) -> Result<ZonePage, ControlError> {
    let found = find(running, &request.name, request.view.as_deref())?;
    let zone = match request.unsigned {
        true => source(running, &found)?,
        false => loaded(&found)?,
    };
    let limit = request.limit.unwrap_or(PAGE);
    if !(1..=MAX_ZONE_PAGE).contains(&limit) {
        return Err(ZoneFault::InvalidLimit.into());
    }
    let filter = RecordFilter::of(&zone, request)?;
    let mut page = ZonePage {
        name: shown(zone.apex().wire()),
        serial: zone.serial(),
        records: Vec::new(),
        next: None,
    };
    if request.unsigned {
        let serials = running.reloader.zones.serials(&found.id);
        page.serial = serials.map_or(page.serial, |serials| serials.current);
    }
    let nodes = zone.iter_from(filter.first(&zone));
    let nodes = nodes.take_while(|node| filter.may_follow(node.name()));
    let sets = nodes.flat_map(|node| node.sets().map(move |set| (node.name(), set)));
    let mut last = None;
    for (looked, (name, set)) in sets.enumerate() {
        if page.records.len() >= limit as usize || looked >= MAX_LOOKED {
            page.next = last.map(|(name, rtype)| format!("{name} {rtype}"));
            break;
        }
        last = Some((name, set.rtype));
        if filter.admits(name, set.rtype) {
            page.records.extend(all_of(&set).map(|record| shown_record(name, &record)));
        }
    }
    Ok(page)
}

/// The filter for the records of a page.
struct RecordFilter {
    owner: Option<FoldedNameBuf>,
    after: Option<RrsetCursor>,
    rtype: Option<Rtype>,
    contains: Option<String>,
}

impl RecordFilter {
    fn of(zone: &HostedZone, request: &ZoneRecords) -> Result<Self, ControlError> {
        let owner = request.owner.as_deref().map(|owner| within(zone.apex(), owner)).transpose()?;
        if let Some(owner) = owner.as_ref().filter(|owner| zone.sets_of(owner.view()).is_none()) {
            return Err(ZoneFault::UnknownOwner(owner.to_string()).into());
        }
        Ok(Self {
            owner,
            after: request.after.as_deref().map(RrsetCursor::read).transpose()?,
            rtype: request.rtype.as_deref().map(record_type).transpose()?,
            contains: request.contains.as_ref().map(|text| text.to_ascii_lowercase()),
        })
    }

    /// Returns the name at which the page begins.
    fn first<'a>(&'a self, zone: &'a HostedZone) -> FoldedName<'a> {
        let first = self.owner.as_ref().or(self.after.as_ref().map(|after| &after.owner));
        first.map_or(zone.apex(), FoldedNameBuf::view)
    }

    fn may_follow(&self, name: FoldedName<'_>) -> bool {
        self.owner.as_ref().is_none_or(|owner| owner.view() == name)
    }

    fn admits(&self, name: FoldedName<'_>, rtype: Rtype) -> bool {
        let after = self.after.as_ref();
        let is_behind = after.is_none_or(|it| it.owner.view() != name || rtype > it.rtype);
        is_behind
            && self.rtype.is_none_or(|wanted| wanted == rtype)
            && self.contains.as_ref().is_none_or(|text| shown(name.wire()).contains(text))
    }
}

/// Reports a zone as a master file: first the SOA record, then all others in canonical order.
pub(super) fn export(
    running: &Running,
    request: &ZoneExport,
    texts: Parts<'_, ZoneText>,
) -> Result<ZoneExported, ControlError> {
    let found = find(running, &request.name, request.view.as_deref())?;
    let zone = loaded(&found)?;
    let mut text = String::new();
    for (owner, record) in zone.in_order() {
        append_line(&mut text, owner, &record);
        if text.len() >= TEXT {
            texts(ZoneText { text: text.trim_end_matches('\n').to_owned() })?;
            text.clear();
        }
    }
    if !text.is_empty() {
        texts(ZoneText { text: text.trim_end_matches('\n').to_owned() })?;
    }
    Ok(ZoneExported { serial: zone.serial(), records: zone.records() })
}

/// The last RRset of a page.
struct RrsetCursor {
    owner: FoldedNameBuf,
    rtype: Rtype,
}

impl RrsetCursor {
    fn read(text: &str) -> Result<Self, ControlError> {
        let invalid = || ZoneFault::InvalidCursor(text.to_owned());
        let (owner, rtype) = text.rsplit_once(' ').ok_or_else(invalid)?;
        let rtype = rdata::from_mnemonic(rtype).map(Rtype).ok_or_else(invalid)?;
        Ok(Self { owner: folded(owner).map_err(|_| invalid())?, rtype })
    }
}

fn folded(name: &str) -> Result<FoldedNameBuf, ControlError> {
    let wire = typed_name(name).map_err(|error| ControlError::InvalidName(error.to_string()))?;
    FoldedNameBuf::from_wire(&wire).map_err(|error| ControlError::InvalidName(error.to_string()))
}

/// Returns the zone with this name that all clients see, or the one whose `view` contains the given
/// item.
pub(super) fn find(
    running: &Running,
    name: &str,
    view: Option<&str>,
) -> Result<ZoneFileState, ControlError> {
    let wire = folded(name)?;
    let unknown = || ZoneFault::UnknownZone(name.to_owned());
    let snapshot = running.shared.snapshot();
    let named = || {
        let zones = snapshot.config.zones.iter();
        zones.filter(|zone| *zone.name == *wire.view().wire())
    };
    let item = view.map(ViewItem::of_text);
    let is_meant = |zone: &&ZoneConfig| match &item {
        None => zone.is_common(),
        Some(item) => item.as_ref().is_some_and(|item| zone.view.contains(item)),
    };
    let Some(config) = named().find(is_meant) else {
        let views: Vec<_> = named().flat_map(|zone| items_of(&zone.view)).collect();
        let name = shown(wire.view().wire());
        let is_elsewhere = named().next().is_some();
        let fault = if is_elsewhere { ZoneFault::OtherView { name, views } } else { unknown() };
        return Err(fault.into());
    };
    let mut states = running.reloader.zones.states().into_iter();
    let found = states.find(|state| state.id == config.id());
    found.ok_or_else(|| unknown().into())
}

/// Returns the version of a zone that is in force.
fn loaded(found: &ZoneFileState) -> Result<Arc<HostedZone>, ControlError> {
    found.zone.clone().ok_or_else(|| ZoneFault::NotLoaded(found.id.to_string()).into())
}

/// Returns the version of a zone without the records that this server adds by signing. If a version
/// is held back, returns that version.
fn source(running: &Running, found: &ZoneFileState) -> Result<Arc<HostedZone>, ControlError> {
    let source = running.reloader.zones.source(&found.id);
    source.ok_or_else(|| ZoneFault::NotLoaded(found.id.to_string()).into())
}

/// Parses a name in a zone, which may be relative to the zone.
pub(super) fn within(apex: FoldedName<'_>, text: &str) -> Result<FoldedNameBuf, ControlError> {
    if text == "@" {
        return Ok(apex.to_buf());
    }
    let name = folded(text)?;
    if text.ends_with('.') || name.view().is_at_or_below(apex) {
        return Ok(name);
    }
    let own = &name.view().wire()[..name.view().len() - 1];
    let wire = [own, apex.wire()].concat();
    FoldedNameBuf::from_wire(&wire).map_err(|error| ControlError::InvalidName(error.to_string()))
}

/// Returns the type with this mnemonic, in any letter case.
pub(super) fn record_type(text: &str) -> Result<Rtype, ControlError> {
    let found = rdata::from_mnemonic(text).map(Rtype);
    found.ok_or_else(|| ControlError::UnknownType(text.to_owned()))
}

fn all_of<'z>(set: &HostedSet<'z>) -> impl Iterator<Item = HostedRecord<'z>> + use<'z> {
    set.iter().chain(set.signatures())
}

pub(super) fn shown_record(owner: FoldedName<'_>, record: &HostedRecord<'_>) -> ZoneRecord {
    ZoneRecord {
        name: shown(owner.wire()),
        ttl: record.ttl_secs,
        rtype: record.rtype.to_string(),
        data: rdata::display(record.rtype.0, record.rdata).to_string(),
    }
}
