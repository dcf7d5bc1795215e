//! The server as seen from outside: the real binary between real clients and real upstreams.
//!
//! `docs/manual/conformance.md` describes the tests.

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
