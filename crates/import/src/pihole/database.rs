//! `gravity.db`: the tables of a SQLite database from an untrusted source.

use crate::source::{Error, MAX_SOURCE_LINE, malformed};
use crate::sqlite::{self, Columns, Database};

use super::DATABASE;
use super::tables::{COLUMNS, TABLES, Tables};

/// Reports whether the octets are a database.
pub(super) fn is_one(octets: &[u8]) -> bool {
    sqlite::is_one(octets)
}

/// Adds the rows of all tables.
pub(super) fn read(octets: &[u8], tables: &mut Tables) -> Result<(), Error> {
    let database = Database::open(DATABASE, octets)?;
    let columns = Columns { names: &COLUMNS, longest: MAX_SOURCE_LINE };
    let mut has_any = false;
    for (place, table) in TABLES.iter().enumerate() {
        if database.has_table(table)? {
            database.rows(table, columns, &mut |row| tables.push(place, row))?;
            has_any = true;
        }
    }
    if has_any { Ok(()) } else { Err(malformed(DATABASE, "no Pi-hole tables found")) }
}
