//! Validating what was found: each RRset by the keys of its zone, each denial by its proof
//! (RFC 4035 §5.3, §5.4).

use std::sync::Arc;

use avocet_cache::{Rank, Security, Unsupported};
use avocet_dnssec::{Budget, DenialKind, Proof, Reason, Verdict, ZoneKeys, signature};
use avocet_wire::{NameBuf, Rcode, Rtype, name};

use super::Walker;
use super::channel::Note;
use super::frame::Frame;
use super::part::{Ending, Part};
use super::rrset::{Denial, Name, Rrset, Side, Stored};
use super::signed::{lend, signer};
use crate::validation::Chain;

/// Most NSEC and NSEC3 RRsets of one question that are kept for the chain of trust.
const MAX_PROOFS: usize = 24;

/// The reply that an RRset came in.
pub(crate) struct Said<'a> {
    pub(crate) qtype: Rtype,
    /// NSEC and NSEC3 RRsets beside it.
    pub(crate) proof: &'a [Rrset],
    /// The zone whose servers said it; none: the cache.
    pub(crate) zone: Option<&'a Name>,
}

impl Walker {
    /// Gives all of a part its security status. Where an alias leads is used only if it verifies,
    /// or if the servers of an insecure zone say it of their own zone: otherwise the part ends
    /// there, and that name is asked for (S5).
    ///
    /// # Errors
    /// Why it is bogus.
    pub(crate) async fn validate(
        &mut self,
        part: &mut Part,
        qtype: Rtype,
        frame: &Frame<'_>,
    ) -> Result<(), Reason> {
        self.budget.begin_message();
        let zone = part.zone.clone();
        self.note_proof(&part.proof);
        let is_of_zone = zone.as_ref().is_some_and(|zone| !self.is_forwarded(zone));
        let is_used = |security: Security| {
            security == Security::Secure || is_of_zone && security == Security::Insecure
        };
        let mut before = Security::Unchecked;
        for at in 0..part.sets.len() {
            if at > 0 {
                // Each set is as much as another message has; the limits of the question hold.
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
                // What the DNAME leads to is no name; nothing proves that but its length.
                denial.security = Security::Insecure;
            } else {
                let judged =
                    self.judge_denial((&owner, qtype), &mut denial, zone.as_ref(), frame).await;
                self.tell_denial((&owner, qtype), &denial.proof, denial.security, judged);
                let is_used = judged.is_ok() && is_used(denial.security);
                if !is_used && part.ends_before(part.sets.len()) {
                    return Ok(());
                }
                judged?;
            }
            part.ending = Ending::Denied(owner, denial);
        }
        Ok(())
    }

