//! The part of an answer that comes from one reply or from the cache: aliases that begin at a name,
//! and the data or the denial at the end of the aliases.

use avocet_cache::Security;
use avocet_wire::view::RecordSection;
use avocet_wire::{FoldedName, FoldedNameBuf, Rcode, Rtype, Section};

use super::Walker;
use super::fetch::{Fetched, Inquiry};
use super::rrset::{
    Denial, MAX_PROOF, MAX_PROOF_RECORDS, MAX_SIGNATURES, Most, Name, Rrset, Ungrouped, group,
};
use crate::answer::Gathered;
use crate::configured::Configured;
use crate::exchange::endpoint::Endpoint;
use crate::failure::Failure;
use crate::numbering::{Numbered, Numbering};
use crate::read::{Reply, ReplyRecord, folded_target};
use crate::scrub::{Asked, Belief, Scrubber, Verdict};
use avocet_dnssec::budget::MAX_RRSET_RECORDS;

/// A part of an answer, from one reply or from the cache.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The aliases in order, followed by the queried RRset.
    pub(crate) sets: Vec<Rrset>,
    pub(crate) ending: Ending,
    /// The NSEC and NSEC3 RRsets of the reply.
    pub(crate) proof: Vec<Rrset>,
    /// The RRsets of the authority and additional sections. They are only needed for responses that
    /// are not minimal.
    pub(crate) beside: Vec<(Section, Rrset)>,
    /// The zone that the reply comes from; `None` for the cache.
    pub(crate) zone: Option<Name>,
    pub(crate) is_authoritative: bool,
    /// The server that sent the reply; `None` for the cache.
    pub(crate) server: Option<Endpoint>,
}

impl Part {
    /// Creates a part from the cache that has no records yet.
    pub(crate) fn of_cache(ending: Ending) -> Self {
        Self {
            sets: Vec::new(),
            ending,
            proof: Vec::new(),
            beside: Vec::new(),
            zone: None,
            is_authoritative: false,
            server: None,
        }
    }

    /// Returns whether the first RRset is an alias.
    pub(crate) fn is_alias(&self) -> bool {
        self.sets.first().is_some_and(|set| set.rtype == Rtype::CNAME)
    }

    /// Removes everything after the first alias, if there is an alias.
    pub(crate) fn ends_with_alias(&mut self) {
        if let Some(alias) = self.sets.iter().position(|set| set.rtype == Rtype::CNAME) {
            self.ends_before(alias + 1);
        }
    }

    /// If the RRset before this index is an alias, removes the RRsets from this index on, and
    /// returns `true`.
    pub(crate) fn ends_before(&mut self, at: usize) -> bool {
        let alias = at.checked_sub(1).and_then(|before| self.sets.get(before));
        let alias =
            alias.filter(|set| set.rtype == Rtype::CNAME).and_then(|set| set.records.first());
        let Some(target) = alias.and_then(folded_target) else { return false };
        self.sets.truncate(at);
        self.ending = Ending::GoesOn(target.view().into());
        true
    }

    /// Returns whether the part denies an ancestor of this name, and not the name itself.
    pub(crate) fn denies_above(&self, name: FoldedName<'_>) -> bool {
        match &self.ending {
            Ending::Denied(owner, _) => owner.len() < name.len() && self.sets.is_empty(),
            _ => false,
        }
    }

    /// Returns whether the part has any signatures.
    pub(crate) fn has_signatures(&self) -> bool {
        let denial = match &self.ending {
            Ending::Denied(_, denial) => Some(denial),
            _ => None,
        };
        let denied = denial.into_iter().flat_map(|denial| denial.soa.iter().chain(&denial.proof));
        self.sets.iter().chain(&self.proof).chain(denied).any(|set| !set.signatures.is_empty())
    }

    /// Removes the denial of the last alias's target if an authoritative server gave the denial
    /// without signatures. Some servers add their SOA record to each alias, even if the target
    /// exists or belongs to a zone below. The target is then queried, as other resolvers do.
    fn keep_denial_if_believed(&mut self, belief: &Belief) {
        let Ending::Denied(_, denial) = &self.ending else { return };
        let is_signed = denial.proof.iter().any(|set| !set.signatures.is_empty());
        if !is_signed && !matches!(belief, Belief::Rule(_)) {
            self.ends_before(self.sets.len());
        }
    }

    /// Returns whether the part has no data and no proof.
    pub(crate) fn is_empty(&self) -> bool {
        let says_nothing = |denial: &Denial| {
            denial.rcode == Rcode::NOERROR && denial.soa.is_none() && denial.proof.is_empty()
        };
        self.sets.is_empty()
            && matches!(&self.ending, Ending::Denied(_, denial) if says_nothing(denial))
    }
}

