//! The common setup of all benches: binaries, material in a temporary directory, ports, and the
//! upstream.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::load::{Generator, output};
use super::material::Material;
use super::options::Options;
use super::peer::Peer;
use super::process::{LOAD_CORE, Launch, PROFILE, START_WITHIN, Server, target_directory};
use super::veth::{self, Veth};
use super::workload::Workload;
use super::{age, ask, configuration, encrypted, process, signed};

/// The prefix of temporary directories. It is followed by the id of the process.
const PREFIX: &str = "avocet-bench-";

/// The programs of this project and their packages, which have the same names.
const BINARIES: &[&str] = &["avocet-bench-bare", "avocet"];
/// The sources of these programs in the tree. `ui/dist` is embedded in the server.
const SOURCES: &[&str] = &["crates", "bench/bare", "ui/dist", "Cargo.toml", "Cargo.lock"];

/// The environment of a bench. Dropping it stops the upstream and removes the files.
pub(super) struct Setup {
    pub(super) directory: PathBuf,
    /// A directory in memory, for caches that are files. It is emptied at each start of a server.
    pub(super) memory: PathBuf,
    pub(super) material: Material,
    /// The port of the measured server.
    pub(super) port: u16,
    /// The port of the measured server's encrypted listener.
    pub(super) encrypted_port: u16,
    pub(super) upstream_port: u16,
    /// The program that is both the lower bound and a load generator of this project.
    pub(super) bare: PathBuf,
    pub(super) avocet: PathBuf,
    /// The veth pair for servers that bypass sockets, if they can be measured.
    pub(super) veth: Option<Veth>,
    has_signed_zone: bool,
    upstream: Option<Server>,
}

impl Setup {
    /// Builds the binaries that these peers need, writes the material and starts the upstream.
    pub(super) fn prepare(peers: &[Peer], options: &Options) -> Result<Self, String> {
        let built = target_directory().join(PROFILE);
        let wants_avocet = peers.iter().any(|peer| matches!(peer, Peer::Avocet | Peer::Logged))
            || options.generator == Generator::Avocet
            || options.workloads.iter().any(|workload| {
                matches!(workload, Workload::Flood | Workload::Endurance)
                    || workload.session().is_some()
            });
        let wanted = if wants_avocet { BINARIES } else { &BINARIES[..1] };
        if options.build {
            eprintln!("building {}: some minutes the first time", wanted.join(" and "));
            build(wanted)?;
        }
        if let Some(missing) = wanted.iter().find(|name| !built.join(name).exists()) {
            return Err(format!("{missing} is not built: leave --no-build away"));
        }
        if !options.build {
            for name in wanted {
                age::refuse_older(&built.join(name), SOURCES)?;
            }
        }
        remove_abandoned();
        veth::remove_abandoned();
        let directory = std::env::temp_dir().join(format!("{PREFIX}{}", std::process::id()));
        let said = |error: std::io::Error| format!("{}: {error}", directory.display());
        fs::create_dir_all(&directory).map_err(said)?;
        let mut setup = Self {
            material: Material::write(&directory).map_err(said)?,
            port: free_port()?,
            encrypted_port: free_port()?,
            upstream_port: free_port()?,
            bare: built.join(BINARIES[0]),
            avocet: built.join(BINARIES[1]),
            veth: None,
            has_signed_zone: false,
            upstream: None,
            memory: in_memory().join(format!("{PREFIX}{}", std::process::id())).join("memory"),
            directory,
        };
        if options.workloads.contains(&Workload::HotDo) {
            // If the zone is missing, the check of the answers fails and reports it.
            setup.has_signed_zone = signed::write(&setup.directory)
                .inspect_err(|error| eprintln!("no signed zone: {error}"))
                .is_ok();
        }
        if options.workloads.iter().any(|workload| workload.session().is_some()) {
            encrypted::write_certificate(&setup.directory)?;
        }
        let command = configuration::prepare_upstream(&setup)?;
        let log = setup.file("upstream.log");
        let launch = Launch { command: &command, core: LOAD_CORE, log: &log, within: START_WITHIN };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, setup.upstream_port));
        setup.upstream = Some(Server::start(&launch, || ask::is_ready(address))?);
        Ok(setup)
    }

    /// Chooses other ports, because those of the previous server may not be free immediately.
    pub(super) fn renew_ports(&mut self) -> Result<(), String> {
        self.port = free_port()?;
        self.encrypted_port = free_port()?;
        Ok(())
    }

    /// Returns whether the upstream and the authoritative servers have the signed zone.
    pub(super) fn has_signed_zone(&self) -> bool {
        self.has_signed_zone
    }

    /// Returns a path in the temporary directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the address at which the measured server is queried.
    pub(super) fn target(&self, workload: Workload) -> SocketAddr {
        let address: IpAddr = match workload {
            Workload::Veth => veth::INSIDE.into(),
            Workload::HotIpv6 => Ipv6Addr::LOCALHOST.into(),
            _ => Ipv4Addr::LOCALHOST.into(),
        };
        SocketAddr::new(address, self.port)
    }

    /// Returns the query file of a workload.
    pub(super) fn queries(&self, workload: Workload) -> &Path {
        match workload {
            Workload::Hot
            | Workload::HotEdns
            | Workload::Latency
            | Workload::HitSlow
            | Workload::HitSteady
            | Workload::HitHalf
            | Workload::HotIpv6
            | Workload::Flood
            | Workload::SlowTcp
            | Workload::Endurance
            | Workload::Recursion
            | Workload::OneWorker
            | Workload::TwoWorkers
            | Workload::Tcp
            | Workload::Dot
            | Workload::Doh
            | Workload::Doq
            | Workload::Doh3
            | Workload::DotNew
            | Workload::DotResumed
            | Workload::Unlisted
            | Workload::Veth => &self.material.hot,
            Workload::HotDo => &self.material.signed,
            Workload::Miss => &self.material.miss,
            Workload::Zipf => &self.material.zipf,
            Workload::Blocked => &self.material.blocked,
            Workload::MemorySmall | Workload::Memory => &self.material.memory,
        }
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.upstream = None;
        // If the removal fails, the next run removes the remaining files.
        let _ = fs::remove_dir_all(&self.directory);
        if let Some(directory) = self.memory.parent() {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// Returns a directory in memory, or the directory of temporary files if the system has none in
/// memory.
fn in_memory() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() { shared } else { std::env::temp_dir() }
}

/// Removes the directories of benches that were killed.
fn remove_abandoned() {
    let places = [std::env::temp_dir(), in_memory()];
    for entry in places.iter().flat_map(fs::read_dir).flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix(PREFIX).is_some_and(process::has_ended) {
            // Directories of other users cannot be removed.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn build(packages: &[&str]) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.args(["build", "--profile", PROFILE, "--locked"]).current_dir(crate::root());
    for package in packages {
        command.args(["--package", package]);
    }
    output(command).map(drop)
}

/// Returns a port that is free on loopback for UDP and TCP.
fn free_port() -> Result<u16, String> {
    for _ in 0..16 {
        let socket =
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
        let port = socket.map_err(|error| error.to_string())?.port();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free for UDP and TCP".to_owned())
}
