//! The command that measures everything that README and the page on performance show, into one
//! result.

use std::time::Instant;

use super::machine::Origin;
use super::options::Options;
use super::peer::Peer;
use super::publication::KIND;
use super::report::Counts;
use super::workload::{Measure, Workload};
use super::{instr, packages, page, peers, process, readme, syscalls};

/// Default duration of the whole command in minutes. The minimum number of rounds is always
/// measured.
const MINUTES: u64 = 30;
/// Duration of a timed run in seconds. On a shared machine, many short rounds are more reliable
/// than a few long ones.
const SECS: u64 = 1;

/// Programs that count instructions and system calls, with their Debian packages.
const COUNTERS: &[(&str, &str)] = &[("valgrind", "valgrind"), ("strace", "strace")];

/// Servers whose instructions are counted, and servers whose system calls are counted.
const COUNTED_HITS: &[Peer] = &[Peer::Bare, Peer::Nsd, Peer::Unbound, Peer::Avocet];
const COUNTED_MISSES: &[Peer] = &[Peer::Bare, Peer::Unbound, Peer::Dnsdist, Peer::Avocet];

/// Measures, stores the result and writes the documents. With `--quick`, runs one round of most
/// rows and does not change the result and the documents of the tree: it shows that the command
/// works.
///
/// # Errors
///
/// A measurement or a document fails, or the answers of Avocet are wrong.
pub(super) fn run(words: &[&str]) -> Result<(), String> {
    let others: Vec<&str> = words.iter().copied().filter(|word| *word != "--quick").collect();
    let is_quick = others.len() < words.len();
    let defaults = if is_quick { trial()? } else { whole()? };
    let mut options = defaults.changed_by(&others)?;
    packages::require(COUNTERS, &options)?;
    let origin = Origin::now();
    let started = Instant::now();
    // Counting instructions and system calls needs no files of the workloads.
    let counting = Options { workloads: Vec::new(), ..options.clone() };
    // NSD takes minutes to load its zone under callgrind.
    let hits = if is_quick { &[Peer::Avocet][..] } else { COUNTED_HITS };
    let instructions = counted(hits, &counting, instr::per_hit)?;
    let calls = counted(COUNTED_MISSES, &counting, syscalls::per_miss)?;
    let used = started.elapsed().as_secs().div_ceil(60);
    options.minutes = options.minutes.map(|minutes| minutes.saturating_sub(used).max(1));
    let mut report = peers::measure(&options)?;
    (report.instructions, report.calls) = (instructions, calls);
    peers::show(&report);
    let (measured, result) = (peers::measured(&report), report.json());
    if is_quick {
        let place = process::target_directory().join(KIND);
        let path = origin.keep_below(&place, KIND, &measured, result)?;
        page::write(&path, &place)?;
    } else {
        let root = crate::root();
        let path = origin.keep_below(&root, KIND, &measured, result)?;
        page::write(&path, &root)?;
    }
    peers::judge(&report)
}

/// Returns the options for all peers and most workloads. They omit the workload that takes hours,
/// the smaller of the two memory workloads, and the encrypted workloads, for which most peers need
/// a Go compiler.
fn whole() -> Result<Options, String> {
    let left_out = [Workload::Endurance, Workload::MemorySmall];
    let is_shown = |one: &Workload| !left_out.contains(one) && one.session().is_none();
    let workloads = Workload::ALL.iter().copied().filter(is_shown).collect();
    Ok(Options { workloads, secs: SECS, minutes: Some(MINUTES), ..Options::parse(&[])? })
}

/// Returns the options for one round of the workloads in README. The workload with a million names
/// is replaced by the smaller one.
fn trial() -> Result<Options, String> {
    let workloads = readme::workloads();
    let workloads = workloads.into_iter().filter(|one| one.measure() != Measure::Memory);
    Ok(Options {
        peers: readme::COLUMNS.to_vec(),
        workloads: workloads.chain([Workload::MemorySmall]).collect(),
        rounds: 1..=1,
        ..whole()?
    })
}

fn counted(
    peers: &[Peer],
    options: &Options,
    count: fn(&[Peer], &Options) -> Result<Counts, String>,
) -> Result<Counts, String> {
    let wanted: Vec<_> =
        peers.iter().copied().filter(|peer| options.peers.contains(peer)).collect();
    if wanted.is_empty() { Ok(Counts::new()) } else { count(&wanted, options) }
}

#[cfg(test)]
mod tests {
    use super::super::report::Report;
    use super::super::{plan, rounds};
    use super::*;

    /// Returns the estimated duration in minutes of the minimum number of rounds, without the
    /// counts.
    fn minutes(options: &Options) -> f64 {
        let rounds = 1..=*options.rounds.start();
        let steps = rounds.flat_map(|round| {
            plan::steps(&options.peers, options, round, |peer, workload| {
                rounds::wants(&Report::default(), options, round, (peer, workload))
            })
        });
        steps.map(|step| step.estimate(options)).sum::<std::time::Duration>().as_secs_f64() / 60.0
    }

    #[test]
    fn the_fewest_rounds_fit_into_the_time() {
        let (whole, trial) = (minutes(&whole().unwrap()), minutes(&trial().unwrap()));
        assert!(whole < MINUTES as f64, "{whole} minutes");
        assert!(trial < 4.0, "{trial} minutes");
    }
}
