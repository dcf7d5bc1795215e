//! HTTP/3 of upstreams over HTTPS: whether their replies announce it (RFC 7838), and whether it
//! works.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use avocet_session::http::AltSvc;
use avocet_session::quic::client::QuicSettings;

/// Milliseconds to wait after the first failure. Each further failure doubles the wait.
const BACK_OFF_MS: u64 = 60_000;
/// Maximum number of times that the wait is doubled, up to about 17 hours.
const MAX_DOUBLINGS: u32 = 10;

/// The state of HTTP/3 of an upstream over HTTPS. All workers share it.
pub(crate) struct Alternative {
    settings: QuicSettings,
    /// The state of HTTP/3 for each address of HTTP/2. There is at most one entry for each address
    /// of the upstream.
    known: Mutex<HashMap<SocketAddr, KnownH3>>,
}

/// The state of HTTP/3 at one address.
#[derive(Clone, Copy, Default)]
struct KnownH3 {
    /// The UDP port of HTTP/3; 0 if none is announced.
    port: u16,
    /// The time at which the announcement of the server expires, in milliseconds on the monotonic
    /// clock.
    until_ms: u64,
    /// The time of the next attempt, in milliseconds on the monotonic clock.
    retry_ms: u64,
    failures: u32,
}

impl Alternative {
    /// Creates the state, without knowledge of any address.
    pub(crate) fn new(settings: QuicSettings) -> Self {
        Self { settings, known: Mutex::default() }
    }

    /// Returns the settings of the connections in HTTP/3.
    pub(crate) fn settings(&self) -> &QuicSettings {
        &self.settings
    }

    fn change(&self, addr: SocketAddr, change: impl FnOnce(&mut KnownH3)) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        change(known.entry(addr).or_default());
    }

    /// Records the announcement of the server at an address.
    pub(crate) fn note(&self, addr: SocketAddr, said: AltSvc, now_ms: u64) {
        self.change(addr, |known| match said {
            AltSvc::Clear => known.port = 0,
            AltSvc::H3 { port, max_age_secs } => {
                known.port = port;
                known.until_ms = now_ms + u64::from(max_age_secs) * 1_000;
            }
        });
    }

    /// Returns the address at which HTTP/3 must be tried now; `None` if it must not be tried.
    pub(crate) fn target(&self, addr: SocketAddr, now_ms: u64) -> Option<SocketAddr> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let KnownH3 { port, until_ms, retry_ms, .. } = *known.get(&addr)?;
        let is_due = port != 0 && now_ms < until_ms && now_ms >= retry_ms;
        is_due.then(|| SocketAddr::new(addr.ip(), port))
    }

    /// Records that HTTP/3 does not work at an address, so that it is not tried for a while.
    /// Further calls in this time have no effect, because connections of other workers may fail for
    /// the same reason.
    pub(crate) fn failed(&self, addr: SocketAddr, now_ms: u64) {
        self.change(addr, |known| {
            if now_ms < known.retry_ms {
                return;
            }
            known.retry_ms = now_ms + (BACK_OFF_MS << known.failures.min(MAX_DOUBLINGS));
            known.failures += 1;
        });
    }

    /// Records that a connection in HTTP/3 has ended without a failure.
    pub(crate) fn worked(&self, addr: SocketAddr) {
        self.change(addr, |known| known.failures = 0);
    }
}

#[cfg(test)]
mod tests {
    use avocet_session::certificate::ALPN_H3;
    use avocet_session::quic::QuicProtocol;
    use avocet_session::trust::{Trust, client};

    use super::*;

    #[test]
    fn http3_is_tried_while_the_word_of_the_server_is_good_and_less_often_after_failures() {
        let config = client(Trust::Nobody, &[ALPN_H3]).unwrap();
        let settings = QuicSettings::new(config, QuicProtocol::H3).unwrap();
        let alternative = Alternative::new(settings);
        let addr: SocketAddr = "192.0.2.1:443".parse().unwrap();
        let other: SocketAddr = "192.0.2.2:443".parse().unwrap();
        assert_eq!(alternative.target(addr, 0), None);
        alternative.note(addr, AltSvc::H3 { port: 8_443, max_age_secs: 1_000 }, 500);
        let target = Some("192.0.2.1:8443".parse().unwrap());
        assert_eq!(alternative.target(addr, 1_000_499), target);
        assert_eq!(alternative.target(addr, 1_000_500), None);
        assert_eq!(alternative.target(other, 1_000), None);
        let mut now_ms = 1_000;
        for wait_ms in [60_000, 120_000, 240_000] {
            alternative.failed(addr, now_ms);
            assert_eq!(alternative.target(addr, now_ms + wait_ms - 1), None);
            now_ms += wait_ms;
            assert_eq!(alternative.target(addr, now_ms), target);
        }
        alternative.worked(addr);
        alternative.failed(addr, now_ms);
        // Other workers fail at the same time.
        (0..100).for_each(|_| alternative.failed(addr, now_ms + 1));
        now_ms += BACK_OFF_MS;
        assert_eq!(alternative.target(addr, now_ms), target);
        for _ in 0..100 {
            alternative.failed(addr, now_ms);
            now_ms += BACK_OFF_MS << MAX_DOUBLINGS;
        }
        alternative.note(addr, AltSvc::Clear, now_ms);
        assert_eq!(alternative.target(addr, u64::MAX), None);
    }
}
