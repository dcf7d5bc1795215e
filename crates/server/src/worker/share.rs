//! How many queries of each client wait at once, so that nobody takes all the room that waiting has.
//!
//! A sender of forged queries could otherwise gather thousands of answers for his victim and have them
//! leave in one burst, as soon as a slow upstream answers (DNSBomb, CVE-2024-33655).

use std::net::IpAddr;

use avocet_wire::hash::HashKey;

/// Places to count in. Clients that fall on the same place share it; the key decides which do.
const PLACES: usize = 4096;
/// Queries of one client that may wait in one worker, if they came over UDP and without a cookie of
/// ours (Unbound's wait-limit has the same number).
const MAX_WAITING: u16 = 1000;

/// Counts of waiting queries by client.
pub(super) struct Shares {
    places: Box<[u16]>,
    key: HashKey,
}

impl Shares {
    /// None wait.
    pub(super) fn new(secret: [u8; 32]) -> Self {
        Self { places: vec![0; PLACES].into(), key: HashKey::new(secret) }
    }

    /// Counts a query in. False, and not counted, if the client has enough waiting.
    pub(super) fn take(&mut self, client: IpAddr) -> bool {
        let place = self.place(client);
        let is_free = *place < MAX_WAITING;
        *place += u16::from(is_free);
        is_free
    }

    /// Counts a query out.
    pub(super) fn give_back(&mut self, client: IpAddr) {
        let place = self.place(client);
        *place = place.saturating_sub(1);
    }

    fn place(&mut self, client: IpAddr) -> &mut u16 {
        let hash = match client {
            IpAddr::V4(ip) => self.key.hash(&ip.octets(), 4),
            IpAddr::V6(ip) => self.key.hash(&ip.octets(), 6),
        };
        &mut self.places[hash as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_his_share_and_takes_none_of_the_others() {
        let mut shares = Shares::new(std::array::from_fn(|at| at as u8 * 3 + 1));
        let (greedy, other) = ("192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap());
        let taken = (0..5000).filter(|_| shares.take(greedy)).count();
        assert_eq!(taken, usize::from(MAX_WAITING));
        assert!(shares.take(other));
        shares.give_back(greedy);
        assert!(shares.take(greedy));
        assert!(!shares.take(greedy));
    }
}
