//! `view` of `[[zone]]`: the clients that see a zone, if not all do.

use std::fmt;
use std::net::IpAddr;

use avocet_policy::client::ClientTest;
use avocet_zone::ZoneId;
use ipnet::IpNet;

use super::check::Check;
use super::error::SettingError;
use super::setting::{FromText, List, Setting, Text};

/// Maximum number of different items of all views. Each may double the number of client profiles:
/// the combinations of client properties that the policy distinguishes.
pub const MAX_VIEW_ITEMS: usize = 64;
/// The prefix of the name of a listener.
const LISTENER: &str = "listener:";

/// An item of `view`: clients that see the zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewItem {
    /// The clients in the group with this name.
    Group(String),
    /// The clients with an address in the network. The host bits of the network are zero.
    Network(IpNet),
    /// The clients that send queries to the listener with this name.
    Listener(String),
}

/// The view of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneView {
    /// The name of the zone, in lower case and wire form.
    pub zone: Box<[u8]>,
    /// The clients that see the zone; never empty.
    pub items: Vec<ViewItem>,
}

impl ZoneView {
    /// Returns the identity of the zone.
    #[must_use]
    pub fn id(&self) -> ZoneId {
        let view = self.items.first().map(|item| item.to_string().into());
        ZoneId { name: self.zone.clone(), view }
    }
}

impl ViewItem {
    /// Returns the item that a text means: an address is the network of this address alone.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Self> {
        if let Some(listener) = text.strip_prefix(LISTENER) {
            return Some(Self::Listener(listener.to_owned()));
        }
        let address = || text.parse().ok().map(|ip: IpAddr| IpNet::from(ip));
        match text.parse().ok().or_else(address) {
            Some(network) => Some(Self::Network(network.trunc())),
            None => (!text.is_empty()).then(|| Self::Group(text.to_owned())),
        }
    }

    /// Returns the condition that a client of this item meets.
    #[must_use]
    pub fn test(&self) -> ClientTest {
        match self {
            Self::Group(name) => ClientTest::Group(name.clone()),
            Self::Network(network) => ClientTest::Within(*network),
            Self::Listener(name) => ClientTest::Listener(name.clone()),
        }
    }
}

impl fmt::Display for ViewItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(name) => f.write_str(name),
            Self::Network(network) => network.fmt(f),
            Self::Listener(name) => write!(f, "{LISTENER}{name}"),
        }
    }
}

impl FromText for ViewItem {
    const EXPECTED: &'static str =
        "a group, a network, or a listener, such as \"office\", \"10.0.0.0/8\" or \"listener:vpn\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        Self::of_text(text).ok_or(None)
    }
}

/// Reads `view`. An item that occurs twice is a fault. A list without items is a fault too, because
/// no client would see the zone.
pub(super) fn view(setting: Setting<List<Text<ViewItem>>>, check: &mut Check) -> Vec<ViewItem> {
    let Some(at) = setting.span() else { return Vec::new() };
    let Some(List(written)) = check.take(setting) else { return Vec::new() };
    if written.is_empty() {
        let message = "nobody would see this zone: leave `view` out for a zone of all clients";
        check.fault(at.clone(), message);
    }
    if written.len() > MAX_VIEW_ITEMS {
        check.fault(at, format!("more than {MAX_VIEW_ITEMS} items"));
        return Vec::new();
    }
    let mut items = Vec::with_capacity(written.len());
    for item in written {
        let (at, Text(item)) = (item.span(), item.into_inner());
        match items.contains(&item) {
            true => check.fault(at, format!("duplicate item \"{item}\"")),
            false => items.push(item),
        }
    }
    items
}
