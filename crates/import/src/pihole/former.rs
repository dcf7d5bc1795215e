//! `setupVars.conf` and `pihole-FTL.conf`, the settings of version 5: lines `KEY=VALUE`.

use std::collections::BTreeMap;

use crate::draft::Draft;
use crate::source::{self, Error, malformed};

use super::{FORMER_SETTINGS, settings};

type Values<'a> = BTreeMap<&'a str, &'a str>;

fn values(text: &str) -> Values<'_> {
    let pairs = source::lines(text).filter(|(_, line)| !line.starts_with('#'));
    pairs
        .filter_map(|(_, line)| line.split_once('='))
        .map(|(key, value)| (key.trim(), value.trim()))
        .collect()
}

/// Keys that [`settings`] reads.
const READ: [&str; 12] = [
    "DNSMASQ_LISTENING",
    "REV_SERVER",
    "REV_SERVER_CIDR",
    "REV_SERVER_TARGET",
    "REV_SERVER_DOMAIN",
    "DNS_FQDN_REQUIRED",
    "DNSSEC",
    "BLOCKING_ENABLED",
    "DHCP_ACTIVE",
    "CONDITIONAL_FORWARDING",
    "WEBPASSWORD",
    "PIHOLE_DNS_",
];
/// Keys that [`resolver`] reads.
const READ_OF_RESOLVER: [&str; 7] = [
    "BLOCKINGMODE",
    "BLOCK_ICLOUD_PR",
    "BLOCK_IPV4",
    "BLOCK_IPV6",
    "BLOCK_TTL",
    "MOZILLA_CANARY",
    "RATE_LIMIT",
];

/// Notes the keys that are not read.
fn note_others(values: &Values<'_>, read: &[&str], draft: &mut Draft) {
    let is_read = |key: &str| {
        read.iter().any(|known| *known == key || known.ends_with('_') && key.starts_with(known))
    };
    let others = values.iter().filter(|(key, value)| !value.is_empty() && !is_read(key));
    others.for_each(|(key, _)| draft.quiet(*key));
}

/// Reads `setupVars.conf`.
pub(super) fn settings(text: &str, draft: &mut Draft) -> Result<(), Error> {
    let values = values(text);
    if values.is_empty() {
        return Err(malformed(FORMER_SETTINGS, "no settings found"));
    }
    note_others(&values, &READ, draft);
    if values.contains_key("WEBPASSWORD") {
        draft.note("WEBPASSWORD", "the web interface has no accounts of its own");
    }
    let text = |key: &str| values.get(key).copied().filter(|value| !value.is_empty());
    let is_on = |key: &str| matches!(text(key), Some("true" | "1"));
    let mut servers: Vec<(u32, &str)> = values
        .iter()
        .filter_map(|(key, server)| Some((key.strip_prefix("PIHOLE_DNS_")?.parse().ok()?, *server)))
        .collect();
    servers.sort_unstable();
    for (_, server) in servers.iter().filter(|(_, server)| !server.is_empty()) {
        draft.forward(".", server, "PIHOLE_DNS_n");
    }
    settings::all_addresses(
        53,
        ("DNSMASQ_LISTENING", text("DNSMASQ_LISTENING").unwrap_or_default()),
        draft,
    );
    if let (true, Some(network), Some(server)) =
        (is_on("REV_SERVER"), text("REV_SERVER_CIDR"), text("REV_SERVER_TARGET"))
    {
        settings::conditional(network, server, text("REV_SERVER_DOMAIN"), draft);
    }
    if is_on("DNS_FQDN_REQUIRED") {
        draft.needs_dot = Some("DNS_FQDN_REQUIRED".to_owned());
        settings::forget_dotless(draft);
        if let Some(domain) =
            text("PIHOLE_DOMAIN").filter(|domain| is_on("DHCP_ACTIVE") && *domain != "none")
        {
            draft.local_zone(domain, "PIHOLE_DOMAIN, DNS_FQDN_REQUIRED");
        }
    }
    if is_on("DNSSEC") {
        draft.note(
            "DNSSEC=true",
            "recursion validates here; what comes from forwarding is not validated",
        );
    }
    if text("BLOCKING_ENABLED") == Some("false") {
        draft.note(
            "BLOCKING_ENABLED=false",
            "lists are converted and active: pause filtering, or remove them",
        );
    }
    if is_on("DHCP_ACTIVE") {
        draft.note("DHCP_ACTIVE=true", "addresses are not assigned here (DHCP)");
    }
    if is_on("CONDITIONAL_FORWARDING") {
        draft.note(
            "CONDITIONAL_FORWARDING",
            "the format before version 5 is not supported: write a [[forward]]",
        );
    }
    Ok(())
}

/// Reads `pihole-FTL.conf`, the settings of the resolver.
pub(super) fn resolver(text: &str, draft: &mut Draft) {
    let values = values(text);
    note_others(&values, &READ_OF_RESOLVER, draft);
    let text = |key: &str| values.get(key).copied().filter(|value| !value.is_empty());
    let addresses: Vec<String> =
        ["BLOCK_IPV4", "BLOCK_IPV6"].into_iter().filter_map(text).map(str::to_owned).collect();
    if let Some(mode) = text("BLOCKINGMODE") {
        settings::block_answer(mode, addresses, "BLOCKINGMODE", draft);
    }
    if let Some(secs) = text("BLOCK_TTL").and_then(|text| text.parse().ok()) {
        draft.set_within(("policy", "block-ttl-secs"), secs, settings::TTL_RANGE, "BLOCK_TTL");
    }
    for (_, name, key) in settings::SIGNALS {
        match text(name).map(|text| text.to_ascii_lowercase().parse::<bool>()) {
            Some(Ok(is_on)) => draft.set("policy", key, is_on, name),
            Some(Err(_)) => draft.quiet(name),
            None => {}
        }
    }
    let limit = text("RATE_LIMIT").and_then(|text| text.split_once('/'));
    if let Some((Ok(count), Ok(interval))) =
        limit.map(|(count, interval)| (count.parse(), interval.parse()))
    {
        settings::limit_clients(count, interval, "RATE_LIMIT", draft);
    }
}
