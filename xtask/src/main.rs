//! Chores of the workspace: `cargo xtask tidy`, `cargo xtask bench` and `cargo xtask conformance`.

#![forbid(unsafe_code)]

mod bench;
mod conformance;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage:
  cargo xtask tidy                 check the rules of CONTRIBUTING.md that a machine can check
  cargo xtask bench micro          run the in-process benches of the crates and keep their output
  cargo xtask bench peers          CPU time per query beside other servers, in interleaved rounds
  cargo xtask bench instr          user instructions per cached query, counted by callgrind
  cargo xtask bench syscalls       system calls per missed query, counted by strace
  cargo xtask conformance [TIER]   play the field's scenarios against the binary, as root; tiers T1 and T2-single
options of bench peers, instr and syscalls:
  --peers a,b        avocet, bare, bare-mmsg, bare-pool, nsd, unbound, dnsdist
  --workloads a,b    hot, hot-edns, tcp, miss, zipf, memory (peers only)
  --only TEXT        only the pairs `peer/workload` that contain TEXT (micro: `crate/bench`)
  --rounds N         interleaved rounds, 5 if not given
  --secs N           seconds of each timed run, 5 if not given
  --generator NAME   dnsperf or blast, for the UDP workloads
  --no-build         take the release binaries as they are";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["tidy"] => check_tidiness(),
        ["conformance", ref tiers @ ..] => conformance::run(&root(), tiers),
        ["bench", kind, ref options @ ..] => bench::run(kind, options),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn check_tidiness() -> Result<(), String> {
    let tree = tidy::Tree::read(&root()).map_err(|error| error.to_string())?;
    let report = tidy::report(&tree);
    if report.is_empty() { Ok(()) } else { Err(report.join("\n")) }
}

/// The root of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
