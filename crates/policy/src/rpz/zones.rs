//! All policy zones in order, and the selection of the trigger that decides.

use std::cmp::Ordering;
use std::fmt;
use std::net::IpAddr;

use avocet_wire::{canonical, name};

use super::action::Action;
use super::names::{Row, Stand};
use super::table::Table;
use super::trigger::TriggerKind;
use super::zone::{Fired, NameTriggers, Zone};

/// Maximum number of policy zones, which is the number of bits of a [`ZoneSet`].
pub const MAX_POLICY_ZONES: usize = 64;

const _: () = assert!(MAX_POLICY_ZONES == Stand::MAX_ZONES);

/// A set of zones, such as those in force for a client, by index.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ZoneSet(u64);

impl ZoneSet {
    /// The set of all zones.
    pub const ALL: Self = Self(u64::MAX);

    /// Adds the zone with this index. Indices from [`MAX_POLICY_ZONES`] on are ignored.
    pub fn insert(&mut self, zone: usize) {
        self.0 |= 1_u64.checked_shl(zone as u32).unwrap_or(0);
    }

    /// Removes the zone with this index.
    pub fn remove(&mut self, zone: usize) {
        self.0 &= !1_u64.checked_shl(zone as u32).unwrap_or(0);
    }

    /// Reports whether the zone is in force.
    #[must_use]
    pub const fn contains(self, zone: usize) -> bool {
        zone < MAX_POLICY_ZONES && self.0 >> zone & 1 == 1
    }

    /// Reports whether no zone is in force.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A trigger that fired, with its zone and action.
#[derive(Clone, Copy, Debug)]
pub struct Found<'z> {
    /// The index of the zone of the trigger.
    pub zone: usize,
    /// The kind of the trigger.
    pub kind: TriggerKind,
    /// The action to take.
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

    /// Of two triggers for the same name, returns the trigger that decides: the trigger of the
    /// earlier zone or, in the same zone, the trigger whose kind has precedence.
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
    /// Combines zones that were read with the same hash key. Returns `None` if there are more than
    /// [`MAX_POLICY_ZONES`].
    #[must_use]
    pub fn of(mut zones: Vec<Zone>) -> Option<Self> {
        let names: Option<Vec<NameTriggers>> = zones.iter_mut().map(Zone::take_names).collect();
        let names = names.filter(|names| names.len() <= MAX_POLICY_ZONES)?;
        let is_one_key = names.windows(2).all(|pair| pair[0].qnames.key == pair[1].qnames.key);
        let (qnames, nsnames) =
            names.into_iter().map(|names| (names.qnames, names.nsnames)).unzip();
        is_one_key.then(|| Self { zones, qnames: Table::of(qnames), nsnames: Table::of(nsnames) })
    }

    /// Returns the zone with this index.
    #[must_use]
    pub fn zone(&self, place: usize) -> Option<&Zone> {
        self.zones.get(place)
    }

    /// Reports whether there are no zones.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// Returns all zones in order.
    pub fn all(&self) -> impl Iterator<Item = &Zone> {
        self.zones.iter()
    }

    /// Reports whether any zone has triggers of this kind. If none has, the property that such
    /// triggers test is not needed.
    #[must_use]
    pub fn has(&self, kind: TriggerKind) -> bool {
        self.zones.iter().any(|zone| zone.has(kind))
    }

    /// Reports whether any trigger sends clients to TCP, so that answers depend on the transport.
    #[must_use]
    pub fn tells_transports(&self) -> bool {
        self.zones.iter().any(|zone| zone.acts(|action| *action == Action::TcpOnly))
    }

    /// Returns the trigger that fires for the address of a client.
    #[must_use]
    pub fn on_client(&self, in_force: ZoneSet, address: IpAddr) -> Option<Found<'_>> {
        self.on_addresses((in_force, TriggerKind::ClientAddress), || std::iter::once(address))
    }

    /// Returns the trigger that fires for a folded name: the QNAME, or a target of its chain of
    /// aliases.
    #[must_use]
    pub fn on_qname(&self, in_force: ZoneSet, qname: &[u8]) -> Option<Found<'_>> {
        let (row, _) = self.qnames.find(in_force, qname)?;
        self.found(TriggerKind::Qname, &row)
    }

    /// Returns the trigger that fires for the addresses in an answer.
    pub fn on_answer_addresses<I: Iterator<Item = IpAddr>>(
        &self,
        in_force: ZoneSet,
        addresses: impl Fn() -> I,
    ) -> Option<Found<'_>> {
        self.on_addresses((in_force, TriggerKind::AnswerAddress), addresses)
    }

    /// Returns the trigger that fires for the folded names of servers. Of several triggers in a
    /// zone, an exact name takes precedence over wildcards, and a wildcard with more labels over a
    /// wildcard with fewer labels (draft §5.3). If they are equal, the name that is last in
    /// canonical order takes precedence (draft §5.5, RFC 4034 §6.1).
    pub fn on_nsnames<'n, I: Iterator<Item = &'n [u8]>>(
        &self,
        in_force: ZoneSet,
        names: impl Fn() -> I,
    ) -> Option<Found<'_>> {
        let fired = names().filter_map(|name| Some((name, self.nsnames.find(in_force, name)?)));
        // The first zone in which a trigger fires for any of the names decides for all of them.
        let (_, (row, _)) = fired.min_by(|(a, (row_a, of_a)), (b, (row_b, of_b))| {
            let by_zone = row_a.stand.zone().cmp(&row_b.stand.zone());
            by_zone.then_with(|| compare_servers((b, of_b), (a, of_a)))
        })?;
        self.found(TriggerKind::NsName, &row)
    }

    /// Returns the trigger that fires for the addresses of servers.
    pub fn on_nsaddresses<I: Iterator<Item = IpAddr>>(
        &self,
        in_force: ZoneSet,
        addresses: impl Fn() -> I,
    ) -> Option<Found<'_>> {
        self.on_addresses((in_force, TriggerKind::NsAddress), addresses)
    }

    /// Reports whether this trigger decides: no trigger of a kind after `done` could take
    /// precedence over it. Only then may a query be answered before the properties that later kinds
    /// test are known.
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

    /// Returns the trigger for a set of addresses: the trigger with the longest prefix in its zone
    /// and, among equally long prefixes, with the smallest address.
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

    /// Returns the trigger on a name that this row contains.
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

/// Compares two names of servers by precedence. Each name comes with the owner of its trigger,
/// without the asterisk.
fn compare_servers((a, of_a): (&[u8], &[u8]), (b, of_b): (&[u8], &[u8])) -> Ordering {
    // The owner of a wildcard trigger is shorter than the name.
    let is_exact = |name: &[u8], owner: &[u8]| name.len() == owner.len();
    let labels = |owner| name::labels(owner).count();
    match (is_exact(a, of_a), is_exact(b, of_b)) {
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if labels(of_a) != labels(of_b) => labels(of_a).cmp(&labels(of_b)),
        _ => canonical::compare_names(a, b),
    }
}
