//! `avocet import`: converts configurations of other servers. The conversion itself is in the crate
//! `avocet_import`; this file reads and writes the disk.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use avocet_config::Config;
use avocet_config::name::typed_name;
use avocet_config::policy::ListSource;
use avocet_import::{Files, Imported, Known, Origin, ZoneFile};
use avocet_nameserver::policy::load::examine;
use avocet_nameserver::zone_files;
use avocet_policy::rule::{NamedTimeZone, service_names};
use avocet_wire::FoldedName;
use avocet_zone::Severity;

use crate::args::ImportArgs;
use crate::error::CommandError;
use crate::output;

/// Maximum number of names that are read from a directory.
const MAX_NAMES: usize = 10_000;
/// Maximum number of errors of a zone that are shown.
const MAX_SHOWN_FAULTS: usize = 3;
/// The modes of files, which the umask of the process reduces: secrets are for their owner alone.
const FILE_MODE: u32 = 0o666;
const SECRET_MODE: u32 = 0o600;

/// Parses the name of a product on the command line.
///
/// # Errors
/// There is no such product.
pub(crate) fn origin(word: &str) -> Result<Origin, CommandError> {
    match word {
        "pihole" => Ok(Origin::Pihole),
        "adguard" => Ok(Origin::Adguard),
        "blocky" => Ok(Origin::Blocky),
        "dnsmasq" => Ok(Origin::Dnsmasq),
        "bind" => Ok(Origin::Bind),
        "powerdns" => Ok(Origin::Powerdns),
        _ => Err(CommandError::UnknownOrigin),
    }
}

