//! The records of one zone: converts rows of the database to RRsets in JSON, in the form that URLs
//! of zones provide.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use avocet_config::name::shown;
use avocet_wire::{NameBuf, Rtype};
use avocet_zone::{
    MAX_SOURCE_OCTETS, PowerDnsContent, PowerDnsRecord, PowerDnsRow, read_powerdns_row,
};
use futures_core::Stream;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use super::{DatabaseError, DatabaseSource, SETTINGS, ShownText, runtime};
use crate::lists::fetch::Lookup;

/// Maximum number of rows of a zone.
pub(super) const MAX_ROWS: usize = 1 << 20;
/// Maximum time to read a zone.
const READ: Duration = Duration::from_secs(60);
/// Maximum time to close a connection cleanly.
const FAREWELL: Duration = Duration::from_secs(1);
/// Maximum number of left-out records that are named; others are only counted.
const MAX_LEFT_OUT: usize = 20;

/// Finds the zone with a name. PowerDNS writes names in lower case, and its index is on lower-case
/// names.
const ZONE: &str = "SELECT id::bigint FROM domains WHERE name = $1 LIMIT 1";
/// Finds the zone with a name in any letter case, for tables that other programs fill.
const ZONE_IN_ANY_CASE: &str = "SELECT id::bigint FROM domains WHERE lower(name) = $1 LIMIT 1";
/// The rows of a zone. Each column is cut off one character after the longest valid text. The query
/// sorts the rows, so that equal rows always give the same text.
const ROWS: &str = "SELECT id::bigint, left(name::text, 1025), left(type::text, 33), ttl::bigint, \
                    prio::bigint, left(coalesce(content::text, ''), 262145), \
                    coalesce(disabled, false) FROM records WHERE domain_id = $1 \
                    AND (type = 'SOA' OR NOT coalesce(disabled, false)) ORDER BY id LIMIT $2";

/// The records of a zone as text, and the rows that the text lacks.
pub(crate) struct ZoneRows {
    /// RRsets in JSON.
    pub(crate) text: Vec<u8>,
    /// The first records of types that only PowerDNS answers.
    left_out: Vec<ShownText>,
    /// The number of all such records.
    left_out_count: usize,
}

impl ZoneRows {
    /// Returns a message about the left-out records, if there are any.
    pub(crate) fn left_out(&self) -> Option<String> {
        let more = self.left_out_count - self.left_out.len();
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        let names = self.left_out.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        (self.left_out_count > 0)
            .then(|| format!("records of types that only PowerDNS has are left out: {names}{more}"))
    }
}

/// Reads the records of a zone with a name in lower-case wire form; blocks until the database has
/// answered.
pub(crate) fn read_zone(
    source: &DatabaseSource,
    zone: &[u8],
    lookup: &Lookup,
) -> Result<ZoneRows, DatabaseError> {
    let login = source.login(lookup)?;
    let runtime = runtime().map_err(DatabaseError::Connect)?;
    let read = runtime.block_on(async {
        tokio::time::timeout(READ, async {
            let (client, connection) = login.connect().await?;
            let mut driver = tokio::spawn(connection);
            let read = rows(&client, &shown(zone)).await;
            drop(client);
            let ended = tokio::time::timeout(FAREWELL, &mut driver).await;
            match (read, ended) {
                // Only the task that drives the connection knows why it was lost.
                (Err(_), Ok(Ok(Err(reason)))) => Err(reason.into()),
                (read, _) => read,
            }
        })
        .await
    });
    read.map_err(|_| DatabaseError::TimedOut(READ))?
}

async fn rows(client: &Client, zone: &str) -> Result<ZoneRows, DatabaseError> {
    client.batch_execute(SETTINGS).await?;
    let id = zone_id(client, zone).await?;
    let most = MAX_ROWS as i64 + 1;
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&id, Type::INT8), (&most, Type::INT8)];
    let mut stream = pin!(client.query_typed_raw(ROWS, parameters).await?);
    let mut text = RrsetText::default();
    let (mut left_out, mut left_out_count, mut count) = (Vec::new(), 0, 0);
    while let Some(row) = poll_fn(|cx| stream.as_mut().poll_next(cx)).await {
        count += 1;
        if count > MAX_ROWS {
            return Err(DatabaseError::TooManyRows);
        }
        let row = row?;
        match record(&row, zone)? {
            PowerDnsContent::Record(record) => text.add(&record)?,
            PowerDnsContent::Nothing => {}
            PowerDnsContent::OwnType => {
                left_out_count += 1;
                if left_out.len() < MAX_LEFT_OUT {
                    left_out.push(shown_row(&row));
                }
            }
        }
    }
    Ok(ZoneRows { text: text.finish(), left_out, left_out_count })
}

/// Returns the id of a zone. The database has names without final dot, except for the root.
async fn zone_id(client: &Client, zone: &str) -> Result<i64, DatabaseError> {
    let name = zone.strip_suffix('.').filter(|name| !name.is_empty()).unwrap_or(zone);
    for statement in [ZONE, ZONE_IN_ANY_CASE] {
        let found = client
            .query_typed_opt(statement, &[(&name as &(dyn ToSql + Sync), Type::TEXT)])
            .await?;
        if let Some(row) = found {
            return Ok(row.try_get(0)?);
        }
    }
    Err(DatabaseError::NoZone(name.to_owned()))
}

