//! What is known of each authoritative server by its address: speed, health, what it can do, and
//! which zones it is named for but does not serve. Bounded; the least used are forgotten.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::rrset::Name;
use crate::breaker::{Breaker, BreakerState};
use crate::cookie::Cookie;
use crate::guess::{GUESSED_INABILITY_MS, GUESSES, Guessed};
use crate::rtt::Rtt;

/// Most servers remembered, in each resolver, as long as fewer owe replies.
pub(crate) const MAX_SERVERS: usize = 16_384;
/// Most zones remembered of one server that it does not serve, and of those that it serves without
/// signatures.
const MAX_ZONES: usize = 8;
/// How long it is remembered of a server and a zone, in ms (Unbound: 15 minutes).
const ZONE_MS: u64 = 900_000;
/// How long it is remembered that a server cannot do something, or does it in no other way, in ms.
const INABILITY_MS: u64 = 900_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    pub(crate) rtt: Rtt,
    pub(crate) cookie: Cookie,
    breaker: Breaker,
    folds_case_until_ms: u64,
    /// It has found a name that was asked for in mixed case, or denied one in lower case as well.
    pub(crate) finds_any_case: bool,
    fails_any_case_until_ms: u64,
    fails_edns_until_ms: u64,
    /// It has answered a query with EDNS by a reply with EDNS.
    pub(crate) speaks_edns: bool,
    /// How often it answered only without EDNS.
    guesses: u32,
    lame: Zones,
    unsigned: Zones,
    used: bool,
    /// Queries that are waited for.
    pub(crate) outstanding: u32,
}

impl Server {
    fn new(addr: SocketAddr, cookie_secret: &[u8; 16]) -> Self {
        Self {
            addr,
            rtt: Rtt::default(),
            cookie: Cookie::new(cookie_secret, addr),
            breaker: Breaker::default(),
            folds_case_until_ms: 0,
            finds_any_case: false,
            fails_any_case_until_ms: 0,
            fails_edns_until_ms: 0,
            speaks_edns: false,
            guesses: 0,
            lame: Zones::default(),
            unsigned: Zones::default(),
            used: true,
            outstanding: 0,
        }
    }

    /// A reply came after `rtt_ms`.
    pub(crate) fn replied(&mut self, now_ms: u64, rtt_ms: u64) {
        self.rtt.sample(rtt_ms);
        self.breaker.succeeded(now_ms);
    }

    /// A query was not answered in time, or did not reach it.
    pub(crate) fn failed(&mut self, now_ms: u64, sent_ms: u64) {
        self.rtt.penalise(now_ms);
        self.breaker.failed(now_ms, sent_ms);
    }

    /// Is it to be asked only where there is no other?
    pub(crate) fn is_shunned(&self, now_ms: u64) -> bool {
        self.breaker.state() == BreakerState::Open && now_ms < self.breaker.probe_at_ms()
    }

    /// A query goes out to it: one that was shunned gets a longer wait if that fails, too.
    pub(crate) fn take_probe(&mut self, now_ms: u64) {
        self.breaker.take_probe(now_ms);
    }

    pub(crate) fn is_lame(&self, zone: &[u8], now_ms: u64) -> bool {
        self.lame.has(zone, now_ms)
    }

    pub(crate) fn note_lame(&mut self, zone: Name, now_ms: u64) {
        self.lame.add(zone, now_ms);
    }

    /// Is it likely to give the signatures of a zone that is signed?
    pub(crate) fn gives_signatures(&self, zone: &[u8], now_ms: u64) -> bool {
        self.takes_edns(now_ms) && !self.unsigned.has(zone, now_ms)
    }

    /// It left out the signatures of a zone that is signed.
    pub(crate) fn note_unsigned(&mut self, zone: Name, now_ms: u64) {
        self.unsigned.add(zone, now_ms);
    }

