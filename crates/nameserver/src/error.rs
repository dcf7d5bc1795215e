//! The reasons why a valid configuration cannot be put in force.

use std::io;
use std::path::PathBuf;

use avocet_cache::BudgetTooSmall;
use avocet_config::ConfigErrors;
use avocet_config::ports::TooFewPorts;
use avocet_policy::client::ClientFault;
use avocet_policy::geo::GeoError;
use avocet_policy::list::ImageError;
use avocet_policy::rule::RuleFault;
use avocet_resolver::PlanError;
use thiserror::Error;

/// The reason why a configuration cannot be put in force.
#[derive(Debug, Error)]
pub enum StateError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The forwarding rules are invalid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Too few source ports are left for queries.
    #[error(transparent)]
    Ports(#[from] TooFewPorts),
    /// A rule is invalid, or all rules together are too large.
    #[error(transparent)]
    Rule(#[from] RuleFault),
    /// A group or client is invalid, or there are too many kinds of clients.
    #[error(transparent)]
    Client(#[from] ClientFault),
    /// The clients see too many different combinations of zones.
    #[error("clients see more than {0} different combinations of zones with a `view`")]
    TooManyViews(usize),
    /// The text of a list cannot be read.
    #[error("cannot read the list {name:?}: {source}")]
    List {
        /// The name of the list.
        name: String,
        /// The reason given by the system.
        source: io::Error,
    },
    /// The image, a block of octets with all compiled lists, is unusable.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The geo database cannot be read.
    #[error("cannot use the geo database {}: {source}", .path.display())]
    GeoFile {
        /// The file.
        path: PathBuf,
        /// The reason given by the system.
        source: io::Error,
    },
    /// The geo database is malformed, or has no countries.
    #[error("cannot use the geo database {}: {source}", .path.display())]
    GeoData {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: GeoError,
    },
    /// A cache is too small.
    #[error(transparent)]
    Cache(#[from] BudgetTooSmall),
}
