//! The number of user instructions per query: the difference between two runs under callgrind,
//! divided by the difference of their numbers of queries.

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
const PEERS: &[Peer] = &[Peer::Nsd, Peer::Unbound, Peer::Avocet];

/// The workloads whose queries are counted by default.
const WORKLOADS: &[Workload] = &[Workload::Hot];

/// Counts instructions for each workload and peer. Prints and stores the figures.
///
/// # Errors
///
/// The queries of a workload cannot be counted, or Avocet cannot.
pub(super) fn run(words: &[&str]) -> Result<(), String> {
    let defaults = Options::parse_for(PEERS, &[])?;
    let options = Options { workloads: WORKLOADS.to_vec(), ..defaults }.changed_by(words)?;
    let is_countable = |workload: &Workload| matches!(workload, Workload::Hot | Workload::Miss);
    if let Some(other) = options.workloads.iter().find(|workload| !is_countable(workload)) {
        return Err(format!("only `hot` and `miss` can be counted, not `{}`", other.name()));
    }
    let mut figures = Vec::new();
    for workload in &options.workloads {
        let counts = per_query(*workload, &options.peers, &options)?;
        let counts = counts.iter().map(|(peer, count)| (peer.name(), json::number(*count)));
        figures.push((workload.name(), json::object(counts)));
    }
    machine::keep("instr", &options.peers, json::object(figures)).map(drop)
}

/// Counts and prints the instructions of each peer per cached query. Omits servers that cannot be
/// counted, except Avocet.
pub(super) fn per_hit(peers: &[Peer], options: &Options) -> Result<Counts, String> {
    per_query(Workload::Hot, peers, options)
}

fn per_query(workload: Workload, peers: &[Peer], options: &Options) -> Result<Counts, String> {
    let setup = Setup::prepare(peers, options)?;
    let query = if workload == Workload::Miss { "forwarded query" } else { "cached query" };
    let mut counts = Counts::new();
    for peer in peers.iter().copied().filter(|peer| peer.runs(workload)) {
        match of_peer(&setup, peer, workload) {
            Ok(count) => {
                println!("{:<10} {count:>8.0} user instructions per {query}", peer.name());
                counts.push((peer, count));
            }
            Err(error) if peer == Peer::Avocet => return Err(format!("avocet: {error}")),
            Err(error) => eprintln!("{}: not counted: {error}", peer.name()),
        }
    }
    Ok(counts)
}

fn of_peer(setup: &Setup, peer: Peer, workload: Workload) -> Result<f64, String> {
    let [(few, shorter), (many, longer)] =
        [count(setup, peer, workload, COUNTS[0])?, count(setup, peer, workload, COUNTS[1])?];
    Ok((longer as f64 - shorter as f64) / (many as f64 - few as f64))
}

/// Returns the number of responses of a run, and the number of instructions of the server from its
/// start to its end. The names of a first run are cached in each run, so that they do not count in
/// the difference of two.
fn count(
    setup: &Setup,
    peer: Peer,
    workload: Workload,
    queries: u64,
) -> Result<(u64, u64), String> {
    remove_outputs(&setup.directory);
    let out = format!("--callgrind-out-file={}", setup.file(&format!("{OUTPUT}%p")).display());
    let mut command =
        ["valgrind", "--tool=callgrind", "--trace-children=yes", &out].map(str::to_owned).to_vec();
    command.extend(configuration::prepare(setup, peer, workload)?);
    let log = setup.file("callgrind.log");
    let launch = Launch { command: &command, core: SERVER_CORE, log: &log, within: START_WITHIN };
    let server = Server::start(&launch, || ask::is_ready(setup.target(workload)))?;
    let ask = |count: u64| {
        let options = ["--count", &count.to_string(), "--window", WINDOW, "--secs", RUN_SECS];
        let load = load::blast(setup, setup.queries(workload), &options)?;
        workload.judge(&load, None).map(|()| load.answered)
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
