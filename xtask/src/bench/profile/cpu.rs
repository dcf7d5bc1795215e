//! CPU time. perf samples the server's stacks by the clock, which needs no hardware counters.

use std::process::Command;

use super::{SERVER_CORE, Setup, Stacks, Watcher, Workload, ids, load, put_under_load, start};

/// Number of samples per second. It does not divide the kernel's tick rate.
const RATE: &str = "997";
/// The method of recording stacks, with the number of octets of each stack: the build for packages
/// has no frame pointers.
const STACK: &str = "dwarf,8192";

pub(super) fn stacks(setup: &Setup, workload: Workload, secs: u64) -> Result<Stacks, String> {
    let server = start(setup, workload, &[], SERVER_CORE)?;
    let data = setup.file("perf.data");
    let mut record = Command::new("perf");
    record.args([
        "record",
        "--quiet",
        "-e",
        "cpu-clock",
        "-F",
        RATE,
        "--call-graph",
        STACK,
        "-p",
        &ids(&server),
    ]);
    let watcher = Watcher::start(record.arg("-o").arg(&data))?;
    put_under_load(setup, workload, secs)?;
    watcher.end()?;
    drop(server);
    let mut script = Command::new("perf");
    // Without this option, resolving inlined functions address by address takes minutes.
    script.args(["script", "--no-inline", "-F", "comm,ip,sym", "-i"]).arg(&data);
    let text = load::output(script).map_err(|error| {
        format!(
            "perf recorded nothing; sysctl kernel.perf_event_paranoid may forbid it here.\n{error}"
        )
    })?;
    Ok(read(&text))
}

/// Parses perf's script. Each sample has a line with the thread, one line per frame with the
/// innermost first, and an empty line.
fn read(text: &str) -> Stacks {
    let mut stacks = Stacks::default();
    for sample in text.split("\n\n") {
        let mut lines = sample.lines().filter(|line| !line.is_empty());
        let Some(thread) = lines.next() else { continue };
        let symbol =
            |line: &str| line.trim().split_once(' ').map(|(_, symbol)| symbol.trim().to_owned());
        let mut frames: Vec<String> = lines.filter_map(symbol).collect();
        frames.push(thread.trim().to_owned());
        frames.reverse();
        stacks.add(&frames, 1);
    }
    stacks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_from_the_outermost_frame() {
        let text = "worker-0 \n\t  1 answer\n\t 2 run a\n\nworker-0 \n\t 1 answer\n\t 2 run \
                    a\n\nlog \n\t 3 [unknown]\n\n";
        assert_eq!(read(text).folded(), "log;[unknown] 1\nworker-0;run a;answer 2\n");
    }
}
