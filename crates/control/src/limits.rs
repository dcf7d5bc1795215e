//! The groups and zones that a user is limited to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a user is limited to. Without groups and zones, the user may what the role may.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserLimits {
    /// Groups with pauses, grants and logged queries that the user may see and change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Zones with names that the user may look up, flush, log and exempt from validation; of the
    /// hosted zones, those that the user may read, change and reload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
}

/// Requests that every user may send whose role permits them: they reveal no queries of clients.
const OPEN: [&str; 15] = [
    "anchors",
    "config-history",
    "lists-check",
    "lists-status",
    "nta-list",
    "pools-status",
    "session-end",
    "session-list",
    "stats",
    "status",
    "switches",
    "trace",
    "user-list",
    "why",
    "zones-status",
];

impl UserLimits {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.zones.is_empty()
    }

    /// Returns what is wrong with the limits of a user: an empty name, a zone that is no name, or
    /// no limit at all, with which the user would be unlimited.
    pub fn fault(&self) -> Option<String> {
        if self.is_empty() {
            return Some("limits need a group or a zone: without one, nothing is limited".into());
        }
        if self.groups.iter().any(String::is_empty) {
            return Some("the name of a group is empty".to_owned());
        }
        let zone = self.zones.iter().find(|zone| !is_zone(zone))?;
        Some(format!("{zone:?} is not the name of a zone, such as \"example.lan\""))
    }

    /// Returns whether a request stays within the limits. A request that is not known to do so
    /// does not.
    pub fn permit(&self, command: &str, fields: &Map<String, Value>) -> bool {
        let text = |fields: &Map<String, Value>, name: &str| {
            fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let object = |name: &str| fields.get(name).and_then(Value::as_object);
        let has_group = |object: Option<&Map<String, Value>>| {
            object.is_some_and(|object| self.groups.contains(&text(object, "group")))
        };
        let has_name = || self.has_zone(&text(fields, "name"));
        match command {
            _ if self.is_empty() || OPEN.contains(&command) => true,
            "pause" => has_group(object("scope")),
            "grant" => has_group(object("scope")) && (self.zones.is_empty() || has_name()),
            "request-list" | "request-grant" | "request-refuse" => {
                self.zones.is_empty() && self.groups.contains(&text(fields, "group"))
            }
            "flush" | "flush-tree" | "lookup" | "nta-add" | "nta-remove" | "zone-edit"
            | "zone-export" | "zone-history" | "zone-keys" | "zone-records" | "zone-reload"
            | "zone-sign" | "pool-control" => has_name(),
            "log-count" | "log-search" | "log-tail" | "policy-dry-run" => {
                let filter = object("filter");
                let under = filter.map(|filter| text(filter, "under"));
                has_group(filter) || under.is_some_and(|under| self.has_zone(&under))
            }
            _ => false,
        }
    }

    /// Returns whether the user may see logged queries for a name, of any client.
    pub fn reads_log_of(&self, name: &str) -> bool {
        self.is_empty() || self.has_zone(name)
    }

    /// Returns whether a name is in one of the zones. A name with escapes or U-labels is not: its
    /// text does not show its labels.
    fn has_zone(&self, name: &str) -> bool {
        let plain = |text: &str| text.trim_end_matches('.').to_ascii_lowercase();
        let name = plain(name.strip_prefix("*.").unwrap_or(name));
        let is_below = |zone: &String| {
            let zone = plain(zone);
            !zone.is_empty() && (name == zone || name.ends_with(&format!(".{zone}")))
        };
        let is_readable = name.is_ascii() && !name.contains('\\');
        is_readable && self.zones.iter().any(is_below)
    }
}

