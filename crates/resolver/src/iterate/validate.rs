//! Validates data: each RRset with the keys of its zone, each denial with its proof (RFC 4035 §5.3,
//! §5.4).

use std::sync::Arc;

use avocet_cache::{Rank, Security, Unsupported};
use avocet_dnssec::{Budget, DenialKind, Proof, Reason, Verdict, ZoneKeys, signature};
use avocet_wire::{FoldedName, FoldedNameBuf, NameBuf, Rcode, Rtype, name};

use super::Walker;
use super::channel::Note;
use super::frame::Frame;
use super::part::{Ending, Part};
use super::rrset::{Denial, Name, Rrset, Side, Stored};
use super::signed::{lend, signer};
use crate::validation::Chain;

/// Maximum number of NSEC and NSEC3 RRsets that are kept for the chain of trust of one question.
const MAX_PROOFS: usize = 24;

/// Facts about the reply that contained an RRset.
pub(crate) struct Said<'a> {
    pub(crate) qtype: Rtype,
    /// The NSEC and NSEC3 RRsets of the reply.
    pub(crate) proof: &'a [Rrset],
    /// The zone that the reply comes from; `None` for the cache.
    pub(crate) zone: Option<&'a Name>,
}

impl Walker {
    /// Determines the security status of all data in a part. Data after an alias is used only if it
    /// is secure, or if it is insecure and comes from the servers of its own zone or the forwarders
    /// of its own rule. Otherwise, the part is cut after the alias, and the target is resolved
    /// separately. Insecure data after an alias answers this question only and is not cached (S5 in
    /// tests/SECURITY.md).
    ///
    /// # Errors
    ///
    /// The part is bogus. The result has the reason.
    pub(crate) async fn validate(
        &mut self,
        part: &mut Part,
        qtype: Rtype,
        frame: &Frame<'_>,
    ) -> Result<(), Reason> {
        self.budget.begin_message();
        let zone = part.zone.clone();
        self.note_proof(&part.proof);
        // A part from the cache has one alias at most. Other data comes from the servers of its own
        // zone or rule, because the scrubber has removed the rest.
        let is_of_servers = zone.is_some();
        let is_used = |security: Security| {
            security == Security::Secure || is_of_servers && security == Security::Insecure
        };
        let mut before = Security::Unchecked;
        for at in 0..part.sets.len() {
            if at > 0 {
                // Each RRset gets the budget for signature checks of a whole message. The limits of
                // the question still apply.
                self.budget.begin_message();
            }
            if is_open(part.sets[at].security) {
                let mut set = part.sets[at].clone();
                if set.synthesised {
                    set.security = before;
                } else {
                    let said = Said { qtype, proof: &part.proof, zone: zone.as_ref() };
                    let judged = self.judge(&mut set, &said, frame).await;
                    self.tell_judged(&set, judged);
                    let is_used = judged.is_ok() && is_used(set.security);
                    if !is_used && qtype != Rtype::ANY && part.ends_before(at) {
                        return Ok(());
                    }
                    judged?;
                }
                part.sets[at] = set;
            }
            before = part.sets[at].security;
        }
        if let Ending::Denied(owner, denial) = &part.ending
            && is_open(denial.security)
        {
            let (owner, mut denial) = (owner.clone(), denial.clone());
            if denial.rcode == Rcode::YXDOMAIN {
                // The name after substitution by the DNAME would be too long. This needs no proof.
                denial.security = Security::Insecure;
            } else {
                let judged =
                    self.judge_denial((&owner, qtype), &mut denial, zone.as_ref(), frame).await;
                self.tell_denial((&owner, qtype), &denial.proof, denial.security, judged);
                // Without a proof, the target of an alias is denied only by the servers of its own
                // zone, or by a forwarder.
                let is_own = part.sets.is_empty()
                    || zone.as_ref().is_some_and(|zone| self.is_forwarded(zone));
                let is_used = judged.is_ok()
                    && is_used(denial.security)
                    && (is_own || denial.security == Security::Secure);
                if !is_used && part.ends_before(part.sets.len()) {
                    return Ok(());
                }
                judged?;
            }
            part.ending = Ending::Denied(owner, denial);
        }
        Ok(())
    }

