//! The encoded traces that wait for the collector, with a limit on their octets. At the limit, the
//! oldest traces are dropped.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use avocet_otlp::{Encoding, Span};

/// Maximum number of octets of waiting traces.
const MAX_OCTETS: usize = 4 << 20;
/// Maximum number of spans in a request, unless a single trace has more.
const BATCH_SPANS: usize = 512;
/// Maximum number of octets in a request, unless a single trace has more.
const BATCH_OCTETS: usize = 1 << 20;
/// Time for which a trace waits for further traces, to be sent in one request.
const PATIENCE: Duration = Duration::from_secs(1);

/// The encoded spans of one query.
struct EncodedTrace {
    /// All octets, one span after another.
    octets: Box<[u8]>,
    /// The end of each span.
    ends: Box<[usize]>,
    /// The time at which the trace was added.
    since: Instant,
}

impl EncodedTrace {
    fn weight(&self) -> usize {
        self.octets.len() + size_of_val(&*self.ends) + size_of::<Self>()
    }

    fn spans(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(&0).chain(&*self.ends);
        starts.zip(&*self.ends).filter_map(|(start, end)| self.octets.get(*start..*end))
    }
}

/// The traces that wait.
pub(crate) struct Backlog {
    encoding: Encoding,
    traces: VecDeque<EncodedTrace>,
    octets: usize,
    spans: usize,
}

/// The traces of a request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct BatchSize {
    /// The number of traces.
    pub(crate) traces: usize,
    /// The number of their spans.
    pub(crate) spans: usize,
}

impl Backlog {
    /// Creates an empty backlog of traces in this encoding.
    pub(crate) fn new(encoding: Encoding) -> Self {
        Self { encoding, traces: VecDeque::new(), octets: 0, spans: 0 }
    }

    /// Returns the encoding.
    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the number of waiting traces.
    pub(crate) fn len(&self) -> usize {
        self.traces.len()
    }

    /// Adds the spans of a query. Returns the number of traces that were dropped because of the
    /// limit.
    pub(crate) fn add(&mut self, spans: &[Span], now: Instant) -> usize {
        let (mut octets, mut ends) = (Vec::new(), Vec::with_capacity(spans.len()));
        for span in spans {
            span.encode(self.encoding, &mut octets);
            ends.push(octets.len());
        }
        let trace = EncodedTrace { octets: octets.into(), ends: ends.into(), since: now };
        self.octets += trace.weight();
        self.spans += trace.ends.len();
        self.traces.push_back(trace);
        let before = self.traces.len();
        while self.octets > MAX_OCTETS && !self.traces.is_empty() {
            self.remove(1);
        }
        before - self.traces.len()
    }

    /// Returns whether a request should be sent: there are enough spans, or the oldest trace has
    /// waited for long enough.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        let waited = |trace: &EncodedTrace| now.saturating_duration_since(trace.since) >= PATIENCE;
        self.spans >= BATCH_SPANS
            || self.octets >= BATCH_OCTETS
            || self.traces.front().is_some_and(waited)
    }

    /// Returns the traces of the next request.
    pub(crate) fn batch(&self) -> BatchSize {
        let (mut size, mut octets) = (BatchSize::default(), 0);
        for trace in &self.traces {
            octets += trace.weight();
            let is_full = size.spans + trace.ends.len() > BATCH_SPANS || octets > BATCH_OCTETS;
            if size.traces > 0 && is_full {
                break;
            }
            size.traces += 1;
            size.spans += trace.ends.len();
        }
        size
    }

    /// Returns the spans of a batch.
    pub(crate) fn spans(&self, batch: BatchSize) -> impl Iterator<Item = &[u8]> {
        self.traces.iter().take(batch.traces).flat_map(EncodedTrace::spans)
    }

    /// Removes this number of the oldest traces.
    pub(crate) fn remove(&mut self, traces: usize) {
        for trace in self.traces.drain(..traces.min(self.traces.len())) {
            self.octets -= trace.weight();
            self.spans -= trace.ends.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use avocet_otlp::{SpanKind, TraceId};

    use super::*;

    fn trace(number: u8, spans: usize, octets: usize) -> Vec<Span> {
        let mut span = Span::new(TraceId([number; 16]), [1; 8], SpanKind::Server);
        span.name = "x".repeat(octets);
        vec![span; spans]
    }

    #[test]
    fn a_batch_has_whole_traces_the_oldest_first() {
        let (mut backlog, now) = (Backlog::new(Encoding::Protobuf), Instant::now());
        assert_eq!(backlog.batch(), BatchSize::default());
        for number in 0..4 {
            assert_eq!(backlog.add(&trace(number, 200, 10), now), 0);
        }
        let batch = backlog.batch();
        assert_eq!(batch, BatchSize { traces: 2, spans: 400 });
        let spans: Vec<_> = backlog.spans(batch).collect();
        assert_eq!((spans.len(), spans[0][2], spans[399][2]), (400, 0, 1));
        assert!(spans.iter().all(|span| span.len() == spans[0].len()));
        backlog.remove(batch.traces);
        assert_eq!((backlog.len(), backlog.spans), (2, 400));
        backlog.remove(9);
        assert_eq!((backlog.len(), backlog.spans, backlog.octets), (0, 0, 0));
        backlog.add(&trace(9, 900, 1), now);
        assert_eq!(backlog.batch(), BatchSize { traces: 1, spans: 900 });
    }

    #[test]
    fn a_batch_waits_for_others_for_a_second() {
        let (mut backlog, now) = (Backlog::new(Encoding::Json), Instant::now());
        assert!(!backlog.is_due(now + PATIENCE));
        backlog.add(&trace(1, 1, 1), now);
        assert!(!backlog.is_due(now) && backlog.is_due(now + PATIENCE));
        backlog.add(&trace(1, BATCH_SPANS, 1), now);
        assert!(backlog.is_due(now));
    }

    #[test]
    fn the_oldest_traces_are_dropped_for_others() {
        let (mut backlog, now) = (Backlog::new(Encoding::Protobuf), Instant::now());
        let dropped: usize =
            (0..100).map(|number| backlog.add(&trace(number, 1, 100_000), now)).sum();
        assert!(backlog.octets <= MAX_OCTETS && dropped > 50, "{dropped}");
        assert_eq!(backlog.len() + dropped, 100);
        let first = backlog.spans(BatchSize { traces: 1, spans: 1 }).next().unwrap();
        assert_eq!(usize::from(first[2]), dropped);
        // A trace that is larger than the whole limit is dropped, too.
        let waited = backlog.len();
        assert_eq!(backlog.add(&trace(1, 1, MAX_OCTETS), now), waited + 1);
        assert_eq!(backlog.len(), 0);
    }
}
