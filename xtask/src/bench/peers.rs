//! CPU time per query compared with other servers. Each server gets the same load in turn, in
//! interleaved rounds.

use std::time::{Duration, Instant};

use super::ask::Transport;
use super::load::{Load, Pace, Questions};
use super::noise::Watch;
use super::options::Options;
use super::peer::Peer;
use super::plan::{self, Pace as Tempo, Step};
use super::process::{Launch, START_WITHIN, Server};
use super::report::{Growth, Report, Sample};
use super::setup::Setup;
use super::veth::Veth;
use super::workload::Workload;
use super::{
    ask, configuration, crowd, endurance, goals, load, machine, material, packages, readme,
    recursion, rounds, table,
};

/// Number of names that are queried again to see whether they are still cached.
const ASKED_AGAIN: u32 = 2_000;
/// Minimum share of the names that a cache must keep for an estimate of its memory per name.
const LEAST_KEPT: f64 = 0.1;

/// Measures all selected pairs, prints the tables and stores the samples.
pub(super) fn run(kind: &str, options: &Options) -> Result<(), String> {
    let report = measure(options)?;
    show(&report);
    machine::keep(kind, &measured(&report), report.json())?;
    judge(&report)
}

/// Prints the tables and the measurements that were omitted.
pub(super) fn show(report: &Report) {
    println!("{}", table::details(report).join("\n"));
    println!("{}", table::summary(report).text());
    let goals = goals::table(report);
    if !goals.is_empty() {
        println!("{}", goals.text());
    }
    for failure in &report.failures {
        println!(
            "left out: {}/{}: {}",
            failure.peer.name(),
            failure.workload.name(),
            failure.reason
        );
    }
}

/// Returns the peers with samples.
pub(super) fn measured(report: &Report) -> Vec<Peer> {
    let has_sample = |peer: &Peer| report.samples.iter().any(|sample| sample.peer == *peer);
    Peer::ALL.iter().copied().filter(has_sample).collect()
}

/// Checks that no measurement of Avocet was omitted.
///
/// # Errors
///
/// A measurement failed. The error names the first workload.
pub(super) fn judge(report: &Report) -> Result<(), String> {
    let ours = report.failures.iter().find(|failure| failure.peer == Peer::Avocet);
    ours.map_or(Ok(()), |failure| {
        Err(format!("avocet/{}: {}", failure.workload.name(), failure.reason))
    })
}

/// Takes all measurements step by step. A step that fails twice is omitted, and the other steps
/// continue.
pub(super) fn measure(options: &Options) -> Result<Report, String> {
    let is_wanted =
        |peer: &Peer| options.workloads.iter().any(|workload| options.wants(*peer, *workload));
    let wanted: Vec<_> = options.peers.iter().copied().filter(is_wanted).collect();
    if options.install {
        packages::install(&wanted)?;
    }
    let (peers, left_out) = packages::check(&wanted, options)?;
    if peers.is_empty() {
        return Err("nothing to measure".to_owned());
    }
    let mut bench = Bench {
        setup: Setup::prepare(&peers, options)?,
        report: Report { left_out, ..Report::default() },
        options,
    };
    // The time for building the binaries does not count.
    let started = Instant::now();
    bench.set_up_veth(&peers);
    for peer in peers.iter().copied() {
        bench.try_cold(peer);
    }
    bench.measure_rounds(&peers, started);
    Ok(bench.report)
}

struct Bench<'a> {
    setup: Setup,
    report: Report,
    options: &'a Options,
}

