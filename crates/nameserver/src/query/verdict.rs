//! What the policy says about a question and about an answer, as exits of the path.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use avocet_cache::{PacketKey, PacketMeta};
use avocet_resolver::NameServers;
use avocet_wire::Rcode;

use super::alias::{Alias, End, write_behind};
use super::decision::Stage;
use super::question::LocalQuestion;
use super::respond::{Draft, draft_empty};
use super::stored::{self, NOTED, REWRITTEN};
use super::ttl::{Terms, cut_ttls};
use super::{Exit, Path, Query, blocked, reply};
use crate::policy::{AnswerVerdict, Answered, Asked, Decider, Made, QuestionVerdict, Validity};
use crate::query::asked::Transport;

/// What becomes of a question.
pub(super) enum Judgement {
    /// It is answered, or is not to be.
    End(Exit),
    /// It is resolved as another name, to which these aliases lead.
    Rename(Vec<Alias>),
    /// It is put to these servers, and to no cache that others have too.
    Forward(Arc<[SocketAddr]>),
    /// It goes its way; no list is in its way if an allowing rule says so.
    Pass(Validity),
}

/// Asks the policy about a question.
pub(super) fn judge(path: &Path<'_>, query: &Query<'_>, out: &mut [u8]) -> Judgement {
    let Some(policy) = &path.state.policy else { return Judgement::Pass(Validity::ALWAYS) };
    let wanted = query.wanted(path);
    if policy.wants_names()
        && let Some(callers) = path.shared.callers.get(path.scratch.worker())
    {
        callers.note(wanted.ip);
    }
    let mut scratch = path.scratch.policy();
    let (verdict, decider, validity) =
        policy.question(&wanted.asked(), path.moment(), &mut scratch);
    let says_nothing = matches!(verdict, QuestionVerdict::Pass);
    // What this network says about its own names, no list of strangers takes back.
    let is_own =
        !says_nothing && decider == Decider::List && path.state.local.has(query.key.qname());
    let note = match &verdict {
        QuestionVerdict::Answer(made) if made.stage != Stage::Limited && !is_own => made.note,
        _ => 0,
    };
    path.scratch.tell(|witness| match is_own {
        true => witness.overruled_by_own_record(),
        false => witness.of_policy(policy.said_of_question(&verdict, &scratch)),
    });
    if is_own {
        scratch.forget_list();
    }
    policy.count_held(path.scratch.worker(), &mut scratch, note);
    drop(scratch);
    if says_nothing || is_own {
        return Judgement::Pass(validity);
    }
    match verdict {
        QuestionVerdict::Pass => Judgement::Pass(validity),
        QuestionVerdict::Answer(made) => {
            let draft = answer(path, &wanted, &made, out);
            Judgement::End(reply(path, query, (draft, made.stage), out))
        }
        QuestionVerdict::Rename(aliases) => Judgement::Rename(aliases),
        QuestionVerdict::Forward(servers) => Judgement::Forward(servers),
        QuestionVerdict::Drop => Judgement::End(Exit::Silent(Stage::Dropped)),
        QuestionVerdict::Truncate => {
            let draft = stored::sent_to_tcp(query.view.question(), out);
            Judgement::End(reply(path, query, (draft, Stage::Limited), out))
        }
    }
}

/// Asks the policy about an answer.
pub(super) fn judge_answer(
    path: &Path<'_>,
    wanted: &Wanted<'_>,
    message: &[u8],
    out: &mut [u8],
) -> Judged {
    let Some(policy) = &path.state.policy else { return Judged::Holds(Terms::FREE) };
    let asked = wanted.asked();
    let answered = Answered {
        message,
        has_own_servers: path.state.plan.has_own_rule(asked.qname),
        translation: path.state.plan.translation(),
        servers: |name: &[u8]| {
            NameServers::above((&path.state.plan, &path.shared.rrsets), name, path.now.secs())
        },
    };
    let mut scratch = path.scratch.policy();
    let verdict = policy.answer(&asked, &answered, path.moment(), &mut scratch);
    let note = if let AnswerVerdict::Answer(made) = &verdict { made.note } else { 0 };
    path.scratch.tell(|witness| {
        witness.of_answer(message);
        witness.of_policy(policy.said_of_answer(&verdict, &scratch));
    });
    policy.count_held(path.scratch.worker(), &mut scratch, note);
    drop(scratch);
    carry_out(path, wanted, verdict, out)
}

/// Asks the policy about a question that was not resolved; none if it has nothing to say.
pub(super) fn judge_failure(
    path: &Path<'_>,
    wanted: &Wanted<'_>,
    out: &mut [u8],
) -> Option<Judged> {
    let policy = path.state.policy.as_ref()?;
    let mut scratch = path.scratch.policy();
    let verdict = policy.without_answer(&wanted.asked(), path.moment(), &mut scratch)?;
    path.scratch.tell(|witness| witness.of_policy(policy.said_of_question(&verdict, &scratch)));
    policy.count_held(path.scratch.worker(), &mut scratch, 0);
    drop(scratch);
    Some(carry_out(path, wanted, verdict.in_place_of_an_answer()?, out))
}

