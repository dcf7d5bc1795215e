//! Requests and replies about pools: names whose addresses depend on the health of the hosts.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode;
use crate::words::words;

/// A request for the state of pools. A pool is a name with several addresses. Answers contain the
/// healthy ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolsStatus {
    /// The name of the pool; all pools if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A request to set addresses of a pool up, down or draining by hand, or to let the probes decide
/// again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolControl {
    /// The name of the pool.
    pub name: String,
    /// The address to set; all addresses of the pool if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The new setting of the address.
    pub control: AddressControl,
}

/// A request for the answers that pools would give if hosts were down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolsWhatIf {
    /// The addresses of the hosts that would be down, separated by commas. An address may also be
    /// the target of a probe.
    pub down: String,
    /// The address of the client that would query the pools; 127.0.0.1 if the field is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

words! {
    /// The setting of an address of a pool. An operator sets it by hand, and it lasts until the
    /// operator sets another one.
    pub enum AddressControl {
        /// The probes of the address decide whether answers contain the address.
        Auto = "auto",
        /// The address counts as healthy, whatever its probes say.
        Up = "up",
        /// The address is in no answer.
        Down = "down",
        /// The address is in answers only if no other address is usable.
        Drain = "drain",
    }
}

words! {
    /// The health of an address of a pool, according to its probes.
    pub enum AddressHealth {
        /// No probe of the address has ended yet. The address counts as up.
        Unknown = "unknown",
        /// The address is healthy.
        Up = "up",
        /// The address is not healthy.
        Down = "down",
    }
}

words! {
    /// The result of a probe.
    pub enum ProbeOutcome {
        /// The target of the probe responded as required.
        Success = "success",
        /// The target of the probe did not respond in time, or not as required.
        Failure = "failure",
        /// The server could not send the probe, for example because it lacks a permission.
        NotRun = "not-run",
    }
}

/// The state of pools of addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolsReport {
    /// The pools, in the order of their names.
    pub pools: Vec<PoolStatus>,
    /// The reason why the server could not save the setting of this request, so that a restart
    /// undoes it. The server tries again. The field is missing if the server has saved the setting,
    /// and in responses that only show pools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsaved: Option<String>,
}

/// The state of a pool: a name with several addresses. Answers contain the healthy ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PoolStatus {
    /// The name of the pool.
    pub name: String,
    /// The mode: how the server chooses among the healthy addresses for an answer.
    pub mode: String,
    /// The kind of the probes, such as `https`.
    pub probe: String,
    /// The number of seconds between two probes of an address.
    pub interval_secs: u32,
    /// The TTL in seconds of the records in answers.
    pub ttl: u32,
    /// The addresses of the pool, in the order of the configuration.
    pub addresses: Vec<PoolAddress>,
}

/// The state of an address of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PoolAddress {
    /// The IP address in the answers.
    pub address: String,
    /// The address or URL to which the server sends the probes.
    pub probed_at: String,
    /// The health of the address, according to its probes.
    pub state: AddressHealth,
    /// The setting by an operator: whether the probes or the operator decide.
    pub control: AddressControl,
    /// Whether answers may contain the address, and not only if no other address is usable.
    pub usable: bool,
    /// The Unix second at which the health last changed; null if the health has not changed since
    /// the start.
    pub since: Option<u64>,
    /// The number of changes of the health since the start.
    pub changes: u64,
    /// The number of successful probes since the start.
    pub successes: u64,
    /// The number of failed probes since the start.
    pub failures: u64,
    /// The number of probes since the start that the server could not send.
    pub not_run: u64,
    /// The last probes of the address, the latest first.
    pub history: Vec<ProbeReport>,
}

/// A probe of an address that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeReport {
    /// The Unix second at which the probe ended.
    pub at: u64,
    /// The result of the probe.
    pub result: ProbeOutcome,
    /// The duration of the probe in milliseconds.
    pub ms: u64,
    /// The reason for the result, such as the error.
    pub reason: String,
}

/// The answers that pools would give if hosts were down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolAnswers {
    /// The pools that have an address of one of these hosts, in the order of their names.
    pub pools: Vec<PoolAnswer>,
}

/// Two answers of a pool: the present one, and the one if hosts were down. If the mode of the pool
/// chooses at random, each answer is one of several possible answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PoolAnswer {
    /// The name of the pool.
    pub name: String,
    /// The addresses in an answer now.
    pub now: Vec<String>,
    /// The addresses in an answer if the hosts were down.
    pub then: Vec<String>,
    /// Whether no usable address would be left for IPv4 or for IPv6, although the pool has
    /// addresses of this family.
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
