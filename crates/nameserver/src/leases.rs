//! Devices in the DHCP server's lease file, in the format of dnsmasq, ISC dhcpd or Kea.
//!
//! Leases are not authenticated: a device chooses the name in its lease.

use std::io::{self, Read};
use std::net::IpAddr;
use std::path::Path;

use avocet_io::file::open_regular;
use avocet_policy::client::{MAX_NEIGHBOURS, Mac, Neighbour};

use crate::file_watch::FileFingerprint;

/// Maximum number of octets of the file that are read: some hundred thousand leases.
const MAX_OCTETS: u64 = 32 << 20;

/// The leases of a file, read again when it has changed.
#[derive(Default)]
pub struct Leases {
    read: Option<FileFingerprint>,
    devices: Vec<Neighbour>,
    error: Option<String>,
}

impl Leases {
    /// Returns the devices in the current file. If it cannot be read, returns the previous devices.
    pub fn look(&mut self, path: &Path, now_secs: u64) -> &[Neighbour] {
        let fingerprint = FileFingerprint::of(path);
        if fingerprint.is_some() && fingerprint == self.read {
            return &self.devices;
        }
        match read(path) {
            Ok(text) => {
                (self.devices, self.error) = (devices(&text, now_secs), None);
                self.read = fingerprint;
            }
            Err(error) => self.error = Some(error.to_string()),
        }
        &self.devices
    }

    /// Returns why the file could not be read at the last attempt; `None` if it was read.
    pub fn fault(&self, path: &Path) -> Option<String> {
        let error = self.error.as_ref()?;
        Some(format!(
            "cannot read the leases in {}: {error}; earlier data about devices stays in force",
            path.display()
        ))
    }
}

/// Returns why the file cannot be read; `None` if it can be read.
pub fn fault_of_leases(path: &Path) -> Option<io::Error> {
    read(path).err()
}

fn read(path: &Path) -> io::Result<String> {
    let mut octets = Vec::new();
    open_regular(path)?.take(MAX_OCTETS + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > MAX_OCTETS {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("larger than {MAX_OCTETS} octets"),
        ));
    }
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

/// Returns the devices in a text of any of the three formats; other lines are ignored. `now_secs`
/// is wall time.
pub(crate) fn devices(text: &str, now_secs: u64) -> Vec<Neighbour> {
    let first = text
        .lines()
        .find(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .unwrap_or_default();
    let mut devices = if first.starts_with("address,") {
        of_kea(text, now_secs)
    } else if text.lines().any(|line| line.starts_with("lease ") && line.trim_end().ends_with('{'))
    {
        of_isc(text)
    } else {
        text.lines().filter_map(|line| of_dnsmasq(line, now_secs)).collect()
    };
    // If an address has several entries, the last one applies.
    devices.reverse();
    devices.sort_by_key(|device| device.address);
    devices.dedup_by_key(|device| device.address);
    devices.retain(|device| device.mac.is_some() || device.name.is_some());
    devices.truncate(MAX_NEIGHBOURS);
    devices
}

/// Reads a line with expiry, MAC address (a number instead for IPv6), address, name or `*`, and
/// client identifier.
fn of_dnsmasq(line: &str, now_secs: u64) -> Option<Neighbour> {
    let [expiry, mac, address, name] =
        line.split_whitespace().take(4).collect::<Vec<_>>().try_into().ok()?;
    let expiry: u64 = expiry.parse().ok()?;
    let address: IpAddr = address.parse().ok()?;
    // The hardware type may precede the MAC address.
    let mac = mac.split_once('-').map_or(mac, |(_, mac)| mac);
    let is_over = expiry != 0 && expiry <= now_secs;
    (!is_over).then(|| Neighbour {
        address,
        mac: mac.parse().ok(),
        name: named(name).filter(|name| name != "*"),
    })
}

/// Reads entries of the form `lease ADDRESS { ... }` with statements that end with `;`. Updates of
/// a lease are appended as new entries.
fn of_isc(text: &str) -> Vec<Neighbour> {
    let mut devices = Vec::new();
    let mut open: Option<Neighbour> = None;
    let mut is_active = true;
    for line in text.lines().map(str::trim) {
        let statement = line.trim_end_matches(';');
        if let Some(address) = line
            .strip_prefix("lease ")
            .and_then(|rest| rest.trim_end_matches('{').trim().parse().ok())
        {
            (open, is_active) = (Some(Neighbour { address, mac: None, name: None }), true);
        } else if line == "}" {
            // A lease that has ended removes earlier entries.
            devices.extend(
                open.take().map(|device| if is_active { device } else { nobody(device.address) }),
            );
        } else if let Some(device) = &mut open {
            if let Some(mac) = statement.strip_prefix("hardware ethernet ") {
                device.mac = mac.trim().parse::<Mac>().ok();
            } else if let Some(name) = statement.strip_prefix("client-hostname ") {
                device.name = named(name.trim().trim_matches('"'));
            } else if let Some(state) = statement.strip_prefix("binding state ") {
                is_active = state.trim() == "active";
            }
        }
    }
    devices
}

/// Reads a table with a header line. Updates of a lease are appended as new lines.
fn of_kea(text: &str, now_secs: u64) -> Vec<Neighbour> {
    let mut lines = text.lines();
    let headings: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let column = |name: &str| headings.iter().position(|heading| *heading == name);
    let [mac, name, expire, state] = ["hwaddr", "hostname", "expire", "state"].map(column);
    let device = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |column: Option<usize>| {
            column.and_then(|at| fields.get(at)).copied().unwrap_or_default()
        };
        let address: IpAddr = fields.first()?.parse().ok()?;
        let is_over = field(expire).parse().is_ok_and(|expire: u64| expire <= now_secs)
            || !matches!(field(state), "" | "0");
        let device = Neighbour { address, mac: field(mac).parse().ok(), name: named(field(name)) };
        Some(if is_over { nobody(address) } else { device })
    };
    lines.filter_map(device).collect()
}

