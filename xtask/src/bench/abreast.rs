//! Side-by-side comparison: all servers run at the same time and take turns of a fraction of a
//! second. Other work on the machine therefore slows all of them to the same degree.
//!
//! On a shared machine, two runs of one second each differ by up to a third for reasons outside the
//! servers. With turns this short, half of the ratios lie within 5 % of their median.

use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::load::{Load, Pace, Questions};
use super::noise::Watch;
use super::options::Options;
use super::peer::Peer;
use super::process::{Launch, SERVER_CORE, START_WITHIN, Server};
use super::report::{Report, Sample};
use super::setup::Setup;
use super::workload::Workload;
use super::{ask, blocklist, configuration, goals, machine, material, packages, table};

/// The peers that are measured by default.
pub(super) const PEERS: &[Peer] =
    &[Peer::Bare, Peer::Nsd, Peer::Unbound, Peer::Logged, Peer::Avocet];
/// The workloads that can be split into turns. In them, the cost of a query does not depend on
/// earlier queries.
const WORKLOADS: &[Workload] = &[
    Workload::Hot,
    Workload::HotEdns,
    Workload::HitSlow,
    Workload::HitSteady,
    Workload::Tcp,
    Workload::Miss,
    Workload::Unlisted,
    Workload::Blocked,
];

/// Number of turns of each server per round, and number of queries per turn.
const TURNS: usize = 4;
const TURN_QUERIES: u32 = 50_000;
/// Duration of a turn at a fixed rate in seconds.
const TURN_SECS: u64 = 3;

/// Measures each wanted workload while all its servers run. Workloads with a block list share their
/// servers. Prints the tables and stores the samples.
///
/// # Errors
/// A server cannot be started or answers wrongly.
pub(super) fn run(kind: &str, options: &Options) -> Result<(), String> {
    let workloads: Vec<_> =
        WORKLOADS.iter().copied().filter(|one| options.workloads.contains(one)).collect();
    let is_wanted = |peer: &Peer| workloads.iter().any(|workload| options.wants(*peer, *workload));
    let wanted: Vec<_> = options.peers.iter().copied().filter(is_wanted).collect();
    let (peers, left_out) = packages::check(&wanted, options)?;
    if peers.is_empty() {
        return Err("nothing to measure".to_owned());
    }
    let mut setup = Setup::prepare(&peers, options)?;
    let mut report = Report { left_out, ..Report::default() };
    // The cost of a blocked name is compared with the cost of another name at the same server.
    for together in workloads.chunk_by(|one, other| one.has_list() && other.has_list()) {
        let pairs =
            together.iter().flat_map(|workload| peers.iter().map(move |peer| (*peer, *workload)));
        let pairs: Vec<_> =
            pairs.filter(|(peer, workload)| options.wants(*peer, *workload)).collect();
        let row = Row::start(&mut setup, &pairs)?;
        for round in 1..=*options.rounds.start() {
            report.samples.extend(row.round(&setup, options, round)?);
        }
    }
    println!("{}", table::details(&report).join("\n"));
    println!("{}", goals::table(&report).text());
    machine::keep(kind, &peers, report.json()).map(drop)
}

/// Servers that run at the same time.
struct Row {
    servers: Vec<Asked>,
    /// The file with the queries of a turn.
    file: PathBuf,
}

/// A server and the workload of its queries.
struct Asked {
    peer: Peer,
    workload: Workload,
    server: Server,
    target: SocketAddr,
}

impl Row {
    fn start(setup: &mut Setup, pairs: &[(Peer, Workload)]) -> Result<Self, String> {
        let mut servers = Vec::new();
        for (peer, workload) in pairs.iter().copied() {
            setup.renew_ports()?;
            let command = configuration::prepare(setup, peer, workload)?;
            let log = setup.file(&format!("{}.log", peer.name()));
            let launch =
                Launch { command: &command, core: SERVER_CORE, log: &log, within: START_WITHIN };
            let target = setup.target(workload);
            let refusal = peer.refusal().filter(|_| workload.has_list());
            let server = Server::start(&launch, || {
                ask::is_ready(target)
                    && refusal.is_none_or(|refusal| ask::is_blocking(target, refusal))
            })?;
            if peer.knows_zone() {
                ask::verify(target, peer, workload)?;
            }
            servers.push(Asked { peer, workload, server, target });
        }
        Ok(Self { servers, file: setup.file("turn.txt") })
    }

