//! What one reply, or the cache, says of a name: the aliases from it and what they end in.

use std::net::SocketAddr;

use avocet_cache::Security;
use avocet_wire::{NameBuf, Rcode, Rtype, Section};

use super::Walker;
use super::fetch::{Fetched, Inquiry};
use super::rrset::{Denial, Name, Rrset, group};
use crate::answer::Gathered;
use crate::read::Reply;
use crate::scrub::{Asked, Belief, Scrubber, Verdict};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// Aliases in their order, and what was asked for.
    pub(crate) sets: Vec<Rrset>,
    pub(crate) ending: Ending,
    /// NSEC and NSEC3 RRsets beside a positive answer.
    pub(crate) proof: Vec<Rrset>,
    /// The zone whose servers said it; none: the cache.
    pub(crate) zone: Option<Name>,
    pub(crate) is_authoritative: bool,
    /// The server that said it; none: the cache.
    pub(crate) server: Option<SocketAddr>,
}

/// What the aliases of a part end in.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    Answered,
    Denied(Name, Denial),
    /// A name that is still to be asked for.
    GoesOn(Name),
}

/// Why a reply gives no part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoPart {
    Unusable,
    Loop,
}

impl Walker {
    /// Reads what is believed of a reply.
    pub(crate) fn part_of(&self, inquiry: &Inquiry, fetched: &Fetched) -> Result<Part, NoPart> {
        let belief = Belief::Zone(inquiry.zone.len() as u8);
        let (plan, qname, qtype) = (&*self.plan, &*inquiry.qname, inquiry.qtype);
        let asked = Asked { plan, belief, qname, qtype, dnssec_ok: inquiry.manner.dnssec_ok };
        let mut gathered = Gathered::default();
        let Some(mut scrubber) = Scrubber::new(asked, &fetched.reply, &mut gathered) else {
            return Err(NoPart::Unusable);
        };
        let verdict = scrubber.scrub(fetched.rcode);
        let end = scrubber.end;
        let rcode = match verdict {
            Verdict::Answer { rcode, .. } => Some(rcode),
            Verdict::GoOn => None,
            Verdict::Unusable => return Err(NoPart::Unusable),
            Verdict::Loop => return Err(NoPart::Loop),
        };
        let mut part = Part {
            sets: sets_of(&gathered, Section::Answer),
            ending: Ending::GoesOn(end.wire().into()),
            proof: Vec::new(),
            zone: Some(inquiry.zone.clone()),
            is_authoritative: fetched.is_authoritative(),
            server: Some(fetched.server),
        };
        let mut authority = sets_of(&gathered, Section::Authority);
        match rcode {
            None => {}
            Some(Rcode::NOERROR) if part.sets.iter().any(|set| set.rtype == qtype) => {
                part.ending = Ending::Answered;
                authority.retain(|set| matches!(set.rtype, Rtype::NSEC | Rtype::NSEC3));
                part.proof = authority;
            }
            Some(rcode) => part.ending = denied(&end, rcode, authority, &fetched.reply),
        }
        Ok(part)
    }
}

fn denied(end: &NameBuf, rcode: Rcode, mut proof: Vec<Rrset>, reply: &Reply) -> Ending {
    let at = proof.iter().position(|set| set.rtype == Rtype::SOA);
    let soa = at.map(|at| proof.remove(at));
    if soa.is_none() {
        // The scrubber takes no proof without an SOA record.
        let records =
            reply.records().filter(|record| matches!(record.rtype, Rtype::NSEC | Rtype::NSEC3 | Rtype::RRSIG));
        proof = group(
            records
                .map(|record| (record.owner, record.rtype, record.ttl_secs, record.rdata))
                .collect::<Vec<_>>()
                .into_iter(),
        );
    }
    Ending::Denied(end.wire().into(), Denial { rcode, soa, proof, security: Security::Unchecked })
}

/// The RRsets of a section. A CNAME behind a DNAME above it follows from it.
fn sets_of(gathered: &Gathered, section: Section) -> Vec<Rrset> {
    let records: Vec<_> = gathered
        .iter()
        .filter(|(kind, ..)| kind.section == section)
        .map(|(kind, owner, rdata)| (owner, kind.rtype, kind.ttl_secs, rdata))
        .collect();
    let mut sets = group(records.into_iter());
    for at in 1..sets.len() {
        let is_below = avocet_wire::name::is_under(&sets[at].owner, &sets[at - 1].owner);
        if sets[at].rtype == Rtype::CNAME && sets[at - 1].rtype == Rtype::DNAME && is_below {
            sets[at].synthesised = true;
        }
    }
    sets
}
