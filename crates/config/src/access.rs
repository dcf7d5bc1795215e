//! The keys for access: who may use the server, which programs it starts, which files outside its
//! own directories it writes, and where it sends secrets from files. A change of these keys needs
//! more rights than a change of other keys.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::Config;
use super::catalog::CatalogRole;
use super::certificate_files::CertificateFiles;
use super::otlp::OtlpConfig;
use super::pool_probe::ProbeKind;
use super::zone::ZoneConfig;
use super::zone_url::ZoneUrl;

/// A configuration with its text.
#[derive(Clone, Copy)]
pub struct WrittenConfig<'c> {
    /// The configuration in the text.
    pub config: &'c Config,
    /// The text, in TOML.
    pub text: &'c str,
}

/// Tables that are in use only if one of their keys is set, with their keys for access; all keys if
/// none is named.
const OPTIONAL_TABLES: [OptionalTable; 7] = [
    OptionalTable { name: "oidc", keys: &[], shown: "[oidc]" },
    OptionalTable {
        name: "web",
        keys: &["https", "tls-cert", "tls-key"],
        shown: "[web] https, tls-cert, tls-key",
    },
    OptionalTable { name: "acme", keys: &[], shown: "[acme]" },
    OptionalTable { name: "query-log", keys: &["directory"], shown: "[query-log] directory" },
    OptionalTable { name: "home-ca", keys: &["storage"], shown: "[home-ca] storage" },
    OptionalTable { name: "dnstap", keys: &["output"], shown: "[dnstap] output" },
    OptionalTable {
        name: "otlp",
        keys: &["endpoint", "headers-file", "ca"],
        shown: "[otlp] endpoint, headers-file, ca",
    },
];

/// A table that may be present without effect.
struct OptionalTable {
    name: &'static str,
    keys: &'static [&'static str],
    /// The keys as errors name them.
    shown: &'static str,
}

/// Returns the keys that decide about access and differ between two configurations.
///
/// A key in a table that is not in use counts too: otherwise the value would take effect when
/// somebody with more rights begins to use the table.
pub fn access_keys_between(
    before: WrittenConfig<'_>,
    after: WrittenConfig<'_>,
) -> Vec<&'static str> {
    let mut keys = effective_keys_between(before.config, after.config);
    for key in written_keys_between(before.text, after.text) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// Returns the keys for access whose values differ between two texts, whether they have an effect
/// or not.
fn written_keys_between(before: &str, after: &str) -> Vec<&'static str> {
    // Both texts were parsed as configurations before, so parsing them as TOML cannot fail.
    let [before, after] = [before, after].map(|text| text.parse::<Table>().unwrap_or_default());
    let differs = |table: &OptionalTable| {
        let [one, other] = [&before, &after].map(|text| text.get(table.name));
        let value = |all: Option<&'_ Value>, key| all.and_then(|all| all.get(key)).cloned();
        match table.keys {
            [] => one != other,
            keys => keys.iter().any(|key| value(one, key) != value(other, key)),
        }
    };
    let known: Vec<_> = written_programs(&before).collect();
    let has_other = written_programs(&after).any(|program| !known.contains(&program));
    let tables = OPTIONAL_TABLES.iter().filter(|table| differs(table)).map(|table| table.shown);
    tables.chain(has_other.then_some("[[pool]] command")).collect()
}

/// Returns the commands of the pools in a text, with the names of the pools. A pool may have a
/// command that its probe does not use.
fn written_programs(text: &Table) -> impl Iterator<Item = (Option<&Value>, &Value)> {
    let pools = text.get("pool").and_then(Value::as_array).into_iter().flatten();
    pools.filter_map(|pool| Some((pool.get("name"), pool.get("command")?)))
}

/// Returns the keys for access with different effects in two configurations.
fn effective_keys_between(before: &Config, after: &Config) -> Vec<&'static str> {
    let (server, other) = (&before.server, &after.server);
    let (web, other_web) = (&before.web, &after.web);
    [
        ("[oidc]", before.oidc != after.oidc),
        ("[web] https, tls-cert, tls-key", web.https != other_web.https),
        ("[web] trusted-proxies", web.trusted_proxies != other_web.trusted_proxies),
        ("[server] http", server.http != other.http),
        ("[server] http-names", server.http_names != other.http_names),
        ("[server] user", server.user != other.user),
        ("[server] control-group", server.control_group != other.control_group),
        ("[data] directory", before.data.directory != after.data.directory),
        ("[acme]", before.acme != after.acme),
        ("[[pool]] command", !programs(before).eq(programs(after))),
        ("[[zone]] file", written(after).any(|file| written(before).all(|known| known != file))),
        ("[[zone]] url", pulled(after).any(|one| pulled(before).all(|known| known != one))),
        ("[query-log] directory", before.query_log.directory != after.query_log.directory),
        ("[home-ca] storage", storage(before) != storage(after)),
        ("[dnstap] output", before.dnstap.output != after.dnstap.output),
        ("[otlp] endpoint, headers-file, ca", collector(before) != collector(after)),
    ]
    .into_iter()
    .filter(|(_, differs)| *differs)
    .map(|(key, _)| key)
    .collect()
}

