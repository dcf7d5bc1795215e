//! The measured servers: their kinds, programs and packages, and the workloads that apply to them.

use std::path::PathBuf;
use std::process::Command;

use super::workload::Workload;
use super::{process, recursion};

/// The environment variable that contains the path of an Avocet binary from an earlier commit.
pub(super) const EARLIER: &str = "AVOCET_EARLIER";

/// A server to compare: Avocet or another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// The lower bound: it answers without a cache and relays over 8 sockets.
    Bare,
    /// The lower bound with batches of datagrams.
    BareMmsg,
    /// The lower bound of a relay that chooses a random socket for each query.
    BarePool,
    /// An authoritative server.
    Nsd,
    /// An authoritative server.
    Knot,
    /// Knot DNS with AF_XDP, which bypasses the kernel's sockets.
    KnotXdp,
    Unbound,
    Dnsdist,
    PdnsRecursor,
    Bind9,
    KnotResolver,
    Dnsmasq,
    CoreDns,
    /// The proxy that AdGuard Home contains, as a separate program.
    Dnsproxy,
    /// Avocet of another commit: the binary that [`EARLIER`] names.
    Earlier,
    /// Avocet with an enabled query log.
    Logged,
    Avocet,
}

/// The role of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The lower bound: a program that does only the unavoidable work and shows the limits of the
    /// machine.
    Floor,
    /// A server that answers from its own zone.
    Authority,
    /// A server that forwards queries and caches the answers.
    Resolver,
}

/// The response of a server to a name on its block list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Nxdomain,
    /// The address 0.0.0.0.
    NullAddress,
}

impl Peer {
    pub(super) const ALL: &[Self] = &[
        Self::Bare,
        Self::BareMmsg,
        Self::BarePool,
        Self::Nsd,
        Self::Knot,
        Self::KnotXdp,
        Self::Unbound,
        Self::Dnsdist,
        Self::PdnsRecursor,
        Self::Bind9,
        Self::KnotResolver,
        Self::Dnsmasq,
        Self::CoreDns,
        Self::Dnsproxy,
        Self::Earlier,
        Self::Logged,
        Self::Avocet,
    ];

    /// The peers that a bench measures only if they are named on the command line: variants of
    /// Avocet.
    pub(super) const ON_REQUEST: &[Self] = &[Self::Earlier, Self::Logged];

