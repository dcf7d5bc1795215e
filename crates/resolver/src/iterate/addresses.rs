//! The look-up of addresses of name servers that are missing in a delegation, or are unusable
//! there.
//!
//! Glue is only for reaching a server, and is not authoritative (RFC 9471 §2, RFC 2181 §5.4.1). If
//! a server has no usable address, or its addresses did not answer, its name is resolved in the
//! zone that owns it, one address family after the other. A question may make only a few look-ups
//! that yield nothing (S9 in tests/SECURITY.md).

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use avocet_wire::{DNS_PORT, Rcode, Rtype, name};

use super::Walker;
use super::cut::{Cut, CutServers, NameServer, address};
use super::fetch::Extent;
use super::frame::Frame;
use super::part::Ending;
use super::rrset::{Denial, Name, Side};
use crate::configured::Configured;
use crate::failure::Failure;
use crate::recursion::{AddressReach, may_ask};
use crate::scrub::MAX_ALIASES;
use crate::trace::{Step, Why};

/// Maximum number of look-ups of servers that yield no address, in total for one question (Unbound:
/// 5).
pub(super) const MAX_FAILED_SERVERS: u32 = 4;
/// Maximum number of labels of a registry's zone. A registry is the root or a top-level domain,
/// which delegates domains to others.
const REGISTRY_LABELS: usize = 1;

type Deeper<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A look-up of a server's addresses in one address family.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LookUp {
    pub(super) server: Name,
    rtype: Rtype,
    /// The part of the server's name that a denial must cover.
    extent: Extent,
}

/// The look-ups that were made for the servers of one zone cut.
#[derive(Default)]
pub(super) struct LookUps {
    made: Vec<LookUp>,
    /// Servers without an address: their names do not exist, or cannot be resolved.
    given_up: Vec<Name>,
    /// Servers that probably do not exist, because an ancestor of their name was denied.
    denied_in_part: Vec<Name>,
}

/// The reason to look up a server. Reasons that are more likely to help come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Need {
    /// The server has no address that may be queried.
    NoAddress,
    /// The addresses of the server may be wrong.
    Doubt,
    /// Only an ancestor of the server's name was denied. Some servers wrongly deny empty
    /// non-terminals.
    DeniedInPart,
}

/// The result of looking up the addresses of a server.
enum AddressLookup {
    Addresses(Vec<IpAddr>),
    /// The name, or an ancestor of it, does not exist.
    Denied(DenialSource, Extent),
}

/// The source of a denial. It decides whether the denial counts as a failed look-up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DenialSource {
    Cache,
    /// The denial comes from the registry of the server's domain.
    Registry,
    Other,
}