/// Reads a row.
fn record(row: &Row, zone: &str) -> Result<PowerDnsContent, DatabaseError> {
    let id: i64 = row.try_get(0)?;
    let column = |error| DatabaseError::Column { id, reason: ShownText::of_error(&error) };
    let name: Option<&str> = row.try_get(1).map_err(column)?;
    let read = PowerDnsRow {
        name: name.unwrap_or_default(),
        rtype: row.try_get(2).map_err(column)?,
        ttl: row.try_get(3).map_err(column)?,
        prio: row.try_get(4).map_err(column)?,
        content: row.try_get(5).map_err(column)?,
    };
    let is_disabled: bool = row.try_get(6).map_err(column)?;
    if is_disabled {
        return Err(DatabaseError::Disabled);
    }
    read_powerdns_row(&read, zone)
        .map_err(|fault| DatabaseError::Row { row: shown_row(row), fault })
}

/// Returns the id, the name and the type of a row, for a message.
fn shown_row(row: &Row) -> ShownText {
    let id: i64 = row.try_get(0).unwrap_or_default();
    let text = |column: usize| row.try_get::<_, Option<&str>>(column).ok().flatten();
    let [name, rtype] = [1, 2].map(|column| text(column).unwrap_or_default());
    ShownText::of(&format!("{id} ({name} {rtype})"))
}

/// The text of RRsets, while it is being written.
#[derive(Default)]
struct RrsetText {
    text: Vec<u8>,
    /// The RRset that is being written.
    open: Option<(NameBuf, Rtype, Option<u32>)>,
}

impl RrsetText {
    fn add(&mut self, record: &PowerDnsRecord) -> Result<(), DatabaseError> {
        let PowerDnsRecord { owner, ttl_secs, rtype, data } = record;
        let set = (*owner, *rtype, *ttl_secs);
        if self.open == Some(set) {
            self.text.push(b',');
        } else {
            self.text.extend_from_slice(match self.open {
                None => b"{\"rrsets\": [\n",
                Some(_) => b"]},\n",
            });
            let name = serde_json::Value::from(owner.to_string());
            let ttl = ttl_secs.map(|ttl| format!(", \"ttl\": {ttl}")).unwrap_or_default();
            let head = format!("{{\"name\": {name}, \"type\": \"{rtype}\"{ttl}, \"records\": [");
            self.text.extend_from_slice(head.as_bytes());
            self.open = Some(set);
        }
        let content = format!("{{\"content\": {}}}", serde_json::Value::from(&**data));
        self.text.extend_from_slice(content.as_bytes());
        let is_within = self.text.len() as u64 <= MAX_SOURCE_OCTETS;
        is_within.then_some(()).ok_or(DatabaseError::TooLarge)
    }

    fn finish(mut self) -> Vec<u8> {
        self.text.extend_from_slice(match self.open {
            None => b"{\"rrsets\": []}\n",
            Some(_) => b"]}\n]}\n",
        });
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &[u8], ttl_secs: Option<u32>, data: &str) -> PowerDnsRecord {
        let owner = NameBuf::from_wire(name).unwrap();
        PowerDnsRecord { owner, ttl_secs, rtype: Rtype::TXT, data: data.to_owned() }
    }

    #[test]
    fn rows_of_an_rrset_are_one_in_the_text() {
        let mut text = RrsetText::default();
        for record in [
            record(b"\x01a\x00", Some(60), "\"x\""),
            record(b"\x01a\x00", Some(60), "\"y\\\"\""),
            record(b"\x01a\x00", None, "\"z\""),
            record(b"\x03a\"b\x00", None, "\"z\""),
        ] {
            text.add(&record).unwrap();
        }
        let read: serde_json::Value = serde_json::from_slice(&text.finish()).unwrap();
        let set = |name: &str, contents: &[&str]| {
            let records: Vec<_> =
                contents.iter().map(|content| serde_json::json!({ "content": content })).collect();
            serde_json::json!({ "name": name, "type": "TXT", "records": records })
        };
        let mut first = set("a.", &["\"x\"", "\"y\\\"\""]);
        first["ttl"] = 60.into();
        let expected = [first, set("a.", &["\"z\""]), set("a\\\"b.", &["\"z\""])];
        assert_eq!(read, serde_json::json!({ "rrsets": expected }));
        let empty = RrsetText::default().finish();
        assert_eq!(empty, b"{\"rrsets\": []}\n");
    }

    #[test]
    fn a_text_has_a_bound() {
        let mut text = RrsetText::default();
        let long = record(b"\x01a\x00", None, &"x".repeat(1 << 20));
        for _ in 0..63 {
            text.add(&long).unwrap();
        }
        assert!(matches!(text.add(&long), Err(DatabaseError::TooLarge)));
    }

    #[test]
    fn what_is_left_out_is_named_up_to_a_number() {
        let rows = |count: usize| {
            let left_out = vec![ShownText::of("1 (a LUA)"); count.min(2)];
            ZoneRows { text: Vec::new(), left_out, left_out_count: count }.left_out()
        };
        assert_eq!(rows(0), None);
        assert!(rows(1).unwrap().ends_with("left out: 1 (a LUA)"));
        assert!(rows(5).unwrap().ends_with("left out: 1 (a LUA), 1 (a LUA) and 3 more"));
    }
}
