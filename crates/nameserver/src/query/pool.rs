//! Answers for the names of pools: A and AAAA records of the addresses of a pool, depending on the
//! health of its hosts.
//!
//! The name of a pool has only these two types, unless a local record or a hosted zone has other
//! types at the same name. If the zone has an alias there, the zone answers all types: a name with
//! an alias has nothing else (RFC 1034 §3.6.2, RFC 6672 §2.4). If the zone delegates the name, its
//! answer is the referral: the zone cannot sign records below a zone cut. No answer is kept in the
//! packet cache.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use avocet_wire::builder::{Builder, Full, Record, Section};
use avocet_wire::edns::{EdnsOption, option};
use avocet_wire::header::{AA, QR, RA};
use avocet_wire::{Class, FoldedName, QuestionBuf, Rcode, Rtype};
use avocet_zone::pool::{AddressFamily, ClientPlace, PoolChoice, PoolClient, continent_of};
use avocet_zone::{HostedZone, MadeSet, Proofs};

use super::context::{Arrival, Query, QueryContext};
use super::decision::Stage;
use super::finding::{Finding, Offer};
use super::own_set::write_set;
use super::question::LocalQuestion;
use super::respond::{Draft, draft_empty};
use super::ttl::{self, Terms};
use crate::pools::LivePool;

/// The parts of an answer from a pool.
struct Addressed<'a> {
    pool: &'a LivePool,
    /// The chosen addresses; `None` if the QTYPE is not for addresses.
    choice: Option<PoolChoice>,
    /// The hosted zone that contains the name, if any.
    zone: Option<&'a HostedZone>,
    /// Whether the client wants signatures.
    proofs: Proofs,
}

/// Answers from the pools, within the limits that the policy sets on TTLs.
#[inline]
pub(super) fn on_terms(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    terms: Terms,
    out: &mut [u8],
) -> Finding {
    if cx.state.names.pools.is_empty() {
        return Finding::Nothing;
    }
    let finding = answer(cx, query, &query.local(), out);
    if let Finding::Answer(offer) = &finding {
        ttl::cut_at_change(&mut out[..offer.draft.len], terms);
    }
    finding
}

/// Answers a question from the pools: the client's own question, or the question for the last
/// target of its aliases.
pub(super) fn answer(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    question: &LocalQuestion<'_>,
    out: &mut [u8],
) -> Finding {
    let names = &cx.state.names;
    let LocalQuestion { qname, qtype, .. } = *question;
    let Some(pool) = names.pools.get(qname.wire()) else { return Finding::Nothing };
    let zone = cx.state.zones_of(query.profile).zone_of(qname, Rtype::A).flatten();
    if zone.is_some_and(|zone| zone.leads_elsewhere(qname)) {
        return Finding::Nothing;
    }
    let choice = choice(cx, query, pool, qtype);
    if choice.is_none() {
        let is_hosted = zone.is_some_and(|zone| zone.sets_of(qname).is_some());
        if is_hosted || names.local.is_owner(qname) {
            return Finding::Nothing;
        }
    }
    let proofs = if query.asked.dnssec_ok() { Proofs::Included } else { Proofs::Omitted };
    let data = Addressed { pool, choice, zone, proofs };
    let draft = write(cx, question, &data, out);
    let draft = draft.unwrap_or_else(|Full| {
        let whole = QuestionBuf::new(qname, qtype, Class::IN);
        draft_empty(out, Some(whole.view().octets()), Rcode::SERVFAIL)
    });
    Finding::Answer(Offer::made(Stage::Pool, draft))
}

/// Chooses the addresses of an answer; `None` if the QTYPE is not for addresses.
fn choice(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    pool: &LivePool,
    qtype: Rtype,
) -> Option<PoolChoice> {
    let choose = |family| {
        let client = PoolClient { place: place(cx, query), turn: turn(cx, query) };
        pool.config.rule.choose(pool.masks(), family, &client)
    };
    match qtype {
        Rtype::A => Some(choose(AddressFamily::V4)),
        Rtype::AAAA => Some(choose(AddressFamily::V6)),
        // A query for ANY gets one RRset (RFC 8482 §4.1).
        Rtype::ANY => {
            let four = Some(choose(AddressFamily::V4)).filter(|choice| !choice.is_empty());
            four.or_else(|| Some(choose(AddressFamily::V6)))
        }
        _ => None,
    }
}

/// Chosen addresses of a pool, in a hosted zone that signs them.
struct SignedChoice<'a> {
    pool: &'a LivePool,
    choice: &'a PoolChoice,
    zone: &'a HostedZone,
    now_secs: u64,
}

impl SignedChoice<'_> {
    #[cold]
    fn write(&self, question: &LocalQuestion<'_>, builder: &mut Builder<'_>) -> Result<(), Full> {
        let Self { pool, choice, zone, now_secs } = *self;
        let rows: Vec<_> = choice.addresses(&pool.config.rule).map(rdata).collect();
        let data: Vec<&[u8]> = rows.iter().map(|(octets, len, _)| &octets[..*len]).collect();
        let set = MadeSet {
            qname: question.qname,
            qtype: rows.first().map_or(question.qtype, |(_, _, rtype)| *rtype),
            ttl_secs: pool.config.ttl_secs,
            data: &data,
            proofs: Proofs::Included,
            now_secs,
        };
        zone.write_made(&set, builder)
    }
}