    pub(crate) fn keeps_case(&self, now_ms: u64) -> bool {
        now_ms >= self.folds_case_until_ms
    }

    pub(crate) fn note_folded_case(&mut self, now_ms: u64) {
        self.folds_case_until_ms = now_ms + INABILITY_MS;
    }

    /// May an error of it be for the mixed case of a name? No server that has found one in mixed
    /// case, or that gives errors to lower case as well, is doubted.
    pub(crate) fn may_mind_case(&self, now_ms: u64) -> bool {
        !self.finds_any_case && now_ms >= self.fails_any_case_until_ms
    }

    /// It gave an error to lower case as it did to mixed case.
    pub(crate) fn note_failed_any_case(&mut self, now_ms: u64) {
        self.fails_any_case_until_ms = now_ms + INABILITY_MS;
    }

    /// It answers for a zone in lower case, after it gave an error to mixed case.
    pub(crate) fn note_minded_case(&mut self, zone: &[u8], now_ms: u64) {
        self.note_folded_case(now_ms);
        self.lame.remove(zone);
    }

    pub(crate) fn takes_edns(&self, now_ms: u64) -> bool {
        now_ms >= self.fails_edns_until_ms
    }

    /// It answered a query with EDNS by a reply with EDNS.
    pub(crate) fn note_edns(&mut self) {
        (self.speaks_edns, self.guesses) = (true, 0);
    }

    /// A query without EDNS was answered after the same with EDNS was not, or was refused as
    /// malformed (RFC 6891 §7).
    pub(crate) fn note_failed_edns(&mut self, now_ms: u64, guessed: Guessed) {
        if self.speaks_edns {
            return;
        }
        self.guesses += 1;
        match guessed {
            Guessed::No => self.fails_edns_until_ms = now_ms + INABILITY_MS,
            // What was not answered with EDNS may have been lost.
            Guessed::Yes if self.guesses >= GUESSES => {
                self.fails_edns_until_ms = now_ms + GUESSED_INABILITY_MS
            }
            Guessed::Yes => {}
        }
    }
}

/// Zones of which something is remembered for a while. The oldest gives way.
#[derive(Debug, Default)]
struct Zones(Vec<(Name, u64)>);

impl Zones {
    fn has(&self, zone: &[u8], now_ms: u64) -> bool {
        self.0.iter().any(|(name, until)| **name == *zone && now_ms < *until)
    }

    fn remove(&mut self, zone: &[u8]) {
        self.0.retain(|(name, _)| **name != *zone);
    }

    fn add(&mut self, zone: Name, now_ms: u64) {
        self.0.retain(|(name, until)| *name != zone && now_ms < *until);
        if self.0.len() >= MAX_ZONES {
            self.0.remove(0);
        }
        self.0.push((zone, now_ms + ZONE_MS));
    }
}

/// All servers, by number and by address.
#[derive(Debug)]
pub(crate) struct Servers {
    all: Vec<Server>,
    by_addr: HashMap<SocketAddr, u32>,
    /// Where the next server that may be forgotten is looked for.
    hand: usize,
    cookie_secret: [u8; 16],
}

impl Servers {
    pub(crate) fn new(cookie_secret: [u8; 16]) -> Self {
        Self { all: Vec::new(), by_addr: HashMap::new(), hand: 0, cookie_secret }
    }

    /// The number of the server at this address, which stays while queries to it are outstanding.
    pub(crate) fn number(&mut self, addr: SocketAddr) -> u32 {
        if let Some(&at) = self.by_addr.get(&addr) {
            self.all[at as usize].used = true;
            return at;
        }
        let server = Server::new(addr, &self.cookie_secret);
        let at = match self.victim() {
            Some(at) => {
                self.by_addr.remove(&self.all[at].addr);
                self.all[at] = server;
                at
            }
            None => {
                self.all.push(server);
                self.all.len() - 1
            }
        };
        self.by_addr.insert(addr, at as u32);
        at as u32
    }

