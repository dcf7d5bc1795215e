//! The way of a query into the log: the worker pushes an entry for each query that ended to its
//! ring.
//!
//! ```text
//! worker ── close ──> Producer ──ring──> Consumer: the thread that writes the log
//! ```
//!
//! An entry has numbers only, such as that of the note and of the entrance. The thread finds their
//! texts in the snapshot of the entry's revision, and there it also learns what the log may know of
//! the client, so that the worker looks nothing up. For dnstap, the whole reply goes to another
//! ring.

use avocet_dnstap::TappedReply;
use avocet_querylog::{Entry, Facts, NO_EDE, Outcome, Privacy};
use avocet_wire::header::HEADER_LEN;

use crate::clock::Moment;
use crate::close::Ended;
use crate::query::QueryContext;
use crate::query::decision::{Decision, Stage};

impl QueryContext<'_> {
    /// Pushes a query that ended to the ring of the worker. `sent` is its reply, or empty. Costs no
    /// allocation, and no lookup but of the time.
    #[inline(never)]
    pub(crate) fn log(&self, decision: Decision, ended: Ended<'_>, sent: &[u8]) {
        let now = if ended.since == self.now { self.shared.clock.now() } else { self.now };
        let time_us = self.shared.clock.wall_micros(now);
        let logged = Logged { decision, ended, now, sent };
        if self.state.is_tapping {
            self.tap(&logged, time_us);
        }
        if self.state.is_logging
            && let Some(mut producer) = self.scratch.log()
        {
            producer.push(&entry(&logged, time_us));
        }
    }
}

impl QueryContext<'_> {
    /// Pushes a reply, or the question without one, to the ring of the worker for dnstap.
    #[cold]
    fn tap(&self, logged: &Logged<'_>, time_us: u64) {
        let Some(mut sender) = self.scratch.tap() else { return };
        let Logged { decision, ended, now, sent } = logged;
        sender.push(&TappedReply {
            time_us,
            delay_us: micros(now.micros().saturating_sub(ended.since.micros())),
            revision: decision.revision,
            client: ended.ip,
            entrance: ended.entrance.0,
            transport: decision.transport as u8,
            is_reply: !sent.is_empty(),
            octets: if sent.is_empty() { ended.question } else { sent },
        });
    }
}

/// A query that ended, with its reply and the time.
struct Logged<'q> {
    decision: Decision,
    ended: Ended<'q>,
    now: Moment,
    sent: &'q [u8],
}

/// Returns the entry of a query that ended at this time on the wall clock.
#[inline(always)]
fn entry<'q>(logged: &Logged<'q>, time_us: u64) -> Entry<'q> {
    let Logged { decision, ended, now, sent } = logged;
    let [_, _, high, low, _, _, count_high, count_low] =
        sent.first_chunk().copied().unwrap_or_default();
    let (qname, [type_high, type_low, class_high, class_low]) =
        ended.question.split_last_chunk().unwrap_or((&[], &[0; 4]));
    let facts = Facts {
        time_us,
        client: ended.ip,
        response_delay_us: micros(now.micros().saturating_sub(ended.since.micros())),
        upstream_rtt_us: ended.rtt_ms.map_or(0, |rtt_ms| micros(u64::from(rtt_ms) * 1_000)),
        revision: decision.revision,
        profile: decision.profile,
        device: 0,
        listener: ended.entrance.0,
        upstream: decision.upstream.map_or(0, |upstream| upstream_number(upstream.0)),
        rule: decision.note,
        qtype: u16::from_be_bytes([*type_high, *type_low]),
        qclass: u16::from_be_bytes([*class_high, *class_low]),
        flags: u16::from_be_bytes([high, low]),
        rcode: decision.rcode.0,
        ede: decision.ede.map_or(NO_EDE, |ede| ede.0),
        answer_count: u16::from_be_bytes([count_high, count_low]),
        query_size: ended.octets,
        response_size: sent.len() as u16,
        stage: decision.stage as u8,
        transport: decision.transport as u8,
        cache: decision.cache as u8,
        validation: decision.validated as u8,
        outcome: outcome(decision.stage),
        privacy: Privacy::Full,
    };
    let answer = sent.get(HEADER_LEN + ended.question.len()..).unwrap_or_default();
    Entry { facts, qname, lists: &[], answer }
}

#[inline]
fn micros(count: u64) -> u32 {
    count.min(u64::from(u32::MAX)) as u32
}

/// Returns the number of an endpoint in an entry: from 1. Endpoints beyond the numbers have none.
#[inline]
fn upstream_number(endpoint: u32) -> u16 {
    u16::try_from(endpoint.saturating_add(1)).unwrap_or(0)
}

/// Returns the kind of end of a query that this stage ended.
#[inline]
fn outcome(stage: Stage) -> Outcome {
    match stage {
        Stage::PacketHit | Stage::Stale | Stage::RrsetHit | Stage::Resolved => Outcome::Answered,
        Stage::Local | Stage::Hosted | Stage::Special | Stage::Chaos => Outcome::Local,
        Stage::Blocked => Outcome::Blocked,
        Stage::Rewritten => Outcome::Rewritten,
        Stage::Refused | Stage::Limited | Stage::NotRecursive => Outcome::Refused,
        Stage::Ignored | Stage::Dropped => Outcome::Dropped,
        Stage::Failed | Stage::FailureHit | Stage::Shed => Outcome::Failed,
        Stage::Malformed => Outcome::Malformed,
    }
}
