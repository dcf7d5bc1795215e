//! Signed RRsets: their signers, and their conversion for the validator.

use avocet_wire::{Class, FoldedName, name};

use super::rrset::{Name, Rrset};

/// Number of octets of RRSIG data before the signer's name (RFC 4034 §3.1).
pub(super) const BEFORE_SIGNER: usize = 18;

/// Converts RRsets to the validator's type, and calls `act` with them.
pub(crate) fn lend<R>(sets: &[Rrset], act: impl FnOnce(&[avocet_dnssec::Rrset<'_>]) -> R) -> R {
    fn lent(data: &[Box<[u8]>]) -> Vec<&[u8]> {
        data.iter().map(AsRef::as_ref).collect()
    }
    let data: Vec<_> = sets.iter().map(|set| (lent(&set.records), lent(&set.signatures))).collect();
    let views: Vec<_> = sets
        .iter()
        .zip(&data)
        .map(|(set, (records, signatures))| avocet_dnssec::Rrset {
            owner: &set.owner,
            rtype: set.rtype,
            class: Class::IN,
            ttl_secs: set.ttl_secs,
            records,
            signatures,
        })
        .collect();
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