    /// Gives an RRset of a reply its security status.
    ///
    /// # Errors
    /// Why it is bogus.
    pub(crate) async fn judge(
        &mut self,
        set: &mut Rrset,
        &Said { qtype, proof, zone }: &Said<'_>,
        frame: &Frame<'_>,
    ) -> Result<(), Reason> {
        if set.rtype == Rtype::RRSIG {
            // Nothing signs signatures (RFC 4035 §2.2).
            set.security = Security::Insecure;
            return Ok(());
        }
        let hint = signer([&*set], &set.owner);
        // An alias in place of DS records is the word of the zone above, too (RFC 4035 §3.1.4.1).
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

    /// Lets a zone's NSEC and NSEC3 RRsets prove something, with what was hashed before.
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

    /// Keeps NSEC and NSEC3 RRsets for the chain of trust. The oldest give way.
    pub(super) fn note_proof(&mut self, proof: &[Rrset]) {
        self.proofs.retain(|known| !proof.iter().any(|set| known.is_at(&set.owner, set.rtype)));
        self.proofs.extend(proof.iter().take(MAX_PROOFS).cloned());
        self.proofs.drain(..self.proofs.len().saturating_sub(MAX_PROOFS));
    }

    /// Keeps what a wildcard has, for other names that it is expanded to.
    fn keep_wildcard(&self, set: &Rrset, encloser: &NameBuf) {
        let Ok(wildcard) = encloser.prefixed(b"*") else { return };
        if self.recursion().aggressive_nsec {
            let how = Stored { side: Side::Zone, rank: Rank::AuthoritativeAnswer, with_do: true };
            self.io.note(Note::Store(Rrset { owner: wildcard.wire().into(), ..set.clone() }, how));
        }
    }

    /// Keeps those of a proof's RRsets that were believed: they say something of other names, too.
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
            // The zones above and below a cut may both have a set there: one of them was believed.
            let is_it = |(owner, rtype, _): &&Believed| *owner == set.owner && *rtype == set.rtype;
            let believed = believed.iter().find(is_it).map(|(.., secs)| *secs);
            believed.filter(|_| set.is_signed_only_by(keys.zone().wire()))
        };
        let secure = |set: &Rrset| {
            let ttl_secs = set.ttl_secs.min(lifetime(set)?);
            Some(Rrset { ttl_secs, security: Security::Secure, ..set.clone() })
        };
        let sets = proof.iter().filter_map(secure).collect();
        self.io.note(Note::Gaps(keys.zone().wire().into(), soa.cloned(), sets));
    }

    /// The keys of the zone that a name is in: the one whose servers spoke, or one below it that
    /// the signer's name hints at. The chain tells whether that is a zone.
    async fn zone_of(
        &mut self,
        owner: &Name,
        rtype: Rtype,
        hint: Option<Name>,
        zone: Option<&Name>,
        frame: &Frame<'_>,
    ) -> Chain {
        self.check_private(owner, rtype)?;
        let base: Name = match zone {
            Some(zone) if !self.is_forwarded(zone) => zone.clone(),
            _ => self.nearest_zone(owner, rtype).await,
        };
        // Above the anchor there is no chain.
        let anchor = self.validation().and_then(|validation| validation.anchors.closest(owner));
        let base = match anchor.map(|anchor| anchor.wire()) {
            Some(anchor)
                if anchor.len() > base.len() && !(rtype == Rtype::DS && *anchor == **owner) =>
            {
                anchor.into()
            }
            _ => base,
        };
        let hint = hint.filter(|hint| hint.len() > base.len() && name::is_under(hint, &base));
        let is_at_cut = rtype == Rtype::DS && hint.as_ref() == Some(owner);
        let zone = hint.filter(|_| !is_at_cut).unwrap_or(base);
        self.keys_of(&zone, frame).await
    }

    /// The servers of a forwarding rule speak for zones that are not theirs.
    pub(super) fn is_forwarded(&self, zone: &Name) -> bool {
        matches!(self.plan.configured(zone), Some(crate::configured::Configured::Forward(_)))
    }

    async fn nearest_zone(&mut self, owner: &Name, rtype: Rtype) -> Name {
        let cut = self.nearest_cut(owner, rtype).await;
        if self.is_forwarded(&cut.zone) { [0].as_slice().into() } else { cut.zone }
    }

    async fn judge_denial(
        &mut self,
        (owner, qtype): (&Name, Rtype),
        denial: &mut Denial,
        zone: Option<&Name>,
        frame: &Frame<'_>,
    ) -> Result<(), Reason> {
        let named = denial.soa.as_ref().map(|soa| soa.owner.clone());
        let hint = signer(denial.soa.iter().chain(&denial.proof), owner).or(named);
        if let Some(child) = &hint {
            // What came along may prove what the zone is.
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
                    // The name may have others below it after all: what is proven is believed, not
                    // the RCODE.
                    Err(Reason::DenialMissing) => {
                        let proven = proof.nodata(owner, qtype, budget)?;
                        // A gap that opts out proves nothing of the name itself (RFC 5155 §8.5).
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

/// Takes for insecure what is not bogus, and notes what of it we lack support for (RFC 8914 §4.2,
/// §4.3, §4.28).
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

/// An NSEC or NSEC3 RRset of a proof, and for how many seconds it may be believed.
type Believed = (Name, Rtype, u32);

fn believed(proof: &Proof<'_>) -> Vec<Believed> {
    proof.believed().map(|(rrset, secs)| (rrset.owner.into(), rrset.rtype, secs)).collect()
}

/// Is there no use in looking for another chain?
pub(super) fn is_final(reason: Reason) -> bool {
    !matches!(reason, Reason::SignatureMissing | Reason::WrongSigner | Reason::DenialMissing)
}

/// Has the zone of these keys signed any of the sets, so that they are of no zone below it?
fn is_signed_by<'a>(sets: impl IntoIterator<Item = &'a Rrset>, keys: &ZoneKeys) -> bool {
    let apex = keys.zone().wire();
    sets.into_iter().any(|set| signer([set], &set.owner).is_some_and(|signer| *signer == *apex))
}

/// Has it no status yet?
fn is_open(security: Security) -> bool {
    !matches!(security, Security::Secure | Security::Insecure)
}

/// The name up to which zones may be cut above data of this type.
fn parent_side(owner: &Name, rtype: Rtype) -> Name {
    if rtype == Rtype::DS { name::parent(owner).unwrap_or(&[0]).into() } else { owner.clone() }
}
