//! Counts the matches of each rule and each list.
//!
//! Each worker counts separately, as for all metrics. A reader adds up the counts of all workers. A
//! count belongs to the name of a rule or list, so it continues across reloads, even if the index
//! of the rule or list changes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use avocet_config::policy::PolicyConfig;
use avocet_policy::rpz::TriggerKind;
use avocet_policy::rule::RuleId;

use super::verdict::{FIRST_LIST_NOTE, FIRST_RULE_NOTE, FIRST_ZONE_NOTE, REBINDING_NOTE};
use crate::metrics::Counter;

/// Maximum number of slots for names since the start. The first slot is for all rules and lists
/// without their own slot.
const MAX_COUNTED: usize = 4_096;
/// The slot of rules and lists that are not counted by name.
const OTHERS: usize = 0;

/// A rule or list that has a count.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum CountedItem {
    Rebinding,
    List(String),
    Rule(String),
}

/// The counts of all workers, which outlive a policy.
pub struct Counts {
    /// The slot of each rule and list.
    subjects: Mutex<HashMap<CountedItem, usize>>,
    workers: Vec<Box<[Counter]>>,
    /// Look-ups that were cut short because they reached the work limit of a question. All workers
    /// share this counter, which changes rarely.
    cut_short: AtomicU64,
}

impl Counts {
    /// Creates counters with value zero.
    pub fn new(workers: usize) -> Self {
        let counters = || (0..MAX_COUNTED).map(|_| Counter::default()).collect();
        let workers = (0..workers).map(|_| counters()).collect();
        Self { subjects: Mutex::default(), workers, cut_short: AtomicU64::new(0) }
    }

    /// Assigns slots to the lists and rules of a policy. `zones` has the index in the configuration
    /// of each policy zone's list; `rules` has the names of the rules in force.
    pub(super) fn places<'a>(
        &self,
        config: &PolicyConfig,
        zones: impl Iterator<Item = Option<usize>>,
        rules: impl Iterator<Item = &'a str>,
    ) -> Places {
        let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
        let mut place = |subject: CountedItem| {
            let next = subjects.len() + 1;
            match subjects.get(&subject) {
                Some(place) => *place,
                None if next == MAX_COUNTED => OTHERS,
                None => {
                    subjects.insert(subject, next);
                    next
                }
            }
        };
        let rebinding = place(CountedItem::Rebinding);
        let lists: Vec<usize> =
            config.lists.iter().map(|list| place(CountedItem::List(list.name.clone()))).collect();
        Places {
            rebinding,
            zones: zones
                .map(|list| list.and_then(|list| lists.get(list)).copied().unwrap_or(OTHERS))
                .collect(),
            lists,
            rules: rules.map(|rule| place(CountedItem::Rule(rule.to_owned()))).collect(),
        }
    }

    /// Counts incomplete look-ups, and logs a warning for the first of them.
    #[inline]
    pub(super) fn count_cut_short(&self, look_ups: u64) {
        if look_ups > 0 {
            self.add_cut_short(look_ups);
        }
    }

    #[cold]
    fn add_cut_short(&self, look_ups: u64) {
        if self.cut_short.fetch_add(look_ups, Ordering::Relaxed) == 0 {
            tracing::warn!(
                "a list lookup reached the work limit of a query: such names are blocked \
                 (avocet_list_lookups_cut_short_total counts them)"
            );
        }
    }

    /// Returns the number of look-ups that were cut short.
    pub fn cut_short(&self) -> u64 {
        self.cut_short.load(Ordering::Relaxed)
    }

    fn count(&self, worker: usize, place: usize) {
        if let Some(counter) = self.workers.get(worker).and_then(|counters| counters.get(place)) {
            counter.add(1);
        }
    }

    fn total(&self, place: usize) -> u64 {
        self.workers.iter().map(|counters| counters[place].value()).sum()
    }
}

/// The slots of a policy's lists and rules.
pub(super) struct Places {
    rebinding: usize,
    /// The slots of lists, by index in the configuration.
    lists: Vec<usize>,
    /// The slots of policy zones, in their order.
    zones: Vec<usize>,
    /// The slots of rules, by [`RuleId`].
    rules: Vec<usize>,
}

impl Places {
    /// Counts an answer of the policy by its note, which identifies the rule or list that decided.
    #[inline]
    pub(super) fn count_note(&self, counts: &Counts, worker: usize, note: u16) {
        let note = usize::from(note);
        let place = match note.checked_sub(FIRST_RULE_NOTE) {
            Some(rule) => self.rules.get(rule).copied(),
            None if note == usize::from(REBINDING_NOTE) => Some(self.rebinding),
            None if note < FIRST_LIST_NOTE => None,
            None if note < FIRST_ZONE_NOTE => self.lists.get(note - FIRST_LIST_NOTE).copied(),
            None => self.zones.get((note - FIRST_ZONE_NOTE) / TriggerKind::ALL.len()).copied(),
        };
        counts.count(worker, place.unwrap_or(OTHERS));
    }

