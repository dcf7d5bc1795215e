//! Checks whether names can be resolved at all. If client queries fail and none succeeds, this
//! thread queries the root's servers. It reports the cause in one log line and at `/ready` until an
//! answer arrives.
//!
//! ```text
//!   Fine ──FAILURES in a row──> asks `. NS` ──fails──> Condition::Resolution ──any answer──> Fine
//!     ^                            └─succeeds─┐              └─asks again every RETRY
//!     └───────────────────────────────────────┘
//! ```
//! The thread sends no query while client queries are answered.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_config::Config;
use avocet_config::recurse::Mode;
use avocet_control::trace::{TraceEvent, TraceStep};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::metrics::Stage;
use avocet_wire::{Ede, MessageView, Rcode};

use crate::running::Running;
use crate::running::conditions::Condition;
use crate::trace::{self, Resolution, TraceQuestion};
use avocet_worker::state::Shared;

/// Time between checks of the counters.
const TICK: Duration = Duration::from_secs(2);
/// Number of failures without any success after which the thread queries the root.
const FAILURES: u64 = 3;
/// Time between the thread's queries while no name can be resolved.
const RETRY: Duration = Duration::from_secs(30);
/// 2026-01-01, in Unix seconds: a clock that shows a time before this release is wrong.
const EARLIEST_SECS: u64 = 1_767_225_600;
/// The extended errors of failures that only replies cause.
const OF_REPLIES: [Ede; 7] = [
    Ede::DNSSEC_INDETERMINATE,
    Ede::DNSSEC_BOGUS,
    Ede::DNSKEY_MISSING,
    Ede::RRSIGS_MISSING,
    Ede::NO_ZONE_KEY_BIT_SET,
    Ede::NSEC_MISSING,
    Ede::INVALID_DATA,
];
/// The log line after a panic of the thread.
const FAULT: &str = "a panic ended the thread that checks whether names can be resolved, see the \
                     log; restart the server";

/// The signal that ends the thread.
#[derive(Default)]
pub(crate) struct Reach {
    is_closed: Mutex<bool>,
    closing: Condvar,
}

impl Reach {
    /// Ends the thread after the query in progress.
    pub(crate) fn close(&self) {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.closing.notify_all();
    }

    /// Waits for the next check. Returns false if the thread must end.
    fn wait(&self) -> bool {
        let is_closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.closing.wait_timeout_while(is_closed, TICK, |is_closed| !*is_closed);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>) -> io::Result<()> {
    let watched = move || {
        running.conditions.contain(Condition::Threads, FAULT, || work(&running));
    };
    thread::Builder::new().name("reach".to_owned()).spawn(watched).map(drop)
}

fn work(running: &Running) {
    let mut streak = Streak::default();
    let mut asked_at: Option<Instant> = None;
    while running.reach.wait() {
        let is_reported = running.conditions.holds(Condition::Resolution);
        match streak.look(QuestionCounts::of(&running.shared)) {
            NetworkOutcome::Answered => running.conditions.set(Condition::Resolution, None),
            NetworkOutcome::Failing
                if !is_reported || asked_at.is_none_or(|at| at.elapsed() >= RETRY) =>
            {
                asked_at = Some(Instant::now());
                running.conditions.set(Condition::Resolution, cause(running));
                streak.failures = 0;
            }
            NetworkOutcome::Quiet
                if is_reported && asked_at.is_none_or(|at| at.elapsed() >= RETRY) =>
            {
                asked_at = Some(Instant::now());
                running.conditions.set(Condition::Resolution, cause(running));
            }
            NetworkOutcome::Failing | NetworkOutcome::Quiet => {}
        }
    }
}

/// The numbers of resolved questions, by result.
#[derive(Clone, Copy, Default)]
struct QuestionCounts {
    answered: u64,
    failed: u64,
}

impl QuestionCounts {
    fn of(shared: &Shared) -> Self {
        let total = |stage: Stage| {
            shared.metrics.iter().map(|worker| worker.stages[stage as usize].value()).sum()
        };
        Self { answered: total(Stage::Resolved), failed: total(Stage::Failed) }
    }
}

/// The change of the counts since the last check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NetworkOutcome {
    /// A question was answered.
    Answered,
    /// No query was answered, and enough have failed since the last answer.
    Failing,
    /// Too few queries have ended since the last check.
    Quiet,
}

