//! Facts about upstreams that the server learns at run time: the addresses of upstreams that the
//! configuration identifies only by name, and the encrypted servers that upstreams designate.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use avocet_config::discover::{DesignatedServer, DiscoveryTerms};

/// The addresses of upstreams by host name, as looked up at the servers of `bootstrap`, and the
/// designated servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamAddresses {
    by_name: BTreeMap<Box<str>, Vec<IpAddr>>,
    designated: HashMap<DiscoveryTerms, DesignatedServer>,
}

impl UpstreamAddresses {
    /// Returns the addresses of a name; empty if they are not known.
    pub fn of(&self, name: &str) -> &[IpAddr] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Replaces the addresses of a name.
    pub fn put(&mut self, name: &str, addresses: Vec<IpAddr>) {
        self.by_name.insert(name.into(), addresses);
    }

    /// Returns the encrypted server that was found with these terms; `None` if none is known.
    pub fn designated(&self, terms: &DiscoveryTerms) -> Option<&DesignatedServer> {
        self.designated.get(terms)
    }

    /// Replaces the designated servers.
    pub fn designate(&mut self, designated: HashMap<DiscoveryTerms, DesignatedServer>) {
        self.designated = designated;
    }

    /// Removes all names for which the test fails.
    pub fn keep(&mut self, is_wanted: impl Fn(&str) -> bool) {
        self.by_name.retain(|name, _| is_wanted(name));
    }
}
