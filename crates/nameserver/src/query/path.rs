//! The path of a query through the stages, with all its branches.
//!
//! [`answer`] takes a query that has just arrived, and `late` takes a query that has waited. Both
//! pass the result of a stage to [`conclude`], which returns the [`QueryStep`]; answers of other
//! servers first pass [`settle`].

use avocet_cache::{FailureKey, PacketHit, PacketKey, PacketLookup};
use avocet_config::Config;
use avocet_config::recurse::Mode;
use avocet_wire::header::{CD, HEADER_LEN, RD};
use avocet_wire::{Class, Ede, QueryView, Rcode, Rtype};

use super::admission::{self, Rejection, reader};
use super::alias::{Alias, End, write_behind};
use super::asked::Asked;
use super::context::{
    Arrival, Client, HashedQuestion, Next, Output, Query, QueryContext, asked_behind, key_flags,
    packet_hash, question_behind,
};
use super::decision::{CacheState, Decision, Outgoing, QueryStep, Stage, Validated};
use super::finding::{Basis, Finding, Lifetime, Obtained, Offer};
use super::look_ahead::Seen;
use super::question::LocalQuestion;
use super::respond::{Draft, draft_empty, finish, truncated};
use super::scratch::Ahead;
use super::ttl::{self, Terms};
use super::{
    hosted, judge, minimal_any, packet, pool, rrsets, signed, strangers, transfer, translate,
};

/// Maximum number of ALIAS records that lead to one answer.
const MAX_FLATTENED: usize = 8;

/// A client's message, as received.
#[derive(Clone, Copy)]
pub struct Incoming<'i> {
    /// The octets of the message.
    pub octets: &'i [u8],
    /// The result of reading the question in advance (look-ahead), if this was done.
    pub seen: Option<&'i Seen>,
}

/// Runs the stages for a new query. Returns its reply, or the question to be resolved.
#[inline]
pub fn answer(
    cx: &QueryContext<'_>,
    incoming: Incoming<'_>,
    client: &Client<'_>,
    output: Output<'_>,
) -> QueryStep {
    let Incoming { octets, seen } = incoming;
    let Output { message: out, misses } = output;
    let seen = seen.filter(|seen| !seen.key.is_empty());
    let view = match seen
        .map_or_else(|| QueryView::parse(octets), |seen| QueryView::parse_keyed(octets, &seen.key))
    {
        Ok(view) => view,
        Err(error) => {
            return signed::answer(cx, octets, error, client, Output { message: out, misses });
        }
    };
    if !cx.state.allow.admits(client.entrance, client.ip) {
        let rejection = admission::refused(cx, &view, octets, client, out);
        return reject(cx, &rejection, client, out);
    }
    if let Some(step) = strangers::hold(cx, octets, view.qtype, client) {
        return step;
    }
    let Ok(asked) = Asked::read(&view, client.transport, || reader(cx, client)) else {
        let rejection = admission::bad_option(&view, client, out);
        return reject(cx, &rejection, client, out);
    };
    let own_key;
    let (key, profile) = match seen {
        Some(seen) => (HashedQuestion::from(&seen.key), seen.profile),
        None => {
            own_key = view.key(&cx.shared.key, 0);
            let who = (client.ip, cx.device_of(client));
            ((&own_key).into(), cx.profile_with(who, client.entrance, client.transport))
        }
    };
    let flags = key_flags(&asked);
    let hash = packet_hash(key.hash, profile, flags);
    let (cache, arrival) = (CacheState::NotAsked, Arrival::New { view: &view, client });
    let (asked, qtype, note, lists_allow) = (&asked, view.qtype, 0, false);
    let query =
        Query { asked, key, hash, qtype, profile, flags, note, lists_allow, cache, arrival };
    if is_beside_the_cache(cx, &query, &view) {
        return after_packets(cx, &query, CacheState::NotAsked, Output { message: out, misses });
    }
    let cache = match packet::look_up(cx, &query, out) {
        PacketLookup::Hit(hit) if packet::is_expiring(cx, &hit) => {
            return ahead_of_need(cx, &query, &hit, Output { message: out, misses });
        }
        PacketLookup::Hit(hit) => {
            return reply_at_once(cx, &query, &packet::offer(&hit, out), out);
        }
        PacketLookup::Longer { needed } if packet::is_too_long(&query, needed) => {
            return reply(cx, &query, &packet::too_long(&query, out), out);
        }
        PacketLookup::Stale(_) => CacheState::Stale,
        PacketLookup::Longer { .. } | PacketLookup::Miss => CacheState::Miss,
        PacketLookup::Earlier => {
            return answer_from_earlier(cx, &query, Output { message: out, misses });
        }
    };
    after_packets(cx, &query, cache, Output { message: out, misses })
}

