//! The devices at IP addresses, by hardware address, if the policy identifies clients by hardware
//! addresses.
//!
//! ```text
//! NeighbourWatch (events and readings of the kernel's table, leases) --\
//! thread `strangers` (addresses of new clients) ------------------------> Devices -> Parts
//! thread `names` ------------------------------------------------------/
//! ```

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avocet_config::Config;
use avocet_config::policy::PolicyConfig;
use avocet_nameserver::policy::{Parts, macs_are_wanted};
use avocet_policy::client::{MAX_NEIGHBOURS, Mac, Neighbour};

use crate::running::Running;

/// Seconds between two readings of the kernel's neighbour table, the DHCP leases and the names that
/// PTR queries have found. Changes of the table also arrive as events.
pub(crate) const LOOK_SECS: u32 = 5;
/// Seconds for which an address keeps its MAC address after it has left the neighbour table. The
/// kernel removes entries of silent neighbours, and the device may return at any time. The value
/// exceeds the time that an address stays identified without another check of the table.
pub(crate) const KEEP_SECS: u32 = 600;

/// The known devices, shared by the threads that discover devices.
#[derive(Default)]
pub(crate) struct Devices {
    table: Mutex<DeviceTable>,
}

impl Devices {
    /// Locks the table. Devices that are found under the lock are also put in force under it, so
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
    leased: LeasedDevices,
}

impl DeviceTable {
    /// Applies the hardware addresses that a configuration tests. Returns whether the configuration
    /// has changed.
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

    /// Returns whether the policy depends on hardware addresses.
    pub(crate) fn are_wanted(&self) -> bool {
        self.wanted.is_some()
    }

    /// Records the contents of the lease file.
    pub(crate) fn lease(&mut self, devices: &[Neighbour]) {
        if self.leased.devices != devices {
            self.leased = LeasedDevices::new(devices);
        }
    }

    /// Records an entry of the kernel's neighbour table.
    pub(crate) fn meet(&mut self, (ip, mac): (IpAddr, [u8; 6]), now: u32) -> Met {
        let Some(wanted) = &self.wanted else { return Met::Known };
        let (mac, leased) = (Mac(mac), &self.leased);
        let is_relevant =
            wanted.contains(mac) || leased.has_device(mac) || leased.addresses.contains(&ip);
        if is_relevant { self.known.meet(ip, mac, now) } else { self.known.lose(ip) }
    }

    /// Removes devices that were not in the table for some time.
    pub(crate) fn forget(&mut self, now: u32) {
        self.known.forget(now, KEEP_SECS);
    }

    /// Puts devices, leases and names in force. First, marks addresses that have lost their device
    /// as not identified.
    pub(crate) fn put_in_force(&mut self, running: &Running) {
        for ip in self.known.gone.drain(..) {
            running.shared.name_server.identified.remove(ip);
        }
        let state = running.shared.snapshot();
        // The name in a device's lease is more recent than PTR records, and the kernel's table is
        // more recent than leases.
        let mut found = running.names.found().to_vec();
        found.extend(self.devices());
        if state.config.policy.is_empty() || *found == *state.parts.neighbours {
            return;
        }
        let change = |parts: &mut Parts| parts.change_neighbours(found.into());
        if let Err(error) = running.reloader.change_policy(change) {
            tracing::error!(error = error.to_string(), "cannot apply the neighbour table");
        }
    }
}

impl DeviceTable {
    /// Returns the devices of leases and of the kernel's table, in this order.
    fn devices(&self) -> Vec<Neighbour> {
        // The holder of a lease may have disconnected, and another device may use its address.
        let holds = |lease: &&Neighbour| {
            let present = self.known.by_address.get(&lease.address);
            present.is_none_or(|seen| lease.mac.is_none_or(|mac| mac == seen.mac))
        };
        let mut devices: Vec<Neighbour> =
            self.leased.devices.iter().filter(holds).cloned().collect();
        if let Some(wanted) = &self.wanted {
            devices.extend(self.known.pick(wanted, &self.leased));
        }
        devices
    }
}

/// The devices with leases.
#[derive(Default)]
struct LeasedDevices {
    devices: Vec<Neighbour>,
    /// The name of each device, if its lease has one.
    names: HashMap<Mac, Option<String>>,
    addresses: HashSet<IpAddr>,
}