    /// Counts a matching rule that gave no answer.
    pub(super) fn count_rule(&self, counts: &Counts, worker: usize, rule: RuleId) {
        counts.count(worker, self.rules.get(rule.0 as usize).copied().unwrap_or(OTHERS));
    }

    /// Returns the number of answers that a list caused. `place` is its index in the configuration.
    pub(super) fn of_list(&self, counts: &Counts, place: usize) -> u64 {
        self.lists.get(place).map_or(0, |place| counts.total(*place))
    }

    /// Returns the number of a rule's matches.
    pub(super) fn of_rule(&self, counts: &Counts, rule: RuleId) -> u64 {
        self.rules.get(rule.0 as usize).map_or(0, |place| counts.total(*place))
    }

    /// Returns how often private addresses of public names were removed.
    pub(super) fn of_rebinding(&self, counts: &Counts) -> u64 {
        counts.total(self.rebinding)
    }
}

/// The matches of the worker's last query that are not counted yet.
#[derive(Default)]
pub(super) struct PendingCounts {
    rules: Vec<RuleId>,
    /// The note of a list that redirects, drops or truncates a query. No answer carries this note,
    /// so it is counted separately.
    list: u16,
}

impl PendingCounts {
    /// Adds the matches of a verdict on a question: the rules that matched without deciding, and
    /// the deciding rule.
    pub(super) fn note(&mut self, noted: &[RuleId], decided: Option<RuleId>) {
        self.clear();
        self.rules.extend_from_slice(noted);
        self.rules.extend(decided);
    }

    /// Reports whether there are no matches.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.list == 0
    }

    /// Removes all matches.
    pub(super) fn clear(&mut self) {
        self.rules.clear();
        self.list = 0;
    }

    /// Adds the note of the list that decided, if no answer carries this note.
    pub(super) fn note_list(&mut self, note: u16) {
        self.list = note;
    }

    /// Returns the note (index of the reason) of the list that decided. Returns zero if an answer
    /// carries the note, or if no list decided.
    pub(super) fn list(&self) -> u16 {
        self.list
    }

    /// Removes the note of the deciding list and returns it; `None` if there is none.
    pub(super) fn take_list(&mut self) -> Option<u16> {
        Some(std::mem::take(&mut self.list)).filter(|note| *note != 0)
    }

    /// Removes all rules, and returns those that must still be counted: all except `counted`, the
    /// rule that the note of the answer already counts.
    pub(super) fn take(&mut self, counted: Option<RuleId>) -> impl Iterator<Item = RuleId> + '_ {
        self.rules.drain(..).filter(move |rule| Some(*rule) != counted)
    }
}

/// Returns the rule to which a note belongs; `None` if the note does not belong to a rule.
pub(super) fn rule_of(note: u16) -> Option<RuleId> {
    usize::from(note).checked_sub(FIRST_RULE_NOTE).map(|rule| RuleId(rule as u32))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use avocet_config::Config;

    fn policy(lists: &[&str]) -> PolicyConfig {
        let tables =
            lists.iter().map(|name| format!("[[list]]\nname = \"{name}\"\nfile = \"x\"\n"));
        Config::from_text(None, &tables.collect::<String>(), &BTreeMap::new()).unwrap().policy
    }

    #[test]
    fn counts_go_by_name_and_outlive_a_policy() {
        let counts = Counts::new(2);
        let places = counts.places(
            &policy(&["ads", "adult"]),
            [].into_iter(),
            ["bedtime", "slow"].into_iter(),
        );
        places.count_note(&counts, 0, (FIRST_LIST_NOTE + 1) as u16);
        places.count_note(&counts, 1, (FIRST_LIST_NOTE + 1) as u16);
        places.count_note(&counts, 1, FIRST_RULE_NOTE as u16);
        places.count_note(&counts, 0, 1);
        places.count_rule(&counts, 0, RuleId(1));
        let later = counts.places(
            &policy(&["adult", "news"]),
            [Some(1)].into_iter(),
            ["slow", "other", "bedtime"].into_iter(),
        );
        assert_eq!([0, 1].map(|place| later.of_list(&counts, place)), [2, 0]);
        later.count_note(&counts, 0, (FIRST_ZONE_NOTE + 4) as u16);
        assert_eq!([0, 1].map(|place| later.of_list(&counts, place)), [2, 1]);
        assert_eq!([0, 1, 2].map(|rule| later.of_rule(&counts, RuleId(rule))), [1, 0, 1]);
        assert_eq!(later.of_rebinding(&counts), 1);
    }

    #[test]
    fn those_for_which_there_is_no_room_are_counted_together() {
        let counts = Counts::new(1);
        let names: Vec<String> = (0..MAX_COUNTED + 10).map(|number| number.to_string()).collect();
        let places =
            counts.places(&policy(&["ads"]), [].into_iter(), names.iter().map(String::as_str));
        (0..names.len()).for_each(|rule| places.count_rule(&counts, 0, RuleId(rule as u32)));
        assert_eq!(places.of_rule(&counts, RuleId(0)), 1);
        assert!(counts.total(OTHERS) > 10);
    }
}
