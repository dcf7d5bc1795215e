//! The TTLs of records that caches may still hold although the records now have a lower TTL.

/// Maximum number of seconds for which a record counts as held by caches, which cap TTLs to it (RFC
/// 8767 §4). Without a maximum, a TTL of years, set by mistake for a moment, would stop all
/// roll-overs.
pub const MAX_HELD_SECS: u32 = 604_800;

/// The TTL of records, and the larger TTL that they had before.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HeldTtl {
    /// The present TTL in seconds.
    pub secs: u32,
    /// The largest TTL in seconds before the TTL was lowered.
    pub before_secs: u32,
    /// The Unix time in seconds at which the TTL was last lowered.
    pub since_secs: u64,
}

impl HeldTtl {
    /// Records the TTL of the records that are published from now on. Other servers may publish the
    /// previous records for `propagation_secs` more seconds.
    pub fn note(&mut self, secs: u32, propagation_secs: u32, now_secs: u64) {
        if secs < self.secs {
            self.before_secs = self.largest_secs(propagation_secs, now_secs);
            self.since_secs = now_secs;
        }
        self.secs = secs;
    }

    /// Returns the largest TTL in seconds of any record that a cache may hold.
    #[must_use]
    pub fn largest_secs(&self, propagation_secs: u32, now_secs: u64) -> u32 {
        let is_held = self.is_held(propagation_secs, now_secs);
        let secs = if is_held { self.before_secs } else { self.secs };
        secs.min(MAX_HELD_SECS)
    }

    /// Returns whether caches may hold records with a larger TTL than the present one.
    #[must_use]
    pub fn is_held(&self, propagation_secs: u32, now_secs: u64) -> bool {
        let held = u64::from(self.before_secs.min(MAX_HELD_SECS)) + u64::from(propagation_secs);
        self.before_secs > self.secs && now_secs < self.since_secs.saturating_add(held)
    }

    /// Adds the TTLs of other versions, which were published in place of these until now.
    pub fn join(&mut self, other: Self, propagation_secs: u32, now_secs: u64) {
        let is_none_known = (self.secs, self.before_secs) == (0, 0);
        if is_none_known {
            *self = Self { since_secs: other.since_secs.min(now_secs), ..other };
            return;
        }
        let [own, others] = [*self, other].map(|ttl| ttl.largest_secs(propagation_secs, now_secs));
        (self.before_secs, self.since_secs) = (own.max(others), now_secs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_ttl_counts_until_caches_have_forgotten_it() {
        let mut ttl = HeldTtl::default();
        ttl.note(600, 10, 1_000);
        assert_eq!(ttl.largest_secs(10, 1_000), 600);
        ttl.note(300, 10, 2_000);
        ttl.note(2, 10, 2_100);
        // Records with a TTL of 600 left the server at 2000, and those with 300 at 2100.
        assert_eq!(ttl.largest_secs(10, 2_609), 600);
        assert_eq!(ttl.largest_secs(10, 2_710), 2);
        ttl.note(900, 10, 2_200);
        assert_eq!(ttl.largest_secs(10, 2_200), 900);
        ttl.note(1, 10, 3_000);
        assert_eq!((ttl.largest_secs(10, 3_909), ttl.largest_secs(10, 3_910)), (900, 1));
    }

    #[test]
    fn a_ttl_of_years_counts_as_a_week() {
        let mut ttl = HeldTtl::default();
        ttl.note(u32::MAX, 10, 1_000);
        assert_eq!(ttl.largest_secs(10, 1_000), MAX_HELD_SECS);
        ttl.note(300, 10, 2_000);
        let end = 2_000 + u64::from(MAX_HELD_SECS) + 10;
        assert_eq!(ttl.largest_secs(10, end - 1), MAX_HELD_SECS);
        assert_eq!(ttl.largest_secs(10, end), 300);
    }

    #[test]
    fn the_ttls_of_other_versions_count_as_long_as_caches_may_hold_them() {
        let other = HeldTtl { secs: 300, before_secs: 900, since_secs: 1_000 };
        let mut first = HeldTtl::default();
        first.join(other, 10, 1_500);
        assert_eq!((first.largest_secs(10, 1_909), first.largest_secs(10, 1_910)), (900, 300));
        let mut again = HeldTtl { secs: 60, ..HeldTtl::default() };
        again.join(other, 10, 1_500);
        assert_eq!((again.largest_secs(10, 2_409), again.largest_secs(10, 2_410)), (900, 60));
        again.join(HeldTtl { secs: 30, ..other }, 10, 9_000);
        assert_eq!(again.largest_secs(10, 9_000), 60);
    }
}
