//! PowerDNS: the authoritative server (`pdns.conf`) and the Recursor (`recursor.conf` or
//! `recursor.yml`), by the settings in their documentation.

mod authoritative;
mod catalog;
mod database;
mod metadata;
mod recursor;
mod recursor_yaml;
mod rpz;
mod settings;

use crate::draft::Draft;
use crate::source::{Error, Files, malformed};
use settings::Setting;

/// Settings that only the authoritative server has.
const AUTHORITATIVE: &[&str] = &[
    "allow-axfr-ips",
    "autosecondary",
    "bind-config",
    "disable-axfr",
    "dnsupdate",
    "launch",
    "launch+",
    "primary",
    "secondary",
];
/// Settings that only the Recursor has.
const RECURSOR: &[&str] = &[
    "allow-from",
    "allow-from-file",
    "auth-zones",
    "config-dir",
    "etc-hosts-file",
    "export-etc-hosts",
    "forward-zones",
    "forward-zones-file",
    "forward-zones-recurse",
    "hint-file",
    "lua-config-file",
    "max-cache-ttl",
    "quiet",
    "serve-rfc1918",
];
/// Sections of `recursor.yml`.
const SECTIONS: &[&str] = &["dnssec", "incoming", "logging", "outgoing", "recursor", "webservice"];

/// Reads a configuration.
///
/// # Errors
/// The file cannot be read, or is not a configuration of PowerDNS.
pub(crate) fn read(path: &str, files: &dyn Files, draft: &mut Draft) -> Result<(), Error> {
    if is_yaml(path, files)? {
        let gathered = recursor_yaml::gather(path, files, draft)?;
        recursor::apply(gathered.settings, path, files, draft);
        gathered.policy_zones.into_iter().for_each(|zone| zone.add(draft));
        return Ok(());
    }
    let settings = settings::gather(path, files, draft)?;
    let count =
        |known: &[&str]| settings.iter().filter(|one| known.contains(&one.key.as_str())).count();
    let has_backend = settings.iter().any(|one| one.key.starts_with("gsqlite3"));
    let file = path.rsplit('/').next().unwrap_or(path);
    let is_recursor = file.starts_with("recursor") && !settings.is_empty();
    let authoritative = count(AUTHORITATIVE) + usize::from(has_backend);
    match (authoritative, count(RECURSOR) + usize::from(is_recursor)) {
        (0, 0) => Err(malformed(path, "no settings of PowerDNS found")),
        (authoritative, recursor) if authoritative >= recursor => {
            authoritative::apply(settings, path, files, draft)
        }
        _ => {
            recursor::apply(settings, path, files, draft);
            Ok(())
        }
    }
}

/// Returns whether a file is YAML, which its name or the sections of `recursor.yml` show.
fn is_yaml(path: &str, files: &dyn Files) -> Result<bool, Error> {
    if path.ends_with(".yml") || path.ends_with(".yaml") {
        return Ok(true);
    }
    let octets = crate::source::octets(files, path, crate::source::MAX_TEXT)?;
    let text = String::from_utf8_lossy(&octets);
    let is_section =
        |line: &str| line.trim_end().strip_suffix(':').is_some_and(|name| SECTIONS.contains(&name));
    Ok(text.lines().any(is_section))
}

/// Removes a setting from the list and returns it.
fn take(settings: &mut Vec<Setting>, key: &str) -> Option<Setting> {
    let at = settings.iter().position(|one| one.key == key)?;
    Some(settings.remove(at))
}

/// Returns a path that is resolved relative to the directory of the configuration.
fn beside(path: &str, written: &str) -> String {
    match path.rsplit_once('/') {
        Some((directory, _)) if !written.starts_with('/') => format!("{directory}/{written}"),
        _ => written.to_owned(),
    }
}

/// Sets the listeners to the addresses of `local-address`, with the port of `local-port`.
fn listeners(settings: &mut Vec<Setting>, any: &[&str], draft: &mut Draft) {
    let port = take(settings, "local-port").and_then(|port| port.value.parse().ok()).unwrap_or(53);
    let written = take(settings, "local-address");
    let former = take(settings, "local-ipv6");
    let mut addresses = Vec::new();
    let mut places = Vec::new();
    for setting in written.iter().chain(&former) {
        for item in setting.items() {
            let bare = item.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            match bare.unwrap_or(item).parse() {
                Ok(ip) => addresses.push(std::net::SocketAddr::new(ip, port)),
                Err(_) => match item.parse() {
                    Ok(address) => addresses.push(address),
                    Err(_) => draft.note(setting, format!("{item:?} is no address")),
                },
            }
        }
        places.push(setting.place.clone());
    }
    if addresses.is_empty() {
        addresses = any
            .iter()
            .filter_map(|ip| ip.parse().ok())
            .map(|ip| std::net::SocketAddr::new(ip, port))
            .collect();
        places.push("the default of PowerDNS".to_owned());
    }
    draft.listen(&addresses, &places.join(", "));
}

/// Notes the settings that were not read. Settings in `quiet` do not affect answers.
fn leave(settings: Vec<Setting>, quiet: &[&str], draft: &mut Draft) {
    for setting in settings {
        let key = setting.key.as_str();
        let is_quiet = quiet.iter().any(|known| match known.strip_suffix('*') {
            Some(start) => key.starts_with(start),
            None => *known == key,
        });
        match is_quiet {
            true => draft.quiet(key),
            false => draft.note(&setting, "there is no such setting here"),
        }
    }
}
