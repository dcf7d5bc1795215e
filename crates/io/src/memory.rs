//! The amount of memory that the process may use.

use std::fs;
use std::path::Path;

/// The directory in which the system shows control groups (cgroups(7), version 2).
const GROUPS: &str = "/sys/fs/cgroup";

/// Returns the memory that the process may use, in octets: the memory of the machine, or the limit
/// of its control group and the groups above it if that is lower. Returns `None` if the system
/// reports neither.
#[must_use]
pub fn limit() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| of_machine(&text));
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.as_deref().and_then(group_of).unwrap_or_default();
    let limits = Path::new(group).ancestors().filter_map(|group| {
        let group = group.strip_prefix("/").unwrap_or(group);
        let text = fs::read_to_string(Path::new(GROUPS).join(group).join("memory.max")).ok()?;
        text.trim().parse().ok()
    });
    machine.into_iter().chain(limits).min()
}

/// Reads `MemTotal`, which is in units of 1,024 octets (proc_meminfo(5)).
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Reads the path of the control group of the process.
fn group_of(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_machine_is_read() {
        assert_eq!(of_machine("MemTotal:        2048 kB\nMemFree: 1 kB\n"), Some(2 << 20));
        for text in ["", "MemTotal: 2048", "MemTotal: many kB\n"] {
            assert_eq!(of_machine(text), None, "{text}");
        }
    }

    #[test]
    fn the_group_of_the_process_is_read() {
        let text = "1:name=systemd:/x\n0::/system.slice/avocet.service\n";
        assert_eq!(group_of(text), Some("/system.slice/avocet.service"));
        assert_eq!(group_of("1:cpu:/x\n"), None);
    }

    #[test]
    fn this_process_has_a_limit() {
        assert!(limit().is_some_and(|octets| octets > 16 << 20));
    }
}
