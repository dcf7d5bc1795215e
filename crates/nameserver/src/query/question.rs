//! Questions on the query path: waiting questions, and questions for this server's own names.

use avocet_wire::{FoldedName, Question, Rtype};

use super::octets::Octets;

/// A question that waits for its answer.
#[derive(Clone, Debug)]
pub struct WaitingQuestion(Octets);

impl WaitingQuestion {
    /// Returns the question as a view.
    #[inline]
    pub fn view(&self) -> Question<'_> {
        Question::from_folded_unchecked(&self.0)
    }
}

impl From<Question<'_>> for WaitingQuestion {
    #[inline]
    fn from(question: Question<'_>) -> Self {
        Self(Octets::new(question.octets()))
    }
}

/// A question of class IN, in the form for local records and special-use names.
#[derive(Clone, Copy)]
pub struct LocalQuestion<'a> {
    /// QNAME.
    pub qname: FoldedName<'a>,
    /// QTYPE.
    pub qtype: Rtype,
    /// The number of positions by which addresses are rotated: the message ID if a client sent the
    /// question.
    pub turn: u16,
}

impl<'a> From<Question<'a>> for LocalQuestion<'a> {
    fn from(question: Question<'a>) -> Self {
        Self { qname: question.qname(), qtype: question.qtype(), turn: 0 }
    }
}
