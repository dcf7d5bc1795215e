//! Synthesizes answers from cached NSEC and NSEC3 records: denials, and wildcard expansions for
//! names that are proven not to exist (RFC 8198 §5).

use std::slice::from_ref;

use avocet_cache::Security;
use avocet_dnssec::aggressive::{Synthesis, synthesise};
use avocet_dnssec::nsec3::Parameters;
use avocet_dnssec::{Budget, DenialKind, Hashes, Limits, Proof, Reason};
use avocet_wire::{FoldedName, NameBuf, Rcode, Rtype, name};

use super::Walker;
use super::channel::Note;
use super::gaps::{By, Gap, Hashing, Sought};
use super::part::{Ending, Part};
use super::rrset::{CachedAnswer, Denial, Name, Rrset, Side};
use super::signed::lend;
use crate::read::folded_target;

/// Maximum number of ranges that are looked up for one answer. NSEC3 needs one range for each
/// label, and two more.
const MAX_STEPS: u32 = 12;
/// Maximum number of names that are hashed for one answer. If more are needed, the servers are
/// queried. These hashes do not count towards the budget of validation.
const MAX_HASHES: u32 = 12;

/// The cached records of one zone that may prove an answer.
struct Evidence {
    apex: Name,
    soa: Option<Rrset>,
    hashing: Option<Hashing>,
    sets: Vec<Rrset>,
    hashes: Hashes,
    budget: Budget,
}

impl Evidence {
    fn begin(gap: Gap) -> Self {
        let (sets, hashing) = match gap.by {
            By::Set(set) => (vec![set], None),
            By::Hashing(hashing) => (Vec::new(), Some(hashing)),
        };
        let budget = Budget::with_limits(Limits { nsec3_hashes: MAX_HASHES, ..Limits::default() });
        Self { apex: gap.apex, soa: gap.soa, hashing, sets, hashes: Hashes::default(), budget }
    }

    fn say(&mut self, qname: FoldedName<'_>, qtype: Rtype) -> Result<Synthesis, Reason> {
        let (hashes, budget) = (std::mem::take(&mut self.hashes), &mut self.budget);
        let (said, hashes) = lend(&self.sets, |sets| {
            let mut proof = Proof::cached(sets, &self.apex).with_hashes(hashes);
            (synthesise(&mut proof, &qname, qtype, budget), proof.into_hashes())
        });
        self.hashes = hashes;
        said
    }

    /// Returns the range to look for, in order to prove something about a name.
    fn sought(&mut self, wanted: &NameBuf) -> Option<Sought> {
        let Some(hashing) = &self.hashing else {
            return Some(Sought::Name(wanted.folded().view().into()));
        };
        let parameters = Parameters { iterations: hashing.iterations, salt: &hashing.salt };
        let hash = self.hashes.hash(&parameters, wanted.wire(), &mut self.budget).ok()?;
        Some(Sought::Hash(self.apex.clone(), hash))
    }

    /// Adds the records of a range. Returns `None` if they belong to another zone, or are already
    /// known.
    fn add(&mut self, gap: Gap) -> Option<()> {
        let By::Set(set) = gap.by else { return None };
        if gap.apex != self.apex || self.sets.iter().any(|known| known.owner == set.owner) {
            return None;
        }
        self.sets.push(set);
        Some(())
    }

    fn denied(self, qname: &Name, denial: avocet_dnssec::Denial) -> Option<Part> {
        let rcode =
            if denial.kind == DenialKind::Nxdomain { Rcode::NXDOMAIN } else { Rcode::NOERROR };
        let mut soa = self.soa?;
        soa.ttl_secs = soa.ttl_secs.min(denial.lifetime_secs);
        let denial = Denial {
            rcode,
            soa: Some(soa),
            proof: self.sets,
            security: Security::Secure,
            unsupported: None,
        };
        Some(part(Vec::new(), Ending::Denied(qname.clone(), denial), Vec::new()))
    }
}

/// A wildcard that applies to a name, and the proof that no closer name exists.
struct KnownWildcard<'a> {
    wildcard: Name,
    /// The zone that the proof belongs to.
    apex: &'a Name,
    proof: &'a [Rrset],
}

fn part(sets: Vec<Rrset>, ending: Ending, proof: Vec<Rrset>) -> Part {
    Part {
        sets,
        ending,
        proof,
        beside: Vec::new(),
        zone: None,
        is_authoritative: false,
        server: None,
    }
}

impl Walker {
    /// Synthesizes an answer from cached ranges. Returns `None` if the name may exist.
    pub(crate) async fn part_from_gap(&mut self, qname: &Name, qtype: Rtype) -> Option<Part> {
        let is_data = !qtype.is_meta() && !qtype.is_dnssec_proof();
        if !is_data
            || !self.recursion().aggressive_nsec
            || self.validation().is_none()
            || self.checking_disabled
        {
            return None;
        }
        let gap = self.io.gap(Sought::Name(qname.clone())).await?;
        // If a configured zone is closer to the name, the range does not apply (S23 in
        // tests/SECURITY.md).
        let nearest =
            self.plan.configured(qname.view()).map_or(0, |zone| usize::from(zone.apex_len()));
        if nearest > gap.apex.len() {
            return None;
        }
        let part = self.part_by(Evidence::begin(gap), qname, qtype).await?;
        self.io.note(Note::Synthesised);
        Some(part)
    }

