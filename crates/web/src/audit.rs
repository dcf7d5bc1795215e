//! The audit log: the author, the origin and the result of each change. One JSON object a line in
//! `audit.jsonl` of the data directory, separate from the query log. Only its owner can read it.
//!
//! The size of the files is limited: a full file becomes `audit.1.jsonl`, then `audit.2.jsonl`, and
//! so on.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use avocet_io::ownership;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Maximum number of octets of a file. A full file is followed by the next one.
const MAX_FILE: u64 = 8 << 20;
/// Number of full files that are kept.
const KEPT: usize = 4;
/// Maximum number of octets of the fields of one request that are recorded.
const MAX_FIELDS: usize = 2048;
/// Maximum number of entries of one reply.
pub(crate) const MAX_ENTRIES: usize = 1000;
/// Fields whose values are never recorded. `value` is the value of a key of the configuration, and
/// `settings` has the settings of an entry of the configuration.
const SECRET_FIELDS: [&str; 8] =
    ["password", "next-password", "code", "token", "link", "value", "settings", "text"];

/// An entry of the audit log, which records log-ins, changes, backups and restores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditEntry {
    /// The time of the entry, in Unix seconds.
    pub at: u64,
    /// The user or token that sent the request, or the account at the control socket. Empty for a
    /// client that is not logged in.
    pub who: String,
    /// The kind of access: `session`, `token`, `socket` (the control socket), `start` (the start of
    /// the server) or `none`.
    pub by: String,
    /// The address from which the request came; empty for the control socket.
    pub from: String,
    /// The name of the request at the control socket, or the method and path of the HTTP request.
    pub what: String,
    /// The fields of the request without secrets.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub fields: Map<String, Value>,
    /// The result: `ok`, or the code of the error.
    pub result: String,
}

/// The audit log.
pub struct AuditLog {
    path: PathBuf,
    file: Mutex<Option<File>>,
    lost: AtomicU64,
}

impl AuditLog {
    /// Creates the audit log of a data directory. The file opens with the first entry.
    pub fn new(directory: &Path) -> Self {
        Self {
            path: directory.join("audit.jsonl"),
            file: Mutex::default(),
            lost: AtomicU64::new(0),
        }
    }

