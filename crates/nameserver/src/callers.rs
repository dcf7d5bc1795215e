//! Recent clients of a worker, for the thread that looks up their names.
//!
//! Only the worker writes, without a lock. A reader may miss an address that is being replaced.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Number of slots for addresses of clients, a power of two. Clients with the same slot replace
/// each other.
const PLACES: usize = 512;

/// The addresses of one worker.
pub struct Callers {
    places: Box<[AddressSlot]>,
}

/// A slot for one address, as two halves of an IPv6 address. IPv4 addresses are mapped to IPv6. The
/// write count is odd while the slot is being written.
#[derive(Default)]
struct AddressSlot {
    count: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
}

impl Default for Callers {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| AddressSlot::default()).collect() }
    }
}

impl Callers {
    /// Remembers an address. Only the worker that owns these slots may call this method. A known
    /// address costs two loads and two comparisons.
    #[inline]
    pub fn note(&self, ip: IpAddr) {
        let bits = match ip {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let (high, low) = ((bits >> 64) as u64, bits as u64);
        let hash = (high ^ low.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = &self.places[hash as usize >> (usize::BITS - PLACES.ilog2())];
        if place.low.load(Ordering::Relaxed) == low && place.high.load(Ordering::Relaxed) == high {
            return;
        }
        let count = place.count.load(Ordering::Relaxed);
        place.count.store(count.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        place.high.store(high, Ordering::Relaxed);
        place.low.store(low, Ordering::Relaxed);
        place.count.store(count.wrapping_add(2), Ordering::Release);
    }

    /// Returns the remembered addresses.
    pub fn all(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.places.iter().filter_map(AddressSlot::read)
    }
}

impl AddressSlot {
    fn read(&self) -> Option<IpAddr> {
        let before = self.count.load(Ordering::Acquire);
        let (high, low) = (self.high.load(Ordering::Relaxed), self.low.load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        let is_whole =
            before & 1 == 0 && before > 0 && self.count.load(Ordering::Relaxed) == before;
        let bits = u128::from(high) << 64 | u128::from(low);
        is_whole.then(|| IpAddr::from(Ipv6Addr::from_bits(bits)).to_canonical())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn addresses_of_both_families_are_remembered_once() {
        let callers = Callers::default();
        let (v4, v6) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([0xfd; 16]));
        [v4, v6, v4].into_iter().for_each(|ip| callers.note(ip));
        assert_eq!(callers.all().collect::<HashSet<_>>(), HashSet::from([v4, v6]));
        assert_eq!(callers.all().count(), 2);
    }

    #[test]
    fn however_many_ask_there_are_never_more_than_places() {
        let callers = Callers::default();
        (0..10_000_u32)
            .for_each(|number| callers.note(IpAddr::from((0x0a00_0000 + number).to_be_bytes())));
        let count = callers.all().count();
        assert!((PLACES / 2..=PLACES).contains(&count), "{count}");
    }

    #[test]
    fn a_reader_never_sees_half_of_an_address() {
        let (callers, is_over) = (Callers::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in (0..200_000_u64).map(|number| number % 4_096) {
                    callers.note(IpAddr::from(Ipv6Addr::from_bits(
                        u128::from(number) << 64 | u128::from(!number),
                    )));
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                for ip in callers.all() {
                    let IpAddr::V6(v6) = ip else { panic!("{ip}") };
                    assert_eq!((v6.to_bits() >> 64) as u64, !(v6.to_bits() as u64));
                }
            }
        });
    }
}
