//! Answers the datagrams of a batch one by one. A listener calls the query path through this
//! module.

use std::net::IpAddr;
use std::sync::Arc;

use avocet_io::Peer;
use avocet_io::udp::{BATCH, Datagram, Panic, Service};
use avocet_policy::client::{DeviceClaims, DeviceId};

use crate::close::{Delivery, Ended, close, close_silent};
use crate::metrics::WorkerMetrics;
use crate::name_server::NameServer;
use crate::proxies::Named;
use crate::query::asked::{Entrance, Transport};
use crate::query::miss::{Miss, Way};
use crate::query::{self, Client, Decision, Incoming, Output, QueryContext, Seen, Stage};
use crate::snapshot::Snapshot;

/// Number of datagrams between the one being answered and the one whose packet-cache entry is
/// prefetched.
const LOOK_AHEAD: usize = 3;

/// A snapshot that came into force after the worker began this turn of its event loop. Datagrams
/// that are received after the change are answered from this snapshot.
pub struct Newer {
    /// The revision of the latest known snapshot.
    pub known: u64,
    /// The snapshot that came into force during the turn of the event loop; `None` if none did.
    pub state: Option<Arc<Snapshot>>,
}

impl Newer {
    /// Fetches the snapshot in force if its revision is not `known`.
    #[inline]
    pub fn look(&mut self, shared: &NameServer) {
        let revision = shared.revision();
        if revision != self.known {
            self.known = revision;
            self.state = Some(shared.snapshot());
        }
    }

    /// Returns the context of the later snapshot, built in `place`; returns `cx` if there is no
    /// later snapshot.
    #[inline]
    pub fn context<'p>(
        &'p self,
        cx: &'p QueryContext<'p>,
        place: &'p mut Option<QueryContext<'p>>,
    ) -> &'p QueryContext<'p> {
        match &self.state {
            None => cx,
            // The wall time is read again, because a step of the wall clock may be the reason for
            // the later snapshot.
            Some(state) => place.insert(QueryContext {
                state,
                wall_secs: cx.shared.clock.wall_secs(cx.now),
                ..*cx
            }),
        }
    }
}

/// The service of a listener: answers its datagrams, one batch at a time.
pub struct Datagrams<'w> {
    /// The context at the start of the turn of the event loop.
    pub cx: QueryContext<'w>,
    /// The snapshot that came into force during the turn of the event loop, if one did.
    pub newer: Newer,
    /// The worker's counters.
    pub metrics: &'w WorkerMetrics,
    /// The index of the listener.
    pub listener: u16,
    /// The address of the listener.
    pub entrance: Entrance,
    /// The queries that wait for the network.
    pub misses: &'w mut Vec<Miss>,
    /// The results of reading the questions of a batch in advance (look-ahead), one for each
    /// datagram.
    pub seen: &'w mut [Seen; BATCH],
    /// Whether datagrams of this batch may come from proxies.
    pub has_proxies: bool,
}

impl Datagrams<'_> {
    /// Returns the client of a datagram; `None` if the datagram lacks a required PROXY header.
    #[cold]
    #[inline(never)]
    fn client_of(&self, octets: &[u8], sender: IpAddr) -> Option<Named> {
        let state = self.newer.state.as_deref().unwrap_or(self.cx.state);
        state.proxies.client_of(self.entrance, sender, octets)
    }
}

impl Service for Datagrams<'_> {
    #[inline]
    fn look(&mut self, place: usize, bytes: &[u8], peer: &Peer) {
        if place == 0 {
            self.newer.look(self.cx.shared);
            let state = self.newer.state.as_deref().unwrap_or(self.cx.state);
            self.has_proxies = state.proxies.are_at(self.entrance);
        }
        let (mut ip, mut bytes) = (peer.ip(), bytes);
        if self.has_proxies {
            // A datagram without a usable PROXY header is dropped when it is answered.
            let Some(named) = self.client_of(bytes, ip) else { return };
            (ip, bytes) = (named.ip, &bytes[named.header_len..]);
        }
        let Self { cx, newer, seen, entrance, .. } = self;
        let mut later = None;
        seen[place].look(newer.context(cx, &mut later), bytes, ip, *entrance);
    }

    #[inline]
    fn answer(&mut self, place: usize, datagram: Datagram<'_>, out: &mut [u8]) -> Option<usize> {
        let (mut ip, mut bytes) = (datagram.peer.ip(), datagram.bytes);
        if self.has_proxies {
            let Some(named) = self.client_of(bytes, ip) else {
                self.metrics.proxy_headers_refused.add(1);
                return None;
            };
            (ip, bytes) = (named.ip, &bytes[named.header_len..]);
        }
        let Self { cx, newer, metrics, misses, seen, .. } = self;
        if let Some(ahead) = seen.get(place + LOOK_AHEAD) {
            ahead.look_again(cx.shared);
        }
        let route = Way::Datagram { listener: self.listener, peer: datagram.peer };
        let (entrance, claims) = (self.entrance, DeviceClaims::NONE);
        let client =
            Client { ip, transport: Transport::Udp, is_tls12: false, entrance, claims, route };
        let mut later = None;
        let cx = newer.context(cx, &mut later);
        let incoming = Incoming { octets: bytes, seen: Some(&seen[place]) };
        let output = Output { message: &mut *out, misses };
        let step = query::answer(cx, incoming, &client, output);
        let seen = &seen[place];
        let ended = || Ended {
            device: DeviceId::NONE,
            ip: &ip,
            entrance,
            question: seen.question(),
            octets: bytes.len() as u16,
            since: cx.now,
            rtt_ms: 0,
            trace: None,
        };
        match close(cx, metrics, &step, ended, out) {
            Delivery::Message(len) => Some(len),
            Delivery::Nothing | Delivery::Later => None,
        }
    }

    fn failed(&mut self, _: Panic) {
        self.metrics.panics.add(1);
        let revision = self.cx.state.revision;
        close_silent(self.metrics, &Decision::at(Stage::Failed, Transport::Udp, revision));
    }
}
