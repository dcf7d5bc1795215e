//! The settings of PowerDNS: lines `KEY=VALUE` of a file and of all files that it includes.

use std::fmt;

use crate::draft::{Draft, one_line};
use crate::source::{self, Error, Files, MAX_INCLUDES, MAX_TEXT};

/// Maximum number of characters of a value that are shown in a note.
const MAX_SHOWN: usize = 60;

/// A setting.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) key: String,
    pub(super) value: String,
    /// The file and the line, or the file and the path of the key.
    pub(super) place: String,
}

impl Setting {
    /// Returns the items of a value that is a list.
    pub(super) fn items(&self) -> impl Iterator<Item = &str> {
        self.value.split([',', ' ', '\t', '\n']).map(str::trim).filter(|item| !item.is_empty())
    }

    /// Returns whether the value is one of PowerDNS's words for "yes".
    pub(super) fn is_on(&self) -> bool {
        matches!(self.value.as_str(), "yes" | "true" | "on" | "1" | "")
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.key)?;
        let is_secret =
            ["pass", "key", "secret", "token"].iter().any(|word| self.key.contains(word));
        if is_secret || self.value.is_empty() {
            return Ok(());
        }
        let short: String = self.value.chars().take(MAX_SHOWN).collect();
        write!(f, "={}", one_line(&short))?;
        if short.len() < self.value.len() { f.write_str("...") } else { Ok(()) }
    }
}

/// Returns the settings of a file and of the files of `include-dir`, with the last value of each
/// name. `+=` appends to the earlier value.
///
/// # Errors
/// The file cannot be read.
pub(super) fn gather(
    path: &str,
    files: &dyn Files,
    draft: &mut Draft,
) -> Result<Vec<Setting>, Error> {
    let mut settings = Vec::new();
    add(path, &text(path, files)?, &mut settings);
    let included: Vec<Setting> =
        settings.iter().filter(|one| one.key == "include-dir").cloned().collect();
    let mut read = 0;
    for setting in included {
        let directory = setting.value.trim_end_matches('/');
        if directory.is_empty() {
            continue;
        }
        let Some(names) = files.list(directory) else {
            draft.note(&setting, "there is no such directory");
            continue;
        };
        for name in names.iter().filter(|name| name.ends_with(".conf") && !name.starts_with('.')) {
            read += 1;
            if read > MAX_INCLUDES {
                draft.note(&setting, format!("more than {MAX_INCLUDES} files"));
                break;
            }
            let path = format!("{directory}/{name}");
            match text(&path, files) {
                Ok(text) => add(&path, &text, &mut settings),
                Err(error) => draft.note(&setting, error),
            }
        }
    }
    Ok(settings)
}

fn text(path: &str, files: &dyn Files) -> Result<String, Error> {
    let octets = source::octets(files, path, MAX_TEXT)?;
    if let Some(at) = octets.iter().position(|octet| *octet == 0) {
        let line = 1 + octets.iter().take(at).filter(|octet| **octet == b'\n').count();
        return Err(source::malformed(path, format!("line {line}: not a text file")));
    }
    source::text(path, &octets)
}

fn add(path: &str, text: &str, settings: &mut Vec<Setting>) {
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let (start, mut whole) = open.take().unwrap_or((index + 1, String::new()));
        let line = without_comment(line).trim();
        // A line that ends in a backslash continues on the next line.
        if let Some(head) = line.strip_suffix('\\') {
            whole.push_str(head);
            open = Some((start, whole));
            continue;
        }
        whole.push_str(line);
        put(&whole, format!("{path}:{start}"), settings);
    }
    if let Some((start, whole)) = open {
        put(&whole, format!("{path}:{start}"), settings);
    }
}

fn put(line: &str, place: String, settings: &mut Vec<Setting>) {
    if line.is_empty() {
        return;
    }
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    let (key, value) = (key.trim(), value.trim().to_owned());
    let (key, is_added) = match key.strip_suffix('+') {
        Some(key) => (key.trim(), true),
        None => (key, false),
    };
    let key = current(key).to_owned();
    let known = settings.iter_mut().find(|one: &&mut Setting| one.key == key);
    match known {
        Some(known) if is_added => {
            known.value = format!("{},{value}", known.value);
            known.place = format!("{}, {place}", known.place);
        }
        Some(known) if key != "include-dir" => *known = Setting { key, value, place },
        _ => settings.push(Setting { key, value, place }),
    }
}

/// Returns a line up to a `#` that is at its start or follows white space.
fn without_comment(line: &str) -> &str {
    let is_start = |at: usize| line[..at].chars().next_back().is_none_or(char::is_whitespace);
    let at = line.match_indices('#').map(|(at, _)| at).find(|at| is_start(*at));
    at.map_or(line, |at| &line[..at])
}

/// Returns the current name of a setting that was renamed.
fn current(key: &str) -> &str {
    match key {
        "master" => "primary",
        "slave" => "secondary",
        "superslave" | "supermaster" => "autosecondary",
        "slave-cycle-interval" => "xfr-cycle-interval",
        "allow-unsigned-supermaster" => "allow-unsigned-autoprimary",
        "forward-zones-recurse-file" => "forward-zones-file",
        key => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_go_on_and_add() {
        let mut settings = Vec::new();
        let text = "# x\nlocal-address=127.0.0.1 # why\nallow-from=10.0.0.0/8,\\\n  fd00::/8\n\
                    allow-from+=192.0.2.0/24\nmaster=yes\nquiet\nquiet=no\n";
        add("a", text, &mut settings);
        let shown: Vec<String> = settings.iter().map(Setting::to_string).collect();
        let expected = [
            "a:2: local-address=127.0.0.1",
            "a:3, a:5: allow-from=10.0.0.0/8,fd00::/8,192.0.2.0/24",
            "a:6: primary=yes",
            "a:8: quiet=no",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn secrets_are_not_shown() {
        let mut settings = Vec::new();
        add("a", "api-key=hidden\nwebserver-password=hidden\n", &mut settings);
        assert!(settings.iter().all(|one| !one.to_string().contains("hidden")));
    }
}
