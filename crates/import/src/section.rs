//! A table of a source. Each key is removed when it is read, so that the unread keys are known at
//! the end.

use std::fmt;

use serde_json::{Map, Value};

use crate::draft::Draft;

/// The reason in a note about a key without a counterpart.
const NO_COUNTERPART: &str = "there is no such setting here";
/// Maximum number of characters of a value shown in a note.
const MAX_SHOWN: usize = 60;

/// A table and its path in the document.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    path: String,
    keys: Map<String, Value>,
}

impl Section {
    /// Returns the top-level table of a document, or `None` if the document is not a table.
    pub(crate) fn of(document: Value) -> Option<Self> {
        match document {
            Value::Object(keys) => Some(Self { path: String::new(), keys }),
            Value::Null => Some(Self::default()),
            _ => None,
        }
    }

    /// Returns the full name of a key.
    pub(crate) fn name(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Removes and returns a table. The result is empty if there is none.
    pub(crate) fn section(&mut self, key: &str) -> Self {
        let path = self.name(key);
        match self.keys.get_mut(key).map(Value::take) {
            Some(Value::Object(keys)) => Self { path, keys },
            Some(other) => {
                // The value is not a table. It remains in the section, so that it gets a note.
                self.keys.insert(key.to_owned(), other);
                Self { path, ..Self::default() }
            }
            None => Self { path, ..Self::default() },
        }
    }

    /// Removes and returns a list of tables, each named by `key` and its number.
    pub(crate) fn sections(&mut self, key: &str) -> Vec<Self> {
        let items = self.items(key).into_iter().enumerate();
        let path = self.name(key);
        let table = |(index, item)| match item {
            Value::Object(keys) => Some(Self { path: format!("{path}[{index}]"), keys }),
            _ => None,
        };
        items.filter_map(table).collect()
    }

    /// Removes and returns a list. The result is empty if there is none.
    pub(crate) fn items(&mut self, key: &str) -> Vec<Value> {
        match self.keys.get_mut(key).map(Value::take) {
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.keys.insert(key.to_owned(), other);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    /// Removes and returns a list of texts. A single text is a list of one.
    pub(crate) fn texts(&mut self, key: &str) -> Vec<String> {
        if let Some(text) = self.text(key) {
            return vec![text];
        }
        self.items(key).iter().filter_map(shown).collect()
    }

    /// Removes and returns the texts of a list, and adds its tables to `tables`.
    pub(crate) fn texts_and_tables(&mut self, key: &str, tables: &mut Vec<Self>) -> Vec<String> {
        if let Some(text) = self.text(key) {
            return vec![text];
        }
        let path = self.name(key);
        let mut texts = Vec::new();
        for (index, item) in self.items(key).into_iter().enumerate() {
            match item {
                Value::Object(keys) => tables.push(Self { path: format!("{path}[{index}]"), keys }),
                item => texts.extend(shown(&item)),
            }
        }
        texts
    }

    /// Removes and returns a text that is not empty. Numbers count as texts.
    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        let text = shown(self.keys.get(key)?)?;
        self.keys.remove(key);
        (!text.is_empty()).then_some(text)
    }

    /// Removes and returns a whole number that is not negative.
    pub(crate) fn number(&mut self, key: &str) -> Option<u64> {
        let number = match self.keys.get(key)? {
            Value::Number(number) => number.as_u64()?,
            Value::String(text) => text.trim().parse().ok()?,
            _ => return None,
        };
        self.keys.remove(key);
        Some(number)
    }

    /// Removes and returns a boolean. The default is `false`.
    pub(crate) fn flag(&mut self, key: &str) -> bool {
        match self.keys.get(key) {
            Some(Value::Bool(flag)) => {
                let flag = *flag;
                self.keys.remove(key);
                flag
            }
            _ => false,
        }
    }

    /// Reports whether any of `keys` is present.
    pub(crate) fn has_any(&self, keys: &[&str]) -> bool {
        keys.iter().any(|key| self.keys.contains_key(*key))
    }

    /// Reports whether no key remains.
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.values().all(is_absent)
    }

    /// Reports whether the key is true, without removing it.
    pub(crate) fn is_on(&self, key: &str) -> bool {
        self.keys.get(key) == Some(&Value::Bool(true))
    }

    /// Reports whether the key is false, and removes it if so.
    pub(crate) fn is_off(&mut self, key: &str) -> bool {
        self.keys.get(key) == Some(&Value::Bool(false)) && !self.flag(key)
    }

    /// Removes and returns all keys with their values.
    pub(crate) fn drain(&mut self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.keys).into_iter().collect()
    }

