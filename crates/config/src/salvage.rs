//! The parts of a server's configuration that a command needs to reach the server: the control
//! socket and an address. The file may have errors that were introduced after the server started.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::error::SettingError;
use super::listen::{Listen, Protocol};
use super::setting::FromText;
use super::{Config, DEFAULT_DIRECTORY, source};

/// The data directory of the systemd unit in the manual.
const SERVICE_DIRECTORY: &str = "/var/lib/avocet";

/// The data that a command needs to reach a server.
#[derive(Debug)]
pub struct Whereabouts {
    /// The data directory with the control socket.
    pub directory: PathBuf,
    /// The first listening address, if one is configured.
    pub listen: Option<SocketAddr>,
    /// The complete configuration, if it has no errors.
    pub config: Option<Config>,
    /// A warning about the file, if it has errors.
    pub warning: Option<String>,
}

impl Whereabouts {
    /// Finds the server of `file`, with the variables of `environment` applied. Missing settings
    /// have their defaults.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn find(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, SettingError> {
        let environment: BTreeMap<String, String> = environment.into_iter().collect();
        let shown = file.map_or_else(String::new, |file| file.display().to_string());
        let octets = match file {
            Some(file) => source::read_octets(file)
                .map_err(|source| SettingError::Unreadable { path: file.to_owned(), source })?,
            None => Vec::new(),
        };
        let text = String::from_utf8_lossy(&octets);
        let loaded = match file {
            Some(file) if std::str::from_utf8(&octets).is_err() => {
                source::read_file(file).map(drop)
            }
            _ => Ok(()),
        };
        let loaded = loaded.and_then(|()| Config::from_text(file, &text, &environment));
        let (config, warning) = match loaded {
            Ok(config) if config.is_bare && file.is_some() => {
                (Some(config), Some(format!("{shown} has no settings")))
            }
            Ok(config) => (Some(config), None),
            Err(errors) => {
                let first = errors.to_string().lines().next().unwrap_or_default().to_owned();
                (
                    None,
                    Some(format!(
                        "the configuration has an error, which `avocet check` shows in full: \
                         {first}"
                    )),
                )
            }
        };
        let written = |section: &str, key: &str| {
            let variable =
                format!("AVOCET_{}__{}", section.to_ascii_uppercase(), key.to_ascii_uppercase());
            let of_variable = environment.get(&variable).and_then(|value| value.split(',').next());
            of_variable.map(str::to_owned).or_else(|| first_text(&text, section, key))
        };
        let directory = written("data", "directory")
            .filter(|directory| !directory.is_empty())
            .map(PathBuf::from);
        Ok(Self {
            directory: directory.unwrap_or_else(|| {
                if warning.is_some() { likely_directory() } else { DEFAULT_DIRECTORY.into() }
            }),
            listen: written("server", "listen")
                .and_then(|text| Listen::from_text(&text).ok())
                .filter(|listen| listen.protocol == Protocol::Plain)
                .map(|listen| listen.address),
            config,
            warning,
        })
    }
}

/// Returns the data directory if a damaged file does not name one: the directory of the service if
/// only that one exists, otherwise the default directory.
fn likely_directory() -> PathBuf {
    let is_of_service =
        !Path::new(DEFAULT_DIRECTORY).exists() && Path::new(SERVICE_DIRECTORY).exists();
    PathBuf::from(if is_of_service { SERVICE_DIRECTORY } else { DEFAULT_DIRECTORY })
}

/// Returns the text of a key, or the first text of its list, from a file that may be damaged.
fn first_text(text: &str, section: &str, key: &str) -> Option<String> {
    let (document, _) = DeTable::parse_recoverable(text);
    let sections = document.get_ref().iter();
    let table = sections.filter(|(name, _)| name.get_ref() == section).find_map(|(_, value)| {
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        }
    });
    table.and_then(|table| text_of(table, key)).or_else(|| text_of_line(text, section, key))
}

/// Returns the text of a key from the line of the key, without a parser. After an unclosed bracket
/// or quote, the parser ignores all tables.
fn text_of_line(text: &str, section: &str, key: &str) -> Option<String> {
    let is_header = |line: &&str| line.trim_start().starts_with('[');
    let named = |line: &str| {
        line.trim().strip_prefix('[')?.strip_suffix(']').map(|name| name.trim() == section)
    };
    let within = text.lines().skip_while(|line| named(line) != Some(true)).skip(1);
    let lines = within.take_while(|line| !is_header(line));
    let mut of_key =
        lines.filter(|line| line.split_once('=').is_some_and(|(name, _)| name.trim() == key));
    of_key.find_map(|line| text_of(DeTable::parse_recoverable(line).0.get_ref(), key))
}

fn text_of(table: &DeTable<'_>, key: &str) -> Option<String> {
    let (_, value) = table.iter().find(|(name, _)| name.get_ref() == key)?;
    let value = match value.get_ref() {
        DeValue::Array(items) => items.first()?.get_ref(),
        value => value,
    };
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(octets: &[u8], variables: &[(&str, &str)], expected: (&str, &str, &str)) {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let file =
            std::env::temp_dir().join(format!("avocet-salvage-{}-{number}", std::process::id()));
        std::fs::write(&file, octets).unwrap();
        let variables =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let found = Whereabouts::find(Some(&file), variables).unwrap();
        std::fs::remove_file(&file).unwrap();
        let (directory, listen, warning) = expected;
        assert_eq!(found.directory, Path::new(directory));
        assert_eq!(found.listen.map_or_else(String::new, |addr| addr.to_string()), listen);
        let shown = found.warning.unwrap_or_default();
        assert!(shown.contains(warning) && shown.is_empty() == warning.is_empty(), "{shown}");
    }

    #[test]
    fn the_server_is_found_by_a_file_with_errors() {
        let whole = "[server]\nlisten = [\"127.0.0.1:5353\"]\n[data]\ndirectory = \"/x\"\n";
        check(whole.as_bytes(), &[], ("/x", "127.0.0.1:5353", ""));
        let broken = [
            format!("{whole}[cache]\nmin-tll-secs = 5\n"),
            format!("{whole}[[list]]\nname = \"a"),
            format!("{whole}[[rule]\n"),
            format!("[server]\nworkers = 9999999999999999999999\n{}", &whole[9..]),
            format!("[polcy]\nx = [1, \n\n{whole}"),
        ];
        for text in broken {
            check(text.as_bytes(), &[], ("/x", "127.0.0.1:5353", "has an error"));
        }
        let not_utf8 = [whole.as_bytes(), b"# \xff\n"].concat();
        check(&not_utf8, &[], ("/x", "127.0.0.1:5353", "is not UTF-8"));
        check(b"[data\n", &[("AVOCET_DATA__DIRECTORY", "/y")], ("/y", "", "has an error"));
        check(b"# nothing\n", &[("AVOCET_DATA__DIRECTORY", "/y")], ("/y", "", "has no settings"));
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error() {
        let error =
            Whereabouts::find(Some(Path::new("/nonexistent/a.toml")), []).unwrap_err().to_string();
        assert!(error.starts_with("/nonexistent/a.toml cannot be read"), "{error}");
    }
}