/// Writes the records of the addresses. Without an address, writes a negative response with the SOA
/// record of the zone that contains the name. If no zone contains it, the owner of the SOA record
/// is the name itself.
fn write(
    cx: &QueryContext<'_>,
    question: &LocalQuestion<'_>,
    data: &Addressed<'_>,
    out: &mut [u8],
) -> Result<Draft, Full> {
    let limit = out.len();
    let mut builder = Builder::new(out, limit, 0, QR | AA | RA)?;
    builder.question(&question.qname, question.qtype, Class::IN)?;
    let Addressed { pool, choice, zone, proofs } = data;
    let ttl_secs = pool.config.ttl_secs;
    if let Some(zone) = zone.filter(|zone| zone.is_signed() && *proofs == Proofs::Included)
        && let Some(choice) = choice
    {
        let set = SignedChoice { pool, choice, zone, now_secs: cx.wall_secs };
        if set.write(question, &mut builder).is_err() {
            builder.truncate();
        }
        return Ok(Draft { len: builder.finish(), rcode: Rcode::NOERROR, ede: None, note: 0 });
    }
    match choice.as_ref().filter(|choice| !choice.is_empty()) {
        Some(choice) => {
            for address in choice.addresses(&pool.config.rule) {
                let (octets, len, rtype) = rdata(address);
                let (owner, class) = (&question.qname, Class::IN);
                let record = Record { owner, rtype, class, ttl_secs, rdata: &octets[..len] };
                if builder.record(Section::Answer, &record).is_err() {
                    builder.truncate();
                    break;
                }
            }
        }
        None => write_denial(cx, question.qname, (ttl_secs, *zone), &mut builder)?,
    }
    Ok(Draft { len: builder.finish(), rcode: Rcode::NOERROR, ede: None, note: 0 })
}

fn write_denial(
    cx: &QueryContext<'_>,
    qname: FoldedName<'_>,
    (ttl_secs, zone): (u32, Option<&HostedZone>),
    builder: &mut Builder<'_>,
) -> Result<(), Full> {
    let soa = zone.and_then(|zone| {
        let mut sets = zone.sets_of(zone.apex())?;
        Some((zone.apex(), sets.find(|set| set.rtype == Rtype::SOA)?.iter().next()?))
    });
    if let Some((owner, soa)) = soa {
        let ttl_secs = soa.ttl_secs.min(ttl_secs);
        let (rtype, class, rdata) = (Rtype::SOA, Class::IN, soa.rdata);
        let record = Record { owner: &owner, rtype, class, ttl_secs, rdata };
        return builder.record(Section::Authority, &record);
    }
    let own = avocet_resolver::OwnSet::soa(qname, ttl_secs);
    let soa = cx.state.names.special.soa_above(qname).unwrap_or(own);
    let soa = avocet_resolver::OwnSet { ttl_secs: soa.ttl_secs.min(ttl_secs), ..soa };
    write_set(builder, Section::Authority, &soa)
}

/// Returns the data of a record with this address, its length and its type.
fn rdata(address: IpAddr) -> ([u8; 16], usize, Rtype) {
    let mut octets = [0; 16];
    match address {
        IpAddr::V4(address) => {
            octets[..4].copy_from_slice(&address.octets());
            (octets, 4, Rtype::A)
        }
        IpAddr::V6(address) => (address.octets(), 16, Rtype::AAAA),
    }
}

/// Returns the location of the client, from the client subnet in the query (RFC 7871) or else from
/// the client's address.
fn place(cx: &QueryContext<'_>, query: &Query<'_>) -> ClientPlace {
    let address = subnet(query).unwrap_or_else(|| query.ip()).to_canonical();
    let countries = cx.state.parts.countries.as_ref();
    let country = countries.and_then(|database| database.country(address));
    ClientPlace { address, country, continent: country.and_then(continent_of) }
}

/// Returns the network of the client, as stated by a resolver between the client and this server.
fn subnet(query: &Query<'_>) -> Option<IpAddr> {
    let Arrival::New { view, .. } = query.arrival else { return None };
    if !query.asked.edns.is_some_and(|edns| edns.subnet) {
        return None;
    }
    let mut options = view.edns?.raw_options().filter_map(Result::ok);
    let (_, data) = options.find(|(code, _)| *code == option::ECS)?;
    let Ok(EdnsOption::Ecs { family, source_prefix, address, .. }) =
        EdnsOption::read(option::ECS, data)
    else {
        return None;
    };
    // A client that hides its network gets the answer for the resolver (RFC 7871 §7.1.2).
    if source_prefix == 0 {
        return None;
    }
    let mut octets = [0; 16];
    octets.get_mut(..address.len())?.copy_from_slice(address);
    let [a, b, c, d, ..] = octets;
    match family {
        1 => Some(Ipv4Addr::new(a, b, c, d).into()),
        2 => Some(Ipv6Addr::from(octets).into()),
        _ => None,
    }
}

/// Returns a number that differs between queries. Message IDs alone are not enough, because the IDs
/// of queries over HTTPS are zero (RFC 8484 §4.1).
fn turn(cx: &QueryContext<'_>, query: &Query<'_>) -> u64 {
    cx.shared.key.hash(&query.asked.id.to_be_bytes(), cx.now.micros())
}
