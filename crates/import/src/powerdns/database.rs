//! The database of the backend `gsqlite3`: zones with their records, settings and keys.

use std::collections::{BTreeMap, HashMap};
use std::fmt::{self, Write};

use avocet_wire::rdata::RdataError;
use avocet_wire::{Rtype, rdata};

use crate::draft::Draft;
use crate::hosted::{self, SharedKey, zone_name};
use crate::name::ROOT;
use crate::source::{Error, Files, MAX_UNPACKED, octets};
use crate::sqlite::{Columns, Database, DatabaseRow};

/// Maximum number of octets of the data of a record.
const MAX_DATA: usize = 131_072;
/// Maximum number of omitted records that get their own notes. Further ones are counted.
const MAX_NOTES: usize = 20;
/// Types of PowerDNS that a zone file cannot contain.
const OWN_TYPES: &[&str] = &["LUA", "MBOXFW", "URL", "CURL"];
/// Maximum number of records of all zones.
const MAX_RECORDS: usize = 1_000_000;

/// The reason why a record is omitted.
#[derive(Debug)]
enum RecordFault {
    Disabled,
    /// The type exists only in PowerDNS.
    OwnType,
    /// The type is unknown.
    Type,
    /// The name or the data cannot be written to a zone file.
    Text,
    /// The data does not match the type.
    Data(RdataError),
}

impl fmt::Display for RecordFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("it is disabled"),
            Self::OwnType => f.write_str("a type of PowerDNS alone"),
            Self::Type => f.write_str("there is no such type of record"),
            Self::Text => f.write_str("its name or data cannot be written to a zone file"),
            Self::Data(error) => error.fmt(f),
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
}

