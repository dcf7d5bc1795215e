//! A complete run: preparation, cache warm-up, the run itself or the search for a rate, and the
//! report.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use avocet_io::process::{raise_open_files, sharpen_timers};
use avocet_io::signals::Signals;

use crate::args::{LoadArgs, Scenario};
use crate::ask::{Choice, Workload};
use crate::check::judge::Source;
use crate::check::{Depth, Expected, Judge, Rcodes};
use crate::drive::driver::Route;
use crate::drive::ramp::{self, Bounds, RampStep};
use crate::drive::{Carrier, Connections, Counts, Driver, Flow, Interval, Latencies, Pace, Watch};
use crate::encrypted::{QuicTarget, TlsTarget};
use crate::error::LoadError;
use crate::material::Material;
use crate::record::Recorder;
use crate::report::checks::Checks;
use crate::report::{FORMAT, PaceReport, Report, Server, TlsReport};
use crate::scenario::{self, Prepared};
use crate::target::Owner;
use crate::{listener, machine, target, verdict, version};

/// Share of the names that the server must answer in a warm-up.
const WARM_SHARE: f64 = 0.999;

/// Longest warm-up of caches.
const WARM_UP_MAX: Duration = Duration::from_secs(30);

/// Default bounds of a search.
const RAMP_LOSS: f64 = 0.001;
const RAMP_P99: Duration = Duration::from_millis(10);

/// Time within which a TCP server must accept the first connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Drives a server as specified by `args` and reports the results.
///
/// # Errors
/// An invalid argument, or a refusal of the system. A server with wrong or missing answers is not
/// an error but yields a report that did not pass.
pub fn measure(args: &LoadArgs, signals: Option<Signals>) -> Result<Report, LoadError> {
    let named = target::parse_named(args.server.as_deref().unwrap_or_default(), args.transport)?;
    let server = named.address;
    let transport = named.carrier;
    let wants_memory = args.scenario == Scenario::Endurance && args.pid.is_none();
    let pid = if wants_memory { listener::process_at(server, transport) } else { args.pid };
    let args = &LoadArgs { pid, transport, ..args.clone() };
    target::check_permitted(server, Owner::of(args))?;
    let material = Material::read(args)?;
    let failed = |source| LoadError::Server { server, source };
    raise_open_files().map_err(failed)?;
    // Without this, a query may leave about 50 µs late, which would appear as latency.
    let _ = sharpen_timers();
    let (mut tls, mut quic) = (None, None);
    match named.tls_name.as_deref() {
        Some(name) if transport.is_quic() => {
            let target = quic.insert(QuicTarget::new(args, name, named.place)?);
            target.verify(server, CONNECT_TIMEOUT).map_err(failed)?;
        }
        Some(name) => {
            let target = tls.insert(TlsTarget::new(args, name, named.place)?);
            target.verify(server, CONNECT_TIMEOUT).map_err(failed)?;
        }
        None if args.transport.is_stream() => {
            TcpStream::connect_timeout(&server, CONNECT_TIMEOUT).map_err(failed)?;
        }
        None => {}
    }
    let reference =
        args.reference.as_deref().map(|server| learn(args, &material, server)).transpose()?;
    let prepared = scenario::prepare(args, &material, reference)?;
    let sources = scenario::sources(args, server.ip(), prepared.clients)?;
    let connections = args.connections;
    let route = Route { server, carrier: args.transport, sources, tls, quic, connections };
    let mut run = Run {
        args,
        route,
        started: SystemTime::now(),
        ramp: None,
        remarks: remarks(args, &material),
    };
    let (warm, signals) = run.warm_up(&prepared, signals)?;
    if warm < WARM_SHARE {
        run.remarks.push(format!(
            "the caches are not warm: {:.1}% of the first pass over the names were not answered",
            (1.0 - warm) * 100.0
        ));
    }
    run.measure(prepared, signals).map_err(failed)
}

fn remarks(args: &LoadArgs, material: &Material) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(recording) =
        material.recording.as_ref().filter(|recording| recording.passed_over > 0)
    {
        remarks.push(format!("{} packets of the recording are not queries", recording.passed_over));
    }
    if args.reference.is_some() && args.scenario == Scenario::Miss && args.names.is_none() {
        remarks.push(
            "unique names are not sent to the reference: only their RCODEs are checked".to_owned(),
        );
    }
    if args.scenario == Scenario::Endurance && args.pid.is_none() {
        remarks.push(
            "memory is not measured: specify the process by --pid; none that this user may see \
             listens at the address"
                .to_owned(),
        );
    }
    remarks
}

