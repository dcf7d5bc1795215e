//! Pools for `avocet zone pool`: their state, settings of operators, and answers if hosts were
//! down.

use std::net::{IpAddr, Ipv4Addr};

use avocet_config::name::{shown, typed_name};
use avocet_control::ControlError;
use avocet_control::pools::{
    AddressControl, AddressHealth, PoolAddress, PoolAnswer, PoolAnswers, PoolControl, PoolFault,
    PoolStatus, PoolsReport, PoolsWhatIf, ProbeOutcome, ProbeReport,
};
use avocet_nameserver::pools::LivePool;
use avocet_zone::pool::{
    AddressFamily, ChosenBy, ClientPlace, HealthState, MemberControl, PoolClient, PoolMasks,
    PoolMode, continent_of,
};

use crate::running::Running;
use crate::running::pool_state;
use crate::running::pool_watch::{PastProbe, ProbeResult, TargetKey};

/// Returns the state of one pool, or of all.
pub(super) fn report(running: &Running, name: Option<&str>) -> Result<PoolsReport, ControlError> {
    let wanted = name.map(folded).transpose()?;
    let pools = running.pools.pools();
    let is_wanted = |pool: &LivePool| wanted.as_ref().is_none_or(|name| *name == pool.config.name);
    let pools: Vec<_> =
        pools.iter().filter(|pool| is_wanted(pool)).map(|pool| state(running, pool)).collect();
    match (pools.is_empty(), name) {
        (true, Some(name)) => Err(PoolFault::UnknownPool(name.to_owned()).into()),
        _ => Ok(PoolsReport { pools, unsaved: None }),
    }
}

/// Sets an address of a pool, or all its addresses, up, down or draining by hand, or back to the
/// results of probes. Returns the state of the pool.
pub(super) fn control(
    running: &Running,
    request: &PoolControl,
) -> Result<PoolsReport, ControlError> {
    let name = folded(&request.name)?;
    let address = request.address.as_deref().map(address).transpose()?;
    let control = match request.control {
        AddressControl::Auto => MemberControl::Auto,
        AddressControl::Up => MemberControl::Up,
        AddressControl::Down => MemberControl::Down,
        AddressControl::Drain => MemberControl::Drain,
    };
    // The error for a pool that does not exist comes first.
    report(running, Some(&request.name))?;
    if !running.pools.control(&name, address, control) {
        let address = request.address.clone().unwrap_or_default();
        return Err(PoolFault::UnknownAddress(address).into());
    }
    running.shared.pool_waker.wake();
    // The state is saved before the reply: a restart right after the reply must find the setting.
    let unsaved =
        pool_state::save(&running.shared.snapshot().config.data.directory, &running.pools);
    let which = request.address.as_deref().unwrap_or("all addresses");
    tracing::info!(pool = shown(&name), control = control.name(), "{which} by command");
    Ok(PoolsReport { unsaved, ..report(running, Some(&request.name))? })
}

/// Returns the answers that the pools with one of the given addresses would give if these addresses
/// were down.
pub(super) fn what_if(
    running: &Running,
    request: &PoolsWhatIf,
) -> Result<PoolAnswers, ControlError> {
    let texts = request.down.split(',').map(str::trim);
    let down = texts.map(address).collect::<Result<Vec<_>, _>>()?;
    let client = request.client.as_deref().map_or(Ok(Ipv4Addr::LOCALHOST.into()), address)?;
    let snapshot = running.shared.snapshot();
    let country = snapshot.parts.countries.as_ref().and_then(|of| of.country(client));
    let place = ClientPlace { address: client, country, continent: country.and_then(continent_of) };
    let client = PoolClient { place, turn: 0 };
    let pools = running.pools.pools();
    let answers = pools.iter().filter_map(|pool| answer(pool, &down, &client)).collect();
    Ok(PoolAnswers { pools: answers })
}

