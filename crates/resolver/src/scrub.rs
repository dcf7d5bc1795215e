//! Removes everything from a reply that is not trusted.
//!
//! The remaining records are the chain of aliases (CNAME, DNAME) that begins at the QNAME, and at
//! its end the queried RRset or the proof that it does not exist. Nothing else reaches the cache.
//! The servers of a rule are trusted only for names with the same route: if an alias leads to a
//! name with another rule, the servers of that rule are queried.

use avocet_cache::TtlBounds;
use avocet_dnssec::budget::{MAX_RRSET_OCTETS, MAX_RRSET_RECORDS};
use avocet_wire::view::RecordSection;
use avocet_wire::{FoldedName, FoldedNameBuf, NameBuf, Rcode, Rtype, Section, name};

use crate::answer::{Gathered, RecordFields};
use crate::configured::Configured;
use crate::numbering::Numbering;
use crate::plan::{Plan, Route};
use crate::read::{Reply, ReplyRecord, folded_target};

/// Maximum number of aliases that are followed for one question (BIND and Unbound: 11).
pub const MAX_ALIASES: usize = 11;

/// Maximum number of additional addresses. It suffices for 13 servers with two or three addresses
/// in each family.
const MAX_EXTRAS: usize = 64;

/// The question, and the servers that were queried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) belief: Belief,
    pub(crate) qname: FoldedName<'a>,
    pub(crate) qtype: Rtype,
    /// Whether signatures and proofs are requested.
    pub(crate) dnssec_ok: bool,
}

/// The names for which the queried servers are trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Belief {
    /// The servers belong to a rule. They are trusted for names with the same route.
    Rule(Route),
    /// The servers belong to a zone at or above the QNAME. Holds the length of the zone's name in
    /// octets. The servers are trusted for the QNAME, and for names of the zone that aliases lead
    /// to. Data for such other names answers only this question, and is cached only if it is
    /// secure, because a forged reply for one name must not affect another name (S5 in
    /// tests/SECURITY.md).
    Zone(u8),
    /// The servers belong to a zone as with [`Belief::Zone`], but are trusted only for the QNAME.
    /// The zone is signed, but the answer for this client is not validated.
    Name(u8),
}

impl Belief {
    fn apex_len(self) -> usize {
        match self {
            Self::Rule(route) => usize::from(route.apex_len),
            Self::Zone(len) | Self::Name(len) => usize::from(len),
        }
    }

    /// Returns the highest name for which the servers are trusted.
    fn apex<'a>(self, asked: &Asked<'a>) -> FoldedName<'a> {
        asked.qname.ancestor_of_len(self.apex_len())
    }

    /// Returns whether the servers are a set that a rule of the policy selected. Such servers are
    /// trusted for all names.
    fn is_of_a_set(self, asked: &Asked<'_>) -> bool {
        matches!(self, Self::Rule(route) if asked.plan.leads_to_a_set(route))
    }

    fn reaches(self, asked: &Asked<'_>, name: FoldedName<'_>) -> bool {
        if asked.plan.is_own(name) && !self.is_of_a_set(asked) {
            return false;
        }
        match self {
            Self::Rule(route) => self.is_of_a_set(asked) || asked.plan.forwards(name, route),
            Self::Name(_) => false,
            // The DS records of the apex belong to the parent zone.
            Self::Zone(len) if asked.qtype == Rtype::DS && name.len() <= usize::from(len) => false,
            Self::Zone(len) => {
                let nearest = asked.plan.configured(name).map_or(0, Configured::apex_len);
                nearest <= len && name::is_under(&name, &self.apex(asked))
            }
        }
    }
}

/// The result of scrubbing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The reply has an answer. A negative answer without an SOA record must not be cached (RFC
    /// 2308 §5).
    Answer { rcode: Rcode, cacheable: bool },
    /// The reply has aliases. They lead to a name that must be resolved next.
    GoOn,
    /// The reply is a referral or contradicts itself, or it has too many aliases.
    Unusable,
    /// The reply has an RRset with more records than are accepted.
    TooLarge,
    /// The aliases form a loop.
    Loop,
}

/// Limits the TTL of a positive answer to these bounds.
pub(crate) fn clamp(bounds: &TtlBounds, ttl_secs: u32) -> u32 {
    ttl_secs.max(bounds.min).min(bounds.max)
}

/// A reader of replies that copies the trusted records into an answer.
pub(crate) struct Scrubber<'a> {
    asked: Asked<'a>,
    reply: &'a Reply,
    out: &'a mut Gathered,
    /// The current end of the chain of aliases, in a buffer of the caller.
    end: &'a mut FoldedNameBuf,
}

