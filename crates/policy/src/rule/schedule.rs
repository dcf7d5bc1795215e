//! Conditions on the time of day and the day of the week, in the time zone of their rule.
//!
//! Between two offset changes of its zone, local time advances uniformly. A condition on local time
//! repeats every week, so it is stored as a set of the 10,080 minutes of a week. Its value may
//! change at the next minute with another value, or at the zone's next offset change, whichever is
//! first.

use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::fault::{Fault, Span};
use super::tree::NumberTest;
use crate::PolicyError;

/// Number of minutes in a week.
pub(super) const WEEK_MINUTES: usize = 7 * 24 * 60;
const DAY_MINUTES: u16 = 24 * 60;
const WEEK_SECS: i64 = WEEK_MINUTES as i64 * 60;
/// The weekday of 1970-01-01, a Thursday. Monday is 0.
const EPOCH_WEEKDAY: i64 = 3;

/// A condition on the time.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum TimeTest {
    /// The hour, from 0 to 23, meets a test.
    Hour(NumberTest),
    /// The minute, from 0 to 59, meets a test.
    Minute(NumberTest),
    /// The day is one of these weekdays. Monday is 0.
    Weekday(Vec<u8>),
    /// The day is Saturday or Sunday.
    Weekend,
    /// The time is from the first minute of the day (inclusive) to the second (exclusive). If the
    /// second is earlier, the period extends across midnight.
    Between(u16, u16),
}

impl TimeTest {
    /// Returns whether the condition holds in a minute of the week, counted from Monday 0:00.
    pub(super) fn holds(&self, minute_of_week: u16) -> bool {
        let weekday = (minute_of_week / DAY_MINUTES) as u8;
        let minute = minute_of_week % DAY_MINUTES;
        match self {
            Self::Hour(test) => test.holds(i64::from(minute / 60)),
            Self::Minute(test) => test.holds(i64::from(minute % 60)),
            Self::Weekday(days) => days.contains(&weekday),
            Self::Weekend => weekday >= 5,
            Self::Between(from, to) if from <= to => (*from..*to).contains(&minute),
            Self::Between(from, to) => minute >= *from || minute < *to,
        }
    }
}

/// A time zone that has a name in the built-in tz database.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTimeZone {
    zone: TimeZone,
}

impl NamedTimeZone {
    /// Returns the time zone with this name, such as `Europe/Berlin`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        TimeZoneDatabase::bundled().get(name).ok().map(|zone| Self { zone })
    }

    /// Returns the time zone with this name.
    ///
    /// # Errors
    /// There is no zone with this name. The message suggests a similar name.
    pub fn find(name: &str) -> Result<Self, PolicyError> {
        let unknown = || {
            let fault = Fault::at(Span::default(), String::new());
            let advice = fault.suggest(name, Self::names().iter().map(String::as_str)).advice;
            PolicyError::UnknownTimeZone { name: name.to_owned(), advice }
        };
        Self::named(name).ok_or_else(unknown)
    }

    /// Returns the names of all zones.
    pub fn names() -> Vec<String> {
        TimeZoneDatabase::bundled().available().map(|name| name.to_string()).collect()
    }

    /// Formats the time at `now`, in Unix seconds, as local time: date, time of day and offset.
    #[must_use]
    pub fn shown(&self, now: u64) -> String {
        timestamp(now).to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string()
    }

    /// Parses a local date and time of day, such as `2026-11-22 21:30`, to Unix seconds. Returns
    /// `None` if the text is malformed or before 1970. If the local time occurs twice, the first
    /// occurrence is used.
    #[must_use]
    pub fn read(&self, text: &str) -> Option<u64> {
        let time: jiff::civil::DateTime = text.trim().parse().ok()?;
        let at = self.zone.to_ambiguous_timestamp(time).compatible().ok()?;
        u64::try_from(at.as_second()).ok()
    }

    /// Returns two values for the Unix second `now`: the number of seconds since the local week
    /// began, and the Unix second of the zone's next offset change.
    fn local(&self, now: u64) -> (u32, u64) {
        let at = timestamp(now);
        let local = at.as_second() + i64::from(self.zone.to_offset(at).seconds());
        let second_of_week = (local + EPOCH_WEEKDAY * 24 * 3600).rem_euclid(WEEK_SECS) as u32;
        let change = self.zone.following(at).next().map(|change| change.timestamp().as_second());
        (second_of_week, change.and_then(|at| u64::try_from(at).ok()).unwrap_or(u64::MAX))
    }

    /// Returns the minute of the local week at `now`, in Unix seconds.
    pub(super) fn minute_of_week(&self, now: u64) -> u16 {
        (self.local(now).0 / 60) as u16
    }
}

/// Converts a Unix second to a timestamp. Later seconds than the calendar has become its end.
fn timestamp(now: u64) -> Timestamp {
    i64::try_from(now)
        .ok()
        .and_then(|now| Timestamp::from_second(now).ok())
        .unwrap_or(Timestamp::MAX)
}

/// A set of the minutes of a week.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Week {
    bits: Box<[u64]>,
}

impl Week {
    pub(super) fn of(holds: impl Fn(u16) -> bool) -> Self {
        let mut bits = vec![0u64; WEEK_MINUTES.div_ceil(64)].into_boxed_slice();
        for minute in (0..WEEK_MINUTES).filter(|minute| holds(*minute as u16)) {
            bits[minute / 64] |= 1 << (minute % 64);
        }
        Self { bits }
    }

