//! The threads of the workers: their resources, their start, and the recovery from a panic.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use avocet_config::Config;
use avocet_dnstap::TapReceiver;
use avocet_io::poll::{Poller, Waker};
use avocet_io::process;
use avocet_nameserver::query_log;
use avocet_nameserver::traces::{TraceReceiver, trace_queue};
use avocet_querylog::Consumer;
use avocet_resolver::MAX_POOL;
use thiserror::Error;

use crate::mailbox::Mailbox;
use crate::setup::{Listeners, Setup, WorkerRings};
use crate::state::Shared;
use crate::worker::Worker;

/// Number of octets of a worker's ring buffer for the query log: about 25,000 entries. A worker
/// writes fewer entries between two passes of the thread that reads them.
const LOG_OCTETS: usize = 4 << 20;
/// Number of octets of a worker's ring buffer for dnstap: some ten thousand replies, or a second of
/// full load.
const TAP_OCTETS: usize = 4 << 20;
/// Number of file descriptors for purposes other than upstream sockets: listeners, log, snapshot,
/// control.
const OTHER_FILES: usize = 128;
/// The divisor of the limit on file descriptors that gives the maximum number of client
/// connections.
const STREAM_PART: usize = 4;
/// Minimum number of slots of a pool. If a pool has only this number, most queries get their own
/// socket.
const MIN_POOL: usize = 16;
/// Number of slots below which a pool causes a warning. The port then adds fewer than 8
/// unpredictable bits to those of ID and letter case.
const FEW_PORTS: u32 = 256;

/// The reason why the workers do not start: the action that failed, and its error.
#[derive(Debug, Error)]
#[error("cannot {attempt}: {error}")]
pub struct ThreadError {
    /// The action that failed, as in "cannot start a thread".
    pub attempt: &'static str,
    /// The error of the system.
    pub error: io::Error,
}

fn cannot(attempt: &'static str) -> impl Fn(io::Error) -> ThreadError {
    move |error| ThreadError { attempt, error }
}

/// Returns an event queue for each worker, and a mailbox that can wake the worker.
///
/// # Errors
///
/// There are no free file descriptors.
pub fn mailboxes(workers: usize) -> Result<(Vec<Poller>, Vec<Mailbox>), ThreadError> {
    let mut pollers = Vec::new();
    let mut mailboxes = Vec::new();
    for _ in 0..workers {
        let poller = Poller::new().map_err(cannot("make an event queue"))?;
        let waker =
            Waker::new(&poller, Worker::MAILBOX_TOKEN).map_err(cannot("make an event queue"))?;
        mailboxes.push(Mailbox::new(waker));
        pollers.push(poller);
    }
    Ok((pollers, mailboxes))
}

/// The ends of a worker's ring buffers that other threads own.
pub struct RingEnds {
    /// The consumer of the query log's entries.
    pub logged: Consumer,
    /// The receiver of replies for dnstap.
    pub tapped: TapReceiver,
    /// The receiver of traces for export.
    pub traced: TraceReceiver,
}

/// The resources that a worker owns.
pub struct Seat {
    poller: Poller,
    listeners: Listeners,
    /// The worker's ends of its ring buffers.
    ends: WorkerRings,
}

/// Returns octets from the system's random source.
fn random<const N: usize>() -> Result<[u8; N], ThreadError> {
    let mut octets = [0; N];
    getrandom::fill(&mut octets)
        .map_err(|error| cannot("read the random source")(io::Error::other(error.to_string())))?;
    Ok(octets)
}

/// Creates the ring buffers of a worker for the query log, dnstap and traces.
pub fn rings() -> (WorkerRings, RingEnds) {
    let ((log, logged), (tap, tapped)) =
        (query_log::ring(LOG_OCTETS), avocet_dnstap::ring(TAP_OCTETS));
    let (trace, traced) = trace_queue();
    (WorkerRings { log, tap, trace }, RingEnds { logged, tapped, traced })
}

