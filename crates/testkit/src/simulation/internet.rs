//! A random internet: zones below a root, their servers and behaviour, an attacker, and names to
//! ask for.

use std::net::Ipv4Addr;

use avocet_wire::{Rtype, name};

use super::denial::Denies;
use super::sign::Key;
use super::zone::{Wire, Zone, below};
use super::{Mode, fill};
use crate::{Chance, shown};

/// Maximum number of zones. Each has up to three servers, distinguished by the last octet of their
/// addresses.
const MAX_ZONES: usize = 24;
/// Maximum number of levels of zones below the root.
const MAX_DEPTH: u32 = 4;
/// The highest TTL of all sets and forged records, in seconds.
pub(super) const MAX_TTL_SECS: u32 = 3_600;
/// The addresses of forwarders.
const FORWARDERS: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 0, 3, 1), Ipv4Addr::new(192, 0, 3, 2)];

/// The behaviour of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Behaviour {
    Good,
    Silent,
    /// Refuses all zones that are delegated to the server.
    Refuses,
    /// Answers with a referral to the root.
    Upward,
    /// Behaves well, but sends large answers and some others only over TCP.
    Truncates,
    /// The server does not support EDNS, and reports that.
    WithoutEdns,
    /// Answers after a delay.
    Slow,
    /// Sends forged data.
    Hostile,
}

/// The attacker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Adversary {
    Nobody,
    /// The servers of some zones.
    Servers,
    /// The forwarders.
    Forwarders,
    /// An attacker on the path to every server.
    OnPath,
}

impl Adversary {
    fn draw(mode: Mode, chance: &mut Chance) -> Self {
        use Adversary::{Forwarders, Nobody, OnPath, Servers};
        let kinds = match mode {
            Mode::Recursion => {
                [Nobody, Nobody, Nobody, Nobody, Servers, Servers, Servers, OnPath, OnPath, OnPath]
            }
            Mode::Forwarder => [
                Nobody, Nobody, Nobody, Servers, Forwarders, Forwarders, Forwarders, OnPath,
                OnPath, OnPath,
            ],
        };
        kinds[chance.below(kinds.len() as u64) as usize]
    }

    pub(super) fn is_on_path(self) -> bool {
        self == Self::OnPath
    }
}

pub(super) struct Server {
    pub(super) name: Wire,
    pub(super) addr: Ipv4Addr,
    pub(super) behaviour: Behaviour,
    /// The zones that the server serves.
    pub(super) zones: Vec<usize>,
    /// The zone that contains the server's address.
    pub(super) home: usize,
}

/// A rule that forwards the names below a zone.
pub(super) struct Forwarding {
    pub(super) zone: usize,
    pub(super) servers: Vec<(Ipv4Addr, Behaviour)>,
}

/// A random internet.
pub(super) struct Internet {
    /// The root comes first.
    pub(super) zones: Vec<Zone>,
    pub(super) servers: Vec<Server>,
    pub(super) adversary: Adversary,
    /// Names for queries.
    pub(super) names: Vec<Wire>,
    pub(super) forwarding: Option<Forwarding>,
    /// The zone with configured servers.
    pub(super) stub: Option<usize>,
}

/// The servers to ask for names of a zone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    /// The servers named by the zone above.
    Delegation,
    /// The servers of a forwarding rule.
    Forwarders,
    /// Configured servers.
    Stub,
}

impl Internet {
    pub(super) fn draw(mode: Mode, chance: &mut Chance) -> Self {
        let adversary = Adversary::draw(mode, chance);
        let (zones, servers, names) = (Vec::new(), Vec::new(), Vec::new());
        let mut internet = Self { zones, servers, adversary, names, forwarding: None, stub: None };
        internet.add_zone(vec![0], None, chance);
        let mut level = vec![0];
        for _ in 0..1 + chance.below(u64::from(MAX_DEPTH)) {
            let mut next = Vec::new();
            for parent in level {
                for number in 0..1 + chance.below(3) {
                    if internet.zones.len() < MAX_ZONES {
                        let apex = internet.draw_apex(parent, number as u8, chance);
                        next.push(internet.add_zone(apex, Some(parent), chance));
                    }
                }
            }
            level = next;
        }
        for zone in 0..internet.zones.len() {
            fill::fill(&mut internet, zone, chance);
        }
        for zone in 1..internet.zones.len() {
            internet.delegate(zone, chance);
        }
        internet.configure(mode, chance);
        internet
    }

