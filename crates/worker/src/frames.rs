//! Answers the queries of connections one by one, as
//! [`Datagrams`](avocet_nameserver::datagrams::Datagrams) answers a batch of datagrams.

use std::net::IpAddr;
use std::sync::Arc;

use avocet_nameserver::close::{Delivery, Ended, close};
use avocet_nameserver::metrics::WorkerMetrics;
use avocet_nameserver::query::miss::StreamRoute;
use avocet_nameserver::query::{self, Client, Decision, Incoming, Output, QueryStep, Stage};
use avocet_session::oblivious::{
    MAX_SEALED, NamedTarget, ObliviousFault, ObliviousTarget, OpenedQuery, ProxyFault,
};
use avocet_wire::QueryView;

use super::allowance::Allowance;
use super::fault::contained;
use super::resolution::QueryPath;
use super::state::proxied::{ProxiedQuery, ProxyQueue, ProxyResult};
use super::values::{Answer, Answered};

/// A service that answers queries of connections by the query path, and counts the results.
pub(super) struct Frames<'w> {
    /// The query path.
    pub(super) path: QueryPath<'w>,
    /// The worker's counters, borrowed from the outbox.
    pub(super) metrics: &'w WorkerMetrics,
    /// The keys for oblivious queries; `None` if this server is no target.
    pub(super) target: Option<&'w ObliviousTarget>,
    /// The queue of oblivious queries for other servers.
    pub(super) proxied: &'w ProxyQueue,
    /// The time that the queries of connections may take in this turn of the event loop.
    pub(super) allowance: &'w mut Allowance,
}

impl Answer for Frames<'_> {
    fn answer(&mut self, octets: &[u8], client: &Client<'_>) -> Answered<'_> {
        let QueryPath { cx, newer, misses, message, .. } = &mut self.path;
        newer.look(cx.shared);
        let mut later = None;
        let cx = newer.context(cx, &mut later);
        let incoming = Incoming { octets, seen: None };
        let step = contained(self.metrics, || {
            query::answer(cx, incoming, client, Output { message, misses })
        });
        let failed = || {
            // A transfer that had begun must not continue as the answer to the next query.
            drop(cx.scratch.take_transfer());
            QueryStep::Silent(Decision::at(Stage::Failed, client.transport, cx.state.revision))
        };
        let ended = || Ended {
            ip: &client.ip,
            device: cx.device_of(client),
            entrance: client.entrance,
            question: QueryView::question_of(octets).unwrap_or_default(),
            octets: octets.len() as u16,
            since: cx.now,
            rtt_ms: 0,
            trace: None,
        };
        let delivery = close(cx, self.metrics, &step.unwrap_or_else(failed), ended, message);
        self.allowance.note(|| cx.shared.clock.now().micros());
        match delivery {
            Delivery::Message(len) => match cx.scratch.take_transfer() {
                Some(rest) => Answered::Transfer(&message[..len], rest),
                None => Answered::Now(&message[..len]),
            },
            Delivery::Nothing => Answered::Never,
            Delivery::Later => Answered::Later,
        }
    }

    fn open(&mut self, octets: &[u8]) -> Result<OpenedQuery, ObliviousFault> {
        let target = self.target.ok_or(ObliviousFault::NoTarget)?;
        let opened = contained(self.metrics, || target.open(octets));
        let opened = opened.unwrap_or(Err(ObliviousFault::Undecipherable));
        if let Err(fault) = &opened
            && let Some(counter) = self.metrics.odoh_rejections.get(*fault as usize)
        {
            counter.add(1);
        }
        // The work may be that of fifty answers, so the clock is read each time.
        let QueryPath { cx, .. } = &self.path;
        self.allowance.note_costly(cx.shared.clock.now().micros());
        opened
    }

    fn forward(
        &mut self,
        route: StreamRoute,
        ip: IpAddr,
        parameters: &[u8],
        octets: &[u8],
    ) -> Result<(), ProxyFault> {
        let QueryPath { cx, .. } = &self.path;
        let targets = &cx.state.config.odoh.proxy_targets;
        if targets.is_empty() {
            return Err(ProxyFault::NoProxy);
        }
        self.allowance.note(|| cx.shared.clock.now().micros());
        let target = NamedTarget::read(parameters).filter(|_| octets.len() <= MAX_SEALED);
        let target = target.ok_or(ProxyFault::Malformed)?;
        if !targets.iter().any(|one| one.is(&target.host, target.port)) {
            self.proxied.count(ProxyResult::Foreign);
            return Err(ProxyFault::Foreign);
        }
        let octets = octets.to_vec();
        let query = ProxiedQuery { route, ip, target, octets, since: cx.now };
        if self.proxied.push(query) {
            return Ok(());
        }
        self.proxied.count(ProxyResult::Busy);
        Err(ProxyFault::Busy)
    }

    fn oblivious_configs(&mut self) -> Option<Arc<[u8]>> {
        let configs = self.target?.configs().clone();
        self.metrics.odoh_configs.add(1);
        let QueryPath { cx, .. } = &self.path;
        self.allowance.note(|| cx.shared.clock.now().micros());
        Some(configs)
    }

    fn begin_share(&mut self) -> bool {
        self.allowance.begin_share()
    }

    fn has_time(&self) -> bool {
        self.allowance.has_time()
    }
}
