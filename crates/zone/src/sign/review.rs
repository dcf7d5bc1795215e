//! The review of a signed zone before it is published. Validators must accept the zone, now and
//! until its next signatures are made.
//!
//! The tree is read in the same way as for answers. Dates, signers and proofs are checked for all
//! names. All signatures of a zone with up to [`MAX_VERIFIED`] signatures are verified. In a larger
//! zone, that number of evenly spread signatures is verified, which is enough because an error in
//! signing affects many of them.
//!
//! In a change of algorithm, a key signs before it is in the DNSKEY RRset, and after it was there
//! (RFC 6781 §4.1.4). Its signatures are verified with the key itself. Each RRset must also have a
//! signature of a key in the DNSKEY RRset.

use avocet_dnssec::rrsig::Rrsig;
use avocet_dnssec::signing::SigningKey;
use avocet_dnssec::zonemd::DigestHash;
use avocet_dnssec::{Budget, Context, Policy, Reason, Rrset, Trust, ZoneKeys, chain, signature};
use avocet_wire::canonical::compare_names;
use avocet_wire::{Class, FoldedName, NameBuf, Rtype};
use thiserror::Error;

use super::chain::{has_made_records, show_made_types};
use super::{SignatureTimes, ZoneSigners, hashes};
use crate::tree::{Denial, Flags, HostedSet, HostedZone, Node};

/// Maximum number of signatures that a review verifies, which takes about two seconds.
pub const MAX_VERIFIED: u32 = 30_000;
/// Maximum number of records of an RRset that validators accept.
const MAX_RECORDS: u16 = 256;

/// The reason why a signed zone is not published.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReviewFault {
    /// A validator would not accept the DNSKEY RRset with one of the keys that DS records may refer
    /// to. Contains the tag of the key.
    #[error("the DNSKEY records are not secure with key {0} alone: {1:?}")]
    Dnskey(u16, Reason),
    /// A validator would not accept an RRset. Contains its type, its owner and the reason.
    #[error("the {0} records of {1} are not secure: {2:?}")]
    Insecure(Rtype, Box<NameBuf>, Reason),
    /// A signature expires before the server replaces it.
    #[error("a signature of the {0} records of {1} ends too early")]
    EndsEarly(Rtype, Box<NameBuf>),
    /// A record outside the zone's authority is signed, or an authoritative record lacks a
    /// signature. Contains the type, the owner and the tag of the key.
    #[error("the {0} records of {1} have {2} signatures")]
    Signatures(Rtype, Box<NameBuf>, u16),
    /// The NSEC or NSEC3 record of a name is missing or wrong.
    #[error("the {0} record for {1} is missing or wrong")]
    Proof(Rtype, Box<NameBuf>),
    /// The digest in the ZONEMD record does not match the zone.
    #[error("the ZONEMD record has another digest than the zone")]
    Digest,
    /// The zone has no NSEC or NSEC3 records, or not those that the configuration requires.
    #[error("the zone has no complete chain of proofs")]
    NoChain,
}

/// Reviews a signed zone.
///
/// # Errors
/// A validator would not accept the zone. The error is the first fault that was found.
pub fn review(
    zone: &HostedZone,
    signers: &ZoneSigners,
    times: &SignatureTimes,
) -> Result<(), ReviewFault> {
    let now = times.now_secs as u32;
    let mut keys = Vec::new();
    for now_secs in [now, now.wrapping_add(times.refresh_secs)] {
        let context = Context { now_secs, policy: Policy::default() };
        // The DS records of the parent may refer to only one of these keys.
        for key in &signers.entry {
            keys.push((context, keys_by(zone, key, &context)?));
        }
    }
    let step = (zone.records() / MAX_VERIFIED + 1) as usize;
    let context = Context { now_secs: now, policy: Policy::default() };
    let unpublished = unpublished_keys(zone, signers, &context);
    let reviewing = Reviewing { zone, times, keys: &keys, unpublished: unpublished.as_ref() };
    for (number, node) in zone.iter().enumerate() {
        let is_apex = node.name().len() == zone.apex().len();
        reviewing.node(node)?;
        if is_apex || number % step == 0 {
            reviewing.verify_all(node)?;
        }
    }
    reviewing.chain()?;
    digest(zone)
}