impl<'a> Scrubber<'a> {
    /// Creates a reader for this reply.
    pub(crate) fn new(
        asked: Asked<'a>,
        reply: &'a Reply,
        out: &'a mut Gathered,
        end: &'a mut FoldedNameBuf,
    ) -> Self {
        out.clear();
        end.set(asked.qname);
        Self { asked, reply, out, end }
    }

    /// Collects the trusted records. `rcode` is NOERROR or NXDOMAIN.
    pub(crate) fn scrub(&mut self, rcode: Rcode) -> Verdict {
        if self.reply.is_overfull {
            return Verdict::TooLarge;
        }
        self.follow(rcode).unwrap_or_else(|verdict| verdict)
    }

    fn follow(&mut self, rcode: Rcode) -> Result<Verdict, Verdict> {
        for _ in 0..=MAX_ALIASES {
            // If the QTYPE is CNAME, the answer is a CNAME that is synthesized from the DNAME,
            // together with the DNAME.
            if self.asked.qtype == Rtype::CNAME
                && let Some(dname) = self.dname()
            {
                self.take_dname(dname)?;
                return self.positive(rcode);
            }
            if self.take_answer()? {
                return self.positive(rcode);
            }
            let Some(next) = self.take_alias()? else { return self.negative(rcode) };
            if next == *self.end || self.out.has_alias(next.view()) {
                return Err(Verdict::Loop);
            }
            *self.end = next;
            if !self.asked.belief.reaches(&self.asked, next.view()) {
                return Ok(Verdict::GoOn);
            }
        }
        Err(Verdict::Unusable)
    }

    /// Copies the queried RRset of the current name to the answer. Returns whether there is one.
    fn take_answer(&mut self) -> Result<bool, Verdict> {
        let qtype = self.asked.qtype;
        if qtype != Rtype::ANY {
            let Self { asked, reply, out, end } = self;
            let wanted = SetOf { to: Section::Answer, owner: end.view(), rtype: qtype };
            return match take_set(asked, reply, out, wanted)? {
                // A name has at most one alias (RFC 2181 §10.1, RFC 6672 §2.4).
                2.. if matches!(qtype, Rtype::CNAME | Rtype::DNAME) => Err(Verdict::Unusable),
                count => Ok(count > 0),
            };
        }
        let before = self.out.len();
        let Self { asked, reply, out, end } = self;
        for record in at(reply, RecordSection::Answer, end.view()) {
            if out.len() - before >= MAX_RRSET_RECORDS {
                return Err(Verdict::TooLarge);
            }
            let ttl_secs = clamp(&asked.plan.settings.ttl, record.ttl_secs);
            out.push(kind(Section::Answer, &record, ttl_secs), record.owner, record.rdata);
        }
        Ok(out.len() > before)
    }

    /// Copies the alias of the current name to the answer. Returns its target; `None` without an
    /// alias.
    fn take_alias(&mut self) -> Result<Option<FoldedNameBuf>, Verdict> {
        if let Some(dname) = self.dname() {
            return self.take_dname(dname).map(Some);
        }
        let Self { asked, reply, out, end } = self;
        match take_set(
            asked,
            reply,
            out,
            SetOf { to: Section::Answer, owner: end.view(), rtype: Rtype::CNAME },
        )? {
            0 => Ok(None),
            1 => {
                let cname = at(reply, RecordSection::Answer, end.view())
                    .find(|record| record.rtype == Rtype::CNAME);
                cname
                    .and_then(|record| folded_target(record.rdata))
                    .map(Some)
                    .ok_or(Verdict::Unusable)
            }
            _ => Err(Verdict::Unusable),
        }
    }

    /// Returns the owner of the closest DNAME above the current name.
    fn dname(&self) -> Option<FoldedNameBuf> {
        let end = self.end.wire();
        let above = self.reply.section(RecordSection::Answer).filter(|record| {
            record.rtype == Rtype::DNAME
                && (self.asked.belief.apex_len()..end.len()).contains(&record.owner.len())
                && name::is_under(end, &record.owner)
        });
        above.max_by_key(|record| record.owner.len()).map(|record| record.owner.to_buf())
    }

