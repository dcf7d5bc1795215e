//! Counts and limits open TCP connections.

use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use avocet_config::TcpConfig;

/// The numbers of open TCP connections, in total and for each client. They are accessed only when a
/// connection opens or closes.
#[derive(Default)]
pub struct ConnectionCounts {
    total: AtomicUsize,
    by_client: Mutex<std::collections::HashMap<IpAddr, usize>>,
}

/// The limits for open connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of connections of all clients together.
    pub total: usize,
    /// Maximum number of connections of each client.
    pub per_client: usize,
}

impl ConnectionLimits {
    /// Returns the limits of the configuration.
    pub fn of(tcp: &TcpConfig) -> Self {
        Self { total: tcp.connections, per_client: tcp.connections_per_client }
    }
}

/// The limit that a connection exceeds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crowded {
    /// The limit for all clients together is reached.
    Total,
    /// The limit for one client is reached.
    Client,
}

impl ConnectionCounts {
    /// Counts a new connection of `client`, unless a limit is reached.
    pub fn open(&self, client: IpAddr, limits: &ConnectionLimits) -> Result<(), Crowded> {
        let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_client.get(&client).copied().unwrap_or(0);
        if count >= limits.per_client {
            return Err(Crowded::Client);
        }
        if self.total.load(Ordering::Relaxed) >= limits.total {
            return Err(Crowded::Total);
        }
        by_client.insert(client, count + 1);
        self.total.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of connections of `client`.
    pub fn of_client(&self, client: IpAddr) -> usize {
        self.by_client
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&client)
            .copied()
            .unwrap_or(0)
    }

    /// Removes a connection of `client` from the counts.
    pub fn close(&self, client: IpAddr) {
        let mut by_client = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_client.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                by_client.remove(&client);
            }
            self.total.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_bounded_in_all_and_for_each_client() {
        let counts = ConnectionCounts::default();
        let limits = ConnectionLimits { total: 3, per_client: 2 };
        let (a, b, c) =
            (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]), IpAddr::from([10, 0, 0, 3]));
        assert_eq!(counts.open(a, &limits), Ok(()));
        assert_eq!(counts.open(a, &limits), Ok(()));
        assert_eq!(counts.open(a, &limits), Err(Crowded::Client));
        assert_eq!(counts.open(b, &limits), Ok(()));
        assert_eq!(counts.open(c, &limits), Err(Crowded::Total));
        counts.close(a);
        assert_eq!(counts.open(c, &limits), Ok(()));
    }
}
