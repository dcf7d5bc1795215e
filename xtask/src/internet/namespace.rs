//! The network namespace that an internet lives in, so that every address and its port 53 are free.
//!
//! The command starts itself again inside. A process namespace of its own ends with it, and all
//! servers with that.

use std::env;
use std::net::Ipv4Addr;
use std::process::Command;

use super::plan::{BEHIND, NETWORK};
use crate::bench::output;

/// Set inside; its value means nothing.
const INSIDE: &str = "AVOCET_INTERNET_NAMESPACE";

/// Whether this process is inside already.
pub(super) fn is_inside() -> bool {
    env::var_os(INSIDE).is_some()
}

/// Runs the same command inside; the error says with what status it ended.
pub(super) fn enter() -> Result<(), String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("unshare");
    command.args(["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]).arg(program);
    command.args(env::args_os().skip(1)).env(INSIDE, "1");
    let status = command.status().map_err(|error| format!("unshare: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("inside the network namespace: {status}")) }
}

/// Brings loopback up, with the name servers' network behind it, and gives it the addresses of the
/// resolvers: some only listen on those that an interface has.
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
