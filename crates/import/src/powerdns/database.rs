//! The database of the backend `gsqlite3`: zones with their records, settings and keys.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use avocet_wire::Rtype;
use avocet_zone::{PowerDnsContent, PowerDnsFault, PowerDnsRow, read_powerdns_row};

use crate::draft::Draft;
use crate::hosted::{self, SharedKey, zone_name};
use crate::source::{Error, Files, MAX_UNPACKED, octets};
use crate::sqlite::{Columns, Database, DatabaseRow};

use super::catalog::{self, CatalogRole, Listing};
use super::metadata::{self, Metadata, UpdateClients};

/// Maximum number of octets of the data of a record.
const MAX_DATA: usize = 131_072;
/// Maximum number of omitted records that get their own notes. Further ones are counted.
const MAX_NOTES: usize = 20;
/// Maximum number of records of all zones.
const MAX_RECORDS: usize = 1_000_000;
/// TTL of a record without its own, in seconds: the default of PowerDNS.
const TTL_SECS: u32 = 3_600;
/// The types of records that belong to the signatures of a zone.
const OF_SIGNATURES: [&str; 7] =
    ["CDNSKEY", "CDS", "DNSKEY", "NSEC", "NSEC3", "NSEC3PARAM", "RRSIG"];

/// The reason why a record is omitted.
#[derive(Debug)]
enum RecordFault {
    Disabled,
    /// The type exists only in PowerDNS.
    OwnType,
    /// A column is malformed.
    Column(PowerDnsFault),
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("it is disabled"),
            Self::OwnType => f.write_str("a type of PowerDNS alone"),
            Self::Column(fault) => fault.fmt(f),
        }
    }
}

/// A zone of the database.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) name: String,
    pub(super) origin: String,
    /// The text of the zone file.
    pub(super) text: String,
    /// Whether the zone has ALIAS records.
    pub(super) has_alias: bool,
    /// The servers from which the zone is transferred.
    pub(super) primaries: Vec<String>,
    pub(super) allow_transfer: Vec<String>,
    pub(super) notify: Vec<String>,
    pub(super) allow_update: Vec<String>,
    pub(super) is_notifying: bool,
    pub(super) is_signed: bool,
    /// The form of denial of existence of a signed zone, if the default policy has another one.
    pub(super) denial: Option<&'static str>,
    pub(super) role: CatalogRole,
    /// Whether the database has the signatures of another signer.
    is_presigned: bool,
}

/// Reads all zones.
///
/// # Errors
/// The file cannot be read, or is not a database of PowerDNS.
pub(super) fn read(
    path: &str,
    files: &dyn Files,
    updates: &UpdateClients,
    draft: &mut Draft,
) -> Result<Vec<Stored>, Error> {
    let database = Database::open(path, &octets(files, path, MAX_UNPACKED)?)?;
    let log = files.read(&format!("{path}-wal"), MAX_UNPACKED);
    if log.map_or_else(
        |error| error.kind() == std::io::ErrorKind::FileTooLarge,
        |log| !log.is_empty(),
    ) {
        draft.note(
            format!("{path}-wal"),
            "the write-ahead log is not read: stop PowerDNS, or run `PRAGMA wal_checkpoint` before \
             the import",
        );
    }
    let mut content = Content { path, ..Content::default() };
    content.domains(&database, draft)?;
    let metadata = content.metadata(&database)?;
    content.records(&database, draft)?;
    content.keys(&database, draft)?;
    content.signatures(&database, draft)?;
    content.settings(&metadata, updates, draft);
    content.autoprimaries(&database, draft)?;
    Ok(content.finish(draft))
}

#[derive(Default)]
struct Content<'c> {
    path: &'c str,
    zones: BTreeMap<i64, Stored>,
    keys: HashMap<String, (String, String)>,
    /// Number of records that were omitted.
    left_out: usize,
}