    /// Returns a name for a zone below its parent, with or without an empty non-terminal between
    /// them.
    fn draw_apex(&self, parent: usize, number: u8, chance: &mut Chance) -> Wire {
        let label = [b'a' + number, b'a' + chance.below(26) as u8];
        let above = &self.zones[parent].apex;
        if chance.percent(12) {
            below(&label, &below(&[b'e', b'a' + number], above))
        } else {
            below(&label, above)
        }
    }

    /// Makes all servers behave well and removes the attacker.
    pub(super) fn mend(&mut self) {
        self.adversary = Adversary::Nobody;
        self.servers.iter_mut().for_each(|server| server.behaviour = Behaviour::Good);
    }

    /// Breaks some servers and repairs others. The first server of each zone keeps behaving well,
    /// and no server becomes hostile.
    pub(super) fn wear(&mut self, chance: &mut Chance) {
        use Behaviour::{Good, Refuses, Silent, Slow, Truncates, Upward, WithoutEdns};
        let kinds = [Good, Good, Good, Silent, Refuses, Upward, Truncates, WithoutEdns, Slow];
        let first: Vec<usize> = self.zones.iter().map(|zone| zone.servers[0]).collect();
        for (number, server) in
            self.servers.iter_mut().enumerate().filter(|(number, _)| !first.contains(number))
        {
            debug_assert!(number < self.zones.len() * 3, "three servers a zone");
            server.behaviour = kinds[chance.below(9) as usize];
        }
    }

    /// Returns the addresses of a zone's servers.
    pub(super) fn addresses(&self, zone: usize) -> Vec<Ipv4Addr> {
        self.zones[zone].servers.iter().map(|&server| self.servers[server].addr).collect()
    }

    fn add_zone(&mut self, apex: Wire, parent: Option<usize>, chance: &mut Chance) -> usize {
        let is_signed = chance.percent(if parent.is_none() { 85 } else { 65 });
        let signing = is_signed.then(|| (Key::of(&apex, chance.number()), Denies::draw(chance)));
        let number = self.zones.len();
        self.zones.push(Zone::new(apex, signing, parent));
        let shared = parent.map_or(Vec::new(), |parent| self.draw_shared(parent, chance));
        let is_complete =
            parent.is_some_and(|parent| shared.len() == self.zones[parent].servers.len());
        let mut servers = shared;
        if !is_complete || chance.percent(25) {
            let count = (1 + chance.below(3)).min(3 - servers.len().min(2) as u64);
            // At least one of them behaves well.
            let good = chance.below(count);
            for at in 0..count {
                let server = self.draw_server(number, at, chance);
                self.servers[server].behaviour =
                    if at == good { Behaviour::Good } else { self.behaviour(chance) };
                servers.push(server);
            }
        }
        for server in servers {
            self.servers[server].zones.push(number);
            self.zones[number].servers.push(server);
            let (name, zone) = (self.servers[server].name.clone(), &mut self.zones[number]);
            zone.add(&zone.apex.clone(), Rtype::NS, MAX_TTL_SECS, name);
        }
        number
    }

    /// Returns servers of a parent that also serve the child: often none or all.
    fn draw_shared(&self, parent: usize, chance: &mut Chance) -> Vec<usize> {
        let servers = &self.zones[parent].servers;
        match chance.below(100) {
            0..30 => servers.clone(),
            30..40 if servers.len() > 1 => servers[..1].to_vec(),
            _ => Vec::new(),
        }
    }

