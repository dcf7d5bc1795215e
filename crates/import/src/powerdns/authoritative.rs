//! The authoritative server of PowerDNS: its zones from the files of BIND and from databases of
//! SQLite.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::access::{self, ViewAccess};
use crate::bind;
use crate::draft::Draft;
use crate::hosted::{ArrayTable, ZoneFile};
use crate::networks::Networks;
use crate::source::{Error, Files};

use super::catalog::{self, CatalogRole};
use super::database::{self, Stored};
use super::metadata::{UpdateClients, is_network};
use super::settings::Setting;
use super::{beside, leave, listeners, take};

/// Settings that do not affect answers, or whose usual value is what Avocet does anyway.
const QUIET: &[&str] = &[
    "8bit-dns",
    "any-to-tcp",
    "api*",
    "axfr-*",
    "bind-*",
    "cache-ttl",
    "carbon-*",
    "chroot",
    "config-*",
    "consistent-backends",
    "control-console",
    "daemon",
    "default-api-rectify",
    "disable-*",
    "distributor-threads",
    "gsqlite3*",
    "guardian",
    "include-dir",
    "load-modules",
    "local-address-nonexist-fail",
    "log-*",
    "logging-facility",
    "loglevel*",
    "max-*",
    "module-dir",
    "negquery-cache-ttl",
    "non-local-bind",
    "overload-queue-length",
    "prevent-self-notification",
    "query-cache-ttl",
    "query-logging",
    "queue-limit",
    "receiver-threads",
    "retrieval-threads",
    "reuseport",
    "security-poll-suffix",
    "server-id",
    "setgid",
    "setuid",
    "signing-threads",
    "socket-dir",
    "tcp-*",
    "traceback-handler",
    "udp-*",
    "version-string",
    "webserver*",
    "write-pid",
    "xfr-*",
    "zone-cache-refresh-interval",
];

/// The clients that may send updates by default.
const LOOPBACK: [&str; 2] = ["127.0.0.0/8", "::1/128"];

/// Converts the settings, and the zones of all backends.
///
/// # Errors
/// A backend cannot be read.
pub(super) fn apply(
    mut settings: Vec<Setting>,
    path: &str,
    files: &dyn Files,
    draft: &mut Draft,
) -> Result<(), Error> {
    listeners(&mut settings, &["0.0.0.0", "::"], draft);
    let launched: Vec<Setting> =
        ["launch"].into_iter().filter_map(|key| take(&mut settings, key)).collect();
    let mut hosted = BTreeSet::new();
    let transfers = Transfers::take(&mut settings, draft);
    for backend in launched.iter().flat_map(Setting::items) {
        let (kind, instance) = backend.split_once(':').unwrap_or((backend, ""));
        let prefix = match instance {
            "" => kind.to_owned(),
            instance => format!("{kind}-{instance}"),
        };
        match kind {
            "bind" => {
                let Some(config) = take(&mut settings, &format!("{prefix}-config")) else {
                    draft.note(backend, "no `bind-config` names its configuration");
                    continue;
                };
                let config = beside(path, &config.value);
                let names = bind::read_zones(&config, files, draft)?;
                hosted.extend(names);
            }
            "gsqlite3" => {
                let Some(name) = take(&mut settings, &format!("{prefix}-database")) else {
                    draft.note(backend, "no `gsqlite3-database` names its file");
                    continue;
                };
                let path = beside(path, &name.value);
                let stored = database::read(&path, files, &transfers.updates, draft)?;
                hosted.extend(add_zones(stored, &transfers, draft));
            }
            _ => draft.note(
                format!("launch={backend}"),
                "its zones are not read: export each with `pdnsutil list-zone`, and name the file \
                 in `[[zone]]`",
            ),
        }
    }
    draft.set("resolver", "mode", "recurse", "for the targets of aliases alone");
    let zones: BTreeMap<String, Networks> =
        hosted.into_iter().map(|zone| (zone, Networks::any())).collect();
    let view = ViewAccess { clients: Networks::any(), zones, ..ViewAccess::default() };
    access::apply(&[view], "PowerDNS Authoritative Server resolves no names", draft);
    leave(settings, QUIET, draft);
    Ok(())
}

/// The settings of transfers that all zones share.
struct Transfers {
    allowed: Vec<String>,
    notified: Vec<String>,
    /// Whether transfers contain addresses in place of ALIAS records.
    expands_alias: bool,
    updates: UpdateClients,
}

