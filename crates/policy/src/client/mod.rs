//! Who asks: from the address of a query to a client, its groups and its [`Profile`].
//!
//! A client is known by addresses, networks, MAC addresses and host names. Where several clients
//! claim an address, the first of these decides: the address itself, the MAC behind it, the host
//! name learned for it, the longest network. Who is no client of the configuration is in the
//! group [`DEFAULT_GROUP`], as is a client without groups.

mod build;
mod identity;
mod intervals;
mod profile;

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use build::{ClientFault, Directory};
pub use identity::{Id, Identity, Mac, Neighbour};
pub use profile::{Clients, ListSet, Origin, Profile};

use crate::rule::TextTest;

/// The group of those who are in no other.
pub const DEFAULT_GROUP: &str = "default";
/// Most profiles: they are numbered in 16 bits, and caches hold an answer for each.
pub const MAX_PROFILES: usize = 65_535;
/// Most neighbours with a MAC address or name that the policy asks about.
pub const MAX_NEIGHBOURS: usize = 65_536;
/// Most clients of the configuration.
pub const MAX_CLIENTS: usize = 65_536;
/// Most lists that groups tell apart.
pub const MAX_LISTS: usize = 256;
/// Most groups.
pub const MAX_GROUPS: usize = 1_024;

/// A group as it is configured.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct GroupSpec {
    /// The name that rules, clients and commands use.
    pub name: String,
    /// Clients by their names, or by addresses, networks, MAC addresses and host names.
    #[serde(default)]
    pub clients: Vec<String>,
    /// The lists in force for the group, by name; all of them where this is not given.
    #[serde(default)]
    pub lists: Option<Vec<String>>,
}

/// A client as it is configured.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClientSpec {
    /// The name that rules, commands and the log use.
    pub name: String,
    /// Addresses, networks, MAC addresses and host names it is known by.
    #[serde(default)]
    pub ids: Vec<String>,
    /// The groups it is in; `default` where there is none.
    #[serde(default)]
    pub groups: Vec<String>,
}

/// How a query came.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)] // the names of the protocols
pub enum Transport {
    Udp,
    Tcp,
    Tls,
    Https,
    Quic,
}

impl Transport {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Udp, Self::Tcp, Self::Tls, Self::Https, Self::Quic];

    /// The name in expressions.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "dot",
            Self::Https => "doh",
            Self::Quic => "doq",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A question about a client. What the policy asks is known when it is compiled, so that its
/// answers are found out once for each profile.
#[derive(Clone, PartialEq, Debug)]
pub enum ClientTest {
    /// Is it in the group of that name?
    Group(String),
    /// Is its address in the network?
    Within(IpNet),
    /// What of its name: the configured one, or else the one learned from leases or PTR.
    Name(TextTest),
    /// Is this its MAC address?
    Mac(Mac),
    /// Did the query come to the listener of that name?
    Listener(String),
    /// Did the query come that way?
    Transport(Transport),
    /// Is it this client of the configuration?
    Is(String),
}

/// Who asked, as far as [`ClientTest`]s want to know.
#[derive(Clone, Debug, Default)]
pub struct Asker<'a> {
    /// Its address.
    pub address: Option<IpAddr>,
    /// Its configured name.
    pub client: Option<&'a str>,
    /// Its configured or learned name.
    pub name: Option<&'a str>,
    /// Its MAC addresses.
    pub macs: &'a [Mac],
    /// Its groups by name.
    pub groups: &'a [String],
    /// The listener the query came to.
    pub listener: &'a str,
    /// How the query came.
    pub transport: Option<Transport>,
}

impl ClientTest {
    /// Whether it is about the query's way and not about the client's address.
    pub(crate) const fn is_of_origin(&self) -> bool {
        matches!(self, Self::Listener(_) | Self::Transport(_))
    }

    /// Does it hold of who asked?
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

/// The address a policy sees: IPv4 also where it came mapped into IPv6 (RFC 4291 §2.5.5.2).
#[inline]
#[must_use]
pub fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}
