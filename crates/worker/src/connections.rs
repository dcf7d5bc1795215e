//! Counts and limits open TCP connections, for each client, for each network of IPv6 clients, and
//! in total.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use avocet_config::TcpConfig;
use avocet_session::network::{ClientNetwork, NetworkCounts};

/// The numbers of open TCP connections, in total and for each client and network. They are accessed
/// only when a connection opens or closes.
#[derive(Default)]
pub struct ConnectionCounts {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    total: usize,
    by_network: NetworkCounts,
}

/// The limits for open connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of connections of all clients together.
    pub total: usize,
    /// Maximum number of connections of each client.
    pub per_client: usize,
    /// Number of connections by which a client or network may exceed its limit.
    pub excess: usize,
}

impl ConnectionLimits {
    /// Creates limits for all clients together, and for each client.
    pub const fn new(total: usize, per_client: usize) -> Self {
        Self { total, per_client, excess: 0 }
    }

    /// Returns the limits of the configuration.
    pub fn of(tcp: &TcpConfig) -> Self {
        Self::new(tcp.connections, tcp.connections_per_client)
    }

    /// Returns the maximum number of connections of a client or network. An IPv6 link has at most
    /// half of all connections, and a site three quarters, so that others can connect. An IPv4
    /// client has only one address.
    fn within(&self, network: ClientNetwork) -> usize {
        let share = match network {
            ClientNetwork::Address(_) => self.per_client,
            ClientNetwork::Link(_) => self.total.div_ceil(2),
            ClientNetwork::Site(_) => self.total - self.total / 4,
        };
        share.max(self.per_client) + self.excess
    }

    /// Returns the maximum number of connections of a client or network that are in a handshake:
    /// half of its connections.
    pub(crate) fn in_handshake(&self, network: ClientNetwork) -> usize {
        (self.within(network) / 2).max(1)
    }
}

/// The limit that a connection exceeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crowded {
    /// The limit for all clients together is reached.
    Total,
    /// The limit for the client, or for its network, is reached.
    Network(ClientNetwork),
}

impl ConnectionCounts {
    /// Counts a new connection of `client`, unless a limit is reached.
    ///
    /// # Errors
    /// Returns the first limit that is reached, that of the client before those of its networks.
    pub fn open(&self, client: IpAddr, limits: &ConnectionLimits) -> Result<(), Crowded> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(network) = counts.by_network.full(client, |network| limits.within(network)) {
            return Err(Crowded::Network(network));
        }
        if counts.total >= limits.total {
            return Err(Crowded::Total);
        }
        counts.by_network.add(client);
        counts.total += 1;
        Ok(())
    }

    /// Returns the first of a client and its networks that has more connections than permitted.
    pub fn excess(&self, client: IpAddr, limits: &ConnectionLimits) -> Option<ClientNetwork> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.by_network.full(client, |network| limits.within(network) + 1)
    }

    /// Removes a connection of `client` from the counts.
    pub fn close(&self, client: IpAddr) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let is_counted = counts.by_network.remove(client);
        counts.total -= usize::from(is_counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn connections_are_bounded_in_all_and_for_each_client() {
        let counts = ConnectionCounts::default();
        let limits = ConnectionLimits::new(3, 2);
        let (a, b, c) = (ip("10.0.0.1"), ip("10.0.0.2"), ip("10.0.0.3"));
        assert_eq!(counts.open(a, &limits), Ok(()));
        assert_eq!(counts.open(a, &limits), Ok(()));
        let of_client = Crowded::Network(ClientNetwork::Address(a));
        assert_eq!(counts.open(a, &limits), Err(of_client));
        assert_eq!(counts.open(b, &limits), Ok(()));
        assert_eq!(counts.open(c, &limits), Err(Crowded::Total));
        counts.close(a);
        assert_eq!(counts.open(c, &limits), Ok(()));
        [a, b, c].into_iter().for_each(|client| counts.close(client));
        let left = counts.counts.into_inner().unwrap();
        assert!(left.total == 0 && left.by_network.is_empty());
    }

    #[test]
    fn no_ipv6_network_takes_all_connections() {
        let counts = ConnectionCounts::default();
        let limits = ConnectionLimits::new(16, 2);
        let opened = |pattern: &str| {
            let client = |number: u8| ip(&pattern.replace('N', &number.to_string()));
            (0..32).filter(|&number| counts.open(client(number), &limits).is_ok()).count()
        };
        assert_eq!(opened("2001:db8:1:1::N"), 8);
        assert_eq!(opened("2001:db8:1:2::N"), 4);
        assert_eq!(opened("2001:db8:1:N::1"), 0);
        assert_eq!(opened("192.0.2.N"), 4);
        let client = ip("2001:db8:1:1::1");
        assert_eq!(counts.excess(client, &limits), None);
        counts.close(ip("192.0.2.0"));
        counts.close(ip("2001:db8:1:2::0"));
        let one_more = ConnectionLimits { excess: 1, ..limits };
        assert_eq!(counts.open(client, &one_more), Ok(()));
        let link = ClientNetwork::around(client).nth(1);
        assert_eq!(counts.excess(client, &limits), link);
        counts.close(client);
        assert_eq!(counts.excess(client, &limits), None);
    }

    #[test]
    fn one_client_has_what_is_configured_for_it() {
        let (counts, limits) = (ConnectionCounts::default(), ConnectionLimits::new(4, 4));
        let client = ip("2001:db8::1");
        assert_eq!((0..8).filter(|_| counts.open(client, &limits).is_ok()).count(), 4);
    }
}
