//! Random numbers from a seed. The generated material is therefore the same on every machine.

/// A SplitMix64 generator, which is small and yields the same numbers everywhere.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns the next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number that is less than `count`. `count` must not be zero.
    pub(crate) fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    /// Returns a number that is at least 0 and less than 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns true with this probability in percent.
    pub(crate) fn percent(&mut self, probability: u64) -> bool {
        self.below(100) < probability
    }

    /// Returns a random item. `items` must not be empty.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len() as u64) as usize]
    }

    /// Shuffles the items.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}