fn carry_out(
    path: &Path<'_>,
    wanted: &Wanted<'_>,
    verdict: AnswerVerdict<'_>,
    out: &mut [u8],
) -> Judged {
    match verdict {
        AnswerVerdict::Pass { validity, ttl_secs } => Judged::Holds(Terms::of(validity, ttl_secs)),
        AnswerVerdict::Answer(made) => {
            Judged::Replaced(answer(path, wanted, &made, out), made.stage)
        }
        AnswerVerdict::Rename(aliases) => Judged::Renamed(aliases),
        AnswerVerdict::Drop => Judged::Dropped,
        AnswerVerdict::Truncate => {
            Judged::Replaced(stored::sent_to_tcp(wanted.key.question, out), Stage::Limited)
        }
    }
}

/// What an answer became.
pub(super) enum Judged {
    /// It is given, on these terms.
    Holds(Terms),
    /// Another one, which is in the buffer, stands in its place.
    Replaced(Draft, Stage),
    /// That of another name, to which these aliases lead, stands in its place.
    Renamed(Vec<Alias>),
    /// Nothing does.
    Dropped,
}

/// Whose answer is wanted, and where it is kept.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    /// Key in the packet cache, the client's profile in it.
    pub(super) key: PacketKey<'a>,
    /// Its hash.
    pub(super) hash: u64,
    /// The client's address.
    pub(super) ip: IpAddr,
    /// How he asks.
    pub(super) transport: Transport,
    /// What the answer is for.
    pub(super) purpose: Purpose,
    /// The epoch of the policy that let the question through.
    pub(super) epoch: u32,
}

/// What an answer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// For who asked for it: the policy judges it, and it is kept for him.
    Itself,
    /// For who asked for it, of servers that a rule has put it to: no other word is as good.
    ByRule,
    /// For the end of aliases that the policy or this network has put there: that is not judged
    /// again.
    BehindAliases,
}

impl<'a> Wanted<'a> {
    /// Whether the answer may be kept: the policy and the records that let the question through are
    /// still in force.
    pub(super) fn is_current(&self, path: &Path<'_>) -> bool {
        self.epoch == path.state.epoch
    }

    fn asked(&self) -> Asked<'a> {
        let LocalQuestion { qname, qtype, .. } = LocalQuestion::of(self.key.question);
        Asked { profile: self.key.profile, ip: self.ip, transport: self.transport, qname, qtype }
    }
}

/// Writes an answer that the policy made, and keeps it for the next who asks.
fn answer(path: &Path<'_>, wanted: &Wanted<'_>, made: &Made<'_>, out: &mut [u8]) -> Draft {
    let question = LocalQuestion::of(wanted.key.question);
    let draft = match made.behind.last() {
        None => blocked::draft(&question, &made.form, made.ttl_secs, out),
        Some(last) => {
            behind(wanted, made, &LocalQuestion { qname: last.target.wire(), ..question }, out)
        }
    };
    let draft = Draft { note: made.note, ..draft };
    let valid_for = made.ttl_secs.min(made.validity.kept_secs());
    if valid_for == 0 && made.validity.secs == u32::MAX {
        return draft;
    }
    let mut offsets = [0; blocked::MAX_RECORDS];
    let count = blocked::ttl_offsets(&out[..draft.len], &mut offsets);
    // Records of a policy zone, and the aliases before them, have TTLs of their own.
    cut_ttls(&mut out[..draft.len], &offsets[..count], made.validity.secs);
    if valid_for > 0 && wanted.is_current(path) {
        let meta = PacketMeta {
            stored_at: path.now.secs(),
            valid_for,
            epoch: path.state.epoch,
            flags: if made.stage == Stage::Rewritten { NOTED | REWRITTEN } else { NOTED },
            ede: Some(made.note),
        };
        path.keep_packet((wanted.hash, &wanted.key), (&out[..draft.len], &offsets[..count]), &meta);
    }
    draft
}

/// What the policy says of a name that aliases of the true answer lead to, with these before it.
#[cold]
fn behind(wanted: &Wanted<'_>, made: &Made<'_>, end: &LocalQuestion<'_>, out: &mut [u8]) -> Draft {
    let draft = blocked::draft(end, &made.form, made.ttl_secs, out);
    let message = out[..draft.len].to_vec();
    let end = End { message: &message, draft: Draft { ede: None, ..draft } };
    write_behind(&made.behind, &end, wanted.key.question, out)
        .unwrap_or_else(|| draft_empty(out, Some(wanted.key.question), Rcode::SERVFAIL))
}
