//! `avocet load`: drives any DNS server with queries and checks every answer.
//!
//! ```text
//! args -> material (queries, zone) -> scenario (flows) -> driver (sockets, clock)
//!      -> report -> text, JSON, HTML
//! ```
//!
//! A `drive::flow::Flow` holds the choice, pace and clients of queries, and their results; it has
//! no socket and no clock. `drive::driver::Driver` is the event loop that supplies both. A single
//! thread does everything, so the load uses at most one core, and that core's time is the
//! generator's cost.

#![forbid(unsafe_code)]

mod args;
mod ask;
mod check;
mod drive;
mod encrypted;
mod error;
mod listener;
mod machine;
mod material;
mod measure;
mod process;
mod random;
mod record;
pub mod report;
mod scenario;
mod target;
mod units;
mod verdict;
mod version;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use avocet_io::signals::Signals;

pub use args::{CompareArgs, LoadArgs, RegressionArgs, Scenario, Task};
pub use ask::{Form, Questions, Recording};
pub use check::{Depth, Deviation, Expected, Rcodes, Zone};
pub use drive::ramp::{Bounds, Ramp, RampStep};
pub use drive::{Carrier, Connections};
pub use error::{LoadError, Needed};
pub use measure::measure;
use report::{Report, compare, html, text};

/// Exit status of a run that passed, of a server that failed or became worse, and of a command that
/// could not be carried out.
const PASSED: u8 = 0;
const FAILED: u8 = 1;
const TROUBLE: u8 = 2;

/// Runs the command, which can be ended by a signal. Returns the exit status: 0 if the run passed,
/// 1 if the server failed or became worse, and 2 if nothing could be measured.
pub fn run(args: &LoadArgs) -> ExitCode {
    let is_load = args.task.is_none() && !args.json_schema;
    let status = match is_load.then(Signals::block).transpose() {
        Ok(signals) => run_to(args, signals, &mut io::stdout().lock()),
        Err(error) => trouble(&error.into()),
    };
    ExitCode::from(status)
}

/// Runs the command as [`run`] does, with its text on `out`. Returns the exit status.
pub fn run_to(args: &LoadArgs, signals: Option<Signals>, out: &mut dyn Write) -> u8 {
    let done = match &args.task {
        Some(Task::Compare(compare)) => run_compare(compare, out),
        None if args.json_schema => {
            let schema = schemars::schema_for!(Report);
            let schema = serde_json::to_string_pretty(&schema).unwrap_or_default();
            show(out, &format!("{schema}\n")).map(|()| true)
        }
        None => run_load(args, signals, out),
    };
    match done {
        Ok(true) => PASSED,
        Ok(false) => FAILED,
        Err(error) => trouble(&error),
    }
}

fn trouble(error: &LoadError) -> u8 {
    let _ = writeln!(io::stderr(), "avocet load: {error}");
    TROUBLE
}

fn run_load(
    args: &LoadArgs,
    signals: Option<Signals>,
    out: &mut dyn Write,
) -> Result<bool, LoadError> {
    let baseline = read_all(&args.baseline)?;
    let report = measure(args, signals)?;
    write_json(args, &report, out)?;
    if args.json.as_deref() != Some(Path::new("-")) {
        show(out, &text::write(&report))?;
    }
    let has_passed = report.passed;
    let latest = [report];
    if let Some(path) = &args.html {
        let runs: Vec<Report> = baseline.iter().chain(&latest).cloned().collect();
        write(path, &html::write(&runs))?;
    }
    if baseline.is_empty() {
        return Ok(has_passed);
    }
    let comparison = compare::compare(&baseline, &latest, args.limits);
    // A failure to print does not affect the outcome.
    let _ = write!(io::stderr(), "{}", comparison.text());
    Ok(has_passed && !comparison.is_worse())
}

fn read_all(paths: &[PathBuf]) -> Result<Vec<Report>, LoadError> {
    paths.iter().map(|path| Report::read(path)).collect()
}

fn write_json(args: &LoadArgs, report: &Report, out: &mut dyn Write) -> Result<(), LoadError> {
    let Some(path) = &args.json else { return Ok(()) };
    let json = serde_json::to_string_pretty(report)?;
    if path == Path::new("-") {
        return show(out, &format!("{json}\n"));
    }
    write(path, &json)
}

/// Writes to the output. A reader that closes the pipe is not an error.
fn show(out: &mut dyn Write, text: &str) -> Result<(), LoadError> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(LoadError::Output(error)),
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), LoadError> {
    fs::write(path, text).map_err(LoadError::in_file(path))
}

fn run_compare(args: &CompareArgs, out: &mut dyn Write) -> Result<bool, LoadError> {
    let runs = read_all(&args.files)?;
    let others = read_all(&args.with)?;
    let is_worse = match others.is_empty() {
        true => compare_with_first(args, &runs, out)?,
        false => {
            let comparison = compare::compare(&runs, &others, args.limits);
            show(out, &comparison.text())?;
            comparison.is_worse()
        }
    };
    if let Some(path) = &args.html {
        write(path, &html::write(&[runs, others].concat()))?;
    }
    Ok(!is_worse)
}

/// Compares each run with the first one.
fn compare_with_first(
    args: &CompareArgs,
    runs: &[Report],
    out: &mut dyn Write,
) -> Result<bool, LoadError> {
    let [before, paths @ ..] = &args.files[..] else { return Ok(false) };
    if paths.is_empty() {
        return Err(LoadError::Missing(Needed::Results));
    }
    let mut is_worse = false;
    for (path, run) in paths.iter().zip(runs.iter().skip(1)) {
        let earlier = runs.get(..1).unwrap_or_default();
        let comparison = compare::compare(earlier, std::slice::from_ref(run), args.limits);
        let (path, before) = (path.display(), before.display());
        show(out, &format!("{path} compared with {before}\n{}", comparison.text()))?;
        is_worse |= comparison.is_worse();
    }
    Ok(is_worse)
}
