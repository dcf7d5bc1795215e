//! Slows down guesses of passwords, codes and tokens. Guesses are counted by the address of the
//! client, and by the user.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

/// Maximum number of entries. A new entry replaces the one with the oldest failure.
const MAX_ENTRIES: usize = 4096;
/// Number of seconds for which a failure is remembered.
const MEMORY_SECS: u64 = 3600;

/// The sources for which failed attempts are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum GuessSource {
    /// An IPv4 address or an IPv6 /64.
    Address(IpAddr),
    /// The address of a client that returns from a provider to a log-in that it has begun here.
    /// Failures do not block log-ins by password.
    Provider(IpAddr),
    /// The address of a client that sends the reply of a provider to a log-in that it has not begun
    /// here. A page of another site can make a browser send such replies, so failures block nothing
    /// else.
    Unbegun(IpAddr),
    /// The name of a user, whether or not it exists.
    User(String),
}

/// Whether the browser that returns from a log-in has also begun it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowKind {
    Begun,
    Unbegun,
}

impl GuessSource {
    /// Returns the source for a client.
    pub(crate) fn of_address(address: IpAddr) -> Self {
        Self::Address(network_of(address))
    }

    /// Returns the source for replies of a provider that a client sends.
    pub(crate) fn of_provider(address: IpAddr, kind: FlowKind) -> Self {
        match kind {
            FlowKind::Begun => Self::Provider(network_of(address)),
            FlowKind::Unbegun => Self::Unbegun(network_of(address)),
        }
    }

    /// Returns the number of failures without a delay, and the longest delay in seconds. The
    /// longest delay for a user is short, because others could lock the user out.
    const fn limits(&self) -> (u32, u64) {
        match self {
            Self::Address(_) | Self::Provider(_) | Self::Unbegun(_) => (5, 900),
            Self::User(_) => (10, 60),
        }
    }
}

/// Returns an IPv4 address, or the /64 of an IPv6 address, because a host may use any address of
/// its /64.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: u64,
}

/// The failures of the last hour.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    failures: HashMap<GuessSource, Failures>,
}

impl Throttle {
    /// Returns the seconds until the next attempt is permitted; 0 if it is permitted now.
    pub(crate) fn wait_secs(&self, sources: &[GuessSource], now: u64) -> u64 {
        let wait = |source: &GuessSource| {
            let Some(failures) = self.failures.get(source) else { return 0 };
            let (free, longest) = source.limits();
            let Some(beyond) = failures.count.checked_sub(free) else { return 0 };
            let delay = 1u64.checked_shl(beyond).unwrap_or(longest).min(longest);
            failures.last.saturating_add(delay).saturating_sub(now)
        };
        sources.iter().map(wait).max().unwrap_or(0)
    }

    /// Counts a failure.
    pub(crate) fn failed(&mut self, sources: &[GuessSource], now: u64) {
        self.failures.retain(|_, failures| now.saturating_sub(failures.last) < MEMORY_SECS);
        for source in sources {
            if self.failures.len() >= MAX_ENTRIES && !self.failures.contains_key(source) {
                let oldest = self.failures.iter().min_by_key(|(_, failures)| failures.last);
                if let Some(oldest) = oldest.map(|(source, _)| source.clone()) {
                    self.failures.remove(&oldest);
                }
            }
            let failures =
                self.failures.entry(source.clone()).or_insert(Failures { count: 0, last: now });
            failures.count = failures.count.saturating_add(1);
            failures.last = now;
        }
    }

    /// Forgets the failures after a success.
    pub(crate) fn succeeded(&mut self, sources: &[GuessSource]) {
        for source in sources {
            self.failures.remove(source);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_and_ends() {
        let source = [GuessSource::of_address("10.0.0.1".parse().unwrap())];
        let mut throttle = Throttle::default();
        let mut waits = Vec::new();
        for _ in 0..20 {
            throttle.failed(&source, 1000);
            waits.push(throttle.wait_secs(&source, 1000));
        }
        assert_eq!(waits[..8], [0, 0, 0, 0, 1, 2, 4, 8]);
        assert_eq!(waits[19], 900);
        assert_eq!(throttle.wait_secs(&source, 1900), 0);
        throttle.failed(&source, 1000 + MEMORY_SECS);
        assert_eq!(throttle.wait_secs(&source, 1000 + MEMORY_SECS), 0, "an hour has passed");
    }

    #[test]
    fn neighbours_in_a_v6_network_count_together() {
        let of = |text: &str| GuessSource::of_address(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    }

    #[test]
    fn memory_is_bounded() {
        let mut throttle = Throttle::default();
        for number in 0..10_000 {
            throttle.failed(&[GuessSource::User(number.to_string())], 1000 + number);
        }
        assert!(throttle.failures.len() <= MAX_ENTRIES);
        assert!(throttle.failures.contains_key(&GuessSource::User("9999".to_owned())));
    }
}
