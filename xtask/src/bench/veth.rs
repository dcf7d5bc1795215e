//! A pair of virtual Ethernet devices. The server's end is in its own network namespace.
//!
//! A server that takes packets from the device cannot use loopback. It can use the pair. For
//! comparison, servers with sockets use the pair too, at the same additional cost.

use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;

use super::load::output;
use super::process;

/// The addresses of both ends, from the range that is reserved for benches (RFC 2544, appendix
/// C.2.2).
const OUTSIDE: Ipv4Addr = Ipv4Addr::new(198, 18, 83, 1);
pub(super) const INSIDE: Ipv4Addr = Ipv4Addr::new(198, 18, 83, 2);

/// The prefix of the namespaces' names. It is followed by the id of the process.
const PREFIX: &str = "avocet-bench-";

/// The pair of devices. Dropping it removes the namespace and the devices.
pub(super) struct Veth {
    process: u32,
}

impl Veth {
    /// Creates the namespace and the pair.
    ///
    /// # Errors
    ///
    /// The system refuses. The error says why.
    pub(super) fn create() -> Result<Self, String> {
        let veth = Self { process: std::process::id() };
        let (namespace, outside, inside) = (veth.namespace(), veth.outside(), veth.interface());
        ip(&format!("netns add {namespace}"))?;
        // Each end has one queue. A server that bypasses sockets serves all queues that it gets,
        // and the bench measures one core.
        let queues = "numrxqueues 1 numtxqueues 1";
        ip(&format!(
            "link add {outside} {queues} type veth peer name {inside} {queues} netns {namespace}"
        ))?;
        ip(&format!("address add {OUTSIDE}/30 dev {outside}"))?;
        ip(&format!("link set {outside} up"))?;
        ip(&format!("-n {namespace} address add {INSIDE}/30 dev {inside}"))?;
        ip(&format!("-n {namespace} link set {inside} up"))?;
        ip(&format!("-n {namespace} link set lo up"))?;
        Ok(veth)
    }

    /// Returns the name of the server's device.
    pub(super) fn interface(&self) -> String {
        format!("avb{}i", self.process)
    }

    fn outside(&self) -> String {
        format!("avb{}o", self.process)
    }

    fn namespace(&self) -> String {
        format!("{PREFIX}{}", self.process)
    }

    /// Returns the words before a command line that run it in the namespace.
    pub(super) fn inside(&self) -> Vec<String> {
        ["ip", "netns", "exec", &self.namespace()].map(str::to_owned).to_vec()
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        // The pair disappears together with the namespace. If the removal fails, the next run
        // removes them.
        let _ = ip(&format!("netns delete {}", self.namespace()));
    }
}

/// Removes the namespaces of benches that were killed.
pub(super) fn remove_abandoned() {
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.strip_prefix(PREFIX).is_some_and(process::has_ended) {
            // If permission is missing, creating a namespace also fails and reports the error.
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    let program = process::find("ip").ok_or("`ip` of the package iproute2 is not installed")?;
    let mut command = Command::new(program);
    command.args(arguments.split(' '));
    output(command).map(drop)
}
