//! The denial chain of a signed zone: NSEC (RFC 4034 §4) or NSEC3, with or without opt-out (RFC
//! 5155).

use std::collections::BTreeMap;

use avocet_wire::{Rtype, canonical, name};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use super::zone::{Set, Wire, Zone, next_closer};
use crate::Chance;

/// The TTL of denials, in seconds.
const TTL_SECS: u32 = 300;
/// SHA-1, the only hash of NSEC3.
const SHA1: u8 = 1;
/// Number of octets of a hash.
const HASH_LEN: u8 = 20;

/// The kind of denial.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Denies {
    /// The denial uses NSEC.
    Plainly,
    /// The denial uses NSEC3.
    Hashed { opt_out: OptOut, iterations: u16, salt: Vec<u8> },
}

/// Whether a zone leaves insecure delegations out of its chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OptOut {
    No,
    Yes,
}

impl Denies {
    pub(super) fn draw(chance: &mut Chance) -> Self {
        if chance.percent(45) {
            return Self::Plainly;
        }
        let salt = if chance.percent(30) {
            chance.number().to_be_bytes()[..4].to_vec()
        } else {
            Vec::new()
        };
        let opt_out = if chance.percent(45) { OptOut::Yes } else { OptOut::No };
        Self::Hashed { opt_out, iterations: [0, 0, 0, 3][chance.below(4) as usize], salt }
    }

    fn opts_out(&self) -> bool {
        matches!(self, Self::Hashed { opt_out: OptOut::Yes, .. })
    }

    /// Returns the place of a name in the chain: the name itself or its hash.
    fn place(&self, owner: &[u8]) -> Vec<u8> {
        let Self::Hashed { iterations, salt, .. } = self else { return owner.to_vec() };
        let once = |octets: &[u8]| {
            digest(&SHA1_FOR_LEGACY_USE_ONLY, &[octets, salt].concat()).as_ref().to_vec()
        };
        (0..*iterations).fold(once(owner), |hash, _| once(&hash))
    }
}

/// A denial chain.
pub(super) struct Chain {
    denies: Denies,
    apex: Wire,
    links: Vec<Link>,
}

/// A record of a chain.
struct Link {
    place: Vec<u8>,
    types: Vec<u16>,
}

impl Chain {
    /// Returns the chain over all names of a zone.
    pub(super) fn of(zone: &Zone, denies: &Denies) -> Self {
        let mut links: BTreeMap<Vec<u8>, Vec<u16>> = BTreeMap::new();
        for (owner, types) in zone.owners() {
            let is_cut = owner != zone.apex && types.contains(&Rtype::NS);
            let is_insecure_cut = is_cut && !types.contains(&Rtype::DS);
            if is_insecure_cut && denies.opts_out() {
                continue;
            }
            let own = match denies {
                Denies::Plainly => &[Rtype::RRSIG, Rtype::NSEC][..],
                Denies::Hashed { .. } if is_insecure_cut => &[],
                Denies::Hashed { .. } => &[Rtype::RRSIG],
            };
            let mut numbers: Vec<u16> = types.iter().chain(own).map(|rtype| rtype.0).collect();
            numbers.sort_unstable();
            links.insert(denies.place(&owner), numbers);
            if *denies != Denies::Plainly {
                // Empty non-terminals have their own records (RFC 5155 §7.1).
                for above in
                    name::ancestors(&owner).take_while(|above| above.len() >= zone.apex.len())
                {
                    links.entry(denies.place(above)).or_default();
                }
            }
        }
        let mut links: Vec<Link> =
            links.into_iter().map(|(place, types)| Link { place, types }).collect();
        if *denies == Denies::Plainly {
            links.sort_by(|a, b| canonical::compare_names(&a.place, &b.place));
        }
        Self { denies: denies.clone(), apex: zone.apex.clone(), links }
    }

    /// Reports whether the absence of a name is proven. With opt-out, an insecure delegation may
    /// exist (RFC 5155 §12.2).
    pub(super) fn proves_absence(&self) -> bool {
        !self.denies.opts_out()
    }

