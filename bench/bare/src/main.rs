//! The least a DNS server can cost on a machine, to measure real ones against, and a load
//! generator.
//!
//! The responders answer every question with the same address; the relays pass questions to an
//! upstream and its answers back. Neither checks anything: they mark the floor, nothing else.

mod blast;
mod forward;
mod message;
mod queries;
mod slow;
mod sys;
mod tcp;
mod udp;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::{env, io};

const USAGE: &str = "usage:
  avocet-bench-bare udp PORT                   one recvfrom and one sendto a query
  avocet-bench-bare mmsg PORT                  recvmmsg and sendmmsg in batches
  avocet-bench-bare tcp PORT                   one read for all that a connection has sent, writes
                                               after all connections have been read
  avocet-bench-bare forward PORT UPSTREAM-PORT SOCKETS
                                               relay, each batch through the next of its sockets
  avocet-bench-bare pool PORT UPSTREAM-PORT SOCKETS
                                               relay, each query through a random one of its sockets
  avocet-bench-bare blast PORT FILE [--secs N] [--count N] [--window N | --rate N] [--sockets N] [--edns | --dnssec]
                                               generator with so many queries in flight or a second;
                                               FILE has lines `name TYPE`
  avocet-bench-bare --version                  version and commit of this program
  avocet-bench-bare slow PORT FILE [--secs N] [--rate N] [--slow N]
                                               normal clients on new TCP connections, alone and
                                               next to slow ones, which send octet by octet
PORT of udp, mmsg, blast and slow may be ADDRESS:PORT; it is on loopback if not";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> io::Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--version"] => {
            println!("avocet-bench-bare {}", env!("BUILD_VERSION"));
            Ok(())
        }
        ["udp", port] => udp::answer_singly(address(port)?),
        ["mmsg", port] => udp::answer_in_batches(address(port)?),
        ["tcp", port] => tcp::answer(number(port)?),
        ["forward", port, upstream, sockets] => forward::relay(
            number(port)?,
            number(upstream)?,
            number(sockets)?,
            forward::Choice::PerBatch,
        ),
        ["pool", port, upstream, sockets] => forward::relay(
            number(port)?,
            number(upstream)?,
            number(sockets)?,
            forward::Choice::PerQuery,
        ),
        ["blast", server, file, ref rest @ ..] => {
            let report = blast::run(&blast::Plan::parse(address(server)?, file, rest)?)?;
            println!("{report}");
            Ok(())
        }
        ["slow", server, file, ref rest @ ..] => {
            let SocketAddr::V4(server) = address(server)? else {
                return Err(invalid("slow wants an IPv4 address"));
            };
            println!("{}", slow::run(&slow::Plan::parse(server, file, rest)?)?);
            Ok(())
        }
        _ => Err(invalid(USAGE)),
    }
}

/// Parses a port of loopback, or an address with its port.
fn address(word: &str) -> io::Result<SocketAddr> {
    word.parse().or_else(|_| Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, number(word)?))))
}

/// Parses an argument; the error names it.
fn number<T: std::str::FromStr>(word: &str) -> io::Result<T> {
    word.parse().map_err(|_| invalid(&format!("`{word}` is not a number that fits here\n{USAGE}")))
}

/// An error of the caller's.
fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}
