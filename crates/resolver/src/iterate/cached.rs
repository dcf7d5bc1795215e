//! The searches of a walk (the recursive resolution of one question) in the RRset cache.
//!
//! A search looks up several names or types. It is one request of the walk, because a request costs
//! about as much as a look-up.

use std::net::IpAddr;

use avocet_cache::{Cached, Provenance, ReadAt, RrsetCache, RrsetView, Security};
use avocet_wire::{FoldedName, Rtype};

use super::cut::{Cut, CutServers, MAX_ADDRESSES, MAX_NS, NameServer, address, name_of_server};
use super::part::{Ending, Part};
use super::rrset::{self, CachedAnswer, Denial, Name, Rrset, Side};
use crate::read::folded_target;
use crate::scrub::substitute;

/// The RRset cache at one time.
pub(crate) struct CacheSearch<'c> {
    pub(crate) rrsets: &'c RrsetCache,
    pub(crate) now_secs: u32,
    /// Room for an entry of the cache.
    pub(crate) buffer: &'c mut [u8],
}

impl CacheSearch<'_> {
    /// Returns the cached data of a name and type.
    pub(crate) fn look_up(
        &mut self,
        side: Side,
        owner: FoldedName<'_>,
        rtype: Rtype,
    ) -> Option<(CachedAnswer, Provenance)> {
        rrset::look_up(self.rrsets, &side.key(owner, rtype), self.now_secs, self.buffer)
    }

    /// Returns the cached NXDOMAIN that covers a name, with the length of the name that it denies.
    pub(crate) fn look_up_nxdomain(
        &mut self,
        side: Side,
        name: FoldedName<'_>,
    ) -> Option<(usize, Denial, Provenance)> {
        rrset::look_up_nxdomain(self.rrsets, (side, name), self.now_secs, self.buffer)
    }

    /// Calls `read` with a cached RRset. The RRset is not copied out of the buffer.
    fn read<R>(
        &mut self,
        side: Side,
        owner: FoldedName<'_>,
        rtype: Rtype,
        read: impl FnOnce(&RrsetView<'_>) -> R,
    ) -> Option<R> {
        let at = ReadAt { now: self.now_secs, stale_window: 0 };
        match self.rrsets.lookup(&side.key(owner, rtype), at, self.buffer)? {
            Cached::Rrset(view) => Some(read(&view)),
            Cached::Nodata(_) => None,
        }
    }

    /// Returns the part of an answer that the cache has for a question: its RRset, an alias, or a
    /// denial. Aliases and denials of names shorter than `boundary_len` octets are ignored, because
    /// they come from above the configured zone that contains the name.
    pub(crate) fn part(&mut self, qname: &Name, qtype: Rtype, boundary_len: usize) -> Option<Part> {
        // Signatures and proofs are cached with the data that they belong to, and not as data.
        if qtype.is_dnssec_proof() || qtype == Rtype::ANY {
            return None;
        }
        match self.look_up(Side::Zone, qname.view(), qtype) {
            Some((CachedAnswer::Set(set), provenance)) if provenance.asked_with_do => {
                return Some(Part { sets: vec![set], ..Part::of_cache(Ending::Answered) });
            }
            Some((CachedAnswer::Denied(denial), provenance)) if provenance.asked_with_do => {
                return Some(Part::of_cache(Ending::Denied(qname.clone(), denial)));
            }
            _ => {}
        }
        // DS records belong to the parent zone, so an alias in the child zone does not apply to
        // them.
        if qtype != Rtype::DS
            && let Some((sets, next)) = self.alias(qname, boundary_len)
        {
            let ending =
                if qtype == Rtype::CNAME { Ending::Answered } else { Ending::GoesOn(next) };
            return Some(Part { sets, ..Part::of_cache(ending) });
        }
        let (len, denial, provenance) = self.look_up_nxdomain(Side::Zone, qname.view())?;
        // An NXDOMAIN from above the configured zone that contains the name is ignored (S23 in
        // tests/SECURITY.md).
        let covers = len >= boundary_len && provenance.asked_with_do;
        // Some servers of unsigned zones deny names that have names below them. A proof that is not
        // validated yet is validated before its use.
        let is_proven = denial.security == Security::Secure || !denial.proof.is_empty();
        let covers = covers && (len == qname.view().len() || is_proven);
        // An NXDOMAIN at the child's apex does not deny the DS records there.
        let is_of_child = denial.soa.as_ref().is_some_and(|soa| soa.owner == *qname);
        let covers = covers && (qtype != Rtype::DS || !is_of_child);
        covers.then(|| Part::of_cache(Ending::Denied(qname.clone(), denial)))
    }

    fn alias(&mut self, qname: &Name, boundary_len: usize) -> Option<(Vec<Rrset>, Name)> {
        if let Some((CachedAnswer::Set(set), provenance)) =
            self.look_up(Side::Zone, qname.view(), Rtype::CNAME)
            && provenance.asked_with_do
        {
            let target = folded_target(set.records.first()?)?;
            return Some((vec![set], target.view().into()));
        }
        // A DNAME above the configured zone is ignored, too.
        let boundary_len = boundary_len.max(2);
        for owner in
            qname.view().ancestors().skip(1).take_while(|owner| owner.len() >= boundary_len)
        {
            let Some(dname) = self.dname(owner) else { continue };
            let target = substitute(qname, &owner, dname.records.first()?)?.folded();
            let mut cname = Rrset::empty(qname.clone(), Rtype::CNAME, dname.ttl_secs);
            cname.records.push(target.view().wire());
            (cname.security, cname.synthesised) = (dname.security, true);
            return Some((vec![dname, cname], target.view().into()));
        }
        None
    }

    fn dname(&mut self, owner: FoldedName<'_>) -> Option<Rrset> {
        if let Some((CachedAnswer::Set(dname), provenance)) =
            self.look_up(Side::Zone, owner, Rtype::DNAME)
        {
            return provenance.asked_with_do.then_some(dname);
        }
        match self.look_up(Side::Delegation, owner, Rtype::DNAME)? {
            (CachedAnswer::Set(dname), _) => Some(Rrset { ttl_secs: 0, ..dname }),
            (CachedAnswer::Denied(_), _) => None,
        }
    }

    /// Returns the nearest cached delegation at or above `start`, down to names of `least_len`
    /// octets. The addresses of its servers come from the parent, and the spare ones from the
    /// servers' own zones.
    pub(crate) fn delegation(&mut self, start: FoldedName<'_>, least_len: usize) -> Option<Cut> {
        let names = |ns: &RrsetView<'_>| -> (Vec<Name>, u32) {
            let names = ns.records().take(MAX_NS).filter_map(name_of_server);
            (names.collect(), rrset::remaining(ns.freshness))
        };
        let mut zones = start.ancestors().take_while(|zone| zone.len() >= least_len);
        let (zone, (servers, ttl_secs)) = zones
            .find_map(|zone| Some((zone, self.read(Side::Delegation, zone, Rtype::NS, names)?)))?;
        let servers = servers.into_iter().map(|name| NameServer {
            addresses: self.addresses(Side::Delegation, name.view()),
            spare: self.addresses(Side::Zone, name.view()),
            name,
        });
        let servers = CutServers::Named(servers.collect());
        // The delegation of the root never expires, because the root has no parent that could
        // remove it.
        let left_secs = if zone.len() > 1 { ttl_secs } else { u32::MAX };
        Some(Cut { zone: zone.into(), servers, left_secs })
    }

    /// Returns the cached addresses of a server.
    pub(crate) fn addresses(&mut self, side: Side, server: FoldedName<'_>) -> Vec<IpAddr> {
        let mut addresses = Vec::new();
        for rtype in [Rtype::A, Rtype::AAAA] {
            self.read(side, server, rtype, |set| {
                let found = set.records().filter_map(|rdata| address(rtype, rdata));
                addresses.extend(found.take(MAX_ADDRESSES));
            });
        }
        addresses
    }
}