    /// Reports whether a record of the chain matches the name and so proves its types.
    pub(super) fn matches(&self, owner: &[u8]) -> bool {
        let place = self.denies.place(owner);
        self.denies == Denies::Plainly || self.links.iter().any(|link| link.place == place)
    }

    /// Returns the records that match or cover these names, with NSEC3 also those of their closest
    /// enclosers.
    pub(super) fn prove(&self, names: &[Wire]) -> Vec<Set> {
        let mut sets = Vec::new();
        let wanted = names.iter().flat_map(|wanted| match self.denies {
            Denies::Plainly => vec![wanted.clone()],
            Denies::Hashed { .. } => self.with_encloser(wanted),
        });
        for wanted in wanted {
            let set = self.record(&wanted);
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        sets
    }

    /// Returns a name and, if it is not in the chain, its closest encloser and next closer name.
    fn with_encloser(&self, wanted: &Wire) -> Vec<Wire> {
        let above = name::ancestors(wanted).take_while(|above| above.len() >= self.apex.len());
        match above.into_iter().find(|above| self.matches(above)) {
            Some(encloser) if encloser != wanted => {
                vec![wanted.clone(), encloser.to_vec(), next_closer(wanted, encloser)]
            }
            _ => vec![wanted.clone()],
        }
    }

    fn record(&self, owner: &[u8]) -> Set {
        let place = self.denies.place(owner);
        let is_before = |link: &Link| match self.denies {
            Denies::Plainly => canonical::compare_names(&link.place, &place).is_le(),
            Denies::Hashed { .. } => link.place <= place,
        };
        let at = self.links.iter().rposition(is_before).unwrap_or(self.links.len() - 1);
        let (link, next) = (&self.links[at], &self.links[(at + 1) % self.links.len()].place);
        match &self.denies {
            Denies::Plainly => {
                let data = [&next[..], &bitmap(&link.types)].concat();
                Set {
                    owner: link.place.clone(),
                    rtype: Rtype::NSEC,
                    ttl_secs: TTL_SECS,
                    data: vec![data],
                }
            }
            Denies::Hashed { iterations, salt, .. } => {
                let mut data = vec![SHA1, u8::from(self.denies.opts_out())];
                data.extend(iterations.to_be_bytes());
                data.push(salt.len() as u8);
                data.extend(salt);
                data.push(HASH_LEN);
                data.extend(next);
                data.extend(bitmap(&link.types));
                let label = base32hex(&link.place);
                let owner = [&[label.len() as u8], &label[..], &self.apex].concat();
                Set { owner, rtype: Rtype::NSEC3, ttl_secs: TTL_SECS, data: vec![data] }
            }
        }
    }
}

/// Returns a type bit map of window 0 (RFC 4034 §4.1.2), empty without types.
fn bitmap(types: &[u16]) -> Vec<u8> {
    let Some(last) = types.last() else { return Vec::new() };
    let mut bits = vec![0u8; usize::from(*last) / 8 + 1];
    for &rtype in types {
        bits[usize::from(rtype) / 8] |= 0x80 >> (rtype % 8);
    }
    [&[0, bits.len() as u8][..], &bits].concat()
}

/// Encodes in base32 with the extended hex alphabet, without padding (RFC 4648 §7). Hashes have a
/// whole number of digits.
fn base32hex(octets: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 32] = b"0123456789abcdefghijklmnopqrstuv";
    let (mut rest, mut bits, mut out) = (0u32, 0, Vec::new());
    for &octet in octets {
        rest = rest << 8 | u32::from(octet);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            out.push(DIGITS[(rest >> bits & 31) as usize]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name;

    #[test]
    fn hashes_are_those_of_rfc_5155_appendix_a() {
        let denies = Denies::Hashed {
            opt_out: OptOut::No,
            iterations: 12,
            salt: vec![0xaa, 0xbb, 0xcc, 0xdd],
        };
        let check =
            |owner: &str, hash: &[u8]| assert_eq!(base32hex(&denies.place(&name(owner))), hash);
        check("example.", b"0p9mhaveqvm6t7vbl5lop2u3t2rp3tom");
        check("x.y.w.example.", b"2vptu5timamqttgl4luu9kg21e0aor3s");
    }
}
