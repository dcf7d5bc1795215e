//! The records of a random zone, and the names that clients ask for.

use avocet_wire::Rtype;

use super::internet::{Internet, MAX_TTL_SECS};
use super::sign::Key;
use super::zone::{Wire, below};
use crate::Chance;

/// TTLs of sets, in seconds.
const TTLS_SECS: [u32; 4] = [0, 20, 300, 3_600];
/// The labels of the names that clients query for in each zone, relative to its apex. Some of these
/// names exist.
const ASKED: [&[&[u8]]; 12] = [
    &[],
    &[b"www"],
    &[b"alias"],
    &[b"other"],
    &[b"empty"],
    &[b"x", b"empty"],
    &[b"any", b"wild"],
    &[b"here", b"wild"],
    &[b"a", b"b", b"wild"],
    &[b"*", b"wild"],
    &[b"no-such"],
    &[b"www", b"dname"],
];

/// Adds records to a zone, and their names to the questions.
pub(super) fn fill(internet: &mut Internet, number: usize, chance: &mut Chance) {
    let apexes: Vec<Wire> = internet.zones.iter().map(|zone| zone.apex.clone()).collect();
    let filler = Filler { apex: &apexes[number], apexes: &apexes, chance, records: Vec::new() };
    let records = filler.records(internet.zones[number].key.as_deref());
    internet.names.extend(ASKED.map(|labels| under(labels, &apexes[number])));
    for Filled { owner, rtype, ttl_secs, data } in records {
        internet.zones[number].add(&owner, rtype, ttl_secs, data);
    }
}

fn under(labels: &[&[u8]], apex: &[u8]) -> Wire {
    labels.iter().rev().fold(apex.to_vec(), |name, label| below(label, &name))
}

struct Filled {
    owner: Wire,
    rtype: Rtype,
    ttl_secs: u32,
    data: Vec<u8>,
}

struct Filler<'a> {
    apex: &'a [u8],
    apexes: &'a [Wire],
    chance: &'a mut Chance,
    records: Vec<Filled>,
}

impl Filler<'_> {
    fn records(mut self, key: Option<&Key>) -> Vec<Filled> {
        let apex = self.apex.to_vec();
        let host = under(&[b"host"], &apex);
        let soa = [
            &host[..],
            &host,
            &[0, 0, 0, 1],
            &[0, 0, 14, 16],
            &[0, 0, 3, 132],
            &[0, 9, 58, 128],
            &[0, 0, 1, 44],
        ]
        .concat();
        self.add(apex.clone(), Rtype::SOA, MAX_TTL_SECS, soa);
        for label in [&b"www"[..], b"host"] {
            let (ttl_secs, count) = (self.ttl_secs(), 1 + self.chance.below(3));
            (0..count).for_each(|_| self.add_address(&[label], ttl_secs));
        }
        if self.chance.percent(50) {
            let ttl_secs = self.ttl_secs();
            self.add(under(&[b"www"], &apex), Rtype::TXT, ttl_secs, vec![3, b't', b'x', b't']);
        }
        self.maybe_address(50, &[b"x", b"empty"]);
        self.wildcards();
        for label in [&b"alias"[..], b"other"] {
            self.alias(&[label]);
        }
        if self.chance.percent(40) {
            let (ttl_secs, target) = (self.ttl_secs(), self.any_apex());
            self.add(under(&[b"dname"], &apex), Rtype::DNAME, ttl_secs, target);
        }
        if let Some(dnskey) = key.map(Key::dnskey) {
            self.add(apex.clone(), Rtype::DNSKEY, MAX_TTL_SECS, dnskey);
        }
        self.records
    }

    /// Adds wildcards within the zone and at its apex, next to the names of its parent, and names
    /// that they do not cover.
    fn wildcards(&mut self) {
        match self.chance.below(100) {
            0..50 => self.maybe_address(100, &[b"*", b"wild"]),
            50..60 => self.alias(&[b"*", b"wild"]),
            _ => {}
        }
        self.maybe_address(50, &[b"here", b"wild"]);
        match self.chance.below(100) {
            0..20 => self.maybe_address(100, &[b"*"]),
            20..25 => self.alias(&[b"*"]),
            _ => {}
        }
    }

    fn maybe_address(&mut self, percent: u32, labels: &[&[u8]]) {
        if self.chance.percent(percent) {
            let ttl_secs = self.ttl_secs();
            self.add_address(labels, ttl_secs);
        }
    }

    fn add_address(&mut self, labels: &[&[u8]], ttl_secs: u32) {
        let address = vec![198, 51, 100, self.chance.below(250) as u8];
        self.add(under(labels, self.apex), Rtype::A, ttl_secs, address);
    }

    /// Adds an alias to a name of any zone.
    fn alias(&mut self, labels: &[&[u8]]) {
        let last = [&b"www"[..], b"alias", b"no-such", b"other"][self.chance.below(4) as usize];
        let (ttl_secs, target) = (self.ttl_secs(), below(last, &self.any_apex()));
        self.add(under(labels, self.apex), Rtype::CNAME, ttl_secs, target);
    }

    fn any_apex(&mut self) -> Wire {
        self.apexes[self.chance.below(self.apexes.len() as u64) as usize].clone()
    }

    fn ttl_secs(&mut self) -> u32 {
        TTLS_SECS[self.chance.below(TTLS_SECS.len() as u64) as usize]
    }

    fn add(&mut self, owner: Wire, rtype: Rtype, ttl_secs: u32, data: Vec<u8>) {
        self.records.push(Filled { owner, rtype, ttl_secs, data });
    }
}
