//! The machine on which a run takes place, as its kernel describes it.

use std::{fs, thread};

use crate::report::Machine;

/// Reads the description of the machine. Fields that cannot be read stay empty.
pub(crate) fn read() -> Machine {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    // Some architectures report only the part number.
    let cpu =
        field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "CPU part")).unwrap_or_default();
    let memory_kib: u64 = field(&meminfo, "MemTotal")
        .and_then(|value| value.split_whitespace().next()?.parse().ok())
        .unwrap_or_default();
    Machine {
        cpu,
        cpus: cores(),
        memory_bytes: memory_kib * 1024,
        kernel: kernel.trim().to_owned(),
    }
}

/// Returns the number of cores, including cores that this process may not use.
pub(crate) fn cores() -> usize {
    online().unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from))
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// Counts the processors in a list such as `0-3,6`. The process itself may be limited to fewer
/// processors.
fn online() -> Option<usize> {
    count_list(fs::read_to_string("/sys/devices/system/cpu/online").ok()?.trim())
}

fn count_list(list: &str) -> Option<usize> {
    list.split(',').try_fold(0, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(count + last.checked_sub(first)? + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted() {
        assert_eq!(
            [count_list("0"), count_list("0-3,6"), count_list("x")],
            [Some(1), Some(5), None]
        );
    }

    #[test]
    fn this_machine_is_described() {
        let machine = read();
        assert!(machine.cpus > 0 && machine.memory_bytes > 0 && !machine.kernel.is_empty());
    }
}
