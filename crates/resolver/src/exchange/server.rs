//! The record of each server: its speed, health and abilities, and the zones that are delegated to
//! it but that it does not serve.
//!
//! Servers of the plan are *pinned*: they keep their records, have a pool of sockets, and appear in
//! reports. The number of other servers, which come from delegations, is limited. Servers that were
//! not used recently are forgotten.

use avocet_wire::hash::DrawnHashKey;
use avocet_wire::{FoldedName, SharedName};
use std::collections::HashMap;

use super::breaker::{Breaker, BreakerState};
use super::cookie::Cookie;
use super::encryption::{Encryption, Link};
use super::endpoint::{Endpoint, EndpointId, PeerId, TlsFault, Transport};
use super::pool::Pool;
use super::rtt::Rtt;
use super::streams::Streams;
use crate::metrics::UpstreamCounters;

/// Maximum number of servers in the table of one resolver that are not pinned. Servers with
/// outstanding queries may exceed it.
pub(crate) const MAX_SERVERS: usize = 16_384;
/// Maximum number of zones that are recorded for a server: zones that it does not serve, and zones
/// that it serves without signatures.
const MAX_ZONES: usize = 8;
/// Lifetime in ms of a record about a server and one zone (Unbound: 15 minutes).
const ZONE_MS: u64 = 900_000;
/// The time in ms for which a server is assumed to lack an ability, such as EDNS (Unbound: 15
/// minutes). After this time, one query tests the server again. The test is cheap, and a repaired
/// server soon gets queries with EDNS and 0x20 again.
pub(crate) const INABILITY_MS: u64 = 900_000;
/// The equivalent of [`INABILITY_MS`] if the only evidence is that the server did not answer, which
/// may be by chance.
const GUESSED_INABILITY_MS: u64 = 60_000;
/// Number of answers in a row to queries without EDNS, after failures with EDNS, that show that a
/// server does not support EDNS.
const GUESSES: u32 = 3;
/// Number of denials that are equal in mixed case and in lower case after which the denials of a
/// server are believed for [`INABILITY_MS`]. One is not enough, because the name may not exist.
const EQUAL_DENIALS: u32 = 3;
/// Milliseconds after such a denial for which further denials of the server are not verified, and
/// do not count. A flood of random names thus costs one query more, and proves no more than one
/// name.
const BELIEF_MS: u64 = 10_000;

/// Whether a query is the first of an exchange to its server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CookieAttempt {
    First,
    Further,
}

/// Whether missing EDNS support was only guessed from a timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guessed {
    No,
    Yes,
}

/// The record of a server; see the module.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) endpoint: Endpoint,
    pub(crate) rtt: Rtt,
    pub(crate) cookie: Cookie,
    pub(crate) breaker: Breaker,
    folds_case_until_ms: u64,
    /// Whether the server answers names in mixed case correctly: it has found such a name.
    pub(crate) finds_any_case: bool,
    /// Number of times that the server denied a name in mixed case and in lower case.
    equal_denials: u32,
    /// The time until which denials of the server are not verified.
    believed_until_ms: u64,
    fails_any_case_until_ms: u64,
    /// Zones for which the server returned the same error in lower case and in mixed case.
    failing_any_case: Zones,
    /// Number of times that the server answered in lower case after it had not answered in mixed
    /// case.
    case_guesses: u32,
    fails_cookies_until_ms: u64,
    /// Number of times that the server answered only without a cookie, as far as it is known.
    cookie_guesses: u32,
    fails_edns_until_ms: u64,
    /// Whether the server has answered a query with EDNS by a reply with EDNS.
    pub(crate) speaks_edns: bool,
    /// Number of times that the server answered only without EDNS.
    guesses: u32,
    lame: Zones,
    unsigned: Zones,
    used: bool,
    /// Number of outstanding queries.
    pub(crate) outstanding: u32,
    pub(crate) streams: Streams,
    /// The state of an unproven endpoint.
    pub(crate) encryption: Option<Box<Encryption>>,
    /// The additional state of a pinned server.
    pub(crate) pinned: Option<Box<Pinned>>,
}

