//! A server under test: its files, its process, its log, and queries to it.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The longest wait for something that must happen; only failing tests reach it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The interval of a client's retries.
const RESEND: Duration = Duration::from_secs(1);

/// The interval of attempts that another test may obstruct.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

const BINARY: &str = env!("CARGO_BIN_EXE_avocet");
/// Shortest timeout of the upstream. On a busy machine, an upstream of a test takes longer than the
/// default, so that it would be asked again.
const TIMEOUT_MS: u32 = 500;

/// A directory with a configuration, and the ports in it.
pub(crate) struct Site {
    pub(crate) directory: PathBuf,
    pub(crate) dns: SocketAddr,
    pub(crate) http: SocketAddr,
}

/// A running server.
pub(crate) struct Server {
    child: Child,
    log: Receiver<String>,
    seen: Vec<String>,
}

impl Site {
    /// Creates an empty directory and chooses free ports.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory =
            std::env::temp_dir().join(format!("avocet-operation-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        Self { directory, dns: free_address(), http: free_address() }
    }

    /// Writes the configuration: the part common to all tests, `server` in its table, and `rest` at
    /// the end.
    pub(crate) fn configure(&self, upstream: SocketAddr, server: &str, rest: &str) {
        let text = format!(
            "[server]\nlisten = [\"{}\"]\nhttp = \"{}\"\n{server}\n\
             [[forward]]\nzone = \".\"\nupstreams = [\"udp://{upstream}\"]\n\
             timeout-min-ms = {TIMEOUT_MS}\n[data]\ndirectory = \"{}\"\n{rest}\n",
            self.dns,
            self.http,
            self.data().display()
        );
        self.write(&text);
    }

    /// Replaces the configuration by rename, as editors do. The server leaves the ports that the
    /// system chooses to the servers of other tests.
    pub(crate) fn write(&self, text: &str) {
        self.write_as_it_is(&apart_from_ephemeral_ports(text));
    }

    /// Replaces the configuration by exactly this text.
    pub(crate) fn write_as_it_is(&self, text: &str) {
        let beside = self.directory.join("avocet.toml.new");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, self.file()).unwrap();
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.join("avocet.toml")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub(crate) fn snapshot(&self) -> PathBuf {
        self.data().join("cache.snapshot")
    }

    /// The command `avocet serve` for this site.
    pub(crate) fn serve(&self) -> Command {
        let mut command = Command::new(BINARY);
        command.arg("serve").arg("--config").arg(self.file());
        command
    }

    /// Starts a server and waits until it answers.
    pub(crate) fn start(&self) -> Server {
        Server::start(self.serve())
    }

    /// Runs `avocet` with arguments and this configuration to completion.
    pub(crate) fn avocet(&self, arguments: &[&str]) -> Output {
        Command::new(BINARY).args(arguments).arg("--config").arg(self.file()).output().unwrap()
    }

    /// Runs `avocet`, which must succeed, and returns its output.
    pub(crate) fn avocet_text(&self, arguments: &[&str]) -> String {
        let output = self.avocet(arguments);
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Connects to the control socket.
    pub(crate) fn control(&self) -> UnixStream {
        let stream = UnixStream::connect(self.data().join("control.sock")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends octets to the control socket and returns the lines of the reply.
    pub(crate) fn control_lines(&self, request: &[u8]) -> Vec<serde_json::Value> {
        let mut stream = self.control();
        stream.write_all(request).unwrap();
        BufReader::new(stream)
            .lines()
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect()
    }

    /// Sends an HTTP request, the only one of its connection, and returns status and body.
    pub(crate) fn http(&self, request: &str) -> (u16, String) {
        let request = request.replacen("\r\n", "\r\nConnection: close\r\n", 1);
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let status = response.split(' ').nth(1).unwrap().parse().unwrap();
        let body = response.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    }

    pub(crate) fn http_get(&self, path: &str) -> (u16, String) {
        self.http(&format!("GET {path} HTTP/1.1\r\nHost: avocet\r\n\r\n"))
    }

    /// The value of a metric, given with its labels.
    pub(crate) fn metric(&self, sample: &str) -> f64 {
        let (status, text) = self.http_get("/metrics");
        assert_eq!(status, 200);
        let line = text
            .lines()
            .find(|line| line.strip_prefix(sample).is_some_and(|rest| rest.starts_with(' ')));
        let line = line.unwrap_or_else(|| panic!("no {sample} in:\n{text}"));
        line[sample.len() + 1..].parse().unwrap()
    }

    /// Queries an A record over UDP; returns address and TTL of the first answer record.
    pub(crate) fn ask(&self, name: &str) -> (Vec<u8>, u32) {
        ask(self.dns, 7, name)
    }

    /// Queries an A record; returns the flags with the RCODE, and the number of answer records.
    pub(crate) fn ask_any(&self, name: &str) -> (u16, u16) {
        let socket = udp_client();
        socket.send_to(&query(7, name), self.dns).unwrap();
        let mut reply = [0; 4096];
        socket.recv(&mut reply).unwrap();
        (u16::from_be_bytes([reply[2], reply[3]]), u16::from_be_bytes([reply[6], reply[7]]))
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Server {
    /// Starts a command that becomes a server, and waits until it answers. Its port may be in use
    /// for a moment, because servers of other tests draw random ports for upstream sockets.
    pub(crate) fn start(mut command: Command) -> Self {
        let began = Instant::now();
        loop {
            let mut server = Self::spawn_one(&mut command);
            if server.find_line("serving").is_some() {
                return server;
            }
            let log = server.seen.join("\n");
            assert!(
                log.contains("another server is using it") && began.elapsed() < PATIENCE,
                "it does not serve:\n{log}"
            );
            thread::park_timeout(LOOK_AGAIN);
        }
    }

    /// Starts a command.
    pub(crate) fn spawn(mut command: Command) -> Self {
        Self::spawn_one(&mut command)
    }

    fn spawn_one(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let (sender, log) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, log, seen: Vec::new() }
    }

    /// The log lines so far.
    pub(crate) fn seen(&self) -> &[String] {
        &self.seen
    }

    /// Returns the line with `text` among those that were read, such as the lines before it served.
    #[track_caller]
    pub(crate) fn seen_line(&self, text: &str) -> String {
        let line = self.seen.iter().find(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("no line with {text:?} in:\n{}", self.seen.join("\n")))
            .clone()
    }

    /// Reads the log lines that are there.
    pub(crate) fn read_lines(&mut self) {
        self.seen.extend(self.log.try_iter());
    }

    /// Waits for a log line that contains `text`.
    pub(crate) fn wait_for_line(&mut self, text: &str) -> String {
        let line = self.find_line(text);
        line.unwrap_or_else(|| panic!("no line with {text:?} in:\n{}", self.seen.join("\n")))
    }

    fn find_line(&mut self, text: &str) -> Option<String> {
        while let Ok(line) = self.log.recv_timeout(PATIENCE) {
            self.seen.push(line.clone());
            if line.contains(text) {
                return Some(line);
            }
        }
        None
    }

    /// The peak of the process's resident memory, in octets.
    pub(crate) fn most_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for the end; returns the exit code and all log lines.
    pub(crate) fn wait(mut self) -> (Option<i32>, Vec<String>) {
        while let Ok(line) = self.log.recv_timeout(PATIENCE) {
            self.seen.push(line);
        }
        let status = self.child.wait().unwrap();
        (status.code(), std::mem::take(&mut self.seen))
    }

    /// Ends the server with a signal.
    pub(crate) fn stop(self) -> Vec<String> {
        self.signal("TERM");
        let (code, log) = self.wait();
        assert_eq!(code, Some(0), "{}", log.join("\n"));
        log
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Queries an A record over UDP, from a new port.
pub(crate) fn ask(dns: SocketAddr, id: u16, name: &str) -> (Vec<u8>, u32) {
    let socket = udp_client();
    socket.send_to(&query(id, name), dns).unwrap();
    let mut reply = [0; 4096];
    let len = socket.recv(&mut reply).unwrap();
    assert_eq!(reply[..2], id.to_be_bytes());
    first_record(&reply[..len], name)
}

/// Queries with retries, because a busy machine may lose datagrams.
pub(crate) fn ask_patiently(socket: &UdpSocket, dns: SocketAddr, name: &str) -> Vec<u8> {
    static ID: AtomicU32 = AtomicU32::new(0);
    let id = ID.fetch_add(1, Ordering::Relaxed) as u16;
    socket.set_read_timeout(Some(RESEND)).unwrap();
    let (began, mut reply) = (Instant::now(), [0; 4096]);
    while began.elapsed() < PATIENCE {
        socket.send_to(&query(id, name), dns).unwrap();
        // A late datagram is the reply to an earlier query.
        while let Ok(len) = socket.recv(&mut reply) {
            if reply[..2] == id.to_be_bytes() {
                return first_record(&reply[..len], name).0;
            }
        }
    }
    panic!("no answer for {name}");
}

/// The same over TCP, on a new connection.
pub(crate) fn ask_over_tcp(dns: SocketAddr, name: &str) -> (Vec<u8>, u32) {
    let mut stream = TcpStream::connect(dns).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let query = query(7, name);
    let mut framed = (query.len() as u16).to_be_bytes().to_vec();
    framed.extend(query);
    stream.write_all(&framed).unwrap();
    let mut len = [0; 2];
    stream.read_exact(&mut len).unwrap();
    let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut reply).unwrap();
    first_record(&reply, name)
}

pub(crate) fn udp_client() -> UdpSocket {
    let socket = udp_socket();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A query for an A record.
pub(crate) fn query(id: u16, name: &str) -> Vec<u8> {
    let mut message = id.to_be_bytes().to_vec();
    message.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    for label in name.trim_end_matches('.').split('.') {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.extend([0, 0, 1, 0, 1]);
    message
}

/// Data and TTL of the first record, which follows the question.
pub(crate) fn first_record(reply: &[u8], name: &str) -> (Vec<u8>, u32) {
    let answers = u16::from_be_bytes([reply[6], reply[7]]);
    assert!(answers > 0, "no answer for {name}: {reply:?}");
    let at = query(0, name).len() + 6;
    let ttl = u32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
    let len = usize::from(u16::from_be_bytes([reply[at + 4], reply[at + 5]]));
    (reply[at + 6..at + 6 + len].to_vec(), ttl)
}

/// Adds the ports that the system chooses by itself to those that queries to servers never leave
/// from, unless the configuration has its own choice of ports.
fn apart_from_ephemeral_ports(text: &str) -> String {
    const TABLE: &str = "[resolver]\n";
    const KEY: &str = "avoid-ports = [\"32768-60999\"]\n";
    if text.contains("avoid-ports") || text.contains("resolver.") {
        return text.to_owned();
    }
    match text.contains(TABLE) {
        true => text.replacen(TABLE, &format!("{TABLE}{KEY}"), 1),
        false => format!("{text}\n{TABLE}{KEY}"),
    }
}

/// The addresses of [`free_address`]. Their servers may start later, and the system does not know.
static GIVEN: Mutex<BTreeSet<SocketAddr>> = Mutex::new(BTreeSet::new());

/// An address with a free port for UDP and TCP. The system chooses it, and no two calls return the
/// same.
pub(crate) fn free_address() -> SocketAddr {
    loop {
        let udp = udp_socket();
        let addr = udp.local_addr().unwrap();
        if TcpListener::bind(addr).is_ok() && GIVEN.lock().unwrap().insert(addr) {
            return addr;
        }
    }
}

/// A UDP socket at a port that the system chooses, which is not that of a server.
pub(crate) fn udp_socket() -> UdpSocket {
    ungiven(|| UdpSocket::bind("127.0.0.1:0").unwrap(), |socket| socket.local_addr().unwrap())
}

/// A TCP listener at a port that the system chooses, which is not that of a server.
pub(crate) fn tcp_listener() -> TcpListener {
    ungiven(|| TcpListener::bind("127.0.0.1:0").unwrap(), |socket| socket.local_addr().unwrap())
}

/// A socket whose address was not returned by [`free_address`].
fn ungiven<T>(bind: impl Fn() -> T, address: impl Fn(&T) -> SocketAddr) -> T {
    // The sockets with other addresses stay open until the end, so that each attempt gets another.
    let mut others = Vec::new();
    loop {
        let socket = bind();
        if !GIVEN.lock().unwrap().contains(&address(&socket)) {
            return socket;
        }
        others.push(socket);
    }
}

/// Listens at an address that was free, and may be in use for a moment by a client of another test.
pub(crate) fn listen_at(addr: SocketAddr) -> TcpListener {
    let began = Instant::now();
    loop {
        match TcpListener::bind(addr) {
            Ok(listener) => return listener,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{addr}: {error}"),
        }
        thread::park_timeout(LOOK_AGAIN);
    }
}

/// Whether the file exists.
pub(crate) fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Reports whether a program is installed. Without the program, a test ends early, but fails in CI.
pub(crate) fn is_here(program: &str) -> bool {
    let is_here = Command::new(program).arg("--version").output().is_ok();
    assert!(is_here || std::env::var_os("CI").is_none(), "{program} is missing");
    is_here
}
