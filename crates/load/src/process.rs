//! The cost of a process, from `/proc`: processor time and memory.

use std::fs;
use std::path::{Path, PathBuf};

/// Nanoseconds of a tick: `/proc/PID/stat` always counts in hundredths of a second (`USER_HZ`).
const TICK_NS: u64 = 10_000_000;

/// Number of bytes in a kibibyte, the unit of `/proc/PID/status`.
const KIB: u64 = 1024;

/// Processor time of all threads of a process since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CpuTime {
    /// The time in user mode. It is sampled or accounted per tick, so it is less precise than the
    /// total time.
    pub(crate) user_ns: u64,
    /// The time in the kernel.
    pub(crate) system_ns: u64,
}

impl CpuTime {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
        }
    }

    pub(crate) fn total_ns(self) -> u64 {
        self.user_ns + self.system_ns
    }
}

/// Maximum number of processes of one server.
const MAX_PROCESSES: usize = 256;

/// A watched process and its descendants: many servers run one process per worker.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    directory: PathBuf,
}

/// A reading of the cost of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) ticks: CpuTime,
    /// Time that the scheduler counted, in nanoseconds. It excludes threads that have ended.
    pub(crate) scheduled_ns: u64,
    pub(crate) resident_bytes: u64,
}

impl Process {
    pub(crate) fn of(pid: u32) -> Self {
        Self { directory: PathBuf::from(format!("/proc/{pid}")) }
    }

    pub(crate) fn own() -> Self {
        Self { directory: PathBuf::from("/proc/self") }
    }

    /// Returns the name of the process, or `None` if the process has ended.
    pub(crate) fn name(&self) -> Option<String> {
        fs::read_to_string(self.directory.join("comm")).ok().map(|name| name.trim().to_owned())
    }

    /// Returns the cost of the process and its descendants since their start, or `None` if the
    /// process has ended.
    pub(crate) fn usage(&self) -> Option<Usage> {
        let mut sum = usage_of(&self.directory)?;
        let mut family = children(&self.directory);
        let mut next = 0;
        while let Some(directory) = family.get(next).filter(|_| next < MAX_PROCESSES).cloned() {
            family.extend(children(&directory));
            if let Some(usage) = usage_of(&directory) {
                sum.add(&usage);
            }
            next += 1;
        }
        Some(sum)
    }
}

fn usage_of(directory: &Path) -> Option<Usage> {
    let ticks = parse_stat(&fs::read_to_string(directory.join("stat")).ok()?)?;
    let status = fs::read_to_string(directory.join("status")).ok()?;
    let tasks = fs::read_dir(directory.join("task")).ok()?;
    let scheduled = tasks.flatten().filter_map(|task| scheduled_ns(&task.path())).sum();
    Some(Usage { ticks, scheduled_ns: scheduled, resident_bytes: parse_resident(&status)? })
}

/// Returns the child processes of all threads of a process.
fn children(directory: &Path) -> Vec<PathBuf> {
    let tasks = fs::read_dir(directory.join("task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().map(|pid| Path::new("/proc").join(pid)).collect::<Vec<_>>()
        })
        .collect()
}

impl Usage {
    fn add(&mut self, other: &Self) {
        self.ticks.user_ns += other.ticks.user_ns;
        self.ticks.system_ns += other.ticks.system_ns;
        self.scheduled_ns += other.scheduled_ns;
        self.resident_bytes += other.resident_bytes;
    }

    /// Returns the CPU time between two readings. The total comes from the scheduler; the ticks
    /// determine how it is split.
    pub(crate) fn cpu_since(&self, earlier: &Self) -> CpuTime {
        let ticks = self.ticks.since(earlier.ticks);
        let scheduled = self.scheduled_ns.saturating_sub(earlier.scheduled_ns);
        // The scheduler's total lacks threads that ended between the readings; the ticks include
        // them.
        if ticks.total_ns() == 0 || scheduled < ticks.total_ns() / 2 {
            return if ticks.total_ns() == 0 {
                CpuTime { user_ns: 0, system_ns: scheduled }
            } else {
                ticks
            };
        }
        let user_ns = (scheduled as f64 * ticks.user_ns as f64 / ticks.total_ns() as f64) as u64;
        CpuTime { user_ns, system_ns: scheduled - user_ns.min(scheduled) }
    }
}

fn scheduled_ns(task: &Path) -> Option<u64> {
    fs::read_to_string(task.join("schedstat")).ok()?.split_whitespace().next()?.parse().ok()
}

/// Parses user and system time, which follow the process name. The name may contain anything except
/// a final parenthesis.
fn parse_stat(stat: &str) -> Option<CpuTime> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11).map(|field| field.parse::<u64>().ok());
    Some(CpuTime { user_ns: fields.next()?? * TICK_NS, system_ns: fields.next()?? * TICK_NS })
}

fn parse_resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * KIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 25 75 0 0 20 0 1 0 9 9 9";
        assert_eq!(
            parse_stat(stat),
            Some(CpuTime { user_ns: 250_000_000, system_ns: 750_000_000 })
        );
        assert_eq!(parse_stat("nothing"), None);
        assert_eq!(parse_resident("VmHWM: 9 kB\nVmRSS:\t   12 kB\n"), Some(12_288));
    }

    #[test]
    fn the_scheduler_gives_the_sum_and_the_ticks_its_parts() {
        let ticks = |user_ns, system_ns| CpuTime { user_ns, system_ns };
        let before = Usage::default();
        let after = Usage {
            ticks: ticks(10_000_000, 30_000_000),
            scheduled_ns: 44_000_000,
            resident_bytes: 0,
        };
        assert_eq!(after.cpu_since(&before), ticks(11_000_000, 33_000_000));
        let ended = Usage { scheduled_ns: 1_000, ..after };
        assert_eq!(ended.cpu_since(&before), after.ticks);
    }

    #[test]
    fn our_own_process_is_read() {
        let own = Process::own();
        let usage = own.usage().unwrap();
        assert!(usage.resident_bytes > 0 && usage.scheduled_ns > 0);
        assert!(own.name().is_some());
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        assert!(children(&own.directory).contains(&PathBuf::from(format!("/proc/{pid}"))));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(Process { directory: "/proc/none".into() }.usage().is_none());
    }
}
