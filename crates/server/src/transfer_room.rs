//! The memory that the records of all zone transfers may take in total.
//!
//! A server may send records without end. Its transfers may take at most half of the limit for all
//! transfers, so that transfers from other servers can continue.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use avocet_io::memory;

/// The divisor of the process's memory that gives the limit for all transfers. The zones that are
/// made from the records take about as much again.
const PART: u64 = 4;
/// Number of octets for all transfers if the memory of the process is not known.
const FALLBACK: u64 = 1 << 30;

/// The memory for the records of all transfers in progress.
pub(crate) struct TransferRoom {
    /// Number of octets for all transfers.
    most: u64,
    /// Number of octets that the transfers from each server take.
    taken: Mutex<BTreeMap<IpAddr, u64>>,
}

impl Default for TransferRoom {
    /// Returns the memory that transfers of this process may take.
    fn default() -> Self {
        Self::new(memory::limit().map_or(FALLBACK, |octets| octets / PART))
    }
}

impl TransferRoom {
    fn new(most: u64) -> Self {
        Self { most, taken: Mutex::default() }
    }

    /// Creates the share of a transfer from a server.
    pub(crate) fn share(&self, server: IpAddr) -> TransferShare<'_> {
        TransferShare { room: self, server, octets: AtomicU64::new(0) }
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<IpAddr, u64>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory that a transfer has reserved. Dropping this value releases it.
pub(crate) struct TransferShare<'r> {
    room: &'r TransferRoom,
    server: IpAddr,
    octets: AtomicU64,
}

impl TransferShare<'_> {
    /// Reserves further octets. Returns whether they are available.
    pub(crate) fn grow(&self, octets: u64) -> bool {
        let mut taken = self.room.taken();
        let all = taken.values().sum::<u64>() + octets;
        let of_server = taken.entry(self.server).or_insert(0);
        if all > self.room.most || *of_server + octets > self.room.most / 2 {
            return false;
        }
        *of_server += octets;
        self.octets.fetch_add(octets, Ordering::Relaxed);
        true
    }
}

impl Drop for TransferShare<'_> {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        if let Some(of_server) = taken.get_mut(&self.server) {
            *of_server = of_server.saturating_sub(self.octets.load(Ordering::Relaxed));
            if *of_server == 0 {
                taken.remove(&self.server);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_takes_at_most_half_and_all_take_at_most_the_whole() {
        let room = TransferRoom::new(100);
        let [one, other, third] = [1, 2, 3].map(|last| IpAddr::from([192, 0, 2, last]));
        let (first, second) = (room.share(one), room.share(one));
        assert!(first.grow(30) && second.grow(20) && !first.grow(1));
        let (of_other, of_third) = (room.share(other), room.share(third));
        assert!(of_other.grow(40) && of_third.grow(10) && !of_third.grow(1));
        drop(second);
        assert!(of_third.grow(20) && !of_third.grow(1) && !first.grow(1));
        drop((first, of_other, of_third));
        assert!(room.taken().is_empty());
    }
}
