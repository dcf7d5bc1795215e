//! The queries that have waited for resolution, which succeeded, failed, or takes long.
//!
//! Resolved data is processed like an answer that is found at once: by [`settle`], then by
//! [`conclude`]. In place of a failure, the client gets expired data, or the answer that the policy
//! has for failures.

use std::net::SocketAddr;
use std::sync::Arc;

use avocet_resolver::{AskedFor, Shed};
use avocet_wire::header::Header;
use avocet_wire::query::QuestionKey;
use avocet_wire::{Ede, Rcode};

use super::alias::{Alias, End};
use super::context::{
    HashedQuestion, Output, Query, QueryContext, asked_behind, key_flags, question_behind,
};
use super::decision::{QueryStep, Stage};
use super::finding::{Finding, Lifetime, Obtained, Offer};
use super::held::HeldQuery;
use super::miss::Waiter;
use super::path::{Incoming, answer, conclude, copied, from_rrsets, reject, settle};
use super::respond::{Draft, draft_empty};
use super::strangers::{client_of, turned_off};
use super::ttl::ttl_offsets;
use super::{judge, packet, rrsets, translate};

/// Maximum number of answers in [`Given`]. Each has up to 64 KiB.
const MAX_GIVEN: usize = 8;

/// The answers that the policy has allowed or made for queries that waited for the same resolution.
/// They are valid for one result and one [`QueryContext`], so for one state of clocks and snapshot.
///
/// The policy may take milliseconds for one query, and a thousand queries may wait for one answer.
/// So the next query gets the same answer, if all is equal on which the policy's verdict depends.
/// The packet cache does not suffice, because it does not store all answers.
#[derive(Default)]
pub struct Given(Vec<GivenAnswer>);

struct GivenAnswer {
    case: Case,
    offer: Offer,
    message: Box<[u8]>,
}

/// The properties of a query on which its answer depends, given the result of resolution.
#[derive(PartialEq, Eq)]
struct Case {
    /// The keyed hash of the question, combined with profile and flags.
    hash: u64,
    /// The profile represents the address, the device, the groups, the listener and the transport,
    /// as far as the policy tests them.
    profile: u16,
    /// The flags CD, DO and RD.
    flags: u8,
    /// The snapshot that allowed the question, which determines what may be stored.
    epoch: u32,
    /// The profile for which lists allowed the question.
    allowed_for: Option<u16>,
    servers: Option<Arc<[SocketAddr]>>,
}

impl Case {
    /// Returns the case of a query; `None` if its answer comes after aliases of this server or of
    /// its policy. The policy does not evaluate such an answer.
    fn of(query: &Query<'_>, waiter: &Waiter) -> Option<Self> {
        let (hash, profile, flags) = (query.hash, query.profile, query.flags);
        let Waiter { epoch, allowed_for, ref servers, ref aliases, .. } = *waiter;
        let servers = servers.clone();
        aliases.is_empty().then_some(Self { hash, profile, flags, epoch, allowed_for, servers })
    }
}

impl Given {
    /// Copies the answer for a case to `out`.
    fn copy(&self, case: &Case, out: &mut [u8]) -> Option<Finding> {
        let given = self.0.iter().find(|given| given.case == *case)?;
        out.get_mut(..given.message.len())?.copy_from_slice(&given.message);
        // The answer is not stored again: the packet cache stored it for the first query.
        Some(Finding::Answer(Offer { lifetime: Lifetime::Unkept, ..given.offer }))
    }

    fn note(&mut self, case: Case, finding: &Finding, out: &[u8]) {
        if let Finding::Answer(offer) = finding
            && offer.is_of_profile
            && self.0.len() < MAX_GIVEN
            && let Some(message) = out.get(..offer.draft.len)
        {
            self.0.push(GivenAnswer { case, offer: offer.clone(), message: message.into() });
        }
    }
}