/// Records the answers of a reference server to all listed queries. It uses TCP, which does not
/// truncate answers.
fn learn(
    args: &LoadArgs,
    material: &Material,
    server: &str,
) -> Result<Arc<[Option<Expected>]>, LoadError> {
    let server: SocketAddr = target::parse_server(server)?;
    target::check_permitted(server, Owner::of(args))?;
    let listed = Workload::new(Arc::clone(&material.questions), None, Choice::Once, args.seed);
    let judge = Judge::new(Depth::Id, Rcodes::ANY, Source::Scenario);
    let flow = Flow::new("reference", listed, Pace::window(1), judge, 4);
    let learning = Source::Learning(vec![None; material.questions.len()]);
    let flow = scenario::once(&flow, learning, args.timeout);
    let route = Route {
        server,
        carrier: Carrier::Tcp,
        sources: Vec::new(),
        tls: None,
        quic: None,
        connections: Connections::Kept,
    };
    let failed = |source| LoadError::Reference { server, source };
    let mut driver = Driver::open(vec![flow], &route, None).map_err(failed)?;
    driver.run(Duration::MAX, Duration::from_secs(1), &mut Unwatched).map_err(failed)?;
    let (mut flows, _) = driver.into_flows();
    let known = flows.pop().map(|flow| flow.judge.source);
    match known {
        Some(Source::Learning(known)) if known.iter().any(Option::is_some) => Ok(known.into()),
        _ => Err(LoadError::SilentReference(server)),
    }
}

/// An observer that records nothing. It ends the run if the server answers no query.
struct Unwatched;

