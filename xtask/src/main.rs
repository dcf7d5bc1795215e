//! Tasks of the workspace: `cargo xtask tidy`, `house`, `bench`, `gate`, `profile`, `simulate`,
//! `conformance` and `internet`.

#![forbid(unsafe_code)]

mod bench;
mod conformance;
mod gate;
mod house;
mod internet;
mod random;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage:
  cargo xtask tidy                 check the rules of CONTRIBUTING.md that a machine can check
  cargo xtask house [--cycles]     print the figures of the code's structure: sizes, cycles, long \
                     functions, homonyms
  cargo xtask gate [--update]      count the instructions of hot operations; refuse 3 % more than \
                     kept, or keep these
  cargo xtask profile cpu|alloc|lock [-- WORKLOAD [--secs N] [--no-build]]
                                   a flame graph of the server under load (hot, hot-edns, tcp, \
                     miss, zipf)
  cargo xtask bench quick          a first look in two minutes: cached names, TCP and misses \
                     next to a few servers
  cargo xtask bench publish [--quick]
                                   everything that README and the page on performance show, in \
                                     one result, about
                                   30 minutes; with --quick, four minutes that show that it works
  cargo xtask bench peers          every workload next to every server, in interleaved rounds
  cargo xtask bench abreast        close calls: servers that are up together take turns of some \
                     tenths of a second
                                   (hot, hot-edns, hit-5k, hit-20k, tcp, miss)
  cargo xtask bench agree          dnsperf and avocet load in turns: whether their rates and mean \
                     latencies agree
  cargo xtask bench pool FIRST OTHER...
                                   add the rounds of further results of `publish` to the first
  cargo xtask bench page [FILE]    write README's figures and the page on performance from a \
                     result, the newest
                                   published one if none is named
  cargo xtask bench micro          time and memory of single operations, next to other crates
  cargo xtask bench crates         run the benches in the directories of the crates and keep their \
                     output
  cargo xtask bench instr          user instructions per query, counted by callgrind
  cargo xtask bench syscalls       system calls per missed query, counted by strace
  cargo xtask bench reload [--rate N]
                                   what swapping a list of a million names costs those who ask: \
                     losses, latency, memory
  cargo xtask bench querylog [--entries N] [--others N] [--agree] [--python PROGRAM]
                             [--directory PATH] [--keep]
                                   size, speed, memory and searches of the query log, next to SQLite \
                     and JSON lines
options of bench quick, publish, peers, abreast, instr, syscalls and reload:
  --peers a,b        avocet, bare, bare-mmsg, bare-pool, nsd, knot, knot-xdp, unbound, dnsdist, \
                     pdns-recursor,
                     bind9, knot-resolver, dnsmasq, coredns, dnsproxy, earlier,
                     avocet-logged
  --workloads a,b    hot, hot-edns, latency, tcp, dot, dot-new, dot-resumed, doh, doq, doh3, miss, \
                     zipf, unlisted, blocked, memory-200k, memory, \
                     veth
  --only TEXT        only the pairs `peer/workload` that contain TEXT (crates: `crate/bench`; \
                     micro: rows)
  --rounds N[-M]     interleaved rounds: N, or from N to M until the ratios are clear; 3-10 if \
                     not given, quick 2,
                     other benches 5
  --minutes N        further rounds only within this time (publish and peers); publish 25 if not \
                     given
  --secs N           seconds of each timed run; 5 if not given, publish 1, quick 2
  --generator NAME   dnsperf, blast (UDP only) or avocet
  --install          install the Debian packages that are missing, as root (quick, publish and peers)
  --no-build         take the binaries of the profile `dist` as they are
  cargo xtask simulate [COUNT [FIRST]] [--mode recursion|forwarder|all]
                                   resolve in random internets in virtual time, 10000 of them in \
                     each mode, and check
                                   every answer; on all cores
  cargo xtask conformance [TIER]   the probes of EDNS and the field's scenarios against the \
                     binary, next to its peers;
                                   as root; tiers T1 and T2-single
  cargo xtask internet             the same questions to several resolvers over an internet of its \
                     own; wants root
options of internet:
  --avocet PATH      the binary to compare; without it only the peers are compared with one another
  --peers a,b        unbound, named, kresd; all of them if not given
  --seed N           what zones and questions are drawn from, 1 if not given
  --questions N      5000 if not given
  --rtt MS           the time to each name server and back; with this or one of the next two, \
                     zones that nothing
                     is wrong with are asked about, and who gets through how soon is what counts
  --loss PERCENT     how many datagrams are lost each way
  --alive half       one of two servers of each zone is silent
  --keep DIRECTORY   an empty place where zones, logs and all differences are kept";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["tidy"] => check_tidiness(),
        ["house", ref options @ ..] => house::run(&root(), options),
        ["gate", ref options @ ..] => gate::run(options),
        ["profile", kind, ref options @ ..] => bench::profile(kind, options),
        ["simulate", ref arguments @ ..] => simulate(arguments),
        ["conformance", ref tiers @ ..] => conformance::run(&root(), tiers),
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

/// Runs simulations. A long series needs an optimised build.
fn simulate(arguments: &[&str]) -> Result<(), String> {
    let mut command = std::process::Command::new("cargo");
    command.args([
        "run",
        "-q",
        "--profile",
        "bench-quick",
        "-p",
        "avocet-testkit",
        "--features",
        "known-signatures",
        "--example",
        "simulate",
        "--",
    ]);
    command.args(arguments);
    let status =
        command.current_dir(root()).status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err("not all that must hold holds".to_owned()) }
}

fn check_tidiness() -> Result<(), String> {
    let tree = tidy::Tree::read(&root()).map_err(|error| error.to_string())?;
    let mut report = tidy::report(&tree);
    report.extend(
        tidy::foreign_results(&root(), &tree).iter().map(|fault| format!("results: {fault}")),
    );
    report.extend(house::faults(&root())?);
    if report.is_empty() { Ok(()) } else { Err(report.join("\n")) }
}

/// Returns the root of the workspace.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}