    async fn part_by(
        &mut self,
        mut evidence: Evidence,
        qname: &Name,
        qtype: Rtype,
    ) -> Option<Part> {
        if evidence.hashing.is_some()
            && let Some(part) = self.by_encloser(&mut evidence, (qname, qtype)).await
        {
            return Some(part);
        }
        for _ in 0..MAX_STEPS {
            match evidence.say(qname.view(), qtype).ok()? {
                Synthesis::Denied(denial) => return evidence.denied(qname, denial),
                Synthesis::Wildcard(denial) => {
                    let wildcard = denial.closest_encloser.prefixed(b"*").ok()?;
                    let known = KnownWildcard {
                        wildcard: wildcard.folded().view().into(),
                        apex: &evidence.apex,
                        proof: &evidence.sets,
                    };
                    return self.part_by_wildcard(known, qname, qtype).await;
                }
                Synthesis::Missing(wanted) => {
                    // For a name that is proven not to exist, the record of the wildcard itself
                    // suffices. An ancestor that begins with an asterisk is itself the closest
                    // encloser, and is not expanded (RFC 4592 §3.3.1).
                    let wildcard: Name = wanted.folded().view().into();
                    let is_wildcard = name::labels(&wildcard).next() == Some(b"*")
                        && !name::is_under(qname, &wildcard);
                    let known =
                        KnownWildcard { wildcard, apex: &evidence.apex, proof: &evidence.sets };
                    if is_wildcard
                        && let Some(part) = self.part_by_wildcard(known, qname, qtype).await
                    {
                        return Some(part);
                    }
                    let sought = evidence.sought(&wanted)?;
                    evidence.add(self.io.gap(sought).await?)?;
                }
                Synthesis::Ask => return None,
            }
        }
        None
    }

    /// Finds the closest encloser by hash, from the name upward, and the range directly below it
    /// that denies the name (RFC 5155 §8.3). Ranges further below prove nothing. If the wildcard
    /// exists, its parent exists, too, and the wildcard is the answer.
    async fn by_encloser(
        &mut self,
        evidence: &mut Evidence,
        (qname, qtype): (&Name, Rtype),
    ) -> Option<Part> {
        let mut covering: Option<Gap> = None;
        let apex_len = evidence.apex.len();
        for wire in qname.view().ancestors().take_while(|wire| wire.len() >= apex_len) {
            let at = NameBuf::from_wire(&wire).ok()?;
            if let (Some(Gap { by: By::Set(set), .. }), Ok(wildcard)) =
                (&covering, at.prefixed(b"*"))
            {
                let known = KnownWildcard {
                    wildcard: wildcard.folded().view().into(),
                    apex: &evidence.apex,
                    proof: from_ref(set),
                };
                if let Some(part) = self.part_by_wildcard(known, qname, qtype).await {
                    return Some(part);
                }
            }
            let Some(Sought::Hash(apex, hash)) = evidence.sought(&at) else { return None };
            let gap = self.io.gap(Sought::Hash(apex, hash)).await;
            let nsec3 = gap.as_ref().and_then(|gap| gap.nsec3());
            if nsec3.is_some_and(|nsec3| nsec3.matches(&hash)) {
                evidence.add(gap?)?;
                covering.map(|covering| evidence.add(covering));
                return None;
            }
            let covers = nsec3.is_some_and(|nsec3| nsec3.covers(&hash));
            covering = gap.filter(|_| covers);
        }
        None
    }

    /// Returns the answer from the cached RRset of a wildcard, expanded to a name (RFC 8198 §5.3).
    async fn part_by_wildcard(
        &mut self,
        known: KnownWildcard<'_>,
        qname: &Name,
        qtype: Rtype,
    ) -> Option<Part> {
        for rtype in [qtype, Rtype::CNAME] {
            let Some((CachedAnswer::Set(found), _)) =
                self.io.look_up(Side::Zone, &known.wildcard, rtype).await
            else {
                continue;
            };
            // The ranges of a zone do not apply to a child zone. With several signers, the cache
            // does not show which signature was verified (RFC 8198 §5.3, RFC 4035 §5.3.4).
            if found.security != Security::Secure || !found.is_signed_only_by(known.apex.view()) {
                return None;
            }
            let ttl_secs =
                known.proof.iter().map(|set| set.ttl_secs).fold(found.ttl_secs, u32::min);
            let target = found.records.first().and_then(folded_target);
            let set = Rrset { owner: qname.clone(), ttl_secs, ..found };
            let ending = match target.filter(|_| rtype != qtype) {
                Some(target) => Ending::GoesOn(target.view().into()),
                None => Ending::Answered,
            };
            return Some(part(vec![set], ending, known.proof.to_vec()));
        }
        None
    }
}
