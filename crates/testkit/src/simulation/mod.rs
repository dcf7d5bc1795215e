//! Simulation. A seed determines an internet of signed and unsigned zones with good and bad
//! servers, an attacker, a network that loses, delays, reorders and duplicates datagrams, a wall
//! clock that is set, reloads and restarts, and questions. Resolvers that share their caches answer
//! in virtual time, and each answer must meet the conditions of [`simulate`].
//!
//! ```text
//! seed --> Internet: zones, servers, rules --> authority, forwarder --> attacker --+
//!   |          '--> Truth: the right answers                                      |
//!   |                                                                          network
//!   '----> World: questions, faults, time                                         |
//!             |                                           scenario::Server <------+
//!             '--> Judge: compares each answer with the truth
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

/// The way the server resolves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// Names are resolved recursively from the root.
    Recursion,
    /// A rule forwards all names, or the names below a zone. Other names are resolved from the
    /// root. Everything is validated.
    Forwarder,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 2] = [Self::Recursion, Self::Forwarder];

    /// Returns the name of a mode on a command line.
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
    /// Questions sent and answered.
    pub questions: u64,
    /// Number of SERVFAIL responses among the answers.
    pub failed: u64,
    /// Answers with AD.
    pub authentic: u64,
    /// Queries to servers.
    pub sent: u64,
    /// Replies changed by an attacker.
    pub changed: u64,
    /// Maximum number of queries to servers for one question.
    pub most_queries: u64,
    /// Longest time to an answer, in ms.
    pub longest_ms: u64,
    /// A digest of all answers with their times. Builds of one version of the simulation that give
    /// other answers have another digest.
    pub digest: u64,
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
        self.digest = self.digest.wrapping_add(other.digest);
    }
}

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// The answer differs from the zones, although no attacker can change it or validation can
    /// prove it.
    FalseData,
    /// AD is set in an answer that differs from the zones.
    AdOnFalse,
    /// AD is set in an answer without a chain of trust.
    AdOnInsecure,
    /// AD is missing in an answer that validation can prove.
    NoAd,
    /// The answer is SERVFAIL without a cause.
    Failure,
    /// A TTL exceeds the original one.
    Ttl,
    /// There were too many queries to servers.
    Queries,
    /// There was no answer, or more than one.
    Answers,
    /// The answer took too long.
    Late,
    /// The answer is malformed or belongs to another question.
    Message,
    /// The world could not be created.
    World,
}

/// A condition that an answer violated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The kind of fault.
    pub fault: Fault,
    /// The question, such as "www.example. A".
    pub question: String,
    /// The index of the question in the simulation.
    pub number: usize,
    /// A description.
    pub what: String,
    /// The internet: its rules, its attacker and its zones.
    pub internet: Vec<String>,
    /// The trace of the resolution, if it failed.
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
/// - the answer has AD only if it matches the zones and a chain of trust proves all of it (with
///   opt-out, the absence of a name is not proven);
/// - no TTL exceeds the original one;
/// - each link of its chain of aliases matches the zones, unless an attacker can change that link
///   and no chain of trust leads to it;
/// - it is not SERVFAIL if no attacker can have an effect, no datagram is lost and the clock is
///   right;
/// - it has AD if a chain of trust proves all of it.
///
/// # Errors
/// The first violated condition.
pub fn simulate(mode: Mode, seed: u64) -> Result<Tally, Wrong> {
    World::new(mode, seed, None)?.play()
}

/// Plays the simulation of a seed with a planted weakness in the server.
///
/// # Errors
/// The first violated condition.
pub fn simulate_weak(mode: Mode, seed: u64, weakness: Weakness) -> Result<Tally, Wrong> {
    World::new(mode, seed, Some(weakness))?.play()
}

/// Plays the internet of a seed without faults except a loss in each direction, in percent. The
/// address of each name is asked for once with cold caches, `together` names at a time. The
/// conditions of [`simulate`] hold, but answers may fail.
///
/// # Errors
/// The first violated condition.
pub fn simulate_loss(seed: u64, percent: u32, together: usize) -> Result<Tally, Wrong> {
    World::lossy(seed, percent)?.play_cold(together)
}

/// Plays the internet of a seed for some hours of virtual time with networks and servers that
/// change every hour, and calls `over` at the end of each. The conditions of [`simulate`] hold.
///
/// # Errors
/// The first violated condition.
pub fn simulate_hours(seed: u64, hours: u64, over: &mut dyn FnMut(u64)) -> Result<Tally, Wrong> {
    World::lossy(seed, 0)?.play_hours(hours, over)
}