    pub(super) fn holds(&self, minute: usize) -> bool {
        self.bits[minute / 64] >> (minute % 64) & 1 != 0
    }

    /// Returns the value that all minutes have; `None` if the values differ.
    pub(super) fn constant(&self) -> Option<bool> {
        let first = self.holds(0);
        (1..WEEK_MINUTES).all(|minute| self.holds(minute) == first).then_some(first)
    }

    /// Returns the minutes with another value than the minute before, in ascending order.
    fn edges(&self) -> Box<[u16]> {
        let differs = |minute: &usize| {
            self.holds(*minute) != self.holds((minute + WEEK_MINUTES - 1) % WEEK_MINUTES)
        };
        (0..WEEK_MINUTES).filter(differs).map(|minute| minute as u16).collect()
    }
}

/// A compiled condition on the time.
pub(super) struct Window {
    pub(super) zone: NamedTimeZone,
    pub(super) week: Week,
    edges: Box<[u16]>,
}

impl Window {
    pub(super) fn new(zone: NamedTimeZone, week: Week) -> Self {
        let edges = week.edges();
        Self { zone, week, edges }
    }

    /// Returns whether the condition holds at `now`, and until when this value is certain. Both
    /// times are Unix seconds.
    pub(super) fn at(&self, now: u64) -> (bool, u64) {
        let (second, change) = self.zone.local(now);
        let minute = second as usize / 60;
        let next = self.edges.partition_point(|edge| usize::from(*edge) <= minute);
        // After the last change of this week, the next change is the first one of the next week.
        let edge = match (self.edges.get(next), self.edges.first()) {
            (Some(edge), _) => u64::from(*edge) * 60,
            (None, Some(edge)) => u64::from(*edge) * 60 + WEEK_SECS as u64,
            (None, None) => return (self.week.holds(minute), change),
        };
        (self.week.holds(minute), (now.saturating_add(edge - u64::from(second))).min(change))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(text: &str) -> u64 {
        text.parse::<Timestamp>().unwrap().as_second() as u64
    }

    fn window(zone: &str, test: TimeTest) -> Window {
        Window::new(NamedTimeZone::named(zone).unwrap(), Week::of(|minute| test.holds(minute)))
    }

    #[track_caller]
    fn check(window: &Window, now: &str, holds: bool, until: &str) {
        assert_eq!(window.at(seconds(now)), (holds, seconds(until)), "at {now}");
    }

    #[test]
    fn a_time_is_shown_as_the_clocks_of_its_zone_do() {
        assert_eq!(
            NamedTimeZone::named("Europe/Berlin").unwrap().shown(1_782_900_000),
            "2026-07-01 12:00:00 +02:00"
        );
        assert_eq!(NamedTimeZone::named("UTC").unwrap().shown(0), "1970-01-01 00:00:00 +00:00");
    }

    #[test]
    fn a_window_across_midnight_holds_on_both_sides() {
        let night = window("Europe/Berlin", TimeTest::Between(21 * 60, 7 * 60));
        check(&night, "2026-11-21T20:00:00+01:00", false, "2026-11-21T21:00:00+01:00");
        check(&night, "2026-11-21T21:00:00+01:00", true, "2026-11-22T07:00:00+01:00");
        check(&night, "2026-11-22T03:12:59+01:00", true, "2026-11-22T07:00:00+01:00");
        check(&night, "2026-11-22T07:00:00+01:00", false, "2026-11-22T21:00:00+01:00");
    }

    #[test]
    fn the_weekend_ends_on_sunday_at_midnight() {
        let weekend = window("America/New_York", TimeTest::Weekend);
        check(&weekend, "2026-11-20T23:59:59-05:00", false, "2026-11-21T00:00:00-05:00");
        check(&weekend, "2026-11-22T12:00:00-05:00", true, "2026-11-23T00:00:00-05:00");
        let days = window("UTC", TimeTest::Weekday(vec![0, 6]));
        check(&days, "2026-11-22T12:00:00Z", true, "2026-11-24T00:00:00Z");
    }

    #[test]
    fn a_change_of_offset_is_a_boundary() {
        // Clocks go from 2:00 to 3:00: the window that begins at 2:30 begins at 3:00.
        let early = window("Europe/Berlin", TimeTest::Between(150, 240));
        check(&early, "2026-03-29T01:59:00+01:00", false, "2026-03-29T03:00:00+02:00");
        check(&early, "2026-03-29T03:00:00+02:00", true, "2026-03-29T04:00:00+02:00");
        // Clocks go back from 3:00 to 2:00: a window that ends at 2:30 ends twice.
        let late = window("Europe/Berlin", TimeTest::Between(60, 150));
        check(&late, "2026-10-25T02:29:00+02:00", true, "2026-10-25T02:30:00+02:00");
        check(&late, "2026-10-25T02:45:00+02:00", false, "2026-10-25T02:00:00+01:00");
        check(&late, "2026-10-25T02:00:00+01:00", true, "2026-10-25T02:30:00+01:00");
    }

    #[test]
    fn zones_are_built_in() {
        assert!(
            NamedTimeZone::named("Pacific/Auckland").is_some()
                && NamedTimeZone::named("UTC").is_some()
        );
        assert!(NamedTimeZone::named("Europe/Atlantis").is_none());
        assert!(NamedTimeZone::names().iter().any(|name| name == "Asia/Kathmandu"));
    }
}