impl Content<'_> {
    fn rows(
        &self,
        database: &Database,
        table: &str,
        columns: &[&str],
    ) -> Result<Vec<DatabaseRow>, Error> {
        let mut rows = Vec::new();
        if database.has_table(table)? {
            database.rows(table, Columns { names: columns, longest: MAX_DATA }, &mut |row| {
                rows.push(row);
                if rows.len() > MAX_RECORDS {
                    let limit = format!("{MAX_RECORDS} rows of {table}");
                    return Err(Error::TooLarge { path: self.path.to_owned(), limit });
                }
                Ok(())
            })?;
        }
        Ok(rows)
    }

    fn domains(&mut self, database: &Database, draft: &mut Draft) -> Result<(), Error> {
        if !database.has_table("domains")? {
            return Err(crate::source::malformed(self.path, "no tables of PowerDNS found"));
        }
        let columns = ["id", "name", "master", "type", "options", "catalog"];
        let mut listings = Vec::new();
        for row in self.rows(database, "domains", &columns)? {
            let Some(id) = number(&row, "id") else { continue };
            let Some(name) = zone_name(text(&row, "name")) else {
                draft.note(format!("{}: {}", self.path, text(&row, "name")), "it is no zone");
                continue;
            };
            let kind = text(&row, "type").to_ascii_uppercase();
            let mut zone = Stored {
                origin: format!("{}: {name} ({kind})", self.path),
                name,
                ..Stored::default()
            };
            zone.is_notifying = matches!(kind.as_str(), "MASTER" | "PRIMARY" | "PRODUCER");
            if matches!(kind.as_str(), "SLAVE" | "SECONDARY" | "CONSUMER") {
                let servers = text(&row, "master").split([',', ' ', ';', '\t']);
                zone.primaries =
                    servers.filter(|server| !server.is_empty()).map(str::to_owned).collect();
            }
            zone.role = match kind.as_str() {
                "PRODUCER" => CatalogRole::Producer,
                "CONSUMER" if zone.primaries.is_empty() => {
                    draft.note(&zone.origin, "a catalog of another server needs its primaries");
                    continue;
                }
                "CONSUMER" => CatalogRole::Consumer,
                _ => CatalogRole::Plain,
            };
            let (catalog, options) = (text(&row, "catalog"), text(&row, "options"));
            if !catalog.is_empty() {
                let (catalog, options) = (catalog.to_owned(), options.to_owned());
                listings.push(Listing { id, catalog, options });
            }
            self.zones.insert(id, zone);
        }
        catalog::settle(listings, &mut self.zones, draft);
        Ok(())
    }

    /// Reads the rows of `domainmetadata`, and marks the zones with signatures of another signer.
    fn metadata(&mut self, database: &Database) -> Result<Vec<Metadata>, Error> {
        let mut metadata = Vec::new();
        for row in self.rows(database, "domainmetadata", &["domain_id", "kind", "content"])? {
            let Some(id) = number(&row, "domain_id") else { continue };
            let Some(zone) = self.zones.get_mut(&id) else { continue };
            let kind = text(&row, "kind").to_ascii_uppercase();
            let content = text(&row, "content").to_owned();
            zone.is_presigned |= kind == "PRESIGNED" && content != "0";
            metadata.push(Metadata { id, kind, content });
        }
        Ok(metadata)
    }

    fn records(&mut self, database: &Database, draft: &mut Draft) -> Result<(), Error> {
        let columns = ["domain_id", "name", "type", "content", "ttl", "prio", "disabled"];
        for row in self.rows(database, "records", &columns)? {
            let Some(zone) = number(&row, "domain_id").and_then(|id| self.zones.get_mut(&id))
            else {
                continue;
            };
            let rtype = text(&row, "type").to_ascii_uppercase();
            let is_made = zone.is_presigned && OF_SIGNATURES.contains(&rtype.as_str());
            if !zone.primaries.is_empty() || zone.role == CatalogRole::Producer || is_made {
                continue;
            }
            let what = || format!("{}: {} {rtype}", zone.origin, text(&row, "name"));
            let fault = if number(&row, "disabled") == Some(1) {
                Some(RecordFault::Disabled)
            } else {
                match line(&row, &zone.name) {
                    Ok(line) => {
                        zone.text.push_str(&line);
                        zone.has_alias |= rtype == "ALIAS";
                        None
                    }
                    Err(fault) => Some(fault),
                }
            };
            if let Some(reason) = fault {
                self.left_out += 1;
                if self.left_out <= MAX_NOTES {
                    draft.note(what(), reason);
                }
            }
        }
        Ok(())
    }

    fn keys(&mut self, database: &Database, draft: &mut Draft) -> Result<(), Error> {
        for row in self.rows(database, "tsigkeys", &["name", "algorithm", "secret"])? {
            let (name, secret) = (zone_name(text(&row, "name")), text(&row, "secret"));
            let algorithm = hosted::algorithm(text(&row, "algorithm"));
            match (name, algorithm) {
                (Some(name), Some(algorithm)) if hosted::is_secret(secret) => {
                    let key = (algorithm.to_owned(), secret.to_owned());
                    if self.keys.insert(name.clone(), key).is_some() {
                        draft.note(
                            format!("{}: key {name}", self.path),
                            "it has several algorithms: the last one counts",
                        );
                    }
                }
                (name, _) => draft.note(
                    format!("{}: key {}", self.path, name.unwrap_or_default()),
                    "its algorithm or its secret is not supported",
                ),
            }
        }
        Ok(())
    }

    /// Applies the table `domainmetadata`, and writes the keys that it names.
    fn settings(&mut self, rows: &[Metadata], updates: &UpdateClients, draft: &mut Draft) {
        let keys = std::mem::take(&mut self.keys);
        let is_key = |name: &str| keys.contains_key(name);
        let used = metadata::apply(rows, &mut self.zones, &is_key, updates, draft);
        let (used, unused): (BTreeMap<_, _>, BTreeMap<_, _>) =
            keys.into_iter().partition(|(name, _)| used.contains(name));
        for (name, (algorithm, secret)) in &used {
            draft.key(&SharedKey { name, algorithm, secret }, self.path);
        }
        for name in unused.keys() {
            draft.quiet(format!("key {name}, which no zone uses"));
        }
    }

    /// Notes the primaries from which PowerDNS accepts new zones (autoprimaries).
    fn autoprimaries(&mut self, database: &Database, draft: &mut Draft) -> Result<(), Error> {
        for row in self.rows(database, "supermasters", &["ip", "nameserver"])? {
            let (ip, name) = (text(&row, "ip"), text(&row, "nameserver"));
            draft.note(
                format!("{}: autoprimary {ip} {name}", self.path),
                "no server adds zones by NOTIFY: use a catalog (`catalog = \"consumer\"`)",
            );
        }
        Ok(())
    }

    /// Marks the zones that PowerDNS signs.
    fn signatures(&mut self, database: &Database, draft: &mut Draft) -> Result<(), Error> {
        for row in self.rows(database, "cryptokeys", &["domain_id", "active"])? {
            let Some(zone) = number(&row, "domain_id").and_then(|id| self.zones.get_mut(&id))
            else {
                continue;
            };
            if number(&row, "active") == Some(1) && !zone.is_signed {
                zone.is_signed = true;
                draft.note(
                    format!("{}: its keys", zone.origin),
                    "they are not converted: `pdnsutil export-zone-key` prints them. Without them, \
                     the server makes others, which the DS records of the parent do not name",
                );
            }
        }
        Ok(())
    }

    fn finish(self, draft: &mut Draft) -> Vec<Stored> {
        if self.left_out > MAX_NOTES {
            let more = self.left_out - MAX_NOTES;
            draft.note(self.path, format!("{more} more records are left out"));
        }
        self.zones.into_values().collect()
    }
}

