//! The listener for proofs by HTTP (RFC 8555 §8.3). It is open while a certificate authority
//! requests a proof, and serves nothing else.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use avocet_io::poll::{Events, Interest, Poller, Trigger};
use avocet_io::probe::has_family;
use avocet_io::tcp::listen;
use thiserror::Error;

use crate::running::Running;
use crate::running::renewals::HttpProofs;

/// Maximum number of concurrent connections. A further one replaces the oldest.
const MAX_CONNECTIONS: usize = 64;
/// Maximum number of octets of the head of a request.
const MAX_HEAD: usize = 4_096;
/// Maximum duration of a connection.
const CONNECTION_TIME: Duration = Duration::from_secs(5);
/// Milliseconds between two checks whether the listener must end.
const LOOK_MS: u32 = 100;
/// Maximum number of connections that are accepted before the open ones are read again.
const MAX_ACCEPTED: usize = 16;

/// An error: an address cannot be listened on.
#[derive(Debug, Error)]
pub(super) enum ProofListenerFault {
    #[error(
        "cannot listen on {0}: not permitted; ports below 1024 need CAP_NET_BIND_SERVICE, see \
         `http-listen` of [acme]"
    )]
    Permission(SocketAddr),
    #[error("cannot listen on {0}: {1}; see `http-listen` of [acme]")]
    Address(SocketAddr, io::Error),
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// Returns the addresses of the server's own HTTP listeners, which serve proofs too.
pub(super) fn own_addresses(running: &Running) -> Vec<SocketAddr> {
    let snapshot = running.shared.snapshot();
    let config = &snapshot.config;
    config.policy.block.page.iter().chain(&config.server.http).copied().collect()
}

/// The listening sockets and their thread. Dropping this value closes the sockets.
pub(super) struct ProofListener {
    is_closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ProofListener {
    /// Listens on addresses, except for those that listeners in `own` have.
    ///
    /// # Errors
    /// An address cannot be listened on.
    pub(super) fn open(
        addresses: &[SocketAddr],
        own: &[SocketAddr],
        proofs: Arc<HttpProofs>,
    ) -> Result<Self, ProofListenerFault> {
        let mut listeners = Vec::new();
        for address in addresses.iter().copied().filter(|address| has_family(*address)) {
            match listen(address) {
                Ok(listener) => listeners.push(listener),
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && own.iter().any(|one| one.port() == address.port()) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(ProofListenerFault::Permission(address));
                }
                Err(error) => return Err(ProofListenerFault::Address(address, error)),
            }
        }
        let is_closing = Arc::new(AtomicBool::new(false));
        let mut serving = Serving::new(listeners, proofs).map_err(ProofListenerFault::Thread)?;
        let closing = is_closing.clone();
        let serve = move || {
            while !closing.load(Ordering::Relaxed) {
                serving.turn();
            }
        };
        let thread = thread::Builder::new().name("acme-http".to_owned()).spawn(serve);
        Ok(Self { is_closing, thread: Some(thread.map_err(ProofListenerFault::Thread)?) })
    }
}

