//! Updates of hosted zones (RFC 2136): applied in the order of arrival. All updates that wait for
//! one zone are applied together.
//!
//! ```text
//! worker: signature, rule --> queue --> all for one zone --> one version --> journal --> in force
//! worker: counted, sent <-- message <---- reply <------------------------------------------+
//! ```
//! An update is acknowledged when it is on disk and in force. An update that would cause errors in
//! the zone is refused, and the other updates are applied. A few threads each update one zone at a
//! time, and take the zones in turn, so a large zone delays no other zone.

use std::io;
use std::sync::Arc;
use std::thread;

use avocet_config::name::shown;
use avocet_config::zone::ZoneConfig;
use avocet_dnssec::zonemd::ZONEMD;
use avocet_io::ownership;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::transfers::ServerEvent;
use avocet_nameserver::updates::WaitingUpdate;
use avocet_nameserver::zone_files::ZoneChangeError;
use avocet_wire::{FoldedName, Rcode, Rtype};
use avocet_zone::sign::{CDNSKEY, CDS};
use avocet_zone::{EditScope, HostedZone, UnsoundZone, ZoneEdits, ZoneUpdate, with_serial};

use super::Running;
use super::conditions::Condition;
use avocet_worker::mailbox::{LateUpdate, Letter};

/// Maximum number of zones that are updated at once. Each update takes up to one core and the
/// memory of another version of the zone.
const THREADS: usize = 3;
/// The log line after a panic of a thread.
const FAULT: &str = "a panic ended a thread that updates zones; restart the server";

/// Starts the threads.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(running: &Arc<Running>) -> io::Result<()> {
    for _ in 0..THREADS {
        let running = running.clone();
        let work = move || {
            running.conditions.contain(Condition::Threads, FAULT, || work(&running));
        };
        thread::Builder::new().name("updates".to_owned()).spawn(work)?;
    }
    Ok(())
}

fn work(running: &Running) {
    while let Some(mut taken) = running.shared.name_server.updates.take() {
        apply(running, taken.updates());
    }
}

/// Ends the threads. Waiting updates get SERVFAIL, and their clients can send them to the next
/// server process. Must be called before the workers get [`Letter::Drain`], so that they send these
/// replies.
pub(crate) fn close(running: &Running) {
    for update in running.shared.name_server.updates.close() {
        running.shared.name_server.transfers.count(UpdateOutcome::FAILED.event);
        reply(running, update, UpdateOutcome::FAILED.rcode);
    }
}

/// Applies the updates of one zone, and replies to each.
fn apply(running: &Running, group: Vec<WaitingUpdate>) {
    // Waits while another process takes over. If it has, clients send the updates again, to it.
    let change = ownership::change();
    let snapshot = running.shared.snapshot();
    let config = snapshot.config.zones.iter().find(|zone| zone.is(&group[0].zone));
    let outcomes = match config {
        _ if change.is_err() => vec![UpdateOutcome::FAILED; group.len()],
        None => vec![UpdateOutcome::rejected(Rcode::NOTAUTH); group.len()],
        Some(config) => match attempt(running, config, &group) {
            // One of the updates is at fault, so each is applied separately.
            Err(_) if group.len() > 1 => {
                let alone =
                    group.iter().map(|one| attempt(running, config, std::slice::from_ref(one)));
                alone.map(|tried| tried.map_or_else(|outcome| outcome, |all| all[0])).collect()
            }
            Err(outcome) => vec![outcome],
            Ok(outcomes) => outcomes,
        },
    };
    for (update, outcome) in group.into_iter().zip(outcomes) {
        running.shared.name_server.transfers.count(outcome.event);
        reply(running, update, outcome.rcode);
    }
}

/// The result of an update.
#[derive(Clone, Copy)]
struct UpdateOutcome {
    rcode: Rcode,
    event: ServerEvent,
}

impl UpdateOutcome {
    const APPLIED: Self = Self { rcode: Rcode::NOERROR, event: ServerEvent::UpdateApplied };
    const UNCHANGED: Self = Self { rcode: Rcode::NOERROR, event: ServerEvent::UpdateUnchanged };
    const FAILED: Self = Self { rcode: Rcode::SERVFAIL, event: ServerEvent::UpdateFailed };

    fn rejected(rcode: Rcode) -> Self {
        Self { rcode, event: ServerEvent::UpdateRefused }
    }

    fn unmet(rcode: Rcode) -> Self {
        let is_malformed = matches!(rcode, Rcode::FORMERR | Rcode::NOTZONE);
        let event =
            if is_malformed { ServerEvent::UpdateRefused } else { ServerEvent::UpdateUnmet };
        Self { rcode, event }
    }
}

