//! The path of a query into the log: for each finished query, the worker pushes an entry to its
//! ring buffer.
//!
//! ```text
//! worker ── close ──> Producer ──ring──> Consumer: the thread that writes the log
//! ```
//!
//! An entry has the unparsed octets of question and reply. Otherwise it has only numbers, such as
//! the index of the policy's reason and the index of the address at which the query arrived. The
//! thread finds the texts for the numbers in the snapshot of the entry's revision, and also how
//! much the log may store about the client. The worker thus needs no look-up. For dnstap, the whole
//! reply goes to another ring buffer, and for the export of traces a selected query goes to a
//! queue.

use avocet_dnstap::TappedReply;
use avocet_querylog::{Consumer, NO_EDE, Outcome, Producer, RawEntry, RawFacts, ReadFacts};

use crate::close::Ended;
use crate::query::QueryContext;
use crate::query::decision::{Decision, STAGES, Stage};
use crate::query::scratch::Scratch;

impl QueryContext<'_> {
    /// Pushes a finished query to the ring buffer of the worker. `sent` is the reply; empty if
    /// there is none. Allocates nothing, and looks up only the time.
    #[inline(never)]
    pub(crate) fn log(&self, decision: &Decision, ended: &Ended<'_>, sent: &[u8]) {
        if !self.state.is_only_logging && !self.record_elsewhere(decision, ended, sent) {
            return;
        }
        let times = self.times(ended);
        let mut log = self.scratch.log();
        if let Some(producer) = log.as_mut() {
            let entry = RawEntry { client: ended.ip, question: ended.question, reply: sent };
            producer.push(&entry, &Finished { scratch: self.scratch, decision, ended, times });
        }
    }

    /// Passes a finished query to dnstap and to the export of traces. Returns whether the query
    /// must also be logged.
    #[cold]
    #[inline(never)]
    fn record_elsewhere(&self, decision: &Decision, ended: &Ended<'_>, sent: &[u8]) -> bool {
        if let Some(selection) = &self.state.traced {
            self.trace(selection, decision, ended, sent.len());
        }
        if self.state.is_tapping {
            self.tap(decision, ended, sent, self.times(ended));
        }
        self.state.is_logging
    }

    /// Returns the times of a query that ends now.
    #[inline(always)]
    fn times(&self, ended: &Ended<'_>) -> Times {
        let now = if ended.since == self.now { self.shared.clock.now() } else { self.now };
        let wall_us = self.shared.clock.wall_micros(now);
        // In microseconds, 32 bits suffice for 71 minutes. No query waits that long.
        let delay_us = now.micros().wrapping_sub(ended.since.micros()) as u32;
        Times { wall_us, delay_us }
    }

    /// Pushes a reply or, if there is none, the question to the worker's ring buffer for dnstap.
    fn tap(&self, decision: &Decision, ended: &Ended<'_>, sent: &[u8], times: Times) {
        let Some(mut sender) = self.scratch.tap() else { return };
        sender.push(&TappedReply {
            time_us: times.wall_us,
            delay_us: times.delay_us,
            revision: decision.revision,
            client: *ended.ip,
            device: ended.device.number(),
            entrance: ended.entrance.0,
            transport: decision.transport as u8,
            is_reply: !sent.is_empty(),
            octets: if sent.is_empty() { ended.question } else { sent },
        });
    }
}

/// A finished query, as the ring buffer reads it.
struct Finished<'a> {
    scratch: &'a Scratch,
    decision: &'a Decision,
    ended: &'a Ended<'a>,
    times: Times,
}

impl ReadFacts for Finished<'_> {
    #[inline(always)]
    fn read(&self) -> RawFacts {
        let Self { scratch, decision, ended, times } = *self;
        // The call comes first, so that numbers that are adjacent in the decision are copied
        // together.
        let upstream = decision.upstream.map_or(0, |upstream| scratch.logged_upstream(upstream));
        RawFacts {
            upstream,
            time_us: times.wall_us,
            response_delay_us: times.delay_us,
            upstream_rtt_ms: ended.rtt_ms,
            revision: decision.revision,
            profile: decision.profile,
            listener: ended.entrance.0,
            rule: decision.note,
            rcode: decision.rcode.0,
            ede: decision.ede.map_or(NO_EDE, |ede| ede.0),
            device: ended.device.number(),
            query_size: ended.octets,
            stage: decision.stage as u8,
            transport: decision.transport as u8,
            cache: decision.cache as u8,
            validation: decision.validated as u8,
        }
    }
}

/// The times of a query that ended, in microseconds.
#[derive(Clone, Copy)]
struct Times {
    /// The time of the end, in microseconds since 1970.
    wall_us: u64,
    /// The time from arrival to end, in microseconds.
    delay_us: u32,
}

/// The outcome of a query for each stage that ended it, by the index of the stage.
const STAGE_OUTCOMES: [Outcome; STAGES.len()] = {
    let mut outcomes = [Outcome::Answered; STAGES.len()];
    let mut at = 0;
    while at < outcomes.len() {
        outcomes[at] = outcome(Stage::ALL[at]);
        at += 1;
    }
    outcomes
};

/// Creates a ring buffer of at least `octets` for the entries of a worker.
#[must_use]
pub fn ring(octets: usize) -> (Producer, Consumer) {
    avocet_querylog::ring(octets, &STAGE_OUTCOMES)
}

/// Returns the outcome of a query that this stage ended.
pub(crate) const fn outcome(stage: Stage) -> Outcome {
    match stage {
        Stage::PacketHit | Stage::Stale | Stage::RrsetHit | Stage::Resolved => Outcome::Answered,
        Stage::Local | Stage::Hosted | Stage::Pool | Stage::Special | Stage::Chaos => {
            Outcome::Local
        }
        Stage::Blocked => Outcome::Blocked,
        Stage::Rewritten => Outcome::Rewritten,
        Stage::Refused | Stage::Limited | Stage::NotRecursive => Outcome::Refused,
        Stage::Ignored | Stage::Dropped => Outcome::Dropped,
        Stage::Failed | Stage::FailureHit | Stage::Shed => Outcome::Failed,
        Stage::Malformed => Outcome::Malformed,
    }
}