/// Returns the receiver of traces, and the files for requests to it. The file of header fields may
/// hold secrets of other users.
fn collector(config: &Config) -> impl PartialEq + '_ {
    let OtlpConfig { endpoint, headers_file, ca, .. } = &config.otlp;
    (endpoint, (headers_file, ca))
}

/// Returns the programs that the server starts, with their arguments and their pools.
fn programs(config: &Config) -> impl Iterator<Item = (&[u8], &[String])> {
    config.pools.iter().filter_map(|pool| match &pool.probe.kind {
        ProbeKind::Command(words) => Some((&*pool.name, &**words)),
        _ => None,
    })
}

/// Returns the zone files that the server writes with records from other servers or from clients,
/// except for files with a name that the server chooses itself.
fn written(config: &Config) -> impl Iterator<Item = &Path> {
    let is_written = |zone: &&ZoneConfig| {
        zone.is_secondary() || zone.is_updated() || zone.catalog == CatalogRole::Producer
    };
    let is_chosen = |zone: &&ZoneConfig| {
        zone.file != ZoneConfig::member_file(&zone.name, &config.data.directory)
    };
    config.zones.iter().filter(is_written).filter(is_chosen).map(|zone| &*zone.file)
}

/// Returns the zones whose records are fetched, and how. A user who chooses both the URL and the
/// header fields could read any file with header fields. That user could also send requests to
/// hosts that only the server reaches.
fn pulled(config: &Config) -> impl Iterator<Item = PulledZone<'_>> {
    config.zones.iter().filter_map(|zone| {
        let source = zone.source_url()?;
        // The database is a part of the URL.
        let ZoneUrl { url, database: _, headers_file, password_file, ca, client, refresh_secs: _ } =
            source;
        let secrets = [headers_file, password_file];
        Some(PulledZone { zone: &zone.name, url, secrets, ca, client })
    })
}

/// The settings of a zone that decide where the server sends requests, and with which secrets.
#[derive(PartialEq)]
struct PulledZone<'c> {
    zone: &'c [u8],
    url: &'c str,
    /// The file with header fields, and the file with a password.
    secrets: [&'c Option<PathBuf>; 2],
    ca: &'c Option<PathBuf>,
    client: &'c Option<CertificateFiles>,
}