/// The additional state of a server of the plan.
#[derive(Debug)]
pub(crate) struct Pinned {
    /// Whether the server is in the plan in force. If not, it is forgotten when it has no
    /// outstanding query.
    pub(crate) is_planned: bool,
    pub(crate) pool: Pool,
    /// Counters of forwarded queries.
    pub(crate) counters: UpstreamCounters,
    /// The reason why TLS failed; `None` if a reply has arrived since.
    pub(crate) tls_fault: Option<TlsFault>,
}

impl Server {
    fn new(endpoint: Endpoint, cookie_secret: &[u8; 16]) -> Self {
        Self {
            endpoint,
            rtt: Rtt::default(),
            cookie: Cookie::new(cookie_secret, endpoint.addr),
            breaker: Breaker::default(),
            folds_case_until_ms: 0,
            finds_any_case: false,
            equal_denials: 0,
            believed_until_ms: 0,
            fails_any_case_until_ms: 0,
            failing_any_case: Zones::default(),
            case_guesses: 0,
            fails_cookies_until_ms: 0,
            cookie_guesses: 0,
            fails_edns_until_ms: 0,
            speaks_edns: false,
            guesses: 0,
            lame: Zones::default(),
            unsigned: Zones::default(),
            used: true,
            outstanding: 0,
            streams: Streams::default(),
            encryption: (endpoint.transport.peer() == Some(PeerId::UNPROVEN)).then(Box::default),
            pinned: None,
        }
    }

    /// Records a reply after `rtt_ms`.
    pub(crate) fn replied(&mut self, now_ms: u64, rtt_ms: u64) {
        self.rtt.sample(rtt_ms);
        self.breaker.succeeded(now_ms);
        if let Some(pinned) = &mut self.pinned {
            pinned.tls_fault = None;
        }
    }

    /// Records a query that was not answered in time, or did not reach the server.
    pub(crate) fn failed(&mut self, now_ms: u64, sent_ms: u64) {
        self.rtt.penalise(now_ms);
        if self.breaker.failed(now_ms, sent_ms)
            && let Some(pinned) = &mut self.pinned
        {
            pinned.counters.breaker_opened += 1;
            // The operator may have replaced the server at this address. A server from a delegation
            // keeps its record, because silence is no reason to query it without EDNS, and thus
            // without signatures.
            self.speaks_edns = false;
        }
    }

    /// Records that TLS failed.
    pub(crate) fn note_tls_fault(&mut self, fault: TlsFault) {
        if let Some(pinned) = &mut self.pinned {
            pinned.tls_fault = Some(fault);
            pinned.counters.tls_faults[fault as usize] += 1;
        }
    }

    /// Returns the counters of forwarded queries, if the server is pinned.
    pub(crate) fn counters(&mut self) -> Option<&mut UpstreamCounters> {
        self.pinned.as_mut().map(|pinned| &mut pinned.counters)
    }

    /// Returns whether the server's breaker is open, so that it is assumed to be dead.
    pub(crate) fn is_open(&self) -> bool {
        self.breaker.state() == BreakerState::Open
    }

    /// Returns whether the server is an unproven endpoint with a connection. If so, no other server
    /// may get its identifier.
    fn is_linked(&self) -> bool {
        self.encryption.as_ref().is_some_and(|state| state.link != Link::Closed)
    }

    /// Returns whether the server answered recently. If so, a missing reply means that a packet was
    /// lost.
    pub(crate) fn is_alive(&self, now_ms: u64) -> bool {
        self.breaker.is_alive(now_ms)
    }

    /// Returns whether the server is assumed to be dead and no probe is due, so that it is queried
    /// only if there is no other server.
    pub(crate) fn is_shunned(&self, now_ms: u64) -> bool {
        self.is_open() && now_ms < self.breaker.probe_at_ms()
    }

