//! Classifies the reply of an authoritative server as an answer, a referral, or useless (RFC 1034
//! §5.3.3 step 4).

use avocet_wire::view::RecordSection;
use avocet_wire::{FoldedName, Rcode, Rtype, name};

use super::fetch::{Fetched, Inquiry};
use super::rrset::Name;
use crate::read::{Reply, ReplyRecord, folded_target};
use crate::scrub::MAX_ALIASES;

/// The kind of a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Sort {
    /// The reply has data, a negative response, or an alias.
    Answer,
    /// The reply is a referral to the zone with this name, below the queried zone.
    Referral(Name),
    /// The reply is like [`Sort::Answer`], but the server recurses and does not serve the zone. The
    /// reply is used only as a last resort.
    Hearsay,
    /// The server does not serve the zone.
    Lame,
    /// The reply has this RCODE, which is an error.
    Failed(Rcode),
}

/// Classifies the reply to this inquiry.
pub(crate) fn sort(inquiry: &Inquiry, fetched: &Fetched) -> Sort {
    let recursive = inquiry.manner.recursion_desired;
    // The answers of a recursive server come from its cache, not from the zone.
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

/// Returns the RCODE to use for a reply. NXDOMAIN is about the last name of a chain of aliases (RFC
/// 6604 §3), so it is an error of the server if the reply has data for this name.
pub(crate) fn rcode_of_chain(
    rcode: Rcode,
    (qname, qtype): (FoldedName<'_>, Rtype),
    reply: &Reply,
) -> Rcode {
    if rcode != Rcode::NXDOMAIN || !reply.has_answer() {
        return rcode;
    }
    let mut at = qname.to_buf();
    for _ in 0..=MAX_ALIASES {
        let mut here =
            reply.section(RecordSection::Answer).filter(|record| record.owner == at.view());
        if at.view() != qname && here.clone().any(|record| record.rtype == qtype) {
            return Rcode::NOERROR;
        }
        let alias = here.find(|record| record.rtype == Rtype::CNAME);
        let Some(target) = alias.and_then(|record| folded_target(record.rdata)) else { break };
        at = target;
    }
    rcode
}

/// Returns whether the reply contains only malformed data as its answer.
pub(crate) fn is_malformed(inquiry: &Inquiry, fetched: &Fetched) -> bool {
    fetched.reply.has_faulty_answers
        && fetched.rcode == Rcode::NOERROR
        && !answers(inquiry, fetched)
}

/// Returns whether the reply has a record of the queried type, or an alias, at the QNAME.
fn answers(inquiry: &Inquiry, fetched: &Fetched) -> bool {
    let answer = || fetched.reply.section(RecordSection::Answer);
    let mut at = inquiry.qname.view().to_buf();
    for _ in 0..=MAX_ALIASES {
        let mut here = answer().filter(|record| record.owner == at.view());
        if here.clone().any(|record| record.rtype == inquiry.qtype) {
            return true;
        }
        let alias = here.find(|record| record.rtype == Rtype::CNAME);
        let Some(target) = alias.and_then(|record| folded_target(record.rdata)) else { break };
        at = target;
    }
    let above = |record: &ReplyRecord<'_>| {
        record.rtype == Rtype::DNAME
            && record.owner.len() < at.wire().len()
            && at.view().is_at_or_below(record.owner)
    };
    at.view() != inquiry.qname.view() || answer().any(|record| above(&record))
}

fn sort_by_authority(inquiry: &Inquiry, fetched: &Fetched, denial: Sort) -> Sort {
    let authority = |rtype| {
        fetched.reply.section(RecordSection::Authority).filter(move |record| record.rtype == rtype)
    };
    if authority(Rtype::SOA).any(|soa| name::is_under(&inquiry.qname, &soa.owner)) {
        return denial;
    }
    for ns in authority(Rtype::NS) {
        if *ns.owner == *inquiry.zone {
            // The reply has the zone's own NS records but no answer. From an authoritative server,
            // this is NODATA.
            return if fetched.is_authoritative() { Sort::Answer } else { Sort::Lame };
        }
        if !name::is_under(&ns.owner, &inquiry.zone) {
            // The referral leads upward or sideways.
            return Sort::Lame;
        }
        // DS records belong to the parent, so the parent's reply with the delegation is the answer.
        let is_parents = inquiry.qtype == Rtype::DS && *ns.owner == *inquiry.qname;
        if is_parents {
            return Sort::Answer;
        }
        if name::is_under(&inquiry.qname, &ns.owner) {
            return Sort::Referral(ns.owner.into());
        }
    }
    // The reply is empty. It is taken as NODATA, unless other servers of the zone have data.
    denial
}
