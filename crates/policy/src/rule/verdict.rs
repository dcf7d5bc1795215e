//! The result of evaluating the rules for a question or an answer.

use super::rules::RuleId;

/// Maximum number of noted rules in a verdict, so that it fits into a cache line. A verdict keeps
/// the first rules. If more rules match, [`Program::all_noted`](super::Program::all_noted) returns
/// all of them.
pub const MAX_NOTED: usize = 8;

/// A suspension of filtering: the index of a pause or a grant in the [`super::Switches`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lift {
    /// All filtering is suspended.
    Pause(u16),
    /// Filtering is suspended for a name and all names below it.
    Grant(u16),
}

/// The result of evaluating the rules, with its validity. It holds no text: explanations are
/// derived from it later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The rule that decides.
    pub decided: Option<RuleId>,
    /// The suspension of filtering, by rules and by lists, that applies to this question.
    pub lifted: Option<Lift>,
    /// Whether the rules must be evaluated again before the answer is sent from a cache, because a
    /// rate limit or a log-only rule must see each query. Also `true` if not all matching rules are
    /// noted.
    pub per_query: bool,
    /// The Unix second from which the verdict may change.
    pub valid_until: u64,
    noted: [RuleId; MAX_NOTED],
    noted_len: u8,
    /// Whether more rules than [`MAX_NOTED`] matched, so that the last of them are not noted.
    pub overflowed: bool,
}

const _: () = assert!(size_of::<Verdict>() <= 64, "a verdict fits into a cache line");

impl Verdict {
    /// A verdict without a deciding rule, which never expires.
    pub const NONE: Self = Self {
        decided: None,
        lifted: None,
        per_query: false,
        valid_until: u64::MAX,
        noted: [RuleId(u32::MAX); MAX_NOTED],
        noted_len: 0,
        overflowed: false,
    };

    /// Returns the rules that match without deciding (tags, TTLs, rate limits, log-only), in order.
    #[must_use]
    pub fn noted(&self) -> &[RuleId] {
        &self.noted[..usize::from(self.noted_len)]
    }

    /// Adds a rule to the noted rules, in order, unless it is already noted.
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

    /// Removes the noted rules (those that match without deciding) that come after the deciding
    /// rule.
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
