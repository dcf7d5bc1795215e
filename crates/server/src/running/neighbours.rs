//! Maps IP addresses to hardware addresses with the kernel's neighbour table, if the policy
//! identifies clients by hardware addresses. A device is then recognized even after it changes its
//! IPv6 address for privacy (RFC 8981).

use std::io;

use avocet_config::policy::PolicyConfig;
use avocet_io::neighbours::{Heard, NeighbourEvents, neighbours};
use avocet_io::poll::{Interest, Poller, Trigger};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::leases::Leases;
use avocet_nameserver::policy::macs_are_wanted;
use avocet_policy::client::MAX_NEIGHBOURS;

use crate::running::Running;
use crate::running::conditions::Condition;
use crate::running::devices::{DeviceTable, LOOK_SECS, Met};

/// Maximum number of times in a second that events of the table are read. Any host on the link can
/// cause events, so further events wait for the next second.
const MAX_HEARD: u32 = 20;

/// The watch over the kernel's table of neighbours.
pub(crate) struct NeighbourWatch {
    due: u32,
    events: Option<NeighbourEvents>,
    pace: Pace,
    /// The token for the poller.
    token: u64,
    leases: Leases,
}

/// The number of times that events were read in this second.
#[derive(Default)]
struct Pace {
    second: u32,
    heard: u32,
    /// Whether the poller ignores events until the next second.
    is_resting: bool,
}

impl NeighbourWatch {
    pub(crate) fn new(token: u64) -> Self {
        Self { due: 0, events: None, pace: Pace::default(), token, leases: Leases::default() }
    }

    /// Reads the table, leases and names if that is due, and puts changes in force. `now` is
    /// monotonic, in seconds.
    pub(crate) fn look(&mut self, running: &Running, poller: &Poller, now: u32) {
        self.end_rest(poller, now);
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
        let Some(events) = &mut self.events else { return };
        let (mut devices, mut is_changed) = (running.devices.lock(), false);
        let heard =
            events.read(|neighbour| is_changed |= devices.meet(neighbour, now) == Met::Changed);
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
            devices.put_in_force(running);
        }
    }

    /// Ends the subscription.
    pub(crate) fn close(&mut self) {
        self.events = None;
    }

    /// Subscribes to events if the policy tests hardware addresses. Without events, new devices are
    /// known after the next reading.
    fn subscribe(&mut self, poller: &Poller, devices: &DeviceTable) {
        if !devices.are_wanted() {
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

impl Pace {
    /// Counts one reading of events, and returns whether it was the last one permitted in this
    /// second.
    fn is_enough(&mut self, now: u32) -> bool {
        if self.second != now {
            (self.second, self.heard) = (now, 0);
        }
        self.heard += 1;
        self.heard >= MAX_HEARD
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_heard_so_many_times_in_a_second() {
        let mut pace = Pace::default();
        let heard = |pace: &mut Pace, now| (1..).find(|_| pace.is_enough(now)).unwrap();
        assert_eq!((heard(&mut pace, 7), heard(&mut pace, 8)), (MAX_HEARD, MAX_HEARD));
    }
}
