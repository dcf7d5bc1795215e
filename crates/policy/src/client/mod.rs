//! Client identification: from the address of a query to a client, its groups and its [`Profile`].
//!
//! A client is identified by addresses, networks, MAC addresses and host names. If several clients
//! match an address, the most specific match decides, in this order: the address itself, its MAC
//! address, its learned host name, the longest network. An address without a configured client is
//! in the group [`DEFAULT_GROUP`], as is a client without groups.
//!
//! Over encrypted transports, a device may also send or prove its identity ([`DeviceId`]), at any
//! address.

mod address_map;
mod build;
mod device;
mod devices;
mod identity;
mod intervals;
mod profile;

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use build::{ClientFault, Directory, IdPrecedence};
pub use device::{DeviceClaims, DeviceId, DeviceKey};
pub use identity::{Id, Identity, Mac, Neighbour};
pub use profile::{Clients, ListSet, Origin, Profile};

use crate::list::MAX_LISTS;
use crate::rule::TextTest;

/// The group of clients that are in no other group.
pub const DEFAULT_GROUP: &str = "default";
/// Maximum number of profiles. Their identifiers have 16 bits, and caches hold separate answers for
/// each profile.
pub const MAX_PROFILES: usize = 65_535;
/// Maximum number of neighbours whose MAC address or name is relevant to the policy.
pub const MAX_NEIGHBOURS: usize = 65_536;
/// Maximum number of configured clients.
pub const MAX_CLIENTS: usize = 60_000;
/// Maximum number of groups.
pub const MAX_GROUPS: usize = 1_000;

/// A group of clients in the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GroupSpec {
    /// The name of the group, which rules, clients and commands use.
    pub name: String,
    /// The clients in the group: names of clients, addresses, networks, MAC addresses and host
    /// names.
    #[serde(default)]
    pub clients: Vec<String>,
    /// The names of the lists that apply to the group; `None` for all lists.
    #[serde(default)]
    pub lists: Option<Vec<String>>,
}

/// A client in the configuration.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClientSpec {
    /// The name of the client, which rules, commands and the log use.
    pub name: String,
    /// The addresses, networks, MAC addresses and host names of the client, and the identities that
    /// its device sends or proves: `id:WORD`, `certificate:NAME`, `pin:BASE64`.
    #[serde(default)]
    pub ids: Vec<String>,
    /// The groups of the client, in addition to the groups that name the client. A client without
    /// any group is in the group `default`.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// The transport of a query.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the names of the protocols
pub enum Transport {
    Udp,
    Tcp,
    Tls,
    Https,
    Quic,
    Odoh,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 6] =
        [Self::Udp, Self::Tcp, Self::Tls, Self::Https, Self::Quic, Self::Odoh];

    /// Returns the name used in expressions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Quic => "quic",
            Self::Odoh => "odoh",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A condition on a client. All conditions of a policy are known when it is compiled, so they are
/// evaluated once per profile.
#[derive(Clone, PartialEq, Debug)]
pub enum ClientTest {
    /// The client is in the group with this name.
    Group(String),
    /// The address of the client is in the network.
    Within(IpNet),
    /// The name of the client matches: the configured name or, without one, the name from leases or
    /// PTR records.
    Name(TextTest),
    /// The client has this MAC address.
    Mac(Mac),
    /// The query arrived at the listener with this name.
    Listener(String),
    /// The query arrived over this transport.
    Transport(Transport),
    /// The client is the `[[client]]` with this name.
    Is(String),
}

/// The properties of a client that [`ClientTest`]s examine.
#[derive(Clone, Debug, Default)]
pub struct Asker<'a> {
    /// The address.
    pub address: Option<IpAddr>,
    /// The configured name.
    pub client: Option<&'a str>,
    /// The configured or learned name.
    pub name: Option<&'a str>,
    /// The MAC addresses.
    pub macs: &'a [Mac],
    /// The names of the groups of the client.
    pub groups: &'a [String],
    /// The listener at which the query arrived.
    pub listener: &'a str,
    /// The transport of the query.
    pub transport: Option<Transport>,
}

impl ClientTest {
    /// Reports whether the condition is on the listener or the transport of the query, and not on
    /// the client.
    pub(crate) const fn is_of_origin(&self) -> bool {
        matches!(self, Self::Listener(_) | Self::Transport(_))
    }

    /// Reports whether the condition holds for the client.
    #[must_use]
    pub fn holds(&self, asker: &Asker<'_>) -> bool {
        match self {
            Self::Group(name) => asker.groups.contains(name),
            Self::Within(network) => {
                asker.address.is_some_and(|address| network.contains(&address))
            }
            Self::Name(test) => {
                asker.name.is_some_and(|name| test.holds(name.to_ascii_lowercase().as_bytes()))
            }
            Self::Mac(mac) => asker.macs.contains(mac),
            Self::Listener(name) => asker.listener == name,
            Self::Transport(transport) => asker.transport == Some(*transport),
            Self::Is(name) => asker.client == Some(name),
        }
    }
}

/// Normalises an address: an IPv4-mapped IPv6 address becomes IPv4 (RFC 4291 §2.5.5.2).
#[inline]
#[must_use]
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}
