//! Resolves a question completely: follows aliases from name to name, and gets each part of the
//! answer from the cache or from authoritative servers.

use std::sync::Arc;

use avocet_cache::{Rank, Security, Unsupported};
use avocet_wire::{Rcode, Rtype, Section};

use avocet_dnssec::{Reason, Verdict};

use super::Walker;
use super::channel::Note;
use super::frame::Frame;
use super::part::{Ending, Part};
use super::rrset::{Denial, Name, Rrset, Side, Signed, Stored};
use super::validate::Said;
use crate::answer::Gathered;
use crate::dns64::Dns64;
use crate::failure::Failure;
use crate::own::Own;
use crate::read::folded_target;
use crate::report::{Report, is_of_zone};
use crate::scrub::MAX_ALIASES;
use crate::trace::Step;

/// Seconds for which a DNAME record with a TTL of 0 is used. Queries for names below its owner
/// within one or two seconds count as one transaction (RFC 1035 §3.2.1).
const TRANSACTION_SECS: u32 = 2;

/// Maximum number of times that other servers are queried after a validation failure.
const MAX_RETRIES: u32 = 3;

/// The answer that recursion found for a question: records or a denial, each with its security
/// status.
#[derive(Debug)]
pub(crate) struct Resolution {
    pub(crate) rcode: Rcode,
    /// The aliases in order, followed by the queried RRset.
    pub(crate) sets: Vec<Rrset>,
    pub(crate) denial: Option<Denial>,
    /// The NSEC and NSEC3 RRsets that a positive answer needs.
    pub(crate) proof: Vec<Rrset>,
    /// The RRsets of other sections, for responses that are not minimal.
    pub(crate) beside: Vec<(Section, Rrset)>,
    /// The reason why the last alias's target could not be resolved. The response is then SERVFAIL
    /// with the aliases (RFC 1034 §3.6.2).
    pub(crate) failure: Option<Failure>,
}

impl Resolution {
    /// Returns an empty result without an error.
    pub(crate) fn empty() -> Self {
        Self {
            rcode: Rcode::NOERROR,
            sets: Vec::new(),
            denial: None,
            proof: Vec::new(),
            beside: Vec::new(),
            failure: None,
        }
    }

    /// Returns whether the whole answer is validated.
    pub(crate) fn is_authentic(&self) -> bool {
        let is_secure = |set: &Rrset| set.security == Security::Secure;
        let denial = self.denial.as_ref();
        (!self.sets.is_empty() || denial.is_some())
            && self.sets.iter().all(is_secure)
            && denial.is_none_or(|denial| denial.security == Security::Secure)
    }

    /// Returns the support that this resolver lacks to validate signed data, such as an unsupported
    /// algorithm; `None` if it lacks none.
    pub(crate) fn unsupported(&self) -> Option<Unsupported> {
        let of_sets = self.sets.iter().find_map(|set| set.unsupported);
        of_sets.or_else(|| self.denial.as_ref()?.unsupported)
    }

    /// Adds the records of the answer to `out`, together with DNSSEC records if `signed` requests
    /// them.
    pub(crate) fn gather(&self, out: &mut Gathered, signed: Signed) {
        out.clear();
        for set in &self.sets {
            set.put(out, Section::Answer, signed);
        }
        if let Some(denial) = &self.denial {
            if let Some(soa) = &denial.soa {
                soa.put(out, Section::Authority, signed);
            }
            for set in denial.proof.iter().filter(|_| signed == Signed::Yes) {
                set.put(out, Section::Authority, signed);
            }
        }
        for set in self.proof.iter().filter(|_| signed == Signed::Yes) {
            set.put(out, Section::Authority, signed);
        }
        for (section, set) in &self.beside {
            set.put(out, *section, signed);
        }
    }
}

