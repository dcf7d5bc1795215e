//! The order of the measurements, and their estimated duration.

use std::time::Duration;

use super::material::ZIPF_QUERIES;
use super::options::Options;
use super::peer::Peer;
use super::workload::Workload;
use super::{crowd, endurance};

/// A step of the plan: one start of a server and its workloads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// The number of the round, starting at 1.
    pub(super) round: usize,
    pub(super) peer: Peer,
    /// The workloads that share the start.
    pub(super) session: Vec<Workload>,
}

/// Seconds for the start and the end of a server, and for loading its block list.
const START_SECS: f64 = 0.8;
const LIST_SECS: f64 = 1.5;
/// Seconds for warming up and comparing answers.
const WARM_UP_SECS: f64 = 0.4;
/// Number of names that a resolver caches per second.
const CACHED_PER_SEC: f64 = 30_000.0;

impl Step {
    /// Estimates the duration of this step.
    pub(super) fn estimate(&self, options: &Options) -> Duration {
        let secs = |workload: &Workload| match (workload.cached_names(), workload) {
            (Some(names), _) => names as f64 / CACHED_PER_SEC,
            (None, Workload::Zipf) => ZIPF_QUERIES as f64 / CACHED_PER_SEC,
            (None, Workload::Unlisted) => options.secs as f64 + WARM_UP_SECS + LIST_SECS,
            // Measuring the capacity takes the same time as the run at half of it.
            (None, Workload::HitHalf) => 2.0 * options.secs as f64 + WARM_UP_SECS,
            (None, Workload::Endurance) => endurance::secs(options.hours) as f64,
            (None, Workload::Flood | Workload::SlowTcp) => {
                crowd::secs(options.secs) as f64 + WARM_UP_SECS
            }
            (None, workload) => workload.secs(options.secs) as f64 + WARM_UP_SECS,
        };
        Duration::from_secs_f64(START_SECS + self.session.iter().map(secs).sum::<f64>())
    }
}

/// Returns the steps of a round for the wanted pairs. Each round starts with a different peer, so
/// that the order varies.
pub(super) fn steps(
    peers: &[Peer],
    options: &Options,
    round: usize,
    is_wanted: impl Fn(Peer, Workload) -> bool,
) -> Vec<Step> {
    let turns = (0..peers.len()).map(|index| peers[(index + round - 1) % peers.len()]);
    turns
        .flat_map(|peer| {
            // All resolvers take part in a single run of the workload `Recursion`.
            let wanted =
                options.workloads.iter().copied().filter(|one| *one != Workload::Recursion);
            let sessions = sessions(peer, wanted.filter(|workload| is_wanted(peer, *workload)));
            sessions.into_iter().map(move |session| Step { round, peer, session })
        })
        .collect()
}

/// Returns the workloads of a peer, grouped by the starts of the server that they need.
fn sessions(peer: Peer, workloads: impl Iterator<Item = Workload>) -> Vec<Vec<Workload>> {
    let mut found: Vec<Vec<Workload>> = Vec::new();
    for workload in workloads {
        match found.last_mut().and_then(|session| Some((*session.first()?, session))) {
            Some((first, session)) if peer.shares_start(first, workload) => session.push(workload),
            _ => found.push(vec![workload]),
        }
    }
    found
}

/// The durations of steps, estimated from the completed steps.
#[derive(Default)]
pub(super) struct Pace {
    /// The sum of the estimates of the completed steps, and the sum of their real durations.
    estimated: Duration,
    elapsed: Duration,
}

impl Pace {
    pub(super) fn completed(&mut self, estimated: Duration, elapsed: Duration) {
        self.estimated += estimated;
        self.elapsed += elapsed;
    }

    /// Returns the expected duration of these steps.
    pub(super) fn of(&self, steps: &[Step], options: &Options) -> Duration {
        let estimate: Duration = steps.iter().map(|step| step.estimate(options)).sum();
        if self.estimated.is_zero() {
            return estimate;
        }
        estimate.mul_f64(self.elapsed.as_secs_f64() / self.estimated.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(sessions: Vec<Vec<Workload>>) -> String {
        let session = |session: Vec<Workload>| {
            session.iter().map(|one| one.name()).collect::<Vec<_>>().join("+")
        };
        sessions.into_iter().map(session).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn warm_workloads_share_a_start_and_others_do_not() {
        let options = Options::parse(&[]).unwrap();
        let of = |peer: Peer| {
            let workloads = options.workloads.iter().copied();
            names(sessions(peer, workloads.filter(|workload| options.wants(peer, *workload))))
        };
        let warm = "hot+hot-edns+latency+hit-5k+hit-20k+hit-half";
        let own = "hot-ipv6 hot-do workers-1 workers-2 flood slow-tcp";
        assert_eq!(
            of(Peer::Unbound),
            format!(
                "{warm}+tcp dot+dot-new+dot-resumed doh {own} miss zipf unlisted+blocked \
                 memory-200k memory endurance recursion"
            )
        );
        assert_eq!(of(Peer::Dnsproxy), "dot+dot-new+dot-resumed doh doq doh3");
        assert_eq!(of(Peer::Bare), format!("{warm} tcp miss veth"));
        assert_eq!(of(Peer::Nsd), format!("{warm}+tcp {own}"));
    }

    #[test]
    fn each_round_starts_with_another_peer() {
        let options = Options::parse(&["--workloads", "hot"]).unwrap();
        let order = |round, is_wanted: fn(Peer, Workload) -> bool| {
            let steps = steps(&[Peer::Bare, Peer::Nsd], &options, round, is_wanted);
            steps.iter().map(|step| (step.round, step.peer)).collect::<Vec<_>>()
        };
        assert_eq!(order(1, |_, _| true), [(1, Peer::Bare), (1, Peer::Nsd)]);
        assert_eq!(order(2, |_, _| true), [(2, Peer::Nsd), (2, Peer::Bare)]);
        assert_eq!(order(2, |peer, _| peer == Peer::Bare), [(2, Peer::Bare)]);
    }

    #[test]
    fn the_time_of_steps_goes_by_the_pace_so_far() {
        let options = Options::parse(&["--workloads", "hot"]).unwrap();
        let steps = steps(&[Peer::Bare], &options, 1, |_, _| true);
        let mut pace = Pace::default();
        let estimate = pace.of(&steps, &options);
        pace.completed(Duration::from_secs(10), Duration::from_secs(20));
        assert_eq!(pace.of(&steps, &options), estimate * 2);
    }
}
