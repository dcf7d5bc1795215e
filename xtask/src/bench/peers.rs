//! CPU time per query beside other servers: the same load for each in turn, in interleaved rounds.

use super::ask::{self, Transport};
use super::options::Options;
use super::peer::Peer;
use super::process::{SERVER_CORE, Server};
use super::report::{Report, Sample};
use super::setup::Setup;
use super::workload::{MEMORY_NAMES, Workload};
use super::{load, machine};

/// The most seconds that caching the names of the memory workload may take.
const MEMORY_SECS: &str = "120";

/// Measures all wanted pairs, prints the table and keeps the samples.
pub(super) fn run(options: &Options) -> Result<(), String> {
    let peers = installed(options)?;
    let setup = Setup::prepare(&peers, options.build)?;
    let mut report = Report::default();
    for round in 0..options.rounds {
        eprintln!("round {} of {}", round + 1, options.rounds);
        // Each round starts with another peer, so that none always runs after the same one.
        for index in 0..peers.len() {
            let peer = peers[(index + round) % peers.len()];
            for session in sessions(peer, options, round) {
                report.samples.extend(measure(&setup, peer, &session, options)?);
            }
        }
    }
    println!("{}", report.table());
    machine::keep("peers", &peers, report.json())
}

/// The peers to measure; one that is named but missing is an error, else it is left out, aloud.
fn installed(options: &Options) -> Result<Vec<Peer>, String> {
    let is_wanted = |peer: &Peer| options.workloads.iter().any(|workload| options.wants(*peer, *workload));
    let mut found = options.peers_or(Peer::ALL);
    found.retain(is_wanted);
    for peer in [Peer::Nsd, Peer::Unbound, Peer::Dnsdist] {
        if found.contains(&peer) && peer.version().is_none() {
            let message = format!("{} is not installed", peer.name());
            if options.peers.is_some() {
                return Err(message);
            }
            eprintln!("{message}: left out");
            found.retain(|other| *other != peer);
        }
    }
    if found.is_empty() { Err("nothing to measure".to_owned()) } else { Ok(found) }
}

/// The workloads of a peer by the starts of the server they need: warm ones share one.
fn sessions(peer: Peer, options: &Options, round: usize) -> Vec<Vec<Workload>> {
    let mut found: Vec<Vec<Workload>> = Vec::new();
    for workload in options.workloads.iter().copied().filter(|workload| options.wants(peer, *workload)) {
        // Memory does not drift: once is enough.
        if workload == Workload::Memory && round > 0 {
            continue;
        }
        match found.last_mut().and_then(|session| Some((*session.first()?, session))) {
            Some((first, session)) if first.is_warm() && workload.is_warm() && peer.shares_start(first, workload) => {
                session.push(workload);
            }
            _ => found.push(vec![workload]),
        }
    }
    found
}

fn measure(setup: &Setup, peer: Peer, session: &[Workload], options: &Options) -> Result<Vec<Sample>, String> {
    let Some(first) = session.first() else {
        return Ok(Vec::new());
    };
    let log = setup.file(&format!("{}.log", peer.name()));
    let server = Server::start(&peer.prepare(setup, *first)?, SERVER_CORE, &log, setup.port)?;
    let mut samples = Vec::new();
    for workload in session {
        let sample = match workload {
            Workload::Memory => measure_memory(setup, &server, peer),
            _ => measure_time(setup, &server, (peer, *workload), options),
        };
        let sample = sample.map_err(|error| format!("{}/{}: {error}", peer.name(), workload.name()))?;
        eprintln!("  {}", sample.line());
        samples.push(sample);
    }
    Ok(samples)
}

/// Reads the CPU time of the server around a timed run; an error if its answers are not the zone's.
fn measure_time(
    setup: &Setup,
    server: &Server,
    (peer, workload): (Peer, Workload),
    options: &Options,
) -> Result<Sample, String> {
    if workload.is_warm() {
        workload.judge(&load::warm_up(setup, workload)?)?;
        if peer.knows_zone() {
            let transport = if workload == Workload::Tcp { Transport::Tcp } else { Transport::Udp };
            ask::verify(setup.port, transport)?;
        }
    }
    let before = server.cpu();
    let load = load::timed(setup, workload, options.generator, options.secs)?;
    let after = server.cpu();
    workload.judge(&load)?;
    if !workload.is_warm() {
        // The names that are verified are hot ones: a cold cache is left cold until the run is over.
        ask::verify(setup.port, Transport::Udp)?;
    }
    let micros = |secs: f64| secs * 1e6 / load.answered as f64;
    let user = after.user_secs - before.user_secs;
    let total = user + after.system_secs - before.system_secs;
    Ok(Sample { peer, workload, figure: micros(total), user: micros(user), load })
}

/// Reads the memory of the server before and after it has cached the names.
fn measure_memory(setup: &Setup, server: &Server, peer: Peer) -> Result<Sample, String> {
    let before = server.memory_bytes();
    let count = MEMORY_NAMES.to_string();
    let options = ["--count", &count, "--window", "64", "--secs", MEMORY_SECS];
    let load = load::blast(setup, setup.queries(Workload::Memory), &options)?;
    Workload::Memory.judge(&load)?;
    let grown = server.memory_bytes().saturating_sub(before);
    Ok(Sample { peer, workload: Workload::Memory, figure: grown as f64 / load.answered as f64, user: 0.0, load })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_workloads_share_a_start_and_cold_ones_do_not() {
        let options = Options::parse(&[]).unwrap();
        let (hot, edns, tcp) = (Workload::Hot, Workload::HotEdns, Workload::Tcp);
        let (miss, zipf, memory) = (Workload::Miss, Workload::Zipf, Workload::Memory);
        assert_eq!(sessions(Peer::Unbound, &options, 0), [vec![hot, edns, tcp], vec![miss], vec![zipf], vec![memory]]);
        assert_eq!(sessions(Peer::Unbound, &options, 1), [vec![hot, edns, tcp], vec![miss], vec![zipf]]);
        assert_eq!(sessions(Peer::Bare, &options, 0), [vec![hot, edns], vec![tcp], vec![miss]]);
        assert_eq!(sessions(Peer::Nsd, &options, 0), [vec![hot, edns, tcp]]);
    }
}
