//! The results of a run: the output of `--json`, and the input of text, charts and comparisons.
//!
//! `docs/manual/load.md` explains the fields. Adding a field does not change [`FORMAT`]; removing
//! one or changing its meaning does.

pub(crate) mod chart;
pub(crate) mod checks;
pub(crate) mod compare;
pub(crate) mod html;
pub(crate) mod text;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{LoadArgs, Scenario};
use crate::check::{Depth, Wrong};
use crate::drive::ramp::Ramp;
use crate::drive::tally::rcode_name;
use crate::drive::{Carrier, Connections, Counts, Flow, Latencies};
use crate::error::LoadError;

/// The value of `format` in files of this form.
pub const FORMAT: &str = "avocet-load/2";

/// Maximum number of octets of a results file.
const MAX_FILE: u64 = 64 << 20;

/// The results of one run.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// `avocet-load/2`.
    pub format: String,
    /// Version of the generator.
    pub version: String,
    /// The command line as it was given.
    pub command_line: Vec<String>,
    /// The seed of all random choices.
    pub seed: u64,
    /// Time at which the run started, in seconds since 1970.
    pub started_unix_secs: u64,
    /// The machine on which the run took place.
    pub machine: Machine,
    /// The server under test.
    pub server: Server,
    /// The scenario.
    pub scenario: Scenario,
    /// The pace of the queries: an open or a closed loop.
    pub pace: PaceReport,
    /// The depth of the checks of answers.
    pub check: Depth,
    /// The checks that were made, in words.
    pub checked: Vec<String>,
    /// The checks that were not made, in words.
    pub unchecked: Vec<String>,
    /// Duration of the queries, in seconds.
    pub asked_secs: f64,
    /// The outcome of all queries.
    pub outcome: Outcome,
    /// Latency of all flows that wait for answers.
    pub latency: Latency,
    /// The TLS handshakes; only over encrypted transports.
    #[serde(default)]
    pub tls: Option<TlsReport>,
    /// A report for each kind of queries.
    pub flows: Vec<FlowReport>,
    /// CPU time of the server per answer; only with `--pid`.
    pub server_cpu: Option<Cpu>,
    /// CPU time of the generator per answer.
    pub generator_cpu: Option<Cpu>,
    /// Memory of the server; only with `--pid`.
    pub memory: Option<Memory>,
    /// The change of latency during the run.
    pub drift: Option<Drift>,
    /// The figures of each interval of the run.
    pub series: Vec<Sample>,
    /// The search for the highest rate; with `--ramp`. The rest of the report describes a run at
    /// that rate.
    pub ramp: Option<Ramp>,
    /// Whether the run has no faults.
    pub passed: bool,
    /// The faults, in words.
    pub faults: Vec<String>,
    /// Remarks that are needed to interpret the figures.
    pub remarks: Vec<String>,
    /// The first wrong answers, in words.
    pub examples: Vec<String>,
}

/// The handshakes of a run over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsReport {
    /// How long clients kept a connection.
    pub connections: Connections,
    /// Full handshakes.
    pub full: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Connections that ended before the end of the handshake.
    pub failed: u64,
    /// Completed handshakes per second, full and resumed.
    pub handshakes_per_sec: f64,
}

impl TlsReport {
    /// Adds up the handshakes of all flows. Returns `None` without TLS.
    pub(crate) fn of(flows: &[Flow], args: &LoadArgs, secs: f64) -> Option<Self> {
        let mut counts = Counts::default();
        flows.iter().for_each(|flow| counts.add(&flow.tally.counts));
        let [full, resumed, failed] = counts.handshakes;
        let handshakes_per_sec = if secs > 0.0 { (full + resumed) as f64 / secs } else { 0.0 };
        args.transport.is_encrypted().then_some(Self {
            connections: args.connections,
            full,
            resumed,
            failed,
            handshakes_per_sec,
        })
    }
}

/// The machine on which the generator ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Processors that are online.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Release of the kernel.
    pub kernel: String,
}

