//! What kind of reply an authoritative server gave: an answer, the way to other servers, or nothing
//! of use (RFC 1034 §5.3.3 step 4).

use avocet_wire::view::RecordSection;
use avocet_wire::{Rcode, Rtype, name};

use super::fetch::{Fetched, Inquiry};
use super::rrset::Name;
use crate::read::{ReplyRecord, folded_target};
use crate::scrub::MAX_ALIASES;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    /// It answers or denies, or leads on by an alias.
    Answer,
    /// The zone of this name below the one asked is served by others.
    Referral(Name),
    /// As [`Sort::Answer`], from a server that recurses and does not serve the zone: for want of
    /// better.
    Hearsay,
    /// The server does not serve the zone.
    Lame,
    /// It has another RCODE than an answer can have.
    Failed(Rcode),
}

/// Sorts a reply to this inquiry.
pub(crate) fn sort(inquiry: &Inquiry, fetched: &Fetched) -> Sort {
    let recursive = inquiry.manner.recursion_desired;
    // A server that recurses for others says nothing of its own here.
    let is_hearsay = fetched.offers_recursion() && !fetched.is_authoritative() && !recursive;
    match fetched.rcode {
        Rcode::NOERROR | Rcode::YXDOMAIN => {}
        Rcode::NXDOMAIN if is_hearsay => return Sort::Hearsay,
        Rcode::NXDOMAIN => return Sort::Answer,
        other => return Sort::Failed(other),
    }
    match (answers(inquiry, fetched), recursive) {
        (true, _) if is_hearsay => Sort::Hearsay,
        (true, _) | (_, true) => Sort::Answer,
        (false, false) => sort_by_authority(
            inquiry,
            fetched,
            if is_hearsay { Sort::Hearsay } else { Sort::Answer },
        ),
    }
}

/// Is what it has for an answer not as its type says, and nothing else there?
pub(crate) fn is_malformed(inquiry: &Inquiry, fetched: &Fetched) -> bool {
    fetched.reply.has_faulty_answers
        && fetched.rcode == Rcode::NOERROR
        && !answers(inquiry, fetched)
}

/// Is there a record of the type asked, or an alias, at the name?
fn answers(inquiry: &Inquiry, fetched: &Fetched) -> bool {
    let answer = || fetched.reply.section(RecordSection::Answer);
    let mut at = inquiry.qname.to_vec();
    for _ in 0..=MAX_ALIASES {
        let mut here = answer().filter(|record| record.owner == at);
        if here.clone().any(|record| record.rtype == inquiry.qtype) {
            return true;
        }
        let alias = here.find(|record| record.rtype == Rtype::CNAME);
        let Some(target) = alias.and_then(|record| folded_target(record.rdata)) else { break };
        at = target.wire().to_vec();
    }
    let above = |record: &ReplyRecord<'_>| {
        record.rtype == Rtype::DNAME
            && record.owner.len() < at.len()
            && name::is_under(&at, record.owner)
    };
    at != *inquiry.qname || answer().any(|record| above(&record))
}

fn sort_by_authority(inquiry: &Inquiry, fetched: &Fetched, denial: Sort) -> Sort {
    let authority = |rtype| {
        fetched.reply.section(RecordSection::Authority).filter(move |record| record.rtype == rtype)
    };
    if authority(Rtype::SOA).any(|soa| name::is_under(&inquiry.qname, soa.owner)) {
        return denial;
    }
    for ns in authority(Rtype::NS) {
        if *ns.owner == *inquiry.zone {
            // The zone's own servers beside nothing: no data, if the server speaks for the zone.
            return if fetched.is_authoritative() { Sort::Answer } else { Sort::Lame };
        }
        if !name::is_under(ns.owner, &inquiry.zone) {
            // Up the tree, or aside.
            return Sort::Lame;
        }
        // DS records are of the parent: what it says beside a delegation is its answer.
        let is_parents = inquiry.qtype == Rtype::DS && *ns.owner == *inquiry.qname;
        if is_parents {
            return Sort::Answer;
        }
        if name::is_under(&inquiry.qname, ns.owner) {
            return Sort::Referral(ns.owner.into());
        }
    }
    // Nothing at all: no data, if no server of the zone says more.
    denial
}