/// Answers from a packet-cache entry of an earlier epoch, if it is still valid.
#[cold]
fn answer_from_earlier(cx: &QueryContext<'_>, query: &Query<'_>, output: Output<'_>) -> QueryStep {
    let cache = match packet::look_up_earlier(cx, query, output.message) {
        PacketLookup::Hit(hit) => {
            let offer = packet::offer(&hit, output.message);
            return reply(cx, query, &offer, output.message);
        }
        PacketLookup::Stale(_) => CacheState::Stale,
        _ => CacheState::Miss,
    };
    let mut query = Query { cache, ..*query };
    let finding = stages(cx, &mut query, output.message);
    // If the policy in force sends the query elsewhere, the earlier answer cannot be used.
    if let Finding::Nothing = finding
        && query.cache == CacheState::Miss
        && packet::look_up_of_earlier_policy(cx, &query, output.message).is_some()
    {
        query.cache = CacheState::Stale;
    }
    conclude(cx, &query, finding, output)
}

/// Returns whether the query bypasses the caches, because its EDNS version is not 0, or because the
/// answer is for the client's network only.
#[inline]
fn is_beside_the_cache(cx: &QueryContext<'_>, query: &Query<'_>, view: &QueryView<'_>) -> bool {
    view.edns.is_some_and(|edns| edns.version != 0)
        || query.asked.edns.is_some_and(|edns| edns.subnet)
            && cx.state.plan.passes_ecs(query.key.qname())
}

/// Answers with the popular answer in the buffer, which soon expires, and refreshes it. The first
/// such query starts a prefetch. A later query gets an answer from the RRset cache, which has the
/// result of the prefetch.
#[cold]
fn ahead_of_need(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    hit: &PacketHit,
    output: Output<'_>,
) -> QueryStep {
    let Output { message: out, misses } = output;
    if query.asked.flags & RD != 0 {
        match cx.scratch.ahead(query.hash, cx.now.secs(), hit.remaining_secs) {
            Ahead::Ask => misses.push(query.prefetch()),
            Ahead::Wait => {}
            Ahead::Take => {
                let mut renewed = vec![0; out.len()];
                if let Finding::Answer(offer) = from_rrsets(cx, query, &mut renewed)
                    && offer.stage != Stage::Stale
                {
                    let len = offer.draft.len;
                    out[..len].copy_from_slice(&renewed[..len]);
                    return conclude(
                        cx,
                        query,
                        Finding::Answer(offer),
                        Output { message: out, misses },
                    );
                }
            }
        }
    }
    reply(cx, query, &packet::offer(hit, out), out)
}

/// Runs the stages after the packet cache for a new query. `cache` is the result of the search in
/// the packet cache.
pub(super) fn after_packets(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    cache: CacheState,
    output: Output<'_>,
) -> QueryStep {
    let mut query = Query { cache, ..*query };
    let finding = stages(cx, &mut query, output.message);
    conclude(cx, &query, finding, output)
}

/// Runs the stages after the packet cache, and adds the result of the search in the other caches to
/// the query.
#[inline(always)]
fn stages(cx: &QueryContext<'_>, query: &mut Query<'_>, out: &mut [u8]) -> Finding {
    let mut finding = own_stages(cx, query, out);
    if let Finding::Nothing = finding
        && query.cache != CacheState::NotAsked
    {
        finding = from_rrsets(cx, query, out);
        if let Finding::Answer(Offer { stage: Stage::Stale, .. }) = finding {
            (query.cache, finding) = (CacheState::Stale, Finding::Nothing);
        }
    }
    finding
}

