//! Scenarios in the established test language (`.rpl`: Unbound's testbound, CZ.NIC's Deckard),
//! played in one thread with virtual time against the resolver.
//!
//! ```text
//! text --read--> Scenario --play--> Outcome
//!                              client's query --> Server (resolver, caches) --> queries
//!                                                        ^                        |
//!                                                        '-- replies -- Authorities
//! ```
//! `tests/scenarios/README.md` describes the language.

mod authorities;
mod caches;
mod check;
mod config;
mod message;
mod play;
mod read;
mod record;
pub(crate) mod server;

pub(crate) use config::Simulated;
pub(crate) use message::Transport;
pub use play::{Outcome, play};

use message::Packet;
use std::net::IpAddr;

/// The origin of a scenario, which determines the meaning of some words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// Unbound's `testdata`: preceded by `unbound.conf`; queries have EDNS only with DO; replies
    /// are those of the awaited step.
    Unbound,
    /// Deckard's dialect: `key: value` lines come first, queries always have EDNS, and replies
    /// belong to the current step.
    Deckard,
    /// The scenarios of this project: configuration as in Unbound, everything else as in Deckard. A
    /// query for which the scenario has no message gets REFUSED, not an answer that is derived from
    /// its other messages.
    Own,
}

/// A parsed scenario.
#[derive(Debug)]
pub struct Scenario {
    /// The title as written.
    pub title: String,
    dialect: Dialect,
    config: Vec<String>,
    ranges: Vec<Range>,
    steps: Vec<Step>,
}

impl Scenario {
    /// Parses a scenario.
    ///
    /// # Errors
    /// The first invalid line, with the reason.
    pub fn read(text: &str, dialect: Dialect) -> Result<Self, String> {
        read::scenario(text, dialect)
    }
}

/// The replies of servers while the step is within `first..=last`.
#[derive(Debug, Default)]
struct Range {
    first: f64,
    last: f64,
    /// The servers, or all if empty.
    servers: Vec<IpAddr>,
    entries: Vec<Entry>,
}

/// A message, and how to compare it with another message.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// The parts to compare, `None` for all.
    matches: Option<Vec<String>>,
    adjustments: Vec<String>,
    /// Delay of the reply in ms.
    sleep_ms: u64,
    /// The message, or several messages of a server.
    packets: Vec<Packet>,
}

impl Entry {
    fn packet(&self) -> &Packet {
        &self.packets[0]
    }

    fn is_matched(&self, word: &str) -> bool {
        self.matches.iter().flatten().any(|given| given == word)
    }

    /// Returns the value of `word=value` among the matching rules.
    fn matched_value(&self, word: &str) -> Option<&str> {
        self.matches.iter().flatten().find_map(|given| given.strip_prefix(word)?.strip_prefix('='))
    }

    fn is_adjusted(&self, word: &str) -> bool {
        self.adjustments.iter().any(|given| given == word)
    }
}

/// A step of a scenario.
#[derive(Debug)]
struct Step {
    number: f64,
    what: String,
    arguments: Vec<String>,
    server: Option<IpAddr>,
    entry: Option<Entry>,
}
