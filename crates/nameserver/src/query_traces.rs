//! The export of traces: decides at the end of a query whether to export its trace.

use super::close::Ended;
use super::query::QueryContext;
use super::query::decision::Decision;
use super::query_log::outcome;
use super::traces::{Candidate, SelectedBy, Selection, TracedQuery};

impl QueryContext<'_> {
    /// Pushes a query that ended to the queue of the worker, if it is selected. `reply_octets` is
    /// the size of its reply, or 0 if there is none.
    pub(crate) fn trace(
        &self,
        selection: &Selection,
        decision: &Decision,
        ended: &Ended<'_>,
        reply_octets: usize,
    ) {
        let scratch = self.scratch.traces();
        let candidate = Candidate {
            outcome: outcome(decision.stage),
            // The time of the turn of the event loop is precise enough: a query that is answered at
            // once takes no time, and a query that waited ends in a later turn.
            took_us: self.now.micros().saturating_sub(ended.since.micros()),
            ip: ended.ip,
            question: ended.question,
        };
        let draw = || scratch.draw(&self.shared.key, self.scratch.worker());
        if let Some(selected_by) = selection.selects(scratch, &candidate, draw) {
            self.push_trace(selection, decision, ended, (reply_octets, selected_by));
        }
    }

    #[cold]
    #[inline(never)]
    fn push_trace(
        &self,
        selection: &Selection,
        decision: &Decision,
        ended: &Ended<'_>,
        (reply_octets, selected_by): (usize, SelectedBy),
    ) {
        let scratch = self.scratch.traces();
        let Some(mut sender) = scratch.sender() else { return };
        if !selection.has_room(scratch, self.now.secs()) {
            return sender.count_limited();
        }
        if ended.trace.is_some_and(|trace| !sender.has_room_for(trace)) {
            return sender.count_dropped();
        }
        let clock = &self.shared.clock;
        let now = if ended.since == self.now { clock.now() } else { self.now };
        sender.push(TracedQuery {
            decision: *decision,
            client: *ended.ip,
            device: ended.device,
            entrance: ended.entrance,
            question: ended.question.into(),
            since_us: clock.wall_micros(ended.since),
            since_ms: ended.since.millis(),
            took_us: now.micros().saturating_sub(ended.since.micros()),
            reply_octets,
            selected_by,
            trace: ended.trace.cloned(),
        });
    }
}
