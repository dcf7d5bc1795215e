//! Figures of a run that only some workloads have.

/// A kind of further figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    /// Answers per second in a closed loop, measured with the same server just before.
    Capacity,
    /// The answered part of the queries of normal clients, in per cent.
    AnsweredPercent,
    /// The answered part of the queries of a flood, in per cent.
    FloodPercent,
    /// Slow connections that are open at the end.
    SlowOpen,
    /// Slow connections that the server closed or refused.
    SlowClosed,
    /// Median latency of the normal clients while they are alone, in microseconds.
    AloneP50,
    /// The 99th percentile of the same.
    AloneP99,
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
    ];

    /// The key in a result file.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Capacity => "capacity_per_sec",
            Self::AnsweredPercent => "answered_percent",
            Self::FloodPercent => "flood_answered_percent",
            Self::SlowOpen => "slow_open",
            Self::SlowClosed => "slow_closed",
            Self::AloneP50 => "alone_p50_us",
            Self::AloneP99 => "alone_p99_us",
        }
    }

    /// The head of the column.
    pub(super) fn head(self) -> &'static str {
        match self {
            Self::Capacity => "capacity/s",
            Self::AnsweredPercent => "answered %",
            Self::FloodPercent => "flood answered %",
            Self::SlowOpen => "slow open",
            Self::SlowClosed => "slow closed",
            Self::AloneP50 => "alone p50 us",
            Self::AloneP99 => "alone p99 us",
        }
    }

    /// Decimal places that are shown.
    pub(super) fn digits(self) -> usize {
        match self {
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
