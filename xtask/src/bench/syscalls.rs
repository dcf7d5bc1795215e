//! System calls per cache miss, counted by strace over 5,000 unique names.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::options::Options;
use super::peer::Peer;
use super::process::{Launch, SERVER_CORE, START_WITHIN, Server, signal};
use super::report::Counts;
use super::setup::Setup;
use super::workload::Workload;
use super::{ask, configuration, json, load, machine};

const COUNT: &str = "5000";
/// Number of queries for other names that precede the count.
const WARM: &str = "100000";
const WINDOW: &str = "64";
const RUN_SECS: &str = "60";
/// Number of calls per query below which a call is not shown.
const SHOWN: f64 = 0.05;

/// The peers whose system calls are counted by default.
pub(super) const PEERS: &[Peer] =
    &[Peer::Bare, Peer::BarePool, Peer::Dnsdist, Peer::Unbound, Peer::Avocet];

/// Counts the system calls of each peer. Prints and stores the figures.
pub(super) fn run(options: &Options) -> Result<(), String> {
    let figures = of_each(&options.peers, options)?;
    let figures = figures.iter().map(|(peer, calls)| {
        let calls = calls.iter().map(|(name, count)| (name.as_str(), json::number(*count)));
        (peer.name(), json::object(calls))
    });
    machine::keep("syscalls", &options.peers, json::object(figures)).map(drop)
}

/// Counts and prints the system calls of each peer per query that no cache answers.
pub(super) fn per_miss(peers: &[Peer], options: &Options) -> Result<Counts, String> {
    let sum = |calls: &Calls| calls.iter().map(|(_, count)| count).sum::<f64>();
    Ok(of_each(peers, options)?.iter().map(|(peer, calls)| (*peer, sum(calls))).collect())
}

/// The number of system calls per query that no cache answers, by the name of the call.
type Calls = Vec<(String, f64)>;

/// Counts the calls of each peer. Omits servers that cannot be counted, except Avocet.
fn of_each(peers: &[Peer], options: &Options) -> Result<Vec<(Peer, Calls)>, String> {
    let setup = Setup::prepare(peers, options)?;
    let mut figures = Vec::new();
    for peer in peers.iter().copied() {
        let calls = match traced(&setup, peer) {
            Ok(calls) => calls,
            Err(error) if peer == Peer::Avocet => return Err(format!("avocet: {error}")),
            Err(error) => {
                eprintln!("{}: not counted: {error}", peer.name());
                continue;
            }
        };
        let total: f64 = calls.iter().map(|(_, count)| count).sum();
        let shown = calls.iter().filter(|(_, count)| *count >= SHOWN);
        let shown: Vec<_> = shown.map(|(name, count)| format!("{name} {count:.2}")).collect();
        println!("{:<10} {total:6.2} system calls per miss: {}", peer.name(), shown.join(", "));
        figures.push((peer, calls));
    }
    Ok(figures)
}

/// Returns the calls of a server by name, each divided by the number of responses.
fn traced(setup: &Setup, peer: Peer) -> Result<Calls, String> {
    let log = setup.file(&format!("{}.log", peer.name()));
    let command = configuration::prepare(setup, peer, Workload::Miss)?;
    let launch = Launch { command: &command, core: SERVER_CORE, log: &log, within: START_WITHIN };
    let server = Server::start(&launch, || ask::is_ready(setup.target(Workload::Miss)))?;
    // Resources that are opened once, such as a pool of sockets, must be opened before the count
    // begins.
    load::blast(
        setup,
        &setup.material.zipf,
        &["--count", WARM, "--window", WINDOW, "--secs", RUN_SECS],
    )?;
    let counts = setup.file("strace.out");
    let tracer = Tracer::attach(&server, &counts)?;
    let options = ["--count", COUNT, "--window", WINDOW, "--secs", RUN_SECS];
    let load = load::blast(setup, &setup.material.miss, &options)?;
    drop(tracer);
    Workload::Miss.judge(&load, None)?;
    let text =
        fs::read_to_string(&counts).map_err(|error| format!("{}: {error}", counts.display()))?;
    Ok(calls(&text)
        .map(|(name, count)| (name.to_owned(), count as f64 / load.answered as f64))
        .collect())
}

/// A strace process that traces all threads of a server.
struct Tracer {
    child: Child,
}

impl Tracer {
    /// Starts strace. Returns after strace has attached to every process of the server.
    fn attach(server: &Server, counts: &Path) -> Result<Self, String> {
        let processes = server.tree();
        let mut command = Command::new("strace");
        command.args(["-f", "-c", "-o"]).arg(counts).stderr(Stdio::piped());
        for process in &processes {
            command.args(["-p", &process.to_string()]);
        }
        let mut child = command.spawn().map_err(|error| format!("strace: {error}"))?;
        let mut lines = BufReader::new(child.stderr.take().ok_or("strace has no stderr")?)
            .lines()
            .map_while(Result::ok);
        let attached =
            lines.by_ref().filter(|line| line.contains("attached")).take(processes.len()).count();
        // A thread reads further output, so that strace never blocks on the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let tracer = Self { child };
        if attached == processes.len() {
            Ok(tracer)
        } else {
            Err("strace could not attach".to_owned())
        }
    }
}

/// Detaches from the server; strace then writes its counts and ends.
impl Drop for Tracer {
    fn drop(&mut self) {
        signal("INT", &[self.child.id()]);
        // If waiting fails, the counts are missing, which is reported.
        let _ = self.child.wait();
    }
}

/// Returns the name and the count in each row of strace's table.
fn calls(table: &str) -> impl Iterator<Item = (&str, u64)> {
    table.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let name = words.last().copied().filter(|name| *name != "total")?;
        Some((name, words.get(3)?.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_strace_is_read() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- \
             ----------- --------- --------- ----------------\n 60.00    0.06           3     \
             10000         2 sendto\n 40.00    0.04           3      5000           \
             epoll_wait\n------ ----------- ----------- --------- --------- \
             ----------------\n100.00    0.10           3     15000         2 total\n";
        assert_eq!(calls(table).collect::<Vec<_>>(), [("sendto", 10_000), ("epoll_wait", 5_000)]);
    }
}
