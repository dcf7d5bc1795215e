//! Avocet, the DNS server of a network.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    avocet::run().unwrap_or_else(|error| {
        avocet::write_last_line(&format!("avocet: {error}"));
        ExitCode::FAILURE
    })
}
