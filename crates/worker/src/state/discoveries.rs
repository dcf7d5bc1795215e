//! The results of the thread that discovers encrypted servers, for status and metrics.

use std::sync::{Mutex, PoisonError};

use avocet_control::status::DiscoveryStatus;

/// The current results of discovery (RFC 9462), and the counts of attempts.
#[derive(Default)]
pub struct Discoveries(Mutex<FoundState>);

#[derive(Default)]
struct FoundState {
    current: Vec<DiscoveryStatus>,
    attempts: [u64; DiscoveryResult::ALL.len()],
}

/// The result of an attempt to find the encrypted servers that a server designates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiscoveryResult {
    /// A designated server was found, and gets the queries.
    Found,
    /// The server designates no encrypted server.
    NotAnnounced,
    /// The server designates no server that can be used.
    Unusable,
    /// No designated server proves that it may get the queries.
    Unproven,
    /// The server does not answer.
    NoAnswer,
}

impl DiscoveryResult {
    /// All results, in the order of counters.
    pub const ALL: [Self; 5] =
        [Self::Found, Self::NotAnnounced, Self::Unusable, Self::Unproven, Self::NoAnswer];

    /// Returns the word for the result in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::NotAnnounced => "not-announced",
            Self::Unusable => "unusable",
            Self::Unproven => "unproven",
            Self::NoAnswer => "no-answer",
        }
    }
}

impl Discoveries {
    /// Counts an attempt with this result.
    pub fn count(&self, result: DiscoveryResult) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.attempts[result as usize] += 1;
    }

    /// Replaces the current results.
    pub fn put(&self, current: Vec<DiscoveryStatus>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).current = current;
    }

    /// Returns the result for each server that may designate others.
    pub fn current(&self) -> Vec<DiscoveryStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).current.clone()
    }

    /// Returns the number of attempts by result.
    pub fn attempts(&self) -> [u64; DiscoveryResult::ALL.len()] {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).attempts
    }
}
