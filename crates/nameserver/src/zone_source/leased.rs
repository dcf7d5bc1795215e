//! The leases of a DHCP server. A device chooses the name in its lease, so such a name never
//! replaces one that the administrator wrote.

use std::collections::BTreeMap;
use std::net::IpAddr;

use avocet_policy::client::{Mac, Neighbour};
use avocet_zone::{ProvidedReading, ZoneProvider};

use super::{HostNames, is_host_name};
use crate::leases::devices;

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
        let text = String::from_utf8_lossy(source);
        let mut names = BTreeMap::<(String, bool), Leased>::new();
        for Neighbour { address, mac, name } in devices(&text, self.now_secs) {
            let Some(name) = name.as_deref().and_then(label_of) else { continue };
            let leased = names.entry((name, address.is_ipv4())).or_default();
            // If two devices have the same name, the one with the higher hardware address gets it.
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
