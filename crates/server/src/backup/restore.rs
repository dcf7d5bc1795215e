//! Checks a backup and puts it in place.
//!
//! ```text
//!   restore.upload ──check──> restore.pending/backup.jsonl        waits for a start
//!                                   │ check again
//!                             restore.pending/new/NAME            all files are on the disk
//!                                   │
//!                             configuration file, then each file: old ──> before/, new ──> place
//!                                   │
//!                             restored-TIME/                      complete
//! ```
//! Until the configuration file is replaced, nothing has changed. From then on, the next start
//! repeats the same steps until they are complete.
//!
//! All steps in the data directory have the rights of the account that owns it ([`Account`]). Only
//! `avocet restore` of root replaces a file that this account may not write, the configuration,
//! and takes its text from the file that root names. It has the rights of the account that may
//! change the directory of the configuration.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use avocet_config::{Config, environment, read_text};
use avocet_control::backup::{BackupHead, RestoreStaged, UnusableFile};
use avocet_io::account::Account;
use avocet_io::file;
use avocet_io::ownership::{self, LockError};
use avocet_revisions::{replace, store};
use avocet_web::audit::{AuditEntry, AuditLog};
use serde_json::json;
use tracing::warn;

use super::query_log;
use super::read::read;
use super::{
    BackupError, CERTIFICATES, CONFIGURATION, CertificateDirectory, FileKind, MAX_FILE, Place,
    QUERY_LOG, REVISIONS, STATE, check_certificate, is_audit,
};
use crate::pools_file;
use crate::switches_file;
use crate::trust;

/// The bits of a mode that let the group or others write.
const WRITABLE_FOR_OTHERS: u32 = 0o022;
/// The file to which a program uploads a backup.
const UPLOAD: &str = "restore.upload";
/// The directory of a backup that waits for a start.
pub(super) const PENDING: &str = "restore.pending";
pub(super) const BACKUP: &str = "backup.jsonl";
pub(super) const NEW: &str = "new";
pub(super) const BEFORE: &str = "before";

/// A backup that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupFacts {
    /// The version of the server that made the backup.
    pub version: String,
    /// The Unix second at which the backup was made.
    pub at: u64,
    /// The number of its files.
    pub files: u64,
    /// Certificate files that cannot be used, and that a restore leaves out. They do not prevent
    /// the restore, because the server can obtain or make other certificates.
    pub left_out: Vec<UnusableFile>,
    /// The directory with the query log that was in place, if the query log of the backup has
    /// replaced it.
    pub replaced_log: Option<PathBuf>,
}

impl From<BackupFacts> for RestoreStaged {
    fn from(BackupFacts { version, at, files, left_out, .. }: BackupFacts) -> Self {
        Self { version, at, files, left_out }
    }
}

/// A backup whose content was checked.
struct Inspected {
    facts: BackupFacts,
    /// The text of the configuration.
    configuration: Option<String>,
}

/// Checks a backup for a server: its lines and digest, and the content of each file. Certificate
/// files that cannot be used are not an error.
///
/// # Errors
/// See [`BackupError`].
pub fn check(backup: &Path, place: Place<'_>) -> Result<BackupFacts, BackupError> {
    let file = File::open(backup).map_err(BackupError::at(backup))?;
    Ok(inspect(file, &|text| check_configuration(text, place))?.facts)
}

/// Checks a backup, and its configuration with a function.
fn inspect(
    file: File,
    check_configuration: &dyn Fn(&str) -> Result<(), BackupError>,
) -> Result<Inspected, BackupError> {
    let mut state: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let (head, found) = read(BufReader::new(file), |name, octets| {
        if name.starts_with(QUERY_LOG) {
            return Ok(());
        }
        let kept = state.entry(name.to_owned()).or_default();
        if kept.len() + octets.len() > MAX_FILE {
            return Err(BackupError::TooLarge(name.to_owned(), MAX_FILE));
        }
        kept.extend_from_slice(octets);
        Ok(())
    })?;
    let mut left_out = Vec::new();
    for (name, octets) in &state {
        match check_file(name, octets, check_configuration) {
            Err(BackupError::Content(file, reason))
                if FileKind::of(name) == Some(FileKind::Certificate) =>
            {
                left_out.push(UnusableFile { file, reason });
            }
            checked => checked?,
        }
    }
    let BackupHead { version, at, .. } = head;
    let facts = BackupFacts { version, at, files: found.files, left_out, replaced_log: None };
    let configuration = state.remove(CONFIGURATION).and_then(|text| String::from_utf8(text).ok());
    Ok(Inspected { facts, configuration })
}

