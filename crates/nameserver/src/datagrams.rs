//! Datagrams of a batch, answered one by one: the query path as a listener calls it.

use std::net::IpAddr;
use std::sync::Arc;

use avocet_io::Peer;
use avocet_io::udp::{BATCH, Datagram, Panic, Service};

use crate::metrics::WorkerMetrics;
use crate::name_server::NameServer;
use crate::query::asked::Transport;
use crate::query::decision::Stage;
use crate::query::miss::{Miss, Way};
use crate::query::rate_limit::Limited;
use crate::query::{self, Client, Exit, Outcome, Path, Seen};
use crate::snapshot::Snapshot;

/// So many answers ahead, the entry of a question in the packet cache is asked for.
const LOOK_AHEAD: usize = 3;

/// A snapshot put in force after the worker began its turn: what comes in after that is answered by
/// it.
pub struct Newer {
    /// The revision that the worker's own snapshot is of.
    pub known: u64,
    /// The later one.
    pub state: Option<Arc<Snapshot>>,
}

impl Newer {
    /// Looks whether there is one, when something has come in.
    #[inline]
    pub fn look(&mut self, shared: &NameServer) {
        let revision = shared.revision();
        if revision != self.known {
            self.known = revision;
            self.state = Some(shared.snapshot());
        }
    }

    /// The path by the later snapshot, for which there is a place, if there is one; else this path.
    #[inline]
    pub fn path<'p>(&'p self, path: &'p Path<'p>, place: &'p mut Option<Path<'p>>) -> &'p Path<'p> {
        match &self.state {
            None => path,
            // The wall clock may be why there is a later one.
            Some(state) => place.insert(Path {
                state,
                wall_secs: path.shared.clock.wall_secs(path.now),
                ..*path
            }),
        }
    }
}

/// Answers the datagrams of a listener, a batch at a time.
pub struct Datagrams<'w> {
    /// What they are answered by.
    pub path: Path<'w>,
    /// What they are answered by if it has come meanwhile.
    pub newer: Newer,
    /// Where they are counted.
    pub metrics: &'w WorkerMetrics,
    /// Number of the listener.
    pub listener: u16,
    /// Where those go that must wait.
    pub misses: &'w mut Vec<Miss>,
    /// Of the datagrams of the batch.
    pub seen: &'w mut [Seen; BATCH],
}

impl Service for Datagrams<'_> {
    #[inline]
    fn look(&mut self, place: usize, bytes: &[u8], peer: &Peer) {
        let Self { path, newer, seen, .. } = self;
        if place == 0 {
            newer.look(path.shared);
        }
        let mut later = None;
        seen[place].look(newer.path(path, &mut later), bytes, peer);
    }

    #[inline]
    fn answer(&mut self, place: usize, datagram: Datagram<'_>, out: &mut [u8]) -> Option<usize> {
        let Self { path, newer, metrics, misses, seen, .. } = self;
        if let Some(ahead) = seen.get(place + LOOK_AHEAD) {
            ahead.look_again(path.shared);
        }
        let route = Way::Datagram { listener: self.listener, peer: datagram.peer };
        let client = Client { ip: datagram.peer.ip(), transport: Transport::Udp, route };
        let mut later = None;
        let path = newer.path(path, &mut later);
        match query::answer(path, (datagram.bytes, Some(&seen[place])), &client, (out, misses)) {
            Exit::Reply { len, outcome } => {
                metrics.count(outcome.stage, Transport::Udp, outcome.qtype, outcome.rcode);
                limited(path, metrics, (&outcome, client.ip), (out, len))
            }
            Exit::Silent(stage) => {
                metrics.count_silent(stage, Transport::Udp);
                None
            }
            Exit::Wait => None,
        }
    }

    fn failed(&mut self, _: Panic) {
        self.metrics.panics.add(1);
        self.metrics.count_silent(Stage::Failed, Transport::Udp);
    }
}

/// Applies the rate limit to an answer in `out`; gives its length, or none if it is not sent.
#[inline]
pub fn limited(
    path: &Path<'_>,
    metrics: &WorkerMetrics,
    (outcome, ip): (&Outcome, IpAddr),
    (out, len): (&mut [u8], usize),
) -> Option<usize> {
    let Some(limiter) = &path.state.rate_limit else { return Some(len) };
    if outcome.verified {
        return Some(len);
    }
    match limiter.take(ip, outcome.kind, path.now.millis()) {
        Limited::Send => Some(len),
        Limited::Slip => {
            metrics.limit_slips.add(1);
            Some(query::stored::slip(out, len))
        }
        Limited::Drop => {
            metrics.limit_drops.add(1);
            None
        }
    }
}
