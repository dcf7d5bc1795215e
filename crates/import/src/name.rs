//! The forms that names have in the configuration: names of domains, lists, groups, clients and
//! rules.

use std::collections::HashMap;

use avocet_wire::name::MAX_NAME;
use avocet_wire::text;

/// The root in wire form.
pub(crate) const ROOT: &[u8] = &[0];
/// Maximum number of octets of a generated name.
const MAX_SLUG: usize = 48;
/// Maximum number of octets in a name of a client, group, list or rule, as in the configuration
/// reader.
const MAX_TITLE: usize = 64;

/// Returns a domain name in lower case without a final dot, or `.` for the root. Returns `None` if
/// the name is invalid or needs escapes.
pub(crate) fn domain(written: &str) -> Option<String> {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"._-*".contains(&octet);
    if written.is_empty() || !written.bytes().all(is_plain) {
        return None;
    }
    let mut wire = [0; MAX_NAME];
    text::name_to_wire(written.as_bytes(), Some(ROOT), &mut wire).ok()?;
    let name = written.strip_suffix('.').unwrap_or(written).to_ascii_lowercase();
    Some(if name.is_empty() { ".".to_owned() } else { name })
}

/// Reports whether `name` is `zone` or below it. Both must have the form of [`domain`].
pub(crate) fn is_under(name: &str, zone: &str) -> bool {
    zone == "."
        || name.strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Derives a text of letters, digits and hyphens from `written`. Returns `otherwise` if the result
/// would be empty.
pub(crate) fn slug(written: &str, otherwise: &str) -> String {
    let mut out = String::new();
    for c in written.chars().take(MAX_SLUG) {
        if c.is_ascii_alphanumeric() {
            out.push(c.to_ascii_lowercase());
        } else if !matches!(c, '\'' | '"') && !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    let kept = out.trim_end_matches('-');
    if kept.is_empty() { otherwise.to_owned() } else { kept.to_owned() }
}

/// Reports whether a client or a group can have this name.
pub(crate) fn is_title(written: &str) -> bool {
    (1..=MAX_TITLE).contains(&written.len())
        && !written.chars().any(char::is_control)
        && !written.trim().is_empty()
}

/// Names in use, each with the last number appended to it.
#[derive(Debug, Default)]
pub(crate) struct AssignedNames(HashMap<String, usize>);

impl AssignedNames {
    /// Returns `wanted`, with a number appended if it is in use.
    pub(crate) fn unique(&mut self, wanted: String) -> String {
        let Some(&last) = self.0.get(&wanted) else {
            self.0.insert(wanted.clone(), 1);
            return wanted;
        };
        let (mut name, mut count) = (wanted.clone(), last);
        while self.0.contains_key(&name) {
            count += 1;
            name = format!("{wanted}-{count}");
        }
        self.0.insert(wanted, count);
        self.0.insert(name.clone(), 1);
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_folded_and_checked() {
        assert_eq!(domain("Www.Example.").as_deref(), Some("www.example"));
        assert_eq!(
            (domain(".").as_deref(), domain("*.lan").as_deref()),
            (Some("."), Some("*.lan"))
        );
        let long = "a.".repeat(128);
        for wrong in ["", "a..b", "a b", "bücher.example", "a\\.b", &"a".repeat(64), &long] {
            assert_eq!(domain(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_zone_ends_at_a_label() {
        assert!(is_under("a.lan", "lan") && is_under("lan", "lan") && is_under("x", "."));
        assert!(!is_under("wlan", "lan"));
    }

    #[test]
    fn slugs_are_plain_and_unique() {
        assert_eq!(slug("Anna's iPad (kids)", "x"), "annas-ipad-kids");
        assert_eq!(slug("日本", "client"), "client");
        let mut names = AssignedNames::default();
        assert_eq!([names.unique("a".into()), names.unique("a".into())], ["a", "a-2"]);
    }
}