/// Applies updates together. Returns an error if the zone would then have errors, or could not be
/// signed. If there are several updates, the caller then applies them one by one.
fn attempt(
    running: &Running,
    config: &ZoneConfig,
    group: &[WaitingUpdate],
) -> Result<Vec<UpdateOutcome>, UpdateOutcome> {
    let mut outcomes = Vec::with_capacity(group.len());
    let make = |zone: &HostedZone| -> Result<Option<HostedZone>, UnsoundZone> {
        let mut edits = ZoneEdits::of(zone);
        outcomes.extend(group.iter().map(|update| edit(config, update, &mut edits)));
        changed(config, edits)
    };
    let name = config.id();
    match running.reloader.change_zone(&config.id(), make) {
        Ok(Some(zone)) => {
            let size = zone.changes().last().map(|change| change.size());
            let (removed, added) = size.map_or((0, 0), |size| (size.removed, size.added));
            let (serial, updates) = (zone.serial(), group.len());
            let (client, key) = (group[0].waiter.ip, shown(group[0].key.name().wire()));
            tracing::info!(%client, key, serial, updates, removed, added, "zone {name} updated");
            Ok(outcomes)
        }
        Ok(None) => {
            let is_applied = |one: &UpdateOutcome| one.event == ServerEvent::UpdateApplied;
            let of =
                |one: UpdateOutcome| if is_applied(&one) { UpdateOutcome::UNCHANGED } else { one };
            Ok(outcomes.into_iter().map(of).collect())
        }
        Err(ZoneChangeError::Refused(fault)) => {
            let client = group[0].waiter.ip;
            if group.len() == 1 {
                tracing::warn!(%client, "zone {name}: an update is refused: {fault}");
            }
            Err(UpdateOutcome { rcode: Rcode::REFUSED, event: ServerEvent::UpdateFailed })
        }
        Err(ZoneChangeError::Unsignable(fault)) => {
            if group.len() == 1 {
                let client = group[0].waiter.ip;
                tracing::warn!(%client, "zone {name}: an update is refused: {fault}");
            }
            Err(UpdateOutcome { rcode: Rcode::REFUSED, event: ServerEvent::UpdateFailed })
        }
        Err(fault @ ZoneChangeError::Digest(_)) => {
            tracing::warn!("zone {name}: updates are refused: {fault}");
            let refused = UpdateOutcome { rcode: Rcode::REFUSED, event: ServerEvent::UpdateFailed };
            Ok(vec![refused; group.len()])
        }
        Err(ZoneChangeError::NotLoaded | ZoneChangeError::Edited { .. }) => {
            Ok(vec![UpdateOutcome::FAILED; group.len()])
        }
        Err(ZoneChangeError::Disk(error)) => {
            tracing::error!("zone {name}: updates cannot be kept on disk: {error}");
            Ok(vec![UpdateOutcome::FAILED; group.len()])
        }
    }
}

/// Applies an update to the edits, if it is permitted and its prerequisites are met.
fn edit(config: &ZoneConfig, update: &WaitingUpdate, edits: &mut ZoneEdits<'_>) -> UpdateOutcome {
    // The zone has signatures of another signer, which would no longer match.
    if edits.zone().is_signed() {
        return UpdateOutcome::rejected(Rcode::REFUSED);
    }
    let message = match ZoneUpdate::read(&update.message) {
        Ok(message) => message,
        Err(rcode) => return UpdateOutcome::rejected(rcode),
    };
    let (ip, key) = (update.waiter.ip, update.key.name().wire());
    let rules: Vec<_> = config.allow_update.iter().filter(|rule| rule.admits(ip, key)).collect();
    if rules.is_empty() {
        return UpdateOutcome::rejected(Rcode::REFUSED);
    }
    if let Err(rcode) = message.check_work(edits) {
        return UpdateOutcome::rejected(rcode);
    }
    if let Err(rcode) = message.check_prerequisites(edits) {
        return UpdateOutcome::unmet(rcode);
    }
    let is_made_here = |scope: EditScope<'_>| is_made_here(config, scope.owner, scope.rtype);
    if message.edited().any(is_made_here) {
        return UpdateOutcome::rejected(Rcode::REFUSED);
    }
    let is_permitted = |scope: EditScope<'_>| rules.iter().any(|rule| rule.permits(scope));
    if let Err(rcode) = message.check_edits(edits, &is_permitted) {
        return UpdateOutcome::rejected(rcode);
    }
    message.apply(edits);
    UpdateOutcome::APPLIED
}

/// Returns whether the server itself makes the records of this type, so that an edit would have no
/// effect.
pub(crate) fn is_made_here(config: &ZoneConfig, owner: FoldedName<'_>, rtype: Rtype) -> bool {
    let is_signed = config.signing.is_some();
    let is_apex = *owner.wire() == *config.name;
    match rtype {
        CDS | CDNSKEY => is_signed,
        Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3 | Rtype::NSEC3PARAM => is_signed,
        ZONEMD => is_apex && (is_signed || config.digest.is_some()),
        _ => false,
    }
}

/// Returns the edited version with a higher serial; `None` if nothing has changed.
///
/// # Errors
/// The zone would have errors.
pub(crate) fn changed(
    config: &ZoneConfig,
    mut edits: ZoneEdits<'_>,
) -> Result<Option<HostedZone>, UnsoundZone> {
    if edits.is_without_effect() {
        return Ok(None);
    }
    let before = edits.zone().serial();
    let soa = edits.records(edits.zone().apex()).into_iter().find(|one| one.rtype == Rtype::SOA);
    if let Some(soa) = soa.filter(|soa| with_serial(&soa.rdata, before) == *soa.rdata) {
        let serial = config.serial.next(before, wall_secs());
        edits.set_soa(soa.ttl_secs, &with_serial(&soa.rdata, serial));
    }
    edits.finish(wall_secs()).map(Some)
}

/// Passes the reply to the worker that received the update, which sends it.
fn reply(running: &Running, mut update: WaitingUpdate, rcode: Rcode) {
    let message = update.reply(rcode, wall_secs());
    let worker = usize::from(update.worker);
    let late = Box::new(LateUpdate { waiter: update.waiter, message, rcode });
    if let Some(mailbox) = running.shared.mailboxes.get(worker)
        && mailbox.send(Letter::Updated(late)).is_err()
    {
        tracing::warn!("a reply to an update is lost: the mailbox of its worker is full");
    }
}
