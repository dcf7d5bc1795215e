//! The settings of a configuration for hosted zones: their tables, the secrets of keys, and the
//! files that must be read as zones.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use avocet_wire::name::MAX_NAME;
use avocet_wire::text;
use toml::Value;

use crate::draft::{Draft, one_line};
use crate::name;

/// The kinds of tables in the order in which they are written.
const KINDS: [&str; 5] = ["certificate", "stub", "key", "signing-policy", "zone"];

/// Tables, secrets and zone files.
#[derive(Debug, Default)]
pub(crate) struct Hosted {
    tables: BTreeMap<&'static str, Vec<ArrayTable>>,
    /// The kind of each table, with the name that identifies the table within its kind.
    known: HashSet<(&'static str, String)>,
    pub(crate) secrets: Vec<(String, Secret)>,
    pub(crate) zone_files: Vec<ZoneFile>,
}

/// One table of an array, such as `[[zone]]`.
#[derive(Clone, Debug)]
pub(crate) struct ArrayTable {
    pub(crate) kind: &'static str,
    pub(crate) origin: String,
    pub(crate) pairs: Vec<(&'static str, Value)>,
}

/// The text of a file that other accounts must not read. The text is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// A master file that the configuration refers to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneFile {
    /// The name of the zone.
    pub zone: String,
    /// The path of the file.
    pub path: String,
    /// The place in the source that names the file.
    pub origin: String,
}

impl Secret {
    /// Returns the text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Hosted {
    /// Returns the tables in the order in which they are written to the file.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &ArrayTable> {
        KINDS.iter().filter_map(|kind| self.tables.get(kind)).flatten()
    }

    /// Returns whether there is a table of this kind and name.
    pub(crate) fn has(&self, kind: &'static str, name: &str) -> bool {
        self.known.contains(&(kind, name.to_owned()))
    }

    /// Adds a table.
    pub(crate) fn add(&mut self, table: ArrayTable) {
        debug_assert!(KINDS.contains(&table.kind));
        if let Some(name) = ["name", "zone", "cert"].iter().find_map(|key| table.text(key)) {
            self.known.insert((table.kind, name.to_owned()));
        }
        self.tables.entry(table.kind).or_default().push(table);
    }
}

impl ArrayTable {
    pub(crate) fn of(kind: &'static str, origin: impl fmt::Display) -> Self {
        Self { kind, origin: origin.to_string(), pairs: Vec::new() }
    }

    /// Sets a key. If a key is set repeatedly, the last value counts.
    pub(crate) fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        self.pairs.retain(|(set, _)| *set != key);
        self.pairs.push((key, value.into()));
    }

    /// Returns the number that a key was set to, if any.
    pub(crate) fn number(&self, key: &str) -> Option<i64> {
        self.pairs.iter().find(|(set, _)| *set == key)?.1.as_integer()
    }

    /// Sets a key to a list, unless the list is empty.
    pub(crate) fn set_list(&mut self, key: &'static str, values: Vec<String>) {
        if !values.is_empty() {
            self.set(key, values);
        }
    }

    /// Returns the text that a key was set to, if any.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(set, _)| *set == key)?.1.as_str()
    }
}

impl Draft {
    /// Adds a companion file with a unique name and returns its path.
    pub(crate) fn companion(&mut self, wanted: &str, ending: &str, text: String) -> String {
        let file = self.companion_name(wanted, ending);
        self.files.push((file.clone(), text));
        format!("{}{file}", self.directory)
    }

    /// Adds a `[[key]]` and a companion file for its secret.
    pub(crate) fn key(&mut self, key: &SharedKey<'_>, origin: &str) {
        let file = self.companion_name(&format!("{} key", key.name), ".secret");
        let mut table = ArrayTable::of("key", origin);
        table.set("name", key.name);
        table.set("algorithm", key.algorithm);
        table.set("secret-file", format!("{}{file}", self.directory));
        self.hosted.add(table);
        self.hosted.secrets.push((file, Secret(format!("{}\n", one_line(key.secret)))));
    }

