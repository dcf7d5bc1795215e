//! All system calls of Avocet for packets, and the `unsafe` code for them.
//!
//! A worker is a thread with an event loop; each core has one worker. A worker owns its UDP
//! listening sockets ([`udp`]), its TCP listeners and connections ([`tcp`]) and its sockets towards
//! upstreams ([`upstream`]), all in one [`poll::Poller`]. Of the calls in this loop, only
//! [`poll::Poller::wait`] blocks. This crate does not interpret DNS messages.
//!
//! [`client`] serves load generators, which query a server at the highest rate.
//!
//! [`ping`] sends echo requests of ICMP.
//!
//! [`interfaces`], [`links`] and [`neighbours`] read the kernel's tables of addresses, routes and
//! neighbours.
//!
//! [`memory`] reports how much memory the process may use.
//!
//! [`process`], [`signals`] and [`handover`] cover the start and the end of a process, and
//! [`ownership`] decides which process writes the data directory. With [`account`], root handles
//! files of an account that it does not trust. [`mod@file`] opens files that a
//! user names, and [`replace`] replaces files that users edit. [`clock`] reads a clock that
//! continues during suspend. [`mod@probe`] tests whether an address is free.

pub mod account;
pub mod client;
pub mod clock;
pub mod file;
pub mod handover;
pub mod interfaces;
pub mod links;
pub mod memory;
pub mod neighbours;
mod netlink;
mod options;
pub mod ownership;
mod peer;
pub mod ping;
pub mod poll;
pub mod probe;
pub mod process;
pub mod replace;
mod segments;
pub mod signals;
mod slots;
mod syscall;
pub mod tcp;
pub mod terminal;
pub mod udp;
pub mod upstream;
pub mod uring;

pub use options::Local;
pub use peer::Peer;
