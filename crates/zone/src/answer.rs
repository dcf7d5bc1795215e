//! Authoritative answers (RFC 1034 §4.3.2), written as messages with the question at offset 12, ID
//! zero and no OPT record.
//!
//! Answers are minimal: no NS records in the authority section, additional records only for the
//! hosts that NS, MX and SRV records name. ANY gets one RRset (RFC 8482 §4.1). No function of this
//! module allocates.

use avocet_wire::builder::{Builder, Full, Record, Section};
use avocet_wire::header::{AA, QR, RA};
use avocet_wire::rdata::compressible_names;
use avocet_wire::{Class, FoldedName, FoldedNameBuf, NameBuf, Rcode, Rtype, name};

use crate::check::target_of;
use crate::denial::{Denied, MAX_PROOF};
use crate::find::NameMatch;
use crate::set::HostedZones;
use crate::tree::{Flags, HostedRecords, HostedSet, HostedZone, Node};

/// Maximum number of CNAME and DNAME records that are followed for one question.
const MAX_HOSTED_ALIASES: usize = 16;
/// Maximum number of aliases from wildcards that are followed for one question in signed zones.
/// Each must be remembered until its proof is written to the authority section.
const MAX_EXPANSIONS: usize = 8;
/// Maximum number of remembered names whose proof is in the authority section: those for all
/// aliases from wildcards, and those for the name at the end of the aliases.
const MAX_PROVEN: usize = MAX_EXPANSIONS + MAX_PROOF;
/// Maximum number of hosts with addresses in the additional section.
const MAX_HOSTS: usize = 32;

/// A question to the hosted zones.
#[derive(Clone, Copy)]
pub struct HostedQuestion<'q> {
    /// The name that is asked for (QNAME).
    pub qname: FoldedName<'q>,
    /// The type that is asked for (QTYPE).
    pub qtype: Rtype,
    /// Whether the client wants signatures and proofs of denial (the DO bit).
    pub proofs: Proofs,
    /// Maximum number of octets of the message, not counting the OPT record.
    pub limit: usize,
}

/// Whether signatures and proofs of denial are part of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proofs {
    /// The answer contains signatures and proofs.
    Included,
    /// The answer contains neither signatures nor proofs.
    Omitted,
}

/// An answer that was written to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostedAnswer {
    /// Number of octets of the message.
    pub len: usize,
    /// The response code.
    pub rcode: Rcode,
    /// The result of the look-up, which may need further steps.
    pub end: HostedEnd,
}

/// The result of a look-up in hosted zones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostedEnd {
    /// The answer is complete.
    Complete,
    /// The name is at or below a delegation to another zone that is not hosted here.
    Referral,
    /// The zone of the name is configured, but could not be loaded.
    NotLoaded,
    /// The aliases in the answer lead to a name that is not hosted, or that is delegated.
    Alias,
    /// The answer section ends with an ALIAS record, which must not reach the client: the caller
    /// replaces it with the addresses of its target.
    Flattened,
}

/// The error that a message is too small for the remaining records.
struct Cut;

impl From<Full> for Cut {
    fn from(Full: Full) -> Self {
        Self
    }
}

/// A function that decides whether an answer may contain the addresses of a host. Its arguments are
/// the host and the type of address.
pub type ShownHost<'s> = dyn Fn(FoldedName<'_>, Rtype) -> bool + 's;

/// A function that decides whether the caller answers for a name to which an alias leads.
pub type AnsweredElsewhere<'s> = dyn Fn(FoldedName<'_>) -> bool + 's;

/// The conditions of an answer, in addition to the zones and the question.
#[derive(Clone, Copy, Default)]
pub struct AnswerTerms<'s> {
    /// A filter for addresses in the additional section; `None` accepts all. Glue of a referral is
    /// always included.
    pub shown: Option<&'s ShownHost<'s>>,
    /// Selects the targets of aliases that the caller answers, so that a chain of aliases ends
    /// there with [`HostedEnd::Alias`], even if a zone contains the target. The answer has the
    /// proofs for these aliases. `None` selects no target.
    pub elsewhere: Option<&'s AnsweredElsewhere<'s>>,
}

/// Answers a question, or returns `None` if no hosted zone contains its name. An answer of more
/// than `limit` octets is truncated.
#[must_use]
pub fn answer(
    zones: &HostedZones,
    question: &HostedQuestion<'_>,
    out: &mut [u8],
) -> Option<HostedAnswer> {
    answer_with(zones, question, AnswerTerms::default(), out)
}

