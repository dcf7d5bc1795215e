//! A random internet: zones below a root, who serves them and how well, and names to ask for.

use std::net::Ipv4Addr;

use avocet_wire::Rtype;

use super::sign::Key;
use super::zone::{Wire, Zone};
use crate::Chance;

/// Most zones; each has up to three servers, and an address is one octet.
const MAX_ZONES: usize = 24;
/// Zones below the root go so deep.
const MAX_DEPTH: u32 = 4;
/// TTLs that sets have, in seconds.
const TTLS_SECS: [u32; 4] = [0, 20, 300, 3_600];
/// The longest of them and of all forged records.
pub(super) const MAX_TTL_SECS: u32 = 3_600;

/// How a server behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Behaviour {
    Good,
    Silent,
    /// Serves none of the zones that are delegated to it.
    Refuses,
    /// Answers with a referral to the root.
    Upward,
    /// As good, but large answers and a few others only over TCP.
    Truncates,
    /// Knows no EDNS, and says so.
    WithoutEdns,
    /// Answers after a while.
    Slow,
    /// Lies.
    Hostile,
}

pub(super) struct Server {
    pub(super) name: Wire,
    pub(super) addr: Ipv4Addr,
    pub(super) behaviour: Behaviour,
    /// Zones it serves.
    pub(super) zones: Vec<usize>,
    /// The zone that its address is a record of.
    pub(super) home: usize,
}

/// See the module.
pub(super) struct Internet {
    /// The root is the first.
    pub(super) zones: Vec<Zone>,
    pub(super) servers: Vec<Server>,
    /// Some servers lie.
    pub(super) is_hostile: bool,
    /// Names to ask for.
    pub(super) names: Vec<Wire>,
}

