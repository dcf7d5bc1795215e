//! What the stages tell of a query that is only looked at.

use crate::policy::{Outcome, Treatment};

/// What the policy said in the course of a rehearsal.
#[derive(Default)]
pub struct Witness {
    /// The verdict that counts.
    said: Option<Outcome>,
    /// The answer that the policy judged, as the servers gave it.
    judged: Option<Vec<u8>>,
    /// Whether a list has named the question in vain, as the name is one of the local records.
    is_overruled: bool,
}

impl Witness {
    /// Notes a verdict. One that lets the question or the answer pass does not undo one before it:
    /// a query that a rule forwards stays forwarded.
    pub(super) fn of_policy(&mut self, said: Outcome) {
        if said.treatment != Treatment::Pass || self.said.is_none() {
            self.said = Some(said);
        }
    }

    /// Notes the answer that is about to be judged.
    pub(super) fn of_answer(&mut self, message: &[u8]) {
        self.judged = Some(message.to_vec());
    }

    /// Notes that a list does not count, as the name has records of its own.
    pub(super) fn overruled_by_own_record(&mut self) {
        (self.said, self.is_overruled) = (Some(Outcome::passes()), true);
    }

    /// The policy's verdict; none where the policy was not asked.
    pub fn said(&self) -> Option<&Outcome> {
        self.said.as_ref()
    }

    /// The answer that the policy judged; none where it judged the question only.
    pub fn judged(&self) -> Option<&[u8]> {
        self.judged.as_deref()
    }

    /// Whether a list names the question, and the local records go before it.
    pub fn is_overruled(&self) -> bool {
        self.is_overruled
    }
}