/// Checks the ZONEMD record that this server has made.
fn digest(zone: &HostedZone) -> Result<(), ReviewFault> {
    let is_of = |hash: &DigestHash, data: &[u8]| {
        data == hash.rdata(zone.serial(), &zone.zone_digest(*hash))
    };
    let Some(data) = zone.zonemd() else { return Ok(()) };
    let mut known = [DigestHash::Sha384, DigestHash::Sha512].into_iter();
    let hash = known.find(|hash| data.len() == hash.octets() + 6);
    hash.filter(|hash| is_of(hash, data)).map(|_| ()).ok_or(ReviewFault::Digest)
}

/// Returns the keys of the zone, if a validator accepts them with a DS record of this key.
fn keys_by(
    zone: &HostedZone,
    key: &SigningKey,
    context: &Context,
) -> Result<ZoneKeys, ReviewFault> {
    let apex = zone.node(zone.apex().wire());
    let set = apex.and_then(|apex| apex.set(Rtype::DNSKEY)).ok_or(ReviewFault::NoChain)?;
    let ds = key.ds(zone.apex());
    let trust = Trust { ds: &[&ds], dnskeys: &[], lifetime_secs: u32::MAX };
    let (records, signatures) = (data_of(&set), signatures_of(&set));
    let rrset = rrset_of(zone.apex(), &set, &records, &signatures);
    chain::zone_keys(&rrset, &trust, context, &mut Budget::default())
        .map_err(|reason| ReviewFault::Dnskey(key.tag(), reason))
}

/// Returns the keys that sign the zone but are not in its DNSKEY RRset; `None` if there are none.
fn unpublished_keys(
    zone: &HostedZone,
    signers: &ZoneSigners,
    context: &Context,
) -> Option<ZoneKeys> {
    let is_published = |key: &SigningKey| {
        signers.published.iter().any(|published| published.dnskey() == key.dnskey())
    };
    let unpublished = signers.zone.iter().filter(|key| !is_published(key));
    let dnskeys: Vec<&[u8]> = unpublished.map(|key| key.dnskey()).collect();
    if dnskeys.is_empty() {
        return None;
    }
    ZoneKeys::trusted(zone.apex().wire(), &dnskeys, context)
}

fn data_of<'z>(set: &HostedSet<'z>) -> Vec<&'z [u8]> {
    set.iter().map(|record| record.rdata).collect()
}

fn signatures_of<'z>(set: &HostedSet<'z>) -> Vec<&'z [u8]> {
    set.signatures().map(|record| record.rdata).collect()
}

fn rrset_of<'r>(
    owner: FoldedName<'r>,
    set: &HostedSet<'_>,
    records: &'r [&'r [u8]],
    signatures: &'r [&'r [u8]],
) -> Rrset<'r> {
    let ttl_secs = set.iter().next().map_or(0, |record| record.ttl_secs);
    let (owner, rtype, class) = (owner.wire(), set.rtype, Class::IN);
    Rrset { owner, rtype, class, ttl_secs, records, signatures }
}

struct Reviewing<'r> {
    zone: &'r HostedZone,
    times: &'r SignatureTimes,
    keys: &'r [(Context, ZoneKeys)],
    /// The keys that sign but are not in the DNSKEY RRset.
    unpublished: Option<&'r ZoneKeys>,
}

