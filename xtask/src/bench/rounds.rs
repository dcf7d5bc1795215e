//! The rule for the number of rounds. A pair is measured until its ratio to Avocet is clear.

use super::options::Options;
use super::peer::{Kind, Peer};
use super::readme;
use super::report::{Report, Sample};
use super::workload::{Measure, Workload};

/// A ratio is clear if it is below this range in all rounds, or above it in all rounds. Otherwise,
/// [`CLEAR_SPREAD`] decides.
const CLOSE: (f64, f64) = (0.8, 1.25);
/// A ratio is also clear if the middle half of its rounds differs by at most this share of the
/// median.
const CLEAR_SPREAD: f64 = 0.05;
/// Number of memory samples for the servers in README, and for other servers. Memory hardly varies,
/// and a sample takes half a minute.
const MEMORY_SAMPLES: (usize, usize) = (3, 1);

/// Number of rounds of the servers that README does not show, in a bench with a time limit.
const ROUNDS_OF_OTHERS: usize = 1;

/// Returns whether a pair is measured in this round, given the earlier rounds.
pub(super) fn wants(
    report: &Report,
    options: &Options,
    round: usize,
    pair: (Peer, Workload),
) -> bool {
    let (peer, workload) = pair;
    if !options.wants(peer, workload) || report.has_failed(peer, workload) {
        return false;
    }
    // A long run shows the spread by itself, so one round suffices.
    if workload == Workload::Endurance {
        return round == 1;
    }
    if workload.measure() == Measure::Memory || is_costly(workload) {
        let (of_readme, of_others) = MEMORY_SAMPLES;
        return round <= if readme::COLUMNS.contains(&peer) { of_readme } else { of_others };
    }
    // All servers in all rounds would exceed the time limit.
    if options.minutes.is_some() && !is_floor_or_shown(peer) && round > ROUNDS_OF_OTHERS {
        return false;
    }
    // A ratio needs a figure of Avocet in the same round.
    let is_unclear = |peer: Peer| peer != Peer::Avocet && !is_clear(report, (peer, workload));
    round <= *options.rounds.start()
        || is_unclear(peer)
        || peer == Peer::Avocet && options.peers.iter().any(|other| is_unclear(*other))
}

/// Returns whether README shows the server, or the goals or the text of README refer to it.
fn is_floor_or_shown(peer: Peer) -> bool {
    peer.kind() == Kind::Floor || readme::COLUMNS.contains(&peer)
}

/// Returns whether a run takes so long that a few runs must suffice.
fn is_costly(workload: Workload) -> bool {
    workload.has_crowd() || workload == Workload::Recursion
}

/// Returns whether further rounds would hardly change the ratio of Avocet to a pair. A pair without
/// ratios counts as clear.
fn is_clear(report: &Report, pair: (Peer, Workload)) -> bool {
    // Percentiles depend on the machine, so CPU time decides in workloads at a fixed rate.
    let value = |sample: &Sample| sample.cpu_us;
    let mut ratios = report.ratios_of((Peer::Avocet, pair.1), pair, value);
    ratios.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else {
        return true;
    };
    let quarter = (ratios.len() - 1) / 4;
    let middle = ratios[ratios.len() - 1 - quarter] - ratios[quarter];
    let is_decided = *most < CLOSE.0 || *least > CLOSE.1;
    is_decided || middle <= CLEAR_SPREAD * ratios[ratios.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::sample;

    fn report(ratios: &[f64]) -> Report {
        let samples = ratios.iter().enumerate().flat_map(|(index, ratio)| {
            [
                sample(Peer::Avocet, Workload::Hot, index + 1, *ratio),
                sample(Peer::Nsd, Workload::Hot, index + 1, 1.0),
            ]
        });
        Report { samples: samples.collect(), ..Report::default() }
    }

    #[track_caller]
    fn check(ratios: &[f64], is_wanted: bool) {
        let options = Options::parse(&["--peers", "nsd,avocet"]).unwrap();
        let (report, round) = (report(ratios), ratios.len() + 1);
        for peer in [Peer::Nsd, Peer::Avocet] {
            let found = wants(&report, &options, round, (peer, Workload::Hot));
            assert_eq!(found, is_wanted, "{peer:?} after {ratios:?}");
        }
    }

    #[test]
    fn three_rounds_are_the_least() {
        check(&[], true);
        check(&[0.5, 0.5], true);
    }

    #[test]
    fn a_ratio_far_from_one_is_clear_after_three_rounds() {
        check(&[0.4, 0.6, 0.79], false);
        check(&[1.3, 1.5, 2.0], false);
    }

    #[test]
    fn a_close_ratio_needs_rounds_until_its_middle_half_is_narrow() {
        check(&[0.9, 1.0, 1.1], true);
        check(&[0.98, 1.0, 1.02], false);
        check(&[0.7, 0.98, 1.0, 1.01, 1.4], false);
        check(&[0.7, 0.8, 1.0, 1.2, 1.4], true);
    }

    #[test]
    fn memory_is_sampled_more_often_for_the_servers_of_readme() {
        let options = Options::parse(&[]).unwrap();
        let of = |peer, round| wants(&Report::default(), &options, round, (peer, Workload::Memory));
        assert_eq!([1, 2, 3, 4].map(|round| of(Peer::Unbound, round)), [true, true, true, false]);
        assert_eq!([1, 2].map(|round| of(Peer::Bind9, round)), [true, false]);
        let of =
            |workload, round| wants(&Report::default(), &options, round, (Peer::Avocet, workload));
        assert_eq!([1, 3, 4].map(|round| of(Workload::Flood, round)), [true, true, false]);
        assert_eq!([1, 2].map(|round| of(Workload::Endurance, round)), [true, false]);
    }
}