    pub(crate) fn is_lame(&self, zone: FoldedName<'_>, now_ms: u64) -> bool {
        self.lame.has(zone, now_ms)
    }

    pub(crate) fn note_lame(&mut self, zone: SharedName, now_ms: u64) {
        self.lame.add(zone, now_ms);
    }

    /// Returns whether the server is likely to return the signatures of a signed zone.
    pub(crate) fn gives_signatures(&self, zone: FoldedName<'_>, now_ms: u64) -> bool {
        self.takes_edns(now_ms) && !self.unsigned.has(zone, now_ms)
    }

    /// Records that the server omitted the signatures of a signed zone.
    pub(crate) fn note_unsigned(&mut self, zone: SharedName, now_ms: u64) {
        self.unsigned.add(zone, now_ms);
    }

    pub(crate) fn keeps_case(&self, now_ms: u64) -> bool {
        now_ms >= self.folds_case_until_ms
    }

    pub(crate) fn note_folded_case(&mut self, now_ms: u64) {
        self.folds_case_until_ms = now_ms + INABILITY_MS;
    }

    /// Returns whether a denial of a name in mixed case must be verified in lower case.
    pub(crate) fn is_denial_in_doubt(&self, now_ms: u64) -> bool {
        !self.finds_any_case && now_ms >= self.believed_until_ms
    }

    /// Records that the server denied a name in lower case, as it had in mixed case.
    pub(crate) fn note_equal_denial(&mut self, now_ms: u64) {
        if now_ms < self.believed_until_ms {
            return;
        }
        self.equal_denials += 1;
        let is_usual = self.equal_denials >= EQUAL_DENIALS;
        self.believed_until_ms = now_ms + if is_usual { INABILITY_MS } else { BELIEF_MS };
    }

    /// Returns whether an error of the server may be due to mixed case. The result is `false` for a
    /// server that has found a name in mixed case, or that returns errors in lower case, too.
    pub(crate) fn may_mind_case(&self, now_ms: u64) -> bool {
        !self.finds_any_case && now_ms >= self.fails_any_case_until_ms
    }

    /// Returns whether the server may have ignored a query because of mixed case.
    pub(crate) fn may_drop_mixed_case(&self, now_ms: u64) -> bool {
        self.endpoint.transport == Transport::Udp
            && self.keeps_case(now_ms)
            && self.may_mind_case(now_ms)
    }

    /// Records that the server answered in lower case after it had not answered in mixed case. The
    /// query in mixed case may also have been lost.
    pub(crate) fn guess_folded_case(&mut self, now_ms: u64) {
        self.case_guesses += 1;
        if self.case_guesses >= GUESSES && !self.finds_any_case {
            self.note_folded_case(now_ms);
        }
    }

    /// Records that the server returned the same error in lower case and in mixed case.
    pub(crate) fn note_failed_any_case(&mut self, now_ms: u64) {
        self.fails_any_case_until_ms = now_ms + INABILITY_MS;
    }

    /// Returns whether an error of the server for a zone may be due to mixed case. Results for
    /// other zones do not matter, because several programs may serve one address.
    pub(crate) fn may_mind_case_of(&self, zone: FoldedName<'_>, now_ms: u64) -> bool {
        !self.failing_any_case.has(zone, now_ms)
    }

    /// Records that the server returned the same error for a zone in lower case and in mixed case.
    pub(crate) fn note_failed_any_case_of(&mut self, zone: SharedName, now_ms: u64) {
        self.note_failed_any_case(now_ms);
        self.failing_any_case.add(zone, now_ms);
    }

    /// Records that the server answered for a zone in lower case, after an error in mixed case.
    pub(crate) fn note_minded_case(&mut self, zone: FoldedName<'_>, now_ms: u64) {
        // Names of the server's other zones keep their random case, which makes forgeries harder.
        if !self.finds_any_case {
            self.note_folded_case(now_ms);
        }
        self.lame.remove(zone);
    }

