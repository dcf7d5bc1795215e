//! The end of a query: the only place where steps are counted and replies are limited.
//!
//! Every step of the query path passes through here before anything is sent: at once or late, for
//! datagrams and for streams.

use std::net::IpAddr;

use crate::metrics::WorkerMetrics;
use crate::query::asked::Transport;
use crate::query::rate_limit::Limited;
use crate::query::respond::slip;
use crate::query::{Decision, Outgoing, QueryContext, QueryStep};

/// What to send for a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// This many octets of the buffer.
    Message(usize),
    /// Nothing, neither now nor later.
    Nothing,
    /// Nothing yet: the query is waiting.
    Later,
}

/// Counts a step, and applies the rate limit to its reply in `out`. `ip` is the client's address.
#[inline]
pub fn close(
    cx: &QueryContext<'_>,
    metrics: &WorkerMetrics,
    step: &QueryStep,
    ip: IpAddr,
    out: &mut [u8],
) -> Delivery {
    match step {
        QueryStep::Reply(outgoing) => {
            metrics.count(&outgoing.decision);
            cx.count_note(&outgoing.decision);
            match outgoing.decision.transport {
                Transport::Udp => limited(cx, metrics, outgoing, ip, out),
                Transport::Tcp => Delivery::Message(outgoing.len),
            }
        }
        QueryStep::Silent(decision) => close_silent(metrics, decision),
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
    ip: IpAddr,
    out: &mut [u8],
) -> Delivery {
    let Some(limiter) = &cx.state.rate_limit else { return Delivery::Message(outgoing.len) };
    if outgoing.is_verified {
        return Delivery::Message(outgoing.len);
    }
    match limiter.take(ip, outgoing.kind(), cx.now.millis()) {
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
