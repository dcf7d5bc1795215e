//! Token buckets for rate limits. A limit has a sustained rate in queries per second, and a maximum
//! burst.
//!
//! A bucket stores the time at which it would be full again (the generic cell rate algorithm): one
//! number, so that a token is taken by one atomic exchange. The table has a fixed size. If it is
//! full, the bucket that will be full first is replaced. Dropping a full bucket changes nothing;
//! dropping a bucket that is not full is counted.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use avocet_wire::hash::HashKey;

use super::action::{LimitKey, RateLimit};
use super::rules::RuleId;
use crate::client::canonical;

/// Number of buckets that each place of the table holds.
const WAYS: usize = 8;
/// Number of places in the table: 65,536 buckets of 16 octets, one megabyte.
const PLACES: usize = 8_192;
const NANOS: u64 = 1_000_000_000;

/// Whether a query is within its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// The token bucket had a token, which this query took.
    Within,
    /// The token bucket was empty: react as [`RateLimit::over`] specifies.
    Over,
}

struct Bucket {
    /// A keyed hash that identifies the bucket; zero if the slot is empty.
    key: AtomicU64,
    /// The time at which the bucket is full again, in nanoseconds.
    full_at: AtomicU64,
}

/// The buckets of all rate limits, shared by all threads.
///
/// Two simultaneous queries may both take the last token. The error is at most one query per
/// thread.
pub struct Limiter {
    buckets: Box<[[Bucket; WAYS]]>,
    secret: HashKey,
    forgotten: AtomicU64,
}

impl Limiter {
    /// Creates an empty table. The secret prevents clients from choosing to share another client's
    /// bucket.
    #[must_use]
    pub fn new(secret: [u8; 32]) -> Self {
        let bucket = || Bucket { key: AtomicU64::new(0), full_at: AtomicU64::new(0) };
        let buckets = (0..PLACES).map(|_| std::array::from_fn(|_| bucket())).collect();
        Self { buckets, secret: HashKey::new(secret), forgotten: AtomicU64::new(0) }
    }

    /// Takes a token for a query, if there is one. `now` is monotonic, in nanoseconds.
    pub fn admit(
        &self,
        rule: RuleId,
        limit: &RateLimit,
        (client, qname): (IpAddr, &[u8]),
        now: u64,
    ) -> Admission {
        let key = self.key(rule, limit.per, client, qname);
        let bucket = self.bucket(key, now);
        let interval = NANOS / u64::from(limit.rps);
        let depth = interval * u64::from(limit.burst);
        let full_at = bucket.full_at.load(Ordering::Relaxed).max(now);
        let after = full_at + interval;
        if after - now > depth {
            return Admission::Over;
        }
        // A thread that loses the race has used the same token as the thread that won.
        let _ = bucket.full_at.compare_exchange(
            full_at.min(after),
            after,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        bucket.full_at.fetch_max(after, Ordering::Relaxed);
        Admission::Within
    }

    /// Reports whether a query would be within the limit now, without taking a token.
    pub fn would_admit(
        &self,
        rule: RuleId,
        limit: &RateLimit,
        (client, qname): (IpAddr, &[u8]),
        now: u64,
    ) -> Admission {
        let key = self.key(rule, limit.per, client, qname);
        let bucket =
            self.place(key).iter().find(|bucket| bucket.key.load(Ordering::Relaxed) == key);
        let full_at = bucket.map_or(0, |bucket| bucket.full_at.load(Ordering::Relaxed)).max(now);
        let interval = NANOS / u64::from(limit.rps);
        let is_over = full_at + interval - now > interval * u64::from(limit.burst);
        if is_over { Admission::Over } else { Admission::Within }
    }

    /// Returns the number of buckets that were dropped before they were full again, because the
    /// table had no room.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
    }

    fn key(&self, rule: RuleId, per: LimitKey, client: IpAddr, qname: &[u8]) -> u64 {
        let network = match canonical(client) {
            IpAddr::V4(address) => u64::from(u32::from(address)),
            IpAddr::V6(address) => (u128::from(address) >> 64) as u64 | 1 << 63,
        };
        let rule_hash = self.secret.hash(&rule.0.to_le_bytes(), per as u64);
        let of_client = |seed: u64| self.secret.hash(&network.to_le_bytes(), seed);
        let key = match per {
            LimitKey::Rule => rule_hash,
            LimitKey::Client => of_client(rule_hash),
            LimitKey::Domain => self.secret.hash(qname, rule_hash),
            LimitKey::ClientDomain => self.secret.hash(qname, of_client(rule_hash)),
        };
        key | 1
    }

    fn place(&self, key: u64) -> &[Bucket; WAYS] {
        &self.buckets[(key >> 32) as usize % PLACES]
    }

