//! Servers as processes. They are started on one core, measured from outside, and always stopped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{io, thread};

/// The build profile of packages, which benches and the gate measure.
pub(crate) const PROFILE: &str = "dist";
/// The core of the measured server.
pub(crate) const SERVER_CORE: &str = "0";
/// The core of the generator and of the upstream.
pub(crate) const LOAD_CORE: &str = "1";

/// The number of ticks per second in `/proc/PID/stat`: USER_HZ is 100 on every Linux.
pub(super) const TICKS_PER_SEC: f64 = 100.0;
/// The interval at which a server is checked while it starts or ends.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time after which a server that has not ended is killed.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Directories with servers that may be missing from the search path of an ordinary user.
const SERVER_DIRECTORIES: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Returns the path of a program, or `None` if it is not installed.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let directories =
        std::env::split_paths(&search).chain(SERVER_DIRECTORIES.iter().map(PathBuf::from));
    directories.map(|directory| directory.join(program)).find(|path| path.is_file())
}

/// Returns the build directory of cargo.
pub(crate) fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), PathBuf::from)
}

/// Returns the path of the CoreDNS binary that is built from `bench/peers/coredns`.
pub(super) fn coredns() -> PathBuf {
    target_directory().join("peers/coredns")
}

/// Returns the path of the dnsproxy binary that is built from `bench/peers/dnsproxy`.
pub(super) fn dnsproxy() -> PathBuf {
    target_directory().join("peers/dnsproxy")
}

/// Returns a command that runs a program on one core. The program ends when this process ends for
/// any reason.
pub(super) fn pinned(core: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "taskset", "-c", core]);
    command
}

/// The parameters of the start of a server.
pub(crate) struct Launch<'a> {
    pub(crate) command: &'a [String],
    pub(crate) core: &'static str,
    /// The file for the output of the server.
    pub(crate) log: &'a Path,
    /// The time within which the server must be ready.
    pub(crate) within: Duration,
}

/// The time within which a server without instrumentation must be ready. It includes loading a list
/// of half a million names.
pub(super) const START_WITHIN: Duration = Duration::from_secs(60);

/// A running server. Dropping it ends the process and all its descendants.
pub(crate) struct Server {
    child: Child,
    /// The time from the start until the server was ready.
    pub(super) ready_after: Duration,
}

impl Server {
    /// Starts a server and waits until it is ready.
    pub(crate) fn start(launch: &Launch<'_>, is_ready: impl Fn() -> bool) -> Result<Self, String> {
        let shown = launch.command.join(" ");
        let failed = |error: io::Error| format!("{shown}: {error}");
        let out = File::create(launch.log).map_err(failed)?;
        let error_out = out.try_clone().map_err(failed)?;
        let mut command = pinned(launch.core);
        command.args(launch.command).stdin(Stdio::null()).stdout(out).stderr(error_out);
        let started = Instant::now();
        let mut server =
            Self { child: command.spawn().map_err(failed)?, ready_after: Duration::ZERO };
        while started.elapsed() < launch.within {
            if let Some(status) = server.child.try_wait().map_err(failed)? {
                return Err(format!("{shown} ended, {status}:\n{}", tail(launch.log)));
            }
            if is_ready() {
                server.ready_after = started.elapsed();
                return Ok(server);
            }
            thread::sleep(LOOK_EVERY);
        }
        Err(format!(
            "{shown} is not ready after {} s:\n{}",
            launch.within.as_secs(),
            tail(launch.log)
        ))
    }

    /// Returns the ids of the process and all its descendants.
    pub(super) fn tree(&self) -> Vec<u32> {
        descendants(self.child.id())
    }

    /// Returns the CPU time that the process tree has used.
    pub(crate) fn cpu(&self) -> Cpu {
        let tree = self.tree();
        let scheduled_secs = tree.iter().copied().map(scheduled_secs).sum();
        let ticks = tree.into_iter().filter_map(cpu_of).fold(Cpu::default(), |sum, one| Cpu {
            user_secs: sum.user_secs + one.user_secs,
            system_secs: sum.system_secs + one.system_secs,
            ..sum
        });
        Cpu { scheduled_secs, ..ticks }
    }

    /// Returns the resident memory of the server's own process in octets: the current value, and
    /// the peak since [`Self::forget_peak`].
    pub(super) fn resident_bytes(&self) -> Option<(u64, u64)> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
        };
        Some((value("VmRSS:")?, value("VmHWM:")?))
    }

    /// Resets the peak of the resident memory.
    pub(super) fn forget_peak(&self) -> Result<(), String> {
        let path = format!("/proc/{}/clear_refs", self.child.id());
        fs::write(&path, "5").map_err(|error| format!("{path}: {error}"))
    }

    /// Returns the memory of the process tree in bytes. Shared pages are divided among the
    /// processes that use them.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.tree().into_iter().filter_map(pss_bytes).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The id of an ended process may belong to another process now.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        signal("TERM", &self.tree());
        let asked = Instant::now();
        while asked.elapsed() < END_WITHIN {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
        signal("KILL", &self.tree());
        // If even waiting fails, nothing more can be done.
        let _ = self.child.wait();
    }
}

