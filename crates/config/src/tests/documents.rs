//! Tests that the schema, the example, the manual and the shown configuration agree with the
//! settings that are read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::Value;

use super::{FORWARD, json_schema, read_with};

const MANUAL: &str = include_str!("../../../../docs/manual/configuration.md");
const EXAMPLE: &str = include_str!("../../../../deploy/avocet.example.toml");

/// Keys of `[[rule]]` that only some rules have.
const RULE_SETTINGS: [&str; 10] =
    ["time-zone", "answer", "to", "min-secs", "max-secs", "rps", "burst", "per", "over", "tag"];

/// Keys of `[[list]]` that only those with primaries have.
const ZONE_SETTINGS: [&str; 7] =
    ["primaries", "zone", "key", "ca", "pins", "client-cert", "client-key"];

/// Keys of `[[pool]]` that only some modes and probes have.
const POOL_SETTINGS: [&str; 13] = [
    "answers",
    "port",
    "host",
    "path",
    "status",
    "body",
    "verify",
    "ca-file",
    "certificate-days",
    "query",
    "rcode",
    "answer",
    "command",
];

/// The schema shows for each key the default that the server uses.
#[test]
fn schema_and_defaults_agree_and_each_key_is_in_both() {
    let stub = "[[stub]]\nzone = \"a\"\nservers = [\"192.0.2.1\"]\n";
    let forward = FORWARD.replace("\".\"", "\"b\"");
    let text =
        format!("{forward}{stub}[[record]]\nname = \"a\"\ntype = \"TXT\"\nvalues = [\"x\"]\n");
    let policy = "[[list]]\nname = \"l\"\nurl = \"https://a.example/\"\n[[group]]\nname = \"g\"\nlists = []\n\
                  [[client]]\nname = \"c\"\nids = [\"10.0.0.1\"]\n[[rule]]\nname = \"r\"\nwhen = \"true\"\naction = \"allow\"\n";
    let listener = "[[listener]]\nname = \"n\"\nlisten = [\"tls://[::1]:853\"]\nallow = []\ncertificate = \"a\"\n\
                    client-ca = \"ca\"\n\
                    [[certificate]]\nnames = [\"a\"]\ncert = \"c\"\nkey = \"k\"\n";
    let zone = "[[zone]]\nname = \"z\"\nfile = \"z\"\n[[signing-policy]]\nname = \"s\"\n[[pool]]\nname = \"p\"\naddresses = [\"192.0.2.1\"]\nprobe = \"icmp\"\n[[trace]]\nname = \"t\"\n";
    let (key, file) = key_with_file("documents");
    let on = format!("{text}{zone}{key}{listener}{policy}[rate-limit]\nresponses-per-second = 1\n");
    let effective = serde_json::to_value(read_with(&on, &[]).unwrap().effective()).unwrap();
    assert!(!effective.to_string().contains("c2VjcmV0"), "secrets are not shown");
    fs::remove_file(file).unwrap();
    let schema = json_schema();
    let mut compared = 0;
    for (section, table) in schema["properties"].as_object().unwrap() {
        let (keys, shown) = match table["items"]["properties"].as_object() {
            Some(keys) => (keys, &effective[section][0]),
            None => (table["properties"].as_object().unwrap(), &effective[section]),
        };
        for (key, property) in keys {
            assert!(property["description"].is_string(), "{section}.{key} is described");
            // The key has no default: it is one of two alternatives, it is for some actions of a
            // rule only, or its default comes from another table.
            let is_of_zone = section == "list" && ZONE_SETTINGS.contains(&key.as_str());
            let is_alternative = matches!(key.as_str(), "resolv-conf" | "file")
                || is_of_zone
                || matches!(section.as_str(), "client" | "group") && key == "privacy"
                || section == "pool" && POOL_SETTINGS.contains(&key.as_str())
                || section == "rule" && RULE_SETTINGS.contains(&key.as_str());
            assert!(is_alternative || !shown[key].is_null(), "{section}.{key} is shown");
            // The shown configuration has the derived PTR record as a record of its own, and the
            // test has turned the limit on.
            let is_shown_otherwise = matches!(key.as_str(), "ptr" | "responses-per-second")
                || is_of_zone
                || section == "pool" && shown[key].is_null();
            if let (Some(default), false) = (property.get("default"), is_shown_otherwise) {
                assert_eq!(plain_bytes(default), shown[key], "{section}.{key}");
                compared += 1;
            }
        }
    }
    assert!(compared >= 40, "{compared} keys have a default");
}

