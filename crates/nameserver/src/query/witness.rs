//! The record of a rehearsal (a query without side effects): reports from the stages.

use crate::policy::{Outcome, Treatment};

/// The decisions of the policy during a rehearsal.
#[derive(Default)]
pub struct Witness {
    /// The effective verdict.
    said: Option<Outcome>,
    /// The answer from other servers that the policy evaluated.
    judged: Option<Vec<u8>>,
    /// Whether a list has the QNAME but does not take effect, because the QNAME has local records.
    is_overruled: bool,
}

impl Witness {
    /// Records a verdict. A verdict that allows the question or the answer does not replace an
    /// earlier verdict: a forwarded query remains forwarded.
    pub(super) fn of_policy(&mut self, said: Outcome) {
        if said.treatment != Treatment::Pass || self.said.is_none() {
            self.said = Some(said);
        }
    }

    /// Records the answer that the policy is about to evaluate.
    pub(super) fn of_answer(&mut self, message: &[u8]) {
        self.judged = Some(message.to_vec());
    }

    /// Records that a list has no effect because the name has local records.
    pub(super) fn overruled_by_own_record(&mut self) {
        (self.said, self.is_overruled) = (Some(Outcome::passes()), true);
    }

    /// Returns the policy's verdict, if the policy was evaluated.
    pub fn said(&self) -> Option<&Outcome> {
        self.said.as_ref()
    }

    /// Returns the answer that the policy evaluated; `None` if it evaluated only the question.
    pub fn judged(&self) -> Option<&[u8]> {
        self.judged.as_deref()
    }

    /// Returns whether a list has the QNAME but local records take precedence.
    pub fn is_overruled(&self) -> bool {
        self.is_overruled
    }
}
