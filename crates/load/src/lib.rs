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

/// Exit status if the command could not be carried out.
const TROUBLE: u8 = 2;

/// Runs the command. Returns the exit status: 0 if the run passed, 1 if the server failed or became
/// worse, and 2 if nothing could be measured.
pub fn run(args: &LoadArgs) -> ExitCode {
    let done = match &args.task {
        Some(Task::Compare(compare)) => run_compare(compare),
        None if args.json_schema => {
            let schema = schemars::schema_for!(Report);
            let schema = serde_json::to_string_pretty(&schema).unwrap_or_default();
            show(&format!("{schema}\n")).map(|()| true)
        }
        None => run_load(args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "avocet load: {error}");
            ExitCode::from(TROUBLE)
        }
    }
}

fn run_load(args: &LoadArgs) -> Result<bool, LoadError> {
    let baseline = read_all(&args.baseline)?;
    let signals = Signals::block()?;
    let report = measure(args, Some(signals))?;
    write_json(args, &report)?;
    if args.json.as_deref() != Some(Path::new("-")) {
        show(&text::write(&report))?;
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

fn write_json(args: &LoadArgs, report: &Report) -> Result<(), LoadError> {
    let Some(path) = &args.json else { return Ok(()) };
    let json = serde_json::to_string_pretty(report)?;
    if path == Path::new("-") {
        return show(&format!("{json}\n"));
    }
    write(path, &json)
}

/// Writes to standard output. A reader that closes the pipe is not an error.
fn show(text: &str) -> Result<(), LoadError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(LoadError::Output(error)),
        _ => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), LoadError> {
    fs::write(path, text).map_err(LoadError::in_file(path))
}

fn run_compare(args: &CompareArgs) -> Result<bool, LoadError> {
    let runs = read_all(&args.files)?;
    let others = read_all(&args.with)?;
    let is_worse = match others.is_empty() {
        true => compare_with_first(args, &runs)?,
        false => {
            let comparison = compare::compare(&runs, &others, args.limits);
            show(&comparison.text())?;
            comparison.is_worse()
        }
    };
    if let Some(path) = &args.html {
        write(path, &html::write(&[runs, others].concat()))?;
    }
    Ok(!is_worse)
}

/// Compares each run with the first one.
fn compare_with_first(args: &CompareArgs, runs: &[Report]) -> Result<bool, LoadError> {
    let [before, paths @ ..] = &args.files[..] else { return Ok(false) };
    if paths.is_empty() {
        return Err(LoadError::Missing(Needed::Results));
    }
    let mut is_worse = false;
    for (path, run) in paths.iter().zip(runs.iter().skip(1)) {
        let earlier = runs.get(..1).unwrap_or_default();
        let comparison = compare::compare(earlier, std::slice::from_ref(run), args.limits);
        show(&format!(
            "{} compared with {}\n{}",
            path.display(),
            before.display(),
            comparison.text()
        ))?;
        is_worse |= comparison.is_worse();
    }
    Ok(is_worse)
}
