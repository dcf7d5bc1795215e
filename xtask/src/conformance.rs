//! Runs resolution scenarios and EDNS probes against the binary over real sockets, and prints one
//! table that includes the results of peers.
//!
//! The scenarios, the peers' results and the harness are data outside the project; without them
//! this command does nothing. Each parallel run of the harness, called a lane, creates a network
//! namespace, which needs root.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The directory of the scenarios, relative to the root of the project.
const SCENARIOS: &str = "../shared/scenarios";
/// The dialects of the scenarios, which are also the names of their directories.
const DIALECTS: [&str; 2] = ["deckard", "unbound"];
/// Number of harnesses that run at the same time for each dialect.
const LANES: usize = 2;
/// The source of the library that is preloaded into the server. The file documents it.
const CLOCK: &str = "tests/clock.c";
/// Settings that some scenarios need and the harness does not support. Each has the text by which a
/// scenario asks for the setting, and the environment variable that passes the setting to the
/// server, with its value. Such scenarios run in a separate lane.
const SETTINGS: [(&str, &str, &str); 2] = [
    ("cache-min-negative-ttl: 10", "AVOCET_CACHE__NEGATIVE_MIN_TTL_SECS", "10"),
    ("; root prime is sent", "AVOCET_RESOLVER__PRIMING", "true"),
];

/// The peers in the index, in the order of its column.
const PEERS: [&str; 4] = ["unbound", "kresd", "named", "pdns"];
/// Number of the 48 probes that each peer passes. The peers are Unbound 1.26.1, Knot Resolver 5.6,
/// BIND 9.18.49 and PowerDNS Recursor 4.8.8.
const PROBES_OF_PEERS: [usize; 4] = [44, 32, 47, 38];
/// The column of the index that contains the results of peers.
const PEERS_COLUMN: usize = 10;
/// The text after the number on the last line that the test of the probes prints.
const PROBES_TOLD: &str = " probes meet with the right reaction";

/// A scenario of the index.
struct Scenario {
    file: String,
    tier: String,
    path: PathBuf,
    /// For each of [`PEERS`], whether it passes the scenario.
    peers: [bool; 4],
}

/// Sends the probes and runs all scenarios of these tiers. Prints the numbers of passed tests, the
/// numbers of peers, and the failures.
pub(crate) fn run(root: &Path, tiers: &[&str]) -> Result<(), String> {
    let scenarios = root.join(SCENARIOS);
    head();
    probes(root)?;
    if !scenarios.is_dir() {
        println!("{} is not there: no scenarios to play", scenarios.display());
        return Ok(());
    }
    let tiers = if tiers.is_empty() { &["T1", "T2-single"] } else { tiers };
    let scratch = target(root).join("conformance");
    let _ = fs::remove_dir_all(&scratch);
    fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let clock = build_clock(root, &scratch)?;
    let binary = build_server(root)?;
    let mut failures = Vec::new();
    for dialect in DIALECTS {
        let index = read_index(&scenarios, dialect, tiers)?;
        let results = play(&scenarios, &scratch, dialect, &index, (&clock, &binary))?;
        report(dialect, &index, &results, &mut failures);
    }
    failures.iter().for_each(|failure| println!("{failure}"));
    Ok(())
}

fn head() {
    let [unbound, kresd, named, pdns] = PEERS;
    println!(
        "{:<10} {:<10} {:>5} {:>13} {:>13} {unbound:>8} {kresd:>8} {named:>8} {pdns:>8}",
        "set", "tier", "all", "avocet core", "avocet full"
    );
}

