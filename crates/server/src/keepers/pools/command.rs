//! Probes by a command of the configuration.

use std::io;
use std::net::IpAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};

use avocet_config::pool_probe::ADDRESS_WORD;
use avocet_io::process::kill_group;

use crate::running::pool_watch::ProbeResult;

/// The search path of the command; nothing else of the server's environment is passed on.
const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A running command. Dropping this value kills the command and all processes of its group.
pub(super) struct CommandAttempt {
    child: Child,
    has_ended: bool,
}

impl CommandAttempt {
    /// Starts a command in a group of its own, without a shell.
    pub(super) fn start(words: &[String], address: IpAddr) -> io::Result<Self> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let address = address.to_string();
        let child = Command::new(program)
            .args(arguments.iter().map(|word| word.replace(ADDRESS_WORD, &address)))
            .env_clear()
            .env("PATH", SEARCH_PATH)
            .env("ADDRESS", &address)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { child, has_ended: false })
    }

    /// Returns the result if the command has ended.
    pub(super) fn poll(&mut self) -> Option<ProbeResult> {
        let status = match self.child.try_wait() {
            Ok(status) => status?,
            Err(error) => return Some(ProbeResult::of_error(&error)),
        };
        // Processes that the command left behind must not outlive it.
        let _ = kill_group(self.child.id());
        self.has_ended = true;
        Some(match (status.code(), status.signal()) {
            (Some(0), _) => ProbeResult::Success("exit code 0".to_owned()),
            (Some(code), _) => ProbeResult::Failure(format!("exit code {code}")),
            (None, signal) => ProbeResult::Failure(format!("signal {}", signal.unwrap_or(0))),
        })
    }
}

impl Drop for CommandAttempt {
    fn drop(&mut self) {
        if !self.has_ended {
            let _ = kill_group(self.child.id());
            // A killed process ends at once, unless it hangs in the kernel.
            let _ = self.child.wait();
        }
    }
}
