//! Conversion of the command line to flows: the queries, pace and expectations of each scenario.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use avocet_wire::Rcode;

use crate::args::{LoadArgs, Scenario};
use crate::ask::{Choice, Workload};
use crate::check::judge::Source;
use crate::check::{Depth, Deviation, Deviations, Expected, Judge, Rcodes};
use crate::drive::{Carrier, Connections, Flow, Pace};
use crate::error::{LoadError, Needed};
use crate::material::{DNSSEC_SIZE, Material};
use crate::random::Zipf;

/// Default number of queries in flight in a closed loop.
const WINDOW: usize = 100;

/// Default number of clients. With this number, a server with several sockets on its port uses all
/// of them.
const CLIENTS: u32 = 16;

/// Default rate per second of the scenarios that are open loops.
const OPEN_RATE: f64 = 10_000.0;

/// Maximum number of queries of one client within a timeout: half of its IDs.
const IDS_PER_CLIENT: f64 = 32_768.0;

/// Default start of the search for a rate, in queries per second.
const RAMP_START: f64 = 1_000.0;

/// Default share of unique names in `mixed`.
const MISS_SHARE: f64 = 0.05;

/// Default share of queries of the attack in `flood`.
const FLOOD_SHARE: f64 = 0.9;

/// Share of the duration of a flood before the attack starts.
const QUIET_PART: f64 = 0.25;

/// Number of valid queries in flight while malformed ones are sent.
pub(crate) const PROBES: usize = 4;

/// The shares of the flows in `extreme`.
const EXTREME: [(&str, f64); 7] = [
    ("hit", 0.5),
    ("miss", 0.15),
    ("nxdomain", 0.1),
    ("types", 0.1),
    ("large", 0.05),
    ("malformed", 0.05),
    ("flood", 0.05),
];

/// Longest datagram without EDNS, in octets (RFC 1035 §4.2.1).
const PLAIN_DATAGRAM: usize = 512;

/// A prepared scenario.
pub(crate) struct Prepared {
    pub(crate) flows: Vec<Flow>,
    /// The duration of the run.
    pub(crate) duration: Duration,
    /// Whether each listed name is queried once before the clock starts.
    pub(crate) warms_up: bool,
    /// Total number of clients.
    pub(crate) clients: usize,
    /// Queries per second of an open loop, or the rate at which a search starts.
    pub(crate) rate: Option<f64>,
    /// Whether to search for the highest rate.
    pub(crate) ramps: bool,
}

/// The settings shared by all flows of a run.
struct Setting<'a> {
    args: &'a LoadArgs,
    material: &'a Material,
    source: Source,
    depth: Depth,
    expected: Option<Rcodes>,
    allowed: Deviations,
    clients: usize,
    rate: Option<f64>,
}

/// Creates the flows. `reference` holds another server's answers to the listed queries.
pub(crate) fn prepare(
    args: &LoadArgs,
    material: &Material,
    reference: Option<Arc<[Option<Expected>]>>,
) -> Result<Prepared, LoadError> {
    let ramps = args.ramp || args.scenario == Scenario::Extreme;
    let source = match (reference, &material.zone) {
        (Some(known), _) => Source::Reference(known),
        (None, Some(zone)) => Source::Zone(Arc::clone(zone)),
        (None, None) => Source::Scenario,
    };
    let is_known = !matches!(source, Source::Scenario);
    let depth = args.check.unwrap_or(if is_known { Depth::Answer } else { Depth::Question });
    if depth == Depth::Answer && !is_known {
        return Err(LoadError::Missing(Needed::Records));
    }
    let by_nature =
        matches!(args.scenario, Scenario::Malformed | Scenario::Flood).then_some(OPEN_RATE);
    let rate = args.rate.map(f64::from).or(ramps.then_some(RAMP_START)).or(by_nature);
    let setting = Setting {
        args,
        material,
        source,
        depth,
        expected: expected(&args.expect)?,
        allowed: args.allow.iter().copied().collect(),
        clients: clients(args, material, rate),
        rate,
    };
    let duration = duration(args, material);
    let mut flows = setting.flows(duration)?;
    let shares: f64 = flows.iter().map(|flow| flow.share).sum();
    for flow in &mut flows {
        flow.limit = ((args.count as f64 * flow.share / shares).round() as u64).max(1);
    }
    let total = flows.iter().map(|flow| flow.clients().0).sum();
    Ok(Prepared { flows, duration, warms_up: warms_up(args.scenario), clients: total, rate, ramps })
}

