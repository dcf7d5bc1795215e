//! Removed block lists that stay in force until the lists that replace them are compiled.
//!
//! A reload may replace a list by another, which is fetched and compiled later. Meanwhile, names
//! that both lists block must not pass. Therefore, a removed block list stays in force for each
//! group that used it and now uses a block list that is not compiled yet.
//!
//! Such a list can only keep a block that was in force before for the same group: conditions do not
//! see it, its exceptions and its `rpz-passthru` triggers do not overrule other lists, and allow
//! lists never stay.

use avocet_config::policy::{ListKind, PolicyConfig};
use avocet_policy::client::Directory;
use avocet_policy::list::{self, Decision, ListId, ListSet};

use super::verdict::FIRST_LIST_NOTE;
use super::{Asked, Lists, Policy};

/// The removed lists that are still in force, with the data that the policy needs to apply them.
pub(super) struct StandIns {
    /// The removed lists that are in force for a group.
    set: ListSet,
    /// The index in the directory of each compiled list; `None` if the list is not in force.
    pub(super) indices: Vec<Option<usize>>,
    /// The index in the configuration of each compiled list, as responses and the query log show
    /// it. For a list of `set`, this is the list that replaces it.
    pub(super) shown: Vec<Option<usize>>,
    /// The compiled lists of each group.
    of_groups: Vec<(String, ListSet)>,
}

impl StandIns {
    /// Finds the removed lists that stay in force, and adds them to the groups of `directory`.
    /// `places` are the indices in the configuration of the compiled lists, and `before` is the
    /// policy in force.
    pub(super) fn of(
        (config, directory): (&PolicyConfig, &mut Directory),
        (lists, places): (Option<&Lists>, &[Option<usize>]),
        before: Option<&Policy>,
    ) -> Self {
        let mut kept = Self {
            set: ListSet::EMPTY,
            indices: places.to_vec(),
            shown: places.to_vec(),
            of_groups: Vec::new(),
        };
        let is_new = |list: &usize| {
            config.lists.get(*list).is_some_and(|list| list.kind == ListKind::Block)
                && !places.contains(&Some(*list))
        };
        let made = lists.map_or(&[][..], |lists| &lists.making().lists);
        let removed = made.iter().enumerate().filter(|(at, _)| places[*at].is_none());
        for (at, one) in removed.filter(|(_, one)| one.blocks()) {
            let (mut groups, mut replaced_by) = (Vec::new(), None);
            for (group, of_group) in directory.lists_of_groups() {
                let new = of_group.into_iter().find(is_new);
                if new.is_some() && before.is_some_and(|before| before.used(group, &one.name)) {
                    groups.push(group.to_owned());
                    replaced_by = replaced_by.or(new);
                }
            }
            if let (Some(list), Some(new)) = (ListId::at(at), replaced_by) {
                kept.set.insert(list);
                kept.indices[at] = Some(directory.add_list(&groups));
                kept.shown[at] = Some(new);
            }
        }
        kept.of_groups = compiled(directory, &kept.indices);
        kept
    }

    /// Returns whether this list was removed from the configuration, but stays in force until its
    /// replacement is compiled.
    pub(super) fn has(&self, list: ListId) -> bool {
        self.set.contains(list)
    }
}

/// Returns the compiled lists of each group. `indices` are the indices in the directory of the
/// compiled lists.
fn compiled(directory: &Directory, indices: &[Option<usize>]) -> Vec<(String, ListSet)> {
    let of = |(group, lists): (&str, Vec<usize>)| {
        let in_force = indices
            .iter()
            .enumerate()
            .filter(|(_, index)| index.is_some_and(|index| lists.contains(&index)));
        (group.to_owned(), in_force.filter_map(|(at, _)| ListId::at(at)).collect())
    };
    directory.lists_of_groups().map(of).collect()
}

impl Policy {
    /// Returns whether removed lists stay in force because the lists that replace them are not
    /// compiled yet.
    pub fn has_stand_ins(&self) -> bool {
        !self.stand_ins.set.is_empty()
    }

    /// Returns whether a compiled block list with this name is in force for a group.
    fn used(&self, group: &str, list: &str) -> bool {
        let made = self.lists.as_ref().map_or(&[][..], |lists| &lists.making().lists);
        let at = made.iter().position(|one| one.name == list && one.blocks());
        let of_group = self.stand_ins.of_groups.iter().find(|(name, _)| name == group);
        at.and_then(ListId::at).zip(of_group).is_some_and(|(list, (_, set))| set.contains(list))
    }

    /// Returns the lists that decide instead of all lists of `in_force`; `None` if these decide.
    /// `look` looks a name up. If removed lists do not block the name, only the others decide.
    #[inline]
    pub(super) fn rest(
        &self,
        in_force: &ListSet,
        look: impl FnOnce(&ListSet) -> Decision,
    ) -> Option<ListSet> {
        if self.stand_ins.set.is_empty() {
            return None;
        }
        match look(in_force) {
            Decision::Blocked | Decision::Rewritten => None,
            Decision::None | Decision::Allowed => Some(in_force.without(&self.stand_ins.set)),
        }
    }

