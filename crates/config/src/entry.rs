//! The entries of tables that may occur several times in the configuration file, as data. Programs
//! use this to show, add, change and remove single entries. [`edit`](crate::edit) changes the file.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use toml_edit::{Array, InlineTable};

use crate::edit::EditError;
use crate::schema::json_schema;

/// A table that may occur several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EntryTable {
    /// `[[list]]`
    List,
    /// `[[rule]]`
    Rule,
    /// `[[group]]`
    Group,
    /// `[[client]]`
    Client,
    /// `[[record]]`
    Record,
    /// `[[forward]]`
    Forward,
    /// `[[stub]]`
    Stub,
}

/// An entry of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct FileEntry {
    /// The name by which [`edit`](crate::edit) finds the entry.
    pub id: String,
    /// The keys of the entry in the file.
    pub settings: Map<String, Value>,
}

impl EntryTable {
    /// All tables that may occur several times.
    pub const ALL: [Self; 7] = [
        Self::List,
        Self::Rule,
        Self::Group,
        Self::Client,
        Self::Record,
        Self::Forward,
        Self::Stub,
    ];

    /// Returns the name of the table in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Rule => "rule",
            Self::Group => "group",
            Self::Client => "client",
            Self::Record => "record",
            Self::Forward => "forward",
            Self::Stub => "stub",
        }
    }

    /// Returns the key by which an entry is changed or removed as a whole.
    pub fn key(self, id: &str) -> String {
        format!("{}[{id}]", self.name())
    }

    /// Returns the id of an entry with these settings; `None` if they have no name.
    pub fn id(self, settings: &Map<String, Value>) -> Option<String> {
        let text = |key: &str| settings.get(key).and_then(Value::as_str);
        let own = text("name").or_else(|| text("zone"))?;
        match text("type") {
            Some(rtype) if self == Self::Record => Some(format!("{own} {rtype}")),
            _ => Some(own.to_owned()),
        }
    }

    /// Returns whether two ids mean the same entry. Domain names may differ in letter case and in
    /// the final dot.
    pub fn is_same(self, id: &str, other: &str) -> bool {
        let folded = |id: &str| match (self, id.rsplit_once(' ')) {
            (Self::Record, Some((name, rtype))) => {
                format!("{} {}", folded_name(name), rtype.to_ascii_uppercase())
            }
            (Self::Record | Self::Forward | Self::Stub, _) => folded_name(id),
            _ => id.to_owned(),
        };
        folded(id) == folded(other)
    }

    /// Returns the entries of this table in the text of a file, in the order of the file.
    ///
    /// # Errors
    /// The text is not TOML.
    pub fn entries(self, text: &str) -> Result<Vec<FileEntry>, EditError> {
        let file: toml::Table =
            text.parse().map_err(|error: toml::de::Error| EditError::NotToml(error.to_string()))?;
        let tables = file.get(self.name()).and_then(toml::Value::as_array);
        let entry = |table: &toml::Value| {
            let Ok(Value::Object(settings)) = serde_json::to_value(table) else { return None };
            Some(FileEntry { id: self.id(&settings)?, settings })
        };
        Ok(tables.into_iter().flatten().filter_map(entry).collect())
    }
}