/// The number of failures since the last answer.
#[derive(Default)]
struct Streak {
    last: QuestionCounts,
    failures: u64,
}

impl Streak {
    fn look(&mut self, now: QuestionCounts) -> NetworkOutcome {
        let last = std::mem::replace(&mut self.last, now);
        if now.answered > last.answered {
            self.failures = 0;
            return NetworkOutcome::Answered;
        }
        self.failures += now.failed - last.failed;
        if self.failures >= FAILURES { NetworkOutcome::Failing } else { NetworkOutcome::Quiet }
    }
}

/// Queries the root's servers as for clients. Returns the cause of a failure and its remedy.
/// Returns `None` if the query succeeds, or if the configuration cannot reach the root.
fn cause(running: &Running) -> Option<String> {
    let state = running.shared.snapshot();
    let forwarders = forwarders_of_root(&state.config);
    if forwarders.is_none() && state.config.resolver.mode == Mode::Forward {
        return None;
    }
    let asked = TraceQuestion::read(".", Some("NS")).ok()?;
    let steps = match trace::resolve(&running.shared, &asked) {
        Ok(Resolution { message, .. }) if is_answer(&message) => return None,
        Ok(Resolution { trace, .. }) => trace.steps,
        Err(_) => Vec::new(),
    };
    Some(format!(
        "names cannot be resolved: {}",
        explain(&steps, forwarders.as_deref(), wall_secs())
    ))
}

fn is_answer(message: &[u8]) -> bool {
    MessageView::new(message).is_ok_and(|message| message.header().rcode() != Rcode::SERVFAIL)
}

/// Returns the servers to which all names are forwarded; `None` if not all are.
fn forwarders_of_root(config: &Config) -> Option<Vec<SocketAddr>> {
    let rule = config.forwards.iter().find(|rule| *rule.zone == [0] && !rule.exception)?;
    Some(rule.upstreams.iter().filter_map(|upstream| upstream.addr).collect())
}

/// Returns the cause that the trace of a failure shows, and the remedy.
fn explain(steps: &[TraceStep], forwarders: Option<&[SocketAddr]>, now_secs: u64) -> String {
    let mut seen = Seen::default();
    seen.read(steps);
    let is_by_time = seen.has_outdated_signature || now_secs < EARLIEST_SECS;
    if is_by_time {
        return format!(
            "the system time ({now_secs} Unix seconds) is outside the validity of the root's \
             signatures; set the clock of this host"
        );
    }
    if let Some(forwarders) = forwarders {
        let list: Vec<String> = forwarders.iter().map(ToString::to_string).collect();
        let what = if seen.has_reply { "answers usefully" } else { "answers" };
        let list = list.join(", ");
        return format!(
            "no server of [[forward]] zone \".\" {what} ({list}); check the network and the \
             addresses"
        );
    }
    if seen.has_reply {
        return "responses from the root servers' addresses are not theirs: something intercepts \
                port 53; forward to a server that it permits ([[forward]])"
            .to_owned();
    }
    "no root server responds; check the network of this host, and that the firewall allows \
     outgoing port 53 over UDP and TCP"
        .to_owned()
}

/// The evidence in a trace about the path to the root.
#[derive(Default)]
struct Seen {
    has_reply: bool,
    has_outdated_signature: bool,
}

