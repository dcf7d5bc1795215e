//! Zones whose records are fetched over HTTP or from a database.
//!
//! ```text
//! due --> request with the validators of the copy -- 304, or the same text --> unchanged
//!              |                                  -- other status, too large, too slow --> fault
//!              +-- text --> checked as a whole -- errors --> fault, the copy stays
//!                                 +--> copy, then its validators --> read like any file
//! ```
//! A database has no validators; everything else is the same.
//!
//! A copy and its validators are two files. The validators have the checksum of their text, so that
//! validators of another text, or of another URL, are not sent.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use avocet_config::header_field::{HeaderField, MAX_HEADER_FIELDS};
use avocet_config::name::shown;
use avocet_config::zone::ZoneConfig;
use avocet_config::zone_url::ZoneUrl;
use avocet_io::ownership;
use avocet_nameserver::disk;
use avocet_nameserver::transfers::ServerEvent;
use avocet_nameserver::zone_files::{FetchedRecords, compare_fetched};
use avocet_resolver::Timers;
use avocet_zone::MAX_SOURCE_OCTETS;
use ureq::http::{HeaderMap, HeaderName, HeaderValue};

use super::{CheckError, Checked, Secondaries};
use crate::lists::copies::Head;
use crate::lists::fetch::{Bounds, FetchError, Fetched, Fetcher, Lookup, UrlTerms};
use crate::running::Running;
#[cfg(not(feature = "postgres"))]
use crate::running::zones::NO_DATABASES;
use crate::secret_file::{self, SecretFileError};
use crate::trace::own_questions;
use avocet_worker::upstream_tls::of_url;

/// The limits of one request.
const BOUNDS: Bounds = Bounds {
    time: Duration::from_secs(60),
    connect: Duration::from_secs(10),
    octets: MAX_SOURCE_OCTETS,
};
/// Maximum number of octets of a file of header fields.
const MAX_FIELDS_OCTETS: u64 = 16 << 10;
/// The error for a line that is not a header field.
const NOT_A_FIELD: &str = "it is not a header field";
/// Maximum number of octets of the file with the validators.
const MAX_HEAD_OCTETS: u64 = 16 << 10;

