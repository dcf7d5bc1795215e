//! Sessions over TLS, HTTP and QUIC, of clients and of servers.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

mod beginning;
mod early;
mod hostile;
mod quic;
mod quic_upstream;
mod tls;