/// Answers a question like [`answer`], on these terms.
#[must_use]
pub fn answer_with(
    zones: &HostedZones,
    question: &HostedQuestion<'_>,
    terms: AnswerTerms<'_>,
    out: &mut [u8],
) -> Option<HostedAnswer> {
    let zone = zones.zone_of(question.qname, question.qtype)?;
    let limit = question.limit;
    let mut builder = Builder::new(&mut *out, limit, 0, QR | RA).ok()?;
    builder.question(question.qname.wire(), question.qtype, Class::IN).ok()?;
    let mut writing = Writing {
        zones,
        qtype: question.qtype,
        proofs: question.proofs,
        terms,
        builder,
        rcode: Rcode::NOERROR,
        end: HostedEnd::Complete,
        aliases: 0,
        signed_aliases: 0,
        expansions: [const { None }; MAX_EXPANSIONS],
        expanded: 0,
        proven: [0; MAX_PROVEN],
        proven_count: 0,
    };
    match zone {
        Some(zone) => {
            if writing.follow(zone, question.qname).is_err() {
                writing.builder.truncate();
            }
        }
        None => (writing.rcode, writing.end) = (Rcode::SERVFAIL, HostedEnd::NotLoaded),
    }
    let Writing { builder, rcode, end, .. } = writing;
    let len = builder.finish();
    if !matches!(end, HostedEnd::Referral | HostedEnd::NotLoaded) {
        out[2] |= (AA >> 8) as u8;
    }
    out[3] |= rcode.low() as u8;
    Some(HostedAnswer { len, rcode, end })
}

/// The state of an answer while it is written.
struct Writing<'a, 'z> {
    zones: &'z HostedZones,
    qtype: Rtype,
    proofs: Proofs,
    terms: AnswerTerms<'a>,
    builder: Builder<'a>,
    rcode: Rcode,
    end: HostedEnd,
    aliases: usize,
    /// The number of aliases from signed zones.
    signed_aliases: usize,
    /// The aliases from wildcards whose proofs are not written yet. Their number is `expanded`.
    expansions: [Option<Expansion<'z>>; MAX_EXPANSIONS],
    expanded: usize,
    /// The offsets of the nodes whose NSEC or NSEC3 records are already written.
    proven: [usize; MAX_PROVEN],
    proven_count: usize,
}

/// A name for which a wildcard provided the records (RFC 4035 §3.1.3.3).
struct Expansion<'z> {
    zone: &'z HostedZone,
    name: FoldedNameBuf,
    closest: Node<'z>,
}

