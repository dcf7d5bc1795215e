//! How zones are read, answered from, changed, signed and compared with those of other servers.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

mod hostile;
mod key_timeline;
mod large_rrsets;
mod malformed;
mod oracle;
mod pools;
mod reading;
mod signing;
mod tsig;
mod updates;
mod wildcard_aliases;
mod zones;
