//! SQLite databases from an untrusted source.
//!
//! The database is opened in memory and only read. The schema is untrusted code. Therefore only
//! real tables are queried, by a connection that trusts no function of the schema, for a bounded
//! number of steps.

use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row as SqlRow, config::DbConfig};
use serde_json::{Map, Value};

use crate::source::{Error, MAX_ROWS, MAX_UNPACKED, malformed};

/// The start of a database (the SQLite file format, §1.3).
const MAGIC: &[u8] = b"SQLite format 3\0";
/// The read and write versions in the header, and their value for a database without a write-ahead
/// log.
const FORMATS: std::ops::Range<usize> = 18..20;
const ROLLBACK_JOURNAL: u8 = 1;
/// Number of steps of SQLite's virtual machine per count, and maximum number of counts: several
/// minutes.
const STEPS: i32 = 100_000;
const MAX_COUNTS: usize = 100_000;
/// Maximum number of octets of a value or of a schema statement.
const MAX_VALUE: i32 = 1 << 20;

/// A row: its columns by name.
pub(crate) type DatabaseRow = Map<String, Value>;

/// The columns of a table that are read.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'c> {
    pub(crate) names: &'c [&'c str],
    /// Maximum number of octets of a text value. Longer values are omitted.
    pub(crate) longest: usize,
}

/// An open database.
pub(crate) struct Database {
    connection: Connection,
    /// The name of the database in error messages.
    name: String,
}

/// Reports whether the octets are a database.
pub(crate) fn is_one(octets: &[u8]) -> bool {
    octets.starts_with(MAGIC)
}

impl Database {
    /// Opens a database.
    ///
    /// # Errors
    /// The octets are not a database, or there are too many.
    pub(crate) fn open(name: &str, octets: &[u8]) -> Result<Self, Error> {
        if !is_one(octets) {
            return Err(malformed(name, "not an SQLite database"));
        }
        if octets.len() as u64 > MAX_UNPACKED {
            return Err(Error::TooLarge {
                path: name.to_owned(),
                limit: format!("{} MiB", MAX_UNPACKED >> 20),
            });
        }
        let connection = open(octets).map_err(|error| malformed(name, error))?;
        Ok(Self { connection, name: name.to_owned() })
    }

    /// Reports whether there is a real table with this name. Views and virtual tables would run
    /// untrusted code.
    ///
    /// # Errors
    /// The database is damaged.
    pub(crate) fn has_table(&self, table: &str) -> Result<bool, Error> {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1 AND \
                   rootpage > 0";
        let count = self.connection.query_row(sql, [table], |row| row.get::<_, i64>(0));
        count.map(|count| count == 1).map_err(|error| malformed(&self.name, error))
    }

    /// Passes each row of a table to `take`.
    ///
    /// # Errors
    /// The database is damaged, or `take` refuses a row.
    pub(crate) fn rows(
        &self,
        table: &str,
        columns: Columns<'_>,
        take: &mut dyn FnMut(DatabaseRow) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let wrong =
            |error: rusqlite::Error| malformed(&self.name, format!("table {table}: {error}"));
        let sql = format!("SELECT * FROM \"{table}\" LIMIT {}", MAX_ROWS + 1);
        let mut statement = self.connection.prepare(&sql).map_err(wrong)?;
        let known: Vec<Option<&str>> = statement
            .column_names()
            .map(|name| columns.names.iter().copied().find(|known| *known == name))
            .collect();
        let mut rows = statement.query([]).map_err(wrong)?;
        while let Some(row) = rows.next().map_err(wrong)? {
            take(values(row, &known, columns.longest).map_err(wrong)?)?;
        }
        Ok(())
    }
}

fn open(octets: &[u8]) -> rusqlite::Result<Connection> {
    let mut octets = octets.to_vec();
    // A database in memory has no separate log, and SQLite would refuse a header that mentions one.
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

/// Returns the values of a row by the names in `columns`, which has an item for each column of the
/// row. Omits columns without a name, and texts of more than `longest` octets.
fn values(
    row: &SqlRow<'_>,
    columns: &[Option<&str>],
    longest: usize,
) -> rusqlite::Result<DatabaseRow> {
    let mut values = DatabaseRow::new();
    for (index, column) in columns.iter().enumerate() {
        let Some(column) = column else {
            continue;
        };
        let value = match row.get_ref(index)? {
            ValueRef::Integer(number) => Value::from(number),
            ValueRef::Text(text) if text.len() <= longest => {
                Value::from(String::from_utf8_lossy(text))
            }
            _ => continue,
        };
        values.insert((*column).to_owned(), value);
    }
    Ok(values)
}
