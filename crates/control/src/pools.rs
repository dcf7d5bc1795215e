//! Requests and replies about pools: names whose addresses depend on the health of the hosts.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode;
use crate::words::words;

/// A request for the state of pools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolsStatus {
    /// The pool; all pools without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A request to set addresses of a pool up, down or draining by hand, or back to the results of
/// probes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolControl {
    /// The pool.
    pub name: String,
    /// The address; all addresses of the pool without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The new setting.
    pub control: AddressControl,
}

/// A request for the answers that would be given if hosts were down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolsWhatIf {
    /// The addresses that would be down, separated by commas.
    pub down: String,
    /// The client that asks; 127.0.0.1 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

words! {
    /// The state of an address of a pool that an operator sets by hand.
    pub enum AddressControl {
        /// The probes of the address decide.
        Auto = "auto",
        /// The address is in the answers, regardless of its probes.
        Up = "up",
        /// The address is in no answer.
        Down = "down",
        /// The address is in answers only if no other address is usable.
        Drain = "drain",
    }
}

words! {
    /// The health of an address.
    pub enum AddressHealth {
        /// No probe has ended yet; it counts as up.
        Unknown = "unknown",
        /// The address is up.
        Up = "up",
        /// The address is down.
        Down = "down",
    }
}

words! {
    /// The result of a probe.
    pub enum ProbeOutcome {
        /// The target responds as required.
        Success = "success",
        /// The address is not healthy, or it did not reply in time.
        Failure = "failure",
        /// The probe could not be made.
        NotRun = "not-run",
    }
}

/// The state of pools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolsReport {
    /// The pools, by name.
    pub pools: Vec<PoolStatus>,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PoolStatus {
    /// The name of the pool.
    pub name: String,
    /// The mode, which determines the healthy addresses that an answer contains.
    pub mode: String,
    /// The kind of its probes.
    pub probe: String,
    /// Seconds between two probes of an address.
    pub interval_secs: u32,
    /// The TTL of its records in seconds.
    pub ttl: u32,
    /// The addresses of the pool, in the order of the configuration.
    pub addresses: Vec<PoolAddress>,
}

/// An address of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PoolAddress {
    /// The address.
    pub address: String,
    /// The address or URL that is probed.
    pub probed_at: String,
    /// The health of the address according to its probes.
    pub state: AddressHealth,
    /// The setting of an operator.
    pub control: AddressControl,
    /// Whether answers may contain it as a healthy address.
    pub usable: bool,
    /// The Unix second of the last change of its health since the start.
    pub since: Option<u64>,
    /// Changes of its health since the start.
    pub changes: u64,
    /// Successful probes since the start.
    pub successes: u64,
    /// Failed probes since the start.
    pub failures: u64,
    /// Probes that could not be made since the start.
    pub not_run: u64,
    /// The last probes of the address, the latest first.
    pub history: Vec<ProbeReport>,
}

/// A probe that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeReport {
    /// The Unix second of its end.
    pub at: u64,
    /// The result of the probe.
    pub result: ProbeOutcome,
    /// The time of the probe in milliseconds.
    pub ms: u64,
    /// The reason of the result.
    pub reason: String,
}

/// The answers that would be given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolAnswers {
    /// The pools with an address that would be down, by name.
    pub pools: Vec<PoolAnswer>,
}

/// Two answers of a pool: at present, and if hosts were down. If the mode chooses at random, each
/// is one of the possible answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PoolAnswer {
    /// The pool.
    pub name: String,
    /// The addresses of an answer at present.
    pub now: Vec<String>,
    /// The addresses of an answer if the hosts were down.
    pub then: Vec<String>,
    /// Whether no healthy address would be left.
    pub all_down: bool,
}

/// The reason why a request about pools has no reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PoolFault {
    /// No pool has the name.
    UnknownPool(String),
    /// The pool does not have the address.
    UnknownAddress(String),
    /// The text is not an address.
    NotAnAddress(String),
}

impl PoolFault {
    /// Returns the code of the error.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::UnknownPool(_) | Self::UnknownAddress(_) => ErrorCode::NotFound,
            Self::NotAnAddress(_) => ErrorCode::InvalidValue,
        }
    }

    /// Returns the next step for the user, if the message does not state it.
    pub const fn next(&self) -> Option<&'static str> {
        match self {
            Self::UnknownPool(_) => Some("see `avocet zone pool list`"),
            Self::UnknownAddress(_) => Some("see `avocet zone pool show`"),
            Self::NotAnAddress(_) => None,
        }
    }
}

impl fmt::Display for PoolFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownPool(name) => write!(f, "there is no pool {name:?}"),
            Self::UnknownAddress(address) => write!(f, "the pool has no address {address}"),
            Self::NotAnAddress(text) => write!(f, "{text:?} is not an address"),
        }
    }
}
