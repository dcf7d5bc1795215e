//! The name servers of the zones that contain a name, from cached delegations and stub zones, for
//! policies that test name servers.
//!
//! No query is sent. Delegations are cached for names that recursion has resolved. Forwarded names
//! have no delegations.

use std::net::IpAddr;

use avocet_cache::{Cached, MAX_PAYLOAD_BYTES, ReadAt, RrsetCache, RrsetKey};
use avocet_wire::{Class, FoldedName, FoldedNameBuf, Rtype};

use crate::configured::Configured;
use crate::iterate::cut::{MAX_ADDRESSES, MAX_NS, address};
use crate::iterate::rrset::Side;
use crate::plan::Plan;

/// The class under which delegations and glue are cached.
pub const DELEGATIONS: u16 = Side::Delegation.class();
/// Minimum number of labels of a zone that is examined. The servers of the root and the top-level
/// domains are left out, because they serve all domains.
const MIN_LABELS: usize = 2;

/// Names and addresses of servers, without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameServers {
    /// The names of the servers, folded.
    pub names: Vec<FoldedNameBuf>,
    /// The addresses of the servers.
    pub addresses: Vec<IpAddr>,
}

impl NameServers {
    /// Returns the servers of the zones that contain this folded name, except the root and
    /// top-level domains. Includes expired delegations that are still cached. Also returns the
    /// servers of the name's stub zone at any level. `now_secs` is the time of the cache.
    #[must_use]
    pub fn above((plan, cache): (&Plan, &RrsetCache), name: FoldedName<'_>, now_secs: u32) -> Self {
        let mut reader = CacheReader { cache, now_secs, buffer: vec![0; MAX_PAYLOAD_BYTES] };
        let mut servers = Self::default();
        for zone in name.ancestors().filter(|zone| zone.labels().count() >= MIN_LABELS) {
            servers.add_servers(&mut reader, (DELEGATIONS, zone));
        }
        if let (Some(Configured::Stub(number, _)), Some(recursion)) =
            (plan.configured(name), &plan.recursion)
            && let Some(stub) = recursion.stubs.get(number).filter(|stub| *stub.zone != [0])
        {
            stub.servers.iter().for_each(|server| servers.add_address(server.ip()));
            // The names of a stub zone's servers are only known after a query for its NS records.
            let zone = name.ancestor_of_len(stub.zone.len());
            servers.add_servers(&mut reader, (Class::IN.0, zone));
        }
        servers
    }

    fn add_servers(&mut self, reader: &mut CacheReader<'_>, (class, zone): (u16, FoldedName<'_>)) {
        for server in reader.records(&RrsetKey { owner: zone, rtype: Rtype::NS.0, class }, MAX_NS) {
            let Ok(server) = FoldedNameBuf::from_wire(&server) else { continue };
            if !self.names.contains(&server) {
                self.add_addresses(reader, server.view());
                self.names.push(server);
            }
        }
    }

    fn add_addresses(&mut self, reader: &mut CacheReader<'_>, server: FoldedName<'_>) {
        for class in [Class::IN.0, DELEGATIONS] {
            for rtype in [Rtype::A, Rtype::AAAA] {
                let found = reader
                    .records(&RrsetKey { owner: server, rtype: rtype.0, class }, MAX_ADDRESSES);
                found
                    .iter()
                    .filter_map(|rdata| address(rtype, rdata))
                    .for_each(|address| self.add_address(address));
            }
        }
    }

    fn add_address(&mut self, address: IpAddr) {
        if !self.addresses.contains(&address) {
            self.addresses.push(address);
        }
    }
}

struct CacheReader<'c> {
    cache: &'c RrsetCache,
    now_secs: u32,
    buffer: Vec<u8>,
}

impl CacheReader<'_> {
    /// Returns the first `most` records of an RRset; empty if it is not cached.
    fn records(&mut self, key: &RrsetKey<'_>, most: usize) -> Vec<Box<[u8]>> {
        let at = ReadAt { now: self.now_secs, stale_window: u32::MAX };
        match self.cache.lookup(key, at, &mut self.buffer) {
            Some(Cached::Rrset(view)) => view.records().take(most).map(Box::from).collect(),
            Some(Cached::Nodata(_)) | None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use avocet_cache::{Provenance, Rank, ReceivedRrset, Security, TtlBounds};

    use super::*;
    use crate::plan::Settings;

    #[test]
    fn servers_of_all_zones_above_a_name_are_found_but_for_those_at_the_top() {
        let bounds = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3_600 };
        let cache = RrsetCache::new(1 << 20, 3600, bounds, [1; 16]).unwrap();
        let settings = Settings {
            minimal: true,
            stale_client_ms: 1800,
            in_flight: 10,
            waiters: 10,
            ttl: bounds,
        };
        let plan = Plan::new(Vec::new(), settings).unwrap();
        let learn = |class, owner: &[u8], rtype: Rtype, records: &[&[u8]]| {
            let (security, rank) = (Security::Unchecked, Rank::Additional);
            let provenance = Provenance {
                security,
                unsupported: None,
                rank,
                asked_with_do: false,
                asked_with_cd: false,
            };
            let set = ReceivedRrset { provenance, ttl: 60, records, signatures: &[] };
            cache.insert(
                &RrsetKey { owner: FoldedName::new(owner).unwrap(), rtype: rtype.0, class },
                &set,
                100,
            );
        };
        let (zone, ns): (&[u8], &[u8]) = (b"\x01b\x07example\x00", b"\x02ns\x01b\x07example\x00");
        let (above, far): (&[u8], &[u8]) = (b"\x07example\x00", b"\x03far\x04host\x00");
        learn(DELEGATIONS, zone, Rtype::NS, &[ns, far]);
        learn(DELEGATIONS, above, Rtype::NS, &[b"\x03top\x00"]);
        learn(DELEGATIONS, ns, Rtype::A, &[&[192, 0, 2, 1]]);
        learn(Class::IN.0, far, Rtype::A, &[&[192, 0, 2, 2]]);
        for now_secs in [100, 500] {
            let found = NameServers::above(
                (&plan, &cache),
                FoldedName::new(b"\x01a\x01b\x07example\x00").unwrap(),
                now_secs,
            );
            assert_eq!(found.names.iter().map(|name| name.wire()).collect::<Vec<_>>(), [ns, far]);
            assert_eq!(
                found.addresses,
                [IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2])]
            );
        }
        assert_eq!(
            NameServers::above(
                (&plan, &cache),
                FoldedName::new(b"\x01c\x07example\x00").unwrap(),
                100
            ),
            NameServers::default()
        );
    }
}
