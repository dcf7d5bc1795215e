//! The name servers: NSD processes with several addresses each, and addresses that receive queries
//! but never answer.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::asking;
use super::link::{self, Passed, Traffic, Weather};
use super::plan::{DAEMONS, Internet, SILENT_ADDRESSES, behind, silent_address};
use super::sign::served;
use crate::bench::output;
use crate::bench::process::{LOAD_CORE, Launch, Server};

pub(super) const PORT: u16 = 53;
const START_WITHIN: Duration = Duration::from_secs(30);

/// All name servers. Dropping them stops the processes.
pub(super) struct Authorities {
    daemons: Vec<(Server, PathBuf)>,
    traffic: Traffic,
}

impl Authorities {
    /// Starts the servers and waits until each answers.
    pub(super) fn start(
        internet: &Internet,
        weather: Weather,
        directory: &Path,
    ) -> Result<Self, String> {
        let traffic = Traffic::default();
        for number in 1..=SILENT_ADDRESSES {
            listen_silently(silent_address(number), Arc::clone(traffic.lost()))?;
        }
        let mut daemons = Vec::new();
        for daemon in 0..DAEMONS {
            let mut addresses = internet.addresses(daemon);
            if weather != Weather::CLEAR {
                addresses
                    .iter()
                    .try_for_each(|from| link::lay(weather, *from, behind(*from), &traffic))?;
                addresses = addresses.into_iter().map(behind).collect();
            }
            daemons.push(start_daemon(internet, daemon, &addresses, directory)?);
        }
        Ok(Self { daemons, traffic })
    }

    /// Returns the number of queries over UDP and TCP: those that name servers received, and those
    /// that links lost or silent addresses received.
    pub(super) fn queries(&self) -> Result<Queries, String> {
        let mut queries = Queries {
            total: self.traffic.lost().load(Ordering::Relaxed),
            by_type: BTreeMap::new(),
        };
        for (_, config) in &self.daemons {
            let mut command = Command::new("nsd-control");
            command.arg("-c").arg(config).arg("stats_noreset");
            queries.add(&output(command)?);
        }
        Ok(queries)
    }

    /// Returns the queries that passed the links since the last call. The result is empty if the
    /// links neither delay nor lose datagrams.
    pub(super) fn passed(&self) -> Vec<Passed> {
        self.traffic.take()
    }
}

/// Numbers of queries. Only answered queries are counted by type.
#[derive(Default)]
pub(super) struct Queries {
    pub(super) total: u64,
    pub(super) by_type: BTreeMap<String, u64>,
}

impl Queries {
    /// Adds the statistics that `nsd-control` prints for a process.
    fn add(&mut self, statistics: &str) {
        for (key, value) in statistics.lines().filter_map(|line| line.split_once('=')) {
            let Ok(count) = value.trim().parse::<u64>() else { continue };
            if key == "num.queries" {
                self.total += count;
            } else if let Some(kind) = key.strip_prefix("num.type.") {
                *self.by_type.entry(kind.to_owned()).or_default() += count;
            }
        }
    }

    /// Returns the difference from an earlier count.
    pub(super) fn since(mut self, before: &Self) -> Self {
        self.total -= before.total;
        for (kind, count) in &mut self.by_type {
            *count -= before.by_type.get(kind).copied().unwrap_or(0);
        }
        self
    }
}

/// Counts the queries at an address without answering them, until this process ends.
fn listen_silently(address: Ipv4Addr, count: Arc<AtomicU64>) -> Result<(), String> {
    let socket = UdpSocket::bind((address, PORT)).map_err(|error| format!("{address}: {error}"))?;
    thread::spawn(move || {
        let mut query = [0; 512];
        while socket.recv(&mut query).is_ok() {
            count.fetch_add(1, Ordering::Relaxed);
        }
    });
    Ok(())
}

fn start_daemon(
    internet: &Internet,
    daemon: usize,
    addresses: &[Ipv4Addr],
    directory: &Path,
) -> Result<(Server, PathBuf), String> {
    let config = directory.join(format!("nsd{daemon}.conf"));
    let text = configuration(internet, daemon, addresses, directory);
    fs::write(&config, text).map_err(|error| format!("{}: {error}", config.display()))?;
    let command = ["nsd", "-d", "-c", &config.display().to_string()].map(str::to_owned);
    let log = directory.join(format!("nsd{daemon}.log"));
    let first = addresses.first().copied().unwrap_or(Ipv4Addr::LOCALHOST);
    let is_ready = || asking::is_answering(SocketAddrV4::new(first, PORT), "version.bind.");
    let launch = Launch { command: &command, core: LOAD_CORE, log: &log, within: START_WITHIN };
    Ok((Server::start(&launch, is_ready)?, config))
}

fn configuration(
    internet: &Internet,
    daemon: usize,
    addresses: &[Ipv4Addr],
    directory: &Path,
) -> String {
    let at = directory.display();
    let addresses: String =
        addresses.iter().map(|address| format!("  ip-address: {address}\n")).collect();
    let zones = internet.zones.iter().enumerate().filter(|(_, zone)| zone.daemon == daemon);
    let zone = |(number, name): (usize, &str)| {
        let file = served(directory, number);
        format!("zone:\n  name: \"{name}\"\n  zonefile: \"{}\"\n", file.display())
    };
    let zones: String = zones.map(|(number, of)| zone((number, &of.name))).collect();
    format!(
        r#"server:
{addresses}  port: {PORT}
  server-count: 1
  username: ""
  zonesdir: "{at}"
  database: ""
  pidfile: "{at}/nsd{daemon}.pid"
  xfrdfile: "{at}/nsd{daemon}.xfrd"
  zonelistfile: "{at}/nsd{daemon}.zones"
  xfrdir: "{at}"
  do-ip6: no
  minimal-responses: yes
  rrl-ratelimit: 0
  ipv4-edns-size: 1232
  tcp-count: 500
  verbosity: 0
remote-control:
  control-enable: yes
  control-interface: "{at}/nsd{daemon}.sock"
{zones}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_counted_by_type_from_the_statistics() {
        let mut before = Queries::default();
        before.add("num.queries=5\nnum.type.A=3\ntime.boot=1.5\n");
        let mut after = Queries::default();
        after.add("num.queries=9\nnum.type.A=4\nnum.type.DS=3\n");
        let queries = after.since(&before);
        assert_eq!(queries.total, 4);
        assert_eq!(queries.by_type, [("A".to_owned(), 1), ("DS".to_owned(), 3)].into());
    }
}
