//! The load generators and their reports.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::ask::Transport;
use super::extra::Extra;
use super::process::{LOAD_CORE, find, pinned};
use super::setup::Setup;
use super::workload::Workload;
use super::{encrypted, material};

/// A program that generates load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generator {
    /// dnsperf, the usual tool. Its figures can be compared with published figures.
    Dnsperf,
    /// blast, the generator of this project: batches of datagrams over UDP only.
    Blast,
    /// `avocet load`, which checks every response.
    Avocet,
}

impl Generator {
    pub(super) fn named(name: &str) -> Result<Self, String> {
        match name {
            "dnsperf" => Ok(Self::Dnsperf),
            "blast" => Ok(Self::Blast),
            "avocet" => Ok(Self::Avocet),
            unknown => Err(format!("there is no generator `{unknown}`")),
        }
    }

    /// Returns this generator, or one that can send these queries if this one cannot. dnsperf has
    /// no open loop, and blast has no TCP.
    fn able(self, questions: &Questions<'_>) -> Self {
        match questions.pace {
            _ if self == Self::Avocet => self,
            _ if questions.transport == Transport::Tcp => Self::Dnsperf,
            Pace::Rate { .. } | Pace::Count { .. } => Self::Blast,
            Pace::Window { .. } | Pace::Lines { .. } => self,
        }
    }

    /// Runs the queries on the load core and returns the result.
    pub(super) fn ask(self, setup: &Setup, questions: &Questions<'_>) -> Result<Load, String> {
        self.able(questions).ask_itself(setup, questions)
    }

    /// Runs the queries with this generator itself, and not with one that is better suited.
    pub(super) fn ask_itself(
        self,
        setup: &Setup,
        questions: &Questions<'_>,
    ) -> Result<Load, String> {
        match self {
            Self::Dnsperf => dnsperf(questions),
            Self::Blast => blast_at(setup, questions),
            Self::Avocet => avocet(setup, questions),
        }
    }
}

/// The queries of a run, their target and their pace.
pub(super) struct Questions<'a> {
    pub(super) server: SocketAddr,
    /// A file with lines `name TYPE`.
    pub(super) file: &'a Path,
    pub(super) transport: Transport,
    pub(super) pace: Pace,
}

/// The rule for the time at which the next query is sent, and for the end of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// Sends a query whenever the window of the generator has room, for this number of seconds.
    Window { secs: u64 },
    /// Sends a query whenever a window of this size has room, until `count` queries are sent.
    Count { count: u64, window: u64 },
    /// Sends a query whenever the window of the generator has room, until each line of the file is
    /// sent once.
    Lines { lines: u64 },
    /// Sends queries at a fixed rate, independent of the server.
    Rate { per_sec: u64, secs: u64 },
}

/// The result of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Load {
    pub(super) answered: u64,
    pub(super) lost: u64,
    pub(super) per_sec: f64,
    /// Responses by RCODE name.
    pub(super) rcodes: Vec<(String, u64)>,
    /// NOERROR responses without a record, if the generator counts them.
    pub(super) empty: u64,
    /// The latency. At a fixed rate, it counts from the time at which a query was due.
    pub(super) latency: Option<Latency>,
    /// Mean latency in microseconds, if the generator reports it. It is not stored with the
    /// results.
    pub(super) mean_us: Option<f64>,
    /// Number of answers to other clients than the measured ones. These answers also take CPU time
    /// of the server.
    pub(super) others: u64,
    /// Additional figures of the workload.
    pub(super) extras: Vec<(Extra, f64)>,
}

/// Percentiles of the latency (50, 99 and 99.9 %), in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Latency {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
}

impl Load {
    pub(super) fn with_rcode(&self, name: &str) -> u64 {
        self.rcodes.iter().filter(|(rcode, _)| rcode == name).map(|(_, count)| count).sum()
    }

    /// Returns an additional figure, or `None` if the workload does not have it.
    pub(super) fn extra(&self, wanted: Extra) -> Option<f64> {
        self.extras.iter().find(|(extra, _)| *extra == wanted).map(|(_, value)| *value)
    }
}