impl Internet {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        let is_hostile = chance.percent(35);
        let mut internet = Self { zones: Vec::new(), servers: Vec::new(), is_hostile, names: Vec::new() };
        internet.add_zone(vec![0], None, chance);
        let mut level = vec![0];
        for _ in 0..1 + chance.below(u64::from(MAX_DEPTH)) {
            let mut next = Vec::new();
            for parent in level {
                for number in 0..1 + chance.below(3) {
                    if internet.zones.len() < MAX_ZONES {
                        let label = [b'a' + number as u8, b'a' + chance.below(26) as u8];
                        next.push(internet.add_zone(child(&label, &internet.zones[parent].apex), Some(parent), chance));
                    }
                }
            }
            level = next;
        }
        for zone in 0..internet.zones.len() {
            internet.fill(zone, chance);
        }
        for zone in 1..internet.zones.len() {
            internet.delegate(zone, chance);
        }
        internet
    }

    /// Makes all servers as they should be.
    pub(super) fn mend(&mut self) {
        self.is_hostile = false;
        self.servers.iter_mut().for_each(|server| server.behaviour = Behaviour::Good);
    }

    /// Breaks some servers and mends others, but none that lies and not the first of a zone.
    pub(super) fn wear(&mut self, chance: &mut Chance) {
        use Behaviour::{Good, Refuses, Silent, Slow, Truncates, Upward, WithoutEdns};
        let kinds = [Good, Good, Good, Silent, Refuses, Upward, Truncates, WithoutEdns, Slow];
        let first: Vec<usize> = self.zones.iter().map(|zone| zone.servers[0]).collect();
        for (number, server) in self.servers.iter_mut().enumerate().filter(|(number, _)| !first.contains(number)) {
            debug_assert!(number < self.zones.len() * 3, "three servers a zone");
            server.behaviour = kinds[chance.below(9) as usize];
        }
    }

    /// The root's servers: of the hints.
    pub(super) fn hints(&self) -> Vec<Ipv4Addr> {
        self.zones[0].servers.iter().map(|&server| self.servers[server].addr).collect()
    }

    fn add_zone(&mut self, apex: Wire, parent: Option<usize>, chance: &mut Chance) -> usize {
        let key = chance.percent(60).then(|| Key::of(&apex, chance.number()));
        let mut zone = Zone::new(apex.clone(), key, parent);
        zone.is_secure = parent.is_none() && zone.key.is_some();
        let number = self.zones.len();
        self.zones.push(zone);
        let count = 1 + chance.below(3);
        // One of them at least is as it should be.
        let good = chance.below(count);
        for at in 0..count {
            let server = match self.elsewhere(number, chance) {
                Some(home) => {
                    self.add_server(&child(format!("ns{number}x{at}").as_bytes(), &self.zones[home].apex.clone()), home)
                }
                None => self.add_server(&child(format!("ns{at}").as_bytes(), &apex), number),
            };
            self.servers[server].zones.push(number);
            self.servers[server].behaviour = if at == good { Behaviour::Good } else { self.behaviour(chance) };
            self.zones[number].servers.push(server);
            let name = self.servers[server].name.clone();
            self.zones[number].add(&apex, Rtype::NS, 3_600, name);
        }
        number
    }

    /// Another zone that a server's name may be in: one above which all servers have names of their own zones, so that no
    /// two need each other.
    fn elsewhere(&self, zone: usize, chance: &mut Chance) -> Option<usize> {
        let at = chance.below(zone as u64) as usize;
        let is_plain = |mut at: usize| loop {
            if self.zones[at].servers.iter().any(|&server| self.servers[server].home != at) {
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
        if self.is_hostile && chance.percent(50) {
            return Hostile;
        }
        [Good, Good, Good, Silent, Refuses, Upward, Truncates, WithoutEdns, Slow][chance.below(9) as usize]
    }

    fn add_server(&mut self, name: &[u8], home: usize) -> usize {
        let addr = Ipv4Addr::new(192, 0, 2, 1 + self.servers.len() as u8);
        self.zones[home].add(name, Rtype::A, 3_600, addr.octets().to_vec());
        self.servers.push(Server { name: name.to_vec(), addr, behaviour: Behaviour::Good, zones: Vec::new(), home });
        self.servers.len() - 1
    }

    /// Gives a zone its records.
    fn fill(&mut self, number: usize, chance: &mut Chance) {
        let apex = self.zones[number].apex.clone();
        let below = |labels: &[&[u8]]| labels.iter().rev().fold(apex.clone(), |name, label| child(label, &name));
        let host = below(&[b"host"]);
        let soa = [&host[..], &host, &[0, 0, 0, 1], &[0, 0, 14, 16], &[0, 0, 3, 132], &[0, 9, 58, 128], &[0, 0, 1, 44]]
            .concat();
        let ttl = |chance: &mut Chance| TTLS_SECS[chance.below(4) as usize];
        let address = |chance: &mut Chance| vec![198, 51, 100, chance.below(250) as u8];
        let mut records: Vec<(Wire, Rtype, u32, Vec<u8>)> = vec![(apex.clone(), Rtype::SOA, 3_600, soa)];
        for label in [&b"www"[..], b"host"] {
            let ttl_secs = ttl(chance);
            let count = 1 + chance.below(3);
            records.extend((0..count).map(|_| (below(&[label]), Rtype::A, ttl_secs, address(chance))));
        }
        if chance.percent(50) {
            records.push((below(&[b"www"]), Rtype::TXT, ttl(chance), vec![3, b't', b'x', b't']));
        }
        if chance.percent(50) {
            records.push((below(&[b"x", b"empty"]), Rtype::A, ttl(chance), address(chance)));
        }
        if chance.percent(50) {
            records.push((below(&[b"*", b"wild"]), Rtype::A, ttl(chance), address(chance)));
        }
        for label in [&b"alias"[..], b"other"] {
            let elsewhere = self.zones[chance.below(self.zones.len() as u64) as usize].apex.clone();
            let last = [&b"www"[..], b"alias", b"no-such", b"other"][chance.below(4) as usize];
            records.push((below(&[label]), Rtype::CNAME, ttl(chance), child(last, &elsewhere)));
        }
        if chance.percent(40) {
            let elsewhere = self.zones[chance.below(self.zones.len() as u64) as usize].apex.clone();
            records.push((below(&[b"dname"]), Rtype::DNAME, ttl(chance), elsewhere));
        }
        let asked: [&[&[u8]]; 10] = [
            &[],
            &[b"www"],
            &[b"alias"],
            &[b"other"],
            &[b"empty"],
            &[b"x", b"empty"],
            &[b"any", b"wild"],
            &[b"a", b"b", b"wild"],
            &[b"no-such"],
            &[b"www", b"dname"],
        ];
        self.names.extend(asked.map(below));
        let zone = &mut self.zones[number];
        if let Some(dnskey) = zone.key.as_ref().map(Key::dnskey) {
            records.push((apex.clone(), Rtype::DNSKEY, 3_600, dnskey));
        }
        for (owner, rtype, ttl_secs, data) in records {
            zone.add(&owner, rtype, ttl_secs, data);
        }
    }

    /// Puts what the parent says of a zone into the parent.
    fn delegate(&mut self, number: usize, chance: &mut Chance) {
        let zone = &self.zones[number];
        let (Some(parent), apex) = (zone.parent, zone.apex.clone()) else { return };
        let ds = zone.key.as_ref().filter(|_| chance.percent(85)).map(Key::ds);
        let servers: Vec<Wire> = zone.servers.iter().map(|&server| self.servers[server].name.clone()).collect();
        self.zones[number].is_secure = ds.is_some() && self.zones[parent].is_secure;
        for server in servers {
            self.zones[parent].add(&apex, Rtype::NS, 3_600, server);
        }
        if let Some(ds) = ds.filter(|_| self.zones[parent].key.is_some()) {
            self.zones[parent].add(&apex, Rtype::DS, 3_600, ds);
        }
    }

    /// The zone that has the data of a name and type.
    pub(super) fn zone_of(&self, qname: &[u8], qtype: Rtype) -> usize {
        let is_above = |zone: &Zone| {
            let is_parents = qtype == Rtype::DS && zone.apex == qname && qname.len() > 1;
            avocet_wire::name::is_under(qname, &zone.apex) && !is_parents
        };
        let above = self.zones.iter().enumerate().filter(|(_, zone)| is_above(zone));
        above.max_by_key(|(_, zone)| zone.apex.len()).map_or(0, |(number, _)| number)
    }

    /// Can a lying server have had a hand in what is said of a zone, as long as nothing is validated?
    pub(super) fn is_tainted(&self, mut number: usize) -> bool {
        loop {
            let zone = &self.zones[number];
            let servers = zone.servers.iter().map(|&server| &self.servers[server]);
            if servers.clone().any(|server| server.behaviour == Behaviour::Hostile) {
                return true;
            }
            // Whoever says where its servers are may send us elsewhere.
            let mut homes = servers.map(|server| server.home);
            if homes.any(|home| home != number && self.is_tainted(home)) {
                return true;
            }
            match zone.parent {
                Some(parent) => number = parent,
                None => return false,
            }
        }
    }
}

pub(super) fn child(label: &[u8], parent: &[u8]) -> Wire {
    [&[label.len() as u8], label, parent].concat()
}
