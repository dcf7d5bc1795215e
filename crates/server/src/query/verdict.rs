//! What the policy says about a question and about an answer, as exits of the path.

use std::net::IpAddr;

use avocet_cache::{PacketKey, PacketMeta};

use super::local::{Alias, LocalQuestion};
use super::respond::Draft;
use super::stored::{self, NOTED};
use super::{Exit, Path, Query, blocked, reply};
use crate::metrics::Stage;
use crate::policy::{AnswerVerdict, Asked, Made, QuestionVerdict};
use crate::query::asked::Transport;

/// What becomes of a question.
pub(super) enum Judgement {
    /// It is answered, or is not to be.
    End(Exit),
    /// It is resolved as another name, this being the alias that leads there.
    Rename(Box<Alias>),
    /// It goes its way; no list is in its way if an allowing rule says so.
    Pass,
}

/// Asks the policy about a question.
pub(super) fn judge(path: &Path<'_>, query: &Query<'_>, out: &mut [u8]) -> Judgement {
    let Some(policy) = &path.state.policy else { return Judgement::Pass };
    let wanted = query.wanted();
    let mut scratch = path.scratch.policy();
    let verdict = policy.question(&wanted.asked(), path.moment(), &mut scratch);
    let note = match &verdict {
        QuestionVerdict::Answer(made) if made.stage != Stage::Limited => made.note,
        _ => 0,
    };
    policy.count_held(path.scratch.worker(), &mut scratch, note);
    drop(scratch);
    match verdict {
        QuestionVerdict::Pass => Judgement::Pass,
        // What this network says about its own names, no list of strangers takes back.
        QuestionVerdict::Answer(made) if made.is_by_list && path.state.local.has(query.key.qname()) => Judgement::Pass,
        QuestionVerdict::Answer(made) => {
            let draft = answer(path, &wanted, &made, out);
            Judgement::End(reply(path, query, (draft, made.stage), out))
        }
        QuestionVerdict::Rename(alias) => Judgement::Rename(alias),
        QuestionVerdict::Drop => Judgement::End(Exit::Silent(Stage::Dropped)),
        QuestionVerdict::Truncate if query.client.transport == Transport::Tcp => Judgement::Pass,
        QuestionVerdict::Truncate => {
            let draft = stored::truncated(query.view.question(), out);
            Judgement::End(reply(path, query, (draft, Stage::Limited), out))
        }
    }
}

/// Asks the policy about an answer.
pub(super) fn judge_answer(path: &Path<'_>, wanted: &Wanted<'_>, message: &[u8], out: &mut [u8]) -> Judged {
    let Some(policy) = &path.state.policy else { return Judged::Holds { secs: u32::MAX, ttl_secs: None } };
    let asked = wanted.asked();
    let has_own_servers = path.state.plan.has_own_rule(asked.qname);
    let mut scratch = path.scratch.policy();
    let verdict = policy.answer((&asked, has_own_servers), message, path.moment(), &mut scratch);
    let note = if let AnswerVerdict::Answer(made) = &verdict { made.note } else { 0 };
    policy.count_held(path.scratch.worker(), &mut scratch, note);
    drop(scratch);
    match verdict {
        AnswerVerdict::Pass { valid_secs, ttl_secs } => Judged::Holds { secs: valid_secs, ttl_secs },
        AnswerVerdict::Answer(made) => Judged::Replaced(answer(path, wanted, &made, out), made.stage),
    }
}

/// What an answer became.
pub(super) enum Judged {
    /// It is given.
    Holds {
        /// Seconds until the policy may say something else.
        secs: u32,
        /// The least and the greatest TTL that it may have.
        ttl_secs: Option<(u32, u32)>,
    },
    /// Another one, which is in the buffer, stands in its place.
    Replaced(Draft, Stage),
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
}

impl<'a> Wanted<'a> {
    fn asked(&self) -> Asked<'a> {
        let LocalQuestion { qname, qtype } = LocalQuestion::of(self.key.question);
        Asked { profile: self.key.profile, ip: self.ip, qname, qtype }
    }
}

/// Keeps TTLs of a message within bounds.
pub(super) fn clamp_ttls(message: &mut [u8], offsets: &[u16], (least, greatest): (u32, u32)) {
    for offset in offsets {
        let field = message.get_mut(usize::from(*offset)..).and_then(|rest| rest.first_chunk_mut());
        if let Some(field) = field {
            *field = u32::from_be_bytes(*field).clamp(least, greatest.max(least)).to_be_bytes();
        }
    }
}

/// Writes an answer that the policy made, and keeps it for the next who asks.
fn answer(path: &Path<'_>, wanted: &Wanted<'_>, made: &Made<'_>, out: &mut [u8]) -> Draft {
    let question = LocalQuestion::of(wanted.key.question);
    let draft = Draft { note: made.note, ..blocked::draft(&question, &made.form, made.ttl_secs, out) };
    let valid_for = made.ttl_secs.min(made.valid_secs);
    if valid_for > 0 {
        let meta = PacketMeta {
            stored_at: path.now.secs(),
            valid_for,
            epoch: path.state.epoch,
            flags: NOTED,
            ede: Some(made.note),
        };
        let mut offsets = [0; blocked::MAX_RECORDS];
        let count = blocked::ttl_offsets(&out[..draft.len], &mut offsets);
        path.shared.packets.insert(wanted.hash, &wanted.key, &out[..draft.len], &offsets[..count], &meta);
    }
    draft
}