/// The reason why a URL is not usable.
#[derive(Debug, thiserror::Error)]
pub(super) enum PullError {
    #[error("{0}")]
    Fetch(FetchError),
    #[error(transparent)]
    Secret(#[from] SecretFileError),
    #[cfg(feature = "postgres")]
    #[error("{0}")]
    Database(#[from] crate::database::DatabaseError),
    #[cfg(not(feature = "postgres"))]
    #[error("{NO_DATABASES}")]
    NoDatabases,
    #[error("{}:{line}: {reason}", .path.display())]
    Field { path: PathBuf, line: usize, reason: &'static str },
    #[error("more than {MAX_HEADER_FIELDS} header fields in {}", .0.display())]
    TooManyFields(PathBuf),
}

/// Returns the timers of a zone with a URL, in place of the timers in an SOA record.
pub(super) fn timers(source: &ZoneUrl, serial: u32) -> Timers {
    let secs = source.refresh_secs;
    Timers { serial, refresh_secs: secs, retry_secs: secs, expire_secs: u32::MAX }
}

/// Fetches the records of a zone, and puts them in force if they have changed.
pub(super) fn pull(
    running: &Running,
    config: &ZoneConfig,
    source: &ZoneUrl,
) -> Result<Checked, CheckError> {
    let events = &running.shared.name_server.transfers;
    let pulled = fetch_and_keep(running, config, source);
    events.count(match &pulled {
        Ok(FetchedRecords::Changed) => ServerEvent::Fetched,
        Ok(FetchedRecords::Same) => ServerEvent::FetchedSame,
        Err(_) => ServerEvent::FetchFailed,
    });
    let is_new = pulled? == FetchedRecords::Changed;
    let zone = running.reloader.zones.source(&config.id());
    let timers = timers(source, zone.map_or(0, |zone| zone.serial()));
    Ok(if is_new { Checked::Transferred(timers) } else { Checked::Confirmed(timers) })
}

fn fetch_and_keep(
    running: &Running,
    config: &ZoneConfig,
    source: &ZoneUrl,
) -> Result<FetchedRecords, CheckError> {
    let shared = running.shared.clone();
    let lookup: Lookup = Box::new(move |host: &str| own_questions::addresses(&shared, host));
    let known = known(config);
    let fetched = match source.database {
        Some(_) => read_database(config, source, &lookup)?,
        None => {
            let fetcher = Fetcher::on_terms(lookup, BOUNDS, terms(source)?);
            let fetched = fetcher.fetch(&source.url, known.as_ref()).map_err(PullError::Fetch)?;
            FetchedText { fetched, remark: None }
        }
    };
    let Fetched::Text { text, etag, last_modified } = fetched.fetched else {
        return Ok(FetchedRecords::Same);
    };
    let mut head = Head { source: source.url.clone(), etag, last_modified, ..Head::default() };
    head.seal(&text);
    if known.as_ref() == Some(&head) {
        return Ok(FetchedRecords::Same);
    }
    if let Some(remark) = fetched.remark {
        tracing::warn!("zone {}: {remark}", shown(&config.name));
    }
    let compared =
        compare_fetched(config, &text).map_err(|fault| CheckError::Zone(fault.to_string()))?;
    ensure_wanted(&running.zone_watch.secondaries, config)?;
    keep(config, &text, (&head, compared)).map_err(CheckError::Disk)?;
    if compared == FetchedRecords::Changed {
        running.reloader.reload_zones(Some(&config.id()));
    }
    Ok(compared)
}

/// A text that was fetched.
struct FetchedText {
    fetched: Fetched,
    /// A message about records that the zone omits, if there are any.
    remark: Option<String>,
}

/// Reads the records of a zone from its database.
#[cfg(feature = "postgres")]
fn read_database(
    config: &ZoneConfig,
    source: &ZoneUrl,
    lookup: &Lookup,
) -> Result<FetchedText, PullError> {
    use crate::database::{DatabaseSource, ZoneRows, read_zone};

    let Some(source) = DatabaseSource::of(source) else {
        return Ok(FetchedText { fetched: Fetched::Unchanged, remark: None });
    };
    let rows = read_zone(&source, &config.name, lookup)?;
    let remark = rows.left_out();
    let ZoneRows { text, .. } = rows;
    let fetched = Fetched::Text { text, etag: None, last_modified: None };
    Ok(FetchedText { fetched, remark })
}

#[cfg(not(feature = "postgres"))]
fn read_database(_: &ZoneConfig, _: &ZoneUrl, _: &Lookup) -> Result<FetchedText, PullError> {
    Err(PullError::NoDatabases)
}

/// Checks that the zone still has this configuration.
fn ensure_wanted(secondaries: &Secondaries, config: &ZoneConfig) -> Result<(), CheckError> {
    let gone = || crate::transfer::TransferError::Closed.into();
    secondaries.has(config).then_some(()).ok_or_else(gone)
}

/// Replaces the copy, and then its validators. If the records are the same, the copy keeps its
/// modification time, which is the serial.
fn keep(
    config: &ZoneConfig,
    text: &[u8],
    (head, compared): (&Head, FetchedRecords),
) -> std::io::Result<()> {
    let _permit = ownership::write()?;
    let file = &config.file;
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    let modified = fs::metadata(file).and_then(|facts| facts.modified());
    disk::replace(file, &[text])?;
    if let (FetchedRecords::Same, Ok(modified)) = (compared, modified) {
        File::options().append(true).open(file)?.set_modified(modified)?;
    }
    disk::replace(&head_file(config), &[&serde_json::to_vec(head)?])
}

/// Returns the validators of the copy, if they belong to its text.
fn known(config: &ZoneConfig) -> Option<Head> {
    let octets = disk::read(&head_file(config), MAX_HEAD_OCTETS).ok()??;
    let head: Head = serde_json::from_slice(&octets).ok()?;
    let text = disk::read(&config.file, MAX_SOURCE_OCTETS).ok()??;
    let mut now = Head::default();
    now.seal(&text);
    (now.stamp() == head.stamp()).then_some(head)
}

fn head_file(config: &ZoneConfig) -> PathBuf {
    config.file.with_added_extension("source")
}

/// Reads the header fields for the server of a URL, and the proofs that the server must provide.
fn terms(source: &ZoneUrl) -> Result<UrlTerms, CheckError> {
    let fields = source.headers_file.as_deref().map(fields).transpose()?.unwrap_or_default();
    Ok(UrlTerms { fields, tls: of_url(source)? })
}

/// Reads the header fields in a file. An error never shows the contents of the file.
fn fields(path: &Path) -> Result<HeaderMap, PullError> {
    let text = secret_file::read(path, MAX_FIELDS_OCTETS)?;
    let mut fields = HeaderMap::new();
    for (place, line) in text.split(|octet| *octet == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let malformed =
            |reason| PullError::Field { path: path.to_owned(), line: place + 1, reason };
        let text = std::str::from_utf8(line).map_err(|_| malformed(NOT_A_FIELD))?;
        let field = HeaderField::read(text).map_err(malformed)?;
        let name = HeaderName::from_bytes(field.name.as_bytes());
        let name = name.map_err(|_| malformed(NOT_A_FIELD))?;
        let value = HeaderValue::from_str(&field.value);
        let mut value = value.map_err(|_| malformed(NOT_A_FIELD))?;
        value.set_sensitive(true);
        if fields.len() >= MAX_HEADER_FIELDS {
            return Err(PullError::TooManyFields(path.to_owned()));
        }
        fields.append(name, value);
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[track_caller]
    fn check(mode: u32, text: &str, expected: Result<&[(&str, &str)], &str>) {
        let line = std::panic::Location::caller().line();
        let name = format!("avocet-fields-{}-{line}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let read = fields(&path).map_err(|error| error.to_string());
        fs::remove_file(&path).unwrap();
        match (read, expected) {
            (Ok(read), Ok(expected)) => {
                let read: Vec<_> = read
                    .iter()
                    .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
                    .collect();
                assert_eq!(read, expected);
            }
            (Err(error), Err(expected)) => {
                assert!(error.contains(expected), "{error}");
                assert!(!error.contains("hush"), "{error}");
            }
            (read, _) => panic!("{read:?}"),
        }
    }

    #[test]
    fn header_fields_come_from_a_file_that_others_cannot_read() {
        check(0o600, "X-API-Key: hush\r\n\nA:b\n", Ok(&[("x-api-key", "hush"), ("a", "b")]));
        check(0o640, "", Ok(&[]));
        check(0o644, "X-API-Key: hush\n", Err("others may read"));
        check(0o600, "a: b\nhush\n", Err(":2: expected a field"));
        check(0o600, "a b: hush\n", Err(":1: the name of the field"));
        check(0o600, "a: hush\x01\n", Err(":1: the value of the field"));
        check(0o600, "Host: hush\n", Err(":1: the server sets this field itself"));
        check(0o600, &"a: b\n".repeat(17), Err("more than 16"));
        check(0o600, &" ".repeat(20_000), Err("larger than"));
    }
}
