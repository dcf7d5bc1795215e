//! Weighted stacks. Equal stacks are merged.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The weight of each stack by its frames, the outermost first.
#[derive(Default)]
pub(super) struct Stacks {
    weights: BTreeMap<Vec<String>, u64>,
}

impl Stacks {
    /// Adds a stack, unless it is empty or its weight is zero.
    pub(super) fn add(&mut self, frames: &[String], weight: u64) {
        if !frames.is_empty() && weight > 0 {
            *self.weights.entry(frames.to_vec()).or_default() += weight;
        }
    }

    /// Subtracts the weights of other stacks.
    pub(super) fn without(mut self, others: &Self) -> Self {
        for (frames, weight) in &mut self.weights {
            *weight = weight.saturating_sub(others.weights.get(frames).copied().unwrap_or(0));
        }
        self.weights.retain(|_, weight| *weight > 0);
        self
    }

    /// Returns all stacks in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[String], u64)> {
        self.weights.iter().map(|(frames, weight)| (frames.as_slice(), *weight))
    }

    /// Returns the sum of the weights.
    pub(super) fn total(&self) -> u64 {
        self.weights.values().sum()
    }

    /// Returns at most `most` innermost functions, those with the largest shares.
    pub(super) fn leaves(&self, most: usize) -> Vec<(String, f64)> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (frames, weight) in self.iter() {
            *sums.entry(frames.last().map_or("", String::as_str)).or_default() += weight;
        }
        let total = self.total() as f64;
        let mut leaves: Vec<_> =
            sums.into_iter().map(|(name, sum)| (name.to_owned(), sum as f64 / total)).collect();
        leaves.sort_by(|a, b| b.1.total_cmp(&a.1));
        leaves.truncate(most);
        leaves
    }

    /// Returns one stack per line, with its frames joined by semicolons. Other tools read this
    /// format.
    pub(super) fn folded(&self) -> String {
        let mut text = String::new();
        for (frames, weight) in self.iter() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {weight}", frames.join(";"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(entries: &[(&str, u64)]) -> Stacks {
        let mut stacks = Stacks::default();
        for (frames, weight) in entries {
            stacks.add(&frames.split(';').map(str::to_owned).collect::<Vec<_>>(), *weight);
        }
        stacks
    }

    #[test]
    fn equal_stacks_add_up_and_others_are_taken_off() {
        let longer = stacks(&[("a;b", 3), ("a;b", 4), ("a;c", 2), ("d", 0)]);
        assert_eq!(longer.total(), 9);
        assert_eq!(longer.leaves(1), [("b".to_owned(), 7.0 / 9.0)]);
        assert_eq!(longer.without(&stacks(&[("a;b", 5), ("a;c", 2)])).folded(), "a;b 2\n");
    }
}