fn answer(pool: &LivePool, down: &[IpAddr], client: &PoolClient) -> Option<PoolAnswer> {
    let (rule, masks) = (&pool.config.rule, pool.masks());
    let mut remaining = u64::MAX;
    for (position, member) in rule.members.iter().enumerate() {
        let at = TargetKey::of(&pool.config, position).map(|target| target.address);
        if down.contains(&member.address) || at.is_some_and(|at| down.contains(&at)) {
            remaining &= !(1 << position);
        }
    }
    if remaining == u64::MAX {
        return None;
    }
    let then = PoolMasks {
        healthy: masks.healthy & remaining,
        drained: masks.drained & remaining,
        ..masks
    };
    let mut all_down = false;
    let mut addresses = |masks: PoolMasks| -> Vec<String> {
        let families = [AddressFamily::V4, AddressFamily::V6];
        let choices = families.map(|family| rule.choose(masks, family, client));
        all_down = choices.iter().any(|choice| choice.by == ChosenBy::AllDown);
        choices
            .iter()
            .flat_map(|choice| choice.addresses(rule))
            .map(|one| one.to_string())
            .collect()
    };
    let (now, then) = (addresses(masks), addresses(then));
    Some(PoolAnswer { name: shown(&pool.config.name), now, then, all_down })
}

fn state(running: &Running, pool: &LivePool) -> PoolStatus {
    let config = &pool.config;
    let positions = 0..config.rule.members.len();
    let addresses = positions.filter_map(|position| member(running, pool, position)).collect();
    let mode = match config.rule.mode {
        PoolMode::All => "all",
        PoolMode::First => "first",
        PoolMode::Weighted(_) => "weighted",
        PoolMode::Rotate(_) => "rotate",
        PoolMode::Consistent(_) => "consistent",
        PoolMode::Nearest(_) => "nearest",
    };
    PoolStatus {
        name: shown(&config.name),
        mode: mode.to_owned(),
        probe: config.probe.kind.name().to_owned(),
        interval_secs: config.probe.interval_secs,
        ttl: config.ttl_secs,
        addresses,
    }
}

fn member(running: &Running, pool: &LivePool, position: usize) -> Option<PoolAddress> {
    let watched = running.pools.status(&pool.config, position)?;
    let status = watched.status;
    let [successes, failures, not_run] = status.probes;
    Some(PoolAddress {
        address: pool.config.rule.members.get(position)?.address.to_string(),
        probed_at: watched.target.shown(),
        state: match status.state {
            HealthState::Unknown => AddressHealth::Unknown,
            HealthState::Up => AddressHealth::Up,
            HealthState::Down => AddressHealth::Down,
        },
        control: match watched.control {
            MemberControl::Auto => AddressControl::Auto,
            MemberControl::Up => AddressControl::Up,
            MemberControl::Down => AddressControl::Down,
            MemberControl::Drain => AddressControl::Drain,
        },
        usable: pool.masks().healthy & 1 << position != 0,
        since: status.since_secs,
        changes: status.changes,
        successes,
        failures,
        not_run,
        history: status.past.iter().map(past).collect(),
    })
}

fn past(probe: &PastProbe) -> ProbeReport {
    ProbeReport {
        at: probe.at_secs,
        result: match probe.result {
            ProbeResult::Success(_) => ProbeOutcome::Success,
            ProbeResult::Failure(_) => ProbeOutcome::Failure,
            ProbeResult::NotRun(_) => ProbeOutcome::NotRun,
        },
        ms: probe.took_ms,
        reason: probe.result.reason().to_owned(),
    }
}

fn folded(name: &str) -> Result<Box<[u8]>, ControlError> {
    let wire = typed_name(name).map_err(|error| ControlError::InvalidName(error.to_string()))?;
    Ok(wire.to_ascii_lowercase().into())
}

fn address(text: &str) -> Result<IpAddr, ControlError> {
    text.parse().map_err(|_| PoolFault::NotAnAddress(text.to_owned()).into())
}
