//! Simulation: from a seed follow an internet of zones signed and not, its servers good and bad, a network that loses,
//! delays, reorders and duplicates, a wall clock that is set, and questions. The resolver with its caches answers them in
//! virtual time, and of every answer must hold what [`simulate`] says.
//!
//! ```text
//! seed ──> Internet (zones, servers, lies) ──> authority: what a server replies ──┐
//!   │          └──> Truth: what the zones say        network <───────────────────>│ scenario::Server
//!   └──> questions, faults, time ──────────────────> World: compares answer and truth
//! ```

mod authority;
mod internet;
mod sign;
mod truth;
mod world;
mod zone;

use std::fmt;

/// What was counted.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Questions that were asked and answered.
    pub questions: u64,
    /// SERVFAIL among the answers.
    pub failed: u64,
    /// Answers with AD.
    pub authentic: u64,
    /// Queries to servers.
    pub sent: u64,
    /// Most of them for a question.
    pub most_queries: u64,
    /// The longest time to an answer, in ms.
    pub longest_ms: u64,
}

impl Tally {
    /// Adds the counts of another simulation.
    pub fn add(&mut self, other: &Self) {
        self.questions += other.questions;
        self.failed += other.failed;
        self.authentic += other.authentic;
        self.sent += other.sent;
        self.most_queries = self.most_queries.max(other.most_queries);
        self.longest_ms = self.longest_ms.max(other.longest_ms);
    }
}

/// What did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Of which question: "www.example. A".
    pub question: String,
    /// The how manieth of the simulation it was, from 0 on.
    pub number: usize,
    /// What was wrong with it.
    pub what: String,
    /// How it was resolved, if it failed.
    pub steps: Vec<String>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "question {}, {}: {}", self.number, self.question, self.what)?;
        self.steps.iter().try_for_each(|step| write!(f, "\n  {step}"))
    }
}

/// Plays the simulation of a seed. Of each question must hold:
///
/// - exactly one answer, to this question, within ten seconds;
/// - at most 64 queries to servers;
/// - AD only on what the zones say, and only where a chain of trust leads to all of it;
/// - no TTL above the original;
/// - where no lying server can have had a hand in it, or a chain of trust leads to it: what the zones say, or SERVFAIL;
/// - where nothing at all is wrong: no SERVFAIL.
///
/// # Errors
/// The first thing that does not hold.
pub fn simulate(seed: u64) -> Result<Tally, Wrong> {
    let world = world::World::new(seed);
    world.map_err(|what| Wrong { question: String::new(), number: 0, what, steps: Vec::new() })?.play()
}

/// Plays an internet drawn from a seed in which nothing is wrong but that its network loses so many percent of the
/// datagrams each way: for each of its names, cold, the address is asked for once, `together` names at a time. Of each
/// must hold what [`simulate`] says, but that it may fail.
///
/// # Errors
/// The first thing that does not hold.
pub fn simulate_loss(seed: u64, percent: u32, together: usize) -> Result<Tally, Wrong> {
    let world = world::World::lossy(seed, percent);
    world.map_err(|what| Wrong { question: String::new(), number: 0, what, steps: Vec::new() })?.play_cold(together)
}

/// Plays an internet drawn from a seed for so many hours of virtual time, through networks and servers that change every
/// hour, and tells when each hour is over. Of each answer must hold what [`simulate`] says.
///
/// # Errors
/// The first thing that does not hold.
pub fn simulate_hours(seed: u64, hours: u64, over: &mut dyn FnMut(u64)) -> Result<Tally, Wrong> {
    let world = world::World::lossy(seed, 0);
    world.map_err(|what| Wrong { question: String::new(), number: 0, what, steps: Vec::new() })?.play_hours(hours, over)
}
