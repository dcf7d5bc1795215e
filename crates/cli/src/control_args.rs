//! The arguments of all commands that send requests to the running server.

use std::path::PathBuf;

use clap::Args;

/// The connection to the running server: the control socket in the data directory of its
/// configuration.
#[derive(Debug, Args)]
pub(crate) struct ControlArgs {
    /// Configuration file of the running server [default: that of AVOCET_CONFIG, or
    /// /etc/avocet/avocet.toml]
    #[arg(short, long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// Arguments of `avocet status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Show the load of the workers, the memory, and the writer of the query log instead
    #[arg(long)]
    pub(crate) load: bool,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
}