    /// Copies a DNAME and the CNAME synthesized from it to the answer (RFC 6672 §3.1). A CNAME in
    /// the reply must be identical.
    fn take_dname(&mut self, owner: FoldedNameBuf) -> Result<FoldedNameBuf, Verdict> {
        let Self { asked, reply, out, end } = self;
        if take_set(
            asked,
            reply,
            out,
            SetOf { to: Section::Answer, owner: owner.view(), rtype: Rtype::DNAME },
        )? != 1
        {
            return Err(Verdict::Unusable);
        }
        let dname = at(reply, RecordSection::Answer, owner.view())
            .find(|record| record.rtype == Rtype::DNAME);
        let dname = dname.ok_or(Verdict::Unusable)?;
        let target = substitute(end.wire(), owner.wire(), dname.rdata)
            .ok_or(Verdict::Answer { rcode: Rcode::YXDOMAIN, cacheable: false })?;
        let mut cnames = at(reply, RecordSection::Answer, end.view())
            .filter(|record| record.rtype == Rtype::CNAME);
        if cnames.any(|cname| folded_target(cname.rdata) != Some(target.folded())) {
            return Err(Verdict::Unusable);
        }
        let ttl_secs = clamp(&asked.plan.settings.ttl, dname.ttl_secs);
        let cname = RecordFields {
            section: Section::Answer,
            rtype: Rtype::CNAME,
            class: dname.class,
            ttl_secs,
        };
        out.push(cname, end.view(), target.wire());
        Ok(target.folded())
    }

    fn positive(&mut self, rcode: Rcode) -> Result<Verdict, Verdict> {
        // If the QTYPE is CNAME, some servers return the RCODE that belongs to the alias's target
        // (RFC 6604 §3). The alias is the answer, and it exists.
        let is_of_target = rcode == Rcode::NXDOMAIN
            && self.asked.qtype == Rtype::CNAME
            && self.out.has_alias(self.end.view());
        if rcode != Rcode::NOERROR && !is_of_target {
            return Err(Verdict::Unusable);
        }
        let rcode = Rcode::NOERROR;
        if self.asked.dnssec_ok {
            self.take_proof(self.apex());
        }
        if !self.asked.plan.settings.minimal {
            self.take_extras();
        }
        Ok(Verdict::Answer { rcode, cacheable: true })
    }

    fn negative(&mut self, rcode: Rcode) -> Result<Verdict, Verdict> {
        let apex_len = self.asked.belief.apex_len();
        let mut authority = self.reply.section(RecordSection::Authority);
        let is_target = self.end.view() != self.asked.qname;
        // DS records belong to the parent zone. If a zone begins at an alias's target, and the
        // server also serves this zone, then its denial shows nothing about DS records.
        let is_of_child = |record: &ReplyRecord<'_>| {
            is_target && self.asked.qtype == Rtype::DS && record.owner == self.end.view()
        };
        let soa = authority.clone().find(|record| {
            record.rtype == Rtype::SOA
                && record.owner.len() >= apex_len
                && name::is_under(self.end.wire(), &record.owner)
                && !is_of_child(record)
        });
        let Some(soa) = soa else {
            // Some servers send a negative response with only the zone's own NS records.
            let is_own = |record: &ReplyRecord<'_>| match self.asked.belief {
                Belief::Zone(len) | Belief::Name(len) => record.owner.len() == usize::from(len),
                Belief::Rule(_) => false,
            };
            let is_referral = authority.any(|record| record.rtype == Rtype::NS && !is_own(&record));
            return match rcode {
                Rcode::NOERROR if is_target => Ok(Verdict::GoOn),
                // The reply has no data from the zone of the alias's target, so the target must be
                // resolved.
                _ if is_target && !matches!(self.asked.belief, Belief::Rule(_)) => {
                    Ok(Verdict::GoOn)
                }
                Rcode::NOERROR if is_referral && self.asked.qtype != Rtype::DS => {
                    Err(Verdict::Unusable)
                }
                _ => Ok(Verdict::Answer { rcode, cacheable: false }),
            };
        };
        let minimum = soa.rdata.last_chunk().map_or(0, |minimum| u32::from_be_bytes(*minimum));
        let bounds = &self.asked.plan.settings.ttl;
        let minimum = if minimum > i32::MAX as u32 { 0 } else { minimum };
        let ttl_secs = bounds.negative(soa.ttl_secs.min(minimum));
        self.out.push(kind(Section::Authority, &soa, ttl_secs), soa.owner, soa.rdata);
        if self.asked.dnssec_ok {
            self.take_signatures_of_soa(&soa, ttl_secs);
            self.take_proof(soa.owner);
            self.out.cap_authority_ttl(ttl_secs);
        }
        Ok(Verdict::Answer { rcode, cacheable: ttl_secs > 0 })
    }

    fn take_signatures_of_soa(&mut self, soa: &ReplyRecord<'_>, ttl_secs: u32) {
        for record in self.reply.records() {
            if record.section == RecordSection::Authority
                && record.covered() == Some(Rtype::SOA)
                && record.owner == soa.owner
            {
                self.out.push(
                    kind(Section::Authority, &record, ttl_secs),
                    record.owner,
                    record.rdata,
                );
            }
        }
    }

    /// Copies the NSEC and NSEC3 records at or below `zone` to the answer, with their signatures.
    fn take_proof(&mut self, zone: FoldedName<'_>) {
        let is_proof = |rtype| matches!(rtype, Rtype::NSEC | Rtype::NSEC3);
        for record in self.reply.section(RecordSection::Authority) {
            if (is_proof(record.rtype) || record.covered().is_some_and(is_proof))
                && record.owner.is_at_or_below(zone)
            {
                let ttl_secs = clamp(&self.asked.plan.settings.ttl, record.ttl_secs);
                self.out.push(
                    kind(Section::Authority, &record, ttl_secs),
                    record.owner,
                    record.rdata,
                );
            }
        }
    }

    /// Copies the zone's NS records to the answer, and the addresses of the names in answer and NS
    /// records. These records are only for this client, and are never cached.
    fn take_extras(&mut self) {
        let apex = self.apex();
        let zone = self.reply.section(RecordSection::Authority).find(|record| {
            record.rtype == Rtype::NS
                && self.end.view().is_at_or_below(record.owner)
                && record.owner.is_at_or_below(apex)
        });
        if let Some(zone) = zone {
            let Self { asked, reply, out, .. } = self;
            let _ = take_set(
                asked,
                reply,
                out,
                SetOf { to: Section::Authority, owner: zone.owner, rtype: Rtype::NS },
            );
        }
        let targets = self.out.targets();
        let addresses = self.reply.section(RecordSection::Additional).filter(|record| {
            matches!(record.rtype, Rtype::A | Rtype::AAAA)
                && record.owner.is_at_or_below(apex)
                && targets.contains(record.owner.wire())
        });
        for record in addresses.take(MAX_EXTRAS) {
            let ttl_secs = clamp(&self.asked.plan.settings.ttl, record.ttl_secs);
            self.out.push(kind(Section::Additional, &record, ttl_secs), record.owner, record.rdata);
        }
    }

    /// Returns the highest name for which the servers are trusted.
    fn apex(&self) -> FoldedName<'a> {
        self.asked.belief.apex(&self.asked)
    }
}

