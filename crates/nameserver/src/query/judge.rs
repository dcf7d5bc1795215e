//! The stage of the policy: evaluates a question, an answer, or a question without an answer.
//!
//! This stage returns a [`Finding`] to the path. With [`Finding::Pass`], the path continues with
//! the question or the answer.

use avocet_resolver::NameServers;
use avocet_wire::header::Header;
use avocet_wire::view::{MessageView, RecordSection};
use avocet_wire::{FoldedName, Rcode};

use super::alias::{Alias, End, write_behind};
use super::blocked;
use super::context::{Query, QueryContext};
use super::decision::Stage;
use super::finding::{Basis, Finding, Lifetime, Obtained, Offer};
use super::question::LocalQuestion;
use super::respond::{Draft, draft_empty, sent_to_tcp};
use super::translate;
use super::ttl::{Terms, cut_ttls};
use crate::policy::{
    AnswerVerdict, Answered, Decider, Made, QuestionRuling, QuestionVerdict, Validity,
    has_service_target,
};

/// Evaluates the policy on a question.
pub(super) fn question(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> Finding {
    let Some(policy) = &cx.state.policy else {
        return Finding::Pass(Terms::of(Validity::ALWAYS, None, query.note));
    };
    if policy.wants_names()
        && let Some(callers) = cx.shared.callers.get(cx.scratch.worker())
    {
        callers.note(query.ip());
    }
    let mut scratch = cx.scratch.policy();
    let ruling = policy.question(&query.for_policy(), cx.moment(), &mut scratch);
    // The verdict is not moved out of the ruling, because a move would copy it for each question.
    let QuestionRuling { by, validity, note, .. } = ruling;
    let says_nothing = matches!(ruling.verdict, QuestionVerdict::Pass);
    // Lists do not override the names for which the operator has configured local records.
    let is_own =
        !says_nothing && by == Decider::List && cx.state.names.local.has(query.key.qname());
    cx.scratch.tell(|witness| match is_own {
        true => witness.overruled_by_own_record(),
        false => witness.of_policy(policy.said_of_question(&ruling.verdict, note)),
    });
    if is_own {
        scratch.forget_list();
    }
    let told = match &ruling.verdict {
        QuestionVerdict::Answer(made) if made.stage != Stage::Limited && !is_own => note,
        _ => 0,
    };
    policy.count_held(cx.scratch.worker(), &mut scratch, told);
    drop(scratch);
    if is_own {
        return Finding::Pass(Terms::of(validity, None, 0));
    }
    match ruling.verdict {
        QuestionVerdict::Pass => Finding::Pass(Terms::of(validity, None, note).allowed_by(by)),
        QuestionVerdict::Answer(made) => Finding::Answer(answer_of(cx, query, &made, out)),
        QuestionVerdict::Rename(aliases) => Finding::Aliases { aliases, note },
        QuestionVerdict::Forward(servers) => Finding::Forward { servers, note },
        QuestionVerdict::Drop => Finding::Silence { note },
        QuestionVerdict::Truncate => {
            Finding::Answer(truncated(query.question(), out).decided_by(note))
        }
    }
}

/// Evaluates the policy on an answer of other servers. If a rule on the servers of the question
/// began or ended while the query waited, the question must be resolved again.
pub(super) fn answer(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    message: &[u8],
    out: &mut [u8],
) -> Finding {
    let Some(policy) = &cx.state.policy else { return Finding::Pass(Terms::FREE) };
    let asked = query.for_policy();
    let answered = Answered {
        message,
        has_own_servers: cx.state.plan.has_own_rule(asked.qname),
        has_local_target: policy.blocks_private()
            && has_service_target(message, asked.qtype, |name| {
                cx.state.is_of_this_network(name, query.profile)
            }),
        lists_may_have_begun: query.has_waited()
            && !query.is_allowed_by_lists(cx)
            && !cx.state.names.local.has(asked.qname),
        translation: cx.state.plan.translation(),
        servers: |name: FoldedName<'_>| {
            NameServers::above((&cx.state.plan, &cx.shared.rrsets), name, cx.now.secs())
        },
    };
    let mut scratch = cx.scratch.policy();
    let ruling = policy.answer(&asked, &answered, cx.moment(), &mut scratch);
    let told = if let AnswerVerdict::Answer(_) = &ruling.verdict { ruling.note } else { 0 };
    if let AnswerVerdict::Pass { forward, .. } = &ruling.verdict
        && query.has_waited()
        && !query.is_forwarded_to(forward.as_deref())
    {
        scratch.forget_matches();
        let note = ruling.note;
        return match forward.clone() {
            Some(servers) => Finding::Forward { servers, note },
            None => Finding::Nothing,
        };
    }
    cx.scratch.tell(|witness| {
        witness.of_answer(message);
        witness.of_policy(policy.said_of_answer(&ruling.verdict, ruling.note));
    });
    policy.count_held(cx.scratch.worker(), &mut scratch, told);
    drop(scratch);
    in_place_of_an_answer(cx, query, (ruling.verdict, ruling.note), out)
}

