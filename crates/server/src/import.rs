//! `avocet import`: the disk and the command line around the crate that reads configurations of other servers.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use avocet_import::{Files, Imported, Origin};

use crate::cli::ImportArgs;

/// Most names of a directory.
const MAX_NAMES: usize = 10_000;
/// Services that a rule may ask for by name.
const SERVICES: &[&str] = &[];

/// The source that a word of the command line names.
///
/// # Errors
/// There is no such source.
pub(crate) fn origin(word: &str) -> Result<Origin, String> {
    match word {
        "pihole" => Ok(Origin::Pihole),
        "adguard" => Ok(Origin::Adguard),
        "blocky" => Ok(Origin::Blocky),
        "dnsmasq" => Ok(Origin::Dnsmasq),
        _ => Err("expected pihole, adguard, blocky or dnsmasq".to_owned()),
    }
}

/// Writes the configuration, the files that it names beside it, and the notes to standard error.
///
/// # Errors
/// The source cannot be read, or a file cannot be written.
pub(crate) fn run(args: &ImportArgs) -> Result<ExitCode, String> {
    let directory = match &args.output {
        Some(output) => directory(output)?,
        None => PathBuf::new(),
    };
    let beside = if args.output.is_some() { format!("{}/", directory.display()) } else { String::new() };
    let imported =
        avocet_import::import(args.origin, &args.path, &Disk, &beside, SERVICES).map_err(|error| error.to_string())?;
    match &args.output {
        Some(output) => write_files(output, &directory, &imported)?,
        None => {
            io::stdout().write_all(imported.config.as_bytes()).map_err(|error| error.to_string())?;
            for (name, _) in &imported.files {
                let _ = writeln!(io::stderr(), "{name}: it is not written without --output");
            }
        }
    }
    for note in &imported.notes {
        let _ = writeln!(io::stderr(), "{note}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The directory of the file that will be written, as a full path.
fn directory(output: &Path) -> Result<PathBuf, String> {
    let parent = output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::canonicalize(parent).map_err(|error| format!("{}: {error}", parent.display()))
}

/// Writes all files. None may exist: an import replaces nothing.
fn write_files(output: &Path, directory: &Path, imported: &Imported) -> Result<(), String> {
    let named = imported.files.iter().map(|(name, text)| (directory.join(name), text.as_str()));
    let all: Vec<(PathBuf, &str)> = named.chain([(output.to_owned(), imported.config.as_str())]).collect();
    if let Some((path, _)) = all.iter().find(|(path, _)| path.exists()) {
        return Err(format!("{} exists; an import replaces no file", path.display()));
    }
    for (path, text) in all {
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    Ok(())
}

/// The files of this machine.
struct Disk;

impl Files for Disk {
    fn read(&self, path: &str, most: u64) -> Result<Vec<u8>, String> {
        let read = || -> io::Result<Vec<u8>> {
            // A pipe or a device may never end, and opening one may wait.
            if !fs::metadata(path)?.is_file() {
                return Err(io::Error::other("this is no file"));
            }
            let mut octets = Vec::new();
            File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut octets)?;
            Ok(octets)
        };
        let octets = read().map_err(|error| error.to_string())?;
        if octets.len() as u64 > most {
            return Err(format!("it has more than {most} octets"));
        }
        Ok(octets)
    }

    fn list(&self, path: &str) -> Option<Vec<String>> {
        let entries = fs::read_dir(path).ok()?.take(MAX_NAMES).flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        Some(names)
    }
}
