//! Chooses the version of a zone that comes into force after its file was read: the version of the
//! file, or a version with changes that the file does not have yet.
//!
//! ```text
//! at the start       the file has a version of the journal -----> the later changes are applied
//!                    the file was edited without the server ----> the changes it never had, too
//! while it is served the file is as the server wrote it --------> the version in force stays
//!                    the file was edited -----------------------> both versions are merged
//! ```

use std::sync::Arc;

use avocet_config::name::shown;
use avocet_zone::{
    HostedZone, JournalContent, ZoneChange, ZoneEdits, ZoneVersion, is_newer, with_serial,
};

use crate::clock::wall_secs;

/// The version to serve at the start.
pub(crate) struct RestoredZone {
    /// A version that differs from the file.
    pub(crate) other: Option<HostedZone>,
    /// The changes that lead to the version of the file, if this version is served.
    pub(crate) changes: Vec<Arc<ZoneChange>>,
}

/// Returns the version to serve at the start: the version of the file, with the changes in the
/// journal that the file does not have.
pub(crate) fn restored(file: &HostedZone, content: &JournalContent) -> RestoredZone {
    let name = shown(file.apex().wire());
    let JournalContent { changes, written, .. } = content;
    if let Some(place) = content.place_of(file.version()) {
        let (known, behind) = changes.split_at(place);
        let applied = applied(file, behind);
        match &applied {
            Some(zone) => {
                let (serial, count) = (zone.serial(), behind.len());
                tracing::info!(serial, "zone {name}: {count} changes taken from the journal");
            }
            None if behind.is_empty() => {}
            None => {
                tracing::error!("zone {name}: the journal does not fit the file, and is dropped");
            }
        }
        let other = applied.map(|zone| zone.with_changes(changes.clone(), behind.len()));
        return RestoredZone { other, changes: known.to_vec() };
    }
    let unwritten = written.and_then(|version| content.place_of(version));
    let unwritten = unwritten.map_or(&[][..], |place| &changes[place..]);
    let mut other = None;
    if let Some(last) = unwritten.last() {
        let mut edits = ZoneEdits::of(file);
        unwritten.iter().for_each(|change| edits.merge(change));
        other = finish(edits, later(file.serial(), last.to.serial));
        let count = unwritten.len();
        match &other {
            Some(zone) => tracing::warn!(
                serial = zone.serial(),
                "zone {name}: its file was edited while the server was down; {count} changes \
                 that it did not have yet are merged into it"
            ),
            None => tracing::error!(
                "zone {name}: its file was edited while the server was down, and contradicts \
                 {count} changes that it did not have yet: these are dropped"
            ),
        }
    }
    RestoredZone { other: other.map(|zone| zone.following(file, 0)), changes: Vec::new() }
}

/// Applies changes to a version. Returns `None` if there are no changes, or if the changes do not
/// fit the version.
fn applied(file: &HostedZone, changes: &[Arc<ZoneChange>]) -> Option<HostedZone> {
    let last = changes.last()?;
    let mut edits = ZoneEdits::of(file);
    changes.iter().try_for_each(|change| edits.apply(change)).ok()?;
    let zone = edits.finish(wall_secs()).ok()?;
    (zone.version() == last.to).then_some(zone)
}

/// Returns the version in force with the edits of the file since the version `base`. Edits that
/// contradict the later changes are dropped.
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

/// Returns the version of an edited file, with a serial newer than both serials. Returns `None` if
/// its serial is newer already, or if nothing changed.
pub(crate) fn raised(served: &HostedZone, file: &HostedZone) -> Option<HostedZone> {
    let is_raised = is_newer(file.serial(), served.serial());
    if is_raised || file.version() == served.version() {
        return None;
    }
    finish(ZoneEdits::of(file), later(served.serial(), file.serial()))
}

/// Returns the version of a provider's file, with a serial that follows the last one in the
/// journal. Returns `None` if its serial is newer already, or if the journal has the version. The
/// serial is older if the time of the file was set back.
pub(crate) fn raised_over(content: &JournalContent, file: &HostedZone) -> Option<HostedZone> {
    let last = content.changes.last()?.to;
    let is_raised =
        is_newer(file.serial(), last.serial) || content.place_of(file.version()).is_some();
    (!is_raised).then(|| finish(ZoneEdits::of(file), later(last.serial, file.serial())))?
}

/// Returns the number of last changes that lead from a version to the version in force.
pub(crate) fn changes_behind(zone: &HostedZone, version: Option<ZoneVersion>) -> usize {
    let place = zone.changes().iter().rposition(|change| Some(change.from) == version);
    place.map_or(0, |place| zone.changes().len() - place)
}

/// Returns the serial that follows both serials.
fn later(a: u32, b: u32) -> u32 {
    if is_newer(a, b) { a.wrapping_add(1) } else { b.wrapping_add(1) }
}

fn finish(mut edits: ZoneEdits<'_>, serial: u32) -> Option<HostedZone> {
    let soa = edits.zone().soa()?;
    edits.set_soa(soa.ttl_secs, &with_serial(soa.rdata, serial));
    edits.finish(wall_secs()).ok()
}
