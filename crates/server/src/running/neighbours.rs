//! Maps IP addresses to hardware addresses with the kernel's neighbour table, if the policy
//! identifies clients by these. A device is then recognized when it changes its IPv6 address for
//! privacy (RFC 8981).

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use avocet_config::Config;
use avocet_config::policy::PolicyConfig;
use avocet_io::neighbours::{Heard, NeighbourEvents, neighbours};
use avocet_io::poll::{Interest, Poller, Trigger};
use avocet_nameserver::clock::wall_secs;
use avocet_policy::client::{MAX_NEIGHBOURS, Mac, Neighbour};

use crate::running::Running;
use crate::running::conditions::Condition;
use crate::running::leases::Leases;

/// Seconds between two readings of the table, leases and names. Changes of the table are heard as
/// they happen.
const LOOK_SECS: u32 = 5;
/// Seconds for which an address keeps its MAC address after it has left the table. The kernel
/// removes entries of silent neighbours, and the device may return at any time.
const KEEP_SECS: u32 = 600;
/// Most times in a second that changes are heard. Any host on the link can cause changes; those
/// beyond wait for the next second.
const MAX_HEARD: u32 = 20;

/// Follows the table.
pub(crate) struct NeighbourWatch {
    due: u32,
    /// The configuration at the last reading, and the addresses that it tests.
    config: Option<Arc<Config>>,
    wanted: Option<WantedMacs>,
    known: KnownDevices,
    events: Option<NeighbourEvents>,
    pace: Pace,
    /// For the poller.
    token: u64,
    leases: Leases,
    leased: Vec<Neighbour>,
}

/// How often changes were heard in this second.
#[derive(Default)]
struct Pace {
    second: u32,
    heard: u32,
    /// Whether the poller ignores changes until the next second.
    is_resting: bool,
}

impl NeighbourWatch {
    pub(crate) fn new(token: u64) -> Self {
        Self {
            due: 0,
            config: None,
            wanted: None,
            known: KnownDevices::default(),
            events: None,
            pace: Pace::default(),
            token,
            leases: Leases::default(),
            leased: Vec::new(),
        }
    }

    /// Reads the table, leases and names if that is due, and puts changes in force. `now` is
    /// monotonic, in seconds.
    pub(crate) fn look(&mut self, running: &Running, poller: &Poller, now: u32) {
        self.end_rest(poller, now);
        let state = running.shared.snapshot();
        let config = &state.config;
        let is_same = self.config.as_ref().is_some_and(|last| Arc::ptr_eq(last, config));
        if now < self.due && is_same {
            return;
        }
        self.due = now.saturating_add(LOOK_SECS);
        if !is_same {
            self.wanted = WantedMacs::of(&config.policy);
            self.config = Some(config.clone());
        }
        self.subscribe(poller);
        self.read_table(running, now);
        let policy = &config.policy;
        let path = policy.leases.as_ref().filter(|_| !policy.is_empty());
        let leased = path.map(|path| self.leases.look(path, wall_secs())).unwrap_or_default();
        self.leased = leased.to_vec();
        let fault = path.and_then(|path| self.leases.fault(path));
        running.conditions.set(Condition::Leases, fault);
        self.put_in_force(running);
    }

    /// Takes the changes of the table.
    pub(crate) fn hear(&mut self, running: &Running, poller: &Poller) {
        let now = running.shared.name_server.clock.now().secs();
        let (Some(events), Some(wanted)) = (&mut self.events, &self.wanted) else { return };
        let (known, mut is_changed) = (&mut self.known, false);
        let heard = events.read(|neighbour| is_changed |= known.meet(neighbour, wanted, now));
        if self.pace.is_enough(now) {
            self.pace.is_resting = poller.remove(&*events).is_ok();
        }
        match heard {
            Ok(Heard::Changes) => {}
            Ok(Heard::Lost) => self.due = now,
            Err(error) => {
                tracing::warn!(%error, "cannot hear changes of the neighbour table");
                self.close();
            }
        }
        if is_changed {
            self.put_in_force(running);
        }
    }

    /// Ends the subscription.
    pub(crate) fn close(&mut self) {
        self.events = None;
    }

    /// Subscribes to changes if the policy tests hardware addresses. Without them, new devices are
    /// known after the next reading.
    fn subscribe(&mut self, poller: &Poller) {
        if self.wanted.is_none() {
            return self.close();
        }
        if self.events.is_some() {
            return;
        }
        self.pace = Pace::default();
        let Ok(events) = NeighbourEvents::subscribe() else { return };
        let added = poller.add(&events, self.token, Interest::Read, Trigger::Level);
        self.events = added.ok().map(|()| events);
    }

    fn end_rest(&mut self, poller: &Poller, now: u32) {
        if !self.pace.is_resting || self.pace.second == now {
            return;
        }
        if let Some(events) = &self.events {
            let added = poller.add(events, self.token, Interest::Read, Trigger::Level);
            self.pace.is_resting = added.is_err();
        }
    }

