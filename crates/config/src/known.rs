//! Compares keys with the schema, and reports unknown keys with the keys that were probably meant.
//!
//! Serde would stop at the first unknown key, or at the first table that has another type. This
//! module finds all of them and removes them, so that the rest can be read.

use std::mem;
use std::sync::LazyLock;

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use super::error::{KeyAdvice, SettingError};
use super::setting::SettingFault;

/// The type of the value of a key, in as much detail as a value from an environment variable needs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ValueKind {
    Boolean,
    Number,
    Text,
    List,
}

/// Returns the kind of value of a key outside of lists of tables.
///
/// # Errors
/// There is no such key; the message names the key that was probably meant.
pub(super) fn kind(schema: &Value, section: &str, key: &str) -> Result<ValueKind, SettingError> {
    let sections = properties(schema);
    let Some(table) = sections.get(section) else {
        return Err(unknown(section, sections, schema));
    };
    if is_list_of_tables(table) {
        return Err(SettingError::VariableOfTables(section.to_owned()));
    }
    let keys = properties(table);
    let Some(value) = keys.get(key) else {
        return Err(unknown(key, keys, schema));
    };
    Ok(match value["type"].as_str() {
        Some("boolean") => ValueKind::Boolean,
        Some("integer" | "number") => ValueKind::Number,
        Some("array") => ValueKind::List,
        _ => ValueKind::Text,
    })
}

/// Removes from `document` each key that is not in `schema` and each table of the wrong type, and
/// adds a fault for each.
pub(super) fn remove_unknown(
    document: &mut DeTable<'_>,
    schema: &Value,
    faults: &mut Vec<SettingFault>,
) {
    let sections = properties(schema);
    for (name, mut value) in mem::take(document) {
        let Some(section) = sections.get(name.get_ref().as_ref()) else {
            let error = unknown(name.get_ref(), sections, schema);
            faults.push(SettingFault::new(name.span(), &error));
            continue;
        };
        let value_mut = value.get_mut();
        let tables = if is_list_of_tables(section) {
            tables_of(value_mut)
        } else {
            table_of(value_mut).map(|table| vec![table])
        };
        match tables {
            Some(tables) => {
                for table in tables {
                    remove_unknown_keys(table, section, schema, faults);
                }
                document.insert(name, value);
            }
            None => {
                let right = header(name.get_ref(), section);
                let message = format!("`{name}` has another form; start it with the line {right}");
                faults.push(SettingFault { span: name.span(), message });
            }
        }
    }
}

/// Returns the table in a value; `None` if the value is not a table.
fn table_of<'a, 'i>(value: &'a mut DeValue<'i>) -> Option<&'a mut DeTable<'i>> {
    match value {
        DeValue::Table(table) => Some(table),
        _ => None,
    }
}

/// Returns the tables of a list; `None` if the value is not a list of tables.
fn tables_of<'a, 'i>(value: &'a mut DeValue<'i>) -> Option<Vec<&'a mut DeTable<'i>>> {
    match value {
        DeValue::Array(items) => items.iter_mut().map(|item| table_of(item.get_mut())).collect(),
        _ => None,
    }
}

fn remove_unknown_keys(
    table: &mut DeTable<'_>,
    section: &Value,
    schema: &Value,
    faults: &mut Vec<SettingFault>,
) {
    let keys = properties(section);
    for (key, value) in mem::take(table) {
        if keys.contains_key(key.get_ref().as_ref()) {
            table.insert(key, value);
        } else {
            faults.push(SettingFault::new(key.span(), &unknown(key.get_ref(), keys, schema)));
        }
    }
}

/// Returns the line that begins a section.
fn header(name: &str, section: &Value) -> String {
    if is_list_of_tables(section) { format!("[[{name}]]") } else { format!("[{name}]") }
}

fn properties(schema: &Value) -> &Map<String, Value> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    let table = if is_list_of_tables(schema) { &schema["items"] } else { schema };
    table["properties"].as_object().unwrap_or(&NONE)
}

fn is_list_of_tables(schema: &Value) -> bool {
    schema["items"]["properties"].is_object()
}

/// Returns the error for a key that is not in `known`.
fn unknown(name: &str, known: &Map<String, Value>, schema: &Value) -> SettingError {
    SettingError::UnknownKey { key: name.to_owned(), advice: advice(name, known, schema) }
}

fn advice(name: &str, known: &Map<String, Value>, schema: &Value) -> KeyAdvice {
    // If both a table and a list of tables have the key, the table is the likelier one.
    let home = properties(schema)
        .iter()
        .filter(|(_, section)| properties(section).contains_key(name))
        .min_by_key(|(_, section)| is_list_of_tables(section));
    if let Some((section, table)) = home {
        return KeyAdvice::Under(header(section, table));
    }
    if let Some(nearest) = nearest(name, known.keys()) {
        return KeyAdvice::Similar(nearest.to_owned());
    }
    KeyAdvice::Known(known.keys().cloned().collect())
}

/// Returns the known name that resembles `name`: at most a third of the letters differ, or one name
/// begins with the other.
pub(super) fn nearest<'a, K: AsRef<str> + ?Sized + 'a>(
    name: &str,
    known: impl Iterator<Item = &'a K>,
) -> Option<&'a str> {
    let written = name.to_lowercase().replace('_', "-");
    known
        .map(AsRef::as_ref)
        .map(|candidate| (strsim::osa_distance(&written, candidate), candidate))
        .filter(|(distance, candidate)| {
            let is_near = *distance <= candidate.len().div_ceil(3).min(4);
            let begins = candidate.starts_with(&written) || written.starts_with(candidate);
            is_near || (begins && written.len() > 3)
        })
        .min()
        .map(|(_, candidate)| candidate)
}
