//! Flame graphs of a running server: its CPU time, allocations and lock waits.

mod alloc;
mod cpu;
mod flame;
mod lock;
mod stacks;

use std::fs;
use std::process::{Child, Command, Stdio};

use super::options::Options;
use super::peer::Peer;
use super::process::{Launch, SERVER_CORE, START_WITHIN, Server, signal, target_directory};
use super::setup::Setup;
use super::workload::Workload;
use super::{ask, configuration, load, material};
use load::Generator;
use stacks::Stacks;

/// Number of queries in flight in profiles that do not measure time.
const WINDOW: &str = "48";

/// Profiles the build for packages under a workload; `words` are `[--] [WORKLOAD] [--secs N]
/// [--no-build]`.
pub(crate) fn run(kind: &str, words: &[&str]) -> Result<(), String> {
    let words = words.strip_prefix(&["--"]).unwrap_or(words);
    let (workload, rest) = match words.split_first() {
        Some((name, rest)) if !name.starts_with('-') => (Workload::named(name)?, rest),
        _ => (Workload::Hot, words),
    };
    let options = Options::parse(rest)?;
    let (tool, unit) = match kind {
        "cpu" => ("perf", "samples of CPU time"),
        "alloc" => ("valgrind", "bytes allocated"),
        "lock" => ("strace", "microseconds in futex(2)"),
        unknown => return Err(format!("there is no profile `{unknown}`: cpu, alloc or lock")),
    };
    if Command::new(tool)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        return Err(format!(
            "`{tool}` is not installed, and the profile `{kind}` is taken with it"
        ));
    }
    let setup = Setup::prepare(&[Peer::Avocet], &options)?;
    let stacks = match kind {
        "cpu" => cpu::stacks(&setup, workload, options.secs),
        "alloc" => alloc::stacks(&setup, workload),
        _ => lock::stacks(&setup, workload, options.secs),
    }?;
    keep(kind, &format!("avocet, {}: {unit}", workload.name()), &stacks)
}

/// Writes the stacks and their picture to the target directory.
fn keep(kind: &str, title: &str, stacks: &Stacks) -> Result<(), String> {
    if stacks.total() == 0 {
        println!("{title}: none, so there is nothing to draw");
        return Ok(());
    }
    let directory = target_directory().join("profile");
    let said = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(&directory).map_err(said)?;
    let picture = directory.join(format!("{kind}.svg"));
    fs::write(directory.join(format!("{kind}.folded")), stacks.folded()).map_err(said)?;
    fs::write(&picture, flame::draw(title, stacks)).map_err(said)?;
    println!("{title}: {} in all", stacks.total());
    for (name, share) in stacks.leaves(10) {
        println!("{:5.1} %  {name}", share * 100.0);
    }
    println!("drawn in {}", picture.display());
    Ok(())
}

/// Starts the server with `before` in front of its command. Queries each name once if the workload
/// needs a warm cache.
fn start(
    setup: &Setup,
    workload: Workload,
    before: &[&str],
    core: &'static str,
) -> Result<Server, String> {
    let mut command: Vec<String> = before.iter().map(|word| (*word).to_owned()).collect();
    command.extend(configuration::prepare(setup, Peer::Avocet, workload)?);
    let log = setup.file("profiled.log");
    let launch = Launch { command: &command, core, log: &log, within: START_WITHIN };
    let server = Server::start(&launch, || ask::is_ready(setup.target(workload)))?;
    if workload.is_warm() {
        load::once(setup, workload, Generator::Blast, material::HOT_NAMES.into())?;
    }
    Ok(server)
}

/// Runs the workload for some seconds. Wrong answers invalidate the profile.
fn put_under_load(setup: &Setup, workload: Workload, secs: u64) -> Result<(), String> {
    let load = load::timed(setup, workload, Generator::Blast, secs)?;
    workload.judge(&load, None)
}

/// A program that observes the server. It is ended with an interrupt.
struct Watcher {
    child: Child,
}

impl Watcher {
    fn start(command: &mut Command) -> Result<Self, String> {
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        spawned.map(|child| Self { child }).map_err(|error| format!("{command:?}: {error}"))
    }

    /// Ends the program and waits until it has written its output.
    fn end(mut self) -> Result<(), String> {
        signal("INT", &[self.child.id()]);
        self.child.wait().map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // If the load succeeded, the program has already ended.
        if matches!(self.child.try_wait(), Ok(None)) {
            signal("INT", &[self.child.id()]);
            let _ = self.child.wait();
        }
    }
}

/// Returns the process ids of the server as one argument.
fn ids(server: &Server) -> String {
    server.tree().iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}
