//! The traces of failed questions: one per question, and a bounded number.

use std::collections::VecDeque;

use super::Trace;

/// Maximum number of traces in one resolver; with 256 steps of about 80 octets they take at most
/// 1.3 MB.
pub(crate) const MAX_KEPT: usize = 64;

/// The kept traces, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    traces: VecDeque<Trace>,
}

impl Kept {
    /// Stores a trace, replacing an earlier one of the same question or, if there is no room, the
    /// oldest. Returns the replaced trace for the reuse of its memory.
    pub(crate) fn keep(&mut self, mut trace: Trace) -> Trace {
        trace.events.shrink_to_fit();
        let same = self.traces.iter().position(|other| other.question == trace.question);
        let gone = match same {
            Some(at) => self.traces.remove(at),
            None if self.traces.len() >= MAX_KEPT => self.traces.pop_front(),
            None => None,
        };
        self.traces.push_back(trace);
        gone.unwrap_or_default()
    }

    /// Returns the traces, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Trace> {
        self.traces.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_wire::{Class, FoldedName, QuestionBuf, Rtype};

    fn trace(number: u16) -> Trace {
        let mut trace = Trace::default();
        let question = QuestionBuf::new(FoldedName::ROOT, Rtype(number), Class::IN);
        trace.label(question.view(), 0);
        trace
    }

    #[test]
    fn the_last_trace_of_each_of_the_last_questions_is_kept() {
        let mut kept = Kept::default();
        for number in 0..MAX_KEPT as u16 + 2 {
            kept.keep(trace(number));
        }
        // Storing the trace for the second of these questions again makes it the latest.
        kept.keep(trace(3));
        let numbers: Vec<u16> =
            kept.iter().filter_map(|trace| Some(trace.question()?.qtype().0)).collect();
        assert_eq!(
            (numbers.len(), numbers[0], numbers[1], numbers[MAX_KEPT - 1]),
            (MAX_KEPT, 2, 4, 3)
        );
    }
}