/// Returns the resources of each worker, in the order of the workers.
pub fn seats(pollers: Vec<Poller>, sockets: Vec<Listeners>, ends: Vec<WorkerRings>) -> Vec<Seat> {
    let parts = pollers.into_iter().zip(sockets).zip(ends);
    parts.map(|((poller, listeners), ends)| Seat { poller, listeners, ends }).collect()
}

/// The signal at which workers begin to read from their sockets. Clones share the signal.
#[derive(Clone, Default)]
pub struct StartSignal(Arc<(Mutex<bool>, Condvar)>);

impl StartSignal {
    /// Lets the workers begin.
    pub fn give(&self) {
        let (is_given, given) = &*self.0;
        *is_given.lock().unwrap_or_else(PoisonError::into_inner) = true;
        given.notify_all();
    }

    fn wait(&self) {
        let (is_given, given) = &*self.0;
        let is_given = is_given.lock().unwrap_or_else(PoisonError::into_inner);
        drop(given.wait_while(is_given, |is_given| !*is_given));
    }
}

/// Starts the workers. They begin at the signal, and run until a message in their mailbox makes
/// them drain.
///
/// # Errors
///
/// A worker cannot watch its sockets, the random source fails, or the system permits no more
/// threads.
pub fn start_workers(
    shared: &Arc<Shared>,
    seats: Vec<Seat>,
    open_files: usize,
    signal: &StartSignal,
) -> Result<Vec<JoinHandle<()>>, ThreadError> {
    let state = shared.snapshot();
    let server = &state.config.server;
    let upstream_sockets = sockets_each(open_files, &state.config);
    let source_ports = state.ports.count();
    let pool_size = pool_size(upstream_sockets, source_ports, &state.config);
    if pool_size < FEW_PORTS {
        tracing::warn!(
            open_files,
            "each worker has only {pool_size} source ports per upstream, which makes responses \
             easier to spoof; raise the limit of open files (LimitNOFILE= in the unit file, \
             ulimit -n), or use fewer upstreams or workers"
        );
    }
    let most_streams = open_files / STREAM_PART / server.workers;
    let mut threads = Vec::new();
    for (index, Seat { poller, listeners, ends }) in seats.into_iter().enumerate() {
        let setup = Setup {
            index: index as u16,
            pool_size,
            upstream_sockets,
            most_streams,
            seed: random()?,
            quic_seed: random()?,
        };
        let worker = Worker::new(&setup, shared.clone(), poller, listeners)
            .map_err(cannot("watch the sockets"))?
            .with_rings(ends);
        let core = server.pin_workers.then_some(index);
        let signal = signal.clone();
        let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            signal.wait();
            run_worker(worker, core);
        });
        threads.push(thread.map_err(cannot("start a thread"))?);
    }
    let shown: Vec<_> = server.open_addresses().iter().map(ToString::to_string).collect();
    let (workers, listen) = (threads.len(), format!("[{}]", shown.join(", ")));
    tracing::info!(workers, %listen, pool_size, source_ports, "serving");
    Ok(threads)
}

fn run_worker(mut worker: Worker, core: Option<usize>) {
    if let Some(core) = core
        && let Err(error) = process::pin_to_core(core)
    {
        tracing::warn!(core, %error, "cannot pin a worker to its core");
    }
    loop {
        // A panic may leave state inconsistent, so it is rebuilt before the worker continues.
        match panic::catch_unwind(AssertUnwindSafe(|| worker.run())) {
            Ok(Ok(())) => return,
            Ok(Err(error)) => return tracing::error!(%error, "a worker ended"),
            Err(_) => {
                tracing::error!(
                    "worker panicked (see above); restarted, pending queries are resolved again"
                );
                worker.recover();
            }
        }
    }
}

