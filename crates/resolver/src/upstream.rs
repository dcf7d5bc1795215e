//! What is known of one upstream: its speed, its health, what it can and cannot do, its sockets.

use crate::cookie::Cookie;
use crate::guess::{GUESSED_INABILITY_MS, GUESSES, Guessed};

use crate::breaker::{Breaker, BreakerState};
use crate::endpoint::{Transport, UpstreamSpec};
use crate::metrics::UpstreamCounters;
use crate::pool::Pool;
use crate::rtt::Rtt;

/// How long it is remembered that an upstream cannot do something, in ms.
const INABILITY_MS: u64 = 3_600_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) spec: UpstreamSpec,
    /// Is it in the plan that is in force? Else it is forgotten once nothing is outstanding.
    pub(crate) planned: bool,
    /// Queries that are waited for.
    pub(crate) outstanding: u32,
    pub(crate) rtt: Rtt,
    pub(crate) breaker: Breaker,
    pub(crate) pool: Pool,
    pub(crate) cookie: Cookie,
    pub(crate) counters: UpstreamCounters,
    /// Until when it is taken to lose the case of letters, and to fail with EDNS.
    folds_case_until_ms: u64,
    fails_edns_until_ms: u64,
    /// It has answered a query with EDNS by an answer with EDNS.
    speaks_edns: bool,
    guesses: u32,
}

impl Upstream {
    pub(crate) fn new(spec: UpstreamSpec, cookie_secret: &[u8; 16], pool_size: usize) -> Self {
        // No pool where nothing is sent by UDP.
        let pool_size = if spec.transport == Transport::Udp { pool_size } else { 1 };
        Self {
            spec,
            planned: true,
            outstanding: 0,
            rtt: Rtt::default(),
            breaker: Breaker::default(),
            pool: Pool::new(pool_size),
            cookie: Cookie::new(cookie_secret, spec.addr),
            counters: UpstreamCounters::default(),
            folds_case_until_ms: 0,
            fails_edns_until_ms: 0,
            speaks_edns: false,
            guesses: 0,
        }
    }

    /// A reply to one of our queries came after `rtt_ms`.
    pub(crate) fn replied(&mut self, now_ms: u64, rtt_ms: u64) {
        self.rtt.sample(rtt_ms);
        self.breaker.succeeded(now_ms);
        self.counters.reply(rtt_ms);
    }

    /// It did not answer a query, or could not be reached.
    pub(crate) fn failed(&mut self, now_ms: u64, sent_ms: u64) {
        self.rtt.penalise(now_ms);
        if self.breaker.failed(now_ms, sent_ms) {
            self.counters.breaker_opened += 1;
            // What comes back may be another server.
            self.speaks_edns = false;
        }
    }

    /// Did it answer anything lately? Then a missing reply is a lost one.
    pub(crate) fn is_alive(&self, now_ms: u64) -> bool {
        self.breaker.is_alive(now_ms)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.breaker.state() == BreakerState::Open
    }

    pub(crate) fn keeps_case(&self, now_ms: u64) -> bool {
        now_ms >= self.folds_case_until_ms
    }

    pub(crate) fn note_folded_case(&mut self, now_ms: u64) {
        self.folds_case_until_ms = now_ms + INABILITY_MS;
    }

    pub(crate) fn takes_edns(&self, now_ms: u64) -> bool {
        now_ms >= self.fails_edns_until_ms
    }

    pub(crate) fn speaks_edns(&self) -> bool {
        self.speaks_edns
    }

    pub(crate) fn note_edns(&mut self) {
        (self.speaks_edns, self.guesses) = (true, 0);
    }

    /// A query without EDNS was answered after the same with EDNS was not. Of an upstream that
    /// speaks EDNS otherwise it says nothing: somebody's name may be to blame.
    pub(crate) fn note_failed_edns(&mut self, now_ms: u64, guessed: Guessed) {
        if self.speaks_edns {
            return;
        }
        self.guesses += 1;
        match guessed {
            Guessed::No => self.fails_edns_until_ms = now_ms + INABILITY_MS,
            Guessed::Yes if self.guesses >= GUESSES => {
                self.fails_edns_until_ms = now_ms + GUESSED_INABILITY_MS
            }
            Guessed::Yes => {}
        }
    }
}