/// The server that was driven.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// Address and port.
    pub address: String,
    /// The transport.
    pub transport: Carrier,
    /// The server's answer to `version.bind` in class CH.
    pub version: Option<String>,
    /// The process of the server, with `--pid`.
    pub pid: Option<u32>,
    /// The name of the server's process.
    pub process: Option<String>,
}

/// The distribution of queries over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaceReport {
    /// Whether the loop is open. Latency counts from the time at which a query was due in an open
    /// loop, and from the time at which it was sent in a closed loop.
    pub open_loop: bool,
    /// Queries per second that were due; only in an open loop.
    pub rate: Option<f64>,
    /// Queries in flight; only in a closed loop.
    pub window: Option<usize>,
    /// Number of clients.
    pub clients: usize,
}

/// The counts of one flow, or of all flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Queries sent.
    pub sent: u64,
    /// Queries answered in time, with right or wrong answers.
    pub answered: u64,
    /// Queries not answered in time.
    pub lost: u64,
    /// Queries lost after the last one that was answered.
    pub lost_at_end: u64,
    /// Share of the queries that was lost, 0 to 1.
    pub loss: f64,
    /// Queries sent per second.
    pub sent_per_sec: f64,
    /// Queries answered per second.
    pub answered_per_sec: f64,
    /// Answers that arrived after the generator gave up their query.
    pub late: u64,
    /// Answers to queries that were already answered.
    pub duplicate: u64,
    /// Truncated answers.
    pub truncated: u64,
    /// Queries that were repeated over TCP.
    pub retried_over_tcp: u64,
    /// NOERROR without a record in the answer section.
    pub empty: u64,
    /// Connections closed by the server while queries waited for answers.
    pub disconnects: u64,
    /// Errors of sending and receiving.
    pub errors: u64,
    /// Wrong answers.
    pub wrong: WrongReport,
    /// Answers by the RCODE in the header.
    pub rcodes: BTreeMap<String, u64>,
}

/// Wrong answers by problem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WrongReport {
    /// The number of all wrong answers.
    pub total: u64,
    /// Messages that are not responses, or that are malformed.
    pub malformed: u64,
    /// Answers with an ID that no query had.
    pub id: u64,
    /// Answers with another question than the query.
    pub question: u64,
    /// Answers with an unexpected RCODE.
    pub rcode: u64,
    /// Answers with unexpected records.
    pub records: u64,
    /// Answers with a record of another class than the question.
    pub class: u64,
    /// Answers with octets after the last record.
    pub trailing: u64,
    /// Answers over UDP that are longer than the client permits.
    pub long: u64,
    /// Truncated answers that the scenario does not expect.
    pub truncated: u64,
    /// Answers with NOERROR and no record that the scenario does not expect.
    pub empty: u64,
}

/// A kind of events: its name, and the function that returns its count.
type Kind<T> = (&'static str, fn(&T) -> u64);

impl WrongReport {
    /// The kinds of wrong answers.
    pub(crate) const KINDS: [Kind<Self>; 10] = [
        ("unreadable", |wrong| wrong.malformed),
        ("with an unknown ID", |wrong| wrong.id),
        ("with another question", |wrong| wrong.question),
        ("with another RCODE", |wrong| wrong.rcode),
        ("with other records", |wrong| wrong.records),
        ("with another class", |wrong| wrong.class),
        ("with trailing octets", |wrong| wrong.trailing),
        ("too long for UDP", |wrong| wrong.long),
        ("truncated without need", |wrong| wrong.truncated),
        ("empty without reason", |wrong| wrong.empty),
    ];
}

impl Outcome {
    /// Other events of queries and answers.
    pub(crate) const OTHERS: [Kind<Self>; 7] = [
        ("truncated", |outcome| outcome.truncated),
        ("repeated over TCP", |outcome| outcome.retried_over_tcp),
        ("without records", |outcome| outcome.empty),
        ("late", |outcome| outcome.late),
        ("duplicate", |outcome| outcome.duplicate),
        ("disconnects", |outcome| outcome.disconnects),
        ("errors", |outcome| outcome.errors),
    ];
}

/// Latencies of all queries in nanoseconds. Latencies of lost queries are at least the timeout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// 99.99th percentile.
    pub p9999_ns: u64,
    /// The longest latency.
    pub max_ns: u64,
    /// Points of the latency curve: shares of the queries, each with the highest latency within it.
    pub curve: Vec<(f64, u64)>,
}

