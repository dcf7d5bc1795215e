//! The thread of the export of traces: it takes the selected queries out of the workers' queues,
//! makes spans of the data that the privacy of each client permits, and sends them to the
//! collector.
//!
//! While the collector cannot be reached, traces wait in a bounded backlog; the oldest are dropped
//! and counted. A request that the collector refuses is not sent again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use avocet_config::Config;
use avocet_config::otlp::OtlpConfig;
use avocet_config::privacy::Privacy;
use avocet_nameserver::traces::{SelectedBy, TraceReceiver, TracedQuery};
use avocet_otlp::{Attribute, Rejected, Resource};
use chacha20::ChaCha12Rng;
use chacha20::rand_core::SeedableRng;

use super::concealed::Concealed;
use crate::otlp::backlog::{Backlog, BatchSize};
use crate::otlp::collector::{Collector, Delivered, Urgency, encoding_of};
use crate::otlp::spans::{IdDraws, KnownQuery, spans_of};
use crate::query_log::states::LoggedStates;
use crate::running::Running;
use crate::running::conditions::Condition;

/// Time between two passes of the thread's loop while traces are exported.
const TICK: Duration = Duration::from_millis(25);
/// Time between two passes of the thread's loop while no traces are exported.
const IDLE_TICK: Duration = Duration::from_millis(250);
/// Time to send the remaining traces when the server stops.
const LAST_TIME: Duration = Duration::from_secs(2);
/// The problem that the status reports after a panic in a pass of the loop.
const FAULT: &str = "a panic interrupted the export of traces, see the log; the server retries";
/// The version of the software in each request.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Starts the thread.
///
/// # Errors
///
/// The system cannot start a thread, or has no randomness.
pub(crate) fn start(
    running: Arc<Running>,
    queues: Vec<TraceReceiver>,
) -> io::Result<JoinHandle<()>> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| io::Error::other(error.to_string()))?;
    let mut ids = IdDraws(ChaCha12Rng::from_seed(seed));
    let instance = uuid(ids.trace().0);
    let states = LoggedStates::new(&running.shared.name_server);
    let backlog = Backlog::new(encoding_of(&states.current().config.otlp));
    let work = OtlpWork {
        running,
        queues,
        states,
        collector: None,
        backlog,
        concealed: Concealed::new(),
        ids,
        instance,
    };
    thread::Builder::new().name("otlp".to_owned()).spawn(move || work.run())
}