/// Answers a query that has waited. `obtained` is the result of resolution, or `None` if resolution
/// takes long. In place of a failure or a missing result, the client gets expired data, if the
/// caches have any. `given` has the answers to other queries that waited for this result.
pub fn resume(
    cx: &QueryContext<'_>,
    waiter: &Waiter,
    (obtained, given): (Option<&Obtained<'_>>, &mut Given),
    output: Output<'_>,
) -> QueryStep {
    let folded;
    let key = match HashedQuestion::of_waiting(waiter) {
        Some(key) => key,
        None => {
            folded = QuestionKey::new(&waiter.question, &cx.shared.key, 0);
            (&folded).into()
        }
    };
    let query = &Query::waiting(cx, waiter, key);
    if query.is_forwarded() {
        if let Some(miss) = translate::miss_for_v4(cx, query, obtained) {
            output.misses.push(miss);
            return QueryStep::Resolve;
        }
        let in_its_place = translate::in_its_place(cx, query, obtained);
        if let Some((replacement, of_servers)) = in_its_place.as_ref().zip(obtained) {
            let obtained = Some(&replacement.obtained(of_servers));
            return conclude_result(cx, (query, waiter), (obtained, given), output);
        }
    }
    conclude_result(cx, (query, waiter), (obtained, given), output)
}

/// Concludes a query with the result of resolution. With a policy, queries of equal [`Case`] get
/// the same answer.
fn conclude_result(
    cx: &QueryContext<'_>,
    (query, waiter): (&Query<'_>, &Waiter),
    (obtained, given): (Option<&Obtained<'_>>, &mut Given),
    output: Output<'_>,
) -> QueryStep {
    if cx.state.policy.is_none() {
        let finding = of_result(cx, query, obtained, output.message);
        return conclude(cx, query, finding, output);
    }
    let case = Case::of(query, waiter);
    if let Some(finding) = case.as_ref().and_then(|case| given.copy(case, output.message)) {
        return conclude(cx, query, finding, output);
    }
    let finding = of_result(cx, query, obtained, output.message);
    if let Some(case) = case {
        given.note(case, &finding, output.message);
    }
    conclude(cx, query, finding, output)
}

/// Answers with the result of resolution, after the policy has evaluated it.
fn of_result(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    obtained: Option<&Obtained<'_>>,
    out: &mut [u8],
) -> Finding {
    let judged = obtained.filter(|_| cx.state.policy.is_some()).and_then(judge::judged_part);
    let obtained = match (&judged, obtained) {
        (Some(part), Some(obtained)) => Some(&part.of(obtained)),
        _ => obtained,
    };
    match obtained.filter(|obtained| obtained.rcode != Rcode::SERVFAIL) {
        Some(obtained) => settle(cx, query, obtained, out),
        None => match expired(cx, query, out) {
            Some(offer) => Finding::Answer(offer),
            None => unresolved(cx, query, obtained, out),
        },
    }
}

/// Answers a held query whose client is now identified, as if the query had just arrived.
pub fn answer_held(cx: &QueryContext<'_>, held: &HeldQuery, output: Output<'_>) -> QueryStep {
    let incoming = Incoming { octets: &held.octets, seen: None };
    answer(cx, incoming, &client_of(held), output)
}

/// Ends a held query whose client could not be identified in time, without data.
#[cold]
pub fn unidentified(cx: &QueryContext<'_>, held: &HeldQuery, output: Output<'_>) -> QueryStep {
    let rejection = turned_off(cx, held, output.message);
    reject(cx, &rejection, &client_of(held), output.message)
}

/// Answers a query whose question the resolver rejected.
pub fn shed(cx: &QueryContext<'_>, waiter: &Waiter, reason: Shed, output: Output<'_>) -> QueryStep {
    let ede = match reason {
        Shed::Zone => (Ede::NETWORK_ERROR, "too many queries in flight to the zone"),
        Shed::Client => (Ede::OTHER, "too many queries from this client"),
        Shed::Tasks | Shed::Waiters | Shed::Actions | Shed::NoRule => {
            (Ede::OTHER, "too many queries in flight")
        }
    };
    let failure = Obtained::failure(Stage::Shed, ede);
    resume(cx, waiter, (Some(&failure), &mut Given::default()), output)
}

/// Stores a resolved answer for all clients if there is no policy. Returns the answer to use for
/// each waiting client.
pub fn share<'a>(
    cx: &QueryContext<'_>,
    asked: &AskedFor,
    obtained: Obtained<'a>,
    waiters: &[Box<Waiter>],
) -> Obtained<'a> {
    if cx.state.policy.is_some() {
        return obtained;
    }
    let is_current = waiters.iter().all(|waiter| waiter.epoch == cx.state.epoch);
    if is_current && obtained.rcode != Rcode::SERVFAIL {
        packet::keep_for_all(cx, asked, &obtained);
    }
    Obtained { kept_for: None, ..obtained }
}

/// Returns the expired answer to a query that has waited, or the answer of the policy in its place.
/// The policy evaluates expired data again, because a schedule may have begun since it was stored.
/// Returns `None` if there is no expired answer, or if the policy withholds it.
fn expired(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> Option<Offer> {
    let finding = if query.aliases().is_empty() {
        match packet::look_up_expired(cx, query, out) {
            Some(len) => {
                let message = out[..len].to_vec();
                let offsets = ttl_offsets(&message).0;
                let expired = packet::obtained(&message, &offsets);
                // The answer may have been stored when there was no policy.
                let judged = cx.state.policy.as_ref().and_then(|_| judge::judged_part(&expired));
                let expired = judged.as_ref().map_or(expired, |part| part.of(&expired));
                settle(cx, query, &expired, out)
            }
            None => from_rrsets(cx, query, out),
        }
    } else {
        // An alias of the policy or of this server takes the place of a cached answer for the QNAME
        // itself.
        expired_end(cx, query, out)
    };
    match finding {
        Finding::Answer(offer) if offer.stage == Stage::RrsetHit => {
            Some(Offer { stage: Stage::Stale, ..offer })
        }
        Finding::Answer(offer) => Some(offer),
        _ => None,
    }
}

/// Finds the answer for the last target of the query's aliases in the RRset cache, expired or not,
/// and writes it after the aliases.
#[cold]
fn expired_end(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> Finding {
    let Some(last) = query.aliases().last() else { return Finding::Nothing };
    let (question, _) = question_behind(cx, query.key.question(), last);
    let mut memory = cx.scratch.assembly();
    let asked = asked_behind(query.asked, query.aliases());
    match rrsets::look_up(cx, &mut memory, question.view(), key_flags(&asked)) {
        Some(obtained) => settle(cx, query, &obtained, out),
        None => Finding::Nothing,
    }
}

/// Answers a question that could not be resolved. The policy may provide an answer in this case.
fn unresolved(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    obtained: Option<&Obtained<'_>>,
    out: &mut [u8],
) -> Finding {
    if query.aliases().is_empty() {
        match judge::failure(cx, query, out) {
            Finding::Nothing | Finding::Pass(_) => {}
            finding => return finding,
        }
    }
    let slow = Obtained::failure(Stage::Failed, (Ede::NO_REACHABLE_AUTHORITY, "no answer in time"));
    let obtained = obtained.unwrap_or(&slow);
    let Obtained { message, rcode, ede, .. } = *obtained;
    // The aliases are shown even if their end cannot be resolved.
    let is_shown = !query.aliases().iter().any(Alias::is_flattened);
    let draft = if is_shown && Header::read(message).is_some_and(|header| header.counts[1] > 0) {
        let ede = ede.or(slow.ede);
        let draft = Draft { len: message.len(), rcode, ede, note: 0 };
        copied(query, &End { message, draft }, out)
    } else {
        let ede = ede.or(slow.ede);
        Draft { ede, ..draft_empty(out, Some(query.question()), Rcode::SERVFAIL) }
    };
    Finding::Answer(obtained.offer(draft))
}
