//! Checks of a complete zone. A fault that prevents correct answers is an error, as in
//! `named-checkzone`; any other fault is a warning.

use avocet_dnssec::nsec3::MAX_ITERATIONS;
use avocet_dnssec::rrsig::Rrsig;
use avocet_wire::canonical::compare_rdata;
use avocet_wire::{FoldedName, FoldedNameBuf, NameBuf, Rtype, name};

use crate::fault::{EntryPlace, Faults, ZoneProblem};
use crate::tree::{Denial, Flags, HostedZone, Node};

const SRV: Rtype = Rtype(33);
/// Maximum number of NSEC3 iterations with which this server computes proofs.
pub const MAX_SERVED_ITERATIONS: u16 = 150;

/// A name that will be added to the tree after these checks.
pub(crate) struct NodeView<'n> {
    pub(crate) owner: FoldedName<'n>,
    pub(crate) flags: Flags,
    pub(crate) is_apex: bool,
    /// The types and indices of the name's records, without signatures.
    pub(crate) sets: &'n [(Rtype, u32)],
    /// The delegation or DNAME record above the name, if there is one.
    pub(crate) above: Option<FoldedNameBuf>,
}

/// A host that a record names, to be checked when the tree is complete.
pub(crate) struct PendingTarget {
    pub(crate) rtype: Rtype,
    /// The offset of the node of the record's owner.
    pub(crate) owner: u32,
    pub(crate) target: NameBuf,
    pub(crate) place: EntryPlace,
}

/// Checks the records of one name.
pub(crate) fn node<'d>(
    node: &NodeView<'_>,
    place: &dyn Fn(u32) -> EntryPlace,
    data: &dyn Fn(u32) -> &'d [u8],
    faults: &mut Faults,
) {
    let owner = || NameBuf::from_wire(node.owner.wire()).unwrap_or(NameBuf::ROOT);
    let first = |rtype: Rtype| node.sets.iter().find(|(other, _)| *other == rtype);
    for single in [Rtype::SOA, Rtype::CNAME, Rtype::DNAME, Rtype::ALIAS] {
        let Some((_, one)) = first(single) else { continue };
        let is_other = |(rtype, index): &&(Rtype, u32)| {
            *rtype == single && compare_rdata(single.0, data(*one), data(*index)).is_ne()
        };
        if let Some((_, index)) = node.sets.iter().find(is_other) {
            let several = ZoneProblem::Several(owner(), single);
            let reason = if single == Rtype::SOA { ZoneProblem::SecondSoa } else { several };
            faults.error(place(*index), reason);
        }
    }
    // A CNAME record permits KEY records (RFC 4034 §10.2) and NSEC records.
    let beside_cname =
        |(rtype, _): &&(Rtype, u32)| !matches!(*rtype, Rtype::CNAME | Rtype::NSEC | Rtype(25));
    if let (Some((_, alias)), Some((_, other))) =
        (first(Rtype::CNAME), node.sets.iter().find(beside_cname))
    {
        faults.error(place(*other).max(place(*alias)), ZoneProblem::CnameAndOther(owner()));
    }
    if let (Some((_, servers)), Some((_, dname))) = (first(Rtype::NS), first(Rtype::DNAME))
        && !node.is_apex
    {
        // The delegation decides, as with BIND and NSD, which permit this.
        faults.warn(place(*servers).max(place(*dname)), ZoneProblem::NsAndDname(owner()));
    }
    if let Some((_, index)) = first(Rtype::ALIAS)
        && data(*index).eq_ignore_ascii_case(node.owner.wire())
    {
        faults.error(place(*index), ZoneProblem::AliasOfItself(owner()));
    }
    if node.owner.wire().starts_with(b"\x01*") {
        if let Some((rtype, index)) = first(Rtype::NS) {
            faults.error(place(*index), ZoneProblem::WildcardType(owner(), *rtype));
        }
        if let Some((rtype, index)) = first(Rtype::DNAME) {
            faults.warn(place(*index), ZoneProblem::WildcardType(owner(), *rtype));
        }
    }
    if let Some((_, index)) = first(Rtype::DS)
        && (node.is_apex || first(Rtype::NS).is_none())
    {
        faults.warn(place(*index), ZoneProblem::DsWithoutDelegation(owner()));
    }
    // Addresses below a delegation are glue, which is permitted.
    let is_no_glue = |(rtype, _): &&(Rtype, u32)| !matches!(*rtype, Rtype::A | Rtype::AAAA);
    if node.flags.has(Flags::OCCLUDED)
        && let (Some(above), Some((_, index))) = (node.above, node.sets.iter().find(is_no_glue))
    {
        faults.warn(place(*index), ZoneProblem::Occluded(owner(), Box::new(above.into())));
    }
}

/// Returns the host that a record names, if the host must have addresses.
pub(crate) fn target_of(rtype: Rtype, rdata: &[u8]) -> Option<&[u8]> {
    let target = match rtype {
        Rtype::NS => rdata,
        Rtype::MX => rdata.get(2..)?,
        SRV => rdata.get(6..)?,
        _ => return None,
    };
    // The root as a target means that there is no such service (RFC 7505, RFC 2782).
    (target != [0]).then_some(target)
}

