//! DNS messages on the wire: names, a borrowed view, a builder, EDNS and record data.
//!
//! This crate has no socket, no clock and no policy. Its input comes from the network, so all work
//! is bounded: no function allocates in proportion to a claimed length, and none panics on any
//! input.
//!
//! Outside of messages, names are *uncompressed wire names*: length-prefixed labels that end with
//! the root's zero octet, at most 255 octets in all (RFC 1035 §3.1). A [`FoldedName`] has its ASCII
//! letters in lower case (RFC 4343); a [`Question`] is a folded name with a type and a class.
//!
//! [`query::QueryView`] reads a client's query, [`view::MessageView`] any message, and
//! [`builder::Builder`] writes one. [`proxy`] has the headers that may come before messages.

#![forbid(unsafe_code)]

pub mod builder;
pub mod canonical;
pub mod code;
pub mod edns;
pub mod folded;
pub mod hash;
pub mod header;
pub mod master;
pub mod name;
pub mod proxy;
pub mod query;
pub mod question;
pub mod rdata;
pub mod short;
pub mod special_purpose;
pub mod suffix;
pub mod text;
pub mod view;

pub use builder::{Builder, Section};
pub use code::{Class, Ede, Opcode, Rcode, Rtype};
pub use folded::{FoldedName, FoldedNameBuf, SharedName};
pub use header::Header;
pub use name::NameBuf;
pub use query::{QueryError, QueryView};
pub use question::{Question, QuestionBuf};
pub use view::{MessageView, RecordView, WireError};

/// The port of DNS over UDP and TCP (RFC 1035 §4.2).
pub const DNS_PORT: u16 = 53;
/// Length of the longest message in octets: the length prefix of a message over TCP has 16 bits
/// (RFC 1035 §4.2.2).
pub const MAX_MESSAGE: usize = 65_535;
