//! The TTLs of records that caches may still hold although the records now have a lower TTL.

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
        let held = u64::from(self.before_secs) + u64::from(propagation_secs);
        let is_held = now_secs < self.since_secs.saturating_add(held);
        if is_held { self.secs.max(self.before_secs) } else { self.secs }
    }

    /// Removes `gap_secs`, in which the clock may have been set, from the time since the TTL was
    /// lowered.
    pub fn leave_out_gap(&mut self, gap_secs: u64, now_secs: u64) {
        self.since_secs = self.since_secs.saturating_add(gap_secs).min(now_secs);
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
        ttl.leave_out_gap(100, 4_000);
        assert_eq!((ttl.largest_secs(10, 4_009), ttl.largest_secs(10, 4_010)), (900, 1));
    }
}
