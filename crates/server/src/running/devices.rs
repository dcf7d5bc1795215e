//! The devices behind IP addresses, by hardware address, if the policy identifies clients by these.
//!
//! ```text
//! NeighbourWatch (events and readings of the kernel's table, leases) --\
//! thread `strangers` (addresses without a verdict) ---------------------> Devices -> Parts
//! thread `names` ------------------------------------------------------/
//! ```

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avocet_config::Config;
use avocet_config::policy::PolicyConfig;
use avocet_nameserver::policy::Parts;
use avocet_policy::client::{MAX_NEIGHBOURS, Mac, Neighbour};

use crate::running::Running;

/// Seconds between two readings of the table, leases and names. Changes of the table are heard as
/// they happen.
pub(crate) const LOOK_SECS: u32 = 5;
/// Seconds for which an address keeps its MAC address after it has left the table. The kernel
/// removes entries of silent neighbours, and the device may return at any time. Longer than an
/// address stays identified without another look at the table.
pub(crate) const KEEP_SECS: u32 = 600;

/// The devices, shared by the threads that learn of them.
#[derive(Default)]
pub(crate) struct Devices {
    table: Mutex<DeviceTable>,
}

impl Devices {
    /// Locks the table. Devices that are learnt under the lock are also put in force under it, so
    /// that no older state replaces a later one.
    pub(crate) fn lock(&self) -> MutexGuard<'_, DeviceTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The known devices.
#[derive(Default)]
pub(crate) struct DeviceTable {
    /// The configuration that the thread last used, and the hardware addresses that it tests.
    config: Option<Arc<Config>>,
    wanted: Option<WantedMacs>,
    known: KnownDevices,
    /// The contents of the lease file.
    pub(crate) leased: Vec<Neighbour>,
}

impl DeviceTable {
    /// Takes the hardware addresses that a configuration tests. Returns whether it is another
    /// configuration than before.
    pub(crate) fn follow(&mut self, config: &Arc<Config>) -> bool {
        if self.config.as_ref().is_some_and(|last| Arc::ptr_eq(last, config)) {
            return false;
        }
        self.wanted = WantedMacs::of(&config.policy);
        self.config = Some(config.clone());
        if self.wanted.is_none() {
            self.known = KnownDevices::default();
        }
        true
    }

    /// Reports whether the policy tests any hardware addresses.
    pub(crate) fn are_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// Takes an entry of the kernel's table.
    pub(crate) fn meet(&mut self, neighbour: (IpAddr, [u8; 6]), now: u32) -> Met {
        match &self.wanted {
            Some(wanted) => self.known.meet(neighbour, wanted, now),
            None => Met::Known,
        }
    }

    /// Forgets devices that were not in the table for some time.
    pub(crate) fn forget(&mut self, now: u32) {
        self.known.forget(now, KEEP_SECS);
    }

    /// Puts devices, leases and names in force. An address that has lost its device is a stranger
    /// before that.
    pub(crate) fn put_in_force(&mut self, running: &Running) {
        for ip in self.known.gone.drain(..) {
            running.shared.name_server.identified.remove(ip);
        }
        let state = running.shared.snapshot();
        // The name in a device's lease is more recent than PTR records, and the kernel's table is
        // more recent than leases.
        let mut found = running.names.found().to_vec();
        found.extend_from_slice(&self.leased);
        if let Some(wanted) = &self.wanted {
            found.extend(self.known.pick(wanted));
        }
        if state.config.policy.is_empty() || *found == *state.parts.neighbours {
            return;
        }
        let change = |parts: &mut Parts| parts.change_neighbours(found.into());
        if let Err(error) = running.reloader.change_policy(change) {
            tracing::error!(error = error.to_string(), "cannot apply the neighbour table");
        }
    }
}

/// The result of an entry of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Met {
    /// The entry was known.
    Known,
    /// The entry changes the known devices.
    Changed,
    /// There is no room for the entry.
    NoRoom,
}

/// The hardware addresses of IP addresses, of the present table and of some time before.
#[derive(Default)]
struct KnownDevices {
    by_address: HashMap<IpAddr, SeenDevice>,
    swept: u32,
    /// Addresses that were forgotten since the devices were last put in force.
    gone: Vec<IpAddr>,
}

/// A hardware address, and when the table had it last.
struct SeenDevice {
    mac: Mac,
    at: u32,
}

impl KnownDevices {
    /// Takes an entry of the table.
    fn meet(&mut self, (ip, mac): (IpAddr, [u8; 6]), wanted: &WantedMacs, now: u32) -> Met {
        let seen = SeenDevice { mac: Mac(mac), at: now };
        if !wanted.contains(seen.mac) {
            // Another device has taken the address.
            return self.by_address.remove(&ip).map_or(Met::Known, |_| Met::Changed);
        }
        if self.by_address.len() >= MAX_NEIGHBOURS
            && !self.by_address.contains_key(&ip)
            && !self.make_room(now)
        {
            return Met::NoRoom;
        }
        let mac = seen.mac;
        match self.by_address.insert(ip, seen) {
            Some(before) if before.mac == mac => Met::Known,
            _ => Met::Changed,
        }
    }

    /// Forgets addresses that have left the table, at most once a second. Returns whether there is
    /// room.
    fn make_room(&mut self, now: u32) -> bool {
        if self.swept != now {
            self.swept = now;
            self.forget(now, 2 * LOOK_SECS);
        }
        self.by_address.len() < MAX_NEIGHBOURS
    }

    /// Forgets addresses that were not in the table for this time.
    fn forget(&mut self, now: u32, after_secs: u32) {
        let is_old = |seen: &SeenDevice| now.saturating_sub(seen.at) > after_secs;
        let old = self.by_address.extract_if(|_, seen| is_old(seen)).map(|(ip, _)| ip);
        self.gone.extend(old);
    }

