//! Assembles answers from the RRset cache, without a query.

use avocet_cache::{
    Cached, Freshness, NegativeView, Provenance, ReadAt, RrsetCache, RrsetKey, RrsetView,
    STALE_TTL_SECS, Security, Unsupported,
};
use avocet_wire::header::AD;
use avocet_wire::{Class, FoldedName, FoldedNameBuf, Question, Rcode, Rtype, Section};

use crate::answer::{self, Answers, Gathered, GatheredParts, RecordFields, Resolved};
use crate::iterate::rrset::Signed;
use crate::own::Own;
use crate::plan::Plan;
use crate::read::folded_target;
use crate::scrub::{MAX_ALIASES, substitute};

/// A question that is to be answered from the RRset cache, with the conditions on the data.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The question.
    pub question: Question<'a>,
    /// Whether signatures and proofs are requested: only data that was queried with DO can be used.
    pub dnssec_ok: bool,
    /// Whether data that an upstream may not have validated can be used.
    pub checking_disabled: bool,
    /// Whether the caller applies DNS64, so that the answer is assembled as it is cached.
    /// Otherwise, an answer that DNS64 must change counts as incomplete.
    pub translates: bool,
    /// The time of the look-up, and the permitted age of stale data.
    pub at: ReadAt,
}

/// The result of the assembly.
#[derive(Clone, Debug)]
pub enum Assembled {
    /// The complete answer.
    Complete {
        /// The complete answer.
        resolved: Resolved,
        /// Seconds since the first expired record has expired; `None` if all records are fresh.
        stale_since_secs: Option<u32>,
    },
    /// Part of the answer is not cached.
    Incomplete,
}

/// Assembles answers. An assembler owns the memory that it needs, so each thread has its own.
pub struct Assembler {
    found: Box<[u8]>,
    gathered: Gathered,
}

impl Default for Assembler {
    fn default() -> Self {
        Self {
            found: vec![0; avocet_cache::MAX_PAYLOAD_BYTES].into(),
            gathered: Gathered::default(),
        }
    }
}

/// The result of following a chain of aliases in the cache.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack for one call")]
pub(crate) enum Trail {
    /// The chain ends with data, or with a denial.
    Complete { rcode: Rcode, status: Status },
    /// The chain leads to this name, which has no cached data.
    Incomplete(FoldedNameBuf),
    /// The chain leads to a name that occurred in it before.
    Loop,
}

