//! The failure cache (RFC 9520): questions that failed to resolve and must not be retried yet. The
//! first failure is remembered for five seconds. Each further failure is remembered for twice as
//! long as the previous one, up to five minutes (RFC 9520 §3.2). A successful resolution removes
//! the entry.

use avocet_wire::hash::HashKey;
use avocet_wire::{FoldedName, Question};

use crate::{
    lengths, name,
    store::{BudgetTooSmall, EntryParts, Inserted, Meta, Store, StoreConfig, StoreStats},
    sync::{AtomicU64, Ordering},
};

/// Backoff after the first failure, in seconds.
const FIRST_BACKOFF_SECS: u32 = 5;
/// Longest backoff in seconds. RFC 9520 §3.2 forbids more than five minutes.
const MAX_BACKOFF_SECS: u32 = 300;
/// Seconds after the end of a backoff for which the failure is remembered: another failure within
/// this time doubles the backoff.
const MEMORY_SECS: u32 = 300;
const MEAN_ENTRY_BYTES: usize = 56;
/// The longest question: a name of 255 octets, type and class.
const MAX_QUESTION_BYTES: usize = 259;
const CD_BIT: u32 = 1 << 16;

/// A failure whose backoff has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The code of the extended error (RFC 8914) of the last attempt.
    pub ede: u16,
    /// Seconds until the next attempt is permitted, at least one.
    pub retry_in_secs: u32,
}

/// The key of a failure.
#[derive(Clone, Copy, Debug)]
pub struct FailureKey<'a> {
    /// The question.
    pub question: Question<'a>,
    /// The CD bit of the query. With CD set, a question can resolve even if its data fails
    /// validation.
    pub checking_disabled: bool,
}

impl FailureKey<'_> {
    fn cd_bit(&self) -> u32 {
        u32::from(self.checking_disabled) * CD_BIT
    }

    fn same(&self) -> impl Fn(&Meta, &[u8]) -> bool {
        move |meta, payload| {
            payload == self.question.octets() && meta.user & CD_BIT == self.cd_bit()
        }
    }
}

/// A cache of resolution failures with exponential backoff.
///
/// ```
/// use avocet_cache::{FailureCache, FailureKey};
/// use avocet_wire::Question;
///
/// # fn main() -> Result<(), avocet_cache::BudgetTooSmall> {
/// let failures = FailureCache::new(1 << 20, [7; 16])?;
/// let question = Question::new(b"\x07example\x00\x00\x01\x00\x01").expect("a question");
/// let key = FailureKey { question, checking_disabled: false };
/// assert_eq!(failures.record(&key, 22, 100), 5);
/// assert_eq!(failures.lookup(&key, 102).map(|failure| failure.retry_in_secs), Some(3));
/// assert_eq!(failures.lookup(&key, 105), None);
/// // The next failure doubles the backoff.
/// assert_eq!(failures.record(&key, 22, 105), 10);
/// # Ok(())
/// # }
/// ```
pub struct FailureCache {
    store: Store,
    hash_key: HashKey,
    /// The end of the latest backoff. After this time, a look-up need not access the store.
    in_force_until: AtomicU64,
}

impl FailureCache {
    /// Creates a cache of at most `bytes`. `hash_key` must be random, because clients choose the
    /// names.
    pub fn new(bytes: usize, hash_key: [u8; 16]) -> Result<FailureCache, BudgetTooSmall> {
        let config =
            StoreConfig { bytes, mean_entry_bytes: MEAN_ENTRY_BYTES, keep_secs: MEMORY_SECS };
        let hash_key = lengths::hash_key(hash_key);
        Ok(FailureCache { store: Store::new(config)?, hash_key, in_force_until: AtomicU64::new(0) })
    }

    /// Records a failed resolution and returns its backoff in seconds. If the previous backoff has
    /// not ended, the failed attempt began before this backoff, so the backoff is not extended.
    pub fn record(&self, key: &FailureKey<'_>, ede: u16, now: u32) -> u32 {
        let backoff = match self.read(key) {
            Some(last) => match last.remaining(now) {
                Ok(remaining) => return remaining,
                Err(past) if past < MEMORY_SECS => (last.valid_for * 2).min(MAX_BACKOFF_SECS),
                Err(_) => FIRST_BACKOFF_SECS,
            },
            None => FIRST_BACKOFF_SECS,
        };
        let meta = Meta {
            stored_at: now,
            valid_for: backoff,
            epoch: 0,
            user: u32::from(ede) | key.cd_bit(),
        };
        let entry = EntryParts { meta, parts: [key.question.octets(), &[]] };
        let stored = self.store.insert(self.hash(key), &entry, key.same(), |_| true);
        self.in_force_until.fetch_max(u64::from(now) + u64::from(backoff), Ordering::Relaxed);
        if stored == Inserted::Stored { backoff } else { 0 }
    }

