//! The servers that are measured, each with one thread, a cache nothing falls out of, and no log.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::setup::Setup;
use super::workload::Workload;

/// A server beside which Avocet is measured, or Avocet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    Avocet,
    /// The floor: answers without a cache, relays through 8 sockets.
    Bare,
    /// The floor with batches of datagrams.
    BareMmsg,
    /// The floor of a relay that draws a random socket for each query.
    BarePool,
    /// Answers from the zone.
    Nsd,
    Unbound,
    Dnsdist,
}

/// Sockets of the relay that marks the floor, and of the one with a random pool.
const FEW_SOCKETS: &str = "8";
const POOL_SOCKETS: &str = "512";

impl Peer {
    pub(super) const ALL: &[Self] =
        &[Self::Bare, Self::BareMmsg, Self::BarePool, Self::Nsd, Self::Unbound, Self::Dnsdist, Self::Avocet];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Avocet => "avocet",
            Self::Bare => "bare",
            Self::BareMmsg => "bare-mmsg",
            Self::BarePool => "bare-pool",
            Self::Nsd => "nsd",
            Self::Unbound => "unbound",
            Self::Dnsdist => "dnsdist",
        }
    }

    pub(super) fn named(name: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|peer| peer.name() == name).ok_or_else(|| format!("there is no peer `{name}`"))
    }

    /// Whether the workload says something about this server.
    pub(super) fn runs(self, workload: Workload) -> bool {
        match self {
            Self::Avocet | Self::Unbound | Self::Dnsdist => true,
            Self::Nsd => workload.is_warm(),
            Self::Bare => workload.is_warm() || workload == Workload::Miss,
            Self::BareMmsg => matches!(workload, Workload::Hot | Workload::HotEdns),
            Self::BarePool => workload == Workload::Miss,
        }
    }

    /// Whether its cached answers are those of the zone, and not always the same.
    pub(super) fn knows_zone(self) -> bool {
        !matches!(self, Self::Bare | Self::BareMmsg)
    }

    /// Whether one start serves these two workloads, both warm.
    pub(super) fn shares_start(self, one: Workload, other: Workload) -> bool {
        self != Self::Bare || (one == Workload::Tcp) == (other == Workload::Tcp)
    }

    /// Writes the configuration and returns the command that runs the server in the foreground.
    pub(super) fn prepare(self, setup: &Setup, workload: Workload) -> Result<Vec<String>, String> {
        match self {
            Self::Avocet => write_avocet(setup),
            Self::Unbound => write_unbound(setup),
            Self::Dnsdist => write_dnsdist(setup),
            Self::Nsd => write_nsd(setup, "peer", setup.port),
            Self::Bare => Ok(bare(setup, if workload == Workload::Tcp { "tcp" } else { "udp" }, workload)),
            Self::BareMmsg => Ok(bare(setup, "mmsg", workload)),
            Self::BarePool => Ok(bare(setup, "pool", workload)),
        }
    }

    /// The version the server gives itself; none if it is ours or is not installed.
    pub(super) fn version(self) -> Option<String> {
        let command = match self {
            Self::Nsd => ["nsd", "-v"],
            Self::Unbound => ["unbound", "-V"],
            Self::Dnsdist => ["dnsdist", "--version"],
            _ => return None,
        };
        let output = Command::new(command[0]).arg(command[1]).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).lines().next().map(|line| line.trim().to_owned())
    }
}

fn words(command: &[&str]) -> Vec<String> {
    command.iter().map(|word| (*word).to_owned()).collect()
}

fn bare(setup: &Setup, mode: &str, workload: Workload) -> Vec<String> {
    let (program, port) = (setup.bare.display().to_string(), setup.port.to_string());
    let upstream = setup.upstream_port.to_string();
    match (mode, workload) {
        ("pool", _) => words(&[&program, "pool", &port, &upstream, POOL_SOCKETS]),
        (_, Workload::Miss) => words(&[&program, "forward", &port, &upstream, FEW_SOCKETS]),
        _ => words(&[&program, mode, &port]),
    }
}

