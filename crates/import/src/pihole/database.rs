//! `gravity.db`: the tables of a SQLite database from an untrusted source.
//!
//! The database is opened in memory and only read. A schema is code written by a stranger.
//! Therefore only real tables are queried, by a connection that trusts no function of the schema,
//! for a bounded number of steps.

use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row as SqlRow, config::DbConfig};
use serde_json::Value;

use crate::source::{Error, MAX_ROWS, MAX_SOURCE_LINE, MAX_UNPACKED, malformed};

use super::DATABASE;
use super::tables::{COLUMNS, Row, TABLES, Tables};

/// The start of a database (the SQLite file format, §1.3).
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The read and write versions in the header, and their value for a database without a write-ahead
/// log.
const FORMATS: std::ops::Range<usize> = 18..20;
const ROLLBACK_JOURNAL: u8 = 1;
/// Steps of SQLite's virtual machine per count, and most counts: several minutes.
const STEPS: i32 = 100_000;
const MAX_COUNTS: usize = 100_000;
/// Most octets of a value or of a schema statement.
const MAX_VALUE: i32 = 1 << 20;

/// Reports whether the octets are a database.
pub(super) fn is_one(octets: &[u8]) -> bool {
    octets.starts_with(MAGIC)
}

/// Adds the rows of all tables.
pub(super) fn read(octets: &[u8], tables: &mut Tables) -> Result<(), Error> {
    if !is_one(octets) {
        return Err(malformed(DATABASE, "not an SQLite database"));
    }
    if octets.len() as u64 > MAX_UNPACKED {
        return Err(Error::TooLarge {
            path: DATABASE.to_owned(),
            limit: format!("{} MiB", MAX_UNPACKED >> 20),
        });
    }
    let connection = open(octets).map_err(|error| malformed(DATABASE, error))?;
    let mut has_any = false;
    for (place, table) in TABLES.iter().enumerate() {
        if has_table(&connection, table).map_err(|error| malformed(DATABASE, error))? {
            read_table(&connection, place, table, tables)?;
            has_any = true;
        }
    }
    if has_any { Ok(()) } else { Err(malformed(DATABASE, "no Pi-hole tables found")) }
}

fn open(octets: &[u8]) -> rusqlite::Result<Connection> {
    let mut octets = octets.to_vec();
    // A database in memory has no separate log. A header that mentions one would be refused.
    if let Some(formats) = octets.get_mut(FORMATS) {
        formats.fill(ROLLBACK_JOURNAL);
    }
    let mut connection = Connection::open_in_memory()?;
    let len = octets.len();
    connection.deserialize_read_exact("main", octets.as_slice(), len, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    let mut counts = 0;
    connection.progress_handler(
        STEPS,
        Some(move || {
            counts += 1;
            counts > MAX_COUNTS
        }),
    )?;
    Ok(connection)
}

/// Reports whether there is a real table with this name. Views and virtual tables would run foreign
/// code.
fn has_table(connection: &Connection, table: &str) -> rusqlite::Result<bool> {
    let sql =
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND rootpage > 0";
    connection.query_row(sql, [table], |row| Ok(row.get::<_, i64>(0)? == 1))
}

fn read_table(
    connection: &Connection,
    place: usize,
    table: &str,
    tables: &mut Tables,
) -> Result<(), Error> {
    let wrong = |error: rusqlite::Error| malformed(DATABASE, format!("table {table}: {error}"));
    let sql = format!("SELECT * FROM \"{table}\" LIMIT {}", MAX_ROWS + 1);
    let mut statement = connection.prepare(&sql).map_err(wrong)?;
    let columns: Vec<Option<&str>> = statement
        .column_names()
        .map(|name| COLUMNS.iter().copied().find(|known| *known == name))
        .collect();
    let mut rows = statement.query([]).map_err(wrong)?;
    while let Some(row) = rows.next().map_err(wrong)? {
        tables.push(place, values(row, &columns).map_err(wrong)?)?;
    }
    Ok(())
}

/// Returns the known columns of a row. Texts beyond the longest line are omitted.
fn values(row: &SqlRow<'_>, columns: &[Option<&str>]) -> rusqlite::Result<Row> {
    let mut values = Row::new();
    for (index, column) in columns.iter().enumerate() {
        let Some(column) = column else {
            continue;
        };
        let value = match row.get_ref(index)? {
            ValueRef::Integer(number) => Value::from(number),
            ValueRef::Text(text) if text.len() <= MAX_SOURCE_LINE => {
                Value::from(String::from_utf8_lossy(text))
            }
            _ => continue,
        };
        values.insert((*column).to_owned(), value);
    }
    Ok(values)
}