/// Returns a `[[key]]`, and the file with its secret.
pub(super) fn key_with_file(test: &str) -> (String, PathBuf) {
    let name = format!("avocet-config-secret-{test}-{}", std::process::id());
    let file = std::env::temp_dir().join(name);
    fs::write(&file, "c2VjcmV0IHNlY3JldA==\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    (format!("[[key]]\nname = \"k\"\nsecret-file = \"{}\"\n", file.display()), file)
}

/// Returns a size as a number of bytes, and all other values unchanged.
fn plain_bytes(value: &Value) -> Value {
    let sized = |unit: &str, shift: u32| {
        let count = value.as_str()?.strip_suffix(unit)?.parse::<u64>().ok()?;
        Some((count << shift).into())
    };
    sized("MiB", 20).or_else(|| sized("GiB", 30)).unwrap_or_else(|| value.clone())
}

#[test]
fn schema_names_required_keys_and_refuses_others() {
    let schema = json_schema();
    assert_eq!(schema["additionalProperties"], false);
    let record = &schema["properties"]["record"]["items"];
    assert_eq!(record["required"], serde_json::json!(["name", "type", "values"]));
    assert_eq!(schema["properties"]["forward"]["items"]["required"], serde_json::json!(["zone"]));
    assert_eq!(schema["properties"]["cache"]["additionalProperties"], false);
}

#[test]
fn what_is_shown_reads_back_as_the_same() {
    for text in [EXAMPLE, FORWARD] {
        let config = read_with(text, &[]).unwrap();
        let shown = toml::to_string(&config.effective()).unwrap();
        assert_eq!(read_with(&shown, &[]).unwrap(), config, "{shown}");
    }
}

/// The example and the manual contain each key of the schema.
#[test]
fn the_example_and_the_manual_name_each_key() {
    for (section, table) in json_schema()["properties"].as_object().unwrap() {
        let keys = table["items"]["properties"].as_object();
        for key in keys.or(table["properties"].as_object()).unwrap().keys() {
            let is_there = EXAMPLE.lines().any(|line| {
                line.trim_start_matches(['#', ' ']).split('=').next().unwrap().trim() == key
            });
            assert!(is_there, "{section}.{key} in the example");
            assert!(MANUAL.contains(&format!("| `{key}` |")), "{section}.{key} in the manual");
        }
    }
}

/// The settings that the example comments out are the defaults.
#[test]
fn the_example_comments_out_the_defaults() {
    let schema = json_schema();
    let mut section = String::new();
    let mut compared = 0;
    for line in EXAMPLE.lines() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).to_owned();
        }
        let table = &schema["properties"][&section];
        let keys = if table["items"].is_object() { &table["items"] } else { table };
        let Some((key, value)) = line.strip_prefix("# ").and_then(|line| line.split_once(" = "))
        else {
            continue;
        };
        let Some(default) = keys["properties"][key].get("default") else {
            continue;
        };
        let parsed: toml::Table = toml::from_str(&format!("value = {value}")).unwrap();
        assert_eq!(&serde_json::to_value(&parsed["value"]).unwrap(), default, "{section}.{key}");
        compared += 1;
    }
    assert!(compared >= 35, "{compared} keys compared");
}

/// A file that is cut at any position is valid, or gives an error with a location.
#[test]
fn a_file_cut_anywhere_is_right_or_wrong_with_a_place() {
    for len in 0..EXAMPLE.len() {
        let text = format!("{FORWARD}{}", &EXAMPLE[..len]);
        if let Err(errors) = read_with(&text, &[]) {
            let message = errors.to_string();
            assert!(message.lines().all(|line| line.starts_with("a.toml:")), "{len}: {message}");
        }
    }
}
