//! Strangers: the look-up of a client's device and name before the policy decides about its first
//! query.
//!
//! ```text
//! worker -- address --> StrangerQueue --> kernel: who has this address?     } until known,
//!                                         names: PTR record                 } or given up
//!                       Devices, names --> Parts in force
//!                       Identified     --> Letter::Identified --> worker
//! ```
//! The kernel often knows the device already: it has completed a handshake with the device, or has
//! answered its request for this host's address. If not, the server sends an empty datagram to the
//! client, which makes the kernel query the link. If the client does not answer this query, the
//! kernel could not deliver a reply to it either.
//!
//! Every table and rate here has a bound, because any host on the link can send queries from many
//! addresses. Beyond the bounds, clients wait; see [`held`](avocet_worker).

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_config::policy::PolicyConfig;
use avocet_io::interfaces::{OwnAddress, own_addresses};
use avocet_io::links::{LinkNetwork, RouteQueries, RouteTo, link_networks};
use avocet_io::neighbours::{NeighbourQueries, neighbours};
use avocet_nameserver::policy::macs_are_wanted;
use avocet_nameserver::snapshot::Snapshot;
use avocet_policy::client::MAX_NEIGHBOURS;
use avocet_wire::special_purpose::Scope;
use ipnet::IpNet;

use crate::running::Running;
use crate::running::conditions::Condition;
use crate::running::devices::Met;
use avocet_worker::mailbox::Letter;

/// Maximum number of addresses that are looked up at once.
const MAX_CASES: usize = 4_096;
/// Maximum number of look-ups in a round, and the minimum duration of such a round: at most 12,800
/// look-ups a second, of some microseconds each.
const MAX_LOOKUPS: usize = 64;
const ROUND: Duration = Duration::from_millis(5);
/// The rest of the thread after a change of the policy, as a multiple of the time that the change
/// took. A flood of new addresses of a known device thus uses at most a fifth of a core.
const REST: u32 = 4;
/// The first and the maximum wait between two checks of the same address.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));
/// Maximum time for which a device is looked up, which is as long as the kernel tries.
const DEVICE_PATIENCE: Duration = Duration::from_secs(3);
/// Maximum time for which a name is looked up. A device chooses its name, and the server of the
/// names may be down: the policy then treats the client as one without a name.
const NAME_PATIENCE: Duration = Duration::from_secs(1);
/// Number of checks after which the kernel must query the link again.
const LOOKS_A_PROBE: u32 = 8;
/// Time between two readings of the networks on the links if the kernel reports no change, and the
/// multiple of the reading's duration that is waited in any case: a router may have a million
/// routes.
const LINKS_PAUSE: Duration = Duration::from_secs(5);
const LINKS_SHARE: u32 = 200;

/// The log line after a panic of the thread.
const FAULT: &str = "a panic ended the thread that identifies clients, see the log; restart the \
                     server";

/// Returns the networks whose hosts a policy identifies by device. Returns none if the policy tests
/// no hardware addresses, or if the system does not report the networks.
pub(crate) fn links_for(policy: &PolicyConfig) -> Arc<[IpNet]> {
    if !macs_are_wanted(policy) {
        return Arc::default();
    }
    nets(&link_networks().unwrap_or_default())
}

fn nets(links: &[LinkNetwork]) -> Arc<[IpNet]> {
    let mut nets: Vec<IpNet> = links.iter().filter_map(net).collect();
    nets.dedup();
    nets.into()
}

fn net(link: &LinkNetwork) -> Option<IpNet> {
    IpNet::new(link.ip, link.prefix_len).ok().map(|net| net.trunc())
}

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>) -> io::Result<()> {
    let watched = move || {
        running.conditions.contain(Condition::Threads, FAULT, || work(&running));
    };
    thread::Builder::new().name("strangers".to_owned()).spawn(watched).map(drop)
}

fn work(running: &Running) {
    let mut desk = Desk::new(Instant::now());
    while let Some(new) = running.shared.strangers.take(MAX_CASES, desk.pause(Instant::now())) {
        let now = Instant::now();
        desk.open(&new, now);
        desk.look_at_links(running, now);
        let began = Instant::now();
        let rest = desk.look(running, now);
        // A new address wakes the thread, but does not shorten a rest.
        thread::park_timeout(rest.saturating_sub(began.elapsed()));
    }
}

/// The addresses that are being looked up.
struct Desk {
    cases: HashMap<IpAddr, Case>,
    links: Vec<LinkNetwork>,
    links_due: Instant,
    /// The earliest time at which the networks may be read again.
    links_rest: Instant,
    /// The netlink socket for neighbours; `None` until the first look-up, and after a failure.
    queries: Option<NeighbourQueries>,
    /// The netlink socket for routes; `None` as for `queries`.
    routes: Option<RouteQueries>,
}

