//! The times of the first and the latest query of each client, in limited memory. Retention of
//! entries does not change these times. Old clients are forgotten, and times from a wrong clock are
//! repaired, only while the clock is trusted. With a wrong clock, all clients could seem old.

use std::collections::HashMap;

use crate::batch::Batch;
use crate::column::{Int, Text};
use crate::entry::Outcome;
use crate::search::{Condition, Filter, LogEntry};

/// Maximum number of clients. A device with temporary addresses (RFC 8981) counts as a few clients
/// each day.
pub(super) const MAX_SIGHTINGS: usize = 4096;
/// Number of clients that are kept when others must be removed.
const KEPT_CLIENTS: usize = MAX_SIGHTINGS / 4 * 3;

/// The start of 2025 in microseconds since the epoch. The server did not exist then, so an earlier
/// time comes from a clock that was not set yet.
const EARLIEST_US: u64 = 1_735_689_600_000_000;
/// Microseconds after its latest query at which a client is forgotten: 366 days. Counts of days are
/// kept for the same time.
const KEPT_US: u64 = 366 * 86_400_000_000;

/// A client, with the times of its first and latest queries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenClient {
    /// The client as the log shows it: an address, a network or a pseudonym.
    pub client: String,
    /// The name of the client's device at the latest query, or an empty text.
    pub name: String,
    /// The time of the first query, in microseconds since the epoch.
    pub first_us: u64,
    /// The time of the latest query, in microseconds since the epoch.
    pub last_us: u64,
}

/// The times of the first and the latest query of a client, and the name of its device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sighting {
    pub(super) name: Box<str>,
    pub(super) first_us: u64,
    pub(super) last_us: u64,
}

/// The times and names of all clients.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Sightings {
    pub(super) clients: HashMap<Box<str>, Sighting>,
}

/// Returns whether a query with this outcome shows that its sender is a client. Queries that were
/// refused or dropped, or are malformed, may come from any address.
fn is_of_client(outcome: &str) -> bool {
    let none = [Outcome::Refused, Outcome::Dropped, Outcome::Malformed];
    Outcome::named(outcome).is_none_or(|outcome| !none.contains(&outcome))
}

impl Sightings {
    /// Adds the clients of a batch.
    pub(super) fn add(&mut self, batch: &Batch) {
        // For each client, by the index of its text: the index of its name, and the times of its
        // first and last query.
        let mut spans: Vec<Option<(u32, u64, u64)>> = vec![None; batch.texts.len()];
        for row in &batch.rows {
            if !is_of_client(batch.texts.get(row.texts[Text::Outcome as usize])) {
                continue;
            }
            let time_us = row.ints[Int::Time as usize].max(0) as u64;
            let name = row.texts[Text::Device as usize];
            let span = &mut spans[row.texts[Text::Client as usize] as usize];
            *span = Some(match *span {
                None => (name, time_us, time_us),
                // The rows are sorted by time, so the last name is the latest.
                Some((_, first, last)) => (name, first.min(time_us), last.max(time_us)),
            });
        }
        // Number zero is the empty text. Entries with this number do not show their client.
        for (number, span) in spans.into_iter().enumerate().skip(1) {
            let Some((name, first_us, last_us)) = span else { continue };
            let name = batch.texts.get(name).into();
            let sighting = Sighting { name, first_us, last_us };
            self.add_plausible(batch.texts.get(number as u32), sighting);
        }
    }

    /// Adds the client of an entry that was read from the log.
    pub(super) fn add_entry(&mut self, entry: &LogEntry, time_us: u64) {
        let client = entry.text(Text::Client);
        if !client.is_empty() && is_of_client(entry.text(Text::Outcome)) {
            let name = entry.text(Text::Device).into();
            self.add_plausible(client, Sighting { name, first_us: time_us, last_us: time_us });
        }
    }

    /// Adds a client, unless the clock was not set yet when the client sent its latest query. In
    /// that case, neither of its times is known.
    fn add_plausible(&mut self, client: &str, mut seen: Sighting) {
        if seen.last_us < EARLIEST_US {
            return;
        }
        if seen.first_us < EARLIEST_US {
            seen.first_us = seen.last_us;
        }
        self.add_one(client, seen);
    }

    /// Returns whether [`tidy`](Self::tidy) would not change anything.
    pub(super) fn is_tidy(&self, now_us: u64) -> bool {
        let oldest_us = oldest(now_us);
        !self.is_plausible(now_us)
            || self.clients.values().all(|one| {
                (EARLIEST_US..=one.last_us).contains(&one.first_us)
                    && (oldest_us..=now_us).contains(&one.last_us)
            })
    }

    /// Forgets the clients that sent no query for a long time, and repairs times that a wrong clock
    /// caused. A time in the future becomes the present time, because the true time cannot be
    /// later. If the first time is before the server existed, it becomes the latest time. Nothing
    /// changes if the clock is implausible.
    pub(super) fn tidy(&mut self, now_us: u64) {
        if self.is_tidy(now_us) {
            return;
        }
        let oldest_us = oldest(now_us);
        self.clients.retain(|_, one| {
            one.last_us = one.last_us.min(now_us);
            if !(EARLIEST_US..=one.last_us).contains(&one.first_us) {
                one.first_us = one.last_us;
            }
            one.last_us >= oldest_us
        });
    }

