//! Verification of the signatures of an RRset (RFC 4035 §5.3).
//!
//! Cheap checks precede expensive ones, and checks of names come first. A signature is verified
//! only after all other checks have succeeded. One valid signature is enough (RFC 6840 §5.11).

use std::ops::Range;

use avocet_wire::{NameBuf, canonical};

use crate::algorithm::Algorithm;
use crate::budget::{
    Budget, Limit, MAX_COLLIDING_KEYS, MAX_RRSET_OCTETS, MAX_RRSET_RECORDS, MAX_RRSIGS,
};
use crate::chain::{Signers, ZoneKey, ZoneKeys};
use crate::label;
use crate::memo::Memo;
use crate::rrset::{Context, Rrset};
use crate::rrsig::Rrsig;
use crate::verdict::Reason;

/// The result of verifying an RRset that has a valid signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verified {
    /// Lifetime in seconds: the lowest of the TTL, the original TTL and the remaining validity of
    /// the signature (RFC 4035 §5.3.3).
    pub lifetime_secs: u32,
    /// Seconds until the signature expires.
    pub signed_secs: u32,
    /// For records expanded from a wildcard, the name right above the wildcard. The data is secure
    /// only with a proof that no name closer to the owner exists ([`crate::Proof::expansion`]).
    pub closest_encloser: Option<NameBuf>,
}

/// Verifies an RRset with the keys of its zone.
///
/// # Errors
/// The reason why no signature is valid. The budget bounds the work that hostile records cause.
pub fn verify(
    rrset: &Rrset<'_>,
    keys: &ZoneKeys,
    context: &Context,
    budget: &mut Budget,
) -> Result<Verified, Reason> {
    let mut verified = verify_with(rrset, &keys.signers(), context, budget)?;
    verified.lifetime_secs = verified.lifetime_secs.min(keys.lifetime_secs(context.now_secs));
    Ok(verified)
}

/// Verifies an RRset with the given keys of a zone.
pub(crate) fn verify_with(
    rrset: &Rrset<'_>,
    signers: &Signers<'_>,
    context: &Context,
    budget: &mut Budget,
) -> Result<Verified, Reason> {
    check_size(rrset, budget)?;
    let mut form = None;
    let mut nearest = Reason::SignatureMissing;
    for (at, data) in rrset.signatures.iter().enumerate() {
        if at >= MAX_RRSIGS as usize {
            return Err(budget.reach(Limit::Rrsigs));
        }
        let Some(rrsig) = Rrsig::read(data) else { continue };
        let fault = match check_fields(&rrsig, rrset, signers.zone, context) {
            Err(fault) => fault,
            Ok(algorithm) => {
                let form = form.get_or_insert_with(|| SignedForm::of(rrset));
                match try_keys(form, &rrsig, algorithm, signers, budget) {
                    Ok(()) => return Ok(verified(rrset, &rrsig, context)),
                    Err(Reason::Limit(limit)) if limit != Limit::CollidingKeys => {
                        return Err(Reason::Limit(limit));
                    }
                    Err(fault) => fault,
                }
            }
        };
        if fault.nearness() > nearest.nearness() {
            nearest = fault;
        }
    }
    Err(nearest)
}

fn check_size(rrset: &Rrset<'_>, budget: &mut Budget) -> Result<(), Reason> {
    if rrset.records.is_empty() || !label::is_name(rrset.owner) {
        return Err(Reason::Malformed);
    }
    let octets: usize = rrset.records.iter().map(|data| data.len()).sum();
    if rrset.records.len() > MAX_RRSET_RECORDS || octets > MAX_RRSET_OCTETS {
        return Err(budget.reach(Limit::RrsetSize));
    }
    Ok(())
}

/// Checks all properties of a signature that can be checked without a key.
fn check_fields(
    rrsig: &Rrsig<'_>,
    rrset: &Rrset<'_>,
    zone: &[u8],
    context: &Context,
) -> Result<Algorithm, Reason> {
    rrsig.check_names(rrset, zone)?;
    rrsig.check_time(context.now_secs)?;
    // The zone has signed with an accepted algorithm, so a signature with another algorithm is
    // ignored.
    context.policy.algorithm(rrsig.algorithm).ok_or(Reason::SignatureMissing)
}