impl Watch for Unwatched {
    fn interval(&mut self, _: Interval, flows: &[Flow]) -> ControlFlow<()> {
        let is_silent =
            flows.iter().all(|flow| flow.tally.counts.answered == 0 && flow.tally.counts.lost > 0);
        if is_silent { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct Run<'a> {
    args: &'a LoadArgs,
    route: Route,
    started: SystemTime,
    ramp: Option<ramp::Ramp>,
    remarks: Vec<String>,
}

impl Run<'_> {
    /// Sends each listed query once if the scenario needs cached names. Returns the share of the
    /// queries that was answered.
    fn warm_up(
        &self,
        prepared: &Prepared,
        signals: Option<Signals>,
    ) -> Result<(f64, Option<Signals>), LoadError> {
        let Some(first) = prepared.flows.first().filter(|_| prepared.warms_up) else {
            return Ok((1.0, signals));
        };
        let flow = scenario::once(first, Source::Scenario, self.args.timeout);
        let failed = |source| LoadError::Server { server: self.route.server, source };
        let route = Route { connections: Connections::Kept, ..self.route.clone() };
        let mut driver = Driver::open(vec![flow], &route, signals).map_err(failed)?;
        driver.run(WARM_UP_MAX, Duration::from_secs(1), &mut Unwatched).map_err(failed)?;
        let answered: u64 = driver.flows().iter().map(|flow| flow.tally.counts.answered).sum();
        let share = answered as f64 / first.workload.listed().max(1) as f64;
        Ok((share, driver.into_flows().1))
    }

    fn measure(mut self, prepared: Prepared, signals: Option<Signals>) -> io::Result<Report> {
        let (clients, rate) = (prepared.clients, prepared.rate);
        let mut driver = Driver::open(prepared.flows, &self.route, signals)?;
        let start = rate.unwrap_or_default();
        if prepared.ramps {
            let ramp = self.search(&mut driver, prepared.duration, start)?;
            set_rate(&mut driver, if ramp.highest_rate > 0.0 { ramp.highest_rate } else { start });
            self.ramp = Some(ramp);
        }
        let (recorder, asked_ns) = loop {
            let mut recorder = Recorder::start(self.args, prepared.duration);
            let every = recorder.every();
            let asked_ns = driver.run(prepared.duration, every, &mut recorder)?;
            recorder.finish();
            let ramp = self
                .ramp
                .as_mut()
                .filter(|ramp| ramp.highest_rate > 0.0 && !driver.was_interrupted());
            let Some(ramp) = ramp else { break (recorder, asked_ns) };
            let run = result_of(driver.flows(), ramp.highest_rate, asked_ns).judge(&ramp.bounds);
            crate::record::show_step(self.args, &run);
            match ramp.judge_run(run) {
                Some(lower) => set_rate(&mut driver, lower),
                None => break (recorder, asked_ns),
            }
        };
        if driver.was_interrupted() {
            self.remarks.push("the run ended early".to_owned());
        }
        let (flows, _) = driver.into_flows();
        let mut pace = pace_of(&flows, clients);
        let searched =
            self.ramp.as_ref().map(|ramp| ramp.runs.last().map_or(start, |run| run.rate));
        pace.rate = searched.or(rate);
        Ok(self.report(&flows, recorder, asked_ns as f64 / 1e9, pace))
    }

    /// Searches for the highest rate. Each rate is tried for a tenth of the duration.
    fn search(
        &self,
        driver: &mut Driver,
        duration: Duration,
        start: f64,
    ) -> io::Result<ramp::Ramp> {
        let bounds = Bounds {
            max_loss: self.args.max_loss.unwrap_or(RAMP_LOSS),
            max_p99_ns: self.args.max_p99.unwrap_or(RAMP_P99).as_nanos() as u64,
        };
        let step = (duration / 10).clamp(Duration::from_millis(500), Duration::from_secs(5));
        let mut failure = None;
        let ramp = ramp::search(start, bounds, |rate| {
            if driver.was_interrupted() {
                return None;
            }
            match attempt(driver, rate, step, &bounds) {
                Ok(step) => {
                    crate::record::show_step(self.args, &step);
                    Some(step)
                }
                Err(error) => {
                    failure = Some(error);
                    None
                }
            }
        });
        failure.map_or(Ok(ramp), Err)
    }

    fn report(
        self,
        flows: &[Flow],
        recorder: Recorder,
        asked_secs: f64,
        pace: PaceReport,
    ) -> Report {
        let args = self.args;
        let summary = recorder.summary(flows, asked_secs);
        let checks = Checks::of(flows, args);
        let report = Report {
            format: FORMAT.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command_line: std::env::args().collect(),
            seed: args.seed,
            started_unix_secs: self
                .started
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            machine: machine::read(),
            server: Server {
                address: self.route.server.to_string(),
                transport: args.transport,
                version: version::ask(self.route.server),
                pid: args.pid,
                process: recorder.server_name(),
            },
            scenario: args.scenario,
            pace,
            check: checks.depth,
            checked: checks.checked(),
            unchecked: checks.unchecked(),
            asked_secs,
            outcome: summary.outcome,
            latency: summary.latency,
            tls: TlsReport::of(flows, args, asked_secs),
            flows: summary.flows,
            server_cpu: summary.server_cpu,
            generator_cpu: summary.generator_cpu,
            memory: summary.memory,
            drift: summary.drift,
            series: recorder.into_series(),
            ramp: self.ramp,
            passed: true,
            faults: Vec::new(),
            remarks: self.remarks,
            examples: flows.iter().flat_map(|flow| flow.tally.examples.iter().cloned()).collect(),
        };
        verdict::judge(report, args)
    }
}

/// Returns the pace of the first flow.
fn pace_of(flows: &[Flow], clients: usize) -> PaceReport {
    let first = flows.first().map(|flow| &flow.pace);
    let window = first.and_then(|pace| match pace {
        Pace::Window { size } => Some(*size),
        _ => None,
    });
    PaceReport { open_loop: first.is_some_and(Pace::is_open), rate: None, window, clients }
}

fn set_rate(driver: &mut Driver, rate: f64) {
    for flow in driver.flows_mut() {
        flow.reset();
        let share = flow.share;
        flow.pace.set_rate(rate * share);
    }
}

/// Drives the server at one rate and evaluates the result.
fn attempt(
    driver: &mut Driver,
    rate: f64,
    time: Duration,
    bounds: &Bounds,
) -> io::Result<RampStep> {
    set_rate(driver, rate);
    let asked_ns = driver.run(time, time, &mut Unwatched)?;
    Ok(result_of(driver.flows(), rate, asked_ns).judge(bounds))
}

/// Returns the result of a run at one rate. The caller judges whether it satisfies the bounds.
fn result_of(flows: &[Flow], rate: f64, asked_ns: u64) -> RampStep {
    let (mut counts, mut latencies, mut sent) = (Counts::default(), Latencies::new(), 0);
    for flow in flows {
        sent += flow.tally.counts.sent;
        if !flow.workload.is_unanswerable() {
            counts.add(&flow.tally.counts);
            latencies.add(&flow.tally.latencies);
        }
    }
    RampStep {
        rate,
        offered: sent as f64 * 1e9 / asked_ns.max(1) as f64,
        loss: counts.loss(),
        p99_ns: latencies.at(0.99),
        wrong: counts.wrong.sum(),
        held: false,
    }
}
