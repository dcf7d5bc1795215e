//! Pi-hole's tables, from the database or from the JSON files of an archive of version 5.

use serde_json::{Map, Value};

use crate::source::{self, Error, MAX_ROWS, malformed};

/// A row: its columns by name.
pub(super) type Row = Map<String, Value>;

/// The tables that are read, and their columns.
pub(super) const TABLES: [&str; 7] = [
    "adlist",
    "domainlist",
    "group",
    "client",
    "adlist_by_group",
    "domainlist_by_group",
    "client_by_group",
];
pub(super) const COLUMNS: [&str; 13] = [
    "id",
    "address",
    "enabled",
    "comment",
    "type",
    "domain",
    "name",
    "description",
    "ip",
    "adlist_id",
    "domainlist_id",
    "client_id",
    "group_id",
];

/// The rows of all tables, in the order of [`TABLES`].
#[derive(Debug, Default)]
pub(super) struct Tables([Vec<Row>; 7]);

/// Returns the table that a file of a version 5 archive belongs to.
pub(super) fn table_of(file: &str) -> Option<usize> {
    let name = file.strip_suffix(".json")?;
    let table = match name {
        "whitelist.exact" | "whitelist.regex" | "blacklist.exact" | "blacklist.regex" => {
            "domainlist"
        }
        name => name,
    };
    TABLES.iter().position(|known| *known == table)
}

impl Tables {
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }

    /// Adds a row to the table with this index in [`TABLES`].
    pub(super) fn push(&mut self, table: usize, row: Row) -> Result<(), Error> {
        let (Some(rows), Some(name)) = (self.0.get_mut(table), TABLES.get(table)) else {
            return Ok(());
        };
        if rows.len() >= MAX_ROWS {
            return Err(Error::TooLarge {
                path: (*name).to_owned(),
                limit: format!("{MAX_ROWS} rows"),
            });
        }
        rows.push(row);
        Ok(())
    }

    /// Removes and returns the rows of a table.
    pub(super) fn take(&mut self, table: &str) -> Vec<Row> {
        let place = TABLES.iter().position(|known| *known == table);
        place.and_then(|place| self.0.get_mut(place)).map(std::mem::take).unwrap_or_default()
    }

    /// Adds the rows of a file.
    pub(super) fn read_json(&mut self, file: &str, octets: &[u8]) -> Result<(), Error> {
        let Some(table) = table_of(file) else {
            return Ok(());
        };
        let rows: Value = serde_json::from_str(&source::text(file, octets)?)
            .map_err(|error| malformed(file, error))?;
        let Value::Array(rows) = rows else {
            return Err(malformed(file, "expected a list of rows"));
        };
        for row in rows {
            match row {
                Value::Object(row) => self.push(table, row)?,
                _ => return Err(malformed(file, "expected a row")),
            }
        }
        Ok(())
    }
}

/// Returns the value of a column with a whole number, a boolean, or a text with a number.
pub(super) fn number(row: &Row, column: &str) -> Option<i64> {
    match row.get(column)? {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(flag) => Some(i64::from(*flag)),
        _ => None,
    }
}

/// Returns the value of a text column, or an empty text if there is none.
pub(super) fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).and_then(Value::as_str).map_or("", str::trim)
}

/// Reports whether the row is enabled, which is the default.
pub(super) fn is_enabled(row: &Row) -> bool {
    number(row, "enabled") != Some(0)
}
