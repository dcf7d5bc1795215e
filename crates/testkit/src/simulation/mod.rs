//! Simulation: a seed determines an internet of zones signed and not, its servers good and bad, an
//! attacker, a network that loses, delays, reorders and duplicates, a wall clock that is set,
//! reloads and restarts, and questions. Resolvers that share their caches answer in virtual time,
//! and each answer must meet the conditions of [`simulate`].
//!
//! ```text
//! seed ──> Internet (zones, servers, rules) ──> authority, forwarder ──> attacker ──┐
//!   │          └──> Truth: the right answers         network <─────────────────────>│ scenario::Server
//!   └──> questions, faults, time ───────────────────> World ──> Judge: answer and truth compared
//! ```

mod answer;
mod attacker;
mod authority;
mod denial;
mod fill;
mod forwarder;
mod internet;
mod judge;
mod reply;
mod sign;
mod steps;
mod truth;
mod weakness;
mod world;
mod zone;

use std::fmt;

pub use weakness::Weakness;
use world::World;

/// The wall clock at the start of a simulation, in seconds since 1970.
const START_SECS: u64 = 1_800_000_000;

/// How the server resolves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// From the root down.
    Recursion,
    /// By a rule that forwards all names, or those below a zone, and from the root down otherwise.
    /// All is validated.
    Forwarder,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Recursion, Self::Forwarder];

    /// The name of a mode on a command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Recursion => "recursion",
            Self::Forwarder => "forwarder",
        }
    }
}

/// Counts of a simulation.
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
    /// Replies that an attacker changed.
    pub changed: u64,
    /// Most queries to servers for a question.
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
        self.changed += other.changed;
        self.most_queries = self.most_queries.max(other.most_queries);
        self.longest_ms = self.longest_ms.max(other.longest_ms);
    }
}

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// The answer is not what the zones have, although no attacker can change it or it can be
    /// validated.
    FalseData,
    /// AD in an answer that is not what the zones have.
    AdOnFalse,
    /// AD in an answer that no chain of trust leads to.
    AdOnInsecure,
    /// An answer that can be validated has no AD.
    NoAd,
    /// SERVFAIL, and nothing is wrong.
    Failure,
    /// A TTL above the original.
    Ttl,
    /// Too many queries to servers.
    Queries,
    /// No answer, or several.
    Answers,
    /// An answer that took too long.
    Late,
    /// An answer that is malformed or that is for another question.
    Message,
    /// The world could not be made.
    World,
}

/// A condition that an answer did not meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The kind of fault.
    pub fault: Fault,
    /// The question: "www.example. A".
    pub question: String,
    /// The number of the question in the simulation, from 0 on.
    pub number: usize,
    /// A description.
    pub what: String,
    /// The internet: its rules, its attacker and its zones.
    pub internet: Vec<String>,
    /// How the question was resolved, if it failed.
    pub steps: Vec<String>,
}

impl Wrong {
    fn of_world(what: String) -> Self {
        Self {
            fault: Fault::World,
            question: String::new(),
            number: 0,
            what,
            internet: Vec::new(),
            steps: Vec::new(),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "question {}, {}: {:?}: {}", self.number, self.question, self.fault, self.what)?;
        self.internet.iter().chain(&self.steps).try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Plays the simulation of a seed. For each question:
///
/// - there is exactly one answer, to this question, within ten seconds;
/// - it costs at most 64 queries to servers;
/// - the answer has AD only if it is what the zones have and a chain of trust proves all of it.
///   What rests on the absence of a name in a zone that opts out is not proven;
/// - no TTL is above the original;
/// - each link of its chain of aliases is what the zones have, unless an attacker can change that
///   link and no chain of trust leads to it;
/// - it is not SERVFAIL where no attacker can have an effect, no datagram is lost and the clock is
///   right;
/// - it has AD where a chain of trust proves all of it.
///
/// # Errors
/// The first condition that is not met.
pub fn simulate(mode: Mode, seed: u64) -> Result<Tally, Wrong> {
    World::new(mode, seed, None)?.play()
}

/// Plays the simulation of a seed with a server that has a weakness.
///
/// # Errors
/// The first condition that is not met.
pub fn simulate_weak(mode: Mode, seed: u64, weakness: Weakness) -> Result<Tally, Wrong> {
    World::new(mode, seed, Some(weakness))?.play()
}

/// Plays the internet of a seed with nothing wrong except that its network loses a part of the
/// datagrams each way, in percent. For each of its names, cold, the address is asked for once,
/// `together` names at a time. The conditions of [`simulate`] hold, but answers may fail.
///
/// # Errors
/// The first condition that is not met.
pub fn simulate_loss(seed: u64, percent: u32, together: usize) -> Result<Tally, Wrong> {
    World::lossy(seed, percent)?.play_cold(together)
}

/// Plays the internet of a seed for some hours of virtual time, through networks and servers that
/// change every hour, and calls `over` at the end of each. The conditions of [`simulate`] hold.
///
/// # Errors
/// The first condition that is not met.
pub fn simulate_hours(seed: u64, hours: u64, over: &mut dyn FnMut(u64)) -> Result<Tally, Wrong> {
    World::lossy(seed, 0)?.play_hours(hours, over)
}