    /// Returns whether a query may have a cookie: the server has sent one before, or this is the
    /// first attempt and the server is not known to reject cookies.
    pub(crate) fn takes_cookies(&self, attempt: CookieAttempt, now_ms: u64) -> bool {
        self.cookie.is_answered()
            || attempt == CookieAttempt::First && now_ms >= self.fails_cookies_until_ms
    }

    /// Records that a query without a cookie was answered after a query with a cookie was not
    /// answered, or was rejected. Some servers drop or reject queries with cookies.
    pub(crate) fn note_failed_cookie(&mut self, now_ms: u64, guessed: Guessed) {
        self.cookie_guesses += 1;
        match guessed {
            Guessed::No => self.fails_cookies_until_ms = now_ms + INABILITY_MS,
            Guessed::Yes if self.cookie_guesses >= GUESSES => {
                self.fails_cookies_until_ms = now_ms + GUESSED_INABILITY_MS;
            }
            Guessed::Yes => {}
        }
    }

    pub(crate) fn takes_edns(&self, now_ms: u64) -> bool {
        now_ms >= self.fails_edns_until_ms
    }

    /// Records that the server answered a query with EDNS by a reply with EDNS.
    pub(crate) fn note_edns(&mut self) {
        (self.speaks_edns, self.guesses) = (true, 0);
    }

    /// Records that a query without EDNS was answered after a query with EDNS was not answered, or
    /// was rejected as malformed (RFC 6891 §7).
    pub(crate) fn note_failed_edns(&mut self, now_ms: u64, guessed: Guessed) {
        if self.speaks_edns {
            return;
        }
        self.guesses += 1;
        match guessed {
            Guessed::No => self.fails_edns_until_ms = now_ms + INABILITY_MS,
            // A query with EDNS that was not answered may have been lost.
            Guessed::Yes if self.guesses >= GUESSES => {
                self.fails_edns_until_ms = now_ms + GUESSED_INABILITY_MS
            }
            Guessed::Yes => {}
        }
    }
}

/// Zones that are recorded for a limited time. If there are too many, the oldest is replaced.
#[derive(Debug, Default)]
struct Zones(Vec<(SharedName, u64)>);

impl Zones {
    fn has(&self, zone: FoldedName<'_>, now_ms: u64) -> bool {
        self.0.iter().any(|(name, until)| name.view() == zone && now_ms < *until)
    }

    fn remove(&mut self, zone: FoldedName<'_>) {
        self.0.retain(|(name, _)| name.view() != zone);
    }

    fn add(&mut self, zone: SharedName, now_ms: u64) {
        self.0.retain(|(name, until)| *name != zone && now_ms < *until);
        if self.0.len() >= MAX_ZONES {
            self.0.remove(0);
        }
        self.0.push((zone, now_ms + ZONE_MS));
    }
}

/// All servers, by identifier and by endpoint.
#[derive(Debug)]
pub(crate) struct Servers {
    all: Vec<Server>,
    by_endpoint: HashMap<Endpoint, EndpointId, DrawnHashKey>,
    /// The free identifiers.
    vacant: Vec<EndpointId>,
    pinned: usize,
    /// The index at which the search for a server to forget continues.
    hand: usize,
    cookie_secret: [u8; 16],
    pool_size: usize,
}

impl Servers {
    /// Creates an empty table. Each pinned server gets a pool of `pool_size` sockets, a power of
    /// two.
    pub(crate) fn new(cookie_secret: [u8; 16], pool_size: usize) -> Self {
        Self {
            all: Vec::new(),
            by_endpoint: HashMap::default(),
            vacant: Vec::new(),
            pinned: 0,
            hand: 0,
            cookie_secret,
            pool_size,
        }
    }

    /// Returns the identifier of a server. A server without an identifier gets one, and keeps it at
    /// least while queries to the server are outstanding.
    pub(crate) fn number(&mut self, endpoint: Endpoint) -> EndpointId {
        if let Some(&id) = self.by_endpoint.get(&endpoint) {
            self[id].used = true;
            return id;
        }
        let server = Server::new(endpoint, &self.cookie_secret);
        let id = match self.vacant.pop().or_else(|| self.evict()) {
            Some(id) => {
                self[id] = server;
                id
            }
            None => {
                self.all.push(server);
                EndpointId((self.all.len() - 1) as u32)
            }
        };
        self.by_endpoint.insert(endpoint, id);
        id
    }

