//! The thread that queries servers without encryption for the encrypted servers that they designate
//! (DDR, RFC 9462), verifies the encrypted servers, and puts them in force.
//!
//! ```text
//!            found: in the plan              records expire: another attempt
//!   Plain ─────────────────────> Designated ──────────────────────────┐
//!     ^                             ^  <── found, or no answer ───────┤
//!     └── `auto`: not announced ────┴─────────────────────────────────┘
//!         any more, or not proven
//! ```
//! Before the server stops using a designated server, it queries the designated server itself: this
//! answer is authenticated, unlike the answer of the upstream.
//!
//! With `discover = "strict"`, a designated server stays in use: each connection proves it again,
//! and plain DNS is not permitted.

mod attempt;
mod offers;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_config::Config;
use avocet_config::discover::{DesignatedServer, DesignationProof, Discovery, DiscoveryTerms};
use avocet_control::status::{DiscoveryProof, DiscoveryStatus};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::upstream_addresses::UpstreamAddresses;

use crate::running::Running;
use crate::running::conditions::Condition;
use attempt::{DiscoveryAttempt, DiscoveryFault, FoundServer};
use avocet_worker::state::discoveries::DiscoveryResult;
use avocet_worker::upstream_tls::{ClientConfigs, PeerMap, UpstreamPeer};

/// Time between two checks of the configuration and for due work.
const TICK: Duration = Duration::from_millis(500);
/// Bounds of the number of seconds after which a server is queried again, regardless of the TTL.
const KEEP_SECS: (u32, u32) = (60, 3_600);
/// Seconds until a server that designates no server is queried again.
const NOT_ANNOUNCED_SECS: u32 = 900;
/// The first and the maximum number of seconds after which a server that does not answer is queried
/// again.
const RETRY_SECS: (u64, u64) = (2, 300);
/// Maximum retry interval in seconds while queries wait for a designated server.
const STRICT_RETRY_SECS: u64 = 60;
/// Maximum number of servers that are queried at the same time.
const MAX_ATTEMPTS: usize = 32;
/// The log line after a panic of the thread.
const FAULT: &str = "a panic ended the thread that looks for encrypted upstreams, see the log; \
                     restart the server";

/// Starts the thread.
///
/// # Errors
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>) -> io::Result<()> {
    let (sender, receiver) = channel();
    let servers = HashMap::new();
    let mut discoverer =
        Discoverer { running, config: None, servers, attempts: 0, sender, receiver };
    let watched = move || {
        let running = discoverer.running.clone();
        running.conditions.contain(Condition::Threads, FAULT, || {
            loop {
                discoverer.look();
                thread::park_timeout(TICK);
            }
        });
    };
    thread::Builder::new().name("discovery".to_owned()).spawn(watched).map(drop)
}

/// A server that may designate encrypted servers.
#[derive(Default)]
struct AskedServer {
    /// The time of the next query; `None` if it is due at once.
    due: Option<Instant>,
    failures: u32,
    found: Option<(DesignatedServer, Arc<UpstreamPeer>)>,
    fault: Option<DiscoveryFault>,
    /// Whether a thread queries the server at present.
    is_under_way: bool,
    /// Whether the server must be queried again when this thread ends, with new settings.
    is_due_again: bool,
}

struct Discoverer {
    running: Arc<Running>,
    /// The configuration at the last check.
    config: Option<Arc<Config>>,
    servers: HashMap<DiscoveryTerms, AskedServer>,
    /// Number of threads that query servers at present. Each queries one server, so that a server
    /// that does not answer delays no other.
    attempts: usize,
    /// Sends the end of an attempt to the thread of the discoverer.
    sender: Sender<EndedAttempt>,
    receiver: Receiver<EndedAttempt>,
}

/// The end of an attempt; the result is `None` after a panic.
type EndedAttempt = (DiscoveryTerms, Option<DiscoveryAttempt>);

/// Returns the servers that may designate encrypted servers, with the zones of their rules.
fn wanted(config: &Config) -> HashMap<DiscoveryTerms, Vec<Box<[u8]>>> {
    let mut wanted: HashMap<_, Vec<_>> = HashMap::new();
    for forward in &config.forwards {
        for terms in forward.upstreams.iter().filter_map(|one| forward.discovery_of(one)) {
            wanted.entry(terms).or_default().push(forward.zone.clone());
        }
    }
    wanted
}