impl Walker {
    /// Resolves a name and type, with DNS64 if it is configured.
    pub(crate) async fn resolve(
        mut self,
        qname: Name,
        qtype: Rtype,
        dns64: Option<Arc<Dns64>>,
    ) -> Result<Resolution, Failure> {
        let resolution = match dns64 {
            Some(dns64) => self.translated(dns64, qname, qtype).await,
            None => self.find(qname, qtype).await,
        };
        if self.budget.reached().iter().any(|count| *count > 0) {
            self.io.note(Note::Limits(*self.budget.reached()));
        }
        resolution
    }

    /// Resolves a name and type, without DNS64.
    pub(crate) async fn find(&mut self, qname: Name, qtype: Rtype) -> Result<Resolution, Failure> {
        let mut resolution = Resolution::empty();
        let mut seen = vec![qname.clone()];
        let mut at = qname;
        while resolution.sets.len() <= 2 * MAX_ALIASES && seen.len() <= MAX_ALIASES + 1 {
            let frame = Frame::first(at.clone(), qtype);
            let mut part = match self.own_part(&at, qtype) {
                Some(part) => part,
                None => self.valid_part(&at, qtype, &frame).await?,
            };
            resolution.beside = self.judged_beside(&mut part).await;
            let is_expanded = part.sets.iter().any(Rrset::is_expanded);
            self.keep(&part, qtype);
            let Part { sets, ending, proof, .. } = part;
            seen.extend(
                sets.iter().filter(|set| set.rtype == Rtype::CNAME).map(|set| set.owner.clone()),
            );
            // Several aliases of a chain may come from the same DNAME.
            let is_new = |set: &Rrset| {
                !resolution.sets.iter().any(|known| known.is_at(set.owner.view(), set.rtype))
            };
            let new: Vec<Rrset> = sets.into_iter().filter(is_new).collect();
            resolution.sets.extend(new);
            resolution.proof.extend(proof.into_iter().filter(|_| is_expanded));
            match ending {
                Ending::Answered => return Ok(resolution),
                Ending::Denied(_, denial) => {
                    resolution.rcode = denial.rcode;
                    let is_same = |said: &Rrset, set: &Rrset| {
                        said.is_at(set.owner.view(), set.rtype) && said.records == set.records
                    };
                    let is_said = |set: &Rrset| denial.proof.iter().any(|said| is_same(said, set));
                    resolution.proof.retain(|set| !is_said(set));
                    resolution.beside.clear();
                    resolution.denial = Some(denial);
                    return Ok(resolution);
                }
                Ending::GoesOn(next) if seen.contains(&next) && next != at => break,
                Ending::GoesOn(next) => {
                    self.io.record(Step::Alias(next.clone()));
                    self.io.note(Note::Alias);
                    at = next;
                }
            }
        }
        resolution.failure = Some(Failure::Aliases);
        Ok(resolution)
    }

    /// Returns the answer from this server's own data, which needs no query and is not cached.
    fn own_part(&self, qname: &Name, qtype: Rtype) -> Option<Part> {
        let part = match self.plan.own(qname.view(), qtype)? {
            Own::Set(own) => {
                let set = Rrset::of_own(&own);
                let alias = if qtype == set.rtype {
                    None
                } else {
                    set.records.first().and_then(folded_target)
                };
                let ending =
                    alias.map_or(Ending::Answered, |next| Ending::GoesOn(next.view().into()));
                Part { sets: vec![set], ..Part::of_cache(ending) }
            }
            Own::Denied(rcode, soa) => {
                Part::of_cache(Ending::Denied(qname.clone(), Denial::of_own(rcode, &soa)))
            }
        };
        self.io.record(Step::Own { name: qname.clone(), rtype: qtype });
        Some(part)
    }

