//! Avocet, the DNS server of a network.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    avocet::run().unwrap_or_else(|error| {
        eprintln!("avocet: {error}");
        ExitCode::FAILURE
    })
}