impl Assembler {
    /// Assembles the answer to a question if all data is cached.
    pub fn assemble(
        &mut self,
        plan: &Plan,
        cache: &RrsetCache,
        wanted: &Wanted<'_>,
        out: &mut Answers,
    ) -> Assembled {
        self.gathered.clear();
        let (qname, qtype) = (wanted.question.qname(), wanted.question.qtype());
        let validates = wanted.dnssec_ok && wanted.checking_disabled;
        let dns64 = plan.dns64().filter(|_| !validates && !wanted.translates);
        if dns64.is_some_and(|dns64| dns64.reverse(qname, qtype).is_some()) {
            return Assembled::Incomplete;
        }
        let mut gathered = std::mem::take(&mut self.gathered);
        let trail = self.follow(plan, cache, wanted, qname.to_buf(), &mut gathered);
        self.gathered = gathered;
        let Trail::Complete { rcode, status } = trail else { return Assembled::Incomplete };
        let Status { stale_since_secs, authentic, unsupported } = status;
        // DNS64 must translate the answer. This function only assembles answers, so the question
        // becomes a walk (see `iterate`).
        let is_translated = dns64.is_some_and(|dns64| {
            let addresses = self.gathered.iter().filter(|(kind, ..)| kind.rtype == qtype);
            let (mut is_empty, mut has_excluded) = (true, false);
            addresses.for_each(|(_, _, rdata): GatheredParts<'_>| {
                is_empty = false;
                has_excluded |= dns64.is_excluded(rdata);
            });
            qtype == Rtype::AAAA && rcode == Rcode::NOERROR && (is_empty || has_excluded)
        });
        let is_refused =
            authentic && !wanted.checking_disabled && plan.refuses_sentinel(wanted.question);
        if is_translated || is_refused {
            return Assembled::Incomplete;
        }
        match answer::write(
            out,
            wanted.question,
            rcode.low() | if authentic { AD } else { 0 },
            &self.gathered,
        ) {
            Some(resolved) => {
                let resolved = Resolved { ede: unsupported.map(answer::error_of), ..resolved };
                Assembled::Complete { resolved, stale_since_secs }
            }
            None => Assembled::Incomplete,
        }
    }

    /// Returns whether the cache has a DNAME that applies to the QNAME.
    pub(crate) fn has_dname_above(
        &mut self,
        plan: &Plan,
        cache: &RrsetCache,
        wanted: &Wanted<'_>,
    ) -> bool {
        let (qname, qtype) = (wanted.question.qname(), wanted.question.qtype());
        if qtype == Rtype::DS || qtype.is_meta() || qtype.is_dnssec_proof() {
            return false;
        }
        let class = wanted.question.qclass().0;
        dname_owners(plan, qname).any(|owner| {
            let key = RrsetKey { owner, rtype: Rtype::DNAME.0, class };
            let found = cache.lookup(&key, wanted.at, &mut self.found);
            matches!(found, Some(Cached::Rrset(set)) if serves(plan, wanted, &set.provenance))
        })
    }

    /// Follows aliases from `start`, and adds the data to `out`.
    pub(crate) fn follow(
        &mut self,
        plan: &Plan,
        cache: &RrsetCache,
        wanted: &Wanted<'_>,
        start: FoldedNameBuf,
        out: &mut Gathered,
    ) -> Trail {
        let status = Status { stale_since_secs: None, authentic: true, unsupported: None };
        let mut walk = Walk { plan, cache, wanted, found: &mut self.found, out, status };
        let (qtype, qclass) = (wanted.question.qtype(), wanted.question.qclass());
        if qtype.is_meta() || qtype.is_dnssec_proof() {
            return Trail::Incomplete(start);
        }
        let mut at = start;
        // The QNAME itself was looked up before this function was called.
        let mut is_behind_alias = !walk.out.is_empty();
        for _ in 0..=MAX_ALIASES {
            let own = if is_behind_alias { walk.own(&at, qtype, qclass) } else { None };
            match own.unwrap_or_else(|| walk.step(&at, qtype, qclass)) {
                ChainStep::End(rcode) => {
                    return Trail::Complete { rcode, status: walk.status };
                }
                ChainStep::Alias(next) if !walk.out.has_alias(next.view()) => {
                    (at, is_behind_alias) = (next, true)
                }
                ChainStep::Alias(_) => return Trail::Loop,
                ChainStep::Unknown => return Trail::Incomplete(at),
            }
        }
        Trail::Loop
    }
}

#[expect(clippy::large_enum_variant, reason = "lives on the stack for one call")]
enum ChainStep {
    End(Rcode),
    Alias(FoldedNameBuf),
    Unknown,
}

struct Walk<'a> {
    plan: &'a Plan,
    cache: &'a RrsetCache,
    wanted: &'a Wanted<'a>,
    found: &'a mut [u8],
    out: &'a mut Gathered,
    status: Status,
}

/// The properties that all data of an answer has in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    /// Seconds since the first expired data has expired; `None` if all data is fresh.
    pub(crate) stale_since_secs: Option<u32>,
    /// Whether all data is validated.
    pub(crate) authentic: bool,
    /// The reason why signed data is not validated.
    pub(crate) unsupported: Option<Unsupported>,
}

impl Status {
    /// Updates the status for further data with these properties.
    fn note(&mut self, provenance: &Provenance, freshness: Freshness) {
        let stale_since_secs = stale_since(freshness);
        // Expired data is not secure: its status ends with the TTL, which is limited by the
        // signature's expiry (RFC 4035 §5.3.3).
        self.authentic &= provenance.security == Security::Secure && stale_since_secs.is_none();
        self.unsupported = self.unsupported.or(provenance.unsupported);
        self.stale_since_secs = self.stale_since_secs.max(stale_since_secs);
    }
}

