//! The schedule of the queries of a flow.

/// The pace of a flow. All times are in nanoseconds from the start of the run.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    /// Closed loop: a fixed number of queries is in flight. Each answer makes the next query due.
    Window {
        /// Number of queries in flight.
        size: usize,
    },
    /// Open loop: a fixed rate, regardless of the answers.
    Rate {
        /// Queries per second.
        per_sec: f64,
        /// The time at which the first query is due.
        start_ns: u64,
        /// Number of queries that were chosen.
        taken: u64,
    },
    /// The times of a recording.
    Recorded {
        /// The time of each query, counted from the start of the recording.
        due_ns: std::sync::Arc<[u64]>,
        /// The time of the run at which the recording starts.
        start_ns: u64,
        /// Number of queries that were chosen.
        taken: usize,
    },
}

impl Pace {
    pub(crate) const fn window(size: usize) -> Self {
        Self::Window { size }
    }

    pub(crate) const fn rate(per_sec: f64) -> Self {
        Self::Rate { per_sec, start_ns: 0, taken: 0 }
    }

    /// Restarts the schedule at `now_ns`.
    pub(crate) fn start(&mut self, now_ns: u64) {
        match self {
            Self::Window { .. } => {}
            Self::Rate { start_ns, taken, .. } => (*start_ns, *taken) = (now_ns, 0),
            Self::Recorded { start_ns, taken, .. } => (*start_ns, *taken) = (now_ns, 0),
        }
    }

    /// Sets the rate of an open loop.
    pub(crate) fn set_rate(&mut self, rate: f64) {
        if let Self::Rate { per_sec, .. } = self {
            *per_sec = rate;
        }
    }

    /// Returns the time at which the next query is due. In a closed loop, it is due now if fewer
    /// queries than the window are in flight.
    #[inline]
    pub(crate) fn next_due(&self, now_ns: u64, in_flight: usize) -> Option<u64> {
        match self {
            Self::Window { size } => (in_flight < *size).then_some(now_ns),
            Self::Rate { per_sec, start_ns, taken } => {
                (*per_sec > 0.0).then(|| start_ns + (*taken as f64 * 1e9 / per_sec) as u64)
            }
            Self::Recorded { due_ns, start_ns, taken } => {
                due_ns.get(*taken).map(|due| start_ns + due)
            }
        }
    }

    /// Takes the next query, which is sent now or as soon as the socket accepts it.
    #[inline]
    pub(crate) fn take(&mut self) {
        match self {
            Self::Window { .. } => {}
            Self::Rate { taken, .. } => *taken += 1,
            Self::Recorded { taken, .. } => *taken += 1,
        }
    }

    /// Reports whether the schedule is independent of the server.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self, Self::Window { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(pace: &mut Pace, count: usize) -> Vec<u64> {
        (0..count).filter_map(|_| pace.next_due(0, 0).inspect(|_| pace.take())).collect()
    }

    #[test]
    fn an_open_loop_keeps_its_times() {
        let mut pace = Pace::rate(4.0);
        pace.start(1_000_000_000);
        assert_eq!(due(&mut pace, 4), [1_000_000_000, 1_250_000_000, 1_500_000_000, 1_750_000_000]);
        pace.set_rate(1000.0);
        pace.start(0);
        assert_eq!(due(&mut pace, 3), [0, 1_000_000, 2_000_000]);
        assert_eq!(Pace::rate(0.0).next_due(0, 0), None);
    }

    #[test]
    fn a_closed_loop_waits_for_room() {
        let pace = Pace::window(2);
        assert_eq!(
            [pace.next_due(7, 0), pace.next_due(7, 1), pace.next_due(7, 2)],
            [Some(7), Some(7), None]
        );
    }

    #[test]
    fn a_recording_ends() {
        let mut pace = Pace::Recorded { due_ns: [0, 5, 9].into(), start_ns: 0, taken: 0 };
        pace.start(100);
        assert_eq!(due(&mut pace, 9), [100, 105, 109]);
    }
}