    /// Gives every server its turns of a round, in a different order each time. The first round
    /// begins with a turn that fills the caches.
    fn round(&self, setup: &Setup, options: &Options, round: usize) -> Result<Vec<Sample>, String> {
        if round == 1 {
            self.turns(setup, options, 0)?;
        }
        let watch = Watch::start();
        let before: Vec<_> = self.servers.iter().map(|asked| asked.server.cpu()).collect();
        let mut loads = vec![Load::default(); self.servers.len()];
        for turn in 0..TURNS {
            let answered = self.turns(setup, options, (round - 1) * TURNS + turn + 1)?;
            for (sum, load) in loads.iter_mut().zip(answered) {
                *sum = added(std::mem::take(sum), load);
            }
        }
        let noise = watch.and_then(|watch| watch.end());
        let measured = self.servers.iter().zip(before).zip(loads);
        let samples = measured.map(|((asked, before), load)| {
            let Asked { peer, workload, server, .. } = asked;
            let after = server.cpu();
            let micros = |secs: f64| secs * 1e6 / load.answered as f64;
            let user_us = micros(after.user_secs - before.user_secs);
            let cpu_us = micros(after.since(&before));
            let ready_secs = server.ready_after.as_secs_f64();
            let (peer, workload, start_bytes) = (*peer, *workload, server.memory_bytes() as f64);
            Sample {
                peer,
                workload,
                round,
                cpu_us,
                user_us,
                ready_secs,
                start_bytes,
                growth: None,
                noise,
                load,
            }
        });
        Ok(samples.inspect(|sample| eprintln!("  {}", sample.line())).collect())
    }

    /// Runs one turn of each server with the same queries. Returns the results in the order of the
    /// servers.
    fn turns(&self, setup: &Setup, options: &Options, turn: usize) -> Result<Vec<Load>, String> {
        let mut loads = vec![Load::default(); self.servers.len()];
        for place in rotated(self.servers.len(), turn) {
            let Asked { peer, workload, target, .. } = &self.servers[place];
            write_queries(&self.file, *workload, turn)
                .map_err(|error| format!("{}: {error}", self.file.display()))?;
            let pace = match workload.rate() {
                Some(per_sec) => Pace::Rate { per_sec, secs: TURN_SECS },
                None => Pace::Lines { lines: TURN_QUERIES.into() },
            };
            let questions = Questions {
                server: *target,
                file: &self.file,
                transport: workload.transport(),
                pace,
            };
            let load = options.generator.ask(setup, &questions)?;
            workload
                .judge(&load, peer.refusal())
                .map_err(|error| format!("{}: {error}", peer.name()))?;
            loads[place] = load;
        }
        Ok(loads)
    }
}

/// Returns the indexes of all places. Each turn starts with a different one.
fn rotated(places: usize, turn: usize) -> impl Iterator<Item = usize> {
    let range: Range<usize> = 0..places;
    range.map(move |place| (place + turn) % places)
}

/// Writes the queries of a turn: repeated hot names, listed names, or names that no earlier turn
/// had.
fn write_queries(file: &Path, workload: Workload, turn: usize) -> std::io::Result<()> {
    let first = TURN_QUERIES * u32::try_from(turn).unwrap_or(u32::MAX);
    material::write_lines(
        file,
        (0..TURN_QUERIES).map(|number| match workload {
            Workload::Miss => material::unique_query(first + number),
            Workload::Blocked => {
                format!(
                    "{} A",
                    blocklist::name(
                        number % material::HOT_NAMES * (blocklist::NAMES / material::HOT_NAMES)
                    )
                )
            }
            _ => format!("{} A", material::name(number % material::HOT_NAMES)),
        }),
    )
}

/// Adds the counts of two runs. The rate is that of the second run, because turns are too short for
/// a combined rate.
fn added(sum: Load, load: Load) -> Load {
    let mut rcodes = sum.rcodes;
    for (name, answers) in load.rcodes {
        match rcodes.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += answers,
            None => rcodes.push((name, answers)),
        }
    }
    let (answered, lost, empty) =
        (sum.answered + load.answered, sum.lost + load.lost, sum.empty + load.empty);
    Load { answered, lost, empty, rcodes, per_sec: load.per_sec, ..Load::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_one_turn_and_another_is_first_each_time() {
        let order = |turn| rotated(3, turn).collect::<Vec<_>>();
        assert_eq!([order(0), order(1), order(2)], [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    }

    #[test]
    fn turns_of_a_round_add_up() {
        let load = |answered, rcode: &str| Load {
            answered,
            rcodes: vec![(rcode.to_owned(), answered)],
            ..Load::default()
        };
        let sum = added(added(load(2, "NOERROR"), load(3, "NXDOMAIN")), load(5, "NOERROR"));
        assert_eq!(
            (sum.answered, sum.with_rcode("NOERROR"), sum.with_rcode("NXDOMAIN")),
            (10, 7, 3)
        );
    }
}
