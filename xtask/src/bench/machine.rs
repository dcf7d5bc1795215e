//! The description of the machine and of the versions in a bench, and the place of its result.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::json::{self, Json};
use super::load::output;
use super::packages;
use super::peer::Peer;
use super::publication::RESULTS;

/// Writes a result with its machine, versions and command line to `bench/results`. Returns the path
/// relative to the root.
pub(super) fn keep(kind: &str, peers: &[Peer], result: Json) -> Result<String, String> {
    Origin::now().keep_below(&crate::root(), kind, peers, result)
}

/// Writes a text to a file in `bench/results` with the date, the commit and the kind in its name.
/// Returns the path relative to the root.
pub(super) fn write(kind: &str, ending: &str, text: &str) -> Result<String, String> {
    Origin::now().write(&crate::root(), &format!("{kind}.{ending}"), text)
}

/// The start time and the commit of a bench. A commit during the run does not change them.
pub(super) struct Origin {
    date: String,
    time: String,
    commit: String,
}

impl Origin {
    pub(super) fn now() -> Self {
        let date = |format: &str| {
            let mut command = Command::new("date");
            command.args(["-u", format]);
            output(command).map_or_else(|_| "undated".to_owned(), |text| text.trim().to_owned())
        };
        Self { date: date("+%Y-%m-%d"), time: date("+%Y-%m-%dT%H:%M:%SZ"), commit: commit() }
    }

    /// Writes a result with its machine, versions and command line to `bench/results` below a
    /// directory. Returns the path relative to the directory.
    pub(super) fn keep_below(
        &self,
        place: &Path,
        kind: &str,
        peers: &[Peer],
        result: Json,
    ) -> Result<String, String> {
        let of_peers = |value: fn(Peer) -> Option<Json>| {
            json::object(peers.iter().filter_map(|peer| Some((peer.name(), value(*peer)?))))
        };
        let command = std::env::args().skip(1).collect::<Vec<_>>().join(" ");
        let document = json::object([
            ("kind", json::string(kind)),
            ("command", json::string(&format!("cargo xtask {command}"))),
            ("commit", json::string(&self.commit)),
            ("date", json::string(&self.date)),
            ("time", json::string(&self.time)),
            ("machine", machine()),
            ("versions", of_peers(|peer| Some(json::string(&peer.version()?)))),
            ("packages", of_peers(package)),
            ("sha256", of_peers(|peer| Some(json::string(&sha256(&peer.program()?)?)))),
            ("result", result),
        ]);
        self.write(place, &format!("{kind}.json"), &format!("{document}\n"))
    }

    fn write(&self, place: &Path, ending: &str, text: &str) -> Result<String, String> {
        let path = format!("{RESULTS}{}-{}-{ending}", self.date, self.commit);
        let written = fs::create_dir_all(place.join(RESULTS))
            .and_then(|()| fs::write(place.join(&path), text));
        written.map_err(|error| format!("{path}: {error}"))?;
        println!("kept in {path}");
        Ok(path)
    }
}

/// Returns the distribution's package of a peer, and remarks on its build.
fn package(peer: Peer) -> Option<Json> {
    let (_, name) = peer.package()?;
    let version = packages::version(name);
    let since = version.as_ref().and_then(|version| packages::since(name, version));
    let package = version.map(|version| format!("{name} {version}"));
    let members = [("package", package), ("since", since), ("remark", peer.remark())];
    let known = members.into_iter().filter_map(|(key, text)| Some((key, json::string(&text?))));
    Some(json::object(known))
}

/// Returns the SHA-256 of a file in hexadecimal digits.
fn sha256(path: &Path) -> Option<String> {
    let mut command = Command::new("sha256sum");
    command.arg(path);
    output(command).ok()?.split_whitespace().next().map(str::to_owned)
}

/// Returns a line with the date, the commit and the machine, for results in the form of texts.
pub(super) fn head() -> String {
    let Origin { time, commit, .. } = Origin::now();
    format!("{time}, commit {commit}, {}\n", machine())
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
        ("system", json::string(system_name(&read("/etc/os-release")))),
    ])
}

/// Returns the name in `/etc/os-release`.
fn system_name(release: &str) -> &str {
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("an unknown system", |name| name.trim_matches('"'))
}

/// Returns the measured commit, marked if the working tree differs from it.
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
