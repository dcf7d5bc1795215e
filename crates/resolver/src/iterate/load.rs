//! The load that each zone and each client causes. A zone or client with too much load is limited,
//! so that it does not affect others (S28 in tests/SECURITY.md: floods of random names below one
//! zone). The places of a zone are shared: a client may take a place while it has fewer than four
//! times as many places as are free, so that one client leaves a fifth of them to others.
//!
//! Two counts are kept by zone: inquiries in flight, which are always limited, and inquiries begun
//! recently. The second count shows which zone uses most of a thread's time while the thread is
//! overloaded.

use std::collections::HashMap;
use std::net::IpAddr;

use avocet_wire::FoldedName;
use avocet_wire::hash::{DrawnHashKey, HashKey};

use super::rrset::Name;

/// Number of counted zones at which idle zones are removed. Zones with inquiries in flight remain;
/// their number is limited by the number of fetches.
const MAX_ZONES: usize = 4_096;
/// Number of slots for clients. Clients with the same hash share a slot.
const CLIENT_PLACES: usize = 4_096;
/// Half-life of recent counts, in ms.
const HALF_LIFE_MS: u64 = 500;
/// A client may begin an inquiry to a zone while it has fewer inquiries in flight to this zone than
/// this number times the free places.
const FREE_FACTOR: u64 = 4;
/// The divisor for the limit of a zone under overload. The limit is the number of recent inquiries
/// of all zones, divided by this number.
const ZONE_SHARE: u32 = 4;
/// The divisor for the limit of a network of clients under overload. The limit is the number of
/// recent questions of all clients, divided by this number.
const CLIENT_SHARE: u32 = 2;
/// Minimum number of recent inquiries or questions at which a zone or network is limited.
const FEW: u32 = 64;
/// Percentage of busy time from which a thread counts as overloaded.
const PRESSED_PERCENT: u32 = 90;

/// A count that decreases over time.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    count: u32,
    at_ms: u64,
}

impl Recent {
    fn at(self, now_ms: u64) -> u32 {
        let halvings = now_ms.saturating_sub(self.at_ms) / HALF_LIFE_MS;
        self.count.checked_shr(halvings.min(31) as u32).unwrap_or(0)
    }

    fn add(&mut self, now_ms: u64) {
        let count = self.at(now_ms).saturating_add(1);
        // The remaining part of a half-life is kept, so that the count decreases even if it is
        // increased often.
        let rest = now_ms.saturating_sub(self.at_ms) % HALF_LIFE_MS;
        *self = Self { count, at_ms: now_ms - rest.min(now_ms) };
    }
}

/// The slot of a client: an IPv4 address, or an IPv6 network of 64 bits. The resolver itself has a
/// slot, too, for inquiries that no client caused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClientPlace(u16);

impl ClientPlace {
    /// The slot of the resolver.
    pub(crate) const NOBODY: Self = Self(CLIENT_PLACES as u16);
}

#[derive(Debug, Default)]
struct ZoneLoad {
    under_way: u32,
    /// The inquiries in flight by client, without zeros.
    by_client: Vec<(ClientPlace, u32)>,
    recent: Recent,
}

impl ZoneLoad {
    /// Returns whether a client may begin an inquiry.
    fn has_room(&self, client: ClientPlace, limit: u32) -> bool {
        let own = self.by_client.iter().find(|(other, _)| *other == client);
        let free = u64::from(limit.saturating_sub(self.under_way));
        u64::from(own.map_or(0, |(_, count)| *count)) < free * FREE_FACTOR
    }

    fn enter(&mut self, client: ClientPlace) {
        self.under_way += 1;
        match self.by_client.iter_mut().find(|(other, _)| *other == client) {
            Some((_, count)) => *count += 1,
            None => self.by_client.push((client, 1)),
        }
    }

    fn leave(&mut self, client: ClientPlace) {
        self.under_way = self.under_way.saturating_sub(1);
        let Some(at) = self.by_client.iter().position(|(other, _)| *other == client) else {
            return;
        };
        self.by_client[at].1 -= 1;
        if self.by_client[at].1 == 0 {
            self.by_client.swap_remove(at);
        }
    }
}

/// The reason why a question is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Excess {
    /// The zone has reached its limit of inquiries in flight, or the client its share of them.
    UnderWay,
    /// The thread is overloaded, and this zone causes most of the load.
    Zone,
    /// The thread is overloaded, and the client's network causes most of the load.
    Client,
}

/// The load of zones and clients; see the module.
pub(crate) struct Loads {
    zones: HashMap<Name, ZoneLoad, DrawnHashKey>,
    /// The number of counted zones at which idle zones are removed next: twice the number that
    /// remained after the last removal.
    sweep_at: usize,
    clients: Box<[Recent]>,
    key: HashKey,
    all: Recent,
    busy_percent: u32,
}

