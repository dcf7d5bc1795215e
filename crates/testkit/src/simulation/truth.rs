//! The right answer to a question in a simulated internet, derived from its zones.

use std::collections::BTreeMap;

use avocet_wire::{Rcode, Rtype};

use super::internet::Internet;
use super::zone::{Said, Set, Wire, Zone};

/// Maximum number of aliases followed: more than the resolver follows.
pub(super) const MAX_ALIASES: usize = 32;
/// Longest chain of aliases that the resolver must follow.
const MAX_EXPECTED: usize = 8;

/// A record without its TTL.
pub(super) type Fact = (Wire, u16, Vec<u8>);

/// The zones' data for one name of a chain of aliases.
pub(super) struct Link {
    pub(super) rcode: Rcode,
    /// Records with their TTLs.
    pub(super) facts: BTreeMap<Fact, u32>,
    /// The target of the alias.
    pub(super) next: Option<Wire>,
    /// Whether validation can prove the data.
    pub(super) is_secure: bool,
    /// Whether an attacker can change the data unless it is validated.
    pub(super) is_tainted: bool,
    /// Whether an attacker can make the link fail.
    pub(super) is_exposed: bool,
}

/// A whole chain of aliases with its end.
pub(super) struct Truth {
    pub(super) rcode: Rcode,
    /// The answer section, with the TTLs.
    pub(super) answer: BTreeMap<Fact, u32>,
    /// Whether validation can prove the whole answer.
    pub(super) is_secure: bool,
    /// Whether an attacker can make the resolution fail.
    pub(super) is_exposed: bool,
    /// Whether the chain has an end that the resolver must find.
    pub(super) has_end: bool,
}

impl Link {
    pub(super) fn of(internet: &Internet, at: &[u8], qtype: Rtype) -> Self {
        let number = internet.zone_of(at, qtype);
        let zone = &internet.zones[number];
        let said = zone.say(at, qtype);
        let mut link = Self {
            rcode: Rcode::NOERROR,
            facts: BTreeMap::new(),
            next: None,
            is_secure: zone.is_secure && is_proven(zone, at, &said),
            is_tainted: internet.is_tainted(number)
                || qtype == Rtype::DS && is_tainted_apex(internet, at),
            is_exposed: internet.is_exposed(number)
                || qtype == Rtype::DS && is_tainted_apex(internet, at),
        };
        match said {
            Said::Records(sets, _) => sets.into_iter().for_each(|set| link.take(at, set)),
            Said::Cname(alias, _) => {
                link.take(at, alias);
                link.next = Some(alias.data[0].clone());
            }
            Said::Dname(dname) => {
                link.take(&dname.owner, dname);
                match Zone::substitute(at, dname) {
                    None => link.rcode = Rcode::YXDOMAIN,
                    Some(alias) => {
                        link.take(at, &alias);
                        // A query for the alias itself ends here.
                        link.next = (qtype != Rtype::CNAME).then(|| alias.data[0].clone());
                    }
                }
            }
            Said::Nxdomain(_) => link.rcode = Rcode::NXDOMAIN,
            Said::Nodata(_) => {}
            Said::Delegated(_) => unreachable!("the zone of a name does not delegate it"),
        }
        link
    }

    fn take(&mut self, owner: &[u8], set: &Set) {
        for data in &set.data {
            self.facts.insert((owner.to_vec(), set.rtype.0, data.clone()), set.ttl_secs);
        }
    }
}

/// Reports whether a signed zone proves its part of an answer. With opt-out, it does not prove that
/// names are absent (RFC 5155 §9.2).
fn is_proven(zone: &Zone, at: &[u8], said: &Said<'_>) -> bool {
    let Some(chain) = zone.chain() else { return false };
    match said {
        Said::Records(_, None) | Said::Cname(_, None) | Said::Dname(_) => true,
        Said::Nodata(None) => chain.proves_absence() || chain.matches(at),
        Said::Records(_, Some(_))
        | Said::Cname(_, Some(_))
        | Said::Nodata(Some(_))
        | Said::Nxdomain(_) => chain.proves_absence(),
        Said::Delegated(_) => false,
    }
}

/// Reports whether the name is the apex of a tainted zone, whose servers may be asked for DS as
/// well.
fn is_tainted_apex(internet: &Internet, at: &[u8]) -> bool {
    internet
        .zones
        .iter()
        .position(|zone| zone.apex == at)
        .is_some_and(|number| internet.is_tainted(number))
}

impl Truth {
    pub(super) fn of(internet: &Internet, qname: &[u8], qtype: Rtype) -> Self {
        let mut truth = Self {
            rcode: Rcode::NOERROR,
            answer: BTreeMap::new(),
            is_secure: true,
            is_exposed: false,
            has_end: false,
        };
        let mut at = qname.to_vec();
        for aliases in 0..=MAX_ALIASES {
            let link = Link::of(internet, &at, qtype);
            truth.is_secure &= link.is_secure;
            truth.is_exposed |= link.is_exposed;
            truth.rcode = link.rcode;
            truth.answer.extend(link.facts);
            match link.next {
                Some(next) => at = next,
                None => {
                    truth.has_end = aliases <= MAX_EXPECTED;
                    break;
                }
            }
        }
        truth
    }
}