impl Discoverer {
    fn look(&mut self) {
        let state = self.running.shared.snapshot();
        let wanted = wanted(&state.config);
        let is_reloaded =
            self.config.as_ref().is_none_or(|config| !Arc::ptr_eq(config, &state.config));
        if is_reloaded {
            self.config = Some(state.config.clone());
            self.servers.retain(|terms, _| wanted.contains_key(terms));
            for (terms, server) in &mut self.servers {
                (server.due, server.is_due_again) = (None, server.is_under_way);
                server.read_settings(terms);
            }
            // The content of the files with authorities may have changed.
            self.put(&[]);
        }
        let (mut is_changed, mut results) = (is_reloaded, Vec::new());
        while let Ok((terms, attempt)) = self.receiver.try_recv() {
            self.attempts -= 1;
            let Some(server) = self.servers.get_mut(&terms) else { continue };
            server.is_under_way = false;
            let Some(attempt) = attempt else {
                let secs = RETRY_SECS.1;
                tracing::error!(
                    "a panic ended an attempt to find the encrypted server of {}; the next one \
                     is in {secs} s",
                    terms.server
                );
                server.due = Some(Instant::now() + Duration::from_secs(RETRY_SECS.1));
                continue;
            };
            is_changed = true;
            let result = attempt.result.as_ref().err().map(DiscoveryFault::result);
            results.push(result.unwrap_or(DiscoveryResult::Found));
            let before = server.found.as_ref().map(|(found, _)| found.clone());
            server.take(&terms, attempt);
            if std::mem::take(&mut server.is_due_again) {
                // The attempt may have read files that have changed since.
                server.read_settings(&terms);
                server.due = None;
            }
            if server.found.as_ref().map(|(found, _)| found) != before.as_ref() {
                self.put(wanted.get(&terms).map_or(&[], Vec::as_slice));
            }
        }
        for terms in wanted.keys() {
            let server = self.servers.entry(terms.clone()).or_default();
            let is_due = server.due.is_none_or(|due| due <= Instant::now());
            if is_due && !server.is_under_way && self.attempts < MAX_ATTEMPTS {
                self.begin(terms, &state.config);
            }
        }
        if is_changed {
            self.put(&[]);
            self.report();
        }
        // The results are counted once their effect is visible.
        results.into_iter().for_each(|result| self.running.shared.discoveries.count(result));
    }

    /// Starts a thread that queries a server.
    fn begin(&mut self, terms: &DiscoveryTerms, config: &Arc<Config>) {
        let Some(server) = self.servers.get_mut(terms) else { return };
        let known = server.found.as_ref().map(|(found, _)| found.clone());
        let (terms, config, sender) = (terms.clone(), config.clone(), self.sender.clone());
        let discoverer = thread::current();
        let attempt = move || {
            let attempt = || attempt::attempt(&terms, &config.server, known.as_ref());
            let ended = catch_unwind(AssertUnwindSafe(attempt)).ok();
            // The receiver is gone only if the thread of the discoverer has ended.
            let _ = sender.send((terms, ended));
            discoverer.unpark();
        };
        match thread::Builder::new().name("discovery".to_owned()).spawn(attempt) {
            Ok(_) => (server.is_under_way, self.attempts) = (true, self.attempts + 1),
            Err(error) => {
                tracing::warn!(%error, "cannot start a thread that looks for encrypted upstreams");
                server.due = Some(Instant::now() + Duration::from_secs(RETRY_SECS.0));
            }
        }
    }

    /// Puts the designated servers in force. Drops cached failures at and below these zones,
    /// because a missing server may have caused them.
    fn put(&self, zones: &[Box<[u8]>]) {
        let found = || {
            let servers = self.servers.iter();
            servers.filter_map(|(terms, server)| Some((terms, server.found.as_ref()?)))
        };
        let peers: PeerMap =
            found().map(|(terms, (found, peer))| (terms.peer(found).id(), peer.clone())).collect();
        self.running.shared.upstream_peers.put_designated(peers);
        let designated =
            found().map(|(terms, (found, _))| (terms.clone(), found.clone())).collect();
        let change = |all: &mut UpstreamAddresses| all.designate(designated);
        self.running.reloader.change_upstream_addresses(change, zones);
    }

    fn report(&self) {
        let mut all: Vec<_> = self.servers.iter().map(|(terms, one)| one.status(terms)).collect();
        all.sort_by_key(|status| status.upstream);
        self.running.shared.discoveries.put(all);
        let mut texts: Vec<_> =
            self.servers.iter().filter_map(|(terms, server)| server.trouble(terms)).collect();
        texts.sort();
        let text = (!texts.is_empty()).then(|| texts.join("; "));
        self.running.conditions.set(Condition::Discovery, text);
    }
}