/// Runs the stages between the packet cache and the RRset cache: the policy and this server's own
/// names.
fn own_stages(cx: &QueryContext<'_>, query: &mut Query<'_>, out: &mut [u8]) -> Finding {
    if let Some(finding) = class_and_type(cx, query, out) {
        return finding;
    }
    let is_minimal = query.qtype() == Rtype::ANY && !passes_any(&cx.state.config);
    let terms = match judge::question(cx, query, out) {
        Finding::Pass(terms) => terms,
        Finding::Aliases { aliases, .. } if is_minimal => {
            let ttl_secs = aliases.iter().map(|alias| alias.ttl_secs).min().unwrap_or(0);
            return minimal_any::answer(query.key.question(), Terms::at_most(ttl_secs), out);
        }
        finding => return finding,
    };
    (query.note, query.lists_allow) = (terms.note, terms.lists_allow);
    let own = match cx.state.has_own_names(query.profile) {
        true => translate::answer(cx, query, out, |query, out| from_own(cx, query, terms, out)),
        false => Finding::Nothing,
    };
    match own {
        Finding::Nothing if is_minimal => minimal_any::answer(query.key.question(), terms, out),
        Finding::Nothing => from_special(cx, query, terms, out),
        finding => finding,
    }
}

/// Returns whether queries for ANY are resolved: with recursion and without `minimal-responses`.
#[cold]
fn passes_any(config: &Config) -> bool {
    config.resolver.mode == Mode::Recurse && !config.server.minimal_responses
}

/// Answers from the pools, local records and hosted zones.
#[inline]
fn from_own(cx: &QueryContext<'_>, query: &Query<'_>, terms: Terms, out: &mut [u8]) -> Finding {
    match pool::on_terms(cx, query, terms, out) {
        Finding::Nothing => {}
        finding => return finding,
    }
    match from_local(cx, query, terms, out) {
        Finding::Nothing => hosted::on_terms(cx, query, terms, out),
        finding => finding,
    }
}

/// Answers from the local zones and special names, within the limits that the policy sets on TTLs.
fn from_special(cx: &QueryContext<'_>, query: &Query<'_>, terms: Terms, out: &mut [u8]) -> Finding {
    let finding = special(cx, query, &query.local(), out);
    if let Finding::Answer(offer) = &finding {
        ttl::cut_at_change(&mut out[..offer.draft.len], terms);
    }
    finding
}

/// Answers a query from this server's own names only, without policy and caches.
pub(super) fn own_names(cx: &QueryContext<'_>, query: &Query<'_>, output: Output<'_>) -> QueryStep {
    let out = &mut *output.message;
    let mut finding = class_and_type(cx, query, out).unwrap_or_else(|| {
        translate::answer(cx, query, out, |query, out| {
            let mut finding = pool::answer(cx, query, &query.local(), out);
            if let Finding::Nothing = finding {
                finding = cx.state.names.local.answer(&query.local(), out);
            }
            if let Finding::Nothing = finding {
                finding = hosted::of_own(cx, query, &query.local(), out);
            }
            finding
        })
    });
    if let Finding::Nothing = finding {
        finding = special(cx, query, &query.local(), out);
    }
    let Finding::Aliases { mut aliases, note } = finding else {
        return conclude(cx, query, finding, output);
    };
    match own_end(cx, query, &mut aliases, out) {
        Some(offer) => reply(cx, query, &offer, out),
        None => wait(cx, query, Next { aliases, servers: None, note }, output),
    }
}

