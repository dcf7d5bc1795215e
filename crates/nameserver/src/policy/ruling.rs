//! What the policy says: the answer in place of another, and for how long it holds.

use std::net::SocketAddr;
use std::sync::Arc;

use avocet_policy::rule::Verdict;

use super::Moment;
use crate::query::alias::Alias;
use crate::query::blocked::Form;
use crate::query::decision::Stage;

/// An answer that the policy gives.
#[derive(Clone)]
pub struct Made<'p> {
    /// What it says.
    pub form: Form<'p>,
    /// TTL in seconds.
    pub ttl_secs: u32,
    /// Why, as in [`Policy::notes`](super::Policy), from 1.
    pub note: u16,
    /// How long this is so.
    pub validity: Validity,
    /// What to count.
    pub stage: Stage,
    /// Aliases of the true answer that lead to the name which it is about; none where that is the
    /// qname.
    pub behind: Vec<Alias>,
}

impl<'p> Made<'p> {
    /// This answer in place of another.
    pub(super) fn in_place_of_an_answer(self) -> AnswerRuling<'p> {
        AnswerRuling { note: self.note, verdict: AnswerVerdict::Answer(self) }
    }
}

/// How long a verdict holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// Seconds until the policy may say something else: a schedule, a pause or a grant begins or
    /// ends. No client may keep an answer for longer.
    pub secs: u32,
    /// Whether the answer is for this query alone: a rate limit or a log-only rule wants to see
    /// each.
    pub per_query: bool,
}

impl Validity {
    /// For ever.
    pub const ALWAYS: Self = Self { secs: u32::MAX, per_query: false };

    pub(super) fn of(verdict: &Verdict, moment: Moment) -> Self {
        let secs = verdict.valid_until.saturating_sub(moment.wall_secs);
        Self { secs: secs.try_into().unwrap_or(u32::MAX), per_query: verdict.per_query }
    }

    /// Seconds for which this server may give the same answer again.
    pub fn kept_secs(self) -> u32 {
        if self.per_query { 0 } else { self.secs }
    }
}

/// Who says what becomes of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decider {
    /// The operator's rules.
    Rule,
    /// Lists, which say nothing of what this network says of its own names.
    List,
}

/// What becomes of a question, and why.
pub struct QuestionRuling<'p> {
    /// What becomes of it.
    pub verdict: QuestionVerdict<'p>,
    /// Who says so.
    pub by: Decider,
    /// For how long.
    pub validity: Validity,
    /// The rule, list or policy zone that says so, as in [`Made::note`]; zero if none does.
    pub note: u16,
}

/// What becomes of an answer, and why.
pub struct AnswerRuling<'p> {
    /// What becomes of it.
    pub verdict: AnswerVerdict<'p>,
    /// As [`QuestionRuling::note`].
    pub note: u16,
}

/// What becomes of a question.
pub enum QuestionVerdict<'p> {
    /// It goes its way.
    Pass,
    /// This is the answer.
    Answer(Made<'p>),
    /// The answer is that of another name, to which these aliases lead.
    Rename(Vec<Alias>),
    /// These servers are asked for it.
    Forward(Arc<[SocketAddr]>),
    /// There is none.
    Drop,
    /// An empty one with TC; said of queries over UDP only.
    Truncate,
}

/// What becomes of an answer.
pub enum AnswerVerdict<'p> {
    /// It is given.
    Pass {
        /// How long this is so.
        validity: Validity,
        /// The least and the greatest TTL, where a rule says so.
        ttl_secs: Option<(u32, u32)>,
    },
    /// This is given in its place.
    Answer(Made<'p>),
    /// That of another name is, to which these aliases lead.
    Rename(Vec<Alias>),
    /// Nothing is.
    Drop,
    /// An empty one with TC is; said of queries over UDP only.
    Truncate,
}

impl<'p> QuestionVerdict<'p> {
    /// The same said of an answer; none where it may go its way.
    pub fn in_place_of_an_answer(self) -> Option<AnswerVerdict<'p>> {
        match self {
            Self::Pass | Self::Forward(_) => None,
            Self::Answer(made) => Some(AnswerVerdict::Answer(made)),
            Self::Rename(aliases) => Some(AnswerVerdict::Rename(aliases)),
            Self::Drop => Some(AnswerVerdict::Drop),
            Self::Truncate => Some(AnswerVerdict::Truncate),
        }
    }
}