    /// Validates the RRsets of other sections. In a secure answer, everything in the authority
    /// section is secure (RFC 4035 §3.2.3).
    async fn judged_beside(&mut self, part: &mut Part) -> Vec<(Section, Rrset)> {
        let beside = std::mem::take(&mut part.beside);
        if self.validation().is_none() || self.checking_disabled {
            return beside;
        }
        let is_secure = part.sets.iter().all(|set| set.security == Security::Secure);
        let mut judged = Vec::with_capacity(beside.len());
        for (section, mut set) in beside {
            let frame = Frame::first(set.owner.clone(), Rtype(0));
            let is_additional = section == Section::Additional;
            let said = Said { qtype: set.rtype, proof: &[], zone: part.zone.as_ref() };
            let is_sound = is_additional || self.judge(&mut set, &said, &frame).await.is_ok();
            if is_additional || is_sound && (!is_secure || set.security == Security::Secure) {
                judged.push((section, set));
            }
        }
        judged
    }

    /// Resolves one part of an answer, and validates it if validation is configured. After a
    /// validation failure, queries other servers.
    async fn valid_part(
        &mut self,
        qname: &Name,
        qtype: Rtype,
        frame: &Frame<'_>,
    ) -> Result<Part, Failure> {
        if let Some(reason) = self.broken_chain(qname, qtype).await
            && self.part_from_cache(qname, qtype).await.is_none()
        {
            return Err(Failure::Bogus(reason.ede().0));
        }
        let mut bogus: Option<(Reason, Option<Name>)> = None;
        for _ in 0..=MAX_RETRIES {
            let mut part = match (self.part(qname, qtype, frame).await, &bogus) {
                (Ok(part), _) => part,
                (Err(_), Some(fault)) => return Err(self.bogus((qname, qtype), fault)),
                (Err(failure), None) => {
                    return Err(failure);
                }
            };
            if self.validation().is_none() || self.checking_disabled {
                return Ok(part);
            }
            match self.validate(&mut part, qtype, &Frame::first(qname.clone(), Rtype(0))).await {
                Ok(()) => return Ok(part),
                Err(reason) => {
                    let fault = bogus.get_or_insert_with(|| (reason, part.zone.clone()));
                    // Other servers of the zone cannot repair a broken chain of trust.
                    if self.broken_chain(qname, qtype).await.is_some() {
                        return Err(self.bogus((qname, qtype), fault));
                    }
                    self.note_lack_of_signatures(&part, reason);
                    self.distrust((qname, qtype), &part);
                }
            }
        }
        Err(bogus.map_or(Failure::Unusable, |fault| self.bogus((qname, qtype), &fault)))
    }

    /// Records that a server omits the signatures of a signed zone. Does nothing for forwarders,
    /// because the omission may not be their fault.
    fn note_lack_of_signatures(&mut self, part: &Part, reason: Reason) {
        let (Some(zone), Some(server)) = (&part.zone, part.server) else { return };
        let is_lack = matches!(reason, Reason::SignatureMissing | Reason::DenialMissing);
        if is_lack && !part.has_signatures() && !self.is_forwarded(zone) {
            self.note_unsigned(zone, server);
        }
    }

    /// Reports a validation failure to the zone's reporting agent (RFC 9567), and returns the
    /// failure.
    fn bogus(
        &self,
        (qname, qtype): (&Name, Rtype),
        (reason, zone): &(Reason, Option<Name>),
    ) -> Failure {
        let ede = reason.ede().0;
        if let Some(agent) = zone.as_ref().and_then(|zone| self.agents.get(zone))
            && self.recursion().error_reports
            && is_of_zone(*reason)
        {
            let report = Report { qname: qname.clone(), qtype, ede, agent: *agent };
            self.io.note(Note::Report(Box::new(report)));
        }
        Failure::Bogus(ede)
    }

    /// Returns the cached reason why nothing in the zone of this name can be validated; `None` if
    /// there is no such reason (RFC 9520 §3.2).
    async fn broken_chain(&mut self, qname: &Name, qtype: Rtype) -> Option<Reason> {
        if self.validation().is_none() || self.checking_disabled {
            return None;
        }
        let above = usize::from(qtype == Rtype::DS);
        let start = qname.view().ancestors().nth(above)?;
        let (zone_len, chain) = self.io.nearest_keys(&start.into()).await?;
        let reason = chain.err().filter(|reason| reason.verdict() == Verdict::Bogus)?;
        // Below the zone, an anchor begins a separate chain of trust.
        self.anchor_of(qname.view()).is_ok_and(|anchor| anchor.len() <= zone_len).then_some(reason)
    }

