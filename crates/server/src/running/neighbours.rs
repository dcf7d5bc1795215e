//! Which hardware address is behind which IP address: looked up in the kernel's table now and then,
//! where the policy knows clients by it. So a device stays who it is when it draws another IPv6
//! address for its privacy (RFC 8981).

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

/// Time between two looks, in seconds: how long a device may be a stranger after it came.
const LOOK_SECS: u32 = 5;

/// Looks at the table when it is time to.
#[derive(Default)]
pub(crate) struct NeighbourWatch {
    due: u32,
    /// Those of the last look that succeeded.
    last: Vec<Neighbour>,
    leases: Leases,
}

impl NeighbourWatch {
    /// Puts what has changed in force. `now` is monotonic, in seconds.
    pub(crate) fn look(&mut self, running: &Running, now: u32) {
        if now < self.due {
            return;
        }
        self.due = now.saturating_add(LOOK_SECS);
        let state = running.shared.snapshot();
        let policy = &state.config.policy;
        let mut found = self.neighbours(running, policy);
        let path = policy.leases.as_ref().filter(|_| !policy.is_empty());
        // What the kernel sees now is newer than what was leased.
        let leased = path.map(|path| self.leases.look(path, wall_secs())).unwrap_or_default();
        found.splice(0..0, leased.iter().cloned());
        let fault = path.and_then(|path| self.leases.fault(path));
        running.conditions.set(Condition::Leases, fault);
        // What a device says of itself in its lease is newer than what is written of its address.
        found.splice(0..0, running.names.found().iter().cloned());
        if policy.is_empty() || *found == *state.parts.neighbours {
            return;
        }
        if let Err(error) = running.reloader.change_policy(|parts| parts.neighbours = found.into())
        {
            tracing::error!(error, "cannot apply the neighbour table");
        }
    }

    /// The neighbours that the policy asks about. Where the table cannot be read, those of the last
    /// look stay, and leases and names count all the same.
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

/// Why clients that are configured by MAC address would not be recognised; none where there are
/// none.
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

/// The hardware addresses that the policy asks about.
enum WantedMacs {
    /// A rule may ask about any.
    All,
    /// Those of clients and groups.
    These(HashSet<Mac>),
}

impl WantedMacs {
    /// None: nobody is known by one.
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

    /// Those of the neighbours that are wanted, in the order of their addresses.
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
