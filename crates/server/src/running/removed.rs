//! Reports what a reload removes. A configuration file that lost its end is often still valid. The
//! log names the removed lists, rules and clients, so that a mistake is noticed.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use avocet_config::certificate::CertificateConfig;
use avocet_config::name::shown;
use avocet_config::{Config, WrittenConfig, environment, lost_keys};
use avocet_control::reload::{RemovedKind, RemovedNames};
use avocet_wire::Rtype;
use toml::Table;

/// Maximum number of names of one kind that are shown, in addition to the count.
const MAX_SHOWN: usize = 5;

/// Settings that need no report of their own: the values of one are reported, and the other depends
/// on the lists.
const NAMED_ALREADY: [&str; 2] = ["server.local-zones", "policy.block-firefox-dns"];

/// The parts of a configuration that are not in the next configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Removed(Vec<Gone>);

/// The removed tables of one kind, at least one.
#[derive(Debug, Clone, PartialEq)]
struct Gone {
    kind: RemovedKind,
    names: RemovedNames,
}

impl Removed {
    /// Finds the tables and settings that are in `old` and not in `new`, by name: a renamed table
    /// counts as removed.
    pub(crate) fn between(old: WrittenConfig<'_>, new: WrittenConfig<'_>) -> Self {
        let texts = [old.text, new.text];
        let (old, new) = (old.config, new.config);
        let policy = (&old.policy, &new.policy);
        macro_rules! names {
            ($field:ident) => {
                (
                    policy.0.$field.iter().map(|one| one.name.clone()),
                    policy.1.$field.iter().map(|one| one.name.clone()),
                )
            };
        }
        // Reverse names are omitted: they derive from addresses, which may change without a
        // removal.
        // A name counts once for each of its values, because several tables may have one name.
        let records = |config: &Config| -> Vec<String> {
            let own = config.records.iter().filter(|record| record.rtype != Rtype::PTR);
            let all = own.flat_map(|record| {
                let name = format!("{} {}", shown(&record.name), record.rtype);
                vec![name; record.rdata.len()]
            });
            all.collect()
        };
        let forwards = |config: &Config| -> Vec<String> {
            config.forwards.iter().map(|forward| shown(&forward.zone)).collect()
        };
        let stubs = |config: &Config| -> Vec<String> {
            config.stubs.iter().map(|stub| shown(&stub.zone)).collect()
        };
        let zones = |config: &Config| -> Vec<String> {
            config.server.local_zones.iter().map(|zone| shown(zone)).collect()
        };
        let (lists, new_lists) = names!(lists);
        let (rules, new_rules) = names!(rules);
        let (groups, new_groups) = names!(groups);
        let (clients, new_clients) = names!(clients);
        let gone = [
            gone(RemovedKind::Lists, lists, new_lists),
            gone(RemovedKind::Rules, rules, new_rules),
            gone(RemovedKind::Groups, groups, new_groups),
            gone(RemovedKind::Clients, clients, new_clients),
            gone(RemovedKind::Records, records(old), records(new)),
            gone(RemovedKind::Forwards, forwards(old), forwards(new)),
            gone(RemovedKind::Stubs, stubs(old), stubs(new)),
            gone(RemovedKind::LocalZones, zones(old), zones(new)),
            gone(RemovedKind::HostedZones, hosted(old), hosted(new)),
            gone(RemovedKind::Pools, pools(old), pools(new)),
            gone(RemovedKind::Keys, keys(old), keys(new)),
            gone(RemovedKind::SigningPolicies, signing(old), signing(new)),
            gone(RemovedKind::Certificates, certificates(old), certificates(new)),
            gone(RemovedKind::Listeners, listeners(old), listeners(new)),
            gone(RemovedKind::Traces, traces(old), traces(new)),
            gone(RemovedKind::Settings, settings([old, new], texts), []),
        ];
        Self(gone.into_iter().flatten().collect())
    }

    /// Returns whether nothing was removed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns counts and first names by kind.
    pub(crate) fn by_kind(&self) -> BTreeMap<RemovedKind, RemovedNames> {
        self.0.iter().map(|gone| (gone.kind, gone.names.clone())).collect()
    }
}

