//! The NSEC or NSEC3 records of a zone, each of which leads to the next (RFC 4035 §2.3, RFC 5155
//! §7.1).

use avocet_dnssec::zonemd::ZONEMD;
use avocet_wire::{FoldedName, Rtype};
use data_encoding::BASE32_DNSSEC;

use super::{CDNSKEY, CDS, SignFault, SignedDenial, Signing, bitmap, hashes, own_sets};
use crate::tree::{Flags, HostedZone, Node};

/// Number of octets of the label with a hash in the owner of an NSEC3 record.
const HASH_LABEL: usize = 32;
/// The NSEC3 parameters that this server uses (RFC 9276 §3.1): SHA-1, no flags, no additional
/// iterations, no salt.
const NSEC3_PARAMETERS: [u8; 5] = [1, 0, 0, 0, 0];

/// The NSEC or NSEC3 records of a zone that is being signed.
pub(super) struct Chain {
    /// The TTL of the records in seconds (RFC 9077).
    pub(super) ttl_secs: u32,
    pub(super) links: Links,
}

/// The records of the chain.
pub(super) enum Links {
    /// The offsets of the nodes that get NSEC records, in canonical order.
    Nsec(Vec<u32>),
    /// The NSEC3 records, sorted by hash.
    Nsec3(Vec<HashedName>),
}

/// An NSEC3 record that will be written to the zone.
pub(super) struct HashedName {
    pub(super) hash: [u8; 20],
    /// The data of the record.
    pub(super) rdata: Vec<u8>,
}

impl Chain {
    pub(super) fn of(
        source: &HostedZone,
        signing: &Signing<'_>,
        ttl_secs: u32,
    ) -> Result<Self, SignFault> {
        let links = match signing.denial {
            SignedDenial::Nsec => Links::Nsec(linked(source, signing).map(at_of).collect()),
            SignedDenial::Nsec3 | SignedDenial::Nsec3OptOut => {
                Links::Nsec3(hashed(source, signing)?)
            }
        };
        Ok(Self { ttl_secs, links })
    }

    /// Returns the data of the NSEC3PARAM record, if the zone gets one.
    pub(super) const fn parameters(&self) -> Option<&'static [u8]> {
        match self.links {
            Links::Nsec(_) => None,
            Links::Nsec3(_) => Some(&NSEC3_PARAMETERS),
        }
    }
}

fn at_of(node: Node<'_>) -> u32 {
    node.at as u32
}

/// The role of a node in DNSSEC, which decides which of its records are signed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeKind {
    /// The zone is authoritative for the records of the node.
    Own,
    /// The node is a delegation with DS records.
    SecureCut,
    /// The node is a delegation without DS records.
    InsecureCut,
    /// The node gets no signatures: it is below a delegation or a DNAME record, is an NSEC3 record
    /// of the source, or has no records.
    Outside,
}

/// Determines the role of a node of the unsigned zone.
pub(super) fn kind_of(node: Node<'_>) -> NodeKind {
    let is_made = node.flags().has(Flags::MADE);
    if node.flags().has(Flags::OCCLUDED) || !is_made && own_sets(node.sets()).next().is_none() {
        return NodeKind::Outside;
    }
    if !node.flags().has(Flags::CUT) {
        return NodeKind::Own;
    }
    match node.set(Rtype::DS) {
        Some(_) => NodeKind::SecureCut,
        None => NodeKind::InsecureCut,
    }
}

/// Returns the nodes that get an NSEC or NSEC3 record.
fn linked<'z>(
    source: &'z HostedZone,
    signing: &Signing<'_>,
) -> impl Iterator<Item = Node<'z>> + use<'z> {
    let is_opt_out = signing.denial == SignedDenial::Nsec3OptOut;
    source.iter().filter(move |node| match kind_of(*node) {
        NodeKind::Own | NodeKind::SecureCut => true,
        NodeKind::InsecureCut => !is_opt_out,
        NodeKind::Outside => false,
    })
}

