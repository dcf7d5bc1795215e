//! Error reports to the agents that the servers of a zone announce (RFC 9567). A report is a query
//! whose name states the error.
//!
//! A report never causes another: failures of names that begin like reports are not reported. The
//! result of a report is cached, so that the same error is not reported again during its TTL.

use crate::report::Report;
use avocet_cache::FailureKey;
use avocet_wire::{Class, QuestionBuf, Rtype};

use super::{Context, Resolver};
use crate::iterate::rrset::{self, Name, Side};
use crate::plan::Route;
use crate::task::Key;

/// Maximum number of reports in [`WINDOW_MS`], per resolver.
const MAX_REPORTS: u32 = 20;
/// The time in ms to which [`MAX_REPORTS`] applies.
const WINDOW_MS: u64 = 60_000;

/// The reports of the current period of [`WINDOW_MS`].
#[derive(Debug, Default)]
pub(super) struct Reports {
    /// Reports that are sent after the current event was processed.
    due: Vec<Report>,
    since_ms: u64,
    sent: u32,
}

impl Reports {
    /// Counts a report; returns whether it may be sent.
    fn admit(&mut self, now_ms: u64) -> bool {
        if now_ms >= self.since_ms + WINDOW_MS {
            (self.since_ms, self.sent) = (now_ms, 0);
        }
        self.sent += 1;
        self.sent <= MAX_REPORTS
    }
}

impl<W> Resolver<W> {
    /// Records an error to be reported.
    pub(super) fn note_report(&mut self, report: Report) {
        if self.reports.due.is_empty() {
            self.reports.due.push(report);
        }
    }

    /// Sends the recorded reports, except for errors that were reported recently and reports beyond
    /// the limit.
    pub(super) fn send_reports(&mut self, cx: &mut Context<'_, W>) {
        let Some(report) = self.reports.due.pop() else { return };
        let Some(name) = report.name() else { return };
        let owner: Name = name.view().into();
        let known = rrset::look_up(
            cx.rrsets,
            &Side::Zone.key(owner.view(), Rtype::TXT),
            cx.now_secs(),
            &mut self.found,
        );
        let question = QuestionBuf::new(name.view(), Rtype::TXT, Class::IN);
        let failure_key = FailureKey { question: question.view(), checking_disabled: false };
        if known.is_some() || cx.failures.lookup(&failure_key, cx.now_secs()).is_some() {
            return;
        }
        let has_room = self.tasks.len() < self.bound.plan.settings.in_flight;
        if !has_room || !self.reports.admit(cx.now_ms) {
            self.counters.reports_withheld += 1;
            return;
        }
        // Any hash may be used: the packet cache does not store the result, and no client's
        // question may be joined to this question.
        let key = Key {
            question: question.view(),
            hash: 0,
            dnssec_ok: true,
            checking_disabled: false,
            ecs: &[],
            introduced: None,
            set: None,
        };
        if self.tasks.find(&key).is_some() {
            return;
        }
        self.counters.reports += 1;
        let at = self.tasks.insert(&key, cx.now_ms);
        let task = &mut self.tasks[at];
        task.is_report = true;
        (task.route, task.bound) = (Route { rule: 0, apex_len: 1 }, Some(self.bound.clone()));
        self.begin_walk(at, cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_have_a_limit_that_passes() {
        let mut reports = Reports::default();
        assert_eq!((0..100).filter(|_| reports.admit(100_000)).count(), MAX_REPORTS as usize);
        assert!(reports.admit(100_000 + WINDOW_MS));
    }
}
