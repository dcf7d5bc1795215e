//! Opportunistic encryption of queries to authoritative servers (RFC 9539): the state of port 853
//! of a server, and the decision whether the next query uses that port.
//!
//! An *unproven* endpoint is TLS at the address of a server that is otherwise queried over UDP. Its
//! certificate is not checked. No client waits for TLS: until a connection has answered, each query
//! is also sent without encryption (in plain).
//!
//! ```text
//!            plain query, and a copy over a connection           a message of the server
//!   Closed ─────────────────────────────────────────> Opening ───────────────────────────> Open
//!     ^                                                  │         a query is overdue │     ^
//!     │          end: not before `retry_ms` again        │                            v     │
//!     └──────────────────────────────────────────────────┴──────────────────────── Stalled ─┘
//!                                                                                a message
//! ```
//!
//! Only in the state `Open` do queries leave over TLS alone.

use super::endpoint::SocketFault;

/// Milliseconds before a server that has never answered over TLS is probed again (RFC 9539 §4.5,
/// `damping`: a day).
const DAMPING_MS: u64 = 86_400_000;
/// Milliseconds for which the last answer over TLS shows that the server supports TLS (RFC 9539
/// §4.5, `persistence`: three days).
const PERSISTENCE_MS: u64 = 3 * 86_400_000;
/// The wait in ms after the first failure of a server that supports TLS; each further failure
/// doubles the wait, up to [`DAMPING_MS`]. The wait is short at first, so that an attacker that
/// blocks the port briefly does not cause plain queries for a day.
const FIRST_RETRY_MS: u64 = 60_000;
/// The wait in ms after an unused connection. Such a connection carried only its first query, which
/// was also sent in plain. Each further unused connection doubles the wait, up to
/// [`MAX_UNUSED_MS`]. A server that is queried rarely, or closes after each answer, is not worth a
/// handshake for each query.
const FIRST_UNUSED_MS: u64 = 30_000;
/// Longest wait after an unused connection, in ms.
const MAX_UNUSED_MS: u64 = 3_600_000;
/// The wait in ms after this host had no free file descriptor.
const SHORTAGE_MS: u64 = 10_000;
/// Maximum number of connections to unproven endpoints per resolver. Each takes a file descriptor
/// and some tens of KiB.
const MAX_CONNECTIONS: u32 = 128;
/// Maximum number of connections per resolver that have not answered yet.
const MAX_OPENING: u32 = 32;
/// Maximum number of connections that a resolver begins in one second. Each requires a handshake.
const MAX_BEGUN: u32 = 64;

/// The connection to an unproven endpoint; see the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Link {
    #[default]
    Closed,
    Opening,
    Open,
    Stalled,
}

/// The transport of a query to a server that may support encryption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Passage {
    Plain,
    /// The query is sent in plain, and a copy of it over a connection that is opened for the copy.
    PlainAndProbe,
    Encrypted,
}

/// The outcome of a connection to an unproven endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkEnd {
    /// The connection ended after the server had answered on it.
    Ordinary,
    /// The connection ended without an answer: it was a failed probe, or the server no longer
    /// answers.
    Failure,
    /// No connection was opened, because this host had no free file descriptor.
    Shortage,
}

/// The state of an unproven endpoint; see the module.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Encryption {
    pub(crate) link: Link,
    worked_ms: Option<u64>,
    /// Number of failures since the last answer.
    failures: u32,
    /// Number of unused connections in a row.
    unused: u32,
    /// Whether the connection has carried a query that was not also sent in plain.
    is_used: bool,
    retry_ms: u64,
}

impl Encryption {
    /// Returns the transport of the next query, within the limits of the resolver.
    pub(crate) fn passage(&self, bounds: &LinkBounds, now_ms: u64) -> Passage {
        match self.link {
            Link::Open => Passage::Encrypted,
            Link::Closed if now_ms >= self.retry_ms && bounds.has_room(now_ms) => {
                Passage::PlainAndProbe
            }
            Link::Closed | Link::Opening | Link::Stalled => Passage::Plain,
        }
    }

    /// Records that a connection is being opened.
    pub(crate) fn begin(&mut self, bounds: &mut LinkBounds, now_ms: u64) {
        (self.link, self.is_used) = (Link::Opening, false);
        bounds.begin(now_ms);
    }

    /// Records that a query was sent over the connection alone.
    pub(crate) fn used(&mut self) {
        self.is_used = true;
    }

