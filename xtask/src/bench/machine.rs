//! The description of the machine and versions of a bench, and where its result is stored.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::json::{self, Json};
use super::load::output;
use super::peer::Peer;

/// Relative to the root of the repository.
const RESULTS: &str = "bench/results";

/// Writes a result with its machine, versions and command line to `bench/results`; returns its path
/// relative to the root.
pub(super) fn keep(kind: &str, peers: &[Peer], result: Json) -> Result<String, String> {
    let versions =
        peers.iter().filter_map(|peer| Some((peer.name(), json::string(&peer.version()?))));
    let hashes = peers.iter().filter_map(|peer| {
        let program = peer.program()?;
        Some((peer.name(), json::string(&sha256(&program)?)))
    });
    let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
    let document = json::object([
        ("kind", json::string(kind)),
        ("command", json::string(&format!("cargo xtask {command}"))),
        ("commit", json::string(&commit())),
        ("date", json::string(&today())),
        ("machine", machine()),
        ("versions", json::object(versions)),
        ("sha256", json::object(hashes)),
        ("result", result),
    ]);
    write(kind, "json", &format!("{document}\n"))
}

/// Writes a text to `bench/results`, named by date, commit and kind; returns its path relative to
/// the root.
pub(super) fn write(kind: &str, ending: &str, text: &str) -> Result<String, String> {
    let path = format!("{RESULTS}/{}-{}-{kind}.{ending}", today(), commit());
    let root = crate::root();
    let written =
        fs::create_dir_all(root.join(RESULTS)).and_then(|()| fs::write(root.join(&path), text));
    written.map_err(|error| format!("{path}: {error}"))?;
    println!("kept in {path}");
    Ok(path)
}

/// The SHA-256 of a file in hexadecimal digits.
fn sha256(path: &Path) -> Option<String> {
    let mut command = Command::new("sha256sum");
    command.arg(path);
    output(command).ok()?.split_whitespace().next().map(str::to_owned)
}

fn machine() -> Json {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (cpus, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = cpus.lines().filter(|line| line.starts_with("processor")).count();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    json::object([
        ("cpu", json::string(model.map_or("unknown", |(_, model)| model))),
        ("cores", json::number(cores as f64)),
        ("memory", json::string(total.trim())),
        ("kernel", json::string(read("/proc/sys/kernel/osrelease").trim())),
    ])
}

/// The measured commit, marked if the working tree differs from it.
fn commit() -> String {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(crate::root());
        output(command).ok().map(|text| text.trim().to_owned())
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else {
        return "uncommitted".to_owned();
    };
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|text| !text.is_empty());
    if changed { format!("{commit}-changed") } else { commit }
}

/// The date in UTC.
fn today() -> String {
    let mut command = Command::new("date");
    command.args(["-u", "+%Y-%m-%d"]);
    output(command).map_or_else(|_| "undated".to_owned(), |text| text.trim().to_owned())
}
