//! The look-up of the targets of ALIAS records, for zones that are published with the addresses of
//! the targets. It runs on a thread of its own while look-ups are due: a target that is not
//! resolved delays no zone. The targets are resolved without the policy, as for the answers.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::zone_files::{AddressLookUp, AwaitedAddresses};
use avocet_wire::{FoldedName, Rtype};
use avocet_worker::state::Shared;

use super::Running;
use super::conditions::Condition;
use crate::error::LookupError;
use crate::trace::own_questions;

/// Maximum number of targets that are looked up at the same time. The look-up of a target whose
/// servers do not answer takes twelve seconds.
const MAX_THREADS: usize = 8;
/// Time in which the look-ups of a zone begin. Other zones wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(60);
/// The log line after a panic of the thread.
const FAULT: &str = "a panic ended the look-up of the addresses behind ALIAS records; it is done \
                     again when it is next due";

/// Looks up the targets that are due, unless this is in progress.
pub(super) fn look_up(running: &Arc<Running>) {
    let is_looking_up = &running.zone_watch.is_looking_up;
    if is_looking_up.load(Ordering::Acquire) {
        return;
    }
    let zones = running.reloader.zones.awaiting_addresses(wall_secs());
    if zones.is_empty() {
        return;
    }
    is_looking_up.store(true, Ordering::Release);
    let looking = running.clone();
    let work = move || {
        looking.conditions.contain(Condition::Threads, FAULT, || {
            zones.iter().for_each(|zone| look_up_zone(&looking, zone));
        });
        looking.zone_watch.is_looking_up.store(false, Ordering::Release);
    };
    if let Err(error) = thread::Builder::new().name("aliases".to_owned()).spawn(work) {
        tracing::error!(%error, "cannot start a thread that looks up the targets of ALIAS records");
        is_looking_up.store(false, Ordering::Release);
    }
}

/// Looks up the targets of a zone, several at the same time. Targets for which there is no time
/// left count as not resolved.
fn look_up_zone(running: &Running, zone: &AwaitedAddresses) {
    let (next, begun_at) = (AtomicUsize::new(0), Instant::now());
    let look_up = || {
        let mut looked_up = Vec::new();
        while begun_at.elapsed() < PATIENCE
            && let Some(target) = zone.targets.get(next.fetch_add(1, Ordering::Relaxed))
        {
            looked_up.push(look_up_target(running, zone, target));
        }
        looked_up
    };
    let mut looked_up = thread::scope(|scope| {
        let count = zone.targets.len().min(MAX_THREADS);
        // Without further threads, this one looks up all targets.
        let further = (1..count).filter_map(|_| {
            thread::Builder::new().name("aliases".to_owned()).spawn_scoped(scope, look_up).ok()
        });
        let further: Vec<_> = further.collect();
        let mut all = look_up();
        for thread in further {
            all.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        all
    });
    let known: BTreeSet<_> = looked_up.iter().map(|one| one.target.clone()).collect();
    let rest = zone.targets.iter().filter(|target| !known.contains(*target));
    looked_up.extend(rest.map(|target| AddressLookUp::failed(target)));
    running.reloader.publish_addresses(&zone.id, looked_up, wall_secs());
}

fn look_up_target(running: &Running, zone: &AwaitedAddresses, target: &[u8]) -> AddressLookUp {
    let found = addresses_of(&running.shared, target).inspect_err(|error| {
        tracing::debug!(%error, "zone {}: cannot look up the target of an alias", zone.id);
    });
    found.unwrap_or_else(|_| AddressLookUp::failed(target))
}

/// Returns the addresses of a target, none if it does not exist. Leaves out addresses that DNS64
/// made: only clients of this server reach them.
fn addresses_of(shared: &Shared, target: &[u8]) -> Result<AddressLookUp, LookupError> {
    let name = FoldedName::from_folded_unchecked(target);
    let (four, four_ttl_secs) = own_questions::records(shared, name, Rtype::A)?;
    let (six, six_ttl_secs) = own_questions::records(shared, name, Rtype::AAAA)?;
    let four = four.iter().filter_map(|data| <[u8; 4]>::try_from(&**data).ok().map(IpAddr::from));
    let state = shared.snapshot();
    let is_made = |six: &Ipv6Addr| {
        state.plan.translation().is_some_and(|dns64| dns64.translated(*six).is_some())
    };
    let six = six.iter().filter_map(|data| <[u8; 16]>::try_from(&**data).ok().map(Ipv6Addr::from));
    let six = six.filter(|six| !is_made(six)).map(IpAddr::from);
    let addresses: BTreeSet<IpAddr> = four.chain(six).collect();
    // A TTL of 0 means that the RRset has no records.
    let ttls = [four_ttl_secs, six_ttl_secs].into_iter().filter(|secs| *secs > 0);
    let ttl_secs = ttls.min().unwrap_or(0);
    Ok(AddressLookUp::found(target, &addresses, ttl_secs))
}
