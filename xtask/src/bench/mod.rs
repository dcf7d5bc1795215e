//! Benches against other servers, each pinned to a core of its own beside the generator's.
//!
//! Figures of different days or machines are not compared; ratios within one run are. What a run
//! measured, and on what, is kept in `bench/results`.

mod ask;
mod instr;
mod json;
mod load;
mod machine;
mod material;
mod micro;
mod options;
mod peer;
mod peers;
pub(crate) mod process;
mod report;
mod setup;
mod syscalls;
mod workload;

pub(crate) use load::output;
use options::Options;

/// Runs one kind of bench with its options.
pub(crate) fn run(kind: &str, words: &[&str]) -> Result<(), String> {
    let options = Options::parse(words)?;
    match kind {
        "micro" => micro::run(&options),
        "peers" => peers::run(&options),
        "instr" => instr::run(&options),
        "syscalls" => syscalls::run(&options),
        unknown => Err(format!("there is no bench `{unknown}`: micro, peers, instr or syscalls")),
    }
}
