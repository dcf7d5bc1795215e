//! The copy of a transferred zone on disk.

use std::io;

use avocet_config::zone::ZoneConfig;
use avocet_io::ownership;
use avocet_nameserver::checksum::sum_line;
use avocet_nameserver::disk;
use avocet_nameserver::zone_files::make_way;
use avocet_wire::FoldedName;
use avocet_zone::{HostedRecord, append_line};

use super::CheckError;
use crate::running::Running;
use crate::running::catalogs::{TakenFiles, purge};
use crate::transfer::{TransferError, UnverifiedRecord};

/// Writes the copy of a zone.
pub(super) fn write(config: &ZoneConfig, records: &[UnverifiedRecord]) -> io::Result<()> {
    let mut text = String::new();
    for UnverifiedRecord { owner, rtype, ttl_secs, rdata } in records {
        let record = HostedRecord { rtype: *rtype, ttl_secs: *ttl_secs, rdata };
        append_line(&mut text, FoldedName::from_folded_unchecked(owner), &record);
    }
    let _permit = ownership::write()?;
    if let Some(directory) = config.file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    make_way(config)?;
    let sum = sum_line(&[text.as_bytes()]);
    disk::replace_shared(&config.file, &[text.as_bytes(), sum.as_bytes()]).map(drop)
}

/// Reads the copy of a zone that was written, and checks that its version is then in force. If a
/// catalog removed the zone during the transfer, deletes the copy.
pub(super) fn put_in_force(
    running: &Running,
    config: &ZoneConfig,
    serial: u32,
) -> Result<(), CheckError> {
    running.reloader.reload_zones(Some(&config.id()));
    let zones = &running.reloader.zones;
    if zones.timers(&config.id()).is_some_and(|timers| timers.serial == serial) {
        return Ok(());
    }
    let config_in_force = running.shared.snapshot().config.clone();
    if config.catalog.is_member()
        && !config_in_force.zones.iter().any(|zone| zone.id() == config.id())
        && !TakenFiles::of(&config_in_force).has(&config.name)
    {
        purge(config);
        return Err(TransferError::Closed.into());
    }
    let state = zones.states().into_iter().find(|state| state.id == config.id());
    let reason = state.and_then(|state| state.fault).unwrap_or_default();
    Err(CheckError::NotInForce { serial, reason })
}
