//! The server as others see it: the real binary between real clients and real upstreams.
//!
//! What is tested is written down in `docs/manual/conformance.md`.

mod cache;
mod equality;
mod faults;
mod forwarded;
mod harness;
mod limits;
mod load;
mod local;
mod local_root;
mod parsing;
mod probes;
mod recursion;
mod rpz;
mod sizes;
mod streams;
mod tools;
mod zones;