impl Bench<'_> {
    /// Measures round by round. The first rounds have all pairs of a peer and a workload. While
    /// there is time, later rounds have the pairs with an unclear ratio to Avocet.
    fn measure_rounds(&mut self, peers: &[Peer], started: Instant) {
        let options = self.options;
        let (least, most) = (*options.rounds.start(), *options.rounds.end());
        let limit = options.minutes.map(Duration::from_mins);
        let mut pace = Tempo::default();
        for round in 1..=most {
            let is_wanted =
                |peer, workload| rounds::wants(&self.report, options, round, (peer, workload));
            let mut steps = plan::steps(peers, options, round, is_wanted);
            let left = limit.map(|limit| limit.saturating_sub(started.elapsed()));
            let is_too_long =
                |steps: &[Step]| left.is_some_and(|left| pace.of(steps, options) > left);
            if round > least && is_too_long(&steps) {
                steps.retain(|step| readme::COLUMNS.contains(&step.peer));
            }
            let has_recursed = self.recurse(peers, round);
            if steps.is_empty() && has_recursed {
                continue;
            }
            if steps.is_empty() {
                return;
            }
            if round > least && is_too_long(&steps) {
                eprintln!("the time is used up: some ratios are not clear yet");
                return;
            }
            eprintln!(
                "round {round} of {least} to {most}: {} servers to start, about {:.1} min",
                steps.len(),
                pace.of(&steps, options).as_secs_f64() / 60.0
            );
            for step in steps {
                let before = Instant::now();
                self.take(&step);
                pace.completed(step.estimate(options), before.elapsed());
            }
        }
    }

    /// Runs a round of cold recursion for all peers together. Returns whether the round was run.
    fn recurse(&mut self, peers: &[Peer], round: usize) -> bool {
        const WORKLOAD: Workload = Workload::Recursion;
        let is_wanted =
            |peer: &Peer| rounds::wants(&self.report, self.options, round, (*peer, WORKLOAD));
        let wanted: Vec<_> = match self.options.workloads.contains(&WORKLOAD) {
            true => peers.iter().copied().filter(is_wanted).collect(),
            false => Vec::new(),
        };
        if wanted.is_empty() {
            return false;
        }
        eprintln!("round {round}: cold recursion, about {:.1} min", recursion::SECS / 60.0);
        let outcomes = recursion::run(&self.setup, &wanted, round).or_else(|error| {
            eprintln!("  recursion: once more, as {error}");
            recursion::run(&self.setup, &wanted, round)
        });
        for peer in wanted {
            let sample = outcomes.as_ref().map_err(Clone::clone).and_then(|outcomes| {
                let outcome = outcomes.iter().find(|outcome| outcome.peer == peer);
                outcome.ok_or_else(|| "it did not take part".to_owned())?.sample(round)
            });
            match sample {
                Ok(sample) => {
                    eprintln!("  {}", sample.line());
                    self.report.samples.push(sample);
                }
                Err(reason) => self.fail(peer, WORKLOAD, reason),
            }
        }
        true
    }

    /// Creates the veth pair if a step needs it. If that fails, these steps are omitted.
    fn set_up_veth(&mut self, peers: &[Peer]) {
        let wanting: Vec<_> = peers
            .iter()
            .copied()
            .filter(|peer| self.options.wants(*peer, Workload::Veth))
            .collect();
        if !self.options.workloads.contains(&Workload::Veth) || wanting.is_empty() {
            return;
        }
        match Veth::create() {
            Ok(veth) => self.setup.veth = Some(veth),
            Err(error) => {
                for peer in wanting {
                    self.fail(peer, Workload::Veth, format!("no virtual Ethernet here: {error}"));
                }
            }
        }
    }

    fn fail(&mut self, peer: Peer, workload: Workload, reason: String) {
        eprintln!("{}/{}: left out: {reason}", peer.name(), workload.name());
        self.report.fail(peer, workload, reason);
    }

    /// Starts a peer separately to compare its answers in the workloads that need an empty cache.
    fn try_cold(&mut self, peer: Peer) {
        let workloads: Vec<_> = self
            .options
            .workloads
            .iter()
            .copied()
            .filter(|workload| self.options.wants(peer, *workload))
            .collect();
        let cold: Vec<_> = workloads.into_iter().filter(|workload| workload.is_cold()).collect();
        let Some(first) = cold.first().filter(|_| peer.knows_zone()) else {
            return;
        };
        let started = self.start(peer, *first).or_else(|_| self.start(peer, *first));
        for workload in cold {
            let target = self.setup.target(workload);
            let tried = started
                .as_ref()
                .map_err(Clone::clone)
                .and_then(|_| ask::verify(target, peer, workload));
            if let Err(reason) = tried {
                self.fail(peer, workload, reason);
            }
        }
    }

    /// Takes one step. If it fails, tries it again with a new start. A second failure omits the
    /// step.
    fn take(&mut self, step: &Step) {
        let session: Vec<_> = step
            .session
            .iter()
            .copied()
            .filter(|workload| !self.report.has_failed(step.peer, *workload))
            .collect();
        for (workload, outcome) in self.run_session(step.peer, &session) {
            let outcome = outcome.or_else(|error| {
                eprintln!("  {}/{}: once more, as {error}", step.peer.name(), workload.name());
                let again = self.run_session(step.peer, &[workload]);
                again.into_iter().map(|(_, outcome)| outcome).next().unwrap_or(Err(error))
            });
            match outcome {
                Ok(sample) => {
                    eprintln!("  {}", sample.line());
                    self.report.samples.push(Sample { round: step.round, ..sample });
                }
                Err(reason) => self.fail(step.peer, workload, reason),
            }
        }
    }

    fn run_session(
        &mut self,
        peer: Peer,
        session: &[Workload],
    ) -> Vec<(Workload, Result<Sample, String>)> {
        let Some(first) = session.first() else {
            return Vec::new();
        };
        match self.start(peer, *first) {
            Ok(server) => {
                let start_bytes = server.memory_bytes() as f64;
                let run = |workload: &Workload| {
                    (*workload, self.run_one(&server, peer, *workload, start_bytes))
                };
                session.iter().map(run).collect()
            }
            Err(error) => session.iter().map(|workload| (*workload, Err(error.clone()))).collect(),
        }
    }

    fn start(&mut self, peer: Peer, workload: Workload) -> Result<Server, String> {
        self.setup.renew_ports()?;
        let command = configuration::prepare(&self.setup, peer, workload)?;
        let log = self.setup.file(&format!("{}.log", peer.name()));
        let launch = Launch {
            command: &command,
            core: workload.server_cores(),
            log: &log,
            within: START_WITHIN,
        };
        let target = self.setup.target(workload);
        let refusal = peer.refusal().filter(|_| workload.has_list());
        Server::start(&launch, || {
            ask::is_ready(target) && refusal.is_none_or(|refusal| ask::is_blocking(target, refusal))
        })
    }

    fn run_one(
        &self,
        server: &Server,
        peer: Peer,
        workload: Workload,
        start_bytes: f64,
    ) -> Result<Sample, String> {
        if !workload.is_cold() {
            // Each pass has new source ports, so that it reaches the caches of all workers.
            for _ in 0..workload.workers().pow(2) {
                let names = material::HOT_NAMES.into();
                let warmed = load::once(&self.setup, workload, self.options.generator, names)?;
                workload.judge(&warmed, peer.refusal())?;
            }
            if peer.knows_zone() {
                ask::verify(self.setup.target(workload), peer, workload)?;
            }
        }
        let capacity = self.capacity(workload)?;
        let (before, watch) = (server.cpu(), Watch::start());
        let load = self.load(server, workload, capacity)?;
        let (after, noise) = (server.cpu(), watch.and_then(|watch| watch.end()));
        workload.judge(&load, peer.refusal())?;
        let grown = server.memory_bytes() as f64 - start_bytes;
        let growth = workload.cached_names().map(|_| self.growth(grown, &load)).transpose()?;
        if workload.is_cold() {
            // The answers for names of the zone were compared earlier. This check shows that the
            // server survived the load.
            ask::verify(self.setup.target(workload), peer, Workload::Hot)?;
        }
        let micros = |secs: f64| secs * 1e6 / (load.answered + load.others).max(1) as f64;
        let user_secs = after.user_secs - before.user_secs;
        let (cpu_us, user_us) = (micros(after.since(&before)), micros(user_secs));
        let ready_secs = server.ready_after.as_secs_f64();
        Ok(Sample {
            peer,
            workload,
            round: 0,
            cpu_us,
            user_us,
            ready_secs,
            start_bytes,
            growth,
            noise,
            load,
        })
    }

    /// Returns the number of answers per second that the server can reach now, if the rate of the
    /// workload depends on it.
    fn capacity(&self, workload: Workload) -> Result<Option<f64>, String> {
        if workload != Workload::HitHalf {
            return Ok(None);
        }
        let load = load::capacity(&self.setup, workload, self.options.secs)?;
        Workload::Hot.judge(&load, None)?;
        Ok(Some(load.per_sec))
    }

    /// Runs the queries of a workload.
    fn load(
        &self,
        server: &Server,
        workload: Workload,
        capacity: Option<f64>,
    ) -> Result<Load, String> {
        let Options { generator, secs, hours, .. } = *self.options;
        match (workload.cached_names(), capacity) {
            (Some(count), _) => load::once(&self.setup, workload, generator, count),
            (None, Some(capacity)) => load::below_capacity(&self.setup, workload, capacity, secs),
            (None, None) if workload == Workload::Endurance => {
                endurance::run(&self.setup, server, endurance::secs(hours))
            }
            (None, None) if workload.has_crowd() => crowd::run(&self.setup, workload, secs),
            (None, None) => load::timed(&self.setup, workload, generator, secs),
        }
    }

    /// Returns the share of the queried names that are still cached, and the memory per cached
    /// name.
    fn growth(&self, grown: f64, load: &Load) -> Result<Growth, String> {
        let file = self.setup.file("again.txt");
        let apart = load.answered as u32 / ASKED_AGAIN;
        material::write_lines(
            &file,
            (0..ASKED_AGAIN).map(|index| material::unique_query(index * apart)),
        )
        .map_err(|error| format!("{}: {error}", file.display()))?;
        let before = configuration::upstream_queries(&self.setup)?;
        let pace = Pace::Count { count: ASKED_AGAIN.into(), window: 16 };
        let server = self.setup.target(Workload::Memory);
        let questions = Questions { server, file: &file, transport: Transport::Udp, pace };
        let again = self.options.generator.ask(&self.setup, &questions)?;
        let fetched = configuration::upstream_queries(&self.setup)?.saturating_sub(before) as f64;
        let kept = (1.0 - fetched / (again.answered + again.lost) as f64).max(0.0);
        if kept < LEAST_KEPT {
            return Err(format!("{:.1} % of the names are still cached", kept * 100.0));
        }
        Ok(Growth { bytes_per_name: grown / (load.answered as f64 * kept), kept })
    }
}
