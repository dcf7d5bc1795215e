//! The filters of `avocet log`, for the running server and for the files.

use std::net::SocketAddr;

use avocet_config::Config;
use avocet_config::policy::parse_duration;
use avocet_control::log::LogFilter;
use avocet_nameserver::clock::wall_secs;
use avocet_querylog::Filter;
use avocet_server::stored_filter;
use serde::de::DeserializeOwned;

use crate::error::CommandError;
use crate::log_args::LogFilterArgs;
use crate::policy::unix_secs;

/// The ports of upstreams whose scheme is given without a port: 853 for TLS and QUIC, 443 for
/// HTTPS.
const TLS_PORT: u16 = 853;
const HTTPS_PORT: u16 = 443;
/// The port of an upstream that is given with neither a scheme nor a port.
const DNS_PORT: u16 = 53;

/// Returns the filter of a request to the running server.
///
/// # Errors
/// An argument is malformed.
pub(crate) fn of_request(
    args: &LogFilterArgs,
    config: Option<&Config>,
) -> Result<LogFilter, CommandError> {
    let LogFilterArgs { name, under, contains, client, group, .. } = args.clone();
    let LogFilterArgs { rtype, rcode, rule, list, .. } = args.clone();
    let time = |text: &Option<String>| text.as_deref().map(|text| time(config, text)).transpose();
    let upstream = args.upstream.as_deref().map(upstream).transpose()?;
    let (from, to) = (time(&args.from)?, time(&args.to)?);
    // Stages take precedence over kinds of outcomes, because most of these names are both.
    let outcome = args.outcome.as_deref().and_then(of_word);
    let kind = args
        .outcome
        .as_deref()
        .filter(|_| outcome.is_none())
        .map(|word| of_word(word).ok_or_else(|| CommandError::NotAnOutcome(word.to_owned())));
    let (kind, device) = (kind.transpose()?, None);
    Ok(LogFilter {
        name,
        under,
        contains,
        client,
        device,
        group,
        rtype,
        rcode,
        outcome,
        kind,
        rule,
        list,
        upstream,
        from,
        to,
        within: None,
    })
}

/// Returns the filter of a search in the files.
///
/// # Errors
/// An argument is malformed.
pub(crate) fn of_files(args: &LogFilterArgs, config: &Config) -> Result<Filter, CommandError> {
    Ok(stored_filter(&of_request(args, Some(config))?)?)
}

/// Parses a time: a duration before now, Unix seconds, or a date and time of day.
///
/// # Errors
/// The text is none of these.
pub(crate) fn time(config: Option<&Config>, text: &str) -> Result<u64, CommandError> {
    if let Some(span) = parse_duration(text) {
        return Ok(wall_secs().saturating_sub(span.as_secs()));
    }
    match config {
        Some(config) => unix_secs(config, text),
        // The time zone is unknown without a configuration, so only Unix seconds are accepted.
        None => text.parse().map_err(|_| CommandError::NotUnixSecs(text.to_owned())),
    }
}

fn upstream(text: &str) -> Result<SocketAddr, CommandError> {
    let ports = [
        ("tls://", TLS_PORT),
        ("quic://", TLS_PORT),
        ("https://", HTTPS_PORT),
        ("h3://", HTTPS_PORT),
    ];
    let with_scheme =
        ports.into_iter().find_map(|(scheme, port)| Some((text.strip_prefix(scheme)?, port)));
    let (text, port) = with_scheme.unwrap_or((text, DNS_PORT));
    let with_port = || text.parse().map(|ip| SocketAddr::new(ip, port)).ok();
    let address = text.parse().ok().or_else(with_port);
    address.ok_or_else(|| CommandError::NotAnAddress(text.to_owned()))
}

/// Returns the value with this name in a closed set of values; `None` if there is none.
fn of_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(word.into()).ok()
}