    /// Removes keys without a note.
    pub(crate) fn skip(&mut self, keys: &[&str]) {
        for key in keys {
            self.keys.remove(*key);
        }
    }

    /// Removes keys that do not affect answers or whose effect is what Avocet does anyway. One note
    /// lists all of them.
    pub(crate) fn quiet(&mut self, keys: &[&str], draft: &mut Draft) {
        for key in keys {
            if self.keys.remove(*key).is_some_and(|value| !is_absent(&value)) {
                draft.quiet(self.name(key));
            }
        }
    }

    /// Removes a key without a counterpart. Adds a note if the key has any value, including false
    /// and zero.
    pub(crate) fn remark(&mut self, key: &str, reason: &str, draft: &mut Draft) {
        if let Some(value) = self.keys.remove(key).filter(|value| !is_absent(value)) {
            draft.note(Shown(&self.name(key), &value), reason);
        }
    }

    /// Notes the unread keys, with the reason from `reasons` or the default one. Empty and false
    /// values are skipped.
    pub(crate) fn leave(mut self, reasons: &[(&str, &str)], draft: &mut Draft) {
        for (key, value) in self.drain() {
            if is_void(&value) {
                continue;
            }
            let reason = reasons
                .iter()
                .find(|(known, _)| *known == key)
                .map_or(NO_COUNTERPART, |(_, reason)| reason);
            draft.note(Shown(&self.name(&key), &value), reason);
        }
    }
}

/// Reports whether there is no value. False and zero are values, because the default may differ.
fn is_absent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(keys) => keys.values().all(is_absent),
    }
}

/// Reports whether the value is absent, empty, zero or false.
fn is_void(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_void),
        Value::Object(keys) => keys.values().all(is_void),
        Value::Bool(true) => false,
    }
}

/// Returns a text, or a number as text.
pub(crate) fn shown(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A key that is shown together with the start of its value, if the value is short and not secret.
struct Shown<'a>(&'a str, &'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.0.to_ascii_lowercase();
        let is_secret =
            ["pass", "pwd", "secret", "token", "key"].iter().any(|word| key.contains(word));
        let is_single = !matches!(self.1, Value::Array(_) | Value::Object(_));
        if is_secret || !is_single {
            return f.write_str(self.0);
        }
        let value = self.1.to_string();
        let short: String = value.chars().take(MAX_SHOWN).collect();
        let more = if short.len() < value.len() { "..." } else { "" };
        write!(f, "{} = {short}{more}", self.0)
    }
}

/// Parses a duration in Go syntax (`2s`, `1h30m`, `500ms`) or a number of seconds, in milliseconds.
pub(crate) fn millis(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    if let Ok(secs) = rest.parse::<u64>() {
        return secs.checked_mul(1_000);
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let unit_len = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let factor = match rest.get(..unit_len)? {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = rest.get(unit_len..)?;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_go_writes_them() {
        for (text, expected) in [
            ("2s", Some(2_000)),
            ("1h30m", Some(5_400_000)),
            ("500ms", Some(500)),
            ("30", Some(30_000)),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
        for wrong in ["x", "3w", "-1s", "99999999999999999999h"] {
            assert_eq!(millis(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_not_taken_is_noted_once_and_voids_are_not() {
        let document = serde_json::json!({"a": 1, "b": "", "c": {"d": 7, "e": false}, "f": {"g": null},
            "g": {"password": "x"}, "h": [1]});
        let mut section = Section::of(document).unwrap();
        assert_eq!(section.number("a"), Some(1));
        let mut inner = section.section("c");
        assert!(inner.texts("e").is_empty());
        let mut draft = Draft::default();
        inner.leave(&[("d", "why not")], &mut draft);
        section.section("g").leave(&[], &mut draft);
        section.leave(&[("h", "why not")], &mut draft);
        assert_eq!(
            draft.notes,
            ["c.d = 7: why not", "g.password: there is no such setting here", "h: why not"]
        );
    }
}