/// Default number of queries in flight, the same as that of dnsperf.
const WINDOW: u64 = 100;
/// Maximum number of queries in flight while names are being cached.
const CACHING_WINDOW: u64 = 48;
/// Maximum duration in seconds of caching the names.
const CACHING_SECS: &str = "300";

/// Share of its own capacity at which a server is measured.
const PART_OF_CAPACITY: f64 = 0.5;

/// Runs the workload's queries for the given number of seconds.
pub(super) fn timed(
    setup: &Setup,
    workload: Workload,
    generator: Generator,
    secs: u64,
) -> Result<Load, String> {
    ask(setup, workload, generator, timed_pace(workload, secs))
}

fn timed_pace(workload: Workload, secs: u64) -> Pace {
    match workload {
        _ if let Some(per_sec) = workload.rate() => {
            Pace::Rate { per_sec, secs: workload.secs(secs) }
        }
        // In a fixed time, a fast server would get more queries, and fewer of them would be new to
        // it.
        Workload::Zipf => Pace::Lines { lines: material::ZIPF_QUERIES as u64 },
        _ => Pace::Window { secs },
    }
}

/// Sends the queries of a workload with a generator that is able to.
fn ask(
    setup: &Setup,
    workload: Workload,
    generator: Generator,
    pace: Pace,
) -> Result<Load, String> {
    match workload.session() {
        Some(session) => encrypted::ask(setup, workload, session, pace),
        None => generator.ask(setup, &questions(setup, workload, pace)),
    }
}

/// Measures the rate of answers in a closed loop of blast, which reaches higher rates than dnsperf.
pub(super) fn capacity(setup: &Setup, workload: Workload, secs: u64) -> Result<Load, String> {
    Generator::Blast.ask(setup, &questions(setup, workload, Pace::Window { secs }))
}

/// Sends queries at a fixed share of a capacity. The result also contains the capacity.
pub(super) fn below_capacity(
    setup: &Setup,
    workload: Workload,
    capacity: f64,
    secs: u64,
) -> Result<Load, String> {
    let per_sec = ((capacity * PART_OF_CAPACITY) as u64).max(1);
    let questions = questions(setup, workload, Pace::Rate { per_sec, secs });
    let mut load = Generator::Blast.ask(setup, &questions)?;
    load.extras.push((Extra::Capacity, capacity));
    Ok(load)
}

/// Sends this number of queries, each once, over the transport of the workload.
pub(super) fn once(
    setup: &Setup,
    workload: Workload,
    generator: Generator,
    count: u64,
) -> Result<Load, String> {
    ask(setup, workload, generator, Pace::Count { count, window: CACHING_WINDOW })
}

fn questions(setup: &Setup, workload: Workload, pace: Pace) -> Questions<'_> {
    let (server, file) = (setup.target(workload), setup.queries(workload));
    Questions { server, file, transport: workload.transport(), pace }
}

fn blast_at(setup: &Setup, questions: &Questions<'_>) -> Result<Load, String> {
    let words = match questions.pace {
        Pace::Window { secs } => format!("--secs {secs}"),
        Pace::Count { count, window } => {
            format!("--secs {CACHING_SECS} --count {count} --window {window}")
        }
        Pace::Lines { lines } => format!("--secs {CACHING_SECS} --count {lines} --window {WINDOW}"),
        Pace::Rate { per_sec, secs } => format!("--secs {secs} --rate {per_sec}"),
    };
    let mut options: Vec<&str> = words.split(' ').collect();
    options.extend(match questions.transport {
        Transport::UdpWithOpt => Some("--edns"),
        Transport::UdpWithDo => Some("--dnssec"),
        Transport::Udp | Transport::Tcp => None,
    });
    let load = run_blast(setup, questions.server, questions.file, &options)?;
    // In a closed loop, the window determines the latency, which therefore says nothing about the
    // server.
    let is_open = matches!(questions.pace, Pace::Rate { .. });
    Ok(Load { latency: load.latency.filter(|_| is_open), ..load })
}

