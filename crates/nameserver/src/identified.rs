//! The clients that are identified: the addresses whose device or name was looked up before they
//! got their first verdict.
//!
//! ```text
//! query -- address in no need, or identified --> path
//!       -- stranger ----> held by the worker; the server looks up its device and its name,
//!                         puts them in force, and records the address here ----> path
//! ```
//! An entry is valid from one version of the neighbours in [`Parts`](crate::policy::Parts) on,
//! until the policy changes how it identifies clients, or until the entry expires. For a worker
//! with an older snapshot, the client is still a stranger, because that snapshot does not have the
//! device yet.
//!
//! Workers read without a lock. Only one thread writes at a time.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use avocet_wire::special_purpose::Scope;
use ipnet::IpNet;

/// Maximum number of identified addresses, a power of two. If there are more clients, some are
/// looked up repeatedly.
const PLACES: usize = 16_384;
/// Seconds for which an entry is valid. This is shorter than the time for which devices are
/// remembered. An address whose device has left is thus looked up again before its device is
/// forgotten.
pub const IDENTIFIED_SECS: u32 = 300;

/// The clients that a policy has to identify before it judges their queries.
#[derive(Clone, Debug, Default)]
pub struct Strangers {
    /// The networks whose hosts are identified by hardware address.
    pub links: Arc<[IpNet]>,
    /// Whether private addresses are identified by name.
    pub by_name: bool,
    /// The first version of the neighbour table for which the entries are valid.
    pub since: u32,
    /// The version of the neighbour table in force.
    pub version: u32,
}

impl Strangers {
    /// Reports whether clients are looked up at all.
    pub fn are_wanted(&self) -> bool {
        self.by_name || !self.links.is_empty()
    }

    /// Reports whether an address must be looked up. Loopback addresses are never looked up,
    /// because the look-up of names queries this server from them.
    pub fn include(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        !ip.is_loopback()
            && (self.by_name && Scope::Local.contains(ip)
                || self.links.iter().any(|network| network.contains(&ip)))
    }
}

/// The identified addresses.
#[derive(Default)]
pub struct Identified {
    /// The places for addresses, allocated with the first entry.
    places: OnceLock<Box<[AddressPlace]>>,
    writing: Mutex<()>,
}

/// A slot for an address as two halves, with the version and expiry of its entry. IPv4 addresses
/// are mapped to IPv6. The write count is odd while the slot is being written.
#[derive(Default)]
struct AddressPlace {
    count: AtomicU64,
    high: AtomicU64,
    low: AtomicU64,
    terms: AtomicU64,
}

/// The contents of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    bits: u128,
    version: u32,
    until_secs: u32,
}

impl Identified {
    /// Reports whether an address is identified for the versions in `strangers`. `now_secs` is
    /// monotonic. Compares at most two addresses.
    #[inline]
    pub fn holds(&self, ip: IpAddr, strangers: &Strangers, now_secs: u32) -> bool {
        let Some(places) = self.places.get() else { return false };
        let bits = bits_of(ip);
        places_of(bits).into_iter().filter_map(|at| places[at].read()).any(|entry| {
            entry.bits == bits
                && entry.until_secs > now_secs
                && (strangers.since..=strangers.version).contains(&entry.version)
        })
    }

    /// Records an address that is identified from this version of the neighbour table on.
    pub fn put(&self, ip: IpAddr, version: u32, now_secs: u32) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let places =
            self.places.get_or_init(|| (0..PLACES).map(|_| AddressPlace::default()).collect());
        let bits = bits_of(ip);
        let [first, second] = places_of(bits).map(|at| &places[at]);
        let until = |place: &AddressPlace| match place.read() {
            Some(entry) if entry.bits == bits => 0,
            Some(entry) => entry.until_secs,
            None => 1,
        };
        let place = if until(second) < until(first) { second } else { first };
        place.write(Entry { bits, version, until_secs: now_secs + IDENTIFIED_SECS });
    }

    /// Removes an address whose device is no longer known.
    pub fn remove(&self, ip: IpAddr) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(places) = self.places.get() else { return };
        let bits = bits_of(ip);
        for place in places_of(bits).map(|at| &places[at]) {
            if place.read().is_some_and(|entry| entry.bits == bits) {
                place.write(Entry { bits: 0, version: 0, until_secs: 0 });
            }
        }
    }
}

