//! What does not come in time.

use super::{Context, Resolver};
use crate::action::Action;
use crate::trace::Step;

impl<W> Resolver<W> {
    /// Does what is due. To be called at [`Resolver::next_deadline`], or whenever it is convenient.
    pub fn tick(&mut self, cx: &mut Context<'_, W>) {
        while let Some(at) = self.wheel.expired(cx.now_ms) {
            self.wake(at, cx);
        }
        while let Some(fetch_at) = self.fetch_wheel.expired(cx.now_ms) {
            self.wake_fetch(fetch_at, cx);
        }
    }

    fn wake(&mut self, at: u32, cx: &mut Context<'_, W>) {
        self.release_overdue(at, cx);
        if self.loss.is_heavy(cx.now_ms) {
            // Then nothing came of it says little.
            self.tasks[at].progress_ms = cx.now_ms;
        }
        if cx.now_ms >= self.tasks[at].deadline_ms && !self.tasks[at].extend_deadline(cx.now_ms) {
            return self.fail(at, cx);
        }
        if self.tasks[at].walk.is_some() {
            return self.rearm(at);
        }
        for place in 0..self.tasks[at].attempts.len() {
            let attempt = &mut self.attempts[self.tasks[at].attempts[place]];
            if attempt.overdue || attempt.due_ms > cx.now_ms {
                continue;
            }
            attempt.overdue = true;
            if attempt.unsent {
                continue;
            }
            let after_ms = cx.now_ms.saturating_sub(attempt.sent_ms) as u32;
            let upstream = &mut self.upstreams[usize::from(attempt.upstream)];
            self.tasks[at].record(cx.now_ms, Step::Silent { server: upstream.spec.addr, after_ms });
            upstream.counters.timeouts += 1;
            upstream.failed(cx.now_ms, attempt.sent_ms);
        }
        self.advance(at, cx);
    }

    /// Lets those go that could have had stale data all along (RFC 8767 §5).
    fn release_overdue(&mut self, at: u32, cx: &mut Context<'_, W>) {
        let waiters = &mut self.tasks[at].waiters;
        let mut place = 0;
        while let Some(waiting) = waiters.get(place) {
            if waiting.overdue_at_ms > cx.now_ms {
                place += 1;
                continue;
            }
            let first = cx.actions.waiters.len();
            cx.actions.waiters.push(waiters.swap_remove(place).waiter);
            cx.actions.list.push(Action::Overdue { waiters: first..first + 1 });
            self.waiters -= 1;
            self.counters.overdue += 1;
        }
    }

    /// Sets the task's timer to what comes next.
    pub(super) fn rearm(&mut self, at: u32) {
        let task = &self.tasks[at];
        let attempts = task.attempts.iter().map(|&attempt| &self.attempts[attempt]);
        let due = attempts.filter(|attempt| !attempt.overdue).map(|attempt| attempt.due_ms);
        let overdue = task.waiters.iter().map(|waiting| waiting.overdue_at_ms);
        self.wheel.set(at, due.chain(overdue).fold(task.deadline_ms, u64::min));
    }
}
