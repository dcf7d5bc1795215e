//! Agreement of two generators. dnsperf and `avocet load` send the same queries to the same server
//! in turns, and their rates and mean latencies are compared. If these differ, one of the
//! generators is the bottleneck.

use super::ask::{self, Transport};
use super::json::{self, Json};
use super::load::{self, Generator, Load, Pace, Questions};
use super::options::Options;
use super::peer::Peer;
use super::process::{Launch, SERVER_CORE, START_WITHIN, Server};
use super::report::Spread;
use super::setup::Setup;
use super::table::Table;
use super::workload::Workload;
use super::{configuration, machine, material, packages};

/// The servers that are measured by default.
pub(super) const PEERS: &[Peer] = &[Peer::Nsd, Peer::Avocet];
/// Queries per second of the open loops, far below the capacity of all servers and generators.
const RATE: u64 = 5_000;
/// The generators, in the order of the columns.
const GENERATORS: [Generator; 2] = [Generator::Dnsperf, Generator::Avocet];
/// Relative difference of two medians up to which they count as equal, whatever the spread.
const CLOSE: f64 = 0.05;

/// Measures each server over UDP and TCP in closed and open loops, prints the table and stores the
/// samples.
///
/// # Errors
///
/// A server or a generator cannot be run, or answers are missing.
pub(super) fn run(options: &Options) -> Result<(), String> {
    let options = Options { generator: Generator::Avocet, ..options.clone() };
    let (peers, _) = packages::check(&options.peers, &options)?;
    let mut setup = Setup::prepare(&peers, &options)?;
    let mut rows = Vec::new();
    for peer in peers.iter().copied() {
        setup.renew_ports()?;
        let command = configuration::prepare(&setup, peer, Workload::Hot)?;
        let log = setup.file(&format!("{}.log", peer.name()));
        let launch =
            Launch { command: &command, core: SERVER_CORE, log: &log, within: START_WITHIN };
        let target = setup.target(Workload::Hot);
        let _server = Server::start(&launch, || ask::is_ready(target))?;
        load::once(&setup, Workload::Hot, options.generator, material::HOT_NAMES.into())?;
        for way in ways(options.secs) {
            rows.push(Row::measure(&setup, peer, way, *options.rounds.start())?);
        }
    }
    println!("{}", table(&rows).text());
    let rows = json::object([("rows", json::array(rows.iter().map(Row::json)))]);
    machine::keep("agree", &peers, rows).map(drop)
}

/// The transport and the pace of the queries.
#[derive(Clone, Copy)]
struct Way {
    transport: Transport,
    pace: Pace,
}

fn ways(secs: u64) -> impl Iterator<Item = Way> {
    [Transport::Udp, Transport::Tcp].into_iter().flat_map(move |transport| {
        [Pace::Window { secs }, Pace::Rate { per_sec: RATE, secs }]
            .map(|pace| Way { transport, pace })
    })
}

impl Way {
    fn name(self) -> String {
        let transport = if self.transport == Transport::Tcp { "TCP" } else { "UDP" };
        match self.pace {
            Pace::Rate { per_sec, .. } => format!("{transport}, {per_sec}/s"),
            _ => format!("{transport}, closed loop"),
        }
    }
}

/// The runs of both generators against one server.
struct Row {
    peer: Peer,
    way: Way,
    /// One pair of runs for each round.
    rounds: Vec<[Load; 2]>,
}