fn write(path: &Path, text: &str) -> Result<String, String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path.display().to_string())
}

fn write_avocet(setup: &Setup) -> Result<Vec<String>, String> {
    let (port, upstream, data) = (setup.port, setup.upstream_port, setup.file("avocet-data"));
    // Nothing a run before this one kept may be warm.
    let _ = fs::remove_dir_all(&data);
    let text = format!(
        r#"[server]
listen = ["127.0.0.1:{port}"]
workers = 1
local-names = false
http = ""

[resolver]
mode = "forward"

[[forward]]
zone = "."
upstreams = ["udp://127.0.0.1:{upstream}"]

[cache]
packet-bytes = "128MiB"
rrset-bytes = "96MiB"

[data]
directory = "{}"
"#,
        data.display()
    );
    let file = write(&setup.file("avocet.toml"), &text)?;
    Ok(words(&[&setup.avocet.display().to_string(), "serve", "--config", &file]))
}

fn write_unbound(setup: &Setup) -> Result<Vec<String>, String> {
    let (port, upstream, directory) = (setup.port, setup.upstream_port, setup.directory.display());
    let text = format!(
        r#"server:
  interface: 127.0.0.1@{port}
  port: {port}
  access-control: 127.0.0.0/8 allow
  num-threads: 1
  do-daemonize: no
  do-ip6: no
  username: ""
  chroot: ""
  directory: "{directory}"
  pidfile: ""
  use-syslog: no
  verbosity: 0
  module-config: "iterator"
  local-zone: "test." nodefault
  do-not-query-localhost: no
  so-reuseport: yes
  so-rcvbuf: 4m
  so-sndbuf: 4m
  msg-cache-size: 1g
  rrset-cache-size: 1g
  msg-cache-slabs: 1
  rrset-cache-slabs: 1
  outgoing-range: 4096
  num-queries-per-thread: 2048
  incoming-num-tcp: 200
forward-zone:
  name: "."
  forward-addr: 127.0.0.1@{upstream}
remote-control:
  control-enable: no
"#
    );
    let file = write(&setup.file("unbound.conf"), &text)?;
    Ok(words(&["unbound", "-d", "-c", &file]))
}

fn write_dnsdist(setup: &Setup) -> Result<Vec<String>, String> {
    let (port, upstream) = (setup.port, setup.upstream_port);
    let text = format!(
        r#"setSecurityPollSuffix("")
addLocal("127.0.0.1:{port}", {{reusePort=true}})
setACL({{"127.0.0.0/8"}})
setMaxUDPOutstanding(65535)
setMaxTCPClientThreads(1)
newServer({{address="127.0.0.1:{upstream}", name="upstream", sockets=4}}):setUp()
answers = newPacketCache(2000000, {{maxTTL=86400, minTTL=0, numberOfShards=1}})
getPool(""):setCache(answers)
"#
    );
    let file = write(&setup.file("dnsdist.conf"), &text)?;
    Ok(words(&["dnsdist", "--supervised", "--disable-syslog", "-C", &file]))
}

/// Writes the configuration of an NSD that serves the zone on a port; its files start with `name`.
pub(super) fn write_nsd(setup: &Setup, name: &str, port: u16) -> Result<Vec<String>, String> {
    let (directory, zone) = (setup.directory.display(), setup.material.zone.display());
    let text = format!(
        r#"server:
  server-count: 1
  ip-address: 127.0.0.1@{port}
  port: {port}
  username: ""
  zonesdir: "{directory}"
  database: ""
  pidfile: "{directory}/{name}.pid"
  xfrdfile: "{directory}/{name}.xfrd"
  zonelistfile: "{directory}/{name}.zones"
  xfrdir: "{directory}"
  reuseport: yes
  minimal-responses: yes
  rrl-ratelimit: 0
  verbosity: 0
remote-control:
  control-enable: no
zone:
  name: bench.test
  zonefile: "{zone}"
"#
    );
    let file = write(&setup.file(&format!("{name}.conf")), &text)?;
    Ok(words(&["nsd", "-d", "-c", &file]))
}
