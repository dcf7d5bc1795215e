//! The texts of `avocet zone pool` and `avocet zone what-if`.

use avocet_control::pools::{
    AddressControl, PoolAddress, PoolAnswer, PoolAnswers, PoolStatus, PoolsReport, ProbeReport,
};

use crate::span::ago;

/// Returns the text of `avocet zone pool list`: a line for each pool and address.
pub(crate) fn pools_text(report: &PoolsReport) -> String {
    if report.pools.is_empty() {
        return "the configuration has no pools".to_owned();
    }
    report.pools.iter().map(pool_text).collect::<Vec<_>>().join("\n")
}

/// Returns the text of `avocet zone pool show`, with the last probes of each address.
pub(crate) fn histories_text(report: &PoolsReport) -> String {
    let with_history = |pool: &PoolStatus| {
        let lines = pool.addresses.iter().flat_map(|address| {
            std::iter::once(address_text(address)).chain(address.history.iter().map(probe_text))
        });
        std::iter::once(head_text(pool)).chain(lines).collect::<Vec<_>>().join("\n")
    };
    report.pools.iter().map(with_history).collect::<Vec<_>>().join("\n")
}

/// Returns the text of `avocet zone what-if`.
pub(crate) fn answers_text(answers: &PoolAnswers) -> String {
    if answers.pools.is_empty() {
        return "no pool has this address".to_owned();
    }
    let line = |PoolAnswer { name, now, then, all_down }: &PoolAnswer| {
        let list = |addresses: &[String]| match addresses {
            [] => "no address".to_owned(),
            addresses => addresses.join(" "),
        };
        let by = if *all_down { " (no address is healthy: when-all-down)" } else { "" };
        format!("{name}: now {}; then {}{by}", list(now), list(then))
    };
    answers.pools.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn pool_text(pool: &PoolStatus) -> String {
    let lines = pool.addresses.iter().map(address_text);
    std::iter::once(head_text(pool)).chain(lines).collect::<Vec<_>>().join("\n")
}

fn head_text(pool: &PoolStatus) -> String {
    let PoolStatus { name, mode, probe, interval_secs, addresses, .. } = pool;
    let usable = addresses.iter().filter(|address| address.usable).count();
    format!(
        "pool {name}: {usable} of {} usable, mode {mode}, probe {probe} every {interval_secs} s",
        addresses.len()
    )
}

fn address_text(address: &PoolAddress) -> String {
    let mut text = format!("  {}: {}", address.address, address.state);
    if address.control != AddressControl::Auto {
        text += &format!(", {} by command", address.control);
    }
    if let Some(since) = address.since {
        text += &format!(", since {}", ago(Some(since)));
    }
    if address.probed_at != address.address {
        text += &format!(", probed at {}", address.probed_at);
    }
    if let Some(last) = address.history.first() {
        text += &format!(", last probe: {}", last.reason);
    }
    text
}

fn probe_text(probe: &ProbeReport) -> String {
    let ProbeReport { at, result, ms, reason } = probe;
    format!("    {}: {result} in {ms} ms, {reason}", ago(Some(*at)))
}