/// Verifies one signature with each key that matches its tag and algorithm.
fn try_keys(
    form: &SignedForm<'_>,
    rrsig: &Rrsig<'_>,
    algorithm: Algorithm,
    signers: &Signers<'_>,
    budget: &mut Budget,
) -> Result<(), Reason> {
    let is_signer = |key: &&ZoneKey| key.tag == rrsig.key_tag && key.algorithm == algorithm;
    let mut matching = signers.keys.iter().filter(is_signer);
    let mut message = Vec::new();
    let mut fault = Reason::DnskeyMissing;
    for key in matching.by_ref().take(MAX_COLLIDING_KEYS as usize) {
        if !key.is_zone_key {
            fault = Reason::NotZoneKey;
            continue;
        }
        if message.is_empty() {
            message = form.message(rrsig);
        }
        let seen = signers.memo.map(|memo| (memo, Memo::digest(&message, rrsig.signature)));
        if seen.as_ref().is_some_and(|(memo, digest)| memo.contains(digest)) {
            return Ok(());
        }
        budget.take_signature_check()?;
        if algorithm.verifies(&key.public_key, &message, rrsig.signature) {
            if let Some((memo, digest)) = seen {
                memo.insert(digest);
            }
            return Ok(());
        }
        budget.count_signature_failure();
        fault = Reason::SignatureInvalid;
    }
    if matching.next().is_some() { Err(budget.reach(Limit::CollidingKeys)) } else { Err(fault) }
}

fn verified(rrset: &Rrset<'_>, rrsig: &Rrsig<'_>, context: &Context) -> Verified {
    let labels = usize::from(rrsig.labels);
    let expanded = labels < label::signed_count(rrset.owner);
    let closest_encloser = expanded
        .then(|| NameBuf::from_wire(label::suffix(rrset.owner, labels)).unwrap_or(NameBuf::ROOT));
    let signed_secs = rrsig.remaining_secs(context.now_secs);
    let lifetime_secs = rrset.ttl_secs.min(rrsig.original_ttl_secs).min(signed_secs);
    Verified { lifetime_secs, signed_secs, closest_encloser }
}

/// The records of an RRset in canonical form and order, without duplicates (RFC 4034 §6.2, §6.3).
struct SignedForm<'a> {
    rrset: &'a Rrset<'a>,
    octets: Vec<u8>,
    records: Vec<Range<usize>>,
}

impl<'a> SignedForm<'a> {
    fn of(rrset: &'a Rrset<'a>) -> Self {
        let mut octets = Vec::new();
        let mut records = Vec::with_capacity(rrset.records.len());
        for data in rrset.records {
            let start = octets.len();
            canonical::append_rdata(rrset.rtype.0, data, &mut octets);
            records.push(start..octets.len());
        }
        records.sort_by(|a, b| octets[a.clone()].cmp(&octets[b.clone()]));
        records.dedup_by(|a, b| octets[a.clone()] == octets[b.clone()]);
        Self { rrset, octets, records }
    }

    /// Returns the signed data (RFC 4034 §3.1.8.1): the RRSIG fields, then every record.
    fn message(&self, rrsig: &Rrsig<'_>) -> Vec<u8> {
        let owner = signed_owner(self.rrset.owner, usize::from(rrsig.labels)).folded();
        let head = rrsig.fixed.len() + rrsig.signer.len();
        let each = owner.wire().len() + 10;
        let mut message = Vec::with_capacity(head + self.octets.len() + self.records.len() * each);
        message.extend_from_slice(rrsig.fixed);
        message.extend(rrsig.signer.iter().map(u8::to_ascii_lowercase));
        for record in &self.records {
            let data = &self.octets[record.clone()];
            message.extend_from_slice(owner.wire());
            message.extend_from_slice(&self.rrset.rtype.0.to_be_bytes());
            message.extend_from_slice(&self.rrset.class.0.to_be_bytes());
            message.extend_from_slice(&rrsig.original_ttl_secs.to_be_bytes());
            message.extend_from_slice(&(data.len() as u16).to_be_bytes());
            message.extend_from_slice(data);
        }
        message
    }
}

/// Returns the signed name: the owner, or the wildcard from which the owner was expanded (RFC 4035
/// §5.3.2).
fn signed_owner(owner: &[u8], labels: usize) -> NameBuf {
    let whole = NameBuf::from_wire(owner).unwrap_or(NameBuf::ROOT);
    if labels >= label::signed_count(owner) {
        return whole;
    }
    label::wildcard_below(label::suffix(owner, labels)).unwrap_or(whole)
}
