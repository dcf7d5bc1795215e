//! Gaps between the names of signed zones, by NSEC records that were validated: names that lie in
//! one are denied without asking (RFC 8198 §5.1).

use std::collections::{BTreeMap, HashMap, VecDeque};

use avocet_cache::Security;
use avocet_dnssec::aggressive::{Synthesis, synthesise};
use avocet_dnssec::{DenialKind, Proof};
use avocet_wire::{Rcode, Rtype, name};

use super::Walker;
use super::part::{Ending, Part};
use super::rrset::{Denial, Name, Rrset};
use super::trust::lend;

/// Most zones of which gaps are known, in each resolver.
const MAX_ZONES: usize = 512;
/// Most gaps of one zone.
const MAX_GAPS: usize = 1_024;
/// Most gaps that one denial is made of: of the name, and of the wildcard for it.
const MAX_STEPS: usize = 3;

/// A zone's gap that a name lies in.
#[derive(Clone, Debug)]
pub(crate) struct Gap {
    pub(crate) soa: Rrset,
    /// The NSEC RRset right before the name, or at it. TTLs are counted down.
    pub(crate) nsec: Rrset,
}

#[derive(Debug)]
struct Zone {
    soa: (Rrset, u64),
    /// By [`order`].
    nsecs: BTreeMap<Vec<u8>, (Rrset, u64)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    zones: HashMap<Name, Zone>,
    /// Zones from the one that was put in first.
    order: VecDeque<Name>,
}

/// Octets that compare as names do in canonical order (RFC 4034 §6.1): labels from the root on, each
/// ended by what is less than any octet.
fn order(wire: &[u8]) -> Vec<u8> {
    let mut labels: Vec<&[u8]> = name::labels(wire).collect();
    labels.reverse();
    let mut key = Vec::with_capacity(2 * wire.len());
    for label in labels {
        for &octet in label {
            key.push(octet.to_ascii_lowercase());
            if octet == 0 {
                key.push(1);
            }
        }
        key.extend([0, 0]);
    }
    key
}

fn left(set: &(Rrset, u64), now_ms: u64) -> Option<Rrset> {
    let ttl_secs = set.1.checked_sub(now_ms)? / 1_000;
    (ttl_secs > 0).then(|| Rrset { ttl_secs: ttl_secs as u32, ..set.0.clone() })
}

impl Gaps {
    /// Puts in NSEC RRsets of the zone with this SOA RRset.
    pub(crate) fn insert(&mut self, soa: Rrset, nsecs: Vec<Rrset>, now_ms: u64) {
        if nsecs.is_empty() {
            return;
        }
        let until = |set: &Rrset| now_ms + u64::from(set.ttl_secs) * 1_000;
        let apex = soa.owner.clone();
        let soa_until = until(&soa);
        if !self.zones.contains_key(&apex) {
            self.order.push_back(apex.clone());
            if self.order.len() > MAX_ZONES
                && let Some(first) = self.order.pop_front()
            {
                self.zones.remove(&first);
            }
        }
        let zone = self.zones.entry(apex).or_insert_with(|| Zone { soa: (soa.clone(), 0), nsecs: BTreeMap::new() });
        zone.soa = (soa, soa_until);
        if zone.nsecs.len() + nsecs.len() > MAX_GAPS {
            zone.nsecs.retain(|_, (_, until_ms)| *until_ms > now_ms);
        }
        if zone.nsecs.len() + nsecs.len() > MAX_GAPS {
            zone.nsecs.clear();
        }
        zone.nsecs.extend(nsecs.into_iter().map(|set| (order(&set.owner), (set.clone(), until(&set)))));
    }

    /// The gap that a name lies in, of the nearest zone above of which any is known.
    pub(crate) fn get(&self, owner: &[u8], now_ms: u64) -> Option<Gap> {
        let zone = name::ancestors(owner).find_map(|apex| self.zones.get(apex))?;
        let (_, nsec) = zone.nsecs.range(..=order(owner)).next_back()?;
        Some(Gap { soa: left(&zone.soa, now_ms)?, nsec: left(nsec, now_ms)? })
    }
}