/// Returns the number of UDP upstream sockets that each worker may open.
fn sockets_each(open_files: usize, config: &Config) -> usize {
    let reserved = OTHER_FILES + config.server.tcp.connections.min(open_files / STREAM_PART);
    (open_files.saturating_sub(reserved) / config.server.workers).max(2 * MIN_POOL)
}

/// Returns the number of pool slots for each upstream. It is limited by the number of sockets, with
/// a reserve for queries that need their own socket. It is also limited by the number of ports.
/// Half of the ports are left for queries with their own socket, and for other programs.
fn pool_size(sockets: usize, source_ports: usize, config: &Config) -> u32 {
    let upstreams: usize = config.forwards.iter().map(|forward| forward.upstreams.len()).sum();
    let by_ports = source_ports / 2 / config.server.workers;
    let slots = (sockets - sockets / 4).min(by_ports) / upstreams.max(1);
    // The number is a power of two, so that a slot can be drawn by masking random bits.
    1 << slots.clamp(MIN_POOL, MAX_POOL).ilog2()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream, UdpSocket};
    use std::sync::atomic::Ordering;

    use avocet_io::tcp::TcpListener;
    use avocet_io::udp::UdpListener;
    use avocet_nameserver::policy::Parts;
    use avocet_nameserver::query::cookie::CookieSecrets;
    use avocet_nameserver::snapshot::{Snapshot, Unconfigured};

    use super::*;
    use crate::certificates::TlsListeners;
    use crate::fault;
    use crate::mailbox::Letter;
    use crate::upstream_tls::UpstreamPeers;

    /// Sends `localhost. A` until it is answered.
    fn ask(server: SocketAddr) -> Vec<u8> {
        let query =
            b"\x00\x07\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x09localhost\x00\x00\x01\x00\x01";
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.connect(server).unwrap();
        client.set_read_timeout(Some(std::time::Duration::from_millis(200))).unwrap();
        let mut reply = vec![0; 512];
        for _ in 0..50 {
            client.send(query).unwrap();
            if let Ok(len) = client.recv(&mut reply) {
                reply.truncate(len);
                return reply;
            }
        }
        panic!("no answer");
    }

    #[test]
    fn pools_take_at_most_three_quarters_of_the_sockets_and_half_of_the_ports() {
        let check = |text: &str, sockets: usize, expected: u32| {
            let config = Config::from_text(None, text, &std::collections::BTreeMap::new()).unwrap();
            assert_eq!(pool_size(sockets, 59_000, &config), expected, "{text}, {sockets}");
        };
        let forward = |workers: usize, upstreams: usize| {
            let servers: Vec<_> =
                (1..=upstreams).map(|host| format!("\"192.0.2.{host}\"")).collect();
            let servers = servers.join(", ");
            format!(
                "[server]\nworkers = {workers}\n[[forward]]\nzone = \".\"\nupstreams = [{servers}]"
            )
        };
        check(&forward(1, 1), 100_000, 4096);
        check(&forward(1, 1), 4096, 2048);
        check(&forward(1, 10), 4096, 256);
        check(&forward(4, 1), 100_000, 4096);
        check(&forward(8, 1), 100_000, 2048);
        check(&forward(8, 3), 100_000, 1024);
        check(&forward(64, 30), 100_000, 16);
    }

    /// A server with one worker in this process, which queries `upstream`.
    struct OneWorker {
        addr: SocketAddr,
        shared: Arc<Shared>,
        threads: Vec<JoinHandle<()>>,
    }

    impl OneWorker {
        fn start(upstream: SocketAddr) -> Self {
            let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let directory = std::env::temp_dir().join(format!(
                "avocet-panic-{}-{}",
                std::process::id(),
                free.port()
            ));
            std::fs::create_dir_all(&directory).unwrap();
            let file = directory.join("avocet.toml");
            let text = format!(
                "[server]\nlisten = [\"{free}\"]\nworkers = 1\n[resolver]\nmode = \
                 \"forward\"\n[[forward]]\nzone = \"example\"\nupstreams = [\"{upstream}\"]\n"
            );
            std::fs::write(&file, text).unwrap();
            let config = Config::load(Some(&file), Vec::new()).unwrap();
            std::fs::remove_dir_all(&directory).unwrap();
            let sockets = Listeners {
                datagrams: vec![UdpListener::bind(free).unwrap()],
                streams: vec![TcpListener::bind(free).unwrap()],
                ..Listeners::default()
            };
            let (pollers, mailboxes) = mailboxes(1).unwrap();
            let cookies = CookieSecrets { current: [6; 16], previous: None };
            let secrets = Unconfigured::new([9; 32], cookies);
            let snapshot = Snapshot::first(config, &secrets, Parts::new([8; 32])).unwrap();
            let tls = TlsListeners::load(&snapshot.config).unwrap();
            let tls = (tls, UpstreamPeers::default());
            let shared = Arc::new(Shared::new(snapshot, mailboxes, [7; 32], tls).unwrap());
            let seats = seats(pollers, vec![sockets], vec![rings().0]);
            let signal = StartSignal::default();
            signal.give();
            let threads = start_workers(&shared, seats, 1024, &signal).unwrap();
            Self { addr: free, shared, threads }
        }

        fn panics(&self) -> u64 {
            self.shared.metrics[0].panics.value()
        }

        fn stop(self) {
            assert!(self.shared.mailboxes[0].send(Letter::Drain).is_ok());
            self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }

    /// Any worker may hit an injected fault, so a single test injects all of them.
    #[test]
    fn a_fault_in_a_worker_costs_one_query_at_most() {
        let upstream = UdpSocket::bind("127.0.0.1:0").unwrap();
        upstream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        let server = OneWorker::start(upstream.local_addr().unwrap());
        assert_eq!(ask(server.addr)[3] & 0xf, 0);

        fault::IN_QUERY.store(true, Ordering::Relaxed);
        assert_eq!(ask(server.addr)[3] & 0xf, 0, "the next query is answered");
        assert_eq!(server.panics(), 1);

        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        client.connect(server.addr).unwrap();
        client.send(b"\x00\x09\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x03www\x07example\x00\x00\x01\x00\x01").unwrap();
        let mut octets = [0; 512];
        upstream.recv_from(&mut octets).expect("the query before the fault");
        fault::IN_TURN.store(true, Ordering::Relaxed);
        server.shared.mailboxes[0].wake();
        let mut reply = vec![0; 512];
        while server.panics() < 2 {
            thread::yield_now();
        }
        let reply_len = loop {
            // The query before the fault may have been repeated, so the last reply is used.
            let (len, from) =
                upstream.recv_from(&mut octets).expect("the same query after the fault");
            octets[2] |= 0x80;
            upstream.send_to(&octets[..len], from).unwrap();
            client.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
            if let Ok(len) = client.recv(&mut reply) {
                break len;
            }
        };
        assert!(
            reply_len > 12 && reply[1] == 9 && reply[3] & 0xf == 0,
            "{:?}",
            &reply[..reply_len]
        );

        // One read returns two queries. An action answers each of them, because no server has their
        // names.
        let head = b"\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01";
        let name = b"\x05other\x00\x00\x01\x00\x01";
        let frames = [1, 2].map(|id| [&[0, 25, 0, id], &head[..], &[b'a' + id], name].concat());
        fault::IN_ACTION.store(true, Ordering::Relaxed);
        let mut client = TcpStream::connect(server.addr).unwrap();
        client.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        client.write_all(&frames.concat()).unwrap();
        let mut reply = [0; 16];
        client.read_exact(&mut reply).expect("the answer to one of them");
        assert!([1, 2].contains(&reply[3]) && reply[5] & 0xf == 5, "{reply:?}");
        drop(client);
        assert_eq!(server.panics(), 3);
        server.stop();
    }
}
