//! The filters of `avocet log`, for the running server and for the files.

use std::net::{IpAddr, SocketAddr};

use avocet_config::Config;
use avocet_config::policy::parse_duration;
use avocet_control::log::LogFilter;
use avocet_control::why::QueryStage;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::metrics::STAGES;
use avocet_querylog::column::{Set, Text};
use avocet_querylog::{Condition, Filter, Outcome};

use crate::error::CommandError;
use crate::log_args::LogFilterArgs;
use crate::policy::{folded_name, rtype, unix_secs};

/// The port of an upstream that is given without one.
const DNS_PORT: u16 = 53;

/// Returns the filter of a request to the running server.
///
/// # Errors
/// An argument is malformed.
pub(crate) fn of_request(
    args: &LogFilterArgs,
    config: Option<&Config>,
) -> Result<LogFilter, CommandError> {
    let LogFilterArgs { name, under, client, rtype, rcode, rule, list, .. } = args.clone();
    let time = |text: &Option<String>| text.as_deref().map(|text| time(config, text)).transpose();
    let outcome = args.outcome.as_deref().map(stage).transpose()?;
    let upstream = args.upstream.as_deref().map(upstream).transpose()?;
    let (from, to) = (time(&args.from)?, time(&args.to)?);
    Ok(LogFilter { name, under, client, rtype, rcode, outcome, rule, list, upstream, from, to })
}

/// Returns the filter of a search in the files.
///
/// # Errors
/// An argument is malformed.
pub(crate) fn of_files(args: &LogFilterArgs, config: &Config) -> Result<Filter, CommandError> {
    let name = |text: &Option<String>| {
        let name = text.as_deref().map(folded_name).transpose()?;
        Ok::<_, CommandError>(name.map(|name| name.to_string()))
    };
    let is = |column, text: Option<String>| text.map(|text| Condition::Is(column, vec![text]));
    let qtype = args.rtype.as_deref().map(rtype).transpose()?;
    let upstream = args.upstream.as_deref().map(upstream).transpose()?;
    let conditions = [
        is(Text::Qname, name(&args.name)?),
        name(&args.under)?.map(Condition::Under),
        args.client.as_deref().map(client),
        is(Text::Qtype, qtype.map(|qtype| qtype.to_string())),
        is(Text::Rcode, args.rcode.as_ref().map(|rcode| rcode.to_ascii_uppercase())),
        args.outcome.as_deref().map(outcome).transpose()?,
        is(Text::Rule, args.rule.clone()),
        args.list.clone().map(|list| Condition::Has(Set::Lists, list)),
        is(Text::Upstream, upstream.map(|upstream| upstream.to_string())),
    ];
    let time_us = |text: &Option<String>| {
        let secs = text.as_deref().map(|text| time(Some(config), text)).transpose()?;
        Ok::<_, CommandError>(secs.map(|secs| secs.saturating_mul(1_000_000)))
    };
    let time_us = time_us(&args.from)?.unwrap_or(0)..time_us(&args.to)?.unwrap_or(u64::MAX);
    Ok(Filter { time_us, conditions: conditions.into_iter().flatten().collect() })
}

/// Parses a time: a duration before now, Unix seconds, or a date and time of day.
fn time(config: Option<&Config>, text: &str) -> Result<u64, CommandError> {
    if let Some(span) = parse_duration(text) {
        return Ok(wall_secs().saturating_sub(span.as_secs()));
    }
    match config {
        Some(config) => unix_secs(config, text),
        // The time zone is unknown.
        None => text.parse().map_err(|_| CommandError::NotUnixSecs(text.to_owned())),
    }
}

fn upstream(text: &str) -> Result<SocketAddr, CommandError> {
    let with_port = || text.parse().map(|ip| SocketAddr::new(ip, DNS_PORT)).ok();
    let address = text.parse().ok().or_else(with_port);
    address.ok_or_else(|| CommandError::NotAnAddress(text.to_owned()))
}

fn client(text: &str) -> Condition {
    match text.parse::<IpAddr>() {
        Ok(address) => Condition::Is(Text::Client, vec![address.to_string()]),
        Err(_) => Condition::Is(Text::Device, vec![text.to_owned()]),
    }
}

fn stage(word: &str) -> Result<QueryStage, CommandError> {
    let value = serde_json::Value::from(word);
    serde_json::from_value(value).map_err(|_| CommandError::NotAnOutcome(word.to_owned()))
}

/// Returns the condition for an outcome. A stage comes first, so that the word means the same as
/// for the running server.
fn outcome(word: &str) -> Result<Condition, CommandError> {
    let column = match (STAGES.contains(&word), Outcome::named(word)) {
        (true, _) => Text::Stage,
        (false, Some(_)) => Text::Outcome,
        (false, None) => return Err(CommandError::NotAnOutcome(word.to_owned())),
    };
    Ok(Condition::Is(column, vec![word.to_owned()]))
}