/// Returns the deviations that even a flawless server may show in this flow.
fn deviations(flow: &str) -> Deviations {
    let either = Deviations::NONE.with(Deviation::Truncated).with(Deviation::Empty);
    match flow {
        // No deviation is expected: the names have the queried type, and truncated answers are
        // retried over TCP.
        "hit" | "large" => Deviations::NONE,
        "types" | "replay" | "probe" => either,
        "malformed" => Deviations::ALL,
        _ => Deviations::NONE.with(Deviation::Empty),
    }
}

fn warms_up(scenario: Scenario) -> bool {
    matches!(
        scenario,
        Scenario::Hit | Scenario::Nxdomain | Scenario::Types | Scenario::Blocked | Scenario::Flood
    )
}

fn duration(args: &LoadArgs, material: &Material) -> Duration {
    let recorded = material.recording.as_ref().and_then(|recording| recording.due_ns.last());
    args.duration.unwrap_or(match (args.scenario, recorded) {
        (Scenario::Endurance, _) => Duration::from_secs(60),
        (_, Some(last)) => Duration::from_nanos(last + 1_000_000_000),
        _ => Duration::from_secs(10),
    })
}

fn expected(names: &[String]) -> Result<Option<Rcodes>, LoadError> {
    let mut found: Option<Rcodes> = None;
    for name in names {
        let rcode = (0..24).map(Rcode).find(|rcode| rcode.to_string().eq_ignore_ascii_case(name));
        let one = Rcodes::only(rcode.ok_or_else(|| LoadError::NotAnRcode(name.clone()))?);
        found = Some(found.map_or(one, |known| known.or(one)));
    }
    Ok(found)
}

/// Returns the number of clients: as requested, as recorded, or as the IDs of an open loop require.
fn clients(args: &LoadArgs, material: &Material, rate: Option<f64>) -> usize {
    if let Some(clients) = args.clients {
        return clients as usize;
    }
    if let Some(recording) = &material.recording {
        return recording.client_count;
    }
    let needed = rate.map_or(0.0, |rate| rate * args.timeout.as_secs_f64() / IDS_PER_CLIENT).ceil();
    CLIENTS.max(needed as u32) as usize
}

