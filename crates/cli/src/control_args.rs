//! The arguments of all commands that send requests to the running server.

use std::path::PathBuf;

use clap::Args;

/// The connection to the running server over the control socket, which is in the data directory of
/// the configuration.
#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    /// Configuration file of the running server [default: the file that AVOCET_CONFIG names, or
    /// /etc/avocet/avocet.toml if it exists]
    #[arg(short, long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Print the reply of the server as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Arguments of `avocet status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show the load instead: queries and CPU time of each worker thread, memory, caches, and the
    /// writer of the query log
    #[arg(long)]
    pub(crate) load: bool,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}