/// A figure of a run, its name, and the number of its decimal places.
type Figure = (&'static str, fn(&Load) -> Option<f64>, usize);

const FIGURES: [Figure; 2] =
    [("answers/s", |load| Some(load.per_sec), 0), ("mean latency in us", |load| load.mean_us, 0)];

impl Row {
    /// Runs both generators in each round. The first one alternates.
    fn measure(setup: &Setup, peer: Peer, way: Way, rounds: usize) -> Result<Self, String> {
        let ask = |generator: Generator| {
            let questions = Questions {
                server: setup.target(Workload::Hot),
                file: setup.queries(Workload::Hot),
                transport: way.transport,
                pace: way.pace,
            };
            let load = generator.ask_itself(setup, &questions)?;
            Workload::HitSteady.judge(&load, None).map(|()| load)
        };
        let mut row = Self { peer, way, rounds: Vec::new() };
        for round in 0..rounds {
            let [first, second] = GENERATORS;
            row.rounds.push(match round % 2 {
                0 => [ask(first)?, ask(second)?],
                _ => {
                    let second = ask(second)?;
                    [ask(first)?, second]
                }
            });
            eprintln!("  {}, {}: round {} of {rounds}", peer.name(), way.name(), round + 1);
        }
        Ok(row)
    }

    /// Returns the spread of a figure for each generator, and the spread of the ratio of the second
    /// generator to the first in each round.
    fn spreads(&self, of: fn(&Load) -> Option<f64>) -> Option<[Spread; 3]> {
        let values = self.rounds.iter().map(|[one, other]| Some([of(one)?, of(other)?]));
        let values = values.collect::<Option<Vec<_>>>()?;
        let spread =
            |value: fn(&[f64; 2]) -> f64| Spread::of(&values.iter().map(value).collect::<Vec<_>>());
        Some([spread(|pair| pair[0])?, spread(|pair| pair[1])?, spread(|pair| pair[1] / pair[0])?])
    }

    fn json(&self) -> Json {
        let of = |place: usize, of: fn(&Load) -> Option<f64>| {
            let values = self.rounds.iter().filter_map(|round| of(&round[place]));
            json::array(values.map(json::number))
        };
        json::object([
            ("peer", json::string(self.peer.name())),
            ("way", json::string(&self.way.name())),
            ("dnsperf_per_sec", of(0, FIGURES[0].1)),
            ("avocet_per_sec", of(1, FIGURES[0].1)),
            ("dnsperf_mean_us", of(0, FIGURES[1].1)),
            ("avocet_mean_us", of(1, FIGURES[1].1)),
        ])
    }
}

fn table(rows: &[Row]) -> Table {
    let heads = ["server", "queries", "figure", "dnsperf", "avocet load", "ratio", "verdict"];
    let mut table = Table::of("Medians of both generators (min-max)", &heads);
    for row in rows {
        for (name, figure, digits) in FIGURES {
            let Some([first, second, ratio]) = row.spreads(figure) else { continue };
            let text = |Spread { median, least, most }: Spread, digits: usize| {
                format!("{median:.digits$} ({least:.digits$}-{most:.digits$})")
            };
            table.push(vec![
                row.peer.name().to_owned(),
                row.way.name(),
                name.to_owned(),
                text(first, digits),
                text(second, digits),
                text(ratio, 2),
                verdict(ratio).to_owned(),
            ]);
        }
    }
    table
}

/// Judges the ratio of two figures. The generators agree if their medians are close or if the
/// ratios of the rounds lie on both sides of 1.
fn verdict(ratio: Spread) -> &'static str {
    let is_within_noise = ratio.least <= 1.0 && ratio.most >= 1.0;
    if is_within_noise || (ratio.median - 1.0).abs() <= CLOSE { "agree" } else { "differ" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rounds: &[[f64; 2]]) -> Row {
        let load = |per_sec| Load { per_sec, mean_us: Some(1e6 / per_sec), ..Load::default() };
        let way = ways(1).next().unwrap();
        let rounds = rounds.iter().map(|pair| pair.map(load)).collect();
        Row { peer: Peer::Nsd, way, rounds }
    }

    #[test]
    fn figures_agree_within_their_noise() {
        let check = |rounds: &[[f64; 2]], expected: &str| {
            let [.., ratio] = row(rounds).spreads(FIGURES[0].1).unwrap();
            assert_eq!(verdict(ratio), expected, "{rounds:?}");
        };
        check(&[[100.0, 104.0], [100.0, 104.0]], "agree");
        check(&[[100.0, 90.0], [100.0, 120.0]], "agree");
        check(&[[100.0, 110.0], [100.0, 120.0]], "differ");
        check(&[[100.0, 80.0]], "differ");
    }

    #[test]
    fn a_row_shows_both_generators() {
        let text = table(&[row(&[[1000.0, 1040.0], [2000.0, 2000.0]])]).text();
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains("1500 (1000-2000)") && lines[0].contains("1520 (1040-2000)"));
        assert!(lines[0].contains("1.02 (1.00-1.04)") && lines[0].ends_with("agree"), "{text}");
        assert!(lines[1].contains("mean latency") && lines[1].contains("750 (500-1000)"), "{text}");
    }

    #[test]
    fn each_server_is_asked_in_four_ways() {
        let names: Vec<_> = ways(2).map(Way::name).collect();
        assert_eq!(names, ["UDP, closed loop", "UDP, 5000/s", "TCP, closed loop", "TCP, 5000/s"]);
    }
}
