//! Observation of a run: samples at every interval, progress in the terminal, and the cost of the
//! processes.

use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::time::Duration;

use crate::args::LoadArgs;
use crate::drive::ramp::RampStep;
use crate::drive::{Counts, Flow, Interval, Latencies, Watch};
use crate::process::{CpuTime, Process, Usage};
use crate::report::{Cpu, Drift, FlowReport, Latency, Memory, Outcome, Sample};
use crate::units::nanos_text;

/// Number of intervals of a run, within the limits of their length.
const INTERVALS: u32 = 60;
const INTERVAL_MIN: Duration = Duration::from_millis(100);
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Maximum number of samples, enough for a week of the longest intervals.
const MAX_SAMPLES: usize = 65_536;

/// Time without any answer after which the run ends.
const SILENCE_NS: u64 = 5_000_000_000;

/// Minimum number of samples for the report of a drift.
const DRIFT_SAMPLES: usize = 8;

/// A watched process, with its first and its latest readings.
struct Watched {
    process: Process,
    name: Option<String>,
    start: Usage,
    last: Usage,
    peak_bytes: u64,
}

impl Watched {
    fn start(process: Process) -> Option<Self> {
        let start = process.usage()?;
        Some(Self {
            name: process.name(),
            start,
            last: start,
            peak_bytes: start.resident_bytes,
            process,
        })
    }

    /// Reads the process again and returns the time since the last reading. The last reading of a
    /// process that has ended is kept.
    fn read(&mut self) -> CpuTime {
        let Some(usage) = self.process.usage() else { return CpuTime::default() };
        let cpu = usage.cpu_since(&self.last);
        self.last = usage;
        self.peak_bytes = self.peak_bytes.max(usage.resident_bytes);
        cpu
    }

    fn cpu(&self, answered: u64, secs: f64) -> Option<Cpu> {
        let cpu = self.last.cpu_since(&self.start);
        let each = |nanos: u64| nanos as f64 / 1_000.0 / answered as f64;
        (answered > 0 && secs > 0.0).then(|| Cpu {
            user_us: each(cpu.user_ns),
            system_us: each(cpu.system_ns),
            total_us: each(cpu.total_ns()),
            cores: cpu.total_ns() as f64 / 1e9 / secs,
        })
    }
}

/// An observer of a run.
pub(crate) struct Recorder {
    series: Vec<Sample>,
    server: Option<Watched>,
    own: Option<Watched>,
    merged: Latencies,
    last: Counts,
    shows: bool,
    duration: Duration,
    silent_since_ns: u64,
}

/// The summary of a run.
pub(crate) struct Summary {
    pub(crate) outcome: Outcome,
    pub(crate) latency: Latency,
    pub(crate) flows: Vec<FlowReport>,
    pub(crate) server_cpu: Option<Cpu>,
    pub(crate) generator_cpu: Option<Cpu>,
    pub(crate) memory: Option<Memory>,
    pub(crate) drift: Option<Drift>,
}

fn shows_progress(args: &LoadArgs) -> bool {
    !args.quiet && io::stderr().is_terminal()
}

/// Shows a step of a search in the terminal.
pub(crate) fn show_step(args: &LoadArgs, step: &RampStep) {
    if shows_progress(args) {
        let held = if step.held { "held" } else { "too much" };
        eprintln!(
            "{:>9.0}/s  loss {:.3}%  p99 {:>9}  {held}",
            step.rate,
            step.loss * 100.0,
            nanos_text(step.p99_ns)
        );
    }
}

impl Recorder {
    pub(crate) fn start(args: &LoadArgs, duration: Duration) -> Self {
        Self {
            series: Vec::new(),
            server: args.pid.and_then(|pid| Watched::start(Process::of(pid))),
            own: Watched::start(Process::own()),
            merged: Latencies::new(),
            last: Counts::default(),
            shows: shows_progress(args),
            duration,
            silent_since_ns: 0,
        }
    }

    /// Returns the length of the intervals of the run.
    pub(crate) fn every(&self) -> Duration {
        let even = self.duration / INTERVALS;
        let even = if self.duration > Duration::from_secs(5) {
            even.max(Duration::from_secs(1))
        } else {
            even
        };
        even.clamp(INTERVAL_MIN, INTERVAL_MAX)
    }

    pub(crate) fn server_name(&self) -> Option<String> {
        self.server.as_ref().and_then(|server| server.name.clone())
    }

    /// Reads the processes a last time at the end of the run.
    pub(crate) fn finish(&mut self) {
        for process in [&mut self.server, &mut self.own].into_iter().flatten() {
            process.read();
        }
        if self.shows {
            eprintln!();
        }
    }

    pub(crate) fn into_series(self) -> Vec<Sample> {
        self.series
    }

    fn show(&self, sample: &Sample) {
        let left = (self.duration.as_secs_f64() - sample.secs).max(0.0);
        let decided = sample.answered_per_sec.max(1.0);
        let line = format!(
            "\r{:>9.0}/s  lost {} ({:.0} asked/s)  p99 {:>9}  {left:>4.0} s left ",
            decided,
            sample.lost,
            sample.sent_per_sec,
            nanos_text(sample.p99_ns),
        );
        let _ = io::stderr().write_all(line.as_bytes());
    }

