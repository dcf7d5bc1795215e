//! The order of measurements, and their estimated duration.

use std::time::Duration;

use super::material::ZIPF_QUERIES;
use super::options::Options;
use super::peer::Peer;
use super::workload::Workload;

/// One start of a server and its workloads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// Starts at 1.
    pub(super) round: usize,
    pub(super) peer: Peer,
    /// Workloads that share the start.
    pub(super) session: Vec<Workload>,
}

/// Seconds for the start and end of a server, and for loading its block list.
const START_SECS: f64 = 0.8;
const LIST_SECS: f64 = 1.5;
/// Seconds for warming up and comparing answers.
const WARM_UP_SECS: f64 = 0.4;
/// Names per second that a resolver caches.
const CACHED_PER_SEC: f64 = 30_000.0;

impl Step {
    /// Estimates the duration of this step.
    pub(super) fn estimate(&self, options: &Options) -> Duration {
        let secs = |workload: &Workload| match (workload.cached_names(), workload) {
            (Some(names), _) => names as f64 / CACHED_PER_SEC,
            (None, Workload::Zipf) => ZIPF_QUERIES as f64 / CACHED_PER_SEC,
            (None, Workload::Unlisted) => options.secs as f64 + WARM_UP_SECS + LIST_SECS,
            // The capacity takes as long as the run at half of it.
            (None, Workload::HitHalf) => 2.0 * options.secs as f64 + WARM_UP_SECS,
            _ => options.secs as f64 + WARM_UP_SECS,
        };
        Duration::from_secs_f64(START_SECS + self.session.iter().map(secs).sum::<f64>())
    }
}

/// All steps, round by round. Each round starts with another peer, so that the order varies.
pub(super) fn steps(peers: &[Peer], options: &Options) -> Vec<Step> {
    let rounds = 1..=options.rounds;
    let turns = rounds.flat_map(|round| {
        (0..peers.len()).map(move |index| (round, (index + round - 1) % peers.len()))
    });
    turns
        .flat_map(|(round, index)| {
            let peer = peers[index];
            sessions(peer, options, round).into_iter().map(move |session| Step {
                round,
                peer,
                session,
            })
        })
        .collect()
}

/// The workloads of a peer, grouped by the starts of the server that they need.
fn sessions(peer: Peer, options: &Options, round: usize) -> Vec<Vec<Workload>> {
    let mut found: Vec<Vec<Workload>> = Vec::new();
    for workload in
        options.workloads.iter().copied().filter(|workload| options.wants(peer, *workload))
    {
        // Memory does not vary between rounds: once is enough.
        if workload.cached_names().is_some() && round > 1 {
            continue;
        }
        match found.last_mut().and_then(|session| Some((*session.first()?, session))) {
            Some((first, session)) if peer.shares_start(first, workload) => session.push(workload),
            _ => found.push(vec![workload]),
        }
    }
    found
}

/// The completed part of a plan.
pub(super) struct Progress {
    total: Duration,
    done: Duration,
}

impl Progress {
    pub(super) fn of(steps: &[Step], options: &Options) -> Self {
        let total = steps.iter().map(|step| step.estimate(options)).sum();
        Self { total, done: Duration::ZERO }
    }

    pub(super) fn advance(&mut self, by: Duration) {
        self.done += by;
    }

    /// Whole minutes that remain, estimated from the completed steps.
    pub(super) fn minutes_left(&self, elapsed: Duration) -> u64 {
        let pace =
            if self.done.is_zero() { 1.0 } else { elapsed.as_secs_f64() / self.done.as_secs_f64() };
        let left = self.total.saturating_sub(self.done).as_secs_f64() * pace;
        (left / 60.0).ceil() as u64
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
        let of = |peer, round| names(sessions(peer, &options, round));
        let timed = "hot+hot-edns+latency+hit-5k+hit-20k+hit-half+tcp hot-ipv6 hot-do \
                     workers-1 workers-2 miss zipf unlisted+blocked";
        assert_eq!(of(Peer::Unbound, 1), format!("{timed} memory-200k memory"));
        assert_eq!(of(Peer::Unbound, 2), timed);
        assert_eq!(of(Peer::Bare, 1), "hot+hot-edns+latency+hit-5k+hit-20k+hit-half tcp miss veth");
        assert_eq!(
            of(Peer::Nsd, 1),
            "hot+hot-edns+latency+hit-5k+hit-20k+hit-half+tcp hot-ipv6 hot-do workers-1 workers-2"
        );
    }

    #[test]
    fn each_round_starts_with_another_peer() {
        let options = Options::parse(&["--workloads", "hot", "--rounds", "2"]).unwrap();
        let order: Vec<_> = steps(&[Peer::Bare, Peer::Nsd], &options)
            .iter()
            .map(|step| (step.round, step.peer))
            .collect();
        assert_eq!(order, [(1, Peer::Bare), (1, Peer::Nsd), (2, Peer::Nsd), (2, Peer::Bare)]);
    }

    #[test]
    fn what_is_left_goes_by_the_pace_so_far() {
        let mut progress = Progress { total: Duration::from_secs(600), done: Duration::ZERO };
        assert_eq!(progress.minutes_left(Duration::ZERO), 10);
        progress.advance(Duration::from_secs(300));
        assert_eq!(progress.minutes_left(Duration::from_secs(600)), 10);
        progress.advance(Duration::from_secs(300));
        assert_eq!(progress.minutes_left(Duration::from_secs(1200)), 0);
    }
}
