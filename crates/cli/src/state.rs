//! The texts of `avocet status` and `avocet reload`.

use avocet_control::certificates::{AuthorityStatus, CertificateStatus, RenewalStatus};
use avocet_control::lists::ListStatus;
use avocet_control::reload::Reloaded;
use avocet_control::status::{
    AuthorityQueries, DiscoveryStatus, OdohStatus, QueryCounts, ServerStatus, TransportQueries,
    UpstreamStatus,
};
use avocet_nameserver::clock::wall_secs;

use crate::log_text::Times;
use crate::output::entries;
use crate::span::{ago, left, span};
use crate::zone_text::zone_text;

/// Returns the text of `avocet status`.
pub(crate) fn text(status: &ServerStatus) -> String {
    let health = match status.warnings.len() {
        _ if !status.healthy => "a worker is stuck".to_owned(),
        0 => "healthy".to_owned(),
        1 => "running with 1 warning".to_owned(),
        count => format!("running with {count} warnings"),
    };
    let (up, started) = (span(status.uptime_secs), Times::of(None).secs(status.started_at));
    let file = status.configuration.as_deref().unwrap_or("no configuration file");
    let mut lines = vec![
        format!("avocet {}, {health}, up {up} (since {started} UTC), by {file}", status.version),
        format!("listens on {}, mode {}", status.listen.join(", "), status.mode),
        queries_text(&status.queries),
        transports_text(&status.transports),
    ];
    lines.extend(status.lists.iter().map(list_text));
    lines.extend(status.upstreams.iter().map(upstream_text));
    lines.extend(status.discoveries.iter().map(discovery_text));
    lines.extend(status.authorities.iter().map(authorities_text));
    lines.extend(status.zones.iter().map(zone_text));
    lines.extend(status.certificates.iter().map(certificate_text));
    lines.extend(status.odoh.iter().map(odoh_text));
    lines.extend(status.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.join("\n")
}

fn odoh_text(odoh: &OdohStatus) -> String {
    let OdohStatus { key_id, created_at, next_at } = odoh;
    let (created, next) = (ago(Some(*created_at)), left(*next_at));
    format!("answers oblivious queries: key {key_id}, drawn {created}, replaced in {next}")
}

fn queries_text(queries: &QueryCounts) -> String {
    let all = queries.all;
    let shares = [
        ("from-cache", queries.from_cache),
        ("local", queries.local),
        ("blocked", queries.blocked),
        ("rewritten", queries.rewritten),
        ("resolved", queries.resolved),
        ("failed", queries.failed),
        ("refused", queries.refused),
    ];
    let share = |(what, count): (&str, u64)| {
        let percent = count as f64 * 100.0 / all.max(1) as f64;
        format!("{what} {count} ({percent:.1} %)")
    };
    format!("{all} queries: {}", shares.map(share).join(", "))
}

fn list_text(list: &ListStatus) -> String {
    // A file has no time for the next fetch.
    let how = if list.next_at.is_none() { "read" } else { "fetched" };
    let looked = match list.succeeded_at {
        None => String::new(),
        at => format!(", {how} {}", ago(at)),
    };
    let force = match list.in_force {
        true => entries(list.entries),
        false => "not in force".to_owned(),
    };
    format!("list {}: {force}{looked}", list.name)
}

fn transports_text(transports: &[TransportQueries]) -> String {
    let counts = transports.iter().map(|one| format!("{} {}", one.transport, one.queries));
    format!("queries by transport: {}", counts.collect::<Vec<_>>().join(", "))
}

/// Returns the text of one certificate.
pub(crate) fn certificate_text(one: &CertificateStatus) -> String {
    let names = if one.names.is_empty() { one.file.clone() } else { one.names.join(", ") };
    let expiry = match one.not_after {
        Some(at) if at <= wall_secs() => "has expired".to_owned(),
        Some(at) => format!("expires in {}", left(at)),
        None if one.renewal.as_ref().is_some_and(|renewal| renewal.last_success.is_none()) => {
            "not obtained yet".to_owned()
        }
        None => "its dates cannot be read".to_owned(),
    };
    let at = match one.addresses.as_slice() {
        [] => "at no address".to_owned(),
        addresses => format!("at {}", addresses.join(", ")),
    };
    let fault = one.error.as_ref().map_or_else(String::new, |error| format!("\n  {error}"));
    let renewal = one.renewal.as_ref().map_or_else(String::new, renewal_text);
    let authority = one.authority.as_ref().map_or_else(String::new, authority_line);
    format!("certificate {names} ({}): {expiry}, {at}{renewal}{authority}{fault}", one.purpose)
}

/// Returns the line about the server's own authority that issued a certificate.
fn authority_line(one: &AuthorityStatus) -> String {
    format!("\n  from {}: SHA-256 {}, expires in {}", one.file, one.sha256, left(one.not_after))
}

/// Returns the text about the renewals of a certificate that the server obtains.
fn renewal_text(one: &RenewalStatus) -> String {
    let next = match (one.next_attempt, one.last_attempt) {
        (at, Some(last)) if at <= last => {
            format!("an attempt is running since {} s", wall_secs().saturating_sub(last))
        }
        (at, _) if at <= wall_secs() => "next attempt now".to_owned(),
        (at, _) => format!("next attempt in {}", left(at)),
    };
    let error = one.error.as_ref().map_or_else(String::new, |error| format!("\n  {error}"));
    let failures = match one.failures {
        0 => String::new(),
        count => format!(", {count} failures"),
    };
    format!("\n  from {}: {next}{failures}{error}", one.directory)
}

fn upstream_text(one: &UpstreamStatus) -> String {
    let rtt = one.rtt_ms.map_or_else(String::new, |rtt| format!(", {rtt} ms on average"));
    let name = one.name.as_ref().map_or_else(String::new, |name| format!("{name}@"));
    let fault = one.tls_error.as_ref().map_or_else(String::new, |fault| format!(", {fault}"));
    format!(
        "upstream {}://{name}{}: {}, {} queries, {} failures{rtt}{fault}",
        one.transport, one.address, one.state, one.queries, one.failures
    )
}

fn discovery_text(one: &DiscoveryStatus) -> String {
    let found = match (&one.designated, one.proof, one.strict) {
        (Some(designated), Some(proof), _) => format!("queries go to {designated} ({proof})"),
        (Some(designated), None, _) => format!("queries go to {designated}"),
        (None, _, false) => "queries in plain DNS".to_owned(),
        (None, _, true) => "no queries".to_owned(),
    };
    let error = one.error.as_ref().map_or_else(String::new, |error| format!(", {error}"));
    format!("discovery by {}: {found}{error}, next attempt in {}", one.upstream, left(one.next_at))
}

fn authorities_text(counts: &AuthorityQueries) -> String {
    let AuthorityQueries { queries, encrypted, probes_answered, probes_failed } = counts;
    let percent = *encrypted as f64 * 100.0 / (*queries).max(1) as f64;
    format!(
        "authoritative servers: {encrypted} of {queries} queries encrypted ({percent:.1} %), \
         {probes_answered} probes answered, {probes_failed} failed"
    )
}

/// Returns the text of `avocet reload`.
pub(crate) fn reload_text(reply: &Reloaded) -> String {
    let mut shown = "reloaded".to_owned();
    if !reply.restart_needed_for.is_empty() {
        shown += &format!("; a restart is needed for {}", reply.restart_needed_for.join(", "));
    }
    for (what, addresses) in
        [("opens", &reply.opens_at_restart), ("closes", &reply.closes_at_restart)]
    {
        if !addresses.is_empty() {
            let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            shown += &format!("; it {what} {}", addresses.join(", "));
        }
    }
    match reply.removed_text.as_str() {
        "" => shown,
        removed => format!("{shown}\nremoved: {removed}"),
    }
}