impl<'z> Writing<'_, 'z> {
    /// Writes the answer for a name; CNAME and DNAME records are followed.
    fn follow(&mut self, first: &'z HostedZone, qname: FoldedName<'_>) -> Result<(), Cut> {
        // The hashes of the names with an alias in the answer: an alias that leads to one of them
        // ends the chain. If two names have the same hash, the chain ends too early, and the client
        // continues it.
        let mark =
            |name: &FoldedNameBuf| avocet_wire::hash::without_secret(name.view().wire()) as u32;
        let mut zone = first;
        let mut name = qname.to_buf();
        let mut seen = [0_u32; MAX_HOSTED_ALIASES];
        seen[0] = mark(&name);
        loop {
            let Some(found) = zone.find(name.view(), self.qtype) else { return Ok(()) };
            let target = match found {
                NameMatch::Exact(node) => self.at_name(zone, name.view(), node, None)?,
                NameMatch::Wildcard { node, closest } => {
                    self.at_name(zone, name.view(), node, Some(closest))?
                }
                NameMatch::Dname(node) => self.dname(name.view(), node)?,
                NameMatch::Cut(cut) => return self.referral(zone, cut),
                NameMatch::Nothing { closest } => {
                    return self.nothing(zone, name.view(), closest);
                }
            };
            let Some(target) = target else { return self.prove_expansions() };
            self.aliases += 1;
            self.signed_aliases += usize::from(zone.is_signed());
            let next = mark(&target);
            if self.aliases >= MAX_HOSTED_ALIASES || seen[..self.aliases].contains(&next) {
                return self.prove_expansions();
            }
            seen[self.aliases] = next;
            name = target;
            let is_elsewhere = self.terms.elsewhere.is_some_and(|is_other| is_other(name.view()));
            let is_here = !is_elsewhere && !self.zones.is_for_other_parent(name.view(), self.qtype);
            match self.zones.zone_of(name.view(), self.qtype) {
                Some(Some(next)) if is_here => zone = next,
                _ => {
                    self.end = HostedEnd::Alias;
                    return self.prove_expansions();
                }
            }
        }
    }

    /// Writes the answer from a node, or returns the target of its alias. `closest` is the closest
    /// encloser if the node is a wildcard.
    fn at_name(
        &mut self,
        zone: &'z HostedZone,
        name: FoldedName<'_>,
        node: Node<'z>,
        closest: Option<Node<'z>>,
    ) -> Result<Option<FoldedNameBuf>, Cut> {
        let of_type = match self.qtype {
            Rtype::ANY => first_set(node),
            Rtype::RRSIG => {
                return self.all_signatures(zone, name, node, closest).map(|()| None);
            }
            Rtype::ALIAS => None,
            qtype => node.set(qtype),
        };
        let set = match of_type {
            Some(set) => set,
            None => match node.set(Rtype::CNAME) {
                Some(alias) => alias,
                None if self.is_made(node) => return self.made(zone, name, (node, closest)),
                None => return self.no_data(zone, name, closest).map(|()| None),
            },
        };
        self.set(Section::Answer, name, &set)?;
        let room = closest.is_none_or(|closest| self.expand(zone, name, closest));
        if set.rtype == Rtype::CNAME && !matches!(self.qtype, Rtype::CNAME | Rtype::ANY) && room {
            let target = set.iter().next().and_then(|alias| NameBuf::from_wire(alias.rdata).ok());
            return Ok(target.map(|target| target.folded()));
        }
        self.prove_expansions()?;
        self.addresses_of(&set);
        Ok(None)
    }

    /// Reports whether the question is for addresses that the server determines separately for each
    /// answer: those of the target of an ALIAS record, or of a pool.
    fn is_made(&self, node: Node<'_>) -> bool {
        matches!(self.qtype, Rtype::A | Rtype::AAAA)
            && (node.flags().has(Flags::MADE) || node.set(Rtype::ALIAS).is_some())
    }

    /// Writes the ALIAS record of a name, which the caller later replaces with addresses. If an
    /// alias in a signed answer leads to this name, the client must ask for it separately: the
    /// caller can neither sign the aliases nor keep their signatures.
    #[cold]
    fn made(
        &mut self,
        zone: &'z HostedZone,
        name: FoldedName<'_>,
        (node, closest): (Node<'z>, Option<Node<'z>>),
    ) -> Result<Option<FoldedNameBuf>, Cut> {
        let is_signed = self.signed_aliases > 0 || (self.aliases > 0 && zone.is_signed());
        if is_signed && self.proofs == Proofs::Included {
            self.end = HostedEnd::Alias;
            return Ok(None);
        }
        let Some(set) = node.set(Rtype::ALIAS) else {
            return self.no_data(zone, name, closest).map(|()| None);
        };
        self.records(Section::Answer, name, set.iter())?;
        self.end = HostedEnd::Flattened;
        Ok(None)
    }

    /// Remembers a name for which a wildcard provided the records. Its proof is written after the
    /// answer section, to which an alias may still add records. Reports whether another name can be
    /// remembered.
    fn expand(&mut self, zone: &'z HostedZone, name: FoldedName<'_>, closest: Node<'z>) -> bool {
        if self.proofs == Proofs::Omitted || !zone.is_signed() {
            return true;
        }
        if let Some(place) = self.expansions.get_mut(self.expanded) {
            *place = Some(Expansion { zone, name: name.to_buf(), closest });
            self.expanded += 1;
        }
        self.expanded < MAX_EXPANSIONS
    }

    /// Writes the proofs for all names for which a wildcard provided the records.
    fn prove_expansions(&mut self) -> Result<(), Cut> {
        for at in 0..std::mem::take(&mut self.expanded) {
            let Some(Expansion { zone, name, closest }) = self.expansions[at].take() else {
                continue;
            };
            self.proof(zone, name.view(), Denied::Expanded(closest.name()))?;
        }
        Ok(())
    }

    /// Writes the DNAME record of an ancestor, and the CNAME record that follows from it (RFC 6672
    /// §3.1). ANY is followed, like the types that the target may have: the redirection is of the
    /// whole name (§3.2). A CNAME record at the name itself is not: it matches ANY (RFC 1034
    /// §4.3.2).
    fn dname(
        &mut self,
        name: FoldedName<'_>,
        node: Node<'z>,
    ) -> Result<Option<FoldedNameBuf>, Cut> {
        let Some(set) = node.set(Rtype::DNAME) else { return Ok(None) };
        let Some(dname) = set.iter().next() else { return Ok(None) };
        self.set(Section::Answer, node.name(), &set)?;
        let own_len = name.len() - node.name().len();
        let mut target = [0; name::MAX_NAME];
        let len = own_len + dname.rdata.len();
        let Some(place) = target.get_mut(..len) else {
            self.rcode = Rcode::YXDOMAIN;
            return Ok(None);
        };
        place[..own_len].copy_from_slice(&name.wire()[..own_len]);
        place[own_len..].copy_from_slice(dname.rdata);
        let alias = Record {
            owner: name.wire(),
            rtype: Rtype::CNAME,
            class: Class::IN,
            ttl_secs: dname.ttl_secs,
            rdata: place,
        };
        self.builder.record(Section::Answer, &alias)?;
        if self.qtype == Rtype::CNAME {
            return Ok(None);
        }
        Ok(NameBuf::from_wire(place).ok().map(|target| target.folded()))
    }

    /// Writes a referral: NS records, glue, and DS records or the proof that there are none.
    fn referral(&mut self, zone: &'z HostedZone, cut: Node<'z>) -> Result<(), Cut> {
        self.end = if self.aliases > 0 { HostedEnd::Alias } else { HostedEnd::Referral };
        let Some(servers) = cut.set(Rtype::NS) else { return Ok(()) };
        // The NS records of a delegation are not signed.
        self.records(Section::Authority, cut.name(), servers.iter())?;
        if self.proofs == Proofs::Included && zone.is_signed() {
            match cut.set(Rtype::DS) {
                Some(ds) => self.set(Section::Authority, cut.name(), &ds)?,
                None => self.proof(zone, cut.name(), Denied::Type)?,
            }
        }
        self.prove_expansions()?;
        // Name servers below the delegation cannot be reached without glue (RFC 9471).
        for is_needed in [true, false] {
            for server in servers.iter() {
                let Ok(host) = NameBuf::from_wire(server.rdata) else { continue };
                let host = host.folded();
                if host.view().is_at_or_below(cut.name()) != is_needed {
                    continue;
                }
                let written = self.glue(zone, host.view());
                if is_needed {
                    written?;
                }
            }
        }
        Ok(())
    }

    fn glue(&mut self, zone: &'z HostedZone, host: FoldedName<'_>) -> Result<(), Cut> {
        let Some(node) = zone.node(host.wire()) else { return Ok(()) };
        for rtype in [Rtype::A, Rtype::AAAA] {
            if let Some(set) = node.set(rtype) {
                self.set(Section::Additional, host, &set)?;
            }
        }
        Ok(())
    }

    fn nothing(
        &mut self,
        zone: &'z HostedZone,
        name: FoldedName<'_>,
        closest: Node<'z>,
    ) -> Result<(), Cut> {
        self.rcode = Rcode::NXDOMAIN;
        self.negative(zone)?;
        self.proof(zone, name, Denied::Name(closest.name()))
    }

    fn no_data(
        &mut self,
        zone: &'z HostedZone,
        name: FoldedName<'_>,
        closest: Option<Node<'z>>,
    ) -> Result<(), Cut> {
        self.negative(zone)?;
        match closest {
            Some(closest) => self.proof(zone, name, Denied::WildcardType(closest.name())),
            None => self.proof(zone, name, Denied::Type),
        }
    }

    /// Writes the SOA record of a negative answer. The TTL is at most the minimum of the SOA record
    /// (RFC 2308 §3).
    fn negative(&mut self, zone: &'z HostedZone) -> Result<(), Cut> {
        let apex = zone.apex();
        let Some(soa) = zone.node(apex.wire()).and_then(|node| node.set(Rtype::SOA)) else {
            return Ok(());
        };
        let minimum = soa.iter().next().and_then(|soa| soa.rdata.last_chunk().copied());
        let most = minimum.map_or(0, u32::from_be_bytes);
        let signatures = match self.proofs {
            Proofs::Included => soa.signatures(),
            Proofs::Omitted => HostedRecords::default(),
        };
        for record in soa.iter().chain(signatures) {
            let ttl_secs = record.ttl_secs.min(most);
            let (rtype, rdata) = (record.rtype, record.rdata);
            let record = Record { owner: apex.wire(), rtype, class: Class::IN, ttl_secs, rdata };
            self.builder.record(Section::Authority, &record)?;
        }
        self.prove_expansions()
    }

    fn proof(
        &mut self,
        zone: &'z HostedZone,
        name: FoldedName<'_>,
        denied: Denied<'_>,
    ) -> Result<(), Cut> {
        if self.proofs == Proofs::Omitted || !zone.is_signed() {
            return Ok(());
        }
        let proof = zone.proof(name, denied);
        for node in proof.nodes() {
            let at = node.address();
            if self.proven[..self.proven_count].contains(&at) {
                continue;
            }
            if let Some(place) = self.proven.get_mut(self.proven_count) {
                (*place, self.proven_count) = (at, self.proven_count + 1);
            }
            if let Some(set) = node.set(proof.rtype) {
                self.set(Section::Authority, node.name(), &set)?;
            }
        }
        Ok(())
    }

    /// Answers a question for RRSIG records: writes the signatures of all RRsets of a node, and the
    /// proof if the node is a wildcard.
    fn all_signatures(
        &mut self,
        zone: &'z HostedZone,
        name: FoldedName<'_>,
        node: Node<'z>,
        closest: Option<Node<'z>>,
    ) -> Result<(), Cut> {
        let mut is_signed = false;
        for set in node.sets().filter(|set| set.signature_count > 0) {
            is_signed = true;
            self.records(Section::Answer, name, set.signatures())?;
        }
        if !is_signed {
            return self.no_data(zone, name, closest);
        }
        if let Some(closest) = closest {
            self.expand(zone, name, closest);
        }
        self.prove_expansions()
    }

    /// Adds the addresses of the hosts that the records of a set name, if there is room.
    fn addresses_of(&mut self, set: &HostedSet<'z>) {
        if !matches!(set.rtype, Rtype::NS | Rtype::MX | Rtype(33)) {
            return;
        }
        let (mut written, mut count) = ([0_usize; MAX_HOSTS], 0);
        for record in set.iter() {
            let host = target_of(record.rtype, record.rdata).map(NameBuf::from_wire);
            let Some(Ok(host)) = host else { continue };
            let host = host.folded();
            let zone = self.zones.zone_of(host.view(), Rtype::A).flatten();
            let Some(node) = zone.and_then(|zone| zone.node(host.wire())) else { continue };
            let at = node.address();
            if written[..count].contains(&at) || count >= MAX_HOSTS {
                continue;
            }
            (written[count], count) = (at, count + 1);
            for rtype in [Rtype::A, Rtype::AAAA] {
                if let Some(set) = node.set(rtype)
                    && self.terms.shown.is_none_or(|shown| shown(host.view(), rtype))
                {
                    let _ = self.set(Section::Additional, host.view(), &set);
                }
            }
        }
    }

    /// Writes an RRset and, if wanted, its signatures. If there is no room for both, writes
    /// neither.
    #[inline]
    fn set(
        &mut self,
        section: Section,
        owner: FoldedName<'_>,
        set: &HostedSet<'_>,
    ) -> Result<(), Cut> {
        let mark = self.builder.mark();
        let written = self.all_of(section, owner, set);
        if written.is_err() {
            self.builder.rewind(mark);
        }
        written
    }

    fn all_of(
        &mut self,
        section: Section,
        owner: FoldedName<'_>,
        set: &HostedSet<'_>,
    ) -> Result<(), Cut> {
        let is_plain = compressible_names(set.rtype.0).names == 0;
        if !is_plain
            || !self.builder.copy_of_first(section, owner.wire(), (set.records, set.count))?
        {
            self.records(section, owner, set.iter())?;
        }
        if self.proofs == Proofs::Included && set.signature_count > 0 {
            let signatures = (set.signatures, set.signature_count);
            if !self.builder.copy_of_first(section, owner.wire(), signatures)? {
                self.records(section, owner, set.signatures())?;
            }
        }
        Ok(())
    }

    fn records(
        &mut self,
        section: Section,
        owner: FoldedName<'_>,
        records: HostedRecords<'_>,
    ) -> Result<(), Cut> {
        let owner = owner.wire();
        let records = records.map(|record| Record {
            owner,
            rtype: record.rtype,
            class: Class::IN,
            ttl_secs: record.ttl_secs,
            rdata: record.rdata,
        });
        Ok(self.builder.rrset(section, records)?)
    }
}

/// Returns the RRset that answers a question for ANY: the first one that is not a proof of denial.
fn first_set(node: Node<'_>) -> Option<HostedSet<'_>> {
    let mut sets = node.sets().filter(|set| set.count > 0 && set.rtype != Rtype::ALIAS);
    let first = sets.next()?;
    if first.rtype != Rtype::NSEC {
        return Some(first);
    }
    Some(sets.next().unwrap_or(first))
}