    /// Returns the identifier of `endpoint`. The server with the identifier `id` is never forgotten
    /// to make room for `endpoint`.
    pub(crate) fn number_next_to(&mut self, id: EndpointId, endpoint: Endpoint) -> EndpointId {
        self[id].outstanding += 1;
        let other = self.number(endpoint);
        self[id].outstanding -= 1;
        other
    }

    /// Pins a server of the plan, and returns its identifier.
    pub(crate) fn pin(&mut self, endpoint: Endpoint) -> EndpointId {
        let id = self.number(endpoint);
        // A server that gets no UDP queries needs no pool.
        let pool_size = if endpoint.transport == Transport::Udp { self.pool_size } else { 1 };
        if let Some(pinned) = &mut self[id].pinned {
            pinned.is_planned = true;
            return id;
        }
        let (pool, counters) = (Pool::new(pool_size), UpstreamCounters::default());
        let pinned = Pinned { is_planned: true, pool, counters, tls_fault: None };
        self[id].pinned = Some(Box::new(pinned));
        self.pinned += 1;
        id
    }

    /// Marks all pinned servers as not in the plan. [`Servers::pin`] then marks the servers of the
    /// next plan.
    pub(crate) fn unplan(&mut self) {
        for pinned in self.all.iter_mut().filter_map(|server| server.pinned.as_mut()) {
            pinned.is_planned = false;
        }
    }

    /// Returns the servers of the plan in force.
    pub(crate) fn planned(&self) -> impl Iterator<Item = (EndpointId, &Server, &Pinned)> {
        (0..).zip(&self.all).filter_map(|(at, server)| {
            let pinned = server.pinned.as_deref().filter(|pinned| pinned.is_planned)?;
            Some((EndpointId(at), server, pinned))
        })
    }

    /// Returns pinned servers that are in no plan and have no outstanding query.
    pub(crate) fn unplanned(&self) -> Vec<EndpointId> {
        let is_idle = |server: &Server| {
            server.outstanding == 0 && server.pinned.as_ref().is_some_and(|pin| !pin.is_planned)
        };
        let all = (0..).zip(&self.all).filter(|(_, server)| is_idle(server));
        all.map(|(at, _)| EndpointId(at)).collect()
    }

    /// Forgets a pinned server. Another server may get its identifier.
    pub(crate) fn forget(&mut self, id: EndpointId) {
        let endpoint = self[id].endpoint;
        self[id].pinned = None;
        self.pinned -= 1;
        self.by_endpoint.remove(&endpoint);
        self.vacant.push(id);
    }

    /// Returns the record of an endpoint, if there is one.
    pub(crate) fn known(&self, endpoint: Endpoint) -> Option<&Server> {
        self.by_endpoint.get(&endpoint).map(|&id| &self[id])
    }

    /// Forgets a server that was not used since the last pass and has no outstanding query, and
    /// returns its identifier. Returns `None` while the table has room, or if there is no such
    /// server. Servers with outstanding queries or an unproven connection are not forgotten.
    fn evict(&mut self) -> Option<EndpointId> {
        if self.all.len() - self.pinned < MAX_SERVERS {
            return None;
        }
        // The first pass only marks all servers as unused.
        for _ in 0..2 * self.all.len() {
            self.hand = (self.hand + 1) % self.all.len();
            let server = &mut self.all[self.hand];
            if server.pinned.is_none()
                && server.outstanding == 0
                && !server.is_linked()
                && !std::mem::take(&mut server.used)
            {
                let endpoint = server.endpoint;
                self.by_endpoint.remove(&endpoint);
                return Some(EndpointId(self.hand as u32));
            }
        }
        None
    }
}

impl std::ops::Index<EndpointId> for Servers {
    type Output = Server;

