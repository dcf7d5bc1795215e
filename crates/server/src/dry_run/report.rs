//! The result of a comparison: the queries for which two configurations have different outcomes.

use std::collections::BTreeMap;

use avocet_nameserver::policy::Treatment;

use super::side::{PastQuery, Sides, answer_of};

/// Maximum number of names, and maximum number of clients, that are kept for each kind of change:
/// some MiB.
const MAX_KEPT: usize = 50_000;

/// A name with queries that the new configuration treats differently, and the reason.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ChangedName {
    /// QNAME.
    pub name: String,
    /// The rule or list; empty if none applies any more.
    pub why: String,
}

/// The queries with one kind of change.
#[derive(Default, Debug)]
pub struct Changes {
    /// All queries with this change.
    pub queries: u64,
    /// The number of queries by name.
    pub names: BTreeMap<ChangedName, u64>,
    /// The number of queries by client.
    pub clients: BTreeMap<String, u64>,
    /// Queries for names that are not kept, because there are too many names.
    pub unlisted: u64,
}

impl Changes {
    fn count(&mut self, name: ChangedName, client: String, queries: u64) {
        self.queries += queries;
        if self.names.len() < MAX_KEPT || self.names.contains_key(&name) {
            *self.names.entry(name).or_default() += queries;
        } else {
            self.unlisted += queries;
        }
        if self.clients.len() < MAX_KEPT || self.clients.contains_key(&client) {
            *self.clients.entry(client).or_default() += queries;
        }
    }
}

/// The result of all queries.
#[derive(Default, Debug)]
pub struct DryRunReport {
    /// The number of queries that were evaluated.
    pub queries: u64,
    /// Queries without a known answer.
    pub without_answer: u64,
    /// Queries that were not evaluated: they have no name, or no class or type that a policy
    /// applies to.
    pub left_out: u64,
    /// Queries that only the new configuration blocks.
    pub newly_blocked: Changes,
    /// Queries that the present configuration blocks, and that the new one passes.
    pub freed: Changes,
    /// Queries with another change.
    pub otherwise_changed: Changes,
}

impl DryRunReport {
    /// Evaluates a group of equal queries with both configurations, and adds it to the counts.
    pub fn judge(&mut self, query: &PastQuery<'_>, sides: &mut Sides) {
        let Sides { now, then } = sides;
        let known = answer_of(query);
        let answer = query.answer.or(known.as_deref());
        self.queries += query.queries;
        self.without_answer += if answer.is_none() { query.queries } else { 0 };
        let (before, after) = (now.outcome(query, answer), then.outcome(query, answer));
        if before.treatment == after.treatment {
            return;
        }
        let client = then.client_name(query.client).or_else(|| now.client_name(query.client));
        let client = client.unwrap_or_else(|| query.client.to_string());
        let changes = match (before.treatment, after.treatment) {
            (_, Treatment::Block) => &mut self.newly_blocked,
            (Treatment::Block, Treatment::Pass) => &mut self.freed,
            _ => &mut self.otherwise_changed,
        };
        let name = ChangedName { name: query.name.to_string(), why: after.why };
        changes.count(name, client, query.queries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_limit_are_counted_and_not_kept() {
        let mut changes = Changes::default();
        let name = |number: usize| ChangedName { name: format!("n{number}."), why: String::new() };
        for number in 0..MAX_KEPT + 3 {
            changes.count(name(number), format!("client {number}"), 2);
        }
        changes.count(name(0), "client 0".to_owned(), 5);
        assert_eq!((changes.names.len(), changes.clients.len()), (MAX_KEPT, MAX_KEPT));
        assert_eq!((changes.queries, changes.unlisted), (2 * MAX_KEPT as u64 + 11, 6));
        assert_eq!(changes.names[&name(0)], 7);
    }
}
