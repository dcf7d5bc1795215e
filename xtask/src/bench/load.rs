//! The generators and what they report.

use std::path::Path;
use std::process::Command;

use super::process::LOAD_CORE;
use super::setup::Setup;
use super::workload::Workload;

/// Which program asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generator {
    /// The field's own, with its figures.
    Dnsperf,
    /// Ours: batches of datagrams, UDP only.
    Blast,
}

impl Generator {
    pub(super) fn named(name: &str) -> Result<Self, String> {
        match name {
            "dnsperf" => Ok(Self::Dnsperf),
            "blast" => Ok(Self::Blast),
            unknown => Err(format!("there is no generator `{unknown}`")),
        }
    }
}

/// What came of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Load {
    pub(super) answered: u64,
    pub(super) lost: u64,
    pub(super) per_sec: f64,
    /// Answers by the name of their RCODE.
    pub(super) rcodes: Vec<(String, u64)>,
    /// NOERROR answers without a record, where the generator looks.
    pub(super) empty: u64,
}

impl Load {
    pub(super) fn with_rcode(&self, name: &str) -> u64 {
        self.rcodes.iter().filter(|(rcode, _)| rcode == name).map(|(_, count)| count).sum()
    }
}

/// Asks for the seconds given and returns what was answered.
pub(super) fn timed(setup: &Setup, workload: Workload, generator: Generator, secs: u64) -> Result<Load, String> {
    let secs = secs.to_string();
    let edns = workload == Workload::HotEdns;
    match generator {
        Generator::Blast if workload != Workload::Tcp => {
            let options: &[&str] = if edns { &["--secs", &secs, "--edns"] } else { &["--secs", &secs] };
            blast(setup, setup.queries(workload), options)
        }
        _ => {
            let (mode, clients) = if workload == Workload::Tcp { ("tcp", "10") } else { ("udp", "20") };
            let mut options = vec!["-m", mode, "-c", clients, "-l", &secs];
            options.extend(edns.then_some("-e"));
            dnsperf(setup, setup.queries(workload), &options)
        }
    }
}

/// Asks for each hot name once, in the way the workload will.
pub(super) fn warm_up(setup: &Setup, workload: Workload) -> Result<Load, String> {
    let file = setup.queries(workload);
    let count = super::material::HOT_NAMES.to_string();
    match workload {
        Workload::Tcp => dnsperf(setup, file, &["-m", "tcp", "-c", "10", "-n", "1"]),
        Workload::HotEdns => blast(setup, file, &["--count", &count, "--window", "48", "--edns"]),
        _ => blast(setup, file, &["--count", &count, "--window", "48"]),
    }
}

/// Runs our own generator on the core of the load.
pub(super) fn blast(setup: &Setup, file: &Path, options: &[&str]) -> Result<Load, String> {
    let port = setup.port.to_string();
    let mut command = on_load_core();
    command.arg(&setup.bare).args(["blast", &port]).arg(file).args(options);
    let text = output(command)?;
    parse_blast(&text).ok_or_else(|| format!("blast said: {text}"))
}

fn dnsperf(setup: &Setup, file: &Path, options: &[&str]) -> Result<Load, String> {
    let port = setup.port.to_string();
    let mut command = on_load_core();
    command.args(["dnsperf", "-s", "127.0.0.1", "-p", &port, "-T", "1", "-q", "100", "-t", "2", "-d"]);
    command.arg(file).args(options);
    let text = output(command)?;
    parse_dnsperf(&text).ok_or_else(|| format!("dnsperf said: {text}"))
}

fn on_load_core() -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CORE]);
    command
}

/// Runs a command to its end and returns what it printed; an error if it failed.
pub(crate) fn output(mut command: Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(format!("{command:?}: {}\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// Reads the line of `key=value` pairs.
fn parse_blast(text: &str) -> Option<Load> {
    let value = |key: &str| text.split_whitespace().find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='));
    let count = |key: &str| value(key)?.parse::<u64>().ok();
    let rcodes = [("NOERROR", "noerror"), ("NXDOMAIN", "nxdomain"), ("other", "other")];
    let rcodes = rcodes.into_iter().map(|(name, key)| Some((name.to_owned(), count(key)?)));
    Some(Load {
        answered: count("received")?,
        lost: count("lost")?,
        per_sec: value("qps")?.parse().ok()?,
        rcodes: rcodes.collect::<Option<_>>()?,
        empty: count("empty")?,
    })
}

/// Reads the statistics at the end of a run.
fn parse_dnsperf(text: &str) -> Option<Load> {
    let value = |label: &str| text.lines().find_map(|line| line.trim().strip_prefix(label)).map(str::trim);
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
        empty: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_blast_is_read() {
        let line = "secs=1.000 qps=1000 sent=1000 received=999 lost=1 noerror=990 nxdomain=5 other=4 empty=2 p50us=1 p99us=2 p999us=3";
        let load = parse_blast(line).unwrap();
        assert_eq!((load.answered, load.lost, load.empty), (999, 1, 2));
        assert_eq!((load.with_rcode("NOERROR"), load.with_rcode("NXDOMAIN"), load.with_rcode("other")), (990, 5, 4));
    }

    #[test]
    fn the_statistics_of_dnsperf_are_read() {
        let text = "Statistics:\n\n  Queries sent:         1000\n  Queries completed:    998 (99.80%)\n  Queries lost:         2 (0.20%)\n\n  Response codes:       NOERROR 900 (90.18%), NXDOMAIN 98 (9.82%)\n  Run time (s):         1.0\n  Queries per second:   998.5\n";
        let load = parse_dnsperf(text).unwrap();
        assert_eq!((load.answered, load.lost), (998, 2));
        assert_eq!(load.rcodes, [("NOERROR".to_owned(), 900), ("NXDOMAIN".to_owned(), 98)]);
        assert!((load.per_sec - 998.5).abs() < 0.01);
        assert_eq!(parse_dnsperf("usage: dnsperf"), None);
    }
}