/// Runs the test of the probes, which queries the binary over UDP and TCP.
fn probes(root: &Path) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.args([
        "test",
        "-q",
        "-p",
        "avocet",
        "--test",
        "conformance",
        "all_48_probes",
        "--",
        "--nocapture",
    ]);
    let output =
        command.current_dir(root).output().map_err(|error| format!("{command:?}: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = told.lines().find_map(|line| line.split_once(PROBES_TOLD));
    let (passed, all) = line
        .and_then(|(counts, _)| counts.split_once(" of "))
        .ok_or_else(|| format!("the test of the probes did not say how they went:\n{told}"))?;
    let [unbound, kresd, named, pdns] = PROBES_OF_PEERS;
    println!(
        "{:<10} {:<10} {all:>5} {passed:>13} {passed:>13} {unbound:>8} {kresd:>8} {named:>8} \
         {pdns:>8}",
        "probes", "RFC 8906"
    );
    Ok(())
}

fn build_clock(root: &Path, scratch: &Path) -> Result<PathBuf, String> {
    let library = scratch.join("clock.so");
    let source = root.join(CLOCK);
    let mut compiler = Command::new("cc");
    // The harness changes only the wall clock.
    compiler.args(["-shared", "-fPIC", "-O2", "-DTIME_PASSES_ON_THE_WALL", "-o"]);
    succeed(compiler.arg(&library).arg(source))?;
    Ok(library)
}

fn build_server(root: &Path) -> Result<PathBuf, String> {
    succeed(Command::new("cargo").args(["build", "-p", "avocet"]).current_dir(root))?;
    Ok(target(root).join("debug/avocet"))
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

/// Returns the scenarios of a dialect in these tiers. If there is a copy with current signatures,
/// it replaces the original.
fn read_index(scenarios: &Path, dialect: &str, tiers: &[&str]) -> Result<Vec<Scenario>, String> {
    let index = scenarios.join("index.tsv");
    let text =
        fs::read_to_string(&index).map_err(|error| format!("{}: {error}", index.display()))?;
    let rows = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let wanted = rows.filter(|row| row.len() > 3 && row[0] == dialect && tiers.contains(&row[3]));
    let scenario = |row: Vec<&str>| {
        let modern = scenarios.join("modern").join(dialect).join(row[1]);
        let path = if modern.is_file() { modern } else { scenarios.join(dialect).join(row[1]) };
        let mut peers = [false; 4];
        let levels = row.get(PEERS_COLUMN).into_iter().flat_map(|levels| levels.split(','));
        // The levels are 0 for a failure, 1 for a scenario whose core passes, and 2 for a scenario
        // that passes.
        peers
            .iter_mut()
            .zip(levels)
            .for_each(|(passes, level)| *passes = matches!(level, "1" | "2"));
        Scenario { file: row[1].to_owned(), tier: row[3].to_owned(), path, peers }
    };
    Ok(wanted.map(scenario).collect())
}

/// Runs the harness. Returns its result lines by file.
fn play(
    scenarios: &Path,
    scratch: &Path,
    dialect: &str,
    index: &[Scenario],
    (clock, binary): (&Path, &Path),
) -> Result<BTreeMap<String, String>, String> {
    let harness = scenarios.join("harness");
    let start = |(name, paths, setting): Lane| -> Result<(PathBuf, Child), String> {
        let out = scratch.join(format!("{dialect}.{name}.jsonl"));
        let mut command = Command::new("bash");
        command.arg(harness.join("worker.sh")).args(["avocet", dialect]).arg(&out);
        command.arg(scratch.join(format!("{dialect}.{name}"))).args(paths);
        command.env("HARNESS", &harness).env("SHIFTCLOCK", clock).env("AVOCET", binary);
        command.env("PYTHONDONTWRITEBYTECODE", "1").envs(setting).stdout(Stdio::null());
        Ok((out, command.spawn().map_err(|error| format!("{command:?}: {error}"))?))
    };
    let lanes: Vec<_> = lanes(index).into_iter().map(start).collect::<Result<_, _>>()?;
    let mut results = BTreeMap::new();
    for (out, mut lane) in lanes {
        lane.wait().map_err(|error| error.to_string())?;
        let text = fs::read_to_string(&out).unwrap_or_default();
        for line in text.lines() {
            if let Some(file) = text_of(line, "file") {
                results.insert(file, line.to_owned());
            }
        }
    }
    Ok(results)
}

/// A lane: its name, its scenarios, and an environment variable of the server.
type Lane = (String, Vec<PathBuf>, Option<(&'static str, &'static str)>);

/// Distributes the scenarios over the harnesses.
fn lanes(index: &[Scenario]) -> Vec<Lane> {
    let mut lanes: Vec<Lane> =
        (0..LANES).map(|lane| (lane.to_string(), Vec::new(), None)).collect();
    for (at, scenario) in index.iter().enumerate() {
        let text = fs::read(&scenario.path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        match SETTINGS.iter().find(|(words, ..)| text.contains(words)) {
            None => lanes[at % LANES].1.push(scenario.path.clone()),
            Some((_, variable, value)) => {
                lanes.push((
                    format!("set{at}"),
                    vec![scenario.path.clone()],
                    Some((variable, value)),
                ));
            }
        }
    }
    lanes.retain(|(_, paths, _)| !paths.is_empty());
    lanes
}

fn report(
    dialect: &str,
    index: &[Scenario],
    results: &BTreeMap<String, String>,
    failures: &mut Vec<String>,
) {
    let is = |scenario: &Scenario, level: &str| {
        results.get(&scenario.file).is_some_and(|line| line.contains(&format!("\"{level}\": true")))
    };
    let tiers: std::collections::BTreeSet<&str> =
        index.iter().map(|scenario| scenario.tier.as_str()).collect();
    for tier in tiers {
        let of_tier = || index.iter().filter(|scenario| scenario.tier == tier);
        let count = |level: &str| of_tier().filter(|scenario| is(scenario, level)).count();
        let peers = |at: usize| of_tier().filter(|scenario| scenario.peers[at]).count();
        println!(
            "{dialect:<10} {tier:<10} {:>5} {:>13} {:>13} {:>8} {:>8} {:>8} {:>8}",
            of_tier().count(),
            count("core"),
            count("full"),
            peers(0),
            peers(1),
            peers(2),
            peers(3)
        );
        for scenario in of_tier().filter(|scenario| !is(scenario, "core")) {
            let reason = results.get(&scenario.file).and_then(|line| text_of(line, "reason"));
            failures.push(format!(
                "{dialect} {tier} {}: {}",
                scenario.file,
                reason.unwrap_or_default()
            ));
        }
    }
}

/// Returns a text member of an object that is on one line, up to the first quotation mark in it.
fn text_of(line: &str, member: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!("\"{member}\": \""))?;
    rest.split('"').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_result_are_read() {
        let line = r#"{"file": "a.rpl", "core": true, "reason": "step 10: rcode"}"#;
        assert_eq!(text_of(line, "file").as_deref(), Some("a.rpl"));
        assert_eq!(text_of(line, "reason").as_deref(), Some("step 10: rcode"));
        assert_eq!(text_of(line, "title"), None);
    }
}