    fn draw_server(&mut self, zone: usize, at: u64, chance: &mut Chance) -> usize {
        match self.elsewhere(zone, chance) {
            Some(home) => self.add_server(
                &below(format!("ns{zone}x{at}").as_bytes(), &self.zones[home].apex),
                home,
            ),
            None => {
                self.add_server(&below(format!("ns{at}").as_bytes(), &self.zones[zone].apex), zone)
            }
        }
    }

    /// Returns another zone for a server's name: one whose servers all have names in their own
    /// zones or above, so that no two zones depend on each other.
    fn elsewhere(&self, zone: usize, chance: &mut Chance) -> Option<usize> {
        let at = chance.below(zone as u64) as usize;
        let is_plain = |mut at: usize| loop {
            let apex = &self.zones[at].apex;
            let mut homes = self.zones[at]
                .servers
                .iter()
                .map(|&server| &self.zones[self.servers[server].home].apex);
            if homes.any(|home| !name::is_under(apex, home)) {
                return false;
            }
            match self.zones[at].parent {
                Some(parent) => at = parent,
                None => return true,
            }
        };
        (zone > 1 && at > 0 && chance.percent(25) && is_plain(at)).then_some(at)
    }

    fn behaviour(&self, chance: &mut Chance) -> Behaviour {
        use Behaviour::{Good, Hostile, Refuses, Silent, Slow, Truncates, Upward, WithoutEdns};
        if self.adversary == Adversary::Servers && chance.percent(50) {
            return Hostile;
        }
        [Good, Good, Good, Silent, Refuses, Upward, Truncates, WithoutEdns, Slow]
            [chance.below(9) as usize]
    }

    fn add_server(&mut self, name: &[u8], home: usize) -> usize {
        let addr = Ipv4Addr::new(192, 0, 2, 1 + self.servers.len() as u8);
        self.zones[home].add(name, Rtype::A, MAX_TTL_SECS, addr.octets().to_vec());
        self.servers.push(Server {
            name: name.to_vec(),
            addr,
            behaviour: Behaviour::Good,
            zones: Vec::new(),
            home,
        });
        self.servers.len() - 1
    }

    /// Adds the delegation of a zone to its parent.
    fn delegate(&mut self, number: usize, chance: &mut Chance) {
        let zone = &self.zones[number];
        let (Some(parent), apex) = (zone.parent, zone.apex.clone()) else { return };
        let ds = zone.key.as_deref().filter(|_| chance.percent(85)).map(Key::ds);
        let servers: Vec<Wire> =
            zone.servers.iter().map(|&server| self.servers[server].name.clone()).collect();
        self.zones[number].is_secure = ds.is_some() && self.zones[parent].is_secure;
        for server in servers {
            self.zones[parent].add(&apex, Rtype::NS, MAX_TTL_SECS, server);
        }
        if let Some(ds) = ds.filter(|_| self.zones[parent].key.is_some()) {
            self.zones[parent].add(&apex, Rtype::DS, MAX_TTL_SECS, ds);
        }
    }

    /// Draws the zones for which the resolver has a rule.
    fn configure(&mut self, mode: Mode, chance: &mut Chance) {
        let any = |chance: &mut Chance| chance.below(self.zones.len() as u64) as usize;
        let stub = Some(any(chance)).filter(|stub| *stub > 0 && chance.percent(25));
        if mode == Mode::Forwarder {
            let zone = if chance.percent(60) { 0 } else { any(chance) };
            let behaviour = match chance.below(6) {
                _ if self.adversary == Adversary::Forwarders => Behaviour::Hostile,
                0 => Behaviour::Silent,
                1 => Behaviour::Refuses,
                2 => Behaviour::Slow,
                3 => Behaviour::Truncates,
                _ => Behaviour::Good,
            };
            let is_hostile = behaviour == Behaviour::Hostile;
            let second = if is_hostile { behaviour } else { Behaviour::Good };
            let all = [(FORWARDERS[0], behaviour), (FORWARDERS[1], second)];
            self.forwarding = Some(Forwarding {
                zone,
                servers: all[usize::from(chance.percent(50) && !is_hostile)..].to_vec(),
            });
        }
        self.stub =
            stub.filter(|stub| self.forwarding.as_ref().is_none_or(|rule| rule.zone != *stub));
    }

