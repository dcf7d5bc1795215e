//! For tests only: seeded chance, a simulated network with a virtual clock, messages made and read
//! in the words of zone files, a runner of `.rpl` scenarios of resolution, simulations of random
//! internets, a writer of databases of countries, the filters of a systemd unit, and an allocator
//! that counts.
//!
//! Everything is a function of its seed: a test that fails does so again.

pub mod allocations;
mod chance;
pub mod confinement;
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