impl Transfers {
    fn take(settings: &mut Vec<Setting>, draft: &mut Draft) -> Self {
        let mut lists = [Vec::new(), Vec::new()];
        let keys = ["allow-axfr-ips", "also-notify"];
        for (key, list) in keys.into_iter().zip(&mut lists) {
            let Some(setting) = take(settings, key) else { continue };
            for item in setting.items() {
                match item_of(item) {
                    Some(item) if !list.contains(&item) => list.push(item),
                    Some(_) => {}
                    None => draft.note(&setting, format!("{item:?} is no address")),
                }
            }
        }
        if let Some(setting) = take(settings, "disable-axfr") {
            draft.quiet("disable-axfr");
            if setting.is_on() {
                lists[0].clear();
            }
        }
        for key in [
            "primary",
            "secondary",
            "only-notify",
            "autosecondary",
            "default-soa-content",
            "default-ttl",
            "default-soa-edit",
            "expand-alias",
            "enable-lua-records",
            "trusted-notification-proxy",
        ] {
            let Some(setting) = take(settings, key) else { continue };
            match (key, setting.value.as_str()) {
                (_, "" | "no") | ("expand-alias" | "primary" | "secondary" | "default-ttl", _) => {
                    draft.quiet(key)
                }
                _ => draft.note(&setting, "no equivalent for all zones"),
            }
        }
        let expands = take(settings, "outgoing-axfr-expand-alias");
        let expands = expands.filter(|setting| !matches!(&*setting.value, "" | "no"));
        if expands.is_some() {
            draft.quiet("outgoing-axfr-expand-alias");
        }
        let [allowed, notified] = lists;
        let updates = update_clients(settings, draft);
        Self { allowed, notified, expands_alias: expands.is_some(), updates }
    }
}

/// Takes the settings of updates that all zones share.
fn update_clients(settings: &mut Vec<Setting>, draft: &mut Draft) -> UpdateClients {
    let written = take(settings, "dnsupdate");
    let is_on = written.clone().filter(Setting::is_on);
    if written.is_some() && is_on.is_none() {
        draft.quiet("dnsupdate");
    }
    if let Some(setting) = &is_on {
        let reason = "only zones with TSIG-ALLOW-DNSUPDATE can be updated: updates need a key";
        draft.note(setting, reason);
    }
    let mut networks: Vec<String> = LOOPBACK.into_iter().map(str::to_owned).collect();
    if let Some(setting) = take(settings, "allow-dnsupdate-from") {
        let (good, bad): (Vec<&str>, Vec<&str>) =
            setting.items().partition(|item| is_network(item));
        networks = good.into_iter().map(str::to_owned).collect();
        if is_on.is_none() {
            draft.quiet("allow-dnsupdate-from");
        }
        for item in bad {
            draft.note(&setting, format!("{item:?} is no address"));
        }
    }
    UpdateClients { is_on: is_on.is_some(), networks }
}

/// Returns an address or a network in the form of the configuration. An address with a port is in
/// brackets.
fn item_of(item: &str) -> Option<String> {
    let is_known = item.parse::<IpAddr>().is_ok()
        || item.parse::<ipnet::IpNet>().is_ok()
        || item.parse::<std::net::SocketAddr>().is_ok();
    is_known.then(|| item.to_owned())
}

/// Writes the table of each zone of a database, with a companion file for its records. Returns the
/// names of the zones.
fn add_zones(stored: Vec<Stored>, transfers: &Transfers, draft: &mut Draft) -> Vec<String> {
    let mut names = Vec::new();
    for zone in stored {
        if let CatalogRole::Member { catalog } = &zone.role {
            let reason = format!("the server transfers it, because the catalog {catalog} lists it");
            draft.note(&zone.origin, reason);
            names.push(zone.name);
            continue;
        }
        let mut table = ArrayTable::of("zone", &zone.origin);
        table.set("name", zone.name.as_str());
        if zone.role == CatalogRole::Producer {
            draft.quiet("records of catalogs, which the server writes");
        } else if zone.primaries.is_empty() {
            let path = draft.companion(&zone.name, ".zone", zone.text);
            table.set("file", path.as_str());
            let (name, origin) = (zone.name.clone(), zone.origin.clone());
            draft.hosted.zone_files.push(ZoneFile { zone: name, path, origin });
        } else {
            table.set_list("primaries", zone.primaries);
        }
        catalog::set(&mut table, &zone.role, draft);
        let both = |own: Vec<String>, common: &[String]| {
            let mut all = own;
            all.extend(common.iter().cloned());
            let mut kept: Vec<String> = Vec::new();
            all.into_iter().for_each(|one| {
                if !kept.contains(&one) {
                    kept.push(one);
                }
            });
            kept
        };
        let allowed = both(zone.allow_transfer, &transfers.allowed);
        if zone.has_alias && !allowed.is_empty() {
            let form = if transfers.expands_alias { "addresses" } else { "literal" };
            table.set("transfer-alias", form);
        }
        table.set_list("allow-transfer", allowed);
        let is_notifying = zone.is_notifying;
        let common: &[String] = if is_notifying { &transfers.notified } else { &[] };
        table.set_list("notify", both(zone.notify, common));
        table.set_list("allow-update", zone.allow_update);
        match zone.denial {
            Some(denial) => table.set("sign", policy(denial, &zone.origin, draft)),
            None if zone.is_signed => table.set("sign", true),
            None => {}
        }
        draft.hosted.add(table);
        names.push(zone.name);
    }
    names
}

/// Returns the name of the signing policy with this form of denial of existence.
fn policy(denial: &str, origin: &str, draft: &mut Draft) -> String {
    if !draft.hosted.has("signing-policy", denial) {
        let mut table = ArrayTable::of("signing-policy", format!("{origin}: NSEC3PARAM"));
        table.set("name", denial);
        table.set("denial", denial);
        draft.hosted.add(table);
    }
    denial.to_owned()
}