/// A reading of the CPU time, in seconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cpu {
    pub(crate) user_secs: f64,
    pub(crate) system_secs: f64,
    /// The total by the scheduler's clock. It is precise to the nanosecond, but lacks threads that
    /// have ended.
    scheduled_secs: f64,
}

/// Time by which the ticks may exceed the scheduler's clock because of rounding, for two readings
/// of a server with a few processes.
const ROUNDING_SECS: f64 = 0.05;

impl Cpu {
    /// Returns the CPU time since an earlier reading. It is measured by the scheduler's clock,
    /// which a short run at a low rate needs. If threads ended in the meantime, it is measured by
    /// ticks.
    pub(crate) fn since(&self, earlier: &Self) -> f64 {
        let ticks = self.user_secs + self.system_secs - earlier.user_secs - earlier.system_secs;
        let scheduled = self.scheduled_secs - earlier.scheduled_secs;
        if ticks - scheduled <= ROUNDING_SECS { scheduled } else { ticks }
    }
}

/// Returns whether a text is the id of a process that has ended.
pub(super) fn has_ended(number: &str) -> bool {
    number.parse::<u32>().is_ok() && !Path::new("/proc").join(number).exists()
}

/// Sends a signal to processes. Ignores processes that have ended.
pub(super) fn signal(name: &str, processes: &[u32]) {
    let numbers = processes.iter().map(u32::to_string);
    let _ =
        Command::new("kill").arg(format!("-{name}")).args(numbers).stderr(Stdio::null()).status();
}

fn descendants(process: u32) -> Vec<u32> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> =
        numbers.filter_map(|number| Some((number, parent_of(number)?))).collect();
    let mut found = vec![process];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(number, _)| *number));
        next += 1;
    }
    found
}

/// Returns the fields of `/proc/PID/stat` that follow the command. The command itself may contain
/// spaces and brackets.
fn stat_fields(process: u32) -> Option<Vec<u64>> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0)).collect())
}

fn parent_of(process: u32) -> Option<u32> {
    stat_fields(process)?.first().and_then(|parent| u32::try_from(*parent).ok())
}

/// Returns the CPU time of a process and of its children that have ended.
pub(super) fn cpu_of(process: u32) -> Option<Cpu> {
    let fields = stat_fields(process)?;
    let secs = |field: usize| Some(*fields.get(field)? as f64 / TICKS_PER_SEC);
    // The ticks include children that have ended: some servers start a process for each connection.
    Some(Cpu {
        user_secs: secs(10)? + secs(12)?,
        system_secs: secs(11)? + secs(13)?,
        ..Cpu::default()
    })
}

/// Returns the CPU time of the running threads of a process, by the scheduler's clock.
fn scheduled_secs(process: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let nanos = threads.filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanos.sum::<u64>() as f64 / 1e9
}

fn pss_bytes(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Returns the last lines of a log.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_time_memory_and_descendants() {
        let own = std::process::id();
        assert!(cpu_of(own).is_some());
        assert!(pss_bytes(own).is_some_and(|bytes| bytes > 0));
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        assert!(descendants(own).contains(&child.id()));
        signal("TERM", &[child.id()]);
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn the_scheduler_is_precise_unless_threads_ended() {
        let read = |user_secs, scheduled_secs| Cpu { user_secs, system_secs: 0.0, scheduled_secs };
        let check = |later: Cpu, secs: f64| {
            assert!((later.since(&read(1.0, 1.0)) - secs).abs() < 1e-9, "{secs}");
        };
        check(read(1.25, 1.2543), 0.2543);
        check(read(1.25, 1.31), 0.31);
        check(read(3.0, 1.5), 2.0);
        check(read(1.25, 0.9), 0.25);
        assert!(scheduled_secs(std::process::id()) > 0.0);
    }

    #[test]
    fn programs_are_found_where_servers_are() {
        assert!(find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find("no-such-program"), None);
    }

    #[test]
    fn a_server_that_ends_at_once_is_reported_with_its_log() {
        let log = std::env::temp_dir().join(format!("xtask-process-{}.log", std::process::id()));
        let command = ["sh", "-c", "echo no such zone; exit 3"].map(str::to_owned);
        let launch =
            Launch { command: &command, core: SERVER_CORE, log: &log, within: START_WITHIN };
        let error = Server::start(&launch, || false).err().unwrap();
        assert!(error.contains("exit status: 3") && error.contains("no such zone"), "{error}");
        fs::remove_file(log).unwrap();
    }
}