/// The results of one kind of queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowReport {
    /// The name of the flow.
    pub name: String,
    /// The outcome of its queries.
    pub outcome: Outcome,
    /// The latency of its queries.
    pub latency: Latency,
}

/// CPU time of a process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// User time per answer, in microseconds.
    pub user_us: f64,
    /// System time per answer, in microseconds.
    pub system_us: f64,
    /// User and system time per answer, in microseconds.
    pub total_us: f64,
    /// Number of cores that were busy on average.
    pub cores: f64,
}

/// Resident memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// The memory at the start, in bytes.
    pub start_bytes: u64,
    /// The memory at the end, in bytes.
    pub end_bytes: u64,
    /// The highest reading, in bytes.
    pub peak_bytes: u64,
    /// Slope over the second half of the run, in bytes per second.
    pub drift_bytes_per_sec: f64,
}

/// The change of latency in the course of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// Median of the intervals' 99th percentiles in the second quarter of the run, in nanoseconds.
    pub early_p99_ns: u64,
    /// Median of the intervals' 99th percentiles in the last quarter of the run, in nanoseconds.
    pub late_p99_ns: u64,
}

/// The figures of one interval of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// End of the interval, in seconds from the start of the run.
    pub secs: f64,
    /// Queries sent per second.
    pub sent_per_sec: f64,
    /// Answers per second.
    pub answered_per_sec: f64,
    /// Number of queries lost.
    pub lost: u64,
    /// Median latency.
    pub p50_ns: u64,
    /// 99th percentile of latency.
    pub p99_ns: u64,
    /// Number of cores that the server used.
    pub server_cores: Option<f64>,
    /// Resident memory of the server.
    pub server_bytes: Option<u64>,
}

impl Outcome {
    pub(crate) fn of(counts: &Counts, secs: f64) -> Self {
        let per_sec = |count: u64| if secs > 0.0 { count as f64 / secs } else { 0.0 };
        let wrong = counts.wrong;
        let seen = counts.rcodes.iter().enumerate().filter(|(_, count)| **count > 0);
        Self {
            sent: counts.sent,
            answered: counts.answered,
            lost: counts.lost,
            lost_at_end: counts.lost_at_end,
            loss: counts.loss(),
            sent_per_sec: per_sec(counts.sent),
            answered_per_sec: per_sec(counts.answered),
            late: counts.late,
            duplicate: counts.duplicate,
            truncated: counts.truncated,
            retried_over_tcp: counts.retried,
            empty: counts.empty,
            disconnects: counts.disconnects,
            errors: counts.errors,
            wrong: WrongReport {
                total: wrong.sum(),
                malformed: wrong.of(Wrong::Malformed),
                id: wrong.of(Wrong::Id),
                question: wrong.of(Wrong::Question),
                rcode: wrong.of(Wrong::Rcode),
                records: wrong.of(Wrong::Answer),
                class: wrong.of(Wrong::Class),
                trailing: wrong.of(Wrong::Trailing),
                long: wrong.of(Wrong::Long),
                truncated: wrong.of(Wrong::Truncated),
                empty: wrong.of(Wrong::Empty),
            },
            rcodes: seen.map(|(rcode, count)| (rcode_name(rcode), *count)).collect(),
        }
    }
}

impl Latency {
    pub(crate) fn of(latencies: &Latencies) -> Self {
        if latencies.len() == 0 {
            return Self::default();
        }
        let curve = curve_shares().map(|share| (share, latencies.at(share))).collect();
        Self {
            mean_ns: latencies.mean(),
            p50_ns: latencies.at(0.5),
            p90_ns: latencies.at(0.9),
            p99_ns: latencies.at(0.99),
            p999_ns: latencies.at(0.999),
            p9999_ns: latencies.at(0.9999),
            max_ns: latencies.max(),
            curve,
        }
    }
}

