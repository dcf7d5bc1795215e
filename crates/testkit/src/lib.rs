//! Tools for tests only: seeded randomness, a simulated network with a virtual clock, messages in
//! the notation of zone files, a player of `.rpl` scenarios, simulations of random internets, a
//! writer of country databases, an authority for certificates, the filters of a systemd unit, a
//! counting allocator, and counts of instructions.
//!
//! Everything is a function of its seed, so a failing test fails reproducibly.

pub mod allocations;
pub mod authority;
mod chance;
pub mod confinement;
pub mod instructions;
pub mod mmdb;
mod network;
mod scenario;
mod script;
mod simulation;

pub use chance::Chance;
pub use network::{Faults, Network};
pub use scenario::{Dialect, Outcome, Scenario, play};
pub use script::{Query, Response, name, question, shown};
pub use simulation::{
    Fault, Mode, Tally, Weakness, Wrong, simulate, simulate_hours, simulate_loss, simulate_weak,
};
