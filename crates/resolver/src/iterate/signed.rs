//! Signed RRsets: their signers, and their conversion for the validator.

use avocet_wire::{Class, FoldedName, name};

use super::rrset::{Name, Rrset};

/// Number of octets of RRSIG data before the signer's name (RFC 4034 §3.1).
pub(super) const BEFORE_SIGNER: usize = 18;

/// Converts RRsets to the validator's type, and calls `act` with them.
pub(crate) fn lend<R>(sets: &[Rrset], act: impl FnOnce(&[avocet_dnssec::Rrset<'_>]) -> R) -> R {
    let data: Vec<&[u8]> =
        sets.iter().flat_map(|set| set.records.iter().chain(&set.signatures)).collect();
    let mut rest = &data[..];
    let mut views = Vec::with_capacity(sets.len());
    for Rrset { owner, rtype, ttl_secs, records, signatures, .. } in sets {
        let (own, after) = rest.split_at(records.len() + signatures.len());
        rest = after;
        let (records, signatures) = own.split_at(records.len());
        let (rtype, class, ttl_secs) = (*rtype, Class::IN, *ttl_secs);
        views.push(avocet_dnssec::Rrset { owner, rtype, class, ttl_secs, records, signatures });
    }
    act(&views)
}

/// Returns the signer's name in the first signature of these RRsets, if this signer may sign for
/// `owner`.
pub(crate) fn signer<'a>(
    sets: impl IntoIterator<Item = &'a Rrset>,
    owner: FoldedName<'_>,
) -> Option<Name> {
    let signature = sets.into_iter().find_map(|set| set.signatures.first())?;
    signer_of(signature).filter(|signer| name::is_under(&owner, signer))
}

/// Returns the signer's name in the data of an RRSIG record, in lower case.
pub(crate) fn signer_of(rrsig: &[u8]) -> Option<Name> {
    let wire = rrsig.get(BEFORE_SIGNER..)?;
    let signer =
        avocet_wire::NameBuf::from_wire(wire.get(..name::wire_len(wire).ok()?)?).ok()?.folded();
    Some(signer.view().into())
}
