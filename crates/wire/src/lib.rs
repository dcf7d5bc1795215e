//! DNS messages on the wire: names, a borrowed view, a builder, EDNS and record data.
//!
//! This crate knows no socket, no clock and no policy. Everything here works on bytes
//! that came from the network and is therefore bounded: no function allocates in
//! proportion to a claimed length, and none panics on any input.
//!
//! Names outside of messages are *uncompressed wire names*: length-prefixed labels ended
//! by the root's zero octet, at most 255 octets (RFC 1035 §3.1). A name is *folded* when
//! its ASCII letters are lower case (RFC 4343).

#![forbid(unsafe_code)]

pub mod builder;
pub mod canonical;
pub mod code;
pub mod edns;
pub mod hash;
pub mod header;
pub mod master;
pub mod name;
pub mod query;
pub mod rdata;
pub mod short;
pub mod suffix;
pub mod text;
pub mod view;

pub use builder::{Builder, Section};
pub use code::{Class, Ede, Opcode, Rcode, Rtype};
pub use header::Header;
pub use name::NameBuf;
pub use query::{QueryError, QueryView};
pub use view::{MessageView, RecordView, WireError};
