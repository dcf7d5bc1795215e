//! The most frequent texts of a stream, in limited memory, and the possible error of their counts.
//!
//! The method is *space saving* with evictions in batches. The table grows to twice the number of
//! texts to keep. Then the rarer half is dropped, and the count of the most frequent dropped text
//! becomes the *floor*. A text that arrives later may be one that was dropped, so its count begins
//! at the floor, which is also its error. For each text, `count - error <= true count <= count`. A
//! text that is absent occurred at most `floor` times. The floor is at most the sum of all counts
//! divided by the number of texts to keep.

use std::collections::HashMap;

/// A text of a [`Top`], with its count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TopText {
    /// The text.
    pub text: String,
    /// The count, which is at least the true count.
    pub count: u64,
    /// The amount by which the count may be too high.
    pub error: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tally {
    pub(super) count: u64,
    pub(super) error: u64,
}

/// The sums of the counts and errors of one text, over all streams that contain it.
#[derive(Default)]
struct Occurrences {
    count: u64,
    error: u64,
    floors: u64,
}

/// The most frequent texts of a stream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Top {
    pub(super) tallies: HashMap<Box<str>, Tally>,
    pub(super) floor: u64,
}

impl Top {
    /// Adds occurrences of a text. Keeps at least the `kept` most frequent texts.
    pub(crate) fn add(&mut self, text: &str, count: u64, kept: usize) {
        self.add_tally(text, Tally { count, error: 0 }, kept);
    }

    fn add_tally(&mut self, text: &str, more: Tally, kept: usize) {
        if let Some(tally) = self.tallies.get_mut(text) {
            tally.count += more.count;
            tally.error += more.error;
            return;
        }
        if self.tallies.len() >= 2 * kept {
            self.shrink(kept);
        }
        let tally = Tally { count: self.floor + more.count, error: self.floor + more.error };
        self.tallies.insert(text.into(), tally);
    }

    /// Forgets all but the `kept` most frequent texts.
    pub(super) fn shrink(&mut self, kept: usize) {
        if self.tallies.len() <= kept {
            return;
        }
        let mut counts: Vec<u64> = self.tallies.values().map(|tally| tally.count).collect();
        counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
        // Texts with equal counts are forgotten together, because the choice between them would be
        // arbitrary.
        let floor = counts[kept];
        self.tallies.retain(|_, tally| tally.count > floor);
        self.tallies.shrink_to(2 * kept);
        self.floor = self.floor.max(floor);
    }

    /// Returns the most frequent texts of several streams together. If a text is absent from a
    /// stream, it may have occurred there as often as the floor of the stream.
    pub(super) fn sum<'t>(streams: impl Iterator<Item = &'t Self>, kept: usize) -> Self {
        let mut floor = 0;
        let mut found: HashMap<&'t str, Occurrences> = HashMap::new();
        for stream in streams {
            floor += stream.floor;
            for (text, tally) in &stream.tallies {
                let sum = found.entry(text).or_default();
                sum.count += tally.count;
                sum.error += tally.error;
                sum.floors += stream.floor;
            }
        }
        let tally = |(text, sum): (&'t str, Occurrences)| {
            let absent = floor - sum.floors;
            (text, Tally { count: sum.count + absent, error: sum.error + absent })
        };
        let mut sums: Vec<(&str, Tally)> = found.into_iter().map(tally).collect();
        if sums.len() > kept {
            // Only the texts that remain in the result are copied.
            let (_, first_gone, _) =
                sums.select_nth_unstable_by_key(kept, |(_, tally)| std::cmp::Reverse(tally.count));
            let limit = first_gone.1.count;
            sums.retain(|(_, tally)| tally.count > limit);
            floor = floor.max(limit);
        }
        let tallies = sums.into_iter().map(|(text, tally)| (text.into(), tally)).collect();
        Self { tallies, floor }
    }

    /// Removes the texts for which `is_gone` returns `true`.
    pub(super) fn remove(&mut self, is_gone: impl Fn(&str) -> bool) {
        self.tallies.retain(|text, _| !is_gone(text));
    }

    /// Returns at most `most` texts, the most frequent first.
    #[must_use]
    pub fn texts(&self, most: usize) -> Vec<TopText> {
        let mut texts: Vec<TopText> = self
            .tallies
            .iter()
            .map(|(text, tally)| TopText {
                text: text.to_string(),
                count: tally.count,
                error: tally.error,
            })
            .collect();
        texts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.text.cmp(&b.text)));
        texts.truncate(most);
        texts
    }

    /// Returns the maximum number of times that an absent text may have occurred.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.floor
    }
}

#[cfg(test)]
mod tests {
    use avocet_testkit::Chance;

    use super::*;

    #[test]
    fn counts_are_within_their_error_of_the_truth() {
        for seed in 0..20 {
            let chance = &mut Chance::new(seed);
            let (mut parts, mut truth) = ([Top::default(), Top::default()], HashMap::new());
            for _ in 0..20_000 {
                // Small numbers are drawn more often than large ones.
                let limit = 1 + chance.below(300);
                let text = chance.below(limit).to_string();
                parts[chance.below(2) as usize].add(&text, 1, 20);
                *truth.entry(text).or_insert(0_u64) += 1;
            }
            let top = Top::sum(parts.iter(), 20);
            assert!(top.floor() <= 20_000 / 20);
            for found in top.texts(usize::MAX) {
                let count = truth.remove(&found.text).unwrap();
                assert!((found.count - found.error..=found.count).contains(&count), "{found:?}");
            }
            assert!(truth.values().all(|count| *count <= top.floor()), "{}", top.floor());
        }
    }
}
