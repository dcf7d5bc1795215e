//! The network namespace of an internet, in which every address and port 53 is free.
//!
//! The command starts itself again inside the namespace. It also has a process namespace, which
//! ends together with the command and ends all servers.

use std::env;
use std::net::Ipv4Addr;
use std::process::Command;

use super::plan::{BEHIND, NETWORK};
use crate::bench::output;

/// The environment variable that is set inside the namespace. Its value has no meaning.
const INSIDE: &str = "AVOCET_INTERNET_NAMESPACE";

/// Returns whether this process is inside the namespace.
pub(super) fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Runs the same command inside the namespace.
///
/// # Errors
///
/// The command failed. The error contains its exit status.
pub(super) fn enter() -> Result<(), String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]).arg(program);
    command.args(env::args_os().skip(1)).env(INSIDE, "1");
    let status = command.status().map_err(|error| format!("unshare: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("inside the network namespace: {status}")) }
}

/// Activates loopback, routes the name servers' network to it, and adds the addresses of the
/// resolvers. Some resolvers listen only on addresses of an interface.
pub(super) fn raise_loopback(addresses: impl Iterator<Item = Ipv4Addr>) -> Result<(), String> {
    ip(&["link", "set", "lo", "up"])?;
    for (first, second) in [NETWORK, BEHIND] {
        ip(&["route", "add", "local", &format!("{first}.{second}.0.0/16"), "dev", "lo"])?;
    }
    for address in addresses {
        ip(&["address", "add", &format!("{address}/32"), "dev", "lo"])?;
    }
    Ok(())
}

fn ip(words: &[&str]) -> Result<(), String> {
    let mut command = Command::new("ip");
    command.args(words);
    output(command).map(drop).map_err(|error| format!("an internet wants root: {error}"))
}
