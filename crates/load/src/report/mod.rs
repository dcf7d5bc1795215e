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

/// The results of one run of `avocet load`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The format of this file: `avocet-load/2`.
    pub format: String,
    /// The version of the generator, which is the version of Avocet.
    pub version: String,
    /// The command line of the run.
    pub command_line: Vec<String>,
    /// The seed of all random choices.
    pub seed: u64,
    /// The time at which the run started, in seconds since 1970.
    pub started_unix_secs: u64,
    /// The machine on which the run took place.
    pub machine: Machine,
    /// The server under test.
    pub server: Server,
    /// The scenario: the kind of queries.
    pub scenario: Scenario,
    /// How the generator determined the times of the queries: in an open or a closed loop.
    pub pace: PaceReport,
    /// The depth of the checks: what makes a response right.
    pub check: Depth,
    /// The checks that the generator made, in words.
    pub checked: Vec<String>,
    /// The checks that the generator did not make, in words.
    pub unchecked: Vec<String>,
    /// The time in seconds during which the generator sent queries.
    pub asked_secs: f64,
    /// The numbers of queries and responses by result, for all queries together.
    pub outcome: Outcome,
    /// The latency of all queries, without flows that do not wait for responses, such as damaged
    /// packets.
    pub latency: Latency,
    /// The numbers of TLS handshakes; only for encrypted transports.
    #[serde(default)]
    pub tls: Option<TlsReport>,
    /// The results of each kind of queries.
    pub flows: Vec<FlowReport>,
    /// The CPU time of the server per response; only if its process is known.
    pub server_cpu: Option<Cpu>,
    /// The CPU time of the generator per response.
    pub generator_cpu: Option<Cpu>,
    /// The memory of the server; only if its process is known.
    pub memory: Option<Memory>,
    /// The 99th percentile of latency early and late in the run.
    pub drift: Option<Drift>,
    /// The figures of each interval of the run, in order.
    pub series: Vec<Sample>,
    /// The search for the highest rate; only with a search. The rest of the report describes its
    /// last run.
    pub ramp: Option<Ramp>,
    /// Whether the run passed: it has no faults.
    pub passed: bool,
    /// The faults in words. If there is a fault, the run has failed.
    pub faults: Vec<String>,
    /// Remarks that are necessary to interpret the figures, in words.
    pub remarks: Vec<String>,
    /// The first wrong responses of each kind, in words.
    pub examples: Vec<String>,
}

/// The handshakes of a run over an encrypted transport.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsReport {
    /// How long clients kept a connection.
    pub connections: Connections,
    /// The number of full handshakes.
    pub full: u64,
    /// The number of handshakes that resumed an earlier session.
    pub resumed: u64,
    /// The number of connections that ended before the handshake was complete.
    pub failed: u64,
    /// The number of completed handshakes per second, full and resumed.
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
    /// The model of the processor.
    pub cpu: String,
    /// The number of processors that are online.
    pub cpus: usize,
    /// The memory of the machine in octets.
    pub memory_bytes: u64,
    /// The release of the kernel.
    pub kernel: String,
}

/// The server under test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// The address and port of the server.
    pub address: String,
    /// The transport of the queries.
    pub transport: Carrier,
    /// The answer of the server to a query for `version.bind` in class CH; null if it has none.
    pub version: Option<String>,
    /// The process ID of the server, if it is known.
    pub pid: Option<u32>,
    /// The name of the process of the server, if it is known.
    pub process: Option<String>,
}

/// How the generator determined the times of the queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaceReport {
    /// Whether the loop is open. In an open loop, the generator sends queries at fixed times, and
    /// latency counts from the time at which a query was due. In a closed loop, it sends the next
    /// query when a response arrives, and latency counts from the time at which the query was sent.
    pub open_loop: bool,
    /// The number of queries per second that were due; only in an open loop.
    pub rate: Option<f64>,
    /// The number of queries in flight; only in a closed loop.
    pub window: Option<usize>,
    /// The number of clients.
    pub clients: usize,
}

