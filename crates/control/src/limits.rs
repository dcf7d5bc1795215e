//! The groups and zones that a user is limited to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The limits of a user. If there are neither groups nor zones, only the role limits the user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserLimits {
    /// Groups of clients. For the clients in these groups, the user may see logged queries and the
    /// responses that they get, and may change pauses and grants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Zones. For names in these zones, the user may explain answers, trace and flush, set negative
    /// trust anchors, and read logged queries. The user may also read, change, sign and reload
    /// these zones if the server hosts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
}

impl UserLimits {
    /// Returns whether there are no limits.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.zones.is_empty()
    }

    /// Returns the fault of the limits of a user, or `None` if they are valid. An empty name and a
    /// text that is not a zone are faults. Empty limits are a fault because the user would be
    /// unlimited.
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

    /// Returns whether a logged query of a client in `groups`, or for `name`, is within the limits.
    pub fn takes<'g>(&self, mut groups: impl Iterator<Item = &'g str>, name: &str) -> bool {
        groups.any(|group| self.has_group(group)) || self.has_zone(name)
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Returns whether the user may see logged queries for a name, of any client.
    pub fn reads_log_of(&self, name: &str) -> bool {
        self.is_empty() || self.has_zone(name)
    }

    /// Returns whether a name is in one of the zones. A name with escapes or U-labels is not: its
    /// text does not show its labels.
    pub(crate) fn has_zone(&self, name: &str) -> bool {
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

/// Returns whether a text is the name of a zone below the root. The root is no valid limit: it
/// would not limit anything.
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
    use super::*;

    fn limits(groups: &[&str], zones: &[&str]) -> UserLimits {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        UserLimits { groups: texts(groups), zones: texts(zones) }
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