    fn index(&self, id: EndpointId) -> &Server {
        &self.all[id.0 as usize]
    }
}

impl std::ops::IndexMut<EndpointId> for Servers {
    fn index_mut(&mut self, id: EndpointId) -> &mut Server {
        &mut self.all[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iterate::rrset::name_of;

    fn endpoint(number: usize) -> Endpoint {
        let octets = [10, (number >> 16) as u8, (number >> 8) as u8, number as u8];
        Endpoint::plain((octets, 53).into())
    }

    #[test]
    fn the_table_is_bounded_and_keeps_what_is_used() {
        let mut servers = Servers::new([1; 16], 64);
        for number in 0..MAX_SERVERS + 100 {
            servers.number(endpoint(number));
            let first = servers.number(endpoint(0));
            servers[first].outstanding = 1;
        }
        assert_eq!(servers.all.len(), MAX_SERVERS);
        assert_eq!(servers.by_endpoint.len(), MAX_SERVERS);
        assert!(servers.known(endpoint(0)).is_some());
        assert!(servers.known(endpoint(MAX_SERVERS + 99)).is_some());
    }

    #[test]
    fn a_server_that_owes_replies_keeps_its_place() {
        let mut servers = Servers::new([1; 16], 64);
        for number in 0..MAX_SERVERS + 100 {
            let at = servers.number(endpoint(number));
            assert_eq!(servers[at].outstanding, 0);
            servers[at].outstanding += 1;
        }
        assert!((0..MAX_SERVERS + 100).all(|number| servers.known(endpoint(number)).is_some()));
        let first = servers.number(endpoint(0));
        servers[first].outstanding -= 1;
        assert_eq!(servers.number(endpoint(MAX_SERVERS + 100)), first);
        assert_eq!(servers.all.len(), MAX_SERVERS + 100, "the place that is free again is taken");
    }

    #[test]
    fn lameness_is_of_one_zone_and_passes() {
        let mut server = Server::new(endpoint(1), &[1; 16]);
        let zone = name_of(b"\x07example\x00");
        server.note_lame(zone.clone(), 1_000);
        assert!(server.is_lame(zone.view(), 1_000) && !server.is_lame(FoldedName::ROOT, 1_000));
        assert!(!server.is_lame(zone.view(), 1_000 + ZONE_MS));
        for number in 0..20u8 {
            server.note_lame(name_of(&[1, number, 0]), 1_000);
        }
        assert_eq!(server.lame.0.len(), MAX_ZONES);
    }

    #[test]
    fn a_lack_of_signatures_is_of_one_zone_and_passes_and_one_of_edns_is_of_all() {
        let mut server = Server::new(endpoint(1), &[1; 16]);
        let zone = name_of(b"\x07example\x00");
        server.note_unsigned(zone.clone(), 1_000);
        assert!(
            !server.gives_signatures(zone.view(), 1_000)
                && server.gives_signatures(FoldedName::ROOT, 1_000)
        );
        assert!(
            server.gives_signatures(zone.view(), 1_000 + ZONE_MS)
                && !server.is_lame(zone.view(), 1_000)
        );
        server.note_failed_edns(1_000, Guessed::No);
        assert!(!server.gives_signatures(FoldedName::ROOT, 1_000));
    }

    #[test]
    fn pinned_servers_stay_until_they_are_forgotten() {
        let mut servers = Servers::new([1; 16], 64);
        let first = servers.pin(endpoint(0));
        for number in 1..=2 * MAX_SERVERS {
            servers.number(endpoint(number));
        }
        assert_eq!((servers.number(endpoint(0)), servers.all.len()), (first, MAX_SERVERS + 1));
        servers.unplan();
        assert_eq!((servers.planned().count(), servers.unplanned()), (0, vec![first]));
        servers.forget(first);
        assert!(servers.known(endpoint(0)).is_none());
        assert_eq!(servers.number(endpoint(3 * MAX_SERVERS)), first, "its number is free");
    }
}
