//! The workers of the server: each is one thread with one event loop for all that its clients and
//! their servers need.
//!
//! A worker has three parts, each with one owner. They know nothing of one another: they exchange
//! only values (`values`), and only the event loop (`worker`) calls all three.
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
//! - `intake`: what clients reach. Datagrams, connections, and the bounds on them.
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
//! Nothing blocks, and nothing is shared but the caches, which are read without locks. A name is
//! always resolved by the worker that its hash belongs to, so that all clients that wait for it
//! meet there. Workers send one another letters.
//!
//! Two exceptions to a strict split, both for speed. The service of the query path
//! (`nameserver::datagrams`) counts and limits the replies of a batch with state that the outbox
//! lends. The listener sends the replies at the end of the batch. And a connection keeps both of
//! its directions in the intake, since each bounds the other.

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
