//! `avocet backup` and `avocet restore`.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use avocet_config::find;
use avocet_control::backup::{
    Backup, Restore, RestoreCancel, RestoreStaged, UnusableFile, WaitingRestore,
};
use avocet_control::connect;
use avocet_nameserver::disk;
use avocet_server::backup::{self, BackupFacts, Place};
use clap::Args;

use crate::call::{View, exchange, refuse, run, whereabouts};
use crate::control_args::ControlArgs;
use crate::error::CommandError;
use crate::output;
use crate::output::Reader;
use crate::span::ago;

/// Arguments of `avocet backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// File to write, which must not exist; `-` writes to standard output
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Also back up the query log
    #[arg(long)]
    query_log: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// Arguments of `avocet restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// File with the backup
    #[arg(value_name = "FILE", required_unless_present = "cancel")]
    path: Option<PathBuf>,
    /// Cancel a restore that the running server would make at its next start
    #[arg(long, conflicts_with_all = ["path", "check"])]
    cancel: bool,
    /// Only check the backup, and restore nothing
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    control: ControlArgs,
}

/// Runs `avocet backup`.
pub(crate) fn make(args: &BackupArgs) -> ExitCode {
    match write(args) {
        Ok(text) => {
            output::note(&text);
            if let Some(warning) =
                whereabouts(&args.control).ok().and_then(|at| omitted(&at.directory))
            {
                output::note(&warning);
            }
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&error),
    }
}

/// Writes the backup, and returns a line about it.
fn write(args: &BackupArgs) -> Result<String, CommandError> {
    let directory = whereabouts(&args.control)?.directory;
    let request = Backup { query_log: args.query_log };
    let unwritten = |source| CommandError::Unwritten { path: args.path.clone(), source };
    if args.path == Path::new("-") {
        let mut out = io::stdout().lock();
        return copy(&directory, request, &mut out, CommandError::Output);
    }
    if args.path.exists() {
        return Err(CommandError::BackupExists(args.path.clone()));
    }
    let beside = args.path.with_added_extension(disk::UNFINISHED);
    let _ = fs::remove_file(&beside);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside);
    let mut out = BufWriter::new(file.map_err(unwritten)?);
    let copied = copy(&directory, request, &mut out, unwritten).and_then(|text| {
        out.get_ref().sync_all().map_err(unwritten)?;
        // Unlike a rename, a hard link fails if another process has created the file in the
        // meantime.
        fs::hard_link(&beside, &args.path).map_err(unwritten)?;
        Ok(text)
    });
    // If this fails, the incomplete file only takes space.
    let _ = fs::remove_file(&beside);
    copied
}

/// Returns a warning about the state of signed zones in the data directory, which no backup has: an
/// earlier state of keys would revoke a roll-over that other servers have already seen.
fn omitted(directory: &Path) -> Option<String> {
    let keys = directory.join("keys");
    let is_signing = fs::read_dir(&keys).is_ok_and(|mut entries| entries.next().is_some());
    is_signing.then(|| {
        format!(
            "warning: the backup does not have the keys of signed zones in {}, and not their \
             serials (*.published, *.ttls) in {}: save these files, too",
            keys.display(),
            directory.join("zones").display()
        )
    })
}

/// Copies the lines of a backup.
fn copy(
    directory: &Path,
    request: Backup,
    out: &mut impl Write,
    unwritten: impl Fn(io::Error) -> CommandError,
) -> Result<String, CommandError> {
    let end = exchange::<Backup>(directory, request, |line, _| {
        out.write_all(line.as_bytes())
            .and_then(|()| out.write_all(b"\n"))
            .map(|()| Reader::Reads)
            .map_err(&unwritten)
    })?;
    out.flush().map_err(&unwritten)?;
    let end = end.ok_or(CommandError::Incomplete)?;
    Ok(format!("{} files, {} octets", end.files, end.octets))
}

/// Runs `avocet restore`.
pub(crate) fn restore(args: &RestoreArgs) -> ExitCode {
    match begin(args) {
        Ok(Begun::Done(text)) => {
            output::note(&text);
            ExitCode::SUCCESS
        }
        Ok(Begun::Cancelling) => run(&args.control, RestoreCancel {}, &View::of(cancelled_text)),
        Ok(Begun::Uploaded) => run(&args.control, Restore {}, &View::of(staged_text)),
        Err(error) => refuse(&error),
    }
}

/// The progress of a restore.
enum Begun {
    /// The restore is complete, or the backup was only checked. Holds the text for people.
    Done(String),
    /// The running server receives the backup.
    Uploaded,
    /// The running server cancels the restore.
    Cancelling,
}

fn begin(args: &RestoreArgs) -> Result<Begun, CommandError> {
    let file = find(args.control.config.as_deref());
    let directory = whereabouts(&args.control)?.directory;
    let place = Place { directory: &directory, configuration: file.as_deref() };
    let Some(path) = &args.path else {
        if connect(&directory).is_ok() {
            return Ok(Begun::Cancelling);
        }
        own(&directory)?;
        return Ok(Begun::Done(cancelled_text(&backup::cancel(&directory)?)));
    };
    if args.check {
        let facts = backup::check(path, place)?;
        return Ok(Begun::Done(format!("the backup is intact: {}", facts_text(&facts))));
    }
    if connect(&directory).is_ok() {
        backup::place_upload(path, &directory)?;
        return Ok(Begun::Uploaded);
    }
    own(&directory)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let facts = backup::restore(path, place, now)?;
    Ok(Begun::Done(format!("restored: {}", facts_text(&facts))))
}

/// Owns the data directory until this process ends.
fn own(directory: &Path) -> Result<(), CommandError> {
    if !directory.exists() {
        return Err(CommandError::NoDirectory(directory.to_owned()));
    }
    Ok(backup::own(directory)?)
}

fn facts_text(facts: &BackupFacts) -> String {
    let made = ago(Some(facts.at));
    let left_out = left_out_text(&facts.left_out);
    let log = facts.replaced_log.as_ref().map(|log| {
        format!(
            "\nwarning: the query log in the data directory was that of another server; the query \
             log of the backup has replaced it, and it is now in {}",
            log.display()
        )
    });
    let log = log.unwrap_or_default();
    format!("{} files, made {made} by avocet {}{left_out}{log}", facts.files, facts.version)
}

/// Returns a line for each file that is not put in place.
fn left_out_text(files: &[UnusableFile]) -> String {
    let line = |one: &UnusableFile| {
        format!("\nwarning: {} cannot be used, and is not restored: {}", one.file, one.reason)
    };
    files.iter().map(line).collect()
}

fn cancelled_text(reply: &WaitingRestore) -> String {
    let made = ago(Some(reply.at));
    format!("the restore of a backup made {made} by avocet {} is cancelled", reply.version)
}

fn staged_text(reply: &RestoreStaged) -> String {
    let made = ago(Some(reply.at));
    format!(
        "the backup is intact: {} files, made {made} by avocet {}{}\nrestart the server to put it \
         in place, or cancel with `avocet restore --cancel`",
        reply.files,
        reply.version,
        left_out_text(&reply.left_out)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_without_keys_of_signed_zones_comes_with_a_warning() {
        let directory = std::env::temp_dir().join(format!("avocet-omitted-{}", std::process::id()));
        fs::create_dir_all(directory.join("keys")).unwrap();
        assert_eq!(omitted(&directory), None);
        fs::create_dir(directory.join("keys/corp.example")).unwrap();
        let warning = omitted(&directory).unwrap();
        assert!(warning.contains(directory.join("keys").to_str().unwrap()), "{warning}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
