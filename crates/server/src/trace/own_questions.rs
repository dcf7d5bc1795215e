//! Resolves the names of hosts that the server itself must reach, such as the servers of lists, and
//! names whose records it publishes.
//!
//! These names are resolved like the names in client queries, with local records and the resolver,
//! but without policy, rate limit and `allow`. Otherwise, a list could block the updates of lists,
//! including its own correction, and a configuration that does not allow loopback could block all
//! of these names. A rule could block the parent of a signed zone, which would stop the replacement
//! of its keys.

use std::net::{IpAddr, Ipv4Addr};

use avocet_client::ClientError;
use avocet_client::stub::{addresses_in, ds_in, records_in};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::query::rehearsal::{At, Ended, Rehearsal};
use avocet_wire::{FoldedName, Rtype};

use crate::error::LookupError;
use crate::trace::{self, Resolution, TraceQuestion};
use avocet_worker::state::Shared;

/// Returns the addresses of a host, IPv4 first.
///
/// # Errors
/// The host has no known address.
pub(crate) fn addresses(shared: &Shared, host: &str) -> Result<Vec<IpAddr>, LookupError> {
    let (mut found, mut fault) = (Vec::new(), None);
    for rtype in ["A", "AAAA"] {
        match of_type(shared, host, rtype) {
            Ok(addresses) => found.extend(addresses),
            Err(error) => fault = Some(error),
        }
    }
    match fault {
        _ if !found.is_empty() => Ok(found),
        Some(fault) => Err(fault),
        None => Err(LookupError::NoAddress(host.to_owned())),
    }
}

/// Returns the data of the records of a name and a type, with their highest TTL in seconds. There
/// are none if the name does not exist.
///
/// # Errors
/// The name cannot be resolved.
pub(crate) fn records(
    shared: &Shared,
    name: FoldedName<'_>,
    rtype: Rtype,
) -> Result<(Vec<Vec<u8>>, u32), LookupError> {
    let host = name.to_buf().to_string();
    let asked = TraceQuestion::about(name.to_buf(), Some(rtype));
    let message = message_for(shared, &host, &asked)?;
    records_in(&message, rtype).map_err(|error| unanswered(host, &error))
}

/// Returns the data of the DS records of a zone, with the TTL in seconds that they have at the
/// parent.
///
/// # Errors
/// The name cannot be resolved, or the answer is bogus.
pub(crate) fn ds_records(
    shared: &Shared,
    zone: FoldedName<'_>,
) -> Result<(Vec<Vec<u8>>, u32), LookupError> {
    let host = zone.to_buf().to_string();
    let mut asked = TraceQuestion::about(zone.to_buf(), Some(Rtype::DS));
    // The DO bit requests the signatures, which contain the original TTL.
    asked.dnssec_ok = true;
    let message = message_for(shared, &host, &asked)?;
    ds_in(&message).map_err(|error| unanswered(host, &error))
}

fn unanswered(host: String, error: &ClientError) -> LookupError {
    match error {
        ClientError::Rcode(rcode) => LookupError::Rcode(host, *rcode),
        _ => LookupError::NoAnswer(host),
    }
}

fn of_type(shared: &Shared, host: &str, rtype: &str) -> Result<Vec<IpAddr>, LookupError> {
    let asked = TraceQuestion::read(host, Some(rtype))?;
    let message = message_for(shared, host, &asked)?;
    addresses_in(&message).map_err(|rcode| LookupError::Rcode(host.to_owned(), rcode))
}

/// Returns the message with the answer to a question about this host.
fn message_for(shared: &Shared, host: &str, asked: &TraceQuestion) -> Result<Vec<u8>, LookupError> {
    let state = shared.snapshot();
    let rehearsal = Rehearsal::new(
        (&shared.name_server, &state),
        IpAddr::from(Ipv4Addr::LOCALHOST),
        At::Now(wall_secs()),
    );
    match rehearsal.begin_without_policy(asked.question().view()) {
        Ended::Reply { message, .. } => Ok(message),
        Ended::Silent(_) => Err(LookupError::NoAnswer(host.to_owned())),
        // The question is about the name itself, or about the target of its local aliases.
        Ended::Wait(miss) => {
            let mut target = TraceQuestion::of(miss.question.view());
            target.dnssec_ok = asked.dnssec_ok;
            let Resolution { message, failure, .. } = trace::resolve(shared, &target)?;
            if let Some(failure) = failure {
                return Err(LookupError::Unresolved(host.to_owned(), failure.text));
            }
            Ok(message)
        }
    }
}