impl Drop for ProofListener {
    fn drop(&mut self) {
        self.is_closing.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection whose request is incomplete.
struct OpenRequest {
    stream: TcpStream,
    head: Vec<u8>,
    end: Instant,
    token: u64,
}

struct Serving {
    listeners: Vec<TcpListener>,
    waiting: Vec<OpenRequest>,
    poller: Poller,
    events: Events,
    next_token: u64,
    proofs: Arc<HttpProofs>,
}

impl Serving {
    fn new(listeners: Vec<TcpListener>, proofs: Arc<HttpProofs>) -> io::Result<Self> {
        let poller = Poller::new()?;
        for (token, listener) in (0..).zip(&listeners) {
            listener.set_nonblocking(true)?;
            poller.add(listener, token, Interest::Read, Trigger::Level)?;
        }
        let next_token = listeners.len() as u64;
        let (waiting, events) = (Vec::new(), Events::with_capacity(64));
        Ok(Self { listeners, waiting, poller, events, next_token, proofs })
    }

    /// Waits for events, and handles them.
    fn turn(&mut self) {
        if self.poller.wait(&mut self.events, Some(LOOK_MS)).is_err() {
            thread::park_timeout(Duration::from_millis(LOOK_MS.into()));
            return;
        }
        let tokens: Vec<u64> = self.events.iter().map(|event| event.token()).collect();
        for token in tokens {
            match usize::try_from(token).ok().filter(|place| *place < self.listeners.len()) {
                Some(place) => self.accept(place),
                None => self.read(token),
            }
        }
        let now = Instant::now();
        self.waiting.retain(|one| now < one.end);
    }

    fn accept(&mut self, place: usize) {
        for _ in 0..MAX_ACCEPTED {
            let Ok((stream, _)) = self.listeners[place].accept() else { return };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.waiting.len() >= MAX_CONNECTIONS {
                self.waiting.remove(0);
            }
            let token = self.next_token;
            self.next_token += 1;
            if self.poller.add(&stream, token, Interest::Read, Trigger::Level).is_ok() {
                let end = Instant::now() + CONNECTION_TIME;
                self.waiting.push(OpenRequest { stream, head: Vec::new(), end, token });
            }
        }
    }

    fn read(&mut self, token: u64) {
        let Some(place) = self.waiting.iter().position(|one| one.token == token) else { return };
        let one = &mut self.waiting[place];
        let mut octets = [0; 1_024];
        match one.stream.read(&mut octets) {
            Ok(0) => drop(self.waiting.remove(place)),
            Ok(len) => {
                one.head.extend_from_slice(&octets[..len]);
                if one.head.windows(4).any(|end| end == b"\r\n\r\n") || one.head.len() > MAX_HEAD {
                    let mut one = self.waiting.remove(place);
                    // A response fits into an empty send buffer.
                    let _ = one.stream.write_all(&response(&one.head, &self.proofs));
                    let _ = one.stream.shutdown(std::net::Shutdown::Write);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => drop(self.waiting.remove(place)),
        }
    }
}

/// Returns the response to a request.
fn response(head: &[u8], proofs: &HttpProofs) -> Vec<u8> {
    let line = head.split(|octet| *octet == b'\r').next().unwrap_or_default();
    let mut words = line.split(|octet| *octet == b' ').map(str::from_utf8);
    let (status, body) = match (words.next(), words.next()) {
        (Some(Ok("GET" | "HEAD")), Some(Ok(path))) if head.len() <= MAX_HEAD => {
            match proofs.at(path) {
                Some(text) => ("200 OK", text),
                None => ("404 Not Found", String::new()),
            }
        }
        _ => ("400 Bad Request", String::new()),
    };
    let len = body.len();
    let body = if line.starts_with(b"HEAD") { "" } else { &body };
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/octet-stream\r\ncontent-length: {len}\r\n\
         connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::running::renewals::PROOF_PATH;

    fn proofs() -> Arc<HttpProofs> {
        let proofs = HttpProofs::default();
        proofs.put(avocet_acme::Proof {
            kind: avocet_acme::ChallengeKind::Http01,
            name: "dns.example".to_owned(),
            token: "abc".to_owned(),
            authorization: "abc.def".to_owned(),
        });
        Arc::new(proofs)
    }

    /// Returns the response to a client that sends octets and then waits.
    fn ask(address: SocketAddr, octets: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(octets).unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn a_proof_is_served_while_the_listener_is_open() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let listener = ProofListener::open(&[free], &[], proofs()).unwrap();
        let get = format!("GET {PROOF_PATH}abc HTTP/1.1\r\nhost: dns.example\r\n\r\n");
        let response = ask(free, get.as_bytes());
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.ends_with("\r\n\r\nabc.def"), "{response}");
        // Silent clients do not block others.
        let silent: Vec<_> =
            (0..2 * MAX_CONNECTIONS).map(|_| TcpStream::connect(free).unwrap()).collect();
        assert!(ask(free, get.as_bytes()).ends_with("abc.def"));
        drop((silent, listener));
        assert!(TcpStream::connect(free).is_err());
    }

    #[test]
    fn other_requests_get_nothing() {
        let proofs = proofs();
        let check = |head: &[u8], status: &str| {
            let response = String::from_utf8(response(head, &proofs)).unwrap();
            assert!(response.starts_with(&format!("HTTP/1.1 {status}")), "{response}");
            assert!(!response.contains("def"), "{response}");
        };
        check(b"GET / HTTP/1.1\r\n\r\n", "404");
        check(b"GET /.well-known/acme-challenge/../x HTTP/1.1\r\n\r\n", "404");
        check(b"POST /.well-known/acme-challenge/abc HTTP/1.1\r\n\r\n", "400");
        check(b"HEAD /.well-known/acme-challenge/abc HTTP/1.1\r\n\r\n", "200");
        check(b"\xff\xff \xff\r\n\r\n", "400");
        check(&[b'A'; MAX_HEAD + 1], "400");
    }

    #[test]
    fn an_address_in_use_is_an_error_unless_the_server_has_it() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let fault = ProofListener::open(&[address], &[], proofs()).err().unwrap();
        assert!(fault.to_string().contains("cannot listen on 127.0.0.1"), "{fault}");
        assert!(ProofListener::open(&[address], &[address], proofs()).is_ok());
    }
}
