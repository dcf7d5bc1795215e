//! The clients of a configuration without lists and rules, which has no policy that knows them.

use avocet_nameserver::snapshot::Snapshot;
use avocet_policy::client::Clients;

/// Returns the clients of a snapshot without a policy; `None` if they cannot be built.
pub(crate) fn without_policy(state: &Snapshot) -> Option<Clients> {
    let directory = state.config.policy.directory().ok()?;
    let clients = Clients::build(directory, &[], Vec::new()).ok()?;
    clients.with_neighbours(&state.parts.neighbours).ok()
}