    /// Records an answer. Returns whether it is the first answer on its connection.
    pub(crate) fn answered(&mut self, bounds: &mut LinkBounds, now_ms: u64) -> bool {
        let is_first = self.link == Link::Opening;
        bounds.opening -= u32::from(is_first);
        (self.worked_ms, self.failures) = (Some(now_ms), 0);
        if self.link != Link::Closed {
            self.link = Link::Open;
        }
        is_first
    }

    /// Records that a query was not answered in time.
    pub(crate) fn overdue(&mut self) {
        if self.link == Link::Open {
            self.link = Link::Stalled;
        }
    }

    /// Returns whether the connection has not answered yet.
    pub(crate) fn is_opening(&self) -> bool {
        self.link == Link::Opening
    }

    /// Records the end of the connection. Returns `None` if the end was recorded before.
    pub(crate) fn ended(
        &mut self,
        bounds: &mut LinkBounds,
        fault: SocketFault,
        now_ms: u64,
    ) -> Option<LinkEnd> {
        let link = std::mem::take(&mut self.link);
        if link == Link::Closed {
            return None;
        }
        bounds.open -= 1;
        bounds.opening -= u32::from(link == Link::Opening);
        let end = match (link, fault) {
            (_, SocketFault::Shortage) => LinkEnd::Shortage,
            (Link::Opening | Link::Stalled, _) => LinkEnd::Failure,
            _ => LinkEnd::Ordinary,
        };
        let wait_ms = match end {
            LinkEnd::Shortage => SHORTAGE_MS,
            LinkEnd::Failure => {
                self.failures += 1;
                self.damping_ms(now_ms)
            }
            LinkEnd::Ordinary if self.is_used => {
                self.unused = 0;
                0
            }
            LinkEnd::Ordinary => {
                self.unused += 1;
                doubled(FIRST_UNUSED_MS, self.unused - 1).min(MAX_UNUSED_MS)
            }
        };
        self.retry_ms = now_ms + wait_ms;
        Some(end)
    }

    fn damping_ms(&self, now_ms: u64) -> u64 {
        let has_worked = self.worked_ms.is_some_and(|worked| now_ms < worked + PERSISTENCE_MS);
        if !has_worked {
            return DAMPING_MS;
        }
        doubled(FIRST_RETRY_MS, self.failures.saturating_sub(1)).min(DAMPING_MS)
    }
}

fn doubled(first_ms: u64, times: u32) -> u64 {
    first_ms << times.min(16)
}

/// Counters of a resolver's connections to unproven endpoints, which are limited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LinkBounds {
    open: u32,
    opening: u32,
    second: u64,
    /// Number of connections that were begun in this second.
    begun: u32,
}

impl LinkBounds {
    fn has_room(&self, now_ms: u64) -> bool {
        let begun = if self.second == now_ms / 1000 { self.begun } else { 0 };
        self.open < MAX_CONNECTIONS && self.opening < MAX_OPENING && begun < MAX_BEGUN
    }

