//! What all benches share: binaries, material in a temporary directory, ports, and the upstream.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::load::output;
use super::material::Material;
use super::peer::{self, Peer};
use super::process::{LOAD_CORE, Server};
use super::workload::Workload;

/// The place of a bench; dropping it stops the upstream and removes the files.
pub(super) struct Setup {
    pub(super) directory: PathBuf,
    pub(super) material: Material,
    /// The port of the server that is measured.
    pub(super) port: u16,
    pub(super) upstream_port: u16,
    /// Our floor and generator.
    pub(super) bare: PathBuf,
    pub(super) avocet: PathBuf,
    upstream: Option<Server>,
}

impl Setup {
    /// Builds the binaries these peers need, writes the material and starts the upstream.
    pub(super) fn prepare(peers: &[Peer], build: bool) -> Result<Self, String> {
        let release = target_directory().join("release");
        if build {
            let packages = ["avocet-bench-bare", "avocet"];
            let wanted = if peers.contains(&Peer::Avocet) { &packages[..] } else { &packages[..1] };
            build_release(wanted)?;
        }
        let directory = std::env::temp_dir().join(format!("avocet-bench-{}", std::process::id()));
        let said = |error: std::io::Error| format!("{}: {error}", directory.display());
        fs::create_dir_all(&directory).map_err(said)?;
        let mut setup = Self {
            material: Material::write(&directory).map_err(said)?,
            port: free_port()?,
            upstream_port: free_port()?,
            bare: release.join("avocet-bench-bare"),
            avocet: release.join("avocet"),
            upstream: None,
            directory,
        };
        let command = peer::write_nsd(&setup, "upstream", setup.upstream_port)?;
        setup.upstream = Some(Server::start(&command, LOAD_CORE, &setup.file("upstream.log"), setup.upstream_port)?);
        Ok(setup)
    }

    /// A path in the temporary directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The query file of a workload.
    pub(super) fn queries(&self, workload: Workload) -> &Path {
        match workload {
            Workload::Hot | Workload::HotEdns | Workload::Tcp => &self.material.hot,
            Workload::Miss => &self.material.miss,
            Workload::Zipf => &self.material.zipf,
            Workload::Memory => &self.material.memory,
        }
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        self.upstream = None;
        // What stays behind is in the system's temporary directory.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn build_release(packages: &[&str]) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.args(["build", "--release", "--locked"]).current_dir(crate::root());
    for package in packages {
        command.args(["--package", package]);
    }
    output(command).map(drop)
}

/// Where cargo puts what it builds.
pub(crate) fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), PathBuf::from)
}

/// A port that is free on loopback for UDP and TCP.
fn free_port() -> Result<u16, String> {
    for _ in 0..16 {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
        let port = socket.map_err(|error| error.to_string())?.port();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err("no port is free for UDP and TCP".to_owned())
}