/// Evaluates the policy on a question that could not be resolved.
pub(super) fn failure(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> Finding {
    let Some(policy) = &cx.state.policy else { return Finding::Nothing };
    let mut scratch = cx.scratch.policy();
    let verdict = policy.without_answer(&query.for_policy(), cx.moment(), &mut scratch);
    let Some(verdict) = verdict else { return Finding::Nothing };
    let note = scratch.note_of(&verdict);
    cx.scratch.tell(|witness| witness.of_policy(policy.said_of_question(&verdict, note)));
    policy.count_held(cx.scratch.worker(), &mut scratch, 0);
    drop(scratch);
    match verdict.in_place_of_an_answer() {
        Some(verdict) => in_place_of_an_answer(cx, query, (verdict, note), out),
        None => Finding::Nothing,
    }
}

/// The part of a message that the policy evaluates.
pub(super) struct JudgedPart {
    /// The message without its additional section.
    message: Vec<u8>,
    /// Offsets of the message's TTL fields.
    ttl_offsets: Vec<u16>,
}

impl JudgedPart {
    /// Returns an answer with this part in place of its message.
    pub(super) fn of<'a>(&'a self, obtained: &Obtained<'a>) -> Obtained<'a> {
        Obtained { message: &self.message, ttl_offsets: &self.ttl_offsets, ..*obtained }
    }
}

/// Removes the additional records of a message; returns `None` if the message has no such records.
///
/// The policy evaluates the names and addresses of the question and of its answer. Additional
/// addresses belong to other names, for which the client did not ask.
pub(super) fn judged_part(obtained: &Obtained<'_>) -> Option<JudgedPart> {
    let mut header = Header::read(obtained.message).filter(|header| header.counts[3] > 0)?;
    header.counts[3] = 0;
    let records = MessageView::new(obtained.message).ok()?.records().ok()?.map_while(Result::ok);
    let (mut end, mut ttl_offsets) = (obtained.message.len(), Vec::new());
    for record in records {
        if record.section == RecordSection::Additional {
            end = record.offset();
            break;
        }
        ttl_offsets.push(record.ttl_offset() as u16);
    }
    let mut message = obtained.message[..end].to_vec();
    header.write(message.first_chunk_mut()?);
    Some(JudgedPart { message, ttl_offsets })
}

fn in_place_of_an_answer(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    (verdict, note): (AnswerVerdict<'_>, u16),
    out: &mut [u8],
) -> Finding {
    match verdict {
        AnswerVerdict::Pass { validity, ttl_secs, forward: _ } => {
            Finding::Pass(Terms::of(validity, ttl_secs, note))
        }
        AnswerVerdict::Answer(made) => {
            let offer = answer_of(cx, query, &made, out);
            let is_of_profile = !made.validity.per_query;
            Finding::Answer(Offer { basis: Basis::Answer, is_of_profile, ..offer })
        }
        AnswerVerdict::Rename(aliases) => Finding::Aliases { aliases, note },
        AnswerVerdict::Drop => Finding::Silence { note },
        AnswerVerdict::Truncate => {
            Finding::Answer(truncated(query.key.question().octets(), out).decided_by(note))
        }
    }
}

fn truncated(question: &[u8], out: &mut [u8]) -> Offer {
    Offer::made(Stage::Limited, sent_to_tcp(question, out))
}

/// Writes an answer of the policy. DNS64 applies to addresses to which a rule or list redirects.
fn answer_of(cx: &QueryContext<'_>, query: &Query<'_>, made: &Made<'_>, out: &mut [u8]) -> Offer {
    let draft = match made.stage {
        Stage::Rewritten => rewritten(cx, query, made, out),
        _ => draft_of(query, made, out),
    };
    if made.validity.secs < u32::MAX {
        // Records of a policy zone, and the aliases before them, have individual TTLs.
        let mut offsets = [0; blocked::MAX_BLOCK_RECORDS];
        let count = blocked::ttl_offsets(&out[..draft.len], &mut offsets);
        cut_ttls(&mut out[..draft.len], &offsets[..count], made.validity.secs);
    }
    let valid_for = std::num::NonZeroU32::new(made.ttl_secs.min(made.validity.kept_secs()));
    let lifetime = valid_for.map_or(Lifetime::Unkept, Lifetime::Counting);
    let basis = translate::basis(query.qtype());
    Offer { lifetime, basis, ..Offer::made(made.stage, Draft { note: made.note, ..draft }) }
}

/// Writes the records of a redirection, to which DNS64 applies.
fn rewritten(cx: &QueryContext<'_>, query: &Query<'_>, made: &Made<'_>, out: &mut [u8]) -> Draft {
    let finding = translate::answer(cx, query, out, |query, out| {
        Finding::Answer(Offer::made(made.stage, draft_of(query, made, out)))
    });
    match finding {
        Finding::Answer(offer) => offer.draft,
        _ => draft_of(query, made, out),
    }
}

/// Writes the records of an answer of the policy to the question in the key of the query.
fn draft_of(query: &Query<'_>, made: &Made<'_>, out: &mut [u8]) -> Draft {
    let question = LocalQuestion::from(query.key.question());
    match made.behind.as_deref() {
        Some(aliases @ [.., last]) => {
            let target = last.target.folded();
            let end = LocalQuestion { qname: target.view(), ..question };
            behind(query, (made, aliases), &end, out)
        }
        _ => blocked::draft(&question, &made.form, made.ttl_secs, out),
    }
}

/// Writes an answer of the policy for a name to which the aliases of the original answer lead. The
/// answer comes after these aliases.
#[cold]
fn behind(
    query: &Query<'_>,
    (made, aliases): (&Made<'_>, &[Alias]),
    end: &LocalQuestion<'_>,
    out: &mut [u8],
) -> Draft {
    let draft = blocked::draft(end, &made.form, made.ttl_secs, out);
    let message = out[..draft.len].to_vec();
    let end = End { message: &message, draft: Draft { ede: None, ..draft } };
    let question = query.key.question();
    write_behind(aliases, &end, question.octets(), out)
        .unwrap_or_else(|| draft_empty(out, Some(question.octets()), Rcode::SERVFAIL))
}
