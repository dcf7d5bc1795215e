//! Chores of the workspace: `cargo xtask tidy`, `cargo xtask bench` and `cargo xtask internet`.

#![forbid(unsafe_code)]

mod bench;
mod internet;
mod random;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage:
  cargo xtask tidy                 check the rules of CONTRIBUTING.md that a machine can check
  cargo xtask bench micro          run the in-process benches of the crates and keep their output
  cargo xtask bench peers          CPU time per query beside other servers, in interleaved rounds
  cargo xtask bench instr          user instructions per cached query, counted by callgrind
  cargo xtask bench syscalls       system calls per missed query, counted by strace
options of bench peers, instr and syscalls:
  --peers a,b        avocet, bare, bare-mmsg, bare-pool, nsd, unbound, dnsdist
  --workloads a,b    hot, hot-edns, tcp, miss, zipf, memory (peers only)
  --only TEXT        only the pairs `peer/workload` that contain TEXT (micro: `crate/bench`)
  --rounds N         interleaved rounds, 5 if not given
  --secs N           seconds of each timed run, 5 if not given
  --generator NAME   dnsperf or blast, for the UDP workloads
  --no-build         take the release binaries as they are
  cargo xtask internet             the same questions to several resolvers over an internet of its own; wants root
options of internet:
  --avocet PATH      the binary to compare; without it only the peers are compared with one another
  --peers a,b        unbound, named, kresd; all of them if not given
  --seed N           what zones and questions are drawn from, 1 if not given
  --questions N      5000 if not given
  --rtt MS           the time to each name server and back; with this or one of the next two, zones that nothing
                     is wrong with are asked about, and who gets through how soon is what counts
  --loss PERCENT     how many datagrams are lost each way
  --alive half       one of two servers of each zone is silent
  --keep DIRECTORY   an empty place where zones, logs and all differences are kept";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["tidy"] => check_tidiness(),
        ["bench", kind, ref options @ ..] => bench::run(kind, options),
        ["internet", ref options @ ..] => internet::run(options),
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
