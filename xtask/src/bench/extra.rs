//! Figures of a run that only some workloads have.

/// A kind of further figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    /// Answers per second in a closed loop, measured with the same server just before.
    Capacity,
}

impl Extra {
    pub(super) const ALL: &[Self] = &[Self::Capacity];

    /// The key in a result file.
    pub(super) fn key(self) -> &'static str {
        match self {
            Self::Capacity => "capacity_per_sec",
        }
    }

    /// The head of the column.
    pub(super) fn head(self) -> &'static str {
        match self {
            Self::Capacity => "capacity/s",
        }
    }

    /// Decimal places that are shown.
    pub(super) fn digits(self) -> usize {
        match self {
            Self::Capacity => 0,
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
