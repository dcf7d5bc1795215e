//! Answers the control requests about requests for access from the block page.

use avocet_control::access_request::{
    AccessRequest, RequestGrant, RequestList, RequestRefuse, RequestRefused, RequestsReport,
};
use avocet_control::policy::SwitchesChanged;
use avocet_control::{Control, ControlError, request};
use avocet_nameserver::clock::wall_secs;
use avocet_policy::rule::Scope;

use crate::running::Running;
use crate::running::access_requests::WaitingRequest;

/// Returns the waiting requests, the oldest first.
pub(super) fn list(running: &Running, request: &RequestList) -> RequestsReport {
    let waiting = running.requests.waiting(wall_secs()).into_iter();
    let waiting = waiting.filter(|one| is_of(running, one, request.group.as_deref()));
    RequestsReport { requests: waiting.map(|one| shown(running, one)).collect() }
}

/// Grants a request: suspends filtering of the name for the client for a while.
pub(super) fn grant(
    running: &Running,
    request: &RequestGrant,
) -> Result<SwitchesChanged, ControlError> {
    let found = find(running, request.id, request.group.as_deref())?;
    let scope = match found.configured {
        Some(name) => Scope::Client(name),
        None => Scope::Address(found.client),
    };
    let changed = running.grant(request::Grant {
        name: found.name,
        scope,
        secs: u64::from(request.minutes) * 60,
    })?;
    running.requests.remove(found.id, wall_secs());
    Ok(changed)
}

/// Refuses a request and removes it.
pub(super) fn refuse(
    running: &Running,
    request: &RequestRefuse,
) -> Result<RequestRefused, ControlError> {
    let found = find(running, request.id, request.group.as_deref())?;
    running.requests.remove(found.id, wall_secs());
    Ok(RequestRefused { request: shown(running, found) })
}

fn find(running: &Running, id: u32, group: Option<&str>) -> Result<WaitingRequest, ControlError> {
    let mut waiting = running.requests.waiting(wall_secs()).into_iter();
    let found = waiting.find(|one| one.id == id && is_of(running, one, group));
    found.ok_or(ControlError::UnknownRequest(id))
}

/// Returns whether a request comes from a client of a group, or true if no group is given. The
/// client must have been in the group at the time of its request. It must also be in the group now,
/// unless its address belongs to another client now.
fn is_of(running: &Running, one: &WaitingRequest, group: Option<&str>) -> bool {
    let Some(group) = group else { return true };
    let is_among = |groups: &[String]| groups.iter().any(|name| *name == *group);
    let state = running.shared.snapshot();
    let Some(policy) = &state.policy else { return false };
    let now = policy.identify(one.client);
    let has_moved = one.configured.is_some() && now.client != one.configured;
    is_among(&one.groups) && (has_moved || is_among(&now.groups))
}

fn shown(running: &Running, one: WaitingRequest) -> AccessRequest {
    let WaitingRequest { id, name, client, configured, groups: _, text, at } = one;
    let learned = || {
        let state = running.shared.snapshot();
        let name = state.policy.as_ref()?.client_name(client);
        Some(name).filter(|name| *name != client.to_string())
    };
    let client_name = configured.or_else(learned);
    AccessRequest { id, name, client, client_name, text, at }
}