    /// Returns whether the clock is plausible enough to repair times. It must be set, and at most
    /// half of the clients may have later times. If more clients have later times, the clock is
    /// probably slow.
    fn is_plausible(&self, now_us: u64) -> bool {
        let ahead = self.clients.values().filter(|one| one.last_us > now_us).count();
        now_us >= EARLIEST_US && ahead <= self.clients.len() / 2
    }

    fn add_one(&mut self, client: &str, seen: Sighting) {
        if let Some(known) = self.clients.get_mut(client) {
            if seen.last_us >= known.last_us {
                known.name = seen.name;
            }
            known.first_us = known.first_us.min(seen.first_us);
            known.last_us = known.last_us.max(seen.last_us);
            return;
        }
        if self.clients.len() >= MAX_SIGHTINGS {
            self.make_room();
        }
        self.clients.insert(client.into(), seen);
    }

    /// Forgets the clients that were not seen for the longest time. Clients without a name are
    /// forgotten first, because any device of the network can use many addresses.
    fn make_room(&mut self) {
        let ranks = self.clients.iter().map(|(client, one)| {
            let is_named = !one.name.is_empty();
            (is_named, one.last_us, client.clone())
        });
        let mut ranks: Vec<(bool, u64, Box<str>)> = ranks.collect();
        ranks.sort_unstable();
        for (.., client) in &ranks[..ranks.len() - KEPT_CLIENTS] {
            self.clients.remove(client);
        }
    }

    /// Adapts the times of clients to deleted entries, as far as possible. A client is forgotten if
    /// all its queries were deleted. A deleted time is replaced with the nearest time that was not
    /// deleted.
    pub(super) fn forget(&mut self, deleted: &Filter) {
        let range = &deleted.time_us;
        self.clients.retain(|client, one| {
            let is_named = match deleted.conditions.as_slice() {
                [Condition::Is(Text::Device, names)] => {
                    names.iter().any(|name| **name == *one.name)
                }
                _ => false,
            };
            let is_meant = is_named || deleted.implies(Text::Client, client);
            if !deleted.conditions.is_empty() && !is_meant {
                return true;
            }
            if range.contains(&one.first_us) {
                one.first_us = range.end;
            }
            if range.contains(&one.last_us) {
                one.last_us = range.start.saturating_sub(1);
            }
            one.first_us <= one.last_us
        });
    }

    /// Returns all clients. The client that was seen last comes first.
    pub(super) fn list(&self) -> Vec<SeenClient> {
        let clients = self.clients.iter().map(|(client, one)| SeenClient {
            client: client.to_string(),
            name: one.name.to_string(),
            first_us: one.first_us,
            last_us: one.last_us,
        });
        let mut all: Vec<SeenClient> = clients.collect();
        all.sort_unstable_by(|a, b| b.last_us.cmp(&a.last_us).then(a.client.cmp(&b.client)));
        all
    }
}