    /// Writes an entry. An entry that cannot be written is counted and goes to the log of the
    /// server, because the recorded request has already been executed.
    pub fn record(&self, entry: &AuditEntry) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = self.write(&mut file, entry) {
            *file = None;
            self.lost.fetch_add(1, Ordering::Relaxed);
            tracing::error!(
                %error,
                who = entry.who,
                what = entry.what,
                result = entry.result,
                "cannot write {}",
                self.path.display()
            );
        }
    }

    /// Returns the number of entries that could not be written.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn write(&self, slot: &mut Option<File>, entry: &AuditEntry) -> io::Result<()> {
        let _permit = ownership::write()?;
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        if let Some(file) = &*slot
            && file.metadata()?.len() >= MAX_FILE
        {
            self.rotate()?;
            *slot = None;
        }
        if slot.is_none() {
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).mode(0o600);
            let file = options.open(&self.path)?;
            if has_torn_line(&file)? {
                line.insert(0, b'\n');
            }
            *slot = Some(file);
        }
        let Some(file) = slot else { return Ok(()) };
        let before = file.metadata()?.len();
        let written = file.write_all(&line);
        if written.is_err() {
            // The disk may have had space for a part of the line, and the next line must not follow
            // it. If this fails, too, the next line begins after a line end.
            let _ = file.set_len(before);
        }
        written
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (1..KEPT).rev() {
            let _ = fs::rename(self.numbered(number), self.numbered(number + 1));
        }
        fs::rename(&self.path, self.numbered(1))
    }

    fn numbered(&self, number: usize) -> PathBuf {
        self.path.with_file_name(format!("audit.{number}.jsonl"))
    }

    /// Returns the newest entries of the present file, the newest first. Incomplete lines are
    /// omitted.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn newest(&self, count: usize) -> io::Result<Vec<AuditEntry>> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let (count, mut newest) = (count.min(MAX_ENTRIES), VecDeque::new());
        for line in BufReader::new(file).split(b'\n') {
            newest.push_front(line?);
            newest.truncate(count);
        }
        Ok(newest.iter().filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

/// Returns whether the last line of a file is incomplete: the process was killed, or the disk was
/// full.
fn has_torn_line(file: &File) -> io::Result<bool> {
    let Some(last) = file.metadata()?.len().checked_sub(1) else { return Ok(false) };
    let mut octet = [0];
    file.read_exact_at(&mut octet, last)?;
    Ok(octet != *b"\n")
}

/// Returns the recorded form of the fields of a request: without secrets, and without the fields
/// for which there is no room.
pub fn recorded(fields: &Map<String, Value>) -> Map<String, Value> {
    let mut room = MAX_FIELDS;
    let mut kept = Map::new();
    for (name, value) in fields {
        let value = without_secrets(name, value);
        let Some(left) = room.checked_sub(name.len() + value.to_string().len()) else { continue };
        room = left;
        if name != "command" && !value.is_null() {
            kept.insert(name.clone(), value);
        }
    }
    kept
}

/// Returns the recorded form of the fields of a request that was not read yet: plain values under
/// the field names of its route. Other fields are only counted, because they may contain anything.
pub(crate) fn recorded_plain(
    fields: &Map<String, Value>,
    is_known: impl Fn(&str) -> bool,
) -> Map<String, Value> {
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    let is_kept = |name: &str, value: &Value| {
        is_known(name) && (is_plain(value) || SECRET_FIELDS.contains(&name))
    };
    let (mut kept, mut unknown) = (Map::new(), Map::new());
    for (name, value) in fields {
        let place = if is_kept(name, value) { &mut kept } else { &mut unknown };
        place.insert(name.clone(), value.clone());
    }
    let mut kept = recorded(&kept);
    kept.extend(counted(&unknown));
    kept
}

/// Returns the recorded form of fields that the route does not define, which is only their number.
pub(crate) fn counted(fields: &Map<String, Value>) -> Map<String, Value> {
    let count = (!fields.is_empty()).then(|| ("unknown-fields".to_owned(), fields.len().into()));
    count.into_iter().collect()
}

/// Returns the value of a field without secrets, including secrets in objects within the value.
fn without_secrets(name: &str, value: &Value) -> Value {
    match value {
        _ if SECRET_FIELDS.contains(&name) => Value::from("(secret)"),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), without_secrets(name, value)))
            .collect(),
        Value::Array(items) => items.iter().map(|item| without_secrets("", item)).collect(),
        plain => plain.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn entry(at: u64) -> AuditEntry {
        let fields = serde_json::json!({"name": "a\n\"b", "password": "correct horse"});
        AuditEntry {
            at,
            who: "ada".to_owned(),
            by: "session".to_owned(),
            from: "10.0.0.1".to_owned(),
            what: "POST /api/v1/users".to_owned(),
            fields: recorded(fields.as_object().unwrap()),
            result: "ok".to_owned(),
        }
    }

    fn directory(name: &str) -> PathBuf {
        let directory =
            std::env::temp_dir().join(format!("avocet-audit-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    #[test]
    fn entries_come_back_without_secrets_the_newest_first() {
        let directory = directory("back");
        let log = AuditLog::new(&directory);
        assert_eq!(log.newest(10).unwrap(), []);
        for at in 1..=3 {
            log.record(&entry(at));
        }
        assert_eq!(log.newest(2).unwrap(), [entry(3), entry(2)]);
        let path = directory.join("audit.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert!(!text.contains("horse"), "{text}");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_full_file_makes_room_and_the_oldest_goes() {
        let directory = directory("full");
        let log = AuditLog::new(&directory);
        for round in 0..KEPT as u64 + 3 {
            log.record(&entry(round));
            let file = OpenOptions::new().write(true).open(directory.join("audit.jsonl")).unwrap();
            file.set_len(MAX_FILE).unwrap();
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), KEPT + 1);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn an_entry_after_a_torn_line_has_a_line_of_its_own() {
        let directory = directory("torn");
        let path = directory.join("audit.jsonl");
        fs::write(&path, b"{\"at\":17,\"who\":\"\xc3").unwrap();
        let log = AuditLog::new(&directory);
        assert_eq!(log.newest(10).unwrap(), []);
        log.record(&entry(1));
        log.record(&entry(2));
        assert_eq!(log.newest(10).unwrap(), [entry(2), entry(1)]);
        // A disk that was full has torn a line of this process. It opens the file again.
        *log.file.lock().unwrap() = None;
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"at\":17").unwrap();
        log.record(&entry(3));
        assert_eq!(log.newest(10).unwrap(), [entry(3), entry(2), entry(1)]);
        assert_eq!(fs::read(&path).unwrap().split(|octet| *octet == b'\n').count(), 6);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_disk_that_takes_nothing_is_counted() {
        let log = AuditLog::new(Path::new("/nonexistent"));
        log.record(&entry(1));
        assert_eq!(log.lost(), 1);
    }

    #[test]
    fn values_of_the_configuration_are_secrets_too() {
        let edits = serde_json::json!([{"key": "server.cookie-secret", "value": "00ff"}]);
        let fields = serde_json::json!({ "edits": edits });
        let kept = recorded(fields.as_object().unwrap());
        let expected = serde_json::json!([{"key": "server.cookie-secret", "value": "(secret)"}]);
        assert_eq!(kept["edits"], expected);
    }

    #[test]
    fn unknown_fields_are_counted_and_not_recorded() {
        let fields = serde_json::json!({
            "name": "ada", "new-password": "horse", "code": ["horse"], "role": {"x": "horse"}
        });
        let known = |name: &str| ["name", "code", "role"].contains(&name);
        let kept = Value::Object(recorded_plain(fields.as_object().unwrap(), known));
        let expected = serde_json::json!({"name": "ada", "code": "(secret)", "unknown-fields": 2});
        assert_eq!(kept, expected);
    }

    #[test]
    fn fields_are_bounded() {
        let fields = serde_json::json!({"a": "x".repeat(4000), "b": "y"});
        let kept = recorded(fields.as_object().unwrap());
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["b"]);
    }
}