impl Loads {
    /// Creates empty counts. `key` is the hash key that determines which clients share a slot.
    pub(crate) fn new(key: HashKey) -> Self {
        let clients = vec![Recent::default(); CLIENT_PLACES].into();
        let (zones, all) = (HashMap::default(), Recent::default());
        Self { zones, sweep_at: MAX_ZONES, clients, key, all, busy_percent: 0 }
    }

    /// Records the percentage of recent time for which the thread was busy.
    pub(crate) fn note_busy(&mut self, percent: u32) {
        self.busy_percent = percent;
    }

    /// Returns why a client's question for this name exceeds the share of its zone. This is checked
    /// before any work is done for the question. If the servers of a zone between the name and the
    /// counted zone are known, the question goes to those servers, and the counted zone does not
    /// limit it.
    pub(crate) fn excess_of_zone(
        &self,
        (qname, client): (FoldedName<'_>, ClientPlace),
        limit: u32,
        now_ms: u64,
        mut is_delegated: impl FnMut(FoldedName<'_>) -> bool,
    ) -> Option<Excess> {
        let (len, excess) = self.excess_above((qname, client), limit, now_ms)?;
        let between = qname.ancestors().take_while(|zone| zone.len() > len);
        { between }.all(|zone| !is_delegated(zone)).then_some(excess)
    }

    /// Returns whether the nearest counted zone above a name exceeds its limit, with the reason and
    /// the length of the zone's name in octets.
    fn excess_above(
        &self,
        (qname, client): (FoldedName<'_>, ClientPlace),
        limit: u32,
        now_ms: u64,
    ) -> Option<(usize, Excess)> {
        let (len, zone) =
            qname.ancestors().find_map(|zone| Some((zone.len(), self.zones.get(zone.wire())?)))?;
        if !zone.has_room(client, limit) {
            return Some((len, Excess::UnderWay));
        }
        let most = FEW.max(self.all.at(now_ms) / ZONE_SHARE);
        (self.is_pressed() && zone.recent.at(now_ms) > most).then_some((len, Excess::Zone))
    }

    /// Returns why a question of this client is rejected: its network exceeds its share, and there
    /// are other clients. Otherwise returns `None`.
    pub(crate) fn excess_of_client(&self, client: IpAddr, now_ms: u64) -> Option<Excess> {
        let (all, own) = (self.all.at(now_ms), self.clients[self.index(client)].at(now_ms));
        // If there are no other clients, this client cannot affect them.
        let is_alone = all.saturating_sub(own) < FEW;
        (self.is_pressed() && !is_alone && own > FEW.max(all / CLIENT_SHARE))
            .then_some(Excess::Client)
    }

    fn is_pressed(&self) -> bool {
        self.busy_percent >= PRESSED_PERCENT
    }

    /// Counts a question of this client.
    pub(crate) fn count_client(&mut self, client: IpAddr, now_ms: u64) {
        let place = self.index(client);
        self.clients[place].add(now_ms);
    }

    /// Counts the start of an inquiry to the servers of a zone. Returns `false` if the zone has
    /// reached the limit, or the client its share; `None` for no limit.
    pub(crate) fn enter(
        &mut self,
        zone: &Name,
        client: ClientPlace,
        limit: Option<u32>,
        now_ms: u64,
    ) -> bool {
        if self.zones.len() >= self.sweep_at && !self.zones.contains_key(zone) {
            self.zones.retain(|_, zone| zone.under_way > 0 || zone.recent.at(now_ms) > FEW);
            self.sweep_at = MAX_ZONES.max(2 * self.zones.len());
        }
        let entry = self.zones.entry(zone.clone()).or_default();
        if limit.is_some_and(|limit| !entry.has_room(client, limit)) {
            return false;
        }
        entry.enter(client);
        entry.recent.add(now_ms);
        self.all.add(now_ms);
        true
    }

    /// Counts the end of an inquiry that this client began.
    pub(crate) fn leave(&mut self, zone: &Name, client: ClientPlace) {
        if let Some(entry) = self.zones.get_mut(zone) {
            entry.leave(client);
        }
    }

    /// Returns the number of inquiries in flight to the servers of a zone.
    #[cfg(test)]
    fn under_way(&self, zone: FoldedName<'_>) -> u32 {
        self.zones.get(zone.wire()).map_or(0, |zone| zone.under_way)
    }

    /// Returns the slot of a client; `None` for the resolver itself.
    pub(crate) fn place(&self, client: Option<IpAddr>) -> ClientPlace {
        client.map_or(ClientPlace::NOBODY, |client| ClientPlace(self.index(client) as u16))
    }

    /// Returns the index of a client: the same for all addresses of a 64-bit IPv6 network.
    fn index(&self, client: IpAddr) -> usize {
        let hash = match client.to_canonical() {
            IpAddr::V4(ip) => self.key.hash(&ip.octets(), 4),
            IpAddr::V6(ip) => self.key.hash(&ip.octets()[..8], 6),
        };
        hash as usize % CLIENT_PLACES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iterate::rrset::name_of;

    const ZONE: &[u8] = b"\x06victim\x00";
    const NAME: &[u8] = b"\x01x\x06victim\x00";

    fn loads() -> Loads {
        Loads::new(HashKey::new(std::array::from_fn(|at| at as u8 * 3 + 1)))
    }

    fn excess(loads: &Loads, qname: &[u8], limit: u32, now_ms: u64) -> Option<Excess> {
        excess_for(loads, (qname, 0), limit, now_ms)
    }

    fn excess_for(
        loads: &Loads,
        (qname, client): (&[u8], u16),
        limit: u32,
        now_ms: u64,
    ) -> Option<Excess> {
        let asked = (FoldedName::new(qname).unwrap(), ClientPlace(client));
        loads.excess_of_zone(asked, limit, now_ms, |_| false)
    }

    #[test]
    fn a_zone_has_so_many_inquiries_under_way_and_no_more() {
        let mut loads = loads();
        let zone: Name = name_of(ZONE);
        let enter =
            |loads: &mut Loads, client| loads.enter(&zone, ClientPlace(client), Some(20), 1_000);
        let entered = (0..30).filter(|&client| enter(&mut loads, client)).count();
        assert_eq!((entered, loads.under_way(FoldedName::new(ZONE).unwrap())), (20, 20));
        assert_eq!(excess(&loads, NAME, 20, 1_000), Some(Excess::UnderWay));
        assert_eq!(excess_for(&loads, (NAME, 100), 20, 1_000), Some(Excess::UnderWay));
        assert_eq!(excess(&loads, b"\x01x\x05other\x00", 20, 1_000), None);
        loads.leave(&zone, ClientPlace(0));
        assert_eq!(excess(&loads, NAME, 20, 1_000), None);
    }

    #[test]
    fn a_client_leaves_places_of_a_zone_to_others() {
        let mut loads = loads();
        let zone: Name = name_of(ZONE);
        let (one, other) = (ClientPlace(1), ClientPlace(2));
        let begun = |loads: &mut Loads, client| {
            (0..30).filter(|_| loads.enter(&zone, client, Some(20), 1_000)).count()
        };
        assert_eq!(begun(&mut loads, one), 16);
        assert_eq!(excess_for(&loads, (NAME, 1), 20, 1_000), Some(Excess::UnderWay));
        assert_eq!(excess_for(&loads, (NAME, 2), 20, 1_000), None);
        assert_eq!(begun(&mut loads, other), 4, "it may take what is free");
        (0..16).for_each(|_| loads.leave(&zone, one));
        assert_eq!(begun(&mut loads, other), 12, "both counts are the client's");
        (0..16).for_each(|_| loads.leave(&zone, other));
        assert!(loads.zones[ZONE].by_client.is_empty());
        assert!((0..100).all(|_| loads.enter(&zone, one, None, 1_000)), "no limit");
    }

    #[test]
    fn without_time_to_spare_who_takes_most_is_turned_away() {
        let mut loads = loads();
        for number in 0..1_000u64 {
            let zone: Name = if number % 2 == 0 {
                name_of(ZONE)
            } else {
                name_of(&[1, 100 + (number % 100) as u8, 0])
            };
            assert!(loads.enter(&zone, ClientPlace(1), None, number / 10));
            loads.count_client(
                IpAddr::from([192, 0, 2, if number % 4 == 0 { 2 } else { 1 }]),
                number / 10,
            );
        }
        let client = |last: u8| IpAddr::from([192, 0, 2, last]);
        assert_eq!(excess(&loads, NAME, 1_000, 100), None, "there is time");
        loads.note_busy(95);
        assert_eq!(excess(&loads, NAME, 1_000, 100), Some(Excess::Zone));
        assert_eq!(excess(&loads, b"\x01x\x05other\x00", 1_000, 100), None);
        assert_eq!(loads.excess_of_client(client(1), 100), Some(Excess::Client));
        assert_eq!(loads.excess_of_client(client(2), 100), None);
        assert_eq!(excess(&loads, NAME, 1_000, 60_000), None, "what was is forgotten");
    }

    #[test]
    fn zones_at_rest_make_room() {
        let mut loads = loads();
        for number in 0..3 * MAX_ZONES as u32 {
            let label = format!("{number:06}");
            let zone = name_of(&[&[6], label.as_bytes(), &[0]].concat());
            assert!(loads.enter(&zone, ClientPlace(1), Some(1), u64::from(number)));
            loads.leave(&zone, ClientPlace(1));
        }
        assert!(loads.zones.len() <= MAX_ZONES);
    }
}
