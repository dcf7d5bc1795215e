//! All policy zones in their order, and which trigger of which one wins.

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;

use avocet_wire::{canonical, name};

use super::action::Action;
use super::names::{Row, Stand};
use super::table::Table;
use super::trigger::TriggerKind;
use super::zone::{Fired, NameTriggers, Zone};

/// Most policy zones: as many as others have, and as a set of them has bits.
pub const MAX_ZONES: usize = 64;

const _: () = assert!(MAX_ZONES == Stand::MAX_ZONES);

/// The zones in force for someone, by their places.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ZoneSet(u64);

impl ZoneSet {
    /// Every zone.
    pub const ALL: Self = Self(u64::MAX);

    /// Puts in the zone at this place; those past [`MAX_ZONES`] are in no set.
    pub fn insert(&mut self, zone: usize) {
        self.0 |= 1_u64.checked_shl(zone as u32).unwrap_or(0);
    }

    /// Takes out the zone at this place.
    pub fn remove(&mut self, zone: usize) {
        self.0 &= !1_u64.checked_shl(zone as u32).unwrap_or(0);
    }

    /// Is the zone in force?
    #[must_use]
    pub const fn contains(self, zone: usize) -> bool {
        zone < MAX_ZONES && self.0 >> zone & 1 == 1
    }

    /// Is no zone in force?
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A trigger that fired.
#[derive(Clone, Copy, Debug)]
pub struct Found<'z> {
    /// The place of its zone.
    pub zone: usize,
    /// What fired.
    pub kind: TriggerKind,
    /// What is to be done.
    pub action: &'z Action,
    /// The line in the zone's file.
    pub line: u32,
    /// The TTL of the trigger's first record, in seconds.
    pub ttl_secs: u32,
}

impl<'z> Found<'z> {
    const fn of((zone, kind): (usize, TriggerKind), fired: Fired<'z>) -> Self {
        let Fired { action, line, ttl_secs } = fired;
        Self { zone, kind, action, line, ttl_secs }
    }

    /// The one that decides of two for the same name: that of the earlier zone, then of the kind
    /// that goes first.
    #[must_use]
    pub fn best(one: Option<Self>, other: Option<Self>) -> Option<Self> {
        match (one, other) {
            (Some(one), Some(other)) if (other.zone, other.kind) < (one.zone, one.kind) => {
                Some(other)
            }
            (one, other) => one.or(other),
        }
    }
}

/// Policy zones in the order of their configuration.
#[derive(Default)]
pub struct Zones {
    zones: Vec<Zone>,
    qnames: Table,
    nsnames: Table,
}

impl Zones {
    /// These zones, all read with one key; none if there are more than [`MAX_ZONES`].
    #[must_use]
    pub fn of(mut zones: Vec<Zone>) -> Option<Self> {
        let names: Option<Vec<NameTriggers>> = zones.iter_mut().map(Zone::take_names).collect();
        let names = names.filter(|names| names.len() <= MAX_ZONES)?;
        let is_one_key = names.windows(2).all(|pair| pair[0].qnames.key == pair[1].qnames.key);
        let (qnames, nsnames) =
            names.into_iter().map(|names| (names.qnames, names.nsnames)).unzip();
        is_one_key.then(|| Self { zones, qnames: Table::of(qnames), nsnames: Table::of(nsnames) })
    }

    /// The zone at this place.
    #[must_use]
    pub fn zone(&self, place: usize) -> Option<&Zone> {
        self.zones.get(place)
    }

    /// Is there no zone?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// All zones in their order.
    pub fn all(&self) -> impl Iterator<Item = &Zone> {
        self.zones.iter()
    }

    /// Does any zone have a trigger of this kind? If not, what it asks for need not be found out.
    #[must_use]
    pub fn has(&self, kind: TriggerKind) -> bool {
        self.zones.iter().any(|zone| zone.has(kind))
    }

    /// Does any trigger send clients to TCP? Then what they get depends on how they ask.
    #[must_use]
    pub fn tells_transports(&self) -> bool {
        self.zones.iter().any(|zone| zone.acts(|action| *action == Action::TcpOnly))
    }