    /// Returns the bucket with this key, or a bucket to be replaced.
    fn bucket(&self, key: u64, now: u64) -> &Bucket {
        let place = self.place(key);
        if let Some(own) = place.iter().find(|bucket| bucket.key.load(Ordering::Relaxed) == key) {
            return own;
        }
        let full_at = |bucket: &&Bucket| bucket.full_at.load(Ordering::Relaxed);
        let [first, others @ ..] = place;
        let oldest = others
            .iter()
            .fold(first, |best, other| if full_at(&other) < full_at(&best) { other } else { best });
        if full_at(&oldest) > now {
            self.forgotten.fetch_add(1, Ordering::Relaxed);
        }
        oldest.full_at.store(0, Ordering::Relaxed);
        oldest.key.store(key, Ordering::Relaxed);
        oldest
    }
}

#[cfg(test)]
mod tests {
    use super::super::action::Over;
    use super::*;

    const NAME: &[u8] = b"\x07example\x00";

    fn limit(rps: u32, burst: u32, per: LimitKey) -> RateLimit {
        RateLimit { rps, burst, per, over: Over::Refuse }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// Returns how many of `queries` simultaneous queries are within the limit.
    fn admitted(
        limiter: &Limiter,
        limit: &RateLimit,
        client: &str,
        qname: &[u8],
        now: u64,
    ) -> usize {
        let one = || limiter.admit(RuleId(3), limit, (address(client), qname), now);
        (0..20).filter(|_| one() == Admission::Within).count()
    }

    #[test]
    fn a_burst_is_answered_and_then_so_many_a_second() {
        let (limiter, limit) = (Limiter::new([1; 32]), limit(2, 5, LimitKey::Client));
        let start = 10 * NANOS;
        assert_eq!(admitted(&limiter, &limit, "192.0.2.1", NAME, start), 5);
        assert_eq!(admitted(&limiter, &limit, "192.0.2.1", NAME, start + NANOS / 4), 0);
        let would = |now| limiter.would_admit(RuleId(3), &limit, (address("192.0.2.1"), NAME), now);
        assert_eq!([0, 1, 1, 1].map(|secs| would(start + secs * NANOS)), {
            use Admission::{Over, Within};
            [Over, Within, Within, Within]
        });
        assert_eq!(admitted(&limiter, &limit, "192.0.2.1", NAME, start + NANOS), 2);
        assert_eq!(admitted(&limiter, &limit, "192.0.2.1", NAME, start + 60 * NANOS), 5);
    }

    #[test]
    fn buckets_are_kept_apart_by_their_key() {
        // A name below the other name has its own bucket.
        let other = [b"\x05other", NAME].concat();
        let other = other.as_slice();
        for (per, of_other_client, of_other_name) in [
            (LimitKey::Client, 3, 0),
            (LimitKey::Rule, 0, 0),
            (LimitKey::Domain, 0, 3),
            (LimitKey::ClientDomain, 3, 3),
        ] {
            let (limiter, limit) = (Limiter::new([2; 32]), limit(1, 3, per));
            assert_eq!(admitted(&limiter, &limit, "192.0.2.1", NAME, 1), 3);
            assert_eq!(
                admitted(&limiter, &limit, "192.0.2.2", NAME, 1),
                of_other_client,
                "{per:?}"
            );
            assert_eq!(admitted(&limiter, &limit, "192.0.2.1", other, 1), of_other_name, "{per:?}");
        }
        let (limiter, limit) = (Limiter::new([2; 32]), limit(1, 3, LimitKey::Client));
        assert_eq!(admitted(&limiter, &limit, "2001:db8::1", NAME, 1), 3);
        assert_eq!(admitted(&limiter, &limit, "2001:db8::2", NAME, 1), 0);
        assert_eq!(admitted(&limiter, &limit, "2001:db8:0:1::1", NAME, 1), 3);
    }

    #[test]
    fn a_full_table_forgets_and_counts() {
        let (limiter, limit) = (Limiter::new([3; 32]), limit(1, 1, LimitKey::Client));
        let clients = (PLACES * WAYS * 2) as u32;
        for client in 0..clients {
            limiter.admit(RuleId(0), &limit, (IpAddr::from(client.to_be_bytes()), NAME), 1);
        }
        assert!(limiter.forgotten() > 0);
        let (mut within, before) = (0, limiter.forgotten());
        for client in clients..clients + 100 {
            let admission = limiter.admit(
                RuleId(0),
                &limit,
                (IpAddr::from(client.to_be_bytes()), NAME),
                100 * NANOS,
            );
            within += usize::from(admission == Admission::Within);
        }
        assert_eq!((within, limiter.forgotten()), (100, before));
    }
}
