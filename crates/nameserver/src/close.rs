//! The end of a query: the only place that counts and logs steps, and limits replies.
//!
//! Every step of the query path passes through here before anything is sent: at once or late, for
//! datagrams and for streams.

use std::net::IpAddr;

use avocet_policy::client::DeviceId;
use avocet_resolver::Trace;

use crate::clock::Moment;
use crate::metrics::WorkerMetrics;
use crate::query::asked::{Entrance, Transport};
use crate::query::miss::Waiter;
use crate::query::rate_limit::Limited;
use crate::query::respond::slip;
use crate::query::{Decision, Outgoing, QueryContext, QueryStep};

/// The message to send for a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// The message in the buffer has this number of octets.
    Message(usize),
    /// No message, neither now nor later: the query gets no response.
    Nothing,
    /// No message yet: the query is waiting.
    Later,
}

impl Delivery {
    /// Returns the octets that are sent now; empty if no message is sent now.
    fn sent(self, out: &[u8]) -> &[u8] {
        match self {
            Self::Message(len) => out.get(..len).unwrap_or_default(),
            Self::Nothing | Self::Later => &[],
        }
    }
}

/// A finished query: the facts for the log that are not in the [`Decision`].
#[derive(Clone, Copy)]
pub struct Ended<'q> {
    /// The client's address.
    pub ip: &'q IpAddr,
    /// The device of the query, if it is known.
    pub device: DeviceId,
    /// The address at which the query arrived.
    pub entrance: Entrance,
    /// The question in the letter case of the query; empty if none was read.
    pub question: &'q [u8],
    /// Number of octets of the query.
    pub octets: u16,
    /// The time of the query's arrival.
    pub since: Moment,
    /// The round-trip time of the upstream that answered, in milliseconds; zero if no upstream was
    /// queried.
    pub rtt_ms: u32,
    /// The trace of the resolution; `None` if the question was not resolved or traces are not
    /// exported.
    pub trace: Option<&'q Trace>,
}

impl<'q> Ended<'q> {
    /// Returns the facts about the query of a client that has waited for resolution.
    pub fn waiting(waiter: &'q Waiter, rtt_ms: u32) -> Self {
        let Waiter { ref ip, device, entrance, ref question, octets, since, .. } = *waiter;
        Self { ip, device, entrance, question, octets, since, rtt_ms, trace: None }
    }
}

/// Counts and logs the result of a query, and applies the rate limit to its reply in `out`. Calls
/// `ended` only if the log needs its data, so that a query that is not logged costs little.
#[inline]
pub fn close<'q>(
    cx: &QueryContext<'_>,
    metrics: &WorkerMetrics,
    step: &QueryStep,
    ended: impl Fn() -> Ended<'q>,
    out: &mut [u8],
) -> Delivery {
    match step {
        QueryStep::Reply(outgoing) => {
            let decision = &outgoing.decision;
            metrics.count(decision);
            cx.count_note(decision);
            let delivery = match decision.transport {
                Transport::Udp => limited(cx, metrics, outgoing, || *ended().ip, out),
                // The connection proves the address of the client.
                Transport::Tcp
                | Transport::Tls
                | Transport::Https
                | Transport::Quic
                | Transport::Odoh => Delivery::Message(outgoing.len),
            };
            if cx.state.is_recording {
                cx.log(decision, &ended(), delivery.sent(out));
            }
            delivery
        }
        QueryStep::Silent(decision) => {
            if cx.state.is_recording {
                cx.log(decision, &ended(), &[]);
            }
            close_silent(metrics, decision)
        }
        QueryStep::Resolve => Delivery::Later,
    }
}

/// Counts a query that gets no reply.
#[cold]
pub fn close_silent(metrics: &WorkerMetrics, decision: &Decision) -> Delivery {
    metrics.count_silent(decision);
    Delivery::Nothing
}

/// Applies the rate limit to a reply in `out`.
#[inline]
fn limited(
    cx: &QueryContext<'_>,
    metrics: &WorkerMetrics,
    outgoing: &Outgoing,
    ip: impl Fn() -> IpAddr,
    out: &mut [u8],
) -> Delivery {
    let Some(limiter) = &cx.state.rate_limit else { return Delivery::Message(outgoing.len) };
    if outgoing.is_verified {
        return Delivery::Message(outgoing.len);
    }
    let reply = out.get(..outgoing.len).unwrap_or_default();
    let kind = || limiter.kind(outgoing, reply, cx.state);
    match limiter.take(ip(), kind, cx.now.millis()) {
        Limited::Send => Delivery::Message(outgoing.len),
        Limited::Slip => {
            metrics.limit_slips.add(1);
            Delivery::Message(slip(out, outgoing.len))
        }
        Limited::Drop => {
            metrics.limit_drops.add(1);
            Delivery::Nothing
        }
    }
}