/// The end of a chain of aliases.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    Answered,
    Denied(Name, Denial),
    /// The target of the last alias must be resolved next.
    GoesOn(Name),
}

impl Walker {
    /// Extracts the data of a reply that is within bailiwick.
    ///
    /// # Errors
    ///
    /// The reply is unusable. The failure is the reason.
    pub(crate) fn part_of(&self, inquiry: &Inquiry, fetched: &Fetched) -> Result<Part, Failure> {
        let belief = match self.plan.configured(inquiry.qname.view()) {
            Some(Configured::Forward(route)) if inquiry.manner.recursion_desired => {
                Belief::Rule(route)
            }
            _ if inquiry.manner.is_signed && self.checking_disabled => {
                Belief::Name(inquiry.zone.len() as u8)
            }
            _ => Belief::Zone(inquiry.zone.len() as u8),
        };
        let (plan, qname, qtype) = (&*self.plan, inquiry.qname.view(), inquiry.qtype);
        let asked = Asked { plan, belief, qname, qtype, dnssec_ok: inquiry.manner.dnssec_ok };
        let (records, octets) = fetched.reply.size();
        let mut gathered = Gathered::with_capacity(records, octets);
        let mut end = FoldedNameBuf::ROOT;
        let mut scrubber = Scrubber::new(asked, &fetched.reply, &mut gathered, &mut end);
        let verdict = scrubber.scrub(fetched.rcode);
        let rcode = match verdict {
            Verdict::Answer { rcode, .. } => Some(rcode),
            // The caller detects loops of aliases.
            Verdict::GoOn | Verdict::Loop => None,
            Verdict::Unusable => return Err(Failure::Unusable),
            Verdict::TooLarge => return Err(Failure::TooManyRecords),
        };
        let signatures = Signatures::of(&fetched.reply);
        let mut sets = sets_of(&gathered, Section::Answer);
        if qtype == Rtype::RRSIG {
            sets = signatures_at(qname, &fetched.reply);
        }
        if qtype == Rtype::DS && sets.is_empty() {
            sets = delegated_ds(qname, &fetched.reply);
        }
        if qtype == Rtype::ANY {
            sets.truncate(MAX_ANY_SETS);
        }
        signatures.give_to(&mut sets);
        let mut part = Part {
            sets,
            ending: Ending::GoesOn(end.view().into()),
            proof: proof_in(&fetched.reply),
            beside: beside_in(&gathered, &signatures),
            zone: Some(inquiry.zone.clone()),
            is_authoritative: fetched.is_authoritative(),
            server: Some(fetched.server),
        };
        match rcode {
            None => {}
            Some(Rcode::NOERROR)
                if part.sets.iter().any(|set| qtype == Rtype::ANY || set.rtype == qtype) =>
            {
                part.ending = Ending::Answered
            }
            Some(rcode) => {
                let mut soa = soa_in(&gathered);
                signatures.give_to(&mut soa);
                // The proof may also be needed for an alias that is a wildcard expansion.
                let proof = if part.sets.is_empty() {
                    std::mem::take(&mut part.proof)
                } else {
                    part.proof.clone()
                };
                let soa = soa.pop();
                let denial =
                    Denial { rcode, soa, proof, security: Security::Unchecked, unsupported: None };
                part.ending = Ending::Denied(end.view().into(), denial);
                part.keep_denial_if_believed(&belief);
            }
        }
        Ok(part)
    }
}

/// Returns the RRsets outside of the answer section. There are none if responses are minimal,
/// because the scrubber has removed them.
fn beside_in(gathered: &Gathered, signatures: &Signatures<'_>) -> Vec<(Section, Rrset)> {
    let is_proof = |rtype| matches!(rtype, Rtype::SOA | Rtype::NSEC | Rtype::NSEC3);
    let sets = |section| {
        let mut sets = sets_of(gathered, section);
        sets.retain(|set| !is_proof(set.rtype));
        signatures.give_to(&mut sets);
        sets.into_iter().map(move |set| (section, set))
    };
    sets(Section::Authority).chain(sets(Section::Additional)).collect()
}

/// Maximum number of RRsets of an answer to ANY. Each of them is validated, and some of them are a
/// valid answer (RFC 8482 §4.1).
const MAX_ANY_SETS: usize = 24;
/// Maximum number of RRsets in one section. It permits 11 aliases that each have a DNAME.
const MAX_SECTION_SETS: usize = 64;

