//! Figures of a run that only some workloads have.

/// A kind of additional figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    /// Answers per second in a closed loop, measured with the same server just before.
    Capacity,
    /// Share of the queries of normal clients that was answered, in per cent.
    AnsweredPercent,
    /// Share of the queries of a flood that was answered, in per cent.
    FloodPercent,
    /// Number of slow connections that are open at the end.
    SlowOpen,
    /// Number of slow connections that the server closed or refused.
    SlowClosed,
    /// Median latency of the normal clients while they are alone, in microseconds.
    AloneP50,
    /// 99th percentile of the latency of the normal clients while they are alone, in microseconds.
    AloneP99,
    /// Median of the memory in the second half of a long run, in megabytes.
    ResidentMb,
    /// Lowest memory in the second half of a long run, in megabytes.
    LeastMb,
    /// Highest memory in the second half of a long run, in megabytes.
    MostMb,
    /// Drift of the memory in the second half of a long run, in megabytes per hour.
    DriftMb,
    /// Number of queries to name servers per question.
    Upstream,
    /// Number of questions that ended with SERVFAIL.
    Servfail,
    /// Number of answers that differ from those of most resolvers without a known reason.
    Wrong,
    /// Number of answers with AD that cannot be secure.
    FalselyAuthentic,
}

impl Extra {
    pub(super) const ALL: &[Self] = &[
        Self::Capacity,
        Self::AnsweredPercent,
        Self::FloodPercent,
        Self::SlowOpen,
        Self::SlowClosed,
        Self::AloneP50,
        Self::AloneP99,
        Self::ResidentMb,
        Self::LeastMb,
        Self::MostMb,
        Self::DriftMb,
        Self::Upstream,
        Self::Servfail,
        Self::Wrong,
        Self::FalselyAuthentic,
    ];

    /// Returns the key of the figure in a result file.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::ResidentMb => "pss_mb",
            Self::LeastMb => "pss_least_mb",
            Self::MostMb => "pss_most_mb",
            Self::DriftMb => "pss_drift_mb_per_hour",
            Self::Upstream => "upstream_per_name",
            Self::Servfail => "servfail",
            Self::FalselyAuthentic => "falsely_authentic",
            Self::Wrong => "wrong",
            Self::Capacity => "capacity_per_sec",
            Self::AnsweredPercent => "answered_percent",
            Self::FloodPercent => "flood_answered_percent",
            Self::SlowOpen => "slow_open",
            Self::SlowClosed => "slow_closed",
            Self::AloneP50 => "alone_p50_us",
            Self::AloneP99 => "alone_p99_us",
        }
    }

    /// Returns the heading of the figure's column.
    pub(super) fn head(self) -> &'static str {
        match self {
            Self::ResidentMb => "PSS MB",
            Self::LeastMb => "least MB",
            Self::MostMb => "most MB",
            Self::DriftMb => "drift MB/h",
            Self::Upstream => "upstream/name",
            Self::Servfail => "SERVFAIL",
            Self::FalselyAuthentic => "false AD",
            Self::Wrong => "wrong",
            Self::Capacity => "capacity/s",
            Self::AnsweredPercent => "answered %",
            Self::FloodPercent => "flood answered %",
            Self::SlowOpen => "slow open",
            Self::SlowClosed => "slow closed",
            Self::AloneP50 => "alone p50 us",
            Self::AloneP99 => "alone p99 us",
        }
    }

    /// Returns the number of decimal places that are shown.
    pub(super) fn digits(self) -> usize {
        match self {
            Self::ResidentMb | Self::LeastMb | Self::MostMb | Self::DriftMb => 1,
            Self::Upstream => 2,

            Self::FloodPercent => 1,
            Self::AnsweredPercent => 2,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_a_key_of_its_own() {
        for (index, extra) in Extra::ALL.iter().enumerate() {
            assert!(Extra::ALL[..index].iter().all(|other| other.key() != extra.key()));
        }
    }
}
