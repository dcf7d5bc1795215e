//! Plays the scenarios of `tests/scenarios`, and those of other projects if they are available.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use avocet_testkit::{Dialect, Outcome, Scenario, play};

const SEED: u64 = 1;

/// A scenario to play.
struct Played {
    /// Its displayed name.
    name: String,
    path: PathBuf,
    dialect: Dialect,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn play_file(played: &Played) -> Outcome {
    let failed =
        |error: String| Outcome { core: Err(error.clone()), full: Err(error), trace: Vec::new() };
    // Old scenarios contain other character sets in their comments.
    let octets = match fs::read(&played.path) {
        Ok(octets) => octets,
        Err(error) => return failed(error.to_string()),
    };
    match Scenario::read(&String::from_utf8_lossy(&octets), played.dialect) {
        Ok(scenario) => catch_unwind(AssertUnwindSafe(|| play(&scenario, SEED)))
            .unwrap_or_else(|panic| failed(format!("panic: {}", panic_text(panic.as_ref())))),
        Err(error) => failed(error),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

/// Plays all scenarios on all cores. Returns the outcomes by name.
fn play_all(scenarios: &[Played]) -> BTreeMap<String, Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(BTreeMap::new());
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some(played) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = play_file(played);
                    outcomes
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(played.name.clone(), outcome);
                }
            });
        }
    });
    outcomes.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the scenarios that are known to fail, each with its reason.
fn known() -> BTreeMap<String, String> {
    let text = fs::read_to_string(root().join("tests/scenarios/known.txt"))
        .expect("tests/scenarios/known.txt");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let split = |line: &str| {
        let (name, reason) =
            line.split_once(": ").unwrap_or_else(|| panic!("{line}: no reason is given"));
        (name.to_owned(), reason.to_owned())
    };
    lines.map(split).collect()
}

/// Returns the differences from `known.txt`: unlisted failures, listed successes, and names without
/// a scenario.
fn faults(
    found: &BTreeMap<String, Result<(), String>>,
    is_ours: impl Fn(&str) -> bool,
) -> Vec<String> {
    let known = known();
    let mut faults = Vec::new();
    for (name, result) in found {
        match (result, known.contains_key(name)) {
            (Ok(()), true) => faults.push(format!("{name} passes, and is in known.txt")),
            (Err(error), false) => faults.push(format!("{name}: {error}")),
            _ => {}
        }
    }
    let gone = known.keys().filter(|name| is_ours(name) && !found.contains_key(*name));
    faults
        .extend(gone.map(|name| format!("{name} is in known.txt, and there is no such scenario")));
    faults
}

fn is_own(name: &str) -> bool {
    name.starts_with("own/")
}

#[test]
fn own_scenarios_pass_in_all_that_they_compare() {
    let files = fs::read_dir(root().join("tests/scenarios")).expect("tests/scenarios");
    let paths = files.map(|file| file.expect("a file").path());
    let scenarios: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "rpl"))
        .map(|path| Played {
            name: format!("own/{}", file_name(&path)),
            path,
            dialect: Dialect::Own,
        })
        .collect();
    assert!(!scenarios.is_empty(), "there are scenarios");
    let found =
        play_all(&scenarios).into_iter().map(|(name, outcome)| (name, outcome.full)).collect();
    let faults = faults(&found, is_own);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the scenarios of other projects that at least one resolver passes with such a
/// configuration. Those with obsolete algorithms are replaced by re-signed copies.
fn of_the_field(directory: &Path) -> Option<Vec<Played>> {
    let index = fs::read_to_string(directory.join("index.tsv")).ok()?;
    let mut scenarios = Vec::new();
    for row in index.lines().skip(1) {
        let columns: Vec<_> = row.split('\t').collect();
        let [set, file, _, "T1" | "T2-single", _, _, _, modern, ..] = columns[..] else { continue };
        let dialect = if set == "deckard" { Dialect::Deckard } else { Dialect::Unbound };
        let copy = if modern == "yes" { "modern/" } else { "" };
        let name = format!("{copy}{set}/{file}");
        scenarios.push(Played { path: directory.join(&name), name, dialect });
    }
    Some(scenarios)
}

#[test]
fn scenarios_of_the_field_pass_unless_a_reason_is_given() {
    let directory = root().join("../shared/scenarios");
    let Some(scenarios) = of_the_field(&directory) else {
        return eprintln!("passed over: {} is not there", directory.display());
    };
    let found: BTreeMap<_, _> =
        play_all(&scenarios).into_iter().map(|(name, outcome)| (name, outcome.core)).collect();
    let passed = found.values().filter(|result| result.is_ok()).count();
    eprintln!("{passed} of {} scenarios of the field pass", found.len());
    let faults = faults(&found, |name| !is_own(name));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
