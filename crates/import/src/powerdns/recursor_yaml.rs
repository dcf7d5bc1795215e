//! `recursor.yml`, with its keys converted to the settings of `recursor.conf`.

use serde_json::Value;

use crate::draft::Draft;
use crate::section::shown;
use crate::source::{Error, Files, MAX_TEXT, malformed, octets};
use crate::yaml;

use super::settings::Setting;

/// Keys with a different name in `recursor.conf`. Other names differ only in `_` instead of `-`.
const RENAMED: &[(&str, &str)] = &[
    ("dnssec.negative_trustanchors", "negative-trust-anchors"),
    ("dnssec.trustanchors", "trust-anchors"),
    ("dnssec.validation", "dnssec"),
    ("incoming.allow_from", "allow-from"),
    ("incoming.allow_from_file", "allow-from-file"),
    ("incoming.listen", "local-address"),
    ("incoming.port", "local-port"),
    ("outgoing.dont_query", "dont-query"),
    ("outgoing.source_address", "query-local-address"),
    ("packetcache.disable", "disable-packetcache"),
    ("recordcache.max_negative_ttl", "max-negative-ttl"),
    ("recordcache.max_ttl", "max-cache-ttl"),
    ("recursor.minimum_ttl_override", "minimum-ttl-override"),
    ("recursor.rpzs", "rpzs"),
    ("recordcache.serve_stale_extensions", "serve-stale-extensions"),
];
/// Sections whose keys do not affect answers.
const QUIET: &[&str] = &["carbon", "ecs", "logging", "nod", "snmp", "webservice"];

/// Returns the settings of a file, and of the files of `include_dir`.
///
/// # Errors
/// The file cannot be read, or is not YAML.
pub(super) fn gather(
    path: &str,
    files: &dyn Files,
    draft: &mut Draft,
) -> Result<Vec<Setting>, Error> {
    let mut settings = Vec::new();
    add(path, files, draft, &mut settings)?;
    let included: Vec<Setting> =
        settings.iter().filter(|one| one.key == "include-dir").cloned().collect();
    for setting in included.iter().filter(|one| !one.value.is_empty()) {
        let Some(names) = files.list(&setting.value) else {
            draft.note(setting, "there is no such directory");
            continue;
        };
        let is_read = |name: &&String| name.ends_with(".yml") && !name.starts_with('.');
        for name in names.iter().filter(is_read).take(crate::source::MAX_INCLUDES) {
            let path = format!("{}/{name}", setting.value.trim_end_matches('/'));
            add(&path, files, draft, &mut settings)?;
        }
    }
    Ok(settings)
}

fn add(
    path: &str,
    files: &dyn Files,
    draft: &mut Draft,
    settings: &mut Vec<Setting>,
) -> Result<(), Error> {
    let document = yaml::parse(path, &octets(files, path, MAX_TEXT)?)?;
    let sections = match document {
        Value::Object(sections) => sections,
        Value::Null => return Ok(()),
        _ => return Err(malformed(path, "not a configuration of PowerDNS Recursor")),
    };
    for (section, keys) in sections {
        if QUIET.contains(&section.as_str()) {
            draft.quiet(section);
            continue;
        }
        let Value::Object(keys) = keys else {
            draft.note(format!("{path}: {section}"), "expected settings");
            continue;
        };
        for (key, value) in keys {
            let full = format!("{section}.{key}");
            let place = format!("{path}: {full}");
            let renamed = RENAMED.iter().find(|(from, _)| *from == full);
            let key = renamed.map_or_else(|| key.replace('_', "-"), |(_, to)| (*to).to_owned());
            let written = if full == "recursor.rpzs" { zones(&value) } else { text(&value) };
            let value = match written {
                Some(value) => value,
                None => {
                    draft.note(place, "its form is not known");
                    continue;
                }
            };
            settings.retain(|one| one.key != key || key == "include-dir");
            settings.push(Setting { key, value, place });
        }
    }
    Ok(())
}

/// Returns a value in the form of `recursor.conf`: items of lists with commas between them, zones
/// as `ZONE=SERVER;SERVER` or `ZONE=FILE`.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::Bool(flag) => Some(if *flag { "yes" } else { "no" }.to_owned()),
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(text).collect();
            Some(items?.join(","))
        }
        Value::Object(keys) => {
            let name = shown(keys.get("zone").or_else(|| keys.get("name"))?)?;
            if let Some(file) = keys.get("file") {
                return Some(format!("{name}={}", shown(file)?));
            }
            let is_recursive = keys.get("recurse") == Some(&Value::Bool(true));
            let servers = keys.get("forwarders").or_else(|| keys.get("dsrecords"));
            match servers {
                Some(Value::Array(items)) => {
                    let items: Option<Vec<String>> = items.iter().map(shown).collect();
                    let plus = if is_recursive { "+" } else { "" };
                    Some(format!("{plus}{name}={}", items?.join(";")))
                }
                _ => Some(name),
            }
        }
        value => shown(value),
    }
}

/// Returns the policy zones of `rpzs` as `NAME;KEY=VALUE`, with commas between them.
fn zones(value: &Value) -> Option<String> {
    let Value::Array(items) = value else { return text(value) };
    let zone = |item: &Value| {
        let options = item.as_object().map(options).unwrap_or_default();
        Some(format!("{}{options}", text(item)?))
    };
    Some(items.iter().map(zone).collect::<Option<Vec<_>>>()?.join(","))
}

/// Returns the other keys of a policy zone, each after a semicolon. Only the value of the policy is
/// included.
fn options(keys: &serde_json::Map<String, Value>) -> String {
    let others = keys.iter().filter(|(key, _)| !["zone", "name", "file"].contains(&key.as_str()));
    let option = |(key, value): (&String, &Value)| match shown(value).filter(|_| key == "defpol") {
        Some(policy) => format!(";{key}={policy}"),
        None => format!(";{key}="),
    };
    others.map(option).collect()
}
