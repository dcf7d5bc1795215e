//! The table `domainmetadata`: transfers, updates and signing of single zones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use crate::draft::Draft;
use crate::hosted::zone_name;

use super::catalog::CatalogRole;
use super::database::Stored;

/// Kinds that do not affect answers, or whose usual value is what Avocet does anyway.
const QUIET: &[&str] = &[
    "API-RECTIFY",
    "IXFR",
    "PUBLISH-CDNSKEY",
    "PUBLISH-CDS",
    "SLAVE-RENOTIFY",
    "SOA-EDIT",
    "SOA-EDIT-API",
    "SOA-EDIT-DNSUPDATE",
];

/// A row of the table.
#[derive(Debug)]
pub(super) struct Metadata {
    pub(super) id: i64,
    /// The kind in upper case.
    pub(super) kind: String,
    pub(super) content: String,
}

/// The clients that may send updates according to the settings for all zones.
#[derive(Debug, Default)]
pub(super) struct UpdateClients {
    /// Whether the server takes updates at all.
    pub(super) is_on: bool,
    /// The networks of clients that may update any zone.
    pub(super) networks: Vec<String>,
}

/// The settings of one zone for updates.
#[derive(Default)]
struct UpdateAccess {
    networks: Vec<String>,
    keys: Vec<String>,
}

/// Reads the rows of all zones. Returns the names of the keys in use.
pub(super) fn apply(
    rows: &[Metadata],
    zones: &mut BTreeMap<i64, Stored>,
    is_key: &dyn Fn(&str) -> bool,
    updates: &UpdateClients,
    draft: &mut Draft,
) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let mut access: BTreeMap<i64, UpdateAccess> = BTreeMap::new();
    for row in rows {
        let Some(zone) = zones.get_mut(&row.id) else { continue };
        let what = format!("{}: {}", zone.origin, row.kind);
        if let CatalogRole::Member { catalog } = &zone.role {
            draft.note(what, format!("the settings of the catalog {catalog} apply"));
            continue;
        }
        let key = match row.kind.as_str() {
            "TSIG-ALLOW-AXFR" | "AXFR-MASTER-TSIG" | "TSIG-ALLOW-DNSUPDATE" => {
                match zone_name(&row.content).filter(|name| is_key(name)) {
                    Some(key) => key,
                    None => {
                        draft.note(what, format!("there is no key {:?}", row.content));
                        continue;
                    }
                }
            }
            _ => String::new(),
        };
        match row.kind.as_str() {
            "TSIG-ALLOW-AXFR" => zone.allow_transfer.push(format!("key {key}")),
            "AXFR-MASTER-TSIG" => {
                for primary in zone.primaries.iter_mut().filter(|one| !one.contains(" key ")) {
                    let _ = write!(primary, " key {key}");
                }
            }
            "TSIG-ALLOW-DNSUPDATE" if updates.is_on => {
                access.entry(row.id).or_default().keys.push(key.clone());
            }
            "ALLOW-DNSUPDATE-FROM" if updates.is_on && is_network(&row.content) => {
                access.entry(row.id).or_default().networks.push(row.content.clone());
            }
            "TSIG-ALLOW-DNSUPDATE" | "ALLOW-DNSUPDATE-FROM" if !updates.is_on => {
                draft.note(what, "`dnsupdate` is off: nobody updates the zone");
                continue;
            }
            _ => single(row, zone, &what, draft),
        }
        if !key.is_empty() {
            used.insert(key);
        }
    }
    for (id, access) in access {
        if let Some(zone) = zones.get_mut(&id) {
            allow_updates(access, zone, updates, draft);
        }
    }
    used
}

/// Reads a row that can be applied without the other rows of its zone.
fn single(row: &Metadata, zone: &mut Stored, what: &str, draft: &mut Draft) {
    let content = row.content.as_str();
    match row.kind.as_str() {
        "ALLOW-AXFR-FROM" if is_network(content) => zone.allow_transfer.push(content.to_owned()),
        "ALLOW-AXFR-FROM" if content.eq_ignore_ascii_case("AUTO-NS") => {
            draft.note(what, "AUTO-NS: write the addresses of the servers in `allow-transfer`");
        }
        "ALSO-NOTIFY"
            if content.parse::<IpAddr>().is_ok() || content.parse::<SocketAddr>().is_ok() =>
        {
            zone.notify.push(content.to_owned());
        }
        "ALLOW-AXFR-FROM" | "ALSO-NOTIFY" | "ALLOW-DNSUPDATE-FROM" => {
            draft.note(what, format!("{content:?} is no address"));
        }
        // The zone is transferred with its signatures and proofs.
        "PRESIGNED" if !zone.primaries.is_empty() || content == "0" => {
            draft.quiet("domainmetadata: PRESIGNED");
        }
        "PRESIGNED" => draft.note(
            what,
            "the zone is imported without signatures, because the database has no NSEC records: \
             transfer it from its signer, or set `sign`",
        ),
        "NSEC3PARAM" if zone.is_signed => nsec3(content, zone, what, draft),
        "NSEC3NARROW" if zone.is_signed && content != "0" => {
            draft.note(what, "the proofs are those of the zone, not of the queried name alone");
        }
        "NSEC3PARAM" | "NSEC3NARROW" => draft.quiet(format!("domainmetadata: {}", row.kind)),
        kind if QUIET.contains(&kind) => draft.quiet(format!("domainmetadata: {kind}")),
        _ => draft.note(what, "no equivalent for a zone"),
    }
}

/// Reads hash algorithm, flags, iterations and salt of NSEC3.
fn nsec3(content: &str, zone: &mut Stored, what: &str, draft: &mut Draft) {
    let words: Vec<&str> = content.split_whitespace().collect();
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    zone.denial = Some(if word(1) == "1" { "nsec3-opt-out" } else { "nsec3" });
    if !matches!(word(2), "0" | "") || !matches!(word(3), "-" | "") {
        draft.note(what, "no additional iterations and no salt here (RFC 9276)");
    }
}

/// Permits updates to clients that are in a network and have a key, as PowerDNS does.
fn allow_updates(
    access: UpdateAccess,
    zone: &mut Stored,
    updates: &UpdateClients,
    draft: &mut Draft,
) {
    let what = format!("{}: updates", zone.origin);
    if !zone.primaries.is_empty() || zone.role == CatalogRole::Producer {
        return draft.note(what, "the zone comes from other servers, or the server writes it");
    }
    if access.keys.is_empty() {
        return draft.note(what, "an address is no proof: add a key in `allow-update`");
    }
    let networks: BTreeSet<&String> = access.networks.iter().chain(&updates.networks).collect();
    if networks.is_empty() {
        draft.note(what, "no client may send them: PowerDNS has no network for them");
    }
    for key in &access.keys {
        zone.allow_update.extend(networks.iter().map(|network| format!("{network} key {key}")));
    }
}

/// Returns whether a text is an address or a network.
pub(super) fn is_network(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || text.parse::<IpNet>().is_ok()
}