fn named(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}

fn nobody(address: IpAddr) -> Neighbour {
    Neighbour { address, mac: None, name: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_262_400;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let shown = |device: &Neighbour| {
            let mac = device.mac.map_or("-".to_owned(), |mac| mac.to_string());
            format!("{} {mac} {}", device.address, device.name.as_deref().unwrap_or("-"))
        };
        assert_eq!(devices(text, NOW).iter().map(shown).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn leases_of_dnsmasq_are_read() {
        check(
            "1795300000 02:00:00:00:00:01 192.168.1.20 tablet 01:02:00:00:00:00:01\n\
             0 06-02:00:00:00:00:02 192.168.1.21 * *\n\
             1795000000 02:00:00:00:00:03 192.168.1.22 gone *\n\
             duid 00:01:00:01:2a\n\
             1795300000 12345678 fd00::20 tablet 00:01\n\
             what is this\n",
            &[
                "192.168.1.20 02:00:00:00:00:01 tablet",
                "192.168.1.21 02:00:00:00:00:02 -",
                "fd00::20 - tablet",
            ],
        );
    }

    #[test]
    fn leases_of_isc_dhcpd_are_read() {
        check(
            "# written by dhcpd\nauthoring-byte-order little-endian;\n\
             lease 10.0.0.5 {\n  starts 6 2026/11/21 10:00:00;\n  binding state active;\n  \
             hardware ethernet 02:00:00:00:00:01;\n  client-hostname \"old\";\n}\n\
             lease 10.0.0.5 {\n  binding state active;\n  next binding state free;\n  \
             hardware ethernet 02:00:00:00:00:09;\n  client-hostname \"tablet\";\n}\n\
             lease 10.0.0.6 {\n  binding state active;\n  hardware ethernet 02:00:00:00:00:02;\n}\n\
             lease 10.0.0.6 {\n  binding state free;\n  hardware ethernet 02:00:00:00:00:02;\n}\n",
            &["10.0.0.5 02:00:00:00:00:09 tablet"],
        );
    }

    #[test]
    fn leases_of_kea_are_read() {
        check(
            "address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state,user_context\n\
             10.0.0.5,02:00:00:00:00:01,,4000,1795300000,1,0,0,tablet.lan.,0,\n\
             10.0.0.6,02:00:00:00:00:02,,4000,1795000000,1,0,0,gone,0,\n\
             10.0.0.7,02:00:00:00:00:03,,4000,1795300000,1,0,0,declined,1,\n\
             10.0.0.8,02:00:00:00:00:04,,4000,1795300000,1,0,0,,0,\n",
            &["10.0.0.5 02:00:00:00:00:01 tablet.lan.", "10.0.0.8 02:00:00:00:00:04 -"],
        );
        check(
            "address,duid,valid_lifetime,expire,subnet_id,pref_lifetime,lease_type,iaid,prefix_len,fqdn_fwd,fqdn_rev,hostname,hwaddr,state\n\
             fd00::5,00:01,4000,1795300000,1,3000,0,7,128,0,0,tablet,02:00:00:00:00:01,0\n",
            &["fd00::5 02:00:00:00:00:01 tablet"],
        );
    }

    #[test]
    fn what_is_no_file_of_leases_names_nobody() {
        for text in
            ["", "\0\0\0", "lease {\n}\n", "lease 10.0.0.5 {", "address,\n,\n", "1 2 3 4 5 6\n"]
        {
            check(text, &[]);
        }
    }
}