/// Reads all zones.
///
/// # Errors
/// The file cannot be read, or is not a database of PowerDNS.
pub(super) fn read(path: &str, files: &dyn Files, draft: &mut Draft) -> Result<Vec<Stored>, Error> {
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
    content.domains(&database)?;
    content.records(&database, draft)?;
    content.keys(&database, draft)?;
    content.settings(&database, draft)?;
    content.signatures(&database, draft)?;
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

    fn domains(&mut self, database: &Database) -> Result<(), Error> {
        if !database.has_table("domains")? {
            return Err(crate::source::malformed(self.path, "no tables of PowerDNS found"));
        }
        for row in self.rows(database, "domains", &["id", "name", "master", "type"])? {
            let (Some(id), Some(name)) = (number(&row, "id"), zone_name(text(&row, "name"))) else {
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
            // PowerDNS stores names without a final dot, which are relative to the root.
            zone.text = "$ORIGIN .\n".to_owned();
            self.zones.insert(id, zone);
        }
        Ok(())
    }

    fn records(&mut self, database: &Database, draft: &mut Draft) -> Result<(), Error> {
        let columns = ["domain_id", "name", "type", "content", "ttl", "prio", "disabled"];
        for row in self.rows(database, "records", &columns)? {
            let Some(zone) = number(&row, "domain_id").and_then(|id| self.zones.get_mut(&id))
            else {
                continue;
            };
            let rtype = text(&row, "type").to_ascii_uppercase();
            if !zone.primaries.is_empty() || rtype.is_empty() {
                continue;
            }
            let what = || format!("{}: {} {rtype}", zone.origin, text(&row, "name"));
            let fault = if number(&row, "disabled") == Some(1) {
                Some(RecordFault::Disabled)
            } else if OWN_TYPES.contains(&rtype.as_str()) {
                Some(RecordFault::OwnType)
            } else {
                line(&row, &rtype).map_or_else(Some, |line| {
                    zone.text.push_str(&line);
                    zone.has_alias |= rtype == "ALIAS";
                    None
                })
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
                    self.keys.insert(name, (algorithm.to_owned(), secret.to_owned()));
                }
                (name, _) => draft.note(
                    format!("{}: key {}", self.path, name.unwrap_or_default()),
                    "its algorithm or its secret is not supported",
                ),
            }
        }
        Ok(())
    }

    /// Reads the table `domainmetadata`.
    fn settings(&mut self, database: &Database, draft: &mut Draft) -> Result<(), Error> {
        let mut used: Vec<String> = Vec::new();
        for row in self.rows(database, "domainmetadata", &["domain_id", "kind", "content"])? {
            let Some(zone) = number(&row, "domain_id").and_then(|id| self.zones.get_mut(&id))
            else {
                continue;
            };
            let (kind, content) = (text(&row, "kind").to_ascii_uppercase(), text(&row, "content"));
            let what = format!("{}: {kind}", zone.origin);
            let is_address = content.parse::<std::net::IpAddr>().is_ok()
                || content.parse::<ipnet::IpNet>().is_ok();
            let key = zone_name(content).filter(|name| self.keys.contains_key(name));
            match (kind.as_str(), key) {
                ("ALLOW-AXFR-FROM", _) if is_address => {
                    zone.allow_transfer.push(content.to_owned());
                }
                ("ALSO-NOTIFY", _)
                    if is_address || content.parse::<std::net::SocketAddr>().is_ok() =>
                {
                    zone.notify.push(content.to_owned());
                }
                ("TSIG-ALLOW-AXFR", Some(key)) => {
                    zone.allow_transfer.push(format!("key {key}"));
                    used.push(key);
                }
                ("AXFR-MASTER-TSIG", Some(key)) => {
                    for primary in &mut zone.primaries {
                        if !primary.contains(" key ") {
                            let _ = write!(primary, " key {key}");
                        }
                    }
                    used.push(key);
                }
                ("TSIG-ALLOW-DNSUPDATE", Some(key)) => {
                    zone.allow_update.push(format!("key {key}"));
                    used.push(key);
                }
                ("PRESIGNED", _) => {}
                (
                    "SOA-EDIT" | "SOA-EDIT-API" | "SOA-EDIT-DNSUPDATE" | "API-RECTIFY"
                    | "PUBLISH-CDS" | "PUBLISH-CDNSKEY" | "NSEC3NARROW",
                    _,
                ) => {
                    draft.quiet(format!("domainmetadata: {kind}"));
                }
                ("NSEC3PARAM", _) => {
                    draft.note(what, "for NSEC3, name a `[[signing-policy]]` in `sign`");
                }
                _ => draft.note(what, "no equivalent for a zone"),
            }
        }
        used.sort_unstable();
        used.dedup();
        for name in used {
            if let Some((algorithm, secret)) = self.keys.remove(&name) {
                draft.key(
                    &SharedKey { name: &name, algorithm: &algorithm, secret: &secret },
                    self.path,
                );
            }
        }
        for name in self.keys.keys() {
            draft.quiet(format!("key {name}, which no zone uses"));
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

/// Returns the line of a zone file for a record, or the reason why it cannot be written.
fn line(row: &DatabaseRow, rtype: &str) -> Result<String, RecordFault> {
    let owner = text(row, "name").trim_end_matches('.');
    let known =
        rdata::from_mnemonic(rtype).filter(|number| *number != 0 && !Rtype(*number).is_meta());
    let number_of_type = known.ok_or(RecordFault::Type)?;
    let mut data = text(row, "content").trim().to_owned();
    if let Some(prio) = number(row, "prio")
        && matches!(rtype, "MX" | "SRV")
        && data.split_whitespace().count() < if rtype == "MX" { 2 } else { 4 }
    {
        data = format!("{prio} {data}");
    }
    if rtype == "SOA" {
        data = whole_soa(&data);
    }
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"();$@".contains(c);
    if owner.is_empty() || !owner.chars().all(is_plain) || !is_one_line(&data) {
        return Err(RecordFault::Text);
    }
    let mut wire = Vec::new();
    rdata::parse(number_of_type, &data, ROOT, &mut wire).map_err(RecordFault::Data)?;
    let ttl = number(row, "ttl").filter(|ttl| (0..=i64::from(i32::MAX)).contains(ttl));
    Ok(format!("{owner}. {} IN {rtype} {data}\n", ttl.unwrap_or(3_600)))
}

/// Returns whether a zone file reads the text as the data of one record: without comments and
/// parentheses.
fn is_one_line(data: &str) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for c in data.chars() {
        match c {
            '\n' | '\r' => return false,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            ';' | '(' | ')' if !is_quoted => return false,
            _ => {}
        }
    }
    !is_quoted && !is_escaped
}

/// Returns the data of an SOA record. Missing fields get the defaults of PowerDNS.
fn whole_soa(data: &str) -> String {
    const DEFAULTS: [&str; 7] = ["", "", "1", "10800", "3600", "604800", "3600"];
    let words: Vec<&str> = data.split_whitespace().collect();
    let word = |(at, usual): (usize, &&str)| match words.get(at).copied() {
        // PowerDNS replaces a serial of 0 by one that it computes.
        Some("0") if at == 2 => "1".to_owned(),
        Some(word) => word.to_owned(),
        None => (*usual).to_owned(),
    };
    DEFAULTS.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

fn number(row: &DatabaseRow, column: &str) -> Option<i64> {
    row.get(column)?.as_i64()
}

fn text<'r>(row: &'r DatabaseRow, column: &str) -> &'r str {
    row.get(column).and_then(|value| value.as_str()).unwrap_or_default()
}
