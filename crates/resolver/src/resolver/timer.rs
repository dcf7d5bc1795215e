//! The timers of the resolver: handles queries that were not answered in time.

use super::{Context, Resolver};
use crate::action::Action;
use crate::exchange::Silence;
use crate::exchange::encryption::Passage;
use crate::exchange::pending::Owner;
use crate::exchange::send::Weight;
use crate::exchange::timers::Timer;
use crate::trace::Step;

impl<W> Resolver<W> {
    /// Processes all expired timers. Call it at [`Resolver::next_deadline`], or at any convenient
    /// time.
    pub fn tick(&mut self, cx: &mut Context<'_, W>) {
        while let Some(timer) = self.exchanges.timers.expired(cx.now_ms) {
            match timer {
                Timer::Task(at) => self.wake(at, cx),
                Timer::Fetch(at) => self.expire(Owner::Fetch(at), cx),
            }
        }
    }

    fn wake(&mut self, at: u32, cx: &mut Context<'_, W>) {
        self.release_overdue(at, cx);
        if self.exchanges.loss.is_heavy(cx.now_ms) {
            // Under heavy loss, a task without progress may still succeed.
            self.tasks[at].progress_ms = cx.now_ms;
        }
        if cx.now_ms >= self.tasks[at].deadline_ms && !self.tasks[at].extend_deadline(cx.now_ms) {
            return self.fail(at, cx);
        }
        if self.tasks[at].walk.is_some() {
            return self.rearm(Owner::Task(at));
        }
        self.expire(Owner::Task(at), cx);
    }

    /// Continues after queries were not answered in time.
    fn expire(&mut self, owner: Owner, cx: &mut Context<'_, W>) {
        let (now_ms, actions) = (cx.now_ms, &mut *cx.actions);
        let silent = self.with_exchange(owner, |exchanges, exchange, _| {
            exchanges.expire(exchange, now_ms, actions)
        });
        for Silence { server, after_ms, place, passage } in silent.into_iter().flatten() {
            if passage == Passage::PlainAndProbe {
                continue;
            }
            let server = &mut self.exchanges.servers[server];
            match owner {
                Owner::Fetch(_) => self.counters.timeouts += 1,
                _ => server.counters().into_iter().for_each(|counters| counters.timeouts += 1),
            }
            let server = server.endpoint.addr;
            self.record(owner, now_ms, Step::Silent { server, after_ms });
            if passage == Passage::Encrypted {
                self.ask(owner, place, Weight::Counts, cx);
            }
        }
        self.advance(owner, cx);
    }

    /// Answers the clients for which stale data is available (RFC 8767 §5).
    fn release_overdue(&mut self, at: u32, cx: &mut Context<'_, W>) {
        let first_action = cx.actions.list.len();
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
        self.hand_copy_over(at, first_action, cx);
    }

    /// Sets the timer of an owner to the time of its next event.
    pub(super) fn rearm(&mut self, owner: Owner) {
        match owner {
            Owner::Nobody => {}
            Owner::Task(at) => {
                let task = &self.tasks[at];
                let due = self.exchanges.due_ms(&task.exchange).into_iter();
                let overdue = task.waiters.iter().map(|waiting| waiting.overdue_at_ms);
                let at_ms = due.chain(overdue).fold(task.deadline_ms, u64::min);
                self.exchanges.timers.set(Timer::Task(at), at_ms);
            }
            Owner::Fetch(at) => {
                let Some(fetch) = self.fetches.get(at) else { return };
                match self.exchanges.due_ms(&fetch.exchange) {
                    Some(due_ms) => self.exchanges.timers.set(Timer::Fetch(at), due_ms),
                    // The fetch needs no timer: it ends when its waiting tasks reach their
                    // deadlines.
                    None => self.exchanges.timers.clear(Timer::Fetch(at)),
                }
            }
        }
    }
}
