//! The traces of recently failed questions: at most one for each question, and a limited number in
//! total.

use std::collections::VecDeque;

use super::Trace;

/// Maximum number of traces that a resolver keeps. A trace has at most 256 steps of about 80
/// octets, so the traces take at most 1.3 MB.
pub(crate) const MAX_KEPT: usize = 64;

/// The traces that are kept. The latest trace is last.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    traces: VecDeque<Trace>,
}

impl Kept {
    /// Keeps a trace. It replaces an earlier trace of the same question or, if there is no room,
    /// the oldest trace. Returns the replaced trace, so that its memory can be reused.
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
        // Keeping a trace for the second of these questions again makes it the latest.
        kept.keep(trace(3));
        let numbers: Vec<u16> =
            kept.iter().filter_map(|trace| Some(trace.question()?.qtype().0)).collect();
        assert_eq!(
            (numbers.len(), numbers[0], numbers[1], numbers[MAX_KEPT - 1]),
            (MAX_KEPT, 2, 4, 3)
        );
    }
}