    /// Reads the neighbours that the policy tests. If the table cannot be read, known ones remain
    /// for a while; leases and names are used in any case.
    fn read_table(&mut self, running: &Running, now: u32) {
        let Some(wanted) = &self.wanted else {
            self.known = KnownDevices::default();
            return running.conditions.set(Condition::Neighbours, None);
        };
        let fault = match neighbours(MAX_NEIGHBOURS) {
            Ok(found) => {
                for neighbour in found {
                    self.known.meet(neighbour, wanted, now);
                }
                None
            }
            Err(error) => Some(fault(&error)),
        };
        running.conditions.set(Condition::Neighbours, fault);
        self.known.forget(now, KEEP_SECS);
    }

    fn put_in_force(&self, running: &Running) {
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
        if let Err(error) = running.reloader.change_policy(|parts| parts.neighbours = found.into())
        {
            tracing::error!(error = error.to_string(), "cannot apply the neighbour table");
        }
    }
}

impl Pace {
    /// Counts a time, and returns whether it was the last one for this second.
    fn is_enough(&mut self, now: u32) -> bool {
        if self.second != now {
            (self.second, self.heard) = (now, 0);
        }
        self.heard += 1;
        self.heard >= MAX_HEARD
    }
}

/// The hardware addresses of IP addresses, of the present table and of some time before.
#[derive(Default)]
struct KnownDevices {
    by_address: HashMap<IpAddr, SeenDevice>,
    swept: u32,
}

/// A hardware address, and when the table had it last.
struct SeenDevice {
    mac: Mac,
    at: u32,
}

impl KnownDevices {
    /// Takes an entry of the table. Returns whether that changes what is known.
    fn meet(&mut self, (ip, mac): (IpAddr, [u8; 6]), wanted: &WantedMacs, now: u32) -> bool {
        let seen = SeenDevice { mac: Mac(mac), at: now };
        if !wanted.contains(seen.mac) {
            // Another device has taken the address.
            return self.by_address.remove(&ip).is_some();
        }
        if self.by_address.len() >= MAX_NEIGHBOURS
            && !self.by_address.contains_key(&ip)
            && !self.make_room(now)
        {
            return false;
        }
        let mac = seen.mac;
        self.by_address.insert(ip, seen).is_none_or(|before| before.mac != mac)
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
        self.by_address.retain(|_, seen| now.saturating_sub(seen.at) <= after_secs);
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

/// Why clients configured by MAC address would not be recognized; `None` if there are no such
/// clients.
pub fn fault_of_neighbours(policy: &PolicyConfig) -> Option<String> {
    WantedMacs::of(policy)?;
    neighbours(MAX_NEIGHBOURS).err().map(|error| fault(&error))
}

fn fault(error: &io::Error) -> String {
    format!(
        "cannot read the kernel's neighbour table: {error}; MAC addresses of clients and groups \
         match only through leases: allow AF_NETLINK (RestrictAddressFamilies= in the unit file)"
    )
}

/// The hardware addresses that the policy tests.
enum WantedMacs {
    /// A rule may test any address.
    All,
    /// The addresses of clients and groups.
    These(HashSet<Mac>),
}

impl WantedMacs {
    /// `None` if the policy tests no hardware addresses.
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
        assert!(known.meet((ip, mac), &wanted, 100));
        assert!(!known.meet((ip, mac), &wanted, 200), "it is known");
        known.forget(200 + KEEP_SECS, KEEP_SECS);
        assert_eq!(addresses(&known.pick(&wanted)), ["10.0.0.9"]);
        known.forget(201 + KEEP_SECS, KEEP_SECS);
        assert_eq!(addresses(&known.pick(&wanted)), [""; 0]);

        assert!(known.meet((ip, mac), &wanted, 900));
        assert!(known.meet((ip, [2, 0, 0, 0, 0, 7]), &wanted, 900), "another device");
        assert_eq!(addresses(&known.pick(&wanted)), [""; 0]);
        assert!(!known.meet((ip, [2, 0, 0, 0, 0, 8]), &wanted, 900), "no device of interest");
    }

    #[test]
    fn known_addresses_are_bounded_and_those_that_left_the_table_give_way() {
        let mut known = KnownDevices::default();
        let neighbour = |number: u32| (IpAddr::from(number.to_be_bytes()), [2; 6]);
        for number in 0..MAX_NEIGHBOURS as u32 {
            assert!(known.meet(neighbour(number), &All, 100));
        }
        let new = neighbour(u32::MAX);
        assert!(!known.meet(new, &All, 101), "all may still be in the table");
        assert!(!known.meet(neighbour(7), &All, 120), "it is in the table");
        assert!(known.meet(new, &All, 121));
        assert_eq!(addresses(&known.pick(&All)), ["0.0.0.7", "255.255.255.255"]);
    }

    #[test]
    fn changes_are_heard_so_many_times_in_a_second() {
        let mut pace = Pace::default();
        let heard = |pace: &mut Pace, now| (1..).find(|_| pace.is_enough(now)).unwrap();
        assert_eq!((heard(&mut pace, 7), heard(&mut pace, 8)), (MAX_HEARD, MAX_HEARD));
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
            table.iter().for_each(|neighbour| assert!(known.meet(*neighbour, &All, 0)));
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