/// Answers queries for classes other than IN, for meta types, and with an EDNS version other than
/// 0. Returns `None` for other queries.
fn class_and_type(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> Option<Finding> {
    let Arrival::New { view, .. } = query.arrival else { return None };
    let (rcode, ede) = match (view.qclass, view.qtype) {
        _ if view.edns.is_some_and(|edns| edns.version != 0) => (Rcode::BADVERS, None),
        (Class::CH, _) => {
            return Some(cx.state.chaos.answer(&query.local(), view.question(), out));
        }
        (Class::IN, Rtype::AXFR | Rtype::IXFR) => return Some(transfer::answer(cx, query, out)),
        (Class::IN, qtype) => never_answered(qtype)?,
        (Class::NONE, _) => (Rcode::FORMERR, None),
        _ => (Rcode::REFUSED, Some((Ede::NOT_SUPPORTED, "only class IN is supported"))),
    };
    Some(Finding::Answer(refusal(query, Stage::Malformed, rcode, ede, out)))
}

/// The type that marks a name without data in a proof (RFC 9824 §3.5).
const NXNAME: Rtype = Rtype(128);
/// The extended error "Invalid Query Type".
const INVALID_QTYPE: Ede = Ede(30);

/// Returns the response to a QTYPE that never has data, such as a meta type (RFC 6895 §3.1, RFC
/// 8906); `None` for other types.
fn never_answered(qtype: Rtype) -> Option<(Rcode, Option<(Ede, &'static str)>)> {
    let unsupported = |text| Some((Ede::NOT_SUPPORTED, text));
    match qtype {
        Rtype::OPT | Rtype(0) => Some((Rcode::FORMERR, None)),
        NXNAME => Some((Rcode::FORMERR, Some((INVALID_QTYPE, "NXNAME cannot be queried")))),
        Rtype::MAILA | Rtype::MAILB | Rtype::TKEY | Rtype::TSIG => {
            Some((Rcode::NOTIMP, unsupported("this type is not supported")))
        }
        _ => None,
    }
}

/// Answers from the local records, within the limits that the policy sets on TTLs.
fn from_local(cx: &QueryContext<'_>, query: &Query<'_>, terms: Terms, out: &mut [u8]) -> Finding {
    match cx.state.names.local.answer(&query.local(), out) {
        Finding::Answer(offer) => {
            let message = &mut out[..offer.draft.len];
            let lifetime = packet::lifetime_of_local(cx, query, terms, message);
            Finding::Answer(Offer { lifetime, basis: translate::basis(query.qtype()), ..offer })
        }
        Finding::Aliases { mut aliases, note } => {
            aliases.iter_mut().for_each(|alias| alias.ttl_secs = terms.cut(alias.ttl_secs));
            Finding::Aliases { aliases, note }
        }
        finding => finding,
    }
}

/// Answers from the local zones and special names, unless the configuration has servers for the
/// QNAME.
fn special(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    question: &LocalQuestion<'_>,
    out: &mut [u8],
) -> Finding {
    match cx.state.names.special.find(question, query.entrance()) {
        Some(zone) if !zone.gives_way(cx.state.plan.own_rule_len(zone.side())) => {
            zone.answer(|name| cx.state.names.has_below(name), out)
        }
        _ => Finding::Nothing,
    }
}

/// Answers from the RRset cache after the policy has evaluated the answer. A question that a rule
/// forwards skips this stage.
pub(super) fn from_rrsets(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> Finding {
    if query.is_forwarded() {
        return Finding::Nothing;
    }
    let mut memory = cx.scratch.assembly();
    let PacketKey { question, flags, .. } = query.packet_key();
    match rrsets::look_up(cx, &mut memory, question, flags) {
        Some(obtained) => settle(cx, query, &obtained, out),
        None => Finding::Nothing,
    }
}

/// Settles an answer of other servers, for a new query or one that has waited. The policy evaluates
/// the answer. If the policy allows the answer, limits its TTLs and caches it for the next client
/// of this profile.
///
/// If aliases led to the resolved name, the answer is appended to the aliases, and the policy does
/// not evaluate it.
pub(super) fn settle(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    obtained: &Obtained<'_>,
    out: &mut [u8],
) -> Finding {
    let Obtained { message, ttl_offsets, rcode, ede, stage, .. } = *obtained;
    let mut draft = Draft { len: message.len(), rcode, ede, note: 0 };
    if stage == Stage::Stale {
        draft = marked_expired(draft);
    }
    if !query.aliases().is_empty() || message.len() > out.len() {
        return Finding::Answer(obtained.offer(copied(query, &End { message, draft }, out)));
    }
    let terms = match judge::answer(cx, query, message, out) {
        Finding::Pass(terms) => terms,
        // The data is for one client or one network, or not for a second time. So is the verdict.
        Finding::Answer(offer) if obtained.kept_for.is_none() && stage != Stage::Stale => {
            return Finding::Answer(Offer { lifetime: Lifetime::Unkept, ..offer });
        }
        finding => return finding,
    };
    let offer = Offer { is_of_profile: !terms.per_query, ..obtained.offer(draft) };
    let place = &mut out[..message.len()];
    place.copy_from_slice(message);
    if stage == Stage::Stale {
        terms.cut_ttls(place, ttl_offsets);
        return Finding::Answer(offer.decided_by(terms.note));
    }
    terms.clamp_ttls(place, ttl_offsets);
    if query.is_current(cx) {
        packet::keep(cx, query, &Obtained { message: place, ..*obtained }, terms);
    }
    Finding::Answer(offer.decided_by(terms.note))
}

/// Adds the extended error for expired data (RFC 8914 §4.4 and §4.20).
fn marked_expired(draft: Draft) -> Draft {
    let ede = if draft.rcode == Rcode::NXDOMAIN { Ede::STALE_NXDOMAIN } else { Ede::STALE_ANSWER };
    Draft { ede: Some((ede, "resolution failed or is slow")), ..draft }
}

/// Copies a message to the buffer, after the aliases that led to it. A message that exceeds the
/// buffer is truncated.
pub(super) fn copied(query: &Query<'_>, end: &End<'_>, out: &mut [u8]) -> Draft {
    let question = query.question();
    if !query.aliases().is_empty() {
        return write_behind(query.aliases(), end, question, out)
            .unwrap_or_else(|| draft_empty(out, Some(question), Rcode::SERVFAIL));
    }
    match out.get_mut(..end.message.len()) {
        Some(place) => {
            place.copy_from_slice(end.message);
            end.draft
        }
        None => {
            out[..HEADER_LEN].copy_from_slice(&end.message[..HEADER_LEN]);
            truncated(question, out)
        }
    }
}

/// Concludes a query with the finding of the last stage. Caches an answer that was made here,
/// follows aliases, writes the reply, or makes the query wait.
#[inline(always)]
pub(super) fn conclude(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    finding: Finding,
    output: Output<'_>,
) -> QueryStep {
    let Finding::Answer(offer) = finding else {
        return conclude_without_answer(cx, query, finding, output);
    };
    if offer.lifetime != Lifetime::Unkept && query.is_current(cx) {
        packet::keep_made(cx, query, &offer, &output.message[..offer.draft.len]);
    }
    reply(cx, query, &offer, output.message)
}

fn conclude_without_answer(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    finding: Finding,
    output: Output<'_>,
) -> QueryStep {
    match finding {
        Finding::Aliases { aliases, note } => {
            let query = Query { note: if note == 0 { query.note } else { note }, ..*query };
            follow(cx, &query, aliases, output)
        }
        Finding::Forward { servers, note } => {
            wait(cx, query, Next { servers: Some(servers), note, ..Next::default() }, output)
        }
        Finding::Silence { note } => QueryStep::Silent(query.silent(cx, Stage::Dropped, note)),
        Finding::Answer(_) | Finding::Pass(_) | Finding::Nothing => {
            wait(cx, query, Next { note: query.note, ..Next::default() }, output)
        }
    }
}

/// Appends to the aliases, which come from the policy or this server, the answer for their last
/// target; or makes the query wait for that answer. The target is looked up like any name: in local
/// records, special names and the RRset cache. The policy does not evaluate the answer again.
#[cold]
fn follow(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    mut aliases: Vec<Alias>,
    output: Output<'_>,
) -> QueryStep {
    let own = own_end(cx, query, &mut aliases, output.message);
    match own.or_else(|| end_from_rrsets(cx, query, &aliases, output.message)) {
        Some(offer) => reply(cx, query, &offer, output.message),
        None => wait(cx, query, Next { aliases, servers: None, note: query.note }, output),
    }
}

/// Answers for the last target of the aliases from this server's own names like [`own_end_of`], and
/// applies DNS64 to the answer.
fn own_end(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    aliases: &mut Vec<Alias>,
    out: &mut [u8],
) -> Option<Offer> {
    if translate::dns64(cx, query).is_none() {
        return own_end_of(cx, query, aliases, out);
    }
    let first = aliases.clone();
    let found = translate::answer(cx, query, out, |query, out| {
        aliases.clone_from(&first);
        own_end_of(cx, query, aliases, out).map_or(Finding::Nothing, Finding::Answer)
    });
    if let Finding::Answer(offer) = found { Some(offer) } else { None }
}

/// Answers for the last target of the aliases from this server's own names, and puts the answer
/// after the aliases. Adds the further aliases that local records have.
fn own_end_of(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    aliases: &mut Vec<Alias>,
    out: &mut [u8],
) -> Option<Offer> {
    let asked = query.key.question();
    let (mut question, _) = question_behind(cx, asked, aliases.last()?);
    let asked_at_end = asked_behind(query.asked, aliases);
    let client = query;
    let query = &Query { asked: &asked_at_end, flags: key_flags(&asked_at_end), ..*query };
    let mut found = pool::answer(cx, query, &question.view().into(), out);
    if let Finding::Nothing = found {
        found = cx.state.names.local.answer(&question.view().into(), out);
    }
    if let Finding::Aliases { aliases: more, .. } = found {
        aliases.extend(more);
        (question, _) = question_behind(cx, asked, aliases.last()?);
        found = pool::answer(cx, query, &question.view().into(), out);
    }
    if let Finding::Nothing = found {
        found = hosted::of_own(cx, query, &question.view().into(), out);
        if let Finding::Aliases { aliases: more, .. } = found {
            aliases.extend(more);
            let is_flattened = aliases.last().is_some_and(Alias::is_flattened);
            if aliases.iter().filter(|alias| alias.is_flattened()).count() > MAX_FLATTENED {
                let ede = Some((Ede::OTHER, "ALIAS records lead in a circle or too far"));
                return Some(refusal(query, Stage::Hosted, Rcode::SERVFAIL, ede, out));
            }
            if is_flattened {
                return own_end_of(cx, client, aliases, out);
            }
            (question, _) = question_behind(cx, asked, aliases.last()?);
            found = pool::answer(cx, query, &question.view().into(), out);
            if let Finding::Nothing = found {
                return None;
            }
        }
    }
    if let Finding::Nothing = found {
        found = special(cx, query, &question.view().into(), out);
    }
    let Finding::Answer(offer) = found else { return None };
    let message = out[..offer.draft.len].to_vec();
    let end = End { message: &message, draft: offer.draft };
    write_behind(aliases, &end, asked.octets(), out).map(|draft| offer.behind(draft))
}

/// Answers the question for the last target of the aliases with fresh data from the RRset cache,
/// and puts the answer after the aliases.
fn end_from_rrsets(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    aliases: &[Alias],
    out: &mut [u8],
) -> Option<Offer> {
    let (question, _) = question_behind(cx, query.key.question(), aliases.last()?);
    let mut memory = cx.scratch.assembly();
    let asked = asked_behind(query.asked, aliases);
    let obtained = rrsets::look_up(cx, &mut memory, question.view(), key_flags(&asked))
        .filter(|obtained| obtained.stage == Stage::RrsetHit)?;
    let Obtained { message, rcode, ede, .. } = obtained;
    let end = End { message, draft: Draft { len: message.len(), rcode, ede, note: 0 } };
    let draft = write_behind(aliases, &end, query.key.question().octets(), out)?;
    // If the policy replaced the answer for which the query waited, the query still counts as
    // resolved.
    let stage = match query.arrival {
        Arrival::New { .. } => Stage::RrsetHit,
        Arrival::Waiting(_) => Stage::Resolved,
    };
    Some(Offer { cache: CacheState::Hit, ..Obtained { stage, ..obtained }.offer(draft) })
}

/// Makes a query wait for the network if its client wants recursion, or if it needs the addresses
/// behind an ALIAS record.
fn wait(cx: &QueryContext<'_>, query: &Query<'_>, next: Next, output: Output<'_>) -> QueryStep {
    if query.asked.flags & RD == 0 && !next.aliases.iter().any(Alias::is_flattened) {
        let offer = not_recursive(cx, query, output.message);
        return reply(cx, query, &offer, output.message);
    }
    output.misses.push(query.miss(cx, next));
    QueryStep::Resolve
}

/// Refuses a query without RD that the caches cannot answer.
fn not_recursive(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> Offer {
    let question = query.key.question();
    let failure_key = FailureKey { question, checking_disabled: query.asked.flags & CD != 0 };
    if cx.shared.failures.lookup(&failure_key, cx.now.secs()).is_some() {
        let ede = Some((Ede::CACHED_ERROR, "resolution failed recently"));
        return refusal(query, Stage::FailureHit, Rcode::SERVFAIL, ede, out);
    }
    let ede = Some((Ede::NOT_AUTHORITATIVE, "not cached, and recursion was not requested"));
    refusal(query, Stage::NotRecursive, Rcode::REFUSED, ede, out)
}

/// Returns an answer without data, with this RCODE.
fn refusal(
    query: &Query<'_>,
    stage: Stage,
    rcode: Rcode,
    ede: Option<(Ede, &'static str)>,
    out: &mut [u8],
) -> Offer {
    Offer::made(stage, Draft { ede, ..draft_empty(out, Some(query.question()), rcode) })
}

/// Writes the reply to an admitted query. No other function does so.
#[inline(never)]
pub(super) fn reply(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    offer: &Offer,
    out: &mut [u8],
) -> QueryStep {
    if let Some(asked) = hosted::with_version(cx, query, offer, out) {
        return reply_at_once(cx, &Query { asked: &asked, ..*query }, offer, out);
    }
    reply_at_once(cx, query, offer, out)
}

/// Writes the reply inline, for a hit in the packet cache. A call would first spill registers to
/// memory, which costs 8 % of the instructions of a hit.
#[inline(always)]
fn reply_at_once(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    offer: &Offer,
    out: &mut [u8],
) -> QueryStep {
    let Offer { draft, note, stage, cache, upstream, basis, .. } = *offer;
    let ede = draft.ede.map(|(code, _)| code);
    let decision = Decision {
        revision: cx.state.revision,
        profile: query.profile,
        note: if note == 0 { query.note } else { note },
        qtype: query.qtype(),
        rcode: draft.rcode,
        ede,
        upstream,
        stage,
        transport: query.asked.transport,
        cache,
        validated: Validated::of(out, ede),
        is_counted: basis == Basis::Alias,
    };
    let len = finish(out, draft, query.asked, query.question(), &cx.state.identity);
    let (hash, is_verified) = (query.hash, query.asked.is_verified());
    QueryStep::Reply(Outgoing { len, hash, is_verified, decision })
}

/// Ends a query that is not admitted.
#[cold]
pub(super) fn reject(
    cx: &QueryContext<'_>,
    rejection: &Rejection<'_>,
    client: &Client<'_>,
    out: &mut [u8],
) -> QueryStep {
    let at = |stage| Decision::at(stage, client.transport, cx.state.revision);
    match *rejection {
        Rejection::Silence(stage) => QueryStep::Silent(at(stage)),
        Rejection::Reply { draft, ref asked, question, qtype, stage } => {
            let ede = draft.ede.map(|(code, _)| code);
            let decision = Decision { qtype, rcode: draft.rcode, ede, ..at(stage) };
            let len = finish(out, draft, asked, question, &cx.state.identity);
            QueryStep::Reply(Outgoing { len, hash: 0, is_verified: asked.is_verified(), decision })
        }
    }
}