impl Walk<'_> {
    fn step(&mut self, at: &FoldedNameBuf, qtype: Rtype, class: Class) -> ChainStep {
        let (plan, cache, wanted) = (self.plan, self.cache, self.wanted);
        let key = |owner, rtype: Rtype| RrsetKey { owner, rtype: rtype.0, class: class.0 };
        match cache.lookup(&key(at.view(), qtype), wanted.at, self.found) {
            Some(Cached::Rrset(set)) if serves(plan, wanted, &set.provenance) => {
                self.status.note(&set.provenance, set.freshness);
                put_set(self.out, at.view(), (qtype, class), &set, wanted.dnssec_ok.into());
                return ChainStep::End(Rcode::NOERROR);
            }
            Some(Cached::Nodata(denial)) if serves(plan, wanted, &denial.provenance) => {
                self.status.note(&denial.provenance, denial.freshness);
                put_denial(self.out, class, &denial, wanted.dnssec_ok.into());
                return ChainStep::End(Rcode::NOERROR);
            }
            _ => {}
        }
        // DS records belong to the parent zone, so an alias in the child zone does not apply to
        // them.
        if qtype != Rtype::DS
            && let Some(next) = self.alias(at, class)
        {
            // If the QTYPE is CNAME, a synthesized CNAME is the answer.
            return if qtype == Rtype::CNAME {
                ChainStep::End(Rcode::NOERROR)
            } else {
                ChainStep::Alias(next)
            };
        }
        self.nxdomain(at, qtype, class)
    }

    /// Returns the data for a name that this server has itself. Such data takes precedence over the
    /// cache.
    fn own(&mut self, at: &FoldedNameBuf, qtype: Rtype, class: Class) -> Option<ChainStep> {
        let (rcode, section, set) = match self.plan.own(at.view(), qtype)? {
            Own::Set(set) => (Rcode::NOERROR, Section::Answer, set),
            Own::Denied(rcode, soa) => (rcode, Section::Authority, soa),
        };
        self.status.authentic = false;
        let is_alias =
            section == Section::Answer && set.rtype == Rtype::CNAME && qtype != Rtype::CNAME;
        let kind = RecordFields { section, rtype: set.rtype, class, ttl_secs: set.ttl_secs };
        let mut target = None;
        set.for_each(|data| {
            self.out.push(kind, set.owner, data);
            if is_alias {
                target = folded_target(data);
            }
        });
        Some(target.map_or(ChainStep::End(rcode), ChainStep::Alias))
    }

    fn alias(&mut self, at: &FoldedNameBuf, class: Class) -> Option<FoldedNameBuf> {
        let owners = std::iter::once((at.view(), Rtype::CNAME))
            .chain(dname_owners(self.plan, at.view()).map(|owner| (owner, Rtype::DNAME)));
        for (owner, rtype) in owners {
            let key = RrsetKey { owner, rtype: rtype.0, class: class.0 };
            let found = self.cache.lookup(&key, self.wanted.at, self.found);
            let Some(Cached::Rrset(set)) = found else { continue };
            if !serves(self.plan, self.wanted, &set.provenance) {
                continue;
            }
            self.status.note(&set.provenance, set.freshness);
            let target = set.records().next()?;
            let next = match rtype {
                Rtype::CNAME => folded_target(target)?.into(),
                _ => substitute(at.wire(), &owner, target)?,
            };
            // Several aliases of a chain may come from the same DNAME.
            let ttl_secs = match self.out.ttl_of(owner, rtype) {
                Some(ttl_secs) => ttl_secs,
                None => {
                    put_set(self.out, owner, (rtype, class), &set, self.wanted.dnssec_ok.into())
                }
            };
            if rtype == Rtype::DNAME {
                let cname =
                    RecordFields { section: Section::Answer, rtype: Rtype::CNAME, class, ttl_secs };
                self.out.push(cname, at.view(), next.wire());
            }
            return Some(next.folded());
        }
        None
    }

    /// Returns an NXDOMAIN of the name, or a validated one above the name (RFC 8020): some servers
    /// of unsigned zones deny names that have names below them. Ignores an NXDOMAIN above the
    /// configured zone that is queried for the name. An NXDOMAIN at the child's apex does not deny
    /// DS records, which belong to the parent.
    fn nxdomain(&mut self, at: &FoldedNameBuf, qtype: Rtype, class: Class) -> ChainStep {
        let found = self.cache.covering_nxdomain(at.view(), class.0, self.wanted.at, self.found);
        let Some((owner_len, denial)) = found else { return ChainStep::Unknown };
        let has_servers = self.plan.recursion.is_some() || self.plan.route(at.view()).is_some();
        if !has_servers
            || owner_len < self.plan.boundary_len(at.view())
            || owner_len < at.view().len() && denial.provenance.security != Security::Secure
            || !serves(self.plan, self.wanted, &denial.provenance)
            || qtype == Rtype::DS && denial.soa().is_some_and(|soa| *soa.owner == *at.wire())
        {
            return ChainStep::Unknown;
        }
        self.status.note(&denial.provenance, denial.freshness);
        put_denial(self.out, class, &denial, self.wanted.dnssec_ok.into());
        ChainStep::End(Rcode::NXDOMAIN)
    }
}