/// Runs blast on the load core against the server on loopback.
pub(super) fn blast(setup: &Setup, file: &Path, options: &[&str]) -> Result<Load, String> {
    run_blast(setup, SocketAddr::from((Ipv4Addr::LOCALHOST, setup.port)), file, options)
}

fn run_blast(
    setup: &Setup,
    server: SocketAddr,
    file: &Path,
    options: &[&str],
) -> Result<Load, String> {
    let mut command = pinned(LOAD_CORE);
    command.arg(&setup.bare).args(["blast", &server.to_string()]).arg(file).args(options);
    let text = output(command)?;
    parse_blast(&text).ok_or_else(|| format!("blast said: {text}"))
}

fn dnsperf(questions: &Questions<'_>) -> Result<Load, String> {
    let (address, port) = (questions.server.ip().to_string(), questions.server.port().to_string());
    let is_tcp = questions.transport == Transport::Tcp;
    let (mode, clients) = if is_tcp { ("tcp", "10") } else { ("udp", "20") };
    let limit = match questions.pace {
        Pace::Window { secs } | Pace::Rate { secs, .. } => ["-l".to_owned(), secs.to_string()],
        // The file holds each name once.
        Pace::Count { .. } | Pace::Lines { .. } => ["-n".to_owned(), "1".to_owned()],
    };
    let mut command = pinned(LOAD_CORE);
    command.arg(find("dnsperf").ok_or("dnsperf is not installed")?);
    command.args([
        "-s",
        &address,
        "-p",
        &port,
        "-m",
        mode,
        "-c",
        clients,
        "-T",
        "1",
        "-q",
        &WINDOW.to_string(),
    ]);
    command.args(["-t", "2"]);
    if let Pace::Rate { per_sec, .. } = questions.pace {
        command.args(["-Q", &per_sec.to_string()]);
    }
    command.arg("-d").arg(questions.file).args(limit);
    command.args(match questions.transport {
        Transport::UdpWithOpt => Some("-e"),
        Transport::UdpWithDo => Some("-D"),
        Transport::Udp | Transport::Tcp => None,
    });
    let text = output(command)?;
    parse_dnsperf(&text).ok_or_else(|| format!("dnsperf said: {text}"))
}

fn avocet(setup: &Setup, questions: &Questions<'_>) -> Result<Load, String> {
    let is_tcp = questions.transport == Transport::Tcp;
    let (transport, clients) = if is_tcp { ("tcp", "10") } else { ("udp", "20") };
    let mut command = pinned(LOAD_CORE);
    command.arg(&setup.avocet).args([
        "load",
        &questions.server.to_string(),
        "--scenario",
        "replay",
        "--names",
    ]);
    command
        .arg(questions.file)
        .args(["--transport", transport, "--clients", clients])
        .args(words_of(questions.pace).split(' '));
    command.args(["--quiet", "--json", "-", "--i-own-this-server"]);
    // The workload, not the generator, judges the answers.
    command.args(["--max-loss", "100%", "--allow", "truncated,empty,trailing,long,duplicate"]);
    match questions.transport {
        Transport::UdpWithOpt => drop(command.args(["--edns", "4096"])),
        Transport::UdpWithDo => drop(command.args(["--edns", "4096", "--dnssec"])),
        Transport::Udp | Transport::Tcp => {}
    }
    let text = output(command)?;
    parse_avocet(&text).ok_or_else(|| format!("avocet load said: {text}"))
}

/// Returns the options of `avocet load` for a pace.
pub(super) fn words_of(pace: Pace) -> String {
    match pace {
        Pace::Window { secs } => format!("--window {WINDOW} --duration {secs}s"),
        Pace::Count { count, window } => {
            format!("--window {window} --count {count} --duration {CACHING_SECS}s")
        }
        Pace::Lines { lines } => {
            format!("--window {WINDOW} --count {lines} --duration {CACHING_SECS}s")
        }
        Pace::Rate { per_sec, secs } => format!("--rate {per_sec} --duration {secs}s"),
    }
}

