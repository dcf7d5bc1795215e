//! Changes of the policy while a query waits for an answer of other servers.

use std::net::SocketAddr;
use std::sync::Arc;

use avocet_policy::rule::{Action, Verdict};

use super::ruling::{AnswerRuling, QuestionRuling, Validity};
use super::{Asked, Moment, Policy, Scratch};

impl Policy {
    /// Decides by lists on the question of a query that has waited. Lists may have come into force
    /// since, and what kept them from deciding may have ended: a rule, a pause or a grant. Without
    /// such a change, this function is not called. `before` is the verdict of the rules on the
    /// question.
    #[cold]
    pub(super) fn by_lists_begun(
        &self,
        asked: &Asked<'_>,
        (before, moment): (&Verdict, Moment),
        scratch: &mut Scratch,
    ) -> Option<AnswerRuling<'_>> {
        if before.decided.is_some() || before.lifted.is_some() {
            return None;
        }
        let QuestionRuling { verdict, note, .. } =
            self.ruling_of_lists(asked, Validity::of(before, moment), scratch);
        Some(AnswerRuling { verdict: verdict.in_place_of_an_answer()?, note })
    }

    /// Returns the servers to which the deciding rule forwards the question.
    pub(super) fn servers_of(&self, verdict: &Verdict) -> Option<Arc<[SocketAddr]>> {
        match &self.program.rule(verdict.decided?)?.action {
            Action::Forward(servers) => Some(servers.clone()),
            _ => None,
        }
    }
}

impl Scratch {
    /// Removes the matches that are not counted yet, because the question is resolved again.
    pub(crate) fn forget_matches(&mut self) {
        self.held.clear();
    }
}
