//! The workloads, and the checks that their answers must pass.

use super::ask::Transport;
use super::encrypted::Session;
use super::load::Load;
use super::peer::Refusal;
use super::process::SERVER_CORE;

/// The queries that a server gets, and the conditions of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// 10,000 cached names over UDP.
    Hot,
    /// The names of `Hot`; each query has an OPT record.
    HotEdns,
    /// The names of `Hot` at 20,000 queries per second, regardless of the server. The figure is the
    /// latency.
    Latency,
    /// The names of `Hot` at 5,000 queries per second.
    HitSlow,
    /// The names of `Hot` at 20,000 queries per second. Unlike in `Latency`, the figure is the CPU
    /// time.
    HitSteady,
    /// The names of `Hot` at half of the server's own capacity.
    HitHalf,
    /// The names of `Hot` over UDP and IPv6.
    HotIpv6,
    /// 10,000 cached names of a signed zone; each query sets DO.
    HotDo,
    /// The names of `Hot` for a server with one worker that may use two cores.
    OneWorker,
    /// The names of `Hot` for a server with two workers on two cores.
    TwoWorkers,
    /// The names of `Hot` over persistent TCP connections.
    Tcp,
    /// The names of `Hot` over persistent TLS connections.
    Dot,
    /// The names of `Hot` over persistent HTTP/2 connections.
    Doh,
    /// The names of `Hot` over persistent QUIC connections.
    Doq,
    /// The names of `Hot` over persistent HTTP/3 connections.
    Doh3,
    /// The names of `Hot` with a full TLS handshake for each query.
    DotNew,
    /// The names of `Hot` with a resumed TLS handshake for each query.
    DotResumed,
    /// The names of `Hot` next to a flood of random subdomains.
    Flood,
    /// The names of `Hot` on new TCP connections next to slow connections.
    SlowTcp,
    /// Names that were never queried before, so that all queries are forwarded.
    Miss,
    /// 200,000 names by Zipf's law, starting with an empty cache.
    Zipf,
    /// The names of `Hot`, which are not on the server's block list.
    Unlisted,
    /// 10,000 of the 500,000 names on a block list.
    Blocked,
    /// The growth of the process for 200,000 cached names.
    MemorySmall,
    /// The growth of the process for 1,000,000 cached names.
    Memory,
    /// Memory of a server with a fixed cache under a steady load.
    Endurance,
    /// Cold recursion on the simulated internet.
    Recursion,
    /// The names of `Hot` through a pair of virtual Ethernet devices, for servers that bypass
    /// sockets.
    Veth,
}

/// The quantity that is the headline figure of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// CPU microseconds of the server's processes per answer, user and system.
    Cpu,
    /// The 99th percentile of the latency, in microseconds.
    Latency,
    /// Growth of the process in bytes for each name that is still cached.
    Memory,
    /// Memory of the processes in megabytes.
    Resident,
}

/// The cores of a server with several workers. The generator shares the second core.
const SERVER_CORES: &str = "0,1";

/// Queries per second of the workloads with a fixed rate: the rate of a busy server, and the rate
/// of a server in daily use.
const STEADY_RATE: u64 = 20_000;
const SLOW_RATE: u64 = 5_000;

/// Minimum number of answers for a CPU time at a fixed rate. A server that mostly waits pays for
/// wake-ups, which cost a virtual machine twice as much in some seconds as in others.
const LEAST_ANSWERS: u64 = 60_000;

/// Maximum share of missing responses. The generators do not repeat lost queries as real clients
/// do.
const LOST_SHARE: f64 = 0.005;
/// Maximum share of missing responses if a lost response already counts in the figure with the time
/// that the client waited for it.
const LOST_SHARE_AT_RATE: f64 = 0.2;
/// Maximum share of missing responses at rates far below capacity. It is the bound of `avocet
/// load`.
const LOST_SHARE_BELOW_CAPACITY: f64 = 0.01;
/// The share of NXDOMAIN in the Zipf mix, and the tolerance for a short run.
const ZIPF_NXDOMAIN: (f64, f64) = (0.05, 0.02);