/// Returns whether a text is the name of a zone below the root: a limit to the root is none.
fn is_zone(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|octet| octet.is_ascii_graphic() && octet != b'\\')
            && label != "*"
    };
    name.len() <= 253 && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn limits(groups: &[&str], zones: &[&str]) -> UserLimits {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        UserLimits { groups: texts(groups), zones: texts(zones) }
    }

    #[track_caller]
    fn check(limits: &UserLimits, command: &str, fields: Value, expected: bool) {
        assert_eq!(limits.permit(command, fields.as_object().unwrap()), expected, "{fields}");
    }

    #[test]
    fn a_request_stays_within_groups_and_zones() {
        let kids = limits(&["kids"], &[]);
        check(&kids, "pause", json!({"scope": {"group": "kids"}}), true);
        check(&kids, "pause", json!({"scope": {"group": "all"}}), false);
        check(&kids, "pause", json!({"scope": "all"}), false);
        check(&kids, "pause", json!({}), false);
        check(&kids, "grant", json!({"name": "a.example", "scope": {"group": "kids"}}), true);
        check(&kids, "flush", json!({"name": "a.example"}), false);
        check(&kids, "log-tail", json!({"filter": {"group": "kids"}}), true);
        check(&kids, "log-tail", json!({"filter": {"under": "example"}}), false);
        check(&kids, "log-tail", json!({}), false);
        check(&kids, "policy-dry-run", json!({"filter": {"group": "kids"}}), true);
        check(&kids, "policy-dry-run", json!({"filter": {"client": "192.0.2.1"}}), false);
        for command in ["request-list", "request-grant", "request-refuse"] {
            check(&kids, command, json!({"id": 1, "group": "kids"}), true);
            check(&kids, command, json!({"id": 1}), false);
            check(&kids, command, json!({"id": 1, "group": "parents"}), false);
            check(&limits(&["kids"], &["lan"]), command, json!({"group": "kids"}), false);
        }
        for command in ["dump", "log-prune", "log-statistics", "config-change", "unheard-of"] {
            check(&kids, command, json!({}), false);
            check(&limits(&[], &[]), command, json!({}), true);
        }
        check(&kids, "status", json!({}), true);
        let zone = limits(&[], &["Example.lan."]);
        for name in ["example.lan", "A.b.EXAMPLE.lan.", "*.example.lan"] {
            check(&zone, "flush-tree", json!({"name": name}), true);
        }
        for name in ["lan", "", ".", "badexample.lan", "a\\.example.lan", "\u{e9}.example.lan"] {
            check(&zone, "flush-tree", json!({"name": name}), false);
        }
        for command in [
            "zone-records",
            "zone-edit",
            "zone-history",
            "zone-export",
            "zone-keys",
            "zone-reload",
            "zone-sign",
            "pool-control",
        ] {
            check(&zone, command, json!({"name": "Lab.example.lan"}), true);
            check(&zone, command, json!({"name": "other.lan"}), false);
            check(&zone, command, json!({}), false);
            check(&kids, command, json!({"name": "example.lan"}), false);
        }
        check(&limits(&[], &["."]), "flush", json!({"name": "a"}), false);
    }

    #[test]
    fn limits_without_a_group_or_zone_are_refused() {
        let long = format!("{}.lan", "a".repeat(64));
        for zone in ["bad..zone", "", ".", ".lan", "a b.lan", "a\\.lan", "*.lan", &long] {
            assert!(limits(&["kids"], &[zone]).fault().is_some(), "{zone}");
        }
        assert!(limits(&[], &[]).fault().is_some());
        assert!(limits(&["kids", ""], &[]).fault().is_some());
        for zone in ["lan", "Example.lan.", "_udp.xn--a.lan"] {
            assert_eq!(limits(&[], &[zone]).fault(), None, "{zone}");
        }
        assert_eq!(limits(&["kids"], &[]).fault(), None);
    }

    #[test]
    fn logged_queries_are_for_those_who_may_read_them() {
        assert!(limits(&[], &[]).reads_log_of("a.example"));
        assert!(limits(&[], &["example"]).reads_log_of("a.example"));
        for other in [limits(&["kids"], &[]), limits(&[], &["example.lan"])] {
            assert!(!other.reads_log_of("a.example"));
        }
    }
}