/// Returns a random UUID (RFC 9562 §5.4).
fn uuid(mut octets: [u8; 16]) -> String {
    octets[6] = octets[6] & 0x0f | 0x40;
    octets[8] = octets[8] & 0x3f | 0x80;
    let mut text = String::with_capacity(36);
    for (place, octet) in octets.iter().enumerate() {
        if matches!(place, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{octet:02x}"));
    }
    text
}

struct OtlpWork {
    running: Arc<Running>,
    queues: Vec<TraceReceiver>,
    states: LoggedStates,
    /// The collector; `None` before the first trace, and without an endpoint.
    collector: Option<Collector>,
    backlog: Backlog,
    concealed: Concealed,
    ids: IdDraws,
    /// `service.instance.id`, which is different after each start.
    instance: String,
}

impl OtlpWork {
    fn run(mut self) {
        let running = self.running.clone();
        loop {
            let is_exporting = self.states.current().traced.is_some() || self.backlog.len() > 0;
            let is_open = running.query_log.wait(if is_exporting { TICK } else { IDLE_TICK });
            let work = || if is_open { self.round() } else { self.finish() };
            let rounded = running.conditions.contain(Condition::Otlp, FAULT, work);
            if rounded.is_none() {
                // The waiting traces are dropped, because one of them may have caused the panic.
                self.drop_backlog();
            }
            if !is_open {
                return;
            }
        }
    }

    /// Takes the traces of the workers, and sends a request if one is due.
    fn round(&mut self) {
        let config = self.take_over();
        let now = Instant::now();
        if self.backlog.is_due(now)
            && self.collector.as_ref().is_none_or(|collector| collector.is_ready(now))
        {
            self.deliver(&config.otlp, Urgency::Usual);
        }
    }

    /// Sends the remaining traces, while there is time.
    fn finish(&mut self) {
        let (config, begin) = (self.take_over(), Instant::now());
        while self.backlog.len() > 0
            && begin.elapsed() < LAST_TIME
            && self.deliver(&config.otlp, Urgency::Last)
        {}
        self.drop_backlog();
    }

    /// Applies the configuration in force, and takes the traces that the workers have made since
    /// the last call.
    fn take_over(&mut self) -> Arc<Config> {
        self.states.refresh(&self.running.shared.name_server);
        let config = self.states.current().config.clone();
        let otlp = &config.otlp;
        if self.collector.as_ref().is_some_and(|collector| !collector.is_of(otlp)) {
            self.collector = None;
        }
        if otlp.endpoint.is_none() {
            self.running.conditions.set(Condition::OtlpCollector, None);
            self.drop_backlog();
        }
        if self.backlog.encoding() != encoding_of(otlp) {
            self.drop_backlog();
            self.backlog = Backlog::new(encoding_of(otlp));
        }
        for place in 0..self.queues.len() {
            while let Some(query) = self.queues[place].pop() {
                self.add(&config, &query);
            }
        }
        let counts = &self.running.otlp_counts;
        let drops = self.queues.iter().map(TraceReceiver::drops);
        let (queue, limit) =
            drops.fold((0, 0), |(queue, limit), one| (queue + one.queue, limit + one.limit));
        counts.queue.store(queue, Ordering::Relaxed);
        counts.limit.store(limit, Ordering::Relaxed);
        counts.waiting.store(self.backlog.len() as u64, Ordering::Relaxed);
        config
    }

    /// Makes the spans of a query.
    fn add(&mut self, config: &Config, query: &TracedQuery) {
        let revision = query.decision.revision;
        let privacy = self.states.privacy_of(revision, (query.client, query.device));
        if privacy == Privacy::Off || config.otlp.endpoint.is_none() {
            return;
        }
        // The fact that a query was selected by name would reveal its name.
        if privacy == Privacy::NoNames && is_by_name(&config.otlp, &query.selected_by) {
            return;
        }
        let client = self.concealed.shown(config, query.client, privacy);
        let open = config.server.open_addresses();
        let server = open.get(usize::from(query.entrance.0)).map(|one| one.address);
        // The unspecified address means all addresses and is left out.
        let server = server.filter(|address| !address.ip().is_unspecified());
        let decider = self.states.decider_of(revision, query.decision.note);
        let known = KnownQuery { query, privacy, client, server, decider };
        let spans = spans_of(&known, &mut self.ids);
        let dropped = self.backlog.add(&spans, Instant::now());
        self.running.otlp_counts.backlog.fetch_add(dropped as u64, Ordering::Relaxed);
    }

    /// Sends a request. Returns whether the collector answered, so that a further request makes
    /// sense.
    fn deliver(&mut self, config: &OtlpConfig, urgency: Urgency) -> bool {
        if self.collector.is_none() {
            let running = self.running.clone();
            let is_draining = Box::new(move || running.draining.load(Ordering::Relaxed));
            match Collector::open(&self.running.shared, config, is_draining) {
                Ok(collector) => self.collector = collector,
                Err(fault) => {
                    self.warn(format!("traces cannot be exported: {fault}"));
                    return false;
                }
            }
        }
        let Some(collector) = &mut self.collector else { return false };
        let batch = self.backlog.batch();
        let attributes = vec![
            Attribute::new("service.name", config.service_name.clone()),
            Attribute::new("service.version", VERSION),
            Attribute::new("service.instance.id", self.instance.clone()),
        ];
        let resource = Resource { attributes, scope: "avocet", version: VERSION };
        let body = resource.request(self.backlog.encoding(), self.backlog.spans(batch));
        let delivered = collector.deliver(&body, urgency, self.ids.number());
        let url = collector.url().to_owned();
        self.conclude(delivered, batch, &url)
    }

    /// Counts the result of a request, and removes its traces unless it is sent again.
    fn conclude(&mut self, delivered: Delivered, batch: BatchSize, url: &str) -> bool {
        let counts = &self.running.otlp_counts;
        let (traces, spans) = (batch.traces as u64, batch.spans as u64);
        match delivered {
            Delivered::Later(why, _) => {
                counts.retries.fetch_add(1, Ordering::Relaxed);
                self.warn(format!(
                    "the collector of traces {url} cannot be used: {why}; the server keeps what \
                     fits, counts what it drops, and tries again"
                ));
                return false;
            }
            Delivered::Refused(why) => {
                counts.refused.fetch_add(traces, Ordering::Relaxed);
                self.warn(format!(
                    "the collector of traces {url} refuses requests: {why}; check [otlp] endpoint, \
                     encoding and headers-file"
                ));
            }
            Delivered::Taken(Rejected { spans: rejected, message }) => {
                let rejected = rejected.min(spans);
                counts.traces.fetch_add(traces, Ordering::Relaxed);
                counts.spans.fetch_add(spans - rejected, Ordering::Relaxed);
                counts.rejected_spans.fetch_add(rejected, Ordering::Relaxed);
                let text = format!("the collector of traces {url} rejects spans: {message}");
                let condition = (rejected > 0).then_some(text);
                self.running.conditions.set(Condition::OtlpCollector, condition);
            }
        }
        self.backlog.remove(batch.traces);
        counts.waiting.store(self.backlog.len() as u64, Ordering::Relaxed);
        true
    }

    fn warn(&self, text: String) {
        self.running.conditions.set(Condition::OtlpCollector, Some(text));
    }

    fn drop_backlog(&mut self) {
        let lost = self.backlog.len();
        self.backlog.remove(lost);
        let counts = &self.running.otlp_counts;
        counts.backlog.fetch_add(lost as u64, Ordering::Relaxed);
        counts.waiting.store(0, Ordering::Relaxed);
    }
}

/// Returns whether a selection reveals something about the name of the query. A selection that is
/// no longer configured may have tested names.
fn is_by_name(config: &OtlpConfig, selected_by: &SelectedBy) -> bool {
    let SelectedBy::Rule(name) = selected_by else { return false };
    let mut rules = config.rules.iter();
    rules.find(|rule| *rule.name == **name).is_none_or(|rule| !rule.names.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_has_a_random_uuid() {
        assert_eq!(uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }
}
