//! Hosted zones: authoritative answers, written by the crate `zone`.

use avocet_resolver::Dns64;
use avocet_wire::edns::OPT_LEN;
use avocet_wire::header::{AA, RD};
use avocet_wire::name::MAX_NAME;
use avocet_wire::view::{MessageView, RecordSection, RecordView};
use avocet_wire::{Ede, FoldedName, Header, NameBuf, Rtype};
use avocet_zone::{
    AnswerTerms, AnsweredElsewhere, HostedAnswer, HostedEnd, HostedQuestion, HostedZones, Proofs,
    ShownHost,
};

use super::alias::{Alias, Flattening, MadeAddresses};
use super::asked::{Asked, AskedEdns, ZoneVersion};
use super::context::{Query, QueryContext, key_flags};
use super::decision::Stage;
use super::finding::{Finding, Offer};
use super::question::LocalQuestion;
use super::respond::Draft;
use super::shown::ShownHosts;
use super::translate;
use super::ttl::{self, Terms};
use crate::pools::Pools;

/// Number of octets of a cookie option: code, length, client and server cookie.
const COOKIE_OPTION: usize = 28;

/// The treatment of questions that the hosted zones do not answer themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beyond {
    /// The question is resolved: for delegated names, targets of aliases, and DS records that only
    /// another server's parent zone has.
    Resolved,
    /// The client gets a referral, or the aliases alone.
    Shown,
}

/// Answers from the hosted zones, with TTLs limited by the terms of the policy.
#[inline]
pub(super) fn on_terms(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    terms: Terms,
    out: &mut [u8],
) -> Finding {
    let beyond = if query.asked.flags & RD == 0 { Beyond::Shown } else { Beyond::Resolved };
    let question = (query.key.qname(), query.qtype());
    let mut finding = judged(cx, query, question, beyond, out);
    match &mut finding {
        Finding::Answer(offer) => ttl::cut_at_change(&mut out[..offer.draft.len], terms),
        Finding::Aliases { aliases, .. } => {
            aliases.iter_mut().for_each(|alias| alias.ttl_secs = terms.cut(alias.ttl_secs));
        }
        _ => {}
    }
    finding
}

/// Returns the properties of the query with the version of the zone that has answered; `None` if
/// the client does not request it (RFC 9660 §3.2). For a referral, the version belongs to the
/// delegating zone.
#[inline]
pub(super) fn with_version(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    offer: &Offer,
    out: &[u8],
) -> Option<Asked> {
    if offer.stage != Stage::Hosted {
        return None;
    }
    let edns = query.asked.edns.filter(|edns| edns.zone_version == ZoneVersion::Asked)?;
    let header = Header::read(out)?;
    // An alias of the configuration led to this referral. It has answer records, unlike other
    // referrals.
    if header.flags & AA == 0 && header.counts[1] != 0 {
        return None;
    }
    let zone = cx.state.zones_of(query.profile).zone_of(query.key.qname(), query.qtype())??;
    let labels = zone.apex().ancestors().count().saturating_sub(1) as u8;
    let zone_version = ZoneVersion::Known { labels, serial: zone.serial().to_be_bytes() };
    Some(Asked { edns: Some(AskedEdns { zone_version, ..edns }), ..*query.asked })
}

/// Answers a question about one of this server's own names from the hosted zones, with recursion.
/// The policy does not evaluate the QNAME.
pub(super) fn of_own(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    question: &LocalQuestion<'_>,
    out: &mut [u8],
) -> Finding {
    judged(cx, query, (question.qname, question.qtype), Beyond::Resolved, out)
}

/// Answers a question from the hosted zones that the client sees. Adds only address records from
/// zones that the client may query.
#[inline]
fn judged(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    question: (FoldedName<'_>, Rtype),
    beyond: Beyond,
    out: &mut [u8],
) -> Finding {
    let (zones, pools) = (cx.state.zones_of(query.profile), &cx.state.names.pools);
    let (asked, at_secs) = (query.asked, cx.wall_secs);
    let translation = cx.state.plan.translation();
    let of_client = OfClient { zones, pools, asked, at_secs, translation, shown: None };
    let Some(hosts) = ShownHosts::of(cx, query) else {
        return answer(&of_client, question, beyond, out);
    };
    let shown = |name: FoldedName<'_>, rtype| hosts.show(name, rtype);
    let finding = answer(&OfClient { shown: Some(&shown), ..of_client }, question, beyond, out);
    if let Finding::Answer(offer) = &finding {
        hosts.cut_at_change(&mut out[..offer.draft.len]);
    }
    finding
}

/// The data, other than the question, on which an answer from hosted zones depends.
struct OfClient<'c> {
    zones: &'c HostedZones,
    pools: &'c Pools,
    asked: &'c Asked,
    /// When the query arrived, in seconds since 1970.
    at_secs: u64,
    /// The DNS64 in force.
    translation: Option<&'c Dns64>,
    /// The function that decides which additional addresses the client gets; `None` without a
    /// policy.
    shown: Option<&'c ShownHost<'c>>,
}