    pub(super) fn lists_for(&self, asked: &Asked<'_>) -> Option<(&Lists, &ListSet)> {
        let in_force =
            self.in_force.get(usize::from(asked.profile)).filter(|set| !set.is_empty())?;
        Some((self.lists.as_deref()?, in_force))
    }

    /// Returns whether lists allow the name.
    pub(super) fn is_allowed(&self, asked: &Asked<'_>, scratch: &mut list::Scratch) -> bool {
        self.lists_for(asked).is_some_and(|(lists, in_force)| {
            let question = self.to_lists(asked, &asked.qname);
            let rest = self.rest(in_force, |all| lists.lookup(question, all, scratch).decision());
            lists.lookup(question, rest.as_ref().unwrap_or(in_force), scratch).decision()
                == Decision::Allowed
        })
    }

    /// Returns the index in the configuration of the list that responses and the query log show for
    /// a compiled list.
    pub(super) fn shown_place_of(&self, list: ListId) -> Option<usize> {
        self.stand_ins.shown.get(list.place()).copied().flatten()
    }

    pub(super) fn list_note(&self, list: ListId) -> u16 {
        self.shown_place_of(list).map_or(0, |place| (FIRST_LIST_NOTE + place) as u16)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Cursor, Result};
    use std::sync::Arc;

    use avocet_config::Config;
    use avocet_config::policy::ListConfig;

    use super::*;
    use crate::policy::Parts;
    use crate::policy::load::from_texts;

    fn config(text: &str) -> PolicyConfig {
        Config::from_text(None, text, &BTreeMap::new()).unwrap().policy
    }

    fn list(name: &str, kind: &str) -> String {
        format!("[[list]]\nname = \"{name}\"\nfile = \"{name}.txt\"\nkind = \"{kind}\"\n")
    }

    fn group(name: &str, lists: &str) -> String {
        format!("[[group]]\nname = \"{name}\"\nlists = [{lists}]\n")
    }

    /// Changes the configuration several times. Checks which lists then stand in: the place of the
    /// removed list, the place of the list that replaces it, and the groups.
    #[track_caller]
    fn check(configurations: &[&[&str]], expected: &[(usize, usize, &[&str])]) {
        let mut parts = Parts::new([1; 32]);
        let mut policy: Option<Policy> = None;
        for text in configurations {
            let config = config(&text.concat());
            if policy.is_none() {
                let text = |_: &ListConfig| Result::Ok(Some(Cursor::new("ads.example\n")));
                parts.lists = from_texts(&config, [1; 32], text).unwrap().map(Arc::new);
            }
            policy = Policy::build(&config, &[], &parts, policy.as_ref()).unwrap();
        }
        let kept = &policy.as_ref().unwrap().stand_ins;
        let in_groups = |list: ListId| {
            let groups = kept.of_groups.iter().filter(move |(_, set)| set.contains(list));
            groups.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
        };
        let found: Vec<_> = (0..kept.shown.len())
            .filter_map(ListId::at)
            .filter(|list| kept.has(*list))
            .map(|list| (list.place(), kept.shown[list.place()].unwrap(), in_groups(list)))
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|(at, new, groups)| (*at, *new, groups.to_vec())).collect();
        assert_eq!(found, expected, "{configurations:?}");
    }

    #[test]
    fn a_removed_block_list_stays_until_a_new_one_is_compiled() {
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| list(name, "block"));
        let allow = list("c", "allow");
        let all: &[&str] = &["default"];
        check(&[&[&a, &b], &[&c, &b]], &[(0, 0, all)]);
        check(&[&[&a, &b], &[&c, &d]], &[(0, 0, all), (1, 0, all)]);
        check(&[&[&a, &b], &[&c]], &[(0, 0, all), (1, 0, all)]);
        check(&[&[&a, &b], &[&allow, &b, &d]], &[(0, 2, all)]);
        check(&[&[&a, &b], &[&allow, &b]], &[]);
        check(&[&[&a, &b], &[&a, &b, &c]], &[]);
        check(&[&[&a, &allow], &[&a, &list("d", "allow")]], &[]);
        check(&[&[&a, &allow], &[&a, &d]], &[]);
        // Further changes before the compilation.
        check(&[&[&a, &b], &[&c, &b], &[&d, &b]], &[(0, 0, all)]);
        check(&[&[&a, &b], &[&c, &b], &[&b], &[&c, &b]], &[]);
        check(&[&[&a, &b], &[&c, &b], &[&a, &b, &c]], &[]);
    }

    #[test]
    fn a_removed_list_stays_only_for_groups_that_used_it_and_use_the_new_one() {
        let [a, b, c] = ["a", "b", "c"].map(|name| list(name, "block"));
        let groups = |kids: &str, default: &str| group("kids", kids) + &group("default", default);
        let before = groups("\"a\"", "\"b\"");
        let check = |after: &str, expected: &[(usize, usize, &[&str])]| {
            check(&[&[&a, &b, &before], &[&c, &b, after]], expected);
        };
        check(&groups("\"c\"", "\"b\""), &[(0, 0, &["kids"])]);
        check(&groups("\"c\"", "\"c\""), &[(0, 0, &["kids"])]);
        check(&groups("\"b\"", "\"c\""), &[]);
        check(&groups("\"b\"", "\"b\""), &[]);
        check(&group("default", "\"b\""), &[]);
        check("", &[]);
    }
}
