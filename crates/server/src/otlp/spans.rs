//! The spans of a query: the root span for the query of the client, and the spans of its resolution
//! below it.

use std::net::{IpAddr, SocketAddr};

use avocet_config::privacy::Privacy;
use avocet_nameserver::traces::TracedQuery;
use avocet_otlp::{Span, SpanId, TraceId};
use avocet_resolver::Step;
use chacha20::ChaCha12Rng;
use chacha20::rand_core::Rng;

use super::root::root_span;
use super::steps::StepSpans;
use crate::query_log::states::Decider;

/// A query with the data about its client that may be exported.
pub(crate) struct KnownQuery<'q> {
    /// The query.
    pub(crate) query: &'q TracedQuery,
    /// The data about the client that may be exported; the value is never "off".
    pub(crate) privacy: Privacy,
    /// The address of the client, as far as `privacy` permits.
    pub(crate) client: Option<IpAddr>,
    /// The server's address at which the query arrived.
    pub(crate) server: Option<SocketAddr>,
    /// The rule or list that decided.
    pub(crate) decider: Option<Decider<'q>>,
}

impl KnownQuery<'_> {
    /// Returns whether names in this client's queries are shown.
    pub(super) fn shows_names(&self) -> bool {
        matches!(self.privacy, Privacy::Full | Privacy::Truncated | Privacy::Pseudonym)
    }

    /// Returns the start and the end of the query.
    pub(super) fn times(&self) -> SpanTimes {
        let TracedQuery { since_us, took_us, .. } = *self.query;
        SpanTimes {
            start_ns: since_us.saturating_mul(1_000),
            end_ns: since_us.saturating_add(took_us).saturating_mul(1_000),
        }
    }
}

/// The start and the end of a span, in Unix nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SpanTimes {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
}

/// Draws identifiers.
pub(crate) struct IdDraws(pub(crate) ChaCha12Rng);

impl IdDraws {
    /// Returns the identifier of a trace.
    pub(crate) fn trace(&mut self) -> TraceId {
        let mut id = [0; 16];
        self.0.fill_bytes(&mut id);
        // Zero means that no identifier is set.
        id[15] |= u8::from(id == [0; 16]);
        TraceId(id)
    }

    /// Returns the identifier of a span.
    pub(crate) fn span(&mut self) -> SpanId {
        self.0.next_u64().max(1).to_be_bytes()
    }

    /// Returns a random number.
    pub(crate) fn number(&mut self) -> u32 {
        self.0.next_u32()
    }
}

/// Returns the spans of a query, with the root first. If names are withheld, returns only the root:
/// the servers that are queried would reveal the name.
pub(crate) fn spans_of(known: &KnownQuery<'_>, ids: &mut IdDraws) -> Vec<Span> {
    let mut root = root_span(known, ids);
    let Some(trace) = &known.query.trace else { return vec![root] };
    let is_query = |step: &Step| matches!(step, Step::Sent { .. });
    let queries = trace.events().iter().filter(|event| is_query(&event.step)).count();
    root.put("avocet.upstream.queries", queries);
    if trace.began_ms() < known.query.since_ms {
        // Another client's query for the same answer began before this query.
        root.put("avocet.resolution.joined", true);
    }
    if !known.shows_names() {
        return vec![root];
    }
    let mut spans = StepSpans::below(root, known, ids);
    trace.events().iter().for_each(|event| spans.take(event));
    spans.finish(trace.dropped())
}