/// Answers a question from the hosted zones. If the client wants recursion, the zones do not answer
/// delegated names, or questions for the DS records of a zone whose parent is elsewhere.
#[inline]
fn answer(
    of_client: &OfClient<'_>,
    (qname, qtype): (FoldedName<'_>, Rtype),
    beyond: Beyond,
    out: &mut [u8],
) -> Finding {
    let OfClient { zones, pools, asked, shown, .. } = *of_client;
    let is_beyond = || beyond == Beyond::Resolved && zones.is_for_other_parent(qname, qtype);
    if zones.is_empty() || is_beyond() {
        return Finding::Nothing;
    }
    let proofs = proofs_for(asked);
    let of_opt = asked.edns.map_or(0, |edns| OPT_LEN + edns.cookie.map_or(0, |_| COOKIE_OPTION));
    let limit = usize::from(asked.limit) - of_opt;
    let question = HostedQuestion { qname, qtype, proofs, limit };
    // The zone does not have the addresses of a pool, so an alias that leads to it ends there.
    let is_pool = |name: FoldedName<'_>| pools.answer(name, zones);
    let elsewhere = (!pools.is_empty()).then_some(&is_pool as &AnsweredElsewhere<'_>);
    let terms = AnswerTerms { shown, elsewhere };
    let Some(answer) = avocet_zone::answer_with(zones, &question, terms, out) else {
        return Finding::Nothing;
    };
    let HostedAnswer { len, rcode, end } = answer;
    // As a CNAME record itself is an answer to ANY (RFC 8482 §4.1), so is the DNAME record that
    // leads out of the zones.
    if end == HostedEnd::Alias
        && qtype != Rtype::ANY
        && (beyond == Beyond::Resolved || !pools.is_empty())
        && let Some(aliases) = unsigned_aliases(&out[..len])
    {
        let leads_to_pool =
            || aliases.last().is_some_and(|last| is_pool(last.target.folded().view()));
        if beyond == Beyond::Resolved || leads_to_pool() {
            return Finding::Aliases { aliases, note: 0 };
        }
    }
    if end == HostedEnd::Flattened
        && let Some(aliases) = flattened_aliases(&out[..len], qtype, of_client)
    {
        return Finding::Aliases { aliases, note: 0 };
    }
    if end == HostedEnd::Referral && beyond == Beyond::Resolved {
        return Finding::Nothing;
    }
    let ede = (end == HostedEnd::NotLoaded).then_some((Ede::NOT_READY, "the zone is not loaded"));
    Finding::Answer(Offer::made(Stage::Hosted, Draft { len, rcode, ede, note: 0 }))
}

/// Returns the alias in a CNAME record.
fn alias_of(record: &RecordView<'_>, target: &mut [u8; MAX_NAME]) -> Option<Alias> {
    let len = record.expand_rdata(target).ok()?;
    Some(Alias {
        owner: record.owner().ok()?.folded(),
        target: NameBuf::from_wire(&target[..len]).ok()?,
        ttl_secs: record.ttl_secs(),
        note: 0,
        flattening: None,
    })
}

/// Returns whether a client wants signatures and proofs.
fn proofs_for(asked: &Asked) -> Proofs {
    if asked.dnssec_ok() { Proofs::Included } else { Proofs::Omitted }
}

/// Returns the aliases of an answer that ends with an ALIAS record.
#[cold]
fn flattened_aliases(
    message: &[u8],
    qtype: Rtype,
    &OfClient { zones, asked, at_secs, translation, .. }: &OfClient<'_>,
) -> Option<Vec<Alias>> {
    let proofs = proofs_for(asked);
    let (mut aliases, mut target) = (Vec::new(), [0; MAX_NAME]);
    for record in MessageView::new(message).ok()?.section(RecordSection::Answer).ok()? {
        let record = record.ok()?;
        let is_flattened = record.rtype == Rtype::ALIAS;
        if !is_flattened && record.rtype != Rtype::CNAME {
            continue;
        }
        let mut alias = alias_of(&record, &mut target)?;
        if is_flattened {
            let zone = zones.shared_zone_of(alias.owner.view(), qtype)?;
            let made = match translation.filter(|_| qtype == Rtype::AAAA).cloned() {
                None => MadeAddresses::Absent,
                Some(dns64) if translate::is_for(key_flags(asked)) => MadeAddresses::Shown(dns64),
                Some(dns64) => MadeAddresses::Withheld(dns64),
            };
            alias.flattening = Some(Flattening { zone, proofs, at_secs, made }.into());
        }
        aliases.push(alias);
    }
    Some(aliases)
}

/// Returns the aliases of an answer; `None` if they are signed. A client that validates follows
/// signed aliases itself, because the resolved answer would lack their signatures.
#[cold]
fn unsigned_aliases(message: &[u8]) -> Option<Vec<Alias>> {
    let (mut aliases, mut target) = (Vec::new(), [0; MAX_NAME]);
    for record in MessageView::new(message).ok()?.records().ok()? {
        let record = record.ok()?;
        if record.section != RecordSection::Answer {
            break;
        }
        match record.rtype {
            Rtype::RRSIG => return None,
            Rtype::CNAME => aliases.push(alias_of(&record, &mut target)?),
            _ => {}
        }
    }
    (!aliases.is_empty()).then_some(aliases)
}