    /// The peers of the two-minute bench.
    pub(super) const QUICK: &[Self] =
        &[Self::Bare, Self::Nsd, Self::Unbound, Self::Dnsdist, Self::Avocet];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::BareMmsg => "bare-mmsg",
            Self::BarePool => "bare-pool",
            Self::Nsd => "nsd",
            Self::Knot => "knot",
            Self::KnotXdp => "knot-xdp",
            Self::Unbound => "unbound",
            Self::Dnsdist => "dnsdist",
            Self::PdnsRecursor => "pdns-recursor",
            Self::Bind9 => "bind9",
            Self::KnotResolver => "knot-resolver",
            Self::Dnsmasq => "dnsmasq",
            Self::CoreDns => "coredns",
            Self::Dnsproxy => "dnsproxy",
            Self::Earlier => "earlier",
            Self::Logged => "avocet-logged",
            Self::Avocet => "avocet",
        }
    }

    pub(super) fn named(name: &str) -> Result<Self, String> {
        Self::ALL
            .iter()
            .copied()
            .find(|peer| peer.name() == name)
            .ok_or_else(|| format!("there is no peer `{name}`"))
    }

    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Bare | Self::BareMmsg | Self::BarePool => Kind::Floor,
            Self::Nsd | Self::Knot | Self::KnotXdp => Kind::Authority,
            _ => Kind::Resolver,
        }
    }

    /// Returns the program and its Debian package, or `None` if the bench builds the program.
    pub(super) fn package(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Nsd => Some(("nsd", "nsd")),
            Self::Knot | Self::KnotXdp => Some(("knotd", "knot")),
            Self::Unbound => Some(("unbound", "unbound")),
            Self::Dnsdist => Some(("dnsdist", "dnsdist")),
            Self::PdnsRecursor => Some(("pdns_recursor", "pdns-recursor")),
            Self::Bind9 => Some(("named", "bind9")),
            Self::KnotResolver => Some(("kresd", "knot-resolver")),
            Self::Dnsmasq => Some(("dnsmasq", "dnsmasq-base")),
            Self::Bare
            | Self::BareMmsg
            | Self::BarePool
            | Self::CoreDns
            | Self::Dnsproxy
            | Self::Earlier
            | Self::Logged
            | Self::Avocet => None,
        }
    }

    /// Returns whether the workload applies to this server.
    pub(super) fn runs(self, workload: Workload) -> bool {
        if let Some(session) = workload.session() {
            return session.is_spoken_by(self);
        }
        match workload {
            // dnsproxy is measured only with encryption.
            _ if self == Self::Dnsproxy => false,
            Workload::Veth => matches!(self, Self::Bare | Self::Knot | Self::KnotXdp),
            Workload::Unlisted | Workload::Blocked => self.refusal().is_some(),
            // Knot Resolver's stub policy does not fetch signatures.
            Workload::HotDo if self == Self::KnotResolver => false,
            Workload::HotIpv6 | Workload::HotDo | Workload::Flood | Workload::SlowTcp => {
                self.is_whole()
            }
            Workload::Endurance => self.kind() == Kind::Resolver,
            Workload::Recursion => recursion::has(self),
            // dnsmasq has only one thread.
            Workload::OneWorker | Workload::TwoWorkers if self == Self::Dnsmasq => false,
            Workload::OneWorker | Workload::TwoWorkers => self.is_whole(),
            _ => match self {
                Self::Bare => workload.is_warm() || workload == Workload::Miss,
                Self::BareMmsg => matches!(workload, Workload::Hot | Workload::HotEdns),
                Self::BarePool => workload == Workload::Miss,
                Self::KnotXdp => false,
                // dnsmasq closes a connection after a hundred queries, and allocates its cache at
                // the start.
                Self::Dnsmasq if workload == Workload::Tcp || workload.cached_names().is_some() => {
                    false
                }
                _ => workload.is_warm() || self.kind() == Kind::Resolver,
            },
        }
    }

    /// Returns whether this is a complete server that clients can use over sockets, unlike the
    /// lower bounds and Knot DNS with AF_XDP.
    fn is_whole(self) -> bool {
        self.kind() != Kind::Floor && self != Self::KnotXdp
    }

    /// Returns the response to a blocked name, or `None` if the server has no block lists.
    pub(super) fn refusal(self) -> Option<Refusal> {
        match self {
            Self::Unbound
            | Self::Dnsdist
            | Self::PdnsRecursor
            | Self::Bind9
            | Self::KnotResolver
            | Self::Dnsmasq
            | Self::Earlier
            | Self::Logged
            | Self::Avocet => Some(Refusal::Nxdomain),
            Self::CoreDns => Some(Refusal::NullAddress),
            _ => None,
        }
    }

    /// Returns whether the answers of the server come from the zone and are not constant.
    pub(super) fn knows_zone(self) -> bool {
        !matches!(self, Self::Bare | Self::BareMmsg)
    }

    /// Returns whether both workloads can share one start of the server.
    pub(super) fn shares_start(self, one: Workload, other: Workload) -> bool {
        let is_tcp = |workload| workload == Workload::Tcp;
        one.has_list() && other.has_list()
            || one.session().is_some() && one.session() == other.session()
            || one.is_warm()
                && other.is_warm()
                && (self != Self::Bare || is_tcp(one) == is_tcp(other))
    }

    /// Returns the path of the measured binary, or `None` if it does not exist.
    pub(super) fn program(self) -> Option<PathBuf> {
        let built = process::target_directory().join(process::PROFILE);
        match self {
            Self::Logged | Self::Avocet => Some(built.join("avocet")),
            Self::Bare | Self::BareMmsg | Self::BarePool => Some(built.join("avocet-bench-bare")),
            Self::CoreDns => Some(process::coredns()),
            Self::Dnsproxy => Some(process::dnsproxy()),
            Self::Earlier => std::env::var_os(EARLIER).map(PathBuf::from),
            _ => process::find(self.package()?.0),
        }
    }

    /// Returns the version that the server reports, or `None` if it reports none or cannot be run.
    pub(super) fn version(self) -> Option<String> {
        let text = self.build()?;
        text.lines().next().map(|line| plain_version(line).to_owned())
    }

    /// Returns a remark if the build of the server lacks something that makes it fast.
    pub(super) fn remark(self) -> Option<String> {
        let lacks = "--disable-recvmmsg";
        (self == Self::Nsd && self.build()?.contains(lacks))
            .then(|| format!("built with {lacks}: one datagram per system call"))
    }

    /// Returns the output of the server about its version and build.
    fn build(self) -> Option<String> {
        let option = match self {
            Self::Nsd | Self::Bind9 | Self::Dnsmasq => "-v",
            Self::Unbound => "-V",
            Self::CoreDns => "-version",
            _ => "--version",
        };
        let output = Command::new(self.program()?).arg(option).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        Some(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Returns the first line of a version, without the program's name, dates and copyrights.
fn plain_version(line: &str) -> &str {
    let line = line.trim();
    let start = line.find("PowerDNS").unwrap_or(0);
    let line = &line[start..];
    let end = ["  Copyright", " (C)", " (Extended", " <id:"]
        .iter()
        .filter_map(|mark| line.find(mark))
        .min();
    &line[..end.unwrap_or(line.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_shown_without_date_and_copyright() {
        assert_eq!(
            plain_version("Nov 21 19:38:03 PowerDNS Recursor 4.8.8 (C) 2001"),
            "PowerDNS Recursor 4.8.8"
        );
        assert_eq!(
            plain_version("Dnsmasq version 2.90  Copyright (c) 2000"),
            "Dnsmasq version 2.90"
        );
        assert_eq!(
            plain_version("BIND 9.18.49-1 (Extended Support Version) <id:>"),
            "BIND 9.18.49-1"
        );
        assert_eq!(plain_version("kresd"), "kresd");
    }

    #[test]
    fn floors_are_not_asked_what_only_servers_do() {
        for workload in
            [Workload::HotIpv6, Workload::Flood, Workload::SlowTcp, Workload::TwoWorkers]
        {
            assert!(!Peer::Bare.runs(workload) && !Peer::KnotXdp.runs(workload));
            assert!(Peer::Nsd.runs(workload) && Peer::Avocet.runs(workload));
        }
        assert!(!Peer::Dnsmasq.runs(Workload::TwoWorkers));
        assert!(!Peer::KnotResolver.runs(Workload::HotDo));
    }

    #[test]
    fn only_servers_with_a_cache_are_asked_what_is_not_cached() {
        let of = |workload| {
            Peer::ALL.iter().copied().filter(|peer| peer.runs(workload)).collect::<Vec<_>>()
        };
        assert!(of(Workload::Zipf).iter().all(|peer| peer.kind() == Kind::Resolver));
        assert_eq!(of(Workload::Veth), [Peer::Bare, Peer::Knot, Peer::KnotXdp]);
        assert!(
            of(Workload::Miss).contains(&Peer::BarePool)
                && !of(Workload::Miss).contains(&Peer::Nsd)
        );
    }
}
