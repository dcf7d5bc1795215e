//! A plan in use by a resolver.

use std::sync::Arc;

use crate::exchange::endpoint::EndpointId;
use crate::plan::{Plan, Route};

/// A plan, with the identifiers that the resolver has given to the plan's servers.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) plan: Arc<Plan>,
    /// The servers of each rule, in the order of the plan. With recursion, the list is empty unless
    /// there are server sets.
    pub(crate) servers: Vec<Box<[EndpointId]>>,
}

impl Bound {
    /// Returns the servers of a rule.
    pub(crate) fn servers(&self, route: Route) -> &[EndpointId] {
        self.servers.get(usize::from(route.rule)).map_or(&[], |servers| servers)
    }

    /// Returns whether a rule of the plan uses this server.
    pub(crate) fn names(&self, id: EndpointId) -> bool {
        self.servers.iter().any(|servers| servers.contains(&id))
    }
}
