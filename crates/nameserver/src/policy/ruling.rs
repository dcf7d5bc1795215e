//! Verdicts of the policy: an answer, a rewrite and so on, with its validity.

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
    /// The content of the answer.
    pub form: Form<'p>,
    /// TTL in seconds.
    pub ttl_secs: u32,
    /// The reason, as an index into [`Policy::notes`](super::Policy), from 1.
    pub note: u16,
    /// The time for which the answer is valid.
    pub validity: Validity,
    /// The stage of the query path, for metrics.
    pub stage: Stage,
    /// Aliases of the original answer that lead to the matching name; `None` if the QNAME itself
    /// matches. A null pointer costs less to drop than an empty vector.
    pub behind: Option<Box<[Alias]>>,
}

impl<'p> Made<'p> {
    /// Returns this answer as a replacement for the original answer.
    pub(super) fn in_place_of_an_answer(self) -> AnswerRuling<'p> {
        AnswerRuling { note: self.note, verdict: AnswerVerdict::Answer(self) }
    }
}

/// The validity of a verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Validity {
    /// Seconds until the policy may change because a schedule, a pause or a grant begins or ends.
    /// No client may cache an answer for longer.
    pub secs: u32,
    /// Whether the answer is for this query only: a rate limit or a log-only rule must see each
    /// query.
    pub per_query: bool,
}

impl Validity {
    /// The validity of a verdict that never changes.
    pub const ALWAYS: Self = Self { secs: u32::MAX, per_query: false };

    pub(super) fn of(verdict: &Verdict, moment: Moment) -> Self {
        let secs = verdict.valid_until.saturating_sub(moment.wall_secs);
        Self { secs: secs.try_into().unwrap_or(u32::MAX), per_query: verdict.per_query }
    }

    /// Returns the seconds for which this server may cache the answer.
    pub fn kept_secs(self) -> u32 {
        if self.per_query { 0 } else { self.secs }
    }
}

/// The part of the policy that decides on a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decider {
    /// The operator's rules.
    Rule,
    /// Lists, which do not override local records.
    List,
}

/// The verdict on a question, with its reason.
pub struct QuestionRuling<'p> {
    /// The verdict on the question.
    pub verdict: QuestionVerdict<'p>,
    /// The part of the policy that decided.
    pub by: Decider,
    /// The time for which the answer is valid.
    pub validity: Validity,
    /// The deciding rule, list or policy zone, as in [`Made::note`]; zero if there is none.
    pub note: u16,
}

/// The verdict on an answer, with its reason.
pub struct AnswerRuling<'p> {
    /// The verdict on the answer.
    pub verdict: AnswerVerdict<'p>,
    /// The deciding rule, list or policy zone, as in [`QuestionRuling::note`].
    pub note: u16,
}

/// The policy's verdict on a question, before resolution.
pub enum QuestionVerdict<'p> {
    /// Resolve the query normally.
    Pass,
    /// Send this answer.
    Answer(Made<'p>),
    /// Answer with these aliases and the data of their target.
    Rename(Vec<Alias>),
    /// Query these servers.
    Forward(Arc<[SocketAddr]>),
    /// Send no response.
    Drop,
    /// Send an empty response with TC; only for queries over UDP.
    Truncate,
}

/// The policy's verdict on the answer to a question.
pub enum AnswerVerdict<'p> {
    /// Send the answer.
    Pass {
        /// The time for which the verdict is valid.
        validity: Validity,
        /// The lowest and the highest permitted TTL, in seconds, if a rule sets them.
        ttl_secs: Option<(u32, u32)>,
        /// The servers of the rule that now forwards the question. An answer of other servers is
        /// not sent.
        forward: Option<Arc<[SocketAddr]>>,
    },
    /// Send this answer instead of the resolved one.
    Answer(Made<'p>),
    /// Send these aliases and the data of their target instead of the resolved answer.
    Rename(Vec<Alias>),
    /// Send no response.
    Drop,
    /// Send an empty response with TC; only for queries over UDP.
    Truncate,
}

impl<'p> QuestionVerdict<'p> {
    /// Returns this verdict on a question as a verdict on an answer; `None` if the answer may be
    /// sent.
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