    /// Returns the failure of a question if its backoff has not ended. Takes no lock, and allocates
    /// nothing.
    pub fn lookup(&self, key: &FailureKey<'_>, now: u32) -> Option<Failure> {
        if u64::from(now) >= self.in_force_until.load(Ordering::Relaxed) {
            return None;
        }
        let meta = self.read(key)?;
        let retry_in_secs = meta.remaining(now).ok()?;
        Some(Failure { ede: meta.user as u16, retry_in_secs })
    }

    /// Removes the failures of a question after it was resolved.
    pub fn clear(&self, key: &FailureKey<'_>) {
        self.store.remove(self.hash(key), key.same());
    }

    /// Removes the failures of all questions with a QNAME at or below `below`.
    pub fn flush(&self, below: FoldedName<'_>) {
        self.store.retain(|_, question| {
            !name::leading_name(question).is_some_and(|qname| name::is_at_or_below(qname, &below))
        });
    }

    /// Removes the failures of the questions for which `is_gone` returns true of the name.
    pub fn flush_where(&self, mut is_gone: impl FnMut(&[u8]) -> bool) {
        self.store.retain(|_, question| !name::leading_name(question).is_some_and(&mut is_gone));
    }

    /// Returns the counters of the cache and the size of its memory.
    pub fn stats(&self) -> StoreStats {
        self.store.stats()
    }

    fn read(&self, key: &FailureKey<'_>) -> Option<Meta> {
        let mut buf = [0; MAX_QUESTION_BYTES + 5];
        let found = self.store.read(self.hash(key), &mut buf, key.same())?;
        Some(found.meta)
    }

    fn hash(&self, key: &FailureKey<'_>) -> u64 {
        self.hash_key.hash(key.question.octets(), u64::from(key.checking_disabled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: FailureKey<'_> = key(b"\x01a\x00\x00\x01\x00\x01");

    const fn key(question: &[u8]) -> FailureKey<'_> {
        FailureKey { question: Question::from_folded_unchecked(question), checking_disabled: false }
    }

    fn cache() -> FailureCache {
        FailureCache::new(64 * 1024, [7; 16]).unwrap()
    }

    #[test]
    fn backoff_doubles_from_five_seconds_to_five_minutes() {
        let cache = cache();
        let mut now = 1000;
        for expected in [5, 10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(cache.record(&KEY, 22, now), expected);
            let failure = cache.lookup(&KEY, now + expected - 1);
            assert_eq!(failure, Some(Failure { ede: 22, retry_in_secs: 1 }));
            now += expected;
            assert_eq!(cache.lookup(&KEY, now), None);
        }
    }

    #[test]
    fn flushing_a_name_forgets_the_failures_below_it() {
        let cache = cache();
        let other = key(b"\x01b\x00\x00\x01\x00\x01");
        cache.record(&KEY, 22, 100);
        cache.record(&other, 22, 100);
        cache.flush(KEY.question.qname());
        assert_eq!(cache.lookup(&KEY, 101), None);
        assert!(cache.lookup(&other, 101).is_some());
    }

    #[test]
    fn a_failure_within_the_backoff_does_not_lengthen_it() {
        let cache = cache();
        cache.record(&KEY, 22, 100);
        assert_eq!(cache.record(&KEY, 23, 102), 3);
        assert_eq!(cache.lookup(&KEY, 102), Some(Failure { ede: 22, retry_in_secs: 3 }));
    }

    #[test]
    fn success_and_quiet_start_the_backoff_anew() {
        let cache = cache();
        cache.record(&KEY, 22, 0);
        cache.record(&KEY, 22, 5);
        cache.clear(&KEY);
        assert_eq!(cache.lookup(&KEY, 6), None);
        assert_eq!(cache.record(&KEY, 22, 6), FIRST_BACKOFF_SECS);
        let later = 6 + FIRST_BACKOFF_SECS + MEMORY_SECS;
        assert_eq!(cache.record(&KEY, 22, later), FIRST_BACKOFF_SECS);
    }

    #[test]
    fn cd_is_part_of_the_question() {
        let cache = cache();
        cache.record(&KEY, 6, 0);
        assert_eq!(cache.lookup(&FailureKey { checking_disabled: true, ..KEY }, 0), None);
        cache.clear(&FailureKey { checking_disabled: true, ..KEY });
        assert!(cache.lookup(&KEY, 0).is_some());
    }
}
