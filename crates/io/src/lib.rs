//! All packet system calls of Avocet, and all its `unsafe` code for them.
//!
//! A worker is one plain event loop per core. It owns its UDP listening sockets ([`udp`]), its TCP
//! listeners and connections ([`tcp`], [`frame`]) and its sockets towards upstreams ([`upstream`]),
//! all in one [`poll::Poller`]. Nothing here knows a DNS message from any other bytes, and nothing
//! here waits except [`poll::Poller::wait`].
//!
//! A client that asks a server as quickly as it can, as a load generator does, has [`client`].
//!
//! What a process does once at its start or its end is in [`process`], [`signals`] and
//! [`handover`]; what it reads of files that people name has [`mod@file`]. The clock that goes on
//! in suspend is [`clock`]; [`mod@probe`] finds out whether an address is free.

pub mod client;
pub mod clock;
pub mod file;
pub mod frame;
pub mod handover;
pub mod interfaces;
pub mod neighbours;
mod netlink;
mod options;
mod peer;
pub mod poll;
pub mod probe;
pub mod process;
mod segments;
pub mod signals;
mod slots;
mod syscall;
pub mod tcp;
pub mod udp;
pub mod upstream;
pub mod uring;

pub use options::Local;
pub use peer::Peer;
