//! Observations of the connections to one server: whether the server answers several queries on one
//! connection, and whether it still answers on the kept connection.
//!
//! RFC 7766 §6.2.1 recommends to pipeline queries on one connection. Some servers close the
//! connection after each answer, and a connection may be dead without being closed, for example
//! after a change of the network. In both cases queries get connections of their own, so that no
//! client loses an answer.

use super::server::INABILITY_MS;

/// Milliseconds without a message after a query on the kept connection. Later queries then use
/// other connections.
const SILENT_MS: u64 = 900;
/// Number of answers on a connection after which a close is considered normal, even with
/// outstanding queries: the server may have restarted.
const MANY_ANSWERS: u32 = 16;
/// Number of connections in a row that the server closed early. After that, queries get their own
/// connections.
const EARLY_CLOSES: u8 = 2;
/// Maximum number of connections for single queries to a server of a rule. Further queries use the
/// kept connection.
const MAX_SINGLES: u32 = 64;

/// The record of a server's kept connections.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Number of answers on the present kept connection.
    answers: u32,
    /// The time of the first query on the kept connection since the last message on it; `None` if
    /// there was none.
    asked_ms: Option<u64>,
    /// Number of connections in a row that ended after few answers, with outstanding queries.
    early_closes: u8,
    single_until_ms: u64,
    /// Number of open connections for single queries.
    pub(crate) singles: u32,
}

impl Streams {
    /// Returns whether a query needs its own connection.
    pub(crate) fn wants_single(&self, now_ms: u64) -> bool {
        let is_silent =
            self.asked_ms.is_some_and(|asked| now_ms.saturating_sub(asked) >= SILENT_MS);
        (is_silent || now_ms < self.single_until_ms) && self.singles < MAX_SINGLES
    }

    /// Records a query on the kept connection.
    pub(crate) fn asked(&mut self, now_ms: u64) {
        self.asked_ms.get_or_insert(now_ms);
    }

    /// Records a message on the kept connection.
    pub(crate) fn heard(&mut self) {
        self.answers = self.answers.saturating_add(1);
        self.asked_ms = None;
    }

    /// Records the end of the kept connection. Returns whether the server has answered on the
    /// connection. If so, the server is alive, and the outstanding queries are sent again on
    /// another connection.
    pub(crate) fn ended(&mut self, outstanding: usize, now_ms: u64) -> bool {
        let answers = std::mem::take(&mut self.answers);
        self.asked_ms = None;
        self.early_closes = match (answers, outstanding) {
            (1..MANY_ANSWERS, 1..) => self.early_closes + 1,
            _ => 0,
        };
        if self.early_closes >= EARLY_CLOSES {
            self.early_closes = 0;
            self.single_until_ms = now_ms + INABILITY_MS;
        }
        answers > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_connection_is_avoided_until_it_answers() {
        let mut streams = Streams::default();
        streams.asked(100);
        streams.asked(500);
        assert!(!streams.wants_single(99 + SILENT_MS) && streams.wants_single(100 + SILENT_MS));
        streams.heard();
        assert!(!streams.wants_single(100 + SILENT_MS));
        streams.asked(0);
        streams.singles = MAX_SINGLES;
        assert!(!streams.wants_single(SILENT_MS), "there are enough of them");
    }

    #[test]
    fn a_server_that_closes_after_each_answer_gets_connections_for_single_queries() {
        let mut streams = Streams::default();
        for close in 0..EARLY_CLOSES {
            assert!(!streams.wants_single(0), "after {close}");
            streams.heard();
            assert!(streams.ended(3, 0));
        }
        assert!(streams.wants_single(INABILITY_MS - 1) && !streams.wants_single(INABILITY_MS));
    }

    #[test]
    fn a_restart_or_a_close_without_outstanding_queries_is_ordinary() {
        let mut streams = Streams::default();
        for _ in 0..2 * EARLY_CLOSES {
            streams.heard();
            assert!(streams.ended(0, 0));
            (0..MANY_ANSWERS).for_each(|_| streams.heard());
            assert!(streams.ended(3, 0));
        }
        assert!(!streams.ended(3, 0), "nothing was answered on it");
        assert!(!streams.wants_single(0));
    }
}
