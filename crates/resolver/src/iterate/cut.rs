//! Zone cuts on the way to a name, and the servers of the delegated zones (RFC 1034 §5.3.3 steps 2
//! and 4b).
//!
//! Delegations are parent-centric: only the parent's NS RRset decides which servers are queried,
//! never the NS RRset of the zone itself. If the parent removes a zone, the zone therefore
//! disappears when its cached delegation expires (S22 in tests/SECURITY.md).

use std::net::{IpAddr, SocketAddr};

use avocet_cache::Rank;
use avocet_wire::view::RecordSection;
use avocet_wire::{DNS_PORT, FoldedName, Rtype, name};

use super::Walker;
use super::channel::Note;
use super::fetch::{Fetched, MAX_CANDIDATES};
use super::part::{delegated_ds, proof_in};
use super::rrset::{Most, Name, Rrset, Side, Stored, Ungrouped, group};
use crate::configured::Configured;
use crate::exchange::endpoint::{Endpoint, Strategy};
use crate::read::folded_target;
use crate::trace::Why;

/// Maximum number of servers that are used from one delegation (BIND: 13, CVE-2026-3592).
pub(crate) const MAX_NS: usize = 13;
/// Maximum number of addresses that are used for one server.
pub(crate) const MAX_ADDRESSES: usize = 6;
/// Minimum lifetime of a cached delegation, in seconds. Without this limit, an answer could outlive
/// the delegation, and the policy could then not test the servers.
const MIN_DELEGATION_SECS: u32 = 1;
/// Seconds between priming queries (RFC 8109).
const PRIMED_SECS: u32 = 86_400;

/// Seconds between priming queries after a failed one. The hints are used in the meantime.
const UNPRIMED_SECS: u32 = 300;

/// A zone cut: a zone and its servers.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    pub(crate) zone: Name,
    pub(crate) servers: CutServers,
    /// The remaining TTL. It is at most the remaining TTL of the delegations above, because no
    /// delegation outlives these (S22 in tests/SECURITY.md).
    pub(crate) left_secs: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum CutServers {
    /// The name servers of a delegation, with their glue.
    Named(Vec<NameServer>),
    /// The configured servers of a stub zone or forwarding rule.
    Listed { servers: Vec<Endpoint>, forward: Option<ForwardManner> },
}

/// The settings for queries to the servers of a forwarding rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardManner {
    pub(crate) strategy: Strategy,
    pub(crate) case_randomisation: bool,
    pub(crate) timeout_ms: (u32, u32),
}

/// A name server of a delegation.
#[derive(Clone, Debug)]
pub(crate) struct NameServer {
    pub(crate) name: Name,
    pub(crate) addresses: Vec<IpAddr>,
    /// Other addresses of the server: those from the parent if `addresses` come from the server's
    /// own zone, or vice versa. They are used as a last resort.
    pub(crate) spare: Vec<IpAddr>,
}

impl Cut {
    /// Returns the zone cut in a referral, with the glue that is acceptable: addresses of names
    /// within the queried zone (S5 in tests/SECURITY.md).
    pub(crate) fn from_referral(zone: Name, asked: &[u8], fetched: &Fetched) -> Self {
        let ns = fetched.reply.section(RecordSection::Authority);
        let ns = ns.filter(|record| record.rtype == Rtype::NS && record.owner == zone.view());
        let mut servers: Vec<NameServer> = Vec::new();
        for record in ns {
            let Some(target) = name_of_server(record.rdata) else { continue };
            if servers.len() == MAX_NS {
                break;
            }
            if servers.iter().any(|server| server.name == target) {
                continue;
            }
            let glue = fetched.reply.section(RecordSection::Additional);
            let glue = glue
                .filter(|record| *record.owner == *target && name::is_under(&record.owner, asked));
            let addresses = glue
                .filter_map(|record| address(record.rtype, record.rdata))
                .take(MAX_ADDRESSES)
                .collect();
            servers.push(NameServer { name: target, addresses, spare: Vec::new() });
        }
        Self { zone, servers: CutServers::Named(servers), left_secs: 0 }
    }

    /// Returns whether the servers of this zone cut are known by name, from a delegation.
    pub(crate) fn is_named(&self) -> bool {
        matches!(self.servers, CutServers::Named(_))
    }

