//! Memory of a server with a fixed cache under a steady load. A run of seconds tries the workload;
//! a run of hours measures it.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::extra::Extra;
use super::load::{Load, judge_records, output_of_check, parse_avocet};
use super::process::{LOAD_CORE, Server, pinned};
use super::setup::Setup;
use super::workload::Workload;

/// Queries per second, and the share of them for names that were never queried before. The other
/// names follow Zipf's law.
const RATE: u64 = 5_000;
const NEW_SHARE: &str = "50%";
const NAMES: u64 = 200_000;
/// Number of samples of the memory in a run.
const SAMPLES: u32 = 60;
/// Minimum time between two samples. Reading the memory also costs the server time.
const LEAST_INTERVAL: Duration = Duration::from_millis(500);
/// Duration in seconds of a run that only tries the workload.
const LEAST_SECS: u64 = 20;
const MB: f64 = 1e6;

/// Returns the duration of a run in seconds: the wanted hours, or a short run if `hours` is `None`.
pub(super) fn secs(hours: Option<f64>) -> u64 {
    hours.map_or(LEAST_SECS, |hours| (hours * 3600.0) as u64).max(LEAST_SECS)
}

/// Sends queries for a time and samples the memory of the server.
///
/// # Errors
///
/// The generator fails, or an answer differs from the zone.
pub(super) fn run(setup: &Setup, server: &Server, secs: u64) -> Result<Load, String> {
    let mut command = pinned(LOAD_CORE);
    command.arg(&setup.avocet).args(["load", &setup.target(Workload::Endurance).to_string()]);
    command.args(["--scenario", "mixed", "--zone-name", "miss.bench.test", "--population"]);
    command.arg(NAMES.to_string()).arg("--zone-file").arg(&setup.material.zone);
    command.args(["--rate", &RATE.to_string(), "--miss-share", NEW_SHARE]);
    command.args(["--duration", &format!("{secs}s"), "--max-loss", "100%"]);
    command.args(["--count", &(RATE * (secs + 1)).to_string()]);
    command.args(["--quiet", "--json", "-"]);
    let interval = (Duration::from_secs(secs) / SAMPLES).max(LEAST_INTERVAL);
    let (over, is_over) = mpsc::channel();
    let (text, samples) = thread::scope(|scope| {
        let watching = scope.spawn(|| samples(server, is_over, interval));
        let text = output_of_check(command);
        drop(over);
        (text, watching.join())
    });
    let samples = samples.map_err(|_| "the memory could not be read".to_owned())?;
    let text = text?;
    judge_records(&text)?;
    let load = parse_avocet(&text).ok_or_else(|| format!("avocet load said: {text}"))?;
    let extras = figures(&samples, interval).ok_or("too few samples of the memory")?;
    Ok(without_failures(Load { extras, ..load }))
}

/// Counts failures of the server as lost queries. A few failures in hours are not wrong answers.
fn without_failures(load: Load) -> Load {
    let failed = load.with_rcode("SERVFAIL");
    let rcodes = load.rcodes.into_iter().filter(|(name, _)| name != "SERVFAIL").collect();
    Load { answered: load.answered - failed, lost: load.lost + failed, rcodes, ..load }
}

/// Returns samples of the memory of the processes in bytes. Takes a sample at each interval until
/// the other end of the channel is dropped.
fn samples(server: &Server, is_over: Receiver<()>, interval: Duration) -> Vec<f64> {
    let mut samples = Vec::new();
    while is_over.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        samples.push(server.memory_bytes() as f64);
    }
    samples
}

/// Returns the median, the extremes and the drift in the second half of a run, or `None` if there
/// are too few samples.
fn figures(samples: &[f64], interval: Duration) -> Option<Vec<(Extra, f64)>> {
    let half = samples.get(samples.len() / 2..).filter(|half| half.len() >= 4)?;
    let (earlier, later) = half.split_at(half.len() / 2);
    let (whole, earlier, later) = (sorted(half), sorted(earlier), sorted(later));
    let median = |sorted: &[f64]| sorted[sorted.len() / 2];
    let hours_between = interval.as_secs_f64() * half.len() as f64 / 2.0 / 3600.0;
    let drift = (median(&later) - median(&earlier)) / hours_between;
    Some(vec![
        (Extra::ResidentMb, median(&whole) / MB),
        (Extra::LeastMb, whole.first()? / MB),
        (Extra::MostMb, whole.last()? / MB),
        (Extra::DriftMb, drift / MB),
    ])
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_second_half_counts() {
        let samples: Vec<f64> =
            [1.0, 50.0, 90.0, 99.0, 100.0, 104.0, 96.0, 100.0].map(|mb| mb * MB).to_vec();
        let figures = figures(&samples, Duration::from_secs(900)).unwrap();
        let expected = [
            (Extra::ResidentMb, 100.0),
            (Extra::LeastMb, 96.0),
            (Extra::MostMb, 104.0),
            (Extra::DriftMb, -8.0),
        ];
        assert_eq!(figures, expected);
        assert_eq!(super::figures(&samples[..6], Duration::from_secs(1)), None);
    }

    #[test]
    fn a_failure_counts_as_lost() {
        let rcodes = [("NOERROR", 95), ("SERVFAIL", 5)].map(|(name, of)| (name.to_owned(), of));
        let load = Load { answered: 100, lost: 1, rcodes: rcodes.into(), ..Load::default() };
        let load = without_failures(load);
        assert_eq!((load.answered, load.lost, load.rcodes.len()), (95, 6, 1));
    }

    #[test]
    fn hours_are_optional() {
        assert_eq!([secs(None), secs(Some(0.001)), secs(Some(1.5))], [20, 20, 5400]);
    }
}