impl fmt::Display for Removed {
    /// Writes "3 lists (a, b, c), 1 rule (x)".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, gone) in self.0.iter().enumerate() {
            let separator = if place > 0 { ", " } else { "" };
            let RemovedNames { count, first } = &gone.names;
            let kind = gone.kind.text();
            let kind = if *count == 1 { singular(kind) } else { kind.to_owned() };
            let more = if *count > first.len() { ", ..." } else { "" };
            write!(f, "{separator}{count} {kind} ({}{more})", first.join(", "))?;
        }
        Ok(())
    }
}

/// Returns the singular of a kind.
fn singular(kind: &str) -> String {
    match kind.strip_suffix("ies") {
        Some(start) => format!("{start}y"),
        None => kind.trim_end_matches('s').to_owned(),
    }
}

fn hosted(config: &Config) -> Vec<String> {
    config.zones.iter().map(|zone| zone.id().to_string()).collect()
}

fn pools(config: &Config) -> Vec<String> {
    config.pools.iter().map(|pool| shown(&pool.name)).collect()
}

fn keys(config: &Config) -> Vec<String> {
    config.keys.iter().map(|key| shown(&key.key.name())).collect()
}

fn signing(config: &Config) -> Vec<String> {
    config.signing_policies.iter().map(|policy| policy.name.clone()).collect()
}

/// Returns the names of each certificate. A certificate without any goes by its file.
fn certificates(config: &Config) -> Vec<String> {
    let name = |one: &CertificateConfig| match one.names.is_empty() {
        true => one.files.chain.display().to_string(),
        false => one.names.join(", "),
    };
    config.certificates.iter().map(name).collect()
}

fn listeners(config: &Config) -> Vec<String> {
    config.server.listeners.iter().map(|listener| listener.name.clone()).collect()
}

fn traces(config: &Config) -> Vec<String> {
    config.otlp.rules.iter().map(|rule| rule.name.clone()).collect()
}

/// Returns the names that `old` has more often than `new`.
fn gone(
    kind: RemovedKind,
    old: impl IntoIterator<Item = String>,
    new: impl IntoIterator<Item = String>,
) -> Option<Gone> {
    let mut kept: HashMap<String, usize> = HashMap::new();
    for name in new {
        *kept.entry(name).or_default() += 1;
    }
    let mut all: Vec<String> = Vec::new();
    for name in old {
        match kept.get_mut(&name).filter(|count| **count > 0) {
            Some(count) => *count -= 1,
            None => all.push(name),
        }
    }
    if kind == RemovedKind::Records {
        // A record with several values occurs once for each value, in adjacent places.
        all.dedup();
    }
    let count = all.len();
    all.truncate(MAX_SHOWN);
    (count > 0).then_some(Gone { kind, names: RemovedNames { count, first: all } })
}

/// Returns the settings that the second configuration no longer has: keys that have their default
/// again, and keys that an entry such as a `[[zone]]` had in the first text.
fn settings(configs: [&Config; 2], texts: [&str; 2]) -> Vec<String> {
    let effective = configs.map(Config::effective);
    let mut keys = keys_of_tables(effective.each_ref());
    keys.extend(lost_keys(texts, effective.each_ref()));
    keys
}

