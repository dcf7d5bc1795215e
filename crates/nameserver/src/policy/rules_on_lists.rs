//! Rules that test lists, and names and answers that the policy cannot evaluate as a whole: the
//! look-up in lists reached the limit on the work of a question, or the answer is too large.
//!
//! Such a name may be on a list. It is blocked, so that a zone cannot evade a list by names that
//! cost much work.

use std::cell::Cell;

use avocet_policy::list::{ListId, ListSet};
use avocet_policy::rule::{self, Action, Answer, ListLookup, Verdict};

use super::ruling::{Made, Validity};
use super::verdict::{UNDECIDED_NOTE, UNREAD_NOTE, names_it, to_rules};
use super::{Asked, Moment, Policy, Scratch};
use crate::query::blocked::Form;

impl Policy {
    /// Returns whether a rule may decide otherwise after a whole look-up in the lists that it
    /// tests. A rule that blocks decides even so.
    pub(super) fn is_undecided(&self, verdict: &Verdict, scratch: &Scratch) -> bool {
        if !scratch.is_undecided.get() || verdict.lifted.is_some() {
            return false;
        }
        let rules = self.program.rules();
        // Later rules may have been evaluated, but they do not matter.
        let before = verdict.decided.map_or(rules.len(), |id| id.0 as usize + 1);
        let decided = verdict.decided.and_then(|id| self.program.rule(id));
        let blocks = decided.is_some_and(|rule| {
            matches!(rule.action, Action::Block(_) | Action::Drop | Action::Truncate)
        });
        !blocks && rules.iter().take(before).any(|rule| rule.reads_lists() && !rule.log_only)
    }

    /// Returns the reason to block an answer because the policy has not read all that its verdict
    /// depends on; `None` if there is none.
    pub(super) fn unread_note(
        &self,
        asked: &Asked<'_>,
        verdict: &Verdict,
        scratch: &Scratch,
    ) -> Option<u16> {
        if self.is_undecided(verdict, scratch) {
            return Some(UNDECIDED_NOTE);
        }
        (scratch.found.is_cut && self.reads_all_of(asked, verdict)).then_some(UNREAD_NOTE)
    }

    /// Returns the answer in place of one that the policy cannot evaluate as a whole.
    #[cold]
    pub(super) fn unread(&self, note: u16, validity: Validity) -> Made<'_> {
        let made = self.blocked((self.block_form(), None), (note, validity));
        Made { form: Form::Nodata, ..made }
    }

    /// Returns whether the verdict holds only if all of the answer was examined.
    fn reads_all_of(&self, asked: &Asked<'_>, verdict: &Verdict) -> bool {
        let is_open = verdict.decided.is_none();
        let is_filtered =
            self.program.reads_answers() || (is_open && self.lists_for(asked).is_some());
        (is_filtered && verdict.lifted.is_none()) || (is_open && self.rebinding.is_some())
    }

    /// Evaluates the rules on an answer, after the verdict on the question. The rules that match
    /// only with the answer are in `scratch.noted_later`.
    pub(super) fn decide_answer(
        &self,
        asked: &Asked<'_>,
        before: &Verdict,
        moment: Moment,
        scratch: &mut Scratch,
    ) -> Verdict {
        let question = to_rules(asked, moment);
        let Scratch { found, hours, named_lists, noted, noted_later, is_undecided, .. } = scratch;
        let names: Vec<&[u8]> = found.names.iter().map(|name| name.wire()).collect();
        let judged: Vec<&[u8]> = found.judged().map(|name| name.wire()).collect();
        let answer = Answer {
            addresses: &found.addresses,
            names: &names,
            judged: &judged,
            countries: &found.countries,
        };
        let (mut on, mut is_incomplete) = ([ListSet::EMPTY; 2], false);
        if self.asks_for_lists
            && let Some(lists) = &self.lists
        {
            for (place, name) in
                [asked.qname.wire()].into_iter().chain(judged.iter().copied()).enumerate()
            {
                let question = self.to_lists(asked, name);
                let found = match place {
                    0 => lists.lookup(question, &ListSet::ALL, named_lists),
                    _ => lists.lookup_behind(question, &ListSet::ALL, named_lists),
                };
                is_incomplete |= found.is_incomplete();
                let naming = found.matches().filter(names_it);
                let places = naming.filter_map(|one| self.place_of(one.list).and_then(ListId::at));
                let places = places.chain(self.zones_naming(name).filter_map(ListId::at));
                places.for_each(|list| on[place.min(1)].insert(list));
            }
        }
        noted_later.clone_from(noted);
        let naming = Naming { on, is_undecided: is_incomplete.then_some(&*is_undecided) };
        let verdict = self.decide_with((&question, Some((&answer, before))), hours, &naming, noted);
        // The following lines leave in `noted_later` the rules that match only with the answer.
        let of_question = noted_later.len();
        for id in noted.iter() {
            if !noted_later[..of_question].contains(id) {
                noted_later.push(*id);
            }
        }
        noted_later.drain(..of_question);
        verdict
    }
}

/// The lists that have the QNAME, and the lists that have a name to which the answer leads.
struct Naming<'a> {
    on: [ListSet; 2],
    /// Set if a rule tests a list that was not found to have a name. `None` if the look-ups are
    /// complete.
    is_undecided: Option<&'a Cell<bool>>,
}

impl Naming<'_> {
    fn has(&self, wanted: rule::ListId, on: &[ListSet]) -> bool {
        let is_on =
            ListId::at(wanted.0.into()).is_some_and(|list| on.iter().any(|on| on.contains(list)));
        if let Some(is_undecided) = self.is_undecided.filter(|_| !is_on) {
            is_undecided.set(true);
        }
        is_on
    }
}

impl ListLookup for Naming<'_> {
    fn contains(&self, wanted: rule::ListId) -> bool {
        self.has(wanted, &self.on)
    }

    fn contains_qname(&self, wanted: rule::ListId) -> bool {
        self.has(wanted, &self.on[..1])
    }
}
