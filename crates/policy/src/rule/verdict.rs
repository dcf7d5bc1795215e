//! What the rules say about a question or an answer.

use super::rules::RuleId;

/// Most rules noted in a verdict, so that it fits into a cache line; those tried first are kept.
/// Where more hold, [`Program::all_noted`](super::Program::all_noted) gives all.
pub const MAX_NOTED: usize = 8;

/// What lifts filtering: the place of a pause or of a grant among the [`super::Switches`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lift {
    /// All filtering.
    Pause(u16),
    /// The filtering of a name and of what is below it.
    Grant(u16),
}

/// What the rules say, and how long that is so. Nothing in it is text: explanations are made from
/// it later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The rule whose action is taken.
    pub decided: Option<RuleId>,
    /// What lifts filtering, by rules and by lists, from this question.
    pub lifted: Option<Lift>,
    /// Whether the answer must not be sent from a cache without asking the rules again: a rate
    /// limit or a log-only rule wants to see each query. So it is where not all rules are noted.
    pub per_query: bool,
    /// The Unix second from which on the verdict may be another one.
    pub valid_until: u64,
    noted: [RuleId; MAX_NOTED],
    noted_len: u8,
    /// Whether more rules than [`MAX_NOTED`] held, so that the last of them are not noted.
    pub overflowed: bool,
}

const _: () = assert!(size_of::<Verdict>() <= 64, "a verdict fits into a cache line");

impl Verdict {
    /// Nothing decided, valid for ever.
    pub const NONE: Self = Self {
        decided: None,
        lifted: None,
        per_query: false,
        valid_until: u64::MAX,
        noted: [RuleId(u32::MAX); MAX_NOTED],
        noted_len: 0,
        overflowed: false,
    };

    /// The rules that hold and do not decide (tags, TTLs, rate limits, log-only), in their order.
    #[must_use]
    pub fn noted(&self) -> &[RuleId] {
        &self.noted[..usize::from(self.noted_len)]
    }

    /// Puts a rule among the noted ones at its place, once.
    pub(super) fn note(&mut self, rule: RuleId) {
        let len = usize::from(self.noted_len);
        let place = self.noted[..len].partition_point(|other| *other < rule);
        if self.noted[..len].get(place) == Some(&rule) {
            return;
        }
        if len == MAX_NOTED {
            self.overflowed = true;
        }
        if place == MAX_NOTED {
            return;
        }
        let end = len.min(MAX_NOTED - 1);
        self.noted.copy_within(place..end, place + 1);
        self.noted[place] = rule;
        self.noted_len = (end + 1) as u8;
    }

    /// Forgets noted rules that come after the one that decided.
    pub(super) fn forget_after(&mut self, decided: RuleId) {
        let kept = self.noted().partition_point(|rule| *rule < decided);
        self.noted_len = kept as u8;
        self.overflowed &= kept == MAX_NOTED;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rules_stay_noted_in_order() {
        let mut verdict = Verdict::NONE;
        for number in [9, 3, 7, 3, 1, 20, 5, 8, 2, 30, 4] {
            verdict.note(RuleId(number));
        }
        let noted: Vec<u32> = verdict.noted().iter().map(|rule| rule.0).collect();
        assert_eq!((noted, verdict.overflowed), (vec![1, 2, 3, 4, 5, 7, 8, 9], true));
        verdict.forget_after(RuleId(5));
        assert_eq!((verdict.noted().len(), verdict.overflowed), (4, false));
    }
}
