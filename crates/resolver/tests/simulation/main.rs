//! The resolver in a simulated world: its queries, the replies that it accepts, and its limits.

#![allow(clippy::unwrap_used)] // a failed unwrap is a failed test

mod answers;
mod belief;
mod circle;
mod faults;
mod introduced;
mod letters;
mod limits;
mod servers;
mod spoofing;
mod tls;
mod world;