impl Workload {
    pub(super) const ALL: &[Self] = &[
        Self::Hot,
        Self::HotEdns,
        Self::Latency,
        Self::HitSlow,
        Self::HitSteady,
        Self::HitHalf,
        Self::Tcp,
        Self::Dot,
        Self::DotNew,
        Self::DotResumed,
        Self::Doh,
        Self::Doq,
        Self::Doh3,
        Self::HotIpv6,
        Self::HotDo,
        Self::OneWorker,
        Self::TwoWorkers,
        Self::Flood,
        Self::SlowTcp,
        Self::Miss,
        Self::Zipf,
        Self::Unlisted,
        Self::Blocked,
        Self::MemorySmall,
        Self::Memory,
        Self::Endurance,
        Self::Recursion,
        Self::Veth,
    ];

    /// The workloads of the two-minute bench.
    pub(super) const QUICK: &[Self] = &[Self::Hot, Self::Tcp, Self::Miss];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::HotEdns => "hot-edns",
            Self::Latency => "latency",
            Self::HitSlow => "hit-5k",
            Self::HitSteady => "hit-20k",
            Self::HitHalf => "hit-half",
            Self::HotIpv6 => "hot-ipv6",
            Self::HotDo => "hot-do",
            Self::OneWorker => "workers-1",
            Self::TwoWorkers => "workers-2",
            Self::Tcp => "tcp",
            Self::Dot => "dot",
            Self::Doh => "doh",
            Self::Doq => "doq",
            Self::Doh3 => "doh3",
            Self::DotNew => "dot-new",
            Self::DotResumed => "dot-resumed",
            Self::Flood => "flood",
            Self::SlowTcp => "slow-tcp",
            Self::Miss => "miss",
            Self::Zipf => "zipf",
            Self::Unlisted => "unlisted",
            Self::Blocked => "blocked",
            Self::MemorySmall => "memory-200k",
            Self::Memory => "memory",
            Self::Endurance => "endurance",
            Self::Recursion => "recursion",
            Self::Veth => "veth",
        }
    }

    pub(super) fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().copied().find(|workload| workload.name() == name);
        found.ok_or_else(|| format!("there is no workload `{name}`"))
    }

    /// Returns the heading of the workload.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Hot => "Cached names over UDP",
            Self::HotEdns => "Cached names over UDP with EDNS",
            Self::Latency => "Latency at 20,000 queries per second",
            Self::HitSlow => "Cached names at 5,000 queries per second",
            Self::HitSteady => "Cached names at 20,000 queries per second",
            Self::HitHalf => "Cached names at half of the capacity",
            Self::HotIpv6 => "Cached names over UDP and IPv6",
            Self::HotDo => "Cached names of a signed zone with DO",
            Self::OneWorker => "Cached names with one worker on two cores",
            Self::TwoWorkers => "Cached names with two workers on two cores",
            Self::Tcp => "Cached names over TCP",
            Self::Dot => "Cached names over TLS",
            Self::Doh => "Cached names over HTTP/2",
            Self::Doq => "Cached names over QUIC",
            Self::Doh3 => "Cached names over HTTP/3",
            Self::DotNew => "Full handshakes of TLS, with a query each",
            Self::DotResumed => "Resumed handshakes of TLS, with a query each",
            Self::Flood => "Normal clients next to a flood of random subdomains",
            Self::SlowTcp => "Normal clients next to slow ones over TCP",
            Self::Miss => "Names never queried before",
            Self::Zipf => "Names by Zipf's law from an empty cache",
            Self::Unlisted => "Cached names with a list of 500,000",
            Self::Blocked => "Blocked names from a list of 500,000",
            Self::MemorySmall => "Memory for 200,000 names",
            Self::Memory => "Memory for 1,000,000 names",
            Self::Endurance => "Memory with a fixed cache under a steady load",
            Self::Recursion => "Cold recursion with round trips, loss and DNSSEC",
            Self::Veth => "Cached names through virtual Ethernet",
        }
    }

    pub(super) fn measure(self) -> Measure {
        match self {
            Self::Latency | Self::Flood | Self::SlowTcp => Measure::Latency,
            Self::MemorySmall | Self::Memory => Measure::Memory,
            Self::Endurance => Measure::Resident,
            _ => Measure::Cpu,
        }
    }

    /// Returns the number of names that a memory workload caches, or `None` for other workloads.
    pub(super) fn cached_names(self) -> Option<u64> {
        match self {
            Self::MemorySmall => Some(200_000),
            Self::Memory => Some(1_000_000),
            _ => None,
        }
    }

    /// Returns whether the server has a block list.
    pub(super) fn has_list(self) -> bool {
        matches!(self, Self::Unlisted | Self::Blocked)
    }

    /// Returns whether all names are cached before the run. Such workloads have the same
    /// configuration, so one start serves several of them.
    pub(super) fn is_warm(self) -> bool {
        matches!(self, Self::Hot | Self::HotEdns | Self::Latency | Self::Tcp)
            || self.is_below_capacity()
    }

    /// Returns whether queries arrive more slowly than the server can answer, so that CPU time
    /// includes the wake-ups that saturation avoids.
    pub(super) fn is_below_capacity(self) -> bool {
        matches!(self, Self::HitSlow | Self::HitSteady | Self::HitHalf)
    }

    /// Returns the number of workers, threads or processes of the server, whichever its
    /// documentation names.
    pub(super) fn workers(self) -> usize {
        if self == Self::TwoWorkers { 2 } else { 1 }
    }

    /// Returns the cores of the server.
    pub(super) fn server_cores(self) -> &'static str {
        match self {
            Self::OneWorker | Self::TwoWorkers => SERVER_CORES,
            _ => SERVER_CORE,
        }
    }

    /// Returns the encrypted transport of the queries, or `None` if they are not encrypted.
    pub(super) fn session(self) -> Option<Session> {
        match self {
            Self::Dot | Self::DotNew | Self::DotResumed => Some(Session::Tls),
            Self::Doh => Some(Session::Https),
            Self::Doq => Some(Session::Quic),
            Self::Doh3 => Some(Session::Http3),
            _ => None,
        }
    }

    /// Returns whether the workload measures normal clients next to others that misbehave. Losses
    /// are then a result, not a fault.
    pub(super) fn has_crowd(self) -> bool {
        matches!(self, Self::Flood | Self::SlowTcp)
    }

    /// Returns the number of queries per second, if it is the same for all servers.
    pub(super) fn rate(self) -> Option<u64> {
        match self {
            Self::Latency | Self::HitSteady => Some(STEADY_RATE),
            Self::HitSlow => Some(SLOW_RATE),
            _ => None,
        }
    }

    /// Returns the duration of a timed run in seconds, given the wanted duration.
    pub(super) fn secs(self, wanted: u64) -> u64 {
        match self.rate() {
            Some(per_sec) if self.measure() == Measure::Cpu => {
                wanted.max(LEAST_ANSWERS.div_ceil(per_sec))
            }
            _ => wanted,
        }
    }

    /// Returns whether the cache must be empty at the start. Answers cannot be compared before such
    /// a run.
    pub(super) fn is_cold(self) -> bool {
        matches!(self, Self::Miss | Self::Zipf | Self::MemorySmall | Self::Memory | Self::Endurance)
    }

    pub(super) fn transport(self) -> Transport {
        match self {
            Self::HotEdns => Transport::UdpWithOpt,
            Self::HotDo => Transport::UdpWithDo,
            Self::Tcp | Self::SlowTcp => Transport::Tcp,
            _ => Transport::Udp,
        }
    }

    /// Checks that the answers of a run are right.
    ///
    /// # Errors
    ///
    /// The answers are wrong. The error says how.
    pub(super) fn judge(self, load: &Load, refusal: Option<Refusal>) -> Result<(), String> {
        if load.answered == 0 && !self.has_crowd() {
            return Err("no answers".to_owned());
        }
        let lost = load.lost as f64 / (load.answered + load.lost) as f64;
        let tolerated = match self {
            Self::Latency => LOST_SHARE_AT_RATE,
            _ if self.has_crowd() => 1.0,
            _ if self.is_below_capacity() || self == Self::Endurance => LOST_SHARE_BELOW_CAPACITY,
            _ => LOST_SHARE,
        };
        if lost > tolerated {
            return Err(format!("{} of {} queries lost", load.lost, load.answered + load.lost));
        }
        let share = |rcode| load.with_rcode(rcode) as f64 / load.answered.max(1) as f64;
        let (nxdomain, tolerance) = match self {
            Self::Zipf => ZIPF_NXDOMAIN,
            Self::Blocked if refusal == Some(Refusal::Nxdomain) => (1.0, 0.0),
            _ => (0.0, 0.0),
        };
        let is_right = (share("NXDOMAIN") - nxdomain).abs() <= tolerance
            && load.with_rcode("NOERROR") + load.with_rcode("NXDOMAIN") == load.answered
            && load.empty == 0;
        if is_right {
            Ok(())
        } else {
            Err(format!("wrong answers: {:?}, {} empty", load.rcodes, load.empty))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(workload: Workload, rcodes: &[(&str, u64)], lost: u64, is_right: bool) {
        let rcodes: Vec<_> =
            rcodes.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let answered = rcodes.iter().map(|(_, count)| count).sum();
        let load = Load { answered, lost, rcodes, ..Load::default() };
        assert_eq!(workload.judge(&load, Some(Refusal::Nxdomain)).is_ok(), is_right);
    }

    #[test]
    fn a_run_counts_only_with_the_right_answers() {
        check(Workload::Hot, &[("NOERROR", 1000)], 0, true);
        check(Workload::Hot, &[("NOERROR", 1000)], 100, false);
        check(Workload::Hot, &[("NOERROR", 999), ("NXDOMAIN", 1)], 0, false);
        check(Workload::Miss, &[("NOERROR", 999), ("SERVFAIL", 1)], 0, false);
        check(Workload::Zipf, &[("NOERROR", 950), ("NXDOMAIN", 50)], 0, true);
        check(Workload::Zipf, &[("NOERROR", 500), ("NXDOMAIN", 500)], 0, false);
        check(Workload::Blocked, &[("NXDOMAIN", 1000)], 0, true);
        check(Workload::Blocked, &[("NXDOMAIN", 999), ("NOERROR", 1)], 0, false);
        check(Workload::Latency, &[("NOERROR", 1000)], 100, true);
        check(Workload::HitSlow, &[("NOERROR", 1000)], 8, true);
        check(Workload::HitSlow, &[("NOERROR", 1000)], 20, false);
        check(Workload::HitHalf, &[("NOERROR", 999), ("SERVFAIL", 1)], 0, false);
        check(Workload::Flood, &[("NOERROR", 10)], 990, true);
        check(Workload::Flood, &[("NOERROR", 9), ("SERVFAIL", 1)], 0, false);
        check(Workload::SlowTcp, &[], 100, true);
        check(Workload::Endurance, &[("NOERROR", 1000)], 20, false);
        check(Workload::Hot, &[], 0, false);
    }

    #[test]
    fn a_cpu_time_at_a_fixed_rate_has_enough_answers() {
        for (workload, secs) in [
            (Workload::HitSlow, [12, 12, 30]),
            (Workload::HitSteady, [3, 5, 30]),
            (Workload::Latency, [1, 5, 30]),
            (Workload::Hot, [1, 5, 30]),
        ] {
            assert_eq!([1, 5, 30].map(|wanted| workload.secs(wanted)), secs, "{workload:?}");
        }
    }

    #[test]
    fn each_workload_is_explained() {
        let text = include_str!("../../../bench/README.md");
        for workload in Workload::ALL {
            let name = format!("`{}`", workload.name());
            assert!(
                text.lines().any(|line| {
                    line.strip_prefix("| ")
                        .and_then(|line| line.split_once(" | "))
                        .is_some_and(|(names, _)| names.contains(&name))
                }),
                "{name} has no row"
            );
        }
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for workload in Workload::ALL {
            assert_eq!(Workload::named(workload.name()), Ok(*workload));
        }
    }
}
