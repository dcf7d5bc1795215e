//! Losses, scenarios and the simulator.

mod loss;
mod scenarios;
mod simulation;
