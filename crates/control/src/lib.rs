//! The interface of the running server: requests and replies as types, and [`Control`], the trait
//! that the server implements.
//!
//! ```text
//! command line ── line of JSON ──> control socket ──┐
//!                                                   ├── Control::METHOD(REQUEST) -> REPLY
//!                        other front ends, such as HTTP ──┘
//! ```
//!
//! The table in [`call`] names each request once, with its method, its parts and its reply. All
//! front ends use the table: the compiler refuses a server that answers a request with the reply of
//! another, and a command that prints the wrong reply. [`line`](mod@line) defines the form on the
//! control socket, and [`schema`] generates the JSON schema of all requests and replies.
//!
//! These types are separate from the types inside the server. A change inside that would change the
//! interface shows as a `match` that does not compile.
//!
//! ```
//! use avocet_control::line::{self, ReplyLine};
//! use avocet_control::log::{LogFound, LogLine, LogTail};
//! use avocet_control::Request;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A client writes a line, which the server reads.
//! let line = line::of_request(LogTail::default());
//! assert_eq!(line::read_request(line.as_bytes())?, Request::LogTail(LogTail::default()));
//!
//! // The type of the request determines those of the lines of the reply.
//! let part = line::read_reply::<LogTail>(r#"{"skipped": 3}"#)?;
//! assert_eq!(part, ReplyLine::Part(LogLine::Skipped(3)));
//! let end = line::read_reply::<LogTail>(r#"{"done": true, "entries": 7}"#)?;
//! assert_eq!(end, ReplyLine::End(LogFound { entries: 7 }));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod access;
pub mod access_request;
pub mod admission;
pub mod backup;
pub mod cache;
pub mod call;
pub mod certificates;
pub mod clients;
pub mod connect;
pub mod dry_run;
pub mod error;
pub mod hand_over;
pub mod limits;
pub mod line;
pub mod lists;
pub mod load;
pub mod log;
pub mod log_fault;
mod part;
pub mod past;
pub mod policy;
pub mod pools;
pub mod reload;
pub mod request;
pub mod revisions;
pub mod schema;
pub mod session;
pub mod statistics;
pub mod status;
pub mod trace;
pub mod trust;
pub mod why;
mod words;
pub mod zone_edit;
pub mod zone_keys;
pub mod zones;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;

pub use call::{Call, Control, Effect, Request};
pub use error::ControlError;
pub use part::{Disconnected, NoPart, Part, Parts};

/// Maximum number of octets of a request: a configuration of some thousand local records fits.
pub const MAX_LINE: usize = 512 << 10;
/// The file name of the socket, in the data directory.
pub const SOCKET: &str = "control.sock";

/// Connects to the server that runs in a data directory.
pub fn connect(directory: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(directory.join(SOCKET))
}