    /// Returns whether the servers of this zone cut are recursive resolvers, to which queries are
    /// forwarded.
    pub(crate) fn recurses(&self) -> bool {
        matches!(&self.servers, CutServers::Listed { forward: Some(_), .. })
    }

    /// Returns whether any server has a name outside of this zone, so that its addresses can be
    /// resolved without querying the zone. Always `true` for configured servers.
    fn names_others(&self) -> bool {
        match &self.servers {
            CutServers::Named(servers) => {
                servers.iter().any(|server| !name::is_under(&server.name, &self.zone))
            }
            CutServers::Listed { .. } => true,
        }
    }
}

/// Returns the address in A or AAAA data.
pub(crate) fn address(rtype: Rtype, rdata: &[u8]) -> Option<IpAddr> {
    match rtype {
        Rtype::A => <[u8; 4]>::try_from(rdata).ok().map(IpAddr::from),
        Rtype::AAAA => <[u8; 16]>::try_from(rdata).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Returns the name in the data of an NS record.
pub(crate) fn name_of_server(rdata: &[u8]) -> Option<Name> {
    folded_target(rdata).map(|name| name.view().into())
}

impl Walker {
    /// Returns the nearest zone cut at or above a name whose servers are known. For DS records, the
    /// cut is above the name, because they belong to the parent.
    pub(crate) async fn nearest_cut(&mut self, qname: &Name, qtype: Rtype) -> Cut {
        let skip = usize::from(qtype == Rtype::DS && qname.len() > 1);
        self.cut_above(qname.view().ancestors().nth(skip).unwrap_or(FoldedName::ROOT).into()).await
    }

    /// Returns the nearest zone cut above `zone`.
    pub(crate) async fn cut_of_parent(&mut self, zone: &Name) -> Cut {
        self.cut_above(zone.view().parent().unwrap_or(FoldedName::ROOT).into()).await
    }

    /// Returns the nearest zone cut at or above `start` whose servers are known.
    async fn cut_above(&mut self, start: Name) -> Cut {
        let configured = self.plan.configured(start.view());
        if let Some(Configured::Forward(_)) = configured {
            return self.configured_cut(&start, configured);
        }
        let apex_len = configured.map_or(1, |zone| usize::from(zone.apex_len()));
        if let Some(cut) = self.known_delegation(start.clone(), apex_len + 1).await {
            return cut;
        }
        match configured {
            Some(_) => self.configured_cut(&start, configured),
            None => self.root().await,
        }
    }

    fn is_reachable(&self, cut: &Cut) -> bool {
        cut.names_others() || !self.candidates(cut).is_empty()
    }

    fn configured_cut(&self, below: &Name, configured: Option<Configured>) -> Cut {
        let apex_len = configured.map_or(1, |zone| usize::from(zone.apex_len()));
        let zone = below.view().ancestor_of_len(apex_len).into();
        let servers = match configured {
            Some(Configured::Forward(route)) => {
                let rule = self.plan.rule(route);
                let manner = ForwardManner {
                    strategy: rule.strategy,
                    case_randomisation: rule.case_randomisation,
                    timeout_ms: rule.timeout_ms,
                };
                let servers =
                    rule.upstreams.iter().map(|&number| self.plan.upstreams[usize::from(number)]);
                CutServers::Listed {
                    servers: servers.take(MAX_CANDIDATES).collect(),
                    forward: Some(manner),
                }
            }
            Some(Configured::Stub(number, _)) => {
                let stub = self.recursion().stubs.get(number);
                let servers = stub.into_iter().flat_map(|stub| &stub.servers).copied();
                let servers = servers.map(Endpoint::plain);
                CutServers::Listed {
                    servers: servers.take(MAX_CANDIDATES).collect(),
                    forward: None,
                }
            }
            None => CutServers::Named(Vec::new()),
        };
        Cut { zone, servers, left_secs: u32::MAX }
    }

    /// Returns the zone cut of the root, with servers from a priming response or from the hints.
    async fn root(&mut self) -> Cut {
        let root: Name = FoldedName::ROOT.into();
        if self.recursion().priming
            && let Some(cut) = self.known_delegation(root.clone(), root.len()).await
        {
            return cut;
        }
        let hints = self.recursion().hints.iter();
        let servers = hints.filter_map(|hint| {
            let name = name_of_server(&hint.name)?;
            Some(NameServer { name, addresses: hint.addresses.clone(), spare: Vec::new() })
        });
        let hinted =
            Cut { zone: root, servers: CutServers::Named(servers.collect()), left_secs: u32::MAX };
        if !self.recursion().priming || self.is_priming || self.local_root().is_some() {
            return hinted;
        }
        self.is_priming = true;
        self.io.enter(Why::Priming, &hinted.zone, Rtype::NS);
        let primed = Box::pin(self.prime(&hinted)).await;
        self.io.leave();
        self.is_priming = false;
        primed.unwrap_or_else(|| {
            self.keep_delegation(&hinted, UNPRIMED_SECS, &[]);
            hinted
        })
    }

    /// Sends a priming query to the servers of the hints (RFC 8109).
    async fn prime(&mut self, hinted: &Cut) -> Option<Cut> {
        let root: Name = FoldedName::ROOT.into();
        let fetched = self.ask_once(hinted, &root, Rtype::NS).await?;
        let ns =
            fetched.reply.section(RecordSection::Answer).filter(|record| record.rtype == Rtype::NS);
        let servers: Vec<NameServer> = ns
            .take(MAX_NS)
            .filter_map(|record| {
                let name = name_of_server(record.rdata)?;
                let glue = fetched.reply.records().filter(|glue| glue.owner == name.view());
                let mut addresses: Vec<IpAddr> = glue
                    .filter_map(|glue| address(glue.rtype, glue.rdata))
                    .take(MAX_ADDRESSES)
                    .collect();
                if let CutServers::Named(hints) = &hinted.servers
                    && addresses.is_empty()
                    && let Some(hint) = hints.iter().find(|hint| hint.name == name)
                {
                    addresses.clone_from(&hint.addresses);
                }
                Some(NameServer { name, addresses, spare: Vec::new() })
            })
            .collect();
        let cut = Cut { zone: root, servers: CutServers::Named(servers), left_secs: u32::MAX };
        if !self.is_reachable(&cut) {
            return None;
        }
        self.keep_delegation(&cut, PRIMED_SECS, &[]);
        Some(cut)
    }

    /// Returns the nearest cached delegation at or above `start`, down to names of `least_len`
    /// octets, with servers that may be queried.
    async fn known_delegation(&mut self, start: Name, least_len: usize) -> Option<Cut> {
        let mut start = start;
        loop {
            let mut cut = self.io.delegation(start, least_len).await?;
            if let CutServers::Named(servers) = &mut cut.servers {
                for server in servers {
                    // The addresses from the server's own zone take precedence over the glue.
                    if self.any_to_ask(&cut.zone, &server.name, &server.spare) {
                        std::mem::swap(&mut server.addresses, &mut server.spare);
                    }
                }
            }
            if self.is_reachable(&cut) {
                return Some(cut);
            }
            start = cut.zone.view().parent()?.into();
        }
    }

    /// Caches a delegation and its glue with their TTLs, which are at least
    /// [`MIN_DELEGATION_SECS`].
    pub(crate) fn keep_delegation(&self, cut: &Cut, ttl_secs: u32, glue: &[Rrset]) {
        let how = Stored { side: Side::Delegation, rank: Rank::Additional, with_do: false };
        let CutServers::Named(servers) = &cut.servers else { return };
        let ttl_secs = ttl_secs.max(MIN_DELEGATION_SECS);
        let mut ns = Rrset::empty(cut.zone.clone(), Rtype::NS, ttl_secs);
        ns.records = servers.iter().map(|server| &*server.name).collect();
        self.io.note(Note::Store(ns, how));
        for set in glue {
            let ttl_secs = set.ttl_secs.max(MIN_DELEGATION_SECS);
            self.io.note(Note::Store(Rrset { ttl_secs, ..set.clone() }, how));
        }
        if !glue.is_empty() {
            return;
        }
        for server in servers {
            for rtype in [Rtype::A, Rtype::AAAA] {
                let mut set = Rrset::empty(server.name.clone(), rtype, ttl_secs);
                let octets = |ip: &IpAddr| -> Box<[u8]> {
                    match ip {
                        IpAddr::V4(ip) => ip.octets().into(),
                        IpAddr::V6(ip) => ip.octets().into(),
                    }
                };
                set.records = server
                    .addresses
                    .iter()
                    .map(octets)
                    .filter(|octets| (octets.len() == 4) == (rtype == Rtype::A))
                    .collect();
                if !set.records.is_empty() {
                    self.io.note(Note::Store(set, how));
                }
            }
        }
    }

    /// Extracts the delegation from a referral, and caches it.
    pub(crate) fn take_referral(&mut self, zone: Name, asked: &Cut, fetched: &Fetched) -> Cut {
        let mut cut = Cut::from_referral(zone, &asked.zone, fetched);
        self.drop_glue_of_stubs(&mut cut, asked);
        let ns = fetched
            .reply
            .records()
            .filter(|record| record.rtype == Rtype::NS && *record.owner == *cut.zone);
        let ttl_secs =
            ns.map(|record| record.ttl_secs).min().unwrap_or(0).min(self.plan.settings.ttl.max);
        let ttl_secs = ttl_secs.min(asked.left_secs);
        cut.left_secs = ttl_secs;
        let mut of_ds = delegated_ds(cut.zone.view(), &fetched.reply);
        of_ds.extend(proof_in(&fetched.reply));
        self.referrals.insert(cut.zone.clone(), of_ds);
        let CutServers::Named(servers) = &cut.servers else { return cut };
        let is_glue = |owner: FoldedName<'_>| {
            servers.iter().any(|server| *server.name == *owner && !server.addresses.is_empty())
        };
        let glue = fetched.reply.section(RecordSection::Additional);
        let glue = glue.filter(|record| {
            matches!(record.rtype, Rtype::A | Rtype::AAAA) && is_glue(record.owner)
        });
        // Glue must not outlive its delegation (S22 in tests/SECURITY.md).
        let glue = glue.map(|record| {
            let ungrouped = Ungrouped::of(&record);
            Ungrouped { ttl_secs: ungrouped.ttl_secs.min(ttl_secs), ..ungrouped }
        });
        let glue = group(glue, Most { sets: 2 * MAX_NS, records: MAX_ADDRESSES });
        self.keep_delegation(&cut, ttl_secs, &glue);
        cut
    }

    /// Removes the glue of servers that are in stub zones below the queried zone, because the stub
    /// zone's own servers have these addresses.
    fn drop_glue_of_stubs(&self, cut: &mut Cut, asked: &Cut) {
        let CutServers::Named(servers) = &mut cut.servers else { return };
        for server in servers {
            let stub = self.plan.stubs.nearest(server.name.view());
            if stub.is_some_and(|(_, apex_len)| usize::from(apex_len) > asked.zone.len()) {
                server.addresses.clear();
            }
        }
    }

    /// Returns the known addresses of a zone cut's servers that may be queried.
    pub(crate) fn candidates(&self, cut: &Cut) -> Vec<Endpoint> {
        let mut candidates = Vec::new();
        match &cut.servers {
            CutServers::Listed { servers, .. } => {
                candidates.extend(
                    servers.iter().filter(|server| self.is_listed_to_be_asked(server.addr)),
                );
            }
            CutServers::Named(servers) => {
                let all = servers.iter().flat_map(|server| {
                    server.addresses.iter().map(|ip| (&server.name, SocketAddr::new(*ip, DNS_PORT)))
                });
                for (server, addr) in all {
                    let candidate = Endpoint::plain(addr);
                    let is_new = !candidates.contains(&candidate);
                    if is_new
                        && candidates.len() < MAX_CANDIDATES
                        && self.is_to_be_asked(&cut.zone, server, addr)
                    {
                        candidates.push(candidate);
                    }
                }
            }
        }
        candidates
    }

    /// Returns whether a configured server with this address may be queried. The address must not
    /// be an address of this server.
    fn is_listed_to_be_asked(&self, addr: SocketAddr) -> bool {
        !self.recursion().own.contains(&addr)
    }
}
