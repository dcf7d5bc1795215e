//! Maps IP addresses to hardware addresses with the kernel's neighbour table, if the policy
//! identifies clients by hardware addresses. A device is then recognized even after it changes its
//! IPv6 address for privacy (RFC 8981).

use std::io;

use avocet_config::policy::PolicyConfig;
use avocet_io::links::LinkEvents;
use avocet_io::neighbours::{Heard, NeighbourEvents, neighbours};
use avocet_io::poll::Poller;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::leases::Leases;
use avocet_nameserver::policy::macs_are_wanted;
use avocet_policy::client::MAX_NEIGHBOURS;

use crate::running::Running;
use crate::running::conditions::Condition;
use crate::running::devices::{DeviceTable, LOOK_SECS, Met};
use crate::running::kernel_events::KernelEvents;

/// The watch over the kernel's tables of neighbours and of networks on the links.
pub(crate) struct NeighbourWatch {
    due: u32,
    events: KernelEvents<NeighbourEvents>,
    links: KernelEvents<LinkEvents>,
    leases: Leases,
}

impl NeighbourWatch {
    /// Returns a watch with the tokens for the poller: of neighbours, and of links.
    pub(crate) fn new(neighbours: u64, links: u64) -> Self {
        let (events, links) = (KernelEvents::new(neighbours), KernelEvents::new(links));
        Self { due: 0, events, links, leases: Leases::default() }
    }

    /// Reads the table, leases and names if that is due, and puts changes in force. `now` is
    /// monotonic, in seconds.
    pub(crate) fn look(&mut self, running: &Running, poller: &Poller, now: u32) {
        self.events.end_rest(poller, now);
        self.links.end_rest(poller, now);
        let state = running.shared.snapshot();
        let mut devices = running.devices.lock();
        if !devices.follow(&state.config) && now < self.due {
            return;
        }
        self.due = now.saturating_add(LOOK_SECS);
        self.subscribe(poller, &devices);
        let policy = &state.config.policy;
        let path = policy.leases.as_ref().filter(|_| !policy.is_empty());
        let leased = path.map(|path| self.leases.look(path, wall_secs())).unwrap_or_default();
        devices.lease(leased);
        let fault = path.and_then(|path| self.leases.fault(path));
        running.conditions.set(Condition::Leases, fault);
        read_table(running, &mut devices, now);
        devices.put_in_force(running);
    }

    /// Reads the events of the table and records the changes.
    pub(crate) fn hear(&mut self, running: &Running, poller: &Poller) {
        let now = running.shared.name_server.clock.now().secs();
        let (mut devices, mut is_changed) = (running.devices.lock(), false);
        let heard = self.events.read(poller, now, |events| {
            events.read(|neighbour| is_changed |= devices.meet(neighbour, now) == Met::Changed)
        });
        if heard == Some(Heard::Lost) {
            self.due = now;
        }
        if is_changed {
            devices.put_in_force(running);
        }
    }

    /// Reads the events of links and routes. Wakes the thread that reads the networks on the links.
    pub(crate) fn hear_links(&mut self, running: &Running, poller: &Poller) {
        let now = running.shared.name_server.clock.now().secs();
        if self.links.read(poller, now, LinkEvents::discard).is_some() {
            running.shared.strangers.note_new_links();
        }
    }

    /// Ends the subscriptions.
    pub(crate) fn close(&mut self) {
        self.events.close();
        self.links.close();
    }

    /// Subscribes to events if the policy tests hardware addresses. Without events, new devices and
    /// networks are known after the next reading.
    fn subscribe(&mut self, poller: &Poller, devices: &DeviceTable) {
        if !devices.are_wanted() {
            return self.close();
        }
        self.events.open(poller, NeighbourEvents::subscribe);
        self.links.open(poller, LinkEvents::subscribe);
    }
}

/// Reads the neighbours that the policy tests. If the table cannot be read, known neighbours remain
/// for a while. Leases and names are used in any case.
fn read_table(running: &Running, devices: &mut DeviceTable, now: u32) {
    if !devices.are_wanted() {
        return running.conditions.set(Condition::Neighbours, None);
    }
    let fault = match neighbours(MAX_NEIGHBOURS) {
        Ok(found) => {
            for neighbour in found {
                devices.meet(neighbour, now);
            }
            None
        }
        Err(error) => Some(fault(&error)),
    };
    running.conditions.set(Condition::Neighbours, fault);
    devices.forget(now);
}

/// Returns the reason why clients configured by MAC address would not be recognized; `None` if
/// there are no such clients.
pub fn fault_of_neighbours(policy: &PolicyConfig) -> Option<String> {
    let are_wanted = macs_are_wanted(policy);
    neighbours(MAX_NEIGHBOURS).err().filter(|_| are_wanted).map(|error| fault(&error))
}

fn fault(error: &io::Error) -> String {
    format!(
        "cannot read the kernel's neighbour table: {error}; MAC addresses of clients and groups \
         match only through leases: allow AF_NETLINK (RestrictAddressFamilies= in the unit file)"
    )
}
