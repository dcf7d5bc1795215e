//! The addresses of upstreams that the configuration has only names for.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// Addresses by host name, as the servers of `bootstrap` know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamAddresses(BTreeMap<Box<str>, Vec<IpAddr>>);

impl UpstreamAddresses {
    /// Returns the addresses of a name; none if they are not known.
    pub fn of(&self, name: &str) -> &[IpAddr] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Replaces the addresses of a name.
    pub fn put(&mut self, name: &str, addresses: Vec<IpAddr>) {
        self.0.insert(name.into(), addresses);
    }

    /// Forgets all names but those for which the test holds.
    pub fn keep(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| is_wanted(name));
    }
}