/// An address that is being looked up.
#[derive(Clone, Copy)]
struct Case {
    since: Instant,
    due: Instant,
    looks: u32,
}

/// The result of a check of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    Identified,
    Later,
    GivenUp,
}

impl Desk {
    fn new(now: Instant) -> Self {
        Self {
            cases: HashMap::new(),
            links: Vec::new(),
            links_due: now,
            links_rest: now,
            queries: None,
            routes: None,
        }
    }

    /// Returns the time until the next task.
    fn pause(&self, now: Instant) -> Duration {
        let due = self.cases.values().map(|case| case.due).min();
        due.unwrap_or(self.links_due).min(self.links_due).saturating_duration_since(now)
    }

    fn open(&mut self, addresses: &[IpAddr], now: Instant) {
        for ip in addresses {
            if self.cases.len() < MAX_CASES {
                self.cases.entry(*ip).or_insert(Case { since: now, due: now, looks: 0 });
            }
        }
    }

    /// Reads the networks on the links if that is due, and puts them in force.
    fn look_at_links(&mut self, running: &Running, now: Instant) {
        if running.shared.strangers.take_new_links() {
            self.links_due = self.links_rest.max(now).min(self.links_due);
        }
        if now < self.links_due {
            return;
        }
        let state = running.shared.snapshot();
        self.links_due = now + LINKS_PAUSE;
        if !macs_are_wanted(&state.config.policy) {
            return;
        }
        // If this fails, the warning about neighbours reports the reason.
        self.links = link_networks().unwrap_or_default();
        self.links_rest = now + now.elapsed() * LINKS_SHARE;
        self.links_due = self.links_rest.max(now + LINKS_PAUSE);
        let links = nets(&self.links);
        if links != state.parts.links
            && let Err(error) = running.reloader.change_policy(|parts| parts.links = links)
        {
            tracing::error!(error = error.to_string(), "cannot apply the networks of the links");
        }
    }

    /// Checks the addresses that are due, and puts the devices that were found in force. Returns
    /// the time to rest.
    fn look(&mut self, running: &Running, now: Instant) -> Duration {
        let mut due: Vec<_> = self.cases.iter().filter(|(_, case)| case.due <= now).collect();
        due.sort_by_key(|(ip, case)| (case.due, **ip));
        let due: Vec<(IpAddr, Case)> =
            due.into_iter().take(MAX_LOOKUPS).map(|(ip, case)| (*ip, *case)).collect();
        let state = running.shared.snapshot();
        running.devices.lock().follow(&state.config);
        let mut identified = Vec::new();
        for (ip, case) in &due {
            match self.look_at(*ip, case, &state, running) {
                Look::Identified => identified.push(*ip),
                Look::GivenUp => drop(self.cases.remove(ip)),
                Look::Later => {
                    let wait = LOOK_AGAIN.0 * 2_u32.saturating_pow(case.looks.min(6));
                    let due = now + wait.min(LOOK_AGAIN.1);
                    self.cases.insert(*ip, Case { due, looks: case.looks + 1, ..*case });
                }
            }
        }
        let rest = self.settle(&identified, &state, running);
        if due.len() < MAX_LOOKUPS { rest } else { rest.max(ROUND) }
    }

    /// Puts the found devices in force, records the addresses as identified, and wakes the workers.
    /// If the configuration in force has changed and may test other devices, checks the addresses
    /// again. Returns the time to rest.
    fn settle(&mut self, found: &[IpAddr], state: &Snapshot, running: &Running) -> Duration {
        if found.is_empty() {
            return Duration::ZERO;
        }
        let began = Instant::now();
        running.devices.lock().put_in_force(running);
        let present = running.shared.snapshot();
        let took = match present.strangers.version == state.strangers.version {
            true => Duration::ZERO,
            false => began.elapsed(),
        };
        if present.strangers.since == state.strangers.since {
            let (shared, version) = (&running.shared.name_server, present.strangers.version);
            for ip in found {
                shared.identified.put(*ip, version, shared.clock.now().secs());
                self.cases.remove(ip);
            }
        }
        for mailbox in &running.shared.mailboxes {
            // A worker with a full mailbox finds the result at its next sweep.
            let _ = mailbox.send(Letter::Identified);
        }
        took * REST
    }

