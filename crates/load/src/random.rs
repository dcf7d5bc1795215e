//! Seeded pseudo-random numbers: the same seed yields the same questions in the same order.

/// A generator of 64-bit numbers (SplitMix64). It chooses questions and must not be used for
/// secrets.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the generator of one item. Its results are reproducible, because they do not depend
    /// on earlier draws.
    pub(crate) fn of_item(seed: u64, serial: u64) -> Self {
        Self(scramble(seed ^ scramble(serial)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scramble(self.0)
    }

    /// Returns a number below `bound`, which must not be zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The bias is below one in 2^32 for the populations in use.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number in [0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Applies a pseudo-random bijection of 64-bit numbers.
pub(crate) const fn scramble(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Ranks drawn by Zipf's law: rank `k` of `n`, from 1, has the weight `1 / k^s`.
///
/// A draw takes two random numbers and one access to a table of twelve bytes per rank (the alias
/// method).
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    /// For each place: the probability of the place's own rank, and the alias rank that is drawn
    /// otherwise.
    places: Vec<(f64, u32)>,
}

impl Zipf {
    /// Creates a table of `population` ranks, at least one, with the skew `s`.
    pub(crate) fn new(population: u32, skew: f64) -> Self {
        let weights: Vec<f64> =
            (1..=population.max(1)).map(|rank| f64::from(rank).powf(-skew)).collect();
        let mean = weights.iter().sum::<f64>() / weights.len() as f64;
        let mut places: Vec<(f64, u32)> =
            weights.iter().zip(0..).map(|(weight, rank)| (weight / mean, rank)).collect();
        let (mut poor, mut rich): (Vec<usize>, Vec<usize>) =
            (0..places.len()).partition(|&i| places[i].0 < 1.0);
        while let (Some(giving), Some(taking)) = (rich.last().copied(), poor.pop()) {
            places[taking].1 = giving as u32;
            places[giving].0 -= 1.0 - places[taking].0;
            if places[giving].0 < 1.0 {
                rich.pop();
                poor.push(giving);
            }
        }
        Self { places }
    }

    /// Draws a rank, counted from zero.
    pub(crate) fn draw(&self, random: &mut Random) -> u32 {
        let place = random.below(self.places.len() as u64) as u32;
        match self.places.get(place as usize) {
            Some((stay, other)) if random.unit() >= *stay => *other,
            _ => place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.next(), random.next(), random.below(100)]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_eq!(Random::of_item(1, 2).next(), Random::of_item(1, 2).next());
    }

    #[test]
    fn ranks_follow_zipfs_law() {
        let (zipf, mut random) = (Zipf::new(100, 1.0), Random::new(1));
        let mut drawn = [0u32; 100];
        for _ in 0..100_000 {
            drawn[zipf.draw(&mut random) as usize] += 1;
        }
        let harmonic: f64 = (1..=100).map(|k| 1.0 / f64::from(k)).sum();
        for rank in [1u32, 2, 10, 50] {
            let expected = 100_000.0 / f64::from(rank) / harmonic;
            let seen = f64::from(drawn[rank as usize - 1]);
            assert!(
                (seen - expected).abs() < 5.0 * expected.sqrt(),
                "rank {rank}: {seen} of {expected}"
            );
        }
    }

    #[test]
    fn without_skew_all_ranks_are_equal() {
        let (zipf, mut random) = (Zipf::new(4, 0.0), Random::new(1));
        let mut drawn = [0u32; 4];
        for _ in 0..40_000 {
            drawn[zipf.draw(&mut random) as usize] += 1;
        }
        assert!(drawn.iter().all(|count| (9_500..10_500).contains(count)), "{drawn:?}");
    }
}