    fn begin(&mut self, now_ms: u64) {
        if self.second != now_ms / 1000 {
            (self.second, self.begun) = (now_ms / 1000, 0);
        }
        self.open += 1;
        self.opening += 1;
        self.begun += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::endpoint::TlsFault;

    const DEAD: SocketFault = SocketFault::Unreachable;

    /// Returns an endpoint with a connection that has answered.
    fn open(bounds: &mut LinkBounds, now_ms: u64) -> Encryption {
        let mut state = Encryption::default();
        state.begin(bounds, now_ms);
        assert!(state.answered(bounds, now_ms));
        state
    }

    #[test]
    fn only_a_connection_that_has_answered_takes_queries() {
        let (mut state, mut bounds) = (Encryption::default(), LinkBounds::default());
        assert_eq!(state.passage(&bounds, 0), Passage::PlainAndProbe);
        state.begin(&mut bounds, 0);
        assert_eq!(state.passage(&bounds, 0), Passage::Plain, "it is being opened");
        assert!(state.answered(&mut bounds, 50));
        assert_eq!(state.passage(&bounds, 50), Passage::Encrypted);
        assert!(!state.answered(&mut bounds, 60), "the probe has succeeded before");
    }

    #[test]
    fn a_dead_port_is_probed_once_a_day() {
        let (mut state, mut bounds) = (Encryption::default(), LinkBounds::default());
        state.begin(&mut bounds, 0);
        assert_eq!(state.ended(&mut bounds, DEAD, 10), Some(LinkEnd::Failure));
        assert_eq!(state.passage(&bounds, 10 + DAMPING_MS - 1), Passage::Plain);
        assert_eq!(state.passage(&bounds, 10 + DAMPING_MS), Passage::PlainAndProbe);
        let slow = SocketFault::Tls(TlsFault::Slow);
        state.begin(&mut bounds, 10 + DAMPING_MS);
        assert_eq!(state.ended(&mut bounds, slow, 10 + DAMPING_MS), Some(LinkEnd::Failure));
        assert_eq!((bounds.open, bounds.opening), (0, 0));
    }

    #[test]
    fn a_server_that_has_worked_is_tried_again_soon_until_that_is_three_days_ago() {
        let mut bounds = LinkBounds::default();
        let mut state = open(&mut bounds, 0);
        state.overdue();
        let mut now = 0;
        for wait in [1, 2, 4, 8] {
            assert_eq!(state.passage(&bounds, now), Passage::Plain);
            assert_eq!(state.ended(&mut bounds, DEAD, now), Some(LinkEnd::Failure));
            assert_eq!(state.passage(&bounds, now + wait * 60_000 - 1), Passage::Plain);
            now += wait * 60_000;
            assert_eq!(state.passage(&bounds, now), Passage::PlainAndProbe);
            state.begin(&mut bounds, now);
        }
        state.ended(&mut bounds, DEAD, PERSISTENCE_MS);
        assert_eq!(state.passage(&bounds, PERSISTENCE_MS + DAMPING_MS - 1), Passage::Plain);
    }

    #[test]
    fn a_silent_connection_takes_no_query_until_it_answers() {
        let mut bounds = LinkBounds::default();
        let mut state = open(&mut bounds, 0);
        state.overdue();
        assert_eq!(state.passage(&bounds, 1), Passage::Plain);
        assert!(!state.answered(&mut bounds, 2));
        assert_eq!(state.passage(&bounds, 2), Passage::Encrypted);
    }

    #[test]
    fn connections_that_are_used_are_opened_again_at_once_and_others_ever_more_rarely() {
        let mut bounds = LinkBounds::default();
        let mut state = open(&mut bounds, 0);
        state.used();
        assert_eq!(state.ended(&mut bounds, SocketFault::Closed, 0), Some(LinkEnd::Ordinary));
        assert_eq!(state.passage(&bounds, 0), Passage::PlainAndProbe);
        let mut now = 0;
        for wait in [30, 60, 120] {
            state.begin(&mut bounds, now);
            state.answered(&mut bounds, now);
            state.ended(&mut bounds, SocketFault::Closed, now);
            now += wait * 1_000;
            assert_eq!(state.passage(&bounds, now - 1), Passage::Plain);
            assert_eq!(state.passage(&bounds, now), Passage::PlainAndProbe);
        }
    }

    #[test]
    fn a_lack_of_descriptors_is_no_fault_of_the_server() {
        let (mut state, mut bounds) = (Encryption::default(), LinkBounds::default());
        state.begin(&mut bounds, 0);
        assert_eq!(state.ended(&mut bounds, SocketFault::Shortage, 0), Some(LinkEnd::Shortage));
        assert_eq!(state.passage(&bounds, SHORTAGE_MS), Passage::PlainAndProbe);
    }

    #[test]
    fn connections_are_bounded_in_number_and_rate() {
        let mut bounds = LinkBounds::default();
        let fresh = Encryption::default();
        let mut begun = 0;
        while fresh.passage(&bounds, 0) == Passage::PlainAndProbe {
            Encryption::default().begin(&mut bounds, 0);
            begun += 1;
        }
        assert_eq!(begun, MAX_OPENING);
        let mut all = Vec::new();
        let mut bounds = LinkBounds::default();
        for second in 0..10 {
            let mut begun = 0;
            while fresh.passage(&bounds, second * 1000) == Passage::PlainAndProbe {
                all.push(open(&mut bounds, second * 1000));
                begun += 1;
            }
            assert!(begun <= MAX_BEGUN);
        }
        assert_eq!(all.len(), MAX_CONNECTIONS as usize);
        all[0].ended(&mut bounds, SocketFault::Closed, 10_000);
        assert_eq!(fresh.passage(&bounds, 10_000), Passage::PlainAndProbe);
    }
}