    /// The trigger for the address of a client.
    #[must_use]
    pub fn on_client(&self, in_force: ZoneSet, address: IpAddr) -> Option<Found<'_>> {
        self.on_addresses((in_force, TriggerKind::ClientAddress), || std::iter::once(address))
    }

    /// The trigger for a folded name: the qname, and then each name it is an alias of.
    #[must_use]
    pub fn on_qname(&self, in_force: ZoneSet, qname: &[u8]) -> Option<Found<'_>> {
        let (row, _) = self.qnames.find(in_force, qname)?;
        self.found(TriggerKind::Qname, &row)
    }

    /// The trigger for the addresses of an answer.
    pub fn on_answer_addresses<I: Iterator<Item = IpAddr>>(
        &self,
        in_force: ZoneSet,
        addresses: impl Fn() -> I,
    ) -> Option<Found<'_>> {
        self.on_addresses((in_force, TriggerKind::AnswerAddress), addresses)
    }

    /// The trigger for the folded names of servers. Of several in a zone, one for a name goes
    /// before wildcards, and of these the one of most labels (draft §5.3); then the one for the
    /// name that is the last in canonical order (draft §5.5, RFC 4034 §6.1).
    pub fn on_nsnames<'n, I: Iterator<Item = &'n [u8]>>(
        &self,
        in_force: ZoneSet,
        names: impl Fn() -> I,
    ) -> Option<Found<'_>> {
        let fired = names().filter_map(|name| Some((name, self.nsnames.find(in_force, name)?)));
        // The first zone in which the trigger for any name fires is that of all names which fire in
        // it.
        let (_, (row, _)) = fired.min_by(|(a, (row_a, of_a)), (b, (row_b, of_b))| {
            let by_zone = row_a.stand.zone().cmp(&row_b.stand.zone());
            by_zone.then_with(|| compare_servers((b, of_b), (a, of_a)))
        })?;
        self.found(TriggerKind::NsName, &row)
    }

    /// The trigger for the addresses of servers.
    pub fn on_nsaddresses<I: Iterator<Item = IpAddr>>(
        &self,
        in_force: ZoneSet,
        addresses: impl Fn() -> I,
    ) -> Option<Found<'_>> {
        self.on_addresses((in_force, TriggerKind::NsAddress), addresses)
    }

    /// Could no trigger of the kinds after `done` go before this one? Only then may an answer be
    /// given before what these ask for is known.
    #[must_use]
    pub fn is_settled(&self, in_force: ZoneSet, found: &Found<'_>, done: TriggerKind) -> bool {
        let later = TriggerKind::ALL.into_iter().filter(|kind| *kind > done);
        let mut rivals = later.flat_map(|kind| {
            let zones = if kind < found.kind { found.zone + 1 } else { found.zone };
            let zones = self.zones.iter().enumerate().take(zones);
            zones.filter(move |(place, zone)| in_force.contains(*place) && zone.has(kind))
        });
        rivals.next().is_none()
    }

    /// Of several prefixes in a zone, the longest wins, and of these the one with the smallest
    /// address.
    fn on_addresses<I: Iterator<Item = IpAddr>>(
        &self,
        (in_force, kind): (ZoneSet, TriggerKind),
        all: impl Fn() -> I,
    ) -> Option<Found<'_>> {
        let longest = |zone: &Zone| {
            let fired = all().filter_map(|address| zone.networks(kind).longest(address));
            let order = |(len, bits, _): &(u8, u128, u32)| (std::cmp::Reverse(*len), *bits);
            fired.min_by_key(order).map(|(_, _, number)| number)
        };
        let zones = self.zones.iter().enumerate().filter(|(place, _)| in_force.contains(*place));
        let mut found = zones.filter_map(|(place, zone)| {
            let fired = zone.fired_by_address(longest(zone)?)?;
            Some(Found::of((place, kind), fired))
        });
        found.next()
    }

    /// The trigger on a name that a row is.
    fn found(&self, kind: TriggerKind, row: &Row) -> Option<Found<'_>> {
        let zone = row.stand.zone();
        Some(Found::of((zone, kind), self.zones.get(zone)?.fired(row)?))
    }
}

impl fmt::Debug for Zones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.zones).finish()
    }
}

/// Which of two names of servers goes before the other, each with the owner of its trigger, the
/// asterisk taken away.
fn compare_servers((a, of_a): (&[u8], &[u8]), (b, of_b): (&[u8], &[u8])) -> Ordering {
    // The owner of a wildcard is above the name.
    let is_exact = |name: &[u8], owner: &[u8]| name.len() == owner.len();
    let labels = |owner| name::labels(owner).count();
    match (is_exact(a, of_a), is_exact(b, of_b)) {
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if labels(of_a) != labels(of_b) => labels(of_a).cmp(&labels(of_b)),
        _ => canonical::compare_names(a, b),
    }
}
