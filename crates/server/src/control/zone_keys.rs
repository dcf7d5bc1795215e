//! The keys of zones that this server signs, for `avocet zone keys` and `sign`.

use avocet_config::name::shown;
use avocet_control::ControlError;
use avocet_control::zone_keys::{ZoneKey, ZoneKeys, ZoneKeysReport, ZoneSign};
use avocet_control::zones::ZoneFault;
use avocet_nameserver::zone_signing::{KeyReport, key_role};

use super::zones::find;
use crate::running::{self, Running};

/// Returns the keys of a zone.
pub(super) fn report(
    running: &Running,
    request: &ZoneKeys,
) -> Result<ZoneKeysReport, ControlError> {
    let found = find(running, &request.name, request.view.as_deref())?;
    let signing = running.reloader.zones.signing(&found.id);
    let signing = signing.ok_or_else(|| ZoneFault::NotSigned(found.id.to_string()))?;
    let key = |key: KeyReport| ZoneKey {
        tag: key.tag,
        algorithm: key.algorithm.to_owned(),
        role: key.role.to_owned(),
        state: key.state.to_owned(),
        since: key.since_secs,
        created: key.created_secs,
        dnskey: key.dnskey,
        ds: key.ds,
    };
    Ok(ZoneKeysReport {
        name: shown(&found.id.name),
        policy: signing.policy,
        keys: signing.keys.into_iter().map(key).collect(),
        ds: signing.ds,
        awaited_ds: signing.awaited_ds,
        overdue: signing.is_overdue,
        signatures_end: signing.expires_at_secs,
        next_event: signing.next_at_secs,
        made: signing.made,
        error: found.fault,
    })
}

/// Changes the keys of a zone as requested, and then signs the zone at once.
pub(super) fn sign(running: &Running, request: &ZoneSign) -> Result<ZoneKeysReport, ControlError> {
    let zones = &running.reloader.zones;
    let found = find(running, &request.name, request.view.as_deref())?;
    if zones.signing(&found.id).is_none() {
        return Err(ZoneFault::NotSigned(found.id.to_string()).into());
    }
    let refused = |error: String| ControlError::from(ZoneFault::Keys(error));
    if let Some(tag) = request.ds_published {
        zones.confirm_parent(&found.id, tag).map_err(|error| refused(error.to_string()))?;
    }
    if let Some(role) = &request.roll {
        let unknown = || refused(format!("expected csk, ksk or zsk, found {role:?}"));
        let role = key_role(role).ok_or_else(unknown)?;
        zones.roll_key(&found.id, role).map_err(|error| refused(error.to_string()))?;
    }
    running::zones::reload(running, Some(&found.id));
    report(running, &ZoneKeys { name: request.name.clone(), view: request.view.clone() })
}