/// Writes the configuration, the files that it refers to in the same directory, and the notes on
/// standard error.
///
/// # Errors
/// The source cannot be read, or a file cannot be written.
pub(crate) fn run(args: &ImportArgs) -> Result<ExitCode, CommandError> {
    let directory = match &args.output {
        Some(output) => directory(output)?,
        None => PathBuf::new(),
    };
    let beside =
        if args.output.is_some() { format!("{}/", directory.display()) } else { String::new() };
    let mut imported = import(args.origin, &args.path, &Disk, &beside)?;
    let broken_lines = broken_lines(&imported, &beside);
    imported.notes.extend(broken_lines);
    let broken_zones = broken_zones(&imported, &beside);
    imported.notes.extend(broken_zones);
    match &args.output {
        Some(output) => write_files(output, &directory, &imported)?,
        None => {
            output::write_data(&imported.config)?;
            let secrets = imported.secrets.iter().map(|(name, _)| name);
            for name in imported.files.iter().map(|(name, _)| name).chain(secrets) {
                output::note(&format!("{name}: not written without --output"));
            }
        }
    }
    for note in &imported.notes {
        output::note(note);
    }
    if let (Some((name, _)), Some(_)) = (imported.secrets.first(), &args.output) {
        output::note(&format!(
            "{name}: only its owner may read the secrets: make the account of the server the owner"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Converts a configuration, with the services and time zones of this version.
fn import(
    origin: Origin,
    path: &str,
    files: &dyn Files,
    beside: &str,
) -> Result<Imported, avocet_import::Error> {
    let services: Vec<&str> = service_names().collect();
    let zones = NamedTimeZone::names();
    let zones: Vec<&str> = zones.iter().map(String::as_str).collect();
    avocet_import::import(
        origin,
        path,
        files,
        beside,
        Known { services: &services, time_zones: &zones },
    )
}

/// Returns the imported rules of the user that have no effect in a list, each with the reason.
fn broken_lines(imported: &Imported, beside: &str) -> Vec<String> {
    let Ok(config) = Config::from_text(None, &imported.config, &BTreeMap::new()) else {
        // The errors are not lost: `avocet check` reports them for the written file.
        return Vec::new();
    };
    let mut notes = Vec::new();
    for list in &config.policy.lists {
        let ListSource::File(path) = &list.source else { continue };
        let file = imported.files.iter().find(|(name, _)| *path == Path::new(beside).join(name));
        let Some((name, text)) = file else { continue };
        let Ok(report) = examine(list, text.as_bytes()) else { continue };
        for fault in &report.first_faults {
            let line = text.lines().nth(fault.line as usize - 1).unwrap_or_default();
            notes.push(format!("{name}: {line}: it has no effect: {}", fault.reason));
        }
        let more = report.faults.saturating_sub(report.first_faults.len() as u64);
        if more > 0 {
            notes.push(format!("{name}: {more} more lines have no effect"));
        }
    }
    notes
}

/// Returns the zones that the server cannot read, each with the first errors in its files.
fn broken_zones(imported: &Imported, beside: &str) -> Vec<String> {
    let mut notes = Vec::new();
    // The files that accompany the configuration are not on disk yet, so their imported texts are
    // used.
    let own: BTreeMap<PathBuf, &str> = imported
        .files
        .iter()
        .map(|(name, text)| (Path::new(beside).join(name), text.as_str()))
        .collect();
    let mut open = |path: &Path, most: u64| match own.get(path) {
        Some(text) => Ok(text.as_bytes().to_vec()),
        None => zone_files::open(path, most),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for ZoneFile { zone, path, origin } in &imported.zone_files {
        let Ok(name) = typed_name(&zone.to_ascii_lowercase()) else { continue };
        let Some(name) = FoldedName::new(&name) else { continue };
        let (_, faults) = avocet_zone::load(name, Path::new(path), now, &mut open);
        let list = faults.list();
        let errors = list.iter().filter(|fault| fault.severity == Severity::Error);
        for fault in errors.clone().take(MAX_SHOWN_FAULTS) {
            notes.push(format!("{origin}: zone {zone} is not served: {fault}"));
        }
        let more = errors.count().saturating_sub(MAX_SHOWN_FAULTS);
        if more > 0 {
            notes.push(format!("{origin}: zone {zone} has {more} more errors"));
        }
    }
    notes
}

/// Returns the absolute path of the directory of the output file.
fn directory(output: &Path) -> Result<PathBuf, CommandError> {
    let parent =
        output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::canonicalize(parent)
        .map_err(|source| CommandError::Unreadable { path: parent.to_owned(), source })
}

/// Writes all files or none. An import replaces no file, so none may exist.
fn write_files(output: &Path, directory: &Path, imported: &Imported) -> Result<(), CommandError> {
    let named = imported.files.iter().map(|(name, text)| (directory.join(name), text.as_str()));
    let named = named.map(|(path, text)| (path, text, FILE_MODE));
    let secrets = imported.secrets.iter();
    let secrets = secrets.map(|(name, text)| (directory.join(name), text.text(), SECRET_MODE));
    let config = (output.to_owned(), imported.config.as_str(), FILE_MODE);
    let all: Vec<(PathBuf, &str, u32)> = named.chain(secrets).chain([config]).collect();
    if let Some((path, ..)) = all.iter().find(|(path, ..)| path.exists()) {
        return Err(CommandError::Exists(path.clone()));
    }
    let mut made = Vec::new();
    for (path, text, mode) in &all {
        if let Err(source) = write_file((path, *mode), text, &mut made) {
            made.iter().for_each(|path| drop(fs::remove_file(path)));
            return Err(CommandError::Unwritten { path: path.clone(), source });
        }
    }
    Ok(())
}

/// Writes a new file, and adds its path to `made` once the file exists.
fn write_file<'a>(
    (path, mode): (&'a Path, u32),
    text: &str,
    made: &mut Vec<&'a Path>,
) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    made.push(path);
    file.write_all(text.as_bytes())?;
    // Some file systems report a full disk only when they sync.
    file.sync_all()
}

/// The file system of this machine.
struct Disk;

impl Files for Disk {
    fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
        // Opening a pipe or a device may block, and reading one may not end.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a file"));
        }
        let mut octets = Vec::new();
        File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut octets)?;
        if octets.len() as u64 > most {
            return Err(io::Error::other(format!("larger than {most} octets")));
        }
        Ok(octets)
    }

    fn list(&self, path: &str) -> Option<Vec<String>> {
        let entries = fs::read_dir(path).ok()?.take(MAX_NAMES).flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_unstable();
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system with only the samples, so that the result does not depend on other files of
    /// the machine.
    struct Samples;

    impl Files for Samples {
        fn read(&self, path: &str, most: u64) -> io::Result<Vec<u8>> {
            if path.contains("/samples/") {
                Disk.read(path, most)
            } else {
                Err(io::Error::other("not among the samples"))
            }
        }

        fn list(&self, path: &str) -> Option<Vec<String>> {
            Disk.list(path).filter(|_| path.contains("/samples/"))
        }
    }

    /// Converts a sample of the crate and reads the result as a configuration.
    #[track_caller]
    fn check(origin: Origin, sample: &str, tables: &[&str]) {
        let path = format!("{}/../import/samples/{sample}", env!("CARGO_MANIFEST_DIR"));
        let imported = import(origin, &path, &Samples, "").unwrap();
        let document: toml::Table = imported.config.parse().unwrap();
        for table in tables {
            assert!(document.contains_key(*table), "{sample} has no {table}");
        }
        if let Err(errors) = Config::from_text(None, &document.to_string(), &BTreeMap::new()) {
            panic!("{sample}: {errors}\n{document}");
        }
    }

    #[test]
    fn what_is_imported_is_a_configuration() {
        let lists = ["policy", "server", "forward", "record", "list", "group", "client", "rule"];
        check(Origin::Adguard, "AdGuardHome.yaml", &lists);
        check(Origin::Blocky, "blocky.yml", &lists);
        check(
            Origin::Dnsmasq,
            "dnsmasq/dnsmasq.conf",
            &["server", "forward", "record", "list", "rule"],
        );
        check(
            Origin::Pihole,
            "pihole-five",
            &["server", "forward", "record", "list", "group", "rule"],
        );
        check(Origin::Pihole, "pihole-six", &["policy", "server", "forward", "record", "rule"]);
    }

    #[test]
    fn what_is_imported_of_bind_and_powerdns_is_a_configuration() {
        for (origin, sample, tables) in [
            (Origin::Bind, "bind/named.conf", &["[[zone]]", "[[key]]", "[[stub]]"][..]),
            (Origin::Bind, "bind/views.conf", &["[[zone]]", "[[group]]", "[[list]]"]),
            (Origin::Powerdns, "powerdns/recursor.conf", &["[[zone]]", "[[stub]]"]),
            (Origin::Powerdns, "powerdns/recursor.yml", &["[[zone]]", "[[forward]]"]),
        ] {
            let directory = std::env::temp_dir().join(format!(
                "avocet-import-zones-{}-{}",
                std::process::id(),
                sample.len()
            ));
            fs::create_dir_all(&directory).unwrap();
            let path = format!("{}/../import/samples/{sample}", env!("CARGO_MANIFEST_DIR"));
            let output = directory.join("avocet.toml");
            run(&ImportArgs { origin, path, output: Some(output.clone()) }).unwrap();
            if let Err(errors) = Config::load(Some(&output), BTreeMap::new()) {
                panic!("{sample}: {errors}\n{}", fs::read_to_string(&output).unwrap());
            }
            let text = fs::read_to_string(&output).unwrap();
            assert!(tables.iter().all(|table| text.contains(table)), "{sample}: {text}");
            fs::remove_dir_all(&directory).unwrap();
        }
    }

    #[test]
    fn own_rules_that_no_list_takes_are_reported() {
        struct One;
        impl Files for One {
            fn read(&self, _: &str, _: u64) -> io::Result<Vec<u8>> {
                Ok(b"dns: {port: 53}\nuser_rules: ['||a.example^', com, '||b.example^$nonsense']\n"
                    .to_vec())
            }
            fn list(&self, _: &str) -> Option<Vec<String>> {
                None
            }
        }
        let imported = import(Origin::Adguard, "AdGuardHome.yaml", &One, "/etc/avocet/").unwrap();
        let notes = broken_lines(&imported, "/etc/avocet/");
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(
            notes[0].starts_with(
                "user-rules.txt: com: it has no effect: a word alone is a part of too many names"
            ),
            "{notes:?}"
        );
        assert!(notes[1].contains("||b.example^$nonsense"), "{notes:?}");
    }

    #[test]
    fn files_are_written_once_and_replace_none() {
        let directory = std::env::temp_dir().join(format!("avocet-import-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let source = directory.join("dnsmasq.conf");
        fs::write(&source, "server=9.9.9.9\naddress=/ads.example/\n").unwrap();
        let output = directory.join("avocet.toml");
        let path = source.display().to_string();
        let args = ImportArgs { origin: Origin::Dnsmasq, path, output: Some(output.clone()) };
        assert!(run(&args).is_ok());
        let config = fs::read_to_string(&output).unwrap();
        let list = fs::canonicalize(&directory).unwrap().join("dnsmasq-blocked.txt");
        assert!(config.contains(&format!("file = \"{}\"", list.display())), "{config}");
        assert!(fs::read_to_string(list).unwrap().contains("address=/ads.example/\n"));
        assert!(matches!(run(&args), Err(CommandError::Exists(_))));
        let missing =
            ImportArgs { path: directory.join("gone").display().to_string(), output: None, ..args };
        assert!(run(&missing).unwrap_err().to_string().contains("gone cannot be read"));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn of_files_that_cannot_all_be_written_none_stays() {
        let directory =
            std::env::temp_dir().join(format!("avocet-import-half-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let file = |name: &str| (name.to_owned(), "x".to_owned());
        // The last file cannot be created: its directory does not exist.
        let files = vec![file("a.txt"), file("b.txt"), file("gone/c.txt")];
        let config = "x".to_owned();
        let (secrets, zone_files, notes) = (Vec::new(), Vec::new(), Vec::new());
        let imported = Imported { config, files, secrets, zone_files, notes };
        let error = write_files(&directory.join("avocet.toml"), &directory, &imported).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("gone/c.txt cannot be written"), "{error}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_is_no_file_or_too_large_is_not_read() {
        assert_eq!(Disk.read("/dev/zero", 10).unwrap_err().to_string(), "not a file");
        let own = format!("{}/Cargo.toml", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(Disk.read(&own, 10).unwrap_err().to_string(), "larger than 10 octets");
        assert!(Disk.list("/nonexistent").is_none());
    }
}