/// Returns the keys outside of lists of tables that had another value in the first configuration,
/// and have their default in the second one.
fn keys_of_tables([old, new]: [&Table; 2]) -> Vec<String> {
    let variables: BTreeMap<String, String> = environment().collect();
    // Environment variables alone need not be valid; then there are no defaults to compare with.
    let Ok(default) = Config::from_text(None, "", &variables) else { return Vec::new() };
    let default = default.effective();
    let mut keys = Vec::new();
    for (section, table) in &default {
        let of = |tables: &Table| {
            tables.get(section).and_then(toml::Value::as_table).cloned().unwrap_or_default()
        };
        let Some(defaults) = table.as_table() else { continue };
        let (before, after) = (of(old), of(new));
        let is_back = |(key, value): &(&String, &toml::Value)| {
            before.get(*key).is_some_and(|before| before != *value)
                && after.get(*key) == Some(*value)
        };
        let gone = defaults.iter().filter(is_back).map(|(key, _)| format!("{section}.{key}"));
        keys.extend(gone.filter(|key| !NAMED_ALREADY.contains(&key.as_str())));
    }
    keys
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn between(old: &str, new: &str) -> Removed {
        let read = |text| {
            Config::from_text(Some(Path::new("avocet.toml")), text, &BTreeMap::new()).unwrap()
        };
        let [before, after] = [old, new].map(read);
        Removed::between(
            WrittenConfig { config: &before, text: old },
            WrittenConfig { config: &after, text: new },
        )
    }

    #[test]
    fn what_the_end_of_a_file_had_is_named() {
        let lists: String = (1..=7)
            .map(|number| format!("[[list]]\nname = \"l{number}\"\nfile = \"/x\"\n"))
            .collect();
        let begin = "[policy]\nblock-answer = \"nxdomain\"\n";
        let hosted = "[[zone]]\nname = \"corp.example\"\nfile = \"/z\"\n\
                      [[pool]]\nname = \"a.example\"\naddresses = [\"192.0.2.1\"]\nprobe = \"tcp\"\nport = 80\n\
                      [[signing-policy]]\nname = \"long\"\n\
                      [[listener]]\nname = \"guests\"\nlisten = [\"127.0.0.2:5399\"]\n";
        let end = "[[rule]]\nname = \"bed\"\nwhen = 'true'\naction = \"block\"\n\
                   [[record]]\nname = \"nas.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.1\"]\n\
                   [server]\nlocal-zones = [\"lan\"]\nallow = [\"10.0.0.0/8\"]\n";
        let whole = format!("{begin}{lists}{hosted}{end}");
        let removed = between(&whole, begin);
        assert_eq!(
            removed.to_string(),
            "7 lists (l1, l2, l3, l4, l5, ...), 1 rule (bed), 1 record (nas.lan. A), \
             1 local zone (lan.), 1 hosted zone (corp.example.), 1 pool (a.example.), \
             1 signing policy (long), 1 listener (guests), 1 setting (server.allow)"
        );
        let rules = RemovedNames { count: 1, first: vec!["bed".to_owned()] };
        assert_eq!(removed.by_kind().get(&RemovedKind::Rules), Some(&rules));
        assert!(between(&whole, &whole).is_empty() && between(begin, &whole).is_empty());
    }

    #[test]
    fn tables_of_one_name_and_without_a_name_are_counted() {
        let record = |value: &str| {
            format!("[[record]]\nname = \"nas.lan\"\ntype = \"A\"\nvalues = [\"{value}\"]\n")
        };
        let certificate = |stem: &str, names: &str| {
            format!("[[certificate]]\ncert = \"/{stem}.pem\"\nkey = \"/{stem}.key\"\n{names}")
        };
        let names = "names = [\"dns.example\"]\n";
        let (one, two) = (record("10.0.0.1"), record("10.0.0.2"));
        let check = |old: &[&str], new: &[&str], expected: &str| {
            assert_eq!(between(&old.concat(), &new.concat()).to_string(), expected);
        };
        check(&[&one, &two], &[&one], "1 record (nas.lan. A)");
        check(&[&one, &two], &[], "1 record (nas.lan. A)");
        check(&[&one], &[&two], "");
        let (a, b) = (certificate("a", ""), certificate("b", ""));
        check(&[&a, &b], &[&a], "1 certificate (/b.pem)");
        check(&[&a, &b], &[], "2 certificates (/a.pem, /b.pem)");
        let (a, b) = (certificate("a", names), certificate("b", names));
        check(&[&a, &b], &[&b], "1 certificate (dns.example)");
        check(&[&a], &[&b], "");
    }

    #[test]
    fn keys_that_an_entry_had_are_named_without_their_values() {
        let zone = "[[zone]]\nname = \"corp.example\"\nfile = \"/z\"\n";
        let rest = "sign = true\nsettle-secs = 7\nzonemd = \"verify\"\nnotify = [\"10.1.2.3\"]\n\
                    transfer-alias = \"addresses\"\nallow-transfer = [\"10.9.8.7\"]\n";
        let removed = between(&format!("{zone}{rest}"), zone).to_string();
        assert!(
            removed.starts_with("6 settings (zone[corp.example].allow-transfer, "),
            "{removed}"
        );
        assert!(removed.ends_with(", ...)"), "{removed}");
        assert!(!removed.contains("10."), "{removed}");
        assert_eq!(between(zone, &format!("{zone}{rest}")), Removed::default());
    }
}