    /// What is known of the server at this address, if anything.
    pub(crate) fn known(&self, addr: SocketAddr) -> Option<&Server> {
        self.by_addr.get(&addr).map(|&at| &self.all[at as usize])
    }

    /// One that was not used since the hand last came by and that nothing is outstanding at. None
    /// while there is room, or if there is none such: those that wait for replies keep their
    /// places, so that their number bounds the table.
    fn victim(&mut self) -> Option<usize> {
        if self.all.len() < MAX_SERVERS {
            return None;
        }
        // The first round makes all of them unused.
        for _ in 0..2 * self.all.len() {
            self.hand = (self.hand + 1) % self.all.len();
            let server = &mut self.all[self.hand];
            if server.outstanding == 0 && !std::mem::take(&mut server.used) {
                return Some(self.hand);
            }
        }
        None
    }
}

impl std::ops::Index<u32> for Servers {
    type Output = Server;

    fn index(&self, at: u32) -> &Server {
        &self.all[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Servers {
    fn index_mut(&mut self, at: u32) -> &mut Server {
        &mut self.all[at as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(number: usize) -> SocketAddr {
        SocketAddr::from(([10, (number >> 16) as u8, (number >> 8) as u8, number as u8], 53))
    }

    #[test]
    fn the_table_is_bounded_and_keeps_what_is_used() {
        let mut servers = Servers::new([1; 16]);
        for number in 0..MAX_SERVERS + 100 {
            servers.number(addr(number));
            let first = servers.number(addr(0));
            servers[first].outstanding = 1;
        }
        assert_eq!(servers.all.len(), MAX_SERVERS);
        assert_eq!(servers.by_addr.len(), MAX_SERVERS);
        assert!(servers.known(addr(0)).is_some());
        assert!(servers.known(addr(MAX_SERVERS + 99)).is_some());
    }

    #[test]
    fn a_server_that_owes_replies_keeps_its_place() {
        let mut servers = Servers::new([1; 16]);
        for number in 0..MAX_SERVERS + 100 {
            let at = servers.number(addr(number));
            assert_eq!(servers[at].outstanding, 0);
            servers[at].outstanding += 1;
        }
        assert!((0..MAX_SERVERS + 100).all(|number| servers.known(addr(number)).is_some()));
        let first = servers.number(addr(0));
        servers[first].outstanding -= 1;
        assert_eq!(servers.number(addr(MAX_SERVERS + 100)), first);
        assert_eq!(servers.all.len(), MAX_SERVERS + 100, "the place that is free again is taken");
    }

    #[test]
    fn lameness_is_of_one_zone_and_passes() {
        let mut server = Server::new(addr(1), &[1; 16]);
        let zone: Name = b"\x07example\x00".as_slice().into();
        server.note_lame(zone.clone(), 1_000);
        assert!(server.is_lame(&zone, 1_000) && !server.is_lame(b"\x00", 1_000));
        assert!(!server.is_lame(&zone, 1_000 + ZONE_MS));
        for number in 0..20u8 {
            server.note_lame([1, number, 0].as_slice().into(), 1_000);
        }
        assert_eq!(server.lame.0.len(), MAX_ZONES);
    }

    #[test]
    fn a_lack_of_signatures_is_of_one_zone_and_passes_and_one_of_edns_is_of_all() {
        let mut server = Server::new(addr(1), &[1; 16]);
        let zone: Name = b"\x07example\x00".as_slice().into();
        server.note_unsigned(zone.clone(), 1_000);
        assert!(!server.gives_signatures(&zone, 1_000) && server.gives_signatures(b"\x00", 1_000));
        assert!(server.gives_signatures(&zone, 1_000 + ZONE_MS) && !server.is_lame(&zone, 1_000));
        server.note_failed_edns(1_000, Guessed::No);
        assert!(!server.gives_signatures(b"\x00", 1_000));
    }
}
