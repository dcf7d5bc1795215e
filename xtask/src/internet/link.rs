//! The link to a name server: a relay that delays and loses datagrams according to [`Weather`].
//!
//! Some kernels have a module that can do the same, but this relay works on all kernels. TCP is
//! delayed but not lost, because its retransmission would only add to the delay.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::authority::PORT;
use super::message;
use crate::random::Random;

/// Maximum number of queries in flight to one server. Further queries are lost.
const MOST_ON_THE_WAY: usize = 1024;
/// Stack size of a thread. There is one thread per query in flight.
const STACK_BYTES: usize = 128 * 1024;
/// Maximum time that the server may take to answer. The server is local, so a later answer will not
/// come.
const SERVER_WITHIN: Duration = Duration::from_secs(2);

/// The delay and the loss on all links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Weather {
    /// The round-trip time.
    pub(super) round_trip: Duration,
    /// The number of lost datagrams per hundred, in each direction.
    pub(super) loss_percent: u64,
}

impl Weather {
    /// The properties of a network without delay and loss.
    pub(super) const CLEAR: Self = Self { round_trip: Duration::ZERO, loss_percent: 0 };
}

/// A query that passed a link. Each transmission counts separately.
#[derive(Clone, Debug)]
pub(super) struct Passed {
    pub(super) at: Instant,
    /// The address to which the query was sent.
    pub(super) server: Ipv4Addr,
    /// The name and the type of the query.
    pub(super) question: String,
}

/// The traffic on all links.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    passed: Arc<Mutex<Vec<Passed>>>,
    /// Number of queries that were lost before they reached a server.
    lost: Arc<AtomicU64>,
}

impl Traffic {
    fn note(&self, server: Ipv4Addr, query: &[u8]) {
        let Some(question) = message::question_of(query) else { return };
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        passed.push(Passed { at: Instant::now(), server, question });
    }

    /// Returns the queries that passed the links since the last call.
    pub(super) fn take(&self) -> Vec<Passed> {
        std::mem::take(&mut self.passed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn lost(&self) -> &Arc<AtomicU64> {
        &self.lost
    }
}

/// Relays queries from an address to the server behind it, until this process ends.
pub(super) fn lay(
    weather: Weather,
    from: Ipv4Addr,
    to: Ipv4Addr,
    traffic: &Traffic,
) -> Result<(), String> {
    let failed = |error: io::Error| format!("{from}: {error}");
    let datagrams = Arc::new(UdpSocket::bind((from, PORT)).map_err(failed)?);
    let streams = TcpListener::bind((from, PORT)).map_err(failed)?;
    let server = SocketAddr::from((to, PORT));
    let way = Way { weather, from, server, traffic: traffic.clone() };
    let by_stream = way.clone();
    thread::spawn(move || way.relay_datagrams(&datagrams, Random(u64::from(from.to_bits()))));
    thread::spawn(move || {
        for stream in streams.incoming().flatten() {
            let way = by_stream.clone();
            start(move || drop(way.relay_stream(stream)));
        }
    });
    Ok(())
}

#[derive(Clone)]
struct Way {
    weather: Weather,
    from: Ipv4Addr,
    server: SocketAddr,
    traffic: Traffic,
}

impl Way {
    fn relay_datagrams(&self, listener: &Arc<UdpSocket>, mut random: Random) {
        let mut buffer = [0; 4096];
        while let Ok((length, client)) = listener.recv_from(&mut buffer) {
            self.traffic.note(self.from, &buffer[..length]);
            // The relay and each query in flight hold one reference.
            let is_full = Arc::strong_count(listener) > MOST_ON_THE_WAY;
            if is_full || random.percent(self.weather.loss_percent) {
                self.traffic.lost.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let returns = !random.percent(self.weather.loss_percent);
            let (query, listener) = (buffer[..length].to_vec(), Arc::clone(listener));
            let (server, one_way) = (self.server, self.weather.round_trip / 2);
            start(move || {
                thread::sleep(one_way);
                let Ok(answer) = exchange(&query, server) else { return };
                thread::sleep(one_way);
                if returns {
                    // If the client closed its socket, it no longer needs the answer.
                    let _ = listener.send_to(&answer, client);
                }
            });
        }
    }

    /// Relays message by message until one side closes.
    fn relay_stream(&self, mut client: TcpStream) -> io::Result<()> {
        let mut server = TcpStream::connect(self.server)?;
        let round_trip = self.weather.round_trip;
        // The TCP handshake takes one round trip before the first message is sent.
        thread::sleep(round_trip);
        loop {
            let query = read_message(&mut client)?;
            self.traffic.note(self.from, query.get(2..).unwrap_or_default());
            thread::sleep(round_trip / 2);
            server.write_all(&query)?;
            let answer = read_message(&mut server)?;
            thread::sleep(round_trip / 2);
            client.write_all(&answer)?;
        }
    }
}

fn start(work: impl FnOnce() + Send + 'static) {
    // If no thread can be started, the query is lost.
    let _ = thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
}

fn exchange(query: &[u8], server: SocketAddr) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(SERVER_WITHIN))?;
    socket.connect(server)?;
    socket.send(query)?;
    let mut answer = vec![0; usize::from(u16::MAX)];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

/// Reads a message that is preceded by its length.
fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok([&length[..], &message].concat())
}
