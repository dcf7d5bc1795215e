//! The networks by which connections of clients are counted. A host with IPv6 can use every address
//! of its /64, and many sites have a /48 of their own, so a limit for each address does not limit
//! what one party can take.

use std::collections::HashMap;
use std::net::IpAddr;

/// A network of clients to which a limit on connections applies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClientNetwork {
    /// One address.
    Address(IpAddr),
    /// The network of an IPv6 link (/64), as its upper bits.
    Link(u64),
    /// The network of an IPv6 site (/48; RFC 6177), as its upper bits.
    Site(u64),
}

impl ClientNetwork {
    /// Returns the networks of a client, the smallest first. An IPv4 client has only its address.
    pub fn around(client: IpAddr) -> impl Iterator<Item = Self> {
        let client = client.to_canonical();
        let wider = match client {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => {
                let upper = |bits: u32| (v6.to_bits() >> (128 - bits)) as u64;
                Some([Self::Link(upper(64)), Self::Site(upper(48))])
            }
        };
        std::iter::once(Self::Address(client)).chain(wider.into_iter().flatten())
    }

    /// Returns whether a client is in this network.
    pub fn includes(self, client: IpAddr) -> bool {
        Self::around(client).any(|network| network == self)
    }
}

/// A number for each client and for each of its networks, such as of open connections.
#[derive(Default, Debug)]
pub struct NetworkCounts(HashMap<ClientNetwork, usize>);

impl NetworkCounts {
    /// Adds one to the numbers of a client and its networks.
    pub fn add(&mut self, client: IpAddr) {
        for network in ClientNetwork::around(client) {
            *self.0.entry(network).or_default() += 1;
        }
    }

    /// Subtracts one from the numbers of a client and its networks. Returns whether the client was
    /// counted.
    pub fn remove(&mut self, client: IpAddr) -> bool {
        let mut is_counted = false;
        for network in ClientNetwork::around(client) {
            let Some(count) = self.0.get_mut(&network) else { continue };
            is_counted = true;
            *count -= 1;
            if *count == 0 {
                self.0.remove(&network);
            }
        }
        is_counted
    }

    /// Returns the smallest of a client and its networks that has reached its limit.
    pub fn full(
        &self,
        client: IpAddr,
        limit: impl Fn(ClientNetwork) -> usize,
    ) -> Option<ClientNetwork> {
        let count = |network: &ClientNetwork| self.0.get(network).copied().unwrap_or(0);
        ClientNetwork::around(client).find(|network| count(network) >= limit(*network))
    }

    /// Returns whether no client is counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_full_whichever_addresses_its_clients_use() {
        let mut counts = NetworkCounts::default();
        let limit = |network| match network {
            ClientNetwork::Address(_) => 2,
            ClientNetwork::Link(_) => 3,
            ClientNetwork::Site(_) => 4,
        };
        let mut check = |client: &str, expected: Option<usize>| {
            let client: IpAddr = client.parse().unwrap();
            let networks: Vec<_> = ClientNetwork::around(client).collect();
            let full = counts.full(client, limit);
            assert_eq!(full, expected.map(|at| networks[at]), "{client}");
            counts.add(client);
        };
        check("2001:db8:1:1::1", None);
        check("2001:db8:1:1::1", None);
        check("2001:db8:1:1::1", Some(0));
        check("2001:db8:1:1::2", Some(1));
        check("2001:db8:1:2::1", Some(2));
        check("2001:db8:2:1::1", None);
        check("192.0.2.1", None);
        check("192.0.2.2", None);
        let mut remove = |client: &str| counts.remove(client.parse().unwrap());
        assert!(!remove("2001:db8:3::1") && remove("192.0.2.1") && !remove("192.0.2.1"));
        for client in ["1:1::1", "1:1::1", "1:1::1", "1:1::2", "1:2::1", "2:1::1"] {
            assert!(remove(&format!("2001:db8:{client}")), "{client}");
        }
        assert!(remove("192.0.2.2") && counts.is_empty());
    }

    #[test]
    fn networks_of_ipv6_include_their_addresses_only() {
        let check = |one: &str, other: &str, expected: &[bool]| {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            let included: Vec<_> =
                ClientNetwork::around(one).map(|network| network.includes(other)).collect();
            assert_eq!(included, expected, "{one} {other}");
        };
        check("2001:db8:1:2::3", "2001:db8:1:2::3", &[true, true, true]);
        check("2001:db8:1:2::3", "2001:db8:1:2:ffff::", &[false, true, true]);
        check("2001:db8:1:2::3", "2001:db8:1:3::3", &[false, false, true]);
        check("2001:db8:1:2::3", "2001:db8:2:2::3", &[false, false, false]);
        check("192.0.2.1", "192.0.2.1", &[true]);
        check("192.0.2.1", "192.0.2.2", &[false]);
        check("::ffff:192.0.2.1", "192.0.2.1", &[true]);
        check("::ffff:192.0.2.1", "::ffff:192.0.2.2", &[false]);
    }
}
