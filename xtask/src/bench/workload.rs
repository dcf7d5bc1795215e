//! The workloads, and what their answers have to look like for a run to count.

use super::load::Load;

/// What is asked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// 10,000 cached names over UDP.
    Hot,
    /// The same, each query with an OPT record.
    HotEdns,
    /// The same names over persistent TCP connections.
    Tcp,
    /// Names never asked before, all forwarded.
    Miss,
    /// 200,000 names by Zipf's law from an empty cache.
    Zipf,
    /// What the process grows by for 1,000,000 cached names.
    Memory,
}

/// Names cached by the memory workload.
pub(super) const MEMORY_NAMES: u64 = 1_000_000;

/// The most answers that may be missing, as a share: retransmission is left to clients.
const LOST_SHARE: f64 = 0.005;
/// The share of NXDOMAIN in the Zipf mix, and how far it may be off in a short run.
const ZIPF_NXDOMAIN: (f64, f64) = (0.05, 0.02);

impl Workload {
    pub(super) const ALL: &[Self] = &[Self::Hot, Self::HotEdns, Self::Tcp, Self::Miss, Self::Zipf, Self::Memory];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::HotEdns => "hot-edns",
            Self::Tcp => "tcp",
            Self::Miss => "miss",
            Self::Zipf => "zipf",
            Self::Memory => "memory",
        }
    }

    pub(super) fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|workload| workload.name() == name);
        found.ok_or_else(|| format!("there is no workload `{name}`"))
    }

    /// Whether all names are cached before the run, so that one start serves several workloads.
    pub(super) fn is_warm(self) -> bool {
        matches!(self, Self::Hot | Self::HotEdns | Self::Tcp)
    }

    /// Whether the answers are those the zone holds; says what is wrong with them.
    pub(super) fn judge(self, load: &Load) -> Result<(), String> {
        if load.answered == 0 {
            return Err("no answers".to_owned());
        }
        let lost = load.lost as f64 / (load.answered + load.lost) as f64;
        if lost > LOST_SHARE {
            return Err(format!("{} of {} queries lost", load.lost, load.answered + load.lost));
        }
        let share = |rcode| load.with_rcode(rcode) as f64 / load.answered as f64;
        let (nxdomain, tolerance) = if self == Self::Zipf { ZIPF_NXDOMAIN } else { (0.0, 0.0) };
        let is_right = (share("NXDOMAIN") - nxdomain).abs() <= tolerance
            && load.with_rcode("NOERROR") + load.with_rcode("NXDOMAIN") == load.answered
            && load.empty == 0;
        if is_right { Ok(()) } else { Err(format!("wrong answers: {:?}, {} empty", load.rcodes, load.empty)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(workload: Workload, rcodes: &[(&str, u64)], lost: u64, is_right: bool) {
        let rcodes: Vec<_> = rcodes.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let answered = rcodes.iter().map(|(_, count)| count).sum();
        let load = Load { answered, lost, rcodes, ..Load::default() };
        assert_eq!(workload.judge(&load).is_ok(), is_right);
    }

    #[test]
    fn a_run_counts_only_with_the_right_answers() {
        check(Workload::Hot, &[("NOERROR", 1000)], 0, true);
        check(Workload::Hot, &[("NOERROR", 1000)], 100, false);
        check(Workload::Hot, &[("NOERROR", 999), ("NXDOMAIN", 1)], 0, false);
        check(Workload::Miss, &[("NOERROR", 999), ("SERVFAIL", 1)], 0, false);
        check(Workload::Zipf, &[("NOERROR", 950), ("NXDOMAIN", 50)], 0, true);
        check(Workload::Zipf, &[("NOERROR", 500), ("NXDOMAIN", 500)], 0, false);
        check(Workload::Hot, &[], 0, false);
    }
}
