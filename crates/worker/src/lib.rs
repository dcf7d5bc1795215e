//! The workers of the server. Each worker is a thread with one event loop, for its clients and for
//! the servers that it queries.
//!
//! A worker has three parts, each with one owner. The parts do not refer to one another. They
//! exchange only values (`values`), and only the event loop (`worker`) calls all three.
//!
//! ```text
//!             octets, client, entrance                step
//!   clients ---> intake ------------> query path --------------> outbox ---> clients
//!                  ^                  of resolution   LateStep      |
//!                  |                      |              ^          | UDP, in batches
//!                  |                    miss             |          | another worker, by letter
//!                  |                      v              |          |
//!                  |                  resolution --------+          |
//!                  |                   ^      |                     |
//!                  |             servers <----+                     |
//!                  +------------------- StreamReply ----------------+
//! ```
//!
//! - `intake`: the sockets for clients. Datagrams, connections, and their limits.
//! - `resolution`: the state in force, the queries that wait, the resolver, its timers, and the
//!   sockets towards servers.
//! - `outbox`: each reply is counted, limited and sent through it, at once or late.
//!
//! A turn of the loop:
//!
//! ```text
//! wait -> datagrams -> answered at once, in the same batch
//!      -> streams   -> answered at once, in one write        \ misses: to the resolver of the
//!      -> replies of servers -> resolver -> late replies     / worker that owns the name
//! ```
//!
//! Each of these steps has an allowance of time (`allowance`), or ends with the batch in which its
//! time is over (`worker`). Work that is left over comes first in the next turn.
//!
//! No step blocks. Workers share only the caches, which they read without locks. The hash of a name
//! determines the worker that resolves the name, so that one resolution answers all clients that
//! wait for the name. Workers exchange messages (letters).
//!
//! There are two exceptions to this division, both for speed. The service of the query path
//! (`nameserver::datagrams`) counts and limits the replies of a batch with state that the outbox
//! lends. The listener sends the replies at the end of the batch. The intake has both directions of
//! a connection, because each limits the other.

#![forbid(unsafe_code)]

mod allowance;
mod alternative;
mod busy;
pub mod certificates;
pub mod connections;
mod fault;
#[cfg(test)]
mod faulty;
mod frames;
pub mod home_ca;
mod intake;
mod load;
pub mod load_report;
pub mod logged_upstreams;
pub mod mailbox;
mod outbox;
mod resolution;
pub mod resolver_report;
mod setup;
pub mod state;
pub mod threads;
mod token;
pub mod upstream_tls;
mod values;
mod worker;

pub use setup::{Listeners, WorkerRings, owner_of};
