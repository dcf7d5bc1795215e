//! Traces show how questions were resolved, step by step. Each step is recorded when it happens; no
//! trace is reconstructed later.
//!
//! ```text
//! walk ──────┐                       ┌── asked for by the operator: handed over with the answer
//! fetches ───┼──> Trace of a task ───┼── the question failed: kept, in place of the oldest
//!            │                       ├── the driver exports traces: handed over with the action
//! forwarding ┘                       └── else: its memory serves the next question
//! ```
//! Every question has a trace, because it is not known in advance which questions will fail. To
//! record a step, it is pushed to memory that is reused. Names are shared and not copied.

mod kept;
mod step;

use std::fmt;

use avocet_wire::{Question, QuestionBuf, Rtype};

use crate::iterate::rrset::Name;

pub(crate) use kept::Kept;
pub use step::{Find, Reaction, Step, Taken, Why};

/// Maximum number of steps of one trace. A question that reaches all its limits takes about this
/// number.
pub(crate) const MAX_STEPS: usize = 256;

/// A step with its time and depth. The steps of a subordinate question are one level deeper than
/// the question's own steps.
#[derive(Clone, Debug)]
pub struct Event {
    /// The time in ms since the start of the question.
    pub at_ms: u32,
    /// The nesting depth of the step; 0 for steps of the question itself.
    pub depth: u8,
    /// The step.
    pub step: Step,
}

/// The steps of one question.
#[derive(Clone, Default)]
pub struct Trace {
    began_ms: u64,
    now_ms: u64,
    depth: u8,
    events: Vec<Event>,
    dropped: u32,
    /// The question. It is only set if the trace is kept longer than its task.
    question: Option<QuestionBuf>,
    began_wall_secs: u64,
}

impl Trace {
    /// Clears the trace for a new question.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        self.events.clear();
        self.question = None;
        (self.began_ms, self.now_ms, self.depth, self.dropped) = (now_ms, now_ms, 0, 0);
    }

    /// Sets the time of the following steps.
    pub(crate) fn turn_to(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Records a step with this time.
    #[inline]
    pub(crate) fn record_at(&mut self, now_ms: u64, step: Step) {
        self.turn_to(now_ms);
        self.record(step);
    }

    /// Records a step. If the trace already has [`MAX_STEPS`] steps, only counts it.
    #[inline]
    pub(crate) fn record(&mut self, step: Step) {
        if self.events.len() >= MAX_STEPS {
            self.dropped += 1;
            return;
        }
        let at_ms = self.now_ms.saturating_sub(self.began_ms) as u32;
        self.events.push(Event { at_ms, depth: self.depth, step });
    }

    /// Records the last step of a question, like [`Trace::record`], but never omits it.
    pub(crate) fn conclude(&mut self, step: Step) {
        self.depth = 0;
        if self.events.len() >= MAX_STEPS {
            self.events.pop();
            self.dropped += 1;
        }
        self.record(step);
    }

    /// Makes the following steps part of resolving this name, until [`Trace::leave`].
    pub(crate) fn enter(&mut self, why: Why, name: &Name, rtype: Rtype) {
        self.record(Step::Seek { why, name: name.clone(), rtype });
        self.depth = self.depth.saturating_add(1);
    }

    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }

    /// Sets the question and the wall time, because the trace is kept longer than its task.
    pub(crate) fn label(&mut self, question: Question<'_>, now_wall_secs: u64) {
        self.question = Some(question.into());
        self.began_wall_secs =
            now_wall_secs.saturating_sub(self.now_ms.saturating_sub(self.began_ms) / 1000);
    }

    /// Returns the steps in order.
    #[must_use]
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Returns the number of steps that were omitted because of the limit.
    #[must_use]
    pub fn dropped(&self) -> u32 {
        self.dropped
    }

    /// Returns the question; `None` if the task still has the trace.
    #[must_use]
    pub fn question(&self) -> Option<Question<'_>> {
        self.question.as_ref().map(QuestionBuf::view)
    }

    /// Returns the time at which the question started, in seconds since 1970.
    #[must_use]
    pub fn began_wall_secs(&self) -> u64 {
        self.began_wall_secs
    }

    /// Returns the time at which the question started, in ms on the clock of the caller.
    #[must_use]
    pub fn began_ms(&self) -> u64 {
        self.began_ms
    }

    /// Returns the duration of the resolution, in ms.
    #[must_use]
    pub fn took_ms(&self) -> u64 {
        self.now_ms.saturating_sub(self.began_ms)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("events", &self.events.len()).finish_non_exhaustive()
    }
}

/// A trace that was requested, with the answer to its question.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The identifier of the request: see
    /// [`Resolver::submit_traced`](crate::Resolver::submit_traced).
    pub number: u64,
    /// The trace.
    pub trace: Trace,
    /// The answer as a message with ID 0 and without OPT; empty if there is none.
    pub answer: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_bounded_and_its_end_is_told_all_the_same() {
        let mut trace = Trace::default();
        trace.begin(1_000);
        trace.turn_to(1_250);
        for _ in 0..MAX_STEPS + 10 {
            trace.record(Step::Joined);
        }
        trace.conclude(Step::Limit("steps"));
        assert_eq!((trace.events().len(), trace.dropped(), trace.took_ms()), (MAX_STEPS, 11, 250));
        assert!(matches!(
            trace.events().last(),
            Some(Event { at_ms: 250, depth: 0, step: Step::Limit("steps") })
        ));
    }

    #[test]
    fn what_serves_something_else_is_one_deeper() {
        let mut trace = Trace::default();
        trace.begin(0);
        trace.enter(Why::Servers, &avocet_wire::FoldedName::ROOT.into(), Rtype::A);
        trace.record(Step::Joined);
        trace.leave();
        trace.record(Step::Joined);
        let depths: Vec<u8> = trace.events().iter().map(|event| event.depth).collect();
        assert_eq!(depths, [0, 1, 0]);
    }
}