impl LeasedDevices {
    fn new(devices: &[Neighbour]) -> Self {
        let mut names = HashMap::new();
        for device in devices {
            let Some(mac) = device.mac else { continue };
            let name: &mut Option<String> = names.entry(mac).or_default();
            *name = device.name.clone().or_else(|| name.take());
        }
        let addresses = devices.iter().map(|device| device.address).collect();
        Self { devices: devices.to_vec(), names, addresses }
    }

    fn has_device(&self, mac: Mac) -> bool {
        self.names.contains_key(&mac)
    }
}

/// The effect of an entry of the neighbour table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Met {
    /// The entry was already known.
    Known,
    /// The entry changes the known devices.
    Changed,
    /// There is no room for the entry.
    NoRoom,
}

/// The hardware addresses of IP addresses, from the present table and from recent ones.
#[derive(Default)]
struct KnownDevices {
    by_address: HashMap<IpAddr, SeenDevice>,
    swept: u32,
    /// Addresses that were removed since the devices were last put in force.
    gone: Vec<IpAddr>,
}

/// A hardware address, and the last time at which the neighbour table had it.
struct SeenDevice {
    mac: Mac,
    at: u32,
}

impl KnownDevices {
    /// Removes an address that is now used by a device that the policy does not test.
    fn lose(&mut self, ip: IpAddr) -> Met {
        self.by_address.remove(&ip).map_or(Met::Known, |_| Met::Changed)
    }

    /// Records an address with its device.
    fn meet(&mut self, ip: IpAddr, mac: Mac, now: u32) -> Met {
        if self.by_address.len() >= MAX_NEIGHBOURS
            && !self.by_address.contains_key(&ip)
            && !self.make_room(now)
        {
            return Met::NoRoom;
        }
        match self.by_address.insert(ip, SeenDevice { mac, at: now }) {
            Some(before) if before.mac == mac => Met::Known,
            _ => Met::Changed,
        }
    }

    /// Removes addresses that have left the table, at most once a second. Returns whether there is
    /// room.
    fn make_room(&mut self, now: u32) -> bool {
        if self.swept != now {
            self.swept = now;
            self.forget(now, 2 * LOOK_SECS);
        }
        self.by_address.len() < MAX_NEIGHBOURS
    }

    /// Removes addresses that were not in the table for this time.
    fn forget(&mut self, now: u32, after_secs: u32) {
        let is_old = |seen: &SeenDevice| now.saturating_sub(seen.at) > after_secs;
        let old = self.by_address.extract_if(|_, seen| is_old(seen)).map(|(ip, _)| ip);
        self.gone.extend(old);
    }

