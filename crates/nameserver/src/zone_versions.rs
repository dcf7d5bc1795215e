//! Chooses the version of a zone that comes into force after its file was read: the version of the
//! file, or a version with changes that the file does not have yet.
//!
//! ```text
//! at the start     the file has a version of the journal ---> the changes behind it are applied
//!                  the server has read it before -----------> the step from it, and later changes
//!                  it was edited since ----------------------> the changes that it never had, too
//!                  the journal is damaged ------------------> the readable ones of these
//! while it serves  the file is as the server wrote it ------> the version in force stays
//!                  it was edited ---------------------------> both are merged
//! ```

use std::sync::Arc;

use avocet_config::name::shown;
use avocet_zone::{
    HostedZone, JournalContent, ZoneChange, ZoneEdits, ZoneVersion, is_newer, with_serial,
};

use crate::clock::wall_secs;

/// The version to serve at the start.
pub(crate) struct RestoredZone {
    /// The version to serve, if it differs from the version in the file.
    pub(crate) other: Option<HostedZone>,
    /// The changes that lead to the version in the file, if that version is served.
    pub(crate) changes: Vec<Arc<ZoneChange>>,
    /// Changes that contradict the file: with them, the zone would have errors.
    pub(crate) refused: Vec<Arc<ZoneChange>>,
    /// Whether changes are missing that the server acknowledged, because the journal is damaged.
    pub(crate) lacks_changes: bool,
}

impl RestoredZone {
    fn of(other: Option<HostedZone>) -> Self {
        Self { other, changes: Vec::new(), refused: Vec::new(), lacks_changes: false }
    }
}

/// Returns the version to serve at the start: the version of the file, with the changes in the
/// journal that the file does not have.
pub(crate) fn restored(file: &HostedZone, content: &JournalContent) -> RestoredZone {
    let name = shown(file.apex().wire());
    let place = content.place_of(file.version());
    let behind = match place {
        Some(place) => content.changes[place..].to_vec(),
        None => content.not_on_file(),
    };
    let count = behind.len();
    if let Some(zone) = applied(file, &behind) {
        let serial = zone.serial();
        tracing::info!(serial, "zone {name}: {count} changes taken from the journal");
        let version = zone.version();
        let other = match content.changes.last() {
            Some(last) if last.to != version => zone.following(file, 0),
            _ => zone.with_changes(content.changes.clone(), count),
        };
        return RestoredZone::of(Some(other));
    }
    let Some(last) = behind.last() else {
        let known = place.map_or(&[][..], |place| &content.changes[..place]);
        return RestoredZone { changes: known.to_vec(), ..RestoredZone::of(None) };
    };
    let serial = later(file.serial(), last.to.serial);
    let mut merging = Merging { file, merged: None, serial, refused: Vec::new(), attempts: 0 };
    merging.merge(&behind);
    let Merging { merged, refused, .. } = merging;
    if merged.is_some() {
        let count = count - refused.len();
        tracing::warn!(
            serial,
            "zone {name}: its file was edited and not read before the server ended, or while it \
             was down; {count} changes that the file did not have yet are merged into it"
        );
    }
    RestoredZone { refused, ..RestoredZone::of(merged.map(|zone| zone.following(file, 0))) }
}

/// Returns the version to serve at the start of a zone of another server, whose journal may be
/// damaged. Only complete versions of that server are served. A later version is transferred again.
pub(crate) fn restored_of_other(file: &HostedZone, content: &JournalContent) -> RestoredZone {
    if content.damage.is_none() || content.place_of(file.version()).is_some() {
        return restored(file, content);
    }
    let after = content.after_damage(file.version());
    after.map_or_else(|| RestoredZone::of(None), |content| restored(file, &content))
}

/// Returns the version to serve at the start if the journal may be damaged. Only people and clients
/// of this server make the changes of the zone, so that it can have later changes although earlier
/// ones are missing.
pub(crate) fn restored_from_damaged(file: &HostedZone, content: &JournalContent) -> RestoredZone {
    let Some(damage) = &content.damage else { return restored(file, content) };
    if let Some(content) = content.after_damage(file.version()) {
        return restored(file, &content);
    }
    let changes = content.lacked_by(file.version());
    let last = damage.changes.last().or(content.changes.last());
    let mut serial = later(file.serial(), last.map_or(file.serial(), |last| last.to.serial));
    // Other servers may have the versions of changes that are missing at the end.
    serial = serial.wrapping_add(damage.missing_at_end());
    let mut merging = Merging { file, merged: None, serial, refused: Vec::new(), attempts: 0 };
    merging.merge(&changes);
    let Merging { merged, refused, .. } = merging;
    let (name, count) = (shown(file.apex().wire()), changes.len() - refused.len());
    tracing::warn!(serial, "zone {name}: {count} changes taken from its damaged journal");
    let other = merged.or_else(|| finish(ZoneEdits::of(file), serial));
    let other = other.map(|zone| zone.following(file, 0));
    RestoredZone { refused, lacks_changes: true, ..RestoredZone::of(other) }
}

