//! Answers requests about the clients that ask for access.

use avocet_control::access_request::{
    AccessRequest, RequestGrant, RequestList, RequestRefuse, RequestRefused, RequestsReport,
};
use avocet_control::policy::SwitchesChanged;
use avocet_control::{Control, ControlError, request};
use avocet_nameserver::clock::wall_secs;
use avocet_policy::rule::Scope;

use crate::running::Running;
use crate::running::access_requests::WaitingRequest;

/// Returns the requests that wait, the oldest first.
pub(super) fn list(running: &Running, request: &RequestList) -> RequestsReport {
    let waiting = running.requests.waiting(wall_secs()).into_iter();
    let waiting = waiting.filter(|one| is_of(running, one, request.group.as_deref()));
    RequestsReport { requests: waiting.map(|one| shown(running, one)).collect() }
}

/// Grants a request: filtering of the name ends for the client, for a while.
pub(super) fn grant(
    running: &Running,
    request: &RequestGrant,
) -> Result<SwitchesChanged, ControlError> {
    let found = find(running, request.id, request.group.as_deref())?;
    let changed = running.grant(request::Grant {
        name: found.name,
        scope: Scope::Client(found.client.to_string()),
        secs: u64::from(request.minutes) * 60,
    })?;
    running.requests.remove(found.id, wall_secs());
    Ok(changed)
}

/// Refuses a request, which is removed.
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

/// Reports whether a request comes from a client of a group, if one is given.
fn is_of(running: &Running, one: &WaitingRequest, group: Option<&str>) -> bool {
    let Some(group) = group else { return true };
    let state = running.shared.snapshot();
    let identity = state.policy.as_ref().map(|policy| policy.identify(one.client));
    identity.is_some_and(|identity| identity.groups.iter().any(|name| *name == *group))
}

fn shown(running: &Running, one: WaitingRequest) -> AccessRequest {
    let WaitingRequest { id, name, client, text, at } = one;
    let state = running.shared.snapshot();
    let client_name = state.policy.as_ref().map(|policy| policy.client_name(client));
    let client_name = client_name.filter(|name| *name != client.to_string());
    AccessRequest { id, name, client, client_name, text, at }
}