/// An RRset that scrubbing keeps.
struct SetOf<'a> {
    /// The section of the answer into which the RRset is copied.
    to: Section,
    owner: FoldedName<'a>,
    rtype: Rtype,
}

/// Copies an RRset with its signatures to the answer. All its records get the lowest of their TTLs
/// (RFC 2181 §5.2). Returns the number of records.
fn take_set(
    asked: &Asked<'_>,
    reply: &Reply,
    out: &mut Gathered,
    wanted: SetOf<'_>,
) -> Result<usize, Verdict> {
    let SetOf { to, owner, rtype } = wanted;
    let from = if to == Section::Answer { RecordSection::Answer } else { RecordSection::Authority };
    let set = at(reply, from, owner).filter(|record| record.rtype == rtype);
    let Some(ttl_secs) = set.clone().map(|record| record.ttl_secs).min() else { return Ok(0) };
    let ttl_secs = clamp(&asked.plan.settings.ttl, ttl_secs);
    let first = out.len();
    let mut octets = 0;
    let mut seen = Numbering::new();
    for record in set {
        if !seen.is_new(record.rdata) {
            continue;
        }
        octets += record.rdata.len();
        if out.len() - first == MAX_RRSET_RECORDS || octets > MAX_RRSET_OCTETS {
            return Err(Verdict::TooLarge);
        }
        out.push(kind(to, &record, ttl_secs), record.owner, record.rdata);
    }
    let count = out.len() - first;
    if asked.dnssec_ok && rtype != Rtype::RRSIG {
        let signatures = at(reply, from, owner).filter(|record| record.covered() == Some(rtype));
        for record in signatures.take(MAX_RRSET_RECORDS) {
            out.push(kind(to, &record, ttl_secs), record.owner, record.rdata);
        }
    }
    Ok(count)
}

fn at<'r>(
    reply: &'r Reply,
    section: RecordSection,
    owner: FoldedName<'_>,
) -> impl Iterator<Item = ReplyRecord<'r>> + Clone {
    reply.section(section).filter(move |record| record.owner == owner)
}

fn kind(section: Section, record: &ReplyRecord<'_>, ttl_secs: u32) -> RecordFields {
    RecordFields { section, rtype: record.rtype, class: record.class, ttl_secs }
}

/// Returns `name` with its suffix `owner` replaced by `target`; `None` if the result is too long
/// for a name.
pub(crate) fn substitute(name: &[u8], owner: &[u8], target: &[u8]) -> Option<NameBuf> {
    let kept = name.get(..name.len().checked_sub(owner.len())?)?;
    let mut wire = [0; name::MAX_NAME];
    wire.get_mut(..kept.len())?.copy_from_slice(kept);
    wire.get_mut(kept.len()..kept.len() + target.len())?.copy_from_slice(target);
    NameBuf::from_wire(&wire[..kept.len() + target.len()]).ok()
}
