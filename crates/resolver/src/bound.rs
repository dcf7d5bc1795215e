//! A plan in use by a resolver.

use std::sync::Arc;

use crate::plan::{Plan, Rule};

/// A plan and the numbers that its upstreams have in the resolver.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) plan: Arc<Plan>,
    pub(crate) ids: Vec<u16>,
}

impl Bound {
    /// The resolver's number of a rule's upstream.
    pub(crate) fn id(&self, rule: &Rule, place: u8) -> usize {
        usize::from(self.ids[usize::from(rule.upstreams[usize::from(place)])])
    }
}