/// The RRSIG records of a reply, by the RRset that they cover. They come from all sections, because
/// some servers put signatures into another section than the RRset.
struct Signatures<'r> {
    covered: Numbering<(FoldedName<'r>, Rtype)>,
    /// For each RRset, the data of its RRSIG records.
    data: Vec<Vec<&'r [u8]>>,
}

impl<'r> Signatures<'r> {
    fn of(reply: &'r Reply) -> Self {
        let mut signatures = Self { covered: Numbering::new(), data: Vec::new() };
        for record in reply.records() {
            let Some(covered) = record.covered() else { continue };
            match signatures.covered.number((record.owner, covered)) {
                Numbered::New(_) => signatures.data.push(vec![record.rdata]),
                Numbered::Known(number) => {
                    let known = &mut signatures.data[number];
                    if known.len() < MAX_SIGNATURES {
                        known.push(record.rdata);
                    }
                }
            }
        }
        signatures
    }

    fn give_to(&self, sets: &mut [Rrset]) {
        for set in sets.iter_mut().filter(|set| !set.synthesised) {
            let number = self.covered.find((set.owner.view(), set.rtype));
            let data = number.map(|number| &self.data[number][..]).unwrap_or_default();
            set.signatures = data.iter().collect();
        }
    }
}

/// Returns the DS records next to a delegation, which are the answer to a DS query.
pub(crate) fn delegated_ds(owner: FoldedName<'_>, reply: &Reply) -> Vec<Rrset> {
    let records = reply.section(RecordSection::Authority).filter(|record| {
        let is_ds = record.rtype == Rtype::DS || record.covered() == Some(Rtype::DS);
        is_ds && record.owner == owner
    });
    group(
        records.map(|record| Ungrouped::of(&record)),
        Most { sets: 1, records: MAX_RRSET_RECORDS },
    )
}

/// Returns all RRSIG records at a name, as one RRset.
fn signatures_at(owner: FoldedName<'_>, reply: &Reply) -> Vec<Rrset> {
    let here = |record: &ReplyRecord<'_>| record.rtype == Rtype::RRSIG && record.owner == owner;
    let mut set = Rrset::empty(owner.into(), Rtype::RRSIG, u32::MAX);
    for record in reply.section(RecordSection::Answer).filter(here).take(MAX_SIGNATURES) {
        set.ttl_secs = set.ttl_secs.min(record.ttl_secs);
        set.records.push(record.rdata);
    }
    if set.records.is_empty() { Vec::new() } else { vec![set] }
}

/// Returns the first NSEC and NSEC3 RRsets of the authority section. Validation determines their
/// zone.
pub(crate) fn proof_in(reply: &Reply) -> Vec<Rrset> {
    let is_proof = |rtype| matches!(rtype, Rtype::NSEC | Rtype::NSEC3);
    let records = reply
        .section(RecordSection::Authority)
        .filter(|record| is_proof(record.rtype) || record.covered().is_some_and(is_proof));
    group(
        records.map(|record| Ungrouped::of(&record)),
        Most { sets: MAX_PROOF, records: MAX_PROOF_RECORDS },
    )
}

/// Returns the SOA RRset of a negative response.
fn soa_in(gathered: &Gathered) -> Vec<Rrset> {
    let records =
        ungrouped(gathered, Section::Authority).filter(|record| record.rtype == Rtype::SOA);
    group(records, Most { sets: 1, records: 1 })
}

fn ungrouped(gathered: &Gathered, section: Section) -> impl Iterator<Item = Ungrouped<'_>> + Clone {
    let records = gathered.iter().filter(move |(kind, ..)| kind.section == section);
    records.map(|(kind, owner, rdata)| Ungrouped {
        owner,
        rtype: kind.rtype,
        ttl_secs: kind.ttl_secs,
        rdata,
    })
}

/// Returns the RRsets of a section. A CNAME that follows a DNAME of an ancestor counts as
/// synthesized.
fn sets_of(gathered: &Gathered, section: Section) -> Vec<Rrset> {
    let most = Most { sets: MAX_SECTION_SETS, records: MAX_RRSET_RECORDS };
    let mut sets = group(ungrouped(gathered, section), most);
    for at in 1..sets.len() {
        let is_below = avocet_wire::name::is_under(&sets[at].owner, &sets[at - 1].owner);
        if sets[at].rtype == Rtype::CNAME && sets[at - 1].rtype == Rtype::DNAME && is_below {
            sets[at].synthesised = true;
        }
    }
    sets
}