fn check_file(
    name: &str,
    octets: &[u8],
    check_configuration: &dyn Fn(&str) -> Result<(), BackupError>,
) -> Result<(), BackupError> {
    let text = || {
        str::from_utf8(octets)
            .map_err(|error| BackupError::Content(name.to_owned(), error.to_string()))
    };
    let unusable = |reason: String| BackupError::Content(name.to_owned(), reason);
    match FileKind::of(name) {
        Some(FileKind::Configuration) => check_configuration(text()?),
        Some(FileKind::Revision(number)) => match store::is_intact(number, text()?) {
            true => Ok(()),
            false => Err(unusable("its text does not match its checksum".to_owned())),
        },
        Some(FileKind::State) if name == "access.json" => {
            avocet_web::access::check(text()?).map_err(|error| unusable(error.to_string()))
        }
        Some(FileKind::State) if name == "switches.json" => {
            switches_file::check(octets).map_err(|error| unusable(error.to_string()))
        }
        Some(FileKind::State) if name == "pools.json" => {
            pools_file::check(octets).map_err(|error| unusable(error.to_string()))
        }
        Some(FileKind::State) => match trust::is_intact(text()?) {
            true => Ok(()),
            false => Err(unusable("it does not match its checksum".to_owned())),
        },
        Some(FileKind::Audit) => text().map(drop),
        Some(FileKind::Certificate) => check_certificate(name, octets),
        Some(FileKind::QueryLog) | None => Ok(()),
    }
}