impl Reviewing<'_> {
    /// Checks the records, signatures and proof of one name.
    fn node(&self, node: Node<'_>) -> Result<(), ReviewFault> {
        let is_cut = node.flags().has(Flags::CUT);
        let is_occluded = node.flags().has(Flags::OCCLUDED);
        for set in node.sets() {
            if set.rtype == Rtype::ALIAS {
                continue;
            }
            let is_own = !is_occluded && (!is_cut || matches!(set.rtype, Rtype::DS | Rtype::NSEC));
            let name = || name_of(node.name());
            if is_own != (set.signature_count > 0) {
                return Err(ReviewFault::Signatures(set.rtype, name(), set.signature_count));
            }
            self.dates(node, &set)?;
        }
        if is_occluded || node.is_empty() {
            return Ok(());
        }
        if let Denial::Nsec(_) = self.zone.denial {
            self.types(node, node.set(Rtype::NSEC), Rtype::NSEC)?;
        }
        Ok(())
    }

    fn dates(&self, node: Node<'_>, set: &HostedSet<'_>) -> Result<(), ReviewFault> {
        let now = self.times.now_secs as u32;
        for record in set.signatures() {
            let rrsig = Rrsig::read(record.rdata);
            let is_good = rrsig.is_some_and(|rrsig| {
                let left = rrsig.expiration.wrapping_sub(now).cast_signed();
                let age = now.wrapping_sub(rrsig.inception).cast_signed();
                age >= 0 && i64::from(left) > i64::from(self.times.refresh_secs)
            });
            if !is_good {
                return Err(ReviewFault::EndsEarly(set.rtype, name_of(node.name())));
            }
        }
        Ok(())
    }

    /// Verifies all signatures of a name, except those of RRsets with more than [`MAX_RECORDS`]
    /// records: validators refuse such RRsets, signed or not.
    fn verify_all(&self, node: Node<'_>) -> Result<(), ReviewFault> {
        let is_verified = |set: &HostedSet<'_>| set.signature_count > 0 && set.count <= MAX_RECORDS;
        node.sets().filter(is_verified).try_for_each(|set| self.verify(node, &set))
    }

    fn verify(&self, node: Node<'_>, set: &HostedSet<'_>) -> Result<(), ReviewFault> {
        let (records, signatures) = (data_of(set), signatures_of(set));
        let rrset = rrset_of(node.name(), set, &records, &signatures);
        let failed = |reason| ReviewFault::Insecure(set.rtype, name_of(node.name()), reason);
        // The first context has the present time; later ones may have the time of the next refresh.
        let Some((context, keys)) = self.keys.first() else { return Ok(()) };
        let mut is_secure = false;
        // Each signature is verified by itself, because a validator may know only one key.
        for one in &signatures {
            let unpublished = self.unpublished_of(one);
            is_secure |= unpublished.is_none();
            let alone = Rrset { signatures: &[one], ..rrset };
            let keys = unpublished.unwrap_or(keys);
            signature::verify(&alone, keys, context, &mut Budget::default()).map_err(failed)?;
        }
        if is_secure { Ok(()) } else { Err(failed(Reason::SignatureMissing)) }
    }

    /// Returns the keys with which a signature must be verified if its key is not in the DNSKEY
    /// RRset as expected.
    fn unpublished_of(&self, signature: &[u8]) -> Option<&ZoneKeys> {
        let tag = Rrsig::read(signature)?.key_tag;
        // No two keys of a zone have the same tag.
        self.unpublished.filter(|keys| keys.tags().any(|other| other == tag))
    }

    /// Checks the bit map in the NSEC or NSEC3 record of a name.
    fn types(
        &self,
        node: Node<'_>,
        proof: Option<HostedSet<'_>>,
        rtype: Rtype,
    ) -> Result<(), ReviewFault> {
        let failed = || ReviewFault::Proof(rtype, name_of(node.name()));
        let record = proof.and_then(|set| set.iter().next()).ok_or_else(failed)?;
        let at = match rtype {
            Rtype::NSEC => avocet_wire::name::wire_len(record.rdata).map_err(|_| failed())?,
            _ => 26,
        };
        let map = record.rdata.get(at..).ok_or_else(failed)?;
        let is_cut = node.flags().has(Flags::CUT);
        let is_shown =
            |rtype: Rtype| !is_cut || matches!(rtype, Rtype::NS | Rtype::DS | Rtype::NSEC);
        let mut expected: Vec<Rtype> =
            node.sets().map(|set| set.rtype).filter(|rtype| is_shown(*rtype)).collect();
        if node.sets().any(|set| set.signature_count > 0) || has_made_records(node) {
            expected.push(Rtype::RRSIG);
        }
        show_made_types(node, &mut expected);
        expected.sort_unstable();
        expected.dedup();
        (types_of(map).as_deref() == Some(&expected[..])).then_some(()).ok_or_else(failed)
    }

    /// Checks that each NSEC or NSEC3 record leads to the next, and the last to the first.
    fn chain(&self) -> Result<(), ReviewFault> {
        match &self.zone.denial {
            Denial::None => Err(ReviewFault::NoChain),
            Denial::Nsec(nodes) => {
                let nodes: Vec<_> = nodes.iter().map(|at| self.zone.node_at(*at)).collect();
                for (number, node) in nodes.iter().enumerate() {
                    let next = nodes.get(number + 1).or(nodes.first());
                    let set = node.set(Rtype::NSEC).and_then(|set| set.iter().next());
                    let leads = set.zip(next).is_some_and(|(record, next)| {
                        record.rdata.starts_with(next.name().wire())
                            && (number + 1 == nodes.len()
                                || compare_names(node.name().wire(), next.name().wire()).is_lt())
                    });
                    if !leads {
                        return Err(ReviewFault::Proof(Rtype::NSEC, name_of(node.name())));
                    }
                }
                Ok(())
            }
            Denial::Nsec3(chain) => {
                let all = &chain.hashes;
                for (number, (hash, at)) in all.iter().enumerate() {
                    let node = self.zone.node_at(*at);
                    let next = all.get(number + 1).or(all.first()).map(|(next, _)| next);
                    let set = node.set(Rtype::NSEC3).and_then(|set| set.iter().next());
                    let data = set.map_or(&[][..], |record| record.rdata);
                    let leads = data.get(6..26) == next.map(|next| &next[..])
                        && (number + 1 == all.len() || next.is_some_and(|next| hash < next));
                    if !leads {
                        return Err(ReviewFault::Proof(Rtype::NSEC3, name_of(node.name())));
                    }
                }
                self.hashed_names()
            }
        }
    }

    /// Checks that each name that needs an NSEC3 record has it.
    fn hashed_names(&self) -> Result<(), ReviewFault> {
        for node in self.zone.iter() {
            let is_nsec3 = node.set(Rtype::NSEC3).is_some();
            let is_without_types = node.is_empty() && !node.flags().has(Flags::MADE);
            if is_nsec3 || is_without_types || node.flags().has(Flags::OCCLUDED) {
                continue;
            }
            let found = self.zone.nsec3_node(&hashes(node.name()));
            let proof = found.and_then(|found| found.set(Rtype::NSEC3));
            // With opt-out, delegations without DS records need no NSEC3 record.
            let may_lack = node.flags().has(Flags::CUT) && node.set(Rtype::DS).is_none();
            if proof.is_none() && may_lack {
                continue;
            }
            self.types(node, proof, Rtype::NSEC3)?;
        }
        Ok(())
    }
}

/// Reads the types in a bit map. Returns `None` if the map is malformed.
fn types_of(mut map: &[u8]) -> Option<Vec<Rtype>> {
    let mut types = Vec::new();
    while let [window, len, rest @ ..] = map {
        let (octets, after) = rest.split_at_checked(usize::from(*len))?;
        let bits = octets.iter().enumerate().flat_map(|(at, octet)| {
            let set = move |bit: &usize| octet & (0x80 >> bit) != 0;
            (0..8).filter(set).map(move |bit| at * 8 + bit)
        });
        types.extend(bits.map(|low| Rtype(u16::from(*window) << 8 | low as u16)));
        map = after;
    }
    map.is_empty().then_some(types)
}

fn name_of(name: FoldedName<'_>) -> Box<NameBuf> {
    Box::new(NameBuf::from_wire(name.wire()).unwrap_or(NameBuf::ROOT))
}