/// Returns the two places where an address may be stored.
fn places_of(bits: u128) -> [usize; 2] {
    let (high, low) = ((bits >> 64) as u64, bits as u64);
    let hash = (high ^ low.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let at = hash as usize >> (usize::BITS - PLACES.ilog2());
    [at, at ^ 1]
}

fn bits_of(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => Ipv6Addr::to_bits(ip.to_ipv6_mapped()),
        IpAddr::V6(ip) => ip.to_bits(),
    }
}

impl AddressPlace {
    #[inline]
    fn read(&self) -> Option<Entry> {
        let before = self.count.load(Ordering::Acquire);
        let (high, low) = (self.high.load(Ordering::Relaxed), self.low.load(Ordering::Relaxed));
        let terms = self.terms.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let is_whole =
            before & 1 == 0 && before > 0 && self.count.load(Ordering::Relaxed) == before;
        is_whole.then(|| Entry {
            bits: u128::from(high) << 64 | u128::from(low),
            version: (terms >> 32) as u32,
            until_secs: terms as u32,
        })
    }

    fn write(&self, entry: Entry) {
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.high.store((entry.bits >> 64) as u64, Ordering::Relaxed);
        self.low.store(entry.bits as u64, Ordering::Relaxed);
        let terms = u64::from(entry.version) << 32 | u64::from(entry.until_secs);
        self.terms.store(terms, Ordering::Relaxed);
        self.count.store(count.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strangers(since: u32, version: u32) -> Strangers {
        Strangers { since, version, ..Strangers::default() }
    }

    #[test]
    fn an_entry_holds_for_its_versions_and_its_time() {
        let (table, ip) = (Identified::default(), IpAddr::from([192, 0, 2, 7]));
        assert!(!table.holds(ip, &strangers(0, 9), 100), "nothing is known");
        table.put(ip, 5, 100);
        let holds = |since, version, now| table.holds(ip, &strangers(since, version), now);
        assert!(holds(0, 5, 100) && holds(5, 9, 99 + IDENTIFIED_SECS));
        assert!(!holds(0, 4, 100), "the worker's snapshot does not have the device");
        assert!(!holds(6, 9, 100), "the policy started over");
        assert!(!holds(0, 5, 100 + IDENTIFIED_SECS), "it is looked up again");
        assert!(table.holds("::ffff:192.0.2.7".parse().unwrap(), &strangers(0, 5), 100));
        table.remove(ip);
        assert!(!holds(0, 5, 100));
    }

    #[test]
    fn an_address_replaces_itself_and_else_the_oldest_of_its_places() {
        let table = Identified::default();
        let all = strangers(0, 9);
        let first = IpAddr::from([10, 0, 0, 1]);
        let shares =
            |ip: &IpAddr| places_of(bits_of(*ip))[0] / 2 == places_of(bits_of(first))[0] / 2;
        let mut others = (2_u32..).map(|at| IpAddr::from((0x0a00_0000 + at).to_be_bytes()));
        let (second, third) = (others.find(shares).unwrap(), others.find(shares).unwrap());
        table.put(first, 1, 100);
        table.put(second, 1, 101);
        table.put(first, 1, 102);
        assert!(table.holds(first, &all, 102) && table.holds(second, &all, 102));
        table.put(third, 1, 103);
        assert!(table.holds(first, &all, 103) && table.holds(third, &all, 103));
        assert!(!table.holds(second, &all, 103));
    }

    #[test]
    fn strangers_are_hosts_of_links_and_private_ones_if_names_count() {
        let links: Arc<[IpNet]> = Arc::new(["2001:db8::/64".parse().unwrap()]);
        let by_device = Strangers { links, ..Strangers::default() };
        let by_name = Strangers { by_name: true, ..Strangers::default() };
        let includes = |strangers: &Strangers, ip: &str| strangers.include(ip.parse().unwrap());
        assert!(by_device.are_wanted() && by_name.are_wanted());
        assert!(!Strangers::default().are_wanted());
        assert!(includes(&by_device, "2001:db8::7") && !includes(&by_device, "2001:db8:1::7"));
        assert!(!includes(&by_device, "10.0.0.1"));
        assert!(includes(&by_name, "10.0.0.1") && includes(&by_name, "::ffff:10.0.0.1"));
        assert!(!includes(&by_name, "127.0.0.1") && !includes(&by_name, "192.0.2.1"));
    }
}
