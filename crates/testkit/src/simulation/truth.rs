//! What a simulated internet says of a question, found by looking at its zones.

use std::collections::BTreeMap;

use avocet_wire::{Rcode, Rtype};

use super::authority::substituted;
use super::internet::Internet;
use super::zone::{Said, Set, Wire};

/// Aliases that are followed; more of them are for the resolver to give up on, and it may do so earlier.
const MAX_ALIASES: usize = 8;

/// A record without its TTL.
pub(super) type Fact = (Wire, u16, Vec<u8>);

/// See the module.
#[derive(Debug)]
pub(super) struct Truth {
    pub(super) rcode: Rcode,
    /// The answer section, with the TTLs.
    pub(super) answer: BTreeMap<Fact, u32>,
    /// All of it lies in zones that a chain of trust leads to.
    pub(super) is_secure: bool,
    /// A lying server may have had a hand in it.
    pub(super) is_tainted: bool,
    /// The aliases have an end.
    pub(super) has_end: bool,
}

impl Truth {
    pub(super) fn of(internet: &Internet, qname: &[u8], qtype: Rtype) -> Self {
        let mut truth =
            Self { rcode: Rcode::NOERROR, answer: BTreeMap::new(), is_secure: true, is_tainted: false, has_end: false };
        let mut at = qname.to_vec();
        for _ in 0..=MAX_ALIASES {
            match truth.step(internet, &at, qtype) {
                Some(next) => at = next,
                None => {
                    truth.has_end = true;
                    break;
                }
            }
        }
        truth
    }

    /// Adds what is said of one name. Some: where its alias leads.
    fn step(&mut self, internet: &Internet, at: &[u8], qtype: Rtype) -> Option<Wire> {
        let number = internet.zone_of(at, qtype);
        let zone = &internet.zones[number];
        self.is_secure &= zone.is_secure;
        self.is_tainted |= internet.is_tainted(number);
        match zone.say(at, qtype) {
            Said::Records(sets, _) => sets.into_iter().for_each(|set| self.take(at, set)),
            Said::Cname(alias, _) => {
                self.take(at, alias);
                return Some(alias.data[0].clone());
            }
            Said::Dname(dname) => {
                self.take(&dname.owner, dname);
                let Some(alias) = substituted(at, dname) else {
                    self.rcode = Rcode::YXDOMAIN;
                    return None;
                };
                self.take(at, &alias);
                // Whoever asked for an alias has it.
                return (qtype != Rtype::CNAME).then(|| alias.data[0].clone());
            }
            Said::Nxdomain(_) => self.rcode = Rcode::NXDOMAIN,
            Said::Nodata(_) => {}
            Said::Delegated(_) => unreachable!("the zone of a name does not delegate it"),
        }
        None
    }

    fn take(&mut self, owner: &[u8], set: &Set) {
        for data in &set.data {
            self.answer.insert((owner.to_vec(), set.rtype.0, data.clone()), set.ttl_secs);
        }
    }
}