    /// Determines the security status of an RRset.
    ///
    /// # Errors
    ///
    /// The RRset is bogus. The result is the reason.
    pub(crate) async fn judge(
        &mut self,
        set: &mut Rrset,
        &Said { qtype, proof, zone }: &Said<'_>,
        frame: &Frame<'_>,
    ) -> Result<(), Reason> {
        if set.rtype == Rtype::RRSIG {
            // RRSIG records have no signatures (RFC 4035 §2.2).
            set.security = Security::Insecure;
            return Ok(());
        }
        let hint = signer([&*set], set.owner.view());
        // An alias in place of DS records also belongs to the parent zone (RFC 4035 §3.1.4.1).
        let side =
            if qtype == Rtype::DS && set.rtype == Rtype::CNAME { Rtype::DS } else { set.rtype };
        let keys = match self.zone_of(&set.owner, side, hint, zone, frame).await {
            Ok(keys) => keys,
            Err(reason) => {
                return accept_insecure(reason, (&mut set.security, &mut set.unsupported));
            }
        };
        match self.verify(set, proof, &keys) {
            Ok(()) => Ok(()),
            Err(reason) if reason.verdict() != Verdict::Bogus => {
                accept_insecure(reason, (&mut set.security, &mut set.unsupported))
            }
            Err(reason) if is_final(reason) || is_signed_by([&*set], &keys) => Err(reason),
            Err(reason) => {
                let owner = parent_side(&set.owner, side);
                let keys = match self.ends_between(&keys, &owner, proof, frame).await {
                    Ok(below) if below.zone() != keys.zone() => below,
                    Ok(_) => return Err(reason),
                    Err(end) if end.verdict() == Verdict::Bogus => return Err(reason),
                    Err(end) => {
                        return accept_insecure(end, (&mut set.security, &mut set.unsupported));
                    }
                };
                self.verify(set, proof, &keys)
            }
        }
    }

    fn verify(&mut self, set: &mut Rrset, proof: &[Rrset], keys: &ZoneKeys) -> Result<(), Reason> {
        let context = self.context();
        let budget = &mut self.budget;
        let verified = lend(std::slice::from_ref(set), |sets| {
            signature::verify(&sets[0], keys, &context, budget)
        })?;
        set.security = Security::Secure;
        set.ttl_secs = set.ttl_secs.min(verified.lifetime_secs);
        let Some(encloser) = verified.closest_encloser else { return Ok(()) };
        let (expansion, believed) = self.prove(keys, proof, |proof, budget| {
            proof
                .expansion(&set.owner, &encloser, budget)
                .map(|expansion| (expansion, believed(proof)))
        })?;
        if expansion.verdict() == Verdict::Secure {
            self.keep_wildcard(set, &encloser);
            self.keep_gaps(keys, None, proof, &believed);
        } else {
            set.security = Security::Insecure;
        }
        set.ttl_secs = set.ttl_secs.min(expansion.lifetime_secs);
        Ok(())
    }

