//! `recursor.yml`, with its keys converted to the settings of `recursor.conf`.

use serde_json::Value;

use crate::draft::Draft;
use crate::section::shown;
use crate::source::{Error, Files, MAX_TEXT, malformed, octets};
use crate::yaml;

use super::rpz::PolicyZone;
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
    ("recordcache.serve_stale_extensions", "serve-stale-extensions"),
];
/// Sections whose keys do not affect answers.
const QUIET: &[&str] = &["carbon", "ecs", "logging", "nod", "snmp", "webservice"];

/// The content of the files.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) settings: Vec<Setting>,
    /// The zones of `rpzs`.
    pub(super) policy_zones: Vec<PolicyZone>,
}

/// Returns the settings of a file, and of the files of `include_dir`.
///
/// # Errors
/// The file cannot be read, or is not YAML.
pub(super) fn gather(path: &str, files: &dyn Files, draft: &mut Draft) -> Result<Gathered, Error> {
    let mut gathered = Gathered::default();
    add(path, files, draft, &mut gathered)?;
    let included: Vec<Setting> =
        gathered.settings.iter().filter(|one| one.key == "include-dir").cloned().collect();
    for setting in included.iter().filter(|one| !one.value.is_empty()) {
        let Some(names) = files.list(&setting.value) else {
            draft.note(setting, "there is no such directory");
            continue;
        };
        let is_read = |name: &&String| name.ends_with(".yml") && !name.starts_with('.');
        for name in names.iter().filter(is_read).take(crate::source::MAX_INCLUDES) {
            let path = format!("{}/{name}", setting.value.trim_end_matches('/'));
            add(&path, files, draft, &mut gathered)?;
        }
    }
    Ok(gathered)
}

fn add(
    path: &str,
    files: &dyn Files,
    draft: &mut Draft,
    gathered: &mut Gathered,
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
            if full == "recursor.rpzs" {
                policy_zones(value, &place, gathered, draft);
                continue;
            }
            let is_sequence = value.is_array();
            let value = match text(&value) {
                Some(value) => value,
                None => {
                    draft.note(place, "its form is not known");
                    continue;
                }
            };
            let settings = &mut gathered.settings;
            // Sections are compared too, because the last part of a name occurs in several of them.
            let is_same =
                |one: &Setting| one.key == key && one.place.ends_with(&format!(": {full}"));
            // A sequence in a later file extends the sequence of an earlier file.
            match settings.iter_mut().find(|one| is_sequence && is_same(one)) {
                Some(known) if !known.value.is_empty() => {
                    known.value = format!("{},{value}", known.value);
                    known.place = format!("{}, {place}", known.place);
                }
                _ => {
                    settings.retain(|one| !is_same(one) || key == "include-dir");
                    settings.push(Setting { key, value, place });
                }
            }
        }
    }
    Ok(())
}

/// Adds the zones of `rpzs`.
fn policy_zones(value: Value, place: &str, gathered: &mut Gathered, draft: &mut Draft) {
    let items = match value {
        Value::Array(items) => items,
        Value::Null => return,
        _ => return draft.note(place, "its form is not known"),
    };
    for item in items {
        match item {
            Value::Object(keys) => {
                gathered.policy_zones.push(PolicyZone { place: place.to_owned(), keys });
            }
            _ => draft.note(place, "a policy zone has a name"),
        }
    }
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
            let is_on = |key: &str| keys.get(key) == Some(&Value::Bool(true));
            let mark = |mark: &'static str, key: &str| if is_on(key) { mark } else { "" };
            let marks = format!("{}{}", mark("+", "recurse"), mark("^", "allow_notify"));
            let servers = keys.get("forwarders").or_else(|| keys.get("dsrecords"));
            match servers {
                Some(Value::Array(items)) => {
                    let items: Option<Vec<String>> = items.iter().map(shown).collect();
                    Some(format!("{marks}{name}={}", items?.join(";")))
                }
                _ => Some(name),
            }
        }
        value => shown(value),
    }
}