/// Returns the time at which a client must have sent its latest query in order to be kept.
fn oldest(now_us: u64) -> u64 {
    now_us.saturating_sub(KEPT_US).max(EARLIEST_US)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sighting(name: &str, first_us: u64, last_us: u64) -> Sighting {
        Sighting { name: name.into(), first_us, last_us }
    }

    fn all(seen: &Sightings) -> Vec<(String, String, u64, u64)> {
        let list = seen.list().into_iter();
        list.map(|one| (one.client, one.name, one.first_us, one.last_us)).collect()
    }

    #[test]
    fn a_flood_of_addresses_displaces_other_addresses_and_no_device_with_a_name() {
        let mut seen = Sightings::default();
        seen.add_one("192.0.2.1", sighting("tablet", 1, 2));
        for number in 0..3 * MAX_SIGHTINGS as u64 {
            seen.add_one(&format!("2001:db8::{number:x}"), sighting("", 10 + number, 10 + number));
            assert!(seen.clients.len() <= MAX_SIGHTINGS);
        }
        let list = all(&seen);
        assert_eq!(list.last().unwrap(), &("192.0.2.1".into(), "tablet".into(), 1, 2));
        assert_eq!(list[0].2, 9 + 3 * MAX_SIGHTINGS as u64);
        assert!(list.len() >= KEPT_CLIENTS);
    }

    #[test]
    fn a_client_has_the_name_of_its_latest_query() {
        let mut seen = Sightings::default();
        for (name, at, expected) in
            [("", 5, ""), ("tablet", 6, "tablet"), ("phone", 4, "tablet"), ("", 7, "")]
        {
            seen.add_one("192.0.2.1", sighting(name, at, at));
            assert_eq!(seen.list()[0].name, expected);
        }
        assert_eq!(all(&seen), [("192.0.2.1".into(), String::new(), 4, 7)]);
    }

    #[test]
    fn times_before_the_clock_was_set_do_not_count() {
        let (mut seen, at) = (Sightings::default(), EARLIEST_US + 7);
        seen.add_plausible("a", sighting("", 1, 2));
        assert!(seen.clients.is_empty());
        seen.add_plausible("a", sighting("", 1, at));
        seen.add_plausible("a", sighting("", 5, 6));
        assert_eq!(all(&seen), [("a".into(), String::new(), at, at)]);
    }

    #[test]
    fn a_trusted_clock_forgets_what_is_old_and_repairs_what_a_wrong_one_left() {
        let now = EARLIEST_US + 3 * KEPT_US;
        let future = now + 200 * 86_400_000_000;
        let mut seen = Sightings::default();
        for (client, first_us, last_us) in [
            ("gone", now - 2 * KEPT_US, now - KEPT_US - 1),
            ("rare", now - 2 * KEPT_US, now - KEPT_US),
            ("ahead", now - 5, future),
            ("unknown", future, future + 1),
            ("early", 3, now - 9),
            ("never", 3, 4),
            ("good", now - 5, now),
        ] {
            seen.add_one(client, sighting("", first_us, last_us));
        }
        assert!(!seen.is_tidy(now));
        seen.tidy(now);
        assert!(seen.is_tidy(now));
        let expected = [
            ("ahead", now - 5, now),
            ("good", now - 5, now),
            ("unknown", now, now),
            ("early", now - 9, now - 9),
            ("rare", now - 2 * KEPT_US, now - KEPT_US),
        ];
        let expected =
            expected.map(|(client, first, last)| (client.into(), String::new(), first, last));
        assert_eq!(all(&seen), expected);
        // The time of the next query becomes the latest time again.
        seen.add_plausible("ahead", sighting("", now + 7, now + 7));
        assert_eq!(seen.list()[0].last_us, now + 7);
        // If the clock is not set, nothing changes.
        let before = all(&seen);
        seen.tidy(EARLIEST_US - 1);
        assert_eq!(all(&seen), before);
    }

    #[test]
    fn a_clock_that_is_behind_most_clients_changes_nothing() {
        let behind = EARLIEST_US + 2 * KEPT_US;
        let now = behind + 100 * 86_400_000_000;
        let mut seen = Sightings::default();
        for number in 0..5 {
            seen.add_one(&format!("{number}"), sighting("", now - 9, now - number));
        }
        // These clients came while the clock was slow. One client is old even according to the slow
        // clock.
        seen.add_one("recent", sighting("", behind - 9, behind - 8));
        seen.add_one("gone", sighting("", EARLIEST_US, EARLIEST_US + 1));
        let before = all(&seen);
        assert!(seen.is_tidy(behind));
        seen.tidy(behind);
        assert_eq!(all(&seen), before);
        // When the clock is set, the times of the clients are correct.
        seen.tidy(now);
        assert_eq!(all(&seen), before[..6]);
        // If only half of the clients have later times, the clock is trusted, and the times change.
        let mut half = Sightings::default();
        half.add_one("a", sighting("", now - 1, now));
        half.add_one("b", sighting("", now - 1, now + 5));
        half.tidy(now);
        assert_eq!(half.clients["b"].last_us, now);
    }

    #[test]
    fn equal_times_make_room_too() {
        let mut seen = Sightings::default();
        for number in 0..2 * MAX_SIGHTINGS {
            let name = if number < 50 { "tablet" } else { "" };
            seen.add_one(&format!("{number}"), sighting(name, 5, 5));
        }
        assert!(seen.clients.len() <= MAX_SIGHTINGS);
        let named = seen.clients.values().filter(|one| !one.name.is_empty());
        assert_eq!(named.count(), 50);
    }

    #[test]
    fn what_is_deleted_is_forgotten() {
        let mut seen = Sightings::default();
        seen.add_one("a", sighting("", 10, 19));
        seen.add_one("b", sighting("", 10, 40));
        seen.add_one("c", sighting("", 5, 15));
        let filter =
            |time_us, conditions: &[Condition]| Filter { time_us, conditions: conditions.to_vec() };
        let a_name = Condition::Is(Text::Qname, vec!["x.".to_owned()]);
        seen.forget(&filter(0..100, &[a_name]));
        assert_eq!(seen.clients.len(), 3);
        seen.forget(&filter(10..20, &[]));
        let (none, kept) = (String::new(), |at: &str| at.to_owned());
        assert_eq!(
            all(&seen),
            [(kept("b"), none.clone(), 20, 40), (kept("c"), none.clone(), 5, 9)]
        );
        let a_client = Condition::Is(Text::Client, vec!["b".to_owned()]);
        seen.forget(&filter(0..100, &[a_client]));
        assert_eq!(all(&seen), [(kept("c"), none, 5, 9)]);
        seen.add_one("d", sighting("tablet", 5, 9));
        seen.forget(&filter(0..100, &[Condition::Is(Text::Device, vec!["tablet".to_owned()])]));
        assert_eq!(seen.clients.len(), 1);
    }
}