/// Maximum number of attempts to merge changes into an edited file. Each attempt checks the whole
/// zone. Finding one contradiction among ten thousand changes takes about thirty attempts.
const MAX_MERGES: u32 = 256;

/// The merging of changes into a file that was edited.
struct Merging<'f> {
    file: &'f HostedZone,
    /// The zone of the file with the changes that are merged so far.
    merged: Option<HostedZone>,
    /// The serial of the merged zone.
    serial: u32,
    refused: Vec<Arc<ZoneChange>>,
    /// Number of attempts so far.
    attempts: u32,
}

impl Merging<'_> {
    /// Merges as many of the changes as possible. Leaves out the changes that contradict the file.
    /// If very many do, also leaves out changes next to them.
    fn merge(&mut self, changes: &[Arc<ZoneChange>]) {
        self.attempts += 1;
        let mut edits = ZoneEdits::of(self.merged.as_ref().unwrap_or(self.file));
        changes.iter().for_each(|change| edits.merge(change));
        match finish(edits, self.serial) {
            Some(zone) => self.merged = Some(zone),
            None if changes.len() > 1 && self.attempts < MAX_MERGES => {
                let (first, second) = changes.split_at(changes.len() / 2);
                self.merge(first);
                self.merge(second);
            }
            None => self.refused.extend_from_slice(changes),
        }
    }
}

/// Applies changes to the version in the file. Returns `None` if there are no changes, or if they
/// do not fit the version.
fn applied(file: &HostedZone, changes: &[Arc<ZoneChange>]) -> Option<HostedZone> {
    let last = changes.last()?;
    let mut edits = ZoneEdits::of(file);
    changes.iter().try_for_each(|change| edits.apply(change)).ok()?;
    let zone = edits.finish(wall_secs()).ok()?;
    (zone.version() == last.to).then_some(zone)
}

/// Returns the version in force with the edits that were made to the file since the version `base`.
/// Edits that contradict the later changes are dropped.
pub(crate) fn merged(
    served: &HostedZone,
    base: &HostedZone,
    file: &HostedZone,
) -> Option<HostedZone> {
    let name = shown(file.apex().wire());
    let serial = later(served.serial(), file.serial());
    let by_hand = ZoneChange::difference(base, file, usize::MAX);
    let merged = by_hand.and_then(|change| {
        let mut edits = ZoneEdits::of(served);
        edits.merge(&change);
        finish(edits, serial)
    });
    if merged.is_some() {
        tracing::info!(serial, "zone {name}: its edited file and later changes are merged");
    } else {
        tracing::error!("zone {name}: its edited file contradicts later changes; these win");
    }
    let zone = merged.or_else(|| finish(ZoneEdits::of(served), serial));
    zone.map(|zone| zone.following(served, usize::MAX - 1))
}

/// Returns the zone of the edited file, with a serial that is newer than the serials of the file
/// and of the version in force. Returns `None` if the serial of the file is already newer than that
/// of the version in force, or if no record changed.
pub(crate) fn raised(served: &HostedZone, file: &HostedZone) -> Option<HostedZone> {
    let is_raised = is_newer(file.serial(), served.serial());
    if is_raised || file.version() == served.version() {
        return None;
    }
    finish(ZoneEdits::of(file), later(served.serial(), file.serial()))
}

/// Returns the version of a provider's file, with a serial that follows the last serial in the
/// journal. Returns `None` if the serial of the file is already newer, or if the journal has this
/// version. The serial of the file is older if the time of the file was set back.
pub(crate) fn raised_over(content: &JournalContent, file: &HostedZone) -> Option<HostedZone> {
    let last = content.changes.last()?.to;
    let is_raised =
        is_newer(file.serial(), last.serial) || content.place_of(file.version()).is_some();
    (!is_raised).then(|| finish(ZoneEdits::of(file), later(last.serial, file.serial())))?
}

/// Returns the number of the most recent changes that lead from this version to the version in
/// force.
pub(crate) fn changes_behind(zone: &HostedZone, version: Option<ZoneVersion>) -> usize {
    let place = zone.changes().iter().rposition(|change| Some(change.from) == version);
    place.map_or(0, |place| zone.changes().len() - place)
}

/// Returns a serial that is newer than both serials.
fn later(a: u32, b: u32) -> u32 {
    if is_newer(a, b) { a.wrapping_add(1) } else { b.wrapping_add(1) }
}

fn finish(mut edits: ZoneEdits<'_>, serial: u32) -> Option<HostedZone> {
    let soa = edits.zone().soa()?;
    edits.set_soa(soa.ttl_secs, &with_serial(soa.rdata, serial));
    edits.finish(wall_secs()).ok()
}