impl AskedServer {
    /// Reads the files with authorities for the designated server. If they cannot be read, the
    /// previous authorities stay.
    fn read_settings(&mut self, terms: &DiscoveryTerms) {
        let Some((found, peer)) = &mut self.found else { return };
        match UpstreamPeer::of(&terms.peer(found), &mut ClientConfigs::default()) {
            Ok(Some(read)) => *peer = Arc::new(read),
            Ok(None) => {}
            Err(fault) => tracing::warn!("{found}: {fault}"),
        }
    }

    /// Records the result of an attempt.
    fn take(&mut self, terms: &DiscoveryTerms, attempt: DiscoveryAttempt) {
        let is_strict = terms.discovery == Discovery::Strict;
        let now = Instant::now();
        match attempt.result {
            Ok(FoundServer { designated, peer }) => {
                let secs = attempt.ttl_secs.unwrap_or(0).clamp(KEEP_SECS.0, KEEP_SECS.1);
                self.due = Some(now + Duration::from_secs(secs.into()));
                (self.failures, self.fault) = (0, None);
                // If the settings have not changed, TLS sessions are kept, so that connections can
                // resume them.
                let is_same = self.found.as_ref().is_some_and(|(found, _)| *found == designated);
                if !is_same {
                    let (server, proof) = (terms.server, shown(designated.proof));
                    tracing::info!("queries for {server} go to {designated} ({proof})");
                }
                if !is_same {
                    self.found = Some((designated, Arc::new(peer)));
                }
            }
            Err(fault) => {
                let result = fault.result();
                let secs = match result {
                    DiscoveryResult::NotAnnounced => u64::from(NOT_ANNOUNCED_SECS),
                    DiscoveryResult::NoAnswer => {
                        (RETRY_SECS.0 << self.failures.min(10)).min(RETRY_SECS.1)
                    }
                    // The next query is due when the records expire (RFC 9462 §4.2).
                    _ => attempt.ttl_secs.unwrap_or(0).clamp(KEEP_SECS.0, KEEP_SECS.1).into(),
                };
                let secs = if is_strict { secs.min(STRICT_RETRY_SECS) } else { secs };
                self.due = Some(now + Duration::from_secs(secs));
                self.failures = self.failures.saturating_add(1);
                // An attacker on the path can suppress the answer, so its absence does not end the
                // use of a server. Each connection proves the server again.
                let keeps = is_strict || result == DiscoveryResult::NoAnswer;
                if !keeps && let Some((found, _)) = self.found.take() {
                    let server = terms.server;
                    tracing::info!("queries for {server} no longer go to {found}: {fault}");
                }
                self.fault = Some(fault);
            }
        }
    }

    fn status(&self, terms: &DiscoveryTerms) -> DiscoveryStatus {
        let found = self.found.as_ref().map(|(found, _)| found);
        let left = self.due.map(|due| due.saturating_duration_since(Instant::now()));
        DiscoveryStatus {
            upstream: terms.server,
            designated: found.map(ToString::to_string),
            proof: found.map(|found| shown(found.proof)),
            error: self.fault.as_ref().map(ToString::to_string),
            strict: terms.discovery == Discovery::Strict,
            next_at: wall_secs() + left.map_or(0, |left| left.as_secs()),
        }
    }

    /// Returns a problem for the operator, if there is one. A server that designates no server is a
    /// problem only if queries wait for a designated server.
    fn trouble(&self, terms: &DiscoveryTerms) -> Option<String> {
        let fault = self.fault.as_ref()?;
        let server = terms.server;
        match (terms.discovery, &self.found) {
            (Discovery::Strict, None) => Some(format!(
                "the upstream {server} gets no queries: {fault}; check `discover` of [[forward]]"
            )),
            (_, None) if fault.result() == DiscoveryResult::NotAnnounced => None,
            (_, None) => Some(format!("the upstream {server} is queried in plain DNS: {fault}")),
            (_, Some((found, _))) => Some(format!(
                "the upstream {server} may no longer designate {found}, which is in use: {fault}"
            )),
        }
    }
}

const fn shown(proof: DesignationProof) -> DiscoveryProof {
    match proof {
        DesignationProof::Verified => DiscoveryProof::Verified,
        DesignationProof::SameAddress => DiscoveryProof::SameAddress,
    }
}
