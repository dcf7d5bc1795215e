//! The settings that AdGuard Home applies before blocked services and safe search: rewrites, and
//! exceptions in its lists.
//!
//! In Avocet, rules precede lists, so the rules generated for services and safe search must exclude
//! the names of rewrites and exceptions.

use std::collections::HashSet;

use crate::draft::{Draft, ListKind, Purpose};

const BADFILTER: &str = "badfilter";

/// Names that block rules with exceptions must not cover.
#[derive(Default)]
pub(super) struct Exceptions {
    /// Lines of a list in the format `adblock`.
    lines: Vec<String>,
    /// The names of the lists with these lines, after the lists were written.
    lists: Option<Vec<String>>,
    rewrites: HashSet<String>,
}

impl Exceptions {
    /// Adds the owner of a rewrite.
    pub(super) fn rewrite(&mut self, owner: &str) {
        let anchor = if owner.starts_with("*.") { "||" } else { "|" };
        let line = format!("{anchor}{}^", owner.to_ascii_lowercase());
        // A name with several addresses has several rewrites, but needs only one line.
        if self.rewrites.insert(line.clone()) {
            self.lines.push(line);
        }
    }

    /// Reports whether there are rewrites.
    pub(super) fn has_rewrites(&self) -> bool {
        !self.rewrites.is_empty()
    }

    /// Adds the exceptions among the user's rules. Skips exceptions that are disabled or concern
    /// rewrites.
    pub(super) fn rules(&mut self, rules: &[String]) {
        let rules = rules.iter().filter_map(|rule| rule.trim().strip_prefix("@@"));
        let all: Vec<Exception> = rules.map(Exception::read).collect();
        let off = all.iter().filter(|one| one.has(BADFILTER));
        let off: HashSet<(&str, Vec<&str>)> =
            off.map(|one| (one.pattern, one.without(BADFILTER))).collect();
        let is_on = |one: &&Exception| {
            !one.has(BADFILTER)
                && !one.has("dnsrewrite")
                && !off.contains(&(one.pattern, one.modifiers.clone()))
        };
        self.lines.extend(all.iter().filter(is_on).map(Exception::line));
    }

    /// Returns a condition that the name is not excepted, to be appended to another condition.
    pub(super) fn but(&mut self, draft: &mut Draft) -> String {
        if self.lists.is_none() {
            self.lists = Some(self.write(draft));
        }
        let lists: Vec<String> =
            self.lists.iter().flatten().map(|list| format!("{list:?}")).collect();
        if lists.is_empty() { String::new() } else { format!(" && !list({})", lists.join(", ")) }
    }

    fn write(&self, draft: &mut Draft) -> Vec<String> {
        let in_force = |kind| {
            let lists = draft
                .lists
                .iter()
                .filter(move |list| list.kind == kind && list.purpose == Purpose::Groups);
            lists.map(|list| list.name.clone()).collect::<Vec<_>>()
        };
        let mut lists = in_force(ListKind::Allow);
        if in_force(ListKind::Block).iter().any(|list| list != super::USER_RULES) {
            let reason = "their exceptions (@@) do not take precedence over blocked services and \
                 safe search";
            draft.note("filters", reason);
        }
        if !self.lines.is_empty() {
            let origin = "user_rules, filtering.rewrites: names that take precedence over blocked \
                          services and safe search";
            lists.push(draft.condition_list("excepted names", &self.lines, origin));
        }
        lists
    }
}

/// A rule `@@PATTERN$MODIFIER,...`.
struct Exception<'a> {
    pattern: &'a str,
    modifiers: Vec<&'a str>,
}

impl<'a> Exception<'a> {
    fn read(rule: &'a str) -> Self {
        // A pattern between slashes may itself contain a dollar sign.
        let from = if rule.starts_with('/') { rule.rfind('/').unwrap_or(0) } else { 0 };
        let mark = rule.get(from..).and_then(|rest| rest.find('$')).map(|at| from + at);
        let (pattern, modifiers) =
            match mark.and_then(|at| Some((rule.get(..at)?, rule.get(at + 1..)?))) {
                Some((pattern, modifiers)) => (pattern, modifiers.split(',').collect()),
                None => (rule, Vec::new()),
            };
        Self { pattern, modifiers }
    }

    fn has(&self, modifier: &str) -> bool {
        self.modifiers
            .iter()
            .any(|written| written.split('=').next().is_some_and(|name| name.trim() == modifier))
    }

    fn without(&self, modifier: &str) -> Vec<&'a str> {
        self.modifiers.iter().copied().filter(|written| written.trim() != modifier).collect()
    }

    fn line(&self) -> String {
        if self.modifiers.is_empty() {
            return self.pattern.to_owned();
        }
        format!("{}${}", self.pattern, self.modifiers.join(","))
    }
}
