//! The server under test: the real binary as a separate process.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use avocet_wire::Class;

use super::{Ask, Directory, PATIENCE, Reply, Tcp, Udp, until};

/// Retries with other ports, for the case that another process took one.
const STARTS: usize = 5;

/// How to start the server. Its HTTP listener is off by default.
#[derive(Clone, Default)]
pub(crate) struct Setup {
    listen: Option<IpAddr>,
    asked_at: Option<IpAddr>,
    server: String,
    tables: String,
    http: bool,
    wrapper: Vec<String>,
    variables: Vec<(String, String)>,
}

/// Keys of a rule. On a busy machine, an upstream of a test takes longer than the shortest timeout
/// of other servers, which would then query it again.
const PATIENT: &str = "timeout-min-ms = 500";

impl Setup {
    /// Two workers, small caches, loopback, no responding upstream.
    pub(crate) fn plain() -> Self {
        Self::default()
    }

    /// Forwards all names to this upstream.
    pub(crate) fn forwarding_to(upstream: SocketAddr) -> Self {
        Self::plain().rule(".", &[upstream], PATIENT)
    }

    /// Adds a forwarding rule with additional keys.
    pub(crate) fn rule(self, zone: &str, upstreams: &[SocketAddr], keys: &str) -> Self {
        let upstreams: Vec<_> = upstreams.iter().map(|addr| format!("udp://{addr}")).collect();
        self.tables(&format!("[[forward]]\nzone = \"{zone}\"\nupstreams = {upstreams:?}\n{keys}"))
    }

    /// Adds keys to `[server]`.
    pub(crate) fn server(mut self, keys: &str) -> Self {
        self.server += &format!("{keys}\n");
        self
    }

    /// Adds tables.
    pub(crate) fn tables(mut self, tables: &str) -> Self {
        self.tables += &format!("{tables}\n");
        self
    }

    /// Listens on `listen`; the test sends queries to `asked_at`.
    pub(crate) fn listen(mut self, listen: &str, asked_at: &str) -> Self {
        self.listen = Some(listen.parse().expect("an address"));
        self.asked_at = Some(asked_at.parse().expect("an address"));
        self
    }

    /// Enables the HTTP listener.
    pub(crate) fn http(mut self) -> Self {
        self.http = true;
        self
    }

    /// Starts the server through another program, given by name and arguments.
    pub(crate) fn wrapper(mut self, words: &[&str]) -> Self {
        self.wrapper = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    /// Sets an environment variable.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the server and waits until it answers.
    pub(crate) fn start(self) -> Server {
        for _ in 0..STARTS {
            if let Some(server) = Server::try_start(self.clone()) {
                return server;
            }
        }
        panic!("no free ports in {STARTS} attempts");
    }

    fn text(&self, addr: SocketAddr, http: Option<SocketAddr>, data: &std::path::Path) -> String {
        let http = http.map(|addr| addr.to_string()).unwrap_or_default();
        let workers = if self.server.contains("workers") { "" } else { "workers = 2\n" };
        let cache = if self.tables.contains("[cache]") {
            ""
        } else {
            "[cache]\nsnapshot-interval-secs = 0\n"
        };
        let nowhere = if self.tables.contains("[[forward]]") {
            ""
        } else {
            "[[forward]]\nzone = \"nowhere.example\"\nupstreams = [\"127.0.0.1:9\"]\n"
        };
        // Queries must not leave the machine by default.
        let mode = if self.tables.contains("[resolver]") {
            ""
        } else {
            "[resolver]\nmode = \"forward\"\n"
        };
        format!(
            "{mode}[server]\nlisten = [\"{addr}\"]\nhttp = \"{http}\"\n{workers}{}\n{}\n{cache}{nowhere}[data]\ndirectory = {data:?}\n",
            self.server, self.tables
        )
    }
}

/// A running server. Dropping it ends the process.
pub(crate) struct Server {
    child: Child,
    setup: Setup,
    /// The address for queries.
    pub(crate) addr: SocketAddr,
    /// The address of its HTTP listener.
    pub(crate) http: SocketAddr,
    /// Its files: `avocet.toml`, `log`, and the directory `data`.
    pub(crate) directory: Directory,
}

impl Server {
    /// Returns `None` if another process took a port.
    fn try_start(setup: Setup) -> Option<Self> {
        let directory = Directory::create();
        let listen = setup.listen.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let bound = free_port(listen);
        let addr = SocketAddr::new(setup.asked_at.unwrap_or(listen), bound.port());
        let http = free_port(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let data = directory.path().join("data");
        directory.write("avocet.toml", &setup.text(bound, setup.http.then_some(http), &data));
        let child = spawn(&setup, &directory);
        let mut server = Self { child, setup, addr, http, directory };
        server.wait_until_it_answers().then_some(server)
    }

    fn wait_until_it_answers(&mut self) -> bool {
        let probe = Ask::of("version.bind.", "TXT").class(Class::CH).octets();
        let started = Instant::now();
        loop {
            let client = Udp::to(self.addr);
            client.send(&probe);
            // The system may have given the client the very port of the server: its own query is
            // not a reply.
            if client.receive(Duration::from_millis(100)).is_some_and(|reply| reply != probe) {
                return true;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                let log = self.directory.read("log");
                assert!(log.contains("another server is using it"), "{status}: {log}");
                return false;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "it does not answer: {}",
                self.directory.read("log")
            );
        }
    }

    /// Sends a query as a datagram from a new port.
    #[track_caller]
    pub(crate) fn ask(&self, ask: &Ask) -> Reply {
        Udp::to(self.addr).ask(ask)
    }

    /// Sends a query over a new connection.
    #[track_caller]
    pub(crate) fn ask_tcp(&self, ask: &Ask) -> Reply {
        Tcp::to(self.addr).ask(ask)
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process is running.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends it a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid().to_string()]).status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send SIG{name}");
    }

    /// Ends it as an operator does, and returns its exit status.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.signal("TERM");
        until("the server ends", || self.child.try_wait().ok().flatten())
    }

    /// Starts it again with the same files and ports.
    pub(crate) fn restart(&mut self) {
        self.stop();
        // Another server of these tests may have its port for a moment.
        until("its port is free", || {
            self.child = spawn(&self.setup, &self.directory);
            self.wait_until_it_answers().then_some(())
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let status = self.child.try_wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!(
                "the server at {} {status:?}, its log:\n{}",
                self.addr,
                self.directory.read("log")
            );
        }
    }
}

fn spawn(setup: &Setup, directory: &Directory) -> Child {
    let log = File::create(directory.path().join("log")).expect("a log");
    let binary = env!("CARGO_BIN_EXE_avocet");
    let config = directory.path().join("avocet.toml");
    let mut words = setup.wrapper.iter().map(String::as_str).chain([binary, "serve", "--config"]);
    let mut command = Command::new(words.next().unwrap_or(binary));
    command.args(words).arg(config).envs(setup.variables.iter().cloned());
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor")).stderr(log);
    command.spawn().expect("the server starts")
}

/// A port that is currently free for both transports.
pub(crate) fn free_port(ip: IpAddr) -> SocketAddr {
    until("a free port", || {
        let udp = UdpSocket::bind((ip, 0)).ok()?;
        let addr = udp.local_addr().ok()?;
        let tcp: io::Result<TcpListener> = TcpListener::bind(addr);
        tcp.is_ok().then_some(addr)
    })
}
