//! Scenarios of resolution in the field's test language (`.rpl`: Unbound's testbound, CZ.NIC's
//! Deckard), played in one thread with virtual time against the resolver.
//!
//! ```text
//! text ──read──> Scenario ──play──> Outcome
//!                              client's query ──> Server (resolver, caches) ──> queries
//!                                                        ^                        │
//!                                                        └── replies ── Authorities
//! ```
//! What the words of the language mean stands in `tests/scenarios/README.md`.

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

/// Where a scenario comes from: the same words do not mean quite the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// Unbound's `testdata`: `unbound.conf` above the scenario; queries have EDNS only with DO; the
    /// replies that hold are those of the step that is waited for.
    Unbound,
    /// Deckard's: `key: value` above the scenario; queries always have EDNS; the replies that hold
    /// are those of the step being run.
    Deckard,
    /// Ours: configuration as Unbound's, all else as Deckard's, and no reply is made up.
    Own,
}

/// A scenario that was read.
#[derive(Debug)]
pub struct Scenario {
    /// What it shows, in its own words.
    pub title: String,
    dialect: Dialect,
    config: Vec<String>,
    ranges: Vec<Range>,
    steps: Vec<Step>,
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// The first line that cannot be read, and why.
    pub fn read(text: &str, dialect: Dialect) -> Result<Self, String> {
        read::scenario(text, dialect)
    }
}

/// What servers say while the step is within `first..=last`.
#[derive(Debug, Default)]
struct Range {
    first: f64,
    last: f64,
    /// Which servers; none: all.
    servers: Vec<IpAddr>,
    entries: Vec<Entry>,
}

/// A message, and what it is to be compared with.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// What is compared; none: all.
    matches: Option<Vec<String>>,
    adjustments: Vec<String>,
    /// How long a server thinks, in ms.
    sleep_ms: u64,
    /// The message; servers may send several.
    packets: Vec<Packet>,
}

impl Entry {
    fn packet(&self) -> &Packet {
        &self.packets[0]
    }

    fn is_matched(&self, word: &str) -> bool {
        self.matches.iter().flatten().any(|given| given == word)
    }

    /// The value of `word=value` among what is compared.
    fn matched_value(&self, word: &str) -> Option<&str> {
        self.matches.iter().flatten().find_map(|given| given.strip_prefix(word)?.strip_prefix('='))
    }

    fn is_adjusted(&self, word: &str) -> bool {
        self.adjustments.iter().any(|given| given == word)
    }
}

/// One step of a scenario.
#[derive(Debug)]
struct Step {
    number: f64,
    what: String,
    arguments: Vec<String>,
    server: Option<IpAddr>,
    entry: Option<Entry>,
}