/// Runs a command and returns its output.
///
/// # Errors
///
/// The command fails.
pub(crate) fn output(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(format!(
        "{command:?}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// Runs `avocet load` and returns its output, even if it finds faults. The workload judges the
/// faults.
///
/// # Errors
///
/// Nothing could be measured.
pub(super) fn output_of_check(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if matches!(output.status.code(), Some(0 | 1)) {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Parses the line of `key=value` pairs that blast prints.
pub(super) fn parse_blast(text: &str) -> Option<Load> {
    let value = |key: &str| {
        text.split_whitespace().find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
    };
    let count = |key: &str| value(key)?.parse::<u64>().ok();
    let micros = |key: &str| count(key).map(|micros| micros as f64);
    let latency =
        Latency { p50_us: micros("p50us")?, p99_us: micros("p99us")?, p999_us: micros("p999us")? };
    let rcodes = [("NOERROR", "noerror"), ("NXDOMAIN", "nxdomain"), ("other", "other")];
    let rcodes = rcodes.into_iter().map(|(name, key)| Some((name.to_owned(), count(key)?)));
    Some(Load {
        answered: count("received")?,
        lost: count("lost")?,
        per_sec: value("qps")?.parse().ok()?,
        rcodes: rcodes.collect::<Option<_>>()?,
        empty: count("empty")?,
        latency: Some(latency),
        ..Load::default()
    })
}

/// Parses the result of `avocet load --json`.
pub(super) fn parse_avocet(text: &str) -> Option<Load> {
    let result: Value = serde_json::from_str(text).ok()?;
    let outcome = &result["outcome"];
    let rcodes = outcome["rcodes"].as_object()?.iter();
    let latency = parse_latency(&result["latency"])?;
    Some(Load {
        answered: outcome["answered"].as_u64()?,
        lost: outcome["lost"].as_u64()?,
        per_sec: outcome["answered_per_sec"].as_f64()?,
        rcodes: rcodes
            .map(|(name, count)| Some((name.clone(), count.as_u64()?)))
            .collect::<Option<_>>()?,
        empty: outcome["empty"].as_u64()?,
        latency: result["pace"]["open_loop"].as_bool()?.then_some(latency),
        mean_us: result["latency"]["mean_ns"].as_f64().map(|nanos| nanos / 1000.0),
        ..Load::default()
    })
}

/// Checks whether `avocet load --json` found faults in the answers, apart from their RCODEs.
///
/// # Errors
///
/// Answers are wrong. The error shows some of them.
pub(super) fn judge_records(text: &str) -> Result<(), String> {
    let result: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let count = |kind: &str| result["outcome"]["wrong"][kind].as_u64();
    match count("total").zip(count("rcode")) {
        Some((total, rcode)) if total == rcode => Ok(()),
        _ => Err(format!("wrong answers: {}", result["examples"])),
    }
}

/// Parses the percentiles of `avocet load --json`, which are in nanoseconds.
pub(super) fn parse_latency(value: &Value) -> Option<Latency> {
    let micros = |key: &str| Some(value[key].as_f64()? / 1000.0);
    Some(Latency {
        p50_us: micros("p50_ns")?,
        p99_us: micros("p99_ns")?,
        p999_us: micros("p999_ns")?,
    })
}

/// Parses the statistics that dnsperf prints at the end of a run.
fn parse_dnsperf(text: &str) -> Option<Load> {
    let value =
        |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
    let first = |label: &str| value(label)?.split_whitespace().next();
    let rcode = |part: &str| {
        let mut words = part.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    };
    Some(Load {
        answered: first("Queries completed:")?.parse().ok()?,
        lost: first("Queries lost:")?.parse().ok()?,
        per_sec: first("Queries per second:")?.parse().ok()?,
        rcodes: value("Response codes:").unwrap_or_default().split(',').filter_map(rcode).collect(),
        mean_us: first("Average Latency (s):")
            .and_then(|secs| Some(secs.parse::<f64>().ok()? * 1e6)),
        ..Load::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_servers_get_the_same_queries_or_the_same_time() {
        let check = |workload, pace| assert_eq!(timed_pace(workload, 2), pace, "{workload:?}");
        check(Workload::Zipf, Pace::Lines { lines: 300_000 });
        check(Workload::Hot, Pace::Window { secs: 2 });
        check(Workload::Latency, Pace::Rate { per_sec: 20_000, secs: 2 });
        check(Workload::HitSteady, Pace::Rate { per_sec: 20_000, secs: 3 });
        check(Workload::HitSlow, Pace::Rate { per_sec: 5_000, secs: 12 });
    }

    #[test]
    fn the_line_of_blast_is_read() {
        let line = "secs=1.000 qps=1000 sent=1000 received=999 lost=1 noerror=990 nxdomain=5 \
                    other=4 empty=2 p50us=1 p99us=2 p999us=3";
        let load = parse_blast(line).unwrap();
        assert_eq!((load.answered, load.lost, load.empty), (999, 1, 2));
        assert_eq!(load.latency, Some(Latency { p50_us: 1.0, p99_us: 2.0, p999_us: 3.0 }));
        assert_eq!(
            (load.with_rcode("NOERROR"), load.with_rcode("NXDOMAIN"), load.with_rcode("other")),
            (990, 5, 4)
        );
    }

    #[test]
    fn the_result_of_avocet_load_is_read() {
        let result = serde_json::json!({
            "pace": { "open_loop": true },
            "outcome": {
                "answered": 998, "lost": 2, "answered_per_sec": 99.8, "empty": 1,
                "rcodes": { "NOERROR": 990, "NXDOMAIN": 8 },
            },
            "latency": {
                "mean_ns": 31_500.0, "p50_ns": 30_000, "p99_ns": 60_000, "p999_ns": 90_500,
            },
        });
        let load = parse_avocet(&result.to_string()).unwrap();
        assert_eq!(
            (load.answered, load.lost, load.empty, load.with_rcode("NXDOMAIN")),
            (998, 2, 1, 8)
        );
        assert_eq!(load.latency, Some(Latency { p50_us: 30.0, p99_us: 60.0, p999_us: 90.5 }));
        assert_eq!(load.mean_us, Some(31.5));
        assert_eq!(parse_avocet("{}"), None);
    }

    #[test]
    fn wrong_records_are_refused() {
        let result = |total, rcode| {
            let wrong = serde_json::json!({ "total": total, "rcode": rcode });
            let outcome = serde_json::json!({ "wrong": wrong });
            serde_json::json!({ "outcome": outcome, "examples": ["a.test. A"] }).to_string()
        };
        assert_eq!(judge_records(&result(3, 3)), Ok(()));
        assert!(judge_records(&result(4, 3)).unwrap_err().contains("a.test."));
        assert!(judge_records("{}").is_err());
    }

    #[test]
    fn the_statistics_of_dnsperf_are_read() {
        let text = "Statistics:\n\n  Queries sent:         1000\n  Queries completed:    998 \
                    (99.80%)\n  Queries lost:         2 (0.20%)\n\n  Response codes:       \
                    NOERROR 900 (90.18%), NXDOMAIN 98 (9.82%)\n  Run time (s):         1.0\n  \
                    Queries per second:   998.5\n\n  Average Latency (s):  0.000250 (min \
                    0.000100, max 0.001000)\n";
        let load = parse_dnsperf(text).unwrap();
        assert_eq!((load.answered, load.lost), (998, 2));
        assert_eq!(load.rcodes, [("NOERROR".to_owned(), 900), ("NXDOMAIN".to_owned(), 98)]);
        assert!((load.per_sec - 998.5).abs() < 0.01);
        assert!(load.mean_us.is_some_and(|mean_us| (mean_us - 250.0).abs() < 0.01));
        assert_eq!(parse_dnsperf("usage: dnsperf"), None);
    }
}
