//! Maps IP addresses to hardware addresses with the kernel's neighbour table, if the policy
//! identifies clients by these. A device is then recognized when it changes its IPv6 address for
//! privacy (RFC 8981).

use std::collections::HashSet;
use std::io;
use std::net::IpAddr;

use avocet_config::policy::PolicyConfig;
use avocet_io::neighbours::neighbours;
use avocet_nameserver::clock::wall_secs;
use avocet_policy::client::{MAX_NEIGHBOURS, Mac, Neighbour};

use crate::running::Running;
use crate::running::conditions::Condition;
use crate::running::leases::Leases;

/// Seconds between two readings, which is how long a new device may be unknown.
const LOOK_SECS: u32 = 5;

/// Reads the table periodically.
#[derive(Default)]
pub(crate) struct NeighbourWatch {
    due: u32,
    /// The result of the last successful reading.
    last: Vec<Neighbour>,
    leases: Leases,
}

impl NeighbourWatch {
    /// Reads everything once, so that the first query of a device has the device's policy.
    pub(crate) fn begin(running: &Running, now: u32) -> Self {
        let mut watch = Self::default();
        watch.look(running, now);
        watch
    }

    /// Puts changes in force. `now` is monotonic, in seconds.
    pub(crate) fn look(&mut self, running: &Running, now: u32) {
        if now < self.due {
            return;
        }
        self.due = now.saturating_add(LOOK_SECS);
        let state = running.shared.snapshot();
        let policy = &state.config.policy;
        let mut found = self.neighbours(running, policy);
        let path = policy.leases.as_ref().filter(|_| !policy.is_empty());
        // The kernel's table is more recent than leases.
        let leased = path.map(|path| self.leases.look(path, wall_secs())).unwrap_or_default();
        found.splice(0..0, leased.iter().cloned());
        let fault = path.and_then(|path| self.leases.fault(path));
        running.conditions.set(Condition::Leases, fault);
        // The name in a device's lease is more recent than PTR records.
        found.splice(0..0, running.names.found().iter().cloned());
        if policy.is_empty() || *found == *state.parts.neighbours {
            return;
        }
        if let Err(error) = running.reloader.change_policy(|parts| parts.neighbours = found.into())
        {
            tracing::error!(error = error.to_string(), "cannot apply the neighbour table");
        }
    }

    /// The neighbours that the policy tests. If the table cannot be read, those of the last reading
    /// remain; leases and names are used in any case.
    fn neighbours(&mut self, running: &Running, policy: &PolicyConfig) -> Vec<Neighbour> {
        let Some(wanted) = WantedMacs::of(policy) else {
            running.conditions.set(Condition::Neighbours, None);
            return Vec::new();
        };
        let fault = match neighbours(MAX_NEIGHBOURS) {
            Ok(found) => {
                self.last = wanted.pick(found);
                None
            }
            Err(error) => Some(fault(&error)),
        };
        running.conditions.set(Condition::Neighbours, fault);
        self.last.clone()
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

    /// The relevant neighbours, ordered by address.
    fn pick(&self, found: Vec<(IpAddr, [u8; 6])>) -> Vec<Neighbour> {
        let mut picked: Vec<Neighbour> = found
            .into_iter()
            .map(|(address, mac)| Neighbour { address, mac: Some(Mac(mac)), name: None })
            .filter(|neighbour| match self {
                Self::All => true,
                Self::These(macs) => neighbour.mac.is_some_and(|mac| macs.contains(&mac)),
            })
            .collect();
        picked.sort_by_key(|neighbour| neighbour.address);
        picked
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use avocet_config::Config;

    fn wanted(more: &str) -> Option<WantedMacs> {
        let text = format!("[[list]]\nname = \"l\"\nfile = \"x\"\n{more}");
        WantedMacs::of(&Config::from_text(None, &text, &BTreeMap::new()).unwrap().policy)
    }

    #[test]
    fn only_who_is_asked_about_is_looked_for() {
        let table = vec![
            (IpAddr::from([10, 0, 0, 9]), [2, 0, 0, 0, 0, 1]),
            (IpAddr::from([10, 0, 0, 2]), [2, 0, 0, 0, 0, 2]),
            (IpAddr::from([0xfd; 16]), [2, 0, 0, 0, 0, 1]),
        ];
        let picked = |more: &str| {
            let picked = wanted(more).map(|wanted| wanted.pick(table.clone()));
            picked.map(|picked| {
                picked.iter().map(|neighbour| neighbour.address.to_string()).collect::<Vec<_>>()
            })
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