    /// Returns the neighbours that the policy tests or that have a lease, ordered by address. A
    /// device with a lease has the lease's name at all of its addresses.
    fn pick(&self, wanted: &WantedMacs, leased: &LeasedDevices) -> Vec<Neighbour> {
        let neighbour = |(address, seen): (&IpAddr, &SeenDevice)| {
            let name = leased.names.get(&seen.mac);
            let is_relevant = name.is_some() || wanted.contains(seen.mac);
            let name = name.cloned().flatten();
            is_relevant.then_some(Neighbour { address: *address, mac: Some(seen.mac), name })
        };
        let mut picked: Vec<Neighbour> = self.by_address.iter().filter_map(neighbour).collect();
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
    /// Returns the hardware addresses that a policy tests; `None` if the policy does not depend on
    /// them.
    fn of(policy: &PolicyConfig) -> Option<Self> {
        if !macs_are_wanted(policy) {
            return None;
        }
        if policy.rules.iter().any(|rule| rule.enabled && rule.when.contains("client.mac")) {
            return Some(Self::All);
        }
        let ids = policy.clients.iter().flat_map(|client| &client.ids);
        let members = policy.groups.iter().flat_map(|group| &group.clients);
        let macs: HashSet<Mac> = ids.chain(members).filter_map(|text| text.parse().ok()).collect();
        Some(Self::These(macs))
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

    /// A table for the policy `more` with these leases.
    fn table(more: &str, leased: &[Neighbour]) -> DeviceTable {
        let mut table = DeviceTable { wanted: wanted(more), ..DeviceTable::default() };
        table.lease(leased);
        table
    }

    fn lease(address: &str, mac: u8, name: &str) -> Neighbour {
        let mac = Some(Mac([2, 0, 0, 0, 0, mac]));
        Neighbour { address: address.parse().unwrap(), mac, name: Some(name.to_owned()) }
    }

    const DEVICE: &str = "[[client]]\nname = \"c\"\nids = [\"02:00:00:00:00:01\"]\n";
    const NAMED: &str = "[policy]\nleases = \"l\"\n[[client]]\nname = \"c\"\nids = [\"tablet\"]\n";

    #[test]
    fn an_address_keeps_its_device_for_a_while_unless_another_takes_it() {
        let (ip, mac) = (IpAddr::from([10, 0, 0, 9]), [2, 0, 0, 0, 0, 1]);
        let mut table = table(DEVICE, &[]);
        assert_eq!(table.meet((ip, mac), 100), Met::Changed);
        assert_eq!(table.meet((ip, mac), 200), Met::Known);
        table.forget(200 + KEEP_SECS);
        assert_eq!(addresses(&table.devices()), ["10.0.0.9"]);
        table.forget(201 + KEEP_SECS);
        assert_eq!(addresses(&table.devices()), [""; 0]);
        assert_eq!(table.known.gone, [ip], "it has to be identified again");

        assert_eq!(table.meet((ip, mac), 900), Met::Changed);
        assert_eq!(table.meet((ip, [2, 0, 0, 0, 0, 7]), 900), Met::Changed, "another device");
        assert_eq!(addresses(&table.devices()), [""; 0]);
        assert_eq!(table.meet((ip, [2, 0, 0, 0, 0, 8]), 900), Met::Known, "no device of interest");
    }

    #[test]
    fn a_lease_does_not_count_while_another_device_has_its_address() {
        for policy in [DEVICE, NAMED] {
            let (ip, held) = (IpAddr::from([10, 0, 0, 9]), lease("10.0.0.9", 1, "tablet"));
            let mut table = table(policy, std::slice::from_ref(&held));
            assert_eq!(addresses(&table.devices()), ["10.0.0.9"]);
            assert_eq!(table.meet((ip, [2, 0, 0, 0, 0, 7]), 100), Met::Changed);
            assert_eq!(addresses(&table.devices()), [""; 0]);
            assert_eq!(table.meet((ip, [2, 0, 0, 0, 0, 1]), 200), Met::Changed);
            assert_eq!(table.devices(), [held.clone(), held]);
        }
    }

    #[test]
    fn a_device_has_the_name_of_its_lease_at_all_addresses() {
        let mut table = table(NAMED, &[lease("10.0.0.9", 1, "tablet")]);
        let ip = IpAddr::from([0xfd; 16]);
        assert_eq!(table.meet((ip, [2, 0, 0, 0, 0, 1]), 100), Met::Changed);
        assert_eq!(table.meet((IpAddr::from([0xfe; 16]), [2, 0, 0, 0, 0, 7]), 100), Met::Known);
        let found = table.devices();
        assert_eq!(addresses(&found), ["10.0.0.9", &ip.to_string()]);
        assert_eq!(found[1].name.as_deref(), Some("tablet"));
    }

    #[test]
    fn known_addresses_are_bounded_and_those_that_left_the_table_give_way() {
        let mut table = DeviceTable { wanted: Some(All), ..DeviceTable::default() };
        let neighbour = |number: u32| (IpAddr::from(number.to_be_bytes()), [2; 6]);
        for number in 0..MAX_NEIGHBOURS as u32 {
            assert_eq!(table.meet(neighbour(number), 100), Met::Changed);
        }
        let new = neighbour(u32::MAX);
        assert_eq!(table.meet(new, 101), Met::NoRoom, "all may still be in the table");
        assert_eq!(table.meet(neighbour(7), 120), Met::Known, "it is in the table");
        assert_eq!(table.meet(new, 121), Met::Changed);
        assert_eq!(addresses(&table.devices()), ["0.0.0.7", "255.255.255.255"]);
    }

    #[test]
    fn only_who_is_asked_about_is_looked_for() {
        let neighbours = [
            (IpAddr::from([10, 0, 0, 9]), [2, 0, 0, 0, 0, 1]),
            (IpAddr::from([10, 0, 0, 2]), [2, 0, 0, 0, 0, 2]),
            (IpAddr::from([0xfd; 16]), [2, 0, 0, 0, 0, 1]),
        ];
        let picked = |more: &str| {
            let mut table = DeviceTable { wanted: Some(All), ..DeviceTable::default() };
            for neighbour in neighbours {
                assert_eq!(table.meet(neighbour, 0), Met::Changed);
            }
            table.wanted = Some(wanted(more)?);
            Some(addresses(&table.devices()))
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