fn folded_name(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Returns the schema of an entry of each table (JSON Schema 2020-12, without references).
pub fn schemas() -> BTreeMap<EntryTable, Value> {
    let schema = json_schema();
    let of = |table: EntryTable| schema["properties"][table.name()]["items"].clone();
    EntryTable::ALL.into_iter().map(|table| (table, of(table))).collect()
}

/// Returns settings as an inline table of TOML. A setting that is `null` is left out.
///
/// # Errors
/// A number has no form in TOML.
pub fn inline(settings: &Map<String, Value>) -> Result<String, EditError> {
    Ok(table(settings)?.to_string())
}

/// Returns one setting as TOML.
///
/// # Errors
/// A number has no form in TOML, or the setting is `null`.
pub fn toml_text(setting: &Value) -> Result<String, EditError> {
    Ok(toml_value(setting)?.to_string())
}

fn table(settings: &Map<String, Value>) -> Result<InlineTable, EditError> {
    let mut table = InlineTable::new();
    for (key, value) in settings.iter().filter(|(_, value)| !value.is_null()) {
        table.insert(key, toml_value(value)?);
    }
    Ok(table)
}

fn toml_value(value: &Value) -> Result<toml_edit::Value, EditError> {
    let unfit =
        |reason: &str| EditError::NotAValue { value: value.to_string(), reason: reason.to_owned() };
    Ok(match value {
        Value::Null => return Err(unfit("TOML has no null")),
        Value::Bool(flag) => (*flag).into(),
        Value::String(text) => text.into(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => number.into(),
            (None, Some(number)) if !number.is_finite() || number.fract() == 0.0 => {
                return Err(unfit("the number is too large"));
            }
            (None, Some(number)) => number.into(),
            (None, None) => return Err(unfit("the number is too large")),
        },
        Value::Array(items) => {
            toml_edit::Value::Array(items.iter().map(toml_value).collect::<Result<Array, _>>()?)
        }
        Value::Object(fields) => toml_edit::Value::InlineTable(table(fields)?),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::edit::{KeyEdit, edited};

    #[test]
    fn entries_have_the_names_by_which_edits_find_them() {
        let text = "[[record]]\nname = \"nas.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.1\"]\n\
                    [[forward]]\nzone = \"!a.lan\"\n[[rule]]\nname = \"x]. \\\"[y\"\n";
        let ids = |table: EntryTable| {
            let entries = table.entries(text).unwrap();
            entries.into_iter().map(|entry| entry.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(EntryTable::Record), ["nas.lan A"]);
        assert_eq!(ids(EntryTable::Forward), ["!a.lan"]);
        assert_eq!(ids(EntryTable::List), [""; 0]);
        for (table, id) in [
            (EntryTable::Record, "nas.lan A"),
            (EntryTable::Forward, "!a.lan"),
            (EntryTable::Rule, "x]. \"[y"),
        ] {
            let key = table.key(id);
            let rest = edited(text, &[KeyEdit { key: &key, value: None }]).unwrap();
            assert_eq!(table.entries(&rest).unwrap(), [], "{id}");
            let others: usize =
                EntryTable::ALL.into_iter().map(|table| table.entries(&rest).unwrap().len()).sum();
            assert_eq!(others, 2, "{id}");
        }
    }

    #[test]
    fn any_text_survives_the_way_into_the_file_and_back() {
        for text in ["\"\n[[rule]]\nname = \"", "'''\u{0}\r\n\u{7f}", "\\u0041", "]]", "\u{202e}"] {
            let settings = json!({ "name": text, "when": text, "to": [text, { "a": text }] });
            let settings = settings.as_object().unwrap().clone();
            let (key, value) = (EntryTable::Rule.key(text), inline(&settings).unwrap());
            let file = edited("# top\n", &[KeyEdit { key: &key, value: Some(&value) }]).unwrap();
            let entries = EntryTable::Rule.entries(&file).unwrap();
            assert_eq!(entries, [FileEntry { id: text.to_owned(), settings }], "{file}");
        }
    }

    #[test]
    fn a_number_that_toml_does_not_have_is_refused() {
        for (number, fits) in [("1", true), ("-1.5", true), ("18446744073709551615", false)] {
            let fields = format!("{{\"a\": {number}, \"b\": null}}");
            let fields: Map<String, Value> = serde_json::from_str(&fields).unwrap();
            let inline = inline(&fields);
            assert_eq!(inline.is_ok(), fits, "{inline:?}");
            assert!(!inline.is_ok_and(|text| text.contains('b')));
        }
    }

    #[test]
    fn every_table_has_a_schema_with_its_keys() {
        for (table, schema) in schemas() {
            let keys = schema["properties"].as_object().unwrap();
            assert!(keys.contains_key("name") || keys.contains_key("zone"), "{table:?}");
        }
    }
}