/// Returns the line of a zone file for a record, or the reason why it cannot be written. The line
/// of an empty non-terminal is empty.
fn line(row: &DatabaseRow, zone: &str) -> Result<String, RecordFault> {
    let columns = PowerDnsRow {
        name: text(row, "name"),
        rtype: Some(text(row, "type")),
        ttl: number(row, "ttl"),
        prio: number(row, "prio"),
        content: text(row, "content"),
    };
    let zone = if zone == "." { ".".to_owned() } else { format!("{zone}.") };
    let record = match read_powerdns_row(&columns, &zone).map_err(RecordFault::Column)? {
        PowerDnsContent::Record(record) => record,
        PowerDnsContent::OwnType => return Err(RecordFault::OwnType),
        PowerDnsContent::Nothing => return Ok(String::new()),
    };
    let ttl_secs = record.ttl_secs.unwrap_or(TTL_SECS);
    let data = match record.rtype {
        Rtype::SOA => with_serial(&record.data),
        _ => record.data,
    };
    Ok(format!("{} {ttl_secs} IN {} {data}\n", record.owner, record.rtype))
}

/// Returns the data of an SOA record. Replaces the serial 0, for which PowerDNS computes a serial.
fn with_serial(data: &str) -> String {
    let words = data.split(' ').enumerate();
    let words = words.map(|(at, word)| if (at, word) == (2, "0") { "1" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn number(row: &DatabaseRow, column: &str) -> Option<i64> {
    row.get(column)?.as_i64()
}

fn text<'r>(row: &'r DatabaseRow, column: &str) -> &'r str {
    row.get(column).and_then(|value| value.as_str()).unwrap_or_default()
}