impl Seen {
    fn read(&mut self, steps: &[TraceStep]) {
        let outdated = [Ede::SIGNATURE_EXPIRED.0, Ede::SIGNATURE_NOT_YET_VALID.0];
        for step in steps {
            let ede = match &step.event {
                TraceEvent::Keys { result, .. } | TraceEvent::KnownKeys { result, .. } => {
                    result.ede
                }
                TraceEvent::Validated(data) => data.result.ede,
                TraceEvent::Failed { ede, .. } => Some(*ede),
                _ => None,
            };
            self.has_reply |= match &step.event {
                TraceEvent::Reply { .. } => true,
                // A failure of the cache. Without replies, there would be no data to object to.
                TraceEvent::Failed { ede, .. } => OF_REPLIES.contains(&Ede(*ede)),
                _ => false,
            };
            self.has_outdated_signature |= ede.is_some_and(|ede| outdated.contains(&ede));
            self.read(&step.steps);
        }
    }
}

#[cfg(test)]
mod tests {
    use avocet_control::cache::SecurityStatus;
    use avocet_control::trace::{ReplyKind, SeekPurpose, ValidationResult};

    use super::*;

    #[test]
    fn only_failures_without_any_answer_between_them_count() {
        let mut streak = Streak::default();
        let mut look = |answered, failed| streak.look(QuestionCounts { answered, failed });
        assert_eq!(look(0, 0), NetworkOutcome::Quiet);
        assert_eq!(look(0, 2), NetworkOutcome::Quiet);
        assert_eq!(look(0, 3), NetworkOutcome::Failing);
        assert_eq!(look(1, 9), NetworkOutcome::Answered);
        assert_eq!(look(1, 11), NetworkOutcome::Quiet);
        assert_eq!(look(1, 12), NetworkOutcome::Failing);
    }

    #[track_caller]
    fn check(steps: &[TraceStep], forwarders: Option<&[SocketAddr]>, expected: &str) {
        let text = explain(steps, forwarders, EARLIEST_SECS);
        assert!(text.contains(expected), "{text}");
    }

    fn step(event: TraceEvent, steps: Vec<TraceStep>) -> TraceStep {
        TraceStep { at_ms: 0, event, steps }
    }

    fn reply() -> TraceStep {
        let server = "192.0.2.1:53".to_owned();
        let event =
            TraceEvent::Reply { server, rtt_ms: 1, reply: ReplyKind::Malformed, rcode: None };
        step(event, Vec::new())
    }

    #[test]
    fn the_cause_is_read_from_the_trace() {
        let server = "192.0.2.1:53".to_owned();
        let silent = [step(TraceEvent::Silent { server, after_ms: 1 }, Vec::new())];
        let seek = TraceEvent::Seek {
            purpose: SeekPurpose::Trust,
            name: ".".to_owned(),
            rtype: "DNSKEY".to_owned(),
        };
        let replies = [step(seek, vec![reply()])];
        let expired = ValidationResult {
            verdict: SecurityStatus::Bogus,
            why: None,
            ede: Some(Ede::SIGNATURE_NOT_YET_VALID.0),
        };
        let keys = TraceEvent::KnownKeys { zone: ".".to_owned(), result: expired };
        let outdated = [reply(), step(keys, Vec::new())];
        let failed =
            |ede: Ede| [step(TraceEvent::Failed { ede: ede.0, text: String::new() }, vec![])];
        check(&failed(Ede::DNSKEY_MISSING), None, "intercepts port 53");
        check(&failed(Ede::NO_REACHABLE_AUTHORITY), None, "no root server responds");
        let forwarder = [SocketAddr::from(([192, 0, 2, 1], 53))];
        check(&silent, None, "no root server responds");
        check(&[], None, "no root server responds");
        check(&replies, None, "intercepts port 53");
        check(&outdated, None, "set the clock");
        check(
            &silent,
            Some(&forwarder),
            "no server of [[forward]] zone \".\" answers (192.0.2.1:53)",
        );
        assert!(
            explain(&silent, None, 0).contains("set the clock"),
            "a clock before this release was made"
        );
    }
}
