//! Hosted zones from files in the formats that the key `provider` of `[[zone]]` can name.

use std::net::IpAddr;
use std::path::Path;

use avocet_config::name::{reverse_name, shown, typed_name};
use avocet_config::provided::{ProvidedZone, ProviderKind};
use avocet_config::zone::ZoneConfig;
use avocet_wire::FoldedName;
use avocet_zone::{
    Faults, HostedZone, OpenFile, ProvidedReading, ProvidedSource, ZoneProvider, load_provided,
};

use crate::checksum::check_sum;
use crate::clock::wall_secs;
use crate::file_watch::FileFingerprint;
use crate::leases::read_with_earlier;

mod csv;
mod json;
mod leased;

use csv::MachineTable;
use json::RrsetDocument;
use leased::LeasedNames;
pub(crate) use leased::fault_of_leases;

/// Reads and checks a zone from its file, in the format of its configuration. Returns all faults,
/// and the zone if it has no errors.
pub(crate) fn load_from(
    config: &ZoneConfig,
    open: OpenFile<'_>,
) -> Option<(Option<HostedZone>, Faults)> {
    let apex = FoldedName::new(&config.name)?;
    let Some(provided) = &config.provided else {
        // People write the files of other zones, and need not keep a checksum.
        let mut open = |path: &Path, most: u64| {
            let octets = open(path, most)?;
            if config.is_secondary() {
                check_sum(&octets)?;
            }
            Ok(octets)
        };
        return Some(avocet_zone::load(apex, &config.file, wall_secs(), &mut open));
    };
    let head = provided.head.as_deref();
    let serial = serial_of(&config.file).max(head.map_or(0, serial_of));
    let ttl_secs = provided.ttl_secs;
    let source = ProvidedSource { apex, file: &config.file, head, serial, ttl_secs };
    let mut open = |path: &Path, most: u64| match provided.kind {
        ProviderKind::Leases if path == config.file => read_with_earlier(path, most, open),
        _ => open(path, most),
    };
    Some(load_provided(&source, &*provider(provided), wall_secs(), &mut open))
}

fn provider(zone: &ProvidedZone) -> Box<dyn ZoneProvider> {
    let hosts = HostNames { domain: zone.domain.as_deref().map(shown) };
    match zone.kind {
        ProviderKind::Csv => Box::new(MachineTable { hosts }),
        ProviderKind::Leases => Box::new(LeasedNames { hosts, now_secs: wall_secs() }),
        ProviderKind::Json | ProviderKind::Http | ProviderKind::Postgres | ProviderKind::File => {
            Box::new(RrsetDocument)
        }
    }
}

/// Returns the serial of a file: the second of the file's last change. The serial thus rises with
/// each change, and is the same after a restart.
fn serial_of(file: &Path) -> u32 {
    FileFingerprint::of(file).map_or(0, |seen| seen.modified_secs() as u32)
}

/// The host names in a zone.
struct HostNames {
    /// The domain of the hosts, if the zone is a reverse zone.
    domain: Option<String>,
}

impl HostNames {
    /// Adds the address of a host name. In a reverse zone, adds the host name of an address in the
    /// zone.
    fn add(&self, line: u32, name: &str, address: IpAddr, reading: &mut ProvidedReading<'_>) {
        let ttl_secs = reading.ttl_secs();
        let Some(domain) = &self.domain else {
            let rtype = if address.is_ipv4() { "A" } else { "AAAA" };
            return reading.entry(line, &format!("{name} {ttl_secs} {rtype} {address}"));
        };
        let owner = reverse_name(address);
        if owner.ends_with(reading.apex().wire()) {
            let owner = shown(&owner);
            // The domain may be the root, which is written as `.` alone.
            let target = format!("{name}.{}", domain.trim_start_matches('.'));
            reading.entry(line, &format!("{owner} {ttl_secs} PTR {target}"));
        }
    }
}

/// Returns whether a text is a relative name of labels with letters, digits, hyphens and
/// underscores. Such a name has no special meaning in a master file.
fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_fine = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_');
        !label.is_empty() && label.bytes().all(is_fine) && !label.starts_with('-')
    };
    text.split('.').all(is_label) && typed_name(text).is_ok()
}

#[cfg(test)]
mod tests;