fn check_configuration(text: &str, place: Place<'_>) -> Result<(), BackupError> {
    let path = place.configuration.ok_or(BackupError::NoConfiguration)?;
    let config = Config::from_text(Some(path), text, &environment().collect())?;
    // The files go to the directory that the server will use.
    if config.data.directory != place.directory {
        return Err(BackupError::OtherDirectory(config.data.directory));
    }
    // With another account, the next start would give the server rights that it does not have.
    let present = read_text(path).ok();
    let present = present
        .and_then(|text| Config::from_text(Some(path), &text, &environment().collect()).ok());
    match present.map(|present| present.server) {
        Some(present)
            if present.user.is_some()
                && (&present.user, &present.control_group)
                    != (&config.server.user, &config.server.control_group) =>
        {
            Err(BackupError::OtherAccount(path.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Returns the account that owns the data directory.
fn owner(directory: &Path) -> Result<Account, BackupError> {
    Account::owner_of(directory).map_err(BackupError::at(directory))
}

/// Runs steps in the data directory with the rights of its owner.
fn act<T: Send>(
    owner: &Account,
    directory: &Path,
    steps: impl FnOnce() -> Result<T, BackupError> + Send,
) -> Result<T, BackupError> {
    owner.run(steps).map_err(BackupError::at(directory))?
}

/// Owns the data directory until the process ends, so that no server starts in it.
///
/// # Errors
/// A server runs, starts or ends in the directory, or the file with the lock cannot be used.
pub fn own(directory: &Path) -> Result<(), BackupError> {
    act(&owner(directory)?, directory, || {
        ownership::own(directory).map_err(|error| match error {
            LockError::Held => BackupError::Owned(directory.to_owned()),
            LockError::System(path, source) => BackupError::System { path, source },
        })
    })
}

/// Copies a backup into the data directory, where a server checks it and keeps it for its next
/// start.
///
/// # Errors
/// A file cannot be read or written.
pub fn place_upload(backup: &Path, directory: &Path) -> Result<(), BackupError> {
    let source = File::open(backup).map_err(BackupError::at(backup))?;
    act(&owner(directory)?, directory, || upload(source, directory))
}

fn upload(source: File, directory: &Path) -> Result<(), BackupError> {
    let path = directory.join(UPLOAD);
    write_new(&path, source).map_err(BackupError::at(&path))
}

/// Checks the uploaded backup and keeps it for the next start.
///
/// # Errors
/// The backup cannot be used, and is removed; or an earlier restore is not complete.
pub(crate) fn stage(place: Place<'_>) -> Result<BackupFacts, BackupError> {
    if has_begun(place.directory) {
        return Err(BackupError::Begun);
    }
    let upload = place.directory.join(UPLOAD);
    let facts = check(&upload, place).inspect_err(|_| {
        // The upload has no use any more. If it cannot be removed, the next upload replaces it.
        let _ = fs::remove_file(&upload);
    })?;
    keep(place.directory)?;
    Ok(facts)
}

/// Keeps the uploaded backup for the next start.
fn keep(directory: &Path) -> Result<(), BackupError> {
    let (upload, pending) = (directory.join(UPLOAD), directory.join(PENDING));
    let made = || {
        let _permit = ownership::write()?;
        if pending.exists() {
            fs::remove_dir_all(&pending)?;
        }
        create_directory(&pending)?;
        fs::rename(&upload, pending.join(BACKUP))?;
        sync(&pending)?;
        sync(directory)
    };
    made().map_err(BackupError::at(&pending))
}

/// Puts a backup in place. No server may run in the directory.
///
/// # Errors
/// See [`BackupError`]. If the backup cannot be used, nothing has changed.
pub fn restore(backup: &Path, place: Place<'_>, now: u64) -> Result<BackupFacts, BackupError> {
    let source = || File::open(backup).map_err(BackupError::at(backup));
    let inspected = inspect(source()?, &|text| check_configuration(text, place))?;
    let (source, directory) = (source()?, place.directory);
    if has_begun(directory) {
        return Err(BackupError::Begun);
    }
    let owner = owner(directory)?;
    let prepared = act(&owner, directory, || {
        upload(source, directory)?;
        keep(directory)?;
        // The owner may be unable to read the files that the configuration names.
        prepare(directory, &|_| Ok(()))
    })?;
    if let Some(text) = &inspected.configuration {
        let keeper = keeper(place, &owner)?;
        act(&keeper, directory, || replace_configuration(text, place, &owner))?;
    }
    act(&owner, directory, || complete(prepared, directory, now))
}

/// Returns the account that root acts as to replace the configuration: the account that may change
/// the directory of the configuration. That account may put links there, and root must not follow
/// them with its own rights.
fn keeper(place: Place<'_>, owner: &Account) -> Result<Account, BackupError> {
    let path = place.configuration.ok_or(BackupError::NoConfiguration)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let facts = fs::metadata(directory).map_err(BackupError::at(directory))?;
    match facts.uid() == 0 && facts.mode() & WRITABLE_FOR_OTHERS != 0 {
        true => Ok(owner.clone()),
        false => Account::owner_of(directory).map_err(BackupError::at(directory)),
    }
}

/// Returns whether a backup waits in a data directory.
///
/// # Errors
/// This process may not know, because another account keeps the backup.
pub fn has_pending(directory: &Path) -> Result<bool, BackupError> {
    let pending = directory.join(PENDING);
    pending.join(BACKUP).try_exists().map_err(BackupError::at(&pending))
}

/// Returns whether the restore in a data directory has replaced files already.
pub(crate) fn has_begun(directory: &Path) -> bool {
    directory.join(PENDING).join(BEFORE).exists()
}

/// Puts the waiting backup in place. No server may run in the directory. Returns `None` if no
/// backup waits.
///
/// # Errors
/// See [`BackupError`]. If the backup cannot be used, nothing has changed.
pub fn finish(place: Place<'_>, now: u64) -> Result<Option<BackupFacts>, BackupError> {
    let directory = place.directory;
    if !has_pending(directory)? {
        return Ok(None);
    }
    let has_begun = has_begun(directory);
    let check = |text: &str| if has_begun { Ok(()) } else { check_configuration(text, place) };
    let prepared = prepare(directory, &check)?;
    if let Some(text) = &prepared.configuration {
        match replace_configuration(text, place, &owner(directory)?) {
            // The restore that has begun has replaced it. Perhaps only root may read it.
            Err(error) if has_begun => warn!("the configuration is not replaced again: {error}"),
            replaced => replaced?,
        }
    }
    complete(prepared, directory, now).map(Some)
}

/// A backup with all its files in the data directory, next to those in force.
struct Prepared {
    facts: BackupFacts,
    configuration: Option<String>,
    /// The names of the files to put in place.
    names: Vec<String>,
}

/// Checks the waiting backup again, and writes its files next to those in force.
fn prepare(
    directory: &Path,
    check_configuration: &dyn Fn(&str) -> Result<(), BackupError>,
) -> Result<Prepared, BackupError> {
    let pending = directory.join(PENDING);
    let backup = pending.join(BACKUP);
    let file = File::open(&backup).map_err(BackupError::at(&backup))?;
    let Inspected { facts, configuration } = inspect(file, check_configuration)?;
    let mut names = unpack(&pending)?;
    for UnusableFile { file, reason } in &facts.left_out {
        warn!("{file} in the backup cannot be used, and is not restored: {reason}");
        names.retain(|name| name != file);
    }
    Ok(Prepared { facts, configuration, names })
}

/// Puts the files of a backup in place, other than the configuration.
fn complete(prepared: Prepared, directory: &Path, now: u64) -> Result<BackupFacts, BackupError> {
    let Prepared { mut facts, names, .. } = prepared;
    let pending = directory.join(PENDING);
    let failed = |error| BackupError::System { path: pending.clone(), source: error };
    keep_last_number(&pending, directory).map_err(failed)?;
    put_in_place(&pending, directory, &names).map_err(failed)?;
    let mut done = directory.join(format!("restored-{now}"));
    while done.exists() {
        done.as_mut_os_string().push("a");
    }
    fs::rename(&pending, &done).and_then(|()| sync(directory)).map_err(failed)?;
    let log = done.join(BEFORE).join(QUERY_LOG);
    if log.exists() {
        warn!("the query log of the backup has replaced another one, now in {}", log.display());
        facts.replaced_log = Some(log);
    }
    record(directory, &facts, now);
    Ok(facts)
}

/// Keeps the highest number of the revisions that the restore replaces. The query log and the audit
/// log refer to revisions by number, and a number must not refer to another text later.
fn keep_last_number(pending: &Path, directory: &Path) -> io::Result<()> {
    let new = pending.join(NEW).join(REVISIONS);
    // After a crash, the revisions may have been moved already.
    let before = pending.join(BEFORE).join(REVISIONS);
    let last = [directory.join(REVISIONS), before, new.clone()].map(|one| store::last_number(&one));
    let last = last.into_iter().max().unwrap_or_default();
    if last == store::last_number(&new) {
        return Ok(());
    }
    write_new(&new.join(store::LAST), last.to_string().as_bytes())?;
    sync(&new)
}

/// Records the restore in the restored audit log.
fn record(directory: &Path, facts: &BackupFacts, now: u64) {
    let fields = json!({ "version": facts.version, "at": facts.at, "files": facts.files });
    AuditLog::new(directory).record(&AuditEntry {
        at: now,
        who: String::new(),
        by: "start".to_owned(),
        from: String::new(),
        what: "restore".to_owned(),
        fields: fields.as_object().cloned().unwrap_or_default(),
        result: "ok".to_owned(),
    });
}

/// Writes the files of a backup next to the files in force, and returns their names.
pub(super) fn unpack(pending: &Path) -> Result<Vec<String>, BackupError> {
    let new = pending.join(NEW);
    let prepare = || {
        if new.exists() {
            fs::remove_dir_all(&new)?;
        }
        let certificates = CERTIFICATES.iter().map(|one| new.join(one.name));
        let all = [new.clone(), new.join(REVISIONS), new.join(QUERY_LOG)];
        for directory in all.into_iter().chain(certificates) {
            create_directory(&directory)?;
        }
        Ok(())
    };
    prepare().map_err(BackupError::at(&new))?;
    let backup = pending.join(BACKUP);
    let input = File::open(&backup).map_err(BackupError::at(&backup))?;
    let (mut names, mut open): (Vec<String>, Option<File>) = (Vec::new(), None);
    read(BufReader::new(input), |name, octets| {
        let path = new.join(name);
        let mut write = || {
            if names.last().is_none_or(|last| last != name) {
                if let Some(before) = open.take() {
                    before.sync_all()?;
                }
                open = Some(create(&path)?);
                names.push(name.to_owned());
            }
            open.as_mut().map_or(Ok(()), |file| file.write_all(octets))
        };
        write().map_err(BackupError::at(&path))
    })?;
    let synced = open.map_or(Ok(()), |file| file.sync_all()).and_then(|()| {
        CERTIFICATES.iter().try_for_each(|one| sync(&new.join(one.name)))?;
        [new.as_path(), &new.join(REVISIONS), &new.join(QUERY_LOG)].into_iter().try_for_each(sync)
    });
    synced.map_err(BackupError::at(&new))?;
    Ok(names)
}

/// Copies the configuration file and then replaces it. The new file has the same owner and
/// permissions. The owner of the data directory owns a file that did not exist.
fn replace_configuration(text: &str, place: Place<'_>, owner: &Account) -> Result<(), BackupError> {
    let path = place.configuration.ok_or(BackupError::NoConfiguration)?;
    let present = match file::read_text(path, avocet_config::MAX_CONFIG_FILE) {
        Ok(present) => present,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return create_configuration(text, path, place.directory)
                .map_err(BackupError::at(path));
        }
        Err(error) => return Err(BackupError::at(path)(error)),
    };
    if present == text {
        return Ok(());
    }
    act(owner, place.directory, || {
        let copy = place.directory.join(PENDING).join("configuration.before");
        write_new(&copy, present.as_bytes()).map_err(BackupError::at(&copy))
    })?;
    Ok(replace(path, &present, text)?)
}

fn create_configuration(text: &str, path: &Path, directory: &Path) -> io::Result<()> {
    let mut file = create(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    let (owner, own) = (fs::metadata(directory)?, file.metadata()?);
    match owner.uid() == own.uid() {
        true => Ok(()),
        false => fchown(&file, Some(owner.uid()), Some(owner.gid())),
    }
}

/// Moves the files of the state to `before`, and those of the backup to their places. After a
/// crash, the next start can call this function again.
fn put_in_place(pending: &Path, directory: &Path, names: &[String]) -> io::Result<()> {
    let (new, before) = (pending.join(NEW), pending.join(BEFORE));
    if !before.exists() {
        create_directory(&before)?;
        sync(pending)?;
    }
    let mut places: Vec<String> = STATE.iter().map(|&name| name.to_owned()).collect();
    places.push(REVISIONS.trim_end_matches('/').to_owned());
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name().into_string().unwrap_or_default();
        places.extend(is_audit(&name).then_some(name));
    }
    places.extend(names.iter().filter(|name| is_audit(name)).cloned());
    places.sort_unstable();
    places.dedup();
    for name in &places {
        let (target, kept) = (directory.join(name), before.join(name));
        if target.exists() && !kept.exists() {
            fs::rename(&target, &kept)?;
        }
        if new.join(name).exists() {
            if target.is_dir() {
                fs::remove_dir_all(&target)?;
            }
            fs::rename(new.join(name), target)?;
        }
    }
    // Existing certificates remain if the backup has no certificates of their kind.
    for one in CERTIFICATES.iter().filter(|one| one.is_replaced_by(names)) {
        put_certificates(one, pending, directory, names)?;
    }
    query_log::put(pending, directory, names)?;
    [pending, &before, &new, directory].into_iter().try_for_each(sync)
}

/// Copies the files of a directory with certificates and then replaces them. The directory itself
/// remains: it may be a mount point, which cannot be renamed. After a crash, the next start can
/// call this function again.
fn put_certificates(
    one: &CertificateDirectory,
    pending: &Path,
    directory: &Path,
    names: &[String],
) -> io::Result<()> {
    let (target, kept) = (directory.join(one.name), pending.join(BEFORE).join(one.name));
    if !target.is_dir() {
        if target.symlink_metadata().is_ok() {
            fs::rename(&target, &kept)?;
        }
        create_directory(&target)?;
    }
    // The kept file may be a symbolic link without a target.
    if kept.symlink_metadata().is_err() {
        keep_certificates(one, &target, &kept)?;
    }
    for file in one.files {
        let name = format!("{}/{file}", one.name);
        if names.contains(&name) {
            let part = target.join(format!("{file}.restored"));
            write_new(&part, File::open(pending.join(NEW).join(name))?)?;
            fs::rename(part, target.join(file))?;
        } else if target.join(file).exists() {
            fs::remove_file(target.join(file))?;
        }
    }
    sync(&target)
}

/// Copies the files of a directory with certificates. The copy gets its final name once it is
/// complete.
fn keep_certificates(one: &CertificateDirectory, target: &Path, kept: &Path) -> io::Result<()> {
    let part = kept.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    create_directory(&part)?;
    for file in one.files {
        match File::open(target.join(file)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            content => write_new(&part.join(file), content?)?,
        }
    }
    sync(&part)?;
    fs::rename(part, kept)
}

fn create(path: &Path) -> io::Result<File> {
    // If a crash left a symbolic link here, the write must not follow it.
    let _ = fs::remove_file(path);
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Writes a file, and waits until it is on the disk.
pub(super) fn write_new(path: &Path, mut content: impl Read) -> io::Result<()> {
    let mut file = create(path)?;
    io::copy(&mut content, &mut file)?;
    file.sync_all()
}

pub(super) fn create_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Waits until the entries of a directory are on the disk.
pub(super) fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