/// The numbers of queries and responses by result, for one kind of queries or for all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The number of queries that the generator sent.
    pub sent: u64,
    /// The number of queries with a response within the timeout, right or wrong.
    pub answered: u64,
    /// The number of queries without a response within the timeout.
    pub lost: u64,
    /// The number of lost queries after the last query with a response.
    pub lost_at_end: u64,
    /// The share of the queries that were lost, from 0 to 1.
    pub loss: f64,
    /// The number of queries that were sent per second.
    pub sent_per_sec: f64,
    /// The number of queries per second that got a response within the timeout.
    pub answered_per_sec: f64,
    /// The number of responses that arrived after the timeout of their query.
    pub late: u64,
    /// The number of further responses to queries that already had a response.
    pub duplicate: u64,
    /// The number of truncated responses.
    pub truncated: u64,
    /// The number of queries that the generator repeated over TCP.
    pub retried_over_tcp: u64,
    /// The number of responses with NOERROR and no record in the answer section.
    pub empty: u64,
    /// The number of connections that the server closed while queries waited for responses.
    pub disconnects: u64,
    /// The number of errors when the generator sent or received packets.
    pub errors: u64,
    /// The numbers of wrong responses by problem.
    pub wrong: WrongReport,
    /// The number of responses by RCODE. Only the RCODE in the header counts, without extended
    /// bits.
    pub rcodes: BTreeMap<String, u64>,
}

/// The numbers of wrong responses, by problem.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WrongReport {
    /// The number of all wrong responses.
    pub total: u64,
    /// Messages that are malformed or are no responses.
    pub malformed: u64,
    /// Responses with an ID that belongs to no query.
    pub id: u64,
    /// Responses with another question than the query.
    pub question: u64,
    /// Responses with an unexpected RCODE.
    pub rcode: u64,
    /// Responses with other records than the zone file or the reference server.
    pub records: u64,
    /// Responses with a record of another class than the question.
    pub class: u64,
    /// Responses with octets after the last record.
    pub trailing: u64,
    /// Responses over UDP with more octets than the query permits.
    pub long: u64,
    /// Truncated responses that the scenario does not expect.
    pub truncated: u64,
    /// Responses with NOERROR and no record that the scenario does not expect.
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

/// The distribution of the latencies. A lost query counts with at least the timeout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The mean latency in nanoseconds.
    pub mean_ns: f64,
    /// The median of the latency in nanoseconds.
    pub p50_ns: u64,
    /// The 90th percentile of the latency in nanoseconds.
    pub p90_ns: u64,
    /// The 99th percentile of the latency in nanoseconds.
    pub p99_ns: u64,
    /// The 99.9th percentile of the latency in nanoseconds.
    pub p999_ns: u64,
    /// The 99.99th percentile of the latency in nanoseconds.
    pub p9999_ns: u64,
    /// The highest latency in nanoseconds.
    pub max_ns: u64,
    /// The points of a curve. Each point has a share of the queries, from 0 to 1, and the latency
    /// in nanoseconds within which this share got a response.
    pub curve: Vec<(f64, u64)>,
}

/// The results of one kind of queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowReport {
    /// The name of the kind of queries.
    pub name: String,
    /// The numbers of queries and responses by result.
    pub outcome: Outcome,
    /// The distribution of the latencies.
    pub latency: Latency,
}

/// The CPU time of a process, per response.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// The CPU time in user mode per response, in microseconds.
    pub user_us: f64,
    /// The CPU time in the kernel per response, in microseconds.
    pub system_us: f64,
    /// The sum of both CPU times per response, in microseconds.
    pub total_us: f64,
    /// The number of CPU cores that the process used on average.
    pub cores: f64,
}

/// The memory of a process that is in RAM, in the course of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// The memory at the start of the run, in octets.
    pub start_bytes: u64,
    /// The memory at the end of the run, in octets.
    pub end_bytes: u64,
    /// The highest memory that was measured, in octets.
    pub peak_bytes: u64,
    /// The growth of the memory in the second half of the run, in octets per second.
    pub drift_bytes_per_sec: f64,
}

/// The change of the latency in the course of a run. For each interval of the run, the 99th
/// percentile is computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// The median of these percentiles in the second quarter of the run, in nanoseconds.
    pub early_p99_ns: u64,
    /// The median of these percentiles in the last quarter of the run, in nanoseconds.
    pub late_p99_ns: u64,
}

/// The figures of one interval of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// The end of the interval, in seconds from the start of the run.
    pub secs: f64,
    /// The number of queries that were sent per second.
    pub sent_per_sec: f64,
    /// The number of responses per second.
    pub answered_per_sec: f64,
    /// The number of queries that were lost.
    pub lost: u64,
    /// The median of the latency, in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile of the latency, in nanoseconds.
    pub p99_ns: u64,
    /// The number of CPU cores that the server used; null if its process is not known.
    pub server_cores: Option<f64>,
    /// The memory of the server in octets; null if its process is not known.
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