    /// Runs a proof with the NSEC and NSEC3 RRsets of a zone and the computed hashes.
    pub(super) fn prove<R>(
        &mut self,
        keys: &ZoneKeys,
        sets: &[Rrset],
        act: impl FnOnce(&mut Proof<'_>, &mut Budget) -> R,
    ) -> R {
        let context = self.context();
        let (hashes, budget) = (std::mem::take(&mut self.hashes), &mut self.budget);
        let (said, hashes) = lend(sets, |sets| {
            let mut proof = Proof::signed(sets, keys, &context).with_hashes(hashes);
            (act(&mut proof, budget), proof.into_hashes())
        });
        self.hashes = hashes;
        said
    }

    /// Keeps NSEC and NSEC3 RRsets for the chain of trust. If there are too many, the oldest are
    /// dropped.
    pub(super) fn note_proof(&mut self, proof: &[Rrset]) {
        self.proofs
            .retain(|known| !proof.iter().any(|set| known.is_at(set.owner.view(), set.rtype)));
        self.proofs.extend(proof.iter().take(MAX_PROOFS).cloned());
        self.proofs.drain(..self.proofs.len().saturating_sub(MAX_PROOFS));
    }

    /// Caches the records of a wildcard, for other names to which it applies.
    fn keep_wildcard(&self, set: &Rrset, encloser: &NameBuf) {
        let Ok(wildcard) = encloser.prefixed(b"*") else { return };
        if self.recursion().aggressive_nsec {
            let how = Stored { side: Side::Zone, rank: Rank::AuthoritativeAnswer, with_do: true };
            self.io.note(Note::Store(
                Rrset { owner: wildcard.folded().view().into(), ..set.clone() },
                how,
            ));
        }
    }

    /// Caches the validated RRsets of a proof, which also deny other names.
    fn keep_gaps(
        &self,
        keys: &ZoneKeys,
        soa: Option<&Rrset>,
        proof: &[Rrset],
        believed: &[Believed],
    ) {
        if !self.recursion().aggressive_nsec {
            return;
        }
        let lifetime = |set: &Rrset| {
            // The parent and the child of a zone cut may both have an RRset with this owner and
            // type. Only one of them was validated.
            let is_it = |(owner, rtype, _): &&Believed| *owner == set.owner && *rtype == set.rtype;
            let believed = believed.iter().find(is_it).map(|(.., secs)| *secs);
            believed.filter(|_| set.is_signed_only_by(keys.zone().view()))
        };
        let secure = |set: &Rrset| {
            let ttl_secs = set.ttl_secs.min(lifetime(set)?);
            Some(Rrset { ttl_secs, security: Security::Secure, ..set.clone() })
        };
        let sets = proof.iter().filter_map(secure).collect();
        self.io.note(Note::Gaps(keys.zone().view().into(), soa.cloned(), sets));
    }

    /// Returns the keys of the zone that contains a name. This is the zone of the reply, or a zone
    /// below it if the signer's name suggests so. The chain of trust shows whether the signer's
    /// name is a zone.
    async fn zone_of(
        &mut self,
        owner: &Name,
        rtype: Rtype,
        hint: Option<Name>,
        zone: Option<&Name>,
        frame: &Frame<'_>,
    ) -> Chain {
        self.check_excluded(owner.view(), rtype)?;
        let base: Name = match zone {
            Some(zone) if !self.is_forwarded(zone) => zone.clone(),
            _ => self.nearest_zone(owner, rtype).await,
        };
        // There is no chain of trust above the anchor.
        let anchor = self.validation().and_then(|validation| validation.anchors.closest(owner));
        let base = match anchor.map(|anchor| anchor.view()) {
            Some(anchor)
                if anchor.len() > base.len() && !(rtype == Rtype::DS && anchor == owner.view()) =>
            {
                anchor.into()
            }
            _ => base,
        };
        let hint = hint.filter(|hint| hint.len() > base.len() && name::is_under(hint, &base));
        let is_at_cut = rtype == Rtype::DS && hint.as_ref() == Some(owner);
        let zone = match hint.filter(|_| !is_at_cut) {
            Some(signer) => {
                self.note_signer(&signer);
                signer
            }
            None => base,
        };
        self.keys_of(&zone, frame).await
    }

    /// Returns whether a forwarding rule covers the zone. If so, the servers also answer for other
    /// zones.
    pub(super) fn is_forwarded(&self, zone: &Name) -> bool {
        matches!(self.plan.configured(zone.view()), Some(crate::configured::Configured::Forward(_)))
    }

    async fn nearest_zone(&mut self, owner: &Name, rtype: Rtype) -> Name {
        let cut = self.nearest_cut(owner, rtype).await;
        if self.is_forwarded(&cut.zone) { FoldedName::ROOT.into() } else { cut.zone }
    }

    async fn judge_denial(
        &mut self,
        (owner, qtype): (&Name, Rtype),
        denial: &mut Denial,
        zone: Option<&Name>,
        frame: &Frame<'_>,
    ) -> Result<(), Reason> {
        let named = denial.soa.as_ref().map(|soa| soa.owner.clone());
        let hint = signer(denial.soa.iter().chain(&denial.proof), owner.view()).or(named);
        if let Some(child) = &hint {
            // The proof in the reply may show whether the child is a zone.
            self.referrals.entry(child.clone()).or_insert_with(|| denial.proof.clone());
        }
        let keys = match self.zone_of(owner, qtype, hint, zone, frame).await {
            Ok(keys) => keys,
            Err(reason) => {
                return accept_insecure(reason, (&mut denial.security, &mut denial.unsupported));
            }
        };
        match self.verify_denial((owner, qtype), denial, &keys) {
            Ok(()) => Ok(()),
            Err(reason) if reason.verdict() != Verdict::Bogus => {
                accept_insecure(reason, (&mut denial.security, &mut denial.unsupported))
            }
            Err(reason)
                if is_final(reason)
                    || is_signed_by(denial.soa.iter().chain(&denial.proof), &keys) =>
            {
                Err(reason)
            }
            Err(reason) => {
                let below = parent_side(owner, qtype);
                match self.ends_between(&keys, &below, &denial.proof, frame).await {
                    Ok(below) if below.zone() != keys.zone() => {
                        self.verify_denial((owner, qtype), denial, &below)
                    }
                    Ok(_) => Err(reason),
                    Err(end) if end.verdict() == Verdict::Bogus => Err(reason),
                    Err(end) => {
                        accept_insecure(end, (&mut denial.security, &mut denial.unsupported))
                    }
                }
            }
        }
    }

    fn verify_denial(
        &mut self,
        (owner, qtype): (&Name, Rtype),
        denial: &mut Denial,
        keys: &Arc<ZoneKeys>,
    ) -> Result<(), Reason> {
        let context = self.context();
        let (proven, believed) = self.prove(keys, &denial.proof, |proof, budget| {
            let proven = match denial.rcode {
                Rcode::NXDOMAIN => match proof.nxdomain(owner, budget) {
                    // The name may be an empty non-terminal. The proof decides, and not the RCODE.
                    Err(Reason::DenialMissing) => {
                        let proven = proof.nodata(owner, qtype, budget)?;
                        // A range with Opt-Out does not show whether the name itself exists (RFC
                        // 5155 §8.5).
                        let is_there = matches!(
                            proven.kind,
                            DenialKind::Nodata | DenialKind::EmptyNonTerminal
                        );
                        if is_there && !proven.is_opt_out {
                            Ok(proven)
                        } else {
                            Err(Reason::DenialMissing)
                        }
                    }
                    proven => proven,
                },
                _ => proof.nodata(owner, qtype, budget),
            };
            proven.map(|proven| (proven, believed(proof)))
        })?;
        denial.rcode =
            if proven.kind == DenialKind::Nxdomain { Rcode::NXDOMAIN } else { Rcode::NOERROR };
        let mut lifetime_secs = proven.lifetime_secs;
        if let Some(soa) = &mut denial.soa {
            let budget = &mut self.budget;
            let verified = lend(std::slice::from_ref(soa), |sets| {
                signature::verify(&sets[0], keys, &context, budget)
            })?;
            lifetime_secs = lifetime_secs.min(verified.lifetime_secs);
            soa.security = Security::Secure;
            soa.ttl_secs = soa.ttl_secs.min(lifetime_secs);
        }
        let is_secure = proven.verdict() == Verdict::Secure;
        if is_secure {
            self.keep_gaps(keys, denial.soa.as_ref(), &denial.proof, &believed);
        }
        denial.security = if is_secure { Security::Secure } else { Security::Insecure };
        for set in &mut denial.proof {
            set.ttl_secs = set.ttl_secs.min(lifetime_secs);
        }
        Ok(())
    }
}

/// Accepts data as insecure, unless the reason makes it bogus. Records a missing algorithm (RFC
/// 8914 §4.2, §4.3, §4.28).
fn accept_insecure(
    reason: Reason,
    (security, unsupported): (&mut Security, &mut Option<Unsupported>),
) -> Result<(), Reason> {
    if reason.verdict() == Verdict::Bogus {
        return Err(reason);
    }
    *unsupported = match reason {
        Reason::UnsupportedAlgorithm | Reason::UnsupportedKeySize => Some(Unsupported::Algorithm),
        Reason::UnsupportedDigest => Some(Unsupported::Digest),
        Reason::Nsec3Iterations => Some(Unsupported::Iterations),
        _ => None,
    };
    *security = Security::Insecure;
    Ok(())
}

/// A validated NSEC or NSEC3 RRset, and its validity in seconds.
type Believed = (Name, Rtype, u32);

fn believed(proof: &Proof<'_>) -> Vec<Believed> {
    let parts = |(rrset, secs): (&avocet_dnssec::Rrset<'_>, u32)| {
        let owner = FoldedNameBuf::from_wire(rrset.owner).ok()?;
        Some((owner.view().into(), rrset.rtype, secs))
    };
    proof.believed().filter_map(parts).collect()
}

/// Returns whether another attempt to find the chain cannot change this result.
pub(super) fn is_final(reason: Reason) -> bool {
    !matches!(reason, Reason::SignatureMissing | Reason::WrongSigner | Reason::DenialMissing)
}

/// Returns whether the zone of these keys has signed any of the RRsets, so that they do not belong
/// to a child zone.
fn is_signed_by<'a>(sets: impl IntoIterator<Item = &'a Rrset>, keys: &ZoneKeys) -> bool {
    let apex = keys.zone().wire();
    sets.into_iter()
        .any(|set| signer([set], set.owner.view()).is_some_and(|signer| *signer == *apex))
}

/// Returns whether the security status was not determined yet.
fn is_open(security: Security) -> bool {
    !matches!(security, Security::Secure | Security::Insecure)
}

/// Returns the lowest name that can be the apex of the zone with this data: the owner, or its
/// parent for a DS RRset.
fn parent_side(owner: &Name, rtype: Rtype) -> Name {
    if rtype == Rtype::DS {
        owner.view().parent().unwrap_or(FoldedName::ROOT).into()
    } else {
        owner.clone()
    }
}
