//! The stage of the RRset cache, which assembles answers from records, and applies DNS64 to them as
//! the resolver does to what it resolves.

use std::num::NonZeroU32;

use avocet_cache::{ReadAt, packet_flags};
use avocet_resolver::{Answers, Assembled, Dns64, Resolved, Wanted};
use avocet_wire::{Question, QuestionBuf, Rtype};

use super::context::QueryContext;
use super::decision::Stage;
use super::finding::Obtained;
use super::scratch::Assembly;
use super::translate::{self, Dns64Effect};

/// A question for the RRset cache, with the packet cache flags of the query, the time of the
/// look-up, and the permitted age of stale data.
#[derive(Clone, Copy)]
struct LookUp<'a> {
    question: Question<'a>,
    flags: u8,
    at: ReadAt,
}

/// An assembled answer.
struct AssembledAnswer {
    /// The answer, with ranges in [`Answers`].
    resolved: Resolved,
    stage: Stage,
}

/// Assembles the answer to a question, fresh or expired, for a query with these packet cache flags.
/// Returns no answer if a part of it is not cached.
pub(super) fn look_up<'m>(
    cx: &QueryContext<'_>,
    memory: &'m mut Assembly,
    question: Question<'_>,
    flags: u8,
) -> Option<Obtained<'m>> {
    let stale = cx.state.config.cache.serve_stale.as_ref();
    let stale_window = stale.map_or(0, |stale| stale.max_secs);
    let at = ReadAt { now: cx.now.secs(), stale_window };
    find(cx, memory, &LookUp { question, flags, at })
}

/// Assembles the answer to a question for explanations from all cached data, even if it is expired
/// or not validated.
#[cold]
pub(super) fn whatever_is_known(cx: &QueryContext<'_>, question: Question<'_>) -> Option<Vec<u8>> {
    let at = ReadAt { now: cx.now.secs(), stale_window: u32::MAX };
    let flags = packet_flags::CD | packet_flags::RD;
    let mut memory = cx.scratch.assembly();
    find(cx, &mut memory, &LookUp { question, flags, at }).map(|found| found.message.to_vec())
}

fn find<'m>(
    cx: &QueryContext<'_>,
    memory: &'m mut Assembly,
    wanted: &LookUp<'_>,
) -> Option<Obtained<'m>> {
    memory.answers.clear();
    let AssembledAnswer { resolved, stage } = match translate::in_force(cx, wanted.flags) {
        Some(dns64) => find_translated(cx, dns64, memory, wanted)?,
        None => assemble(cx, memory, wanted)?,
    };
    let Answers { octets, ttl_offsets } = &memory.answers;
    Some(Obtained {
        rcode: resolved.rcode,
        message: &octets[resolved.message],
        ttl_offsets: &ttl_offsets[resolved.ttl_offsets],
        kept_for: NonZeroU32::new(resolved.ttl_secs),
        ede: resolved.ede,
        stage,
        upstream: None,
    })
}

fn assemble(
    cx: &QueryContext<'_>,
    Assembly { assembler, answers }: &mut Assembly,
    &LookUp { question, flags, at }: &LookUp<'_>,
) -> Option<AssembledAnswer> {
    let parts = Wanted {
        question,
        dnssec_ok: flags & packet_flags::DO != 0,
        checking_disabled: flags & packet_flags::CD != 0,
        translates: true,
        at,
    };
    let assembled = assembler.assemble(&cx.state.plan, &cx.shared.rrsets, &parts, answers);
    let Assembled::Complete { resolved, stale_since_secs } = assembled else { return None };
    let stage = if stale_since_secs.is_some() { Stage::Stale } else { Stage::RrsetHit };
    Some(AssembledAnswer { resolved, stage })
}

/// Assembles an answer to which DNS64 applies: if a name has no IPv6 addresses, they are made from
/// its IPv4 addresses; the reverse name of a made address is an alias.
#[cold]
fn find_translated(
    cx: &QueryContext<'_>,
    dns64: &Dns64,
    memory: &mut Assembly,
    wanted: &LookUp<'_>,
) -> Option<AssembledAnswer> {
    let question = wanted.question;
    if let Some(target) = dns64.reverse(question.qname(), question.qtype()) {
        // The records of this server go before those of the cache, as at the end of each alias.
        if cx.state.plan.is_answered_here(target.folded().view(), question.qtype()) {
            return None;
        }
        let behind = QuestionBuf::new(target.folded().view(), question.qtype(), question.qclass());
        let found = assemble(cx, memory, &LookUp { question: behind.view(), ..*wanted })?;
        let message = &memory.answers.octets[found.resolved.message.clone()];
        let made = translate::alias_to(question, &target, message)?;
        return Some(found.replaced(&made, &mut memory.answers));
    }
    let found = assemble(cx, memory, wanted)?;
    if question.qtype() != Rtype::AAAA {
        return Some(found);
    }
    let message = &memory.answers.octets[found.resolved.message.clone()];
    let ttl_secs = match translate::effect(dns64, found.resolved.rcode, message) {
        Dns64Effect::Unchanged => return Some(found),
        Dns64Effect::Reduced => {
            let message = translate::without_excluded(dns64, message)?;
            return Some(found.replaced(&message, &mut memory.answers));
        }
        Dns64Effect::Translated { ttl_secs } => ttl_secs,
    };
    let for_v4 = QuestionBuf::new(question.qname(), Rtype::A, question.qclass());
    let of_v4 = assemble(cx, memory, &LookUp { question: for_v4.view(), ..*wanted })?;
    let octets = &memory.answers.octets;
    let parts = [&found, &of_v4].map(|part| &octets[part.resolved.message.clone()]);
    let made = translate::from_parts(dns64, parts, ttl_secs);
    let stage = if found.stage == Stage::Stale { Stage::Stale } else { of_v4.stage };
    let lowest_secs = found.resolved.ttl_secs.min(of_v4.resolved.ttl_secs).min(ttl_secs);
    Some(match made {
        Some(made) => {
            let resolved = Resolved { ttl_secs: lowest_secs, ..of_v4.resolved };
            AssembledAnswer { resolved, stage }.replaced(&made, &mut memory.answers)
        }
        None => AssembledAnswer { stage, ..found },
    })
}

impl AssembledAnswer {
    /// Returns this answer with another message, which is added to the answers.
    fn replaced(self, message: &[u8], answers: &mut Answers) -> Self {
        let (start, first_offset) = (answers.octets.len(), answers.ttl_offsets.len());
        answers.octets.extend_from_slice(message);
        answers.ttl_offsets.extend(super::ttl::ttl_offsets(message).0);
        let message = start..answers.octets.len();
        let ttl_offsets = first_offset..answers.ttl_offsets.len();
        Self { resolved: Resolved { message, ttl_offsets, ..self.resolved }, ..self }
    }
}
