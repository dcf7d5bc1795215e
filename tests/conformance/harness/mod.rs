//! The parts of the tests: the server under test as a separate process, a client that sends any
//! octets, scripted upstreams, and other servers.
//!
//! Nothing here sleeps to wait for an event: it polls until the result is there, or fails after
//! [`PATIENCE`].

pub(crate) mod ask;
pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod directory;
pub(crate) mod filters;
pub(crate) mod peers;
pub(crate) mod reply;
pub(crate) mod scripted;
pub(crate) mod server;

use std::time::{Duration, Instant};

pub(crate) use ask::Ask;
pub(crate) use client::{Tcp, Udp};
pub(crate) use clock::Clock;
pub(crate) use directory::Directory;
pub(crate) use reply::{Record, Reply};
pub(crate) use scripted::{Answer, Received, Scripted, Verdict};
pub(crate) use server::{Server, Setup};

/// The limit for anything that must happen, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The interval between two polls.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Polls until there is a result; panics after [`PATIENCE`].
#[track_caller]
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::park_timeout(LOOK_AGAIN);
    }
}

/// A type's number by its mnemonic, `TYPE65400` included.
pub(crate) fn rtype(text: &str) -> avocet_wire::Rtype {
    let number = text.strip_prefix("TYPE").and_then(|number| number.parse().ok());
    let number = number.or_else(|| avocet_wire::rdata::from_mnemonic(text));
    avocet_wire::Rtype(number.unwrap_or_else(|| panic!("no such type: {text}")))
}

/// A name in wire form.
pub(crate) fn wire_name(text: &str) -> Vec<u8> {
    let mut out = [0; avocet_wire::name::MAX_NAME];
    let len =
        avocet_wire::text::name_to_wire(text.as_bytes(), Some(&[0]), &mut out).expect("a name");
    out[..len].to_vec()
}

/// The body of a page of the server's HTTP listener.
pub(crate) fn http_get(addr: std::net::SocketAddr, path: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(addr).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n")
        .expect("an open connection");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("a page");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}