/// Returns the shares at which the curve has points. Five points halve the share of the remaining
/// queries; after the last point, one query in a million remains.
fn curve_shares() -> impl Iterator<Item = f64> {
    const LAST: i32 = 100;
    (0..=LAST).map(|step| 1.0 - 2f64.powf(-f64::from(step) / 5.0))
}

impl Report {
    /// Reads the results written by an earlier run.
    ///
    /// # Errors
    /// The file cannot be read, is too large, or does not contain results.
    pub fn read(path: &Path) -> Result<Self, LoadError> {
        Self::read_whole(path).map_err(LoadError::in_file(path))
    }

    fn read_whole(path: &Path) -> Result<Self, LoadError> {
        if fs::metadata(path)?.len() > MAX_FILE {
            return Err(LoadError::LargeResults);
        }
        let report: Self = serde_json::from_str(&fs::read_to_string(path)?)?;
        if report.format != FORMAT {
            return Err(LoadError::ResultsFormat { found: report.format, known: FORMAT });
        }
        Ok(report)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::LazyLock;

    /// Returns the report of a closed loop that passed. The percentiles are computed once.
    pub(crate) fn report() -> Report {
        static REPORT: LazyLock<Report> = LazyLock::new(passed);
        REPORT.clone()
    }

    fn passed() -> Report {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|micros| latencies.record(micros * 1000));
        let counts = Counts { sent: 1000, answered: 1000, ..Counts::default() };
        let cpu = Cpu { user_us: 0.5, system_us: 1.5, total_us: 2.0, cores: 0.2 };
        let sample = Sample {
            sent_per_sec: 100.0,
            answered_per_sec: 100.0,
            p99_ns: 990_000,
            ..Sample::default()
        };
        let series = (1..=10)
            .map(|i| Sample { secs: f64::from(i), server_cores: Some(0.2), ..sample })
            .collect();
        Report {
            format: FORMAT.to_owned(),
            version: "0".to_owned(),
            command_line: vec!["avocet".to_owned(), "load".to_owned()],
            seed: 1,
            started_unix_secs: 0,
            machine: Machine::default(),
            server: Server {
                address: "127.0.0.1:53".to_owned(),
                transport: Carrier::Udp,
                version: None,
                pid: None,
                process: Some("avocet".to_owned()),
            },
            scenario: Scenario::Hit,
            pace: PaceReport { open_loop: false, rate: None, window: Some(100), clients: 16 },
            check: Depth::Question,
            checked: Vec::new(),
            unchecked: Vec::new(),
            asked_secs: 10.0,
            outcome: Outcome::of(&counts, 10.0),
            latency: Latency::of(&latencies),
            tls: None,
            flows: Vec::new(),
            server_cpu: Some(cpu),
            generator_cpu: Some(cpu),
            memory: None,
            drift: None,
            series,
            ramp: None,
            passed: true,
            faults: Vec::new(),
            remarks: Vec::new(),
            examples: Vec::new(),
        }
    }

    #[test]
    fn results_survive_their_file() {
        let text = serde_json::to_string(&report()).unwrap();
        let back: Report = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (back.outcome, back.latency.p99_ns),
            (report().outcome, report().latency.p99_ns)
        );
    }

    #[test]
    fn the_curve_rises_to_the_longest() {
        let latency = report().latency;
        assert!(latency.curve.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1));
        assert_eq!(latency.curve.last().unwrap().1, latency.max_ns);
    }

    #[test]
    fn the_text_names_what_counts() {
        let mut run = report();
        run.outcome.wrong.total = 3;
        run.faults = vec!["x".to_owned()];
        let text = text::write(&run);
        for wanted in [
            "server CPU       2.000 us per answer",
            "100/s",
            "P99.99",
            "3 wrong",
            "FAILED           x",
        ] {
            assert!(text.replace("100 answers/s", "100/s").contains(wanted), "{wanted}: {text}");
        }
    }
}