/// Warns if a signature is expired or not yet valid, or if its signer is not this zone.
pub(crate) fn signature(
    rrsig: &Rrsig<'_>,
    apex: &[u8],
    now_secs: u64,
    mut warn: impl FnMut(fn(Rtype, NameBuf) -> ZoneProblem),
) {
    // Times are compared in serial number arithmetic (RFC 4034 §3.1.5).
    let is_before = |a: u32, b: u32| (a.wrapping_sub(b) as i32) < 0;
    let now = now_secs as u32;
    if is_before(rrsig.expiration, now) {
        warn(ZoneProblem::Expired);
    }
    if is_before(now, rrsig.inception) {
        warn(ZoneProblem::NotYetValid);
    }
    if !(name::is_under(rrsig.signer, apex) && rrsig.signer.len() == apex.len()) {
        warn(|_, owner| ZoneProblem::Signer(owner));
    }
}

/// Checks a complete zone.
pub(crate) fn whole(
    zone: &HostedZone,
    whole: EntryPlace,
    pending: &[PendingTarget],
    faults: &mut Faults,
) {
    let apex = zone.node(zone.apex().wire());
    let soa = apex.and_then(|apex| apex.set(Rtype::SOA));
    if soa.is_none() {
        faults.error(whole, ZoneProblem::NoSoa);
    }
    if apex.and_then(|apex| apex.set(Rtype::NS)).is_none() {
        faults.error(whole, ZoneProblem::NoNs);
    }
    if soa.is_some_and(|soa| soa.signature_count > 0) && matches!(zone.denial, Denial::None) {
        faults.warn(whole, ZoneProblem::NoDenial);
    }
    if let Denial::Nsec3(chain) = &zone.denial {
        let reason = ZoneProblem::Iterations(chain.iterations, MAX_ITERATIONS);
        if chain.iterations > MAX_SERVED_ITERATIONS {
            faults.error(whole, reason);
        } else if chain.iterations > MAX_ITERATIONS {
            faults.warn(whole, reason);
        }
    }
    for one in pending {
        target(zone, one, faults);
    }
}

/// The state of a target in the zone.
enum Target {
    /// The target has addresses, or is in another zone that may have them.
    Fine,
    Missing,
    Alias,
    /// The target has no addresses, although it is below the delegation that names it.
    NoGlue,
}

fn target(zone: &HostedZone, one: &PendingTarget, faults: &mut Faults) {
    let owner = zone.node_at(one.owner);
    let is_apex = owner.name().len() == zone.apex().len();
    let host = one.target;
    let reason = match find_target(zone, owner, host.folded().view(), one.rtype) {
        Target::Fine => return,
        Target::Missing => ZoneProblem::NoAddress(one.rtype, host),
        Target::Alias => ZoneProblem::TargetIsAlias(one.rtype, host),
        Target::NoGlue => ZoneProblem::NoGlue(host),
    };
    // If the servers of a zone have no address, the zone cannot be reached.
    if one.rtype == Rtype::NS && is_apex {
        faults.error(one.place, reason);
    } else {
        faults.warn(one.place, reason);
    }
}

fn find_target(zone: &HostedZone, owner: Node<'_>, host: FoldedName<'_>, rtype: Rtype) -> Target {
    let with_addresses = [Rtype::A, Rtype::AAAA, Rtype::ALIAS];
    let has_address =
        |node: Node<'_>| with_addresses.iter().any(|rtype| node.set(*rtype).is_some());
    let mut above = host.ancestors().skip(1).filter_map(|name| zone.node(name.wire()));
    if above.any(|node| node.flags().has(Flags::DNAME)) {
        return Target::Alias;
    }
    let exact = zone.node(host.wire());
    if exact.is_some_and(has_address) {
        return Target::Fine;
    }
    let Some(closest) = host.ancestors().find_map(|name| zone.node(name.wire())) else {
        return Target::Fine;
    };
    if closest.flags().has(Flags(Flags::CUT.0 | Flags::OCCLUDED.0)) {
        let is_below_own = rtype == Rtype::NS
            && owner.flags().has(Flags::CUT)
            && host.is_at_or_below(owner.name());
        return if is_below_own { Target::NoGlue } else { Target::Fine };
    }
    if let Some(node) = exact {
        let is_alias = node.set(Rtype::CNAME).is_some();
        return if is_alias { Target::Alias } else { Target::Missing };
    }
    let wildcard = NameBuf::from_wire(closest.name().wire()).and_then(|name| name.prefixed(b"*"));
    match wildcard.ok().and_then(|name| zone.node(name.wire())) {
        Some(node) if has_address(node) => Target::Fine,
        Some(node) if node.set(Rtype::CNAME).is_some() => Target::Alias,
        _ => Target::Missing,
    }
}