/// Returns the ancestors of a name where a DNAME would apply to the name. Ancestors above the
/// configured zone that is queried for the name are left out (S23 in tests/SECURITY.md).
fn dname_owners<'n>(
    plan: &Plan,
    name: FoldedName<'n>,
) -> impl Iterator<Item = FoldedName<'n>> + use<'n> {
    let boundary_len = plan.boundary_len(name).max(2);
    name.ancestors().skip(1).take_while(move |owner| owner.len() >= boundary_len)
}

/// Returns whether data with this provenance can be used for the client. If answers are validated,
/// the data must be validated, too, unless the client sets CD (RFC 6840 §5.9).
fn serves(plan: &Plan, wanted: &Wanted<'_>, provenance: &Provenance) -> bool {
    let validates = plan.recursion.as_ref().is_some_and(|recursion| recursion.validation.is_some());
    let is_judged = matches!(provenance.security, Security::Secure | Security::Insecure);
    (provenance.asked_with_do || !wanted.dnssec_ok)
        && (wanted.checking_disabled || !provenance.asked_with_cd && (is_judged || !validates))
}

fn stale_since(freshness: Freshness) -> Option<u32> {
    match freshness {
        Freshness::Fresh { .. } => None,
        Freshness::Stale { since_secs } => Some(since_secs),
    }
}

/// Returns the TTL of cached data for an answer. It never exceeds `original_ttl`, the TTL at
/// insertion.
fn ttl_of(freshness: Freshness, original_ttl: u32) -> u32 {
    match freshness {
        Freshness::Fresh { remaining_secs } => remaining_secs,
        Freshness::Stale { .. } => original_ttl.min(STALE_TTL_SECS),
    }
}

/// Adds an RRset to the answer section and returns its TTL.
fn put_set(
    out: &mut Gathered,
    owner: FoldedName<'_>,
    (rtype, class): (Rtype, Class),
    set: &RrsetView<'_>,
    signatures: Signed,
) -> u32 {
    let ttl_secs = ttl_of(set.freshness, set.original_ttl);
    let mut kind = RecordFields { section: Section::Answer, rtype, class, ttl_secs };
    for rdata in set.records() {
        out.push(kind, owner, rdata);
    }
    kind.rtype = Rtype::RRSIG;
    for rdata in set.signatures().filter(|_| signatures == Signed::Yes) {
        out.push(kind, owner, rdata);
    }
    ttl_secs
}

/// Adds a denial to the authority section.
fn put_denial(out: &mut Gathered, class: Class, denial: &NegativeView<'_>, signatures: Signed) {
    let kind = |rtype| RecordFields {
        section: Section::Authority,
        rtype: Rtype(rtype),
        class,
        ttl_secs: ttl_of(denial.freshness, denial.original_ttl),
    };
    if let Some(soa) = denial.soa() {
        out.push(kind(soa.rtype), soa.owner, soa.rdata);
    }
    for record in denial.proof().filter(|_| signatures == Signed::Yes) {
        out.push(kind(record.rtype), record.owner, record.rdata);
    }
}