/// Returns the directory of the certification authority of the server.
fn storage(config: &Config) -> Option<&Path> {
    let storage = config.home_ca.as_ref().map(|ca| &*ca.storage);
    storage.filter(|directory| *directory != config.data.directory.join("home-ca"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn between(one: &str, other: &str) -> Vec<&'static str> {
        let [before, after] =
            [one, other].map(|text| Config::from_text(None, text, &BTreeMap::new()).unwrap());
        access_keys_between(
            WrittenConfig { config: &before, text: one },
            WrittenConfig { config: &after, text: other },
        )
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(between("", text), expected, "{text}");
        assert_eq!(between(text, text), [""; 0]);
    }

    #[test]
    fn keys_that_decide_who_may_use_the_server_are_found() {
        let oidc = "issuer = \"https://a.example\"\nclient-id = \"a\"\n\
                    public-url = \"https://b.example\"\nadmins = [\"a\"]";
        check(&format!("[oidc]\n{oidc}"), &["[oidc]"]);
        let https = "https = \"127.0.0.1:8443\"\ntls-cert = \"/a\"\ntls-key = \"/b\"";
        check(&format!("[web]\n{https}"), &["[web] https, tls-cert, tls-key"]);
        check("[web]\ntrusted-proxies = [\"10.0.0.1/32\"]", &["[web] trusted-proxies"]);
        check("[server]\nhttp = \"127.0.0.1:8054\"", &["[server] http"]);
        check("[server]\nhttp-names = [\"dns.example\"]", &["[server] http-names"]);
        check("[server]\nuser = \"nobody\"", &["[server] user"]);
        check("[server]\ncontrol-group = \"adm\"", &["[server] control-group"]);
        check("[data]\ndirectory = \"/elsewhere\"", &["[data] directory"]);
        let pool = "name = \"a.example\"\naddresses = [\"192.0.2.1\"]\nprobe = ";
        let command = format!("[[pool]]\n{pool}\"command\"\ncommand = [\"/bin/true\"]\n");
        check(&command, &["[[pool]] command"]);
        check(&format!("[[pool]]\n{pool}\"icmp\"\n"), &[]);
        check("[query-log]\ndirectory = \"/elsewhere\"", &["[query-log] directory"]);
        let home = |rest: &str| format!("[home-ca]\nnames = [\"a.lan\"]\n{rest}");
        check(&home("storage = \"/elsewhere\""), &["[home-ca] storage"]);
        check(&home(""), &[]);
        let collector = "[otlp]\nendpoint = \"http://127.0.0.1:4318\"\nsample-share = 1\n";
        check(collector, &["[otlp] endpoint, headers-file, ca"]);
        check("[otlp]\nsample-share = 1", &[]);
        check("[dnstap]\noutput = \"tcp://192.0.2.1:6000\"", &["[dnstap] output"]);
        check("[dnstap]\nidentity = \"a\"", &[]);
        check("[cache]\nprefetch = false\n[policy]\nblock-ttl-secs = 7", &[]);
    }

    #[test]
    fn keys_of_tables_that_are_not_in_use_count_too() {
        check("[oidc]\nadmins = [\"everyone\"]", &["[oidc]"]);
        check("[acme]\nstorage = \"/elsewhere\"", &["[acme]"]);
        check("[web]\ntls-key = \"/elsewhere\"", &["[web] https, tls-cert, tls-key"]);
        check("[home-ca]\nstorage = \"/elsewhere\"", &["[home-ca] storage"]);
        check("[otlp]\nca = \"/elsewhere\"", &["[otlp] endpoint, headers-file, ca"]);
        check("[home-ca]\n[otlp]\n", &[]);
        let pool = |rest: &str| {
            format!("[[pool]]\nname = \"a.example\"\naddresses = [\"192.0.2.1\"]\nprobe = {rest}")
        };
        let command = pool("\"icmp\"\ncommand = [\"/bin/true\"]\n");
        check(&command, &["[[pool]] command"]);
        assert_eq!(between(&command, &pool("\"icmp\"\n")), [""; 0]);
        let other = command.replace("true", "false");
        assert_eq!(between(&command, &other), ["[[pool]] command"]);
    }

    #[test]
    fn who_changes_where_a_zone_is_fetched_needs_more_rights() {
        let zone = |rest: &str| {
            let url = "url = \"https://a.example/zone\"\n";
            format!("[[zone]]\nname = \"a.example\"\nprovider = \"http\"\n{url}{rest}")
        };
        check(&zone(""), &["[[zone]] url"]);
        let fields = zone("headers-file = \"/etc/fields\"\n");
        assert_eq!(between(&zone(""), &fields), ["[[zone]] url"]);
        assert_eq!(between(&zone(""), &zone("refresh-secs = 60\n")), [""; 0]);
        assert_eq!(between(&fields, ""), [""; 0]);
    }

    #[test]
    fn only_files_that_the_server_names_itself_are_written_without_more_rights() {
        let zone = |rest: &str| format!("[[zone]]\nname = \"a.example\"\n{rest}");
        let (primaries, file) = ("primaries = [\"192.0.2.1\"]\n", "file = \"/etc/cron.d/a\"\n");
        check(&zone(primaries), &[]);
        check(&zone(&format!("{primaries}{file}")), &["[[zone]] file"]);
        check(&zone(&format!("{file}catalog = \"producer\"\n")), &["[[zone]] file"]);
        let secret = std::env::temp_dir().join(format!("avocet-access-{}", std::process::id()));
        std::fs::write(&secret, "c2VjcmV0IG9mIGEgdGVzdCwgbG9uZyBlbm91Z2g=").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
        let key = format!("[[key]]\nname = \"k\"\nsecret-file = \"{}\"\n", secret.display());
        let update = format!("{file}allow-update = [\"key k\"]\n");
        check(&format!("{}{key}", zone(&update)), &["[[zone]] file"]);
        std::fs::remove_file(&secret).unwrap();
        // A person writes the file. The server changes only the version of the zone that it has
        // read.
        check(&zone(file), &[]);
    }
}
