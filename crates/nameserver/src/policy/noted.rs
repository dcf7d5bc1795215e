//! The rules and lists that the numbers in a decision identify, for the query log.

use avocet_policy::client::Profile;
use avocet_policy::list::ListId;
use avocet_policy::rpz::TriggerKind;
use avocet_policy::rule::RuleId;
use avocet_wire::{Ede, Rcode};

use super::verdict::{FIRST_LIST_NOTE, FIRST_ZONE_NOTE, names_it};
use super::{Asked, Policy, Scratch, counts};
use crate::query::decision::Stage;

/// The deciding part of the policy for a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Noted<'p> {
    /// No part of the policy decided.
    Nobody,
    /// The rule with this name.
    Rule(&'p str),
    /// The list or policy zone with this index in the configuration.
    List(usize),
    /// A built-in protection of the server, such as the protection against private addresses. Holds
    /// its text.
    Protection(&'p str),
}

impl Policy {
    /// Returns the part of the policy to which a [note](Policy::notes) belongs.
    pub fn noted(&self, note: u16) -> Noted<'_> {
        if let Some(RuleId(place)) = counts::rule_of(note) {
            let rule = self.program.rules().get(place as usize);
            return rule.map_or(Noted::Nobody, |rule| Noted::Rule(&rule.name));
        }
        let note = usize::from(note);
        match note.checked_sub(FIRST_ZONE_NOTE) {
            Some(zone) => {
                let zone = zone / TriggerKind::ALL.len();
                let id: Option<ListId> =
                    self.lists.as_ref().and_then(|lists| lists.list_of_zone(zone));
                id.and_then(|id| self.shown_place_of(id)).map_or(Noted::Nobody, Noted::List)
            }
            None => match note.checked_sub(FIRST_LIST_NOTE) {
                Some(place) => Noted::List(place),
                None => self.note_text(note as u16).map_or(Noted::Nobody, Noted::Protection),
            },
        }
    }

    /// Returns the extended error of a [note](Policy::notes) if the policy made the answer at this
    /// stage with this RCODE. Returns `None` for other answers and for truncated answers.
    pub fn ede_of(&self, note: u16, stage: u8, rcode: Rcode) -> Option<Ede> {
        let is_made = [Stage::Blocked, Stage::Rewritten].iter().any(|made| *made as u8 == stage)
            || (stage == Stage::Limited as u8 && rcode == Rcode::REFUSED);
        let place = usize::from(note).checked_sub(1).filter(|_| is_made)?;
        self.notes.get(place).map(|(ede, _)| *ede)
    }

    /// Returns the indexes in the configuration of the lists in force for a client that have the
    /// QNAME, in ascending order.
    pub fn lists_naming(&self, asked: &Asked<'_>, scratch: &mut Scratch) -> Vec<usize> {
        let Some((lists, in_force)) = self.lists_for(asked) else { return Vec::new() };
        scratch.lists.begin_question();
        let found = lists.lookup(self.to_lists(asked, &asked.qname), in_force, &mut scratch.lists);
        let naming = found.matches().filter(names_it).filter_map(|one| self.place_of(one.list));
        let for_client = self.clients.lists(Profile(asked.profile));
        let is_in_force = |place: &usize| for_client.is_some_and(|lists| lists.contains(*place));
        let zones = self.zones_naming(asked.qname.wire()).filter(is_in_force);
        let mut places: Vec<usize> = naming.chain(zones).collect();
        places.sort_unstable();
        places.dedup();
        places
    }
}