    /// Resolves one part of an answer from the cache, from NSEC ranges, or from servers.
    pub(crate) async fn part(
        &mut self,
        qname: &Name,
        qtype: Rtype,
        frame: &Frame<'_>,
    ) -> Result<Part, Failure> {
        let asks_anew = self.asks_anew && frame.is_first();
        if !self.passes_over_cache
            && !asks_anew
            && let Some(part) = self.part_from_cache(qname, qtype).await
        {
            self.tell_cached(qname, qtype, &part);
            return Ok(part);
        }
        if !asks_anew && let Some(part) = self.part_from_gap(qname, qtype).await {
            self.tell_gap(qname, qtype, &part);
            return Ok(part);
        }
        self.descend(qname, qtype, frame).await
    }

    async fn part_from_cache(&mut self, qname: &Name, qtype: Rtype) -> Option<Part> {
        let boundary_len = self.plan.boundary_len(qname.view());
        self.io.cached_part(qname, qtype, boundary_len).await
    }

    /// Caches the data of a part. Data for an alias's target, which the alias's servers sent, is
    /// cached only if it is secure, or if it comes from forwarders and nothing is validated.
    pub(crate) fn keep(&self, part: &Part, qtype: Rtype) {
        let Some(zone) = part.zone.as_ref().filter(|_| qtype != Rtype::ANY) else { return };
        let is_believed = self.validation().is_none() && self.is_forwarded(zone);
        let is_kept = |security: Security| security == Security::Secure || is_believed;
        let mut is_behind_alias = false;
        let rank = if part.is_authoritative {
            Rank::AuthoritativeAnswer
        } else {
            Rank::NonAuthoritativeAnswer
        };
        let mut how = Stored { side: Side::Zone, rank, with_do: true };
        for set in &part.sets {
            if is_behind_alias && !is_kept(set.security) {
                return;
            }
            if set.rtype == Rtype::DNAME && set.ttl_secs == 0 {
                let brief = Rrset { ttl_secs: TRANSACTION_SECS, ..set.clone() };
                self.io.note(Note::Store(brief, Stored { side: Side::Delegation, ..how }));
            }
            // A CNAME that a DNAME implies is not cached, because it can be synthesized again. An
            // alias in place of DS records comes from the parent zone, but the zone at this name
            // may have its own rule or anchor.
            let is_parents_alias = qtype == Rtype::DS && set.rtype == Rtype::CNAME;
            let is_of_zone = !set.synthesised && !is_parents_alias;
            if is_of_zone && !set.rtype.is_meta() && !set.rtype.is_dnssec_proof() {
                self.io.note(Note::Store(set.clone(), how));
            }
            if set.rtype == Rtype::CNAME {
                // The AA flag applies only to the first name in the answer (RFC 2181 §5.4.1).
                how.rank = Rank::NonAuthoritativeAnswer;
                is_behind_alias = true;
            }
        }
        if let Ending::Denied(owner, denial) = &part.ending
            && denial.soa.is_some()
            && (!is_behind_alias || is_kept(denial.security))
            && !self.denies_own_zone(owner, qtype, denial.rcode)
        {
            let (owner, denial) = (owner.clone(), denial.clone());
            self.io.note(Note::StoreDenial { owner, rtype: qtype, denial, how });
        }
    }

    /// Returns whether this is the denial of a configured zone's apex by the parent, in a response
    /// for DS records. If it were cached, it would deny all names of the zone (S23 in
    /// tests/SECURITY.md).
    fn denies_own_zone(&self, owner: &Name, qtype: Rtype, rcode: Rcode) -> bool {
        qtype == Rtype::DS
            && rcode == Rcode::NXDOMAIN
            && self.plan.boundary_len(owner.view()) == owner.len()
    }
}
