//! Disturbances during a sample that are not charged to a server: time that the hypervisor took
//! from its core, packets that a kernel thread handled there, and other work.

use std::fs;

use serde_json::Value;

use super::json::{self, Json};
use super::process::{self, SERVER_CORE, TICKS_PER_SEC};

/// Disturbances on the core of the server during one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Noise {
    /// Time in which the hypervisor ran something else on the core (`steal` in `/proc/stat`).
    pub(super) steal_secs: f64,
    /// CPU time of `ksoftirqd`, which handles packets that the kernel does not charge to a process.
    pub(super) ksoftirqd_secs: f64,
    /// The load average over one minute at the end of the sample.
    pub(super) load_average: f64,
}

impl Noise {
    pub(super) fn json(self) -> [(&'static str, Json); 3] {
        [
            ("steal_secs", json::number(self.steal_secs)),
            ("ksoftirqd_secs", json::number(self.ksoftirqd_secs)),
            ("load_average", json::number(self.load_average)),
        ]
    }

    /// Parses the members of [`Noise::json`]. Returns `None` for a sample of an older bench.
    pub(super) fn parse(sample: &Value) -> Option<Self> {
        let number = |key: &str| sample[key].as_f64();
        Some(Self {
            steal_secs: number("steal_secs")?,
            ksoftirqd_secs: number("ksoftirqd_secs")?,
            load_average: number("load_average")?,
        })
    }
}

/// The counters at the start of a sample.
pub(super) struct Watch {
    steal_secs: f64,
    ksoftirqd_secs: f64,
}

impl Watch {
    /// Reads the counters. Returns `None` if the kernel does not show them, as in some containers.
    pub(super) fn start() -> Option<Self> {
        Some(Self { steal_secs: steal_secs()?, ksoftirqd_secs: ksoftirqd_secs()? })
    }

    /// Returns the disturbances since the start.
    pub(super) fn end(&self) -> Option<Noise> {
        let load = fs::read_to_string("/proc/loadavg").ok()?;
        Some(Noise {
            steal_secs: steal_secs()? - self.steal_secs,
            ksoftirqd_secs: ksoftirqd_secs()? - self.ksoftirqd_secs,
            load_average: load.split_whitespace().next()?.parse().ok()?,
        })
    }
}

fn steal_secs() -> Option<f64> {
    stolen_ticks(&fs::read_to_string("/proc/stat").ok()?).map(|ticks| ticks / TICKS_PER_SEC)
}

/// Returns the ticks that the hypervisor stole from the server's core, its eighth counter.
fn stolen_ticks(stat: &str) -> Option<f64> {
    let core = format!("cpu{SERVER_CORE}");
    let mut lines = stat.lines().map(str::split_whitespace);
    let mut fields = lines.find_map(|mut line| (line.next()? == core).then_some(line))?;
    fields.nth(7)?.parse().ok()
}

fn ksoftirqd_secs() -> Option<f64> {
    let name = format!("ksoftirqd/{SERVER_CORE}");
    let mut numbers = fs::read_dir("/proc").ok()?.flatten();
    numbers.find_map(|entry| {
        let command = fs::read_to_string(entry.path().join("comm")).ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        let cpu = (command.trim() == name).then(|| process::cpu_of(number))??;
        Some(cpu.user_secs + cpu.system_secs)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_that_of_the_servers_core() {
        let stat =
            "cpu  1 2 3 4 5 6 7 99 0 0\ncpu0 1 2 3 4 5 6 7 42 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(stolen_ticks(stat), Some(42.0));
        assert_eq!(stolen_ticks("cpu  1 2\n"), None);
    }

    #[test]
    fn noise_is_read_as_it_is_written() {
        let noise = Noise { steal_secs: 0.25, ksoftirqd_secs: 0.01, load_average: 1.5 };
        let value = serde_json::from_str(&json::object(noise.json()).to_string()).unwrap();
        assert_eq!(Noise::parse(&value), Some(noise));
        assert_eq!(Noise::parse(&Value::Null), None);
    }
}