    /// Describes the configuration and the attacker on one line, and each zone on another.
    pub(super) fn shown(&self) -> Vec<String> {
        let apex = |zone: usize| shown(&self.zones[zone].apex);
        let forwarded = self
            .forwarding
            .as_ref()
            .map(|rule| format!("{} to {:?}", apex(rule.zone), rule.servers));
        let stub = self.stub.map(apex);
        let rules =
            format!("attacker: {:?}; forwarded: {forwarded:?}; stub: {stub:?}", self.adversary);
        let zone = |(number, zone): (usize, &Zone)| {
            let denies = zone.key.as_ref().map(|_| &zone.denies);
            let servers = zone.servers.iter().map(|&server| &self.servers[server]);
            let servers: Vec<_> = servers
                .map(|server| (shown(&server.name), server.addr, server.behaviour))
                .collect();
            let (is_secure, is_tainted) = (zone.is_secure, self.is_tainted(number));
            format!(
                "{} {denies:?} secure: {is_secure} tainted: {is_tainted} {servers:?}",
                shown(&zone.apex)
            )
        };
        std::iter::once(rules).chain(self.zones.iter().enumerate().map(zone)).collect()
    }

    /// Returns the zone with the data of a name and type.
    pub(super) fn zone_of(&self, qname: &[u8], qtype: Rtype) -> usize {
        let is_above = |zone: &Zone| {
            let is_parents = qtype == Rtype::DS && zone.apex == qname && qname.len() > 1;
            name::is_under(qname, &zone.apex) && !is_parents
        };
        let above = self.zones.iter().enumerate().filter(|(_, zone)| is_above(zone));
        above.max_by_key(|(_, zone)| zone.apex.len()).map_or(0, |(number, _)| number)
    }

    fn entry(&self, zone: usize) -> Entry {
        let mut at = Some(zone);
        while let Some(number) = at {
            if self.stub == Some(number) {
                return if number == zone { Entry::Stub } else { Entry::Delegation };
            }
            if self.forwarding.as_ref().is_some_and(|rule| rule.zone == number) {
                return Entry::Forwarders;
            }
            at = self.zones[number].parent;
        }
        Entry::Delegation
    }

    /// Reports whether an attacker can make a zone bogus: all zones above take part in the proof
    /// that it is secure or insecure.
    pub(super) fn is_exposed(&self, number: usize) -> bool {
        self.is_tainted(number)
            || self.zones[number].parent.is_some_and(|parent| self.is_exposed(parent))
    }

    /// Reports whether an attacker can change unvalidated data of a zone.
    pub(super) fn is_tainted(&self, number: usize) -> bool {
        let zone = &self.zones[number];
        let mut servers = zone.servers.iter().map(|&server| &self.servers[server]);
        let is_hostile = |server: &Server| server.behaviour == Behaviour::Hostile;
        match (self.adversary, self.entry(number)) {
            (Adversary::Nobody, _) => false,
            (Adversary::OnPath, _) => true,
            (adversary, Entry::Forwarders) => adversary == Adversary::Forwarders,
            (_, Entry::Stub) => servers.any(is_hostile),
            (_, Entry::Delegation) => {
                // The zones that hold the addresses of its servers can redirect the resolver.
                servers.any(|server| {
                    is_hostile(server) || server.home != number && self.is_tainted(server.home)
                }) || zone.parent.is_some_and(|parent| self.is_tainted(parent))
            }
        }
    }
}