impl Setting<'_> {
    fn flows(&self, duration: Duration) -> Result<Vec<Flow>, LoadError> {
        let (args, material) = (self.args, self.material);
        let listed = |choice| self.workload(choice, 0);
        Ok(match args.scenario {
            Scenario::Hit | Scenario::Nxdomain | Scenario::Types | Scenario::Blocked => {
                vec![self.flow(name_of(args.scenario), listed(Choice::Cycle)?)]
            }
            Scenario::Miss if args.names.is_some() => {
                vec![self.flow("miss", listed(Choice::Once)?)]
            }
            Scenario::Miss => vec![self.flow("miss", listed(Choice::Unique)?)],
            Scenario::Mixed | Scenario::Endurance => {
                vec![self.flow(name_of(args.scenario), self.popular()?)]
            }
            Scenario::Large => vec![self.flow("large", listed(Choice::Cycle)?).with_retry()],
            Scenario::Malformed => self.malformed()?,
            Scenario::Flood => self.flood(duration)?,
            Scenario::Extreme => self.extreme()?,
            Scenario::Replay => match &material.recording {
                None => vec![self.flow("replay", listed(Choice::Cycle)?)],
                Some(recording) => {
                    let mut flow = self.flow("replay", listed(Choice::Once)?);
                    flow.recorded_clients = Some(recording.clients.as_slice().into());
                    flow.pace = Pace::Recorded {
                        due_ns: recording.due_ns.as_slice().into(),
                        start_ns: 0,
                        taken: 0,
                    };
                    vec![flow]
                }
            },
        })
    }

    fn popular(&self) -> Result<Workload, LoadError> {
        let default = if self.material.has_zone_name() { MISS_SHARE } else { 0.0 };
        let unique_share = self.args.miss_share.unwrap_or(default);
        let zipf = Zipf::new(self.material.questions.len() as u32, self.args.zipf);
        self.workload(Choice::Popular { zipf, unique_share }, 0)
    }

    fn workload(&self, choice: Choice, salt: u64) -> Result<Workload, LoadError> {
        let is_unique = match &choice {
            Choice::Popular { unique_share, .. } => *unique_share > 0.0,
            choice => matches!(choice, Choice::Unique),
        };
        let unique = is_unique.then(|| self.material.unique(b'm', salt)).transpose()?;
        Ok(Workload::new(
            Arc::clone(&self.material.questions),
            unique,
            choice,
            self.args.seed ^ salt,
        ))
    }

    fn flow(&self, name: &'static str, workload: Workload) -> Flow {
        let pace = match self.rate {
            Some(rate) => Pace::rate(rate),
            // A connection for a single query has only one query in flight.
            None if self.args.connections != Connections::Kept => {
                Pace::window(self.args.window.map_or(self.clients, |window| window as usize))
            }
            None => Pace::window(self.args.window.map_or(WINDOW, |window| window as usize)),
        };
        self.flow_at(name, workload, pace, self.clients)
    }

    fn flow_at(&self, name: &'static str, workload: Workload, pace: Pace, clients: usize) -> Flow {
        let rcodes = self.expected.unwrap_or(match name {
            "hit" | "large" => Rcodes::only(Rcode::NOERROR),
            "nxdomain" => Rcodes::only(Rcode::NXDOMAIN),
            "blocked" => Rcodes::DATA_OR_NONE.or(Rcodes::only(Rcode::REFUSED)),
            "malformed" => Rcodes::ANY,
            _ => Rcodes::DATA_OR_NONE,
        });
        let source = if name == "blocked" { Source::Blocked } else { self.source.clone() };
        let mut judge = Judge::new(self.depth, rcodes, source);
        judge.allowed = deviations(name).or(self.allowed);
        let flow = Flow::new(name, workload, pace, judge, clients)
            .with_timeout(self.args.timeout.as_nanos() as u64);
        match self.args.transport {
            Carrier::Udp => flow.with_longest(self.longest_datagram()),
            Carrier::Tcp | Carrier::Tls | Carrier::Https | Carrier::Quic | Carrier::H3 => flow,
        }
    }

    /// Returns the longest answer that the queries permit over UDP (RFC 1035 §4.2.1, RFC 6891
    /// §6.2.3). The queries of a recording have their own sizes, which are not read.
    fn longest_datagram(&self) -> usize {
        match (self.args.edns, self.args.dnssec) {
            _ if self.args.scenario == Scenario::Replay => usize::MAX,
            (Some(size), _) => usize::from(size),
            (None, true) => usize::from(DNSSEC_SIZE),
            (None, false) => PLAIN_DATAGRAM,
        }
    }

    fn malformed(&self) -> Result<Vec<Flow>, LoadError> {
        let rate = Pace::rate(self.rate.unwrap_or(OPEN_RATE));
        let damaged =
            self.flow_at("malformed", self.workload(Choice::Malformed, 0)?, rate, self.clients);
        let probes = self.workload(Choice::Cycle, 0)?;
        Ok(vec![damaged, self.flow_at("probe", probes, Pace::window(PROBES), 1)])
    }

    /// Returns three flows: normal clients before the attack (`quiet`), normal clients during the
    /// attack (`attacked`), and the attack itself, queries for random subdomains (`flood`).
    fn flood(&self, duration: Duration) -> Result<Vec<Flow>, LoadError> {
        let rate = self.rate.unwrap_or(OPEN_RATE);
        let share = self.args.miss_share.unwrap_or(FLOOD_SHARE);
        let begins = duration.mul_f64(QUIET_PART).as_nanos() as u64;
        let normal = |name| -> Result<Flow, LoadError> {
            Ok(self.flow_at(
                name,
                self.workload(Choice::Cycle, 0)?,
                Pace::rate(rate * (1.0 - share)),
                self.clients,
            ))
        };
        let attack = self.workload(Choice::Unique, 1)?;
        let mut flows = vec![
            normal("quiet")?,
            normal("attacked")?,
            self.flow_at("flood", attack, Pace::rate(rate * share), self.clients),
        ];
        flows[0].span = 0..begins;
        flows[1].span = begins..u64::MAX;
        flows[2].span = begins..u64::MAX;
        for (flow, share) in flows.iter_mut().zip([1.0 - share, 1.0 - share, share]) {
            flow.share = share;
        }
        Ok(flows)
    }

    fn extreme(&self) -> Result<Vec<Flow>, LoadError> {
        let clients = (self.clients / EXTREME.len()).max(2);
        let mut flows = Vec::new();
        for ((name, share), salt) in EXTREME.into_iter().zip(0..) {
            let numbered =
                |questions| Workload::new(Arc::new(questions), None, Choice::Cycle, self.args.seed);
            let workload = match name {
                "miss" | "flood" => self.workload(Choice::Unique, salt)?,
                "nxdomain" => numbered(self.material.numbered("nx", &[avocet_wire::Rtype::A])?),
                "types" => numbered(self.material.types()?),
                "malformed" => self.workload(Choice::Malformed, salt)?,
                _ => self.workload(Choice::Cycle, salt)?,
            };
            let mut flow = self.flow_at(name, workload, Pace::rate(0.0), clients);
            if let (Source::Reference(_), "nxdomain" | "types") = (&flow.judge.source, name) {
                flow.judge.source = Source::Scenario;
            }
            flow.share = share;
            flows.push(if name == "large" { flow.with_retry() } else { flow });
        }
        Ok(flows)
    }
}