/// Appends the bit map with the types of a node.
pub(super) fn append_types(
    node: Node<'_>,
    apex: FoldedName<'_>,
    signing: &Signing<'_>,
    out: &mut Vec<u8>,
) {
    let kind = kind_of(node);
    let is_cut = matches!(kind, NodeKind::SecureCut | NodeKind::InsecureCut);
    let sets = own_sets(node.sets()).map(|set| set.rtype);
    let mut types: Vec<Rtype> =
        sets.filter(|rtype| !is_cut || matches!(*rtype, Rtype::NS | Rtype::DS)).collect();
    show_made_types(node, &mut types);
    let is_nsec = signing.denial == SignedDenial::Nsec;
    if node.name().len() == apex.len() {
        types.retain(|rtype| *rtype != ZONEMD);
        types.push(Rtype::DNSKEY);
        if !is_nsec {
            types.push(Rtype::NSEC3PARAM);
        }
        if !signing.signers.parent.is_empty() {
            types.extend([CDS, CDNSKEY]);
        }
        if signing.digest.is_some() {
            types.push(ZONEMD);
        }
    }
    if is_nsec {
        types.extend([Rtype::NSEC, Rtype::RRSIG]);
    } else if matches!(kind, NodeKind::Own | NodeKind::SecureCut) {
        types.push(Rtype::RRSIG);
    }
    types.sort_unstable();
    types.dedup();
    bitmap::append(&types, out);
}

/// Replaces the type ALIAS, which no client sees, with the types of the addresses that the server
/// determines for each answer.
pub(super) fn show_made_types(node: Node<'_>, types: &mut Vec<Rtype>) {
    types.retain(|rtype| *rtype != Rtype::ALIAS);
    if has_made_records(node) {
        types.extend([Rtype::A, Rtype::AAAA]);
    }
}

/// Reports whether the server determines and signs the addresses of a node separately for each
/// answer.
pub(super) fn has_made_records(node: Node<'_>) -> bool {
    let is_made = node.flags().has(Flags::MADE) || node.set(Rtype::ALIAS).is_some();
    is_made && !node.flags().has(Flags::CUT)
}

/// Computes the NSEC3 records, sorted by hash.
fn hashed(source: &HostedZone, signing: &Signing<'_>) -> Result<Vec<HashedName>, SignFault> {
    let opt_out = u8::from(signing.denial == SignedDenial::Nsec3OptOut);
    let apex = source.apex();
    let mut names: Vec<HashedName> = Vec::new();
    let mut add = |name: FoldedName<'_>, node: Option<Node<'_>>| {
        let mut rdata = vec![1, opt_out, 0, 0, 0, 20];
        rdata.resize(rdata.len() + 20, 0);
        if let Some(node) = node {
            append_types(node, apex, signing, &mut rdata);
        }
        names.push(HashedName { hash: hashes(name), rdata });
    };
    let mut before: Option<FoldedName<'_>> = None;
    for node in linked(source, signing) {
        let name = node.name();
        // Ancestors without records also get NSEC3 records. Each is added with the first name below
        // it.
        let above = name.ancestors().skip(1).take_while(|above| above.len() >= apex.len());
        for above in above {
            if before.is_some_and(|before| before.is_at_or_below(above)) {
                break;
            }
            add(above, None);
        }
        add(name, Some(node));
        before = Some(name);
    }
    names.sort_unstable_by_key(|name| name.hash);
    if names.windows(2).any(|pair| pair[0].hash == pair[1].hash) {
        return Err(SignFault::Collision);
    }
    let first = names.first().map(|name| name.hash);
    for at in 0..names.len() {
        let next = names.get(at + 1).map(|next| next.hash).or(first);
        if let Some(next) = next {
            names[at].rdata[6..26].copy_from_slice(&next);
        }
    }
    Ok(names)
}

/// Returns the owner of the NSEC3 record with a hash.
pub(super) fn hash_owner(hash: &[u8; 20], apex: FoldedName<'_>) -> Vec<u8> {
    let mut owner = vec![HASH_LABEL as u8];
    owner.extend_from_slice(BASE32_DNSSEC.encode(hash).as_bytes());
    owner.extend_from_slice(apex.wire());
    owner
}
