//! Limits the number of waiting queries of each client, so that no client takes all the capacity.
//!
//! An attacker with spoofed queries could otherwise collect thousands of answers for a victim. All
//! these answers would be sent at the same time when a slow upstream responds (DNSBomb,
//! CVE-2024-33655).

use std::net::IpAddr;

use avocet_wire::hash::HashKey;

/// Number of counters. Clients with the same hash share a counter. The hash is keyed.
const PLACES: usize = 4096;
/// Maximum number of waiting queries of one client in one worker, over UDP and without a valid
/// cookie (the same as Unbound's wait-limit).
const MAX_WAITING: u16 = 1000;
/// Number of waiting queries that a network of clients may always have, even if there is little
/// free capacity.
const NETWORK_WAITING: usize = 64;

/// Counts waiting queries by client and by network.
pub(super) struct Shares {
    places: Box<[u16]>,
    networks: Box<[u32]>,
    key: HashKey,
}

impl Shares {
    /// Creates empty counts.
    pub(super) fn new(secret: [u8; 32]) -> Self {
        Self {
            places: vec![0; PLACES].into(),
            networks: vec![0; PLACES].into(),
            key: HashKey::new(secret),
        }
    }

    /// Counts a waiting query. Returns `false`, without counting the query, if the client has too
    /// many waiting queries, or if its network has more than `free`: the number of questions that
    /// may still begin. Thus, one network can use at most half of the capacity, and less if other
    /// networks use it.
    pub(super) fn take(&mut self, client: IpAddr, free: usize) -> bool {
        let (place, network) = self.places_of(client);
        let is_free = *place < MAX_WAITING && (*network as usize) < free.max(NETWORK_WAITING);
        *place += u16::from(is_free);
        *network += u32::from(is_free);
        is_free
    }

    /// Removes a query from the counts.
    pub(super) fn give_back(&mut self, client: IpAddr) {
        let (place, network) = self.places_of(client);
        *place = place.saturating_sub(1);
        *network = network.saturating_sub(1);
    }

    /// Returns the counter of a client, and the counter of its network with 24 (IPv4) or 56 (IPv6)
    /// bits.
    fn places_of(&mut self, client: IpAddr) -> (&mut u16, &mut u32) {
        let (client, network) = match client {
            IpAddr::V4(ip) => {
                let [a, b, c, host] = ip.octets();
                let network = self.key.hash(&[a, b, c], 3);
                // One hash for both: the clients of a network have neighbouring counters, at a
                // place that other bits of the hash determine.
                (network.rotate_right(32).wrapping_add(u64::from(host)), network)
            }
            IpAddr::V6(ip) => (self.key.hash(&ip.octets(), 6), self.key.hash(&ip.octets()[..7], 5)),
        };
        (&mut self.places[client as usize % PLACES], &mut self.networks[network as usize % PLACES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_his_share_and_takes_none_of_the_others() {
        let mut shares = Shares::new(std::array::from_fn(|at| at as u8 * 3 + 1));
        let (greedy, other) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let taken = (0..5000).filter(|_| shares.take(greedy, 10_000)).count();
        assert_eq!(taken, usize::from(MAX_WAITING));
        assert!(shares.take(other, 10_000));
        shares.give_back(greedy);
        assert!(shares.take(greedy, 10_000));
        assert!(!shares.take(greedy, 10_000));
    }

    #[test]
    fn a_network_of_many_clients_has_as_much_as_is_left_free() {
        let mut shares = Shares::new(std::array::from_fn(|at| at as u8 * 3 + 1));
        let most = 10_000;
        let mut taken = 0;
        for number in 0..20_000u32 {
            let client = IpAddr::from([192, 0, 2, number as u8]);
            taken += usize::from(shares.take(client, most - taken));
        }
        assert_eq!(taken, most / 2);
        assert!(shares.take(IpAddr::from([198, 51, 100, 1]), most - taken));
    }
}