    fn companion_name(&mut self, wanted: &str, ending: &str) -> String {
        let name = self.file_names.unique(slug_of_name(wanted));
        format!("{name}{ending}")
    }
}

/// A key for transaction signatures.
pub(crate) struct SharedKey<'k> {
    pub(crate) name: &'k str,
    pub(crate) algorithm: &'k str,
    /// The secret in base64.
    pub(crate) secret: &'k str,
}

/// The algorithms of keys.
const ALGORITHMS: [&str; 8] = [
    "hmac-sha1",
    "hmac-sha224",
    "hmac-sha256",
    "hmac-sha384",
    "hmac-sha512",
    "hmac-sha256-128",
    "hmac-sha384-192",
    "hmac-sha512-256",
];
/// Number of octets of a secret.
const SECRET_LEN: std::ops::RangeInclusive<usize> = 8..=512;

/// Returns the algorithm of a key in the form of the configuration.
pub(crate) fn algorithm(written: &str) -> Option<&'static str> {
    let written = written.trim_end_matches('.').to_ascii_lowercase();
    ALGORITHMS.into_iter().find(|known| *known == written)
}

/// Returns whether a text is a secret in base64 that the server accepts.
pub(crate) fn is_secret(written: &str) -> bool {
    let digits = written.trim_end_matches('=');
    let padding = written.len() - digits.len();
    let is_digit = |octet: u8| octet.is_ascii_alphanumeric() || b"+/".contains(&octet);
    // In a last group of two or three digits, the bits beyond the last octet are zero.
    let low_bits =
        digits.bytes().last().and_then(value).map_or(0, |value| match digits.len() % 4 {
            2 => value & 15,
            3 => value & 3,
            _ => 0,
        });
    digits.bytes().all(is_digit)
        && written.len().is_multiple_of(4)
        && padding <= 2
        && low_bits == 0
        && SECRET_LEN.contains(&(digits.len() * 3 / 4))
}

/// Returns the value of a digit in base64.
fn value(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

/// Returns the name of a zone or a key in lower case without a final dot, or `.` for the root.
/// Unlike a host name, it may contain the slash of RFC 2317.
pub(crate) fn zone_name(written: &str) -> Option<String> {
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"._-/".contains(&octet);
    if written.is_empty() || !written.bytes().all(is_plain) {
        return None;
    }
    let mut wire = [0; MAX_NAME];
    text::name_to_wire(written.as_bytes(), Some(name::ROOT), &mut wire).ok()?;
    let name = written.strip_suffix('.').unwrap_or(written).to_ascii_lowercase();
    Some(if name.is_empty() { ".".to_owned() } else { name })
}

/// Returns a file name for a domain name. The dots of the domain name are kept.
fn slug_of_name(written: &str) -> String {
    let parts: Vec<String> = written
        .split('.')
        .filter(|part| !part.is_empty())
        .map(|part| name::slug(part, "x"))
        .collect();
    let name: String = parts.join(".").chars().take(120).collect();
    if name.is_empty() { "zone".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_base64_of_some_length() {
        assert!(is_secret("c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISE="));
        for wrong in ["", "c2VjcmV0", "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0IS", "not base64!!!!!!"]
        {
            assert!(!is_secret(wrong), "{wrong}");
        }
        // The last digit has nonzero bits beyond the last octet.
        assert!(!is_secret("c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISF="));
        let secret = Secret("c2VjcmV0".to_owned());
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    #[test]
    fn names_of_zones_may_have_a_slash() {
        let name = zone_name("0/25.2.0.192.IN-ADDR.arpa.");
        assert_eq!(name.as_deref(), Some("0/25.2.0.192.in-addr.arpa"));
        assert_eq!((zone_name("."), zone_name("a b")), (Some(".".to_owned()), None));
        assert_eq!(slug_of_name("0/25.2.in-addr.arpa"), "0-25.2.in-addr.arpa");
    }
}
