//! The leases of a DHCP server. A device chooses the name in its lease, so such a name never
//! replaces one that the administrator wrote.

use std::collections::BTreeMap;
use std::net::IpAddr;

use avocet_policy::client::{Mac, Neighbour};
use avocet_zone::{Faults, HostedZone, ProvidedReading, SourceProblem, ZoneProblem, ZoneProvider};

use super::{HostNames, is_host_name};
use crate::leases::{LeaseText, devices_at, read_leases};

/// Names by which clients find servers of their network. No device may take them.
const RESERVED: [&str; 3] = ["wpad", "isatap", "localhost"];
/// Maximum number of addresses of a name in one family. A device with very many leases must not
/// make the zone unusable.
const MAX_ADDRESSES: usize = 16;

/// The leases of a DHCP server.
pub(super) struct LeasedNames {
    pub(super) hosts: HostNames,
    /// The wall time, in Unix seconds. Leases that have ended produce no records.
    pub(super) now_secs: u64,
}

/// The addresses of a name in one family.
#[derive(Default)]
struct Leased {
    mac: Option<Mac>,
    addresses: Vec<IpAddr>,
}

impl ZoneProvider for LeasedNames {
    fn read(&self, source: &[u8], reading: &mut ProvidedReading<'_>) {
        // A device chooses its name, so invalid UTF-8 must not stop the reading.
        let text = read_leases(&String::from_utf8_lossy(source));
        report(&text, reading);
        let mut names = BTreeMap::<(String, bool), Leased>::new();
        for Neighbour { address, mac, name } in devices_at(&text.leases, self.now_secs) {
            let Some(name) = name.as_deref().and_then(label_of) else { continue };
            let leased = names.entry((name, address.is_ipv4())).or_default();
            // The leases are in the order of their addresses. If several devices have the same
            // name, the device with the highest address gets it.
            if leased.mac != mac {
                leased.addresses.clear();
            }
            leased.mac = mac;
            leased.addresses.push(address);
        }
        for ((name, _), leased) in names {
            if self.hosts.domain.is_none() && is_fixed(&name, reading) {
                continue;
            }
            for address in leased.addresses.into_iter().take(MAX_ADDRESSES) {
                self.hosts.add(0, &name, address, reading);
            }
        }
    }
}

/// Reports a broken line: as an error if no other line has a lease.
fn report(text: &LeaseText, reading: &mut ProvidedReading<'_>) {
    match text.fault {
        Some(fault) if text.leases.is_empty() => {
            reading.fault(fault.line, SourceProblem::Lease(fault.reason));
        }
        Some(fault) => reading.warn(fault.line, SourceProblem::Lease(fault.reason)),
        None if text.leases.is_empty() => reading.warn(0, SourceProblem::NoLeases),
        None => {}
    }
}

/// Returns why a version that was read from leases must not replace the version in force: the file
/// is damaged, or was emptied.
pub(crate) fn fault_of_leases(
    served: &HostedZone,
    read: &HostedZone,
    faults: &Faults,
) -> Option<String> {
    let is_reason = |reason: &ZoneProblem| match reason {
        ZoneProblem::Source(SourceProblem::Lease(_)) => true,
        ZoneProblem::Source(SourceProblem::NoLeases) => read.records() < served.records(),
        _ => false,
    };
    faults.list().into_iter().find(|fault| is_reason(&fault.reason)).map(|fault| fault.to_string())
}

/// Returns the first label of the name in a lease, in lower case; `None` if a device may not have
/// this name.
fn label_of(name: &str) -> Option<String> {
    let label = name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    // Names with `_` identify services (RFC 8552).
    let is_host = is_host_name(&label) && !label.contains('_');
    let is_free = is_host && !RESERVED.contains(&&*label);
    is_free.then_some(label)
}

/// Returns whether the head file already has records for this name.
fn is_fixed(label: &str, reading: &ProvidedReading<'_>) -> bool {
    let mut name = vec![label.len() as u8];
    name.extend_from_slice(label.as_bytes());
    name.extend_from_slice(reading.apex().wire());
    reading.is_fixed(&name)
}
