//! Devices in the DHCP server's lease file, in the format of dnsmasq, ISC dhcpd or Kea.
//!
//! Leases are not authenticated: a device chooses the name in its lease. Names of devices select
//! their rules, so a file that is damaged or suddenly empty must not end the identification of
//! devices: earlier leases stay in force.

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;
use std::ops::Range;
use std::path::Path;

use avocet_io::file::read_regular;
use avocet_policy::client::{MAX_NEIGHBOURS, Neighbour};

use crate::file_watch::FileFingerprint;

mod earlier;
mod text;

pub(crate) use earlier::read_with_earlier;
pub(crate) use text::{Lease, LeaseFault, LeaseText, devices_at, read_leases};

/// Maximum number of octets that are read: some hundred thousand leases.
const MAX_OCTETS: u64 = 32 << 20;

/// The leases of a file, read again when it has changed.
#[derive(Default)]
pub struct Leases {
    read: Option<FileFingerprint>,
    leases: Vec<Lease>,
    fault: Option<LeasesFault>,
    devices: Vec<Neighbour>,
    /// The wall seconds for which `devices` is right: no lease ends within them.
    valid_secs: Range<u64>,
    /// The wall time of the last check that found leases, or a file without any.
    told_secs: u64,
}

/// A reason why earlier leases stay in force.
enum LeasesFault {
    /// The file cannot be read.
    Unreadable(String),
    /// The file has a broken line and no lease.
    Unusable(LeaseFault),
    /// The file has a broken line and leases.
    Partial(LeaseFault),
    /// The file has no leases. The file may have lost its end, or all leases were given back.
    Empty,
}

impl LeasesFault {
    fn of(text: &LeaseText) -> Option<Self> {
        match (text.fault, text.leases.is_empty()) {
            (Some(fault), true) => Some(Self::Unusable(fault)),
            (Some(fault), false) => Some(Self::Partial(fault)),
            (None, true) => Some(Self::Empty),
            (None, false) => None,
        }
    }

    /// Returns whether the file says nothing about any lease. It does not show which leases were
    /// renewed, so no further lease ends.
    const fn is_total(&self) -> bool {
        matches!(self, Self::Unreadable(_) | Self::Unusable(_))
    }
}

impl Leases {
    /// Returns the devices whose leases have not ended at `now_secs`, in wall time. While the file
    /// has a fault, earlier leases of addresses that it does not have stay in force.
    pub fn look(&mut self, path: &Path, now_secs: u64) -> &[Neighbour] {
        let fingerprint = FileFingerprint::of(path);
        if fingerprint.is_none() || fingerprint != self.read {
            match read(path) {
                Ok(text) => {
                    self.take(read_leases(&text), now_secs);
                    self.read = fingerprint;
                }
                Err(error) => {
                    (self.fault, self.read) =
                        (Some(LeasesFault::Unreadable(error.to_string())), None);
                }
            }
            self.valid_secs = 0..0;
        }
        if !self.valid_secs.contains(&now_secs) {
            self.end_leases(now_secs);
        }
        if !self.is_untold() {
            self.told_secs = now_secs;
        }
        &self.devices
    }

    fn is_untold(&self) -> bool {
        self.fault.as_ref().is_some_and(LeasesFault::is_total)
    }

    /// Returns why earlier leases stay in force; `None` if only the current file counts.
    pub fn fault(&self, path: &Path) -> Option<String> {
        let file = path.display();
        Some(match self.fault.as_ref()? {
            LeasesFault::Unreadable(error) => format!(
                "cannot read the leases in {file}: {error}; earlier data about devices stays in \
                 force"
            ),
            LeasesFault::Unusable(fault) => format!(
                "cannot read the leases in {file}: {fault}; earlier data about devices stays in \
                 force"
            ),
            LeasesFault::Partial(fault) => format!(
                "cannot read all leases in {file}: {fault}; for addresses that are not in other \
                 lines, earlier leases stay in force until they end"
            ),
            LeasesFault::Empty if self.devices.is_empty() => return None,
            LeasesFault::Empty => format!(
                "{file} has no leases any more; earlier leases stay in force until they end"
            ),
        })
    }

    fn take(&mut self, text: LeaseText, now_secs: u64) {
        self.fault = LeasesFault::of(&text);
        let mut earlier = std::mem::replace(&mut self.leases, text.leases);
        let Some(fault) = &self.fault else { return };
        let named: HashSet<IpAddr> = self.leases.iter().map(|lease| lease.device.address).collect();
        earlier.retain(|lease| {
            let is_over = !fault.is_total() && lease.is_over(now_secs);
            !is_over && !named.contains(&lease.device.address)
        });
        earlier.truncate(MAX_NEIGHBOURS);
        self.leases.append(&mut earlier);
        self.leases.sort_by_key(|lease| lease.device.address);
    }

    fn end_leases(&mut self, now_secs: u64) {
        if self.is_untold() {
            self.valid_secs = 0..u64::MAX;
            self.devices = devices_at(&self.leases, self.told_secs);
            return;
        }
        let ends = self.leases.iter().filter_map(|lease| lease.end_secs);
        let next = ends.filter(|end| *end > now_secs).min();
        self.valid_secs = now_secs..next.unwrap_or(u64::MAX);
        self.devices = devices_at(&self.leases, now_secs);
    }
}

/// Returns why the leases cannot be read, or not all of them; `None` if they can be read.
pub fn fault_of_leases(path: &Path) -> Option<String> {
    match read(path) {
        Ok(text) => read_leases(&text).fault.map(|fault| fault.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let octets = read_with_earlier(path, MAX_OCTETS, &mut read_regular)?;
    Ok(String::from_utf8_lossy(&octets).into_owned())
}

#[cfg(test)]
mod tests;
