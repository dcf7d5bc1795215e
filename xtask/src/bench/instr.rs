//! The number of user instructions per cached query: the difference between two runs under
//! callgrind, divided by the difference of their numbers of queries.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::options::Options;
use super::peer::Peer;
use super::process::{Launch, SERVER_CORE, Server};
use super::report::Counts;
use super::setup::Setup;
use super::workload::Workload;
use super::{ask, configuration, json, load, machine};

/// Numbers of queries of the shorter and of the longer run.
const COUNTS: [u64; 2] = [20_000, 60_000];
/// Maximum time for the start of a server. Under callgrind, it is about fifty times slower.
const START_WITHIN: Duration = Duration::from_secs(300);
const RUN_SECS: &str = "120";
/// Number of queries in flight. It is small, so that a slow server loses no queries.
const WINDOW: &str = "16";

const OUTPUT: &str = "callgrind.out.";

/// The peers whose instructions are counted by default.
pub(super) const PEERS: &[Peer] = &[Peer::Nsd, Peer::Unbound, Peer::Avocet];

/// Counts instructions for each peer. Prints and stores the figures.
pub(super) fn run(options: &Options) -> Result<(), String> {
    let counts = per_hit(&options.peers, options)?;
    let figures = counts.iter().map(|(peer, count)| (peer.name(), json::number(*count)));
    machine::keep("instr", &options.peers, json::object(figures)).map(drop)
}

/// Counts and prints the instructions of each peer per cached query. Omits servers that cannot be
/// counted, except Avocet.
pub(super) fn per_hit(peers: &[Peer], options: &Options) -> Result<Counts, String> {
    let setup = Setup::prepare(peers, options)?;
    let mut counts = Counts::new();
    for peer in peers.iter().copied() {
        match per_query(&setup, peer) {
            Ok(count) => {
                println!("{:<10} {count:>8.0} user instructions per cached query", peer.name());
                counts.push((peer, count));
            }
            Err(error) if peer == Peer::Avocet => return Err(format!("avocet: {error}")),
            Err(error) => eprintln!("{}: not counted: {error}", peer.name()),
        }
    }
    Ok(counts)
}

fn per_query(setup: &Setup, peer: Peer) -> Result<f64, String> {
    let [(few, shorter), (many, longer)] =
        [count(setup, peer, COUNTS[0])?, count(setup, peer, COUNTS[1])?];
    Ok((longer as f64 - shorter as f64) / (many as f64 - few as f64))
}

/// Returns the number of responses of a run, and the number of instructions of the server from its
/// start to its end.
fn count(setup: &Setup, peer: Peer, queries: u64) -> Result<(u64, u64), String> {
    remove_outputs(&setup.directory);
    let out = format!("--callgrind-out-file={}", setup.file(&format!("{OUTPUT}%p")).display());
    let mut command =
        ["valgrind", "--tool=callgrind", "--trace-children=yes", &out].map(str::to_owned).to_vec();
    command.extend(configuration::prepare(setup, peer, Workload::Hot)?);
    let log = setup.file("callgrind.log");
    let launch = Launch { command: &command, core: SERVER_CORE, log: &log, within: START_WITHIN };
    let server = Server::start(&launch, || ask::is_ready(setup.target(Workload::Hot)))?;
    let ask = |count: u64| {
        let options = ["--count", &count.to_string(), "--window", WINDOW, "--secs", RUN_SECS];
        let load = load::blast(setup, &setup.material.hot, &options)?;
        Workload::Hot.judge(&load, None).map(|()| load.answered)
    };
    ask(super::material::HOT_NAMES.into())?;
    let answered = ask(queries)?;
    drop(server);
    Ok((answered, total_instructions(&setup.directory)?))
}

fn outputs(directory: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_output = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(OUTPUT);
    entries.filter(is_output).map(|entry| entry.path())
}

fn remove_outputs(directory: &Path) {
    for path in outputs(directory) {
        // If removal fails, the file is overwritten.
        let _ = fs::remove_file(path);
    }
}

/// Returns the number of instructions of all processes that callgrind observed.
fn total_instructions(directory: &Path) -> Result<u64, String> {
    let mut total = 0;
    for path in outputs(directory) {
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        total += text.lines().filter_map(totals).sum::<u64>();
    }
    if total == 0 { Err("callgrind left no totals".to_owned()) } else { Ok(total) }
}

fn totals(line: &str) -> Option<u64> {
    line.strip_prefix("totals:")?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_read_from_callgrinds_output() {
        assert_eq!(totals("totals: 123456"), Some(123_456));
        assert_eq!(totals("summary: 5"), None);
    }
}