impl Walker {
    /// Returns the address families in use.
    fn families(&self) -> impl Iterator<Item = Rtype> + use<> {
        let recursion = self.recursion();
        let wanted = [(recursion.ipv4, Rtype::A), (recursion.ipv6, Rtype::AAAA)];
        wanted.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, rtype)| rtype)
    }

    /// Returns which addresses this server of a delegated zone may have. Servers below a stub zone
    /// are often private. They may be queried, because both the delegation and the server's name
    /// are in zones that the operator configured, so that nobody else decides about these
    /// addresses.
    fn reach(&self, zone: &Name, server: &Name) -> AddressReach {
        // A rule or a stub zone for the root does not count, because it contains all names.
        let configured = |name: &Name| {
            self.plan.configured(name.view()).filter(|configured| configured.apex_len() > 1)
        };
        // The delegation of the stub zone itself comes from its parent, so it does not count.
        let is_below_stub = matches!(
            configured(zone),
            Some(Configured::Stub(_, apex_len)) if zone.len() > usize::from(apex_len)
        );
        let is_private = is_below_stub && configured(server).is_some();
        if is_private { AddressReach::Private } else { AddressReach::Internet }
    }

    /// Returns whether this address of a server of a delegated zone may be queried.
    pub(super) fn is_to_be_asked(&self, zone: &Name, server: &Name, addr: SocketAddr) -> bool {
        may_ask(self.recursion(), self.reach(zone, server), addr)
    }

    /// Returns whether any of these addresses of a server of a delegated zone may be queried.
    pub(super) fn any_to_ask(&self, zone: &Name, server: &Name, addresses: &[IpAddr]) -> bool {
        let mut addrs = addresses.iter().map(|ip| SocketAddr::new(*ip, DNS_PORT));
        addrs.any(|addr| self.is_to_be_asked(zone, server, addr))
    }

    /// Returns the next look-up of this server and the reason for it; `None` if no look-up remains.
    fn open(&self, cut: &Cut, made: &LookUps, server: &NameServer) -> Option<(Need, LookUp)> {
        let look_up = |rtype, extent| LookUp { server: server.name.clone(), rtype, extent };
        let is_open = |look_up: &LookUp| !made.made.contains(look_up);
        if made.denied_in_part.contains(&server.name) {
            let whole = self.families().map(|rtype| look_up(rtype, Extent::Whole)).find(is_open)?;
            return Some((Need::DeniedInPart, whole));
        }
        if made.given_up.contains(&server.name) {
            return None;
        }
        let next = self.families().map(|rtype| look_up(rtype, Extent::Part)).find(is_open)?;
        let any = |addresses| self.any_to_ask(&cut.zone, &server.name, addresses);
        if !any(&server.addresses) && !any(&server.spare) {
            return Some((Need::NoAddress, next));
        }
        // Only the servers that did not answer could resolve a name within the zone.
        (!name::is_under(&server.name, &cut.zone)).then_some((Need::Doubt, next))
    }

    /// Returns the most promising reason of the look-ups that remain at this zone cut.
    pub(super) fn need(&self, cut: &Cut, made: &LookUps) -> Option<Need> {
        let CutServers::Named(servers) = &cut.servers else { return None };
        servers.iter().filter_map(|server| self.open(cut, made, server)).map(|(need, _)| need).min()
    }

    /// Returns the next look-up at this zone cut. Among equally promising look-ups, those of a
    /// server in a zone with a known delegation come first.
    pub(super) async fn next_look_up(&mut self, cut: &Cut, made: &LookUps) -> Option<LookUp> {
        let CutServers::Named(servers) = &cut.servers else { return None };
        let open: Vec<_> =
            servers.iter().filter_map(|server| self.open(cut, made, server)).collect();
        let need = open.iter().map(|(need, _)| *need).min()?;
        let mut left: Vec<LookUp> =
            open.into_iter().filter(|(of, _)| *of == need).map(|(_, look_up)| look_up).collect();
        if left.len() == 1 {
            return left.pop();
        }
        let mut best: Option<((usize, u64), LookUp)> = None;
        for look_up in left {
            let key = (self.known_labels(&look_up.server).await, self.draw());
            if best.as_ref().is_none_or(|(of, _)| *of < key) {
                best = Some((key, look_up));
            }
        }
        best.map(|(_, look_up)| look_up)
    }

    /// Returns the number of labels of the nearest zone above the name `server` whose delegation is
    /// known.
    async fn known_labels(&mut self, server: &Name) -> usize {
        for zone in server.view().ancestors().skip(1).take_while(|zone| zone.len() > 1) {
            if self.io.look_up(Side::Delegation, &zone.into(), Rtype::NS).await.is_some() {
                return zone.labels().count();
            }
        }
        0
    }

    /// Looks up the addresses of a server of the zone cut, and adds them to the cut. Returns
    /// `false` if none of these addresses may be queried.
    pub(super) async fn look_up_server(
        &mut self,
        cut: &mut Cut,
        made: &mut LookUps,
        look_up: LookUp,
        frame: &Frame<'_>,
    ) -> bool {
        made.made.push(look_up.clone());
        let found = self.addresses_by(&look_up, frame).await;
        let mut costs = 1;
        let mut addresses = match found {
            Ok(AddressLookup::Addresses(addresses)) => addresses,
            Ok(AddressLookup::Denied(source, extent)) => {
                let is_free = match source {
                    DenialSource::Cache => true,
                    DenialSource::Registry => look_up.extent == Extent::Part,
                    DenialSource::Other => false,
                };
                costs = u32::from(!is_free);
                let denied = if extent == Extent::Part {
                    &mut made.denied_in_part
                } else {
                    &mut made.given_up
                };
                denied.push(look_up.server.clone());
                if extent == Extent::Whole {
                    made.denied_in_part.retain(|name| *name != look_up.server);
                }
                Vec::new()
            }
            Err(_) => {
                made.given_up.push(look_up.server.clone());
                Vec::new()
            }
        };
        let mut glue = self.io.addresses(Side::Delegation, &look_up.server).await;
        if addresses.is_empty() {
            std::mem::swap(&mut addresses, &mut glue);
        }
        let CutServers::Named(servers) = &mut cut.servers else { return false };
        let Some(server) = servers.iter_mut().find(|server| server.name == look_up.server) else {
            return false;
        };
        let before = server.addresses.len();
        addresses.retain(|address| !server.addresses.contains(address));
        glue.retain(|address| !addresses.contains(address) && !server.addresses.contains(address));
        server.addresses.extend(addresses);
        server.spare = glue;
        let new = server.addresses[before..].to_vec();
        let is_found = self.any_to_ask(&cut.zone, &look_up.server, &new);
        if !is_found {
            self.failed_servers += costs;
        }
        is_found
    }

    async fn addresses_by(
        &mut self,
        look_up: &LookUp,
        frame: &Frame<'_>,
    ) -> Result<AddressLookup, Failure> {
        let LookUp { server, rtype, extent } = look_up;
        let Some(frame) = frame.below(server, *rtype) else {
            self.tell_limit("addresses that need one another, or too deep a search");
            return Err(Failure::NoServers);
        };
        self.io.enter(Why::Servers, server, *rtype);
        let found = self.addresses_of(server, *rtype, &frame.denied_by(*extent)).await;
        let count = match &found {
            Ok(AddressLookup::Addresses(addresses)) => addresses.len(),
            _ => 0,
        };
        self.io.record(Step::Addresses(count));
        self.io.leave();
        found
    }

    /// Looks up the addresses of a server. They are used only to send queries, and are never
    /// returned to a client.
    fn addresses_of<'a>(
        &'a mut self,
        server: &'a Name,
        qtype: Rtype,
        frame: &'a Frame<'a>,
    ) -> Deeper<'a, Result<AddressLookup, Failure>> {
        Box::pin(async move {
            let mut at = server.clone();
            for _ in 0..=MAX_ALIASES {
                // The delegation of a zone that others control must not lead to servers in a
                // configured zone.
                if self.plan.is_in_own_zone(at.view()) {
                    return Ok(AddressLookup::Denied(DenialSource::Cache, Extent::Whole));
                }
                let mut part = self.part(&at, qtype, frame).await?;
                // The data is not validated here, so only the first alias is used.
                part.ends_with_alias();
                if !part.denies_above(at.view()) {
                    self.keep(&part, qtype);
                }
                match part.ending {
                    Ending::Answered => {
                        let sets = part.sets.iter().filter(|set| set.rtype == qtype);
                        let records = sets.flat_map(|set| &set.records);
                        return Ok(AddressLookup::Addresses(
                            records.filter_map(|rdata| address(qtype, rdata)).collect(),
                        ));
                    }
                    Ending::Denied(_, denial) if denial.rcode == Rcode::NOERROR => {
                        return Ok(AddressLookup::Addresses(Vec::new()));
                    }
                    Ending::Denied(owner, denial) => {
                        let source = match part.zone {
                            None => DenialSource::Cache,
                            Some(_) if is_of_registry(&denial, &owner, &at) => {
                                DenialSource::Registry
                            }
                            Some(_) => DenialSource::Other,
                        };
                        let extent = if owner == at { Extent::Whole } else { Extent::Part };
                        return Ok(AddressLookup::Denied(source, extent));
                    }
                    Ending::GoesOn(next) if next == at => return Err(Failure::Aliases),
                    Ending::GoesOn(next) => at = next,
                }
            }
            Err(Failure::Aliases)
        })
    }
}

/// Returns whether the root or a top-level domain denies that the domain of this server is
/// registered. Such a denial does not count as a failed look-up: a zone often has many servers in a
/// domain that no longer exists, and one query for each server is no attack on the registry.
fn is_of_registry(denial: &Denial, denied: &Name, server: &Name) -> bool {
    let labels = |name: &Name| name.view().labels().count();
    let Some(of_soa) = denial.soa.as_ref().map(|soa| labels(&soa.owner)) else { return false };
    // Without QNAME minimisation, the complete name was queried.
    let below = if denied.len() < server.len() { 1 } else { 2 };
    of_soa <= REGISTRY_LABELS && labels(denied) == of_soa + below
}