fn name_of(scenario: Scenario) -> &'static str {
    match scenario {
        Scenario::Hit => "hit",
        Scenario::Miss => "miss",
        Scenario::Mixed => "mixed",
        Scenario::Nxdomain => "nxdomain",
        Scenario::Types => "types",
        Scenario::Large => "large",
        Scenario::Blocked => "blocked",
        Scenario::Malformed => "malformed",
        Scenario::Flood => "flood",
        Scenario::Extreme => "extreme",
        Scenario::Endurance => "endurance",
        Scenario::Replay => "replay",
    }
}

/// Returns a flow that sends each listed query once, to warm a cache or to learn the reference
/// answers.
pub(crate) fn once(of: &Flow, source: Source, timeout: Duration) -> Flow {
    let mut judge = Judge::new(Depth::Answer, Rcodes::ANY, source);
    judge.allowed = Deviations::ALL;
    let (clients, _) = of.clients();
    Flow::new(
        "once",
        of.workload.once(),
        Pace::window(WINDOW),
        judge,
        clients.min(CLIENTS as usize),
    )
    .with_timeout(timeout.as_nanos() as u64)
}

/// Returns the source addresses of the clients.
pub(crate) fn sources(
    args: &LoadArgs,
    server: IpAddr,
    clients: usize,
) -> Result<Vec<IpAddr>, LoadError> {
    crate::target::sources(server, args.source, clients)
}