impl Walker {
    /// A denial out of gaps that are known. Names that exist, and what wildcards say, are asked for.
    pub(crate) async fn part_from_gap(&mut self, qname: &Name, qtype: Rtype) -> Option<Part> {
        let is_data = !qtype.is_meta() && !qtype.is_dnssec_proof();
        if !is_data || !self.recursion().aggressive_nsec || self.validation().is_none() || self.checking_disabled {
            return None;
        }
        let Gap { mut soa, nsec } = self.io.gap(qname).await?;
        // A zone of the configuration that is nearer to the name knows better (S23).
        let nearest = self.plan.configured(qname).map_or(0, |zone| usize::from(zone.apex_len()));
        if nearest > soa.owner.len() {
            return None;
        }
        let mut nsecs = vec![nsec];
        for _ in 0..MAX_STEPS {
            let budget = &mut self.budget;
            let found = lend(&nsecs, |sets| synthesise(&mut Proof::cached(sets, &soa.owner), qname, qtype, budget));
            match found.ok()? {
                Synthesis::Missing(other) => {
                    let gap = self.io.gap(&other.wire().into()).await?;
                    if gap.soa.owner != soa.owner || nsecs.iter().any(|set| set.owner == gap.nsec.owner) {
                        return None;
                    }
                    nsecs.push(gap.nsec);
                }
                Synthesis::Denied(denial) => {
                    let is_nxdomain = denial.kind == DenialKind::Nxdomain;
                    let rcode = if is_nxdomain { Rcode::NXDOMAIN } else { Rcode::NOERROR };
                    soa.ttl_secs = soa.ttl_secs.min(denial.lifetime_secs);
                    let denial = Denial { rcode, soa: Some(soa), proof: nsecs, security: Security::Secure };
                    let ending = Ending::Denied(qname.clone(), denial);
                    let (sets, proof) = (Vec::new(), Vec::new());
                    self.io.note(super::channel::Note::Synthesised);
                    return Some(Part {
                        sets,
                        ending,
                        proof,
                        beside: Vec::new(),
                        zone: None,
                        is_authoritative: false,
                        server: None,
                    });
                }
                Synthesis::Wildcard(_) | Synthesis::Ask => return None,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_wire::canonical::compare_names;

    #[test]
    fn keys_are_in_the_order_of_names() {
        let names: [&[u8]; 9] = [
            b"\x00",
            b"\x07example\x00",
            b"\x01a\x07example\x00",
            b"\x08yljkjljk\x01a\x07example\x00",
            b"\x01Z\x01a\x07example\x00",
            b"\x01\x01\x01z\x07example\x00",
            b"\x01\x00\x01z\x07example\x00",
            b"\x02\x00\x01\x01z\x07example\x00",
            b"\x01*\x01z\x07example\x00",
        ];
        for a in names {
            for b in names {
                assert_eq!(order(a).cmp(&order(b)), compare_names(a, b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn gaps_are_found_until_they_end_and_are_bounded() {
        let set = |owner: &[u8], rtype| Rrset::empty(owner.into(), rtype, 10);
        let mut gaps = Gaps::default();
        let nsec = set(b"\x01b\x07example\x00", Rtype::NSEC);
        gaps.insert(set(b"\x07example\x00", Rtype::SOA), vec![nsec], 1_000);
        let found = |gaps: &Gaps, now_ms| gaps.get(b"\x01c\x07example\x00", now_ms).map(|gap| gap.nsec.ttl_secs);
        assert_eq!((found(&gaps, 1_000), found(&gaps, 6_000), found(&gaps, 11_000)), (Some(10), Some(5), None));
        assert!(gaps.get(b"\x01a\x07example\x00", 1_000).is_none() && gaps.get(b"\x04test\x00", 1_000).is_none());
        for number in 0..=MAX_ZONES as u16 {
            let [high, low] = number.to_be_bytes();
            let zone = [2, high, low, 0];
            gaps.insert(set(&zone, Rtype::SOA), vec![set(&zone, Rtype::NSEC)], 1_000);
        }
        assert_eq!(gaps.zones.len(), MAX_ZONES);
    }
}