    /// Returns the relevant neighbours, ordered by address.
    fn pick(&self, wanted: &WantedMacs) -> Vec<Neighbour> {
        let relevant = self.by_address.iter().filter(|(_, seen)| wanted.contains(seen.mac));
        let mut picked: Vec<Neighbour> = relevant
            .map(|(address, seen)| Neighbour { address: *address, mac: Some(seen.mac), name: None })
            .collect();
        picked.sort_by_key(|neighbour| neighbour.address);
        picked
    }
}

/// The hardware addresses that the policy tests.
enum WantedMacs {
    /// A rule may test any address.
    All,
    /// The addresses of clients and groups.
    These(HashSet<Mac>),
}

impl WantedMacs {
    /// Returns the tests of a policy; `None` if the policy tests no hardware addresses.
    fn of(policy: &PolicyConfig) -> Option<Self> {
        if policy.is_empty() {
            return None;
        }
        if policy.rules.iter().any(|rule| rule.enabled && rule.when.contains("client.mac")) {
            return Some(Self::All);
        }
        let ids = policy.clients.iter().flat_map(|client| &client.ids);
        let members = policy.groups.iter().flat_map(|group| &group.clients);
        let macs: HashSet<Mac> = ids.chain(members).filter_map(|text| text.parse().ok()).collect();
        (!macs.is_empty()).then_some(Self::These(macs))
    }

    fn contains(&self, mac: Mac) -> bool {
        match self {
            Self::All => true,
            Self::These(macs) => macs.contains(&mac),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::WantedMacs::All;
    use super::*;

    fn wanted(more: &str) -> Option<WantedMacs> {
        let text = format!("[[list]]\nname = \"l\"\nfile = \"x\"\n{more}");
        WantedMacs::of(&Config::from_text(None, &text, &BTreeMap::new()).unwrap().policy)
    }

    fn addresses(neighbours: &[Neighbour]) -> Vec<String> {
        neighbours.iter().map(|neighbour| neighbour.address.to_string()).collect()
    }

    #[test]
    fn an_address_keeps_its_device_for_a_while_unless_another_takes_it() {
        let wanted = wanted("[[client]]\nname = \"c\"\nids = [\"02:00:00:00:00:01\"]\n").unwrap();
        let (ip, mac) = (IpAddr::from([10, 0, 0, 9]), [2, 0, 0, 0, 0, 1]);
        let mut known = KnownDevices::default();
        let meet = |known: &mut KnownDevices, mac, now| known.meet((ip, mac), &wanted, now);
        assert_eq!(meet(&mut known, mac, 100), Met::Changed);
        assert_eq!(meet(&mut known, mac, 200), Met::Known);
        known.forget(200 + KEEP_SECS, KEEP_SECS);
        assert_eq!(addresses(&known.pick(&wanted)), ["10.0.0.9"]);
        known.forget(201 + KEEP_SECS, KEEP_SECS);
        assert_eq!(addresses(&known.pick(&wanted)), [""; 0]);
        assert_eq!(known.gone, [ip], "it has to be identified again");

        assert_eq!(meet(&mut known, mac, 900), Met::Changed);
        assert_eq!(meet(&mut known, [2, 0, 0, 0, 0, 7], 900), Met::Changed, "another device");
        assert_eq!(addresses(&known.pick(&wanted)), [""; 0]);
        assert_eq!(meet(&mut known, [2, 0, 0, 0, 0, 8], 900), Met::Known, "no device of interest");
    }

    #[test]
    fn known_addresses_are_bounded_and_those_that_left_the_table_give_way() {
        let mut known = KnownDevices::default();
        let neighbour = |number: u32| (IpAddr::from(number.to_be_bytes()), [2; 6]);
        for number in 0..MAX_NEIGHBOURS as u32 {
            assert_eq!(known.meet(neighbour(number), &All, 100), Met::Changed);
        }
        let new = neighbour(u32::MAX);
        assert_eq!(known.meet(new, &All, 101), Met::NoRoom, "all may still be in the table");
        assert_eq!(known.meet(neighbour(7), &All, 120), Met::Known, "it is in the table");
        assert_eq!(known.meet(new, &All, 121), Met::Changed);
        assert_eq!(addresses(&known.pick(&All)), ["0.0.0.7", "255.255.255.255"]);
    }

    #[test]
    fn only_who_is_asked_about_is_looked_for() {
        let table = [
            (IpAddr::from([10, 0, 0, 9]), [2, 0, 0, 0, 0, 1]),
            (IpAddr::from([10, 0, 0, 2]), [2, 0, 0, 0, 0, 2]),
            (IpAddr::from([0xfd; 16]), [2, 0, 0, 0, 0, 1]),
        ];
        let picked = |more: &str| {
            let wanted = wanted(more)?;
            let mut known = KnownDevices::default();
            for neighbour in table {
                assert_eq!(known.meet(neighbour, &All, 0), Met::Changed);
            }
            Some(addresses(&known.pick(&wanted)))
        };
        let device = "[[client]]\nname = \"c\"\nids = [\"02:00:00:00:00:01\", \"10.0.0.7\"]\n";
        let rule = "[[rule]]\nname = \"r\"\nwhen = 'client.mac == \"02:00:00:00:00:02\"'\naction \
                    = \"block\"\n";
        assert_eq!(picked(""), None);
        assert_eq!(picked("[[client]]\nname = \"c\"\nids = [\"10.0.0.7\"]\n"), None);
        assert_eq!(
            picked(device).unwrap(),
            ["10.0.0.9", "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd"]
        );
        assert_eq!(picked(rule).unwrap().len(), 3);
    }
}