    fn look_at(&mut self, ip: IpAddr, case: &Case, state: &Snapshot, running: &Running) -> Look {
        let strangers = &state.strangers;
        if strangers.links.iter().any(|network| network.contains(&ip)) {
            match self.look_for_device(ip, case, running) {
                Look::Identified => {}
                Look::Later if case.since.elapsed() > DEVICE_PATIENCE => return Look::GivenUp,
                look => return look,
            }
        }
        let has_name = !strangers.by_name
            || !Scope::Local.contains(ip)
            || case.since.elapsed() > NAME_PATIENCE
            || running.names.is_looked_up(ip);
        if has_name { Look::Identified } else { Look::Later }
    }

    fn look_for_device(&mut self, ip: IpAddr, case: &Case, running: &Running) -> Look {
        let links = match self.route(ip) {
            // A route to the client alone, such as the route of a tunnel, takes precedence over the
            // network.
            Some(RouteTo::Elsewhere) => return Look::Identified,
            Some(RouteTo::Link(link)) if self.links.iter().any(|one| one.interface == link) => {
                vec![link]
            }
            Some(RouteTo::Link(_)) if !self.links.is_empty() => return Look::Identified,
            _ => self.links_of(ip),
        };
        for &link in &links {
            if let Some(mac) = self.find(ip, link) {
                let now = running.shared.name_server.clock.now().secs();
                return match running.devices.lock().meet((ip, mac), now) {
                    Met::Known | Met::Changed => Look::Identified,
                    Met::NoRoom => Look::Later,
                };
            }
        }
        if links.is_empty() {
            // The configuration is new, or the network was removed: the links must be read again.
            self.links_due = Instant::now();
            return if case.looks == 0 { Look::Later } else { Look::Identified };
        }
        if !case.looks.is_multiple_of(LOOKS_A_PROBE) {
            return Look::Later;
        }
        // The kernel has no neighbour entry for the host itself.
        let is_own = |own: Vec<OwnAddress>| own.iter().any(|own| own.ip == ip);
        if own_addresses().is_ok_and(is_own) {
            return Look::Identified;
        }
        for &link in &links {
            if let Some(queries) = &self.queries {
                // If the kernel cannot send this datagram, it cannot send a reply to the client
                // either.
                let _ = queries.provoke(ip, link);
            }
        }
        Look::Later
    }

    /// Returns the route to an address; `None` if the address may be on several links, or has no
    /// known route.
    fn route(&mut self, ip: IpAddr) -> Option<RouteTo> {
        if matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local()) {
            return None;
        }
        if self.routes.is_none() {
            self.routes = RouteQueries::open().ok();
        }
        let found = self.routes.as_mut()?.find(ip);
        if found.is_err() {
            self.routes = None;
        }
        found.ok()
    }

    /// Returns the links with a network that contains the address.
    fn links_of(&self, ip: IpAddr) -> Vec<u32> {
        let on_link = |link: &&LinkNetwork| net(link).is_some_and(|net| net.contains(&ip));
        let mut links: Vec<u32> =
            self.links.iter().filter(on_link).map(|link| link.interface).collect();
        links.dedup();
        links
    }

    /// Returns the hardware address of a neighbour.
    fn find(&mut self, ip: IpAddr, link: u32) -> Option<[u8; 6]> {
        if self.queries.is_none() {
            self.queries = NeighbourQueries::open().ok();
        }
        match self.queries.as_mut()?.find(ip, link) {
            Ok(found) => found,
            Err(_) => {
                self.queries = None;
                let table = neighbours(MAX_NEIGHBOURS).unwrap_or_default();
                table.into_iter().find(|(address, _)| *address == ip).map(|(_, mac)| mac)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use avocet_config::Config;

    use super::*;

    #[test]
    fn an_address_is_one_case_and_cases_are_bounded() {
        let now = Instant::now();
        let mut desk = Desk::new(now + LINKS_PAUSE);
        assert_eq!(desk.pause(now), LINKS_PAUSE);
        let address = |at: u32| IpAddr::from((0x0a00_0000 + at).to_be_bytes());
        desk.open(&[address(1), address(1), address(2)], now);
        assert_eq!((desk.cases.len(), desk.pause(now)), (2, Duration::ZERO));
        let many: Vec<IpAddr> = (0..2 * MAX_CASES as u32).map(address).collect();
        desk.open(&many, now + ROUND);
        assert_eq!(desk.cases.len(), MAX_CASES);
        assert_eq!(desk.cases[&address(1)].since, now, "it is not younger than its first query");
    }

    #[test]
    fn networks_of_links_are_looked_for_only_for_hardware_addresses() {
        let config = Config::from_text(None, "", &BTreeMap::new()).unwrap();
        assert!(links_for(&config.policy).is_empty());
        let link = |interface| LinkNetwork { ip: [192, 0, 2, 0].into(), prefix_len: 24, interface };
        assert_eq!(*nets(&[link(1), link(2)]), ["192.0.2.0/24".parse::<IpNet>().unwrap()]);
    }
}