    pub(crate) fn summary(&self, flows: &[Flow], asked_secs: f64) -> Summary {
        let (mut counts, mut latencies) = (Counts::default(), Latencies::new());
        let mut reports = Vec::new();
        for flow in flows {
            counts.add(&flow.tally.counts);
            if !flow.workload.is_unanswerable() {
                latencies.add(&flow.tally.latencies);
            }
            reports.push(FlowReport {
                name: flow.name.to_owned(),
                outcome: Outcome::of(&flow.tally.counts, asked_secs),
                latency: Latency::of(&flow.tally.latencies),
            });
        }
        let cpu = |process: &Option<Watched>| {
            process.as_ref().and_then(|p| p.cpu(counts.answered, asked_secs))
        };
        Summary {
            outcome: Outcome::of(&counts, asked_secs),
            latency: Latency::of(&latencies),
            flows: reports,
            server_cpu: cpu(&self.server),
            generator_cpu: cpu(&self.own),
            memory: self.memory(),
            drift: drift(&self.series),
        }
    }

    fn memory(&self) -> Option<Memory> {
        let server = self.server.as_ref()?;
        Some(Memory {
            start_bytes: server.start.resident_bytes,
            end_bytes: server.last.resident_bytes,
            peak_bytes: server.peak_bytes,
            drift_bytes_per_sec: memory_slope(&self.series),
        })
    }
}

impl Watch for Recorder {
    fn interval(&mut self, interval: Interval, flows: &[Flow]) -> ControlFlow<()> {
        let mut counts = Counts::default();
        self.merged.clear();
        for flow in flows {
            counts.add(&flow.tally.counts);
            if !flow.workload.is_unanswerable() {
                self.merged.add(&flow.tally.interval);
            }
        }
        let secs = (interval.to_ns - interval.from_ns).max(1) as f64 / 1e9;
        let server = self.server.as_mut().map(Watched::read);
        let sample = Sample {
            secs: interval.to_ns as f64 / 1e9,
            sent_per_sec: counts.sent.saturating_sub(self.last.sent) as f64 / secs,
            answered_per_sec: counts.answered.saturating_sub(self.last.answered) as f64 / secs,
            lost: counts.lost.saturating_sub(self.last.lost),
            p50_ns: self.merged.at(0.5),
            p99_ns: self.merged.at(0.99),
            server_cores: server.map(|cpu| cpu.total_ns() as f64 / 1e9 / secs),
            server_bytes: self.server.as_ref().map(|server| server.last.resident_bytes),
        };
        if self.series.len() < MAX_SAMPLES {
            self.series.push(sample);
        }
        if self.shows {
            self.show(&sample);
        }
        if counts.answered > self.last.answered || counts.sent == 0 {
            self.silent_since_ns = interval.to_ns;
        }
        self.last = counts;
        match interval.to_ns - self.silent_since_ns > SILENCE_NS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Returns the slope of memory over the second half of a run, by least squares, in bytes per
/// second.
fn memory_slope(series: &[Sample]) -> f64 {
    let later = series.get(series.len() / 2..).unwrap_or_default();
    let points: Vec<(f64, f64)> = later
        .iter()
        .filter_map(|sample| Some((sample.secs, sample.server_bytes? as f64)))
        .collect();
    let count = points.len() as f64;
    let (mean_x, mean_y) =
        points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (above, below) = points.iter().fold((0.0, 0.0), |(above, below), (x, y)| {
        (above + (x - mean_x) * (y - mean_y), below + (x - mean_x) * (x - mean_x))
    });
    if below > 0.0 { above / below } else { 0.0 }
}

fn drift(series: &[Sample]) -> Option<Drift> {
    if series.len() < DRIFT_SAMPLES {
        return None;
    }
    let quarter = series.len() / 4;
    let median = |part: &[Sample]| {
        let mut values: Vec<u64> = part.iter().map(|sample| sample.p99_ns).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    Some(Drift {
        early_p99_ns: median(series.get(quarter..2 * quarter)?),
        late_p99_ns: median(series.get(3 * quarter..)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: impl Fn(usize) -> (u64, u64)) -> Vec<Sample> {
        (0..40)
            .map(|i| {
                let (p99_ns, bytes) = values(i);
                Sample { secs: i as f64, p99_ns, server_bytes: Some(bytes), ..Sample::default() }
            })
            .collect()
    }

    #[test]
    fn memory_that_grows_has_its_slope() {
        assert!((memory_slope(&series(|i| (0, 1_000_000 + 500 * i as u64))) - 500.0).abs() < 1e-6);
        assert!(memory_slope(&series(|i| (0, if i < 15 { i as u64 } else { 15 }))).abs() < 1e-9);
        assert!(memory_slope(&[]).abs() < 1e-9);
    }

    #[test]
    fn latency_is_compared_between_quarters() {
        let found = drift(&series(|i| (if i < 20 { 100 } else { 300 }, 0))).unwrap();
        assert_eq!((found.early_p99_ns, found.late_p99_ns), (100, 300));
        assert_eq!(drift(&[]), None);
    }
}
