//! The name server without sockets. It turns the octets of a client's query into a reply, or into a
//! question to be resolved.
//!
//! The server calls this crate for each datagram and each frame. Benches and tests call it through
//! [`InProcess`].

#![forbid(unsafe_code)]

pub mod admitted;
pub mod callers;
pub mod checksum;
pub mod clock;
pub mod close;
pub mod datagrams;
pub mod disk;
mod error;
pub mod file_watch;
pub mod flush;
pub mod identified;
mod in_process;
pub mod leases;
pub mod metrics;
pub mod name_server;
pub mod notices;
pub mod policy;
pub mod pools;
pub mod private_zones;
pub mod proxies;
pub mod query;
pub mod query_log;
mod query_traces;
pub mod snapshot;
pub mod traces;
pub mod transfers;
pub mod trust;
pub mod updates;
pub mod upstream_addresses;
mod zone_comments;
pub mod zone_digest;
pub mod zone_files;
mod zone_journal;
pub mod zone_signing;
mod zone_source;
mod zone_versions;
pub mod zone_views;

pub use error::StateError;
pub use in_process::{InProcess, MeantFor, RecordKey};
