//! Lock contention. strace records every futex(2) call of two workers with its stack and its
//! duration.
//!
//! An uncontended lock makes no system call, so the picture shows only contention and wake-ups.

use std::fs;
use std::process::Command;

use super::{Setup, Stacks, Watcher, Workload, put_under_load, start};

/// The cores of the server: two, so that two workers can contend.
const CORES: &str = "0,1";
const TWO_WORKERS: &[&str] = &["env", "AVOCET_SERVER__WORKERS=2"];

pub(super) fn stacks(setup: &Setup, workload: Workload, secs: u64) -> Result<Stacks, String> {
    let server = start(setup, workload, TWO_WORKERS, CORES)?;
    let out = setup.file("futex.out");
    let mut trace = Command::new("strace");
    trace.args(["-f", "-k", "-T", "-e", "trace=futex", "-o"]).arg(&out);
    for process in server.tree() {
        trace.args(["-p", &process.to_string()]);
    }
    let watcher = Watcher::start(&mut trace)?;
    put_under_load(setup, workload, secs)?;
    watcher.end()?;
    drop(server);
    fs::read_to_string(&out).map(|text| read(&text)).map_err(|error| {
        format!(
            "strace attached to nothing; sysctl kernel.yama.ptrace_scope may forbid it \
             here.\n{error}"
        )
    })
}

/// Parses strace's output. Each call is a line with its duration in angle brackets, followed by its
/// frames, the innermost first. The frames of an interrupted call follow the line that resumes it.
fn read(text: &str) -> Stacks {
    let mut stacks = Stacks::default();
    let (mut frames, mut micros) = (Vec::new(), 0);
    for line in text.lines().chain(["end"]) {
        if let Some(frame) = line.strip_prefix(" > ") {
            frames.push(symbol(frame).to_owned());
            continue;
        }
        frames.reverse();
        stacks.add(&frames, micros);
        frames.clear();
        micros = took_micros(line);
    }
    stacks
}

/// Returns the symbol in a frame `/path(symbol+0x1) [0x2]`, or the path if there is no symbol.
fn symbol(frame: &str) -> &str {
    let name = frame.split_once('(').map_or(frame, |(_, rest)| rest);
    match name.rsplit_once("+0x") {
        Some((symbol, _)) => symbol,
        None => frame.split('(').next().unwrap_or(frame),
    }
}

/// Returns the duration of a call, which is at least one microsecond. Returns zero if the line has
/// no duration.
fn took_micros(line: &str) -> u64 {
    let secs = line
        .trim_end()
        .strip_suffix('>')
        .and_then(|line| line.rsplit_once('<')?.1.parse::<f64>().ok());
    secs.map_or(0, |secs| (secs * 1e6).round().max(1.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_read_with_their_time_and_stack() {
        let text = "7  futex(0x7f, FUTEX_WAIT_PRIVATE, 2, NULL) = 0 <0.000010>\n > \
                    /x/libc.so.6(syscall+0x1d) [0x1]\n > /x/avocet(avocet::a(b)::run+0x2) \
                    [0x2]\n7  futex(0x7f, FUTEX_WAKE_PRIVATE, 1) = 1 <0.000000>\n > /x/avocet() \
                    [0x3]\n8 +++ exited with 0 +++\n";
        assert_eq!(read(text).folded(), "/x/avocet 1\navocet::a(b)::run;syscall 10\n");
    }
}
